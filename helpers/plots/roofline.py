"""The roofline with the rungs so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.models.predict import number
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

_LINES = ((NAVY, "-"), (VERMILLION, "--"), (SKY, "-."), (GREY, ":"))
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel: its name, FLOP per byte (see `models.tiling.tile_traffic(...).intensity`) and TFLOP/s."""

    name: str
    intensity: float
    tflops: float


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
    peak = max(roof.peak_tflops for roof in roofs)
    ceiling = max(peak, tensor_peak or 0)
    ridges = [ceiling * 1e12 / roof.bandwidth for roof in roofs]
    low_x = min([0.2, *(point.intensity / 3 for point in points)])
    high_x = max([ridges[0] * 4, *(point.intensity * 6 for point in points)])
    low_y = min([0.1, *(point.tflops / 3 for point in points)])
    with style():
        picture = new_picture(9.0, 6.0)
        axes = picture.add_axes((0.1, 0.10, 0.88, 0.66))
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
        for index, point in enumerate(points):
            mark = _MARKS[index % len(_MARKS)]
            axes.plot([point.intensity], [point.tflops], mark, color=YELLOW, mec=INK, mew=1.3, ms=9.5, zorder=4)
        _plain_ticks(axes)
        axes.set_xlabel("arithmetic intensity, FLOP per byte")
        axes.set_ylabel("TFLOP/s")
        axes.grid(color=GREY, alpha=0.18, lw=0.8)
        picture.legend(*axes.get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(0.085, 0.935), ncols=2)
        heading = title or "Roofline"
        picture.text(0.015, 0.955, heading, fontweight="bold", fontsize=12.5, va="center")
        labels = [f"{point.name}: {number(point.tflops)}" for point in points]
        if points:
            place_labels(axes, [(point.intensity, point.tflops) for point in points], labels, obstacles, zorder=5)
        levels = "; ".join(f"{roof.name} {quantity(roof.bandwidth, 'B/s')}" for roof in roofs)
        reached = "; ".join(f"{p.name} {number(p.tflops)} TFLOP/s at {p.intensity:.3g} FLOP per byte" for p in points)
        tensor = f", tensor cores {tensor_peak:,.0f} TFLOP/s" if tensor_peak else ""
        ceilings = f"CUDA cores {peak:,.0f} TFLOP/s{tensor}"
        picture.alt = f"{heading}. Roofs: {levels}; {ceilings}. Points: {reached or 'none'}."
    return picture


def _plain_ticks(axes) -> None:
    """Powers of ten written out, no minor labels."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        powers = [10.0**p for p in range(-4, 7) if low <= 10.0**p <= high]
        axis.set_ticks(powers, [f"{power:,.10g}" for power in powers])
        axis.set_ticks([], minor=True)
