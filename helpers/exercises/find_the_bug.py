"""The exercise kind with a planted fault: the reader sees its symptom on the emulator, and mends the kernel."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

from helpers.bugs import Bug, bug
from helpers.checks import is_integer
from helpers.exercises.kinds import KernelChange, Wrong
from helpers.kernel import Emulation, emulate
from helpers.rungs import find_rung
from helpers.source_view import SourceView, show_file
from helpers.variants import edit, save_text
from helpers.words import plural

WIDTH = 110   # columns of a report


@dataclass(frozen=True, kw_only=True)
class FindTheBug(KernelChange):
    """A mistake is planted in a rung's kernel; a kernel without it is asked for.

    In helpers/exercises/nbNN.py, with a bug of the shelf (docs/bugs.md) or with edits of its own:

        FindTheBug.planted("every_thread_counted", id="07.4", hints=..., because=...)
        FindTheBug(id="04.4", rung=4, size=(128, 256, 128), edits=((right, faulty),), hints=..., because=...)

    In the notebook, two cells. The fault comes from the exercise's name, so the cells don't tell it:

        case = faulty("07.4")
        print(case.report())      # one run on the emulator: its reports, or what the verification says
        case.source               # the faulty kernel, numbered, with the reported lines marked

        mended = ...              # [("old text", "new text")], from the faulty kernel
        check("07.4", mended)

    The answer is what a KernelChange takes: pairs of texts in the faulty kernel, the text of a
    whole kernel, or the path of a `.cu` file. It is run, and every mending that leaves no report, no wrong result and
    no complaint of the goal is right. A line's number is answered too: whether the fault lies there.
    The solution, in helpers/solutions/nbNN.py, is a list of pairs.

    edits: (right text, faulty text) in the rung's kernel; a line of which nothing is left is gone in the faulty one.
    size: (M, N, K) of the run that shows the symptom. more_sizes: such as one with several tiles.
    schedules: a mended kernel is run under all of them, with two seeds if they are random.
    defines: for the preprocessor, for the faulty kernel and the mended one.
    goal: for a fault that shows in the counters only.
    """

    schedules: tuple[str, ...] = ("lazy", "eager", "random")
    defines: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def planted(cls, name: str, **fields: Any) -> "FindTheBug":
        """The exercise of a bug on the shelf. fields: the rest, or other values than the bug's.

        Raises ValueError for a bug on the host's side, which no change of the kernel mends.
        """
        found: Bug = bug(name)
        if not found.edits or found.rung_fields or found.make_change or found.calls_again:
            raise ValueError(f"bug {name!r} is not in the kernel's text alone: take another one for an exercise.")
        own = {key: getattr(found, key) for key in ("rung", "size", "edits", "defines", "sms")}
        return cls(**{**own, **fields})

    @property
    def start(self) -> str:
        """The text of the faulty kernel. Lines that the edits emptied are gone, so that no gap tells."""
        return re.sub(r"\n[ \t]+(?=\n)", "", edit(self.rung, *self.edits))

    @property
    def faulty(self) -> "FaultyKernel":
        """The faulty kernel in a file of its own."""
        return FaultyKernel(self, save_text(self.start, f"faulty_{self.id}"))

    @property
    def fault_lines(self) -> frozenset[int]:
        """Numbers of the faulty kernel's lines where the fault lies; where lines are missing, their neighbours' too."""
        faulty, right = _code(self.start), _code(edit(self.rung))
        matcher = difflib.SequenceMatcher(None, faulty, right, autojunk=False)
        found: set[int] = set()
        for tag, first, last, right_first, right_last in matcher.get_opcodes():
            if tag != "equal" and any(faulty[first:last] + right[right_first:right_last]):
                beside = last - first < right_last - right_first
                found.update(range(first + 1 - beside, last + 1 + beside))
        return frozenset(found)

    def _runs(self) -> Iterator[dict[str, Any]]:
        for size in (self.size, *self.more_sizes):
            for schedule in self.schedules:
                for seed in (0, 1) if schedule == "random" else (0,):
                    yield {"size": size, "schedule": schedule, "seed": seed, "defines": self.defines}

    def _changes(self, answer: Any) -> dict[str, Any]:
        if is_integer(answer) and answer in self.fault_lines:
            raise Wrong(f"yes, look at line {answer}. Now mend it: give a list of pairs (old text, new text).")
        if is_integer(answer):
            shows = "A report names the line where a fault shows; it may lie in another."
            raise Wrong(f"the fault was planted elsewhere than in line {answer}. {shows}")
        return super()._changes(answer)


def _code(text: str) -> list[str]:
    """The lines of a kernel without comments and indentation."""
    return [line.split("//")[0].strip() for line in text.splitlines()]


@dataclass(frozen=True)
class FaultyKernel:
    """The faulty kernel of an exercise. file: its `.cu` file, for `emulate(..., file=...)`."""

    exercise: FindTheBug = field(repr=False)   # it knows the answer
    file: Path

    def run(
        self, size: tuple[int, int, int] | None = None, schedule: str = "lazy", seed: int = 0
    ) -> Emulation:
        """One run on the emulator, by default of the size on which the fault shows. Raises as `emulate`."""
        chosen = self.exercise
        return emulate(
            chosen.rung, size or chosen.size, schedule=schedule, seed=seed, sms=chosen.sms, entry=chosen.entry,
            defines=chosen.defines, file=self.file,
        )  # fmt: skip

    def report(self, size: tuple[int, int, int] | None = None, schedule: str = "lazy", seed: int = 0) -> str:
        """What a run brings, as text: the emulator's reports, or what is wrong with C. Raises as `emulate`."""
        emulation = self.run(size, schedule, seed)
        m, n, k = size or self.exercise.size
        played = "" if schedule == "lazy" else f", {schedule} schedule {seed}"
        head = f"{find_rung(self.exercise.rung).name} with a fault, M={m} N={n} K={k}{played}: "
        if emulation.run.reports:
            lines = "\n".join(str(report) for report in emulation.run.reports).splitlines()
            reports = "\n".join(fill(line, WIDTH, subsequent_indent=" " * _indent(line)) for line in lines)
            return f"{head}{plural(len(emulation.run.reports), 'report')}\n{reports}"
        if not emulation.verification.passed:
            return fill(f"{head}no report, but {emulation.verification.reason}", WIDTH)
        return f"{head}no report, and the result is right"

    @property
    def source(self) -> SourceView:
        """The faulty kernel, numbered; the lines that the run's reports name are marked."""
        reports = self.run().run.reports
        return show_file(
            self.file,
            f"{find_rung(self.exercise.rung).path.name} with a fault",
            {report.line for report in reports if report.line},
        )


def _indent(line: str) -> int:
    """Columns by which the rest of a broken line stands in: as far as the line, and two more if that is an item."""
    blank = len(line) - len(line.lstrip())
    return blank + 2 if blank else 0
