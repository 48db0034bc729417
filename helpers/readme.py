"""Writes what README.md and docs/workshop.md say in figures from the records and the notebooks, and docs/ladder.svg.

    python -m helpers.readme            rewrite the tables and the picture
    python -m helpers.readme --check    exit 1 if one of them is not what the records and the notebooks say

A table stands between two lines, `<!-- NAME: written by python -m helpers.readme -->` and `<!-- end of NAME -->`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from helpers.benchmark import recorded
from helpers.entry import Parser, fail, guarded
from helpers.errors import ArgumentError, NoRecording
from helpers.exercises.registry import exercises
from helpers.files import read_text, write_whole
from helpers.intervals import median
from helpers.kernel import load
from helpers.ladder import SIZE, ladder_points, recordings
from helpers.minutes import NO_GPU, Running, in_fives, load_running, minutes
from helpers.published import Published, published
from helpers.record_basics import REFERENCE_DEVICE
from helpers.records import Measurement
from helpers.rungs import ROOT, RUNGS, Rung
from helpers.words import rounded

README, WORKSHOP, LADDER = ROOT / "README.md", ROOT / "docs" / "workshop.md", ROOT / "docs" / "ladder.svg"
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
                cells += [rounded(record.tflops), _ratio(record)] if record else [NONE, NONE]
            cells.append(_published(rung, entry, figures))
            rows.append(f"| {rung.number} | {name} | " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", _provenance(used)])


def notebooks() -> str:
    """The ten notebooks with a line and the minutes of each, as Markdown."""
    rows = ["| notebook | the one idea | minutes to read | to practise |", "|---|---|---:|---:|"]
    for rung in RUNGS:
        found = minutes(rung)
        link = f"[{rung.name}](notebooks/{rung.notebook.name})"
        rows.append(f"| {link} | {rung.idea} | {in_fives(found.reading)} | {in_fives(found.practice)} |")
    return "\n".join(rows)


def timetable() -> str:
    """Minutes to read and practise, seconds to run, notebook by notebook with their sum, as Markdown."""
    known = load_running()
    here = known.get(NO_GPU, Running(NO_GPU))
    gpu = next((item for name, item in known.items() if REFERENCE_DEVICE in name), Running(REFERENCE_DEVICE))
    rows = [
        "| notebook | read, min | run, no GPU, s | the first time, s | run, H200, s | exercises | practise, min |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    reading = practice = count = 0
    for rung in RUNGS:
        found = minutes(rung)
        cells = [
            in_fives(found.reading),
            _seconds(here, here.seconds, rung),
            _seconds(here, here.first, rung),
            _seconds(gpu, gpu.seconds, rung),
            found.exercises,
            in_fives(found.practice),
        ]
        reading, practice = reading + cells[0], practice + cells[-1]
        count += found.exercises
        rows.append(f"| {rung.name} | " + " | ".join(map(str, cells)) + " |")
    hours = f"{reading / 60:.1f} h", f"{practice / 60:.1f} h"
    rows.append(f"| together | {hours[0]} | {_sum(here.seconds)} | {_sum(here.first)} | {_sum(gpu.seconds)} | "
                f"{count} | {hours[1]} |")
    return "\n".join(rows)


def exercise_list() -> str:
    """What each exercise asks for, by its kind, and what is after it: its reason, as Markdown."""
    rows = ["| exercise | kind | what it is after |", "|---|---|---|"]
    for rung in RUNGS:
        for task in exercises(rung.name[:2]):
            because = " ".join(task.because.split()).replace("|", "\\|")
            kind = type(task).__name__
            rows.append(f"| {task.id} | {KINDS.get(kind, kind)} | {because[0].upper()}{because[1:]} |")
    return "\n".join(rows)


def ladder_image() -> str:
    """The picture of the ladder with its text for those who don't see it, as Markdown."""
    from helpers.plots.ladder_svg import alt

    found = recordings()
    return f"![{alt(ladder_points(found), _cublas(found))}](docs/{LADDER.name})"


def ladder() -> str:
    """The picture of the ladder at N = 4096, as SVG."""
    from helpers.plots.ladder_svg import ladder_svg

    found = recordings()
    devices = " and ".join(sorted({item.device.name for item in found})) or "nothing recorded yet"
    dates = sorted({item.date[:10] for item in found})
    when = f", {dates[0]}" + (f" to {dates[-1]}" if len(dates) > 1 else "") if dates else ""
    words = f"TFLOP/s at M = N = K = {SIZE}, bf16, log scale. {devices}{when}."
    return ladder_svg(ladder_points(found), _cublas(found), words)


def _cublas(found: Sequence[Measurement]) -> float | None:
    return median([item.cublas_tflops for item in found]) if found else None


KINDS = {
    "Number": "reason: a number",
    "Function": "write code: a function",
    "PlaceMap": "write code: a function",
    "KernelChange": "write code: a kernel",
    "FindTheBug": "find the bug",
}
BLOCKS: Mapping[str, Callable[[], str]] = {
    "ladder": ladder_image,
    "results": results,
    "notebooks": notebooks,
    "minutes": timetable,
    "exercises": exercise_list,
}


def begin(name: str) -> str:
    """The line above a table."""
    return f"<!-- {name}: written by python -m helpers.readme -->"


def end(name: str) -> str:
    """The line below a table."""
    return f"<!-- end of {name} -->"


def rewritten(text: str) -> str:
    """A text with every table put between its markers.

    Raises ArgumentError if there is none, or if the markers of one are not there once each, in order.
    """
    found = [name for name in BLOCKS if begin(name) in text or end(name) in text]
    for name in found or ["results"]:
        first, last = begin(name), end(name)
        if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
            raise ArgumentError(f"The file must hold the line {first} and after it the line {last}: put them back.")
        head, rest = text.split(first)
        text = f"{head}{first}\n{BLOCKS[name]()}\n{last}{rest.split(last)[1]}"
    return text


def _seconds(machine: Running, seconds: Mapping[str, float], rung: Rung) -> str:
    if rung.name not in seconds:
        return NONE
    return f"{'' if machine.measured else 'about '}{seconds[rung.name]:.0f}"


def _sum(seconds: Mapping[str, float]) -> str:
    return f"{sum(seconds.values()):.0f}" if len(seconds) == len(RUNGS) else NONE


def _record(rung: Rung, entry: str, size: int) -> Measurement | None:
    """The recording of this very code, or None."""
    try:
        return recorded(load(rung, "emulator", entry=entry), (size, size, size), "burst")
    except NoRecording:
        return None


def _ratio(record: Measurement) -> str:
    interval = record.ratio_interval
    values = (record.ratio, interval.low, interval.high)
    median, low, high = (f"{100 * value:.1f}" if value >= 0.1 else f"{100 * value:.3g}" for value in values)
    return f"{median}% ({low} to {high})"


def _published(rung: Rung, entry: str, figures: Iterable[Published]) -> str:
    mine = [
        f"{rounded(figure.tflops)} ({figure.gpu}, {figure.dtype})"
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
        + "".join(f" {sentence}" for sentence in _apart(used))
    )


def _apart(used: Sequence[Measurement]) -> list[str]:
    """A sentence for each figure that was not measured in the rounds of most others of its size."""
    sentences = []
    for n in sorted({record.n for record in used}):
        column = [record for record in used if record.n == n]
        counts = Counter(record.samples.cublas_ms for record in column)
        shared = max(column, key=lambda record: counts[record.samples.cublas_ms])
        sentences += [
            f"{record.rung} at {n} was measured in other rounds than most, where cuBLAS read "
            f"{rounded(record.cublas_tflops)} and not {rounded(shared.cublas_tflops)}: compare its ratio."
            for record in column
            if counts[shared.samples.cublas_ms] > 1 and record.samples.cublas_ms != shared.samples.cublas_ms
        ]
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if something is out of date (--check) or cannot be made."""
    parser = Parser(prog="python -m helpers.readme", description="The tables and the picture that records make.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--file", type=Path, help="only the tables of this file; default: README.md, docs/")
    options = parser.parse_args(arguments)
    return guarded(lambda: _update_all(options.file, options.check))


def _update_all(file: Path | None, check: bool) -> int:
    if file is not None:
        return _update(file, rewritten(_read(file)), check)
    made = {path: rewritten(_read(path)) for path in (README, WORKSHOP)} | {LADDER: ladder()}
    return max(_update(path, new, check) for path, new in made.items())


def _read(file: Path) -> str:
    try:
        return read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ArgumentError(f"{file} cannot be read ({why}): give the path of README.md.") from None


def _update(file: Path, new: str, check: bool) -> int:
    if check and (not file.is_file() or _read(file) != new):
        return fail(f"{file.name} is not what records and notebooks say: run `python -m helpers.readme`.")
    if not check:
        try:
            write_whole(file, new)
        except OSError as error:
            raise ArgumentError(f"{file} cannot be written ({error.strerror}): make it writable.") from None
    return 0


if __name__ == "__main__":
    sys.exit(main())
