"""The ring of rung 7: its model against the kernel on the emulator, registers, and the pictures of both."""

from dataclasses import replace

import numpy as np
import pytest
from picture_checks import require_legible

from helpers import held_clock
from helpers.errors import ArgumentError, BackendError, RecordError
from helpers.held_clock import (
    Clocked,
    HeldClock,
    clock_of,
    clock_path,
    clocked_kernel,
    clocked_text,
    recorded_clocks,
    with_clocks,
    write_clocks,
)
from helpers.kernel import load as load_kernel
from helpers.kernel import random_matrix
from helpers.models.pipeline import PRODUCER, TMA, Costs, Place, place, play_ring
from helpers.models.registers import RegisterSplit, most_at_launch, sums_per_thread
from helpers.plots.clocks import peak_over_clock, tensor_peak
from helpers.plots.pipeline import ring_chart, ring_timeline
from helpers.plots.registers import register_bars
from helpers.plots.roof import roof_chart
from helpers.records import REGIMES, find_record
from helpers.ring_events import ring_events
from helpers.rungs import RUNGS

COSTS = Costs(latency=800, load=768, multiply=512)
WHO = (PRODUCER, "consumer 1", "consumer 2")
SPLIT = RegisterSplit(168, {"producer": 40, "consumer 1": 232, "consumer 2": 232})


# The model


def test_a_ring_has_one_phase_a_round():
    assert [place(step, 3) for step in (0, 2, 3, 5, 6)] == [
        Place(0, 0), Place(2, 0), Place(0, 1), Place(2, 1), Place(0, 0),
    ]


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 17])
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("consumers", [1, 2])
def test_a_ring_keeps_order(steps, stages, consumers):
    ring = play_ring(steps, stages, COSTS, consumers)
    loads = [work for work in ring.work if work.who == TMA]
    assert [work.step for work in loads] == list(range(steps))
    for number in range(1, consumers + 1):
        own = [work for work in ring.work if work.who == f"consumer {number}"]
        assert [work.step for work in own] == list(range(steps))
        for load, work in zip(loads, own, strict=True):
            assert work.begin >= load.end            # multiplied once it has landed
        for load, work in zip(loads[stages:], own, strict=False):
            assert load.begin >= work.end + COSTS.latency   # loaded again once it was read
    tensor = sorted((work.begin, work.end) for work in ring.work if work.who != TMA)
    assert all(before[1] <= after[0] for before, after in zip(tensor, tensor[1:], strict=False))


def test_one_stage_by_hand():
    ring = play_ring(2, 1, COSTS)
    step = COSTS.latency + COSTS.load + 2 * COSTS.multiply
    assert ring.end == 2 * step
    assert ring.busy == pytest.approx(2 * COSTS.multiply / step)
    assert [(wait.begin, wait.end) for wait in ring.waits if wait.who == PRODUCER] == [(0, 0), (0, step)]


def test_more_stages_never_cost_and_stop_to_help():
    ends = [play_ring(64, stages, COSTS).end for stages in range(1, 7)]
    assert ends == sorted(ends, reverse=True)
    assert ends[2] == ends[5] < ends[1]   # three stages cover 800 + 768 clocks of a load behind 1,024 of multiplying


def test_bad_numbers_are_refused():
    with pytest.raises(ArgumentError, match="stages is 0"):
        play_ring(1, 0, COSTS)
    with pytest.raises(ArgumentError, match="load is -1"):
        Costs(1, -1, 1)


# The model against the kernel


@pytest.mark.compiler
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("lazy", 0), ("random", 1)])
def test_the_kernel_waits_as_the_model_does(stages, schedule, seed):
    log, ring = ring_events(7, stages, schedule, seed), play_ring(7, stages, COSTS)
    for who in WHO:
        assert log.waits_of(who) == ring.waits_of(who)
    assert log.totals["mbarrier_waits"] == ring.wait_calls
    assert log.totals["mbarrier_arrivals"] == ring.arrivals
    arrivals = [event for event in log.events if event.what == "arrive"]
    assert len(arrivals) == 7 * 8 == ring.arrivals - 7


def test_a_log_of_what_cannot_run_is_refused():
    for arguments, words in (((0, 1), "steps"), ((65, 1), "steps is 65"), ((1, 5), "stages is 5"),
                             ((1, 1, "slow"), "schedule 'slow'")):
        with pytest.raises(ArgumentError, match=words):
            ring_events(*arguments)


# Registers


def test_registers_of_rung_7():
    assert most_at_launch(384) == 168
    assert SPLIT.fits and SPLIT.used == SPLIT.pool == 64_512
    assert "fits" in str(SPLIT)
    assert sums_per_thread(128, 256, 256) == 128 and sums_per_thread(128, 256, 128) == 256
    assert not RegisterSplit(168, {"producer": 40, "consumer 1": 240, "consumer 2": 240}).fits
    with pytest.raises(ArgumentError, match="multiple of 8"):
        RegisterSplit(168, {"producer": 42})


# Pictures


def clocked(regime: str, clock: float | None) -> Clocked:
    """A recording of rung 7 with a clock."""
    return Clocked(replace(find_record(7, 4096, 4096, 4096), regime=regime), clock)


# Clocks


def test_the_peak_follows_the_clock():
    assert tensor_peak(1980) == pytest.approx(1070.5, abs=0.1)
    item = clocked("burst", 1600.0)
    assert item.share == pytest.approx(item.measurement.tflops / 865.1, rel=1e-3)
    assert "of the peak at that clock" in str(item)
    assert clocked("burst", None).share is None and "not recorded" in str(clocked("burst", None))


def test_the_clock_is_cycles_over_nanoseconds():
    noted = np.zeros(4 * 5, np.uint64)
    noted[:8] = [10**12, 5 * 10**17, 1600, 1000, 7, 9, 3400, 2000]
    assert clock_of(noted) == pytest.approx(5000 * 1e3 / 3000)
    with pytest.raises(BackendError, match="No CTA"):
        clock_of(np.zeros(8, np.uint64))
    with pytest.raises(ArgumentError, match="regime 'fast'"):
        held_clock.measure_clock(7, 4096, "fast")


@pytest.mark.parametrize("rung", RUNGS[5:], ids=lambda rung: rung.name)
def test_every_tensor_core_kernel_takes_the_notes(rung):
    text = clocked_text(rung.path.read_text(encoding="utf-8"))
    assert text.count("note_begin(clocks") == text.count("note_end(clocks") == 1
    assert text.index("int K, unsigned long long* clocks") < text.index("note_begin(clocks")
    assert text.rstrip().endswith("gridDim.x + blockIdx.x));\n}")
    with pytest.raises(BackendError, match="form"):
        clocked_text("nothing")


def test_clocks_are_kept_by_code(tmp_path):
    record = find_record(7, 4096, 4096, 4096)
    right = HeldClock(record.rung, record.code_hash, 4096, "burst", 1612.3, "2026-11-29T12:00:00Z")
    other = replace(right, n=8192, code_hash="0" * 16)
    assert recorded_clocks(record.device.slug, tmp_path) == ()
    write_clocks(record.device, [right, other], tmp_path)
    write_clocks(record.device, [replace(other, mhz=1500.0)], tmp_path)
    assert [clock.mhz for clock in recorded_clocks(record.device.slug, tmp_path)] == [1612.3, 1500.0]
    large = replace(record, m=8192, n=8192, k=8192)
    assert [item.mhz for item in with_clocks([record, large], tmp_path)] == [1612.3, None]
    clock_path(record.device.slug, tmp_path).write_text('{"schema": "hopper-matmul/held-clock/1"}')
    with pytest.raises(RecordError, match="device"):
        recorded_clocks(record.device.slug, tmp_path)


def test_a_clock_is_only_that_of_the_same_product_and_code(monkeypatch):
    record = find_record(7, 4096, 4096, 4096)
    live = replace(record, source="live")
    other = [replace(record, m=512), replace(live, m=512), replace(live, code_hash="0" * 16)]
    clock = HeldClock(record.rung, record.code_hash, 4096, "burst", 1600.0, record.date)
    monkeypatch.setattr(held_clock, "measure_clock", lambda rung, n, regime: clock)
    assert [item.mhz for item in with_clocks([live, *other])] == [1600.0, None, None, None]


def test_clocks_measured_before_ctrl_c_are_kept(tmp_path, monkeypatch, capsys):
    record, asked = find_record(7, 4096, 4096, 4096), []

    def measure_clock(rung, n, regime, timer):
        asked.append(n)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return HeldClock(rung.name, "0" * 16, n, regime, 1600.0, "2026-11-29T12:00:00Z")

    monkeypatch.setattr(held_clock, "measure_clock", measure_clock)
    monkeypatch.setattr(held_clock, "CudaTimer", lambda: None)
    monkeypatch.setattr(held_clock.device, "device_info", lambda: record.device)
    assert held_clock.main(["7", "8", "--sizes", "4096", "--output", str(tmp_path)]) == 130
    found = recorded_clocks(record.device.slug, tmp_path)
    assert {(clock.rung, clock.regime) for clock in found} == {("07_pipelining", regime) for regime in REGIMES}
    assert capsys.readouterr().err == "Interrupted.\n"


PICTURES = {
    "chart": (lambda: ring_chart(ring_events(5, 2, "random", 1)),
              ["70 events, 2 stages", "The producer waits for empty[0] with parity 0", "Consumer 2 waits for full[0]"]),
    "chart, lazy": (lambda: ring_chart(ring_events(7, 4)), ["4 stages", "empty[2] with parity 0"]),
    "chart, one stage": (lambda: ring_chart(ring_events(3, 1)), ["1 stage."]),
    "timeline": (lambda: ring_timeline([play_ring(8, stages, COSTS) for stages in (1, 2, 4)]),
                 ["1 stage: done after 20,736 clocks", "4 stages: done after 9,760 clocks, tensor cores busy 84%"]),
    "timeline, one consumer": (lambda: ring_timeline([play_ring(3, 2, COSTS, 1)], title="One"), ["One. 2 stages"]),
    "registers": (lambda: register_bars(SPLIT, 128), ["after setmaxnreg: producer 128 x 40", "65,536"]),
    "registers, no sums": (lambda: register_bars(SPLIT), ["at launch: producer 128 x 168"]),
    "clocks": (lambda: peak_over_clock([clocked("burst", 1650.0), clocked("sustained", 1400.0)]),
               ["1,071 at 1.98 GHz", "989 at 1.83 GHz", "07, N=4096, sustained, recorded: "]),
    "clocks, none": (lambda: peak_over_clock([clocked("burst", None)]), ["No measurements with a clock."]),
}


@pytest.mark.parametrize("consumers", [1, 2, 3, 7])
def test_every_warpgroup_has_its_bar(consumers):
    names = {"producer": 24} | {f"c{index}": 64 for index in range(consumers)}
    (axes,) = register_bars(RegisterSplit(56, names)).axes
    assert len(axes.patches) == 2 * len(names)
    with pytest.raises(ArgumentError, match="split.after has 9 items"):
        register_bars(RegisterSplit(56, dict.fromkeys("abcdefghi", 56)))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.compiler) if name.startswith("chart") else name for name in PICTURES]
)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


def test_the_clocked_kernel_gets_its_array_however_it_is_launched(monkeypatch):
    passed = []
    own = load_kernel(7, "emulator")
    monkeypatch.setattr(type(own._implementation), "compile", lambda self, kernel: None)
    monkeypatch.setattr(type(own._implementation), "launch", lambda self, *launch: passed.append(launch[4]))
    clocks = np.zeros(4, np.uint64)
    kernel = clocked_kernel(own, clocks)
    A, B, C = (random_matrix(64, 64, seed, "emulator") for seed in range(3))
    kernel(A, B)
    kernel.prepared(A, B, C)()
    kernel.launch((1,), (384,), (A, B, C))
    assert [arguments[-1] is clocks for arguments in passed] == [True] * 3
    assert [len(arguments) for arguments in passed] == [7, 7, 4]


def test_the_peak_is_that_of_the_gpu_measured():
    pcie = {"name": "NVIDIA H100 PCIe", "sm_count": 114, "max_clock_mhz": 1755.0, "memory_bytes": 85_000_000_000}
    record = find_record(7, 4096, 4096, 4096)
    other = Clocked(replace(record, device=replace(record.device, **pcie)), 1500.0)
    for picture in (peak_over_clock([other]), roof_chart([other], ())):
        assert "114 SMs" in picture.alt and "132" not in picture.alt
    assert "132 SMs" in peak_over_clock([]).alt, "the H200 of the recordings"
    unknown = replace(other, measurement=replace(record, device=replace(record.device, name="X", l2_bytes=None)))
    assert "132 SMs" in peak_over_clock([unknown]).alt
