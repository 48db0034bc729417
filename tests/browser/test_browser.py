"""Every notebook in JupyterLab, in a real browser: as committed, then run from first to last cell.

    make browser                     all notebooks; pictures of both themes in build/browser
    HOPPER_SAMPLE_ONLY=1 make browser    only a small sample, to see that the test itself works
"""

import os
import shutil

import nbformat
import pytest
from lab import Lab
from PIL import Image, ImageStat
from webdriver import Browser, missing

from helpers.notebooks import write_notebook
from helpers.rungs import NOTEBOOK_DIR, ROOT

PICTURES = ROOT / "build" / "browser"
NOTEBOOKS = [] if os.environ.get("HOPPER_SAMPLE_ONLY") else sorted(path.name for path in NOTEBOOK_DIR.glob("*.ipynb"))
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


def brightness(path) -> float:
    """Mean of a picture's pixels, 0 (black) to 255."""
    return ImageStat.Stat(Image.open(path).convert("L")).mean[0]


@pytest.mark.parametrize("name", [SAMPLE, *NOTEBOOKS])
def test_notebook_in_the_browser(lab, browser, name):
    stem = name.removesuffix(".ipynb").replace(" ", "_")
    lab.open(browser, name)
    if name != SAMPLE:
        committed = lab.state(browser)   # not trusted yet: what a reader sees before running anything
        assert committed.errors == () and committed.broken_images == 0 and committed.without_alt == 0
        assert committed.images > 0
        lab.screenshot(browser, "light", PICTURES / f"{stem}-committed-light.png")
        lab.screenshot(browser, "dark", PICTURES / f"{stem}-committed-dark.png")
    lab.run_all(browser, seconds=300)
    state = lab.state(browser)
    pictures = {theme: PICTURES / f"{stem}-run-{theme}.png" for theme in ("light", "dark")}
    for theme, path in pictures.items():
        lab.screenshot(browser, theme, path)
    assert state.errors == ()
    assert state.unfinished == 0
    assert state.images > 0
    assert state.broken_images == (1 if name == SAMPLE else 0)   # the sample's broken image shows that the check works
    assert state.without_alt == 0
    assert brightness(pictures["light"]) > 180 > 110 > brightness(pictures["dark"])


def test_a_failing_cell_is_seen(lab, browser, tmp_path):
    bad = tmp_path / "bad.ipynb"
    write_notebook(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]), bad)
    shutil.copy(bad, lab.root)
    lab.open(browser, bad.name)
    lab.run_all(browser, seconds=60)
    state = lab.state(browser)
    assert len(state.errors) == 1 and "ZeroDivisionError" in state.errors[0]
