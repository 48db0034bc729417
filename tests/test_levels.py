"""Bytes at three levels against what ncu counted on an H200 and what the emulator counts; and their picture."""


import pytest
from picture_checks import require_drawn

from helpers import emulate
from helpers.errors import ArgumentError
from helpers.kernel import load
from helpers.models.k_walk import hbm_read
from helpers.models.levels import CTAS_PER_SM, HBM, L2, SHARED, level_bytes
from helpers.models.machine import H100_PCIE
from helpers.models.waves import occupancy
from helpers.plots.roofline import level_rooflines
from helpers.profile import find_profile
from helpers.rungs import RUNGS, find_rung
from helpers.tile_order import tile_order

STORED = 2 * 1024**3 // 32 // 32   # rung 2: the model leaves out two stores of a warp for each 32 of its multiply-adds
BY_TMA = 8 * 4 * 16 * (128 + 256) * 64 * 2 // 128   # rung 5: ncu leaves out TMA's writes; CTAs x steps x bytes
COUNTED = [(2, STORED, 0), (3, 0, 0), (4, 0, 0), (5, 0, BY_TMA), (6, 0, 0)]


@pytest.mark.parametrize(("number", "left_out", "uncounted"), COUNTED)
def test_shared_memory_as_ncu_counted_it_on_an_h200(number, left_out, uncounted):
    counted = find_profile(find_rung(number)).launch(1024, 1024, 1024).counters["shared_wavefronts"]
    wavefronts = level_bytes(number, 1024, 1024, 1024).bytes_at[SHARED] / 128
    assert wavefronts + left_out == pytest.approx(counted + uncounted, rel=1e-9)


def test_l1_answers_what_rung_1_does_not_ask_of_l2():
    counters = find_profile(find_rung(1)).launch(1024, 1024, 1024).counters
    counted = 32 * (counters["l2_read_sectors"] + counters["l2_write_sectors"])
    assert level_bytes(1, 1024, 1024, 1024).bytes_at[L2] == pytest.approx(counted, rel=0.06)


@pytest.mark.parametrize("number", [2, 3, 5, 6, 7, 10, "appendix_fitted_tiles", "appendix_partitions"])
def test_l2_as_the_emulator_counts_it(number):
    rung = find_rung(number)
    m, n, k = 2 * rung.tile[0], 2 * rung.tile[1], 128
    totals = emulate(rung, (m, n, k)).run.totals
    sectors = totals["global_load_sectors"] + totals["global_store_sectors"]
    lists = 32 * totals["global_load_sectors"] if rung.order else 0           # which are none of A, B, C,
    drawn = 32 * totals["global_store_sectors"] if rung.partitions else 0     # nor are the numbers of clusters
    counted = 32 * sectors - lists - drawn + totals.get("tma_load_bytes", 0) + totals.get("tma_store_bytes", 0)
    assert counted == pytest.approx(level_bytes(number, m, n, k).bytes_at[L2], rel=1e-9)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_ctas_of_an_sm_are_those_of_the_compiled_kernel(rung):
    report = load(rung, "emulator").report
    shared = max(rung.shared_bytes, report.static_shared_bytes)
    fit = occupancy(report.registers, rung.block[0], shared)
    assert fit.ctas_per_sm == CTAS_PER_SM.get(rung.number, 1)


def test_hbm():
    small = [level_bytes(rung, 1024, 1024, 1024) for rung in RUNGS]
    for moved in small:   # all fits into L2: A, B and C once
        assert moved.bytes_at[HBM] == 3 * 2 * 1024**2
    rows, curve, clusters = (level_bytes(number, 8192, 8192, 8192).bytes_at[HBM] for number in (7, 8, 10))
    assert rows > 1.5 * curve > 1.5 * clusters
    walk = hbm_read(tile_order("grouped", 32, 32), 8192, True)
    assert clusters == walk + 2 * 8192**2
    smaller = level_bytes(7, 8192, 8192, 8192, H100_PCIE).bytes_at[HBM]   # fewer SMs, less L2
    assert smaller != rows


def test_in_words_and_refusals():
    assert "17.3 GB at L2 (63.5 FLOP per byte)" in str(level_bytes(6, 8192, 8192, 8192))
    with pytest.raises(ArgumentError, match="level is 'L3'"):
        level_bytes(1).intensity("L3")


SPEEDS = [5.4, 9, 28.3, 36.8, 39.6, 691, 746, 760, 781, 804]
POINTS = [(level_bytes(rung), speed) for rung, speed in zip(RUNGS, SPEEDS, strict=True)]
DRAWN = {
    "all": (lambda: level_rooflines(POINTS), "10_clusters 804, 1,170, 124, 51.2."),
    "none": (lambda: level_rooflines([]), "No rungs."),
    "measured": (lambda: level_rooflines(POINTS[:3], measured={"L2": 7e12}, title="Three"), "L2 7 TB/s (measured)"),
    "another GPU": (lambda: level_rooflines([(level_bytes(7, gpu=H100_PCIE), 400)], H100_PCIE), "H100 PCIe"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures(name):
    require_drawn(*DRAWN[name])
