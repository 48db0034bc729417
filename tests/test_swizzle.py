"""The swizzle: model, pictures and exercises against the kernels' own addresses and against definitions by hand."""

import numpy as np
import pytest
from picture_checks import require_legible

from helpers import emulate, load
from helpers.errors import ArgumentError
from helpers.exercises.kinds import Status
from helpers.exercises.registry import find_exercise, solution_of
from helpers.models.banks import bank_schedule, warp_wavefronts
from helpers.models.predict import predict
from helpers.models.register_tile import RegisterTile
from helpers.models.swizzle import MODES, Swizzle
from helpers.plots.swizzle import address_bits, chunk_places, wavefront_chart
from helpers.variants import variant

SWIZZLED = [mode for mode in MODES if mode != "none"]
SIZE = (128, 256, 64)
READ = {name: RegisterTile().a_addresses(swizzle=on).tolist() for name, on in (("plain", False), ("swizzled", True))}

# --- the model


@pytest.mark.parametrize("mode", MODES)
def test_a_swizzle_is_its_own_inverse_and_stays_in_the_row(mode):
    swizzle = Swizzle(mode)
    addresses = np.arange(2 * swizzle.period_bytes)
    moved = swizzle(addresses)
    assert (swizzle(moved) == addresses).all() and sorted(moved) == addresses.tolist()
    assert (moved // swizzle.row_bytes == addresses // swizzle.row_bytes).all()
    assert (moved % 16 == addresses % 16).all()                                       # chunks move whole
    assert (swizzle(addresses + swizzle.period_bytes) == moved + swizzle.period_bytes).all()
    assert [swizzle(int(address)) for address in addresses] == moved.tolist()


@pytest.mark.parametrize("mode, row_bytes", [("128B", 128), ("64B", 64), ("32B", 32)])
def test_places_by_hand(mode, row_bytes):
    swizzle = Swizzle(mode)
    assert swizzle.row_bytes == row_bytes
    for row in range(20):
        line = row * row_bytes // 128
        for chunk in range(row_bytes // 16):
            assert swizzle.place(row, chunk) == chunk ^ line % (row_bytes // 16)


@pytest.mark.parametrize("mode", SWIZZLED)
def test_eight_rows_and_eight_chunks_in_line_are_free_of_conflicts(mode):
    swizzle = Swizzle(mode)
    for first in range(0, 32, 8):
        for chunk in range(swizzle.row_chunks):
            column = np.full(32, -1)
            column[:8] = swizzle(np.arange(first, first + 8) * swizzle.row_bytes + 16 * chunk)
            assert warp_wavefronts(column, 16).count == 1
    for line in range(8):
        along = np.full(32, -1)
        along[:8] = swizzle(np.arange(8) * 16 + 128 * line)
        assert warp_wavefronts(along, 16).count == 1


@pytest.mark.parametrize("mode", MODES)
def test_lines_hold_each_chunk_where_its_place_is(mode):
    swizzle = Swizzle(mode)
    lines = swizzle.lines(16).reshape(-1, 2).tolist()
    assert len(lines) == 16 * swizzle.row_chunks
    for row in range(16):
        for chunk in range(swizzle.row_chunks):
            assert lines[row * swizzle.row_chunks + swizzle.place(row, chunk)] == [row, chunk]


def test_idle_lanes_stay_idle():
    addresses = np.array([0, 144, -1])
    assert Swizzle()(addresses).tolist() == [0, 128, -1]


@pytest.mark.parametrize(
    "call, words", [(lambda: Swizzle("256B"), "mode is '256B'"), (lambda: Swizzle().lines(12), "rows is 12")]
)
def test_what_does_not_exist_is_refused(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize("width, op", [(4, "load"), (8, "load"), (16, "load"), (16, "store")])
def test_schedule_serves_every_word_once(width, op):
    rng = np.random.default_rng(width)
    for _ in range(20):
        addresses = np.where(rng.random(32) < 0.1, -1, rng.integers(0, 60, 32) * width)
        addresses[0] = 0
        result, served = warp_wavefronts(addresses, width, op), bank_schedule(addresses, width, op)
        assert len(served) == result.count and (served >= 0).any(axis=1).all()
        assert (served >= 0).sum() == result.words.sum()
        for wavefront in served:
            lanes = wavefront[wavefront >= 0]
            assert len(set(result.phase_of_lane[lanes])) == 1
            for bank in np.flatnonzero(wavefront >= 0):
                start = addresses[wavefront[bank]] // 4
                assert bank in [word % 32 for word in range(start, start + max(1, width // 4))]


def test_rung_4_is_bound_by_what_the_xor_leaves():
    assert predict(4).bounds == predict(3, swizzle=True).bounds
    assert predict(4).in_turn > 1.5 * predict(3).in_turn
    assert predict(4).title.startswith("04_swizzling, M=4096")


# --- the kernel


@pytest.mark.compiler
def test_the_kernel_keeps_its_chunks_where_the_model_says():
    plain, swizzled = (emulate("04_swizzling", SIZE, defines={"SWIZZLE": on}) for on in (0, 1))
    for array in ("A_tile", "B_tile"):
        for op in ("store", "load"):
            before, after = (np.array(run.counter(array, op).example) for run in (plain, swizzled))
            assert (Swizzle()(before) == after).all(), (array, op)
    assert plain.counter("A_tile").wavefronts_per_request == 32
    assert all(c.transactions == c.ideal for c in swizzled.run.counters if c.space == "shared")


def test_without_the_xor_the_machine_code_is_that_of_rung_3():
    assert load("04_swizzling", defines={"SWIZZLE": 0}).code_hash == load("03_register_tiling").code_hash


def test_an_unswizzled_b_saves_registers_as_exercise_04_3_says():
    without = load(4, file=variant(4, *solution_of(find_exercise("04.3")), name="b_without_xor"))
    assert without.report.registers < load(4).report.registers


# --- the pictures

PICTURES = {
    "bits": (lambda: address_bits(13, 6), ["byte 1760", "place 3 of its row", "bank was 24 and is 12"]),
    "bits, last": (lambda: address_bits(31, 7), ["byte 4080"]),
    "places": (chunk_places, ["as it comes: every chunk stays", "at places 2, 3, 0, 1, 6, 7, 4, 5"]),
    "places, one": (lambda: chunk_places(("64B",), 0, 3), ["bits 4-5 ^= bits 7-8"]),
    "places, narrow": (lambda: chunk_places(("64B", "32B"), 7, 1), ["bit 4 ^= bit 7"]),
    "wavefronts, 128 bits": (lambda: wavefront_chart(READ),
                             ["plain: 32 wavefronts, 12.5%", "swizzled: 4 wavefronts, 100%", "of 8, 8, 8, 8"]),
    "wavefronts, 64 bits": (lambda: wavefront_chart(READ, 8), ["plain: 16 wavefronts", "swizzled: 2 wavefronts, 50%"]),
    "wavefronts, 32 bits": (lambda: wavefront_chart({"plain": READ["plain"]}, 4), ["8 wavefronts"]),
    "wavefronts, one": (lambda: wavefront_chart({"B": RegisterTile().b_addresses()}, title="B"), ["B. B: 2 wave"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: address_bits(32, 0), "row is 32"),
        (lambda: address_bits(0, 8), "chunk is 8"),
        (lambda: chunk_places(("32B",), 0, 2), "chunk is 2"),
        (lambda: chunk_places(("64B", "32B", "none")), "modes are 3"),
        (lambda: wavefront_chart({}), "requests are 0"),
    ],
)
def test_pictures_refuse_what_has_no_room(call, words):
    with pytest.raises(ArgumentError, match=words):
        call()


# --- the exercises


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda row, chunk: chunk, "rows 0 to 7 still take 4 wavefronts"),
        (lambda row, chunk: chunk ^ row % 4, "still take 2 wavefronts"),      # two rows of four lines alike
        (lambda row, chunk: 0, "each place 0 to 3 must be used once"),
        (lambda row, chunk: chunk ^ row % 8, "at row=4, chunk=0 your function gives 4; a place in the row"),
        (lambda row, chunk: chunk ^ (row // 2 % 4 if row < 8 else 0), "rows 8 to 15 still take 4"),
        (lambda row, chunk: "one", "is a whole number, 0 to 3"),
        (3, "a function of row, chunk"),
    ],
)
def test_maps_with_conflicts_are_told_where(answer, words):
    verdict = find_exercise("04.2").judge(answer)
    assert verdict.status is Status.WRONG and words in verdict.words


def test_another_map_without_conflicts_is_right_too():
    assert find_exercise("04.2").judge(lambda row, chunk: (chunk + row // 2) % 4).status is Status.RIGHT
    assert find_exercise("03.3").judge(lambda row, chunk: (chunk + row) % 8).status is Status.RIGHT


@pytest.mark.compiler
def test_half_of_the_change_and_too_much_of_it_are_refused():
    exercise = find_exercise("04.3")
    store, read = solution_of(exercise)
    assert "the result is wrong" in exercise.judge([store]).words
    assert "the result is wrong" in exercise.judge([read]).words
    assert "gone from A too" in exercise.judge([("#define SWIZZLE 1", "#define SWIZZLE 0")]).words
    assert "still change places" in exercise.judge([("#define SWIZZLE 1", "#define SWIZZLE 2")]).words
    assert "line" in exercise.judge([store, read, ("chunk ^ row % 8", "chunk ^ row % 2")]).words
