"""The ring of stages: who waits for what in a run of the kernel, and when each step is loaded and multiplied."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from helpers.checks import require_some
from helpers.models.pipeline import PRODUCER, TMA, Ring, place
from helpers.plots.figure import CARD, INK, PALE, SKY, YELLOW, Picture, key, new_picture, style
from helpers.plots.lanes import SMALL, bar, events, name_lanes, require_bars, time_ticks
from helpers.ring_events import RingEvent, RingLog
from helpers.typed import typed
from helpers.words import plural

_LANE, _HEAD, _FOOT = 0.46, 0.98, 0.62   # inches
_PAGE, _LEFT, _WIDTH = 9.4, 0.125, 0.845
_BY_PARITY = (SKY, YELLOW)
_PARITIES = tuple((f"parity {parity}", color) for parity, color in enumerate(_BY_PARITY))   # for a key
_SLIVER = 0.03     # inches; shorter waits are left out of a timeline


@typed
def ring_chart(log: RingLog, title: str = "") -> Picture:
    """A lane for the producer, each stage and each consumer; events of the emulator from left to right.

    A grey bar is a wait that did not pass at once. A stage is striped from its order until it is seen to be full, plain
    until all consumer warps have arrived; a consumer's lane is that of its first warp. The colour is the parity of the
    round.
    """
    consumers = sorted({event.who for event in log.events} - {PRODUCER})
    lanes = [PRODUCER, *(f"stage {stage}" for stage in range(log.stages)), *consumers]
    end = len(log.events)
    heading = title or f"The ring in {plural(log.steps, 'step')}, as the emulator played it"
    with style():
        picture, axes = _canvas(lanes, end, heading, _HEAD)
        inch = _PAGE * _WIDTH / end
        for who in (PRODUCER, *consumers):
            for begin, stop, event in _blocked(log, who):
                bar(axes, lanes.index(who), begin, stop, inch, PALE, _wait_label(event), hatch="xx")
        orders = []
        for step in range(log.steps):
            at = place(step, log.stages)
            color = _BY_PARITY[at.parity]
            ordered = _index(log, PRODUCER, "pass", step)
            full = min(_index(log, who, "pass", step) for who in consumers)
            arrivals = [i for i, e in enumerate(log.events) if e.what == "arrive" and e.step == step]
            lane = lanes.index(f"stage {at.stage}")
            orders.append((ordered, color, str(step)))
            bar(axes, lane, ordered, full, inch, color, f"step {step} ordered", hatch="//")
            bar(axes, lane, full, max(arrivals) + 1, inch, color, f"step {step} full")
            for index in arrivals:
                axes.plot([index + 0.5] * 2, [lane + 0.26, lane + 0.4], color=INK, lw=1.1, zorder=5)
            for who in consumers:
                begin, stop = _index(log, who, "pass", step), _first_arrival(log, who, step)
                bar(axes, lanes.index(who), begin, stop + 1, inch, color, str(step))
        events(axes, lanes.index(PRODUCER), inch, orders)
        axes.set_xlabel("events, in the order in which they happened (no times)")
        height = picture.get_figheight()
        entries = [("number: the step",), *_PARITIES, ("waits, for which barrier and parity", PALE, "xx")]
        key(picture, 0.015, 1 - 0.52 / height, entries, fontsize=SMALL)
        entries = [("ordered, not seen to be full yet", CARD, "//"), ("strokes: arrivals of the eight consumer warps",),
                   ("consumer: its first warp",)]
        key(picture, 0.015, 1 - 0.75 / height, entries, fontsize=SMALL)
        picture.alt = f"{heading}, {plural(end, 'event')}, {plural(log.stages, 'stage')}. " + " ".join(
            _sentence(log, who) for who in (PRODUCER, *consumers)
        )
    return picture


@typed
def ring_timeline(rings: Sequence[Ring], unit: str = "clocks", title: str = "") -> Picture:
    """A panel for each ring on one time axis: the loads, and each consumer's multiplications and waits. Modelled."""
    require_some("rings", rings, most=12)
    require_bars("rings", sum(len(ring.work) for ring in rings))
    end = max(ring.end for ring in rings)
    heading = title or "Loading and multiplying with a ring, modelled"
    panels = [(ring, [TMA, *(f"consumer {n}" for n in range(1, ring.consumers + 1))]) for ring in rings]
    gap, lane = 0.36, 0.3
    with style():
        height = 0.66 + sum(gap + lane * len(lanes) for _, lanes in panels) + _FOOT
        picture = new_picture(_PAGE, height)
        top = height - 0.66
        inch = _PAGE * _WIDTH / end
        for index, (ring, lanes) in enumerate(panels):
            bottom = top - gap - lane * len(lanes)
            axes = picture.add_axes((_LEFT, bottom / height, _WIDTH, lane * len(lanes) / height))
            name_lanes(axes, lanes, end)
            for wait in ring.waits:
                if wait.who in lanes and (wait.end - wait.begin) * inch > _SLIVER:
                    bar(axes, lanes.index(wait.who), wait.begin, wait.end, inch, PALE, "", hatch="xx")
            for work in ring.work:
                color = _BY_PARITY[place(work.step, ring.stages).parity]
                bar(axes, lanes.index(work.who), work.begin, work.end, inch, color, str(work.step))
            last = index == len(panels) - 1
            axes.tick_params(labelbottom=last)
            time_ticks(axes)
            if last:
                axes.set_xlabel(f"time, {unit} (modelled)")
            axes.set_title(_summary(ring, unit), fontsize=11, pad=4)
            top = bottom
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        entries = [("number: the step",), *_PARITIES, ("the consumer waits for bytes", PALE, "xx")]
        key(picture, 0.015, 1 - 0.5 / height, entries, fontsize=SMALL)
        picture.alt = f"{heading}. " + "; ".join(_summary(ring, unit) for ring in rings) + "."
    return picture


def _canvas(lanes: Sequence[str], end: float, heading: str, head: float) -> tuple[Picture, Axes]:
    height = head + _LANE * len(lanes) + _FOOT
    picture = new_picture(_PAGE, height)
    axes = picture.add_axes((_LEFT, _FOOT / height, _WIDTH, _LANE * len(lanes) / height))
    name_lanes(axes, lanes, end)
    picture.text(0.015, 1 - 0.25 / height, heading, fontsize=12.5, fontweight="bold", va="center")
    return picture, axes


def _index(log: RingLog, who: str, what: str, step: int) -> int:
    return next(i for i, e in enumerate(log.events) if (e.who, e.what, e.step) == (who, what, step))


def _first_arrival(log: RingLog, who: str, step: int) -> int:
    """The arrival of the warp whose waits are noted."""
    warp = log.events[_index(log, who, "wait", step)].warp
    return next(i for i, e in enumerate(log.events) if (e.warp, e.what, e.step) == (warp, "arrive", step))


def _blocked(log: RingLog, who: str) -> list[tuple[int, int, RingEvent]]:
    """The waits of somebody between whose beginning and end other things happened."""
    found = []
    for index, event in enumerate(log.events):
        if event.who == who and event.what == "wait":
            end = _index(log, who, "pass", event.step)
            if end > index + 1:
                found.append((index, end, event))
    return found


def _wait_label(wait: RingEvent) -> str:
    return f"{wait.barrier}[{wait.stage}], {wait.parity}"


def _sentence(log: RingLog, who: str) -> str:
    waits = "; ".join(
        f"{event.barrier}[{event.stage}] with parity {event.parity} from event {begin} to {end}"
        for begin, end, event in _blocked(log, who)
    )
    name = "The producer" if who == PRODUCER else who.capitalize()
    return f"{name} waits for {waits}." if waits else f"{name} never waits."


def _summary(ring: Ring, unit: str) -> str:
    stages = plural(ring.stages, "stage")
    return f"{stages}: done after {ring.end:,.0f} {unit}, tensor cores busy {100 * ring.busy:.0f}% of them"
