"""The roofline: a kernel can be no faster than its FLOP per byte times the bytes per second, nor than the arithmetic.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from dataclasses import dataclass

from helpers.errors import ArgumentError
from helpers.models.machine import H200, Gpu
from helpers.typed import typed


@dataclass(frozen=True)
class Roof:
    """One level of memory under one arithmetic peak.

    name: of the level. bandwidth: bytes per second. peak_tflops: of the arithmetic units.
    source: where the bandwidth is from: 'datasheet', 'computed' or 'measured'.
    """

    name: str
    bandwidth: float
    peak_tflops: float
    source: str = "datasheet"

    @property
    def ridge(self) -> float:
        """FLOP per byte from which on the arithmetic is the limit."""
        return self.peak_tflops * 1e12 / self.bandwidth

    def bound(self, intensity: float) -> float:
        """TFLOP/s that a kernel of `intensity` FLOP per byte of this level can reach at most."""
        if intensity <= 0:
            raise ArgumentError(f"intensity is {intensity}: it must be FLOP per byte above 0.")
        return min(self.peak_tflops, intensity * self.bandwidth / 1e12)


@typed
def roofs(gpu: Gpu = H200, tensor: bool = False) -> tuple[Roof, ...]:
    """The roofs of a GPU at the levels HBM, L2 and shared memory, for its CUDA cores or its tensor cores."""
    peak = gpu.dense_tflops if tensor else gpu.fp32_tflops
    return (
        Roof("HBM", gpu.hbm_bandwidth, peak, "datasheet"),
        Roof("L2", gpu.l2_bandwidth, peak, "computed"),
        Roof("shared memory", gpu.shared_bandwidth, peak, "computed"),
    )
