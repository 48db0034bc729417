"""The life of an mbarrier: what each event does to its arrivals, its bytes and its phase."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from helpers.checks import require_integer, require_sequence
from helpers.models.mbarrier import Mbarrier
from helpers.plots.figure import GREY, INK, NAVY, ON, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_ROW = 0.38   # inches
_PAGE, _MARGIN, _HEAD = 9.4, 0.15, 1.0
_EVENT, _ARRIVALS, _BYTES, _PHASE, _WAITS = 0.0, 2.72, 3.95, 6.15, (7.2, 8.2)   # left edges of the columns, inches
_BAR = 1.2
_PHASE_COLORS = (SKY, YELLOW)   # by parity
_DOTS = 3
MOST_ARRIVALS = 99_999   # more digits have no room


@typed
def barrier_life(states: Sequence[Mbarrier], title: str = "The life of an mbarrier") -> Picture:
    """A row for each state, from top to bottom: the event, the arrivals and bytes still missing, the phase, the waits.

    states: of one barrier, each made from the one before.
    """
    require_sequence("states", states, Mbarrier, "begin with Mbarrier(arrivals)")
    for number, state in enumerate(states):
        require_integer(f"states[{number}].arrivals", state.arrivals, 1, MOST_ARRIVALS)
    count = len(states)
    most = max(1, *(state.bytes for state in states))
    with style():
        height = _HEAD + _ROW * count + _MARGIN
        picture = new_picture(_PAGE, height)
        width = _PAGE - 2 * _MARGIN
        axes = picture.add_axes((_MARGIN / _PAGE, _MARGIN / height, width / _PAGE, _ROW * count / height))
        axes.set_xlim(0, width)
        axes.set_ylim(count * _ROW, 0)
        axes.set_axis_off()
        _headings(axes)
        for number, state in enumerate(states):
            axes.axhline(number * _ROW, color=PALE, lw=0.9, zorder=0)
            _draw_state(axes, (number + 0.5) * _ROW, state, most)
        picture.text(0.015, 1 - 0.26 / height, title, fontsize=12.5, fontweight="bold", va="center")
        rule = "A wait for a parity passes while the phase has the other one."
        picture.alt = f"{title}, event by event. {'; '.join(map(_words, states))}. {rule}"
    return picture


def _headings(axes: Axes) -> None:
    columns = (
        (_EVENT, "event"), (_ARRIVALS, "arrivals\nmissing"), (_BYTES, "bytes missing"), (_PHASE, "phase\n(parity)"),
        (_WAITS[0], "a wait for\nparity 0"), (_WAITS[1], "a wait for\nparity 1"),
    )
    for left, text in columns:
        axes.text(left, -0.06, text, va="bottom", fontsize=10.5, linespacing=1.1, color=INK)


def _draw_state(axes: Axes, y: float, state: Mbarrier, most: int) -> None:
    axes.text(_EVENT, y, state.event, va="center")
    dots = min(state.pending, _DOTS)
    for arrival in range(dots):
        axes.add_patch(Circle((_ARRIVALS + 0.08 + 0.2 * arrival, y), 0.075, facecolor=NAVY, edgecolor=INK, lw=0.8))
    axes.text(_ARRIVALS + 0.04 + 0.2 * dots, y, f"{state.pending:,}", va="center")
    length = _BAR * max(0, state.bytes) / most
    if length:
        bar = Rectangle((_BYTES, y - 0.1), length, 0.2, facecolor=VERMILLION, edgecolor=INK, lw=0.8)
        axes.add_patch(bar)
    axes.text(_BYTES + length + (0.08 if length else 0), y, f"{state.bytes:,}", va="center")
    color = _PHASE_COLORS[state.parity]
    axes.add_patch(Rectangle((_PHASE, y - _ROW / 2), 0.8, _ROW, facecolor=color, edgecolor="none"))
    axes.text(_PHASE + 0.4, y, f"{state.phase} ({state.parity})", ha="center", va="center", color=ON[color])
    for parity, left in enumerate(_WAITS):
        blocks = state.blocks(parity)
        axes.text(left, y, "waits" if blocks else "passes", va="center", color=GREY if blocks else INK,
                  fontweight="normal" if blocks else "bold")


def _words(state: Mbarrier) -> str:
    missing = f"{plural(state.pending, 'arrival')} and {state.bytes:,} bytes missing"
    return f"{state.event}: phase {state.phase}, {missing}"
