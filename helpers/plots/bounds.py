"""The bounds of a prediction as bars, with the measured figure across them."""

from matplotlib.lines import Line2D

from helpers.models.predict import Prediction, number
from helpers.plots.figure import CARD, INK, NAVY, SKY, VERMILLION, Picture, decades, new_picture, style
from helpers.typed import typed


@typed
def bound_bars(prediction: Prediction, measured: float | None = None, label: str = "measured") -> Picture:
    """A bar for each bound, the lowest on top and dark, on a log scale; `measured` TFLOP/s as a line if given.

    label: what the measured figure is, for example 'recorded on H200'.
    """
    bounds = sorted(prediction.bounds, key=lambda bound: bound.tflops)
    count = len(bounds)
    with style():
        picture = new_picture(9.0, 1.75 + 0.62 * count)
        height = picture.get_figheight()
        axes = picture.add_axes((0.44, 0.62 / height, 0.37, 0.62 * count / height))
        low = min([bounds[0].tflops, *([measured] if measured else [])]) / 4
        beside = axes.get_yaxis_transform()
        paper = {"boxstyle": "round,pad=0.1", "facecolor": CARD, "edgecolor": "none"}
        for index, bound in enumerate(bounds):
            color, hatch = (NAVY, "") if bound is prediction.limit else (SKY, "///")
            axes.barh(index, bound.tflops, 0.5, color=color, hatch=hatch, edgecolor=INK, lw=0.9)
            axes.annotate(
                f"{number(bound.tflops)} TFLOP/s", (bound.tflops, index), (7, 0),
                textcoords="offset points", va="center", bbox=paper, zorder=6,
            )
            axes.text(-0.025, index - 0.04, bound.name, ha="right", va="bottom", transform=beside, fontweight="bold")
            axes.text(-0.025, index + 0.04, bound.reason, ha="right", va="top", transform=beside, fontsize=10)
        axes.set_xscale("log")
        axes.set_xlim(low, bounds[-1].tflops)
        axes.set_ylim(count - 0.5, -0.5)
        axes.set_yticks([])
        ticks = decades(low, bounds[-1].tflops, most=4)
        if len(ticks) < 2:   # one tick tells no scale
            ticks = [d * t for t in decades(low / 10, bounds[-1].tflops) for d in (1, 2, 5)]
            ticks = [tick for tick in ticks if low <= tick <= bounds[-1].tflops]
        axes.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("TFLOP/s at most (log scale)")
        heading = prediction.title
        picture.text(0.015, 1 - 0.28 / height, heading, fontweight="bold", fontsize=12.5, va="center")
        gap = ""
        if measured:
            axes.axvline(measured, color=CARD, lw=5, zorder=5)   # keeps the line apart from dark bars
            axes.axvline(measured, color=VERMILLION, lw=2.4, ls="--", zorder=5)
            gap = f"{label}: {number(measured)} TFLOP/s, {prediction.gap(measured):.0%} of the lowest bound"
            picture.text(0.08, 1 - 0.70 / height, gap, va="center")
            y = 1 - 0.70 / height
            sample = Line2D([0.015, 0.068], [y, y], transform=picture.transFigure, color=VERMILLION, lw=2.4, ls="--")
            picture.add_artist(sample)
        parts = "; ".join(f"{bound.name} {number(bound.tflops)} ({bound.reason})" for bound in bounds)
        picture.alt = f"{heading}, in TFLOP/s: {parts}." + (f" {gap}." if gap else "")
    return picture
