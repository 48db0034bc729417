"""Writes docs/shapes.md from the records of `python -m helpers.shapes`:

    python -m helpers.shapes_page             write it
    python -m helpers.shapes_page --check     say if it is out of date

Every figure on the page comes from a record. Where cuBLAS is faster a sentence says what the record shows about it, by
the rules in `reasons`.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from helpers.choice import rows_begin_amid_sectors
from helpers.memory_speed import recorded_speeds
from helpers.page import page_main
from helpers.records import three_digits
from helpers.rotation import L2_TIMES, PROPOSALS
from helpers.rungs import ROOT
from helpers.shape_records import Limits, ShapeSpeed, load_shapes, product_bytes
from helpers.shapes import GROUPS, SHAPES, Shape
from helpers.typed import typed
from helpers.words import plural
from helpers.yardsticks import load_yardsticks

DOCUMENT = ROOT / "docs" / "shapes.md"
ROOF = (8192, "burst", "N(0,1)")   # of the tensor cores alone, see helpers.roof
FULL_WAVE = 0.95   # of the places in all waves, from which on the last wave is not worth a word
FULL_TILES = 0.95  # of the tiles' elements
SHORT_US = 20.0    # a launch that is shorter consists of its beginning and its end to a good part

HEAD = f"""# Shapes that people run

`helpers.matmul` takes for each shape what `helpers/choice.py` chooses. This page sets that beside the best that cuBLAS
has. Written by `python -m helpers.shapes_page` from what `python -m helpers.shapes` has recorded.

C[M,N] = A[M,K] @ B[K,N], bf16 in and out, N(0,1). In a layer of a model A holds the tokens and B the weights; q, k and
v lie side by side in one matrix, and so do gate and up. The models' sizes are those of Meta's params.json.
A product that stands in two groups is counted once in all.

- **Weights come from HBM**, as in a model, where every layer has its own: each launch takes the next of several copies
  of A, B and C, together at least {L2_TIMES} times as large as L2, and so does cuBLAS. (The largest shapes are as large
  by themselves. The ladder's figures in the README are all made with one copy.)
- **cuBLAS at its best**: up to {PROPOSALS} algorithms that cublasLt proposes are tried; what counts is the faster of
  its first one and the one that was fastest. Bursts in turn, order swapped each round, launches queued beforehand,
  short ones as CUDA graphs.
- **What runs**: rung 10 (*all SMs*: with 66 clusters in place of 64), or a kernel of the appendix, whose tile stands
  there: a CTA's, with K in parts, or, *fitted*, a cluster's.
- **x cuBLAS** is the median over the rounds of cuBLAS's time over ours, in brackets an interval for it
  (`helpers/intervals.py`). Every copy of C is checked, before it is timed and after.
- **Of the bound**: the time that the work takes at least, over the time that it took. The bound is the longer one of
  two times: FLOP at the speed of the tensor cores alone (`helpers/roof.py`), or bytes, with A and B read and C written
  once, at the speed at which all SMs read HBM (`helpers/memory_speed.py`). Speeds are in TFLOP/s where the first is
  longer, and in GB/s where the second is.
"""


def recorded_limits(slug: str, directory: Path | None = None) -> Limits | None:
    """The limits of a GPU as they were recorded, or None. Raises RecordError for a damaged file."""
    yardsticks = load_yardsticks(slug, directory)
    if yardsticks is None:
        return None
    roofs = [item.tflops for item in yardsticks.roofs if (item.like_n, item.regime, item.inputs) == ROOF]
    hbm = recorded_speeds(yardsticks.device, directory).bandwidths.get("HBM")
    return Limits(roofs[0], hbm / 1e9) if roofs and hbm else None


def speed_words(size: tuple[int, int, int], ms: float, limits: Limits) -> str:
    """A time as a speed: of what bounds the shape."""
    m, n, k = size
    if limits.by_memory(*size):
        return f"{three_digits(product_bytes(m, n, k) / ms / 1e6)} GB/s"
    return f"{three_digits(2 * m * n * k / ms / 1e9)} TFLOP/s"


def reasons(speed: ShapeSpeed, limits: Limits) -> list[str]:
    """What the record shows about a shape where cuBLAS is faster, a sentence each.

    First how near both come to what bounds them. Then whatever applies: CTAs that are fewer than SMs; else a last wave
    that is hardly filled; of a shape that is not bound by memory also tiles that reach over the edges of C; rows of B
    that begin amid sectors; a launch that is short; at last whether cuBLAS cuts K into parts.
    """
    size, work, sms = speed.size, speed.work, speed.measurement.device.sm_count
    ours, theirs = (limits.ms(*size) / ms for ms in (speed.ms, speed.cublas_ms))
    by_memory = limits.by_memory(*size)
    what = "Bound by HBM" if by_memory else "Bound by the tensor cores"
    found = [f"{what}: ours reaches {ours:.0%} of that, cuBLAS {theirs:.0%}."]
    rows, columns = work.tile
    tiles = f"{plural(work.ctas, 'CTA')} with tiles of {rows} x {columns}"
    if work.ctas < sms:
        found.append(f"Our {tiles} leave {plural(sms - work.ctas, 'SM')} of {sms} without work.")
    elif work.ctas / (work.waves * work.at_once) < FULL_WAVE:
        found.append(
            f"Our {tiles} take {work.waves} waves of {work.at_once}, and {work.last_wave} are left for the last one."
        )
    m, n, _ = size
    if work.order is not None:   # clusters compute whole tiles of theirs
        computed = work.ctas * rows * columns
    else:
        computed = -(-m // rows) * rows * -(-n // columns) * columns
    inside = m * n / computed
    if not by_memory and inside < FULL_TILES:
        found.append(f"{1 - inside:.0%} of what our tiles compute lies outside C.")
    if rows_begin_amid_sectors(n):
        found.append("Rows of B begin amid sectors, which makes them slow to load.")
    if not by_memory and speed.ms * 1e3 < SHORT_US:
        found.append(
            f"A launch of ours takes {speed.ms * 1e3:.1f} us, of which {limits.ms(*size) * 1e3:.1f} are work: its "
            "beginning and its end count."
        )
    if speed.cublas.parts > 1:
        found.append(f"cuBLAS cuts K into {speed.cublas.parts} parts.")
    return found


def _size_words(shape: Shape) -> str:
    return " x ".join(f"{size:,}" for size in shape.size)


def row(shape: Shape, speed: ShapeSpeed | None, limits: Limits | None) -> str:
    """A shape's line in the table of its group."""
    cells = [shape.name, _size_words(shape)]
    if speed is None or limits is None:
        return f"| {' | '.join([*cells, *['-'] * 5])} |"
    ratio, interval = speed.measurement.ratio, speed.measurement.ratio_interval
    cells += [
        speed.choice,
        speed_words(speed.size, speed.ms, limits),
        speed_words(speed.size, speed.cublas_ms, limits),
        f"{ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})",
        f"{limits.ms(*shape.size) / speed.ms:.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def summary(speeds: Mapping[tuple[int, int, int], ShapeSpeed]) -> str:
    """Where and when they were measured, and how many are faster than cuBLAS, as fast, slower."""
    found = list(speeds.values())
    if not found:
        return "Nothing is recorded yet."
    faster, slower = sum(item.wins for item in found), sum(item.loses for item in found)
    dates = sorted(item.measurement.date[:10] for item in found)
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    first = found[0].measurement
    coverage = min(item.measurement.ratio_interval.coverage for item in found)
    return (
        f"Recorded on {first.device.name}, {days}, beside cuBLAS {first.toolkit.get('cublas')}. Of "
        f"{plural(len(found), 'shape')} {faster} are faster than with cuBLAS, {slower} slower, and of "
        f"{len(found) - faster - slower} the interval holds 1. Intervals hold the median with {coverage:.0%} at least."
    )


def _slug(directory: Path | None) -> str:
    """The folder of the GPU whose records are shown, "" if there is none."""
    yardsticks = load_yardsticks(None, directory)
    return yardsticks.device.slug if yardsticks else ""


def recorded_shapes(directory: Path | None = None) -> dict[tuple[int, int, int], ShapeSpeed]:
    """Those of SHAPES that are recorded, by (M, N, K). Raises RecordError for a damaged file."""
    slug = _slug(directory)
    known = load_shapes(slug, directory) if slug else {}
    return {shape.size: known[shape.size] for shape in SHAPES if shape.size in known}


@typed
def by_group(speeds: Mapping[tuple[int, int, int], ShapeSpeed]) -> dict[str, dict[str, ShapeSpeed]]:
    """The same by the title of their group and their name, in the order of the page."""
    return {
        title: {shape.name: speeds[shape.size] for shape in SHAPES if shape.group == group and shape.size in speeds}
        for group, title in GROUPS.items()
    }


def document(directory: Path | None = None) -> str:
    """The page, as Markdown. directory: of the records, helpers/records by default."""
    slug = _slug(directory)
    limits = recorded_limits(slug, directory) if slug else None
    speeds = recorded_shapes(directory)
    lines = [HEAD, summary(speeds), ""]
    for group, title in GROUPS.items():
        lines += [
            f"## {title}", "",
            "| product | M x N x K | what runs | speed | cuBLAS | x cuBLAS | of the bound |",
            "|---|---|---|---:|---:|---:|---:|",
        ]
        shapes = [shape for shape in SHAPES if shape.group == group]
        lines += [row(shape, speeds.get(shape.size), limits) for shape in shapes]
        lost = [shape for shape in shapes if shape.size in speeds and speeds[shape.size].loses] if limits else []
        if lost:
            lines += ["", "Where cuBLAS is faster:", ""]
            lines += [
                f"- {shape.name} ({_size_words(shape)}): {' '.join(reasons(speeds[shape.size], limits))}"
                for shape in lost
            ]
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the page is out of date (--check) or cannot be made."""
    return page_main(
        "helpers.shapes_page", "The page about shapes that people run.", DOCUMENT, document, "the records say",
        arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
