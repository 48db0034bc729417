"""Rung 10's notebook: models and pictures against the kernel on the emulator; the roof; the records of the roof."""

from dataclasses import replace

import numpy as np
import pytest
from picture_checks import require_legible

from helpers import emulate
from helpers.device import Bandwidth
from helpers.emulator import compile_kernel
from helpers.errors import ArgumentError
from helpers.exercises.nb10 import other_address
from helpers.held_clock import Clocked
from helpers.kernel import load
from helpers.models.banks import warp_wavefronts
from helpers.models.clusters import cluster_step, shared_budget
from helpers.models.k_walk import CLUSTER_TILE, hbm_read
from helpers.models.l2 import l2_traffic
from helpers.models.stmatrix import STORES, row_and_chunk, stmatrix_address, stmatrix_addresses
from helpers.nvml import Telemetry
from helpers.plots.clusters import cluster_bars, memory_bars, stmatrix_map, tile_chart
from helpers.plots.roof import energy_bars, flop_energies, roof_chart
from helpers.records import find_record
from helpers.roof import SHARED_BYTES, SOURCE, STEP_FLOP, Roofs, roof_words, steps_like, timed
from helpers.rungs import find_rung
from helpers.sass import inner_loop, opcode_counts
from helpers.tile_events import tile_events
from helpers.tile_order import grouped, row_major
from helpers.timing import Burst, Turn
from helpers.variants import variant
from helpers.yardsticks import Roof, Yardsticks

RUNG = find_rung(10)
ROOFS = (
    Roof(8192, "burst", "N(0,1)", 936.0, 1751.0, None),
    Roof(8192, "burst", "zeros", 969.0, 1800.0, None),
    Roof(8192, "sustained", "N(0,1)", 841.0, 1590.0, 690.0),
)


# What a cluster shares


@pytest.mark.compiler
@pytest.mark.parametrize("multicast", [0, 1])
def test_the_emulator_counts_the_bytes_and_arrivals_of_the_model(multicast):
    steps = 5
    run = emulate(RUNG, (256, 256, 64 * steps), defines={"MULTICAST": multicast}).run
    model = cluster_step(2 if multicast else 1)
    assert run.totals["tma_load_bytes"] == 2 * steps * model.fetched
    assert run.totals["tma_multicast_bytes_saved"] == 2 * steps * (model.landed - model.fetched)
    assert run.totals["mbarrier_arrivals"] == 2 * steps * (1 + model.empty_arrivals)


def test_shapes_of_clusters():
    found = [(step.name, step.bytes_per_clock, step.readers) for step in map(cluster_step, (1, 2, 1, 2), (1, 1, 2, 2))]
    assert found == [("no cluster", 48, 1), ("2 x 1", 32, 2), ("1 x 2", 40, 2), ("2 x 2", 24, 3)]
    with pytest.raises(ArgumentError, match="rows is 0"):
        cluster_step(0)
    with pytest.raises(ArgumentError, match="cannot be split"):
        cluster_step(3)


def test_the_budget_is_that_of_the_rung():
    budget = shared_budget()
    assert budget.total == RUNG.shared_bytes and budget.free == 3008
    assert shared_budget(4, 4).free < 0 < shared_budget(3, 4).free and shared_budget(5, 0).free < 0
    with pytest.raises(ArgumentError, match="stages is -1"):
        shared_budget(-1)


@pytest.mark.parametrize("order", [row_major, grouped])
@pytest.mark.parametrize("n", [4096, 8192])
def test_bytes_from_hbm_agree_with_the_model_of_notebook_8_and_turning_saves_some(order, n):
    tiles = order(n // 256, n // 256)
    forwards, turning = (hbm_read(tiles, n, backwards) for backwards in (False, True))
    assert forwards == l2_traffic(tiles, n, n, n, ctas=64, tile=CLUSTER_TILE).hbm_read
    assert 2 * 2 * n * n <= turning <= forwards and (turning < forwards) == (n == 8192)


# stmatrix, and the order of the stores


@pytest.mark.compiler
def test_the_kernel_gives_stmatrix_the_addresses_of_the_model_and_stores_a_quarter_at_each_step():
    log = tile_events(steps=5, tiles=2)
    model = [[stmatrix_address(thread, store) for thread in range(128)] for store in range(STORES)]
    assert np.array_equal(log.addresses, model)
    loads = [(action.tile, action.value) for action in log.actions("producer")]
    assert loads == [(0, k) for k in range(5)] + [(1, k) for k in (4, 3, 2, 1, 0)]
    told = " ".join(f"{action.kind[0]}{action.tile}.{action.value}" for action in log.actions("consumer 2"))
    assert told.endswith("m0.4 m1.0 s0.0 m1.1 s0.1 m1.2 s0.2 m1.3 s0.3 m1.4 s1.0 s1.1 s1.2 s1.3")
    at_once = [action.kind for action in tile_events(5, 2, {"OVERLAP": 0}).actions("consumer 1")]
    assert at_once == 2 * (5 * ["multiply"] + 4 * ["store"])
    with pytest.raises(ArgumentError, match="steps is 33"):
        tile_events(33)


def test_stmatrix_has_no_conflicts_with_the_swizzle_and_eightfold_ones_without():
    for store in range(STORES):
        assert warp_wavefronts(stmatrix_addresses(store), 16, "store").count == 4
        assert warp_wavefronts(stmatrix_addresses(store, mode="none"), 16, "store").count == 32
    assert row_and_chunk(33, 1) == (17, 2)
    with pytest.raises(ArgumentError, match="thread is 128"):
        stmatrix_address(128, 0)


@pytest.mark.compiler
def test_the_other_arrangement_of_matrices_is_right_too():
    """Exercise 10.2: the kernel with its reference's addresses, and the registers in the order that it names."""
    other = variant(
        10,
        ("thread / 32 * 16 + thread % 16, chunk = thread % 32 / 16;",
         "thread / 32 * 16 + thread % 32 / 16 * 8 + thread % 8, chunk = thread % 16 / 8;"),
        ("pairs[0], pairs[1], pairs[2], pairs[3]);", "pairs[0], pairs[2], pairs[1], pairs[3]);"),
        name="other_matrices",
    )
    result = emulate(10, (256, 256, 64), file=other)
    assert result.verification.passed and result.run.reports == []
    shared = [counter for counter in result.run.counters if counter.space == "shared"]
    assert [counter.wavefronts_per_request for counter in shared] == [4.0]
    assert {other_address(thread, store) for thread in range(128) for store in range(4)} == set(range(0, 8192, 16))


def test_a_release_at_cluster_scope_flushes_in_the_loop():
    release = variant(10, ("mbarrier_arrive_cluster(&shared", "mbarrier_arrive_release_cluster(&shared"), name="scope")
    kernels = [load(10, "emulator"), load(10, "emulator", file=release)]
    counts = [opcode_counts(inner_loop(kernel.sass, "HGMMA"))["MEMBAR"] for kernel in kernels]
    assert counts[0] == 0 < counts[1]


# The roof


class OneSpeed:
    """A timer that needs no GPU."""

    def burst(self, launch, launches, rest_s, spin_ms):
        launch()
        return Burst(0.5, None, 0.1, Telemetry(power_w=100.0))

    def turn(self, launch, seconds, drop_s, chunk_launches):
        launch()
        readings = tuple(Telemetry(power_w=watts) for watts in (300.0, 690.0, 692.0))
        return Turn((0.6, 0.7, 0.8), (), readings, seconds)


def test_how_the_roof_is_timed():
    calls = []
    ms, telemetry = timed(OneSpeed(), lambda: calls.append(1), "burst")
    assert ms == 0.5 and len(telemetry) == 3 and len(calls) == 4
    ms, telemetry = timed(OneSpeed(), lambda: calls.append(1), "sustained")
    assert ms == 0.7 and [reading.power_w for reading in telemetry] == [690.0, 692.0]
    with pytest.raises(ArgumentError, match="regime 'fast'"):
        timed(OneSpeed(), lambda: None, "fast")


@pytest.mark.compiler
def test_the_probe_multiplies_what_it_says():
    module = compile_kernel(SOURCE, ("wgmma_roof",), {}, counters=True)
    values = np.full(SHARED_BYTES // 4, 0x3F803F80, np.uint32).reshape(-1, 4)   # ones, two a word
    out, log = np.zeros(2 * 256, np.float32), np.zeros(8, np.uint64)
    for steps, summed in ((3, 3), (66, 2)):   # the sums begin anew after 64 steps
        run = module.launch("wgmma_roof", (2,), (256,), (values, out, log, steps), shared_bytes=SHARED_BYTES)
        assert run.reports == [] and set(out.tolist()) == {128.0 * 64 * summed}
        assert run.totals["wgmma_flops"] == 2 * steps * STEP_FLOP
    assert steps_like(4096, 132) == 248 and steps_like(1, 132) == 1


def test_roofs_are_found_and_told():
    roofs = Roofs("NVIDIA H200", "recorded", "2026-11-29T12:00:00Z", ROOFS)
    assert roofs.find(8192, "burst").tflops == 936 and roofs.find(4096, "burst") is None
    assert roof_words(ROOFS[2]).endswith("841 TFLOP/s at 1,590 MHz, 690 W")
    assert str(roofs).count("\n") == 3 and str(replace(roofs, items=())) == "wgmma alone: no recording"
    assert Yardsticks(None, Bandwidth(1.0, 1, (1.0,)), None, "").roofs == ()


# Pictures


def measured():
    burst = find_record(10, 4096, 4096, 4096)
    return burst, replace(burst, regime="sustained", power_w=690.0)


PICTURES = {   # name: (draws it, what its alt text must say)
    "clusters": (lambda: cluster_bars([cluster_step(), cluster_step(2)]),
                 ["no cluster: A 16 and B 32, together 48; 2 x 1: A 16 and B 16, together 32"]),
    "memory": (lambda: memory_bars([shared_budget(3, 4), shared_budget(4, 4), shared_budget()]),
               ["262,208 of 232,448 bytes, 29,760 too many", "3,008 left"]),
    "stmatrix": (lambda: stmatrix_map({"yes": stmatrix_addresses(1), "no": stmatrix_addresses(1, mode="none")}),
                 ["yes: lanes 0 to 7 address the banks from 8, 12, 0", "no: lanes 0 to 7 address the banks from 8, 8"]),
    "roof": (lambda: roof_chart([Clocked(measured()[0], 1634.0)], ROOFS),
             ["1,071 at 1.98 GHz", "alone, like N=8192, burst: 936 at 1.75 GHz: 99%", "10_clusters, N=4096"]),
    "no roof": (lambda: roof_chart([], []), ["No recording for this code"]),
    "energy": (lambda: energy_bars(flop_energies(measured(), ROOFS)),
               ["wgmma alone 0.82 pJ a FLOP, 690 W at 841 TFLOP/s"]),
    "no energy": (lambda: energy_bars(flop_energies([], [])), ["no recording for this code"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


@pytest.mark.compiler
def test_picture_of_tiles():
    logs = {"consumer 1": tile_events(5, 2), "... OVERLAP=0": tile_events(5, 2, {"OVERLAP": 0})}
    said = ["load steps 0 to 4 of tile 0, load steps 4 to 0 of tile 1;",
            "multiply step 4 of tile 1, store quarter 0 of tile 0", "store quarters 0 to 3 of tile 1."]
    require_legible(lambda: tile_chart(logs), said)


@pytest.mark.parametrize(
    "draw, words",
    [
        (lambda: stmatrix_map({}), "boxes are 0"),
        (lambda: stmatrix_map({"far": 64 * stmatrix_addresses()}), "reach to"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, words):
    with pytest.raises(ArgumentError, match=words):
        draw()
