"""HBM traffic by order of tiles and by pace: what the L2 model says, and beside it what a profiler counted."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from helpers.errors import ArgumentError
from helpers.models.l2 import L2Traffic
from helpers.plots.figure import CARD, INK, NAVY, SKY, VERMILLION, Picture, new_picture, quantity, style
from helpers.typed import typed

_ROW, _GAP, _HEAD, _FOOT = 0.27, 0.56, 0.52, 0.62   # inches
_LEFT, _WIDTH = 0.12, 0.60                         # of the page


@typed
def hbm_bars(
    modelled: Mapping[str, Mapping[str, L2Traffic]],
    counted: Mapping[str, Mapping[str, float | None]] | None = None,
    origin: str = "",
    title: str = "",
) -> Picture:
    """A panel for each size, two bars for each order: bytes of A and B read from HBM by the model, and as counted.

    modelled: by size, then by order. counted: bytes in the same form, None where nothing was recorded. origin: of the
    counts, such as 'ncu, recorded on NVIDIA H200'. The line in a panel is A and B, each byte once.
    """
    if not modelled or not all(modelled.values()):
        raise ArgumentError("modelled is empty: give {size: {order: traffic}}.")
    counted = counted or {}
    known = [value for row in counted.values() for value in row.values() if value]
    heading = title or "Read from HBM, by order of tiles"
    with style():
        row = (2 if known else 1.3) * _ROW
        height = _HEAD + sum(_GAP + row * len(orders) for orders in modelled.values()) + _FOOT
        picture = new_picture(9.0, height)
        top, parts = height - _HEAD, []
        for index, (size, orders) in enumerate(modelled.items()):
            panel = row * len(orders)
            top -= _GAP
            axes = picture.add_axes((_LEFT, (top - panel) / height, _WIDTH, panel / height))
            top -= panel
            found = {order: counted.get(size, {}).get(order) for order in orders}
            parts.append(_draw(axes, size, orders, found, bool(known)))
            if index == len(modelled) - 1:
                axes.set_xlabel("GB read from HBM, from zero in each panel")
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        key = "dark: the model (in brackets: reads that L2 answers); striped: "
        key += origin if known else "ncu's count, of which none is recorded"
        picture.text(0.015, 1 - 0.5 / height, key, va="center")
        picture.alt = f"{heading}. {' '.join(parts)}" + ("" if known else " No profile is recorded.")
    return picture


def _draw(
    axes: Axes, size: str, orders: Mapping[str, L2Traffic], counted: Mapping[str, float | None], known: bool
) -> str:
    """One panel; returns what it says in words."""
    words, most = [], max([*(item.hbm_read for item in orders.values()), *(value or 0 for value in counted.values())])
    shift, thick = (0.2, 0.36) if known else (0, 0.6)
    for index, (order, traffic) in enumerate(orders.items()):
        model, count = traffic.hbm_read, counted[order]
        note = f"{quantity(model, 'B')} ({traffic.hit_rate:.0%})"
        axes.barh(index - shift, model / 1e9, thick, color=NAVY, edgecolor=INK, lw=0.8)
        _beside(axes, note, model, index - shift)
        said = f"{order} {note}"
        if count is not None:
            text = f"{quantity(count, 'B')} counted"
            axes.barh(index + shift, count / 1e9, thick, color=SKY, hatch="///", edgecolor=INK, lw=0.8)
            _beside(axes, text, count, index + shift)
            said += f", {text}"
        elif known:
            _beside(axes, "no profile recorded", 0, index + shift)
        words.append(said)
    once = next(iter(orders.values())).once
    axes.axvline(once / 1e9, color=VERMILLION, lw=2, ls="--", zorder=5)
    axes.set_xlim(0, most / 1e9)
    axes.set_ylim(len(orders) - 0.5, -0.5)
    axes.set_yticks(range(len(orders)), orders)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"{size}; dashed: A and B once, {quantity(once, 'B')}", fontsize=11, pad=4)
    return f"{size}: {'; '.join(words)}; A and B once are {quantity(once, 'B')}."


@typed
def pace_bars(read: Mapping[str, Mapping[str, float | None]], origin: str = "", title: str = "") -> Picture:
    """A panel for each size: bytes read from HBM, first by the model, then as counted for variants of a kernel.

    read: bytes by size, then by name; the first name of each size is the model's, a None says that nothing was
    recorded. origin: of the counts, such as 'ncu, recorded on NVIDIA H200'.
    """
    if not read or not all(read.values()):
        raise ArgumentError("read is empty: give {size: {name: bytes}}, the model's first.")
    heading = title or "Read from HBM, with clusters in step and without"
    with style():
        height = _HEAD + sum(_GAP + _ROW * 1.15 * len(bars) for bars in read.values()) + _FOOT
        picture = new_picture(9.0, height)
        top, parts = height - _HEAD, []
        for size, bars in read.items():
            panel = _ROW * 1.15 * len(bars)
            top -= _GAP + panel
            axes = picture.add_axes((_LEFT + 0.08, top / height, _WIDTH, panel / height))
            said = []
            for index, (name, value) in enumerate(bars.items()):
                looks = {"color": SKY, "hatch": "///"} if index else {"color": NAVY}
                text = "no profile recorded" if value is None else quantity(value, "B")
                axes.barh(index, (value or 0) / 1e9, 0.7, edgecolor=INK, lw=0.8, **looks)
                _beside(axes, text, value or 0, index)
                said.append(f"{name} {text}")
            axes.set_xlim(0, max(value or 0 for value in bars.values()) / 1e9 or 1)
            axes.set_ylim(len(bars) - 0.5, -0.5)
            axes.set_yticks(range(len(bars)), bars)
            axes.tick_params(axis="y", length=0)
            axes.set_title(size, fontsize=11, pad=4)
            parts.append(f"{size}: {', '.join(said)}.")
        axes.set_xlabel("GB read from HBM, from zero in each panel")
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        key = "dark: the model; striped: " + (origin or "ncu's count, of which none is recorded")
        picture.text(0.015, 1 - 0.5 / height, key, va="center")
        picture.alt = f"{heading}. {' '.join(parts)}"
    return picture


def _beside(axes: Axes, text: str, value: float, place: float) -> None:
    paper = {"boxstyle": "round,pad=0.1", "facecolor": CARD, "edgecolor": "none"}
    axes.annotate(text, (value / 1e9, place), (5, 0), textcoords="offset points", va="center", bbox=paper, zorder=6)
