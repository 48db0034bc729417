"""Where exercises and solutions are found: one module each per notebook, by the number in front of the dot."""

import importlib
import importlib.util
import pkgutil
from types import ModuleType
from typing import Any

import helpers.exercises as package
from helpers.errors import ArgumentError
from helpers.exercises.kinds import Exercise


def exercises(notebook: str) -> tuple[Exercise, ...]:
    """The exercises of a notebook, by its two digits; none if it has none."""
    module = _module("exercises", notebook)
    return module.EXERCISES if module else ()


def all_exercises() -> tuple[Exercise, ...]:
    """The exercises of all notebooks, in order."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name.startswith("nb"))
    return tuple(exercise for name in names for exercise in exercises(name.removeprefix("nb")))


def find_exercise(name: str) -> Exercise:
    """The exercise of an id such as `"01.2"`.

    Raises ArgumentError if there is none, naming those of the notebook.
    """
    notebook = str(name).split(".")[0]
    found = [exercise for exercise in exercises(notebook) if exercise.id == name]
    if found:
        return found[0]
    ids = [exercise.id for exercise in exercises(notebook) or all_exercises()]
    raise ArgumentError(f"exercise {name!r} does not exist: give one of {', '.join(ids) or '(there are none yet)'}.")


def solution_of(exercise: Exercise) -> Any:
    """The solution of an exercise: what a reader may give to `check`."""
    module = _module("solutions", exercise.id.split(".")[0])
    if module is None or exercise.id not in module.SOLUTIONS:
        raise ArgumentError(f"exercise {exercise.id} has no solution: add it to helpers/solutions.")
    return module.SOLUTIONS[exercise.id]


def _module(kind: str, notebook: str) -> ModuleType | None:
    if not notebook.isdigit():
        return None
    name = f"helpers.{kind}.nb{notebook}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None
