"""The pictures of the notebooks: those that are committed, and those that their cells draw now."""

import ast
import base64
import contextlib
import html
import io
import math
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from picture_checks import ALT_LENGTH, MAX_BYTES, MAX_INCHES, problems
from PIL import Image

from helpers.device import no_device_reason
from helpers.models.waves import waves
from helpers.notebooks import read_notebook
from helpers.plots.figure import Picture, png
from helpers.plots.waves import wave_chart
from helpers.rungs import NOTEBOOK_DIR

NOTEBOOKS = sorted(NOTEBOOK_DIR.glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
MEASURED = re.compile(r"\b(?:measured )?(?:live|recorded)(?: and (?:live|recorded))?\b")
QUANTITY = re.compile(NUMBER.pattern + "%?")
THUMBNAIL = 96, 64
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


@cache
def drawn(path: Path) -> list[tuple[str, Picture, float]]:
    """What the notebook draws here, where nothing is measured: with the recorded figures."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return drawn_by(read_notebook(path), monkeypatch)


def words(alt: str) -> str:
    """An alt text without what differs from one measurement to the next."""
    return NUMBER.sub("#", MEASURED.sub("measured", alt))


def printed(notebook) -> set[float]:
    """The numbers that a notebook's cells have printed."""
    texts = ["".join(output.get("text", "")) for cell in notebook.cells for output in cell.get("outputs", [])]
    return {value_of(number) for text in texts for number in NUMBER.findall(text)}


def value_of(number: str) -> float:
    return float(number.replace(",", "").rstrip("%"))


def differences(old: bytes, old_alt: str, new: Picture, said: set[float]) -> Iterator[str]:
    """Why a committed picture cannot be what its cell draws, a sentence each. said: what the notebook printed.

    Of another run only measured numbers may differ, and not by much.
    """
    if words(old_alt) != words(new.alt):
        yield f"its alt text is of an older drawing: {old_alt!r}, and not {new.alt!r}"
        return
    # In order of size: what is listed by its speed may have changed places.
    numbers = (sorted(QUANTITY.findall(DATE.sub("", alt)), key=value_of) for alt in (old_alt, new.alt))
    for one, other in zip(*numbers, strict=True):
        mine, here = value_of(one), value_of(other)
        known = "measured" in words(old_alt) or mine in said   # such as a share of a peak, in brackets
        spread = 1.0 if "%" in one + other else 0.25           # how far rounds lie apart differs by some tenths of 1%
        if mine != here and not (known and math.isclose(mine, here, rel_tol=0.12, abs_tol=spread)):
            yield f"its alt text says {one} where {other} is drawn: {old_alt!r}"
    small = [np.asarray(Image.open(io.BytesIO(data)).convert("L").resize(THUMBNAIL), float) for data in (old, png(new))]
    apart = np.abs(small[0] - small[1]).mean()
    if apart > (4 if old_alt == new.alt else 8):
        yield f"it looks otherwise ({apart:.1f} of 255 on average)"


@pytest.mark.compiler
@pytest.mark.skipif(no_device_reason() is None, reason="with a GPU the notebooks measure for minutes")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_pictures_that_a_notebook_draws_are_legible(path):
    pictures = drawn(path)
    assert len(pictures) >= 4
    found = [f"{cell}: {problem}" for cell, picture, seconds in pictures for problem in problems(picture, seconds)]
    assert not found, "\n".join(dict.fromkeys(found))


@pytest.mark.compiler
@pytest.mark.skipif(no_device_reason() is None, reason="with a GPU the notebooks measure for minutes")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_pictures_and_their_words_are_what_the_cells_draw(path):
    """So the words of a committed picture name its numbers too: those of the drawn one do (picture_checks)."""
    notebook = read_notebook(path)
    old, new = committed(notebook), drawn(path)
    assert [cell for cell, *_ in old] == [cell for cell, *_ in new]
    found = [
        f"{cell}: {problem}; run the notebook again"
        for (cell, data, alt, _), (_, picture, _) in zip(old, new, strict=True)
        for problem in differences(data, alt, picture, printed(notebook))
    ]
    assert not found, "\n".join(found)
    for cell in notebook.cells:   # the words beside a picture, for those who see no HTML
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if image := IMAGE.search("".join(data.get("text/html", ""))):
                assert html.unescape(image[2]) == "".join(data["text/plain"]), cell.id


@pytest.mark.parametrize(
    ("old", "new", "said", "problem"),
    [
        ("116 of them", "115 of them", set(), "says 115 where 116 is drawn"),
        ("116 of them", "16 of them", {16.0}, "says 16 where"),   # printed, but no such measurement
        ("; 132 places a wave", "", set(), "older drawing"),
    ],
)
def test_a_picture_of_another_drawing_is_noticed(old, new, said, problem):
    now = wave_chart(waves(512), "N = 4096")
    assert list(differences(png(now), now.alt, now, set())) == []
    assert list(differences(png(now), now.alt.replace("116", "118"), now, {118.0})) == []   # measured, and printed
    found = list(differences(png(now), now.alt.replace(old, new), now, said))
    assert found and problem in found[0]
    (other,) = differences(png(wave_chart(waves(500, sm_count=40), "N = 4096")), now.alt, now, set())
    assert other.startswith("it looks otherwise")
