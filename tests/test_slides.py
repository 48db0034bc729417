"""Slides: one file each, which loads nothing, and holds everything that the notebook shows."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest

from helpers.cli import main
from helpers.errors import ArgumentError
from helpers.notebook_checks import SECTIONS
from helpers.notebooks import read_notebook, write_notebook
from helpers.rungs import RUNGS
from helpers.slides import POLICY, export, page, split

LOADING = {"src", "srcset", "poster", "data", "background", "formaction", "action", "manifest", "ping"}


class Reader(HTMLParser):
    """Collects what a page would load, where its links lead, and how many slides and images it has."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.links, self.alts, self.slides, self.policy, self.tags = [], [], [], 0, None, set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.tags.add(tag)
        self.loads += [value for name, value in attributes if name in LOADING and not (value or "").startswith("data:")]
        if tag == "link":
            self.loads.append(values.get("href"))
        if tag == "a":
            self.links.append(values.get("href"))
        if tag == "img":
            self.alts.append(values.get("alt"))
        if tag == "section":
            self.slides += 1
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


def code(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


def text(source):
    return nbformat.v4.new_markdown_cell(source)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("slides")


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_slides_of_a_notebook_load_nothing_and_leave_nothing_out(rung, folder):
    written = export(rung.notebook, folder)
    source = written.read_text(encoding="utf-8")
    reader = Reader(source)
    assert reader.loads == [] and not reader.tags & {"link", "iframe", "object", "embed", "base", "frame"}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|import\(|importScripts", source)
    assert reader.policy == POLICY and "'none'" in POLICY and "http" not in POLICY
    notebook = read_notebook(rung.notebook)
    assert reader.slides == len(split(notebook)) >= 10
    for section in SECTIONS:
        assert f"<h2>{section}</h2>" in source
    pictures = sum("<img" in output.get("data", {}).get("text/html", "") for cell in notebook.cells
                   for output in cell.get("outputs", []))
    assert len(reader.alts) == pictures and all(reader.alts)


def test_links_lead_to_the_other_slides_and_to_where_they_led(tmp_path):
    home = tmp_path / "course" / "notebooks"
    (home.parent / "docs").mkdir(parents=True)
    (home.parent / "docs" / "glossary.md").write_text("#")
    words = "# T\n\n[next](02_b.ipynb) [term](../docs/glossary.md#warp)"
    words += " [web](https://example.org/x.ipynb) [here](#goal)"
    write_notebook(notebook_of(text(words)), home / "01_a.ipynb")
    written = export(home / "01_a.ipynb", home.parent / "build" / "slides")
    links = Reader(written.read_text()).links
    assert links == ["02_b.html", "../../docs/glossary.md#warp", "https://example.org/x.ipynb", "#goal"]
    assert (written.parent / links[1].partition("#")[0]).exists()


def test_a_slide_begins_at_a_text_and_at_a_section_within_it():
    cells = (text("# Title\n\nwords\n\n## Goal\n\nmore"), code("a = 1"), code("b = 2"), text("then"), code("c = 3"))
    slides = split(notebook_of(*cells))
    assert [slide.text.split("\n")[0] for slide in slides] == ["# Title", "## Goal", "then"]
    assert [[cell.source for cell in slide.work] for slide in slides] == [[], ["a = 1", "b = 2"], ["c = 3"]]
    assert split(notebook_of(code("first")))[0].work[0].source == "first"


def test_words_on_what_was_shown_stay_with_it():
    cells = (text("# T"), text("look:"), code("plot()"), text("You see it.\n\n## Next\n\nand on"), text("the end"))
    slides = split(notebook_of(*cells))
    words = ["# T", "look:\n\n---\n\nYou see it.", "## Next\n\nand on\n\n---\n\nthe end"]
    assert [slide.text.strip().replace("\n\n\n", "\n\n") for slide in slides] == words


def test_what_a_program_prints_is_text_and_an_open_exercise_says_nothing():
    printed = nbformat.v4.new_output("stream", name="stdout", text="a < b <script>alert(1)</script>\n")
    open_answer = nbformat.v4.new_output("stream", name="stdout", text="01.1 open: put your answer in place.\n")
    source = page(notebook_of(text("# T"), code("if a < b: pass", printed), code("check()", open_answer)), "T <b>")
    assert "a &lt; b &lt;script&gt;" in source and "<title>T &lt;b&gt;</title>" in source
    assert "01.1 open" not in source and source.count("<script>") == 1


def test_an_image_keeps_its_alt_text():
    data = {"image/png": "iVBORw0KGgo=\n", "text/plain": 'two "bars"'}
    source = page(notebook_of(code("plot()", nbformat.v4.new_output("display_data", data=data))), "T")
    assert Reader(source).alts == ['two "bars"']


def test_the_command_writes_files_and_refuses_in_a_sentence(tmp_path, capsys):
    assert main(["slides", "1", "02", "--output-dir", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["01_coalescing.html", "02_smem_tiling.html"]
    (tmp_path / "taken" / "01_coalescing.html").mkdir(parents=True)
    assert main(["slides", "1", "--output-dir", str(tmp_path / "taken")]) == 1
    assert "cannot be written" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="does not exist"):
        export(Path(tmp_path / "none.ipynb"), tmp_path)
