"""Right values in the wrong place: guesses at a wrong result that come from where its parts lie. Host arrays only."""

from collections.abc import Iterator

import numpy as np

from helpers.reference import UNIT_ROUNDOFF_BF16

CHUNK = 8            # bf16 in 16 bytes, the unit that a swizzle moves
BOX = 8 * CHUNK      # columns of a row of 128 bytes
SAMPLED = 8          # rows, columns or tiles that a guess is tried out on
FEWEST = 8           # wrong elements of a row that make a match no chance

Tile = tuple[int, int]
Block = tuple[slice, slice]


def swizzled(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of a matrix with chunk c of every 64 columns at place c ^ (row % 8); `rows` are their numbers.

    Columns are filled up with zeros to a multiple of 64.
    """
    count, columns = matrix.shape
    filled = np.zeros((count, -(-columns // BOX) * BOX), matrix.dtype)
    filled[:, :columns] = matrix
    chunks = filled.reshape(count, -1, BOX // CHUNK, CHUNK)
    places = np.arange(BOX // CHUNK)[None, :] ^ (rows % 8)[:, None]
    return np.take_along_axis(chunks, places[:, None, :, None], axis=2).reshape(count, -1)


def whole_tiles(mask: np.ndarray, tile: Tile) -> list[Tile]:
    """The tiles (row, column of tiles) of which the mask consists; empty if it isn't made of whole tiles."""
    marked = [place for place, block in _tiles(mask.shape, tile) if mask[block].all()]
    covered = sum(mask[_block(mask.shape, tile, place)].size for place in marked)
    return marked if covered == mask.sum() else []


def name_tiles(tiles: list[Tile], tile: Tile) -> str:
    """`tile (1, 0) of 128 x 256`, or how many, and the first."""
    size = f"{tile[0]} x {tile[1]}"
    if len(tiles) == 1:
        return f"tile {tiles[0]} of {size}"
    return f"{len(tiles)} tiles of {size}, the first of them {tiles[0]}"


def tile_guesses(
    C: np.ndarray, reference: np.ndarray, bound: np.ndarray, wrong: np.ndarray, tile: Tile
) -> Iterator[str]:
    """Tiles of C (tile: their rows and columns) that hold another tile's product, or the sum of two."""
    blocks = list(_tiles(C.shape, tile))
    if len(blocks) < 2:
        return
    for place, block in [(place, block) for place, block in blocks if wrong[block].any()][:SAMPLED]:
        for other, other_block in blocks:
            rows, columns = (min(a, b) for a, b in zip(C[block].shape, C[other_block].shape, strict=True))
            if other == place or rows * columns < FEWEST:
                continue
            part = slice(rows), slice(columns)
            found, own, foreign = C[block][part], reference[block][part], reference[other_block][part]
            margin = bound[other_block][part]
            name = name_tiles([place], tile)
            if _is_within(found, foreign, margin):
                yield f"{name} holds what belongs to tile {other}"
            margin = margin + bound[block][part] + np.float32(UNIT_ROUNDOFF_BF16) * np.abs(found)
            if _is_within(found, own + foreign, margin):
                yield f"{name} holds its product plus that of tile {other}: the sums were not begun anew"


def line_guesses(C: np.ndarray, reference: np.ndarray, bound: np.ndarray, wrong: np.ndarray) -> Iterator[str]:
    """Rows of C that hold another row's product; or columns."""
    for word, arrays in (("row", (C, reference, bound, wrong)), ("column", (C.T, reference.T, bound.T, wrong.T))):
        pairs = _moved_rows(*arrays)
        if pairs:
            yield f"{word} {pairs[0][0]} holds what belongs to {word} {pairs[0][1]}"


def chunk_guess(C: np.ndarray, reference: np.ndarray, bound: np.ndarray, rows: np.ndarray) -> Iterator[str]:
    """A result whose chunks of eight columns lie swizzled. rows: the numbers of those that are looked at."""
    columns = C.shape[1]
    if columns % BOX == 0 and _is_within(swizzled(C[rows], rows), reference[rows], bound[rows]):
        yield swizzle_words("C")


def swizzle_words(name: str) -> str:
    """The guess that a matrix was swizzled once."""
    return f"it looks as if the 16-byte chunks of {name}'s rows were swizzled by one side only, writer or reader"


def _moved_rows(
    C: np.ndarray, reference: np.ndarray, bound: np.ndarray, wrong: np.ndarray
) -> list[tuple[int, int]]:
    """(row, the row whose product it holds) of some wrong rows; empty unless all of these hold another's."""
    rows = np.flatnonzero(wrong.sum(axis=1) >= FEWEST)
    pairs = []
    for row in rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED)).astype(int)]:
        columns = np.flatnonzero(wrong[row])
        same = (np.abs(reference[:, columns] - C[row, columns]) <= bound[:, columns]).all(axis=1)
        if not same.any():
            return []
        pairs.append((int(row), int(same.argmax())))
    return pairs


def _tiles(shape: tuple[int, ...], tile: Tile) -> Iterator[tuple[Tile, Block]]:
    for row in range(-(-shape[0] // tile[0])):
        for column in range(-(-shape[1] // tile[1])):
            yield (row, column), _block(shape, tile, (row, column))


def _block(shape: tuple[int, ...], tile: Tile, place: Tile) -> Block:
    """The part of C that a tile covers."""
    row, column = (
        slice(number * size, min((number + 1) * size, length))
        for number, size, length in zip(place, tile, shape, strict=True)
    )
    return row, column


def _is_within(found: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> bool:
    return bool((np.abs(found - expected) <= bound).all())
