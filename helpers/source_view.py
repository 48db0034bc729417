"""Show kernel source and machine code in a notebook: coloured, numbered, with what is new marked.

Every view is HTML whose text alone still tells everything: the numbers and the `+` of new lines are
text, so a page that strips styles (GitHub) shows a plain listing with the same marks. Colours come from
JupyterLab's theme, light or dark.
"""

import difflib
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from IPython.display import HTML
from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer

from helpers.checks import checked_path, is_integer, require_integer, require_kind, require_known
from helpers.errors import ArgumentError
from helpers.rungs import KERNEL_DIR, Rung, base_of, find_rung
from helpers.words import short

NEW_SIGN = "+"
HIT_SIGN = ">"
FOLDED_SHARE = 0.15   # of the unchanged lines, at most, is folded away
CONTEXT = 3           # unchanged lines that stay beside a changed one
MOST_CONTEXT = 1000
MIN_FOLD = 4          # shorter runs are not worth a fold
# A line of nothing but registers of an asm statement: `"%0, %1, ..."` or `: "+f"(d[0]), ...`.
REGISTERS = re.compile(r'\s*:?\s*("(%\d+,? ?)+\}?,? ?"|("[+=]f"\(\w+\[\d+\]\),?\s*)+)$')

# Colours of tokens, by Pygments' classes: on a page of unknown lightness, on JupyterLab's light one, on its dark one,
# where they stand out on marked lines too (contrast of 4.5; JupyterLab's own do not). A notebook that is not trusted
# yet loses the <style>, has JupyterLab's colours for `.highlight`, and keeps the inline styles; the tint is half
# transparent, so that it does on light and on dark. Comments and the preprocessor's lines have classes of our own: as
# JupyterLab colours them, they would be hard to read before the notebook is run.
TOKENS = {
    ".k, .kt, .kd, .kc, .kr": ("#7a6bd8", "#6a3fb5", "#b79bff"),
    ".hm-c1, .hm-cm, .hm-c": ("#4c8a8a", "#2f6b6b", "#7fb5b5"),
    ".hm-cp, .hm-cpf": ("#b5651d", "#8f4a10", "#d9a066"),
    ".s, .se": ("#ba4545", "#a83232", "#ff8f8f"),
    ".mi, .mf, .mh": ("#2f8f2f", "#1f701f", "#7ccf7c"),
}
OWN_CLASSES = re.compile(r'class="(cm?|c1|cpf?)"')
PAGES = ("", 'body[data-jp-theme-light="true"] ', 'body[data-jp-theme-light="false"] ')
MARK_STYLE = "background-color:rgba(217,115,13,0.16);border-left:4px solid #d9730d"
LINE_STYLE = "border-left:4px solid transparent"
PRE_STYLE = "white-space:pre;overflow-x:auto;font-family:var(--jp-code-font-family, monospace)"
STYLE = """<style>
.hm-view { font-size: var(--jp-code-font-size, 13px); line-height: 1.35; overflow-x: auto; }
.hm-view pre { margin: 0; padding: 0.4em 0; background: transparent; white-space: pre; }
.hm-view .hm-line { display: inline-block; min-width: 100%; }
.hm-view .hm-no { user-select: none; opacity: 0.7; }
.hm-view .hm-mark .hm-no { opacity: 1; font-weight: bold; }
.hm-view summary { opacity: 0.75; cursor: pointer; font-style: italic; }
.hm-view .hm-title { font-style: italic; margin: 0 0 0.3em 0; }
.hm-view :is(.hm-c1, .hm-cm, .hm-c) { font-style: italic; }
""" + "".join(
    f"{page}.hm-view :is({classes}) {{ color: {color}; }}\n"
    for classes, colors in TOKENS.items() for page, color in zip(PAGES, colors, strict=True)
) + "</style>"


class SourceView(HTML):
    """A listing: HTML for a notebook, plain text for everything else."""

    def __init__(self, body: str, text: str):
        super().__init__(body)
        self.text = text

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Line:
    """One line of a listing: its number in the file, its text, its HTML, whether it is marked."""

    number: int
    text: str
    markup: str
    marked: bool


def show_source(
    rung: str | int | Rung, since: str | int | Rung | None = None, entry: str | None = None, fold: bool = True
) -> SourceView:
    """The kernel file of a rung, the lines that are not in the rung before marked with `+`.

    since: the rung to compare with; None means the one before (none for rung 1: nothing is marked).
    entry: only this kernel function, with the comment above it. fold: long unchanged passages are folded
    away, at most 15% of the unchanged lines.
    """
    rung = find_rung(rung)
    base = _base(rung, since)
    lines = _lines(rung.path, changed_lines(rung, base) if base else frozenset())
    if entry is not None:
        first, last = entry_lines(rung, entry)
        lines = lines[first - 1 : last]
    new = sum(line.marked for line in lines)
    title = f"kernels/{rung.path.name}"
    if entry is not None:
        title += f", {entry}"
    if base:
        gone = removed_count(rung, base) if entry is None else 0
        title += f": {new} of {len(lines)} lines new or changed since {base.path.name} ({NEW_SIGN})"
        title += f", {gone} lines of it gone" if gone else ""
    folds = foldable([line.marked for line in lines]) if fold and base else []
    return _view(title, lines, NEW_SIGN, folds)


def show_lines(rung: str | int | Rung, first: int, last: int) -> SourceView:
    """Lines `first` to `last` of a kernel file, both included, counted from 1.

    Raises ArgumentError if the file has no such lines.
    """
    rung = find_rung(rung)
    lines = _lines(rung.path, frozenset())
    for name, value in (("first", first), ("last", last)):
        if not is_integer(value) or not 1 <= value <= len(lines):
            raise ArgumentError(
                f"{name} is {short(value)} but {rung.path.name} has lines 1 to {len(lines)}: give a line of the file."
            )
    if first > last:
        raise ArgumentError(f"first is {first} and last is {last}: give the earlier line first.")
    return _view(f"kernels/{rung.path.name}, lines {first} to {last}", lines[first - 1 : last], NEW_SIGN, [])


def show_file(path: Path, title: str, marked: Iterable[int] = ()) -> SourceView:
    """A whole file, with some of its lines (counted from 1) marked with `>`."""
    return _view(title, _lines(checked_path("path", path), marked), HIT_SIGN, [])


def show_function(name: str, file: str = "hopper.cuh") -> SourceView:
    """A function of a header beside the kernels, with its comment; long lists of registers are folded away.

    Of several functions of the same name, the first. Raises ArgumentError if there is none, naming those there are.
    """
    require_kind("name", name, str, "give a function's name, such as 'wgmma_fence'")
    known = sorted(path.name for path in KERNEL_DIR.glob("*.cu*"))
    require_known("file", file, known)
    lines = _lines(KERNEL_DIR / file, frozenset())
    first, last = _function(lines, name, file)
    chosen = lines[first : last + 1]
    folds = _runs([bool(REGISTERS.match(line.text)) for line in chosen])
    title = f"kernels/{file}, {name}"
    return _view(title, chosen, NEW_SIGN, [fold for fold in folds if fold[1] - fold[0] >= MIN_FOLD], "registers")


def show_sass(text: str, highlight: str | None = None, context: int | None = None) -> SourceView:
    """Machine code, numbered; lines that match the regular expression `highlight` are marked with `>`.

    context: with a number, only the marked lines and so many around each are shown.
    Raises ArgumentError if the pattern is no regular expression.
    """
    require_kind("text", text, str, "give machine code, such as load(3).sass")
    if highlight is not None:
        require_kind("highlight", highlight, str, "give a regular expression, such as 'HGMMA'")
    if context is not None:
        require_integer("context", context, 0, MOST_CONTEXT)
    try:
        pattern = re.compile(highlight) if highlight else None
    except re.error as error:
        raise ArgumentError(f"highlight {highlight!r} is no regular expression ({error}): mend it.") from None
    rows = [row.rstrip() for row in text.expandtabs(4).strip("\n").splitlines()]
    lines = [
        Line(number, row, html.escape(row), bool(pattern and pattern.search(row))) for number, row in enumerate(rows, 1)
    ]
    hits = sum(line.marked for line in lines)
    title = f"{len(lines)} lines of machine code"
    if pattern:
        title += f", {hits} with {highlight} ({HIT_SIGN})"
    if pattern and context is not None:
        near = {i + step for i, line in enumerate(lines) if line.marked for step in range(-context, context + 1)}
        lines = [line for i, line in enumerate(lines) if i in near]
    return _view(title, lines, HIT_SIGN, [])


# What is new


def changed_lines(rung: Rung, base: Rung) -> frozenset[int]:
    """Numbers of the lines of `rung` that are not in `base`, or not in that order. Indentation does not count."""
    return frozenset(line + 1 for _, lines in _differences(rung, base) for line in lines)


def removed_count(rung: Rung, base: Rung) -> int:
    """How many lines of `base` have no place in `rung`, those of the head comment excepted."""
    rows = _rows(base)
    head = next((i for i, row in enumerate(rows) if not row.startswith("//")), 0)
    return sum(1 for lines, _ in _differences(rung, base) for line in lines if line >= head and rows[line])


def entry_lines(rung: Rung, entry: str) -> tuple[int, int]:
    """First and last line of a kernel function, its comment included.

    Raises ArgumentError if the file does not define it.
    """
    require_kind("entry", entry, str, f"give a function of {rung.path.name}")
    rows = rung.path.read_text(encoding="utf-8").splitlines()
    name = re.compile(rf"\b{re.escape(entry)}\s*\(")
    starts = [i for i, row in enumerate(rows) if row.startswith(('extern "C"', "template", "__global__"))]
    for start in starts:
        stop = next((i for i in range(start, len(rows)) if rows[i].startswith("}")), len(rows) - 1)
        head = " ".join(rows[start : next((i for i in range(start, stop) if "{" in rows[i]), stop) + 1])
        if entry and name.search(head):
            while start > 0 and rows[start - 1].startswith("//"):
                start -= 1
            return start + 1, stop + 1
    known = ", ".join((rung.entry, *rung.twins))
    raise ArgumentError(f"entry {entry!r} is not in {rung.path.name}: give one of {known}.")


def _function(lines: Sequence[Line], name: str, file: str) -> tuple[int, int]:
    """Indices of the first and the last line of a `__device__` function, with the comment and template line above."""
    heads = [i for i, line in enumerate(lines) if line.text.startswith("__device__")]
    calls = {i: re.search(r"(\w+)\(", lines[i].text.split("__forceinline__")[-1]) for i in heads}
    names = {i: call[1] for i, call in calls.items() if call}
    start = next((i for i, other in names.items() if other == name), None)
    if start is None:
        known = ", ".join(dict.fromkeys(names.values()))
        raise ArgumentError(f"function {name!r} is not in {file}: give one of {known}.")
    one_line = lines[start].text.rstrip().endswith("}")
    stop = start if one_line else next(i for i in range(start, len(lines)) if lines[i].text.startswith("}"))
    while start > 0 and lines[start - 1].text.startswith(("//", "template")):
        start -= 1
    return start, stop


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """Half-open index ranges of the runs of true values."""
    edges = [i for i in range(len(flags) + 1) if (i > 0 and flags[i - 1]) != (i < len(flags) and flags[i])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def foldable(marked: Sequence[bool]) -> list[tuple[int, int]]:
    """Half-open index ranges of unmarked lines to fold away: at most 15% of them, the longest passages first.

    Lines within 3 of a marked one stay.
    """
    budget = int(FOLDED_SHARE * sum(not mark for mark in marked))
    near = [any(marked[max(0, i - CONTEXT) : i + CONTEXT + 1]) for i in range(len(marked))]
    runs, start = [], None
    for i, stays in enumerate([*near, True]):
        if not stays and start is None:
            start = i
        elif stays and start is not None:
            runs.append((start, i))
            start = None
    folds = []
    for start, stop in sorted(runs, key=lambda run: run[0] - run[1]):
        length = min(stop - start, budget)
        if length >= MIN_FOLD:
            middle = start + (stop - start - length) // 2
            folds.append((middle, middle + length))
            budget -= length
    return sorted(folds)


def _base(rung: Rung, since: str | int | Rung | None) -> Rung | None:
    if since is not None:
        return find_rung(since)
    return base_of(rung)


def _rows(rung: Rung) -> list[str]:
    return [" ".join(row.split()) for row in rung.path.read_text(encoding="utf-8").splitlines()]


def _differences(rung: Rung, base: Rung) -> list[tuple[range, range]]:
    """Pairs of what is gone from `base` and what stands in `rung` instead, as ranges of line indices."""
    matcher = difflib.SequenceMatcher(None, _rows(base), _rows(rung), autojunk=False)
    return [(range(i, j), range(k, n)) for tag, i, j, k, n in matcher.get_opcodes() if tag != "equal"]


# HTML


def _lines(path: Path, marked: Iterable[int]) -> list[Line]:
    text = path.read_text(encoding="utf-8")
    lexer = CppLexer(stripnl=False, ensurenl=False)
    markup = pygments_highlight(text, lexer, HtmlFormatter(nowrap=True))
    markup = OWN_CLASSES.sub(r'class="hm-\1"', markup).split("\n")
    rows = text.splitlines()
    marks = set(marked)
    return [
        Line(number, row, colours, number in marks and row.strip() != "")
        for number, (row, colours) in enumerate(zip(rows, markup, strict=False), 1)
    ]


def _view(
    title: str, lines: Sequence[Line], sign: str, folds: Sequence[tuple[int, int]], what: str = "unchanged"
) -> SourceView:
    width = len(str(lines[-1].number)) if lines else 1
    pieces, position = [f'<p class="hm-title">{html.escape(title)}</p>'], 0
    for start, stop in folds:
        pieces.append(_block(lines[position:start], sign, width))
        summary = f"lines {lines[start].number} to {lines[stop - 1].number}, {what}"
        pieces.append(f"<details><summary>{summary}</summary>\n{_block(lines[start:stop], sign, width)}</details>")
        position = stop
    pieces.append(_block(lines[position:], sign, width))
    body = f'{STYLE}<div class="highlight hm-view">' + "\n".join(pieces) + "</div>"
    text = "\n".join([title, *(_prefix(line, sign, width) + line.text for line in lines)])
    return SourceView(body, text)


def _block(lines: Sequence[Line], sign: str, width: int) -> str:
    if not lines:
        return ""
    rows = (
        f'<span class="hm-line{" hm-mark" if line.marked else ""}" style="{MARK_STYLE if line.marked else LINE_STYLE}">'
        f'<span class="hm-no">{html.escape(_prefix(line, sign, width))}</span>{line.markup}</span>'
        for line in lines
    )
    return f'<pre style="{PRE_STYLE}">' + "\n".join(rows) + "</pre>"


def _prefix(line: Line, sign: str, width: int) -> str:
    return f"{line.number:>{width}} {sign if line.marked else ' '} "
