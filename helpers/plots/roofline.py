"""The roofline with the rungs so far, and that of three memories with all rungs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from helpers.checks import require_positive, require_some
from helpers.models.levels import LEVELS, LevelBytes
from helpers.models.machine import H200, Gpu
from helpers.models.predict import number
from helpers.models.pyramid import MemoryLevel, pyramid
from helpers.models.roofline import Roof
from helpers.plots.figure import (
    GREY,
    INK,
    NAVY,
    SKY,
    VERMILLION,
    YELLOW,
    Picture,
    new_picture,
    place_labels,
    quantity,
    style,
)
from helpers.rungs import find_rung
from helpers.typed import typed

_LINES = ((NAVY, "-"), (VERMILLION, "--"), (SKY, "-."), (GREY, ":"))
_NAME, _NAMES = 0.27, 3   # inches of a line of names below the roofline, and names in it
_NEAR = 1.35   # points nearer than this factor, in both directions, share a label
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@typed
@dataclass(frozen=True)
class RooflinePoint:
    """A kernel: its name, FLOP per byte (see `models.tiling.tile_traffic(...).intensity`) and TFLOP/s."""

    name: str
    intensity: float
    tflops: float


@typed
def roofline(
    roofs: Sequence[Roof],
    points: Sequence[RooflinePoint] = (),
    tensor_peak: float | None = None,
    title: str = "",
) -> Picture:
    """Draw the roofs and the points, both axes logarithmic.

    roofs: levels of memory under one peak, from `models.roofline.roofs(gpu)`. tensor_peak: TFLOP/s of the tensor
    cores, drawn as a second ceiling. Intensity is FLOP per byte of the level in question.
    """
    require_some("roofs", roofs, most=len(_LINES))
    for point in points:
        require_positive(f"intensity of {point.name}", point.intensity)
        require_positive(f"tflops of {point.name}", point.tflops)
    peak = max(roof.peak_tflops for roof in roofs)
    ceiling = max(peak, tensor_peak or 0)
    ridges = [ceiling * 1e12 / roof.bandwidth for roof in roofs]
    low_x = min([0.2, *(point.intensity / 3 for point in points)])
    high_x = max([ridges[0] * 4, *(point.intensity * 6 for point in points)])
    low_y = min([0.1, *(point.tflops / 3 for point in points)])
    with style():
        foot = 0.1 + _NAME * -(-len(points) // _NAMES)   # inches
        height = 6.0 + foot
        picture = new_picture(9.0, height)
        axes = picture.add_axes((0.1, (0.6 + foot) / height, 0.88, 3.96 / height))
        axes.set(xscale="log", yscale="log", xlim=(low_x, high_x), ylim=(low_y, ceiling * 2.2))
        obstacles = []
        for (color, dash), roof in zip(_LINES, roofs, strict=False):
            x = np.array([low_x, ceiling * 1e12 / roof.bandwidth])
            y = x * roof.bandwidth / 1e12
            label = f"{roof.name}: {quantity(roof.bandwidth, 'B/s')} ({roof.source})"
            axes.plot(x, y, color=color, ls=dash, lw=2, label=label, zorder=2)
            obstacles.append(np.column_stack([x, y]))
        ceilings = ((peak, "CUDA cores, fp32", "-"), (tensor_peak, "tensor cores, bf16 dense", (0, (6, 2))))
        for level, name, dash in ceilings:
            if level:
                start = level * 1e12 / max(roof.bandwidth for roof in roofs)
                label = f"{name}: {level:,.0f} TFLOP/s"
                axes.plot([start, high_x], [level, level], color=INK, ls=dash, lw=2, label=label, zorder=2)
                obstacles.append(np.array([[start, level], [high_x, level]]))
        lines = axes.get_legend_handles_labels()
        marks = []
        for index, point in enumerate(points):
            mark = _MARKS[index % len(_MARKS)]
            place = [point.intensity], [point.tflops]
            marks += axes.plot(*place, mark, color=YELLOW, mec=INK, mew=1.3, ms=9.5, zorder=4)
        _plain_ticks(axes)
        axes.set_xlabel("arithmetic intensity, FLOP per byte")
        axes.set_ylabel("TFLOP/s")
        axes.grid(color=GREY, alpha=0.18, lw=0.8)
        picture.legend(*lines, loc="upper left", bbox_to_anchor=(0.085, 1 - 0.39 / height), ncols=2)
        if points:
            names = [point.name for point in points]
            picture.legend(marks, names, loc="lower left", bbox_to_anchor=(0.085, 0.0), ncols=_NAMES, labelspacing=0.35,
                           handletextpad=0.4)
        heading = title or "Roofline"
        picture.text(0.015, 1 - 0.27 / height, heading, fontweight="bold", fontsize=12.5, va="center")
        labels = [number(point.tflops) for point in points]   # names have no room in the wedge between two roofs
        if points:
            place_labels(axes, [(point.intensity, point.tflops) for point in points], labels, obstacles, zorder=5)
        levels = "; ".join(f"{roof.name} {quantity(roof.bandwidth, 'B/s')}" for roof in roofs)
        reached = "; ".join(f"{p.name} {number(p.tflops)} TFLOP/s at {p.intensity:.3g} FLOP per byte" for p in points)
        tensor = f", tensor cores {tensor_peak:,.0f} TFLOP/s" if tensor_peak else ""
        ceilings = f"CUDA cores {peak:,.0f} TFLOP/s{tensor}"
        picture.alt = f"{heading}. Roofs: {levels}; {ceilings}. Points: {reached or 'none'}."
    return picture


@typed
def level_rooflines(
    points: Sequence[tuple[LevelBytes, float]],
    gpu: Gpu = H200,
    measured: Mapping[str, float] | None = None,
    title: str = "",
) -> Picture:
    """A roofline for each of HBM, L2 and shared memory, side by side: the same rungs at the same height in each.

    points: what a rung moves (`models.levels.level_bytes`) and its TFLOP/s. measured: bandwidths by level, as of
    `models.pyramid.pyramid`; else those of the datasheet or computed. A panel's heading says which. The arithmetic's
    peaks are those of the highest clock.
    """
    for moved, tflops in points:
        require_positive(f"tflops of {moved.rung}", tflops)
    levels = {level.name: level for level in pyramid(gpu, measured)}
    fp32, tensor = gpu.fp32_tflops, gpu.tensor_tflops
    heading = title or f"Three roofs on {gpu.name}"
    with style():
        picture = new_picture(9.6, 5.4)
        low = min([0.05 * fp32, *(tflops / 2.5 for _, tflops in points)])
        for index, name in enumerate(LEVELS):
            axes = picture.add_axes((0.093 + 0.307 * index, 0.185, 0.28, 0.60))
            axes.set(xscale="log", yscale="log", ylim=(low, tensor * 2.5))
            _draw_level(axes, levels[name], points, fp32, tensor)
            if index:
                axes.set_yticklabels([])
            else:
                axes.set_ylabel("TFLOP/s", labelpad=2)
        picture.text(0.015, 0.952, heading, fontweight="bold", fontsize=12.5, va="center")
        handles = [
            Line2D([], [], color=NAVY, lw=2.2),
            Line2D([], [], color=INK, lw=2, ls=(0, (6, 2))),
            Line2D([], [], color=INK, lw=2),
            Line2D([], [], marker="o", color=YELLOW, mec=INK, mew=1.1, ms=9, ls="none"),
            Line2D([], [], marker="s", color=SKY, mec=INK, mew=1.1, ms=8, ls="none"),
        ]
        names = [
            "bandwidth", f"tensor cores: {number(tensor)}", f"CUDA cores: {number(fp32)}",
            "tensor-core rungs", "CUDA-core rungs",
        ]
        picture.legend(handles, names, loc="lower left", bbox_to_anchor=(0.005, -0.01), ncols=5, columnspacing=1.2,
                       handletextpad=0.5)
        picture.alt = _levels_alt(heading, points, levels, fp32, tensor)
    return picture


def _draw_level(axes: Axes, level: MemoryLevel, points: Sequence[tuple[LevelBytes, float]], fp32: float, tensor: float):
    low, high = axes.get_ylim()
    intensities = [moved.intensity(level.name) for moved, _ in points]
    slope = level.bandwidth / 1e12
    left = min([low / slope, *(value / 4 for value in intensities)])
    right = max([tensor / slope * 3, *(value * 4 for value in intensities)])
    axes.set_xlim(left, right)
    x = np.array([low / slope / 2, tensor / slope])
    axes.plot(x, x * slope, color=NAVY, lw=2.2, zorder=2)
    obstacles = [np.column_stack([x, x * slope])]
    for peak, dash in ((tensor, (0, (6, 2))), (fp32, "-")):
        axes.plot([peak / slope, right], [peak, peak], color=INK, lw=2, ls=dash, zorder=2)
        obstacles.append(np.array([[peak / slope, peak], [right, peak]]))
    for (moved, tflops), intensity in zip(points, intensities, strict=True):
        mark, color, size = ("o", YELLOW, 9) if find_rung(moved.rung).number >= 6 else ("s", SKY, 8)
        axes.plot([intensity], [tflops], mark, color=color, mec=INK, mew=1.1, ms=size, zorder=4)
    groups = _groups([(find_rung(moved.rung).number, value, tflops)
                      for (moved, tflops), value in zip(points, intensities, strict=True)])
    _plain_ticks(axes)
    axes.grid(color=GREY, alpha=0.18, lw=0.8)
    axes.set_xlabel(f"FLOP per byte at {level.name}")
    axes.set_title(f"{level.name}: {quantity(level.bandwidth, 'B/s')}\n{level.source}", fontsize=11.5, pad=6)
    place_labels(axes, [place for place, _ in groups], [label for _, label in groups], obstacles, zorder=6,
                 fontweight="bold", fontsize=11)


def _groups(numbered: Sequence[tuple[int, float, float]]) -> list[tuple[tuple[float, float], str]]:
    """Points that lie on each other share a label. numbered: (number, x, y). Returns (place, label) of each group."""
    groups: list[list[tuple[int, float, float]]] = []
    for item in sorted(numbered):
        last = groups[-1][-1] if groups else None
        if last and all(1 / _NEAR < mine / other < _NEAR for mine, other in zip(item[1:], last[1:], strict=True)):
            groups[-1].append(item)
        else:
            groups.append([item])
    return [
        ((group[-1][1], group[-1][2]), f"{group[0][0]}" if len(group) == 1 else f"{group[0][0]}-{group[-1][0]}")
        for group in groups
    ]


def _levels_alt(heading: str, points, levels: Mapping[str, MemoryLevel], fp32: float, tensor: float) -> str:
    roofs = "; ".join(f"{name} {quantity(levels[name].bandwidth, 'B/s')} ({levels[name].source})" for name in LEVELS)
    parts = [
        f"{moved.rung} {number(tflops)}, " + ", ".join(number(moved.intensity(name)) for name in LEVELS)
        for moved, tflops in points
    ]
    peaks = f"CUDA cores {number(fp32)}, tensor cores {number(tensor)} TFLOP/s"
    rungs = f"TFLOP/s, then FLOP per byte at {', '.join(LEVELS)}: {'; '.join(parts)}" if parts else "No rungs"
    return f"{heading}. Bandwidths: {roofs}; {peaks}. {rungs}."


def _plain_ticks(axes: Axes) -> None:
    """Powers of ten written out, no minor labels."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        powers = [10.0**p for p in range(-4, 7) if low <= 10.0**p <= high]
        axis.set_ticks(powers, [f"{power:,.10g}" for power in powers])
        axis.set_ticks([], minor=True)
