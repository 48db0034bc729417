"""How setmaxnreg moves registers from the producer to the consumers."""

from itertools import cycle

from helpers.checks import require_some
from helpers.models.registers import GROUP, RegisterSplit
from helpers.plots.figure import INK, NAVY, ON, SKY, VERMILLION, Picture, new_picture, style
from helpers.typed import typed

_CONSUMERS = (NAVY, SKY)   # by turns, after the first warpgroup
_MOST = 8     # warpgroups of a CTA: 1,024 threads
_GAP = 250   # registers, so that the lines of neighbours stay apart


@typed
def register_bars(split: RegisterSplit, sums: int = 0, title: str = "") -> Picture:
    """Two bars, the registers of each warpgroup at launch and after setmaxnreg, and the register file as a line.

    sums: registers of each consumer's threads that hold sums, drawn as a bracket below the second bar.
    """
    require_some("split.after", split.after, most=_MOST)
    heading = title or "Registers of a CTA, by warpgroup"
    rows = {"at launch": dict.fromkeys(split.after, split.at_launch), "after setmaxnreg": dict(split.after)}
    file = split.gpu.registers_per_sm
    with style():
        picture = new_picture(9.4, 2.9)
        axes = picture.add_axes((0.165, 0.24, 0.79, 0.52))
        for row, groups in enumerate(rows.values()):
            left, consumers = 0, cycle(_CONSUMERS)
            for index, (name, registers) in enumerate(groups.items()):
                color = next(consumers) if index else VERMILLION
                width = registers * GROUP
                axes.barh(row, width, 0.62, left=left, color=color, edgecolor=INK, lw=0.9)
                middle = left + width / 2
                words = f"{name}\n{GROUP} x {registers}" if width > file / 8 else f"{GROUP}\nx {registers}"
                axes.text(middle, row, words, ha="center", va="center", color=ON[color], fontsize=10, linespacing=1.15)
                if row and sums and registers > sums:
                    ends = [left + _GAP, left + sums * GROUP]
                    axes.plot(ends, [row + 0.4] * 2, color=INK, lw=2.4, solid_capstyle="butt")
                left += width
        axes.axvline(file, color=INK, lw=1.6, ls="--")
        axes.set_xlim(0, file * 1.005)
        axes.set_ylim(1.55, -0.45)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", length=0)
        axes.set_xticks(range(0, file + 1, 16384), [f"{value:,}" for value in range(0, file + 1, 16384)])
        axes.set_xlabel("registers")
        picture.text(0.015, 0.93, heading, fontsize=12.5, fontweight="bold", va="center")
        note = "dashed: the SM's register file" + (f"; thick line: {sums} sums a thread" if sums else "")
        picture.text(0.015, 0.83, note, va="center")
        parts = "; ".join(
            f"{name}: " + ", ".join(f"{group} {GROUP} x {registers}" for group, registers in groups.items())
            for name, groups in rows.items()
        )
        held = f" {sums} of a consumer thread's registers hold sums." if sums else ""
        picture.alt = f"{heading}. {parts}. The register file has {file:,}.{held}"
    return picture
