"""The benchmark's method, with a timer that needs no GPU: order, counts, what is refused, what is recorded."""

import importlib
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from cupy.cuda.memory import OutOfMemoryError
from fake_timer import BUSY, FakeTimer

from helpers import record, records, timing
from helpers.arrays import empty_matrix, random_matrix
from helpers.benchmark import Bench, BenchmarkRefused, benchmark
from helpers.device import Device
from helpers.errors import ArgumentError, BackendError, CourseError, RecordError
from helpers.gpu_lock import gpu_lock
from helpers.kernel import load
from helpers.nvml import Telemetry
from helpers.progress import CountedTimer
from helpers.rounds import DROP_S, burst_together, chunk_launches, launch_count, spin_for, sustained_together, warm_turn
from helpers.rungs import find_rung
from helpers.timing import CudaTimer, clock_from

bm = importlib.import_module("helpers.benchmark")   # the package's `benchmark` is the function
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)


def kernel():
    pass


def cublas():
    pass


def test_burst_interleaves_and_swaps_the_order_each_round():
    timer = FakeTimer({kernel: 0.5, cublas: 0.2})
    result = burst_together(timer, [kernel], cublas, rounds=4, rest_s=1.0)[0]
    timed = [call for call in timer.calls if call[2] == 1.0]
    assert [call[0] for call in timed] == [kernel, cublas, cublas, kernel, kernel, cublas, cublas, kernel]
    assert {call[1] for call in timed} == {16} and {call[3] for call in timed} == {0.3}
    assert result.samples.kernel_ms == ((0.5,),) * 4 and result.samples.cublas_ms == ((0.2,),) * 4
    assert result.samples.kernel_clock_mhz == (1700.0,) * 4
    assert result.method["rounds"] == 4 and result.method["rest_s"] == 1.0
    untimed = timer.calls[: len(timer.calls) - len(timed)]
    assert {call[0] for call in untimed} == {kernel, cublas}, "both are warmed up before the first round"


def test_kernels_measured_together_share_the_turns_of_cublas():
    def other():
        pass

    timer = FakeTimer({kernel: 0.5, other: 100.0, cublas: 0.2})
    first, second = burst_together(timer, [kernel, other], cublas, rounds=2, rest_s=1.0)
    timed = [call[:2] for call in timer.calls if call[2] == 1.0]
    assert timed == [(kernel, 16), (other, 1), (cublas, 16), (cublas, 16), (other, 1), (kernel, 16)]
    assert first.samples.cublas_ms == second.samples.cublas_ms == ((0.2,),) * 2
    assert first.samples.kernel_ms == ((0.5,),) * 2 and second.samples.kernel_ms == ((100.0,),) * 2
    assert (first.method["kernel_launches"], second.method["kernel_launches"]) == (16, 1)
    first, second = sustained_together(timer, [kernel, other], cublas, rounds=2, turn_s=3.0)
    assert [call[0] for call in timer.calls if call[1] == 3.0] == [kernel, other, cublas, cublas, other, kernel]
    assert (first.method["kernel_launches_per_sample"], second.method["kernel_launches_per_sample"]) == (100, 1)


def test_slow_kernels_are_launched_less_often_and_the_method_says_so():
    timer = FakeTimer({kernel: 340.0, cublas: 7.0})
    result = burst_together(timer, [kernel], cublas, rounds=2)[0]
    assert (result.method["kernel_launches"], result.method["cublas_launches"]) == (1, 5)
    assert {call[:2] for call in timer.calls[-2:]} == {(kernel, 1), (cublas, 5)}


@pytest.mark.parametrize(
    ("ms", "launches"), [(0.005, 16), (2.5, 16), (2.6, 15), (20.0, 2), (39.0, 1), (41.0, 1), (4500.0, 1), (0.0, 16)]
)
def test_a_burst_stays_below_forty_milliseconds(ms, launches):
    assert launch_count(ms) == launches


@pytest.mark.parametrize(("queue_ms", "spin"), [(0.0, 0.3), (0.19, 0.3), (0.3, 0.5), (1.0, 1.5), (80.0, 5.0)])
def test_the_spin_outlasts_the_queueing(queue_ms, spin):
    assert spin_for(queue_ms) == pytest.approx(spin)
    timer = FakeTimer({kernel: 0.01, cublas: 0.01}, queue_ms)
    result = burst_together(timer, [kernel], cublas, rounds=1)[0]
    assert result.method["spin_ms"] == pytest.approx(spin) and result.method["longest_queue_ms"] == queue_ms
    assert [call[3] for call in timer.calls[-2:]] == pytest.approx([spin, spin]), "the same spin for both"


def test_launches_that_the_spin_did_not_hide_are_reported():
    slow_cpu = burst_together(FakeTimer({kernel: 0.01, cublas: 0.01}, queue_ms=80.0), [kernel], cublas, rounds=1)[0]
    assert slow_cpu.method["launches_hidden"] is False
    long_kernels = burst_together(FakeTimer({kernel: 2.0, cublas: 2.0}, queue_ms=8.0), [kernel], cublas, rounds=1)[0]
    assert long_kernels.method["launches_hidden"] is True, "while one runs, the next are queued"


def test_ratio_is_the_median_of_the_rounds():
    times = iter([1.0, 1.0, 1.0, 2.0, 4.0])
    timer = FakeTimer(lambda launch: next(times) if launch is kernel else 1.0)
    samples = burst_together(timer, [kernel], cublas, rounds=3)[0].samples
    assert samples.kernel_ms == ((1.0,), (2.0,), (4.0,))


def test_sustained_alternates_turns_and_keeps_every_sample():
    timer = FakeTimer({kernel: 0.2, cublas: 25.0})
    result = sustained_together(timer, [kernel], cublas, rounds=2, turn_s=3.0)[0]
    turns = [call for call in timer.calls if call[1] == 3.0]
    assert [call[0] for call in turns] == [kernel, cublas, cublas, kernel]
    assert [call[3] for call in turns[:2]] == [250, 2], "a sample is about 50 ms of launches"
    assert {call[2] for call in turns} == {0.6}
    assert result.samples.kernel_ms[0] == pytest.approx((0.2, 0.22, 0.24))
    assert result.samples.kernel_clock_mhz == (1390.0, 1390.0)
    assert result.method["turn_s"] == 3.0 and result.method["dropped_s"] == 0.6


def test_telemetry_is_summarised_with_reasons():
    readings = [BUSY, Telemetry(500.0, 70.0, 1500.0, ()), Telemetry(reason="NVML is not available")]
    assert bm.summarize(readings) == (690.0, 70.0, ("sw_power_cap",), ("NVML is not available",))
    assert bm.summarize([]) == (None, None, None, ())


class FakeKernel:
    """A rung that NumPy computes. `wrong(m, n)` says where its result is spoilt."""

    backend = "emulator"

    def __init__(self, wrong=lambda m, n, calls: False):
        self.rung, self.entry, self.defines, self.code_hash = find_rung(1), "matmul", {}, "0123456789abcdef"
        self.path, self.wrong, self.calls = self.rung.path, wrong, 0

    def __call__(self, A, B, out):
        self.calls += 1
        out[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(BFLOAT16)
        if self.wrong(*out.shape, self.calls):
            out[-1, -1] = 1000
        return out

    def prepared(self, A, B, out):
        return lambda: self(A, B, out)


class FakeCublas:
    """Gives plans that NumPy computes, with an offset added to every result. closed: how many were released."""

    def __init__(self, offset=0.0):
        self.offset, self.closed = offset, 0

    def plan(self, A, B, C):
        return FakePlan(self, A, B, C)


class FakePlan:
    algorithm, workspace_bytes, waves = {"id": 66}, 0, 1.0

    def __init__(self, cublas, A, B, C):
        self.cublas, self.A, self.B, self.C = cublas, A, B, C

    def __call__(self):
        product = self.A.astype(np.float32) @ self.B.astype(np.float32)
        self.C[...] = (product + self.cublas.offset).astype(BFLOAT16)

    def close(self):
        self.cublas.closed += 1


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Lets `measure` run on NumPy arrays."""
    monkeypatch.setattr(bm, "empty_matrix", lambda rows, columns, backend: empty_matrix(rows, columns, "emulator"))
    monkeypatch.setattr(bm, "random_matrix", lambda r, c, seed, backend: random_matrix(r, c, seed, "emulator"))
    monkeypatch.setattr(bm.gpu, "synchronize", lambda: None)
    monkeypatch.setattr(bm.device, "device_info", lambda: H200)
    monkeypatch.setattr(bm, "toolkit", lambda: {"nvrtc": "13.0", "cublas": "13.1.0", "cupy": "14.2.0"})


def cpu_bench(offset=0.0):
    return Bench(timer=FakeTimer(lambda launch: 0.5), cublas=FakeCublas(offset))


def test_measurement_holds_everything_and_survives_a_file(on_the_cpu, tmp_path):
    bench = cpu_bench()
    result = bm.measure(bench, FakeKernel(), (40, 24, 32), "burst", rounds=3, rest_s=0.0)
    assert (result.m, result.n, result.k, result.source, result.stale) == (40, 24, 32, "live", False)
    assert (result.ratio, result.sm_clock_mhz, result.power_w) == (1.0, 1700.0, 690.0)
    assert result.throttle_reasons == ("sw_power_cap",)
    assert result.method["inputs"] == "N(0,1)" and result.method["cublas_algorithm"] == {"id": 66}
    again = records.read_record(records.write_record(result, tmp_path))
    assert again == result and again.source == "recorded"
    assert bench.cublas.closed == 1, "the plan is released"


def test_everything_that_runs_on_the_gpu_for_a_measurement_runs_while_it_is_locked(on_the_cpu):
    bench, events = cpu_bench(), []

    @contextmanager
    def alone():
        events.append("locked")
        yield
        events.append("released")

    def used(*_):
        events.append("used")
        return False

    bench.alone = alone
    bm.measure(bench, FakeKernel(used), (40, 24, 32), "burst", rounds=1, rest_s=0.0)
    assert (events[0], events[-1]) == ("locked", "released") and set(events[1:-1]) == {"used"}


def test_the_real_timer_comes_with_the_lock(monkeypatch):
    timer = FakeTimer({})
    monkeypatch.setattr(bm, "CudaTimer", lambda: timer)
    assert Bench(cublas=FakeCublas(0.0)).alone is nullcontext
    timer.on_gpu = True
    assert Bench(cublas=FakeCublas(0.0)).alone is gpu_lock
    counted = CountedTimer(timer, lambda seconds: None, 0.04)   # the one of `python -m helpers.record`
    assert Bench(counted, FakeCublas(0.0)).alone is gpu_lock
    assert CudaTimer.on_gpu


def test_a_figure_measured_beside_another_process_says_so(on_the_cpu):
    bench = cpu_bench()
    assert bm.measure(bench, FakeKernel(), (40, 24, 32), "burst", rounds=1, rest_s=0.0).notes == ()
    bench.timer.said = "Another process computed on this GPU."
    counted = Bench(CountedTimer(bench.timer, lambda seconds: None, 0.04), bench.cublas)
    for each in (bench, counted):
        found = bm.measure(each, FakeKernel(), (40, 24, 32), "burst", rounds=1, rest_s=0.0)
        assert found.notes == (bench.timer.said,) and found.method["disturbed"] is True


def test_a_kernel_that_fails_verification_is_never_timed(on_the_cpu):
    bench = cpu_bench()
    with pytest.raises(BenchmarkRefused, match=r"01_coalescing.matmul fails verification at .*so it gets no time"):
        bm.measure(bench, FakeKernel(lambda m, n, calls: m == 33), (64, 64, 64), "burst", 1)
    assert not bench.timer.calls


def test_a_kernel_that_is_wrong_at_this_size_only_is_never_timed(on_the_cpu):
    bench = cpu_bench()
    with pytest.raises(BenchmarkRefused, match=r"wrong result at 520 before it was timed \(.*\), so it gets no time"):
        bm.measure(bench, FakeKernel(lambda m, n, calls: m == 520), (520, 520, 520), "burst", 1)
    assert not bench.timer.calls and bench.cublas.closed == 1


def test_a_kernel_that_writes_nothing_is_refused_though_c_was_right(on_the_cpu):
    A, B, C = (bm.random_matrix(32, 32, seed, "cuda") for seed in range(3))
    C[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(BFLOAT16)
    bm.require_right(bm.Contender("idle", lambda: None, C), A, B, "before")
    with pytest.raises(BenchmarkRefused, match="idle gives a wrong result at 32 before it was timed"):
        bm.launch_first(bm.Contender("idle", lambda: None, C), A, B)


def test_what_a_warm_turn_launches():
    timer, begun = FakeTimer({kernel: 0.6}), []
    turn = warm_turn(timer, kernel, 0.6, 2.0, lambda: begun.append(len(timer.calls)))
    assert timer.calls == [(kernel, DROP_S, 0.0, 83), (kernel, 2.0, 0.0, 83)] and begun == [1]
    assert turn.seconds == 2.0 and chunk_launches(200.0) == 1


def test_a_result_that_spoils_under_load_is_refused(on_the_cpu):
    """Right when it is checked, wrong in the last of the launches that were timed."""
    bench, spoilt = cpu_bench(), FakeKernel()
    bench.require_verified(spoilt)
    checked = spoilt.calls + 1
    spoilt.wrong = lambda m, n, calls: calls > checked
    with pytest.raises(BenchmarkRefused, match="after it was timed"):
        bm.measure(bench, spoilt, (40, 24, 32), "burst", 1, rest_s=0.0)


def test_a_wrong_cublas_is_refused_too(on_the_cpu):
    bench = cpu_bench(offset=1.0)
    with pytest.raises(BenchmarkRefused, match="cuBLAS gives a wrong result"):
        bm.measure(bench, FakeKernel(), (40, 24, 32), "burst", 1)
    assert not bench.timer.calls


def test_verification_runs_once_per_code(on_the_cpu):
    bench, counted = cpu_bench(), FakeKernel()
    bench.require_verified(counted)
    calls = counted.calls
    bench.require_verified(counted)
    assert calls > 0 and counted.calls == calls


def test_operands_are_made_once_per_size(on_the_cpu):
    bench = cpu_bench()
    first = bench.operands(8, 16, 24, 0)
    assert first[0].shape == (8, 24) and first[1].shape == (24, 16)
    assert bench.operands(8, 16, 24, 0)[0] is first[0]
    assert bench.operands(8, 16, 24, 1)[0] is not first[0]
    assert not np.array_equal(first[0].ravel()[:8], first[1].ravel()[:8]), "A and B have their own seeds"


def recorded_measurement(code_hash, **changes):
    samples = records.Samples(((20.0,),) * 9, ((0.2,),) * 9)
    fields = {
        "rung": "01_coalescing", "entry": "matmul", "code_hash": code_hash, "defines": {}, "dtype": "bfloat16",
        "device": H200, "toolkit": {"nvrtc": "13.0", "cublas": None, "cupy": None}, "m": 4096, "n": 4096, "k": 4096,
        "regime": "burst", "method": {}, "samples": samples, "sm_clock_mhz": None, "power_w": None,
        "temperature_c": None, "throttle_reasons": None, "date": "2026-11-29T12:00:00Z",
    }
    return records.Measurement(**(fields | changes))


def test_without_a_gpu_the_recording_of_this_code_is_returned(tmp_path):
    loaded = load("01", backend="emulator")
    expected = recorded_measurement(loaded.code_hash)
    records.write_record(expected, tmp_path)
    result = benchmark(loaded, 4096, directory=tmp_path)
    assert result == expected
    assert (result.source, result.stale, result.device.name, result.date) == (
        "recorded", False, "NVIDIA H200", "2026-11-29T12:00:00Z"
    )


def test_never_the_figure_of_other_code(tmp_path):
    loaded = load("01", backend="emulator")
    records.write_record(recorded_measurement("f" * 16), tmp_path)
    with pytest.raises(RecordError, match="no recording for this code .*what was recorded is other code") as caught:
        benchmark(loaded, 4096, directory=tmp_path)
    assert str(caught.value).count(". ") == 0 and "`python -m helpers bench 1 --size 4096`" in str(caught.value)


@pytest.mark.parametrize(
    ("kernel", "size", "regime", "command"),
    [
        (load("05", backend="emulator"), 96, "sustained", "python -m helpers bench 5 --size 96 --sustained"),
        (
            load("01", backend="emulator", entry="matmul_uncoalesced"), (32, 64, 96), "burst",
            "python -m helpers bench 1 --size 32x64x96 --entry matmul_uncoalesced",
        ),
        (
            load("05", backend="emulator", defines={"BUFFERS": 1}), 96, "burst",
            "benchmark(kernel, (96, 96, 96), 'burst')",
        ),
    ],
)
def test_what_was_not_recorded_names_the_command_that_measures_it(kernel, size, regime, command, tmp_path):
    with pytest.raises(RecordError) as caught:
        benchmark(kernel, size, regime, directory=tmp_path)
    assert f"measure it on a GPU with `{command}`" in str(caught.value)


def test_an_edited_kernel_has_no_recording(tmp_path):
    original = load("01", backend="emulator")
    records.write_record(recorded_measurement(original.code_hash), tmp_path / "records")
    edited = tmp_path / "edited.cu"
    edited.write_text(original.source.replace("float sum = 0.0f", "float sum = 1.0f"))
    with pytest.raises(RecordError, match=r"no recording for this code \(.*edited.cu"):
        benchmark(load("01", backend="emulator", file=edited), 4096, directory=tmp_path / "records")
    edited.write_text("// another comment\n" + original.source)
    same = benchmark(load("01", backend="emulator", file=edited), 4096, directory=tmp_path / "records")
    assert same.code_hash == original.code_hash, "a comment does not change the code"


def test_a_size_that_was_not_recorded_says_so(tmp_path):
    with pytest.raises(RecordError, match="N = 512x256x128, burst.*nothing was recorded for this size"):
        benchmark(load("01", backend="emulator"), (512, 256, 128), directory=tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "size is 0"), ({"size": (1, 2)}, "size is"), ({"size": 4096.0}, "size is 4096.0"),
        ({"size": True}, "size is True"), ({"size": "4096"}, "size is '4096'"), ({"regime": "fast"}, "regime 'fast'"),
        ({"rounds": 0}, "rounds is 0"), ({"rounds": True}, "rounds is True"), ({"rounds": 1001}, "rounds is 1001"),
        ({"rounds": 2.5}, "rounds is 2.5"), ({"rest_s": -1}, "rest_s is -1"), ({"turn_s": 0}, "turn_s is 0"),
        ({"entry": "nonsense"}, "nonsense"), ({"rest_s": float("nan")}, "rest_s is nan"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ArgumentError, match=words):
        benchmark("01", **options)


@pytest.mark.parametrize("command", ["record", "shapes", "energy"])
@pytest.mark.parametrize("rounds", ["0", "1001", "1" + 30 * "0"])
def test_no_command_takes_more_rounds_than_can_be_measured(command, rounds, capsys):
    assert importlib.import_module(f"helpers.{command}").main(["--rounds", rounds]) == 1
    assert capsys.readouterr() == ("", f"rounds is {rounds}: it must be an integer from 1 to 1,000.\n")


def test_entry_beside_a_loaded_kernel_must_agree():
    loaded = load("01", backend="emulator")
    with pytest.raises(ArgumentError, match="loaded with entry 'matmul'"):
        benchmark(loaded, entry="matmul_uncoalesced")
    with pytest.raises(ArgumentError, match="differ from the arguments"):
        benchmark(loaded, defines={"X": 1})


def test_sizes_that_the_rung_refuses_are_refused_first():
    with pytest.raises(ArgumentError, match="03_register_tiling needs"):
        benchmark("03", 1000)


# The CUDA timer, on a fake CuPy that writes down what is queued.

class FakeEvent:
    def __init__(self, log):
        self.log, self.at = log, None

    def record(self):
        self.at = sum(ms for _, ms in self.log)
        self.log.append(("event", 0.0))

    def synchronize(self):
        self.log.append(("wait", 0.0))


class FakeCupy:
    """A GPU on which a spin takes 0.3 ms and a launch 2 ms; the clock probe finds 1500 MHz."""

    uint64 = np.uint64

    def __init__(self):
        self.log = []
        stream = SimpleNamespace(synchronize=lambda: self.log.append(("synchronize", 0.0)))
        self.cuda = SimpleNamespace(
            Event=lambda: FakeEvent(self.log),
            Stream=lambda non_blocking: FakeCapture(self.log),
            get_current_stream=lambda: stream,
            get_elapsed_time=lambda start, end: end.at - start.at,
        )

    def zeros(self, count, dtype):
        class Slot(np.ndarray):
            def get(self):
                return np.asarray(self)

        return np.zeros(count, dtype).view(Slot)


class FakeCapture:
    """A stream whose captured launches run only when the graph is launched."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def begin_capture(self):
        self.begun = len(self.log)

    def end_capture(self):
        captured, self.log[self.begun:] = self.log[self.begun:], []
        return SimpleNamespace(launch=lambda: self.log.extend(captured))


def fake_cuda_timer():
    cupy = FakeCupy()
    timer = object.__new__(CudaTimer)
    timer._cupy, timer._numpy, timer.device = cupy, np, H200
    timer._cycles_per_ms = 1.98e6
    timer._meter = SimpleNamespace(read=lambda: BUSY)
    timer._slot = cupy.zeros(2, np.uint64)

    def spin(grid, block, arguments):
        cupy.log.append(("spin", int(arguments[0]) / 1.98e6))

    def clock(grid, block, arguments):
        cupy.log.append(("clock", 0.05))
        arguments[0][:] = (75_000, 50_000)

    timer._spin, timer._clock = spin, clock
    return timer, cupy.log


def test_launches_stand_between_two_events_behind_the_spin():
    timer, log = fake_cuda_timer()
    burst = timer.burst(lambda: log.append(("launch", 2.0)), 3, 0.0, 0.3)
    names = [name for name, _ in log]
    assert names == ["synchronize", "spin", "event", "launch", "launch", "launch", "event", "clock", "synchronize"]
    assert burst.ms == pytest.approx(2.0), "neither the spin nor the clock probe is timed"
    assert burst.sm_clock_mhz == pytest.approx(1500.0) and burst.telemetry == BUSY and burst.queue_ms >= 0


def test_the_gpu_rests_before_the_spin(monkeypatch):
    timer, log = fake_cuda_timer()
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: log.append((f"rest {seconds}", 0.0)))
    timer.burst(lambda: None, 1, 1.0, 0.3)
    assert [name for name, _ in log][:3] == ["synchronize", "rest 1.0", "spin"]


def test_a_turn_drops_its_beginning_and_keeps_two_chunks_in_the_queue(monkeypatch):
    timer, log = fake_cuda_timer()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: sum(ms for _, ms in log) / 1e3)
    turn = timer.turn(lambda: log.append(("launch", 2.0)), seconds=0.1, drop_s=0.03, chunk_launches=5)
    assert all(sample == pytest.approx(2.0) for sample in turn.samples_ms)
    chunks = sum(name == "launch" for name, _ in log) // 5
    assert chunks == 10 and len(turn.samples_ms) == 7, "3 chunks began in the first 30 ms"
    assert turn.clocks_mhz == (1500.0,) * 7 and len(turn.telemetry) == 9
    assert [name for name, _ in log].index("wait") > [name for name, _ in log].index("launch") + 9


def test_a_turn_of_a_kernel_longer_than_itself_has_a_sample(monkeypatch):
    timer, log = fake_cuda_timer()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: sum(ms for _, ms in log) / 1e3)
    turn = timer.turn(lambda: log.append(("launch", 5000.0)), seconds=3.0, drop_s=0.6, chunk_launches=1)
    assert turn.samples_ms == pytest.approx((5000.0, 5000.0)), "the first began before 0.6 s were over"


def test_clock_from_cycles():
    assert clock_from(99_000, 50_000) == pytest.approx(1980.0)
    assert clock_from(0, 0) is None and clock_from(100, 0) is None


def test_no_gpu_no_timer(monkeypatch):
    monkeypatch.setattr(timing, "device_info", lambda: None)
    monkeypatch.setattr(timing, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    with pytest.raises(BackendError, match="Time can only be measured on a GPU: No NVIDIA driver"):
        CudaTimer()


def test_probes_compile_without_a_gpu():
    from helpers.cuda import compile_cubin

    for name in ("spin", "sm_clock"):
        assert compile_cubin(timing.PROBES / f"{name}.cu").entries == (name,)


# Recording the ladder.

def jobs_of(*names, sizes=(1024,), regimes=("burst",), twin_limit=4096):
    return record.plan_jobs([find_rung(name) for name in names], sizes, regimes, twin_limit)


def run(jobs, tmp_path, measure_job, code_hash="0123456789abcdef", **options):
    lines = []
    failed = record.run_jobs(
        jobs, tmp_path, H200, {"burst": 9, "sustained": 6}, report=lines.append,
        measure_jobs=lambda kernels, jobs: [measure_job(*pair) for pair in zip(kernels, jobs, strict=True)],
        load_kernel=lambda job: SimpleNamespace(code_hash=code_hash), **options,
    )
    return failed, lines


def fake_measure(done):
    def measure_job(kernel, job):
        done.append(job.name)
        size = job.size
        return recorded_measurement(
            kernel.code_hash, rung=job.rung.name, entry=job.entry, m=size, n=size, k=size, regime=job.regime
        )

    return measure_job


def test_jobs_go_by_size_and_twins_stop_at_their_limit():
    names = [job.name for job in jobs_of(1, 2, sizes=(4096, 8192))]
    assert names == [
        "01_coalescing 4096 burst", "01_coalescing.matmul_uncoalesced 4096 burst", "02_smem_tiling 4096 burst",
        "01_coalescing 8192 burst", "02_smem_tiling 8192 burst",
    ]
    with pytest.raises(ArgumentError, match="size 1000 does not suit 03_register_tiling"):
        jobs_of(3, sizes=(1000,))
    with pytest.raises(ArgumentError, match="regime 'fast'"):
        jobs_of(1, regimes=("fast",))


def test_ablations_are_jobs_beside_their_rung(tmp_path):
    jobs = record.plan_jobs([find_rung(4), find_rung(5)], (4096,), ("burst",), ablations=True)
    assert [job.name for job in jobs] == [
        "04_swizzling 4096 burst", "05_tma 4096 burst", "05_tma+BUFFERS-1 4096 burst",
    ]
    assert jobs[2].defines == {"BUFFERS": 1}
    failed, lines = run(jobs[1:], tmp_path, fake_measure([]))
    assert failed == 0 and len(lines) == 2
    assert record.job_path(jobs[2], H200, record.RECORD_DIR).name == "05_tma+BUFFERS-1_4096_burst.json"


def test_the_plan_is_what_the_course_says_and_takes_at_most_twenty_minutes():
    jobs = record.planned_jobs(record.RUNGS)
    names = {job.name for job in jobs}
    assert len(names) == len(jobs), "nothing is measured twice"
    for size in (4096, 8192):
        for rung in record.RUNGS:
            assert f"{rung.name} {size} burst" in names
            assert (f"{rung.name} {size} sustained" in names) == (rung.number >= 6)
    assert "01_coalescing.matmul_uncoalesced 4096 burst" in names
    seconds = record.estimate_s(jobs, {"burst": 9, "sustained": 6}, rest_s=1.0, turn_s=3.0) + record.YARDSTICKS_S
    assert seconds <= 18 * 60, "two of the twenty minutes are for the clocks and inputs that `make record` adds"
    assert [job.size for job in record.planned_jobs([find_rung(2)])] == [4096, 8192, 1024, 2048]
    ablated = {job.name for job in record.planned_jobs([find_rung(5), find_rung(10)], ablations=True)}
    assert "05_tma+BUFFERS-1 8192 burst" in ablated and "10_clusters+OVERLAP-0 8192 sustained" not in ablated


def test_what_is_waiting_is_told_before_the_first_measurement(tmp_path):
    jobs, told = jobs_of(1, 2), []
    run(jobs[:1], tmp_path, fake_measure([]))
    measure_job = fake_measure([])

    def check_first(kernel, job):
        assert told == [jobs[1:]]
        return measure_job(kernel, job)

    failed, _ = run(jobs, tmp_path, check_first, begin=told.append)
    assert failed == 0 and len(records.load_records(tmp_path)) == 3


def test_every_measurement_is_written_at_once_and_not_made_twice(tmp_path):
    jobs, done = jobs_of(1, 2), []
    failed, lines = run(jobs, tmp_path, fake_measure(done))
    assert failed == 0 and len(done) == 3 and len(records.load_records(tmp_path)) == 3
    again = []
    failed, lines = run(jobs, tmp_path, fake_measure(again))
    assert failed == 0 and not again and all(line.endswith("is current") for line in lines)
    run(jobs, tmp_path, fake_measure(again), force=True)
    assert len(again) == 3
    changed = []
    run(jobs, tmp_path, fake_measure(changed), code_hash="f" * 16)
    assert len(changed) == 3, "other code is measured again"


def test_an_interrupted_run_loses_only_the_measurements_at_hand(tmp_path):
    jobs, done = jobs_of(2, sizes=(1024, 2048, 4096)), []
    measure_job = fake_measure(done)

    def interrupted(kernel, job):
        if len(done) == 2:
            raise KeyboardInterrupt
        return measure_job(kernel, job)

    with pytest.raises(KeyboardInterrupt):
        run(jobs, tmp_path, interrupted)
    assert len(records.load_records(tmp_path)) == 2
    rest = []
    run(jobs, tmp_path, fake_measure(rest))
    assert rest == ["02_smem_tiling 4096 burst"]


def test_rungs_of_one_size_and_regime_are_measured_together(tmp_path):
    jobs, groups = jobs_of(1, 2, sizes=(1024, 2048), regimes=("burst", "sustained")), []
    measure_job = fake_measure([])

    def measure_jobs(kernels, group):
        groups.append({(job.size, job.regime) for job in group} | {len(group)})
        return [measure_job(kernel, job) for kernel, job in zip(kernels, group, strict=True)]

    record.run_jobs(
        jobs, tmp_path, H200, {"burst": 9, "sustained": 6}, measure_jobs=measure_jobs, report=lambda line: None,
        load_kernel=lambda job: SimpleNamespace(code_hash="0" * 16),
    )
    sizes = [(1024, "burst"), (1024, "sustained"), (2048, "burst"), (2048, "sustained")]
    assert groups == [{pair, 3} for pair in sizes] and len(records.load_records(tmp_path)) == 12


def test_a_recording_with_fewer_rounds_or_of_another_gpu_is_not_current(tmp_path):
    path = records.write_record(recorded_measurement("f" * 16, device=replace(H200, name="NVIDIA H200")), tmp_path)
    assert record.is_current(path, "f" * 16, H200, 9)
    assert not record.is_current(path, "f" * 16, H200, 10)
    assert not record.is_current(path, "f" * 16, replace(H200, name="NVIDIA H20"), 9)
    assert not record.is_current(path, "e" * 16, H200, 9)
    assert not record.is_current(tmp_path / "none.json", "f" * 16, H200, 9)
    for hidden in (False, True):
        records.write_record(recorded_measurement("f" * 16, method={"launches_hidden": hidden}), path=path)
        assert bool(record.is_current(path, "f" * 16, H200, 9)) is hidden
    records.write_record(recorded_measurement("f" * 16, method={"disturbed": True}), path=path)
    assert not record.is_current(path, "f" * 16, H200, 9), "measured beside another process"


def test_a_refused_kernel_does_not_stop_the_others(tmp_path):
    jobs, done = jobs_of(1, 2), []
    measure_job = fake_measure(done)

    def refuse_first(kernel, job):
        if job.entry == "matmul_uncoalesced":
            raise BenchmarkRefused("it is wrong.")
        return measure_job(kernel, job)

    failed, lines = run(jobs, tmp_path, refuse_first)
    assert failed == 1 and set(done) == {"01_coalescing 1024 burst", "02_smem_tiling 1024 burst"}
    assert "[2/3] 01_coalescing.matmul_uncoalesced 1024 burst: refused: it is wrong." in lines


def test_a_damaged_record_is_reported_and_kept(tmp_path):
    jobs, done = jobs_of(2), []
    path = record.job_path(jobs[0], H200, tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    for force in (False, True):
        failed, lines = run(jobs, tmp_path, fake_measure(done), force=force)
        assert failed == 1 and "02_smem_tiling_1024_burst.json" in lines[0] and path.read_text() == "{"


def test_record_paths_agree_with_those_of_measurements(tmp_path):
    for job in jobs_of(1, regimes=("burst", "sustained")):
        item = recorded_measurement(
            "f" * 16, rung=job.rung.name, entry=job.entry, m=1024, n=1024, k=1024, regime=job.regime
        )
        assert record.job_path(job, H200, tmp_path) == records.record_path(item, tmp_path)


def test_the_command_without_a_gpu_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(record.device, "device_info", lambda: None)
    monkeypatch.setattr(record.device, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    assert record.main(["--rungs", "1", "--sizes", "1024"]) == 1
    error = capsys.readouterr().err
    assert error == "The ladder can only be recorded on a GPU: No NVIDIA driver was found: install it.\n"
    assert record.main(["--rungs", "99"]) == 1
    assert record.main(["--rounds", "0"]) == 1
    assert record.main(["--list", "--rungs", "2"]) == 0
    assert "02_smem_tiling 8192 burst" in capsys.readouterr().out


@pytest.fixture
def recording(monkeypatch) -> SimpleNamespace:
    """The record command on a GPU that is not there: what it asks of the benchmark. error: of the third group."""
    class Benches:
        def __init__(self, timer):
            self.timer, self.cublas = timer, None

        __enter__, __exit__, close = Bench.__enter__, Bench.__exit__, lambda self: None

    found = SimpleNamespace(measured=[], yardsticks=[], error=None)

    def measure_together(bench, kernels, size, regime, rounds, rest_s, turn_s):
        bench.timer.burst(lambda: None, 16, rest_s, 0.3)
        if len(found.measured) == 2 and found.error:
            raise found.error
        found.measured.append((len(kernels), size, regime, rounds, rest_s, turn_s))
        return [
            recorded_measurement(kernel.code_hash, rung=rung, m=size[0], n=size[1], k=size[2], regime=regime)
            for kernel, rung in zip(kernels, ("06_wgmma", "07_pipelining"), strict=True)
        ]

    monkeypatch.setattr(record.device, "device_info", lambda: H200)
    monkeypatch.setattr(record, "CudaTimer", lambda: FakeTimer(lambda launch: 0.5))
    monkeypatch.setattr(record, "Bench", Benches)
    monkeypatch.setattr(record, "load", lambda *_, **__: SimpleNamespace(code_hash="0" * 16))
    monkeypatch.setattr(record, "measure_together", measure_together)
    monkeypatch.setattr(record, "record_yardsticks", lambda directory, timer: found.yardsticks.append(directory))
    return found


def test_the_command_measures_writes_and_goes_on(recording, capsys, tmp_path):
    measured = recording.measured
    arguments = ["--rungs", "6", "7", "--output", str(tmp_path)]
    assert record.main(arguments) == 0
    regimes = [(size[0], regime, rounds) for _, size, regime, rounds, _, _ in measured]
    assert regimes == [(4096, "burst", 9), (8192, "burst", 9), (4096, "sustained", 6), (8192, "sustained", 6),
                       (1024, "burst", 9), (2048, "burst", 9)]
    assert {(count, rest, turn) for count, _, _, _, rest, turn in measured} == {(2, 1.0, 3.0)}
    assert recording.yardsticks == [tmp_path] and len(records.load_records(tmp_path)) == 12
    out = capsys.readouterr().out
    assert out.startswith("12 measurements, about ") and "12 of 12 to measure, about " in out
    assert record.main(arguments) == 0 and len(measured) == 6
    assert "0 of 12 to measure, about 0 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "Stopped; what was measured is written, and the same command goes on from here."),
        (OutOfMemoryError(3 << 30, 0, 0), 1, "The GPU's memory does not suffice for this command: 3.00 GiB more is"),
        (BackendError("The GPU has gone: look for it."), 1, "The GPU has gone: look for it."),
    ],
    ids=["Ctrl-C", "memory", "GPU"],
)
def test_whatever_stops_the_command_what_was_recorded_stays(recording, capsys, tmp_path, error, code, words):
    arguments = ["--rungs", "6", "7", "--output", str(tmp_path)]
    recording.error = error
    assert record.main(arguments) == code
    said = capsys.readouterr().err
    assert said.startswith(words) and said.count("\n") == 1
    assert len(records.load_records(tmp_path)) == 4   # two groups of two
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".json"}
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    recording.error = None
    assert record.main(arguments) == 0
    assert len(recording.measured) == 6 and len(records.load_records(tmp_path)) == 12
    assert all(path.read_bytes() == data for path, data in kept.items())


def test_errors_are_course_errors():
    assert issubclass(BenchmarkRefused, CourseError)


@pytest.mark.gpu
def test_live_burst_on_this_gpu():
    result = benchmark("01", 512, rounds=2, rest_s=0.0)
    assert result.source == "live" and result.tflops > 0 and result.cublas_tflops > 0


@pytest.mark.parametrize("options", [dict(rest_s="a"), dict(rest_s=float("nan")), dict(turn_s=None), dict(turn_s=True)])
def test_times_that_are_no_numbers_are_refused(options):
    (name,) = options
    with pytest.raises(ArgumentError, match=f"{name} is .*: it must be a number of seconds"):
        bm.benchmark(1, **options)
