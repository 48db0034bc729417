"""A box of a matrix and where TMA lays its 16-byte chunks in shared memory."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers.checks import require_integer, require_kind
from helpers.models.register_tile import CHUNK, CHUNK_BYTES
from helpers.models.tma import OUTSIDE, BoxPlacement
from helpers.plots.figure import CARD, GREY, INK, PALE, Picture, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_ROW = 0.27    # inches
MAX_ROWS = 16
_NUMBERED = 16   # chunks in a row, at most, that all get their numbers


@typed
def box_layout(placement: BoxPlacement, title: str = "", highlight: int = 2, max_rows: int = MAX_ROWS) -> Picture:
    """Draw a box in its matrix, chunk by chunk, and beside it the same chunks at their places in shared memory.

    A chunk is 16 bytes, eight bf16; its number counts within a row of the box, and its shade goes with the number. The
    chunks of number `highlight` have a frame. Zeros are hatched. At most `max_rows` rows are drawn.
    """
    require_kind("placement", placement, BoxPlacement, "make it with place_box")
    require_integer("highlight", highlight)
    require_integer("max_rows", max_rows, 1)
    rows = min(placement.sources.shape[0], max_rows)
    places = _chunks(placement)[:rows]
    count = places.shape[1]
    inside = _inside(placement)[:rows]
    with style():
        height = 1.5 + _ROW * rows
        picture = new_picture(9.4, height)
        boxes = [(left, 0.42 / height, width, _ROW * rows / height) for left, width in ((0.085, 0.375), (0.60, 0.375))]
        left, right = (picture.add_axes(box) for box in boxes)
        for row in range(rows):
            for chunk in range(count):
                _cell(left, row, chunk, chunk if inside[row, chunk] else OUTSIDE, count, highlight)
                _cell(right, row, chunk, int(places[row, chunk]), count, highlight)
        _frame(left, rows, count, [f"{placement.y + row}" for row in range(rows)], "matrix\nrow")
        _frame(right, rows, count, [f"{row * count * CHUNK_BYTES}" for row in range(rows)], "shared\nbyte")
        columns = f"columns {placement.x} to {placement.x + count * CHUNK - 1}"
        picture.text(0.085, 1 - 0.72 / height, f"the box: {columns}, as chunks", va="center")
        picture.text(0.60, 1 - 0.72 / height, f"shared memory: {plural(count, 'place')} a row", va="center")
        heading = title or _title(placement)
        picture.text(0.015, 1 - 0.28 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        hidden = placement.sources.shape[0] - rows
        zeros = "; hatched: outside of the matrix, zeros" if placement.outside_bytes else ""
        missing = f"; {plural(hidden, 'more row')} not drawn" if hidden else ""
        picture.text(0.085, 0.17 / height, f"frame: chunk {highlight} of each row{zeros}{missing}", va="center")
        picture.alt = _alt(placement, places, highlight, heading)
    return picture


def _chunks(placement: BoxPlacement) -> np.ndarray:
    """The number, within its row of the box, of the chunk at each place of shared memory; OUTSIDE for zeros."""
    first = placement.sources[:, ::CHUNK]
    column = first % placement.map.shape[0]
    return np.where(first == OUTSIDE, OUTSIDE, (column - placement.x) // CHUNK)


def _inside(placement: BoxPlacement) -> np.ndarray:
    """Whether each chunk of the box lies in the matrix, in the order of the matrix."""
    columns, rows = placement.map.shape
    y = placement.y + np.arange(placement.sources.shape[0])[:, None]
    x = placement.x + CHUNK * np.arange(placement.sources.shape[1] // CHUNK)[None, :]
    return (0 <= y) & (y < rows) & (0 <= x) & (x < columns)


def _cell(axes: Axes, row: int, place: int, chunk: int, count: int, highlight: int) -> None:
    if chunk == OUTSIDE:
        axes.add_patch(Rectangle((place, row), 1, 1, facecolor=CARD, edgecolor=GREY, hatch="///", lw=0.8, zorder=1))
        return
    dark = chunk < count / 2
    place_of_shade = 0.4 * chunk / count if dark else 0.6 + 0.4 * (chunk + 1 - count / 2) / count   # text reads on it
    shade = colormaps["cividis"](place_of_shade)
    edge = CARD if count <= _NUMBERED else "none"   # numbers are wider than narrow cells
    axes.add_patch(Rectangle((place, row), 1, 1, facecolor=to_hex(shade), edgecolor=edge, lw=0.9, zorder=1))
    if chunk == highlight:
        inset_x = 0.08 if count <= _NUMBERED else 0
        for color, width in ((CARD, 4.0), (INK, 1.8)):   # the one stands out from dark cells, the other from light ones
            inset = Rectangle((place + inset_x, row + 0.12), 1 - 2 * inset_x, 0.76, fill=False, lw=width, zorder=2)
            inset.set_edgecolor(color)
            axes.add_patch(inset)
    if count > _NUMBERED and (chunk % 8 != 4 or chunk == highlight):
        return   # no room for all numbers, and none in a frame
    axes.text(
        place + 0.5, row + 0.5, str(chunk), ha="center", va="center_baseline", fontsize=10,
        color="white" if dark else INK, zorder=3,
    )


def _frame(axes: Axes, rows: int, count: int, labels: list[str], what: str) -> None:
    axes.set_xlim(0, count)
    axes.set_ylim(rows, 0)
    axes.set_xticks([])
    axes.set_yticks(np.arange(rows) + 0.5, labels)
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelsize=10)
    axes.text(-0.02, 1.02, what, transform=axes.transAxes, ha="right", va="bottom", fontsize=10, linespacing=1.1)
    for spine in axes.spines.values():
        spine.set_color(PALE)


def _title(placement: BoxPlacement) -> str:
    columns, rows = placement.map.box
    return f"A box of {columns} x {rows} at x = {placement.x}, y = {placement.y}, swizzle {placement.map.swizzle}"


def _alt(placement: BoxPlacement, places: np.ndarray, highlight: int, heading: str) -> str:
    path = ", ".join(str(int(place)) for row in places for place in np.flatnonzero(row == highlight))
    outside = f" {placement.outside_bytes:,} of its bytes lie outside of the matrix and come as zeros."
    last = placement.x + places.shape[1] * CHUNK - 1
    return (
        f"{heading}: {placement.bytes:,} bytes, columns {placement.x} to {last} of the matrix. Chunk {highlight} of "
        "the rows drawn lies at places "
        f"{path} of its row in shared memory.{outside if placement.outside_bytes else ''}"
    )
