"""Arguments are held against their annotations before a function begins: a wrong type gets a sentence, no traceback.

What an annotation can't say (limits, lists that may not be empty) stays the function's own business.
"""

import functools
import inspect
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar

import numpy as np

from helpers.checks import is_integer
from helpers.errors import ArgumentError
from helpers.words import short

T = TypeVar("T", bound=Callable)

_LIST, _ARRAY = "a list", "an array"
_PLAIN = {int: "an integer", float: "a finite number", bool: "True or False", str: "a text", NoneType: "None"}


def typed(target: T) -> T:
    """Decorates a function, or a dataclass (above `@dataclass`): raises ArgumentError for an argument whose value does
    not fit its annotation.

    Numbers of NumPy are numbers, True and NaN are none. A list may be any sequence, an array any sequence too.
    """
    function = target.__init__ if isinstance(target, type) else target
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}

    @functools.wraps(function)
    def checked(*arguments, **options):
        if not hints:   # not before: modules may still be importing each other when they are decorated
            hints.update(_hints(function))
        for name, value in signature.bind(*arguments, **options).arguments.items():
            if name in hints:
                _require(name, value, hints[name])
        return function(*arguments, **options)

    if not isinstance(target, type):
        return checked
    target.__init__ = checked
    return target


def _hints(function: Callable) -> dict[str, Any]:
    """The annotations of the arguments; that of the result may name what is imported for type checkers alone."""
    return {
        name: eval(hint, function.__globals__) if isinstance(hint, str) else hint   # of our own code
        for name, hint in function.__annotations__.items() if name != "return"
    }


def _require(name: str, value: Any, hint: Any) -> None:
    """Raises ArgumentError for a value that does not fit, naming the item of a list or a dictionary at fault."""
    if not _fits(value, hint):
        raise ArgumentError(f"{name} is {short(value)}: it must be {_words(hint)}.")
    for kind in (option for option in _options(hint) if _fits(value, option)):
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is Mapping:
            for key, item in value.items():
                _require(f"a key of {name}", key, inner[0])
                _require(f"{name}[{short(key)}]", item, inner[1])
        elif origin in (Sequence, list, tuple):
            kinds = [inner[0]] * len(value) if origin is not tuple or Ellipsis in inner else inner
            if not (isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and inner[0] in (int, float)):
                for index, (item, wanted) in enumerate(zip(value, kinds, strict=True)):
                    _require(f"{name}[{index}]", item, wanted)


def _options(hint: Any) -> tuple[Any, ...]:
    """The types of which a value may be any one."""
    is_union = isinstance(hint, UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; not whether its items are."""
    options = _options(hint)
    if len(options) > 1:
        return any(_fits(value, option) for option in options)
    kind = typing.get_origin(hint) or hint
    if kind is int:
        return is_integer(value)
    if kind is float:
        return is_integer(value) or (isinstance(value, float | np.floating) and math.isfinite(value))
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is tuple and Ellipsis not in typing.get_args(hint):
        return _is_list(value) and len(value) == len(typing.get_args(hint))
    if kind in (Sequence, list, tuple, np.ndarray):
        return _is_list(value)
    if kind is Callable:
        return callable(value)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _is_list(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _words(hint: Any) -> str:
    """What a value must be: `an integer or None`."""
    return " or ".join(dict.fromkeys(_word(option) for option in _options(hint)))


def _word(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint]
    kind, inner = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind is Callable:
        return "a function"
    if kind is Mapping:
        return f"a dictionary that gives {_words(inner[1])} for {_words(inner[0])}"
    if kind is np.ndarray:
        return _ARRAY
    if kind in (Sequence, list, tuple):
        if kind is tuple and Ellipsis not in inner:
            return f"a tuple of {len(inner)}"
        return f"{_LIST}, of which each is {_words(inner[0])}" if inner else _LIST
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
