"""What every committed notebook promises, checked on its cells: sections, lengths, alt texts, and clean outputs."""

import re
from collections.abc import Iterator

from nbformat import NotebookNode

from helpers.words import PRINTED_LINE

SECTIONS = ("Goal", "Predict", "Kernel", "Verify", "Measure", "Explain", "Ladder so far", "Exercises", "Next")
MAX_CODE_LINES = 15
APPENDIX = "Appendix: "   # how one more section may begin, after the last
CELLS = (20, 46)
WORDS = (800, 1900)
WORDS_WITH_APPENDIX = 2125

# Places of one machine: a folder of a file system's root followed by a name, or a drive letter.
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/<~-])/(?:bin|etc|home|media|mnt|opt|private|root|srv|tmp|Users|usr|var|work|workspace)/[\w.-]+"
    r"|(?<!\w)[A-Za-z]:\\\w"
)
OBJECT_ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")
PNG_HEAD = "iVBORw0KGgo"


def structure_problems(notebook: NotebookNode) -> list[str]:
    """Sections, number of cells, length of code cells, words and alt texts."""
    found = []
    cells = notebook.cells
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        found.append("cell 1 must be text that starts with the title, '# ...'.")
    titles = [title for cell in cells if cell.cell_type == "markdown" for title in section_titles(cell.source)]
    least, most = WORDS
    if titles and titles[-1].startswith(APPENDIX):
        titles.pop()
        most = WORDS_WITH_APPENDIX
    if titles != list(SECTIONS):
        seen = ", ".join(titles) or "none"
        found.append(
            f"the sections are {seen}; they must be {', '.join(SECTIONS)}, in this order, and an appendix may follow."
        )
    if not CELLS[0] <= len(cells) <= CELLS[1]:
        found.append(f"{len(cells)} cells; {CELLS[0]} to {CELLS[1]} are allowed.")
    words = sum(word_count(cell.source) for cell in cells if cell.cell_type == "markdown")
    if not least <= words <= most:
        found.append(f"{words} words of text; {least} to {most} are allowed.")
    for number, cell in enumerate(cells, 1):
        if cell.cell_type == "code":
            lines = len(cell.source.splitlines())
            if lines > MAX_CODE_LINES:
                found.append(f"cell {number} has {lines} lines of code, at most {MAX_CODE_LINES} are allowed.")
        elif cell.cell_type == "markdown" and any(not alt.strip() for alt in _markdown_alts(cell.source)):
            found.append(f"cell {number} shows an image without alt text.")
    return found


def output_problems(notebook: NotebookNode) -> list[str]:
    """Errors, places of one machine, widgets, and images that a screen reader cannot tell."""
    found = []
    if "widgets" in notebook.metadata:
        found.append("the notebook holds widget state.")
    for number, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            found.extend(f"cell {number}: {problem}" for problem in _output_problems(output))
    return found


def execution_problems(notebook: NotebookNode) -> list[str]:
    """Code cells that were not run, or not run from first to last in a fresh kernel."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    counts = [cell.execution_count for cell in code]
    if counts != list(range(1, len(code) + 1)):
        return ["the cells were not all run once, in order: run the notebook with `python -m helpers run`."]
    return []


def _output_problems(output: NotebookNode) -> Iterator[str]:
    if output.output_type == "error":
        yield f"error output ({output.ename})."
    elif output.output_type == "stream" and output.name == "stderr":
        yield f"a warning or log line in the output ({output.text.strip().partition(chr(10))[0][:80]!r})."
    if output.output_type == "stream":
        for line in output.text.split("\n"):
            if len(line) > PRINTED_LINE:
                yield f"a printed line of {len(line)} characters, {PRINTED_LINE} fit: use fill ({line[:40]!r})."
    data = output.get("data", {})
    for text in (output.get("text", ""), *(value for key, value in data.items() if key.startswith("text/"))):
        plain = re.sub(r"data:image/[^\"')\s]+", "", text)
        for pattern, what in ((ABSOLUTE_PATH, "an absolute path"), (OBJECT_ADDRESS, "an object's address")):
            if match := pattern.search(plain):
                yield f"{what} in the output ({match.group()!r})."
    if any("widget" in key for key in data):
        yield "a widget in the output."
    yield from _image_problems(output)


def _image_problems(output: NotebookNode) -> Iterator[str]:
    data = output.get("data", {})
    html_alts = list(_html_alts(data.get("text/html", "")))
    markdown_alts = _markdown_alts(data.get("text/markdown", ""))
    if any(not alt.strip() for alt in (*html_alts, *markdown_alts)):
        yield "an image without alt text."
    for key in data:
        if key.startswith("image/"):
            metadata = output.get("metadata", {})
            alt = metadata.get(key, {}).get("alt") or metadata.get("alt")
            if not alt and not html_alts and not markdown_alts:
                yield "an image without alt text."
            if key == "image/png" and not data[key].startswith(PNG_HEAD):
                yield "an image/png output that is not a PNG."
            if key not in ("image/png", "image/svg+xml"):
                yield f"an image of type {key}: use PNG."


def section_titles(markdown: str) -> list[str]:
    """The second-level headings of a text, those in code blocks excepted."""
    return re.findall(r"^## +(.+?) *#*$", _without_code_blocks(markdown), flags=re.MULTILINE)


def word_count(markdown: str) -> int:
    """Words that a reader reads: no code blocks, link targets, tags, formulas or signs."""
    text = _without_code_blocks(markdown)
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"<[^<>\n]+>", " ", text)
    return len(re.findall(r"[\w][\w'’.,/+-]*", text))


def _without_code_blocks(markdown: str) -> str:
    return re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", markdown, flags=re.DOTALL | re.MULTILINE)


def _markdown_alts(markdown: str) -> list[str]:
    text = _without_code_blocks(markdown)
    return re.findall(r"!\[([^\]]*)\]\(", text) + list(_html_alts(text))


def _html_alts(html: str) -> Iterator[str]:
    for tag in re.findall(r"<img\b[^>]*>", html, flags=re.IGNORECASE):
        match = re.search(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", tag)
        yield (match.group(1) or match.group(2) or "") if match else ""
