"""The GPU of this machine as data, its peaks, and what a driver says about power and clocks. Works without a GPU.

Sources: the CUDA runtime (through CuPy) for the chip, NVML (nvidia-ml-py) for clocks, power and throttling. Nothing is
looked up in a table of product names: a card is what its driver reports.
"""

import datetime
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.errors import ArgumentError, BackendError
from helpers.gpu import is_of_gpu, meets, out_of_memory, probe
from helpers.intervals import median
from helpers.words import first_line

# Dense bf16 tensor-core FLOP per clock and SM, by compute capability. 9.0: NVIDIA H100 white paper, table 2
# (989.4 TFLOP/s = 132 SMs x 4096 x 1.83 GHz); 8.0: NVIDIA A100 white paper, table 1 (312 = 108 x 2048 x 1.41).
TENSOR_FLOP_PER_CLOCK_AND_SM = {"8.0": 2048, "9.0": 4096}
# fp32 FLOP per clock and SM of the CUDA cores: 2 x the lanes of CUDA C++ Programming Guide, "Arithmetic Instructions".
CUDA_CORE_FLOP_PER_CLOCK_AND_SM = {
    "7.0": 128, "7.5": 128, "8.0": 128, "8.6": 256, "8.9": 256, "9.0": 256, "10.0": 256, "12.0": 256
}

BUSY_PCT = 5.0      # of the time: who rests and finds the GPU busier than this is not alone
LOOK_BACK_S = 2.0   # before NVML is asked how busy the GPU is: it looks back for a second

# Bits of nvmlDeviceGetCurrentClocksEventReasons (NVML API reference, "nvmlClocksEventReasons").
THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
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
class Telemetry:
    """One reading of NVML. power_w: watts, a moving average of the driver. temperature_c: of the chip.

    sm_clock_nvml_mhz: NVML's clock, which reads high under the power cap; the clock beside a figure is measured in a
    kernel instead. throttle_reasons: names of the active reasons (gpu_idle left out).
    reason: why values are None, or None if all of these are there.
    energy_j: joules that the GPU has taken since its driver was loaded, as NVML counts them (from Volta on), or None.
    at_s: when it was read, on the clock of time.perf_counter.
    """

    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_nvml_mhz: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    reason: str | None = None
    energy_j: float | None = None
    at_s: float | None = None


@dataclass(frozen=True)
class BoardState:
    """How a GPU is set up and who else uses it, as NVML says now; a value that it does not give is None.

    power_limit_w, default_limit_w: enforced, and as the board came. sm_clock_mhz: now. set_clock_mhz: that somebody has
    set for applications, None if it is the board's own. busy_pct: share of the last moments in which kernels of anybody
    ran. processes: that hold memory of the GPU, this one included where it does. mig: whether the GPU is cut into
    slices. throttle_reasons: as in Telemetry. others: the names of those processes but for this one, such as
    "process 1234 (python3)".
    """

    power_limit_w: float | None = None
    default_limit_w: float | None = None
    sm_clock_mhz: float | None = None
    set_clock_mhz: float | None = None
    busy_pct: float | None = None
    processes: int | None = None
    mig: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()


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

        return read_device(cupy, _nvml()), None
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
    handle = _handle(cupy, nvml, index)

    def attribute(symbol: str) -> int | None:
        number = getattr(runtime, symbol, None)
        value = None if number is None else _try(lambda: runtime.deviceGetAttribute(number, index))
        return int(value) if value else None

    clock_khz = attribute("cudaDevAttrClockRate")
    memory_khz = attribute("cudaDevAttrMemoryClockRate")
    sm_clock = _ask(nvml, handle, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
    memory_clock = _ask(nvml, handle, lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
    limit_mw = _ask(nvml, handle, lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    driver = _ask(nvml, handle, nvml.nvmlSystemGetDriverVersion) if nvml else None
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


class PowerMeter:
    """Reads power, energy, temperature and throttle reasons of one GPU through NVML; a reading without it says why."""

    def __init__(self, index: int = 0, cupy: Any = None, nvml: Any = None) -> None:
        self._nvml = nvml if nvml is not None else _nvml()
        self._handle = None
        self._reason: str | None = None
        if self._nvml is None:
            self._reason = "NVML is not available: install nvidia-ml-py and a driver"
            return
        if cupy is None:
            import cupy
        self._handle = _handle(cupy, self._nvml, index)
        if self._handle is None:
            self._reason = "NVML does not know this GPU"

    def read(self) -> Telemetry:
        """One reading; takes about a millisecond of CPU time."""
        nvml, handle = self._nvml, self._handle
        if handle is None:
            return Telemetry(reason=self._reason)
        at_s = time.perf_counter()
        energy_mj = _try(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        power = _try(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        temperature = _try(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        clock = _try(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        query = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )
        bits = _try(lambda: query(handle)) if query else None
        missing = [
            word for word, value in (("power", power), ("temperature", temperature), ("throttle reasons", bits))
            if value is None
        ]
        return Telemetry(
            power_w=None if power is None else power / 1000,
            temperature_c=None if temperature is None else float(temperature),
            sm_clock_nvml_mhz=None if clock is None else float(clock),
            throttle_reasons=None if bits is None else reason_names(bits),
            reason=f"NVML does not report {', '.join(missing)} on this GPU" if missing else None,
            energy_j=None if energy_mj is None else energy_mj / 1000,
            at_s=at_s,
        )

    def state(self) -> BoardState:
        """How the GPU is set up. Ask when nothing of your own runs on it, then `busy_pct` is of others."""
        nvml, handle = self._nvml, self._handle

        def ask(name: str, *arguments: Any) -> Any:
            return _ask(nvml, handle, lambda: getattr(nvml, name)(handle, *arguments))

        limit, default = ask("nvmlDeviceGetEnforcedPowerLimit"), ask("nvmlDeviceGetPowerManagementDefaultLimit")
        sm = None if nvml is None else nvml.NVML_CLOCK_SM
        now, chosen = ask("nvmlDeviceGetClockInfo", sm), ask("nvmlDeviceGetApplicationsClock", sm)
        if chosen == ask("nvmlDeviceGetDefaultApplicationsClock", sm):   # the chip boosts beyond it by itself
            chosen = None
        busy, processes = ask("nvmlDeviceGetUtilizationRates"), ask("nvmlDeviceGetComputeRunningProcesses")
        mig = ask("nvmlDeviceGetMigMode")   # (now, after a restart)
        return BoardState(
            power_limit_w=None if limit is None else limit / 1000,
            default_limit_w=None if default is None else default / 1000,
            sm_clock_mhz=None if now is None else float(now),
            set_clock_mhz=None if chosen is None else float(chosen),
            busy_pct=None if busy is None else float(busy.gpu),
            processes=None if processes is None else len(processes),
            mig=None if mig is None else bool(mig[0]),
            throttle_reasons=self.read().throttle_reasons,
            others=tuple(process_name(item.pid) for item in processes or () if item.pid != os.getpid()),
        )

    def disturbance(self) -> str:
        """A sentence about other processes whose kernels run on the GPU, "" if there are none or NVML does not say.

        Ask when nothing of your own runs. Where somebody else may be there it rests first, since NVML looks back for a
        second; where this process is alone it takes no time.
        """
        handle = self._handle
        listed = _ask(self._nvml, handle, lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        if handle is None or (listed and all(item.pid == os.getpid() for item in listed)):
            return ""
        time.sleep(LOOK_BACK_S)
        state = self.state()
        if state.busy_pct is None or state.busy_pct <= BUSY_PCT:
            return ""
        return (
            f"Another process computed on this GPU ({', '.join(state.others) or 'its name is not known'}; busy "
            f"{state.busy_pct:.0f}% of the time while this one rested), so the figures are too low: measure when it is "
            "done."
        )


def process_name(pid: int) -> str:
    """A process as a sentence names it: by its number, and its name where this machine knows it."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:   # it has ended, or is of another container
        name = ""
    return f"process {pid}" + (f" ({name})" if name.isprintable() and name else "")


def reason_names(bits: int) -> tuple[str, ...]:
    """Names of the reasons in NVML's bit mask, without gpu_idle; a bit that NVML added later is named by its value."""
    names = []
    bit = 1
    while bit <= bits:
        if bits & bit and THROTTLE_REASONS.get(bit) != "gpu_idle":
            names.append(THROTTLE_REASONS.get(bit, f"reason_{bit:#x}"))
        bit <<= 1
    return tuple(names)


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


def _nvml() -> Any:
    """The initialised pynvml module, or None."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:   # ImportError, or one of NVML's own errors without a driver
        return None
    return pynvml


def _handle(cupy: Any, nvml: Any, index: int) -> Any:
    """NVML's handle of CUDA device `index`, by PCI address: CUDA_VISIBLE_DEVICES renumbers CUDA's devices only."""
    if nvml is None:
        return None
    return _try(lambda: nvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(index)))


def memory_info() -> tuple[int, int] | None:
    """Bytes of the first GPU's memory that are free, and all of them, as NVML says; None if it does not.

    Needs no CUDA context, for which there may be no room.
    """
    import cupy

    nvml = _nvml()
    found = _ask(nvml, handle := _handle(cupy, nvml, 0), lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return None if found is None else (int(found.free), int(found.total))


def _ask(nvml: Any, handle: Any, question: Callable[[], Any]) -> Any:
    return None if nvml is None or handle is None else _try(question)


def _try(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception:   # NVML answers "not supported" with an exception, on some cards for some values
        return None


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
