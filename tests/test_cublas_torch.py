"""cuBLAS as called here beside torch.matmul: measured in turn on the same arrays, and no slower."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from fake_timer import FakeTimer

from helpers import cublas_torch as module
from helpers.benchmark import BenchmarkRefused
from helpers.cublas_torch import SIZES, Comparison, CublasTorch, compare, read_comparisons, write_comparisons
from helpers.device import Device
from helpers.errors import RecordError
from helpers.record_basics import RECORD_DIR

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)


def comparison(cublas_ms, torch_ms, n=4096):
    return Comparison(n, tuple(cublas_ms), tuple(torch_ms), {"rounds": len(cublas_ms)})


@pytest.mark.parametrize(
    ("cublas_ms", "torch_ms", "no_slower"),
    [
        ([1.0] * 9, [1.0] * 9, True),
        ([0.9] * 9, [1.0] * 9, True),                                      # faster is fine
        ([1.01] * 9, [1.0] * 9, False),                                    # slower in every round
        ([1.005, 1.01, 0.99] * 3, [1.0] * 9, True),                        # the interval contains 1
        ([1.01, 1.03, 1.05] * 3, [1.0, 1.02, 1.04] * 3, True),             # by less than both wander
        ([1.02] * 8 + [0.5], [1.0] * 9, False),                            # one lucky round proves nothing
    ],
)
def test_slower_means_beyond_the_common_spread(cublas_ms, torch_ms, no_slower) -> None:
    assert comparison(cublas_ms, torch_ms).no_slower is no_slower


def test_words() -> None:
    text = str(comparison([0.18] * 9, [0.1818] * 9))
    assert text == (
        "N=4096, burst: cuBLAS 764 TFLOP/s, torch.matmul 756, ratio 1.0100 (1.0100 to 1.0100), spread 0.00%: "
        "not slower than torch beyond it"
    )
    assert ": slower than torch beyond it" in str(comparison([1.01] * 9, [1.0] * 9))


def test_record_round_trip_and_damage(tmp_path) -> None:
    found = CublasTorch(
        H200, {"cublas": "13.1.0", "torch": "2.11.0"}, "2026-11-29T12:00:00Z",
        (comparison([0.18] * 9, [0.181] * 9), comparison([1.4] * 9, [1.5] * 9, 8192)),
    )
    path = write_comparisons(found, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "cublas_torch.json" and read_comparisons(path) == found
    data = json.loads(path.read_text())
    data["comparisons"][1]["torch_ms"].pop()
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"comparisons\[1\].torch_ms has 8 rounds, but it must be 9"):
        read_comparisons(path)


class FakePlan:
    algorithm = {"id": 66}
    closed = 0

    def __init__(self, A, B, C) -> None:
        self.A, self.B, self.C = A, B, C

    def __call__(self) -> None:
        self.C[...] = (self.A.astype(np.float32) @ self.B.astype(np.float32)).astype(self.C.dtype)

    def close(self) -> None:
        FakePlan.closed += 1


class FakeTorch:
    """torch on host memory. wrong: added to every product."""

    bfloat16 = ml_dtypes.bfloat16

    def __init__(self, wrong=0.0) -> None:
        self.wrong = wrong

    def from_dlpack(self, array):
        assert array.dtype == np.int16
        return array

    def matmul(self, a, b, out):
        out[...] = (a.astype(np.float32) @ b.astype(np.float32) + self.wrong).astype(out.dtype)


@pytest.fixture
def bench(monkeypatch):
    from helpers.arrays import empty_matrix, random_matrix

    monkeypatch.setattr(module, "empty_matrix", lambda rows, columns, _: empty_matrix(rows, columns, "emulator"))
    monkeypatch.setattr("helpers.gpu.synchronize", lambda: None)
    matrices = random_matrix(64, 64, 0, "emulator"), random_matrix(64, 64, 1, "emulator")
    return SimpleNamespace(
        timer=FakeTimer(lambda launch: 0.18 if isinstance(launch, FakePlan) else 0.19), alone=nullcontext,
        cublas=SimpleNamespace(plan=FakePlan), operands=lambda m, n, k, seed: matrices,
    )


def test_both_take_turns_on_the_same_arrays(bench) -> None:
    closed = FakePlan.closed
    found = compare(bench, 64, FakeTorch(), rounds=3)
    assert found.cublas_ms == (0.18,) * 3 and found.torch_ms == (0.19,) * 3 and found.no_slower
    timed = ["cuBLAS" if isinstance(call[0], FakePlan) else "torch" for call in bench.timer.calls if call[2]]
    assert timed == ["cuBLAS", "torch", "torch", "cuBLAS", "cuBLAS", "torch"]
    assert found.method["cublas_launches"] == found.method["torch_launches"] == 16
    assert "kernel_launches" not in found.method and found.method["cublas_algorithm"] == {"id": 66}
    assert FakePlan.closed == closed + 1


def test_a_wrong_product_gets_no_time(bench) -> None:
    with pytest.raises(BenchmarkRefused, match="torch.matmul gives a wrong result .*before it was timed"):
        compare(bench, 64, FakeTorch(wrong=1.0), rounds=1)
    assert bench.timer.calls == []


def test_the_command_needs_a_gpu_and_torch(monkeypatch, capsys) -> None:
    monkeypatch.setattr(module.device, "device_info", lambda: None)
    monkeypatch.setattr(module.device, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    assert module.main([]) == 1
    assert "can only be compared on a GPU: No NVIDIA driver" in capsys.readouterr().err
    monkeypatch.setattr(module.device, "device_info", lambda: H200)
    monkeypatch.setattr(module, "import_torch", lambda: None)
    assert module.main([]) == 1
    assert capsys.readouterr().err == "This Python has no torch: run this with one that has it, beside CuPy.\n"


def test_the_committed_record_says_no_slower() -> None:
    """The yardstick of every ratio: measured with `python -m helpers.cublas_torch`."""
    paths = sorted(RECORD_DIR.glob("*/cublas_torch.json"))
    if not paths:
        pytest.skip("cuBLAS and torch were not compared yet")
    for path in paths:
        found = read_comparisons(path)
        assert {item.n for item in found.comparisons} >= set(SIZES)
        for item in found.comparisons:
            assert len(item.cublas_ms) >= 9 and item.no_slower, str(item)
