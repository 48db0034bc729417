"""Arguments are held against their annotations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from helpers.errors import ArgumentError
from helpers.plots.persistence import useful_share
from helpers.rungs import ROOT
from helpers.typed import typed


@typed
def plain(count: int, share: float = 0.5, name: str = "", array: np.ndarray = (), pair: tuple[int, int] = (1, 2)):
    """Says hello."""
    return count, share


@typed
def nested(table: Mapping[str, Sequence[int]], maybe: int | None = None, call: Callable[[int], int] = abs):
    return table


@typed
@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


def test_what_fits_passes_and_the_function_stays_itself():
    assert plain(np.int32(3), np.float32(1), "x", [1, 2], (3, 4)) == (3, 1) and plain(1, share=2) == (1, 2)
    assert nested({"a": [1], "b": range(3), "c": np.arange(2)}, None) and nested({}, 3, lambda x: x) == {}
    assert Point(1, 2).y == 2
    assert plain.__doc__ == "Says hello." and plain.__name__ == "plain" and Point.__name__ == "Point"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plain("x"), "count is 'x': it must be an integer."),
        (lambda: plain(True), "count is True: it must be an integer."),
        (lambda: plain(2.0), "count is 2.0: it must be an integer."),
        (lambda: plain(1, float("nan")), "share is nan: it must be a finite number."),
        (lambda: plain(1, float("inf")), "share is inf: it must be a finite number."),
        (lambda: plain(1, name=3), "name is 3: it must be a text."),
        (lambda: plain(1, array="abc"), "array is 'abc': it must be an array."),
        (lambda: plain(1, array=3), "array is 3: it must be an array."),
        (lambda: plain(1, pair=(1,)), "pair is (1,): it must be a tuple of 2."),
        (lambda: plain(1, pair=(1, "x")), "pair[1] is 'x': it must be an integer."),
        (lambda: nested([1]), "table is [1]: it must be a dictionary that gives a list, of which each is an integer"),
        (lambda: nested({1: [1]}), "a key of table is 1: it must be a text."),
        (lambda: nested({"a": [1, None]}), "table['a'][1] is None: it must be an integer."),
        (lambda: nested({}, "x"), "maybe is 'x': it must be an integer or None."),
        (lambda: nested({}, None, 3), "call is 3: it must be a function."),
        (lambda: Point("x"), "x is 'x': it must be a finite number."),
    ],
)
def test_what_does_not_fit_gets_a_sentence(call, words):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(words) and str(caught.value).endswith(".")


def test_a_missing_argument_is_pythons_own_business():
    with pytest.raises(TypeError, match="count"):
        plain()


def test_the_example_in_contributing_is_what_is_said():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    with pytest.raises(ArgumentError) as caught:
        useful_share([512], {"a": float("nan")})
    assert f"`{caught.value}`" in text and "`helpers/typed.py`" in text
