"""How long a notebook takes: to read and to practise, computed from what is in it; to run, as measured.

    python -m helpers run --json > run.json       run the notebooks, here or on a GPU
    python -m helpers.minutes run.json            keep the seconds as this machine's
    python -m helpers.minutes run.json --first    the same, for a run with nothing compiled before

Reading a minute takes 150 words of prose, or 15 lines of a notebook's code, or 30 of the kernel file; a picture takes
45 seconds. Practising takes so long as PRACTICE_MINUTES says for each kind of exercise.
`python -m helpers.readme` writes the tables of README.md and docs/workshop.md from this.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from helpers.device import now
from helpers.entry import Parser, guarded
from helpers.errors import ArgumentError
from helpers.exercises.registry import exercises
from helpers.files import read_text
from helpers.gpu import probe
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.notebook_checks import section_titles, word_count
from helpers.notebooks import read_notebook
from helpers.record_basics import RECORD_DIR
from helpers.rungs import RUNGS, Rung

RUNNING = RECORD_DIR / "running.json"
SCHEMA = 1
NO_GPU = "no GPU"

WORDS_A_MINUTE = 150      # of technical prose, read to be understood
CODE_LINES_A_MINUTE = 15
KERNEL_LINES_A_MINUTE = 30   # much of a kernel file stood in the rung before
PICTURE_MINUTES = 0.75
PRACTICE_MINUTES = {"Number": 4, "Function": 7, "PlaceMap": 7, "KernelChange": 9, "FindTheBug": 9}
OTHER_PRACTICE_MINUTES = 8   # for a kind of exercise that is not listed


@dataclass(frozen=True)
class Running:
    """Seconds that notebooks took on a machine.

    machine: the GPU's name, or "no GPU". seconds: by rung name, with kernels compiled before; first: without.
    measured: False for a rough figure that nobody has timed. date: in UTC, of the last entry.
    """

    machine: str
    seconds: Mapping[str, float] = field(default_factory=dict)
    first: Mapping[str, float] = field(default_factory=dict)
    measured: bool = True
    date: str = ""


@dataclass(frozen=True)
class Minutes:
    """What a notebook asks of a reader: minutes to read it, minutes for its exercises, and what was counted."""

    reading: float
    practice: float
    words: int
    code_lines: int
    kernel_lines: int
    pictures: int
    exercises: int


def minutes(rung: Rung) -> Minutes:
    """The minutes of a rung's notebook. Raises ArgumentError if it cannot be read."""
    prose, code = _without_exercises(read_notebook(rung.notebook))
    words = sum(word_count(text) for text in prose)
    lines = sum(len([line for line in cell.source.splitlines() if line.strip()]) for cell in code)
    pictures = sum("<img" in _html(output) for cell in code for output in cell.outputs)
    kernel = len(rung.path.read_text(encoding="utf-8").splitlines())
    tasks = exercises(rung.name[:2])
    return Minutes(
        reading=words / WORDS_A_MINUTE
        + lines / CODE_LINES_A_MINUTE
        + kernel / KERNEL_LINES_A_MINUTE
        + pictures * PICTURE_MINUTES,
        practice=sum(PRACTICE_MINUTES.get(type(task).__name__, OTHER_PRACTICE_MINUTES) for task in tasks),
        words=words,
        code_lines=lines,
        kernel_lines=kernel,
        pictures=pictures,
        exercises=len(tasks),
    )


def in_fives(value: float) -> int:
    """Minutes as people say them: a multiple of five, at least five."""
    return max(5, 5 * round(value / 5))


def _html(output: NotebookNode) -> str:
    return output.get("data", {}).get("text/html", "")


def _without_exercises(notebook: NotebookNode) -> tuple[list[str], list[NotebookNode]]:
    """Texts and code cells outside the section of exercises."""
    section, prose, code = "", [], []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
                section = (section_titles(part) or [section])[0]
                if section != "Exercises":
                    prose.append(part)
        elif section != "Exercises":
            code.append(cell)
    return prose, code


def load_running(path: Path = RUNNING) -> dict[str, Running]:
    """What was measured, by machine. Raises RecordError for a damaged file."""
    return {item.machine: item for item in _from_json(read_json(path), path)}


def keep(rows: Sequence[Mapping[str, Any]], machine: str, first: bool = False, path: Path = RUNNING) -> Running:
    """Keep the seconds of a run, the objects that `python -m helpers run --json` prints, as those of a machine.

    Notebooks that are not in `rows` keep what was known of them. Raises ArgumentError if `rows` is something else, or
    if a notebook failed, and RecordError if the file is damaged or cannot be written.
    """
    new = _seconds(rows)
    known = load_running(path)
    old = known.get(machine, Running(machine))
    if not old.measured:
        old = Running(machine)
    part = "first" if first else "seconds"
    entry = replace(old, **{part: {**getattr(old, part), **new}}, date=now())
    known[machine] = entry
    write_json(path, {"schema": SCHEMA, "machines": [_to_json(item) for item in known.values()]}, _from_json)
    return entry


def _seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = {rung.notebook.name: rung.name for rung in RUNGS}
    found = {}
    for row in rows if isinstance(rows, list) else [None]:
        fits = isinstance(row, Mapping) and row.get("notebook") in names and isinstance(row.get("seconds"), int | float)
        if not fits:
            raise ArgumentError(
                "the file is not what `python -m helpers run --json` prints: give its output, redirected to a file."
            )
        if not row.get("passed"):
            raise ArgumentError(f"notebook {row['notebook']} failed in this run: its seconds say nothing; mend it.")
        found[names[row["notebook"]]] = round(float(row["seconds"]), 1)
    return found


def _to_json(item: Running) -> dict[str, Any]:
    return {
        "machine": item.machine,
        "date": item.date,
        "measured": item.measured,
        "seconds": dict(sorted(item.seconds.items())),
        "first": dict(sorted(item.first.items())),
    }


def _from_json(data: Any, path: Path) -> list[Running]:
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    found = []
    for item in top.objects("machines"):
        parts = {part: item.object(part) for part in ("seconds", "first")}
        seconds = {part: {name: fields.number(name) for name in fields.data} for part, fields in parts.items()}
        date = item.text("date", r".*", "a date, or nothing")
        found.append(Running(item.text("machine"), **seconds, measured=item.boolean("measured"), date=date))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.minutes", description="Keep how long the notebooks took to run here.")
    parser.add_argument("file", type=Path, metavar="FILE", help="what `python -m helpers run --json` printed")
    parser.add_argument("--first", action="store_true", help="nothing had been compiled before")
    parser.add_argument("--machine", metavar="NAME", help=f"a GPU's name or '{NO_GPU}'; default: this machine's")
    parser.add_argument("--output", type=Path, default=RUNNING, metavar="FILE", help="default: helpers/records")
    options = parser.parse_args(arguments)

    def work() -> int:
        try:
            rows = json.loads(read_text(options.file))
        except (OSError, ValueError) as error:
            raise ArgumentError(f"{options.file} cannot be read as JSON ({error}): give a run's output.") from None
        here = probe().gpu
        entry = keep(rows, options.machine or (here.name if here else NO_GPU), options.first, options.output)
        print(f"{entry.machine}: {len(rows)} notebooks -> {display(options.output)}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
