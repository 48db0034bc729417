"""The cache replayed strip by strip, against one that is played access by access; and the pictures of it."""

from collections import OrderedDict

import numpy as np
import pytest
from picture_checks import require_drawn

from helpers.errors import ArgumentError
from helpers.models.l2 import l2_traffic, wave_tiles
from helpers.plots.l2_replay import l2_curve, wave_frames
from helpers.tile_order import tile_order

TILE = (16, 32, 8)


def fetched_strips(tiles, grid, m, n, k, ctas, l2_bytes):
    """Wave by wave, the steps along K of each strip that are not in an LRU cache of so many bytes."""
    steps, held, used, waves = k // TILE[2], OrderedDict(), 0, []
    sides = {"A": TILE[0], "B": TILE[1]}
    for wave in wave_tiles(tiles, ctas):
        missed = np.full(sum(grid), np.nan)
        strips = [("A", row) for row in np.unique(wave[:, 0])] + [("B", column) for column in np.unique(wave[:, 1])]
        for matrix, number in strips:
            missed[number + (grid[0] if matrix == "B" else 0)] = 0
        pieces = [(*strip, step) for step in range(steps) for strip in strips]
        for piece in pieces + [("C", *tile) for tile in wave.tolist()]:
            if piece in held:
                held.move_to_end(piece)
                continue
            size = TILE[0] * TILE[1] * 2 if piece[0] == "C" else sides[piece[0]] * TILE[2] * 2
            held[piece], used = size, used + size
            if piece[0] != "C":
                missed[piece[1] + (grid[0] if piece[0] == "B" else 0)] += 1 / steps
            while used > l2_bytes:
                used -= held.popitem(last=False)[1]
        waves.append(missed)
    return np.array(waves)


@pytest.mark.parametrize("order", ["row", "hilbert", "shuffled"])
@pytest.mark.parametrize("l2_bytes", [4_000, 12_000, 30_000, 10**6])
@pytest.mark.parametrize("ctas", [3, 13])
def test_each_strip_comes_from_where_the_cache_says(order, l2_bytes, ctas):
    m, n, k = 128, 256, 64
    grid = (m // TILE[0], n // TILE[1])
    tiles = tile_order(order, *grid)
    traffic = l2_traffic(tiles, m, n, k, ctas, l2_bytes, TILE)
    played = fetched_strips(tiles, grid, m, n, k, ctas, l2_bytes)
    assert (np.isnan(traffic.missed) == np.isnan(played)).all()
    # In the model nobody comes first within a step, so that the steps at both ends count in full.
    late = np.nan_to_num(traffic.missed - played)
    assert late.min() > -1e-9 and late.max() < 2.001 / traffic.steps and late.sum() <= 0.03 * np.nansum(played)
    strip_bytes = np.repeat([TILE[0], TILE[1]], grid) * k * 2
    assert np.nansum(traffic.missed * strip_bytes, axis=1) == pytest.approx(traffic.hbm_reads)


def course(names, n):
    return {name: tile_order(name, n // 128, n // 256) for name in names}


DRAWN = {
    "frames": (lambda: wave_frames(course(["row", "hilbert", "shuffled"], 4096), 4096),
               ["hilbert: from HBM in wave 1 44 MB, wave 2 8.39 MB", "L2 of 60 MiB"]),
    "two frames": (lambda: wave_frames(course(["grouped"], 16384), 16384, (20, 62), 128, 50 << 20, "Two of them"),
                   ["Two of them. grouped: from HBM in wave 21"]),
    "small": (lambda: wave_frames(course(["row"], 512), 512, (0,), 4), ["wave 1"]),
    "curve": (lambda: l2_curve(course(["row", "grouped", "hilbert", "shuffled"], 8192), 8192),
              ["hilbert 1.39 to 0.268 GB, 1.39 GB at 60 MiB (H200)", "A and B once: 0.268 GB"]),
    "another GPU": (lambda: l2_curve(course(["row"], 4096), 4096, 114, [2**20, 2**24, 2**26], {"H100 PCIe": 50 << 20}),
                    ["114 CTAs, from 1 to 64 MiB", "(H100 PCIe)"]),
    "no mark": (lambda: l2_curve(course(["hilbert"], 2048), 2048, marked={}, title="One"), ["One, from 8 to 512 MiB"]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures(name):
    draw, sentences = DRAWN[name]
    require_drawn(draw, *sentences)


def test_refusals():
    with pytest.raises(ArgumentError, match="orders is empty"):
        wave_frames({}, 4096)
    with pytest.raises(ArgumentError, match=r"waves is \(4,\): these orders have waves 0 to 3"):
        wave_frames(course(["row"], 4096), 4096, (4,))
    with pytest.raises(ArgumentError, match="orders or capacities is empty"):
        l2_curve({}, 4096)
