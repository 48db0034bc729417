"""Finds the calls of primitives in a kernel: the functions of hopper.cuh, __syncthreads and the shuffles.

The kernel's own functions that call primitives count as such too.

No parser of C++: parentheses are matched, and that is enough for the kernels, whose calls are plain.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from helpers.emulator.source import code_only
from helpers.rungs import KERNEL_DIR

# The primitives that are no functions of hopper.cuh, with the types of their parameters.
_BUILT_IN = {
    "__syncthreads": (),
    "__shfl_sync": (("uint32_t", "mask"), ("uint32_t", "value"), ("int", "lane")),
    "__shfl_xor_sync": (("uint32_t", "mask"), ("uint32_t", "value"), ("int", "lanes")),
}
_FUNCTION = re.compile(
    r"^(?:template <(?P<template>[^>]*)>\n)?^__device__ __forceinline__ [\w ]+? (?P<name>\w+)"
    r"\((?P<parameters>[^{]*?)\)\s*\{",
    re.MULTILINE,
)
_OPENING, _CLOSING = "([{<", ")]}>"


@dataclass(frozen=True)
class Span:
    """A piece of a text: [start, end)."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """What stands there."""
        return text[self.start:self.end]


@dataclass(frozen=True)
class Argument:
    """An argument of a call, or a template's. type, name: of the parameter; number: from 1, templates' come first."""

    span: Span
    type: str
    name: str
    number: int


@dataclass(frozen=True)
class Call:
    """A call of a primitive. span: of the call alone. statement: with its `if` or `for` and the semicolon.

    number: which call of this primitive it is in the file, from 1.
    is_value: whether something is done with what it returns.
    """

    primitive: str
    number: int
    span: Span
    statement: Span
    is_value: bool
    arguments: tuple[Argument, ...]


@cache
def primitives() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """For each primitive the types and names of its template's and its own parameters; of overloads, the longest."""
    found: dict[str, tuple[tuple[str, str], ...]] = dict(_BUILT_IN)
    code = code_only((KERNEL_DIR / "hopper.cuh").read_text(encoding="utf-8"))
    for match in _FUNCTION.finditer(code):
        parameters = _parameters(match)
        if len(parameters) >= len(found.get(match["name"], ())):
            found[match["name"]] = parameters
    return found


def own_primitives(code: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """The same of a kernel's own functions in which primitives are called."""
    called = re.compile(rf"\b(?:{'|'.join(map(re.escape, primitives()))})\b")
    return {
        match["name"]: _parameters(match)
        for match in _FUNCTION.finditer(code)
        if called.search(code, match.end(), _closing(code, match.end() - 1))
    }


def calls(text: str) -> list[Call]:
    """The calls of primitives in a kernel's text, in their order."""
    code = code_only(text)
    known = {**primitives(), **own_primitives(code)}
    names = "|".join(sorted(map(re.escape, known), key=len, reverse=True))
    definitions = {match.start("name") for match in _FUNCTION.finditer(code)}
    counts: dict[str, int] = {}
    found = []
    for match in re.finditer(rf"\b({names})\b(?=\s*[<(])", code):
        if match.start() not in definitions:
            counts[match[1]] = counts.get(match[1], 0) + 1
            found.append(_call(code, match, known[match[1]], counts[match[1]]))
    return found


def _call(code: str, match: re.Match[str], parameters: tuple[tuple[str, str], ...], number: int) -> Call:
    name, start, place = match[1], match.start(), match.end()
    spans: list[Span] = []
    if code[place] == "<":
        end = _closing(code, place)
        spans += _parts(code, place + 1, end)
        place = end + 1
    end = _closing(code, place)
    spans += _parts(code, place + 1, end)
    arguments = tuple(
        Argument(span, *parameter, place)
        for place, (span, parameter) in enumerate(zip(spans, parameters, strict=False), 1)
    )
    statement = Span(_statement_start(code, start), code.index(";", end) + 1)
    before, after = code[statement.start:start].rstrip(), code[end + 1:statement.end].strip()
    is_value = after != ";" or not re.fullmatch(r"(?:.*\))?|else", before, re.DOTALL)
    return Call(name, number, Span(start, end + 1), statement, is_value, arguments)


def _parameters(match: re.Match[str]) -> tuple[tuple[str, str], ...]:
    """Types and names of a function's parameters, those of its template first."""
    parts = [*(match["template"] or "").split(","), *match["parameters"].split(",")]
    return tuple(_parameter(part) for part in parts if part.strip())


def _parameter(text: str) -> tuple[str, str]:
    """Type and name: `const TensorMap* map` -> `("TensorMap*", "map")`."""
    text = text.partition("=")[0].replace("const ", "").strip()
    match = re.fullmatch(r"(.*?[\s*&])\(?&?(\w+)\)?(\[[^\]]*\])?", text, re.DOTALL)
    assert match is not None, text
    return (match[1].strip() + (match[3] or ""), match[2])


def _closing(code: str, place: int) -> int:
    """Where the bracket is closed that is opened at `place`."""
    opening = code[place]
    closing = _CLOSING[_OPENING.index(opening)]
    depth = 0
    for index in range(place, len(code)):
        depth += (code[index] == opening) - (code[index] == closing)
        if depth == 0:
            return index
    raise ValueError(f"the {opening} at {place} is not closed")


def _parts(code: str, start: int, end: int) -> Iterator[Span]:
    """The pieces between commas that stand in no brackets, without the spaces round them."""
    depth, begin = 0, start
    for index in range(start, end + 1):
        if index == end or (code[index] == "," and depth == 0):
            piece = code[begin:index]
            if piece.strip():
                lead = len(piece) - len(piece.lstrip())
                yield Span(begin + lead, begin + len(piece.rstrip()))
            begin = index + 1
        elif code[index] in "([{":
            depth += 1
        elif code[index] in ")]}":
            depth -= 1


def _statement_start(code: str, place: int) -> int:
    """Where the statement that holds `place` begins: after a semicolon or brace that stands in no parenthesis."""
    depth = 0
    for index in range(place - 1, -1, -1):
        depth += (code[index] == ")") - (code[index] == "(")
        if depth <= 0 and code[index] in ";{}" and not depth:
            break
    text = re.sub(r"#[^\n]*", lambda match: " " * len(match[0]), code[index + 1:place])
    return place - len(text.lstrip())
