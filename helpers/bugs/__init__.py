"""The bug shelf: mistakes planted in the rungs, each with the report that names it.

    found = search(bug("released_before_wait"))   # on the emulator
    found.named_by.message
    plant(bug("released_before_wait"))            # the kernel's file with the bug, for emulate(..., file=...)
"""

from helpers.bugs import clusters, fitted_tiles, lists, partitions, ring, simt, split_k, tma, wgmma
from helpers.bugs.bug import VERIFY, Bug
from helpers.bugs.find import Finding, is_named, plant, search
from helpers.errors import ArgumentError

__all__ = ["BUGS", "VERIFY", "Bug", "Finding", "bug", "is_named", "plant", "search"]

BUGS: tuple[Bug, ...] = (
    simt.BUGS
    + tma.BUGS
    + wgmma.BUGS
    + ring.BUGS
    + lists.BUGS
    + clusters.BUGS
    + split_k.BUGS
    + fitted_tiles.BUGS
    + partitions.BUGS
)


def bug(name: str) -> Bug:
    """The bug of that name. Raises ArgumentError if there is none."""
    found = next((known for known in BUGS if known.name == name), None)
    if found is None:
        raise ArgumentError(f"bug {name!r} is not on the shelf: give one of {', '.join(bug.name for bug in BUGS)}.")
    return found
