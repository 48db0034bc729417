"""docs/pictures.md: every line draws its picture as it stands there."""

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator

import pytest

from helpers import plots
from helpers.errors import ArgumentError
from helpers.plots.figure import Picture, overlaps, png
from helpers.rungs import ROOT

DOC = ROOT / "docs" / "pictures.md"
IMPORTS, *LINES = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict:
    found: dict = {}
    exec(IMPORTS, found)   # our own file
    return found


@pytest.mark.compiler
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("(")[0])
def test_a_line_draws_a_picture(names, line):
    assert line.count("\n") == 1, "one line each"
    start = time.process_time()
    picture = eval(line, dict(names))   # our own file
    data = png(picture)
    assert time.process_time() - start < 3
    assert isinstance(picture, Picture) and picture.alt and len(data) < 200_000 and overlaps(picture) == []


def plot_functions() -> dict[str, Callable]:
    """The public functions of helpers.plots that give a Picture, by module and name."""
    found = {}
    for module in pkgutil.iter_modules(plots.__path__):
        names = vars(importlib.import_module(f"helpers.plots.{module.name}"))
        for name, value in names.items():
            own = inspect.isfunction(value) and value.__module__ == f"helpers.plots.{module.name}"
            if own and not name.startswith("_") and value.__annotations__.get("return") is Picture:
                found[f"{module.name}.{name}"] = value
    del found["figure.new_picture"]   # an empty one, to draw on
    return found


def test_every_plot_function_has_a_line(names):
    shown = [eval(line.split("(")[0], dict(names)) for line in LINES]
    assert [name for name, function in plot_functions().items() if function not in shown] == []
    assert len(plot_functions()) > 40


def test_every_import_is_used():
    used = {node.id for line in LINES for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.parse(IMPORTS).body for alias in node.names}
    assert imported == imported & used


WRONG = ("object()", "float('nan')")   # fit nowhere, so nothing is drawn
ODD = ("0", "-1", "10**6", "10**12", "'x'", "None", "2.5", "[]", "{}", "['a']")


def places(tree: ast.AST) -> Iterator[tuple[list, int] | tuple[ast.keyword, None]]:
    """The arguments of all calls in a line, and the items of its lists and dictionaries."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") != "range":
            yield from ((node.args, index) for index in range(len(node.args)))
            yield from ((keyword, None) for keyword in node.keywords)
        elif isinstance(node, ast.List | ast.Dict):
            items = node.elts if isinstance(node, ast.List) else node.values
            yield from ((items, index) for index in range(len(items)))


def variants(line: str, values: tuple[str, ...]) -> Iterator[str]:
    """The line with each of its arguments replaced by each of the values."""
    for number in range(len(list(places(ast.parse(line.strip(), mode="eval"))))):
        for value in values:
            tree = ast.parse(line.strip(), mode="eval")
            holder, index = list(places(tree))[number]
            new = ast.parse(value, mode="eval").body
            if index is None:
                holder.value = new
            else:
                holder[index] = new
            yield ast.unparse(tree)


@pytest.mark.compiler
@pytest.mark.parametrize("values", [WRONG, pytest.param(ODD, marks=pytest.mark.soak)], ids=["wrong", "odd"])
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("(")[0])
def test_a_line_with_a_bad_argument_gets_a_sentence_or_a_picture(names, line, values):
    for changed in variants(line, values):
        start = time.process_time()
        try:
            picture = eval(changed, dict(names))   # our own file
            data = png(picture)
        except ArgumentError as error:
            assert "\n" not in str(error) and str(error).endswith(".") and len(str(error)) < 400, changed
        else:
            assert values is not WRONG, changed
            assert len(data) < 200_000 and overlaps(picture) == [], changed
        assert time.process_time() - start < 3, changed
