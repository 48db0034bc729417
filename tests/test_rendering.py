"""Notebooks as nbviewer and GitHub show them: through nbconvert, without scripts, GitHub's also without styles.

What breaks there is mostly not seen in JupyterLab: a formula that is none, a table or a link left as its Markdown, an
image that is not there, a tag that is never closed and swallows the rest of the page.
"""

import base64
import io
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbconvert import HTMLExporter
from PIL import Image

from helpers.glossary import anchor
from helpers.notebook_checks import SECTIONS
from helpers.notebooks import read_notebook
from helpers.rungs import NOTEBOOK_DIR

NOTEBOOKS = sorted(NOTEBOOK_DIR.glob("*.ipynb"))
VOID = {"img", "br", "hr", "input", "meta", "link", "wbr", "col"}   # HTML: no closing tag
UNSEEN, VERBATIM = {"style", "script"}, {"code", "pre"}
NO_ALT = "No description has been provided for this image"           # nbconvert's own
FORMULA = re.compile(r"(?<!\\)(\$\$?)(?=\S)([^$]*?[^\s$])\1(?!\d)")   # as MathJax and GitHub find one
PNG = "data:image/png;base64,"


class Page(HTMLParser):
    """What a page shows. prose: its words outside of code. images: (src, alt). links: href. unclosed: tags."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.prose, self.headings, self.lines = "", [], []
        self.images: list[tuple[str, str]] = []
        self.links: list[str] = []
        self.unclosed: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attributes}
        if tag == "img":
            self.images.append((found.get("src", ""), found.get("alt", "")))
        if "href" in found and tag == "a":
            self.links.append(found["href"])
        if tag not in VOID:
            self._open.append(tag)
        if tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()
        elif tag not in VOID:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        inside = set(self._open)
        if inside & UNSEEN:
            return
        if "pre" in inside:
            self.lines += data.split("\n")
        if "h2" in inside:
            self.headings[-1] += data.removesuffix("¶")
        if not inside & VERBATIM:
            self.prose += data


@cache
def exporter() -> HTMLExporter:
    """nbconvert with its basic template: the cells, which nbviewer puts into its page."""
    return HTMLExporter(template_name="basic")


def rendered(notebook: nbformat.NotebookNode) -> Page:
    return Page(exporter().from_notebook_node(notebook)[0])


def problems(notebook: nbformat.NotebookNode, page: Page, folder: Path) -> Iterator[str]:
    """What would look broken on GitHub or nbviewer, a sentence each. page: of the notebook, which is in `folder`."""
    yield from (f"an image {problem}" for src, alt in page.images for problem in image_problems(src, alt, folder))
    yield from (f"a link {problem}" for href in page.links for problem in link_problems(href, folder))
    yield from prose_problems(page.prose)
    for number, cell in enumerate(notebook.cells, start=1):
        parts = ["".join(output.get("data", {}).get("text/html", "")) for output in cell.get("outputs", [])]
        if cell.cell_type == "markdown" and re.search(r"\\\\[([]", cell.source):
            yield f"cell {number} has a formula in brackets: GitHub knows those in dollars only."
        for part in [cell.source if cell.cell_type == "markdown" else "", *parts]:
            # nbconvert repairs what is not closed; GitHub may not
            if wrong := Page(re.sub(r"`[^`]*`", "", part)).unclosed:
                yield f"cell {number} leaves tags open or closes what is not open: {', '.join(wrong)}."
        for part in parts:
            if re.search(r"<(script|iframe|object|link)\b|\bon\w+\s*=\s*\"|url\(", part):
                yield f"cell {number} wants a script or something from elsewhere."
            if part.count('class="hm-line') > len(Page(part).lines):
                yield f"cell {number} shows lines of code that run together without its styles."


def image_problems(src: str, alt: str, folder: Path) -> Iterator[str]:
    if not alt.strip() or alt == NO_ALT:
        yield "has no alt text."
    if not src.startswith("data:"):
        if urlsplit(src).scheme or not (folder / unquote(src)).is_file():
            yield f"is not there: {src[:60]}."
        return
    try:
        Image.open(io.BytesIO(base64.b64decode(src.removeprefix(PNG), validate=True))).verify()
    except (ValueError, OSError, SyntaxError):
        yield f"does not open: {src[:40]}."


def link_problems(href: str, folder: Path) -> Iterator[str]:
    place = urlsplit(href)
    if place.scheme or not place.path:
        return
    path = folder / unquote(place.path)
    if not path.is_file():
        yield f"leads nowhere: {href}."
    elif place.fragment and path.suffix == ".md":
        headings = re.findall(r"^#+ (.*)", path.read_text(encoding="utf-8"), re.M)
        if place.fragment not in map(anchor, headings):
            yield f"leads to no heading: {href}."


def prose_problems(prose: str) -> Iterator[str]:
    """Markdown that was not understood, and formulas that are none."""
    for line in prose.split("\n"):
        rest = FORMULA.sub("", line)
        formulas = [match[2] for match in FORMULA.finditer(line)]
        if any(text.count("{") != text.count("}") for text in formulas):
            yield f"a formula has braces that don't match: {line[:60]!r}."
        if re.search(r"(?<!\\)\$", rest):
            yield f"a dollar that may begin a formula: {line[:60]!r}."
        if re.search(r"\\[a-zA-Z]{2,}", rest):
            yield f"a formula outside of dollars: {line[:60]!r}."
        if re.search(r"!?\[[^\]]+\]\(|\*\*|^\s*#+ |^\s*\|.*\||^```", rest):
            yield f"Markdown that is shown as it is written: {line[:60]!r}."
        if re.search(r"</?[a-z]+[ >/]", rest):
            yield f"a tag that is shown as text: {line[:60]!r}."


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_is_broken_on_github_and_nbviewer(path):
    notebook = read_notebook(path)
    page = rendered(notebook)
    assert list(problems(notebook, page, path.parent)) == []
    assert [title for title in page.headings if title in SECTIONS] == list(SECTIONS)
    assert len(page.images) == sum(
        "".join(output.get("data", {}).get("text/html", "")).count("<img")
        for cell in notebook.cells for output in cell.get("outputs", [])
    ) >= 4   # each picture once, none as its text  # fmt: skip


def of_markdown(text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])


def of_output(html: str) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": "words"})
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])])


def pixel() -> str:
    data = io.BytesIO()
    Image.new("RGB", (1, 1)).save(data, format="png")
    return PNG + base64.b64encode(data.getvalue()).decode()


BROKEN = [
    (of_markdown("It costs $5, or $6."), "a dollar that may begin a formula"),
    (of_markdown(r"$C = A B$ and $\frac{1}{2$ more"), "braces that don't match"),
    (of_markdown(r"So \frac{1}{2} of it."), "outside of dollars"),
    (of_markdown(r"So \\(x\\) of it."), "a formula in brackets"),
    (of_markdown("|a|b|\n|--|\n|1|2|"), "Markdown that is shown"),
    (of_markdown("See [this](no such file)."), "Markdown that is shown"),
    (of_markdown("Or **this"), "Markdown that is shown"),
    (of_markdown("![words](missing.png)"), "an image is not there"),
    (of_markdown("![words](https://example.org/x.png)"), "an image is not there"),
    (of_markdown("![](../docs/ladder.svg)"), "an image has no alt text"),
    (of_markdown("[x](../docs/none.md)"), "a link leads nowhere"),
    (of_markdown("[x](../docs/glossary.md#no-such-word)"), "a link leads to no heading"),
    (of_markdown("Some <b>words"), "leaves tags open"),
    (of_output("<div><p>words</p>"), "leaves tags open"),
    (of_output("words</div>"), "leaves tags open"),
    (of_output("<script>1</script>"), "wants a script"),
    (of_output(f'<img src="{pixel()}">'), "an image has no alt text"),
    (of_output('<img src="data:image/png;base64,AAAA" alt="words">'), "an image does not open"),
    (of_output(f'<img src="{pixel()[:-24]}" alt="words">'), "an image does not open"),
    (of_output('<div><span class="hm-line">a</span><span class="hm-line">b</span></div>'), "run together"),
    (of_output("&lt;img src='x'&gt; as text"), "a tag that is shown as text"),
]


@pytest.mark.parametrize(("notebook", "says"), BROKEN, ids=[f"{i}-{says}" for i, (_, says) in enumerate(BROKEN)])
def test_what_is_broken_is_seen(notebook, says):
    found = list(problems(notebook, rendered(notebook), NOTEBOOK_DIR))
    assert any(says in problem for problem in found), found


def test_what_is_whole_passes():
    good = r"$C_{mn} = \sum_k A_{mk} B_{kn}$ and $$x^2$$ in `$HOME/**`: [words](../docs/glossary.md#cluster)."
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    for notebook in (of_markdown(f"{good}\n\n{table}"), of_output(f'<p><img src="{pixel()}" alt="words"></p>')):
        assert list(problems(notebook, rendered(notebook), NOTEBOOK_DIR)) == []
