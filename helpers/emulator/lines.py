"""Source lines of machine code, through `addr2line`, which comes with the compiler (binutils, or LLVM's)."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

TOOLS = ("addr2line", "llvm-addr2line")


def source_lines(library: Path, offsets: Iterable[int], source: str) -> Mapping[int, int]:
    """The line of the file `source` that each offset of a library's code belongs to.

    Where a function of a header was inlined, that is the line of the kernel that called it. Offsets with no line, and
    all of them if there is no addr2line, are missing from the answer.
    """
    wanted = sorted(set(offsets))
    tool = next((found for found in map(shutil.which, TOOLS) if found), None)
    if tool is None or not wanted:
        return {}
    command = [tool, "-a", "-i", "-e", str(library), *(hex(offset) for offset in wanted)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse_addr2line(output, source)


def parse_addr2line(output: str, source: str) -> dict[int, int]:
    """Read the output of `addr2line -a -i`: an address, then its frames as `path:line`, the innermost first."""
    lines: dict[int, int] = {}
    offset = None
    for text in output.splitlines():
        if text.startswith("0x"):
            offset = int(text, 16)
            continue
        match = re.match(r"(?:.*/)?([^/]+):(\d+)", text)
        if offset is not None and offset not in lines and match and match[1] == source and match[2] != "0":
            lines[offset] = int(match[2])
    return lines
