"""HBM traffic by order of tiles and by pace: what the L2 model says, and beside it what a profiler counted."""

from collections.abc import Mapping, Sequence

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
    row = (2 if known else 1.3) * _ROW
    key = "dark: the model (in brackets: reads that L2 answers); striped: "
    key += origin if known else "ncu's count, of which none is recorded"
    with style():
        picture, panels = _page(heading, key, [row * len(orders) for orders in modelled.values()], _LEFT)
        parts = []
        for axes, (size, orders) in zip(panels, modelled.items(), strict=True):
            found = {order: counted.get(size, {}).get(order) for order in orders}
            parts.append(_draw(axes, size, orders, found, bool(known)))
        picture.alt = f"{heading}. {' '.join(parts)}" + ("" if known else " No profile is recorded.")
    return picture


def _page(heading: str, key: str, heights: Sequence[float], left: float) -> tuple[Picture, list[Axes]]:
    """A page with a panel of each height in inches, one below the other. left: edge of the panels, of the page."""
    height = _HEAD + sum(_GAP + panel for panel in heights) + _FOOT
    picture = new_picture(9.0, height)
    panels, top = [], height - _HEAD
    for panel in heights:
        top -= _GAP + panel
        panels.append(picture.add_axes((left, top / height, _WIDTH, panel / height)))
    panels[-1].set_xlabel("GB read from HBM, from zero in each panel")
    picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
    picture.text(0.015, 1 - 0.5 / height, key, va="center")
    return picture, panels


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
    _label(axes, f"{size}; dashed: A and B once, {quantity(once, 'B')}", list(orders), most)
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
    key = "dark: the model; striped: " + (origin or "ncu's count, of which none is recorded")
    with style():
        picture, panels = _page(heading, key, [1.15 * _ROW * len(bars) for bars in read.values()], _LEFT + 0.08)
        parts = []
        for axes, (size, bars) in zip(panels, read.items(), strict=True):
            said = []
            for index, (name, value) in enumerate(bars.items()):
                looks = {"color": SKY, "hatch": "///"} if index else {"color": NAVY}
                text = "no profile recorded" if value is None else quantity(value, "B")
                axes.barh(index, (value or 0) / 1e9, 0.7, edgecolor=INK, lw=0.8, **looks)
                _beside(axes, text, value or 0, index)
                said.append(f"{name} {text}")
            _label(axes, size, list(bars), max(value or 0 for value in bars.values()))
            parts.append(f"{size}: {', '.join(said)}.")
        picture.alt = f"{heading}. {' '.join(parts)}"
    return picture


def _label(axes: Axes, title: str, names: Sequence[str], most: float) -> None:
    """A panel's title, the names of its bars, and its scale: up to `most` bytes."""
    axes.set_xlim(0, most / 1e9 or 1)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_title(title, fontsize=11, pad=4)


def _beside(axes: Axes, text: str, value: float, place: float) -> None:
    paper = {"boxstyle": "round,pad=0.1", "facecolor": CARD, "edgecolor": "none"}
    axes.annotate(text, (value / 1e9, place), (5, 0), textcoords="offset points", va="center", bbox=paper, zorder=6)
