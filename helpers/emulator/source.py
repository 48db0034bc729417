"""What the emulator must know of a kernel's source before a compiler sees it. Plain text work, no parser."""

import re
from collections.abc import Iterator

# Comments, and strings with their quotes; what is left is code.
_COMMENT_OR_STRING = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")
_ATTRIBUTES = {"__launch_bounds__", "__cluster_dims__", "__align__"}
_DYNAMIC_SHARED = re.compile(r"\bextern\b[^;{}()]*\b__shared__\b[^;]*?(\w+)\s*\[\s*\]\s*;")


def code_only(text: str) -> str:
    """The source with comments and strings blanked out; lines keep their numbers."""
    return _COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def asm_line(code: str) -> int | None:
    """The line of the first `asm` in `code` (as of `code_only`), None if there is none."""
    match = _ASM.search(code)
    return None if match is None else code.count("\n", 0, match.start()) + 1


def dynamic_shared_names(code: str) -> tuple[str, ...]:
    """The names of the arrays declared `extern __shared__ T name[];`."""
    return tuple(sorted(set(_DYNAMIC_SHARED.findall(code))))


def dynamic_shared_alignment(code: str) -> int:
    """What the dynamic arrays are declared to be aligned to, in bytes; 16, the least a GPU gives, if they don't say.

    A number that the preprocessor has yet to find is taken for 1024.
    """
    asked = 16
    for declaration in re.finditer(r"\bextern\b[^;{}]*\b__shared__\b[^;{}]*\[\s*\]\s*;", code):
        for number in re.findall(r"(?:__align__|alignas)\s*\(\s*([^()]*?)\s*\)", declaration[0]):
            asked = max(asked, int(number) if number.isdecimal() else 1024)
    return asked


def map_without_grid_constant(code: str, entry: str) -> tuple[str, int] | None:
    """Name and line of the first TensorMap parameter of a kernel that is no `__grid_constant__`; None if all are."""
    match = _parameter_list(code, entry)
    if match is None:
        return None
    place = match.start(1)
    for part in match[1].split(","):
        found = re.search(r"\bTensorMap\s+(\w+)\s*$", part)
        if found and not re.search(r"\bconst\b[^,]*\b__grid_constant__|\b__grid_constant__[^,]*\bconst\b", part):
            return found[1], code.count("\n", 0, place + found.start()) + 1
        place += len(part) + 1
    return None


def kernel_names(code: str) -> frozenset[str]:
    """The names of the `__global__` functions."""
    return frozenset(name for name, _ in _kernels(code))


def launch_bounds(code: str, entry: str) -> str | None:
    """The arguments of a kernel's `__launch_bounds__`, as they stand in the code; None if it has none."""
    return _attribute(code, entry, "__launch_bounds__")


def cluster_dims(code: str, entry: str) -> str | None:
    """The arguments of a kernel's `__cluster_dims__`, as they stand in the code; None if it has none."""
    return _attribute(code, entry, "__cluster_dims__")


def _attribute(code: str, entry: str, attribute: str) -> str | None:
    kernels = (attributes for name, attributes in _kernels(code) if name == base_name(entry))
    return next((attributes[attribute] for attributes in kernels if attributes.get(attribute)), None)


def _kernels(code: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and attributes with their arguments of each `__global__` function, in the order of the code."""
    for start in re.finditer(r"\b__global__\b", code):
        place = start.end()
        attributes: dict[str, str] = {}
        while called := re.compile(r"\b(\w+)\s*\(").search(code, place):
            if called[1] not in _ATTRIBUTES:
                yield called[1], attributes
                break
            place = _closing(code, called.end())
            attributes[called[1]] = " ".join(code[called.end():place].split())


def _closing(code: str, place: int) -> int:
    """Where the parenthesis is closed that was opened just before `place`; the end if it is not."""
    depth = 1
    for match in re.compile(r"[()]").finditer(code, place):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.start()
    return len(code)


def has_function(code: str, entry: str) -> bool:
    """Whether the code names a function `entry` (for a template instance: the template)."""
    return re.search(rf"\b{re.escape(base_name(entry))}\s*\(", code) is not None


def base_name(entry: str) -> str:
    """`matmul<64>` -> `matmul`."""
    return entry.partition("<")[0].strip()


def _parameter_list(code: str, entry: str) -> re.Match[str] | None:
    """Where a kernel's parameters stand, without their parentheses, in group 1; None if they cannot be made out."""
    return re.search(rf"\b{re.escape(base_name(entry))}\s*\(([^()]*)\)\s*{{", code)


def parameter_names(code: str, entry: str) -> tuple[str, ...]:
    """The names of a kernel's parameters; empty if they cannot be made out."""
    match = _parameter_list(code, entry)
    if match is None or not match.group(1).strip():
        return ()
    names = [re.search(r"(\w+)\s*(?:\[\s*\])?\s*$", part) for part in match.group(1).split(",")]
    return tuple(name.group(1) for name in names if name) if all(names) else ()
