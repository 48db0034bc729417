"""docs/pictures.md: every line draws its picture as it stands there."""

import ast
import re
import time

import pytest

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


def test_every_import_is_used():
    used = {node.id for line in LINES for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.parse(IMPORTS).body for alias in node.names}
    assert imported == imported & used
