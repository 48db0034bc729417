"""What a kernel file is told with -D: the defines that it asks for, and the values that they take."""

import re
from collections.abc import Mapping
from pathlib import Path

from helpers.checks import is_integer
from helpers.errors import ArgumentError
from helpers.rungs import Rung
from helpers.words import short

MOST_LETTERS = 100   # of a name or a value: both come into names of files
SWITCH = ("0", "1")


def checked_defines(defines: Mapping[str, str | int] | None) -> dict[str, str | int]:
    """The defines with names and values that are safe on a command line. Raises ArgumentError for others."""
    if not isinstance(defines, Mapping | None):
        raise ArgumentError(f"defines is {short(defines)}: it must be a dict such as {{'BUFFERS': 1}}.")
    return {_checked_name(name): _checked_value(name, value) for name, value in (defines or {}).items()}


def _checked_name(name: object) -> str:
    if isinstance(name, str) and len(name) <= MOST_LETTERS and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        return name
    raise ArgumentError(
        f"define {short(name)} is not a C identifier of {MOST_LETTERS} letters at most: give defines such as BUFFERS=1."
    )


def _checked_value(name: str, value: object) -> str | int:
    if is_integer(value) and abs(int(value)) < 10 ** (MOST_LETTERS - 1):
        return int(value)
    if isinstance(value, str) and len(value) <= MOST_LETTERS and re.fullmatch(r"[\w.+-]+", value, re.ASCII):
        return value
    raise ArgumentError(
        f"define {name} has the value {short(value)}: it must be an integer or a word, of {MOST_LETTERS} letters at "
        "most, such as 1."
    )


def declared_defines(path: Path) -> dict[str, str]:
    """The defines that a kernel file asks for, each with what the file takes where it is not given.

    Such as `{"STAGES": "4"}`, from the lines `#ifndef STAGES` and `#define STAGES 4`; no value makes an include guard.
    """
    text = path.read_text(encoding="utf-8")
    return dict(re.findall(r"^#ifndef (\w+)\b.*\n#define \1 ([\w.+-]+)", text, re.MULTILINE))


def require_declared(rung: Rung, defines: Mapping[str, str | int]) -> None:
    """Raises ArgumentError if a rung's file would not compile with a value, or would take it for another one.

    A define that is 0 or 1 by default is a switch; any other counts the stages of the ring, for which the launch has
    shared memory: at most `Rung.stages`. Not looked at: what the rung is launched for (`Rung.constants`), which one
    value alone fits, and what the file does not ask for.
    """
    for name, default in declared_defines(rung.path).items() if defines else ():
        if name not in defines or name in rung.constants:
            continue
        text = str(defines[name])
        if default in SWITCH and text not in SWITCH:
            raise ArgumentError(f"define {name} is {short(defines[name])}: it is a switch, so it must be 0 or 1.")
        if default not in SWITCH and text not in map(str, range(1, rung.stages + 1)):   # nor "02", octal in C
            raise ArgumentError(
                f"define {name} is {short(defines[name])}: it must be an integer from 1 to {rung.stages}, the stages "
                f"that {rung.name} has shared memory for."
            )
