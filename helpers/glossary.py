"""The glossary, and the links that lead to it from the notebooks.

    python -m helpers.glossary link [PATH...]    link every term at its first use, in all notebooks or in these
    python -m helpers.glossary check [PATH...]   list what is wrong with the glossary and the links, exit 1 if anything

A term is linked once in a notebook: where it stands in bold, else where it first stands in plain text. A comment under
its heading in docs/glossary.md says more, in fields that are separated by semicolons:

    forms: wavefronts, passes    how else the term is written; the heading itself always counts
    link: bold                   an ordinary word: linked only where it stands in bold
    link: 02, 03                 linked where it is bold, and in these notebooks where it is not
    in: 03, 04                   the notebooks in which these words mean this term; all of them if it is left out

Headings, code, formulas, tables and links are left alone.

A heading with capitals begins with its anchor, `### <a id="tma"></a>TMA`: GitHub makes that name itself, JupyterLab one
with capitals.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nbformat import NotebookNode

from helpers.checks import checked_path
from helpers.entry import Parser, guarded
from helpers.errors import ArgumentError
from helpers.notebooks import canonicalise, read_notebook, write_notebook
from helpers.rungs import KERNEL_DIR, NOTEBOOK_DIR, ROOT
from helpers.words import plural

GLOSSARY = ROOT / "docs" / "glossary.md"
TARGET = "../docs/glossary.md"   # as a notebook sees it
MOST_LINKS = 28                  # in one notebook: more would be in the way

FIELDS = ("forms", "link", "in")
GUIDES = r"https://docs\.nvidia\.com/cuda/(?:parallel-thread-execution|cuda-c-programming-guide)/index\.html"
LINK = re.compile(r"\[(\*\*)?([^\[\]]+?)(\*\*)?\]\(" + re.escape(TARGET) + r"#([^)\s]*)\)")
BOLD = re.compile(r"(?<!\*)\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?!\*)")
# What a text shows in bold and what is no term: an exercise's number, a phrase that ends with a full stop.
NO_TERM = re.compile(r"\d\d\.\d+.*|.*[.:?!]")
# Not prose: blocks and spans of code, formulas, tags, links and images, headings, tables.
NO_PROSE = re.compile(
    r"^(?P<fence>```|~~~).*?^(?P=fence)[^\n]*$|(?P<ticks>`+).+?(?P=ticks)|\$\$.*?\$\$|\$[^$\n]+\$|<!--.*?-->|<[^<>\n]+>"
    r"|!?\[[^\[\]]*\]\([^)]*\)|^ *#[^\n]*$|^ *\|[^\n]*$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Entry:
    """A term of the glossary.

    term: the heading. anchor: what a link to it names. forms: all ways to write it, the heading among them.
    plain: the notebooks, by numbers such as '03', that link it where it first stands, bold or not; the others link it
    only where it is bold. notebooks: those in which the forms mean this term. None stands for all of them. text: what
    stands under the heading.
    """

    term: str
    anchor: str
    forms: tuple[str, ...]
    plain: frozenset[str] | None
    notebooks: frozenset[str] | None
    text: str

    def holds_in(self, number: str) -> bool:
        return self.notebooks is None or number in self.notebooks

    def is_linked_in(self, number: str, bold: bool) -> bool:
        return bold or self.plain is None or number in self.plain

    @property
    def pattern(self) -> str:
        """A regular expression for any of the forms, the longest first."""
        return "|".join(_form_pattern(form) for form in sorted(self.forms, key=len, reverse=True))


# Reading


def read_glossary(path: Path = GLOSSARY) -> list[Entry]:
    """The entries of the glossary, in its order.

    Raises ArgumentError if the file cannot be read or a comment under a heading has a field that is not known.
    """
    path = checked_path("path", path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ArgumentError(f"{path} cannot be read ({why}): restore docs/glossary.md from git.") from None
    entries = re.finditer(r"^### +(?:<a id=[^<>]*></a>)?(.+?)\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    return [_entry(*match.groups()) for match in entries]


def _entry(term: str, rest: str) -> Entry:
    comment = re.match(r"\s*<!--(.*?)-->", rest, re.DOTALL)
    fields = {}
    for field in filter(str.strip, comment.group(1).split(";") if comment else ()):
        name, _, values = field.partition(":")
        fields[name.strip()] = tuple(value.strip() for value in values.split(","))
    unknown = [name for name, values in fields.items() if name not in FIELDS or "" in values]
    numbers = [*fields.get("link", ()), *fields.get("in", ())]
    if fields.get("link") == ("bold",):
        fields["link"] = ()
        numbers.remove("bold")
    wrong = unknown + [number for number in numbers if not re.fullmatch(r"\d\d", number)]
    if wrong:
        raise ArgumentError(
            f"the comment of the glossary entry {term} has {', '.join(wrong)!r}: "
            "write 'forms: ...', 'link: bold', 'link: 02, 03' or 'in: 03, 04', separated by semicolons."
        )
    return Entry(
        term=term,
        anchor=anchor(term),
        forms=(term, *fields.get("forms", ())),
        plain=frozenset(fields["link"]) if "link" in fields else None,
        notebooks=frozenset(fields["in"]) if "in" in fields else None,
        text=rest[comment.end() :].strip() if comment else rest.strip(),
    )


def anchor(heading: str) -> str:
    """What a link to a heading names: small letters, hyphens for blanks, no tags and no other signs, as on GitHub."""
    return re.sub(r"<[^<>]*>|[^\w\- ]", "", heading.lower()).replace(" ", "-")


# Linking


def link_terms(notebook: NotebookNode, entries: Sequence[Entry], number: str) -> list[str]:
    """Link every term of a notebook at its first use; returns the linked terms, in the order of the text.

    number: of the notebook, '01' to '10'. Links to the glossary that are there are made anew, so doing it twice changes
    nothing; only links whose text is no form of their term stay as they are.
    """
    mine = [entry for entry in entries if entry.holds_in(number)]
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    texts = [_without_links(cell.source, mine) for cell in cells]
    chosen = _first_uses(texts, mine, number)
    for place, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        for use in reversed([use for use in chosen if use.place == place]):
            text = f"{text[: use.start]}[{text[use.start : use.end]}]({TARGET}#{use.entry.anchor}){text[use.end :]}"
        cell.source = text
    return [use.entry.term for use in chosen]


@dataclass(frozen=True)
class Use:
    """Where a term stands: the place of its text in a list of texts, and the letters from start to end."""

    place: int
    start: int
    end: int
    entry: Entry
    bold: bool


def _first_uses(texts: Sequence[str], entries: Sequence[Entry], number: str) -> list[Use]:
    found: dict[str, Use] = {}
    for use in _uses(texts, entries):
        first = found.get(use.entry.term)
        if use.entry.is_linked_in(number, use.bold) and (first is None or (use.bold and not first.bold)):
            found[use.entry.term] = use
    linked = {match.group(4) for text in texts for match in LINK.finditer(text)}
    chosen = [use for use in found.values() if use.entry.anchor not in linked]
    return sorted(chosen, key=lambda use: (use.place, use.start))


def _uses(texts: Sequence[str], entries: Sequence[Entry]) -> Iterator[Use]:
    """Every use of a term in prose; where terms overlap, the longest counts."""
    forms = sorted(((form, entry) for entry in entries for form in entry.forms), key=lambda pair: -len(pair[0]))
    if not forms:
        return
    either = "|".join(f"(?P<f{i}>{_form_pattern(form)})" for i, (form, _) in enumerate(forms))
    word = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")
    for place, text in enumerate(texts):
        prose = NO_PROSE.sub(lambda match: re.sub(r"[^\n]", "\0", match.group()), text)
        for match in word.finditer(prose):
            start, end = match.span()
            entry = forms[int(str(match.lastgroup)[1:])][1]
            bold = prose[:start].endswith("**") and prose[end:].startswith("**") and _opens(prose, start - 2)
            yield Use(place, start - 2 * bold, end + 2 * bold, entry, bold)


def _form_pattern(form: str) -> str:
    """A regular expression for a form; a small first letter may be a capital."""
    first = f"[{form[0]}{form[0].upper()}]" if form[0].islower() else re.escape(form[0])
    return first + re.escape(form[1:])


def _opens(text: str, position: int) -> bool:
    """True if the two stars at a position begin a bold passage and do not end one."""
    return any(match.start() == position for match in BOLD.finditer(text))


def _without_links(text: str, entries: Iterable[Entry]) -> str:
    by_anchor = {entry.anchor: re.compile(entry.pattern) for entry in entries}

    def plain(match: re.Match[str]) -> str:
        pattern = by_anchor.get(match.group(4))
        if pattern is None or not pattern.fullmatch(match.group(2)):
            return match.group()
        return f"{match.group(1) or ''}{match.group(2)}{match.group(3) or ''}"

    return LINK.sub(plain, text)


# Checking


def glossary_problems(entries: Sequence[Entry], text: str, used_in: Iterable[str]) -> list[str]:
    """What is wrong with the glossary itself.

    text: the whole file. used_in: texts of the course, in one of which each term must be used.
    """
    found = []
    for before, after in pairwise(entries):
        if before.anchor > after.anchor:
            found.append(f"the entry {after.term} stands after {before.term}: put it in alphabetical order.")
    anchors = [anchor(heading) for heading in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE)]
    found += [f"the heading {name} is there twice: name one of them otherwise." for name in sorted(_twice(anchors))]
    for target in re.findall(r"\]\(#([^)]*)\)", text):
        if target not in anchors:
            found.append(f"the glossary links to #{target}, and has no such heading: mend the link.")
    table = re.findall(r"\]\(#([^)]*)\)", text.split("\n## ")[0])
    course = "\n".join(used_in)
    for entry in entries:
        listed = table.count(entry.anchor)
        if listed != 1:
            found.append(f"the entry {entry.term} stands {listed} times in the table of subjects: list it once.")
        if not re.search(rf"\]\({GUIDES}#[^)\s]+\)", entry.text):
            found.append(f"the entry {entry.term} links to no section of PTX ISA or the CUDA guide: add one.")
        tag = "" if entry.anchor == entry.term.replace(" ", "-") else f'<a id="{entry.anchor}"></a>'
        if f"### {tag}{entry.term}\n" not in text:
            found.append(f"the heading of {entry.term} must be '### {tag}{entry.term}', so that JupyterLab finds it.")
        if not entry.text or "\n\n" in entry.text:
            found.append(f"the entry {entry.term} is not one paragraph: write one.")
        if not re.search(r"\b(?:rung|notebook)s?\b", entry.text, re.IGNORECASE):
            found.append(f"the entry {entry.term} names no rung: say where the term comes.")
        if not re.search(rf"(?<![\w-])(?:{entry.pattern})(?![\w-])", course):
            found.append(f"nobody uses the entry {entry.term}: take it out, or give the form that the course uses.")
    return found


def link_problems(notebook: NotebookNode, entries: Sequence[Entry], number: str) -> list[str]:
    """What is wrong with a notebook's bold terms and with its links to the glossary."""
    found = []
    mine = [entry for entry in entries if entry.holds_in(number)]
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    forms = re.compile("|".join(entry.pattern for entry in mine) or r"(?!)")
    for text in texts:
        for term in bold_terms(text):
            if not forms.fullmatch(term):
                found.append(f"the term {term} is bold and not in docs/glossary.md: add an entry, or a form to one.")
    linked = [match.group(4) for text in texts for match in LINK.finditer(text)]
    by_anchor = {entry.anchor: entry for entry in entries}
    for name in sorted(set(linked)):
        if name not in by_anchor:
            found.append(f"a link leads to {TARGET}#{name}, and the glossary has no such entry: mend the link.")
        elif not by_anchor[name].holds_in(number):
            found.append(f"a link leads to {by_anchor[name].term}, which 'in:' keeps out of this notebook: mend one.")
    for name in sorted(_twice(linked)):
        found.append(f"{TARGET}#{name} is linked twice: once will do.")
    for target in re.findall(r"\]\(([^)\s]*glossary\.md[^)\s]*)\)", "\n".join(texts)):
        if not target.startswith(f"{TARGET}#"):
            found.append(f"the link to {target} must begin with {TARGET}#.")
    if len(linked) > MOST_LINKS:
        found.append(f"{len(linked)} links to the glossary: at most {MOST_LINKS}; mark ordinary words 'link: bold'.")
    fresh = NotebookNode(cells=[NotebookNode(cell_type="markdown", source=text) for text in texts])
    terms = link_terms(fresh, entries, number)
    advice = "run `python -m helpers.glossary link`."
    missing = [term for term in terms if anchor(term) not in linked]
    if missing:
        found.append(f"not linked at first use: {', '.join(missing)}; {advice}")
    else:
        for cell, text in zip(fresh.cells, texts, strict=True):
            if cell.source != text:
                where = " ".join(text.split())[:50]
                found.append(f"a term is not linked at its first use, in the text that begins {where!r}: {advice}")
    return found


def bold_terms(markdown: str) -> list[str]:
    """The bold words of a text, without exercise numbers and without phrases that end with a full stop."""
    prose = NO_PROSE.sub(lambda match: match.group() if LINK.fullmatch(match.group()) else " ", markdown)
    return [match.group(1) for match in BOLD.finditer(prose) if not NO_TERM.fullmatch(match.group(1))]


def course_texts() -> list[str]:
    """The texts in which a term can be used: kernels, and all that the notebooks say and show."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(KERNEL_DIR.glob("*.cu*"))]
    for path in notebook_paths():
        for cell in read_notebook(path).cells:
            texts.append(cell.source)
            for output in cell.get("outputs", []):
                texts += [str(output.get("text", "")), str(output.get("data", {}).get("text/plain", ""))]
    return texts


def notebook_paths() -> list[Path]:
    return sorted(NOTEBOOK_DIR.glob("[0-9][0-9]_*.ipynb"))


def _twice(names: Sequence[str]) -> set[str]:
    return {name for name in names if names.count(name) > 1}


# Command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if something is wrong or cannot be read."""
    parser = Parser(prog="python -m helpers.glossary", description="The glossary, and the notebooks' links to it.")
    parser.add_argument("action", choices=("link", "check"))
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="notebooks; all of them if left out")
    options = parser.parse_args(arguments)
    return guarded(lambda: (_link if options.action == "link" else _check)(options.paths or notebook_paths()))


def _link(paths: Sequence[Path]) -> int:
    entries = read_glossary()
    for path in paths:
        notebook = read_notebook(path)
        terms = link_terms(notebook, entries, path.name[:2])
        write_notebook(canonicalise(notebook), path)
        print(f"{path.name}: {plural(len(terms), 'link')}: {', '.join(terms)}")
    return 0


def _check(paths: Sequence[Path]) -> int:
    entries = read_glossary()
    found: Mapping[str, list[str]] = {
        GLOSSARY.name: glossary_problems(entries, GLOSSARY.read_text(encoding="utf-8"), course_texts()),
        **{path.name: link_problems(read_notebook(path), entries, path.name[:2]) for path in paths},
    }
    for name, problems in found.items():
        for problem in problems:
            print(f"{name}: {problem}")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
