"""The tensor cores' peak at every clock, and what kernels reached at the clock that they ran at."""

from collections.abc import Sequence

import numpy as np

from helpers.errors import ArgumentError
from helpers.held_clock import Clocked
from helpers.models.machine import H200, Gpu, gpu_of
from helpers.plots.figure import GREY, INK, NAVY, PALE, VERMILLION, Picture, new_picture, style
from helpers.records import size_name, three_digits
from helpers.typed import typed

_LOW, _HIGH = 1.2, 2.05   # GHz
_KINDS = {"burst": (NAVY, "o"), "sustained": (VERMILLION, "D")}


def tensor_peak(clock_mhz: float, gpu: Gpu = H200) -> float:
    """TFLOP/s of all tensor cores at a clock in MHz: SMs x FLOP per clock x clock."""
    return gpu.sm_count * gpu.tensor_flop_per_clock_sm * clock_mhz / 1e6


def measured_gpu(items: Sequence[Clocked]) -> Gpu:
    """The GPU of measurements (the first one's); the H200 without any, or if its driver does not report enough."""
    try:
        return gpu_of(items[0].measurement.device) if items else H200
    except ArgumentError:
        return H200


@typed
def peak_over_clock(items: Sequence[Clocked], gpu: Gpu | None = None, title: str = "") -> Picture:
    """A line, the peak against the clock; a mark for each measurement at the clock of its kernel.

    Measurements without a clock are left out. Without any the line stands alone. gpu: that of the measurements.
    """
    gpu = gpu or measured_gpu(items)
    heading = title or f"The tensor cores' peak follows the clock: {gpu.name}"
    points = [(item, item.mhz / 1000) for item in items if item.mhz]
    with style():
        picture = new_picture(9.0, 4.2)
        axes = picture.add_axes((0.09, 0.14, 0.54, 0.73))
        ends = np.array([min([_LOW, *(clock - 0.05 for _, clock in points)]), _HIGH])
        axes.plot(ends, tensor_peak(1000 * ends, gpu), color=INK, lw=1.8, zorder=2)
        marks = (("highest clock", gpu.clock_hz / 1e9), ("datasheet", gpu.dense_tflops / tensor_peak(1000, gpu)))
        sides = ((-12, 4, "right", "bottom"), (10, -8, "left", "top"))   # above the line and below it
        for (name, clock), (dx, dy, horizontal, vertical) in zip(marks, sides, strict=True):
            peak = tensor_peak(1000 * clock, gpu)
            axes.plot([clock], [peak], "s", color=PALE, mec=INK, ms=8, zorder=3)
            words = f"{name}\n{peak:,.0f} at {clock:.2f} GHz"
            axes.annotate(words, (clock, peak), (dx, dy), textcoords="offset points", ha=horizontal, va=vertical,
                          fontsize=10)
        for item, clock in points:
            color, mark = _KINDS[item.measurement.regime]
            tflops = item.measurement.tflops
            axes.plot([clock] * 2, [tflops, tensor_peak(1000 * clock, gpu)], color=GREY, lw=0.9, ls=":", zorder=1)
            axes.plot([clock], [tflops], mark, color=color, mec=INK, ms=9, zorder=4)
        low = min([tensor_peak(1000 * ends[0], gpu), *(item.measurement.tflops for item, _ in points)])
        axes.set_ylim(low * 0.93, tensor_peak(1000 * _HIGH, gpu) * 1.09)
        axes.set_xlim(*ends)
        axes.set_xlabel("SM clock, GHz")
        axes.set_ylabel("TFLOP/s")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        lines = [(item.measurement.regime, *_words(item, clock)) for item, clock in points]
        _legend(picture, lines, gpu)
        picture.text(0.015, 0.94, heading, fontsize=12.5, fontweight="bold", va="center")
        parts = "; ".join(f"{name}: {figure} of the peak" for _, name, figure in lines)
        known = " and ".join(f"{tensor_peak(1000 * c, gpu):,.0f} at {c:.2f} GHz ({name})" for name, c in marks)
        picture.alt = f"{heading}, in TFLOP/s: {known}; {peak_words(gpu)}. {parts or 'No measurements with a clock'}."
    return picture


def peak_words(gpu: Gpu) -> str:
    """What the line of the peak is, for a key."""
    return f"line: {gpu.sm_count} SMs x {gpu.tensor_flop_per_clock_sm:,} FLOP x clock"


def _words(item: Clocked, clock: float) -> tuple[str, str]:
    """Whose mark it is, and where it lies."""
    found = item.measurement
    name = f"{found.rung.split('_')[0]}, N={size_name(found.m, found.n, found.k)}, {found.regime}, {found.source}"
    return name, f"{three_digits(found.tflops)} at {clock:.2f} GHz: {item.share:.0%}"


def _legend(picture: Picture, lines: Sequence[tuple[str, str, str]], gpu: Gpu) -> None:
    """What each mark is, to the right of the axes."""
    picture.text(0.655, 0.85, peak_words(gpu), va="center", fontsize=10)
    note = "%: of the line at the same clock" if lines else "no clock was recorded for this code"
    picture.text(0.655, 0.79, note, va="center", fontsize=10)
    legend = picture.add_axes((0.645, 0.1, 0.35, 0.65))
    legend.set_axis_off()
    legend.set_xlim(0, 1)
    legend.set_ylim(max(4.5, len(lines)), 0)
    for row, (regime, name, figure) in enumerate(lines):
        color, mark = _KINDS[regime]
        legend.plot([0.05], [row + 0.3], mark, color=color, mec=INK, ms=8)
        legend.text(0.12, row + 0.14, name, va="center", fontsize=10)
        legend.text(0.12, row + 0.44, figure, va="center", fontsize=10)
