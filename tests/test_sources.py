"""docs/sources.md tells the truth about figures, links and the bug shelf."""

import re

from helpers.bugs import BUGS
from helpers.published import published
from helpers.rungs import ROOT, RUNGS

SOURCES = ROOT / "docs" / "sources.md"
TEXT = SOURCES.read_text(encoding="utf-8")
# A row of the table of kernels: number, what it adds, TFLOP/s.
ROWS = re.findall(r"^\| (\d+[^|]*?) \| [^|]+ \| (\d+) \| ([^|]+) \|", TEXT, re.MULTILINE)


def test_every_kernel_of_fast_cu_is_placed_once():
    assert [name for name, _, _ in ROWS] == [*"12345", "5, last form", *"6789", "10", "11", "12"]


def test_its_figures_are_the_published_ones():
    figures = [
        figure.tflops
        for figure in published()
        if figure.n == 4096 and figure.role == "kernel" and figure.dtype == "bfloat16"
    ]
    assert sorted(float(tflops) for _, tflops, _ in ROWS) == sorted(figures)


def test_a_rung_with_a_published_figure_is_named_in_its_row():
    for figure in published():
        if figure.rung and figure.n == 4096 and figure.dtype == "bfloat16":
            (place,) = [where for _, tflops, where in ROWS if float(tflops) == figure.tflops]
            assert figure.rung in {int(number) for number in re.findall(r"\d+", place)}, figure


def test_every_notebook_is_led_to():
    linked = set(re.findall(r"\]\(\.\./notebooks/([\w.]+)\)", TEXT))
    assert linked == {rung.notebook.name for rung in RUNGS}


def test_its_links_lead_somewhere():
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", TEXT) if "://" not in target]
    assert [target for target in targets if not (SOURCES.parent / target.split("#")[0]).exists()] == []


def test_the_bugs_that_it_names_are_on_the_shelf():
    (names,) = re.findall(r"\[\s*bug shelf\]\(bugs\.md\)\s+has them as `(\w+)` and `(\w+)`", TEXT)
    assert set(names) <= {bug.name for bug in BUGS}
