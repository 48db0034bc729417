"""The rounds of measurements: how far apart the repetitions of one measurement are."""

from collections.abc import Sequence

import numpy as np

from helpers.checks import require_some
from helpers.intervals import median
from helpers.plots.figure import GREY, INK, NAVY, SKY, Picture, new_picture, style
from helpers.records import Measurement, file_name, size_name, three_digits
from helpers.typed import typed

_ROW = 0.46   # inches


@typed
def round_samples(measurements: Sequence[Measurement]) -> Picture:
    """A row for each kernel and one for the cuBLAS beside it: every round's speed, in % of the median.

    The rounds lie one above the other within a row, the first on top, so that a trend shows.
    """
    require_some("measurements", measurements, most=12)
    sizes = {size_name(item.m, item.n, item.k) for item in measurements}
    several = len(sizes) > 1
    rows = []
    for item in measurements:
        size = f" N={size_name(item.m, item.n, item.k)}" if several else ""
        name = file_name(item.rung, item.entry, item.defines) + size
        rows.append((name, item.kernel_ms, item.tflops, NAVY, "o"))
        rows.append((f"cuBLAS in turn{size}", item.cublas_ms, item.cublas_tflops, SKY, "D"))
    deviations = [100 * (median(times) / np.asarray(times) - 1) for _, times, *_ in rows]
    reach = max(0.2, 1.25 * max(float(np.abs(values).max()) for values in deviations))
    newest = max(measurements, key=lambda item: item.date)
    origin = "measured live" if newest.source == "live" else "recorded"
    heading = f"Spread of the rounds: {origin} on {newest.device.name}, {newest.date[:10]}, {newest.regime}"
    heading += "" if several else f", N={sizes.pop()}"
    with style():
        picture = new_picture(9.4, 1.2 + _ROW * len(rows))
        height = picture.get_figheight()
        axes = picture.add_axes((0.38, 0.62 / height, 0.44, _ROW * len(rows) / height))
        axes.axvline(0, color=GREY, lw=1.2, zorder=1)
        for index, ((name, _, tflops, color, mark), values) in enumerate(zip(rows, deviations, strict=True)):
            y = index + np.linspace(-0.3, 0.3, len(values))
            axes.plot(values, y, mark, color=color, mec=INK, mew=0.7, ms=5.5, ls="none", zorder=2)
            beside = axes.get_yaxis_transform()
            axes.text(-0.02, index, name, ha="right", va="center", transform=beside)
            axes.text(1.02, index, f"{three_digits(tflops)} TFLOP/s", va="center", transform=beside)
            if index:
                axes.axhline(index - 0.5, color=GREY, lw=0.6, alpha=0.5, zorder=0)
        axes.set_xlim(-reach, reach)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks([])
        axes.set_xlabel("each round's speed against the median, %")
        picture.text(0.015, 1 - 0.28 / height, heading, fontweight="bold", fontsize=12.5, va="center")
        parts = (
            f"{name} {three_digits(tflops)} TFLOP/s, rounds from {values.min():+.2f}% to {values.max():+.2f}%"
            for (name, _, tflops, *_), values in zip(rows, deviations, strict=True)
        )
        picture.alt = f"{heading}. {'; '.join(parts)}."
    return picture
