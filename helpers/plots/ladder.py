"""The growth plot: TFLOP/s of the ten rungs, published, recorded and live, on a log scale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text

from helpers.checks import require_integer, require_known
from helpers.errors import ArgumentError
from helpers.plots.figure import CARD, GREY, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.typed import typed

RUNG_NAMES = (
    "coalescing", "smem tiling", "register tiling", "swizzling", "TMA",
    "wgmma", "pipelining", "Hilbert", "persistence", "clusters",
)   # the ten rungs in order, as the axis names them
TWIN = 0                                  # rung number of the uncoalesced twin of rung 1
MOST_TFLOPS = 1e9
SUMMIT = 6                                # the first rung on tensor cores
TARGET = 764.0                            # TFLOP/s
TARGET_LABEL = "published: 764 TFLOP/s, H100 SXM, N=4096"
KINDS = ("published", "recorded", "live")
_MARKS = {   # shift along x, marker, colour: told apart by place, shape and lightness
    "published": (-0.24, "D", SKY),
    "recorded": (0.0, "o", NAVY),
    "live": (0.24, "*", YELLOW),
}


@typed
@dataclass(frozen=True)
class LadderPoint:
    """One figure of one rung.

    rung_number: 1 to 10; 0 is the uncoalesced twin of rung 1. name: of the rung or of what was measured.
    kind: 'published', 'recorded' or 'live'. Raises ArgumentError for others, and
    for tflops that are not above 0.
    """

    rung_number: int
    name: str
    tflops: float
    kind: str

    def __post_init__(self) -> None:
        require_known("kind", self.kind, KINDS)
        require_integer("rung_number", self.rung_number, 0, len(RUNG_NAMES))
        if not isinstance(self.tflops, int | float) or not 0 < self.tflops < MOST_TFLOPS:
            raise ArgumentError(f"tflops of {self.name!r} is {self.tflops!r}: it must be above 0 and finite.")


@typed
def ladder(
    points: Sequence[LadderPoint],
    cublas: float | None = None,
    dense_peak: float | None = None,
    target: float | None = TARGET,
    target_label: str = TARGET_LABEL,
    labels: Mapping[str, str] | None = None,
    title: str = "The ladder",
) -> Picture:
    """Draw the ladder for any subset of rungs; rungs without a figure of yours are faint.

    cublas: TFLOP/s of cuBLAS in the same run as the recorded or live points. dense_peak: of the tensor cores.
    labels: what the three kinds are in the legend, for example `{"recorded": "recorded: H200, 2026-11-29, N=4096"}`.
    The figure written at a rung is the live one, else the recorded one, else the published one. The factor under it
    compares the rung with the one before: two figures of one kind, live if both are there, else recorded, else
    published. What is live has a star, so that nobody divides two written figures of different kinds. Near the top a
    log scale hides what matters, so an inset shows the last rungs once more, linearly.
    """
    first = TWIN if any(point.rung_number == TWIN for point in points) else 1
    places = {number: number - first for number in range(first, len(RUNG_NAMES) + 1)}
    best = {number: _best(points, number) for number in places}
    factors = {number: _factor(points, number) for number in places}
    low, high = _limits(points, (cublas, dense_peak, target))
    with style():
        picture = new_picture(10.0, 6.2)
        axes = picture.add_axes((0.07, 0.135, 0.915, 0.645))
        axes.set(yscale="log", xlim=(-0.55, len(places) - 0.45), ylim=(low, high))
        for number, x in places.items():
            if not any(point.kind != "published" for point in points if point.rung_number == number):
                axes.axvspan(x - 0.5, x + 0.5, color=PALE, alpha=0.45, lw=0, zorder=0)
        _draw_lines(axes, dense_peak, cublas, target, target_label)
        for kind in KINDS:
            of_kind = [point for point in points if point.kind == kind]
            _draw_kind(axes, of_kind, places, kind, (labels or {}).get(kind, kind))
        _write_figures(axes, points, best, places, [line for line in (cublas, dense_peak, target) if line])
        _write_axis(axes, places, best, factors)
        _draw_summit(axes, points, places, cublas, target)
        handles, names = axes.get_legend_handles_labels()
        picture.legend(handles, names, loc="upper left", bbox_to_anchor=(0.055, 0.945), ncols=2, columnspacing=2.5)
        picture.text(0.015, 0.962, title, fontweight="bold", fontsize=13, va="center")
        picture.text(0.985, 0.962, "TFLOP/s, log scale; x: over the rung before", ha="right", va="center")
        picture.alt = _alt(title, best, factors, cublas, dense_peak, target_label if target else "")
    return picture


def _best(points: Sequence[LadderPoint], number: int) -> LadderPoint | None:
    """The point of a rung whose figure is written: live before recorded before published; the last of its kind."""
    mine = [point for point in points if point.rung_number == number]
    for kind in reversed(KINDS):
        of_kind = [point for point in mine if point.kind == kind]
        if of_kind:
            return of_kind[-1]
    return None


def _factor(points: Sequence[LadderPoint], number: int) -> tuple[float, str] | None:
    """A rung's figure over that of the rung before, both of the best kind that both have, and this kind."""
    for kind in reversed(KINDS):
        mine, before = (
            [point.tflops for point in points if (point.rung_number, point.kind) == (rung, kind)]
            for rung in (number, number - 1)
        )
        if mine and before:
            return mine[-1] / before[-1], kind
    return None


def _limits(points: Sequence[LadderPoint], lines: Sequence[float | None]) -> tuple[float, float]:
    """Limits of the y axis with room for the figures."""
    values = [point.tflops for point in points] + [line for line in lines if line] + [1.0, 100.0]
    return min(values) / 2.2, max(values) * 1.6


def _draw_lines(axes: Axes, dense_peak: float | None, cublas: float | None, target: float | None, label: str) -> None:
    """Dense peak, cuBLAS and the target as lines, told apart by dash and lightness."""
    if dense_peak:
        name = f"dense peak: {dense_peak:.0f} TFLOP/s"
        axes.axhline(dense_peak, color=NAVY, lw=1.8, ls=(0, (6, 2)), label=name, zorder=1)
    if cublas:
        name = f"cuBLAS, same run: {cublas:.0f} TFLOP/s"
        axes.axhline(cublas, color=VERMILLION, lw=4.0, alpha=0.75, label=name, zorder=1)
    if target:
        axes.axhline(target, color=INK, lw=1.6, ls=(0, (1.2, 1.6)), label=label, zorder=1.5)


def _draw_summit(
    axes: Axes,
    points: Sequence[LadderPoint],
    places: Mapping[int, int],
    cublas: float | None,
    target: float | None,
) -> None:
    """The rungs on tensor cores once more, below themselves, on a linear scale; only if two of them are measured."""
    measured = [point.tflops for point in points if point.rung_number >= SUMMIT and point.kind != "published"]
    lines = [line for line in (cublas, target) if line]
    if len(measured) < 2 or not lines:
        return
    low, high = min([*measured, *lines]), max([*measured, *lines])
    low, high = low - 0.14 * (high - low), high + 0.24 * (high - low)
    left, right = places[SUMMIT] - 0.5, len(places) - 0.5
    frame, (begin, end) = axes.get_position(), axes.get_xlim()
    scale = frame.width / (end - begin)
    x, y = frame.x0 + scale * (left - begin), frame.y0 + 0.115 * frame.height
    inset = axes.figure.add_axes((x, y, scale * (right - left), 0.5 * frame.height), zorder=axes.get_zorder() + 1)
    inset.set(xlim=(left, right), ylim=(low, high), xticks=[], yticks=[], facecolor=CARD)
    inset.spines[:].set_visible(True)
    inset.spines[:].set(color=GREY, lw=0.8)
    _draw_lines(inset, None, cublas, target, "")
    for kind in KINDS:
        inside = [point for point in points
                  if point.kind == kind and point.rung_number >= SUMMIT and low <= point.tflops <= high]
        _draw_kind(inset, inside, places, kind, "")
    corner = inset.text(right - 0.08, low + 0.03 * (high - low), "linear scale", ha="right", va="bottom",
                        fontsize=10.5, fontstyle="italic")
    taken = [*_taken(inset, points, places, lines), (_corners(corner), 10)]
    for name, line, other in (("cuBLAS, same run", cublas, target), ("published", target, cublas)):
        if line:
            text = _name_line(inset, f"{name}: {line:,.0f}", line, line >= (other or 0), taken)
            taken.append((_corners(text), 10))


def _taken(
    axes: Axes, points: Sequence[LadderPoint], places: Mapping[int, int], lines: Sequence[float]
) -> Iterator[tuple[np.ndarray, int]]:
    """What a name should not cover: corners of boxes, pixels (2, 2), and how bad each is.

    That is the lines from side to side, the marks, and the ways from mark to mark in small pieces.
    """
    pixel = axes.figure.dpi / 72
    for line in lines:
        left, right = axes.transData.transform([(x, line) for x in axes.get_xlim()])
        yield np.array([left - pixel, right + pixel]), 10
    for kind, (shift, *_) in _MARKS.items():
        marks = {point.rung_number: axes.transData.transform((places[point.rung_number] + shift, point.tflops))
                 for point in points if point.kind == kind and point.rung_number >= SUMMIT}
        for number, mark in marks.items():
            yield np.array([mark - 8 * pixel, mark + 8 * pixel]), 100
            for part in np.linspace(0, 1, 33):
                middle = mark + part * (marks.get(number + 1, mark) - mark)
                yield np.array([middle - 3 * pixel, middle + 3 * pixel]), 1


def _corners(text: Text) -> np.ndarray:
    """Where a text lies: lower left and upper right, pixels (2, 2)."""
    return np.array(text.get_window_extent(text.figure.canvas.get_renderer()))


def _name_line(axes: Axes, name: str, line: float, above: bool, taken: Sequence[tuple[np.ndarray, int]]) -> Annotation:
    """Write a line's name beside it where it covers least of what is taken, as far on the left as may be.

    above: the side that is better, all else being equal.
    """
    left, right = axes.get_xlim()
    boxes, weights = np.array([box for box, _ in taken]), np.array([weight for _, weight in taken])
    text = axes.annotate(name, (left, line), (0, 0), textcoords="offset points", zorder=7, fontsize=10.5)
    frame, costs = np.array(axes.get_window_extent()), {}
    for up in (above, not above):
        for x in np.arange(left + 0.08, right, 0.1):
            _put(text, x, up)
            low, high = _corners(text)
            if (frame[0] < low).all() and (high < frame[1]).all():
                costs[x, up] = weights[((low < boxes[:, 1]) & (boxes[:, 0] < high)).all(axis=1)].sum()
    _put(text, *min(costs, key=costs.__getitem__, default=(left + 0.08, above)))
    return text


def _put(text: Annotation, x: float, up: bool) -> None:
    """Place a line's name from x on, above or below the line."""
    text.xy = (x, text.xy[1])
    text.xyann = (0, 6 if up else -5)
    text.set_va("bottom" if up else "top")


def _draw_kind(axes: Axes, points: Sequence[LadderPoint], places: Mapping[int, int], kind: str, label: str) -> None:
    """The marks of one kind, and a thin line between those of neighbouring rungs."""
    if not points:
        return
    shift, marker, color = _MARKS[kind]
    ordered = sorted(points, key=lambda point: point.rung_number)
    for one, other in zip(ordered, ordered[1:], strict=False):
        if other.rung_number - one.rung_number <= 1:
            xs = [places[one.rung_number] + shift, places[other.rung_number] + shift]
            axes.plot(xs, [one.tflops, other.tflops], color=GREY if kind == "live" else color, lw=1.0, zorder=2)
    xs = [places[point.rung_number] + shift for point in ordered]
    ys = [point.tflops for point in ordered]
    size = 15 if marker == "*" else 9
    axes.plot(xs, ys, marker, color=color, mec=INK, mew=1.0, ms=size, ls="none", label=label, zorder=4)


def _write_figures(axes: Axes, points, best, places: Mapping[int, int], lines: Sequence[float]) -> None:
    """The figure of each rung above its highest mark, or below its lowest where a line runs above."""
    pixel = axes.figure.dpi / 72
    to_y = axes.transData.transform
    line_ys = [to_y((0, line))[1] for line in lines]
    for number, point in best.items():
        if point is None:
            continue
        mine = [other for other in points if other.rung_number == number]
        shifts = {_MARKS[other.kind][0] for other in mine}
        x = places[number] + (shifts.pop() if len(shifts) == 1 else 0)
        top, bottom = max(other.tflops for other in mine), min(other.tflops for other in mine)
        y = to_y((0, top))[1]
        crossed = any(y + 6 * pixel < line < y + 26 * pixel for line in line_ys)
        faint = point.kind == "published"
        axes.annotate(
            _starred(f"{point.tflops:.3g}" if point.tflops < 1000 else f"{point.tflops:.0f}", point.kind),
            (x, bottom if crossed else top), (0, -11 if crossed else 9), textcoords="offset points",
            ha="center", va="top" if crossed else "bottom", zorder=6,
            fontweight="normal" if faint else "bold", fontstyle="italic" if faint else "normal",
            bbox={"boxstyle": "round,pad=0.1", "facecolor": CARD, "edgecolor": "none", "alpha": 0.85},
        )


def _write_axis(
    axes: Axes,
    places: Mapping[int, int],
    best: Mapping[int, LadderPoint | None],
    factors: Mapping[int, float | None],
) -> None:
    """Rung names in two alternating rows, and the factors over the rung before along the bottom."""
    powers = [10.0**p for p in range(-3, 5) if axes.get_ylim()[0] <= 10.0**p <= axes.get_ylim()[1]]
    axes.yaxis.set_ticks(powers, [f"{power:,.10g}" for power in powers])
    axes.yaxis.set_ticks([], minor=True)
    axes.grid(axis="y", color=GREY, alpha=0.18, lw=0.8)
    axes.set_xticks([])
    down = axes.get_xaxis_transform()
    for number, x in places.items():
        name = "1, uncoalesced" if number == TWIN else f"{number} {RUNG_NAMES[number - 1]}"
        mine = best[number] is not None and best[number].kind != "published"
        weight, color = ("bold", INK) if mine else ("normal", GREY)
        y = -0.025 if x % 2 == 0 else -0.085
        axes.text(x, y, name, ha="center", va="top", transform=down, fontweight=weight, color=color)
        if factors[number]:
            factor, kind = factors[number]
            text = _starred(f"x {_factor_digits(factor)}", kind)
            axes.text(x, 0.025, text, ha="center", va="bottom", transform=down, color=INK if mine else GREY, zorder=6)


def _starred(text: str, kind: str) -> str:
    """A figure as it is written: a live one has the star of its mark."""
    return f"\N{BLACK STAR}{text}" if kind == "live" else text


def _factor_digits(factor: float) -> str:
    """Two decimals below 10, so that 1.003 is not written as 1."""
    return f"{factor:.2f}" if factor < 10 else f"{factor:.3g}"


def _alt(title: str, best, factors, cublas: float | None, dense_peak: float | None, target_label: str) -> str:
    """The figures rung by rung, and the lines."""
    parts = []
    for number, point in best.items():
        if point is None:
            continue
        name = "1 uncoalesced" if number == TWIN else f"{number} {RUNG_NAMES[number - 1]}"
        factor = ""
        if factors[number]:
            times, kind = factors[number]
            factor = f"; {kind}: {_factor_digits(times)} times the rung before"
        parts.append(f"{name} {point.tflops:.3g} ({point.kind}{factor})")
    lines = [
        f"cuBLAS in the same run {cublas:.0f}" if cublas else "",
        f"dense peak {dense_peak:.0f}" if dense_peak else "",
        target_label,
    ]
    drawn = "; ".join(line for line in lines if line) or "none"
    return f"{title}, TFLOP/s on a log scale: {'; '.join(parts) or 'no points'}. Lines: {drawn}."
