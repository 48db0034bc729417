"""Every notebook in JupyterLab, in a real browser: as committed, and run from first to last cell.

    make browser                                            all of it, ten minutes; pictures in build/browser
    make browser BROWSER='-k "committed or sample"'         what CI looks at: no notebook is run, but a small sample
"""

import shutil

import nbformat
import pytest
from lab import Lab
from PIL import Image, ImageStat
from webdriver import Browser, missing

from helpers.notebooks import read_notebook, write_notebook
from helpers.rungs import NOTEBOOK_DIR, ROOT

OURS = 4.5          # least contrast of text: WCAG 2.2, 1.4.3
JUPYTERLABS = 3.0   # of the colours that it gives to code in outputs that are not trusted yet
PICTURES = ROOT / "build" / "browser"
NOTEBOOKS = sorted(path.name for path in NOTEBOOK_DIR.glob("*.ipynb"))
SAMPLE = "sample é.ipynb"
SAMPLE_CELLS = (
    "from helpers.source_view import show_lines, show_sass, show_source\nshow_source(2)",
    "show_lines(2, 1, 9)",
    "show_sass('LDG.E R1, [R2]\\nFFMA R0, R1, R4, R0\\nSTG.E [R8], R0', highlight='LDG|STG')",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()",
)

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    cells = [nbformat.v4.new_markdown_cell("# A sample\n\nMaths: $C = A B$, and ![alt text](none)")]
    cells += [nbformat.v4.new_code_cell(source) for source in SAMPLE_CELLS]
    write_notebook(nbformat.v4.new_notebook(cells=cells), folder / SAMPLE)
    notebooks = [folder / SAMPLE, *(NOTEBOOK_DIR / name for name in NOTEBOOKS)]
    with Lab(folder / "lab", notebooks) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


def figures(path) -> int:
    """Images in the outputs of a notebook's file."""
    outputs = [output for cell in read_notebook(path).cells for output in cell.get("outputs", [])]
    return sum("".join(output.get("data", {}).get("text/html", "")).count("<img") for output in outputs)


def brightness(path) -> float:
    """Mean of a picture's pixels, 0 (black) to 255."""
    return ImageStat.Stat(Image.open(path).convert("L")).mean[0]


def photograph(lab, browser, stem, least_contrast) -> None:
    """Pictures in both themes, and a coarse look at them: how light the page is, and that its text stands out."""
    for theme in ("light", "dark"):
        path = PICTURES / f"{stem}-{theme}.png"
        lab.theme(browser, theme)
        lab.screenshot(browser, path)
        assert brightness(path) > 180 if theme == "light" else brightness(path) < 110
        assert lab.faint(browser, least_contrast) == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_as_committed(lab, browser, name):
    """Not trusted yet: what a reader sees before running anything."""
    lab.open(browser, name)
    state = lab.state(browser)
    assert state.errors == () and state.broken_images == 0 and state.without_alt == 0
    assert state.images == figures(NOTEBOOK_DIR / name) >= 4
    photograph(lab, browser, f"{name.removesuffix('.ipynb')}-committed", JUPYTERLABS)


@pytest.mark.parametrize("name", [SAMPLE, *NOTEBOOKS])
def test_run_from_the_first_cell_to_the_last(lab, browser, name):
    lab.open(browser, name)
    lab.run_all(browser, seconds=300)
    state = lab.state(browser)
    photograph(lab, browser, f"{name.removesuffix('.ipynb').replace(' ', '_')}-run", OURS)
    assert state.errors == ()
    assert state.unfinished == 0
    assert state.images == (2 if name == SAMPLE else figures(NOTEBOOK_DIR / name))   # every figure is there again
    assert state.broken_images == (1 if name == SAMPLE else 0)   # the sample's broken image shows that the check works
    assert state.without_alt == 0


def test_text_that_does_not_stand_out_is_seen(lab, browser, tmp_path):
    pale = tmp_path / "pale.ipynb"
    html = "<p style='color: rgb(190, 190, 190)'>on the page</p><p style='background: #222; color: #333'>on a box</p>"
    source = f"from IPython.display import HTML\nHTML({html!r})"
    write_notebook(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), pale)
    shutil.copy(pale, lab.root)
    lab.open(browser, pale.name)
    lab.run_all(browser, seconds=60)
    lab.theme(browser, "light")
    assert [text.rpartition(": ")[2] for text in lab.faint(browser, JUPYTERLABS)] == ["on the page", "on a box"]
    lab.theme(browser, "dark")
    assert len(lab.faint(browser, JUPYTERLABS)) == 1


def test_a_failing_cell_is_seen(lab, browser, tmp_path):
    bad = tmp_path / "bad.ipynb"
    write_notebook(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), bad)
    shutil.copy(bad, lab.root)
    lab.open(browser, bad.name)
    lab.run_all(browser, seconds=60)
    state = lab.state(browser)
    assert len(state.errors) == 1 and "ZeroDivisionError" in state.errors[0]
