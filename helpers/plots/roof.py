"""What limits the last rung: its speed and the roof at the clock that each held, and the energy of a FLOP."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.held_clock import Clocked
from helpers.models.machine import Gpu
from helpers.plots.clocks import measured_gpu, peak_words, tensor_peak
from helpers.plots.figure import GREY, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.records import Measurement, size_name, three_digits
from helpers.rungs import find_rung
from helpers.typed import typed
from helpers.yardsticks import Roof

_MARKS = {"burst": (NAVY, SKY, "o"), "sustained": (VERMILLION, YELLOW, "D")}
_LOW, _HIGH = 1.25, 2.05   # GHz
_ROW = 0.42                # inches
MISSING = "no recording for this code"


def energy_per_flop(tflops: float, power_w: float) -> float:
    """Picojoules for each FLOP: W / (TFLOP/s)."""
    return power_w / tflops


@dataclass(frozen=True)
class _Point:
    """A mark in the chart. alone: wgmma without loads."""

    name: str
    regime: str
    alone: bool
    ghz: float
    tflops: float

    @property
    def color(self) -> str:
        return _MARKS[self.regime][self.alone]

    @property
    def mark(self) -> str:
        return _MARKS[self.regime][2]

    def figure(self, gpu: Gpu) -> str:
        share = self.tflops / tensor_peak(1000 * self.ghz, gpu)
        return f"{three_digits(self.tflops)} at {self.ghz:.2f} GHz: {share:.0%}"


@typed
def roof_chart(items: Sequence[Clocked], roofs: Sequence[Roof], gpu: Gpu | None = None, title: str = "") -> Picture:
    """TFLOP/s against the SM clock: the tensor cores' peak as a line, a kernel's measurements on it or below.

    Dark: the kernel. Light: wgmma alone, on N(0,1) or on zeros. Measurements without a clock are left out. gpu: that of
    the measurements.
    """
    gpu = gpu or measured_gpu(items)
    heading = title or f"The clock decides: {_origin([item.measurement for item in items if item.mhz]) or gpu.name}"
    points = sorted(_points(items, roofs), key=lambda point: -point.tflops)
    with style():
        height = max(4.4, 1.5 + _ROW * len(points))
        picture = new_picture(9.4, height)
        axes = picture.add_axes((0.085, 0.6 / height, 0.51, 1 - 1.15 / height))
        ends = np.array([min([_LOW, *(point.ghz - 0.05 for point in points)]), _HIGH])
        axes.plot(ends, tensor_peak(1000 * ends, gpu), color=INK, lw=1.8, zorder=2)
        axes.plot(ends, 0.9 * tensor_peak(1000 * ends, gpu), color=GREY, lw=1.2, ls=":", zorder=1)
        top = gpu.clock_hz / 1e9
        axes.plot([top], [gpu.tensor_tflops], "s", color=PALE, mec=INK, ms=8, zorder=3)
        words = f"highest clock\n{gpu.tensor_tflops:,.0f} at {top:.2f} GHz"
        axes.annotate(words, (top, gpu.tensor_tflops), (-12, 4), textcoords="offset points", ha="right", va="bottom",
                      fontsize=10)
        for point in points:
            axes.plot([point.ghz], [point.tflops], point.mark, color=point.color, mec=INK, ms=9, zorder=4)
        low = min([tensor_peak(1000 * ends[0], gpu), *(point.tflops for point in points)])
        axes.set_ylim(low * 0.9, tensor_peak(1000 * _HIGH, gpu) * 1.1)
        axes.set_xlim(*ends)
        axes.set_xlabel("SM clock within the kernel, GHz")
        axes.set_ylabel("TFLOP/s")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        _list(picture, points, gpu, height)
        picture.text(0.015, 1 - 0.25 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        told = "; ".join(f"{point.name}: {point.figure(gpu)} of the peak" for point in points)
        peak = f"{gpu.tensor_tflops:,.0f} at {top:.2f} GHz; {peak_words(gpu)}"
        picture.alt = f"{heading}, TFLOP/s: {peak}. {told or MISSING.capitalize()}."
    return picture


def _origin(measurements: Sequence[Measurement]) -> str:
    """Where the kernel's figures come from, and when the newest: 'live and recorded on NVIDIA H200, 2026-11-29'."""
    if not measurements:
        return ""
    newest = max(measurements, key=lambda item: item.date)
    sources = " and ".join(sorted({item.source for item in measurements}))
    return f"{sources} on {newest.device.name}, {newest.date[:10]}"


def _points(items: Sequence[Clocked], roofs: Sequence[Roof]) -> Iterable[_Point]:
    for item in items:
        if item.mhz:
            found = item.measurement
            name = f"{find_rung(found.rung).name}, N={size_name(found.m, found.n, found.k)}, {found.regime}"
            yield _Point(name, found.regime, False, item.mhz / 1000, found.tflops)
    for roof in roofs:
        inputs = "" if roof.inputs == "N(0,1)" else f", {roof.inputs}"
        name = f"alone, like N={roof.like_n}, {roof.regime}{inputs}"
        yield _Point(name, roof.regime, True, roof.mhz / 1000, roof.tflops)


def _list(picture: Picture, points: Sequence[_Point], gpu: Gpu, height: float) -> None:
    """What each mark is, to the right of the axes, the fastest first."""
    notes = (
        f"{peak_words(gpu)};",
        "dotted: 90% of it. Dark: the kernel;" if points else "dotted: 90% of it.",
        "light: wgmma alone. %: of the line" if points else MISSING.capitalize(),
    )
    for row, note in enumerate(notes):
        picture.text(0.615, 1 - (0.6 + 0.21 * row) / height, note, va="center", fontsize=10)
    axes = picture.add_axes((0.61, 0.1 / height, 0.385, _ROW * len(points) / height)) if points else None
    for row, point in enumerate(points):
        axes.plot([0.035], [row + 0.5], point.mark, color=point.color, mec=INK, ms=9)
        axes.text(0.08, row + 0.3, point.name, va="center", fontsize=10)
        axes.text(0.08, row + 0.72, point.figure(gpu), va="center", fontsize=10)
    if axes:
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.set_ylim(len(points), 0)


@dataclass(frozen=True)
class FlopEnergy:
    """A bar: whose, and what a FLOP took. origin: 'recorded on NVIDIA H200, 2026-11-29', or "" if not known."""

    name: str
    tflops: float
    power_w: float
    origin: str = ""

    @property
    def picojoules(self) -> float:
        """For each FLOP."""
        return energy_per_flop(self.tflops, self.power_w)


@typed
def flop_energies(measurements: Sequence[Measurement], roofs: Sequence[Roof] = ()) -> list[FlopEnergy]:
    """What a FLOP took in each sustained measurement, and in wgmma alone on N(0,1). Without a power there is no bar."""
    found = [
        FlopEnergy(find_rung(item.rung).name, item.tflops, item.power_w, _origin([item]))
        for item in measurements
        if item.regime == "sustained" and item.power_w
    ]
    found += [
        FlopEnergy("wgmma alone", roof.tflops, roof.power_w)
        for roof in roofs
        if (roof.regime, roof.inputs) == ("sustained", "N(0,1)") and roof.power_w
    ]
    return found


@typed
def energy_bars(items: Sequence[FlopEnergy], title: str = "Energy of a FLOP, sustained, N(0,1)") -> Picture:
    """A bar for each: picojoules a FLOP, and how fast that is under the power limit."""
    origins = sorted({item.origin for item in items} - {""})
    title = f"{title}: {origins[-1]}" if origins else title
    with style():
        height = 1.15 + _ROW * max(1, len(items))
        picture = new_picture(9.4, height)
        axes = picture.add_axes((0.17, 0.6 / height, 0.8, _ROW * max(1, len(items)) / height))
        for row, item in enumerate(items):
            alone = item.name == "wgmma alone"
            axes.barh(row, item.picojoules, 0.6, color=YELLOW if alone else SKY, edgecolor=INK, lw=0.9)
            words = f"{item.picojoules:.2f} pJ: {item.power_w:.0f} W, {three_digits(item.tflops)} TFLOP/s"
            axes.text(0.02, row, words, va="center", color=INK)
        most = max((item.picojoules for item in items), default=1.0)
        axes.set_xlim(0, most * 1.06)
        axes.set_ylim(max(1, len(items)) - 0.5, -0.5)
        axes.set_yticks(range(len(items)), [item.name for item in items])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("pJ a FLOP, by the highest power reading (of wgmma alone the median)")
        if not items:
            axes.text(0.5, 0.5, MISSING, ha="center", va="center", transform=axes.transAxes)
        picture.text(0.015, 1 - 0.25 / height, title, fontsize=12.5, fontweight="bold", va="center")
        told = "; ".join(
            f"{item.name} {item.picojoules:.2f} pJ a FLOP, {item.power_w:.0f} W at {three_digits(item.tflops)} TFLOP/s"
            for item in items
        )
        picture.alt = f"{title}. {told or MISSING}."
    return picture
