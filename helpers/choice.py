"""Which kernel multiplies a shape, and why: a chain of conditions, read from top to bottom.

A tile of C is the work of a CTA, or with K split of a cluster. Small tiles make work for more SMs; large ones read less
for each product. So the smallest tile is taken of which there are not more than SMs; then K is split as long as whole
clusters have room. A C of one row of tiles gets the tile that makes the most CTAs. Where K is much longer than C is
wide, the tile is large all the same. Where even the largest are more than SMs, clusters go over them in rounds; if C
has few rows, CTAs that divide K follow one another.
A round costs as much as its tile is large. So of the kernels that work in rounds the one is taken whose rounds, times
the elements of a tile, times what an element costs with this kernel, are the least.
Each condition and each factor was found by measuring (docs/worklog.md, "the summit").
"""

from dataclasses import dataclass, field, replace

from helpers.arguments import MAX_GRID
from helpers.checks import require_integer
from helpers.models.machine import SECTOR_BYTES
from helpers.rung import room
from helpers.rungs import BF16_BYTES, H200_SMS, Rung, find_rung, fitted_tiles, in_clusters_of_four, split_k
from helpers.words import plural

Tile = tuple[int, int, int]

LAST = find_rung(10)
# Rows and columns of a tile, and the stages of its ring.
FEW_ROWS: tuple[Tile, ...] = ((64, 64, 8), (64, 128, 4), (64, 256, 3))
NARROW, WIDE, WIDEST = (128, 64, 8), (128, 128, 6), (128, 256, 4)
ANY_ROWS: tuple[Tile, ...] = ((64, 64, 8), NARROW, WIDE, (128, 192, 5))
DEEP = WIDE
STEP = 64              # of K
LEAST_STEPS = 8        # for each part of K: less does not pay for adding up
MOST_PARTS = 6         # more CTAs in a cluster seldom find a GPC with room
LONG_K = 8192          # from here on wide tiles pay, which read A less often, though they need K split
SHORT_BYTES = 2**23    # of B: a launch that reads no more is mostly its beginning and its end
NEARLY_ALL = 0.9       # of the SMs
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


@dataclass(frozen=True)
class InRounds:
    """A kernel whose clusters go over the tiles of C in rounds. cost: of an element of C, beside rung 10's."""

    choice: Choice
    cost: float

    def total(self, m: int, n: int, sms: int) -> float:
        """What an M x N result costs on a GPU of so many SMs, in elements of C that a CTA of rung 10 computes."""
        rung = self.choice.rung
        rows, columns, _ = rung.tile
        return rung.rounds(m, n, sms) * rows * columns * self.cost


def _in_rounds(rung: Rung, name: str, why: str, cost: float, defines: dict[str, int] | None = None) -> InRounds:
    return InRounds(Choice(rung, name, why, defines or {}), cost)


def _fitted(height: int) -> InRounds:
    rung, defines = fitted_tiles(height)
    why = f"Tiles of {height} x 256 fill their rounds better than those of 256 x 256."
    return _in_rounds(rung, f"{height} x 256, fitted", why, 1.06, defines)


def _four() -> InRounds:
    rung, defines = in_clusters_of_four(LAST)
    why = "Rows of B begin amid sectors, which makes them slow to load, so four CTAs share each part of B."
    return _in_rounds(rung, f"{LAST.name}, clusters of 4", why, 0.95, defines)


_ON_ALL = replace(LAST, most_ctas=None)
ANY_SECTORS: tuple[InRounds, ...] = (   # the first of equals is taken
    _in_rounds(LAST, LAST.name, "C has tiles enough for all SMs; large ones in clusters read the fewest bytes.", 1.0),
    _in_rounds(_ON_ALL, f"{LAST.name}, all SMs", "On all SMs in place of 128 the tiles take fewer rounds.", 1.03),
    _fitted(224),
    _fitted(192),
)
AMID_SECTORS: tuple[InRounds, ...] = (*ANY_SECTORS, _four())   # four CTAs share what is slow to load


def choose(m: int, n: int, k: int, sms: int = H200_SMS) -> Choice:
    """The kernel for C = A @ B with A (m, k) and B (k, n) on a GPU of so many SMs.

    Raises ArgumentError for sizes that are no integers of at least 1.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("sms", sms)):
        require_integer(name, value, 1)
    m, n, k, sms = (int(value) for value in (m, n, k, sms))   # NumPy's integers overflow
    if m <= FEW_ROWS[0][0] and n <= MAX_GRID[1] * FEW_ROWS[-1][1]:   # more tiles than that no grid has
        tile = _smallest(FEW_ROWS, m, n, sms) or FEW_ROWS[-1]
        return _split(tile, m, n, k, sms, "C has few rows, and reading B takes the time")
    if m <= 128:
        return _split(_of_one_row(n, k, sms), m, n, k, sms, "C has one row of tiles")
    if k >= 16 * max(m, n) and _tiles(DEEP, m, n) <= sms:
        return _split(DEEP, m, n, k, sms, "K is long and C is small")
    if tile := _smallest(ANY_ROWS, m, n, sms):
        return _split(tile, m, n, k, sms, "Large tiles would leave SMs idle")
    kernels = AMID_SECTORS if rows_begin_amid_sectors(n) else ANY_SECTORS
    return min(kernels, key=lambda some: some.total(m, n, sms)).choice


def rows_begin_amid_sectors(columns: int) -> bool:
    """Whether rows of a matrix of so many columns begin amid a sector, from the second one on."""
    return columns * BF16_BYTES % SECTOR_BYTES != 0


def _tiles(tile: Tile, m: int, n: int) -> int:
    return -(-m // tile[0]) * -(-n // tile[1])


def _smallest(tiles: tuple[Tile, ...], m: int, n: int, sms: int) -> Tile | None:
    return next((tile for tile in tiles if _tiles(tile, m, n) <= sms), None)


def _of_one_row(n: int, k: int, sms: int) -> Tile:
    """The tile for a C of up to 128 rows: the one that makes the most CTAs."""
    first_of_equals = (WIDE, NARROW) if k >= LONG_K else (NARROW, WIDE)
    fitting = [tile for tile in first_of_equals if _tiles(tile, 128, n) <= sms] or [WIDEST]
    counts = {tile: _tiles(tile, 128, n) for tile in fitting}
    return max(fitting, key=lambda tile: counts[tile] * _parts(counts[tile], k, sms))


def _parts(tiles: int, k: int, sms: int) -> int:
    """Into how many parts K is split where there are so many tiles: as many as there is room for."""
    most = min(MOST_PARTS, -(-k // STEP) // LEAST_STEPS)
    return next((parts for parts in range(most, 1, -1) if tiles <= room(parts, sms)), 1)


def _early(m: int, n: int, k: int, ctas: int, sms: int) -> bool:
    """Whether the next launch's CTAs may come early. It pays for short launches, and for those of few rows.

    Where they find room for a part of them only, they lie unevenly over the SMs, and reading takes longer.
    """
    return n * k * BF16_BYTES <= SHORT_BYTES or (m <= FEW_ROWS[0][0] and ctas >= NEARLY_ALL * sms)


def _split(tile: Tile, m: int, n: int, k: int, sms: int, why: str) -> Choice:
    rows, columns, stages = tile
    count = _tiles(tile, m, n)
    parts = _parts(count, k, sms)
    a_rows = next((some for some in A_ROWS if m <= some), rows)
    rung, defines = split_k(rows, columns, stages, parts, a_rows if a_rows < rows else None)
    if not _early(m, n, k, count * parts, sms):
        defines = defines | {"EARLY": 0}
    name = f"{rows} x {columns}" + (f", K in {parts}" if parts > 1 else "")
    divided = f"K in {parts} parts makes {count * parts} CTAs" if parts > 1 else "K is not split"
    words = f"{why}: {plural(count, 'tile')} of {rows} x {columns} for {plural(sms, 'SM')}, and {divided}."
    return Choice(rung, name, words, defines)
