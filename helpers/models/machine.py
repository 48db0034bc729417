"""The numbers of a GPU that the models need, with their sources.

Sources: NVIDIA H100 and H200 datasheets (clock, memory, dense tensor peak); CUDA C++ Programming Guide, "Compute
Capabilities", 9.0 (registers, shared memory, threads and CTAs per SM, 32 banks of 4 bytes); NVIDIA H100 Tensor
Core GPU Architecture whitepaper (128 fp32 lanes, 4 schedulers, 256 KB of L1 and shared memory per SM).
"""

from dataclasses import dataclass

from helpers.device import CUDA_CORE_FLOP_PER_CLOCK_AND_SM, TENSOR_FLOP_PER_CLOCK_AND_SM, Device, device_info
from helpers.errors import ArgumentError

WARP = 32                # lanes
SECTOR_BYTES = 32        # the unit in which global memory answers
LINE_BYTES = 128         # an L1 line, four sectors
BANKS = 32               # of shared memory
BANK_BYTES = 4           # one bank gives one 4-byte word a clock
ROW_BYTES = BANKS * BANK_BYTES   # all banks once: what shared memory gives in a clock


@dataclass(frozen=True)
class Gpu:
    """One GPU. Bytes, bytes per second and hertz throughout; `None` where nobody publishes the figure.

    clock_hz: the highest SM clock. dense_tflops: bf16 on the tensor cores without sparsity, datasheet.
    l2_bytes_per_clock_sm: what the bounds reckon that one SM takes in from L2 a clock. No datasheet says; on an H200
    helpers.memory_speed reads 44 where each SM reads elsewhere, and 89 where all read the same lines.
    l1_bytes_per_sm: L1 and shared memory together, of which shared memory can have `shared_bytes_per_sm`.
    """

    name: str
    sm_count: int
    clock_hz: float
    hbm_bytes: float
    hbm_bandwidth: float
    l2_bytes: float
    dense_tflops: float
    fp32_lanes_per_sm: int = 128
    schedulers_per_sm: int = 4
    tensor_flop_per_clock_sm: int = 4096   # bf16, dense: four tensor cores
    shared_bytes_per_clock_sm: int = ROW_BYTES
    l2_bytes_per_clock_sm: int = 64
    registers_per_sm: int = 65_536
    l1_bytes_per_sm: int = 256 * 1024
    shared_bytes_per_sm: int = 228 * 1024
    shared_bytes_per_cta: int = 227 * 1024
    threads_per_sm: int = 2048
    ctas_per_sm: int = 32

    @property
    def fp32_tflops(self) -> float:
        """Peak of the CUDA cores: SMs x lanes x 2 FLOP (a fused multiply-add) x clock."""
        return self.sm_count * self.fp32_lanes_per_sm * 2 * self.clock_hz / 1e12

    @property
    def tensor_tflops(self) -> float:
        """Peak of the tensor cores at the highest clock: SMs x FLOP per clock x clock (the datasheet's: 1.83 GHz)."""
        return self.sm_count * self.tensor_flop_per_clock_sm * self.clock_hz / 1e12

    @property
    def shared_bandwidth(self) -> float:
        """Bytes per second of all shared memories together, at the highest clock."""
        return self.sm_count * self.shared_bytes_per_clock_sm * self.clock_hz

    @property
    def l2_bandwidth(self) -> float:
        """Bytes per second that the bounds reckon all SMs together take in from L2, at the highest clock."""
        return self.sm_count * self.l2_bytes_per_clock_sm * self.clock_hz

    @property
    def register_bandwidth(self) -> float:
        """Bytes per second that the register files feed to the CUDA cores: three 4-byte operands per lane and clock."""
        return self.sm_count * self.fp32_lanes_per_sm * 3 * 4 * self.clock_hz


_MIB = 2**20

H200 = Gpu("H200", 132, 1.980e9, hbm_bytes=141e9, hbm_bandwidth=4.8e12, l2_bytes=60 * _MIB, dense_tflops=989.4)
H100_SXM = Gpu("H100 SXM", 132, 1.980e9, hbm_bytes=80e9, hbm_bandwidth=3.35e12, l2_bytes=50 * _MIB, dense_tflops=989.4)
H100_PCIE = Gpu("H100 PCIe", 114, 1.755e9, hbm_bytes=80e9, hbm_bandwidth=2e12, l2_bytes=50 * _MIB, dense_tflops=756.0)

DATASHEETS = {"NVIDIA H200": H200, "NVIDIA H100 80GB HBM3": H100_SXM, "NVIDIA H100 PCIe": H100_PCIE}

# By compute capability: KiB of L1 and shared memory of an SM together, of them shared memory of an SM and of a CTA;
# threads and CTAs of an SM (CUDA C++ Programming Guide, "Compute Capabilities").
_SM = {
    "7.0": (128, 96, 96, 2048, 32),
    "7.5": (96, 64, 64, 1024, 16),
    "8.0": (192, 164, 163, 2048, 32),
    "8.6": (128, 100, 99, 1536, 16),
    "8.9": (128, 100, 99, 1536, 24),
    "9.0": (256, 228, 227, 2048, 32),
    "10.0": (256, 228, 227, 2048, 32),
    "12.0": (128, 100, 99, 1536, 24),
}


def _agrees(gpu: Gpu, device: Device) -> bool:
    """Whether the driver reports what the datasheet says; what it does not report may be so. Memory: within a tenth."""
    return (
        device.sm_count == gpu.sm_count
        and abs((device.max_clock_mhz or gpu.clock_hz / 1e6) * 1e6 / gpu.clock_hz - 1) < 0.005
        and abs((device.memory_bytes or gpu.hbm_bytes) / gpu.hbm_bytes - 1) < 0.1
    )


def gpu_of(device: Device) -> Gpu:
    """The numbers of a GPU at hand: of its datasheet if it is one of DATASHEETS, else what its driver reports.

    A name alone proves nothing (a slice of a GPU and a card with another clock bear it, too): SMs, clock and memory
    must be those of the datasheet.
    A tensor peak that is not known here is 0. Raises ArgumentError if the driver does not report enough, or the compute
    capability is not known here.
    """
    datasheet = DATASHEETS.get(device.name)
    if datasheet is not None and _agrees(datasheet, device):
        return datasheet
    capability = device.compute_capability
    if capability not in _SM:
        known = ", ".join(_SM)
        raise ArgumentError(f"device is of compute capability {capability}: it must be one of {known}; give a Gpu.")
    for name in ("max_clock_mhz", "l2_bytes", "memory_bytes", "memory_clock_mhz", "memory_bus_bits"):
        if not getattr(device, name):
            raise ArgumentError(f"device.{name} is not known: the driver must report it; give a Gpu.")
    clock_hz = device.max_clock_mhz * 1e6
    tensor = TENSOR_FLOP_PER_CLOCK_AND_SM.get(capability, 0)
    l1, shared, shared_of_cta, threads, ctas = _SM[capability]
    return Gpu(
        device.name,
        device.sm_count,
        clock_hz,
        hbm_bytes=device.memory_bytes,
        hbm_bandwidth=2 * device.memory_clock_mhz * 1e6 * device.memory_bus_bits / 8,   # two transfers a clock
        l2_bytes=device.l2_bytes,
        dense_tflops=device.sm_count * tensor * clock_hz / 1e12,
        fp32_lanes_per_sm=CUDA_CORE_FLOP_PER_CLOCK_AND_SM[capability] // 2,
        tensor_flop_per_clock_sm=tensor,
        l1_bytes_per_sm=l1 * 1024,
        shared_bytes_per_sm=shared * 1024,
        shared_bytes_per_cta=shared_of_cta * 1024,
        threads_per_sm=threads,
        ctas_per_sm=ctas,
    )


def gpu_for(rule: str) -> Gpu:
    """The GPU that a kernel is measured on here: this machine's if it fits the rule, `'>=7.5'` or `'==9.0'`.

    Else the H200, whose recordings are shown then; also if the driver does not report enough.
    """
    device = device_info()
    if device is None or not device.meets(rule):
        return H200
    try:
        return gpu_of(device)
    except ArgumentError:
        return H200
