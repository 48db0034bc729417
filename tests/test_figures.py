"""No measured figure is typed into prose: cells print them from records, README's table is written by a command.

What may stand in prose: published figures (helpers/records/published.json), datasheets' figures, and what a model
computes from those. A figure is a number with a unit of speed, clock, power or time, a percentage, or a factor.
"""

import re
from collections.abc import Iterator

import pytest

from helpers.models.predict import predict
from helpers.notebooks import read_notebook
from helpers.published import published
from helpers.readme import README
from helpers.rungs import NOTEBOOK_DIR

NUMBER = r"(?<![\w.,^*/])(\d[\d,]*(?:\.\d+)?)"
UNITS = r"(?:TFLOP/s|GFLOP/s|FLOP/s|TB/s|GB/s|MHz|GHz|W\b|watts?|pJ|picojoules?|ns\b|[uµ]s\b|ms\b|°C|%|per cent)"
FIGURE = re.compile(rf"{NUMBER}(?: (?:to|and|or) \d[\d,.]*)? ?({UNITS})|{NUMBER} times (?:slower|faster|as fast)"
                    rf"|factor of {NUMBER}")

# Datasheets' figures, and those of statistics, with where they are from.
KNOWN = {
    ("989", "TFLOP/s"): "NVIDIA H100 and H200 datasheets, dense bf16",
    ("1.98", "GHz"): "the highest SM clock, as the driver reports it",
    ("700", "W"): "NVIDIA H200 datasheet",
    ("95", "%"): "of an interval",
    ("100", "%"): "all of it",
    ("13", "factor"): "the published pair, 3.17 over 0.243",
}


def allowed() -> set[tuple[str, str]]:
    """(number, unit) of what may stand in prose."""
    figures = {(f"{figure.tflops:g}", "TFLOP/s") for figure in published()}
    bound = predict("10_clusters").limit.tflops   # clock x SMs x FLOP, of the H200
    return set(KNOWN) | figures | {(f"{bound:,.0f}", "TFLOP/s")}


def typed_figures(markdown: str) -> Iterator[tuple[str, str]]:
    """(number, unit) of the figures in prose; code, formulas and links' targets are no prose."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\$[^$\n]*\$|\]\([^)]*\)", " ", markdown, flags=re.DOTALL)
    for match in FIGURE.finditer(text):
        number, unit, times, factor = match.groups()
        yield number or times or factor, unit or "factor"


PROSE = [(path.name, path) for path in sorted(NOTEBOOK_DIR.glob("*.ipynb"))] + [("README.md", README)]


@pytest.mark.parametrize(("name", "path"), PROSE, ids=[name for name, _ in PROSE])
def test_no_measured_figure_is_typed_into_prose(name, path, monkeypatch) -> None:
    monkeypatch.setattr("helpers.models.machine.device_info", lambda: None)   # the bound of the recordings' GPU
    if path == README:
        written = re.compile(r"<!-- (\w+): written by .*?<!-- end of \1 -->", re.DOTALL)
        text = written.sub("", path.read_text(encoding="utf-8"))
    else:
        text = "\n\n".join(cell.source for cell in read_notebook(path).cells if cell.cell_type == "markdown")
    typed = set(typed_figures(text)) - allowed()
    assert not typed, f"{name}: let a cell print {sorted(typed)} from a record, or give the source in {__file__}"


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("It reaches 804 TFLOP/s.", [("804", "TFLOP/s")]), ("4,250 GB/s by a copy", [("4,250", "GB/s")]),
        ("from 800 to 819 TFLOP/s", [("800", "TFLOP/s")]), ("at 1634 MHz and 690 W", [("1634", "MHz"), ("690", "W")]),
        ("it is 10.8 times slower", [("10.8", "factor")]), ("a factor of 27", [("27", "factor")]),
        ("27% slower, or 27 per cent", [("27", "%"), ("27", "per cent")]), ("it takes 0.3 ms", [("0.3", "ms")]),
        ("`804 TFLOP/s`, ```\n804 TFLOP/s\n``` and $804 W$", []), ("a 64 x 64 tile, 32 times read, 16 Ws", []),
        ("15 minutes to read", []),
    ],
)
def test_figures_are_found(text, figures) -> None:
    assert list(typed_figures(text)) == figures
