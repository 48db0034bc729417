"""Listings: the right lines are marked, the text is whole without styles, little is folded."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from picture_checks import contrast, luminance

from helpers import source_view
from helpers.errors import ArgumentError
from helpers.notebooks import read_notebook
from helpers.rungs import NOTEBOOK_DIR, RUNGS, find_rung
from helpers.source_view import foldable, show_function, show_lines, show_sass, show_source


class Text(HTMLParser):
    """The text of a page with styles stripped, and proof that its tags are balanced."""

    def __init__(self):
        super().__init__()
        self.text, self.open, self.skip = "", [], False

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
            assert "{" not in data or "hm-view" not in data


def text_of(view) -> str:
    parser = Text()
    parser.feed(view.data)
    assert parser.open == []
    return parser.text


def pair(tmp_path, monkeypatch, old: str, new: str):
    """Two rungs, 1 and 2, whose kernels are these texts."""
    rungs = []
    for number, text in enumerate((old, new), 1):
        path = tmp_path / f"{number:02d}_x.cu"
        path.write_text(text)
        rungs.append(SimpleNamespace(number=number, path=path, name=path.stem, entry="f", twins=()))
    monkeypatch.setattr(source_view, "find_rung", lambda name: name if not isinstance(name, int) else rungs[name - 1])
    monkeypatch.setattr(source_view, "base_of", lambda rung: rungs[0] if rung.number > 1 else None)
    return rungs


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_whole_file_is_there_as_text_without_styles(rung):
    for view in (show_source(rung), show_source(rung.number, fold=False)):
        text = text_of(view)
        for number, line in enumerate(rung.path.read_text().splitlines(), 1):
            assert re.search(rf"(?m)^ *{number} [+ ] {re.escape(line)}$", text) or line == "", (number, line)
    assert repr(show_source(rung)).count("\n") == len(rung.path.read_text().splitlines())


def test_new_lines_carry_a_sign_and_a_colour(tmp_path, monkeypatch):
    pair(tmp_path, monkeypatch, "a();\nb();\nc();\n", "a();\nif (x)\n    b();\n\nd<1>();\n")
    view = show_source(2)
    assert str(repr(view)).splitlines()[1:] == ["1   a();", "2 + if (x)", "3       b();", "4   ", "5 + d<1>();"]
    assert view.data.count('class="hm-line hm-mark"') == view.data.count(source_view.MARK_STYLE) == 2
    assert "2 of 5 lines new or changed since 01_x.cu (+), 1 lines of it gone" in text_of(view)
    assert "d<1>" in text_of(view)


def test_the_first_rung_marks_nothing_and_since_chooses_the_base():
    assert "+ " not in {line[3:5] for line in repr(show_source(1)).splitlines()}
    assert "since" not in repr(show_source(1)).splitlines()[0]
    assert "since 01_coalescing.cu" in repr(show_source(3, since=1))
    assert "0 of" in repr(show_source(2, since=2))
    assert "since 07_pipelining.cu" in repr(show_source("appendix_split_k"))
    for name in ("appendix_fitted_tiles", "appendix_partitions"):
        assert "since 10_clusters.cu" in repr(show_source(name))


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_at_most_15_percent_of_the_unchanged_lines_are_folded(rung):
    base = find_rung(1)
    marked = [number in source_view.changed_lines(rung, base) for number in range(1, len(rung.path.read_text()))]
    folded = sum(stop - start for start, stop in foldable(marked))
    assert folded <= 0.15 * marked.count(False)


def test_folds_keep_their_distance_from_changes():
    marked = [False] * 60 + [True] + [False] * 39
    folds = foldable(marked)
    assert sum(stop - start for start, stop in folds) == 14   # 15% of 99, rounded down
    assert all(not any(marked[start - 3 : stop + 3]) for start, stop in folds)
    assert foldable([True] * 50) == foldable([]) == foldable([False] * 20) == []


def test_folds_are_shown_as_details(tmp_path, monkeypatch):
    same = "".join(f"line({i});\n" for i in range(60))
    pair(tmp_path, monkeypatch, same, same + "end();\n")
    assert "<summary>lines " in show_source(2).data
    assert "<summary>" not in show_source(2, fold=False).data
    assert text_of(show_source(2)).count("line(") == 60


def test_an_entry_is_shown_with_its_comment():
    text = repr(show_source(1, entry="matmul_uncoalesced"))
    assert "matmul_uncoalesced(" in text and "The lanes of a warp lie along a column" in text
    assert "lie along a row of C" not in text and text.rstrip().endswith("}")
    plain = repr(show_source(1, entry="matmul"))
    assert "matmul(" in plain and "lie along a row of C" in plain and "matmul_uncoalesced(" not in plain
    with pytest.raises(ArgumentError, match="entry 'nothing' is not in 01_coalescing.cu"):
        show_source(1, entry="nothing")


def test_show_lines():
    first_line = find_rung(1).path.read_text().splitlines()[0]
    assert repr(show_lines(1, 1, 1)).splitlines()[1] == "1   " + first_line
    bad = ((0, 3, "first is 0"), (1, 10_000, "last is 10000"), (5, 4, "the earlier"), ("1", 2, "first is .1."))
    for first, last, says in bad:
        with pytest.raises(ArgumentError, match=says):
            show_lines(1, first, last)


def test_show_sass_marks_matches():
    sass = "\n".join(f"/*{i:04x}*/ {'HGMMA' if i == 50 else 'FFMA'} R{i}, R<{i}> ;" for i in range(100))
    view = show_sass(sass, highlight="HGMMA")
    assert "100 lines of machine code, 1 with HGMMA (>)" in text_of(view)
    assert " 51 > /*0032*/ HGMMA R50, R<50> ;" in text_of(view)
    near = repr(show_sass(sass, highlight="HGMMA", context=2)).splitlines()
    assert [line.split()[0] for line in near[1:]] == ["49", "50", "51", "52", "53"]
    assert "0 lines" in repr(show_sass(""))
    with pytest.raises(ArgumentError, match="no regular expression"):
        show_sass(sass, highlight="(")


@pytest.mark.parametrize("page", [1, 2], ids=["light", "dark"])
def test_colours_stand_out_on_plain_and_on_marked_lines(page):
    red, green, blue, alpha = map(float, re.search(r"rgba\((.*?)\)", source_view.MARK_STYLE)[1].split(","))
    below = {1: 255, 2: 17}[page]   # JupyterLab's pages, white and #111111
    marked = np.array([red, green, blue]) * alpha + below * (1 - alpha)
    for classes, colors in source_view.TOKENS.items():
        ink = luminance(np.array(to_rgb(colors[page])))
        for paper in (np.full(3, below), marked):
            assert contrast(ink, luminance(paper / 255)) >= 4.5, classes
        assert f"{source_view.PAGES[page]}.hm-view :is({classes}) {{ color: {colors[page]}; }}" in source_view.STYLE


def test_committed_listings_have_these_colours():
    for path in sorted(NOTEBOOK_DIR.glob("*.ipynb")):
        for cell in read_notebook(path).cells:
            for output in cell.get("outputs", []):
                text = "".join(output.get("data", {}).get("text/html", ""))
                assert ("hm-view" in text) == (source_view.STYLE in text), f"{path.name} {cell.id}: run it again"


def test_unknown_rung_is_a_sentence():
    with pytest.raises(ArgumentError, match="rung '99'"):
        show_source(99)


def test_show_function_shows_a_wrapper_with_its_comment_and_folds_its_registers():
    view = show_function("wgmma_m64n128k16")
    text = text_of(view)
    assert "kernels/hopper.cuh, wgmma_m64n128k16" in repr(view).splitlines()[0]
    assert "// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16" in text and "template <Major" in text
    assert "setp.ne.b32 accumulate, %66, 0;" in text and '"+f"(d[63])' in text   # folded lines stay in the text
    assert view.data.count("<details>") == 2 and ", registers</summary>" in view.data
    assert repr(view).rstrip().endswith("}") and "m64n192k16" not in text


@pytest.mark.parametrize("name, last", [("fence_proxy_async", "}"), ("wgmma_wait_group", "}"), ("mapa", "}")])
def test_show_function_of_any_length(name, last):
    view = show_function(name)
    assert repr(view).endswith(last) and repr(view).count("__device__") == 1 and "// " in repr(view)


def test_show_function_names_those_there_are():
    with pytest.raises(ArgumentError, match="function 'wgmma' is not in hopper.cuh: give one of shared_address, mapa"):
        show_function("wgmma")
