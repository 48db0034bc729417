"""The notebooks keep their promises, and the tools that run and check them can say no."""

import base64
import json
import struct
import sys
import zlib
from pathlib import Path

import nbformat
import pytest

from helpers import notebook_checks
from helpers import notebooks as tools
from helpers.errors import ArgumentError
from helpers.rungs import NOTEBOOK_DIR, RUNGS

NOTEBOOKS = sorted(NOTEBOOK_DIR.glob("*.ipynb"))


def one_pixel() -> str:
    """A PNG of one white pixel, base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff")) + chunk(b"IEND", b"")
    return base64.b64encode(png).decode()


def good_notebook() -> nbformat.NotebookNode:
    """The smallest notebook that passes every check."""
    cells = [nbformat.v4.new_markdown_cell("# 1. A title", id="title")]
    for index, section in enumerate(notebook_checks.SECTIONS):
        cells.append(nbformat.v4.new_markdown_cell(f"## {section}\n\n" + "word " * 100, id=f"text-{index}"))
        cells.append(nbformat.v4.new_code_cell(f"{index}", id=f"code-{index}", execution_count=index + 1))
        output = nbformat.v4.new_output("execute_result", {"text/plain": str(index)}, execution_count=index + 1)
        cells[-1].outputs = [output]
    cells.append(nbformat.v4.new_markdown_cell("![a plot of nothing](nothing.png)", id="end"))
    return tools.canonicalise(nbformat.v4.new_notebook(cells=cells))


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        *notebook_checks.structure_problems(notebook),
        *notebook_checks.output_problems(notebook),
        *notebook_checks.execution_problems(notebook),
    ]


def image(alt: str | None) -> nbformat.NotebookNode:
    data = {"image/png": one_pixel(), "text/plain": "<Figure>"}
    metadata = {} if alt is None else {"image/png": {"alt": alt}}
    return nbformat.v4.new_output("display_data", data, metadata=metadata)


# The project's own notebooks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_keeps_its_promises(path):
    assert tools.problems(path) == []


@pytest.mark.skipif(not NOTEBOOKS, reason="no notebook is written yet")
def test_every_rung_has_its_notebook_and_no_other_is_there():
    assert [path.name for path in NOTEBOOKS] == [rung.notebook.name for rung in RUNGS]


# The checks


def test_a_good_notebook_has_no_problems():
    assert problems(good_notebook()) == []


def test_an_appendix_may_follow_the_last_section_and_stand_nowhere_else():
    notebook = good_notebook()
    notebook.cells[-1].source += "\n\n## Appendix: more"
    assert problems(notebook) == []
    text = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    missing = notebook_checks.WORDS_WITH_APPENDIX - sum(notebook_checks.word_count(cell.source) for cell in text)
    text[1].source += " word" * missing
    assert problems(notebook) == []
    text[1].source += " word"
    assert problems(notebook) == ["2126 words of text; 800 to 2125 are allowed."]
    notebook.cells[-1].source += "\n\n## Appendix: and more"
    assert "an appendix may follow" in problems(notebook)[0]
    notebook = good_notebook()
    notebook.cells[1].source = "## Appendix: first\n\n" + notebook.cells[1].source
    assert "the sections are Appendix: first, Goal" in problems(notebook)[0]


def change(**fields):
    def apply(notebook, index):
        for name, value in fields.items():
            notebook.cells[index][name] = value

    return apply


def with_output(output):
    return change(outputs=[output])


STREAM = nbformat.v4.new_output


@pytest.mark.parametrize(
    ("index", "apply", "says"),
    [
        (0, change(source="No title"), "cell 1 must be"),
        (1, change(source="## Aim\n\n" + "word " * 100), "the sections are Aim"),
        (1, change(source="## Goal\n\n" + "word " * 1100), "words of text"),
        (2, change(source="\n".join(["0"] * 16)), "cell 3 has 16 lines"),
        (2, change(execution_count=None), "not all run once"),
        (4, change(execution_count=1), "not all run once"),
        (19, change(source="![](nothing.png)"), "cell 20 shows an image without alt"),
        (19, change(source='<img src="nothing.png">'), "cell 20 shows an image without alt"),
        (2, with_output(STREAM("error", ename="ValueError", evalue="no", traceback=[])), "error output (ValueError)"),
        (2, with_output(STREAM("stream", name="stderr", text="careful\n")), "a warning or log line"),
        (2, with_output(STREAM("stream", name="stdout", text="a\n" + "b" * 121)), "a printed line of 121 characters"),
        (2, with_output(STREAM("stream", name="stdout", text="in /home/" + "ada/x.py\n")), "an absolute path"),
        (2, with_output(STREAM("stream", name="stdout", text="in C:" + "\\Users\n")), "an absolute path"),
        (2, with_output(STREAM("stream", name="stdout", text="<f at 0x7f00deadbeef>")), "an object's address"),
        (2, with_output(STREAM("display_data", {"application/vnd.jupyter.widget-view+json": {}})), "a widget"),
        (2, with_output(image(None)), "an image without alt text"),
        (2, with_output(image("")), "an image without alt text"),
        (2, with_output(STREAM("display_data", {"text/html": "<img src='x'>"})), "an image without alt text"),
        (2, with_output(STREAM("display_data", {"text/html": "<img src='x' alt=''>"})), "an image without alt text"),
    ],
)
def test_each_check_says_no(index, apply, says):
    notebook = good_notebook()
    apply(notebook, index)
    found = problems(notebook)
    assert any(says in problem for problem in found), found


@pytest.mark.parametrize(
    "output",
    [
        image("a white pixel"),
        STREAM("display_data", {"text/html": '<img alt="a white pixel" src="data:image/png;base64,/usr/lib/AAAA">'}),
        STREAM("display_data", {"text/html": "<p>M/N and sectors/request, 3 // 4, see https://docs.nvidia.com/usr/x</p>"}),
    ],
)
def test_good_outputs_pass(output):
    notebook = good_notebook()
    notebook.cells[2].outputs = [output]
    assert problems(notebook) == []


def test_too_few_words_are_a_problem():
    notebook = good_notebook()
    for index in (1, 3):
        notebook.cells[index].source = notebook.cells[index].source.split("\n")[0]
    assert any("words of text" in problem for problem in problems(notebook))


def test_headings_in_code_blocks_are_no_sections():
    text = "## Goal\n```\n## not this\n```\n### nor this\n## Next ##\n"
    assert notebook_checks.section_titles(text) == ["Goal", "Next"]


def test_words_of_code_links_and_formulas_do_not_count():
    text = "Two [words](https://example.invalid/a/b)\n\n```python\nnot these\n```\n$a + b$ <br>"
    assert notebook_checks.word_count(text) == 2


# The form on disk


def test_canonical_form_is_a_fixed_point(tmp_path):
    path = tmp_path / "a.ipynb"
    tools.write_notebook(good_notebook(), path)
    first = path.read_bytes()
    tools.write_notebook(tools.read_notebook(path), path)
    assert path.read_bytes() == first
    assert tools.is_canonical(path)
    assert first.endswith(b"}\n") and b'\n "cells"' in first


def test_canonical_form_removes_what_editors_leave(tmp_path):
    notebook = good_notebook()
    notebook.metadata = {
        "kernelspec": {"name": "mine", "display_name": "Mine"},
        "language_info": {"name": "python", "version": "3.12"},
        "widgets": {},
    }
    notebook.cells[2].metadata = {"tags": ["keep"], "collapsed": True, "execution": {"start": "now"}}
    notebook.cells[2].execution_count = 40
    notebook.cells[2].outputs[0].execution_count = 40
    notebook.cells[4].id = notebook.cells[2].id
    notebook.cells[3].source += "\n\n"
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook))
    assert not tools.is_canonical(path)
    clean = tools.canonicalise(notebook)
    assert clean.metadata == tools.METADATA
    assert clean.cells[2].metadata == {"tags": ["keep"]}
    assert clean.cells[2].execution_count == clean.cells[2].outputs[0].execution_count == 1
    assert len({cell.id for cell in clean.cells}) == len(clean.cells)
    assert not clean.cells[3].source.endswith("\n")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"cells": 3}', b"[1, 2]", b"null", b'{"nbformat": 99}'])
def test_a_damaged_notebook_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    with pytest.raises(ArgumentError, match="a.ipynb") as caught:
        tools.read_notebook(path)
    assert "\n" not in str(caught.value)


def test_command_line(tmp_path, capsys):
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(good_notebook()))
    assert tools.main(["check", str(path)]) == 1
    assert "canonical" in capsys.readouterr().out
    assert tools.main(["canonicalise", str(path)]) == 0
    assert tools.main(["check", str(path)]) == 0
    assert tools.main(["check", str(tmp_path / "none.ipynb")]) == 1
    assert "does not exist" in capsys.readouterr().err


# Running


def notebook_of(*sources: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_a_run_uses_this_python_and_the_notebooks_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "nowhere"))
    source, out = tmp_path / "é a.ipynb", tmp_path / "out put"
    cells = (
        "import os, sys\nprint(sys.executable)\nprint(os.getcwd())",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "import helpers",
    )
    nbformat.write(notebook_of(*cells), source)
    before = source.read_bytes()
    written = tools.run_notebook(source, out, timeout=120)
    assert written == out / source.name and source.read_bytes() == before
    result = tools.read_notebook(written)
    assert tools.is_canonical(written)
    printed = result.cells[0].outputs[0].text.splitlines()
    assert [Path(line) for line in printed] == [Path(sys.executable), NOTEBOOK_DIR]
    assert any("image/png" in output.get("data", {}) for output in result.cells[1].outputs)  # despite MPLBACKEND=Agg
    assert notebook_checks.execution_problems(result) == []


def test_links_to_the_docs_lead_there_from_the_output_folder_too(tmp_path, monkeypatch):
    project = tmp_path / "pröject one"
    for folder in ("docs", "notebooks"):
        (project / folder).mkdir(parents=True)
    (project / "docs" / "glossary.md").write_text("words")
    monkeypatch.setattr(tools, "NOTEBOOK_DIR", project / "notebooks")
    path = project / "notebooks" / "x.ipynb"
    tools.write_notebook(notebook_of("1"), path)
    for _ in range(2):
        target = tools.run_notebook(path, project / "build" / "notebooks")
        assert (target.parent / "../docs/glossary.md").read_text() == "words"
    assert (project / "build" / "docs").readlink() == Path("../docs"), "it moves with the project"
    tools.run_notebook(path, tmp_path / "elsewhere")
    tools.run_notebook(path, project / "notebooks")
    assert not (tmp_path / "docs").exists() and not (project / "docs").is_symlink()
    (project / "own" / "docs").mkdir(parents=True)
    tools.run_notebook(path, project / "own" / "notebooks")
    assert not (project / "own" / "docs").is_symlink(), "what is there stays"


def test_a_failing_cell_is_named_and_the_source_kept(tmp_path):
    source = tmp_path / "bad.ipynb"
    nbformat.write(notebook_of("print('before')", "1 / 0", "print('after')"), source)
    before = source.read_bytes()
    with pytest.raises(tools.NotebookError, match="bad.ipynb failed in cell 2 .ZeroDivisionError"):
        tools.run_notebook(source, tmp_path, timeout=60)
    assert source.read_bytes() == before
    with pytest.raises(tools.NotebookError):
        tools.run_notebook(source, tmp_path / "out", timeout=60)
    assert "before" in (tmp_path / "out" / "bad.ipynb").read_text()


def test_a_hanging_or_dying_cell_ends_in_a_sentence(tmp_path):
    hanging, dying = tmp_path / "hanging.ipynb", tmp_path / "dying.ipynb"
    nbformat.write(notebook_of("1", "import time; time.sleep(60)"), hanging)
    nbformat.write(notebook_of("import os; os._exit(3)"), dying)
    with pytest.raises(tools.NotebookError, match="more than 2 s"):
        tools.run_notebook(hanging, tmp_path / "out", timeout=2)
    with pytest.raises(tools.NotebookError, match="process died"):
        tools.run_notebook(dying, tmp_path / "out", timeout=60)


def test_an_unwritable_output_folder_is_refused_before_the_run(tmp_path):
    source = tmp_path / "a.ipynb"
    nbformat.write(notebook_of("1"), source)
    (tmp_path / "taken" / "a.ipynb").mkdir(parents=True)
    with pytest.raises(ArgumentError, match="output folder .* cannot be written"):
        tools.run_notebook(source, tmp_path / "taken")
