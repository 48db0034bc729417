"""Damage for files: bytes that flip, vanish and repeat; JSON values that are lost, swapped or of another kind."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

# What nobody writes on purpose, and what a slip of the pen makes.
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"),
    "", " ", "x", "0", "1.5", "nan", "\0", "\ud800", "é" * 300, "../../x", "/", "a\nb", "[", "x" * 5000,
    [], [[]], [None], [1, "x"], {}, {"": None}, {"x": {"y": []}}, [[[[[[]]]]]], [0.0], [[0.0]], [[1e300]],
)
SNIPPETS = (
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"NaN", b"Infinity", b"{", b"}", b"[", b"]" * 9, b",", b'"', b"\\",
    b"\\ud800", b"-", b"1e999", b"9" * 5000, b"[" * 3000, b'{"a":' * 2000, b"null", b"<<<<<<< HEAD\n", b"\r\n",
)


def damaged_bytes(draw: random.Random, data: bytes) -> bytes:
    """The bytes with one to four places changed, or something else altogether."""
    if draw.random() < 0.05:
        return draw.randbytes(draw.choice((0, 1, 2, 7, 100, 5000)))
    for _ in range(draw.randint(1, 4)):
        at = draw.randint(0, len(data))
        until = min(len(data), at + draw.choice((0, 1, 1, 2, 8, 100, 10_000)))
        kind = draw.randrange(5)
        if kind == 0 and at < len(data):      # a bit flips
            data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]
        elif kind == 1:                       # a part is lost
            data = data[:at] + data[until:]
        elif kind == 2:                       # a part is there twice
            data = data[:until] + data[at:]
        elif kind == 3:                       # something comes in between
            data = data[:at] + draw.choice(SNIPPETS) + data[until:]
        else:                                 # the end is lost
            data = data[:at]
    return data


def damaged_json(draw: random.Random, value: Any, depth: int = 1) -> Any:
    """A copy of a JSON value with one to three of its parts changed; those less deep in it than `depth` are kept."""
    value = deepcopy(value)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        places = [place for place in _places(value) if len(place) >= depth]
        if not places:
            return value
        *way, last = draw.choice(places)
        parent = value
        for key in way:
            parent = parent[key]
        _change(draw, parent, last, value, places)
    return value


def _places(value: Any, way: tuple = ()) -> Iterator[tuple]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*way, key)
        yield from _places(item, (*way, key))


def _change(draw: random.Random, parent: Any, key: Any, whole: Any, places: list[tuple]) -> None:
    kind = draw.randrange(8)
    old = parent[key]
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[draw.choice(("", "x", str(key).upper(), str(key) + " ", "\ud800", "a\nb", "x" * 900))] = parent.pop(key)
    elif kind == 2:   # what stands elsewhere
        other = whole
        for step in draw.choice(places):
            other = other[step]
        parent[key] = deepcopy(other)
    elif kind == 3 and isinstance(old, list):
        parent[key] = draw.choice((old[:-1], old + old[:1], old + [draw.choice(HOSTILE)], old[::-1], [old]))
    elif kind == 4 and isinstance(old, int | float) and not isinstance(old, bool):
        parent[key] = draw.choice((-old, old + 1, old * 1000, float(old), str(old), [old], old * 1e-9))
    elif kind == 5 and isinstance(old, str):
        parent[key] = draw.choice((old + "\n", " " + old, old[:-1], old.upper(), old * 2, old.replace("0", "٠"), [old]))
    elif kind == 6 and isinstance(parent, list):
        parent.insert(key, deepcopy(old))
    else:
        parent[key] = draw.choice(HOSTILE)


def json_bytes(draw: random.Random, value: Any) -> bytes:
    """A value as a file holds it; now and then with a key twice, in UTF-16, or with letters escaped."""
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=draw.choice((None, 1)))
    if draw.random() < 0.02:
        return text.encode("utf-16", "surrogatepass")
    return text.encode("utf-8", "surrogatepass")
