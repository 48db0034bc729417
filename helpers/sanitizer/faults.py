"""Planted faults: the proof that a tool sees what it is for, and trials of what it sees of copies and clusters.

A fault is a bug of the shelf (helpers.bugs), an edit of its own, or an array that nobody has written. None of them can
make a kernel wait for ever on a GPU.
"""

from dataclasses import dataclass
from pathlib import Path

from helpers.bugs import bug, plant
from helpers.errors import ArgumentError
from helpers.rungs import Rung, find_rung
from helpers.variants import variant

_BARRIER = "__syncthreads();   // the tiles are read by other threads than wrote them"


@dataclass(frozen=True)
class Fault:
    """A mistake that a tool is tried on.

    name: of the bug of the shelf, or its own. tool: that is tried. rung: the kernel, or its number. what: the mistake.
    must: whether the tool is no good without seeing it; else it is a trial, and its outcome is recorded as it is.
    size: (M, N, K). edits: of the kernel, for a fault that is on no shelf. unwritten: whether A is left unwritten.
    """

    name: str
    tool: str
    rung: int | Rung
    what: str
    must: bool
    size: tuple[int, int, int]
    edits: tuple[tuple[str, str], ...] = ()
    unwritten: bool = False

    @property
    def defines(self) -> dict[str, int]:
        """Of the compilation."""
        return {} if self.edits or self.unwritten else dict(bug(self.name).defines)

    def file(self) -> Path:
        """The kernel's file with the fault in it; the rung's own for a fault that is not in the kernel."""
        if self.unwritten:
            return find_rung(self.rung).path
        if self.edits:
            return variant(self.rung, *self.edits, name=f"fault_{self.name}")
        return plant(bug(self.name))

    @property
    def kernel(self) -> Rung:
        """The rung that it is planted in."""
        return find_rung(self.rung)


def _of_shelf(name: str, tool: str, must: bool) -> Fault:
    found = bug(name)
    return Fault(name, tool, found.rung, found.fault, must, found.size)


FAULTS: tuple[Fault, ...] = (
    _of_shelf("no_row_guard", "memcheck", must=True),
    _of_shelf("no_barrier_after_loading", "racecheck", must=True),
    Fault(
        "half_of_the_threads_at_the_barrier", "synccheck", 2, "half of the threads pass a __syncthreads by", True,
        (64, 64, 64), edits=((_BARRIER, "if (threadIdx.x < 512) __syncthreads();"),),
    ),
    Fault("unwritten_a", "initcheck", 1, "threads load from an A that nobody has written", True, (40, 48, 33),
          unwritten=True),
    _of_shelf("no_wait_for_copy", "racecheck", must=False),
    _of_shelf("released_before_wait", "racecheck", must=False),
    _of_shelf("sums_read_too_early", "racecheck", must=False),
    _of_shelf("left_before_sums_were_read", "racecheck", must=False),
    _of_shelf("left_before_the_barrier", "synccheck", must=False),
    Fault("unwritten_a_by_tma", "initcheck", 6, "TMA loads from an A that nobody has written", False, (128, 128, 128),
          unwritten=True),
)


def find_fault(name: str) -> Fault:
    """The fault of that name. Raises ArgumentError if there is none."""
    found = next((fault for fault in FAULTS if fault.name == name), None)
    if found is None:
        raise ArgumentError(f"fault {name!r} is not planted: give one of {', '.join(item.name for item in FAULTS)}.")
    return found
