"""CTAs per SM with what limits them, and how full the last wave of tiles is."""

import numpy as np

from helpers.checks import require_integer, require_some
from helpers.errors import ArgumentError
from helpers.models.waves import Occupancy, Waves
from helpers.plots.figure import GREY, INK, NAVY, PALE, SKY, VERMILLION, Picture, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_LEFT_OUT = -1
MOST_TILES = 10_000_000
MAX_DRAWN = 12   # waves drawn as bars; of more, the first few and the last


@typed
def occupancy_bars(occupancy: Occupancy, title: str = "") -> Picture:
    """A bar for each resource: the CTAs that it alone would allow on an SM; the limiting ones are dark."""
    limits = occupancy.limits
    with style():
        picture = new_picture(8.5, 1.35 + 0.46 * len(limits))
        height = picture.get_figheight()
        axes = picture.add_axes((0.19, 0.66 / height, 0.66, 0.46 * len(limits) / height))
        for index, (name, ctas) in enumerate(limits.items()):
            limiting = name in occupancy.limiters
            color, hatch = (NAVY, "") if limiting else (SKY, "///")
            axes.barh(index, ctas, 0.56, color=color, hatch=hatch, edgecolor=INK, lw=0.9)
            note = plural(ctas, "CTA") + (": the limit" if limiting else "")
            axes.annotate(note, (ctas, index), (6, 0), textcoords="offset points", va="center")
            axes.text(-0.015, index, name, ha="right", va="center", transform=axes.get_yaxis_transform())
        axes.set_xlim(0, max(limits.values()) * 1.05)
        axes.set_ylim(len(limits) - 0.5, -0.5)
        axes.set_yticks([])
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("CTAs per SM that each resource allows")
        result = (
            f"{plural(occupancy.ctas_per_sm, 'CTA')}, {occupancy.warps} of {occupancy.max_warps} warps "
            f"({100 * occupancy.fraction:.3g}% occupancy)"
        )
        line = 1 - 0.28 / height
        picture.text(0.015, line, f"{title or 'One SM'}: {result}", fontweight="bold", fontsize=12.5, va="center")
        parts = ", ".join(f"{name} {ctas}" for name, ctas in limits.items())
        picture.alt = (
            f"{title or 'Occupancy'}: {result}, limited by {' and '.join(occupancy.limiters)}. CTAs that each resource "
            f"allows: {parts}."
        )
    return picture


@typed
def wave_chart(waves: Waves, title: str = "") -> Picture:
    """The waves of a grid as filled bars, the last one with what stays empty; of many waves the middle is left out."""
    require_integer("waves.tiles", waves.tiles, 1, MOST_TILES)
    ends = [0, 1, 2, 3, _LEFT_OUT, waves.count - 1]
    more = f"{waves.count - 5:,} more full waves"
    drawn = list(range(waves.count)) if waves.count <= MAX_DRAWN else ends
    heading = f"{title}: " if title else ""
    filled = f"{waves.efficiency:.1%} of the places filled"
    result = f"{plural(waves.tiles, 'tile')} in {plural(waves.count, 'wave')}, {filled}"
    with style():
        picture = new_picture(8.5, 1.3 + 0.3 * len(drawn))
        height = picture.get_figheight()
        axes = picture.add_axes((0.13, 0.64 / height, 0.68, 0.3 * len(drawn) / height))
        for index, wave in enumerate(drawn):
            if wave == _LEFT_OUT:
                axes.text(waves.slots / 2, index, more, ha="center", va="center")
                continue
            last = wave == waves.count - 1
            tiles = waves.tail if last else waves.slots
            axes.barh(index, waves.slots, 0.74, color=PALE, hatch="xx", edgecolor=GREY, lw=0.6)
            axes.barh(index, tiles, 0.74, color=VERMILLION if last else NAVY, edgecolor=INK, lw=0.6)
            beside = axes.get_yaxis_transform()
            axes.text(-0.015, index, f"wave {wave + 1:,}", ha="right", va="center", transform=beside)
            if last:
                axes.text(1.015, index, plural(tiles, "tile"), va="center", transform=beside)
        axes.set_xlim(0, waves.slots)
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        axes.set_yticks([])
        axes.set_xlabel(f"CTAs at a time: {waves.slots:,} places")
        picture.text(0.015, 1 - 0.28 / height, heading + result, fontweight="bold", fontsize=12.5, va="center")
        picture.alt = (
            f"{heading}{result}; {plural(waves.slots, 'place')} a wave, {waves.tail:,} of them "
            f"filled in the last." + (f" Not drawn: {more}." if _LEFT_OUT in drawn else "")
        )
    return picture


@typed
def wave_efficiency(sizes: np.ndarray, waves: list[Waves], marked: int | None = None, title: str = "") -> Picture:
    """Share of places filled against matrix size: the saw teeth of wave quantisation.

    sizes: matrix sizes N, one per entry of `waves`. marked: a size whose value is written.
    """
    require_some("sizes", sizes)
    if len(waves) != len(sizes):
        raise ArgumentError(f"waves has {len(waves)} entries for {len(sizes)} sizes: give one for each.")
    if marked is not None and marked not in sizes:
        raise ArgumentError(f"marked is {marked}: it must be one of sizes.")
    with style():
        picture = new_picture(8.5, 3.6)
        axes = picture.add_axes((0.09, 0.17, 0.88, 0.68))
        shares = np.array([100 * wave.efficiency for wave in waves])
        axes.plot(sizes, shares, color=NAVY, drawstyle="steps-post")
        axes.set_ylim(0, 108)
        axes.set_xlim(min(sizes), max(sizes))
        axes.set_xlabel("N")
        axes.set_ylabel("places filled, %")
        heading = title or "Wave quantisation"
        picture.text(0.015, 0.92, heading, fontweight="bold", fontsize=12.5, va="center")
        note = ""
        if marked is not None:
            index = int(np.flatnonzero(np.asarray(sizes) == marked)[0])
            axes.plot([marked], [shares[index]], "o", color=VERMILLION, ms=9, mec=INK, zorder=3)
            note = f"N={marked}: {plural(waves[index].count, 'wave')}, {shares[index]:.1f}%"
            picture.text(0.97, 0.92, note, ha="right", va="center")
        picture.alt = (
            f"{heading}: share of places filled for N from {min(sizes)} to {max(sizes)}, between "
            f"{shares.min():.0f}% and {shares.max():.0f}%." + (f" {note}." if note else "")
        )
    return picture
