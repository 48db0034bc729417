"""L2 replayed wave by wave: which strips of A and B it still holds, and what a smaller or a larger one would do."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.patches import Rectangle

from helpers.checks import require_positive
from helpers.errors import ArgumentError
from helpers.models.l2 import L2Traffic, l2_traffic, wave_tiles
from helpers.models.machine import H200
from helpers.plots.figure import (
    CARD,
    GREY,
    INK,
    NAVY,
    PALE,
    SKY,
    VERMILLION,
    YELLOW,
    Picture,
    key,
    new_picture,
    place_labels,
    quantity,
    style,
)
from helpers.typed import typed

_MIB = 2**20
_LINES = ((NAVY, "o"), (VERMILLION, "s"), (SKY, "^"), (YELLOW, "D"), (GREY, "v"))
_STRIP = 0.16   # length of a strip's bar, as a share of the longer side of C
CAPACITIES = tuple(2.0**power * _MIB for power in np.arange(3, 9.01, 0.25))


@typed
def wave_frames(
    orders: Mapping[str, np.ndarray],
    n: int,
    waves: Sequence[int] = (0, 1, 2, 3),
    ctas: int = H200.sm_count,
    l2_bytes: float = H200.l2_bytes,
    title: str = "",
) -> Picture:
    """A row for each order, a frame for each wave: its tiles, and how much of each strip L2 holds from earlier waves.

    orders: tiles (m, n) by name, of C[n,n] with K = n. waves: numbers from 0. ctas: that run together. Raises
    ArgumentError without orders, or for a wave that one of them does not have.
    """
    if not orders:
        raise ArgumentError("orders is empty: give at least one, as {name: tiles}.")
    count = min(len(wave_tiles(tiles, ctas)) for tiles in orders.values())
    if not waves or not all(0 <= wave < count for wave in waves):
        raise ArgumentError(f"waves is {tuple(waves)}: these orders have waves 0 to {count - 1}.")
    heading = title or f"Wave after wave: what L2 still holds, N = {n:,}, {ctas} CTAs, L2 of {l2_bytes / _MIB:.3g} MiB"
    played = {name: l2_traffic(tiles, n, n, n, ctas, l2_bytes) for name, tiles in orders.items()}
    with style():
        first = next(iter(orders.values()))
        rows, columns = (int(side) + 1 for side in np.asarray(first).max(axis=0))
        side = _STRIP * max(rows, columns)
        left, gap, head, label, foot = 0.98, 0.16, 0.55, 0.30, 0.52   # inches
        width = (9.4 - left - 0.15 - gap * (len(waves) - 1)) / len(waves)
        tall = width * (rows + side) / (columns + side)
        height = head + (label + tall) * len(orders) + foot
        picture = new_picture(9.4, height)
        parts = []
        for row, (name, tiles) in enumerate(orders.items()):
            bottom = height - head - (label + tall) * (row + 1)
            for column, wave in enumerate(waves):
                box = (left + column * (width + gap), bottom, width, tall)
                axes = picture.add_axes((box[0] / 9.4, box[1] / height, box[2] / 9.4, box[3] / height))
                _draw_frame(axes, tiles, wave, ctas, played[name], rows, columns, side)
                read = played[name].hbm_reads[wave]
                axes.set_title(f"wave {wave + 1} reads {quantity(read, 'B')}", fontsize=10.5, pad=3)
            picture.text(0.012, (bottom + tall / 2) / height, name, va="center", fontweight="bold")
            told = ", ".join(f"wave {wave + 1} {quantity(played[name].hbm_reads[wave], 'B')}" for wave in waves)
            parts.append(f"{name}: from HBM in {told}")
        picture.text(0.012, 1 - 0.26 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        entries = (("tiles of the wave", SKY), ("strips that L2 still holds", NAVY), ("strips from HBM", VERMILLION))
        key(picture, 0.012, 0.24 / height, [*entries, ("(A left, B above)",)])
        picture.alt = f"{heading}. {'; '.join(parts)}."
    return picture


def _draw_frame(
    axes: Axes, tiles: np.ndarray, wave: int, ctas: int, played: L2Traffic, rows: int, columns: int, side: float
) -> None:
    axes.add_patch(Rectangle((-0.5, -0.5), columns, rows, facecolor=PALE, edgecolor=INK, lw=0.9))
    now = wave_tiles(tiles, ctas)[wave]
    cells = [Rectangle((column - 0.5, row - 0.5), 1, 1) for row, column in now]
    axes.add_collection(PatchCollection(cells, facecolor=SKY, edgecolor=CARD, lw=0.2))
    full, near = side * 0.92, -0.5 - side * 0.04   # where the bars end, beside C
    fetched, kept = [], []
    for strip in np.flatnonzero(~np.isnan(played.missed[wave])):
        from_hbm = full * played.missed[wave, strip]
        if strip < rows:      # of A: left of C
            fetched.append(Rectangle((near - from_hbm, strip - 0.5), from_hbm, 1))
            kept.append(Rectangle((near - full, strip - 0.5), full - from_hbm, 1))
        else:                 # of B: above C
            fetched.append(Rectangle((strip - rows - 0.5, near - from_hbm), 1, from_hbm))
            kept.append(Rectangle((strip - rows - 0.5, near - full), 1, full - from_hbm))
    for bars, color in ((fetched, VERMILLION), (kept, NAVY)):
        axes.add_collection(PatchCollection(bars, facecolor=color, edgecolor="none"))
    axes.set_xlim(-0.5 - side, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5 - side)
    axes.set_axis_off()


@typed
def l2_curve(
    orders: Mapping[str, np.ndarray],
    n: int,
    ctas: int = H200.sm_count,
    capacities: Sequence[float] = CAPACITIES,
    marked: Mapping[str, float] | None = None,
    title: str = "",
) -> Picture:
    """Bytes of A and B read from HBM over the size of L2, a line for each order, both axes logarithmic.

    orders: tiles (m, n) by name, of C[n,n] with K = n. capacities: bytes of L2. marked: sizes by name, as vertical
    lines; the H200's by default. Raises ArgumentError without orders or sizes.
    """
    if not orders or not capacities:
        raise ArgumentError("orders or capacities is empty: give at least one order and one size of L2.")
    marked = {H200.name: H200.l2_bytes} if marked is None else marked
    for name, sizes in (("capacities", capacities), ("marked", [*marked.values()])):
        for size in sizes:
            require_positive(name, size, "number of bytes")
    for name, size in marked.items():
        if not min(capacities) <= size <= max(capacities):   # nothing is played there
            raise ArgumentError(
                f"marked[{name!r}] is {size:,}: it must be within capacities, {min(capacities):,.0f} to "
                f"{max(capacities):,.0f} bytes."
            )
    heading = title or f"Read from HBM, by the size of L2: N = {n:,}, {ctas} CTAs"
    sizes = np.array(capacities) / _MIB
    read = {
        name: np.array([l2_traffic(tiles, n, n, n, ctas, size).hbm_read for size in capacities]) / 1e9
        for name, tiles in orders.items()
    }
    once = 2 * n * n * 2 / 1e9
    with style():
        picture = new_picture(9.0, 4.9)
        axes = picture.add_axes((0.095, 0.13, 0.875, 0.72))
        axes.set(xscale="log", yscale="log")
        axes.set_xlim(sizes.min(), sizes.max() * 1.45)
        axes.set_ylim(once / 1.8, max(values.max() for values in read.values()) * 1.6)
        axes.axhline(once, color=INK, lw=1.4, ls=(0, (1.2, 1.6)), zorder=1)
        for name, size in marked.items():
            axes.axvline(size / _MIB, color=GREY, lw=1.4, zorder=1)
            axes.text(size / _MIB * 1.02, axes.get_ylim()[1] / 1.12, name, va="top", fontsize=10.5)
        lines = []
        for index, values in enumerate(read.values()):
            color, mark = _LINES[index % len(_LINES)]
            axes.plot(sizes, values, color=color, lw=2.2, marker=mark, ms=7, mec=INK, mew=0.9,
                      markevery=(index % 4, 4), zorder=3)
            lines.append(np.column_stack([sizes, values]))
        _ticks(axes, sizes)
        axes.set_xlabel("L2, MiB (log scale)")
        axes.set_ylabel("GB from HBM (log scale)", labelpad=3)
        axes.grid(color=GREY, alpha=0.18, lw=0.8)
        starts = [(sizes[len(sizes) // 5], values[len(sizes) // 5]) for values in read.values()]
        every = [*lines, np.array([[sizes.min(), once], [sizes.max(), once]])]
        place_labels(axes, [*starts, (sizes.min() * 1.1, once)], [*read, "A and B once"], every, zorder=6)
        picture.text(0.015, 0.945, heading, fontsize=12.5, fontweight="bold", va="center")
        parts = []
        for name, values in read.items():
            at = ", ".join(
                f"{np.interp(np.log(size / _MIB), np.log(sizes), values):.3g} GB at {size / _MIB:.3g} MiB ({mark})"
                for mark, size in marked.items()
            )
            parts.append(f"{name} {values[0]:.3g} to {values[-1]:.3g} GB" + (f", {at}" if at else ""))
        span = f"from {sizes.min():.3g} to {sizes.max():.3g} MiB"
        picture.alt = f"{heading}, {span}. {'; '.join(parts)}. A and B once: {once:.3g} GB."
    return picture


def _ticks(axes: Axes, sizes: np.ndarray) -> None:
    powers = [2.0**power for power in range(-4, 12) if sizes.min() <= 2.0**power <= sizes.max()]
    axes.set_xticks(powers, [f"{power:g}" for power in powers])
    low, high = axes.get_ylim()
    values = [digit * 10.0**power for power in range(-4, 5) for digit in (1, 2, 5)]
    values = [value for value in values if low <= value <= high]
    axes.set_yticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


