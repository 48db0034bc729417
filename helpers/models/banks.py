"""How many passes (wavefronts) one warp request of shared memory takes.

Shared memory has 32 banks of 4-byte words; in a pass every bank gives one word, to as many lanes as want that word.
Source: CUDA C++ Programming Guide, "Shared Memory" of compute capability 5.x and later. How wide accesses are split
is not in the guide; `lane_phases` holds that rule and nothing else does, and it is calibrated: it agrees with the
wavefronts and conflicts that Nsight Compute counted on an H200 for 384 access patterns
(`helpers/records/nvidia-h200/profile/bank_patterns.json`).
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import require_known
from helpers.models.coalescing import check_addresses
from helpers.models.machine import BANK_BYTES, BANKS, ROW_BYTES, WARP
from helpers.typed import typed


@dataclass(frozen=True)
class Wavefronts:
    """The passes of one warp request.

    phase_of_lane: int, shape (32,): the phase in which a lane is served, -1 for an idle lane.
    words: distinct 4-byte words that each phase wants from each bank, int, shape (phases, 32).
    """

    phase_of_lane: np.ndarray
    words: np.ndarray

    @property
    def per_phase(self) -> tuple[int, ...]:
        """Passes of each phase: the largest number of distinct words that it wants from one bank."""
        return tuple(int(count) for count in self.words.max(axis=1))

    @property
    def count(self) -> int:
        """Passes of the whole request."""
        return sum(self.per_phase)

    @property
    def ideal(self) -> int:
        """Passes without conflicts: one for each phase that has an active lane."""
        return sum(count > 0 for count in self.per_phase)

    @property
    def conflict(self) -> float:
        """Passes over the ideal; 1 means free of conflicts."""
        return self.count / self.ideal


def lane_phases(addresses: np.ndarray, width: int, op: str = "load") -> np.ndarray:
    """The phase of each lane (int, shape (32,)) for accesses of `width` bytes a lane. The phase rule.

    A phase moves at most 128 bytes: up to 4 bytes a lane the whole warp is one phase, 8 bytes go by half-warps,
    16 bytes by quarter-warps of eight neighbouring lanes. For a load, two neighbouring phases become one if its lanes
    share addresses in pairs: every lane `i` with lane `i ^ 1`, or every lane `i` with lane `i ^ 2`. Nothing else is
    merged, and stores never are.
    """
    phases = max(1, WARP * width // ROW_BYTES)
    lanes_per_phase = WARP // phases
    phase_of_lane = np.arange(WARP) // lanes_per_phase
    if op == "store" or phases == 1:
        return phase_of_lane
    for first in range(0, WARP, 2 * lanes_per_phase):
        lanes = np.arange(first, first + 2 * lanes_per_phase)
        if any(_share_in_pairs(addresses, lanes, distance) for distance in (1, 2)):
            phase_of_lane[lanes] = phase_of_lane[first]
    return np.unique(phase_of_lane, return_inverse=True)[1]   # numbered without gaps


def _share_in_pairs(addresses: np.ndarray, lanes: np.ndarray, distance: int) -> bool:
    """Whether each active lane wants the same address as lane `i ^ distance`, if that is active, and some do."""
    own, partner = addresses[lanes], addresses[lanes ^ distance]
    both = (own >= 0) & (partner >= 0)
    return bool(both.any() and (own == partner)[both].all())


@typed
def warp_wavefronts(addresses: np.ndarray, width: int = 4, op: str = "load") -> Wavefronts:
    """Count the passes for a warp's 32 shared-memory byte addresses (int64, shape (32,)) of `width` bytes each.

    A negative address is an idle lane. op: 'load' or 'store'. Raises ArgumentError as `coalescing.warp_traffic` does.
    """
    require_known("op", op, ("load", "store"))
    addresses = check_addresses(addresses, width)
    phases = lane_phases(addresses, width, op)
    words = np.zeros((phases.max() + 1, BANKS), dtype=np.int64)
    for phase in range(len(words)):
        starts = addresses[(phases == phase) & (addresses >= 0)]
        distinct = np.unique((starts[:, None] + np.arange(width)) // BANK_BYTES)
        words[phase] = np.bincount(distinct % BANKS, minlength=BANKS)
    return Wavefronts(np.where(addresses >= 0, phases, -1), words)


@typed
def bank_schedule(addresses: np.ndarray, width: int = 4, op: str = "load") -> np.ndarray:
    """Which lane each bank serves in each wavefront: int, shape (wavefronts, 32), -1 for a bank that rests.

    Phase after phase; within a phase every bank gives its words in the order of their addresses (the hardware's order
    is not known, their number is). A word that several lanes want counts for the first of them.
    addresses, width, op: as of `warp_wavefronts`.
    """
    result = warp_wavefronts(addresses, width, op)
    served = np.full((result.count, BANKS), -1)
    begin = 0
    for phase, passes in enumerate(result.per_phase):
        lanes: dict[int, int] = {}   # word -> the first lane that wants it
        for lane in np.flatnonzero(result.phase_of_lane == phase):
            first = int(addresses[lane]) // BANK_BYTES
            for word in range(first, (int(addresses[lane]) + width - 1) // BANK_BYTES + 1):
                lanes.setdefault(word, int(lane))
        turns = [0] * BANKS
        for word in sorted(lanes):
            served[begin + turns[word % BANKS], word % BANKS] = lanes[word]
            turns[word % BANKS] += 1
        begin += passes
    return served
