"""Charts with a lane for each who acts, and bars along a common axis: times, or events in their order."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.plots.figure import GREY, INK, ON, PALE

SMALL = 10         # points, of what stands in the bars
_LETTER = 0.092    # inches of a letter of this size


def name_lanes(axes: Axes, names: Sequence[str], end: float) -> None:
    """Name the lanes of an axes from top to bottom; the common axis runs from 0 to `end`."""
    axes.set_xlim(0, end)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(GREY)
    for lane in range(1, len(names)):
        axes.axhline(lane - 0.5, color=PALE, lw=0.9, zorder=0)


def bar(axes: Axes, lane: int, begin: float, end: float, inch: float, color: str, label: str, hatch: str = "") -> None:
    """A bar, with its label if there is room for it. inch: of one unit."""
    box = Rectangle((begin, lane - 0.4), end - begin, 0.8, facecolor=color, edgecolor=GREY if hatch else INK, lw=0.8)
    box.set(hatch=hatch, zorder=2)
    axes.add_patch(box)
    if hatch:   # an outline of its own, darker than the hatch
        axes.add_patch(Rectangle((begin, lane - 0.4), end - begin, 0.8, fill=False, edgecolor=INK, lw=0.8, zorder=3))
    width = (end - begin) * inch
    if len(label) * _LETTER > width:
        label = label.replace("[", "\n[")   # on two lines, if that helps
    if not label or max(map(len, label.split("\n"))) * _LETTER > width:
        return
    paper = {"boxstyle": "round,pad=0.12", "facecolor": color, "edgecolor": "none"} if hatch else None
    middle = (begin + end) / 2
    axes.text(middle, lane - 0.04, label, ha="center", va="center", fontsize=SMALL, color=ON[color], bbox=paper,
              zorder=4, linespacing=1.0)
