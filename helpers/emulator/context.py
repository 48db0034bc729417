"""What the words of all reports share: names for places, threads, CTAs and barriers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from helpers.emulator.image import SharedArray
from helpers.emulator.protocol import Place, RawReport


@dataclass(frozen=True)
class Context:
    """What the sentences need of the launch.

    buffers: name and bytes of each pointer argument. arrays: the shared arrays.
    lines: source line of each offset of the code. block: threads along x, y, z. seconds: the launch's time limit.
    mbarriers: the name of each barrier in shared memory, by its offset. has_clusters: whether CTAs run in clusters.
    variables: name and bytes of each variable of the file.
    """

    entry: str
    buffers: Sequence[tuple[str, int]]
    arrays: Sequence[SharedArray]
    lines: Mapping[int, int]
    block: tuple[int, int, int]
    seconds: float
    mbarriers: Mapping[int, str] = field(default_factory=dict)
    has_clusters: bool = False
    variables: Sequence[tuple[str, int]] = ()

    def line(self, place: Place) -> int | None:
        """The line of a place, None if unknown."""
        return place.line or self.lines.get(place.code)

    def at(self, place: Place) -> str:
        """`line 12`, or a stand-in."""
        line = self.line(place)
        return f"line {line}" if line else "an unknown line"

    def thread(self, linear: int) -> str:
        """`thread (3,0,0), warp 0`."""
        x, y, _ = self.block
        return f"thread ({linear % x},{linear // x % y},{linear // (x * y)}), warp {linear // 32}"

    def mbarrier(self, offset: int) -> str:
        """The name of the barrier at an offset in shared memory, or where it is."""
        return self.mbarriers.get(offset) or f"the mbarrier at {self.shared_place(offset)}"

    def shared_place(self, offset: int) -> str:
        """`tile + 64`, or the offset if it is in no shared array."""
        for array in self.arrays:
            if array.begin <= offset < array.begin + array.bytes:
                return f"{array.name} + {offset - array.begin}"
        return f"offset {offset} of shared memory"


def cta_name(index: Sequence[int]) -> str:
    """`CTA (1,0,0)`."""
    return "CTA ({},{},{})".format(*index)


def who(raw: RawReport, context: Context) -> str:
    """The thread that a report is about."""
    return f"{context.thread(raw.place.thread)}, of {cta_name(raw.cta)}"


def owner(raw: RawReport) -> str:
    """` of CTA (1,0,0)`, to stand after a place in shared memory if that is another CTA's than the thread's."""
    return f" of {cta_name(raw.owner)}" if raw.has_owner else ""


def earlier(raw: RawReport, context: Context) -> str:
    """The thread that did the earlier of two things, with its CTA if it is of another one."""
    cta = "" if raw.other_cta[:] == raw.cta[:] else f", of {cta_name(raw.other_cta)}"
    return context.thread(raw.other.thread) + cta


def capitalised(sentence: str) -> str:
    """With a capital at the start."""
    return sentence[0].upper() + sentence[1:]
