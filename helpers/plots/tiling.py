"""Tile reuse: what one tile of C needs of A and B, and the global bytes that tile sizes cost."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_integer, require_some
from helpers.errors import ArgumentError
from helpers.models.tiling import TileTraffic, tile_traffic
from helpers.plots.figure import INK, MATRIX, PALE, YELLOW, Picture, decades, new_picture, quantity, style
from helpers.typed import typed
from helpers.words import plural

MOST_SIZE = 500_000   # rows or columns; numbers of more digits have no room
_GAP = 0.16   # between the matrices, as a share of the larger side


@typed
def tile_reuse(
    m: int, n: int, k: int, tile_m: int, tile_n: int, tile_k: int, tile: tuple[int, int] = (1, 2), step: int = 1
) -> Picture:
    """Draw A, B and C to scale with the row band of A and the column band of B that one tile of C needs.

    tile: (row, column) of the tile in units of tiles; step: which slice of tile_k along K is marked as present in
    shared memory. Raises ArgumentError if they lie outside.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("tile_k", tile_k)):
        require_integer(name, value, 1, MOST_SIZE)
    traffic = tile_traffic(m, n, k, tile_m, tile_n)
    limits = {"tile row": (tile[0], traffic.b_reads), "tile column": (tile[1], traffic.a_reads)}
    for name, (value, limit) in {**limits, "step": (step, -(-k // tile_k))}.items():
        if not 0 <= value < limit:
            raise ArgumentError(f"{name} is {value}: it must be 0 to {limit - 1} for these sizes.")
    with style():
        picture = new_picture(8.5, 6.0)
        axes = picture.add_axes((0.02, 0.03, 0.60, 0.94))
        depth = (step * tile_k, min(tile_k, k - step * tile_k))
        _draw_matrices(axes, traffic, tile[0] * tile_m, tile[1] * tile_n, depth)
        _write_reuse(picture, traffic, depth)
        tiles = traffic.a_reads * traffic.b_reads
        picture.alt = (
            f"Tile reuse for C[{m}, {n}] = A[{m}, {k}] @ B[{k}, {n}]: the {tile_m} x {tile_n} tile of C in tile row "
            f"{tile[0]} and tile column {tile[1]} needs {plural(tile_m, 'row')} of A and {plural(tile_n, 'column')} "
            f"of B and walks along K in steps of {tile_k}. Each element of A is loaded {traffic.a_reads} times, each "
            f"of B {traffic.b_reads} times, {quantity(traffic.loaded_bytes, 'B')} for all {plural(tiles, 'tile')}: "
            f"{traffic.intensity:.3g} FLOP per byte. In shared memory now: k = {depth[0]:,} to {sum(depth) - 1:,}."
        )
    return picture


def _draw_matrices(axes: Axes, traffic: TileTraffic, row: int, column: int, depth: tuple[int, int]) -> None:
    """A at the left of C, B above it, to scale; the bands pale, the slice of K at hand dark.

    row, column: first element of the tile of C. depth: first k of the slice and its length.
    """
    m, n, k = traffic.m, traffic.n, traffic.k
    tile_m, tile_n = min(traffic.tile_m, m - row), min(traffic.tile_n, n - column)
    size = max(m, n, k)
    gap = _GAP * size
    start = -gap - k   # of A along x and of B along y
    for x, y, width, height in ((start, 0, k, m), (0, start, n, k), (0, 0, n, m)):
        axes.add_patch(Rectangle((x, y), width, height, facecolor=PALE, edgecolor=INK, lw=1.1))
    _band(axes, start, row, k, tile_m, MATRIX["A"], 0.35)
    _band(axes, column, start, tile_n, k, MATRIX["B"], 0.35)
    _band(axes, column, row, tile_n, tile_m, MATRIX["C"], 1.0)
    _band(axes, start + depth[0], row, depth[1], tile_m, MATRIX["A"], 1.0)
    _band(axes, column, start + depth[0], tile_n, depth[1], MATRIX["B"], 1.0)
    arrow = {"arrowstyle": "-|>", "color": INK, "lw": 1.2}
    axes.annotate("", (column, row + tile_m / 2), (-gap, row + tile_m / 2), arrowprops=arrow)
    axes.annotate("", (column + tile_n / 2, row), (column + tile_n / 2, -gap), arrowprops=arrow)
    axes.text(start, -0.02 * size, f"A\n{m:,} x {k:,}", va="bottom", fontweight="bold")
    axes.text(0, start - 0.02 * size, f"B  {k:,} x {n:,}", va="bottom", fontweight="bold")
    axes.text(0, m + 0.02 * size, f"C  {m:,} x {n:,}", va="top", fontweight="bold")
    axes.set_xlim(start - 0.02 * size, n + 0.02 * size)
    axes.set_ylim(m + 0.09 * size, start - 0.09 * size)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _write_reuse(picture: Picture, traffic: TileTraffic, depth: tuple[int, int]) -> None:
    """The legend at the right: what the tile needs, and how often each element is loaded."""
    tiles = traffic.a_reads * traffic.b_reads
    entries = (
        ("C", f"one tile of C: {traffic.tile_m} x {traffic.tile_n}", f"{tiles:,} tiles in all"),
        ("A", f"its rows of A: {traffic.tile_m} x {traffic.k:,}",
         f"each element is loaded {traffic.a_reads:,}x,\nonce per column of tiles"),
        ("B", f"its columns of B: {traffic.k:,} x {traffic.tile_n}",
         f"each element is loaded {traffic.b_reads:,}x,\nonce per row of tiles"),
    )
    y = 0.92
    for name, head, body in entries:
        square = Rectangle((0.635, y - 0.033), 0.022, 0.031, transform=picture.transFigure)
        square.set(facecolor=MATRIX[name], edgecolor=INK)
        picture.add_artist(square)
        picture.text(0.668, y, head, va="top", fontweight="bold")
        picture.text(0.668, y - 0.048, body, va="top", linespacing=1.35)
        y -= 0.18
    first, length = depth
    now = f"dark: k = {first:,} to {first + length - 1:,},\nin shared memory now"
    picture.text(0.635, y, now, va="top", linespacing=1.35)
    total = f"loaded {quantity(traffic.loaded_bytes, 'B')}\n{traffic.intensity:.3g} FLOP per byte moved"
    picture.text(0.635, y - 0.15, total, va="top", linespacing=1.45, fontweight="bold")


@typed
def traffic_bars(traffics: Mapping[str, TileTraffic], title: str = "") -> Picture:
    """A bar for each tiling: the global bytes of A and B that are loaded, on a log scale, and the FLOP per byte.

    traffics: by label, for example `{"32 x 32": tile_traffic(4096, 4096, 4096, 32, 32)}`.
    """
    require_some("traffics", traffics, most=20)
    count = len(traffics)
    with style():
        picture = new_picture(8.5, 1.15 + 0.55 * count)
        height = picture.get_figheight()
        axes = picture.add_axes((0.26, 0.58 / height, 0.40, 0.55 * count / height))
        values = [traffic.loaded_bytes for traffic in traffics.values()]
        for index, (label, traffic) in enumerate(traffics.items()):
            axes.barh(index, traffic.loaded_bytes, 0.56, color=YELLOW, edgecolor=INK, lw=0.9)
            note = f"{quantity(traffic.loaded_bytes, 'B')},  {traffic.intensity:.3g} FLOP per byte"
            axes.annotate(note, (traffic.loaded_bytes, index), (6, 0), textcoords="offset points", va="center")
            axes.text(-0.02, index, label, ha="right", va="center", transform=axes.get_yaxis_transform())
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 4, max(values))
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_yticks([])
        _byte_ticks(axes, min(values) / 4, max(values))
        axes.set_xlabel("global bytes of A and B loaded (log scale)")
        heading = title or "Global bytes by tile of C"
        picture.text(0.015, 1 - 0.26 / height, heading, fontweight="bold", fontsize=12.5, va="center")
        parts = (
            f"{label}: {quantity(traffic.loaded_bytes, 'B')}, {traffic.intensity:.3g} FLOP per byte"
            for label, traffic in traffics.items()
        )
        picture.alt = f"{heading}. {'; '.join(parts)}."
    return picture


def _byte_ticks(axes: Axes, low: float, high: float) -> None:
    """Ticks at powers of ten, as '1 GB'."""
    powers = decades(low, high)
    axes.set_xticks(powers, [quantity(power, "B") for power in powers])
    axes.minorticks_off()


def _band(axes: Axes, x: float, y: float, width: float, height: float, color: str, alpha: float) -> None:
    axes.add_patch(Rectangle((x, y), width, height, facecolor=color, alpha=alpha, edgecolor="none"))
    axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=INK, lw=0.8))
