"""JSON files that people diff: stable order, short, written whole or not at all, and checked when read."""

import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.checks import checked_path
from helpers.errors import RecordError
from helpers.files import write_whole
from helpers.rungs import ROOT
from helpers.words import short

MAX_BYTES = 16 << 20         # of a file; the longest record has some 10,000
LEAST, MOST = 1e-30, 1e30    # of a measured number above zero: what is computed from it stays finite
MOST_KEY = 80                # letters of a key that a message shows
LARGEST_INTEGER = 2**63 - 1
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")   # as JSON writes one
RUNG, FUNCTION, HASH = r"(?:\d\d|appendix)_\w+", r"[A-Za-z_]\w*", r"[0-9a-f]{16}"
DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ"
# What is not recorded with the ladder, by the name of its file or folder, and the module that records it.
RECORDERS = {
    "clock": "held_clock", "clusters.json": "cluster_room", "cublas_torch.json": "cublas_torch",
    "energy.json": "energy", "inputs": "input_speeds", "memory.json": "memory_speed", "orders": "order_speeds",
    "profile": "profile", "running.json": "minutes", "sanitizer": "compute_sanitizer", "shapes": "shapes",
}
BY_HAND = ("published.json",)   # written by people


def display(path: Path) -> str:
    """The path as a message names it: relative to the repository if it lies there."""
    try:
        return str(Path(path).resolve().relative_to(ROOT))
    except (OSError, RuntimeError, ValueError):   # elsewhere, or a loop of links
        return str(path)


def recorder(path: Path) -> str:
    """The command that records such a file."""
    path = Path(path)
    module = RECORDERS.get(path.name) or RECORDERS.get(path.parent.name, "record")
    return f"`python -m helpers.{module}`"


def _remedy(path: Path) -> str:
    again = "" if Path(path).name in BY_HAND else f", or delete it and record again with {recorder(path)}"
    return f"restore it with git{again}"


def format_json(value: Any, indent: int = 0) -> str:
    """JSON with one line per key; a list without objects in it (samples) stays on one line. Keys keep their order.

    Raises ValueError for NaN and infinities, which JSON does not have.
    """
    pad = "  " * (indent + 1)
    if isinstance(value, dict) and value:
        lines = [f"{pad}{json.dumps(str(key))}: {format_json(item, indent + 1)}" for key, item in value.items()]
    elif isinstance(value, list | tuple) and _holds_objects(value):
        lines = [pad + format_json(item, indent + 1) for item in value]
    else:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + "\n" + ",\n".join(lines) + "\n" + "  " * indent + closing


def _holds_objects(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, dict) or _holds_objects(item) for item in value)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file. Raises RecordError, naming the file, if there is none or it is no JSON object.

    Stricter than JSON: a key that stands twice in an object (as after a merge) is refused, and so is what could not be
    written again: text that is no Unicode (half of a surrogate pair), and a number such as 1e999.
    """
    path = checked_path("path", path)
    try:
        _require_file(path)
        text = path.read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_object)
        if SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except RecordError:   # a ValueError, too
        raise
    except FileNotFoundError:
        raise RecordError(
            f"{display(path)} does not exist: restore it with git, or record it with {recorder(path)}."
        ) from None
    except OSError as error:
        raise RecordError(f"{display(path)} cannot be read ({error.strerror}): check its permissions.") from None
    except RecursionError:
        raise RecordError(f"{display(path)} is not a record, it is nested too deeply: {_remedy(path)}.") from None
    except ValueError as error:
        raise RecordError(f"{display(path)} is not valid JSON ({error}): {_remedy(path)}.") from None
    if not isinstance(data, dict):
        raise RecordError(f"{display(path)} holds a JSON {type(data).__name__}, not an object: {_remedy(path)}.")
    return data


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"it contains {constant}")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"it contains {digits[:20]}, which is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {_kind(twice)} stands in an object twice")
    return found


def _require_file(path: Path) -> None:
    """Raises RecordError for a folder, a pipe and the like, and for a file far too long for a record."""
    size = path.stat().st_size
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no regular file"
        raise RecordError(f"{display(path)} is {kind}: move it away, then restore the file with git.")
    if size > MAX_BYTES:
        raise RecordError(f"{display(path)} has {size:,} bytes, a record has at most {MAX_BYTES:,}: {_remedy(path)}.")


def write_json(path: Path, data: dict[str, Any], check: Callable[[dict[str, Any], Path], object]) -> Path:
    """Write `data` to `path` in one step (a temporary file beside it, then a rename). Returns the path.

    check: is given the object and the path, and raises RecordError if they don't fit; called for the new data, and
    for a file that is already there, so that a damaged file is never lost silently.
    Raises RecordError for a folder that cannot be written and for a damaged file in the way, ArgumentError for no path.
    """
    path = checked_path("path", path)
    check(data, path)
    if os.path.exists(path):   # pathlib's raises if the name is too long
        try:
            check(read_json(path), path)
        except RecordError as error:
            raise RecordError(f"{display(path)} is in the way and damaged, so it is not overwritten; {error}") from None
    text = format_json(data) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise RecordError(
            f"{display(path)} cannot be written ({error.strerror}): give a folder that you may write to."
        ) from None
    return path


class Fields:
    """Checked access to the keys of a JSON object that came from a file; every error names file, key and remedy."""

    def __init__(self, data: Any, path: Path, where: str = "") -> None:
        self.path, self.where = path, where
        if not isinstance(data, dict):
            self.fail("", f"is {_kind(data)}", "an object")
        self.data: dict[str, Any] = data

    def fail(self, key: str, found: str, needed: str) -> None:
        """Raise RecordError: which key, what it is, what it must be."""
        name = ".".join(_shown(part) for part in (self.where, key) if part) or "the file"
        raise RecordError(f"{display(self.path)}: {name} {found}, but it must be {needed}; {_remedy(self.path)}.")

    def require_place(self, *parts: str) -> None:
        """Raise RecordError if the file's path does not end in these parts: what it holds is of something else.

        So that a file which was copied or renamed by hand is not taken for what its name says.
        """
        if self.path.parts[-len(parts):] != parts:
            self.fail("", f"holds {_shown('/'.join(parts))}", "under that name")

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.data.get(key) is not None

    def take(self, key: str, needed: str) -> Any:
        """The value of a required key."""
        if key not in self.data:
            self.fail(key, "is missing", needed)
        return self.data[key]

    def text(self, key: str, pattern: str = r".+", needed: str = "a text that is not empty") -> str:
        """A string, without control characters, that matches the whole pattern."""
        value = self.take(key, needed)
        if not isinstance(value, str) or not value.isprintable() or not re.fullmatch(pattern, value, re.ASCII):
            self.fail(key, f"is {_kind(value)}", needed)
        return value

    def rung(self) -> str:
        """The name of a rung, under `rung`; it need not be one that there still is."""
        return self.text("rung", RUNG, "a rung's name such as '01_coalescing'")

    def entry(self) -> str:
        """The name of a kernel function, under `entry`."""
        return self.text("entry", FUNCTION, "the name of a kernel function")

    def code_hash(self, key: str = "code_hash") -> str:
        """The hash of a kernel's machine code (helpers.cuda.code_hash)."""
        return self.text(key, HASH, "16 hexadecimal digits")

    def date(self) -> str:
        """A time in UTC as `helpers.device.now` gives it, under `date`."""
        return self.text("date", DATE, "a UTC time such as '2026-11-29T12:00:00Z'")

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """One of a few strings."""
        needed = " or ".join(map(short, choices))
        value = self.take(key, needed)
        if value not in choices:
            self.fail(key, f"is {_kind(value)}", needed)
        return value

    def boolean(self, key: str) -> bool:
        """True or False."""
        value = self.take(key, "true or false")
        if not isinstance(value, bool):
            self.fail(key, f"is {_kind(value)}", "true or false")
        return value

    def integer(self, key: str, least: int = 0) -> int:
        """An integer of at least `least`."""
        needed = f"an integer of at least {least}"
        value = self.take(key, needed)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_INTEGER:
            self.fail(key, f"is {_kind(value)}", needed)
        return value

    def number(self, key: str, positive: bool = True) -> float:
        """A finite number, above zero unless `positive` is False."""
        needed = "a finite number above zero" if positive else "a finite number"
        value = self.take(key, needed)
        if not (_is_positive(value) if positive else _is_number(value)):
            self.fail(key, f"is {_kind(value)}", needed)
        return float(value)

    def optional_number(self, key: str, positive: bool = True) -> float | None:
        """A number, or None where the key holds null or is missing."""
        return self.number(key, positive) if self.has(key) else None

    def optional_integer(self, key: str, least: int = 0) -> int | None:
        """An integer, or None where the key holds null or is missing."""
        return self.integer(key, least) if self.has(key) else None

    def optional_text(self, key: str) -> str | None:
        """A text, or None where the key holds null or is missing."""
        return self.text(key) if self.has(key) else None

    def object(self, key: str) -> "Fields":
        """A nested object."""
        return Fields(self.take(key, "an object"), self.path, f"{self.where}.{key}" if self.where else key)

    def objects(self, key: str) -> list["Fields"]:
        """A list of objects."""
        value = self.take(key, "a list of objects")
        if not isinstance(value, list):
            self.fail(key, f"is {_kind(value)}", "a list of objects")
        return [Fields(item, self.path, f"{self.where}.{key}[{i}]".lstrip(".")) for i, item in enumerate(value)]

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.take(key, "a list of texts")
        if not isinstance(value, list) or not all(isinstance(item, str) and item.isprintable() for item in value):
            self.fail(key, f"is {_kind(value)}", "a list of texts, each of one line")
        return tuple(value)

    def scalars(self, key: str) -> dict[str, Any]:
        """An object of plain values (text, finite number, bool, null)."""
        nested = self.object(key)
        for name, value in nested.data.items():
            if not (value is None or isinstance(value, str | bool) or _is_number(value)):
                nested.fail(name, f"is {_kind(value)}", "a text, a finite number, true, false or null")
        return dict(nested.data)

    def numbers(self, key: str, allow_null: bool = False) -> tuple[float | None, ...]:
        """A list of finite numbers above zero (or null, where allowed)."""
        needed = "a list of finite numbers above zero"
        value = self.take(key, needed)
        if not isinstance(value, list):
            self.fail(key, f"is {_kind(value)}", needed)
        for item in value:
            if not ((item is None and allow_null) or _is_positive(item)):
                self.fail(key, f"contains {_kind(item)}", needed)
        return tuple(None if item is None else float(item) for item in value)

    def rounds(self, key: str) -> tuple[tuple[float, ...], ...]:
        """A list of rounds, each a list of one or more finite numbers above zero."""
        needed = "a list of rounds, each a list of finite numbers above zero"
        value = self.take(key, needed)
        if not isinstance(value, list) or not value:
            self.fail(key, f"is {_kind(value)}", needed)
        for samples in value:
            if not isinstance(samples, list) or not samples:
                self.fail(key, f"contains {_kind(samples)}", needed)
            for item in samples:
                if not _is_positive(item):
                    self.fail(key, f"contains {_kind(item)}", needed)
        return tuple(tuple(float(item) for item in samples) for samples in value)


def _shown(key: str) -> str:
    """A key of a file as a sentence names it: in one line, and not all of a long one."""
    text = key if key.isprintable() else json.dumps(key)
    return text if len(text) <= MOST_KEY else f"{text[:MOST_KEY]}..."


def _is_number(value: Any) -> bool:
    """Whether it is a number of a size that can be computed with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST <= value <= MOST


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value >= LEAST


def _kind(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return json.dumps(value)[:60]
