"""How many CTAs fit on an SM, and how evenly the tiles of C fill the GPU.

Source: CUDA C++ Programming Guide, "Compute Capabilities" (limits of 9.0) and "Multiprocessor Level"; the rounding
rules are those of the occupancy calculator in Nsight Compute.
"""

from dataclasses import dataclass

from helpers.errors import ArgumentError
from helpers.models.machine import H200, WARP, Gpu
from helpers.typed import typed
from helpers.words import plural

REGISTER_UNIT = 256            # registers are given to a warp in units of 256
SHARED_UNIT = 128              # shared memory is given to a CTA in units of 128 bytes
SHARED_RESERVED = 1024         # bytes per CTA that the system keeps
MAX_REGISTERS = 255            # per thread
MAX_THREADS_PER_CTA = 1024


@dataclass(frozen=True)
class Occupancy:
    """CTAs that one SM holds at a time.

    limits: CTAs that each resource alone would allow, by its name. warps_per_cta: warps of one CTA.
    """

    limits: dict[str, int]
    warps_per_cta: int
    max_warps: int

    def __str__(self) -> str:
        return (
            f"{plural(self.ctas_per_sm, 'CTA')} of {self.warps_per_cta} warps on an SM, "
            f"limited by {' and '.join(self.limiters)}: "
            f"{self.warps} of {self.max_warps} warps, an occupancy of {self.fraction:.3g}"
        )

    @property
    def ctas_per_sm(self) -> int:
        """CTAs that fit: the smallest of the limits."""
        return min(self.limits.values())

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow no more."""
        return tuple(name for name, ctas in self.limits.items() if ctas == self.ctas_per_sm)

    @property
    def warps(self) -> int:
        """Warps that one SM holds at a time."""
        return self.ctas_per_sm * self.warps_per_cta

    @property
    def fraction(self) -> float:
        """Warps held over the most an SM can hold: the occupancy."""
        return self.warps / self.max_warps


@typed
def occupancy(registers: int, threads: int, shared_bytes: int = 0, gpu: Gpu = H200) -> Occupancy:
    """CTAs per SM for a kernel of `registers` per thread, `threads` and `shared_bytes` per CTA.

    Raises ArgumentError for a CTA that cannot be launched at all, naming the limit.
    """
    for name, value, low, high in (
        ("registers", registers, 1, MAX_REGISTERS),
        ("threads", threads, 1, MAX_THREADS_PER_CTA),
        ("shared_bytes", shared_bytes, 0, gpu.shared_bytes_per_cta),
    ):
        if not low <= value <= high:
            raise ArgumentError(f"{name} is {value}: a CTA on {gpu.name} can have {low:,} to {high:,}.")
    warps = -(-threads // WARP)
    registers_per_warp = _round_up(registers * WARP, REGISTER_UNIT)
    # A warp lives on one of the SM's four schedulers and takes its registers there.
    warps_by_registers = gpu.registers_per_sm // gpu.schedulers_per_sm // registers_per_warp * gpu.schedulers_per_sm
    max_warps = gpu.threads_per_sm // WARP
    limits = {
        "registers": warps_by_registers // warps,
        "shared memory": gpu.shared_bytes_per_sm // _round_up(shared_bytes + SHARED_RESERVED, SHARED_UNIT),
        "threads": max_warps // warps,
        "CTAs": gpu.ctas_per_sm,
    }
    if limits["registers"] == 0:
        most = gpu.registers_per_sm // _round_up(warps, gpu.schedulers_per_sm) // WARP // 8 * 8
        raise ArgumentError(
            f"registers is {registers}: {threads} threads of one CTA can have at most {most} each on {gpu.name}."
        )
    return Occupancy(limits, warps, max_warps)


@dataclass(frozen=True)
class Waves:
    """Tiles of C dealt to the CTAs that run at a time, a full set of which is a wave.

    tiles: CTAs of the grid. slots: CTAs that the whole GPU holds at a time.
    """

    tiles: int
    slots: int

    def __str__(self) -> str:
        return (
            f"{plural(self.tiles, 'CTA')} in {plural(self.count, 'wave')} of "
            f"{self.slots:,}, {self.tail:,} in the last: {self.efficiency:.1%} of the places filled"
        )

    @property
    def count(self) -> int:
        """Waves, the last one counted whole."""
        return -(-self.tiles // self.slots)

    @property
    def tail(self) -> int:
        """Tiles in the last wave, 1 to slots."""
        return self.tiles - (self.count - 1) * self.slots

    @property
    def efficiency(self) -> float:
        """Tiles over the places in all waves, 0 to 1: the share of the GPU at work if all tiles take equally long."""
        return self.tiles / (self.count * self.slots)


@typed
def waves(tiles: int, sm_count: int = H200.sm_count, ctas_per_sm: int = 1) -> Waves:
    """Waves of `tiles` CTAs on `sm_count` SMs that hold `ctas_per_sm` each. Raises ArgumentError for values below 1."""
    for name, value in {"tiles": tiles, "sm_count": sm_count, "ctas_per_sm": ctas_per_sm}.items():
        if value < 1:
            raise ArgumentError(f"{name} is {value}: it must be at least 1.")
    return Waves(tiles, sm_count * ctas_per_sm)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
