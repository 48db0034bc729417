"""The kinds of exercise: a number, a function, a changed kernel. Each judges an answer, and never raises."""

import contextlib
import copy
import math
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from helpers.errors import ArgumentError, BackendError, CompileError, CourseError
from helpers.exercises.limits import TimeUp, time_limit
from helpers.rungs import H200_SMS
from helpers.variants import edit, replace_in, save_text
from helpers.words import short

if TYPE_CHECKING:
    from helpers.kernel import Emulation

HINTS = 3
SHOWN = 60     # characters of a value in a sentence
SLACK = 1e-9   # relative; what fp64 arithmetic may lose in an exact answer


class Status(Enum):
    """What became of an answer. UNCHECKED: this machine cannot tell (a kernel without a compiler)."""

    RIGHT = "right"
    WRONG = "not yet"
    OPEN = "open"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class Verdict:
    """The judgement of an answer: a status, and one or two sentences for the reader."""

    status: Status
    words: str


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What all exercises have.

    id: `"01.2"`, notebook and number. hints: three, from a nudge to nearly the answer.
    because: why the right answer is right, said once it was given.
    """

    id: str
    hints: tuple[str, str, str]
    because: str
    seconds: ClassVar[float] = 10   # after which a check is stopped

    def __post_init__(self) -> None:
        if len(self.hints) != HINTS or not all(hint.strip() for hint in self.hints):
            raise ValueError(f"exercise {self.id} needs {HINTS} hints, not {len(self.hints)} (or one is empty).")
        if not self.because.strip():
            raise ValueError(f"exercise {self.id} needs a reason, `because`.")

    def judge(self, answer: Any) -> Verdict:
        """The verdict on an answer of any type. Never raises, apart from an interrupt."""
        try:
            answer = _filled_in(answer)
            self._prepare()
            with time_limit(self.seconds):
                problem = self._problem(answer)
        except _Open:
            words = f'put your answer in place of the three dots and run the cell again; hint("{self.id}") helps.'
            return Verdict(Status.OPEN, words)
        except CompileError as error:   # of a goal that runs a kernel made of the reader's
            problem = f"the check adds a line or a define, and then it does not compile: {error}"
        except BackendError as error:   # the machine's fault, such as a folder that cannot be written
            return Verdict(Status.UNCHECKED, str(error))
        except Wrong as wrong:
            problem = str(wrong)
        except TimeUp:
            problem = f"the check was stopped after {self.seconds:g} seconds: is there a loop that never ends?"
        except (Exception, SystemExit) as error:  # whatever an answer does, the reader gets a sentence
            problem = f"the answer could not be checked ({_name(error)})."
        return Verdict(Status.WRONG, problem) if problem else Verdict(Status.RIGHT, self.because)

    def _prepare(self) -> None:
        """What takes its time whatever the answer is, and is not counted as the answer's."""

    def _problem(self, answer: Any) -> str | None:
        """What is wrong with an answer, as a sentence; None if nothing is."""
        raise NotImplementedError


class Wrong(Exception):
    """The answer is none that could be checked further; the message says why."""


class _Open(Exception):
    """The reader has not answered: there are still three dots in the answer."""


def _filled_in(answer: Any) -> Any:
    """The answer itself. Raises _Open if it is, or holds, `...`."""
    if answer is ... or answer is None:
        raise _Open
    if isinstance(answer, Mapping):
        answer = dict(answer)
    for item in answer.values() if isinstance(answer, dict) else answer if isinstance(answer, (tuple, list)) else ():
        _filled_in(item)
    return answer


@dataclass(frozen=True, kw_only=True)
class Number(Exercise):
    """A number, or a tuple of numbers, is asked for.

    expected: the value, or a function of no arguments that computes it (best from a model, so that the
    exercise cannot contradict the course). names: what the value, or each value of the tuple, is.
    tolerance: relative; 0 asks for the exact value.
    mistakes: pairs (wrong value, what the reader probably did).
    """

    expected: Any
    names: tuple[str, ...] = ("the value",)
    tolerance: float = 0.0
    mistakes: Sequence[tuple[Any, str]] = ()

    def _problem(self, answer: Any) -> str | None:
        expected = self.expected() if callable(self.expected) else self.expected
        wanted = _values(expected)
        if wanted is None or len(wanted) != len(self.names):
            raise ValueError(f"exercise {self.id} has {self.names} as names of {expected!r}")
        given = _values(answer)
        if given is None:
            return _no_number(answer, len(wanted))
        if len(given) != len(wanted):
            return f"that is {_count(len(given))}; asked for: {', '.join(self.names)}, so {_count(len(wanted))}."
        for wrong, words in self.mistakes:
            values = _values(wrong)
            if values and all(self._near(*pair) for pair in zip(given, values, strict=True)):
                return words
        wrong_ones = [
            f"{name}: {value:g} is too {'small' if value < target else 'large'}"
            for name, value, target in zip(self.names, given, wanted, strict=True)
            if not self._near(value, target)
        ]
        return "; ".join(wrong_ones) + "." if wrong_ones else None

    def _near(self, value: float, target: float) -> bool:
        return math.isclose(value, target, rel_tol=max(self.tolerance, SLACK), abs_tol=SLACK)


@dataclass(frozen=True, kw_only=True)
class Written(Exercise):
    """The base of exercises that ask for a function in Python.

    names: of its arguments.
    lines: of the body that the reader writes; the notebook's skeleton is the solution with `return ...` for them.
    """

    names: tuple[str, ...]
    lines: int = 1

    def value(self, answer: Any, *point: Any) -> Any:
        """What the reader's function returns at a point. Raises Wrong if it is no function, or returns nothing."""
        if not callable(answer):
            raise Wrong(f"a function of {', '.join(self.names)} is asked for, and this is {_describe(answer)}.")
        where = self.where(*point)
        try:
            value = answer(*copy.deepcopy(point))
        except (Exception, SystemExit) as error:
            raise Wrong(f"{where} stops with {_name(error)}.") from None
        if value is None:
            raise Wrong(f"{where} returns nothing: does it lack a `return`?")
        _filled_in(value)
        return value

    def where(self, *point: Any) -> str:
        """The beginning of a sentence about the reader's function at a point."""
        place = ", ".join(f"{name}={short(value)}" for name, value in zip(self.names, point, strict=True))
        return f"at {place} your function"


@dataclass(frozen=True, kw_only=True)
class Function(Written):
    """A function is asked for, such as an index or an address; it is compared with a reference at points.

    reference: the right function, called with each of `points` (tuples of arguments, named by `names`).
    """

    reference: Callable[..., Any]
    points: Sequence[tuple]
    tolerance: float = 0.0

    def _problem(self, answer: Any) -> str | None:
        for point in self.points:
            value, expected = self.value(answer, *point), self.reference(*copy.deepcopy(point))
            if not self._same(value, expected):
                return f"{self.where(*point)} gives {self._contrast(value, expected)}."
        return None

    def _contrast(self, value: Any, expected: Any) -> str:
        """What the function gives and should give; of sequences too long to show, their first items that differ."""
        items = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(items, (list, tuple)) or not isinstance(expected, (list, tuple)) or _fits(expected):
            return f"{short(value)}; it should give {short(expected)}"
        if len(items) != len(expected):
            return f"{len(items)} items; it should give {len(expected)}"
        pairs = enumerate(zip(items, expected, strict=True))
        place, (mine, right) = next((i, pair) for i, pair in pairs if not self._same(*pair))
        return f"{short(mine)} as item [{place}]; it should give {short(right)} there"

    def _same(self, value: Any, expected: Any) -> bool:
        try:
            if any(isinstance(item, (str, bytes)) for item in np.asarray(value, dtype=object).flat):
                return False   # in which NumPy would read a number
            mine, right = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
        except (TypeError, ValueError, OverflowError):
            return False
        return mine.shape == right.shape and np.allclose(mine, right, rtol=max(self.tolerance, SLACK), atol=SLACK)


@dataclass(frozen=True, kw_only=True)
class KernelChange(Exercise):
    """A changed kernel is asked for, and run on the emulator, on any machine with a C++ compiler.

    The answer is a list of replacements, (old text, new text), in the kernel that the reader starts from; or the text
    of a whole kernel; or the path of a `.cu` file.
    rung, entry: the kernel that it changes. edits: what the start differs by from the rung, as (old text, new text).
    size: (M, N, K) of the run. more_sizes: on which the changed kernel must be right too, so that one for `size` only
    is refused. schedules: of the emulator, all are run.
    sms: of the GPU that is played; few, so that a persistent kernel has several tiles for each.
    lines: of the start that the solution changes.
    goal: gets the `Emulation` of each run at `size` and returns what is still missing, as a sentence, or None; a wrong
    result or a report is refused before it is asked.
    """

    rung: str | int
    size: tuple[int, int, int]
    more_sizes: tuple[tuple[int, int, int], ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    goal: Callable[["Emulation"], str | None] = field(default=lambda emulation: None)
    entry: str | None = None
    schedules: tuple[str, ...] = ("lazy",)
    sms: int = H200_SMS
    lines: int = 1
    seconds: ClassVar[float] = 40

    @property
    def start(self) -> str:
        """The text of the kernel that the reader starts from."""
        return edit(self.rung, *self.edits)

    def _prepare(self) -> None:
        from helpers.emulator.build import build_runtime

        with contextlib.suppress(CourseError):   # the check itself says it
            build_runtime()   # half a minute, once on a machine

    def _runs(self) -> Iterator[dict[str, Any]]:
        """Keyword arguments for `emulate`, for each run that the answer must pass."""
        for size in (self.size, *self.more_sizes):
            for schedule in self.schedules:
                yield {"size": size, "schedule": schedule}

    def _problem(self, answer: Any) -> str | None:
        from helpers.kernel import emulate

        changes = self._changes(answer)
        for run in self._runs():
            try:
                emulation = emulate(self.rung, sms=self.sms, entry=self.entry, **run, **changes)
            except CompileError as error:
                return f"it does not compile: {error}"
            except BackendError:
                raise
            except CourseError as error:
                return str(error)
            if emulation.run.reports:
                report = emulation.run.reports[0]
                line = f" (line {report.line})" if report.line else ""
                kind = report.kind.replace("_", " ")
                return f"the emulator reports {kind}{line}{self._where(run['size'])}: {report.message}"
            if not emulation.verification.passed:
                return f"the result is wrong{self._where(run['size'])}: {emulation.verification.reason}"
            if run["size"] == self.size and (missing := self.goal(emulation)):
                return missing
        return None

    def _where(self, size: tuple[int, int, int]) -> str:
        """The size of a run, if it is not the one that the reader has seen."""
        m, n, k = size
        return "" if size == self.size else f" with M={m} N={n} K={k}"

    def _changes(self, answer: Any) -> dict[str, Any]:
        """Keyword arguments for `emulate`."""
        if isinstance(answer, dict):
            raise Wrong("defines do not change the kernel's text: give a list of pairs (old text, new text).")
        text = self._text(answer)
        if text == self.start:
            raise Wrong("this is the kernel as it was: change it first.")
        return {"file": save_text(text, self.id)}

    def _text(self, answer: Any) -> str:
        """The text of the kernel that the answer makes of the start."""
        if isinstance(answer, (tuple, list)):
            pairs = (answer,) if len(answer) == 2 and all(isinstance(part, str) for part in answer) else answer
            try:
                return replace_in(self.start, "the kernel", *map(tuple, pairs))
            except ArgumentError as error:
                raise Wrong(str(error)) from None
            except TypeError:
                raise Wrong("give a list of pairs (old text, new text).") from None
        if isinstance(answer, Path) or (isinstance(answer, str) and answer.endswith(".cu") and "\n" not in answer):
            if not Path(answer).is_file():
                raise Wrong(f"the file {Path(answer).name} does not exist: give the path of a .cu file.")
            answer = Path(answer).read_text(encoding="utf-8")
        if not isinstance(answer, str):
            asked = "pairs (old text, new text) or the text of a kernel are asked for"
            raise Wrong(f"{asked}, and this is {_describe(answer)}.")
        if not answer.strip():
            raise Wrong("the text is empty: give the whole kernel.")
        if "\n" not in answer.strip():
            raise Wrong('this is one line: give a pair, ("old text", "new text"), or the text of the whole kernel.')
        return answer


def _values(answer: Any) -> tuple[float, ...] | None:
    """The finite numbers of a number, a sequence or an array; None if it is something else."""
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    items = answer if isinstance(answer, (tuple, list)) else (answer,)
    if not all(isinstance(item, numbers.Real) and not isinstance(item, bool) for item in items):
        return None
    try:
        values = tuple(float(item) for item in items)
    except OverflowError:
        return None
    return values if all(map(math.isfinite, values)) else None


def _no_number(answer: Any, count: int) -> str:
    if isinstance(answer, str):
        return "this is text: give the number without quotation marks."
    wanted = "a number is" if count == 1 else f"{_count(count)} is"
    return f"{wanted} asked for, and this is {_describe(answer)}."


def _count(count: int) -> str:
    return "one number" if count == 1 else f"a tuple of {count} numbers"


def _describe(value: Any) -> str:
    name = type(value).__name__
    return f"{short(value)}, {'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _fits(value: Any) -> bool:
    return len(repr(value)) <= SHOWN


def _name(error: BaseException) -> str:
    message = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
