"""Reading machine code (SASS): the loop that matters, and how often each instruction stands in it."""

import re
from collections import Counter

from helpers.errors import ArgumentError

# An address, a predicate perhaps, the instruction with its suffixes, the operands.
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
_LABEL = re.compile(r"^(\.L_x_\d+):", re.MULTILINE)


def inner_loop(sass: str, opcode: str = "FFMA") -> str:
    """The lines of the innermost loop with `opcode` (of several, with the most), from its label to its branch back.

    It may hold smaller loops without that instruction, such as one that waits for a barrier. What lies behind the
    program's end (EXIT) and jumps back is no loop: the compiler keeps there what is seldom needed.

    Raises ArgumentError if no loop has such an instruction.
    """
    lines = sass.splitlines()
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if label := _LABEL.match(line):
            labels[label[1]] = number
        elif (found := _INSTRUCTION.search(line)) and found[1].split(".")[0] == "BRA":
            target = re.search(r"\.L_x_\d+", found[2])
            if target and target[0] in labels:
                loops.append((labels[target[0]], number))
    bodies = {(first, last): "\n".join(lines[first : last + 1]) for first, last in loops}
    tables = {loop: opcode_counts(body) for loop, body in bodies.items()}
    counts = {loop: table[opcode] for loop, table in tables.items() if table[opcode] and not table["EXIT"]}
    innermost = [
        (first, last) for first, last in counts
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in counts)
    ]
    if not innermost:
        raise ArgumentError(f"opcode {opcode!r} is in no loop of this code: give one that is, such as 'FFMA'.")
    return bodies[max(innermost, key=counts.__getitem__)]


def opcode_counts(sass: str, suffixes: bool = False) -> "Counter[str]":
    """How often each instruction stands in the code, the most frequent first.

    suffixes: tell `LDS.128` and `LDS` apart. Instructions that do nothing (NOP) are left out.
    """
    found = [match[1] if suffixes else match[1].split(".")[0] for match in _INSTRUCTION.finditer(sass)]
    return Counter(dict(Counter(name for name in found if name != "NOP").most_common()))
