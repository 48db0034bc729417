"""Checks of arguments that many modules share: each sentence names the argument, what it is and what it must be."""

import math
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.errors import ArgumentError
from helpers.words import short

MOST_PATH = 300   # letters of a path that a message shows


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def require_integer(name: str, value: Any, least: int | None = None, most: int | None = None) -> None:
    """Raises ArgumentError if an argument is no integer within the limits that are given, both included."""
    if is_integer(value) and (least is None or value >= least) and (most is None or value <= most):
        return
    limits = "" if least is None else f" of at least {least:,}" if most is None else f" from {least:,} to {most:,}"
    raise ArgumentError(f"{name} is {short(value)}: it must be an integer{limits}.")


def require_integers(name: str, value: Any) -> None:
    """Raises ArgumentError if an argument is neither an integer nor a NumPy array of integers."""
    if not is_integer(value) and not (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
        raise ArgumentError(f"{name} is {short(value)}: it must be an integer or an array of integers.")


def require_positive(name: str, value: Any, what: str = "number") -> None:
    """Raises ArgumentError if an argument is no finite number above 0."""
    is_number = is_integer(value) or isinstance(value, float | np.floating)
    if not is_number or not 0 < value < math.inf:
        raise ArgumentError(f"{name} is {short(value)}: it must be a positive {what}.")


def checked_path(name: str, value: Any, what: str = "file") -> Path:
    """A path that an argument gives. what: it leads to. Raises ArgumentError if it is neither a text nor a Path."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError(f"{name} is {short(value)}: it must be the path of a {what}, a text or a pathlib.Path.")
    return Path(text)


def checked_folder(name: str, value: Any) -> Path:
    """The path of a folder that an argument gives, there or yet to be made. Raises ArgumentError if it is none."""
    path = checked_path(name, value, "folder")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    except OSError as error:
        given = short(str(path), MOST_PATH)
        raise ArgumentError(f"{name} is {given}, which is no folder ({error.strerror}): give another one.") from None
    if not stat.S_ISDIR(mode):
        raise ArgumentError(f"{name} is {short(str(path), MOST_PATH)}, which is a file: give a folder.")
    return path


def require_some(name: str, values: Any, most: int | None = None) -> None:
    """Raises ArgumentError for a list or a dictionary that is empty, or has more than `most` items."""
    if not len(values):
        raise ArgumentError(f"{name} is empty: give at least one.")
    if most is not None and len(values) > most:
        raise ArgumentError(f"{name} has {len(values):,} items: a picture shows {most:,} at most; give fewer.")


def require_known(name: str, value: Any, known: Iterable[str]) -> None:
    """Raises ArgumentError if an argument is none of the texts that are known."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise ArgumentError(f"{name} is {short(value)}: it must be one of {', '.join(map(repr, names))}.")


def require_kind(name: str, value: Any, kind: type, remedy: str) -> None:
    """Raises ArgumentError if an argument is not of this type. remedy: such as "make it with place_box"."""
    if not isinstance(value, kind):
        raise ArgumentError(f"{name} is {short(value)}, not a {kind.__name__}: {remedy}.")


def require_sequence(name: str, values: Any, kind: type, remedy: str) -> None:
    """Raises ArgumentError if an argument is no list or tuple of at least one value, all of this type."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or not values:
        raise ArgumentError(f"{name} is {short(values)}: it must be a list of at least one {kind.__name__}; {remedy}.")
    for index, value in enumerate(values):
        require_kind(f"{name}[{index}]", value, kind, remedy)
