"""Slides from a notebook: one HTML file that holds everything, so that a lecture hall needs no network.

A slide is a text with the code cells that follow it, and the words on what they showed; a section's heading begins a
new slide. Text stands on the left, code and what it printed or drew on the right. Arrow keys, space, Home and End move;
the address keeps the place.
nbconvert's own slides load reveal.js, fonts and MathJax from the web, which is why they are not used.
"""

import html
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import mistune
from nbformat import NotebookNode
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from helpers.checks import checked_folder, checked_path
from helpers.errors import ArgumentError
from helpers.files import write_whole
from helpers.notebooks import read_notebook

# What a browser may do with the file: nothing but show what is in it.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
OPEN_ANSWER = re.compile(r"^\d\d\.\d+ open: .*$\n?", re.MULTILINE)   # no news on a slide

STYLE = """
:root { color-scheme: light dark; --page: #fdfcf9; --ink: #1a1a1a; --soft: #66645e; --line: #dcd9d0; --code: #f3f1ea; }
@media (prefers-color-scheme: dark) {
  :root { --page: #1b1c1e; --ink: #ebe9e4; --soft: #a9a69e; --line: #3b3c40; --code: #26282b; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 1.25rem/1.45 system-ui, sans-serif; }
section { display: none; box-sizing: border-box; height: 100vh; padding: 1.6rem 2.4rem 3rem; overflow: auto; }
section.now { display: flex; gap: 2.4rem; }
section > div { flex: 1 1 0; min-width: 0; }
section > .text { flex-grow: 0.8; }
section > .text:only-child { max-width: 60rem; margin: 0 auto; }
section > .work { font-size: 1rem; }
h1, h2 { line-height: 1.15; margin: 0 0 0.6em; }
a { color: inherit; }
hr { border: 0; border-top: 1px solid var(--line); margin: 1em 0; }
.text > :first-child { margin-top: 0; }
img { max-width: 100%; height: auto; }
pre { margin: 0 0 0.8em; white-space: pre-wrap; overflow-wrap: anywhere; font: 0.9em/1.4 ui-monospace, monospace; }
pre.source { padding: 0.6em 0.8em; background: var(--code); border-radius: 4px; }
code { font-family: ui-monospace, monospace; font-size: 0.92em; }
footer { position: fixed; right: 1rem; bottom: 0.5rem; color: var(--soft); font-size: 0.9rem; }
.highlight .k, .highlight .kn, .highlight .ow { font-weight: bold; }
.highlight .c1, .highlight .s1, .highlight .s2 { color: var(--soft); }
@media (max-width: 60rem) { section.now { display: block; } }
@media print {
  section, section.now { display: flex; gap: 2rem; height: auto; break-after: page; } footer { display: none; }
}
"""
SCRIPT = """
const slides = [...document.querySelectorAll("section")], place = document.querySelector("footer");
let now = 0;
function show(number) {
  now = Math.max(0, Math.min(slides.length - 1, number));
  slides.forEach((slide, index) => slide.classList.toggle("now", index === now));
  place.textContent = `${now + 1} / ${slides.length}`;
  history.replaceState(null, "", `#${now + 1}`);
}
addEventListener("keydown", (event) => {
  const to = { ArrowRight: now + 1, " ": now + 1, PageDown: now + 1, ArrowLeft: now - 1, PageUp: now - 1,
               Home: 0, End: slides.length - 1 }[event.key];
  if (to !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); show(to); }
});
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
show(Number(location.hash.slice(1)) - 1 || 0);
"""


@dataclass
class Slide:
    """text: Markdown of the left side. work: the code cells of the right side."""

    text: str
    work: list[NotebookNode] = field(default_factory=list)


def split(notebook: NotebookNode) -> list[Slide]:
    """The slides of a notebook: a new one at every text cell, and at every section's heading within one.

    A text that no code follows, and that opens no section, is about what was shown before it: it goes there.
    """
    slides: list[Slide] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            slides += [Slide(part) for part in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE) if part.strip()]
        elif cell.cell_type == "code" and cell.source.strip():
            if not slides:
                slides.append(Slide(""))
            slides[-1].work.append(cell)
    joined: list[Slide] = []
    for slide in slides:
        if joined and not slide.work and not slide.text.startswith("#"):
            joined[-1].text += f"\n\n---\n\n{slide.text}"
        else:
            joined.append(slide)
    return joined


def page(notebook: NotebookNode, title: str, links: dict[str, str] | None = None) -> str:
    """The slides as one HTML text, which refers to no file and no address, apart from links to click.

    links: what the targets of links become, for those that are to change.
    """
    render = mistune.create_markdown(escape=False, plugins=["table"])
    sections = "\n".join(_section(slide, render, links or {}) for slide in split(notebook))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{sections}\n"
        f"<footer></footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def export(path: Path, directory: Path) -> Path:
    """Write the slides of a notebook, as it is with its outputs, to `directory`. Returns the file.

    Links to other notebooks become links to their slides, other relative ones lead to where they led before.
    Raises ArgumentError if the notebook cannot be read or the folder cannot be written.
    """
    path, directory = checked_path("path", path), checked_folder("directory", directory)
    notebook = read_notebook(path)
    target = directory / f"{path.stem}.html"
    try:
        return write_whole(target, page(notebook, path.stem, _links(notebook, path.parent, directory)))
    except OSError as error:
        raise ArgumentError(
            f"The output folder {directory} cannot be written ({error.strerror}): give another with --output-dir."
        ) from None


def _links(notebook: NotebookNode, home: Path, directory: Path) -> dict[str, str]:
    """Relative link -> what it is in the folder of the slides."""
    found = {}
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for link in re.findall(r"\]\(([^)\s]+)\)", cell.source):
            name, mark, anchor = link.partition("#")
            if "://" in name or not name:
                continue
            if name.endswith(".ipynb") and "/" not in name:
                found[link] = f"{name.removesuffix('.ipynb')}.html"
            else:
                found[link] = os.path.relpath(home.resolve() / name, directory.resolve()) + mark + anchor
    return found


def _section(slide: Slide, render: mistune.Markdown, links: dict[str, str]) -> str:
    text = render(slide.text)
    for link, new in links.items():
        text = text.replace(f'href="{html.escape(link)}"', f'href="{html.escape(new)}"')
    work = "\n".join(part for cell in slide.work for part in _code(cell))
    left = f'<div class="text">{text}</div>' if slide.text.strip() else ""
    right = f'<div class="work">{work}</div>' if work else ""
    return f"<section>{left}{right}</section>"


def _code(cell: NotebookNode) -> list[str]:
    """A code cell and its outputs, the richest form of each that a page can show."""
    coloured = highlight(cell.source, PythonLexer(), HtmlFormatter(nowrap=True))
    parts = [f'<pre class="source highlight">{coloured}</pre>']
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            parts.append(data["text/html"])
        elif "image/png" in data:
            alt = html.escape(data.get("text/plain", ""))
            parts.append(f'<img src="data:image/png;base64,{data["image/png"].strip()}" alt="{alt}">')
        else:
            text = OPEN_ANSWER.sub("", output.get("text", data.get("text/plain", "")))
            if text.strip():
                parts.append(f"<pre>{html.escape(text)}</pre>")
    return parts
