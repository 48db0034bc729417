"""The tensor cores' peak at every clock, and what kernels reached at the clock that the chip held."""

from collections.abc import Iterable, Sequence

import numpy as np

from helpers.models.machine import H200, Gpu
from helpers.plots.figure import GREY, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.records import Measurement, size_name, three_digits

_LOW, _HIGH = 1.2, 2.05   # GHz
_COLORS = {"burst": NAVY, "sustained": VERMILLION}
_LIGHT = {"burst": SKY, "sustained": YELLOW}


def tensor_peak(clock_mhz: float, gpu: Gpu = H200) -> float:
    """TFLOP/s of all tensor cores at a clock in MHz: SMs x FLOP per clock x clock."""
    return gpu.sm_count * gpu.tensor_flop_per_clock_sm * clock_mhz / 1e6


def share_of_peak(item: Measurement, gpu: Gpu = H200) -> float | None:
    """A kernel's speed over the peak at the clock that was measured beside it; None if none was."""
    return item.tflops / tensor_peak(item.sm_clock_mhz, gpu) if item.sm_clock_mhz else None


def peak_over_clock(measurements: Sequence[Measurement], gpu: Gpu = H200, title: str = "") -> Picture:
    """A line, the peak against the clock; a dot for each measurement at its clock, a diamond for cuBLAS beside it.

    Measurements without a clock are left out. Without any the line stands alone.
    """
    heading = title or f"The tensor cores' peak follows the clock: {gpu.name}"
    rows = list(_points(measurements))
    with style():
        picture = new_picture(9.0, 4.6)
        axes = picture.add_axes((0.09, 0.13, 0.54, 0.74))
        clocks = np.array([_LOW, _HIGH])
        axes.plot(clocks, tensor_peak(1000 * clocks, gpu), color=INK, lw=1.8, zorder=2)
        marks = (("highest clock", gpu.clock_hz / 1e9), ("datasheet", gpu.dense_tflops / tensor_peak(1000, gpu)))
        sides = ((-12, 4, "right", "bottom"), (10, -8, "left", "top"))   # above the line and below it
        for (name, clock), (dx, dy, horizontal, vertical) in zip(marks, sides, strict=True):
            peak = tensor_peak(1000 * clock, gpu)
            axes.plot([clock], [peak], "s", color=PALE, mec=INK, ms=8, zorder=3)
            words = f"{name}\n{peak:,.0f} at {clock:.2f} GHz"
            axes.annotate(words, (clock, peak), (dx, dy), textcoords="offset points", ha=horizontal, va=vertical,
                          fontsize=10)
        lines = []
        for name, regime, clock, tflops, mark in rows:
            color = (_COLORS if mark == "o" else _LIGHT)[regime]
            axes.plot([clock] * 2, [tflops, tensor_peak(1000 * clock, gpu)], color=GREY, lw=0.9, ls=":", zorder=1)
            axes.plot([clock], [tflops], mark, color=color, mec=INK, ms=9, zorder=4)
            share = tflops / tensor_peak(1000 * clock, gpu)
            lines.append((color, mark, f"{name}, {regime}", f"{three_digits(tflops)} at {clock:.2f} GHz: {share:.0%}"))
        low = min([tensor_peak(1000 * _LOW, gpu), *(tflops for *_, tflops, _ in rows)])
        axes.set_ylim(low * 0.93, tensor_peak(1000 * _HIGH, gpu) * 1.09)
        axes.set_xlim(_LOW, _HIGH)
        axes.set_xlabel("SM clock, GHz")
        axes.set_ylabel("TFLOP/s")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        _legend(picture, lines, gpu)
        picture.text(0.015, 0.94, heading, fontsize=12.5, fontweight="bold", va="center")
        words = "; ".join(f"{name}: {figure} of the peak" for _, _, name, figure in lines)
        ends = " and ".join(f"{tensor_peak(1000 * c, gpu):,.0f} at {c:.2f} GHz ({name})" for name, c in marks)
        picture.alt = f"{heading}, in TFLOP/s: {ends}. {words or 'No measurements.'}"
    return picture


def _points(measurements: Sequence[Measurement]) -> Iterable[tuple[str, str, float, float, str]]:
    """Name, regime, clock in GHz, TFLOP/s and mark of each kernel and of the cuBLAS beside it."""
    for item in measurements:
        size = size_name(item.m, item.n, item.k)
        if item.sm_clock_mhz:
            yield f"{item.rung.split('_')[0]}, N={size}", item.regime, item.sm_clock_mhz / 1000, item.tflops, "o"
        beside = [clock for clock in item.samples.cublas_clock_mhz if clock]
        if beside:
            yield f"cuBLAS, N={size}", item.regime, float(np.median(beside)) / 1000, item.cublas_tflops, "D"


def _legend(picture: Picture, lines: Sequence[tuple[str, str, str, str]], gpu: Gpu) -> None:
    """What each mark is, to the right of the axes."""
    line = f"line: {gpu.sm_count} SMs x {gpu.tensor_flop_per_clock_sm:,} FLOP x clock"
    picture.text(0.655, 0.85, line, va="center", fontsize=10)
    picture.text(0.655, 0.79, "%: of the line at the same clock" if lines else "no recording for this code",
                 va="center", fontsize=10)
    legend = picture.add_axes((0.645, 0.1, 0.35, 0.65))
    legend.set_axis_off()
    legend.set_xlim(0, 1)
    legend.set_ylim(4, 0)
    for row, (color, mark, name, figure) in enumerate(lines):
        legend.plot([0.05], [0.5 * row + 0.12], mark, color=color, mec=INK, ms=8)
        legend.text(0.12, 0.5 * row + 0.05, name, va="center", fontsize=10)
        legend.text(0.12, 0.5 * row + 0.25, figure, va="center", fontsize=10, color=INK)
