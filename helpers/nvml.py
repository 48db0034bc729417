"""What NVML says of a GPU: power, energy, temperature, clocks, who else uses it. Works without NVML, and says so."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


class PowerMeter:
    """Reads power, energy, temperature and throttle reasons of one GPU through NVML; a reading without it says why."""

    def __init__(self, index: int = 0, cupy: Any = None, nvml: Any = None) -> None:
        self._nvml = nvml if nvml is not None else nvml_library()
        self._handle = None
        self._reason: str | None = None
        if self._nvml is None:
            self._reason = "NVML is not available: install nvidia-ml-py and a driver"
            return
        if cupy is None:
            import cupy
        self._handle = handle_of(cupy, self._nvml, index)
        if self._handle is None:
            self._reason = "NVML does not know this GPU"

    def read(self) -> Telemetry:
        """One reading; takes about a millisecond of CPU time."""
        nvml, handle = self._nvml, self._handle
        if handle is None:
            return Telemetry(reason=self._reason)
        at_s = time.perf_counter()
        energy_mj = attempt(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        power = attempt(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        temperature = attempt(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        clock = attempt(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
        query = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )
        bits = attempt(lambda: query(handle)) if query else None
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

        def of_gpu(name: str, *arguments: Any) -> Any:
            return ask(nvml, handle, lambda: getattr(nvml, name)(handle, *arguments))

        limit, default = of_gpu("nvmlDeviceGetEnforcedPowerLimit"), of_gpu("nvmlDeviceGetPowerManagementDefaultLimit")
        sm = None if nvml is None else nvml.NVML_CLOCK_SM
        now, chosen = of_gpu("nvmlDeviceGetClockInfo", sm), of_gpu("nvmlDeviceGetApplicationsClock", sm)
        if chosen == of_gpu("nvmlDeviceGetDefaultApplicationsClock", sm):   # the chip boosts beyond it by itself
            chosen = None
        busy, processes = of_gpu("nvmlDeviceGetUtilizationRates"), of_gpu("nvmlDeviceGetComputeRunningProcesses")
        mig = of_gpu("nvmlDeviceGetMigMode")   # (now, after a restart)
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
        listed = ask(self._nvml, handle, lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
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


def nvml_library() -> Any:
    """The initialised pynvml module, or None."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:   # ImportError, or one of NVML's own errors without a driver
        return None
    return pynvml


def handle_of(cupy: Any, nvml: Any, index: int) -> Any:
    """NVML's handle of CUDA device `index`, by PCI address: CUDA_VISIBLE_DEVICES renumbers CUDA's devices only."""
    if nvml is None:
        return None
    return attempt(lambda: nvml.nvmlDeviceGetHandleByPciBusId(cupy.cuda.runtime.deviceGetPCIBusId(index)))


def memory_info() -> tuple[int, int] | None:
    """Bytes of the first GPU's memory that are free, and all of them, as NVML says; None if it does not.

    Needs no CUDA context, for which there may be no room.
    """
    import cupy

    nvml = nvml_library()
    found = ask(nvml, handle := handle_of(cupy, nvml, 0), lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    return None if found is None else (int(found.free), int(found.total))


def ask(nvml: Any, handle: Any, question: Callable[[], Any]) -> Any:
    """What a question about a GPU gives; None without NVML or a handle, and where it has no answer."""
    return None if nvml is None or handle is None else attempt(question)


def attempt(question: Callable[[], Any]) -> Any:
    """What a question gives, or None."""
    try:
        return question()
    except Exception:   # NVML answers "not supported" with an exception, on some cards for some values
        return None
