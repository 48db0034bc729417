"""The few facts of a cubin's ELF file that the package needs: its sections by name.

A cubin is a 64-bit little-endian ELF file (System V ABI, "Object Files"): a header, then sections, found through a
table of 64-byte section headers; each kernel's machine code is the section `.text.<entry>`.
"""

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SHT_NOBITS = 8   # a section without bytes in the file


def sections(data: bytes) -> dict[str, bytes]:
    """The bytes of every section by its name. Raises ValueError if `data` is not a 64-bit ELF file."""
    if len(data) < HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("the data is not a 64-bit little-endian ELF file")
    header = HEADER.unpack_from(data)
    table, entry_size, count, names_index = header[6], header[11], header[12], header[13]
    if entry_size != SECTION.size or table + count * entry_size > len(data) or names_index >= count:
        raise ValueError("the ELF file's section table is damaged")
    headers = [SECTION.unpack_from(data, table + index * entry_size) for index in range(count)]
    names = _content(data, headers[names_index])
    return {_name(names, header[0]): _content(data, header) for header in headers}


def _content(data: bytes, header: tuple[int, ...]) -> bytes:
    kind, offset, size = header[1], header[4], header[5]
    return b"" if kind == SHT_NOBITS else data[offset:offset + size]


def _name(names: bytes, start: int) -> str:
    return names[start:names.index(b"\0", start)].decode()
