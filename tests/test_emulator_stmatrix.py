"""stmatrix in the emulator: four matrices and two transposed, which lanes' addresses count, and what is reported."""

import numpy as np
import pytest
from emulator_support import compiled, counters_at, marked_line

from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
DATA = "async_data.cu"
DUMP = 64 * 1024
SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(4))]
FORMS = {"stmatrix_x4": 4, "stmatrix_x2_trans": 2}   # matrices
WILD = np.array([8, -8, 3, 1 << 15, -(1 << 20), 1 << 40, -(1 << 45), 1 << 62])   # bytes from where rows may be


def entry_of(kernel, form):
    return f"{kernel}<{str(form == 'stmatrix_x2_trans').lower()}>"


def some_places(form):
    """A row of a kilobyte for each lane of whose address counts, in bytes; the other lanes' are nowhere."""
    rows = np.random.default_rng(0).permutation(64)[:8 * FORMS[form]]
    return np.concatenate([16 * rows, np.resize(WILD, 32)])[:32].astype(np.int64)


def store(form, places, counters=False, **options):
    """What lies in the rows (turn, row, column) after both stmatrix, and the run."""
    out = np.zeros((2, 64, 8), np.uint16)
    entry = entry_of("stmatrix", form)
    return out, compiled(DATA, entry, counters=counters).launch(entry, (1,), (32,), (places, out), DUMP, **options)


def expected_rows(form, places):
    """The same, by the PTX ISA's figure of an 8 x 8 fragment: register i of lane l has two neighbours of matrix i.

    They lie in row l / 4; with .trans the matrix is stored by columns, so that they lie in column l / 4.
    """
    out = np.full((2, 64, 8), 0xFFFF, np.uint16)
    for turn in range(2):
        for lane in range(32):
            for register in range(FORMS[form]):
                for half in range(2):
                    row, column = lane // 4, lane % 4 * 2 + half
                    if form == "stmatrix_x2_trans":
                        row, column = column, row
                    number = 4 * lane + register + 1000 * half + 2000 * turn
                    out[turn, places[8 * register + row] // 16, column] = number
    return out


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_each_value_comes_to_its_place_and_addresses_of_lanes_without_a_row_do_not_count(form, counters):
    places = some_places(form)
    for schedule, seed in SCHEDULES:
        out, run = store(form, places, counters, schedule=schedule, seed=seed)
        assert run.reports == []
        assert (out == expected_rows(form, places)).all()


@pytest.mark.parametrize("form", FORMS)
def test_it_is_counted_as_the_stores_it_makes(form):
    places = 16 * np.arange(32, dtype=np.int64)
    _, run = store(form, places, counters=True)
    (counter,) = counters_at(run, marked_line(DATA, form), "shared", "store")
    assert (counter.bytes, counter.requests) == (16, 2)
    assert counter.wavefronts_per_request == FORMS[form]   # eight rows of 16 bytes are 128


# Of each fault: the kind, further words, and the mark of the operation that it names.
FAULTS = {
    1: ("misaligned", "writes 16 bytes", None),
    2: ("out_of_bounds", "past the end of memory, at offset 65536 of 65536 bytes", None),
    3: ("write_over_store", "memory, bytes 1024 to 1039", "stored"),
    4: ("write_over_wgmma", "memory, bytes 1024 to 1039", "multiplied"),
}


def faulty(form, fault, odd=0, counters=False, **options):
    entry = entry_of("stmatrix_faults", form)
    box_map = tensor_map(np.zeros((64, 64), np.uint16).view("bfloat16"), (64, 64))
    module = compiled(DATA, entry, counters=counters)
    return module.launch(entry, (1,), (128,), (box_map, fault, odd), DUMP, **options).reports


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_cannot_be_or_is_still_read_is_named(form, fault, counters):
    kind, words, other = FAULTS[fault]
    last = 8 * FORMS[form] - 1
    for schedule, seed in SCHEDULES[:4]:
        assert faulty(form, 0, counters=counters, schedule=schedule, seed=seed) == []
        for odd in (0, last):
            report, *others = faulty(form, fault, odd, counters, schedule=schedule, seed=seed)
            assert [found.kind for found in others] == ["async_race"] * (counters and fault in (3, 4))
            assert (report.kind, report.line) == (kind, marked_line(DATA, form.replace("stmatrix", "faulty")))
            assert words in report.message and f"thread ({odd},0,0), warp 0," in report.message
            assert other is None or f"line {marked_line(DATA, other)} " in report.message
        if last < 31:
            assert faulty(form, fault, last + 1, counters, schedule=schedule, seed=seed) == []


@pytest.mark.parametrize("form", FORMS)
def test_accumulators_that_a_wgmma_holds_are_not_stored(form):
    for schedule, seed in SCHEDULES:
        reports = faulty(form, 5, schedule=schedule, seed=seed)
        assert {(report.kind, report.line) for report in reports} == {
            ("accumulator_read", marked_line(DATA, form.replace("stmatrix", "faulty")))
        }
        reports = faulty(form, 5, counters=True, schedule=schedule, seed=seed)
        assert ("accumulator_read", marked_line(DATA, "packed")) in {(report.kind, report.line) for report in reports}
