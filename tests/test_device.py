"""The device as data, with fakes of CuPy and NVML."""

import os
import re
from types import SimpleNamespace

import pytest

from helpers import device
from helpers import nvml as nvml_module
from helpers.device import Device
from helpers.errors import ArgumentError, BackendError
from helpers.gpu import Gpu, Probe

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)


def fake_cupy(**properties):
    values = {
        "name": b"NVIDIA H200", "major": 9, "minor": 0, "multiProcessorCount": 132, "l2CacheSize": 62914560,
        "totalGlobalMem": 150_000_000_000, **properties,
    }
    attributes = {13: 1980000, 36: 3201000, 37: 6144}
    runtime = SimpleNamespace(
        getDeviceProperties=lambda index: values,
        deviceGetAttribute=lambda number, index: attributes[number],
        deviceGetPCIBusId=lambda index: "0000:1B:00.0",
        cudaDevAttrClockRate=13,
        cudaDevAttrMemoryClockRate=36,
        cudaDevAttrGlobalMemoryBusWidth=37,
    )
    return SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))


class FakeNvml:
    """NVML of one H200 under its power cap. `broken` names functions that the card does not support."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, broken=(), reasons=0x4, default_clock=1980):
        self.broken, self.reasons, self.default_clock = broken, reasons, default_clock

    def __getattr__(self, name):
        values = {
            "nvmlDeviceGetHandleByPciBusId": "handle",
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
            "nvmlSystemGetDriverVersion": "580.159.04",
            "nvmlDeviceGetPowerUsage": 691234,
            "nvmlDeviceGetTotalEnergyConsumption": 12_345_678,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetClockInfo": 1455,
            "nvmlDeviceGetCurrentClocksEventReasons": self.reasons,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
            "nvmlDeviceGetApplicationsClock": 1200,
            "nvmlDeviceGetDefaultApplicationsClock": self.default_clock,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=2),
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=7), SimpleNamespace(pid=8)],
            "nvmlDeviceGetMigMode": (0, 0),
        }

        def call(*arguments):
            if name in self.broken:
                raise RuntimeError("Not Supported")
            if name == "nvmlDeviceGetMaxClockInfo":
                return {1: 1980, 2: 3201}[arguments[1]]
            return values[name]

        if name not in values and name != "nvmlDeviceGetMaxClockInfo":
            raise AttributeError(name)
        return call


def test_device_is_what_the_driver_reports():
    info = device.read_device(fake_cupy(), FakeNvml())
    assert info == Device(
        "NVIDIA H200", "9.0", 132, 1980.0, 62914560, 150_000_000_000, 3201.0, 6144, "580.159.04", 700.0
    )
    assert info.slug == "nvidia-h200"


def test_without_nvml_the_runtime_gives_the_clock_and_the_rest_is_none():
    info = device.read_device(fake_cupy(), None)
    assert (info.max_clock_mhz, info.memory_clock_mhz) == (1980.0, 3201.0)
    assert (info.driver, info.power_limit_w) == (None, None)


def test_peaks_are_sms_times_rate_times_clock():
    assert device.peak_tflops(H200) == pytest.approx(1070.5, abs=0.1)   # 132 x 4096 x 1.98 GHz
    assert device.peak_tflops(H200, clock_mhz=1830) == pytest.approx(989.4, abs=0.1)   # NVIDIA's own figure
    assert device.peak_tflops(H200, "cuda_core") == pytest.approx(66.9, abs=0.1)


def test_peaks_of_unknown_chips_units_and_clocks_are_refused():
    with pytest.raises(BackendError, match="capability 12.0"):
        device.peak_tflops(Device("NVIDIA X", "12.0", 100, 2000.0))
    with pytest.raises(ArgumentError, match="unit 'fp8'"):
        device.peak_tflops(H200, "fp8")
    with pytest.raises(BackendError, match="pass clock_mhz"):
        device.peak_tflops(Device("NVIDIA H200", "9.0", 132))


@pytest.mark.parametrize(
    ("rule", "capability", "fits"),
    [(">=7.5", "9.0", True), (">=7.5", "7.5", True), (">=9.0", "8.9", False), ("==9.0", "9.0", True),
     ("==9.0", "10.0", False), (">=9.0", "12.0", True), (">=7.5", "7.0", False)],
)
def test_rules(rule, capability, fits):
    assert Device("NVIDIA X", capability, 1).meets(rule) is fits


def test_no_gpu_is_none_with_a_reason(monkeypatch):
    monkeypatch.setattr(device, "probe", lambda: Probe(None, "No NVIDIA driver was found: install it."))
    assert device.device_info() is None
    assert device.no_device_reason() == "No NVIDIA driver was found: install it."
    with pytest.raises(BackendError, match="No NVIDIA driver"):
        device.measure_bandwidth()


def test_a_cache_that_cupy_cannot_make_is_named(monkeypatch):
    monkeypatch.setattr(device, "probe", lambda: Probe(Gpu("NVIDIA H200", (9, 0), 13000, 232448, 132)))

    def fail(*_):
        raise PermissionError(13, "Permission denied", "/nobody/.cupy")

    monkeypatch.setattr(device, "read_device", fail)
    assert device.device_info() is None
    assert "'/nobody/.cupy'): set CUPY_CACHE_DIR to a folder that can be written" in device.no_device_reason()


def test_a_gpu_that_cupy_cannot_use_is_none_with_a_reason(monkeypatch):
    monkeypatch.setattr(device, "probe", lambda: Probe(Gpu("NVIDIA H200", (9, 0), 13000, 232448, 132)))

    def fail(*_):
        raise RuntimeError("cudaErrorInsufficientDriver: too old\nmore")

    monkeypatch.setattr(device, "read_device", fail)
    assert device.device_info() is None
    assert "CuPy cannot use NVIDIA H200 (cudaErrorInsufficientDriver: too old)" in device.no_device_reason()


def test_power_meter_reads_units_and_reasons():
    reading = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(reasons=0x1 | 0x4 | 0x40)).read()
    assert (reading.power_w, reading.temperature_c, reading.sm_clock_nvml_mhz) == (691.234, 61.0, 1455.0)
    assert reading.throttle_reasons == ("sw_power_cap", "hw_thermal_slowdown")
    assert reading.reason is None


def test_power_meter_reads_joules_and_when(monkeypatch):
    monkeypatch.setattr(nvml_module, "time", SimpleNamespace(perf_counter=lambda: 42.5))
    reading = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml()).read()
    assert (reading.energy_j, reading.at_s) == (12_345.678, 42.5)
    without = FakeNvml(("nvmlDeviceGetTotalEnergyConsumption",))
    reading = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=without).read()
    assert (reading.energy_j, reading.power_w, reading.reason) == (None, 691.234, None), "the ladder needs no joules"


def test_power_meter_says_what_is_missing():
    broken = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetCurrentClocksEventReasons")
    reading = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(broken)).read()
    assert (reading.power_w, reading.throttle_reasons, reading.temperature_c) == (None, None, 61.0)
    assert reading.reason == "NVML does not report power, throttle reasons on this GPU"
    lost = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(("nvmlDeviceGetHandleByPciBusId",))).read()
    assert lost.power_w is None and lost.reason == "NVML does not know this GPU"


def test_the_state_of_the_board_is_what_nvml_says():
    state = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml()).state()
    others = (nvml_module.process_name(7), nvml_module.process_name(8))
    assert state == nvml_module.BoardState(700.0, 700.0, 1455.0, 1200.0, 37.0, 2, False, ("sw_power_cap",), others)
    own = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(default_clock=1200)).state()
    assert own.set_clock_mhz is None, "nobody has set it: the board came with it"
    broken = ("nvmlDeviceGetMigMode", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetApplicationsClock")
    state = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(broken)).state()
    assert (state.mig, state.processes, state.set_clock_mhz, state.busy_pct) == (None, None, None, 37.0)
    lost = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml(("nvmlDeviceGetHandleByPciBusId",)))
    assert lost.state() == nvml_module.BoardState()


def test_a_process_is_named_where_the_machine_knows_it():
    assert re.fullmatch(rf"process {os.getpid()} \([^)]+\)", nvml_module.process_name(os.getpid()))
    assert nvml_module.process_name(1 << 30) == f"process {1 << 30}"


@pytest.fixture
def slept(monkeypatch):
    """The rests that were taken; nothing waits."""
    rests = []
    monkeypatch.setattr(nvml_module.time, "sleep", rests.append)
    return rests


@pytest.mark.parametrize(
    ("pids", "busy", "rests", "words"),
    [
        ([os.getpid()], 100, [], ""),   # it is alone: no time is lost
        ([os.getpid(), 1 << 30], 3, [nvml_module.LOOK_BACK_S], ""),   # the other one holds memory and does nothing
        ([os.getpid(), 1 << 30], 98, [nvml_module.LOOK_BACK_S],
         f"Another process computed on this GPU (process {1 << 30}; busy 98% of the time while this one rested), so "
         "the figures are too low: measure when it is done."),
        ([], 98, [nvml_module.LOOK_BACK_S], "GPU (its name is not known; busy 98%"),   # a container hides all processes
    ],
)
def test_another_process_at_work_is_noticed(slept, pids, busy, rests, words):
    nvml = FakeNvml()
    nvml.nvmlDeviceGetUtilizationRates = lambda handle: SimpleNamespace(gpu=busy)
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: [SimpleNamespace(pid=pid) for pid in pids]
    said = nvml_module.PowerMeter(cupy=fake_cupy(), nvml=nvml).disturbance()
    assert slept == rests and words in said and bool(words) == bool(said)


def test_where_nvml_does_not_say_who_is_there_nobody_is_accused(slept):
    for broken in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetHandleByPciBusId"):
        assert nvml_module.PowerMeter(cupy=fake_cupy(), nvml=FakeNvml((broken,))).disturbance() == ""
    without = FakeNvml(("nvmlDeviceGetComputeRunningProcesses",))
    assert "its name is not known; busy 37%" in nvml_module.PowerMeter(cupy=fake_cupy(), nvml=without).disturbance()


@pytest.mark.parametrize(
    ("capability", "sms", "mhz", "memory", "words"),
    [
        ("9.0", 132, 1980.0, 150e9, "of the H200 SXM's kind"), ("9.0", 132, 1980.0, 85e9, "of the H100 SXM's kind"),
        ("9.0", 114, 1755.0, 85e9, "of the H100 PCIe's kind"), ("9.0", 132, 1785.0, 150e9, "of the H200 PCIe's kind"),
        ("9.0", 78, 1980.0, 102e9, "an H20 or another chip with few SMs"), ("9.0", 60, 1980.0, 75e9, "a slice of"),
        ("9.0", 132, None, None, "of the H100's kind"), ("8.0", 108, 1410.0, 80e9, ""),
    ],
)
def test_boards_are_told_apart_by_what_the_driver_reports(capability, sms, mhz, memory, words):
    """The name is the same for all: it is not what tells them apart."""
    found = device.board(Device("NVIDIA H100", capability, sms, mhz, memory_bytes=memory and int(memory)))
    assert found.startswith(words) and bool(found) == bool(words)


def test_power_meter_without_nvml_gives_a_reason(monkeypatch):
    monkeypatch.setattr(nvml_module, "nvml_library", lambda: None)
    assert "install nvidia-ml-py" in nvml_module.PowerMeter().read().reason


def test_reason_names_of_new_bits():
    assert nvml_module.reason_names(0) == ()
    assert nvml_module.reason_names(0x1) == ()
    assert nvml_module.reason_names(0x1000 | 0x8) == ("hw_slowdown", "reason_0x1000")


def test_bandwidth_is_the_median_in_decimal_gigabytes():
    measured = device.bandwidth((2.0, 1.0, 100.0), 8_000_000_000)
    assert measured.gb_per_s == pytest.approx(4000.0)


def test_slugs():
    assert device.slug("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    assert device.slug("NVIDIA GeForce RTX(TM) 4090") == "nvidia-geforce-rtx-tm-4090"
    with pytest.raises(ArgumentError):
        device.slug("--")


@pytest.mark.gpu
def test_this_gpu_is_read():
    info = device.device_info()
    assert info is not None and info.sm_count > 0 and info.memory_bytes > 1e9
    assert info.meets(">=5.0")
