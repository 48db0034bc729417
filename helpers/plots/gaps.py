"""Bound, measured and what lies between them, a row for each rung."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from helpers.models.gap import CLOCK, Gap
from helpers.models.predict import number
from helpers.plots.figure import CARD, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed

_ROW, _HEAD, _FOOT = 0.40, 1.20, 0.62   # inches
_REST, _REST_WITH_CLOCK = "the rest", "rest and clock"   # where the clock is not recorded
_LONG = 800   # characters of an alt text
NOTHING = "no recording for this code"
_COLORS = {   # of the parts, in the order of the key; told apart by lightness and hatch
    "places": (SKY, ""),
    "turns": (YELLOW, "///"),
    "beginning and end": (YELLOW, ""),
    CLOCK: (VERMILLION, ""),
    _REST: (PALE, "..."),
    _REST_WITH_CLOCK: (PALE, "xx"),
}
_OTHER = (SKY, "xx")


@typed
def gap_chart(gaps: Sequence[Gap], title: str = "") -> Picture:
    """A bar for each rung: its bound is 100%, dark what is measured, and the parts of the gap from right to left.

    gaps: from helpers.gaps.explain_gap; without any there is only a sentence. Where the parts together are more than
    the gap, those drawn last are cut off at the measured speed.
    """
    if not gaps:
        return Picture.of_sentence(title or "Bound, measured, gap", NOTHING)
    heading = title or "From the bound to what is measured"
    with style():
        height = _HEAD + _ROW * len(gaps) + _FOOT
        picture = new_picture(9.4, height)
        axes = picture.add_axes((0.235, _FOOT / height, 0.475, _ROW * len(gaps) / height))
        axes.set(xlim=(0, 1), ylim=(len(gaps) - 0.5, -0.5))
        used: list[str] = []
        for row, gap in enumerate(gaps):
            _draw_row(axes, row, gap, used)
        axes.set_yticks(range(len(gaps)), [gap.name.split(",")[0] for gap in gaps])
        axes.tick_params(axis="y", length=0)
        shares = (0, 0.25, 0.5, 0.75, 1)
        axes.set_xticks(shares, [f"{share:.0%}" for share in shares])
        axes.set_xlabel("of the lowest bound")
        axes.spines[["left", "bottom"]].set_visible(False)
        picture.text(0.015, 1 - 0.27 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        right = axes.get_position().x1 + 0.012
        picture.text(right, 1 - 1.05 / height, "bound, TFLOP/s", va="center", fontweight="bold")
        parts = [(name, *_COLORS.get(name, _OTHER)) for name in dict.fromkeys([*_COLORS, *used]) if name in used]
        key(picture, 0.015, 1 - 0.66 / height, [("measured, TFLOP/s", NAVY), *parts])
        picture.alt = _alt(heading, gaps)
    return picture


def _alt(heading: str, gaps: Sequence[Gap]) -> str:
    """All parts of all gaps, or where those are too many the largest part of each."""
    whole = f"{heading}. {'; '.join(_words(gap) for gap in gaps)}."
    if len(whole) <= _LONG:
        return whole
    origins = " and ".join(dict.fromkeys(gap.origin for gap in gaps))
    tails = {gap.name.partition(", ")[2] for gap in gaps}
    size = f", {tails.pop()}" if len(tails) == 1 and "" not in tails else ""
    rows, before = [], ""
    for gap in gaps:
        name = gap.name.partition(", ")[0] if size else gap.name
        by = f" ({gap.bound.name})" if gap.bound.name != before else ""
        before = gap.bound.name
        parts = [*((loss.factor, loss.name) for loss in gap.losses), (gap.rest, _rest(gap))]
        factor, largest = min(parts, key=lambda part: part[0])
        rows.append(f"{name} {number(gap.measured)} of {number(gap.bound.tflops)}{by}, {gap.share:.0%}, "
                    f"{largest} {factor:.2f}")
    return f"{heading}. TFLOP/s {origins} of the bound{size}, and the largest part of the gap: {'; '.join(rows)}."


def _draw_row(axes: Axes, row: int, gap: Gap, used: list[str]) -> None:
    end = min(gap.share, 1.0)
    place = 1.0
    for loss in gap.losses:
        begin = max(end, place * loss.factor)
        if place - begin > 0.003:
            _bar(axes, row, begin, place, *_COLORS.get(loss.name, _OTHER))
            used.append(loss.name)
        place = begin
    if place - end > 0.003:
        _bar(axes, row, end, place, *_COLORS[_rest(gap)])
        used.append(_rest(gap))
    _bar(axes, row, 0, end, NAVY, "")
    axes.text(end - 0.015, row, number(gap.measured), ha="right", va="center", color=CARD, fontweight="bold")
    axes.text(1.025, row - 0.02, number(gap.bound.tflops), va="center")
    axes.text(1.155, row - 0.02, gap.bound.name, va="center", fontsize=10)


def _bar(axes: Axes, row: int, begin: float, end: float, color: str, hatch: str) -> None:
    axes.barh(row, end - begin, 0.62, left=begin, color=color, hatch=hatch, edgecolor=INK, lw=0.8)


def _words(gap: Gap) -> str:
    losses = ", ".join(f"{loss.name} {loss.factor:.2f}" for loss in gap.losses)
    return (
        f"{gap.name}: bound {number(gap.bound.tflops)} ({gap.bound.name}), {gap.origin} {number(gap.measured)}, "
        f"{gap.share:.0%}: {losses}{', ' if losses else ''}{_rest(gap)} {gap.rest:.2f}"
    )


def _rest(gap: Gap) -> str:
    return _REST if any(loss.name == CLOCK for loss in gap.losses) else _REST_WITH_CLOCK
