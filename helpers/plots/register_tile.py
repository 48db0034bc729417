"""A thread's tile of C inside its warp's and its CTA's, and the shared-memory loads that thread tiles need."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_some
from helpers.errors import ArgumentError
from helpers.models.machine import WARP
from helpers.models.register_tile import CHUNK, RegisterTile
from helpers.models.tiling import SharedLoads
from helpers.plots.figure import INK, NAVY, ON, PALE, SKY, VERMILLION, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed


@typed
def thread_tile(tile: RegisterTile | None = None, warp: int = 1, lane: int = 10) -> Picture:
    """Draw C's tile of a CTA with its warps, one warp's tile with its lanes, and the elements that one lane owns.

    tile: defaults to rung 3's. Raises ArgumentError for a warp or lane that does not exist.
    """
    tile = tile or RegisterTile()
    warps = tile.threads // WARP
    for name, value, limit in (("warp", warp, warps), ("lane", lane, WARP)):
        if not 0 <= value < limit:
            raise ArgumentError(f"{name} is {value}: it must be 0 to {limit - 1}.")
    with style():
        picture = new_picture(9.4, 5.4)
        left = picture.add_axes((0.02, 0.13, 0.36, 0.75))
        right = picture.add_axes((0.43, 0.13, 0.55, 0.77))
        _draw_cta(left, tile, warp, lane)
        _draw_warp(right, tile, warp, lane)
        picture.text(0.02, 0.93, f"CTA: {tile.cta_m} x {tile.cta_n}, {warps} warps", fontsize=12.5, fontweight="bold")
        heading = f"warp {warp}: {tile.warp_m} x {tile.warp_n}, 32 lanes"
        picture.text(0.43, 0.93, heading, fontsize=12.5, fontweight="bold")
        rows, columns = tile.rows(warp, lane), tile.columns(warp, lane)
        sums = len(rows) * len(columns)
        owned = f"lane {lane} owns {tile.thread_m} rows x {tile.thread_n} columns = {sums} sums"
        entries = {SKY: ("the first strip of each lane, with the lanes' numbers", f"warp {warp}"),
                   NAVY: (owned, f"its lane {lane}")}
        for y, (color, words) in zip((0.043, 0.088), entries.items(), strict=True):
            for x, text in zip((0.43, 0.02), words, strict=True):
                key(picture, x, y, [(text, color)], fontsize=11)
        chunks = [f"{chunk[0]} to {chunk[-1]}" for chunk in columns.reshape(-1, CHUNK)]
        picture.alt = (
            f"The {tile.cta_m} x {tile.cta_n} tile of C of a CTA is split among {warps} warps, {tile.warps_m} along M "
            f"and {tile.warps_n} along N, each {tile.warp_m} x {tile.warp_n}. Lane {lane} of warp {warp} owns rows "
            f"{', '.join(map(str, rows))} and columns {' and '.join(chunks)}: {sums} elements."
        )
    return picture


def _draw_cta(axes: Axes, tile: RegisterTile, warp: int, lane: int) -> None:
    """The warps as boxes; the elements of the one lane in place."""
    for other in range(tile.threads // WARP):
        row, column = tile.warp_origin(other)
        face = SKY if other == warp else PALE
        axes.add_patch(Rectangle((column, row), tile.warp_n, tile.warp_m, facecolor=face, edgecolor=INK, lw=1.0))
        if other != warp:
            middle = column + tile.warp_n / 2, row + tile.warp_m / 2
            axes.text(*middle, str(other), ha="center", va="center", fontsize=12)
    for row in tile.rows(warp, lane):
        for column in tile.columns(warp, lane)[::CHUNK]:
            axes.add_patch(Rectangle((column, row), CHUNK, 1, facecolor=NAVY, edgecolor="none"))
    axes.set_xlim(-1, tile.cta_n + 1)
    axes.set_ylim(tile.cta_m + 1, -1)
    axes.set_aspect("equal", anchor="NW")
    axes.set_axis_off()


def _draw_warp(axes: Axes, tile: RegisterTile, warp: int, lane: int) -> None:
    """A warp's tile in strips of one row and eight columns: the lane's own ones dark, each lane's first one lighter."""
    row0, column0 = tile.warp_origin(warp)
    strips = tile.warp_n // CHUNK
    owners = tile.owners()[row0 : row0 + tile.warp_m, column0 : column0 + tile.warp_n : CHUNK] % WARP
    for row in range(tile.warp_m):
        for strip in range(strips):
            mine = owners[row, strip] == lane
            first_copy = row < 8 and strip < 4
            face = NAVY if mine else SKY if first_copy else PALE
            box = Rectangle((strip * CHUNK, row), CHUNK, 1, facecolor=face, edgecolor="white", lw=0.5)
            axes.add_patch(box)
    axes.set_xlim(-6, tile.warp_n + 0.5)
    axes.set_ylim(tile.warp_m + 0.5, -3.5)
    axes.set_axis_off()
    for strip in range(strips):
        label = f"{strip * CHUNK}-{strip * CHUNK + 7}"
        axes.text((strip + 0.5) * CHUNK, -0.6, label, ha="center", va="bottom", fontsize=10)
    for row in np.arange(0, tile.warp_m, 8):
        axes.text(-0.8, row + 0.5, str(row), ha="right", va="center", fontsize=10)
    axes.text(-0.8, -1.6, "row", ha="right", va="bottom", fontsize=10)
    for strip in range(min(strips, 4)):
        lanes = f"{owners[0, strip]}-{owners[7, strip]}"
        y = 4 if lane // 8 != strip else (2 if lane % 8 > 3 else 6)   # clear of the lane's own strip
        axes.text((strip + 0.5) * CHUNK, y, lanes, ha="center", va="center", fontsize=11, color=ON[SKY])


@typed
def loads_per_fma(tiles: Mapping[str, SharedLoads], title: str = "") -> Picture:
    """A bar for each thread tile: shared-memory loads per multiply-add.

    tiles: by label, for example `{"8 x 16, 128 bits": shared_loads(8, 16, 8, 8)}`.
    """
    require_some("tiles", tiles, most=20)
    count = len(tiles)
    with style():
        picture = new_picture(8.5, 1.15 + 0.52 * count)
        height = picture.get_figheight()
        axes = picture.add_axes((0.28, 0.58 / height, 0.44, 0.52 * count / height))
        values = [loads.loads_per_fma for loads in tiles.values()]
        notes = [f"{value:.3g} (one per {1 / value:.3g})" if value < 1 else f"{value:.3g}" for value in values]
        for index, (label, value) in enumerate(zip(tiles, values, strict=True)):
            color = VERMILLION if value >= 1 else YELLOW
            axes.barh(index, value, 0.56, color=color, edgecolor=INK, lw=0.9)
            axes.annotate(notes[index], (value, index), (6, 0), textcoords="offset points", va="center")
            axes.text(-0.02, index, label, ha="right", va="center", transform=axes.get_yaxis_transform())
        axes.set_xscale("log")
        axes.set_xlim(min(values) / 3, max(values))
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_yticks([])
        ticks = [t for t in (0.001, 0.01, 0.1, 1, 10) if min(values) / 3 <= t <= max(values)]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("load instructions per multiply-add (log scale)")
        heading = title or "Shared-memory loads by thread tile"
        picture.text(0.015, 1 - 0.26 / height, heading, fontweight="bold", fontsize=12.5, va="center")
        parts = (f"{label}: {note}" for label, note in zip(tiles, notes, strict=True))
        picture.alt = f"{heading}, loads per multiply-add. {'; '.join(parts)}."
    return picture
