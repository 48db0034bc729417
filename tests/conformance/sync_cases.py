"""stmatrix, barriers in shared memory, named barriers, ranks, elections, addresses."""

from collections.abc import Callable, Iterator

import numpy as np

from . import oracle
from .cases import Box, Case, unwritten
from .tma_cases import numbered

# kernels/mbarrier.cu, Operation
OPERATIONS = (
    "INIT", "INVALIDATE", "ARRIVE", "ARRIVE_THREADS", "EXPECT", "ARRIVE_EXPECT", "TRY", "WAIT", "WAIT_CLUSTER",
    "ARRIVE_AT", "RELEASE_AT", "LOAD", "LOAD_MULTICAST", "SEND",
)  # fmt: skip
FIRST, SECOND, BOTH = 1, 2, 3   # ranks that act
BOX, BOX_BYTES = (16, 8), 256   # what LOAD brings
STORED_BYTES = 4096             # of shared memory that stmatrix writes into

Script = list[tuple[int, str, int]]


def stored_case(
    name: str, entry: str, offsets: np.ndarray, stored: Callable[[np.ndarray, int], np.ndarray]
) -> Case:
    """A warp stores 8 x 8 matrices, lane l's row at offsets[l]. stored: what lies in the CTA's memory then."""
    return Case(
        name=f"stmatrix/{name}",
        file="stmatrix.cu",
        entry=entry,
        arguments=("offsets", "dump"),
        inputs=lambda: {"offsets": offsets.astype(np.int32), "dump": unwritten(STORED_BYTES)},
        outputs=("dump",),
        expected=lambda inputs: {"dump": stored(inputs["offsets"], STORED_BYTES)},
        block=(32,),
        shared_bytes=STORED_BYTES,
    )


def stmatrix_cases() -> Iterator[Case]:
    lane = np.arange(32)
    row, matrix = lane % 8, lane // 8
    shuffled = np.random.RandomState(7).permutation(256)[:32] * 16
    patterns = {
        "rows_in_order": lane * 16,
        "rows_backwards": (31 - lane) * 16,
        "matrices_side_by_side": row * 64 + matrix * 16,
        "rows_of_128_bytes": row * 128 + matrix * 16,
        "rows_swizzled": row * 128 + (matrix ^ row) * 16,
        "two_by_two": (row + lane // 8 % 2 * 8) * 128 + lane // 16 * 16,
        "padded_rows": row * 144 + matrix * 16,
        "anywhere": shuffled,
    }
    for name, offsets in patterns.items():
        yield stored_case(name, "store_matrices", offsets, oracle.stored_matrices)


def transposed_cases() -> Iterator[Case]:
    lane = np.arange(32)
    row, matrix = lane % 8, lane // 8 % 2
    in_order = lane % 16 * 16
    has_row = lane < 16
    patterns = {   # of lanes from 16 on, whose addresses should not count, as of those 16 before unless said
        "rows_in_order": in_order,
        "rows_backwards": (15 - lane % 16) * 16,
        "matrices_side_by_side": row * 32 + matrix * 16,
        "rows_of_128_bytes": row * 128 + matrix * 16,
        "rows_swizzled": row * 128 + (2 + matrix ^ row) * 16,
        "padded_rows": row * 144 + matrix * 16,
        "anywhere": np.random.RandomState(8).permutation(256)[lane % 16] * 16,
        "others_elsewhere": lane * 16,
        "others_misaligned": np.where(has_row, in_order, 2048 + lane),
        "others_outside": np.where(has_row, in_order, (lane - 24) * (1 << 20)),
    }
    for name, offsets in patterns.items():
        yield stored_case(f"two_transposed_{name}", "store_two_transposed", offsets, oracle.two_transposed)


def both_tries(ranks: int = BOTH) -> Script:
    return [(ranks, "TRY", 0), (ranks, "TRY", 1)]


def scripts() -> dict[str, Script]:
    """Operations on the barriers of two CTAs. All end with nothing under way."""
    start = [(BOTH, "INIT", 1)]
    arrive, ask = [(BOTH, "ARRIVE", 0)], both_tries()
    return {
        "a_fresh_barrier": start + ask,
        "one_arrival_a_phase": start + (arrive + ask) * 5,
        "three_arrivals_a_phase": [(BOTH, "INIT", 3)] + ask + (arrive + ask) * 7 + arrive * 2 + ask,
        "counts_of_the_two_differ": [(FIRST, "INIT", 1), (SECOND, "INIT", 2)] + (arrive + ask) * 4,
        "threads_arrive": [(BOTH, "INIT", 64), (BOTH, "ARRIVE_THREADS", 63)] + ask + arrive + ask
        + [(BOTH, "ARRIVE_THREADS", 64)] + ask,
        "wait_for_the_phase_before": start + [(BOTH, "WAIT", 1)] + ask + arrive + [(BOTH, "WAIT", 0)] + ask,
        "expect_then_arrive_then_load": start + [(BOTH, "EXPECT", 256)] + ask + arrive + ask
        + [(BOTH, "LOAD", 0), (BOTH, "WAIT", 0)] + ask,
        "arrive_expect_then_load": start + [(BOTH, "ARRIVE_EXPECT", 256)] + ask
        + [(BOTH, "LOAD", 4), (BOTH, "WAIT", 0)] + ask,
        "load_then_arrive_expect": start + [(BOTH, "LOAD", 1)] + ask + [(BOTH, "ARRIVE_EXPECT", 256), (BOTH, "WAIT", 0)]
        + ask,
        "expect_between_two_arrivals": [(BOTH, "INIT", 2)] + arrive + [(BOTH, "EXPECT", 256)] + ask + arrive + ask
        + [(BOTH, "LOAD", 0), (BOTH, "WAIT", 0)] + ask,
        "expect_in_parts": start + [(BOTH, "EXPECT", 96), (BOTH, "EXPECT", 64), (BOTH, "ARRIVE_EXPECT", 96)] + ask
        + [(BOTH, "LOAD", 0), (BOTH, "WAIT", 0)] + ask,
        "expect_nothing": start + [(BOTH, "ARRIVE_EXPECT", 0)] + ask + [(BOTH, "EXPECT", 0)] + ask + arrive + ask,
        "loads_in_four_phases": start + [
            step for phase in range(4)
            for step in [(BOTH, "ARRIVE_EXPECT", 256), (BOTH, "LOAD", phase), (BOTH, "WAIT", phase % 2), *ask]
        ],
        "invalidate_and_begin_anew": start + arrive + ask + [(BOTH, "INVALIDATE", 0), (BOTH, "INIT", 2)] + ask
        + arrive + ask + arrive + ask,
        "remote_arrivals": [(BOTH, "INIT", 2), (SECOND, "ARRIVE_AT", 0)] + ask + [(FIRST, "ARRIVE", 0)] + ask
        + [(FIRST, "ARRIVE_AT", 1)] + ask + [(FIRST, "RELEASE_AT", 1)] + ask + [(BOTH, "WAIT_CLUSTER", 0)],
        "arrivals_at_the_own_barrier": start + [(FIRST, "ARRIVE_AT", 0), (SECOND, "RELEASE_AT", 1)] + ask
        + [(BOTH, "WAIT_CLUSTER", 0)],
        "both_arrive_at_one": [(BOTH, "INIT", 2), (BOTH, "ARRIVE_AT", 0)] + ask + [(BOTH, "RELEASE_AT", 1)] + ask,
        "remote_arrival_and_bytes": [(BOTH, "INIT", 2), (FIRST, "ARRIVE_EXPECT", 256), (FIRST, "LOAD", 2)] + ask
        + [(SECOND, "ARRIVE_AT", 0), (FIRST, "WAIT_CLUSTER", 0)] + ask,
        "multicast_to_both": start + [
            (BOTH, "ARRIVE_EXPECT", 256), (FIRST, "LOAD_MULTICAST", BOTH), (BOTH, "WAIT_CLUSTER", 0), *ask,
        ],
        "multicast_to_the_other": start + [
            (SECOND, "ARRIVE_EXPECT", 256), (FIRST, "LOAD_MULTICAST", SECOND), (SECOND, "WAIT_CLUSTER", 0), *ask,
        ],
        "multicast_of_both_to_one": start + [
            (FIRST, "ARRIVE_EXPECT", 256), (SECOND, "LOAD_MULTICAST", FIRST), (FIRST, "WAIT_CLUSTER", 0), *ask,
            (FIRST, "ARRIVE_EXPECT", 256), (FIRST, "LOAD_MULTICAST", FIRST), (FIRST, "WAIT_CLUSTER", 1), *ask,
        ],
    }  # fmt: skip


def sent_scripts() -> dict[str, Script]:
    """The same with numbers of four bytes that one CTA sends to the other, or to itself."""
    start, ask, swap = [(BOTH, "INIT", 1)], both_tries(), [(FIRST, "SEND", 1), (SECOND, "SEND", 0)]
    done: Script = [(BOTH, "WAIT_CLUSTER", 0), *ask]
    return {
        "numbers_for_each_other": start + [(BOTH, "ARRIVE_EXPECT", 4)] + ask + swap + done,
        "numbers_before_they_were_announced": start + swap + ask + [(BOTH, "ARRIVE_EXPECT", 4)] + done,
        "numbers_for_oneself": start + [
            (BOTH, "ARRIVE_EXPECT", 4), (FIRST, "SEND", 0), (FIRST, "WAIT", 0), (SECOND, "SEND", 1),
            (SECOND, "WAIT", 0), *ask,
        ],
        "two_numbers_of_a_phase": start + [(FIRST, "ARRIVE_EXPECT", 8), (SECOND, "SEND", 0)] + ask + [
            (FIRST, "SEND", 0), (FIRST, "WAIT_CLUSTER", 0), *ask,
        ],
        "a_number_and_a_box": start + [
            (BOTH, "ARRIVE_EXPECT", 260), (BOTH, "LOAD", 0), *ask, *swap, (BOTH, "WAIT_CLUSTER", 0), *ask,
        ],
        "numbers_in_four_phases": start + [
            step for phase in range(4)
            for step in [(BOTH, "ARRIVE_EXPECT", 4), *swap, (BOTH, "WAIT_CLUSTER", phase % 2), *ask]
        ],
    }  # fmt: skip


def script_case(name: str, script: Script) -> Case:
    steps = np.array([(ranks, OPERATIONS.index(word), number) for ranks, word, number in script], np.int32)
    told = oracle.answers(script, BOX_BYTES)
    return Case(
        name=f"mbarrier/{name}",
        file="mbarrier.cu",
        entry="run_script",
        arguments=(Box("matrix", BOX, "none"), "script", "answers", len(script)),
        inputs=lambda: {
            "matrix": numbered(16, 16), "script": steps.copy(), "answers": unwritten((len(steps), 2), np.int32),
        },
        outputs=("answers",),
        expected=lambda inputs: {"answers": told},
        grid=(2,),
        block=(64,),
        cluster=(2, 1, 1),
        shared_bytes=2048,
    )  # fmt: skip


def sent_cases() -> Iterator[Case]:
    for name, script in sent_scripts().items():
        yield script_case(name, script)
    rounds = 3
    y, number, rank, cta, thread = np.ogrid[:2, :rounds, :4, :4, :32]
    told = 1000000 * y + 100000 * number + 10000 * cta + 1000 * rank + (thread + 5 * cta) % 32
    yield simple("cluster_sends", told.astype(np.int32), (rounds,), (4, 2), (32,), (4, 1, 1), 1024)


def draw_cases() -> Iterator[Case]:
    grid, block, rounds = 16, 96, 5
    total = grid * block * rounds
    yield Case(
        name="threads/draws",
        file="threads.cu",
        entry="draws",
        arguments=("count", "dump", rounds),
        inputs=lambda: {"count": np.zeros(1, np.int32), "dump": np.zeros(total, np.int32)},
        outputs=("count", "dump"),
        expected=lambda inputs: {"count": np.full(1, total, np.int32), "dump": np.ones(total, np.int32)},
        grid=(grid,),
        block=(block,),
    )


def mbarrier_cases() -> Iterator[Case]:
    for name, script in scripts().items():
        yield script_case(name, script)
    rounds = 5
    number, rank, thread = np.ogrid[:rounds, :2, :64]
    yield Case(
        name="mbarrier/hand_over",
        file="mbarrier.cu",
        entry="hand_over",
        arguments=("mailbox", "dump", rounds),
        inputs=lambda: {
            "mailbox": unwritten((rounds, 2, 64), np.int32), "dump": unwritten((rounds, 2, 64), np.int32),
        },
        outputs=("dump",),
        expected=lambda inputs: {"dump": (1000 * number + 100 * (1 - rank) + 63 - thread).astype(np.int32)},
        grid=(2,),
        block=(64,),
        cluster=(2, 1, 1),
        shared_bytes=2048,
    )  # fmt: skip


def thread_cases() -> Iterator[Case]:
    shapes = {
        "ranks_without_cluster": (1, 1), "ranks_2_1": (2, 1), "ranks_1_2": (1, 2), "ranks_4_1": (4, 1),
        "ranks_2_2": (2, 2), "ranks_8_1": (8, 1),
    }  # fmt: skip
    for entry, (width, height) in shapes.items():
        grid = (2 * width, 2 * height)
        y, x = np.mgrid[:grid[1], :grid[0]]
        rank = y % height * width + x % width
        told = np.stack([x, y, rank, np.full_like(x, width * height)], axis=-1).astype(np.int32)
        yield simple(entry, told, grid=grid, block=(32,), cluster=(width, height, 1))
    yield simple("elections", np.where(np.arange(128) % 32 == 0, 4, 0).astype(np.int32))
    addresses = np.array([[0, 520, 520, 0, 0, 1 << 24, 2 << 24, 3 << 24]] * 4, np.int32)
    yield simple("addresses", addresses, grid=(4,), block=(32,), cluster=(4, 1, 1), shared_bytes=1024)

    rounds = 4
    number, thread = np.ogrid[:rounds, :128]
    received = 1000 * number + 127 - (thread ^ 32) + 500
    yield simple("named_barriers", np.where(thread < 64, -1, received).astype(np.int32), (rounds,), shared_bytes=1024)

    number, rank, thread = np.ogrid[:rounds, :4, :32]
    told = 1000000 * rank + 1000 * number + 100 * ((rank + 1) % 4) + 31 - thread
    yield Case(
        name="threads/cluster_barrier",
        file="threads.cu",
        entry="cluster_barrier",
        arguments=("mailbox", "dump", rounds),
        inputs=lambda: {
            "mailbox": unwritten((rounds, 4, 32), np.int32), "dump": unwritten((rounds, 4, 32), np.int32),
        },
        outputs=("dump",),
        expected=lambda inputs, told=told: {"dump": told.astype(np.int32)},
        grid=(4,),
        block=(32,),
        cluster=(4, 1, 1),
    )  # fmt: skip

    y, number, _, cta, thread, part = np.ogrid[:2, :rounds, :4, :4, :32, :4]
    told = 100000 * y + 10000 * number + 1000 * cta + 4 * ((thread + 5 * cta) % 32) + part
    told = np.broadcast_to(told, (2, rounds, 4, 4, 32, 4)).astype(np.int32)
    yield simple("cluster_reads", told, (rounds,), (4, 2), (32,), (4, 1, 1), 1024)


def simple(
    entry: str,
    told: np.ndarray,
    more: tuple[int, ...] = (),
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (128,),
    cluster: tuple[int, int, int] = (1, 1, 1),
    shared_bytes: int = 0,
) -> Case:
    """A kernel of threads.cu whose only array is its answer."""
    return Case(
        name=f"threads/{entry}",
        file="threads.cu",
        entry=entry,
        arguments=("dump", *more),
        inputs=lambda: {"dump": unwritten(told.shape, np.int32)},
        outputs=("dump",),
        expected=lambda inputs: {"dump": told},
        grid=grid,
        block=block,
        cluster=cluster,
        shared_bytes=shared_bytes,
    )
