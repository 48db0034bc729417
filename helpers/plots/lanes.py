"""Charts with a lane for each who acts, and bars along a common axis: times, or events in their order."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from helpers.errors import ArgumentError
from helpers.plots.figure import GREY, INK, ON, PALE, quantity

MOST_BARS = 2_000
SMALL = 10         # points, of what stands in the bars
_LETTER = 0.092    # inches of a letter of this size
_EDGES = 0.008     # inches of a narrow bar's edges
_ROOM = 0.025      # inches that a label and the edges at its sides need besides


def require_bars(name: str, count: int) -> None:
    """Raises ArgumentError for more bars than can be told apart, or drawn in a moment."""
    if count > MOST_BARS:
        raise ArgumentError(f"{name} has {count:,} bars: a picture shows {MOST_BARS:,} at most; play fewer steps.")


def time_ticks(axes: Axes) -> None:
    """Few ticks, of which even the last has room for its number; from a million on with a prefix: `4 M`."""
    axes.xaxis.set_major_locator(MaxNLocator(8))
    end = axes.get_xlim()[1]
    axes.xaxis.set_major_formatter("{x:,.10g}" if end < 1e6 else lambda x, _: quantity(x, "").strip())


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


def fits(label: str, inches: float) -> bool:
    """Whether a bar of this width has room for a label of one line."""
    return len(label) * _LETTER + _EDGES <= inches


def events(axes: Axes, lane: int, inch: float, found: Sequence[tuple[int, str, str]]) -> None:
    """Bars of one event each: (event, colour, label). A label may be wider than its bar; where it met the last one,
    it is left out."""
    free = 0.0
    for event, color, label in found:
        half = len(label) * (_LETTER + _ROOM) / inch / 2
        shown = event + 0.5 - half >= free
        bar(axes, lane, event, event + 1, inch, color, label if shown else "", sticks_out=True)
        free = event + 0.5 + half if shown else free


def bar(
    axes: Axes, lane: int, begin: float, end: float, inch: float, color: str, label: str, hatch: str = "",
    sticks_out: bool = False,
) -> None:
    """A bar, with its label if there is room for it or it may stick out. inch: of one unit."""
    tight = (end - begin) * inch < len(label) * _LETTER + _ROOM   # the edges would run into the digits
    box = Rectangle((begin, lane - 0.4), end - begin, 0.8, facecolor=color, edgecolor=GREY if hatch or tight else INK)
    box.set(hatch=hatch, zorder=2, lw=0.5 if tight else 0.8)
    axes.add_patch(box)
    if hatch:   # an outline of its own, darker than the hatch
        axes.add_patch(Rectangle((begin, lane - 0.4), end - begin, 0.8, fill=False, edgecolor=INK, lw=0.8, zorder=3))
    width = (end - begin) * inch
    if not fits(label, width) and not sticks_out:
        label = label.replace("[", "\n[")   # on two lines, if that helps
    if not label or not (sticks_out or all(fits(line, width) for line in label.split("\n"))):
        return
    paper = {"boxstyle": "round,pad=0.12", "facecolor": color, "edgecolor": "none"} if hatch or sticks_out else None
    middle = (begin + end) / 2
    axes.text(middle, lane - 0.04, label, ha="center", va="center", fontsize=SMALL, color=ON[color], bbox=paper,
              zorder=4, linespacing=1.0)
