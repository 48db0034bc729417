"""Which 32-byte sectors the lanes of a warp touch, side by side for several kernels."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_some
from helpers.models.coalescing import Traffic, touched_bytes, warp_traffic
from helpers.models.machine import SECTOR_BYTES, WARP
from helpers.plots.figure import GREY, INK, MATRIX, NAVY, PALE, Picture, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_LANES_Y, _TOP, _BOTTOM = 1.0, 0.62, 0.12   # of the lanes, of the sectors


@typed
def sector_map(kernels: Mapping[str, Mapping[str, np.ndarray]], width: int = 2) -> Picture:
    """Draw one warp's requests: a column for each kernel, a row for each array.

    kernels: byte addresses (int64, shape (32,)) by kernel name and array name, for example
    `{"coalesced": {"A": ..., "B": ..., "C": ...}, "uncoalesced": {...}}`. width: bytes per lane.
    A line joins each lane to the sector it touches; the coloured part of a sector is what the lanes use of it.
    """
    require_some("kernels", kernels, most=4)
    for name, arrays in kernels.items():
        require_some(f"kernels[{name!r}]", arrays, most=6)
    rows = max(len(arrays) for arrays in kernels.values())
    sentences = []
    with style():
        picture = new_picture(9.0, 0.9 + 1.55 * rows)
        grid = picture.subplots(rows, len(kernels), squeeze=False)
        picture.subplots_adjust(0.035, 0.02, 0.975, 1 - 0.42 / picture.get_figheight(), wspace=0.1, hspace=0.12)
        for axes in grid.flat:
            axes.set_axis_off()
        for column, (kernel, arrays) in enumerate(kernels.items()):
            box = grid[0, column].get_position()
            top = 1 - 0.30 / picture.get_figheight()
            picture.text(box.x0, top, kernel, fontsize=13, fontweight="bold", va="center")
            for row, (name, addresses) in enumerate(arrays.items()):
                traffic = warp_traffic(addresses, width)
                _draw_request(grid[row, column], name, addresses, width, traffic)
                sentences.append(
                    f"{kernel}, {name}: {plural(traffic.sectors, 'sector')}, {traffic.bytes_used:,} of "
                    f"{traffic.bytes_fetched:,} bytes used{_spacing(addresses, width)}"
                )
        picture.alt = "The 32-byte sectors that one warp touches. " + "; ".join(sentences) + "."
    return picture


def _draw_request(axes: Axes, name: str, addresses: np.ndarray, width: int, traffic: Traffic) -> None:
    """One panel: 32 lanes above, the touched sectors below in order of address, a line from each lane."""
    color = MATRIX.get(name, NAVY)
    addresses = np.asarray(addresses)
    active = np.flatnonzero(addresses >= 0)
    touched = touched_bytes(addresses, width)
    sectors = np.unique(touched // SECTOR_BYTES)
    pitch = min(WARP / len(sectors), 4.0)
    first = (WARP - pitch * len(sectors)) / 2
    centre = {int(sector): first + (i + 0.5) * pitch for i, sector in enumerate(sectors)}
    box_width = min(0.82 * pitch, 3.2)

    for lane in range(WARP):
        fill = color if lane in active else "none"
        axes.add_patch(Rectangle((lane + 0.14, _LANES_Y), 0.72, 0.13, facecolor=fill, edgecolor=INK, lw=0.6))
    for lane in active:
        for sector in np.unique((addresses[lane] + np.arange(width)) // SECTOR_BYTES):
            axes.plot([lane + 0.5, centre[int(sector)]], [_LANES_Y, _TOP], color=GREY, lw=0.7, solid_capstyle="butt")
    height = _TOP - _BOTTOM
    for sector, x in centre.items():
        left = x - box_width / 2
        axes.add_patch(Rectangle((left, _BOTTOM), box_width, height, facecolor=PALE, edgecolor="none"))
        for byte in touched[touched // SECTOR_BYTES == sector] % SECTOR_BYTES:
            y = _TOP - (byte + 1) / SECTOR_BYTES * height
            axes.add_patch(Rectangle((left, y), box_width, height / SECTOR_BYTES, facecolor=color, edgecolor="none"))
        axes.add_patch(Rectangle((left, _BOTTOM), box_width, height, fill=False, edgecolor=INK, lw=0.7))
    axes.set_xlim(-0.2, WARP + 0.2)
    axes.set_ylim(-0.16, 1.46)
    axes.text(0, 1.25, f"{name}: 32 lanes", va="bottom", fontweight="bold")
    axes.text(WARP, 1.25, plural(traffic.sectors, 'sector'), va="bottom", ha="right", fontweight="bold")
    axes.text(
        WARP / 2, 0.06, f"{traffic.bytes_used:,} of {traffic.bytes_fetched:,} bytes used{_spacing(addresses, width)}",
        va="top", ha="center", fontsize=10.5,
    )


def _spacing(addresses: np.ndarray, width: int) -> str:
    """How far the sectors lie apart, if there are several at even distances."""
    sectors = np.unique(touched_bytes(np.asarray(addresses), width) // SECTOR_BYTES)
    steps = np.unique(np.diff(sectors)) * SECTOR_BYTES
    if len(sectors) < 2 or len(steps) != 1:
        return ""
    return "" if steps[0] == SECTOR_BYTES else f", sectors {steps[0]:,} bytes apart"
