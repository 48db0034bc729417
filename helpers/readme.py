"""Writes the table of results in README.md from the records, so that no figure there is typed by hand.

    python -m helpers.readme            rewrite the table
    python -m helpers.readme --check    exit 1 if it is not what the records say
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from helpers.benchmark import recorded
from helpers.entry import Parser, fail, guarded
from helpers.errors import ArgumentError, NoRecording
from helpers.files import write_whole
from helpers.kernel import load
from helpers.records import Measurement, Published, published
from helpers.rungs import ROOT, RUNGS, Rung

README = ROOT / "README.md"
BEGIN = "<!-- results: written by python -m helpers.readme -->"
END = "<!-- end of results -->"
SIZES = (4096, 8192)
NONE = "-"


def results() -> str:
    """The table, and under it on what and when it was measured, as Markdown."""
    sizes = "".join(f" N={size} | of cuBLAS |" for size in SIZES)
    rows = [f"| rung | kernel |{sizes} published, N=4096 |", "|---|---|" + "---:|---:|" * len(SIZES) + "---|"]
    used: list[Measurement] = []
    figures = published()
    for rung in RUNGS:
        for entry in (*rung.twins, rung.entry):
            name = f"{rung.name}" if entry == rung.entry else f"{rung.name}, `{entry}`"
            cells = []
            for size in SIZES:
                record = _record(rung, entry, size)
                if record:
                    used.append(record)
                cells += [_tflops(record.tflops), _ratio(record)] if record else [NONE, NONE]
            cells.append(_published(rung, entry, figures))
            rows.append(f"| {rung.number} | {name} | " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", _provenance(used)])


def rewritten(text: str) -> str:
    """A README with the table put between the markers.

    Raises ArgumentError if the markers are not there once each, in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ArgumentError(f"README.md must hold the line {BEGIN} and after it the line {END}: put them back.")
    head, rest = text.split(BEGIN)
    return f"{head}{BEGIN}\n{results()}\n{END}{rest.split(END)[1]}"


def _record(rung: Rung, entry: str, size: int) -> Measurement | None:
    """The recording of this very code, or None."""
    try:
        return recorded(load(rung, "emulator", entry=entry), (size, size, size), "burst")
    except NoRecording:
        return None


def _tflops(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(record: Measurement) -> str:
    interval = record.ratio_interval
    values = (record.ratio, interval.low, interval.high)
    median, low, high = (f"{100 * value:.1f}" if value >= 0.1 else f"{100 * value:.3g}" for value in values)
    return f"{median}% ({low} to {high})"


def _published(rung: Rung, entry: str, figures: Iterable[Published]) -> str:
    mine = [
        f"{_tflops(figure.tflops)} ({figure.gpu}, {figure.dtype})"
        for figure in figures
        if figure.rung == rung.number and figure.n == 4096 and (figure.entry or rung.entry) == entry
    ]
    return ", ".join(mine) or NONE


def _provenance(used: Sequence[Measurement]) -> str:
    if not used:
        return "Nothing is recorded yet for the kernels as they are."
    devices = sorted({record.device.name for record in used})
    dates = sorted({record.date[:10] for record in used})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return (
        f"TFLOP/s, bf16 in and out, fp32 accumulation, M = N = K. Recorded on {' and '.join(devices)}, {span}, in "
        "bursts with cuBLAS in turn on the same arrays; beside each figure the median of the per-round ratios with its "
        "95% interval. Published figures are of other GPUs, and not all of bf16: compare them with that in mind."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the table is out of date (--check) or cannot be made."""
    parser = Parser(prog="python -m helpers.readme", description="The table of results in README.md.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--file", type=Path, default=README, help="default: README.md")
    options = parser.parse_args(arguments)
    return guarded(lambda: _update(options.file, options.check))


def _update(file: Path, check: bool) -> int:
    try:
        old = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ArgumentError(f"{file} cannot be read ({why}): give the path of README.md.") from None
    new = rewritten(old)
    if check and old != new:
        return fail(f"The results in {file.name} are not what the records say: run `python -m helpers.readme`.")
    if not check:
        try:
            write_whole(file, new)
        except OSError as error:
            raise ArgumentError(f"{file} cannot be written ({error.strerror}): make it writable.") from None
    return 0



if __name__ == "__main__":
    sys.exit(main())
