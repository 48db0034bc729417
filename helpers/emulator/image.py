"""The facts of a compiled kernel's library (an ELF file) that the emulator needs: its shared arrays and its code.

Shared memory is thread-local storage (see `include/emulator/language.h`), so a shared array is a symbol of that kind
and its value is its offset. Source: System V ABI, "Object Files"; tables of 64-byte headers, all little-endian.
"""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_TLS, _PF_X = 1, 7, 1
_SHT_SYMTAB = 2
_STT_OBJECT, _STT_TLS = 1, 6


@dataclass(frozen=True)
class SharedArray:
    """A `__shared__` variable: its name in the source, and its place in the CTA's shared memory in bytes.

    function: the mangled name of the function that declares it; empty for dynamic arrays.
    """

    name: str
    begin: int
    bytes: int
    function: str = ""

    def is_of(self, function: str) -> bool:
        """Whether a function of this name declares it (any instance, if it is a template)."""
        return f"{len(function)}{function}" in self.function


@dataclass(frozen=True)
class OwnVariable:
    """A variable that a library has in its memory: its name, and its place from the library's start in bytes."""

    name: str
    begin: int
    bytes: int


@dataclass(frozen=True)
class Image:
    """A kernel's library.

    symbols: value of each defined symbol. shared: the static shared arrays, by place. variables: such as a file's
    `__device__` ones.
    shared_bytes: size of the whole shared segment, with the reserve for dynamic arrays.
    code: (begin, end) of the machine code. bytes: size of the library in memory. Offsets from its start.
    """

    symbols: dict[str, int]
    shared: tuple[SharedArray, ...]
    variables: tuple[OwnVariable, ...]
    shared_bytes: int
    code: tuple[int, int]
    bytes: int


def read_image(path: Path) -> Image:
    """Read a library that the emulator's build made. Raises ValueError if it is damaged."""
    data = path.read_bytes()
    try:
        header = _HEADER.unpack_from(data)
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path.name} is not a 64-bit little-endian ELF file")
        segments = [_PROGRAM_HEADER.unpack_from(data, header[5] + i * _PROGRAM_HEADER.size) for i in range(header[10])]
        sections = [_SECTION_HEADER.unpack_from(data, header[6] + i * _SECTION_HEADER.size) for i in range(header[12])]
        symbols, shared, variables = _symbols(data, sections)
    except (struct.error, IndexError, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is damaged ({error})") from None
    loaded = [segment for segment in segments if segment[0] == _PT_LOAD]
    code = [segment for segment in loaded if segment[1] & _PF_X]
    return Image(
        symbols=symbols,
        shared=shared,
        variables=variables,
        shared_bytes=max((segment[6] for segment in segments if segment[0] == _PT_TLS), default=0),
        code=(min(segment[3] for segment in code), max(segment[3] + segment[6] for segment in code)),
        bytes=max(segment[3] + segment[6] for segment in loaded),
    )


def _symbols(
    data: bytes, sections: list[tuple[int, ...]]
) -> tuple[dict[str, int], tuple[SharedArray, ...], tuple[OwnVariable, ...]]:
    symbols: dict[str, int] = {}
    shared, variables = [], []
    for section in sections:
        if section[1] != _SHT_SYMTAB:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name_offset, info, _, section_index, value, size = _SYMBOL.unpack_from(data, at)
            if section_index == 0:
                continue   # defined elsewhere
            start = names_at + name_offset
            name = data[start:data.index(b"\0", start)].decode()
            if info & 15 == _STT_TLS:
                if size:
                    function, local = split_local_name(name)
                    shared.append(SharedArray(local, value, size, function))
                else:
                    symbols[name] = value   # the start of the dynamic arrays, which has no size
            else:
                symbols[name] = value
                if info & 15 == _STT_OBJECT and size:
                    variables.append(OwnVariable(name, value, size))
    return symbols, tuple(sorted(shared, key=lambda array: array.begin)), tuple(variables)


def split_local_name(symbol: str) -> tuple[str, str]:
    """The function and the name of a local variable's symbol: `_ZZ6matmulE6A_tile` -> `6matmul`, `A_tile`.

    Itanium C++ ABI, "Mangling": a local name is `Z`, the function, `E`, the length of the name, the name, and a
    discriminator where the function has several of that name.
    """
    for match in re.finditer(r"E(\d+)", symbol):
        length, rest = int(match.group(1)), symbol[match.end():]
        if len(rest) >= length and re.fullmatch(r"(_\d+|__\d+_)?", rest[length:]):
            return symbol[:match.start()].removeprefix("_ZZ"), rest[:length]
    return "", symbol
