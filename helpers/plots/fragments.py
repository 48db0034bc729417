"""Who holds which element of wgmma's result, and what a warp's store of it touches."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_integer, require_kind
from helpers.errors import ArgumentError
from helpers.models.coalescing import check_addresses, warp_traffic
from helpers.models.fragments import BLOCK, MOST_COLUMNS, ROWS, THREADS, WARP_ROWS, element
from helpers.models.machine import SECTOR_BYTES, WARP
from helpers.plots.figure import GREY, INK, NAVY, ON, PALE, PHASES, SKY, Picture, new_picture, style
from helpers.typed import typed
from helpers.words import plural, short

BF16_BYTES = 2
MOST_ROW_BYTES = 1 << 40   # what a tensor map can stride over


@typed
def fragment_map(thread: int = 38, columns: int = 128) -> Picture:
    """Draw a warpgroup's 64 x N result with its four warps and what one thread holds, and the first block of its warp.

    Raises ArgumentError for a thread that a warpgroup does not have.
    """
    require_integer("thread", thread)
    require_integer("columns", columns, BLOCK, MOST_COLUMNS)
    if columns % BLOCK:
        raise ArgumentError(f"columns is {columns}: it must be a multiple of {BLOCK}.")
    if not 0 <= thread < THREADS:
        raise ArgumentError(f"thread is {thread}: a warpgroup has threads 0 to {THREADS - 1}.")
    warp, lane = divmod(thread, WARP)
    held = [element(thread, register) for register in range(columns // 2)]
    with style():
        picture = new_picture(9.6, 5.5)
        left = picture.add_axes((0.075, 0.14, 0.52, 0.70))
        right = picture.add_axes((0.665, 0.14, 0.315, 0.70))
        _draw_tile(left, held, warp, columns)
        _draw_block(right, warp, lane)
        heading = f"A warpgroup's {ROWS} x {columns}: thread {thread}, lane {lane} of warp {warp}"
        picture.text(0.015, 0.945, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.text(0.62, 0.945, f"warp {warp}, columns 0 to 7: lanes", fontsize=12.5, fontweight="bold", va="center")
        rows = sorted({row for row, _ in held})
        both = f"{rows[0]} and {rows[1]}"
        note = f"dark: its {len(held)} sums, in rows {both}"
        picture.text(0.075, 0.045, note, va="center")
        picture.text(0.62, 0.045, "upper half: sums[0], [1]; lower: [2], [3]", va="center")
        pair = f"{held[0][1]} and {held[1][1]}"
        picture.alt = (
            f"The {ROWS} x {columns} result of a warpgroup: warp w holds rows {WARP_ROWS} w to {WARP_ROWS} w + 15. "
            f"Thread {thread}, lane {lane} of warp {warp}, holds {len(held)} elements, in rows {both}: "
            f"columns {pair} and those 8, 16, ... further. In a block of 16 x 8 the lanes go four to a row."
        )
    return picture


def _draw_tile(axes: Axes, held: list[tuple[int, int]], warp: int, columns: int) -> None:
    """The four warps as bands, the elements of one thread in place."""
    for other in range(ROWS // WARP_ROWS):
        face = SKY if other == warp else PALE
        axes.add_patch(Rectangle((0, other * WARP_ROWS), columns, WARP_ROWS, facecolor=face, edgecolor=INK, lw=1.0))
        if other != warp:
            axes.text(columns / 2, (other + 0.5) * WARP_ROWS, f"warp {other}", ha="center", va="center")
    for row, column in held:
        axes.add_patch(Rectangle((column, row), 1, 1, facecolor=NAVY, edgecolor="none"))
    first, top = held[0][1] // BLOCK * BLOCK, warp * WARP_ROWS
    axes.add_patch(Rectangle((first, top), BLOCK, WARP_ROWS, fill=False, edgecolor=INK, lw=2.2))
    axes.set_xlim(-0.5, columns + 0.5)
    axes.set_ylim(ROWS + 0.5, -0.5)
    _ticks(axes, np.arange(0, columns + 1, 16), np.arange(0, ROWS + 1, WARP_ROWS))


def _draw_block(axes: Axes, warp: int, lane: int) -> None:
    """The lanes in the 16 x 8 elements that a warp begins with."""
    top = warp * WARP_ROWS
    for other in range(WARP):
        color = PHASES[other % 4]
        for register in range(4):
            row, column = element(warp * WARP + other, register)
            edge, width = (INK, 2.4) if other == lane else ("white", 0.9)
            axes.add_patch(
                Rectangle(
                    (column, row), 1, 1, facecolor=color, edgecolor=edge, lw=width, zorder=3 if other == lane else 2
                )
            )
            axes.text(
                column + 0.5, row + 0.5, str(other), ha="center", va="center_baseline", color=ON[color], fontsize=10.5,
                zorder=4,
            )
    axes.set_xlim(-0.05, BLOCK + 0.05)
    axes.set_ylim(top + WARP_ROWS + 0.05, top - 0.05)
    _ticks(axes, np.arange(BLOCK), np.arange(top, top + WARP_ROWS, 2), 0.5)


def _ticks(axes: Axes, columns: np.ndarray, rows: np.ndarray, middle: float = 0.0) -> None:
    axes.set_xticks(columns + middle, columns)
    axes.set_yticks(rows + middle, rows)
    axes.set_xlabel("column")
    axes.text(-0.02, 1.025, "row", ha="right", va="bottom", transform=axes.transAxes)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


@typed
def store_rows(stores: Mapping[str, tuple[np.ndarray, int]], row_bytes: int) -> Picture:
    """Draw what one store of a warp writes in each row of C, side by side for several kernels.

    stores: byte addresses (int64, shape (32,)) and bytes a lane, by name, as the emulator's counters have them.
    row_bytes: from row to row of C. The sectors of 32 bytes are framed.
    Raises ArgumentError for a store that goes beyond eight rows or 32 columns.
    """
    require_kind("stores", stores, Mapping, "give {name: (addresses, bytes a lane)}")
    require_integer("row_bytes", row_bytes, 1, MOST_ROW_BYTES)
    if not 1 <= len(stores) <= 2:
        raise ArgumentError(f"stores are {len(stores)}: one or two fit in a picture.")
    for name, store in stores.items():
        if not isinstance(store, tuple | list) or len(store) != 2:
            raise ArgumentError(f"stores[{name!r}] is {short(store)}: it must be (addresses, bytes a lane).")
    sentences = []
    with style():
        picture = new_picture(9.6, 4.0)
        for index, (name, (addresses, width)) in enumerate(stores.items()):
            box = (0.06 + 0.49 * index, 0.17, 0.43, 0.56)
            traffic = warp_traffic(addresses, width)
            _draw_store(picture.add_axes(box), check_addresses(addresses, width), width, row_bytes)
            used = f"{plural(traffic.sectors, 'sector')}, {traffic.bytes_used:,} of {traffic.bytes_fetched:,} bytes"
            picture.text(box[0], 0.85, used + " written", va="center")
            picture.text(box[0], 0.93, name, fontsize=12.5, fontweight="bold", va="center")
            sentences.append(f"{name}: {used}")
        picture.alt = (
            "The elements of C that one store instruction of a warp writes, with the lanes that write them; sectors of "
            f"32 bytes are framed. {'; '.join(sentences)}."
        )
    return picture


def _draw_store(axes: Axes, addresses: np.ndarray, width: int, row_bytes: int) -> None:
    """A row for each row of C, a column for each element of the sectors that are touched."""
    rows, bytes_in_row = np.divmod(addresses, row_bytes)
    sectors = np.unique(bytes_in_row // SECTOR_BYTES)
    first_row, first_byte = int(rows.min()), int(sectors[0]) * SECTOR_BYTES
    count, elements = int(rows.max()) - first_row + 1, (int(sectors[-1] - sectors[0]) + 1) * SECTOR_BYTES // BF16_BYTES
    if count > 8 or elements > 32:
        raise ArgumentError(f"stores reach over {count} rows and {elements} columns: at most 8 and 32 can be drawn.")
    axes.add_patch(Rectangle((0, 0), elements, count, facecolor=PALE, edgecolor="none"))
    for lane, (row, byte) in enumerate(zip(rows - first_row, bytes_in_row - first_byte, strict=True)):
        color, span = PHASES[lane % 4], width / BF16_BYTES
        x = byte / BF16_BYTES
        axes.add_patch(Rectangle((x, row), span, 1, facecolor=color, edgecolor="white", lw=0.9))
        axes.text(
            x + span / 2, row + 0.5, str(lane), ha="center", va="center_baseline", color=ON[color], fontsize=10.5
        )
    for row in range(count):
        for x in range(0, elements, SECTOR_BYTES // BF16_BYTES):
            axes.add_patch(Rectangle((x, row), SECTOR_BYTES // BF16_BYTES, 1, fill=False, edgecolor=INK, lw=1.8))
    axes.set_xlim(-0.1, elements + 0.1)
    axes.set_ylim(count + 0.1, -0.1)
    first_column = first_byte // BF16_BYTES
    columns = np.arange(0, elements + 1, 4)
    _ticks(axes, columns, np.arange(count), 0.0)
    axes.set_xticks(columns, columns + first_column)
    axes.set_yticks(np.arange(count) + 0.5, np.arange(count) + first_row)
    axes.tick_params(color=GREY)
