"""What a reader's session does with exercises: check, hint, solution. It prints; it never raises."""

import inspect
import re
from typing import TYPE_CHECKING, Any

from helpers.errors import ArgumentError, CourseError
from helpers.exercises.kinds import HINTS, Exercise, Status
from helpers.rungs import NOTEBOOK_DIR

if TYPE_CHECKING:
    from helpers.exercises.find_the_bug import FaultyKernel


WIDTH = 110   # columns of a solution


class Session:
    """Remembers which hints were given since the kernel started; nothing is stored in the notebook."""

    def __init__(self) -> None:
        self._hints_given: dict[str, int] = {}

    def check(self, name: str, answer: Any = ...) -> None:
        """Print whether an answer is right, and what is wrong in words."""
        if exercise := _find(name):
            verdict = exercise.judge(answer)
            print(f"{exercise.id} {verdict.status.value}: {verdict.words}")
            if verdict.status is Status.WRONG and self._hints_given.get(exercise.id, 0) == 0:
                print(f'hint("{exercise.id}") gives the first of {HINTS} hints.')

    def hint(self, name: str) -> None:
        """Print the next hint; after the last one, say where the solution is."""
        if exercise := _find(name):
            given = self._hints_given.get(exercise.id, 0)
            if given < HINTS:
                print(f"{exercise.id} hint {given + 1} of {HINTS}: {exercise.hints[given]}")
                self._hints_given[exercise.id] = given + 1
            else:
                print(f'{exercise.id}: those were all {HINTS} hints; solution("{exercise.id}") shows the solution.')
                self._hints_given[exercise.id] = 0

    def solution(self, name: str) -> None:
        """Print the solution, its reason and its file."""
        from helpers.exercises.registry import solution_of

        if exercise := _find(name):
            try:
                text = _shown(exercise, solution_of(exercise))
            except CourseError as error:
                print(error)
                return
            print(f"{exercise.id} solution (helpers/solutions/nb{exercise.id.split('.')[0]}.py):\n\n{text}\n")
            print(exercise.because[:1].upper() + exercise.because[1:])

    def faulty(self, name: str) -> "FaultyKernel":
        """The faulty kernel of an exercise. Raises ArgumentError if there is no such exercise, or it has none."""
        from helpers.exercises.find_the_bug import FindTheBug
        from helpers.exercises.registry import find_exercise

        exercise = find_exercise(name)
        if not isinstance(exercise, FindTheBug):
            raise ArgumentError(f"exercise {name} has no faulty kernel: give one that asks for a fault.")
        return exercise.faulty


def _find(name: str) -> Exercise | None:
    from helpers.exercises.registry import find_exercise

    try:
        return find_exercise(name)
    except CourseError as error:
        print(error)
        return None


def _shown(exercise: Exercise, solution: Any) -> str:
    """A solution as text that can be pasted into the notebook: a function's source, else the variable's new value."""
    name = _variable(exercise)
    if inspect.isfunction(solution):
        return inspect.getsource(solution).rstrip()
    if isinstance(solution, list):
        return "\n".join((f"{name} = [", *map(_pair, solution), "]"))
    return f"{name} = {solution!r}"


def _pair(pair: tuple[str, str]) -> str:
    """A replacement as Python's text: in one line if it fits, else line by line as the kernel has it."""
    if len(line := f"    {pair!r},") <= WIDTH:
        return line
    texts = (text.splitlines(keepends=True) or [""] for text in pair)
    return "\n".join(("    (", *("\n".join(f"        {part!r}" for part in text) + "," for text in texts), "    ),"))


def _variable(exercise: Exercise) -> str:
    """What the notebook calls the answer: the variable that its cell gives to `check`."""
    notebook = NOTEBOOK_DIR.glob(f"{exercise.id.split('.')[0]}_*.ipynb")
    text = next((path.read_text(encoding="utf-8") for path in notebook), "")
    found = re.search(rf'check\(\\"{re.escape(exercise.id)}\\", (\w+)\)', text)
    return found[1] if found else "answer"
