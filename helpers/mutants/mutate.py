"""Makes the mutants of a kernel: each call of a primitive removed, replaced, or with another argument."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from helpers.emulator.source import code_only
from helpers.mutants.calls import Argument, Call, Span, calls
from helpers.rungs import find_rung

MUTATED_RUNGS: tuple[int | str, ...] = (
    5, 6, 7, 8, 9, 10, "appendix_split_k", "appendix_fitted_tiles", "appendix_partitions",
)  # fmt: skip

# What a call is replaced by whose value is used: one of its arguments, by number; others are 0.
_STANDS_FOR = {"__shfl_sync": 2, "__shfl_xor_sync": 2, "wgmma_descriptor_advance": 1}
# What is one further is no neighbour where the hardware counts in more than ones: bytes of a descriptor, columns.
_UNITS = {"leading_bytes": (1, 16), "stride_bytes": (1, 16), "x": (1, 8)}
_OTHER = {
    "Major::K": "Major::MN",
    "Major::MN": "Major::K",
    "Swizzle::none": "Swizzle::bytes_128",
    "Swizzle::bytes_128": "Swizzle::none",
}
_UNIQUE = ("Shared&", "Ring&", "Finished&")
# Primitives with the same parameters that promise something else.
_TWINS = {
    "mbarrier_wait": "mbarrier_wait_cluster",
    "mbarrier_wait_cluster": "mbarrier_wait",
    "mbarrier_arrive_cluster": "mbarrier_arrive_release_cluster",
    "mbarrier_arrive_release_cluster": "mbarrier_arrive_cluster",
    "mbarrier_arrive_expect_tx": "mbarrier_expect_tx",
    "barrier_cluster_arrive": "barrier_cluster_arrive_relaxed",
    "barrier_sync": "barrier_arrive",
    "cp_async_bulk_wait_group": "cp_async_bulk_wait_group_read",
    "cp_async_bulk_wait_group_read": "cp_async_bulk_wait_group",
    "setmaxnreg_inc": "setmaxnreg_dec",
    "setmaxnreg_dec": "setmaxnreg_inc",
    "griddepcontrol_wait": "griddepcontrol_launch_dependents",
}
_CONSTANTS = re.compile(r"^constexpr int ([^;]*);", re.MULTILINE)
_MAP = re.compile(r"\bTensorMap (\w+)[,)]")   # a parameter of the kernel
_LITERAL = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class Mutant:
    """A kernel with one mistake. name: which, such as `"wgmma_wait_group 1: N + 1"`. rung: one of `MUTATED_RUNGS`.

    text: of the whole file.
    """

    rung: int | str
    name: str
    text: str


def mutants(rung: int | str) -> list[Mutant]:
    """All mutants of a rung's kernel."""
    text = find_rung(rung).path.read_text(encoding="utf-8")
    return [Mutant(rung, name, mutated) for name, mutated in _unlike(text, _changes(text))]


def _unlike(text: str, changes: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Those that differ from the text and from those before."""
    seen = {text}
    for name, mutated in changes:
        if mutated not in seen:
            seen.add(mutated)
            yield name, mutated


def _changes(text: str) -> Iterator[tuple[str, str]]:
    found = calls(text)
    for call in found:
        title = f"{call.primitive} {call.number}"
        yield f"{title}: removed", _put(text, call.span, _stand_in(text, call))
        if call.primitive in _TWINS:
            twin = _TWINS[call.primitive]
            name = Span(call.span.start, call.span.start + len(call.primitive))
            yield f"{title}: {twin} in its place", _put(text, name, twin)
        for argument in call.arguments:
            for what, span, new in _other_values(text, argument):
                yield f"{title}: {what}", _put(text, span, new)
    yield from _swaps(text, found)
    yield from _other_constants(text)


def _put(text: str, span: Span, new: str) -> str:
    return text[:span.start] + new + text[span.end:]


def _stand_in(text: str, call: Call) -> str:
    """What stands where a call was: nothing for a statement."""
    if not call.is_value:
        return ""
    if call.primitive.startswith("createpolicy"):
        return "uint64_t(0)"   # of two functions the one with a policy is to be called
    number = _STANDS_FOR.get(call.primitive)
    return f"({call.arguments[number - 1].span.of(text)})" if number else "0"


def _other_values(text: str, argument: Argument) -> Iterator[tuple[str, Span, str]]:
    """Other values of an argument: what is changed, and the text to put where."""
    value, name = argument.span.of(text), argument.name
    if argument.type.startswith("float[") or argument.type in _UNIQUE:   # there are no others
        return
    if argument.type == "bool":
        yield f"{name} negated", argument.span, f"!({value})"
    elif argument.type in ("TensorMap*", "TensorMap&"):
        sign = value[:value.startswith("&")]
        for other in sorted({f"{sign}{found}" for found in _MAP.findall(text)} - {value}):
            yield f"map = {other}", argument.span, other
    elif value in _OTHER:
        yield f"{name} = {_OTHER[value]}", argument.span, _OTHER[value]
    else:
        for unit in _UNITS.get(name, (1,)):
            yield f"{name} + {unit}", argument.span, f"({value}) + {unit}"
            yield f"{name} - {unit}", argument.span, f"({value}) - {unit}"
    for match in _LITERAL.finditer(value):
        span = Span(argument.span.start + match.start(), argument.span.start + match.end())
        if span != argument.span:
            for other in (int(match[0]) + 1, int(match[0]) - 1):
                yield f"{name}, {match[0]} -> {other} at {match.start() + 1}", span, str(other)


def _swaps(text: str, found: list[Call]) -> Iterator[tuple[str, str]]:
    """Neighbouring statements that are both calls, in the other order."""
    for first, second in pairwise([call for call in found if not call.is_value]):
        a, b = first.statement, second.statement
        if code_only(text)[a.end:b.start].strip() == "" and "#" not in text[a.end:b.start]:
            mutated = text[:a.start] + b.of(text) + text[a.end:b.start] + a.of(text) + text[b.end:]
            yield f"{first.primitive} {first.number}: after {second.primitive} {second.number}", mutated


def _other_constants(text: str) -> Iterator[tuple[str, str]]:
    """Each constant at the top of the file, one more and one less."""
    for declaration in _CONSTANTS.finditer(code_only(text)):
        for match in re.finditer(r"(\w+) = ([^,]+)", declaration[1]):
            begin = declaration.start(1) + match.start(2)
            span = Span(begin, begin + len(match[2]))
            for change in ("+ 1", "- 1"):
                yield f"{match[1]} {change}", _put(text, span, f"({match[2]}) {change}")
