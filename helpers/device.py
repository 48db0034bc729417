"""The GPU of this machine as data, its peaks, and the bandwidth of its memory. Works without a GPU.

Sources: the CUDA runtime (through CuPy) for the chip, NVML (helpers.nvml) for clocks and the power limit. Nothing is
looked up in a table of product names: a card is what its driver reports.
"""

import datetime
import re
from dataclasses import dataclass
from typing import Any

from helpers.errors import ArgumentError, BackendError
from helpers.gpu import is_of_gpu, meets, out_of_memory, probe
from helpers.intervals import median
from helpers.nvml import ask, attempt, handle_of, nvml_library
from helpers.words import first_line

# Dense bf16 tensor-core FLOP per clock and SM, by compute capability. 9.0: NVIDIA H100 white paper, table 2
# (989.4 TFLOP/s = 132 SMs x 4096 x 1.83 GHz); 8.0: NVIDIA A100 white paper, table 1 (312 = 108 x 2048 x 1.41).
TENSOR_FLOP_PER_CLOCK_AND_SM = {"8.0": 2048, "9.0": 4096}
# fp32 FLOP per clock and SM of the CUDA cores: 2 x the lanes of CUDA C++ Programming Guide, "Arithmetic Instructions".
CUDA_CORE_FLOP_PER_CLOCK_AND_SM = {
    "7.0": 128, "7.5": 128, "8.0": 128, "8.6": 256, "8.9": 256, "9.0": 256, "10.0": 256, "12.0": 256
}


@dataclass(frozen=True)
class Device:
    """What the driver reports about a GPU.

    name: as the driver spells it, e.g. 'NVIDIA H200'. compute_capability: e.g. '9.0'. sm_count: streaming
    multiprocessors. max_clock_mhz: the highest SM clock. l2_bytes, memory_bytes: L2 cache and device memory.
    memory_clock_mhz, memory_bus_bits: of the device memory. driver: e.g. '580.159.04'. power_limit_w: enforced limit.
    A value that the driver does not give is None.
    """

    name: str
    compute_capability: str
    sm_count: int
    max_clock_mhz: float | None = None
    l2_bytes: int | None = None
    memory_bytes: int | None = None
    memory_clock_mhz: float | None = None
    memory_bus_bits: int | None = None
    driver: str | None = None
    power_limit_w: float | None = None

    @property
    def slug(self) -> str:
        """The name as a folder: 'NVIDIA H200' -> 'nvidia-h200'."""
        return slug(self.name)

    def meets(self, rule: str) -> bool:
        """Whether its compute capability fits a rule, `'>=7.5'` or `'==9.0'`."""
        major, minor = (int(part) for part in self.compute_capability.split("."))
        return meets(rule, (major, minor))


@dataclass(frozen=True)
class Bandwidth:
    """Measured bandwidth of the device memory.

    gb_per_s: 1e9 bytes a second, read plus written, median of the samples. bytes_moved: per copy, read plus written.
    samples_ms: duration of each copy.
    """

    gb_per_s: float
    bytes_moved: int
    samples_ms: tuple[float, ...]


def slug(name: str) -> str:
    """A device name as a folder name: lower case, words joined by '-'. Raises ArgumentError if nothing is left."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not text:
        raise ArgumentError(f"device name {name!r} has no letter or digit: it must name a GPU.")
    return text


def device_info() -> Device | None:
    """The first visible GPU, or None if there is none that CUDA can use; `no_device_reason` says why."""
    return _look()[0]


def no_device_reason() -> str | None:
    """Why there is no GPU, a sentence with the remedy, or None if there is one."""
    return _look()[1]


def require_device(otherwise: str) -> Device:
    """The first visible GPU.

    otherwise: what the BackendError says where there is none, before the reason; a sentence without its full stop.
    """
    found = device_info()
    if found is None:
        raise BackendError(f"{otherwise}: {no_device_reason()}")
    return found


def _look() -> tuple[Device | None, str | None]:
    answer = probe()
    if answer.gpu is None:
        return None, answer.problem
    try:
        import cupy

        return read_device(cupy, nvml_library()), None
    except PermissionError as error:   # CuPy makes its cache folder when it is imported
        return None, (
            f"CuPy cannot use {answer.gpu.name} ({first_line(error)}): "
            "set CUPY_CACHE_DIR to a folder that can be written, or use the emulator."
        )
    except Exception as error:   # CuPy raises its own types, and which one depends on what is missing
        if is_of_gpu(error):
            return None, str(out_of_memory("a look at it", error))
        return None, f"CuPy cannot use {answer.gpu.name} ({first_line(error)}): run `make setup`, or use the emulator."


def read_device(cupy: Any, nvml: Any, index: int = 0) -> Device:
    """Collect a Device from CuPy and NVML (both passed in, so that a test can pass fakes). nvml may be None."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(index)
    name = properties["name"]
    handle = handle_of(cupy, nvml, index)

    def attribute(symbol: str) -> int | None:
        number = getattr(runtime, symbol, None)
        value = None if number is None else attempt(lambda: runtime.deviceGetAttribute(number, index))
        return int(value) if value else None

    clock_khz = attribute("cudaDevAttrClockRate")
    memory_khz = attribute("cudaDevAttrMemoryClockRate")
    sm_clock = ask(nvml, handle, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    memory_clock = ask(nvml, handle, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
    limit_mw = ask(nvml, handle, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    driver = ask(nvml, handle, nvml.nvmlSystemGetDriverVersion) if nvml else None
    return Device(
        name=_text(name),
        compute_capability=f"{properties['major']}.{properties['minor']}",
        sm_count=int(properties["multiProcessorCount"]),
        max_clock_mhz=float(sm_clock) if sm_clock else (clock_khz / 1000 if clock_khz else None),
        l2_bytes=int(properties.get("l2CacheSize") or 0) or None,
        memory_bytes=int(properties.get("totalGlobalMem") or 0) or None,
        memory_clock_mhz=float(memory_clock) if memory_clock else (memory_khz / 1000 if memory_khz else None),
        memory_bus_bits=attribute("cudaDevAttrGlobalMemoryBusWidth"),
        driver=_text(driver) if driver else None,
        power_limit_w=limit_mw / 1000 if limit_mw else None,
    )


def peak_tflops(device: Device, unit: str = "tensor", clock_mhz: float | None = None) -> float:
    """Arithmetic peak in TFLOP/s: SMs x FLOP per clock and SM x clock.

    unit: 'tensor' (dense bf16 with fp32 accumulation) or 'cuda_core' (fp32 multiply-adds).
    clock_mhz: the maximum clock by default; give the measured one for the roof at the clock the chip really held.
    Raises ArgumentError for another unit, and BackendError if the rate of the GPU or its clock is not known.
    """
    tables = {"tensor": TENSOR_FLOP_PER_CLOCK_AND_SM, "cuda_core": CUDA_CORE_FLOP_PER_CLOCK_AND_SM}
    if unit not in tables:
        raise ArgumentError(f"unit {unit!r} is not known: give 'tensor' or 'cuda_core'.")
    rate = tables[unit].get(device.compute_capability)
    if rate is None:
        known = ", ".join(tables[unit])
        raise BackendError(
            f"The {unit} rate of compute capability {device.compute_capability} ({device.name}) is not known here: "
            f"the peaks are those of {known}."
        )
    clock = clock_mhz if clock_mhz is not None else device.max_clock_mhz
    if clock is None:
        raise BackendError(f"The driver does not report the clock of {device.name}: pass clock_mhz.")
    return device.sm_count * rate * clock * 1e6 / 1e12


def board(device: Device) -> str:
    """What kind of Hopper board a GPU is, told by its SMs, clock and memory and not by its name; '' for another chip.

    An SXM module has 132 SMs at up to 1,980 MHz, a card for a PCIe slot 114 or 132 at up to 1,785, the H20 78; an H200
    has 141 GB of memory, an H100 at most 96 (NVIDIA's datasheets; the clocks are those that the driver reports).
    """
    if device.compute_capability != "9.0":
        return ""
    if device.sm_count < 70:
        return "a slice of a Hopper GPU (MIG)"
    if device.sm_count < 100:
        return "an H20 or another chip with few SMs"
    chip = "H200" if (device.memory_bytes or 0) >= 120e9 else "H100"
    if device.max_clock_mhz is None:
        return f"of the {chip}'s kind"
    form = "SXM" if device.max_clock_mhz >= 1900 else "PCIe"
    return f"of the {chip} {form}'s kind"


def measure_bandwidth(megabytes: int | None = None, copies: int = 20) -> Bandwidth:
    """Bandwidth of the device memory: the median of `copies` copies of a buffer of `megabytes` (1e6 bytes).

    Every byte is read once and written once. megabytes: 4096 by default, less on a card with little memory; the buffer
    must be many times the L2 cache. Takes about half a second.
    Raises BackendError without a GPU or without room for two buffers.
    """
    device = require_device("Bandwidth can only be measured on a GPU")
    import cupy

    if megabytes is None:
        megabytes = min(4096, (device.memory_bytes or 16_000_000_000) // 4_000_000)
    size = megabytes * 1_000_000
    try:
        source, target = cupy.empty(size, cupy.uint8), cupy.empty(size, cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        raise BackendError(
            f"The GPU has no room for two buffers of {megabytes} MB: pass a smaller `megabytes` or free memory."
        ) from None
    source.fill(1)
    kind = cupy.cuda.runtime.memcpyDeviceToDevice
    stream = cupy.cuda.get_current_stream()
    events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(copies)]
    for start, end in [(cupy.cuda.Event(), cupy.cuda.Event()), *events]:   # the first copy warms up
        start.record()
        cupy.cuda.runtime.memcpyAsync(target.data.ptr, source.data.ptr, size, kind, stream.ptr)
        end.record()
    stream.synchronize()
    samples = tuple(cupy.cuda.get_elapsed_time(start, end) for start, end in events)
    del source, target
    cupy.get_default_memory_pool().free_all_blocks()
    return bandwidth(samples, 2 * size)


def bandwidth(samples_ms: tuple[float, ...], bytes_moved: int) -> Bandwidth:
    """Bandwidth from the durations of copies that each move `bytes_moved` bytes (read plus written)."""
    return Bandwidth(bytes_moved / (median(samples_ms) * 1e-3) / 1e9, bytes_moved, tuple(samples_ms))


def now() -> str:
    """The time in UTC, as records write it: '2026-11-29T12:34:56Z'."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
