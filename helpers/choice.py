"""Which kernel multiplies a shape, and why: a chain of conditions, read from top to bottom.

A tile of C is the work of a CTA, or with K split of a cluster. Small tiles make work for more SMs; large ones read less
for each product. So the smallest tile is taken of which there are not more than SMs; then K is split as long as whole
clusters have room. Where K is much longer than C is wide, the tile is large all the same. Where even the largest are
more than SMs, rung 10 goes over them in rounds; if C has few rows, CTAs of the appendix follow one another.
"""

from dataclasses import dataclass, field

from helpers.arguments import MAX_GRID
from helpers.checks import require_integer
from helpers.rungs import H200_SMS, Rung, find_rung, split_k

LAST = find_rung(10)
# Rows and columns of a tile, and the stages that fit the shared memory beside it.
FEW_ROWS = ((64, 128, 4), (64, 256, 2))    # two CTAs have room on an SM
TWO_WARPGROUPS = ((128, 64, 8), (128, 128, 6), (128, 256, 4))
ANY_ROWS = ((64, 64, 8), (128, 64, 8), (128, 128, 6), (128, 192, 5))
DEEP = (128, 128, 6)
STEP = 64              # of K
LEAST_STEPS = 8        # for each part of K: less does not pay for adding up
MOST_PARTS = 6         # more CTAs in a cluster seldom find a GPC with room
A_ROWS = (16, 32, 64)  # a box of A, for M rows of at most so many


@dataclass(frozen=True)
class Choice:
    """The kernel for a shape.

    rung: what is launched, with its order of tiles. defines: what its file is compiled with. name: for tables.
    why: one sentence.
    """

    rung: Rung
    name: str
    why: str
    defines: dict[str, int] = field(default_factory=dict, hash=False)


def choose(m: int, n: int, k: int, sms: int = H200_SMS) -> Choice:
    """The kernel for C = A @ B with A (m, k) and B (k, n) on a GPU of so many SMs.

    Raises ArgumentError for sizes that are no integers of at least 1.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("sms", sms)):
        require_integer(name, value, 1)
    if m <= 64 and n <= MAX_GRID[1] * FEW_ROWS[0][1]:   # narrow tiles of more columns are more than a grid has
        tile = _smallest(FEW_ROWS, m, n, sms) or (64, 128, 8)
        return _split(tile, m, n, k, sms, "C has few rows, and reading B takes the time")
    if m <= 128:
        tile = _smallest(TWO_WARPGROUPS, m, n, sms) or TWO_WARPGROUPS[-1]
        return _split(tile, m, n, k, sms, "C has one row of tiles")
    if k >= 16 * max(m, n) and _tiles(DEEP, m, n) <= sms:
        return _split(DEEP, m, n, k, sms, "K is long and C is small")
    if tile := _smallest(ANY_ROWS, m, n, sms):
        return _split(tile, m, n, k, sms, "Large tiles would leave SMs idle")
    return Choice(LAST, LAST.name, "C has tiles enough for all SMs, and large ones in clusters read the fewest bytes.")


def room(split: int, sms: int) -> int:
    """Clusters of so many CTAs that find room at once, a CTA on each SM: those of three and more leave SMs idle.

    A cluster lies in one GPC, and GPCs have 16 or 18 SMs (`python -m helpers.cluster_room` asks the driver).
    """
    return sms // split if split <= 2 else sms * 10 // 11 // split


def _tiles(tile: tuple[int, int, int], m: int, n: int) -> int:
    return -(-m // tile[0]) * -(-n // tile[1])


def _smallest(tiles: tuple[tuple[int, int, int], ...], m: int, n: int, sms: int) -> tuple[int, int, int] | None:
    return next((tile for tile in tiles if _tiles(tile, m, n) <= sms), None)


def _split(tile: tuple[int, int, int], m: int, n: int, k: int, sms: int, why: str) -> Choice:
    rows, columns, stages = tile
    count, steps = _tiles(tile, m, n), -(-k // STEP)
    most = min(MOST_PARTS, steps // LEAST_STEPS)
    parts = next((parts for parts in range(most, 1, -1) if count <= room(parts, sms)), 1)
    a_rows = next((some for some in A_ROWS if m <= some), rows)
    rung, defines = split_k(rows, columns, stages, parts, a_rows if a_rows < rows else None)
    name = f"{rows} x {columns}" + (f", K in {parts}" if parts > 1 else "")
    divided = f"K in {parts} parts makes {count * parts} CTAs" if parts > 1 else "K is not split"
    words = f"{why}: {count} tiles of {rows} x {columns} for {sms} SMs, and {divided}."
    return Choice(rung, name, words, defines)
