"""TMA in the emulator: boxes, swizzle, edges, multicast, stores, and what it refuses or reports."""

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled, marked_line

from helpers.tensor_map import RECORD, tensor_map

pytestmark = pytest.mark.compiler
BF16 = ml_dtypes.bfloat16
DATA = "async_data.cu"
DUMP = 64 * 1024
SHARED = DUMP + 1024


def matrix(rows, columns):
    """Small whole numbers, every one different from its neighbours, none NaN."""
    return (np.arange(rows * columns).reshape(rows, columns) % 253 - 126).astype(BF16)


def expected_box(array, box, x, y):
    """The box of the matrix with zeros outside, element by element."""
    columns, rows = box
    out = np.zeros((rows, columns), BF16)
    for r in range(rows):
        for c in range(columns):
            if 0 <= y + r < array.shape[0] and 0 <= x + c < array.shape[1]:
                out[r, c] = array[y + r, x + c]
    return out


def expected_bytes(values, offset, swizzle):
    """Shared memory with the box at `offset`, all else poison. The swizzle from its definition in bits.

    Under a swizzle each row has 128 bytes, also if it is shorter: an H200 left gaps (tests/conformance).
    """
    memory = np.full(DUMP, 0xFF, np.uint8)
    data = values.view(np.uint8)
    pitch = 128 if swizzle else data.shape[1]
    for row in range(data.shape[0]):
        for i in range(0, data.shape[1], 16):
            address = offset + row * pitch + i
            if swizzle:
                address ^= (address >> 7 & 7) << 4
            memory[address:address + 16] = data[row, i:i + 16]
    return memory


def load(array, box, x, y, swizzle="128B", offset=0, **options):
    out = np.zeros(DUMP, np.uint8)
    box_map = tensor_map(array, box, swizzle)
    run = compiled(DATA, "load_box").launch(
        "load_box", (1,), (64,), (box_map, out, x, y, offset, box_map.box_bytes), SHARED, **options
    )
    return out, run


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize(
    "box, x, y",
    [
        ((64, 8), 0, 0),
        ((64, 64), 64, 3),
        ((64, 32), 8, 7),        # not at a multiple of the box
        ((64, 64), 88, 50),      # over the right and the lower edge
        ((64, 64), -8, -5),      # over the left and the upper edge
        ((64, 16), 1000, 0),     # all outside
        ((64, 16), 0, -16),
        ((8, 256), 16, 1),
    ],
)
def test_a_box_arrives_as_it_should(box, x, y, swizzle, schedule):
    array = matrix(100, 120)
    out, run = load(array, box, x, y, swizzle, offset=2048, schedule=schedule, seed=3)
    assert run.reports == []
    values = expected_box(array, box, x, y)
    assert (out == expected_bytes(values, 2048, swizzle == "128B")).all()
    inside = sum(0 <= y + r < 100 and 0 <= x + c < 120 for r in range(box[1]) for c in range(box[0]))
    totals = run.totals
    assert (totals["tma_load_boxes"], totals["tma_load_bytes"]) == (1, 2 * box[0] * box[1])
    assert totals["tma_oob_bytes"] == 2 * (box[0] * box[1] - inside)


def test_the_swizzle_goes_by_the_address_itself():
    array = matrix(64, 64)
    out, run = load(array, (64, 8), 0, 0, "128B", offset=1024 + 384)
    assert [report.kind for report in run.reports] == ["tma_alignment"]
    assert "384 bytes past a multiple of 1024" in run.reports[0].message
    assert (out == expected_bytes(expected_box(array, (64, 8), 0, 0), 1024 + 384, True)).all()


def test_a_destination_that_is_no_multiple_of_128_is_refused():
    _, run = load(matrix(64, 64), (64, 8), 0, 0, "none", offset=64)
    (report,) = run.reports
    assert report.kind == "tma_alignment" and "64 bytes past a multiple of 128" in report.message


def test_a_destination_beyond_shared_memory_is_refused():
    _, run = load(matrix(64, 64), (64, 64), 0, 0, "none", offset=DUMP - 1024)
    (report,) = run.reports
    assert report.kind == "out_of_bounds" and "writes 8192 bytes past the end of memory" in report.message


@pytest.mark.parametrize("x", [70, -20, 3, 1001])
def test_a_load_that_begins_amid_16_bytes_of_a_row_is_refused(x):
    out, run = load(matrix(64, 64), (64, 8), x, 0)
    (report,) = run.reports
    assert report.kind == "tma_coordinate" and "illegal instruction" in report.message
    assert f"loads a box from x = {x}, which must be a multiple of 8 elements (16 bytes)" in report.message
    assert f"as {x - x % 8};" in report.message
    assert (out == 0).all()


def test_a_store_that_begins_amid_16_bytes_of_a_row_is_refused():
    source, target = matrix(64, 64), np.zeros((64, 64), BF16)
    maps = tensor_map(source, (64, 32)), tensor_map(target, (64, 32))
    run = compiled(DATA, "copy_box").launch("copy_box", (1,), (32,), (*maps, 0, 0, -1, 5, 4096), SHARED)
    (report,) = run.reports
    assert report.kind == "tma_coordinate" and "stores a box to x = -1, which must be" in report.message
    assert (target == 0).all()


@pytest.mark.parametrize(
    "x, y, words",
    [(-8, 0, "x = -8"), (0, -1, "y = -1"), (64, -2**31, "y = -2147483648"), (-64, -64, "x = -64"), (-2**31, 64, "x =")],
)
def test_a_store_that_begins_before_the_matrix_is_refused(x, y, words):
    source, target = matrix(64, 64), np.zeros((64, 64), BF16)
    maps = tensor_map(source, (64, 32)), tensor_map(target, (64, 32))
    run = compiled(DATA, "copy_box").launch("copy_box", (1,), (32,), (*maps, -8, -3, x, y, 4096), SHARED)
    (report,) = run.reports
    assert report.kind == "tma_coordinate" and "illegal instruction" in report.message
    assert f"stores a box to {words}" in report.message and "which must not be negative" in report.message
    assert (target == 0).all()


@pytest.mark.parametrize("swizzle, words", [("32B", "the 32B swizzle"), ("64B", "the 64B swizzle")])
def test_other_swizzles_are_refused_by_name(swizzle, words):
    _, run = load(matrix(64, 64), (16, 8), 0, 0, swizzle)
    (report,) = run.reports
    assert report.kind == "tensor_map" and words in report.message and "128B or none" in report.message


def test_something_that_is_no_tensor_map_is_refused():
    out = np.zeros(DUMP, np.uint8)
    garbage = np.zeros(1, RECORD)[0]
    run = compiled(DATA, "load_box").launch("load_box", (1,), (64,), (garbage, out, 0, 0, 0, 1024), SHARED)
    (report,) = run.reports
    assert report.kind == "tensor_map" and "is no tensor map" in report.message


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("x, y", [(0, 0), (72, 40), (104, 69), (200, 0)])
def test_a_store_writes_what_lies_inside(x, y, schedule):
    source, target = matrix(64, 64), np.full((70, 112), 7, BF16)
    maps = tensor_map(source, (64, 32)), tensor_map(target, (64, 32))
    run = compiled(DATA, "copy_box").launch(
        "copy_box", (1,), (32,), (*maps, 0, 4, x, y, 64 * 32 * 2), SHARED, schedule=schedule
    )
    assert run.reports == []
    expected = np.full((70, 112), 7, BF16)
    for r in range(32):
        for c in range(64):
            if 0 <= y + r < 70 and 0 <= x + c < 112:
                expected[y + r, x + c] = source[4 + r, c]
    assert (target == expected).all()
    assert run.totals["tma_store_bytes"] == 4096


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_store_clips_in_units_of_16_bytes(schedule):
    """A matrix that ends amid one, 37 columns wide, in an array of 48 columns: columns 37 to 39 are written too."""
    source, target = matrix(64, 64), np.full((20, 48), 7, BF16)
    maps = tensor_map(source, (64, 32)), tensor_map(target[:9, :37], (64, 32))
    run = compiled(DATA, "copy_box").launch(
        "copy_box", (1,), (32,), (*maps, 0, 0, 8, 2, 4096), SHARED, schedule=schedule
    )
    assert run.reports == []
    expected = np.full((20, 48), 7, BF16)
    expected[2:9, 8:40] = source[:7, :32]
    assert (target == expected).all()
    assert run.totals["tma_oob_bytes"] == 4096 - 2 * 7 * 29


def test_a_clipped_store_beyond_the_memory_of_its_array_is_named():
    """The last row's 16 bytes end behind the array."""
    memory = np.zeros(48 * 8 + 37, BF16)
    target = np.lib.stride_tricks.as_strided(memory, (9, 37), (96, 2))
    maps = tensor_map(matrix(64, 64), (64, 32)), tensor_map(target, (64, 32))
    run = compiled(DATA, "copy_box").launch("copy_box", (1,), (32,), (*maps, 0, 0, 0, 0, 4096), SHARED)
    (report,) = run.reports
    assert report.kind == "out_of_bounds" and "wrote past the end of to, at offset 842 of 842" in report.message
    assert (memory.reshape(-1)[-37:] == target[8]).all() and (target[:, :37] == matrix(64, 64)[:9, :37]).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("columns, x", [(8, 16), (32, 104), (40, -16)])
def test_short_rows_lie_as_far_apart_as_their_swizzle_wants(columns, x, schedule):
    array = matrix(100, 120)
    out, run = load(array, (columns, 16), x, 90, "128B", offset=1024, schedule=schedule, seed=4)
    assert run.reports == []
    assert (out == expected_bytes(expected_box(array, (columns, 16), x, 90), 1024, True)).all()
    assert run.totals["tma_load_bytes"] == 2 * columns * 16


def test_short_rows_are_stored_as_they_are_loaded():
    source, target = matrix(64, 64), np.full((64, 64), 7, BF16)
    maps = tensor_map(source, (24, 16)), tensor_map(target, (24, 16))
    run = compiled(DATA, "copy_box").launch("copy_box", (1,), (32,), (*maps, 16, 4, 32, 8, 2 * 24 * 16), SHARED)
    assert run.reports == []
    assert (target[8:24, 32:56] == source[4:20, 16:40]).all()
    target[8:24, 32:56] = 7
    assert (target == 7).all()


def test_a_store_to_a_read_only_array_is_refused():
    source, target = matrix(64, 64), np.zeros((64, 64), BF16)
    target.flags.writeable = False
    maps = tensor_map(source, (64, 32)), tensor_map(target, (64, 32))
    run = compiled(DATA, "copy_box").launch("copy_box", (1,), (32,), (*maps, 0, 0, 0, 0, 4096), SHARED)
    (report,) = run.reports
    assert report.kind == "store_read_only" and "tensor map of to, which is read-only" in report.message
    assert (target == 0).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("mask", [0b1111, 0b0101, 0b1000])
def test_a_multicast_reaches_the_ctas_of_its_mask(mask, schedule):
    array = matrix(64, 64)
    out = np.zeros((4, DUMP), np.uint8)
    box_map = tensor_map(array, (64, 64))
    run = compiled(DATA, "multicast").launch(
        "multicast", (4,), (64,), (box_map, out, 0, 0, 8192, mask), SHARED, schedule=schedule
    )
    assert run.reports == []
    image = expected_bytes(expected_box(array, (64, 64), 0, 0), 0, True)
    for rank in range(4):
        assert (out[rank] == (image if mask >> rank & 1 else 0xFF)).all()
    copies = bin(mask).count("1")
    assert run.totals["tma_load_bytes"] == 8192
    assert run.totals["tma_multicast_bytes_saved"] == 8192 * (copies - 1)


def test_a_multicast_to_a_cta_that_is_not_there_is_refused():
    out = np.zeros((4, DUMP), np.uint8)
    run = compiled(DATA, "multicast").launch(
        "multicast", (4,), (64,), (tensor_map(matrix(64, 64), (64, 64)), out, 0, 0, 8192, 0b10001), SHARED
    )
    (report,) = run.reports
    assert report.kind == "multicast_mask" and "mask 0x11, and the cluster has 4" in report.message


@pytest.mark.parametrize("how", [0, 1, 2])
def test_a_cache_policy_is_one_that_createpolicy_made(how):
    for step in (0, 1, -1):
        array = matrix(8, 128)
        array_map = tensor_map(array, (64, 8))
        run = compiled(DATA, "hinted").launch(
            "hinted", (1,), (64,), (array_map, array_map.box_bytes, how, step), SHARED
        )
        if step == 0:
            assert run.reports == [] and (array[:, :64] == array[:, 64:]).all()
            continue
        (report,) = run.reports
        assert (report.kind, report.line) == ("cache_policy", marked_line(DATA, str(how)))
        assert "which no createpolicy function made" in report.message


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize(
    ("fault", "kind", "mark", "words"),
    [
        (1, "out_of_bounds", "to_local", "declare what it names __shared__"),
        (2, "out_of_bounds", "to_global", "declare what it names __shared__"),
        (3, "out_of_bounds", "to_nothing", "declare what it names __shared__"),
        (4, "out_of_bounds", "past", "writes 1024 bytes past the end of memory, at offset 4096 of 4096 bytes"),
        (5, "out_of_bounds", "partly_past", "writes 1024 bytes past the end of memory, at offset 3200 of 4096 bytes"),
        (6, "out_of_bounds", "far_past", "past the end of memory, at offset 307200 of 4096 bytes"),
        (7, "out_of_bounds", "local_barrier", "declare what it names __shared__"),
        (8, "tensor_map", "no_map", "something that is no tensor map"),
        (9, "tensor_map", "null_map", "something that is no tensor map"),
        (10, "out_of_bounds", "local_tile", "declare what it names __shared__"),
        (11, "out_of_bounds", "local_row", "declare what it names __shared__"),
        (12, "out_of_bounds", "local_address", "declare what it names __shared__"),
        (13, "tensor_map", "behind_map", "something that is no tensor map"),
        (14, "tensor_map", "before_map", "something that is no tensor map"),
        (15, "out_of_bounds", "local_row_of_two", "declare what it names __shared__"),
    ],
)
def test_addresses_that_cannot_be_are_named(fault, kind, mark, words, counters):
    file = "emulator_addresses.cu"
    module = compiled(file, "addresses", counters=counters)
    arguments = tensor_map(matrix(8, 64), (64, 8)), np.zeros(1, np.int32)
    assert module.launch("addresses", (1,), (128,), (*arguments, 0), 4096).reports == []
    (report,) = module.launch("addresses", (1,), (128,), (*arguments, fault), 4096).reports
    assert (report.kind, report.line) == (kind, marked_line(file, mark))
    assert words in report.message and report.message.endswith("thread (0,0,0), warp 0, of CTA (0,0,0).")
