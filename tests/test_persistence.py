"""Rung 9: the model of tiles on an SM, the kernel's own events, and the pictures of both."""

import numpy as np
import pytest
from picture_checks import require_legible

from helpers.errors import ArgumentError
from helpers.models.persistence import CONSUMERS, MEASURED, TMA, Grid, TileCosts, grid_clocks, play_tiles
from helpers.models.pipeline import PRODUCER, Costs, play_ring
from helpers.persistence_events import persistence_events
from helpers.plots.persistence import gain_chart, tile_chart, tile_timeline, useful_share
from helpers.rungs import find_rung

SMALL = TileCosts(start=100, latency=50, load=40, multiply=30, store=70)


# The model


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize(("tiles", "steps"), [(1, 1), (3, 1), (2, 5), (3, 8)])
def test_the_ring_is_kept_over_tiles(tiles, steps, stages, persistent):
    played = play_tiles(tiles, steps, stages, MEASURED, persistent)
    loads = [span for span in played.spans if span.who == TMA]
    assert [(span.tile, span.step) for span in loads] == [(t, s) for t in range(tiles) for s in range(steps)]
    for who in CONSUMERS:
        own = [span for span in played.spans if span.who == who]
        work = [span for span in own if span.what == "multiply"]
        assert [(span.tile, span.step) for span in work] == [(t, s) for t in range(tiles) for s in range(steps)]
        assert all(load.end <= span.begin for load, span in zip(loads, work, strict=True))
        for load, span in zip(loads[stages:], work, strict=False):   # ordered when the stage was read
            assert load.begin >= span.end + MEASURED.latency or load.tile > span.tile and not persistent
        assert all(before.end <= after.begin for before, after in zip(own, own[1:], strict=False))
    tensor = sorted((span.begin, span.end) for span in played.spans if span.what == "multiply")
    assert all(before[1] <= after[0] for before, after in zip(tensor, tensor[1:], strict=False))


def test_one_tile_is_the_ring_of_rung_7_with_ends():
    ring = play_ring(16, 4, Costs(MEASURED.latency, MEASURED.load, MEASURED.multiply))
    assert play_tiles(1, 16).end == MEASURED.start + ring.end + MEASURED.store


def test_one_step_by_hand():
    played = play_tiles(2, 1, 1, SMALL, persistent=False)
    assert played.end == 2 * (100 + 50 + 40 + 2 * 30 + 70)
    # Staying: order of the second tile at 250 (consumer 2 has read), landed at 340; consumer 1 has stored at 290.
    stays = play_tiles(2, 1, 1, SMALL)
    assert stays.end == 250 + 50 + 40 + 2 * 30 + 70 and stays.multiplying == 120
    assert stays.beside == (470 - 120) / 2


@pytest.mark.parametrize("steps", [4, 32, 64, 128])
def test_staying_never_costs_and_saves_the_starts(steps):
    comes, stays = play_tiles(4, steps, persistent=False), play_tiles(4, steps)
    saved = comes.end - stays.end
    assert saved >= 3 * (MEASURED.start + MEASURED.latency + MEASURED.load)
    assert play_tiles(1, steps, persistent=False).end == play_tiles(1, steps).end


def test_rounds_and_shares():
    rounds = [(Grid(n, n, 132).rounds, Grid(n, n, 128).rounds) for n in (1024, 2048, 4096, 8192, 16384)]
    assert rounds == [(1, 1), (1, 1), (4, 4), (16, 16), (63, 64)]
    assert Grid(129, 257, 132).tiles == 4
    assert Grid(4096, 4096, 128).useful() == pytest.approx(512 / (4 * 132))
    assert Grid(128, 256, 132).useful(132) == pytest.approx(1 / 132)
    assert Grid(64, 256, 132).useful(132) == pytest.approx(1 / 264)
    assert Grid(*find_rung(9).tile[:2], 128).tiles == 1


def test_clocks_of_a_grid():
    assert grid_clocks(Grid(4096, 4096, 132), 64, persistent=False) == play_tiles(4, 64, persistent=False).end
    assert grid_clocks(Grid(4096, 4096, 128), 64, persistent=True) == play_tiles(4, 64).end


def test_bad_numbers_are_refused():
    with pytest.raises(ArgumentError, match="steps is 0"):
        play_tiles(1, 0)
    with pytest.raises(ArgumentError, match="store is -1"):
        TileCosts(1, 1, 1, 1, -1)


# The kernel


@pytest.mark.compiler
@pytest.mark.parametrize(("schedule", "seed"), [("eager", 0), ("lazy", 0), ("random", 1), ("random", 2)])
def test_the_producer_loads_the_next_tile_before_this_one_is_stored(schedule, seed):
    log = persistence_events(tiles=3, steps=5, schedule=schedule, seed=seed)
    assert all(1 <= log.ordered_early(tile) <= log.stages for tile in (1, 2))
    orders = [(event.tile, event.step) for event in log.events if event.what == "order"]
    assert orders == [(tile, step) for tile in range(3) for step in range(5)]
    for who in log.consumers:
        steps = [(event.tile, event.step) for event in log.events if (event.who, event.what) == (who, "step")]
        assert steps == orders
    assert log.totals["barriers"] == log.totals["ctas"] == 1
    with pytest.raises(ArgumentError, match="no event"):
        log.index(PRODUCER, "store", 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"tiles": 0}, "tiles is 0"), ({"steps": 200}, "tiles x steps is 600"), ({"schedule": "slow"}, "'slow'")],
)
def test_events_that_cannot_be_noted_are_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        persistence_events(**arguments)


# Pictures

SIZES = np.arange(512, 8193, 128)
PICTURES = {   # name: (draws it, what its alt text must say)
    "timeline": (lambda: tile_timeline([play_tiles(3, 8, persistent=False), play_tiles(3, 8)]),
                 ["a CTA for each tile: 37,596 clocks", "one CTA: 31,180 clocks, tensor cores busy 79%"]),
    "timeline of one": (lambda: tile_timeline([play_tiles(1, 4)], title="one"), ["one. one CTA: "]),
    "share": (lambda: useful_share(SIZES, {"132 CTAs": 132, "128 CTAs": 128}, (4096,)),
              ["132 CTAs: 97% at N=4,096; 128 CTAs: 97%"]),
    "share, no marks": (lambda: useful_share(SIZES, {"all": 132}), ["N from 512 to 8,192. all."]),
    "gain": (lambda: gain_chart((2048, 16384), (1.0, 0.996), (1.005, 0.994)),
             ["N=2,048: modelled 1.000, measured 1.005", "N=16,384: modelled 0.996"]),
    "gain, not measured": (lambda: gain_chart((2048, 4096), (1.0, 1.035), (None, None)), ["N=4,096: modelled 1.035."]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


def test_no_line_is_left_out_of_the_share():
    with pytest.raises(ArgumentError, match="places has 4 items"):
        useful_share(SIZES, {f"{count} CTAs": count for count in (100, 110, 120, 130)})


@pytest.mark.compiler
def test_picture_of_events():
    log = persistence_events(tiles=3, steps=5, seed=1)
    said = ["3 tiles of 5 steps, 87 events", "of 5 steps of tile 1 ordered before tile 0 is"]
    require_legible(lambda: tile_chart(log), said)
