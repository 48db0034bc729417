"""In which order the tiles of C are computed: the list that the kernel gets is the list that the picture draws.

Each function returns the tiles of a grid of m_tiles x n_tiles as an int32 array (tiles, 2) of (m, n) pairs, every tile
once. `packed` makes of it what a kernel reads.
"""

from collections.abc import Callable, Iterator

import numpy as np

from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.words import short

M_LIMIT, N_LIMIT = 1 << 16, 1 << 15   # tiles along M and N that fit a packed int32
MOST_TILES = 1 << 22                  # of a list: 4 million are made in seconds

Vector = tuple[int, int]


def row_major(m_tiles: int, n_tiles: int) -> np.ndarray:
    """Row after row of C, each from left to right: the order of `blockIdx`."""
    _require_tiles(m_tiles, n_tiles)
    return np.indices((m_tiles, n_tiles)).reshape(2, -1).T.astype(np.int32)


def grouped(m_tiles: int, n_tiles: int, group: int = 8, snake: bool = True) -> np.ndarray:
    """Bands of `group` tile rows; within a band column after column, each from top to bottom.

    snake: every second band runs backwards along N, so that it begins with the columns of B that the last one ended on.
    """
    _require_tiles(m_tiles, n_tiles)
    require_integer("group", group, 1)
    tiles = []
    for band, first in enumerate(range(0, m_tiles, group)):
        columns = range(n_tiles)
        for n in reversed(columns) if snake and band % 2 else columns:
            tiles += [(m, n) for m in range(first, min(first + group, m_tiles))]
    return np.array(tiles, dtype=np.int32)


def hilbert(m_tiles: int, n_tiles: int) -> np.ndarray:
    """A Hilbert curve over a rectangle of any size: each tile has an edge in common with the one before it.

    So any stretch of the list covers a compact patch of C, and needs few rows of A and columns of B.
    """
    _require_tiles(m_tiles, n_tiles)
    length, width = max(m_tiles, n_tiles), min(m_tiles, n_tiles)
    along, across = ((1, 0), (0, 1)) if m_tiles >= n_tiles else ((0, 1), (1, 0))
    # No path of single steps covers an odd x even rectangle and ends at the far corner of its odd side (colour it like
    # a chess board: both corners have one colour, and an even number of tiles needs two). The last line comes after.
    single = 1 if length % 2 and width % 2 == 0 else 0
    tiles = list(_curve((0, 0), along, across, length - single, width))
    if single:
        tiles += [_moved((0, 0), along, length - 1, across, step) for step in range(width)]
    return np.array(tiles, dtype=np.int32)


def shuffled(m_tiles: int, n_tiles: int, seed: int = 0) -> np.ndarray:
    """A bad order on purpose: tiles that run together lie anywhere. The same list for the same seed."""
    return np.random.default_rng(seed).permutation(row_major(m_tiles, n_tiles))


def upper_first(tiles: np.ndarray, workers: int) -> np.ndarray:
    """The same tiles, the upper rows of each round before the others; within a half they stay in their order.

    workers: CTAs or clusters, of which each takes a tile of a round.
    """
    require_integer("workers", workers, 1)
    halves = []
    for first in range(0, len(tiles), workers):
        part = tiles[first : first + workers]
        upper = np.zeros(len(part), bool)
        upper[np.argsort(part[:, 0], kind="stable")[: -(-len(part) // 2)]] = True
        halves += [part[upper], part[~upper]]
    return np.concatenate(halves)


ORDERS: dict[str, Callable[[int, int], np.ndarray]] = {
    "row": row_major,
    "grouped": grouped,
    "hilbert": hilbert,
    "shuffled": shuffled,
}


def tile_order(name: str, m_tiles: int, n_tiles: int) -> np.ndarray:
    """The order of that name: one of `ORDERS`. Raises ArgumentError for other names."""
    if not isinstance(name, str) or name not in ORDERS:
        raise ArgumentError(f"order {short(name)} is not known: give {', '.join(map(repr, ORDERS))}.")
    return ORDERS[name](m_tiles, n_tiles)


def packed(tiles: np.ndarray) -> np.ndarray:
    """An order as a kernel reads it: int32 (tiles,), each m | n << 16."""
    if not isinstance(tiles, np.ndarray) or tiles.ndim != 2 or tiles.shape[1] != 2 or tiles.dtype.kind not in "iu":
        raise ArgumentError("tiles is no list of tiles: give an integer array (tiles, 2), one (m, n) a row.")
    m, n = tiles[:, 0].astype(np.int64), tiles[:, 1].astype(np.int64)
    if ((m < 0) | (m >= M_LIMIT) | (n < 0) | (n >= N_LIMIT)).any():
        raise ArgumentError(f"tiles has a tile beyond ({M_LIMIT - 1:,}, {N_LIMIT - 1:,}): give fewer or larger tiles.")
    return (m | n << 16).astype(np.int32)


def _curve(start: Vector, along: Vector, across: Vector, length: int, width: int) -> Iterator[Vector]:
    """The tiles of a rectangle, in single steps from its corner `start` to the corner at the end of `along`.

    along, across: unit vectors of its sides. Not for an odd length with an even width.
    """
    if width == 1:
        yield from (_moved(start, along, step, across, 0) for step in range(length))
    elif length == 1:
        yield from (_moved(start, along, 0, across, step) for step in range(width))
    elif 2 * length > 3 * width:   # too long for a square: two in a row
        half = _even(length // 2)
        yield from _curve(start, along, across, half, width)
        yield from _curve(_moved(start, along, half, across, 0), along, across, length - half, width)
    else:   # up one side, along the top, and down the other
        half, height = length // 2, _even(width // 2) if width > 2 else 1
        yield from _curve(start, across, along, height, half)
        yield from _curve(_moved(start, along, 0, across, height), along, across, length, width - height)
        corner = _moved(start, along, length - 1, across, height - 1)
        yield from _curve(corner, _reversed(across), _reversed(along), height, length - half)


def _even(number: int) -> int:
    return number + number % 2


def _moved(start: Vector, along: Vector, steps: int, across: Vector, side_steps: int) -> Vector:
    return (
        start[0] + along[0] * steps + across[0] * side_steps,
        start[1] + along[1] * steps + across[1] * side_steps,
    )


def _reversed(vector: Vector) -> Vector:
    return (-vector[0], -vector[1])


def _require_tiles(m_tiles: int, n_tiles: int) -> None:
    require_integer("m_tiles", m_tiles, 1)
    require_integer("n_tiles", n_tiles, 1)
    if m_tiles * n_tiles > MOST_TILES:
        raise ArgumentError(
            f"m_tiles x n_tiles is {short(m_tiles * n_tiles)}: an order has {MOST_TILES:,} tiles at most; give fewer "
            "or larger tiles."
        )
