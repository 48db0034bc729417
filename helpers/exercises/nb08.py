"""Exercises of notebook 8, Hilbert scheduling."""

from collections.abc import Sequence

import numpy as np

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation, emulate
from helpers.models.l2 import TILE, patch
from helpers.tile_order import grouped, hilbert, row_major
from helpers.variants import save_text

TILES = 128            # of exercise 1
BAND = 4               # rows of tiles of a band in exercise 3
SIZE = (760, 768, 64)  # six rows of tiles, so the last band has two
STORE = "// 4. Store"


def _cheapest_rectangle() -> tuple[int, int, int]:
    """Rows and columns of the rectangle of TILES tiles that needs the fewest bytes in a step, and these in KiB."""
    shapes = [(rows, TILES // rows) for rows in range(1, TILES + 1) if TILES % rows == 0]
    cost = {shape: patch(row_major(*shape)).step_bytes() for shape in shapes}
    rows, columns = min(shapes, key=cost.__getitem__)
    return rows, columns, cost[rows, columns] // 1024


def _bigger(curve: Sequence[Sequence[int]]) -> list[list[int]]:
    """The Hilbert curve of a square of twice the side."""
    side = 2 * round(len(curve) ** 0.5)
    return hilbert(side, side).tolist()


def _bands_without_a_list(emulation: Emulation) -> str | None:
    """What is still missing to a kernel that finds its tile by arithmetic, in bands of rows."""
    if any(counter.array == "order" for counter in emulation.run.counters):
        return "it still reads `order`: let the tile follow from blockIdx.x alone."
    if emulation.source.count(STORE) != 1:
        return f"the comment `{STORE}` is gone: leave it in its place, the check looks for it."
    numbered = emulation.source.replace(STORE, f"for (float& sum : sums) sum = blockIdx.x;\n        {STORE}")
    C = emulate("08_hilbert", SIZE, counters=False, file=save_text(numbered, "08.3.numbered")).C
    rows, columns, _ = TILE
    ctas = C[::rows, ::columns].astype(np.float64)
    wanted = grouped(*ctas.shape, group=BAND, snake=False)
    for cta, (m, n) in enumerate(wanted.tolist()):
        if ctas[m, n] != cta:
            return f"tile (m, n) = ({m}, {n}) is computed by CTA {ctas[m, n]:.0f}; it should be CTA {cta}."
    return None


EXERCISES = (
    Number(
        id="08.1",
        expected=_cheapest_rectangle,
        names=("rows of tiles", "columns of tiles", "KiB in a step"),
        mistakes=(
            ((8, 16, 640), "these are the right bytes of that patch. But a strip of B is twice as wide as one of A."),
            ((16, 8, 256), "the shape is right; an element has two bytes."),
            ((16, 8, 524288), "the shape is right; asked for are KiB, 1,024 bytes each."),
        ),
        hints=(
            "A row of tiles needs 128 rows of A, a column of tiles 256 columns of B, both 64 deep.",
            "A step takes rows * 16 KiB + columns * 32 KiB, and rows * columns = 128. Try the powers of two.",
            "16 rows and 8 columns: 16 * 16 + 8 * 32 KiB.",
        ),
        because="with 16 x 8 tiles of 128 x 256 the patch is a square of elements, and a square has the least edge.",
    ),
    Function(
        id="08.2",
        lines=7,
        reference=_bigger,
        points=tuple((hilbert(side, side).tolist(),) for side in (1, 2, 4, 8)),
        names=("curve",),
        hints=(
            "Compare the 2 x 2 and the 4 x 4 curve in the picture: the two middle quarters are the small curve.",
            "Quarters come in the order upper left, upper right, lower right, lower left. In the first, m and n change "
            "places. The last one is also turned round: (m, n) becomes (side - 1 - n, side - 1 - m).",
            "First `[n, m]`, then `[m, n + side]`, `[m + side, n + side]`, and `[2 * side - 1 - n, side - 1 - m]`.",
        ),
        because="each quarter begins beside the end of the one before, at every scale; so a stretch of any length "
        "stays compact.",
    ),
    KernelChange(
        id="08.3",
        rung="08_hilbert",
        lines=4,
        size=SIZE,
        more_sizes=((300, 1096, 64),),
        goal=_bands_without_a_list,
        hints=(
            "Which band is CTA i in, if a full band has 4 * n_tiles tiles? How many rows has the last band?",
            "Let `first` be the band's first row of tiles, and `height` its rows, 4 or fewer in the last band. Then "
            "`inside = blockIdx.x - first * n_tiles` counts the tiles of the band.",
            "Down the columns: m = first + inside % height, n = inside / height, and "
            "height = min(4, (M + BM - 1) / BM - first).",
        ),
        because="two divisions replace the list. The list can hold any curve, and the kernel need not know which.",
    ),
    FindTheBug.planted(
        "snake_begins_outside",
        id="08.4",
        defines={},
        more_sizes=((384, 256, 64), (384, 512, 64)),
        hints=(
            "Nobody complains, but a tile is missing. C has 2 x 3 tiles and six CTAs: list the tile that each of them "
            "computes.",
            "CTAs 3, 4 and 5 walk the second row, with `column` 0, 1 and 2 and `n_tiles` 3. Which columns of tiles do "
            "they take, and which is the last that C has?",
            "They take 3, 2 and 1, and the last is 2: from right to left is `n_tiles - 1 - column`.",
        ),
        because="from right to left the columns are n_tiles - 1 down to 0. The CTA beside C multiplied zeros and "
        "stored nothing: a tile too many makes no noise, only the missing one can be seen.",
    ),
)
