"""Orders of tiles: every tile once, and each order's own promise."""

import numpy as np
import pytest

from helpers.errors import ArgumentError
from helpers.tile_order import ORDERS, grouped, hilbert, packed, row_major, tile_order, upper_first

SMALL = [(m, n) for m in range(1, 14) for n in range(1, 14)]
SHAPES = [*SMALL, (32, 16), (32, 32), (2, 101), (101, 2), (37, 64), (65, 8)]


@pytest.mark.parametrize("name", ORDERS)
def test_every_tile_comes_once(name):
    for shape in SHAPES:
        tiles = tile_order(name, *shape)
        assert tiles.dtype == np.int32 and tiles.shape == (shape[0] * shape[1], 2)
        assert set(map(tuple, tiles.tolist())) == set(np.ndindex(shape)), shape


def test_neighbours_on_the_hilbert_curve_are_adjacent():
    for shape in SHAPES:
        steps = np.abs(np.diff(hilbert(*shape), axis=0)).sum(axis=1)
        assert (steps == 1).all(), shape


def test_the_hilbert_curve_of_a_power_of_two_is_the_known_one():
    assert hilbert(2, 2).tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    quarter = hilbert(8, 8)[:16]
    assert np.ptp(quarter, axis=0).tolist() == [3, 3]   # a quarter of the curve is a quarter of the square


@pytest.mark.parametrize("shape", [(16, 32), (37, 64), (33, 32), (64, 128)])
def test_stretches_of_the_hilbert_curve_are_compact(shape):
    """132 tiles at a time need fewer rows of A and columns of B than in row order."""

    def lines(tiles):
        waves = [tiles[first:first + 132] for first in range(0, len(tiles), 132)]
        return sum(len(np.unique(wave[:, axis])) for wave in waves for axis in (0, 1))

    assert lines(hilbert(*shape)) < 0.85 * lines(row_major(*shape))


def test_groups_run_down_their_columns_and_snake_along_n():
    assert grouped(3, 2, group=2).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [2, 0]]
    assert grouped(3, 2, group=2, snake=False).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 1]]
    assert grouped(5, 3, group=8).tolist() == [[m, n] for n in range(3) for m in range(5)]
    assert np.array_equal(grouped(4, 3, group=1, snake=False), row_major(4, 3))


@pytest.mark.parametrize("workers", [1, 2, 5, 7, 64, 10**6])
@pytest.mark.parametrize("name", ORDERS)
def test_upper_rows_come_first_in_each_round(name, workers):
    for shape in [(1, 9), (9, 1), (2, 2), (6, 11), (32, 16)]:
        tiles = tile_order(name, *shape)
        found = upper_first(tiles, workers)
        assert found.dtype == np.int32 and set(map(tuple, found.tolist())) == set(np.ndindex(shape))
        for first in range(0, len(tiles), workers):   # of each round; of a row in the middle the first tiles are upper
            part = tiles[first:first + workers].tolist()
            upper = set(sorted(range(len(part)), key=lambda place: part[place][0])[: -(-len(part) // 2)])
            halves = [[tile for place, tile in enumerate(part) if (place in upper) is side] for side in (True, False)]
            assert found[first:first + workers].tolist() == halves[0] + halves[1]


def test_upper_rows_first_of_a_short_last_round_and_of_one_row():
    tiles = grouped(4, 3, group=8)   # down three columns of four
    assert upper_first(tiles, 8).tolist() == [
        [0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [3, 0], [2, 1], [3, 1],   # a round of two columns,
        [0, 2], [1, 2], [2, 2], [3, 2],                                   # and one of a single column
    ]
    assert upper_first(tiles, 5)[:5].tolist() == [[0, 0], [1, 0], [0, 1], [2, 0], [3, 0]]   # of five, three
    assert np.array_equal(upper_first(row_major(1, 9), 4), row_major(1, 9))
    assert np.array_equal(upper_first(tiles, 1), tiles)
    given = tiles.copy()
    upper_first(tiles, 8)
    assert np.array_equal(tiles, given)


@pytest.mark.parametrize("workers", [0, -1, 2.5, True, None, "4"])
def test_rounds_of_no_worker_are_refused(workers):
    with pytest.raises(ArgumentError, match="^workers is .*: it must be an integer of at least 1"):
        upper_first(row_major(2, 2), workers)


def test_packed_tiles_hold_m_low_and_n_high():
    assert packed(np.array([[0, 0], [3, 1], [65_535, 32_767]])).tolist() == [0, 3 | 1 << 16, 2**31 - 1]
    words = packed(hilbert(9, 5))
    assert words.dtype == np.int32
    assert np.array_equal(np.stack([words & 0xFFFF, words >> 16], axis=1), hilbert(9, 5))


def test_wrong_orders_are_refused():
    with pytest.raises(ArgumentError, match="m_tiles is 0: it must be an integer of at least 1"):
        hilbert(0, 4)
    with pytest.raises(ArgumentError, match="n_tiles is 2.5"):
        row_major(4, 2.5)
    with pytest.raises(ArgumentError, match="group is 0"):
        grouped(4, 4, group=0)
    with pytest.raises(ArgumentError, match="order 'peano' is not known: give 'row', 'grouped', 'hilbert'"):
        tile_order("peano", 4, 4)
    for tiles in (np.zeros((4, 3), int), np.zeros((4, 2)), [(0, 0)]):
        with pytest.raises(ArgumentError, match="tiles is no list of tiles"):
            packed(tiles)
    for tile in ((65_536, 0), (0, 32_768), (-1, 0)):
        with pytest.raises(ArgumentError, match="tiles has a tile beyond"):
            packed(np.array([tile]))
