"""Kernels side by side: recordings where there are some, words where there are none."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

import helpers.speeds
from helpers.errors import ArgumentError, NoRecording
from helpers.kernel import load
from helpers.records import Samples, find_record
from helpers.speeds import MISSING, Speeds, speeds

RECORD = find_record(1, 4096, 4096, 4096)


@pytest.fixture
def recordings(monkeypatch):
    """Rung 1 is recorded, nothing else."""

    def recorded(kernel, size, regime):
        if kernel.rung.number != 1:
            raise NoRecording("none")
        return RECORD

    monkeypatch.setattr(helpers.speeds, "recorded", recorded)
    return lambda: speeds({"naive": load(1, "emulator"), "tiled": load(2, "emulator")})


def test_a_missing_recording_is_said_and_no_error(recordings):
    table = recordings()
    first, second = str(table).splitlines()
    assert first.startswith("naive  ") and "TFLOP/s (quartiles" in first and "recorded on NVIDIA H200" in first
    assert second == f"tiled  {MISSING}"
    assert table.found == [RECORD] and table["tiled"] is None
    assert table.tflops("naive") == RECORD.tflops and table.tflops("tiled") is None
    assert table.origin("naive") == "recorded on NVIDIA H200" and table.origin("tiled") == MISSING
    assert table.factor("tiled", "naive") == f"tiled / naive: {MISSING}"


def test_factors_are_of_the_medians():
    half = replace(RECORD, m=2048)   # half the work in the same time
    table = Speeds({"whole": RECORD, "half": half})
    assert table.factor("half", "whole") == "half / whole: 0.500"


def test_figures_of_different_rounds_are_compared_through_cublas_too():
    slower_day = replace(RECORD, samples=Samples(
        tuple(tuple(2.2 * ms for ms in turn) for turn in RECORD.samples.kernel_ms),
        tuple(tuple(1.1 * ms for ms in turn) for turn in RECORD.samples.cublas_ms),
    ))
    table = Speeds({"whole": RECORD, "half": slower_day})
    assert table.factor("half", "whole") == "half / whole: 0.455 (other rounds; by the ratios to cuBLAS 0.500)"


def test_a_live_figure_has_no_factor_over_the_recording_of_another_card():
    other = replace(RECORD, device=replace(RECORD.device, name="NVIDIA L4"), source="live")
    table = Speeds({"mine": other, "theirs": RECORD})
    words = "not to be compared, live on NVIDIA L4 and recorded on NVIDIA H200"
    assert table.factor("mine", "theirs") == f"mine / theirs: {words}"
    again = Speeds({"mine": replace(RECORD, source="live"), "theirs": RECORD})
    assert again.factor("mine", "theirs") == "mine / theirs: 1.000"


def test_wrong_labels_and_empty_tables_are_refused(recordings):
    with pytest.raises(ArgumentError, match="label 'TILED' .* naive, tiled"):
        recordings().tflops("TILED")
    with pytest.raises(ArgumentError, match="kernels is empty"):
        speeds({})


def test_on_a_gpu_all_are_measured_in_the_same_rounds(monkeypatch, recordings):
    calls = []

    def measure_together(bench, kernels, size, regime, rounds):
        calls.append((len(kernels), size, regime, rounds))
        return [replace(RECORD, source="live")] * len(kernels)

    monkeypatch.setattr(helpers.speeds, "measure_together", measure_together)
    monkeypatch.setattr(helpers.speeds, "Bench", nullcontext)
    first, second = load(1, "emulator"), load(2, "emulator")
    monkeypatch.setattr(type(first), "backend", "cuda")
    table = speeds({"first": first, "second": second}, 4096)
    assert calls == [(2, (4096, 4096, 4096), "burst", 9)]
    assert table.origin("second") == "live on NVIDIA H200"
    table = speeds({"first": first, "second": second}, 4096, live=False)
    assert len(calls) == 1 and table.origin("first") == "recorded on NVIDIA H200" and table["second"] is None


def test_sizes_and_regimes_are_checked(recordings):
    with pytest.raises(ArgumentError, match="size"):
        speeds({"naive": load(1, "emulator")}, 0)
    with pytest.raises(ArgumentError, match="regime 'fast'"):
        speeds({"naive": load(1, "emulator")}, regime="fast")
