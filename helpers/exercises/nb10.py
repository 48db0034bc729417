"""Exercises of notebook 10, clusters."""

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation
from helpers.models.clusters import ClusterStep, cluster_step
from helpers.models.swizzle import CHUNK_BYTES, Swizzle

SIZE = (256, 256, 320)   # one tile of a cluster, five steps

_LONELY = (   # of exercise 3
    ("#define STAGES 4", "#define STAGES 3"),
    (
        "if (lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);",
        "if (lane == 0) mbarrier_arrive(&shared.empty[stage]);",
    ),
    ("READERS * CONSUMERS * WARPS);", "CONSUMERS * WARPS);"),
)


def _step() -> ClusterStep:
    return cluster_step(2, 2)


def other_address(thread: int, store: int) -> int:
    """The byte of the staging box if matrices 0 and 1 are two chunks of the upper rows, 2 and 3 of the lower ones."""
    warp, lane = divmod(thread, 32)
    row, chunk = 16 * warp + lane // 16 * 8 + lane % 8, 2 * store + lane // 8 % 2
    swizzle = Swizzle("128B")
    return int(swizzle(row * swizzle.row_bytes + chunk * CHUNK_BYTES))


def _still_shares(emulation: Emulation) -> str | None:
    if not emulation.run.totals["tma_multicast_bytes_saved"]:
        return "it is right, but nobody multicasts any more: each CTA shall fetch half of B for both."
    if "#define STAGES 3" not in emulation.source:
        return "it is right, but not with three stages: mend `lonely`, and leave the rest of it as it is."
    return None


EXERCISES = (
    Number(
        id="10.1",
        expected=lambda: (_step().fetched, _step().landed, _step().empty_arrivals),
        names=("bytes that a CTA fetches", "bytes that `full` expects", "arrivals that `empty` expects"),
        mistakes=(
            ((24576, 24576, 24), "the first and the last are right. But `full` counts what lands, whoever fetched it."),
            ((24576, 49152, 32), "nearly: the CTA that lies diagonally across reads nothing of what this one sends."),
            ((24576, 49152, 16), "the bytes are right. Who reads this CTA's part of A, and who its part of B?"),
            ((24576, 49152, 8), "the bytes are right. Not only this CTA reads what it fetches."),
            ((12288, 49152, 24), "A is shared by two CTAs, and so is B: each fetches halves, not quarters."),
        ),
        hints=(
            "Draw four CTAs. With whom has one the rows of C in common, and so A? With whom the columns, and so B?",
            "It fetches half of A's 16,384 bytes and half of B's 32,768. All of both must land before it may multiply.",
            "Three CTAs read what it sends: itself, the one beside, the one below. Each has eight consumer warps.",
        ),
        because="parts are fetched, wholes land, and whoever reads a stage must say when he has done so.",
    ),
    Function(
        id="10.2",
        lines=4,
        reference=other_address,
        points=((0, 0), (1, 0), (7, 0), (8, 0), (15, 2), (16, 0), (31, 0), (33, 1), (70, 3), (127, 3)),
        names=("thread", "store"),
        hints=(
            "Lanes 8 j to 8 j + 7 address matrix j. Which rows and which chunk has each of the four now?",
            "Row: 16 * (thread // 32), 8 more from lane 16 on, and lane % 8. Chunk: 2 * store + lane // 8 % 2.",
            "The byte is row * 128 + (chunk ^ row % 8) * 16.",
        ),
        because="stmatrix does not care where its matrices lie: the addresses and the registers must only agree.",
    ),
    KernelChange(
        id="10.3",
        rung="10_clusters",
        lines=2,
        edits=_LONELY,
        size=SIZE,
        more_sizes=((300, 264, 200),),
        schedules=("lazy", "eager"),
        goal=_still_shares,
        hints=(
            "Two things are wrong. Who sends what the consumers read? And how many say so to one `empty`?",
            "Each warp arrives at both CTAs: `mbarrier_arrive_cluster(&shared.empty[stage], lane)` by lanes 0 and 1.",
            "And `mbarrier_init(&shared.empty[stage], READERS * CONSUMERS * WARPS)`: sixteen arrivals.",
        ),
        because="a stage is free when everybody who reads what a producer sends has said so, in both CTAs.",
    ),
    FindTheBug.planted(
        "one_store_too_many_left",
        id="10.4",
        defines={},
        more_sizes=((512, 256, 320),),
        hints=(
            "A thread writes into a staging box that a store may still read. Which line should have waited for that "
            "store?",
            "`cp_async_bulk_wait_group_read<N>` lets the newest N stores go on reading. Stores 0, 1, 2, ... take boxes "
            "0, 1, 0, ...: when box 0 is written again, which stores may still read, and from which boxes?",
            "Only store 1, from box 1. Store 0 must have read its box, so one store is left, and not two: `<1>`.",
        ),
        because="while a box is written, only the store from the other box may still read: one store, not two. (`<0>` "
        "is right too, but then no store has time to read while the next box is written.)",
    ),
)
