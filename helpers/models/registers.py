"""How the registers of an SM are shared out: sums that a thread holds, and what setmaxnreg moves between warpgroups.

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (65,536 registers an SM, 255 a thread); PTX ISA,
"setmaxnreg" (multiples of 8 from 24 to 256, of a whole warpgroup; what is given up goes to the CTA's own pool).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.errors import ArgumentError
from helpers.models.machine import H200, Gpu
from helpers.models.waves import MAX_REGISTERS
from helpers.typed import typed

GROUP = 128   # threads of a warpgroup
UNIT = 8      # a thread has a multiple of so many
LEAST, MOST = 24, 256   # that setmaxnreg takes


@typed
def sums_per_thread(tile_m: int, tile_n: int, threads: int) -> float:
    """fp32 sums, a register each, that a thread holds if `threads` share a tile of C."""
    return tile_m * tile_n / threads


@typed
def most_at_launch(threads: int, gpu: Gpu = H200) -> int:
    """The most registers a thread can have in a CTA that has the SM for itself: what __launch_bounds__ tells ptxas."""
    return min(MAX_REGISTERS, gpu.registers_per_sm // threads) // UNIT * UNIT


@typed
@dataclass(frozen=True)
class RegisterSplit:
    """Registers of a CTA's warpgroups. at_launch: of a thread. after: of a thread of each warpgroup, by its name."""

    at_launch: int
    after: Mapping[str, int]
    gpu: Gpu = H200

    def __post_init__(self) -> None:
        for name, registers in {"at launch": self.at_launch, **self.after}.items():
            if registers % UNIT or not LEAST <= registers <= MOST:
                raise ArgumentError(
                    f"registers of {name!r} is {registers}: a warpgroup takes a multiple of {UNIT} from {LEAST} to "
                    f"{MOST}."
                )

    @property
    def pool(self) -> int:
        """Registers of the CTA, fixed at its launch."""
        return self.at_launch * GROUP * len(self.after)

    @property
    def used(self) -> int:
        """Registers after setmaxnreg."""
        return GROUP * sum(self.after.values())

    @property
    def fits(self) -> bool:
        """Whether everybody gets what it asks for; else someone waits forever."""
        return self.used <= self.pool <= self.gpu.registers_per_sm

    def __str__(self) -> str:
        groups = " + ".join(f"{registers}" for registers in self.after.values())
        verdict = "fits" if self.fits else "too many: setmaxnreg would wait forever"
        return f"{GROUP} x ({groups}) = {self.used:,} of the {self.pool:,} at launch: {verdict}"
