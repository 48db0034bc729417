"""The memory pyramid: the nearer to the arithmetic, the smaller and the faster.

Sources: datasheet, or what the driver says (HBM size and bandwidth); CUDA C++ Programming Guide, "Compute Capabilities"
(registers and shared memory per SM); 'computed' bandwidths are bytes per clock and SM times SMs times the highest
clock, an upper bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from helpers.checks import require_positive
from helpers.errors import ArgumentError
from helpers.models.machine import DATASHEETS, H200, Gpu
from helpers.typed import typed


@dataclass(frozen=True)
class MemoryLevel:
    """One level. size: bytes on the whole GPU. bandwidth: bytes per second of the whole GPU.

    source: of the bandwidth: 'datasheet', 'computed' or 'measured'. bound: beside a measured bandwidth, that of the
    datasheet or the computed one.
    """

    name: str
    size: float
    bandwidth: float
    source: str
    bound: float | None = None


@typed
def pyramid(gpu: Gpu = H200, measured: Mapping[str, float] | None = None) -> tuple[MemoryLevel, ...]:
    """The levels of `gpu` from the registers down to HBM.

    measured: bandwidths in bytes per second by level name ('registers', 'shared memory', 'L2', 'HBM'), which replace
    the ones of the datasheet. Raises ArgumentError for another name.
    """
    registers = gpu.sm_count * gpu.registers_per_sm * 4
    l1 = gpu.sm_count * gpu.l1_bytes_per_sm
    levels = (
        MemoryLevel("registers", registers, gpu.register_bandwidth, "computed"),
        MemoryLevel("shared memory", l1, gpu.shared_bandwidth, "computed"),
        MemoryLevel("L2", gpu.l2_bytes, gpu.l2_bandwidth, "computed"),
        MemoryLevel("HBM", gpu.hbm_bytes, gpu.hbm_bandwidth, "datasheet" if gpu in DATASHEETS.values() else "computed"),
    )
    measured = dict(measured or {})
    names = [level.name for level in levels]
    for name in measured:
        if name not in names:
            raise ArgumentError(f"measured has the level {name!r}: the levels are {', '.join(names)}.")
        require_positive(f"measured[{name!r}]", measured[name], "number of bytes per second")
    return tuple(
        replace(level, bandwidth=measured[level.name], source="measured", bound=level.bandwidth)
        if level.name in measured
        else level
        for level in levels
    )
