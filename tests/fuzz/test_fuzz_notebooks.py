"""Notebooks damaged at random: each is refused in one sentence, or can be checked, written, linked and shown."""

import json
import random

import pytest
from mutations import damaged_bytes, damaged_json, json_bytes

from helpers import glossary, minutes, notebooks, slides
from helpers.errors import ArgumentError
from helpers.rungs import RUNGS

PARTS = 7   # cells of a notebook that a case keeps: the more, the slower


def some_cells(draw: random.Random) -> dict:
    """A notebook of the course with some of its cells, pictures cut short."""
    found = json.loads(draw.choice(RUNGS).notebook.read_text(encoding="utf-8"))
    chosen = sorted(draw.sample(range(len(found["cells"])), PARTS))
    found["cells"] = [found["cells"][number] for number in chosen]
    for cell in found["cells"]:
        for output in cell.get("outputs", []):
            for key, text in output.get("data", {}).items():
                output["data"][key] = [line[:300] for line in text] if isinstance(text, list) else text[:300]
    return found


def test_damaged_notebooks_are_refused_or_can_be_used(tmp_path, fuzz):
    path, folder, entries = tmp_path / "a.ipynb", tmp_path / "out", glossary.read_glossary()
    accepted = 0
    for number in range(100 * fuzz):
        draw = random.Random(f"notebook {number}")
        good = some_cells(draw)
        if draw.random() < 0.4:
            data = damaged_bytes(draw, json.dumps(good, indent=1).encode())
        else:
            data = json_bytes(draw, damaged_json(draw, good))
        path.write_bytes(data)
        try:
            notebook = notebooks.read_notebook(path)
        except ArgumentError as error:
            text = str(error)
            text.encode()
            assert "a.ipynb" in text and "\n" not in text and text.endswith("."), f"case {number}: {text}"
            assert len(text) < 500
            continue
        except Exception as error:
            raise AssertionError(f"case {number} was not refused in a sentence") from error
        accepted += 1
        try:
            for problem in notebooks.problems(path):
                assert "\n" not in problem
                problem.encode()
            before = [(cell.cell_type, cell.source.rstrip()) for cell in notebook.cells]
            notebooks.write_notebook(notebook, path)
            again = notebooks.read_notebook(path)
            assert [(cell.cell_type, cell.source) for cell in again.cells] == before
            assert notebooks.is_canonical(path)
            assert slides.export(path, folder).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
            glossary.link_problems(again, entries, "05")
            glossary.link_terms(again, entries, "05")
            minutes._without_exercises(again)
            notebooks.canonical_text(again).encode()
        except Exception as error:
            raise AssertionError(f"case {number}: {data[:3000]!r}") from error
    assert 0 < accepted < 100 * fuzz


@pytest.mark.parametrize("text", [" ", "\n"])
def test_an_empty_warning_is_a_problem_too(tmp_path, text):
    """As a progress bar leaves it."""
    path = tmp_path / "a.ipynb"
    cell = {"cell_type": "code", "execution_count": 1, "id": "a", "metadata": {}, "source": "1",
            "outputs": [{"output_type": "stream", "name": "stderr", "text": text}]}  # fmt: skip
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert "cell 1: a warning or log line in the output ('')." in notebooks.problems(path)


def test_half_of_a_surrogate_pair_is_refused(tmp_path):
    """JSON can hold it, UTF-8 cannot: such a notebook could be read and not be written again."""
    path = tmp_path / "a.ipynb"
    cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "\ud83d"}
    path.write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with pytest.raises(ArgumentError, match="a.ipynb is not a valid notebook .*surrogates not allowed"):
        notebooks.read_notebook(path)
    path.write_text(path.read_text().replace("ud83d", "ud83d\\ude00"))
    assert notebooks.read_notebook(path).cells[0].source == "\U0001f600"
