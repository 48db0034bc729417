"""Models of TMA: boxes against a walk over their bytes and the emulator, mbarriers and buffers against their rules."""

import itertools
import random

import numpy as np
import pytest

from helpers.arrays import empty_matrix
from helpers.errors import ArgumentError
from helpers.kernel import KernelFault, load
from helpers.models.buffers import buffer_schedule
from helpers.models.mbarrier import Mbarrier
from helpers.models.tma import OUTSIDE, place_box
from helpers.tensor_map import tensor_map
from helpers.variants import save_text

DUMP = """#include "hopper.cuh"
extern "C" __global__ void dump(const __grid_constant__ TensorMap map, uint4* out, int x, int y, int bytes) {
    extern __shared__ __align__(1024) uint4 box[];
    __shared__ uint64_t full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, bytes);
        cp_async_bulk_tensor_load(box, &map, &full, x, y);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) out[i] = box[i];
}"""

ARRIVE = """#include "hopper.cuh"
extern "C" __global__ void follow(int* out, int arrivals, int count) {
    __shared__ uint64_t barrier;
    if (threadIdx.x != 0) return;
    mbarrier_init(&barrier, arrivals);
    fence_mbarrier_init();
    for (int i = 0; i < count; ++i) {
        for (int parity = 0; parity < 2; ++parity) out[2 * i + parity] = mbarrier_try_wait_parity(&barrier, parity);
        mbarrier_arrive(&barrier);
    }
}"""


def numbered(rows, columns):
    """A matrix of which every element is another 16-bit pattern, none of them zero."""
    matrix = empty_matrix(rows, columns, "emulator")
    matrix.view(np.uint16)[...] = np.arange(1, rows * columns + 1).reshape(rows, columns)
    return matrix


MATRIX = numbered(45, 200)


# --- boxes


@pytest.mark.parametrize("x, y", [(0, 0), (64, 3), (-16, -5), (152, 40), (200, 0), (0, 45), (-64, 0), (8, -128)])
def test_a_swizzled_box_equals_a_walk_over_its_elements(x, y):
    placement = place_box(tensor_map(MATRIX, (64, 24)), x, y)
    shared = np.zeros(24 * 64, dtype=np.uint16)
    for row, column in itertools.product(range(24), range(64)):
        chunk, element = divmod(column, 8)
        place = row * 64 + (chunk ^ row % 8) * 8 + element
        if 0 <= y + row < 45 and 0 <= x + column < 200:
            shared[place] = MATRIX.view(np.uint16)[y + row, x + column]
    assert np.array_equal(placement.shared.view(np.uint16).ravel(), shared)
    assert placement.outside_bytes == 2 * int((shared == 0).sum())
    assert placement.bytes == 24 * 128


def test_without_a_swizzle_a_box_lies_as_in_the_matrix():
    placement = place_box(tensor_map(MATRIX, (40, 8), "none"), 16, 2)
    assert np.array_equal(placement.shared.view(np.uint16), MATRIX.view(np.uint16)[2:10, 16:56])
    assert OUTSIDE not in placement.sources


@pytest.mark.compiler
@pytest.mark.parametrize("box, swizzle", [((64, 16), "128B"), ((64, 45), "128B"), ((40, 9), "none")])
def test_the_emulator_lays_boxes_down_as_the_model_does(box, swizzle):
    kernel = load("05_tma", "emulator", entry="dump", file=save_text(DUMP, "test_dump"))
    wanted = tensor_map(MATRIX, box, swizzle)
    out = empty_matrix(box[1], box[0], "emulator")
    for x, y in ((0, 0), (64, 32), (-16, -5), (200, 44), (192, 0)):
        run = kernel.launch((1,), (32,), (wanted, out, x, y, wanted.box_bytes), wanted.box_bytes)
        placement = place_box(wanted, x, y)
        assert np.array_equal(out.view(np.uint16), placement.shared.view(np.uint16)), (x, y)
        assert run.totals["tma_load_bytes"] == placement.bytes
        assert run.totals["tma_oob_bytes"] == placement.outside_bytes


@pytest.mark.compiler
def test_model_and_emulator_refuse_a_box_that_begins_amid_a_chunk():
    wanted = tensor_map(MATRIX, (64, 16))
    with pytest.raises(ArgumentError, match="x is 4: .* give 0"):
        place_box(wanted, 4, 0)
    kernel = load("05_tma", "emulator", entry="dump", file=save_text(DUMP, "test_dump"))
    out = empty_matrix(16, 64, "emulator")
    with pytest.raises(KernelFault, match="x = 4"):
        kernel.launch((1,), (32,), (wanted, out, 4, 0, wanted.box_bytes), wanted.box_bytes)


def test_a_box_narrower_than_its_swizzle_is_refused():
    with pytest.raises(ArgumentError, match="rows of 64 bytes"):
        place_box(tensor_map(MATRIX, (32, 8)), 0, 0)


# --- mbarriers


@pytest.mark.compiler
@pytest.mark.parametrize("arrivals", [1, 2, 5])
def test_waits_pass_as_on_the_emulator(arrivals):
    kernel = load("05_tma", "emulator", entry="follow", file=save_text(ARRIVE, "test_follow"))
    out = np.full(40, -1, dtype=np.int32)
    kernel.launch((1,), (32,), (out, arrivals, 20))
    barrier = Mbarrier(arrivals)
    for passed in out.reshape(20, 2):
        assert passed.tolist() == [not barrier.blocks(0), not barrier.blocks(1)]
        barrier = barrier.arrive()


@pytest.mark.parametrize("seed", range(20))
def test_a_phase_ends_with_its_last_arrival_or_byte_whatever_the_order(seed):
    rng = random.Random(seed)
    arrivals, boxes = rng.randrange(1, 5), [rng.randrange(1, 9) * 16 for _ in range(rng.randrange(1, 6))]
    barrier = Mbarrier(arrivals).arrive_expect_tx(sum(boxes))
    rest = [("arrive",)] * (arrivals - 1) + [("complete_tx", size) for size in boxes]
    rng.shuffle(rest)
    for name, *arguments in rest:
        assert barrier.phase == 0 and barrier.blocks(0) and not barrier.blocks(1)
        barrier = getattr(barrier, name)(*arguments)
    assert (barrier.phase, barrier.pending, barrier.bytes) == (1, arrivals, 0)


def test_bytes_that_nobody_announced_end_no_phase_but_are_missed_later():
    barrier = Mbarrier(1).arrive()
    assert barrier.phase == 1            # the mistake of notebook 5: no byte was waited for
    assert barrier.complete_tx(64).bytes == -64


@pytest.mark.parametrize(
    "fault, words",
    [
        (lambda: Mbarrier(0), "arrivals is 0"),
        (lambda: Mbarrier(1).blocks(2), "parity is 2"),
        (lambda: Mbarrier(1).arrive_expect_tx(16).arrive(), "has all of its 1 arrival"),
    ],
)
def test_what_a_barrier_cannot_do_is_refused(fault, words):
    with pytest.raises(ArgumentError, match=words):
        fault()


# --- buffers


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_keeps_its_rules_and_wastes_nothing(seed):
    rng = random.Random(seed)
    buffers, load_time, multiply = rng.randrange(1, 5), rng.uniform(0.1, 5), rng.uniform(0.1, 5)
    steps = buffer_schedule(30, buffers, load_time, multiply).steps
    for number, step in enumerate(steps):
        ends = [0.0]                     # of all that the load must wait for
        ends += [steps[number - 1].load[1]] if number else []
        ends += [steps[number - buffers].multiply[1]] if number >= buffers else []
        assert step.load[0] == max(ends)
        assert step.multiply[0] == max(step.load[1], steps[number - 1].multiply[1] if number else 0)
        assert (step.buffer, step.parity) == (number % buffers, number // buffers % 2)


def test_one_buffer_takes_turns_and_two_hide_the_shorter():
    one, two = (buffer_schedule(64, buffers, 1, 3) for buffers in (1, 2))
    assert (one.end, one.waited) == (64 * 4, 64)
    assert (two.end, two.waited) == (1 + 64 * 3, 1)
    assert buffer_schedule(64, 2, 3, 1).end == 64 * 3 + 1


@pytest.mark.parametrize("arguments, words", [((0, 1, 1, 1), "steps is 0"), ((1, True, 1, 1), "buffers is True"),
                                              ((1, 1, 0, 1), "load is 0"), ((1, 1, 1, -2), "multiply is -2")])
def test_what_is_no_schedule_is_refused(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        buffer_schedule(*arguments)
