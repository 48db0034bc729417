"""What the emulator's tests share."""

import functools
import re
from pathlib import Path

from helpers.emulator import Counter, EmulatedModule, EmulatorRun, compile_kernel

KERNELS = Path(__file__).parent / "kernels"


@functools.cache
def compiled(file: str, *entries: str, counters: bool = False, **defines: int) -> EmulatedModule:
    """A test kernel's file, compiled."""
    return compile_kernel(KERNELS / file, entries, defines, counters=counters)


def marked_line(file: str, mark: str) -> int:
    """The line of the comment `// !mark` in a test kernel's file."""
    for number, text in enumerate((KERNELS / file).read_text().splitlines(), 1):
        if re.search(rf"// !{mark}$", text):
            return number
    raise LookupError(f"{file} has no line marked !{mark}")


def counters_at(run: EmulatorRun, line: int, space: str, op: str) -> list[Counter]:
    """The counters of one line."""
    return [counter for counter in run.counters if (counter.line, counter.space, counter.op) == (line, space, op)]
