"""Bound, measured, gap: the parts against counts by brute force, and their picture."""

import math
from dataclasses import replace

import pytest
from picture_checks import require_drawn

from helpers.errors import ArgumentError
from helpers.gaps import explain_gap, rounds
from helpers.held_clock import Clocked
from helpers.models.gap import Gap, Loss
from helpers.models.machine import H100_PCIE, H200, gpu_of
from helpers.models.persistence import Grid, grid_clocks, play_tiles
from helpers.models.predict import Bound, predict
from helpers.plots.gaps import gap_chart
from helpers.records import find_record, load_records
from helpers.rungs import APPENDIX, PARTITIONS, RUNGS


def recorded(number, n=4096, entry=None):
    return find_record(number, n, n, n, entry=entry)


def parts(gap):
    return {loss.name: loss for loss in gap.losses}


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("size", [(1024, 1024), (4096, 4096), (8192, 8192), (3072, 5632)])
@pytest.mark.parametrize("gpu", [H200, H100_PCIE], ids=lambda gpu: gpu.name)
def test_rounds_by_dealing_out_every_tile(rung, size, gpu):
    m, n = size
    ctas_per_sm = {1: 2, 2: 2, 6: 2}.get(rung.number, 1)
    tiles = math.ceil(m / rung.tile[0]) * math.ceil(n / rung.tile[1])
    if rung.persistent:   # CTA b takes tiles b, b + slots, ...
        slots = rung.grid(m, n, gpu.sm_count)[0]
        most = max(len(range(cta, tiles, slots)) for cta in range(slots))
    else:                 # as many as fit, then as many again
        slots, most, left = gpu.sm_count * ctas_per_sm, 0, tiles
        while left > 0:
            most, left = most + 1, left - slots
    assert rounds(rung, m, n, gpu) == (most, slots)


def test_the_parts_and_the_rest_make_the_whole_gap():
    for item in (recorded(rung.number) for rung in RUNGS):
        gap = explain_gap(Clocked(item, 1750.0))
        assert gap.bound.tflops * gap.explained * gap.rest == pytest.approx(item.tflops)
        assert gap.share == pytest.approx(predict(item.rung, entry=item.entry).gap(item.tflops))


def test_parts_by_hand():
    gap = explain_gap(Clocked(recorded(9), 1782.0))
    assert parts(gap)["places"].factor == pytest.approx(512 / (4 * 132))
    assert parts(gap)["beginning and end"].factor == pytest.approx(play_tiles(4, 64).busy)
    assert parts(gap)["clock"].factor == pytest.approx(0.9)
    alone = 4096**2 / (Grid(4096, 4096, 132).tiles * 128 * 256) * 64 * 2 * 512   # clocks of a tile's multiplying
    one_by_one = grid_clocks(Grid(4096, 4096, 132), 64, persistent=False)
    assert parts(explain_gap(recorded(8)))["beginning and end"].factor == pytest.approx(4 * alone / one_by_one)
    naive = explain_gap(recorded(1))
    assert parts(naive)["turns"].factor == pytest.approx(predict(1).in_turn / predict(1).limit.tflops)
    assert parts(naive)["clock"].factor > 0.999   # a CUDA-core kernel: the clock right after it
    small = explain_gap(recorded(3, 1024))
    assert parts(small)["places"].factor == pytest.approx(32 / 132)


def test_no_recording_is_above_its_bound_and_each_gap_is_told():
    items = load_records()
    assert len(items) > 60 and {item.rung for item in items} == {rung.name for rung in (*RUNGS, PARTITIONS)}
    for item in items:
        bound = predict(item.rung, item.m, item.n, item.k, gpu=gpu_of(item.device), entry=item.entry)
        assert item.tflops < bound.limit.tflops, item
        if not item.defines and item.rung != PARTITIONS.name:   # whose tiles are not modelled
            gap = explain_gap(item)
            assert gap.bound.tflops * gap.explained * gap.rest == pytest.approx(item.tflops)
            assert f"{gap.share:.0%}" in str(gap) and gap.rest_words in str(gap)


def test_what_the_cluster_saves():
    nine, ten = (parts(explain_gap(recorded(number)))["beginning and end"].factor for number in (9, 10))
    assert nine < ten < 1   # its stores run under the next tile, but the last one and a longer start remain


def test_in_words():
    words = str(explain_gap(recorded(10)))
    assert words.startswith("10_clusters, N=4096, burst: bound 1,071 TFLOP/s (tensor cores), recorded on NVIDIA H200")
    assert "4 rounds of 128 CTAs on 132 SMs (counted)" in words and "which is not recorded" in words
    assert "which is not recorded" not in str(explain_gap(Clocked(recorded(10), 1750.0)))
    assert "some of them overlap" in str(explain_gap(recorded(1)))
    live = str(explain_gap(replace(recorded(1, entry="matmul_uncoalesced"), source="live")))
    assert live.startswith("matmul_uncoalesced, N=4096, burst") and "measured live" in live


def test_refusals():
    with pytest.raises(ArgumentError, match="STAGES"):
        explain_gap(replace(recorded(7), defines={"STAGES": 2}))
    for rung in APPENDIX:
        with pytest.raises(ArgumentError, match=f"^item is of {rung.name}: it must be of a rung of the ladder, "):
            explain_gap(replace(recorded(10), rung=rung.name))
    with pytest.raises(ArgumentError, match="factor of 'x' is 1.2"):
        Loss("x", 1.2, "", "counted")
    with pytest.raises(ArgumentError, match="source of 'x' is 'guessed'"):
        Loss("x", 0.5, "", "guessed")


ODD = Gap("odd, N=1", Bound("tensor cores", 100.0, ""), 50.0, "made up", (Loss("luck", 0.9, "none", "modelled"),))
DRAWN = {
    "all": (lambda: gap_chart([explain_gap(recorded(rung.number)) for rung in RUNGS]),
            "of the bound, N=4096, burst, and the largest part of the gap: 01_coalescing"),
    "some clocks": (
        lambda: gap_chart([
            explain_gap(Clocked(recorded(rung.number), 1550.0 if rung.number in (6, 7, 10) else None)) for rung in RUNGS
        ]),
        "TFLOP/s recorded on NVIDIA H200 of the bound, N=4096, burst",
    ),
    "one": (lambda: gap_chart([ODD], "Odd"), "50%: luck 0.90, rest and clock 0.56."),
    "no losses": (lambda: gap_chart([replace(ODD, losses=())]), "50%: rest and clock 0.50."),
    "none": (lambda: gap_chart([], "None"), "None: no recording for this code."),
    "above its bound": (lambda: gap_chart([replace(ODD, measured=120.0)]), "120%"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures(name):
    assert len(require_drawn(*DRAWN[name]).alt) <= 800


def test_a_long_alt_text_names_bound_measured_and_the_largest_part():
    gaps = [replace(explain_gap(Clocked(recorded(number), 1550.0))) for number in range(1, 11)]
    told = gap_chart(gaps).alt.partition("the gap: ")[2].removesuffix(".").split("; ")
    for gap, words in zip(gaps, told, strict=True):
        parts = {loss.name: loss.factor for loss in gap.losses} | {"the rest": gap.rest}
        name = min(parts, key=parts.get)
        assert words.startswith(f"{gap.name.split(',')[0]} {gap.measured:,.3g} of ")
        assert words.endswith(f"{gap.share:.0%}, {name} {parts[name]:.2f}")


