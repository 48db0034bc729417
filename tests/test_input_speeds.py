"""One kernel on several kinds of inputs: what they are, that they take turns, and that a record is of this code."""

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fake_timer import FakeTimer

from helpers import gpu
from helpers import input_speeds as module
from helpers.arrays import INPUTS, input_matrix
from helpers.benchmark import BenchmarkRefused
from helpers.device import Device
from helpers.errors import ArgumentError, RecordError
from helpers.input_speeds import InputSpeed, find_inputs, input_speeds, write_inputs
from helpers.kernel import load
from helpers.record_basics import RECORD_DIR
from helpers.rungs import find_rung
from helpers.speeds import MISSING

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)
FOUND = [
    InputSpeed(INPUTS[0], (0.15,) * 3, 1800.0), InputSpeed(INPUTS[1], (0.16,) * 3, 1710.0),
    InputSpeed(INPUTS[2], (0.17,) * 3, 1634.4),
]


@pytest.fixture
def live(monkeypatch):
    """What a GPU would have measured."""
    monkeypatch.setattr(module.device, "device_info", lambda: H200)
    monkeypatch.setattr(module, "toolkit", lambda: {"nvrtc": "13.0", "cublas": "13.1.0", "cupy": "14.2.0"})
    return input_speeds("10_clusters", 4096, measure=lambda kernel, n, regime: FOUND)


def test_the_inputs_are_what_they_are_called() -> None:
    zeros, uniform, normal = (input_matrix(inputs, 64, 128, 1, "emulator").astype(np.float32) for inputs in INPUTS)
    assert not zeros.any()
    assert uniform.min() >= 0 and uniform.max() <= 1 and uniform.mean() == pytest.approx(0.5, abs=0.02)
    assert uniform.std() == pytest.approx(12**-0.5, abs=0.01)
    assert normal.mean() == pytest.approx(0, abs=0.05) and normal.std() == pytest.approx(1, abs=0.05)
    assert not np.array_equal(uniform, input_matrix(INPUTS[1], 64, 128, 2, "emulator").astype(np.float32))
    with pytest.raises(ArgumentError, match="inputs 'ones' are not known: give one of 'zeros'"):
        input_matrix("ones", 8, 8, 0, "emulator")


def test_words_and_record(live, tmp_path) -> None:
    assert str(live).splitlines() == [
        f"10_clusters, N=4096, burst: live on NVIDIA H200, {live.date[:10]}",
        "    zeros              916 TFLOP/s at 1,800 MHz",
        "    uniform in [0, 1)  859 TFLOP/s at 1,710 MHz",
        "    N(0,1)             808 TFLOP/s at 1,634 MHz",
    ]
    path = write_inputs(live, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "inputs" / "10_clusters_4096_burst.json"
    found = find_inputs(find_rung(10), 4096, "burst", live.code_hash, tmp_path)
    assert found == replace(live, source="recorded")
    assert "recorded on NVIDIA H200" in str(found)
    assert find_inputs(find_rung(10), 4096, "burst", "f" * 16, tmp_path) is None
    assert find_inputs(find_rung(10), 4096, "sustained", live.code_hash, tmp_path) is None
    assert input_speeds("10_clusters", 4096, directory=tmp_path, live=False) == found


def test_without_a_recording_there_are_words(tmp_path) -> None:
    empty = input_speeds("10_clusters", 4096, directory=tmp_path, live=False)
    assert str(empty) == f"10_clusters, N=4096, burst: {MISSING}"
    with pytest.raises(ArgumentError, match="no measurement"):
        write_inputs(empty, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((10, 0), "size is 0"), ((10, 4100), "4,?100"), ((10, 4096, "fast"), "regime 'fast'"), (("11",), "rung '11'")],
)
def test_wrong_arguments_are_named(arguments, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        input_speeds(*arguments, live=False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["inputs"].pop(), "inputs lacks some"),
        (lambda data: data["inputs"].reverse(), "inputs lacks some"),
        (lambda data: data["inputs"][0].update(inputs="ones"), "inputs"),
        (lambda data: data["inputs"][0].update(mhz=-1), "mhz is -1"),
        (lambda data: data["inputs"][0].update(kernel_ms=[]), "inputs lacks some"),
        (lambda data: data.update(code_hash="x"), "code_hash"),
    ],
)
def test_a_damaged_record_is_named(live, tmp_path, change, words) -> None:
    path = write_inputs(live, tmp_path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=f"10_clusters_4096_burst.json: .*{words}"):
        find_inputs(find_rung(10), 4096, "burst", directory=tmp_path)


class FakeBench:
    alone = staticmethod(nullcontext)

    def __init__(self, wrong=None) -> None:
        self.timer, self.verified, self.wrong = FakeTimer(lambda launch: launch.ms), [], wrong

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def require_verified(self, kernel):
        self.verified.append(kernel.rung.name)


def fake_kernel(wrong=""):
    def prepared(A, B, C):
        a = A.astype(np.float32)
        inputs = "zeros" if not a.any() else "N(0,1)" if a.min() < 0 else "uniform in [0, 1)"

        def launch():
            C[...] = (a @ B.astype(np.float32) + (inputs == wrong)).astype(C.dtype)

        launch.inputs, launch.ms = inputs, {"zeros": 0.1, "uniform in [0, 1)": 0.2, "N(0,1)": 0.3}[inputs]
        return launch

    return SimpleNamespace(rung=find_rung(10), prepared=prepared)


@pytest.fixture
def on_the_cpu(monkeypatch):
    bench, clocks = FakeBench(), []
    matrix, empty = module.input_matrix, module.empty_matrix
    monkeypatch.setattr(module, "Bench", lambda: bench)
    monkeypatch.setattr(module, "input_matrix", lambda inputs, r, c, seed, _: matrix(inputs, r, c, seed, "emulator"))
    monkeypatch.setattr(module, "empty_matrix", lambda rows, columns, _: empty(rows, columns, "emulator"))
    monkeypatch.setattr(gpu, "synchronize", lambda: None)
    monkeypatch.setattr(module, "held_mhz", lambda *arguments: clocks.append(arguments[3]) or 1700.0)
    return bench, clocks


def test_the_inputs_take_turns_and_each_has_its_own_times(on_the_cpu) -> None:
    bench, clocks = on_the_cpu
    found = module.measure_inputs(fake_kernel(), 64, "burst")
    assert [(item.inputs, item.kernel_ms, item.mhz) for item in found] == [
        (inputs, (ms,) * 5, 1700.0) for inputs, ms in zip(INPUTS, (0.1, 0.2, 0.3), strict=True)
    ]
    timed = [launch.inputs for launch, _, rest_s, _ in bench.timer.calls if rest_s == 1.0]
    assert timed[:6] == [*INPUTS, *INPUTS[::-1]] and len(timed) == 15 and bench.verified == ["10_clusters"]
    assert clocks == ["burst"] * 3
    found = module.measure_inputs(fake_kernel(), 64, "sustained")
    assert [item.kernel_ms for item in found] == [(1.1 * ms,) * 3 for ms in (0.1, 0.2, 0.3)], "the median of a turn"


@pytest.mark.parametrize("inputs", INPUTS)
def test_a_kernel_that_is_wrong_on_some_inputs_is_not_timed(on_the_cpu, inputs) -> None:
    bench, _ = on_the_cpu
    with pytest.raises(BenchmarkRefused, match="before it was timed"):
        module.measure_inputs(fake_kernel(wrong=inputs), 64, "burst")
    assert bench.timer.calls == []


def test_records_in_the_tree_are_valid_and_of_the_current_code() -> None:
    """Measure again with `python -m helpers.input_speeds` what this names."""
    paths = sorted(RECORD_DIR.glob("*/inputs/*.json"))
    found = [module.from_json(json.loads(path.read_text()), path) for path in paths]
    stale = [f"{item.rung} {item.n}" for item in found if load(item.rung, "emulator").code_hash != item.code_hash]
    assert not stale, f"measure again: {', '.join(stale)}"


def test_the_command_needs_a_gpu(capsys, monkeypatch) -> None:
    monkeypatch.setattr(module, "load", lambda rung: SimpleNamespace(backend="emulator"))
    assert module.main([]) == 1
    assert capsys.readouterr().err == (
        "The inputs of 10_clusters can only be measured on a GPU that runs it: find one.\n"
    )
