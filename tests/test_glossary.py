"""Every term is explained once, and a reader who meets it in a notebook is led there."""

import re

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers import glossary
from helpers.errors import ArgumentError
from helpers.glossary import GLOSSARY, TARGET, glossary_problems, link_problems, link_terms, read_glossary
from helpers.notebooks import canonicalise, read_notebook, write_notebook
from helpers.rungs import ROOT

ENTRIES = read_glossary()
SECTION = "https://docs.nvidia.com/cuda/parallel-thread-execution/index.html"

SMALL = f"""# Glossary

| subject | terms |
|---|---|
| all | [barrier](#barrier), [named barrier](#named-barrier), [phase of a request](#phase-of-a-request), [SM](#sm) |

## Terms

### barrier
<!-- forms: barriers; link: 03 -->

Threads wait, from rung 2 on. [PTX ISA: bar]({SECTION}#bar)

### named barrier

One with a number, in rung 10. [PTX ISA: bar]({SECTION}#bar)

### phase of a request
<!-- forms: phase; in: 03; link: bold -->

A part of a request, in rung 3. [PTX ISA: ld]({SECTION}#ld)

### <a id="sm"></a>SM

Runs CTAs, in all rungs. [PTX ISA: SM]({SECTION}#sm)
"""
USES = ["a barrier, a named barrier, a phase, an SM"]


@pytest.fixture
def small(tmp_path):
    """Reads entries from a text."""

    def read(text=SMALL):
        path = tmp_path / "glossary.md"
        path.write_text(text, encoding="utf-8")
        return read_glossary(path)

    return read


def notebook(*texts):
    return new_notebook(cells=[new_markdown_cell(text) for text in texts])


def linked(entries, *texts, number="02"):
    """The texts with links, an anchor in angle brackets in place of the whole target."""
    made = notebook(*texts)
    link_terms(made, entries, number)
    found = [re.sub(r"\]\(" + re.escape(TARGET) + r"#(\S+?)\)", r"]<\1>", cell.source) for cell in made.cells]
    return found[0] if len(texts) == 1 else found


# The course's own


def test_the_glossary_is_in_order():
    assert glossary_problems(ENTRIES, GLOSSARY.read_text(encoding="utf-8"), glossary.course_texts()) == []


@pytest.mark.parametrize("path", glossary.notebook_paths(), ids=lambda path: path.stem)
def test_terms_are_explained_and_linked(path):
    assert link_problems(read_notebook(path), ENTRIES, path.name[:2]) == []


def test_other_documents_link_to_entries_that_exist():
    anchors = {entry.anchor for entry in ENTRIES} | {"names-in-the-machine-code", "terms", "glossary"}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        targets = re.findall(r"glossary\.md#([\w-]+)", path.read_text(encoding="utf-8"))
        assert [name for name in targets if name not in anchors] == [], path.name


# Reading


def test_an_entry_says_how_it_is_written_and_where_it_is_linked(small):
    barrier, named, phase, sm = small()
    assert (barrier.term, barrier.anchor, barrier.forms) == ("barrier", "barrier", ("barrier", "barriers"))
    assert barrier.text == f"Threads wait, from rung 2 on. [PTX ISA: bar]({SECTION}#bar)"
    assert [entry.anchor for entry in (named, phase, sm)] == ["named-barrier", "phase-of-a-request", "sm"]
    assert phase.holds_in("03") and not phase.holds_in("05") and sm.holds_in("05")
    assert barrier.is_linked_in("03", bold=False) and not barrier.is_linked_in("04", bold=False)
    assert barrier.is_linked_in("04", bold=True) and sm.is_linked_in("04", bold=False)
    assert not phase.is_linked_in("03", bold=False)


@pytest.mark.parametrize("comment", ["form: barriers", "link: bald", "link: 3", "in: three", "forms"])
def test_a_comment_that_nobody_can_read_is_refused(small, comment):
    broken = SMALL.replace("forms: barriers; link: 03", comment)
    with pytest.raises(ArgumentError, match=r"glossary entry barrier has .*: write 'forms: \.\.\.'"):
        small(broken)


def test_a_missing_glossary_is_said_to_be_missing(tmp_path):
    with pytest.raises(ArgumentError, match=r"cannot be read .*: restore docs/glossary\.md from git"):
        read_glossary(tmp_path / "none.md")


# Linking


def test_the_bold_use_is_linked_and_stays_bold(small):
    text = "Barriers? A {} waits. A barrier."
    assert linked(small(), text.format("**barrier**")) == text.format("[**barrier**]<barrier>")


def test_without_a_bold_use_the_first_plain_one_is_linked(small):
    assert linked(small(), "An SM.", "The SM, the SM.") == ["An [SM]<sm>.", "The SM, the SM."]
    assert linked(small(), "Barriers, a barrier.", number="03") == "[Barriers]<barrier>, a barrier."
    assert linked(small(), "Barriers, a barrier.", number="04") == "Barriers, a barrier."


def test_the_longest_term_counts(small):
    text = "A **named barrier** and a **barrier**."
    assert linked(small(), text) == "A [**named barrier**]<named-barrier> and a [**barrier**]<barrier>."


def test_words_mean_a_term_only_in_its_notebooks(small):
    assert linked(small(), "A **phase**.", number="03") == "A [**phase**]<phase-of-a-request>."
    assert linked(small(), "A **phase**.", number="05") == "A **phase**."


@pytest.mark.parametrize(
    "text",
    [
        "# An SM",
        "`SM`",
        "``the `SM` ``",
        "```\nSM\n```",
        "$SM$",
        "| SM | 1 |",
        "[an SM](sm.md)",
        "![an SM](sm.png)",
        '<img alt="SM">',
        "SMs, an SM-like thing, _SM",
        "sm",
    ],
)
def test_code_headings_links_tables_and_other_words_are_left_alone(small, text):
    assert linked(small(), text) == text


def test_code_cells_are_left_alone(small):
    made = new_notebook(cells=[new_code_cell("# SM")])
    assert link_terms(made, small(), "02") == [] and made.cells[0].source == "# SM"


def test_two_bold_words_are_not_one(small):
    assert linked(small(), "**One** SM **two**") == "**One** [SM]<sm> **two**"


def test_linking_twice_changes_nothing_and_a_stale_link_moves(small):
    entries = small()
    made = notebook("An SM.", "The SM, a **barrier**.")
    assert link_terms(made, entries, "02") == ["SM", "barrier"]
    texts = [cell.source for cell in made.cells]
    assert link_terms(made, entries, "02") == ["SM", "barrier"]
    assert [cell.source for cell in made.cells] == texts
    made.cells.insert(0, new_markdown_cell("See the SM."))
    link_terms(made, entries, "02")
    assert [cell.source.count(TARGET) for cell in made.cells] == [1, 0, 1]


def test_a_link_made_by_hand_stays_and_counts(small):
    text = f"The [unit that runs them]({TARGET}#sm), an SM."
    made = notebook(text)
    assert link_terms(made, small(), "02") == []
    assert made.cells[0].source == text


# Checking


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("</a>SM", "</a>AM", r"the entry AM stands after phase of a request: put it in alphabetical order"),
        ('### <a id="sm"></a>SM', "### SM\n\nIn rung 1.\n\n### SM", r"the heading sm is there twice"),
        ('<a id="sm"></a>SM', "SM", r"the heading of SM must be '### <a id=\"sm\"></a>SM', so that JupyterLab"),
        ("### named", '### <a id="named"></a>named', r"the heading of named barrier must be '### named barrier', so"),
        ("[SM](#sm)", "[SM](#ms)", r"links to #ms, and has no such heading"),
        ("[SM](#sm)", "SM", r"the entry SM stands 0 times in the table of subjects"),
        (f"({SECTION}#sm)", "(https://docs.nvidia.com/)", r"the entry SM links to no section of PTX ISA"),
        (f"({SECTION}#sm)", f"({SECTION})", r"the entry SM links to no section of PTX ISA"),
        ("Runs CTAs,", "Runs CTAs.\n\nSo", r"the entry SM is not one paragraph"),
        ("Runs CTAs, in all rungs.", "Runs CTAs.", r"the entry SM names no rung"),
        ("</a>SM", "</a>SMX", r"nobody uses the entry SMX"),
    ],
)
def test_what_is_wrong_with_a_glossary_is_said(small, old, new, says):
    assert glossary_problems(small(), SMALL, USES) == []
    text = SMALL.replace(old, new)
    assert text != SMALL
    found = "\n".join(glossary_problems(small(text), text, USES))
    assert re.search(says, found), found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A **mutex**.", r"the term mutex is bold and not in docs/glossary\.md: add an entry"),
        ("An SM.", r"not linked at first use: SM; run `python -m helpers\.glossary link`"),
        (f"SM, [SM]({TARGET}#sm)", r"a term is not linked at its first use, in the text that begins 'SM, \["),
        (f"[SM]({TARGET}#sm), [SM]({TARGET}#sm)", r"#sm is linked twice"),
        (f"[it]({TARGET}#mutex)", r"a link leads to \.\./docs/glossary\.md#mutex, and the glossary has no such entry"),
        (f"[it]({TARGET}#phase-of-a-request)", r"a link leads to phase of a request, which 'in:' keeps out"),
        ("[it](docs/glossary.md#sm)", r"the link to docs/glossary\.md#sm must begin with \.\./docs/glossary\.md#"),
    ],
)
def test_what_is_wrong_with_a_notebook_is_said(small, text, says):
    found = "\n".join(link_problems(notebook(text), small(), "02"))
    assert re.search(says, found), found


def test_a_notebook_that_is_right_has_no_problems(small):
    text = f"**What you'll do.** An [SM]({TARGET}#sm).\n\n**02.1** A [**barrier**]({TARGET}#barrier). `**kwargs` `2**3`"
    assert link_problems(notebook(text), small(), "02") == []


def test_too_many_links_are_too_many(small, monkeypatch):
    monkeypatch.setattr(glossary, "MOST_LINKS", 1)
    text = f"[SM]({TARGET}#sm), [**barrier**]({TARGET}#barrier)"
    assert link_problems(notebook(text), small(), "02") == [
        "2 links to the glossary: at most 1; mark ordinary words 'link: bold'."
    ]


# Command line


def test_the_command_links_and_checks(tmp_path, capsys):
    path = tmp_path / "02_copy.ipynb"
    write_notebook(canonicalise(notebook("A CTA on an SM.", "A **mutex**.")), path)
    assert glossary.main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert "02_copy.ipynb: the term mutex is bold" in said and "not linked at first use: CTA, SM" in said
    assert glossary.main(["link", str(path)]) == 0
    assert capsys.readouterr().out == "02_copy.ipynb: 2 links: CTA, SM\n"
    assert read_notebook(path).cells[0].source == f"A [CTA]({TARGET}#cta) on an [SM]({TARGET}#sm)."


def test_a_missing_notebook_is_one_sentence(tmp_path, capsys):
    assert glossary.main(["link", str(tmp_path / "none.ipynb")]) == 1
    assert "does not exist" in capsys.readouterr().err
