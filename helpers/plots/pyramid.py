"""The memory pyramid: how much each level holds and how fast it is."""

from collections.abc import Sequence

import numpy as np
from matplotlib.patches import Polygon

from helpers.checks import require_some
from helpers.models.pyramid import MemoryLevel
from helpers.plots.figure import INK, NAVY, ON, PALE, SKY, VERMILLION, Picture, new_picture, quantity, style
from helpers.typed import typed

_SOURCES = {"datasheet": (NAVY, ""), "computed": (SKY, "///"), "measured": (VERMILLION, "")}


@typed
def memory_pyramid(levels: Sequence[MemoryLevel], title: str = "") -> Picture:
    """Draw the levels, the fastest on top: sizes in the pyramid, bandwidths as bars on a log scale beside it.

    levels: from `models.pyramid.pyramid(gpu, measured=...)`. The colour and the word beside a bar say where its
    bandwidth is from; a dashed frame goes as far as a measured one could at most.
    """
    require_some("levels", levels, most=12)
    count = len(levels)
    with style():
        picture = new_picture(9.0, 0.75 + 0.82 * count)
        height = picture.get_figheight()
        inner = (0.82 * count - 0.1) / height
        left = picture.add_axes((0.015, 0.12 / height, 0.40, inner))
        right = picture.add_axes((0.46, 0.12 / height, 0.37, inner))
        for index, level in enumerate(levels):
            half_top, half_bottom = 0.36 + 0.64 * index / count, 0.36 + 0.64 * (index + 1) / count
            y = count - index
            corners = [(-half_top, y), (half_top, y), (half_bottom, y - 1), (-half_bottom, y - 1)]
            left.add_patch(Polygon(corners, facecolor=PALE, edgecolor=INK, lw=1.0))
            label = f"{level.name}\n{_size(level.size)}"
            left.text(0, y - 0.5, label, ha="center", va="center", color=ON[PALE], linespacing=1.3)
            color, hatch = _SOURCES[level.source]
            right.barh(y - 0.5, level.bandwidth, 0.46, color=color, hatch=hatch, edgecolor=INK, lw=0.8)
            longer = max(level.bandwidth, level.bound or 0)
            if level.bound:
                right.barh(y - 0.5, longer, 0.46, facecolor="none", edgecolor=INK, lw=0.8, ls="--", zorder=1)
            right.annotate(_label(level), (longer, y - 0.5), (6, 0), textcoords="offset points", va="center")
        left.set(xlim=(-1.02, 1.02), ylim=(0, count + 0.02))
        left.set_axis_off()
        bandwidths = [level.bandwidth for level in levels]
        right.set_xscale("log")
        right.set(xlim=(10 ** np.floor(np.log10(min(bandwidths)) - 0.5), max(bandwidths)), ylim=(0, count + 0.02))
        right.set_axis_off()
        line = 1 - 0.3 / height
        picture.text(0.215, line, title or "holds", ha="center", va="center", fontsize=12.5, fontweight="bold")
        picture.text(0.46, line, "gives per second (log scale)", va="center", fontsize=12.5, fontweight="bold")
        parts = (
            f"{level.name} {_size(level.size)}, {quantity(level.bandwidth, 'B/s')} ({_source(level)})"
            for level in levels
        )
        picture.alt = f"Memory pyramid{f': {title}' if title else ''}; size and bandwidth of each, fastest first: "
        picture.alt += f"{'; '.join(parts)}."
    return picture


def _label(level: MemoryLevel) -> str:
    return f"{quantity(level.bandwidth, 'B/s')}\n{_source(level)}"


def _source(level: MemoryLevel) -> str:
    """Where the bandwidth is from, and the share of the bound that a measured one reaches."""
    if level.bound is None:
        return level.source
    return f"{level.source}, {level.bandwidth / level.bound:.0%} of {quantity(level.bound, 'B/s')}"


def _size(size: float) -> str:
    """Caches in MiB, as they are built; memory in GB, as it is sold."""
    return quantity(size, "B") if size >= 1e9 else f"{size / 2**20:.3g} MiB"
