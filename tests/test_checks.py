"""Wrong arguments: each check says in one sentence what the argument is and what it must be, whatever its type."""

from collections.abc import Mapping

import numpy as np
import pytest

from helpers.arrays import random_matrix
from helpers.checks import (
    is_integer,
    require_integer,
    require_integers,
    require_kind,
    require_known,
    require_positive,
    require_sequence,
)
from helpers.errors import ArgumentError
from helpers.models.banks import bank_schedule, warp_wavefronts
from helpers.models.buffers import BufferSchedule, buffer_schedule
from helpers.models.descriptor import Descriptor, decode, operand_bytes
from helpers.models.fragments import element, owner, owners
from helpers.models.mbarrier import Mbarrier
from helpers.models.swizzle import Swizzle
from helpers.models.tma import place_box
from helpers.plots.banks import bank_map
from helpers.plots.buffers import buffer_timeline
from helpers.plots.descriptor import descriptor_bits, operand_steps
from helpers.plots.fragments import fragment_map, store_rows
from helpers.plots.mbarrier import barrier_life
from helpers.plots.swizzle import address_bits, chunk_places, wavefront_chart
from helpers.plots.tma import box_layout
from helpers.source_view import show_function, show_lines, show_sass, show_source
from helpers.speeds import speeds
from helpers.tensor_map import tensor_map
from helpers.words import plural, short

NONSENSE = {
    "none": None, "fraction": 2.5, "nan": float("nan"), "text": "x", "bytes": b"x", "list": [], "tuple": (), "dict": {},
    "two": [1, 2], "three": (1, 2, 3), "true": True, "type": object, "huge": 1 << 70, "least": -(10**400),
    "zeros": np.zeros(3), "array": np.array(5), "function": print, "dots": ...,
}
LANES = np.arange(32) * 16
MATRIX = random_matrix(16, 64, seed=0, backend="emulator")
MAP = tensor_map(MATRIX, (64, 16))
STEPS = [Descriptor(0, 16, 1024)]


class NoText:
    """Something whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_integers():
    assert is_integer(3) and is_integer(np.int8(3)) and not is_integer(True) and not is_integer(3.0)
    require_integer("n", 1 << 70)
    require_integer("n", np.int64(4), 4, 4)
    for value, limits, words in (
        (True, (), "n is True: it must be an integer."),
        (2, (3,), "n is 2: it must be an integer of at least 3."),
        (4096, (1, 1024), "n is 4096: it must be an integer from 1 to 1,024."),
        (np.zeros(100), (), "n is array("),
    ):
        with pytest.raises(ArgumentError) as caught:
            require_integer("n", value, *limits)
        assert str(caught.value).startswith(words) and "\n" not in str(caught.value)
    require_integers("n", np.arange(3))
    for value in ([1, 2], np.zeros(3), 1.0, True):
        with pytest.raises(ArgumentError, match="it must be an integer or an array of integers"):
            require_integers("n", value)


def test_other_kinds():
    for value in (1, 0.5, np.float32(2), np.int64(3), 10**400):
        require_positive("t", value)
    for value in (0, -1, float("inf"), float("nan"), True, "1", 1j, np.ones(1)):
        with pytest.raises(ArgumentError, match="it must be a positive time"):
            require_positive("t", value, "time")
    require_known("mode", "a", ("a", "b"))
    for value in ("c", None, [], {}, np.zeros(2)):
        with pytest.raises(ArgumentError, match="it must be one of 'a', 'b'"):
            require_known("mode", value, ("a", "b"))
    require_kind("table", {}, Mapping, "give a dict")
    with pytest.raises(ArgumentError, match=r"table is 3, not a Mapping: give a dict\."):
        require_kind("table", 3, Mapping, "give a dict")
    require_sequence("names", ("a",), str, "give texts")
    for value, words in (("ab", "names is 'ab'"), ([], r"names is \[\]"), (["a", 2], r"names\[1\] is 2, not a str")):
        with pytest.raises(ArgumentError, match=words):
            require_sequence("names", value, str, "give texts")


def test_values_are_shown_in_one_short_line():
    assert short("x") == "'x'" and short(NoText()) == "a NoText"
    assert len(short(np.zeros((40, 40)))) <= 60 and "\n" not in short(np.zeros((40, 40)))
    assert plural(np.int64(1), "row") == "1 row" and plural(np.int64(2), "row") == "2 rows"


# Each gets every nonsense in turn, in one of its arguments.
REFUSE = {
    "tensor_map": lambda value: tensor_map(value, (64, 16)),
    "tensor_map box": lambda value: tensor_map(MATRIX, value),
    "tensor_map swizzle": lambda value: tensor_map(MATRIX, (64, 16), value),
    "tensor_map promotion": lambda value: tensor_map(MATRIX, (64, 16), "128B", value),
    "Swizzle": Swizzle,
    "Swizzle.lines": lambda value: Swizzle().lines(value),
    "place_box": lambda value: place_box(value, 0, 0),
    "place_box x": lambda value: place_box(MAP, value, 0),
    "place_box y": lambda value: place_box(MAP, 0, value),
    "Mbarrier": Mbarrier,
    "Mbarrier.blocks": lambda value: Mbarrier(1).blocks(value),
    "Mbarrier.expect_tx": lambda value: Mbarrier(1).expect_tx(value),
    "Mbarrier.arrive_expect_tx": lambda value: Mbarrier(1).arrive_expect_tx(value),
    "Mbarrier.complete_tx": lambda value: Mbarrier(1).complete_tx(value),
    "buffer_schedule steps": lambda value: buffer_schedule(value, 2, 1, 1),
    "buffer_schedule buffers": lambda value: buffer_schedule(2, value, 1, 1),
    "Descriptor": lambda value: Descriptor(value, 16, 1024),
    "Descriptor leading": lambda value: Descriptor(0, value, 1024),
    "Descriptor stride": lambda value: Descriptor(0, 16, value),
    "Descriptor swizzle": lambda value: Descriptor(0, 16, 1024, value),
    "decode": decode,
    "operand_bytes": lambda value: operand_bytes(value, 64, "K"),
    "operand_bytes extent": lambda value: operand_bytes(STEPS[0], value, "K"),
    "operand_bytes major": lambda value: operand_bytes(STEPS[0], 64, value),
    "owner": lambda value: owner(value, 0),
    "element": lambda value: element(value, 0),
    "owners": owners,
    "warp_wavefronts": lambda value: warp_wavefronts(value, 16),
    "warp_wavefronts width": lambda value: warp_wavefronts(LANES, value),
    "bank_schedule op": lambda value: bank_schedule(LANES, 16, value),
    "address_bits": lambda value: address_bits(value, 1),
    "address_bits chunk": lambda value: address_bits(1, value),
    "chunk_places": chunk_places,
    "chunk_places row": lambda value: chunk_places(row=value),
    "wavefront_chart": wavefront_chart,
    "wavefront_chart request": lambda value: wavefront_chart({"a": value}),
    "buffer_timeline": buffer_timeline,
    "barrier_life": barrier_life,
    "barrier_life state": lambda value: barrier_life([value]),
    "box_layout": box_layout,
    "descriptor_bits": descriptor_bits,
    "operand_steps": lambda value: operand_steps(value, value),
    "operand_steps columns": lambda value: operand_steps(STEPS, STEPS, value),
    "operand_steps rows": lambda value: operand_steps(STEPS, STEPS, 128, value),
    "fragment_map": fragment_map,
    "fragment_map columns": lambda value: fragment_map(3, value),
    "store_rows": lambda value: store_rows(value, 256),
    "store_rows store": lambda value: store_rows({"a": value}, 256),
    "store_rows addresses": lambda value: store_rows({"a": (value, 8)}, 256),
    "store_rows row_bytes": lambda value: store_rows({"a": (LANES, 8)}, value),
    "bank_map": bank_map,
    "speeds": speeds,
    "speeds kernel": lambda value: speeds({"a": value}),
    "speeds regime": lambda value: speeds({"a": 6}, 4096, value),
    "show_function": show_function,
    "show_function file": lambda value: show_function("wgmma_fence", value),
    "show_lines": lambda value: show_lines(5, value, 10),
    "show_source": show_source,
    "show_sass": show_sass,
    "show_sass highlight": lambda value: show_sass("a\nb", value),
    "show_sass context": lambda value: show_sass("a\nb", "a", value),
    "Swizzle address": Swizzle(),
    "Swizzle.place": lambda value: Swizzle().place(value, 1),
    "buffer_schedule load": lambda value: buffer_schedule(2, 2, value, 1),
    "box_layout max_rows": lambda value: box_layout(place_box(MAP, 0, 0), max_rows=value),
}
# What of it makes sense there.
TAKEN = {
    "speeds kernel": ("array",),   # prints as 5, which is a rung
    "show_source": ("array",),
    "show_sass": ("text",),
    "show_sass highlight": ("none", "text"),
    "show_sass context": ("none",),
    "Swizzle address": ("huge", "least", "array"),
    "Swizzle.place": ("huge", "least", "array"),
    "buffer_schedule load": ("fraction", "huge"),
    "box_layout max_rows": ("huge",),
}


@pytest.mark.parametrize("name", REFUSE)
def test_nonsense_is_refused_in_a_sentence(name):
    for kind, value in NONSENSE.items():
        if kind in TAKEN.get(name, ()):
            REFUSE[name](value)
            continue
        with pytest.raises(ArgumentError) as caught:
            REFUSE[name](value)
        text = str(caught.value)
        assert text.endswith(".") and "\n" not in text and len(text) < 1200, kind


def test_labels_of_speeds_are_texts():
    with pytest.raises(ArgumentError, match="a label of kernels is 4, not a str"):
        speeds({4: "04_swizzling"})


def test_schedules_of_more_steps_than_fit_are_refused():
    with pytest.raises(ArgumentError, match="steps is 1000000: it must be an integer from 1 to 100,000"):
        buffer_schedule(10**6, 2, 1, 1)
    assert isinstance(buffer_schedule(2, 100, 0.5, np.float64(2)), BufferSchedule)
