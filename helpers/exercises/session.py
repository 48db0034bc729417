"""What a reader's session does with exercises: check, hint, solution. It prints; it never raises."""

import difflib
import inspect
from typing import Any

from helpers.errors import CourseError
from helpers.exercises.kinds import HINTS, Exercise, KernelChange, Status, edit
from helpers.rungs import find_rung


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
            print(exercise.because)


def _find(name: str) -> Exercise | None:
    from helpers.exercises.registry import find_exercise

    try:
        return find_exercise(name)
    except CourseError as error:
        print(error)
        return None


def _shown(exercise: Exercise, solution: Any) -> str:
    """A solution as text: a function as its source, a kernel as its difference from the rung."""
    if isinstance(exercise, KernelChange) and not isinstance(solution, dict):
        path = find_rung(exercise.rung).path
        old = path.read_text(encoding="utf-8").splitlines()
        new = (solution if isinstance(solution, str) else edit(exercise.rung, *solution)).splitlines()
        return "\n".join(difflib.unified_diff(old, new, path.name, "solution", lineterm="", n=1))
    if inspect.isfunction(solution):
        return inspect.getsource(solution).rstrip()
    return f"answer = {solution!r}"
