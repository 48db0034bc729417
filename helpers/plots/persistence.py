"""Tile after tile on an SM: as a timeline with modelled costs, as the kernel's own events, and over the size of C."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from helpers.checks import require_integers, require_some
from helpers.errors import ArgumentError
from helpers.models.persistence import CONSUMERS, TMA, Grid, Span, TileTimeline
from helpers.models.pipeline import PRODUCER
from helpers.persistence_events import PersistenceLog
from helpers.plots.figure import CARD, GREY, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, key, new_picture, style
from helpers.plots.lanes import SMALL, bar, events, name_lanes, require_bars, time_ticks
from helpers.typed import typed
from helpers.words import plural

_PAGE, _LEFT, _WIDTH = 9.4, 0.125, 0.845   # inches, and shares of the page
_LANE, _GAP, _HEAD, _FOOT = 0.32, 0.38, 0.6, 0.62
_TILES = (SKY, YELLOW)   # by turns
_KEY = (("number: the step of a tile, ordered or multiplied",), ("tiles 0, 2, ...", SKY), ("tiles 1, 3, ...", YELLOW),
        ("a store", NAVY))


@typed
def tile_timeline(timelines: Sequence[TileTimeline], title: str = "") -> Picture:
    """A panel for each, on one time axis: the start of CTAs and the loads in one lane, each consumer in its own."""
    require_some("timelines", timelines, most=12)
    require_bars("timelines", sum(len(timeline.spans) for timeline in timelines))
    end = max(timeline.end for timeline in timelines)
    heading = title or "One SM, tile after tile, modelled"
    names = [TMA, *CONSUMERS]
    panel = _GAP + _LANE * len(names)
    height = _HEAD + panel * len(timelines) + _FOOT
    inch = _PAGE * _WIDTH / end
    with style():
        picture = new_picture(_PAGE, height)
        for index, timeline in enumerate(timelines):
            bottom = height - _HEAD - panel * (index + 1)
            axes = picture.add_axes((_LEFT, bottom / height, _WIDTH, _LANE * len(names) / height))
            name_lanes(axes, names, end)
            for span in timeline.spans:
                lane = names.index(span.who) if span.who in names else 0
                _draw_span(axes, lane, span, inch)
            last = index == len(timelines) - 1
            axes.tick_params(labelbottom=last)
            time_ticks(axes)
            if last:
                axes.set_xlabel("time, clocks (modelled)")
            axes.set_title(_summary(timeline), fontsize=11, pad=4)
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        key(picture, 0.015, 1 - 0.5 / height, [*_KEY, ("a CTA starts", PALE, "xx")], fontsize=SMALL)
        picture.alt = f"{heading}. " + "; ".join(map(_summary, timelines)) + "."
    return picture


@typed
def tile_chart(log: PersistenceLog, title: str = "") -> Picture:
    """Events of the emulator from left to right: the producer's orders, the consumers' steps and stores."""
    heading = title or "One CTA, tile after tile, as the emulator played it"
    end = len(log.events)
    names = [PRODUCER, *log.consumers]
    height = _HEAD + 0.46 * len(names) + _FOOT
    inch = _PAGE * _WIDTH / end
    with style():
        picture = new_picture(_PAGE, height)
        axes = picture.add_axes((_LEFT, _FOOT / height, _WIDTH, 0.46 * len(names) / height))
        name_lanes(axes, names, end)
        orders = [(index, event) for index, event in enumerate(log.events) if event.what == "order"]
        events(axes, 0, inch, [(index, _TILES[event.tile % 2], str(event.step)) for index, event in orders])
        for index, event in enumerate(log.events):
            color, lane = _TILES[event.tile % 2], names.index(event.who)
            if event.what == "step":
                done = log.index(event.who, "step done", event.tile, event.step)
                bar(axes, lane, index, done + 1, inch, color, str(event.step))
            elif event.what == "store":
                done = log.index(event.who, "store done", event.tile)
                bar(axes, lane, index, done + 1, inch, NAVY, "")
        axes.set_xlabel("events, in the order in which they happened (no times)")
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        key(picture, 0.015, 1 - 0.5 / height, _KEY, fontsize=SMALL)
        early = "; ".join(
            f"{log.ordered_early(tile)} of {plural(log.steps, 'step')} of tile {tile} ordered before tile {tile - 1} "
            "is stored"
            for tile in range(1, log.tiles)
        )
        picture.alt = f"{heading}: {plural(log.tiles, 'tile')} of {plural(log.steps, 'step')}, {plural(end, 'event')}"
        picture.alt += f"; {early}." if early else "."
    return picture


@typed
def useful_share(
    sizes: np.ndarray, places: Mapping[str, int], marked: Sequence[int] = (), title: str = "", sm_count: int = 132
) -> Picture:
    """What of the GPU's multiplying a square C of each size can use at most, for each number of CTAs.

    places: CTAs at a time by label. marked: sizes that get a mark on the first line.
    """
    heading = title or "Tiles and rounds: how much of the GPU a square C can use"
    looks = ((NAVY, "-"), (VERMILLION, "--"), (GREY, ":"))
    require_some("sizes", sizes)
    require_some("places", places, most=len(looks))
    sizes = np.asarray(sizes)
    require_integers("sizes", sizes)
    with style():
        picture = new_picture(_PAGE, 4.0)
        axes = picture.add_axes((0.08, 0.15, 0.9, 0.66))
        said, looks_of = [], []
        for (label, count), (color, line) in zip(places.items(), looks, strict=False):
            shares = np.array([100 * Grid(int(n), int(n), count).useful(sm_count) for n in sizes])
            axes.plot(sizes, shares, color=color, ls=line, lw=1.5, zorder=3 if line == "-" else 4)
            points = [100 * Grid(n, n, count).useful(sm_count) for n in marked]
            mark, size = ("o", 11) if line == "-" else ("D", 6)   # where both lie in one place, both show
            axes.plot(marked, points, mark, color=color, mec=CARD, ms=size, zorder=5, clip_on=False)
            looks_of.append(Line2D([], [], color=color, ls=line, lw=1.5, marker=mark, mec=CARD, ms=size, label=label))
            at = ", ".join(f"{share:.0f}% at N={n:,}" for n, share in zip(marked, points, strict=True))
            said.append(f"{label}: {at}" if at else label)
        axes.set_xscale("log", base=2)
        ticks = [2**power for power in range(8, 16) if sizes.min() <= 2**power <= sizes.max()]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(sizes.min(), sizes.max() * 1.03)
        axes.set_ylim(0, 104)
        axes.set_xlabel("N (C is N x N)")
        axes.set_ylabel("share of use, %")
        axes.legend(handles=looks_of, loc="lower right")
        picture.text(0.015, 0.93, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.text(0.015, 0.86, f"the rest: tiles over the edge of C, and SMs without a tile ({sm_count} SMs)",
                     fontsize=SMALL, va="center")
        picture.alt = f"{heading}, of {sm_count} SMs, N from {sizes.min():,} to {sizes.max():,}. {'; '.join(said)}."
    return picture


@typed
def gain_chart(
    sizes: Sequence[int], modelled: Sequence[float], measured: Sequence[float | None], title: str = ""
) -> Picture:
    """How many times as fast a persistent kernel is: modelled as bars from 1, measured as dots where there are any."""
    require_some("sizes", sizes, most=20)
    if not len(sizes) == len(modelled) == len(measured):
        raise ArgumentError(f"modelled has {len(modelled)} and measured {len(measured)} values for {len(sizes)} sizes.")
    heading = title or "09_persistence over 08_hilbert: modelled from clocks, and measured"
    known = [(place, value) for place, value in enumerate(measured) if value is not None]
    values = [*modelled, *(value for _, value in known), 1.0]
    room = 0.25 * (max(values) - min(values)) + 0.004
    with style():
        picture = new_picture(_PAGE, 3.9)
        axes = picture.add_axes((0.09, 0.22, 0.89, 0.57))
        axes.set_xlim(-0.5, len(sizes) - 0.5)
        axes.set_ylim(min(values) - room, max(values) + room)
        axes.axhline(1, color=INK, lw=1)
        heights = [value - 1 for value in modelled]
        axes.bar(range(len(sizes)), heights, 0.34, bottom=1, color=SKY, edgecolor=INK, lw=0.9, label="modelled")
        if known:
            axes.plot(*zip(*known, strict=True), "D", color=VERMILLION, mec=INK, ms=9, zorder=4, label="measured")
        labels = [
            f"N = {size:,}\nmodelled {model:.3f}" + (f"\nmeasured {value:.3f}" if value is not None else "")
            for size, model, value in zip(sizes, modelled, measured, strict=True)
        ]
        axes.set_xticks(range(len(sizes)), labels, linespacing=1.25)
        axes.tick_params(axis="x", labelsize=SMALL)
        axes.set_ylabel("times as fast")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)
        picture.text(0.015, 0.935, heading, fontsize=12.5, fontweight="bold", va="center")
        words = [
            f"N={size:,}: modelled {model:.3f}" + (f", measured {value:.3f}" if value is not None else "")
            for size, model, value in zip(sizes, modelled, measured, strict=True)
        ]
        picture.alt = f"{heading}. " + "; ".join(words) + "."
    return picture


def _draw_span(axes: Axes, lane: int, span: Span, inch: float) -> None:
    if span.what == "start":
        bar(axes, lane, span.begin, span.end, inch, PALE, "", hatch="xx")
    elif span.what == "store":
        bar(axes, lane, span.begin, span.end, inch, NAVY, "store")
    else:
        bar(axes, lane, span.begin, span.end, inch, _TILES[span.tile % 2], str(span.step))


def _summary(timeline: TileTimeline) -> str:
    who = "one CTA" if timeline.persistent else "a CTA for each tile"
    return f"{who}: {timeline.end:,.0f} clocks, tensor cores busy {timeline.busy:.0%} of them"
