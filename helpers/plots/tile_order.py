"""Orders of tiles: the walk itself, and the patch of C that one wave computes with the strips it needs."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

from helpers.errors import ArgumentError
from helpers.models.l2 import patch, wave_tiles
from helpers.models.machine import H200
from helpers.plots.figure import CARD, GREY, INK, MATRIX, NAVY, PALE, SKY, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_WALK = LinearSegmentedColormap.from_list("walk", [NAVY, "#2E6FA8", SKY, YELLOW])   # by lightness, dark first
MOST_TILES = 40_000
_HEAD, _FOOT = 0.62, 0.5   # inches
_NAME, _TICK = 1.0, 0.36   # inches that an axis's name and one of its numbers need
_MARGIN = 0.09             # of a panel's side, for the strips of A and B


@typed
def walks(orders: Mapping[str, np.ndarray], title: str = "") -> Picture:
    """A panel for each order, side by side: a line from tile to tile, dark at the start and light at the end.

    orders: tiles (m, n) by the panel's title. Columns of tiles go right and rows down, as in C.
    """
    if not orders:
        raise ArgumentError("orders is empty: give at least one, as {title: tiles}.")
    heading = title or "Orders of tiles: from the dark end to the light one"
    with style():
        picture, panels = _panels([_shape(tiles) for tiles in orders.values()], heading)
        parts = []
        for axes, (name, tiles) in zip(panels, orders.items(), strict=True):
            rows, columns = _shape(tiles)
            axes.add_patch(Rectangle((-0.5, -0.5), columns, rows, facecolor=PALE, edgecolor=INK, lw=1.0))
            points = tiles[:, ::-1].astype(float)
            segments = np.stack([points[:-1], points[1:]], axis=1)
            width = min(3.2, 90 / max(rows, columns))
            axes.add_collection(LineCollection(segments, colors=INK, linewidths=width + 1.1, capstyle="round"))
            walk = LineCollection(segments, cmap=_WALK, linewidths=width, capstyle="round")
            walk.set_array(np.linspace(0, 1, len(segments)))
            axes.add_collection(walk)
            axes.plot(*points[0], "o", color=NAVY, mec=CARD, ms=6, zorder=4)
            axes.plot(*points[-1], "s", color=YELLOW, mec=INK, ms=6, zorder=4)
            axes.set_xlim(-0.5, columns - 0.5)
            axes.set_ylim(rows - 0.5, -0.5)
            _finish(axes, name, rows, columns)
            jumps = int((np.abs(np.diff(tiles, axis=0)).sum(axis=1) > 1).sum())
            parts.append(
                f"{name}: {rows} x {plural(columns, 'tile')} from {_pair(tiles[0])} to {_pair(tiles[-1])}, "
                + (f"with {plural(jumps, 'jump')}" if jumps else "each step to a neighbour")
            )
        picture.alt = f"{heading}. {'; '.join(parts)}."
    return picture


@typed
def wave_patches(
    orders: Mapping[str, np.ndarray], wave: int, ctas: int = H200.sm_count, title: str = ""
) -> Picture:
    """A panel for each order: the tiles of one wave, and along the sides the strips of A and B that it needs.

    wave: which, from 0; the tiles of the one before are marked too. Raises ArgumentError if there is no such wave.
    """
    if not orders:
        raise ArgumentError("orders is empty: give at least one, as {title: tiles}.")
    shapes = [_shape(tiles) for tiles in orders.values()]
    count = min(len(wave_tiles(tiles, ctas)) for tiles in orders.values())
    if not 0 <= wave < count:
        raise ArgumentError(f"wave is {wave}: these orders have {plural(count, 'wave')}, so give 0 to {count - 1}.")
    heading = title or f"The tiles of wave {wave + 1}, and the strips that they need"
    with style():
        picture, panels = _panels(shapes, heading, _MARGIN)
        parts = []
        for axes, (name, tiles) in zip(panels, orders.items(), strict=True):
            rows, columns = _shape(tiles)
            waves = wave_tiles(tiles, ctas)
            needed = patch(waves[wave])
            grid = np.zeros((rows, columns))
            if wave:
                grid[tuple(waves[wave - 1].T)] = 1
            grid[tuple(waves[wave].T)] = 2
            _draw_patch(axes, grid, needed.rows, needed.columns)
            counts = f"{len(needed.rows)} of A + {len(needed.columns)} of B"
            _finish(axes, f"{name}: {needed.strips} strips\n{counts}", rows, columns)
            parts.append(f"{name}: {plural(needed.tiles, 'tile')}, {counts} = {needed.strips} strips")
        height = picture.get_figheight()
        entries = [("this wave", SKY), ("the wave before", YELLOW)]
        entries += [(f"strips of {name}", MATRIX[name]) for name in "AB"]
        key(picture, 0.06, 0.19 / height, entries, fontsize=11)
        picture.alt = f"{heading}. {'; '.join(parts)}."
    return picture


def _draw_patch(axes: Axes, grid: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> None:
    tall, wide = grid.shape
    side = _MARGIN * max(tall, wide)
    axes.add_patch(Rectangle((-0.5, -0.5), wide, tall, facecolor=PALE, edgecolor="none"))
    axes.add_patch(Rectangle((-0.5, -0.5), wide, tall, fill=False, edgecolor=INK, lw=1.0, zorder=3))
    for value, color in ((1, YELLOW), (2, SKY)):
        for row, column in np.argwhere(grid == value):
            edge = INK if max(tall, wide) <= 32 else GREY if max(tall, wide) <= 64 else color   # tiles of a few pixels
            axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=color, edgecolor=edge, lw=0.3))
    for row in rows:
        axes.add_patch(Rectangle((-0.7 - 0.7 * side, row - 0.5), 0.6 * side, 1, facecolor=MATRIX["A"], edgecolor=CARD,
                                 lw=0.3))
    for column in columns:
        axes.add_patch(Rectangle((column - 0.5, -0.7 - 0.7 * side), 1, 0.6 * side, facecolor=MATRIX["B"],
                                 edgecolor=CARD, lw=0.3))
    axes.set_xlim(-0.5 - side, wide - 0.5)
    axes.set_ylim(tall - 0.5, -0.5 - side)


def _panels(shapes: Sequence[tuple[int, int]], heading: str, margin: float = 0.0) -> tuple[Picture, list[Axes]]:
    """Axes side by side, in which every tile is a square, the heading above and room for a key below.

    margin: room at the left and above each, as a share of its longer side.
    """
    digits = 0.1 * any(max(shape) > 100 for shape in shapes)   # room for three of them
    width, gap, left = 9.4, 0.62 + digits, 0.55 + digits
    room = (width - left - 0.2 - gap * (len(shapes) - 1)) / len(shapes)
    tallest = max((rows + margin * max(rows, columns)) / (columns + margin * max(rows, columns))
                  for rows, columns in shapes)
    panel = min(room * tallest, 4.0)
    lines = 0.22 if margin else 0.0
    height = _HEAD + lines + panel + _FOOT + (0.36 if margin else 0.0)
    picture = new_picture(width, height)
    picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
    axes = []
    for index in range(len(shapes)):
        box = (left + index * (room + gap), height - _HEAD - lines - panel, room, panel)
        axes.append(picture.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height)))
    return picture, axes


def _finish(axes: Axes, title: str, rows: int, columns: int) -> None:
    axes.set_aspect("equal", anchor="NW")
    axes.set_title(title, fontsize=11, pad=5, linespacing=1.3)
    axes.apply_aspect()
    drawn = axes.get_window_extent()
    wide, tall = drawn.width / axes.figure.dpi, drawn.height / axes.figure.dpi
    axes.set_xticks(_ticks(columns, wide))
    axes.set_yticks(_ticks(rows, tall))
    axes.set_xlabel("column of tiles, n" if wide > _NAME else "n")
    axes.set_ylabel("row of tiles, m" if tall > _NAME else "m", labelpad=2)
    axes.spines[:].set_visible(False)


def _ticks(count: int, inches: float) -> list[int]:
    """Of a side of so many tiles: at most five, each with room for its number."""
    most = min(4, inches / _TICK)
    step = next((2**power for power in range(12) if count <= most * 2**power), count)
    return list(range(0, count, step))


def _shape(tiles: np.ndarray) -> tuple[int, int]:
    tiles = np.asarray(tiles)
    if tiles.ndim != 2 or tiles.shape[1] != 2 or not len(tiles) or tiles.dtype.kind not in "iu" or tiles.min() < 0:
        raise ArgumentError("an order is no list of tiles: give at least one (m, n) a row, integers from 0 on.")
    if len(tiles) > MOST_TILES:
        raise ArgumentError(f"an order has {len(tiles):,} tiles: a picture shows {MOST_TILES:,} at most; give fewer.")
    rows, columns = (int(side) + 1 for side in tiles.max(axis=0))
    return rows, columns


def _pair(tile: np.ndarray) -> str:
    return f"({tile[0]}, {tile[1]})"
