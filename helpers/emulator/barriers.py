"""Names for mbarriers: a report says `full[2]` and not an offset."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from helpers.emulator.image import SharedArray
from helpers.emulator.protocol import BarrierSpec

_INIT = re.compile(r"\bmbarrier_init\s*\(\s*&?\s*([^,;]+),")


def barrier_names(barriers: Iterable[BarrierSpec], code: str, arrays: Sequence[SharedArray]) -> dict[int, str]:
    """The name of each barrier by its offset in shared memory.

    It is a `__shared__` variable if one lies there; else what the line of its mbarrier_init calls it. Barriers that
    one call initialises are numbered by their place.
    """
    lines = code.splitlines()
    calls: dict[tuple[int, int], list[int]] = defaultdict(list)   # line and call on it -> offsets
    on_line: dict[int, int] = defaultdict(int)
    for barrier in sorted(barriers, key=lambda barrier: barrier.order):
        count = len(_called(lines, barrier.line))
        calls[barrier.line, on_line[barrier.line] % max(count, 1)].append(barrier.offset)
        on_line[barrier.line] += 1
    names: dict[int, str] = {}
    for (line, call), offsets in calls.items():
        expressions = _called(lines, line)
        name = _base_name(expressions[call]) if expressions else ""
        is_array = len(offsets) > 1 or (bool(expressions) and "[" in expressions[call])
        for index, offset in enumerate(sorted(offsets)):
            if name:
                names[offset] = f"{name}[{index}]" if is_array else name
    names.update({offset: name for offset in names.keys() | _all(calls) if (name := _static_name(offset, arrays))})
    return names


def _all(calls: dict[tuple[int, int], list[int]]) -> set[int]:
    return {offset for offsets in calls.values() for offset in offsets}


def _called(lines: Sequence[str], line: int) -> list[str]:
    """What the calls of mbarrier_init on a line initialise, as it stands there."""
    return _INIT.findall(lines[line - 1]) if 0 < line <= len(lines) else []


def _base_name(expression: str) -> str:
    """`shared.full[stage]` -> `full`, `full + stage` -> `full`; empty if there is no name."""
    without_index = re.sub(r"\[[^\]]*\]", "", expression)
    first = re.split(r"[+(]", without_index)[0].strip()
    names = re.findall(r"[A-Za-z_]\w*", first)
    return names[-1] if names else ""


def _static_name(offset: int, arrays: Sequence[SharedArray]) -> str | None:
    """The `__shared__` variable of fixed size at an offset, with an index if it is an array of barriers."""
    for array in arrays:
        if array.function and array.begin <= offset < array.begin + array.bytes and array.bytes <= 8 * 64:
            return array.name if array.bytes == 8 else f"{array.name}[{(offset - array.begin) // 8}]"
    return None
