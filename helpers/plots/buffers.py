"""Loads and multiplications of the steps along K as a timeline, for each number of buffers."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_sequence
from helpers.models.buffers import BufferSchedule
from helpers.plots.figure import GREY, HATCHES, INK, ON, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.plots.lanes import SMALL, fits, require_bars, time_ticks
from helpers.typed import typed
from helpers.words import plural

_PANEL, _HEAD, _FOOT, _PAGE = 1.18, 0.66, 0.66, 9.4   # inches
_WIDTH = 0.785 * _PAGE                                # of a panel
_MORE = 1.004                                         # times the end
_COLORS = (SKY, YELLOW, PALE, VERMILLION)   # by buffer, as the hatches


@typed
def buffer_timeline(schedules: Sequence[BufferSchedule], unit: str = "clocks", title: str = "") -> Picture:
    """A panel for each schedule: the copy engine's loads above, the threads' multiplications below, on one time axis.

    The number in a bar is the step; its shade and its stripe tell the buffer.
    """
    require_sequence("schedules", schedules, BufferSchedule, "make them with buffer_schedule")
    require_bars("schedules", 2 * sum(len(schedule.steps) for schedule in schedules))
    end = max(schedule.end for schedule in schedules)
    count = len(schedules)
    with style():
        height = _HEAD + _PANEL * count + _FOOT
        picture = new_picture(_PAGE, height)
        for index, schedule in enumerate(schedules):
            bottom = _FOOT + _PANEL * (count - 1 - index)
            axes = picture.add_axes((0.19, bottom / height, _WIDTH / _PAGE, (_PANEL - 0.34) / height))
            _draw(axes, schedule, end)
            times = f"done after {schedule.end:,.0f}, threads waited {schedule.waited:,.0f}"
            axes.set_title(f"{plural(schedule.buffers, 'buffer')}: {times}", fontsize=11, pad=4)
            axes.tick_params(labelbottom=index == count - 1)
            if index == count - 1:
                axes.set_xlabel(f"time in {unit} (modelled)")
        heading = title or "Loading and multiplying, modelled"
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        key = "number: the step; no stripe: buffer 0; striped: another buffer; tick: its bytes have landed"
        picture.text(0.19, 1 - 0.52 / height, key, va="center")
        picture.alt = f"{heading}, in {unit}. " + " ".join(_sentence(schedule) for schedule in schedules)
    return picture


def _draw(axes: Axes, schedule: BufferSchedule, end: float) -> None:
    inch = _WIDTH / (_MORE * end)
    for number, step in enumerate(schedule.steps):
        color, hatch = _COLORS[step.buffer % len(_COLORS)], HATCHES[step.buffer % len(HATCHES)]
        for row, (begin, stop) in enumerate((step.load, step.multiply)):
            box = Rectangle((begin, row + 0.1), stop - begin, 0.8, facecolor=color, edgecolor=INK, lw=0.9, zorder=2)
            axes.add_patch(box)
            if hatch:
                stripe = Rectangle((begin, row + 0.76), stop - begin, 0.14, lw=0.9, zorder=3)
                stripe.set(facecolor=color, edgecolor=INK, hatch=hatch)
                axes.add_patch(stripe)
            label = str(number)
            if not fits(label, (stop - begin) * inch):
                continue
            axes.text((begin + stop) / 2, row + 0.45, label, ha="center", va="center", fontsize=SMALL,
                      color=ON[color], zorder=4)
        axes.plot([step.load[1], step.load[1]], [0.9, 1.1], color=INK, lw=1.6, zorder=5)
    axes.set_xlim(0, _MORE * end)   # the last bar's edge too
    axes.set_ylim(2, 0)
    time_ticks(axes)
    axes.set_yticks([0.5, 1.5], ["TMA loads", "threads multiply"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axhline(1, color=PALE, lw=0.9, zorder=0)
    axes.spines["bottom"].set_color(GREY)


def _sentence(schedule: BufferSchedule) -> str:
    last = f"the last of {plural(len(schedule.steps), 'multiplication')} is done after {schedule.end:,.0f}"
    return f"With {plural(schedule.buffers, 'buffer')} {last}, and the threads waited {schedule.waited:,.0f} for bytes."
