"""The pictures of the notebooks: those that are committed, and those that their cells draw now."""

import ast
import base64
import contextlib
import html
import io
import re
import time

import pytest
from picture_checks import ALT_LENGTH, MAX_BYTES, MAX_INCHES, problems
from PIL import Image

from helpers.device import no_device_reason
from helpers.notebooks import read_notebook
from helpers.plots.figure import Picture
from helpers.rungs import NOTEBOOK_DIR

NOTEBOOKS = sorted(NOTEBOOK_DIR.glob("*.ipynb"))
IMAGE = re.compile(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]*)" width="(\d+)"')


def drawn_by(notebook, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Picture, float]]:
    """Run the code cells in this process: each picture that is shown, with its cell and the seconds it took."""
    found, begun = [], {}
    make = Picture.__init__

    def timed(self, *arguments, **options):
        begun[id(self)] = time.process_time()
        make(self, *arguments, **options)

    def display(*shown, **_):
        for item in shown:
            if isinstance(item, Picture):
                found.append((cell.id, item, time.process_time() - begun[id(item)]))

    monkeypatch.setattr(Picture, "__init__", timed)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("helpers.verify_all", lambda kernel: [])   # no picture comes of it, and it takes longest
    monkeypatch.setattr("helpers.plots.figure.show", lambda picture, alt=None: display(picture))
    names = {"__name__": "__main__", "display": display}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            body = ast.parse(cell.source).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(ast.Module(body, []), cell.id, "exec"), names)
                if last:
                    display(eval(compile(ast.Expression(last.value), cell.id, "eval"), names))
    return found


def committed(notebook) -> list[tuple[str, bytes, str, int]]:
    """Each picture in the outputs: its cell, the PNG, the alt text and the width in pixels of a page."""
    return [
        (cell.id, base64.b64decode(data), html.unescape(alt), int(width))
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        for data, alt, width in IMAGE.findall("".join(output.get("data", {}).get("text/html", "")))
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_pictures_are_small_and_told_in_words(path):
    notebook = read_notebook(path)
    pictures = committed(notebook)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert len(pictures) == sum(str(output).count("<img") for output in outputs) >= 4
    for cell, data, alt, width in pictures:
        assert len(data) < MAX_BYTES, cell
        assert width <= 96 * MAX_INCHES, cell
        assert len(alt) >= ALT_LENGTH[0], cell
        image = Image.open(io.BytesIO(data))
        assert image.width >= 1.4 * width, cell   # sharp on fine screens too
        page = image.convert("L")
        assert page.getextrema()[0] < 60 and page.resize((1, 1)).getpixel((0, 0)) > 150, cell   # dark ink, a light card


@pytest.mark.compiler
@pytest.mark.skipif(no_device_reason() is None, reason="with a GPU the notebooks measure for minutes")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_that_a_notebook_draws_are_legible(path, monkeypatch):
    pictures = drawn_by(read_notebook(path), monkeypatch)
    assert len(pictures) >= 4
    found = [f"{cell}: {problem}" for cell, picture, seconds in pictures for problem in problems(picture, seconds)]
    assert not found, "\n".join(dict.fromkeys(found))
