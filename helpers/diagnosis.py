"""Puts into words what is wrong with a result: where, how much, and what mistake it looks like. Host arrays only."""

from collections.abc import Iterator

import numpy as np

from helpers.misplaced import (
    Tile,
    chunk_guess,
    line_guesses,
    name_tiles,
    swizzle_words,
    swizzled,
    tile_guesses,
    whole_tiles,
)
from helpers.reference import UNIT_ROUNDOFF_BF16

SAMPLED_ROWS = 8   # rows on which a guess is tried out


def describe_missing(missing: np.ndarray, tile: Tile | None = None) -> str:
    """A sentence about elements that were never written; `missing` is a mask of C, shape (M, N).

    tile: rows and columns of C that a CTA computes at a time.
    """
    row, column = _first(missing)
    tiles = whole_tiles(missing, tile) if tile and not missing.all() else []
    which = f"; this is {name_tiles(tiles, tile)}" if tile and tiles else ""
    return f"C still holds its NaN filling at ({row}, {column}): {_region(missing)} never written{which}."


def describe_nan(nan: np.ndarray) -> str:
    """A sentence about elements that were computed as NaN or infinity; `nan` is a mask of C, shape (M, N)."""
    row, column = _first(nan)
    return (
        f"C holds NaN or infinity at ({row}, {column}), {_share(nan)}: the kernel computed with values that it had not "
        "written, or that lie beyond A or B."
    )


def describe_wrong(
    C: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    reference: np.ndarray,
    bound: np.ndarray,
    depth: int,
    tile: Tile | None = None,
) -> str:
    """A sentence about elements outside their error bound, with a guess at the mistake.

    C, reference, bound: (M, N) fp32. a: (M, K), b: (K, N) fp32. depth: the kernel's step along K.
    tile: rows and columns of C that a CTA computes at a time.
    """
    wrong = np.abs(C - reference) > bound
    row, column = _first(wrong)
    sentence = (
        f"C is wrong in {_share(wrong)}, first at ({row}, {column}): {C[row, column]:.6g} instead of "
        f"{reference[row, column]:.6g}, allowed error {bound[row, column]:.2g}"
    )
    place = _block(wrong, filled=0.9)   # an element can be right by chance
    if place:
        sentence += f"; all of them in {place}"
    guess = next(_guesses(C, a, b, reference, bound, wrong, depth, tile), "")
    return f"{sentence}; {guess}." if guess else f"{sentence}."


def describe_difference(first: np.ndarray, second: np.ndarray) -> str:
    """A sentence about two runs on the same input whose bits differ; both are (M, N) arrays of bits."""
    differs = first != second
    row, column = _first(differs)
    return (
        f"two runs on the same A and B differ in {_share(differs)}, first at ({row}, {column}): "
        "the result depends on timing, or on what the run before left in memory; "
        "look for a race, and for what must be set back."
    )


def _guesses(
    C: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    reference: np.ndarray,
    bound: np.ndarray,
    wrong: np.ndarray,
    depth: int,
    tile: Tile | None,
) -> Iterator[str]:
    """Mistakes that explain the result, likeliest first."""
    (m, k), n = a.shape, b.shape[1]
    if not C[wrong].any():
        yield "they are all zero"
    if (np.abs(C.reshape(n, m) - reference.T) <= bound.T).all():
        yield "it looks as if C was stored transposed (column by column)"

    rows = np.flatnonzero(wrong.any(axis=1))
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLED_ROWS)).astype(int)]

    summation = bound[rows] - UNIT_ROUNDOFF_BF16 * np.abs(reference[rows])

    def explains(left: np.ndarray, right: np.ndarray) -> bool:
        guess = left @ right
        return bool((np.abs(C[rows] - guess) <= UNIT_ROUNDOFF_BF16 * np.abs(guess) + summation).all())

    if explains(a[rows], b.reshape(n, k).T):
        yield "it looks as if B was read transposed (column by column)"
    if explains(a.reshape(k, m).T[rows], b):
        yield "it looks as if A was read transposed (column by column)"
    steps = dict.fromkeys(step for step in (1, 2, 4, 8, 16, 32, 64, depth, k % depth, k - depth) if 0 < step < k)
    for step in steps:
        if explains(a[rows, :-step], b[:-step]):
            yield f"it looks as if the last {_values(step)} left out"
        if explains(a[rows, step:], b[step:]):
            yield f"it looks as if the first {_values(step)} left out"
    if tile:
        yield from tile_guesses(C, reference, bound, wrong, tile)
    yield from line_guesses(C, reference, bound, wrong)
    yield from chunk_guess(C, reference, bound, rows)
    if explains(swizzled(a[rows], rows)[:, :k], b):
        yield swizzle_words("A")
    if explains(a[rows], swizzled(b, np.arange(k))[:, :n]):
        yield swizzle_words("B")
    yield from _factor(C[wrong], reference[wrong])


def _factor(wrong: np.ndarray, right: np.ndarray) -> Iterator[str]:
    large = np.abs(right) > np.abs(right).max() / 4
    if large.sum() >= 4:
        ratios = wrong[large] / right[large]
        middle = float(np.median(ratios))
        if np.abs(ratios - middle).max() < 0.02 * abs(middle):
            yield f"they are {middle:.3g} times what they should be"


def _first(mask: np.ndarray) -> tuple[int, int]:
    row, column = np.unravel_index(int(mask.argmax()), mask.shape)
    return int(row), int(column)


def _share(mask: np.ndarray) -> str:
    count = int(mask.sum())
    if count == 1:
        return "1 element"
    percent = 100 * count / mask.size
    return f"{count:,} elements ({percent:.3g} %)" if count < mask.size else f"all {count:,} elements"


def _values(count: int) -> str:
    return "value of k was" if count == 1 else f"{count} values of k were"


def _region(mask: np.ndarray) -> str:
    """The elements of a mask, with the verb: "the element was", "rows 3 to 5 were"."""
    if mask.all():
        return "all of C was"
    if mask.sum() == 1:
        return "the element was"
    block = _block(mask, filled=1.0)
    one_line = "," not in block and block.startswith(("row ", "column "))
    return f"{block or _share(mask)} {'was' if one_line else 'were'}"



def _block(mask: np.ndarray, filled: float) -> str:
    """Rows, columns or a block that holds the mask's elements; "" if they don't fill that share of it."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    if mask.sum() == 1 or mask.all() or mask[box].mean() < filled:
        return ""
    parts = [_range("row", rows, mask.shape[0]), _range("column", columns, mask.shape[1])]
    return ", ".join(part for part in parts if part)


def _range(word: str, indices: np.ndarray, length: int) -> str:
    first, last = int(indices[0]), int(indices[-1])
    if last - first + 1 == length:
        return ""
    return f"{word} {first}" if first == last else f"{word}s {first} to {last}"
