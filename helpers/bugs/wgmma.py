"""Planted bugs in rung 6: descriptors, accumulators and the waits of wgmma."""

from helpers.bugs.bug import VERIFY, Bug
from helpers.rungs import Box, Maps

_TILE = (128, 128, 320)   # one tile, five steps: each of the two buffers is used again
_PLAIN_B = Maps(A=Box(64, 128), B=Box(64, 64, swizzle="none"))
_WAIT = "wgmma_wait_group<0>();"
_A = "wgmma_descriptor(shared.A[buffer] + warpgroup * 64 * BK + k, 16, 1024);"
_B = "wgmma_descriptor(shared.B[buffer][0] + k * 64, 8192, 1024);"
_REFILL = "if (threadIdx.x == 0 && step + BUFFERS < steps) load_step(shared, A_map, B_map, step + BUFFERS);"
_REFILLED = f"buffer next, once both warpgroups have read it.\n        __syncthreads();\n        {_REFILL}"

BUGS: tuple[Bug, ...] = (
    Bug(
        name="no_wgmma_fence",
        rung=6,
        fault="no wgmma_fence before the wgmma of a step",
        why="The tensor cores need not see the accumulators as the threads left them.",
        reports=(("wgmma_unfenced", "no wgmma_fence() before"),),
        size=_TILE,
        edits=(("        wgmma_fence();\n", ""),),
    ),
    Bug(
        name="accumulators_not_started",
        rung=6,
        fault="the first wgmma adds to accumulators that were never set",
        why="The result is the product plus whatever was in the registers.",
        reports=(("accumulator_unset", "adds to accumulators that were never given a value"),),
        size=_TILE,
        edits=(("step > 0 || k > 0);", "true);"),),
    ),
    Bug(
        name="tiles_not_aligned",
        rung=6,
        fault="the barriers lie before the tiles, which so begin at a multiple of 128 bytes and not of 1024",
        why="The swizzle is made from bits of the address: TMA and the descriptors count rows from another place.",
        reports=(("tma_alignment", "the 128B swizzle starts anew every 1024 bytes"),),
        size=_TILE,
        edits=(("struct Shared {\n", "struct Shared {\n    alignas(128) uint64_t spare[16];\n"),),
        rung_fields={"shared_bytes": 66 * 1024},
    ),
    Bug(
        name="accumulators_read_early",
        rung=6,
        fault="nobody waits for the last wgmma before C is stored",
        why="The registers are stored while the tensor cores still add to them.",
        reports=(
            ("accumulator_read", "reads accumulators that a wgmma still has"),
            ("wgmma_undrained", "is not waited for when its thread exits"),
        ),
        size=_TILE,
        edits=((_WAIT, "if (step + 1 < steps) wgmma_wait_group<0>();"),),
    ),
    Bug(
        name="group_not_committed",
        rung=6,
        fault="the wgmma are not committed as a group",
        why="wgmma_wait_group waits for groups only, so for nothing.",
        reports=(
            ("accumulator_read", "wgmma_commit_group()"),
            ("load_over_wgmma", "that the wgmma of"),
            ("wgmma_undrained", "call wgmma_commit_group()"),
        ),
        size=_TILE,
        edits=(("        wgmma_commit_group();\n", ""),),
    ),
    Bug(
        name="refill_before_wait",
        rung=6,
        fault="the buffer is filled again before the wgmma that read it are waited for",
        why="The next copy lands on operands that the tensor cores still read.",
        reports=(("load_over_wgmma", "that the wgmma of"),),
        size=_TILE,
        edits=((_WAIT, ""), (_REFILL, f"{_REFILL}\n        {_WAIT}")),
    ),
    Bug(
        name="refill_after_own_wgmma_only",
        rung=6,
        fault="no __syncthreads before a buffer is filled again",
        why="The first warpgroup has waited for its own wgmma; those of the second still read the buffer.",
        reports=(("load_over_wgmma", "that the wgmma of"), ("async_race", "overwrites what wgmma of")),
        size=_TILE,
        edits=((_REFILLED, f"buffer next; the wait says that it has been read.\n        {_REFILL}"),),
    ),
    Bug(
        name="descriptor_not_swizzled",
        rung=6,
        fault="the descriptor of A says no swizzle, its tensor map 128B",
        why="The tensor cores read the chunks of each row in the wrong order.",
        reports=(("swizzle_mismatch", "the tensor map and the descriptor must say the same"),),
        size=_TILE,
        edits=((_A, _A.replace("1024)", "1024, Swizzle::none)")),),
    ),
    Bug(
        name="b_map_not_swizzled",
        rung=6,
        fault="the tensor map of B has no swizzle, its descriptor 128B",
        why="The tensor cores undo a swizzle that was never made.",
        reports=(("swizzle_mismatch", "the tensor map and the descriptor must say the same"),),
        size=_TILE,
        rung_fields={"maps": _PLAIN_B},
    ),
    Bug(
        name="stride_of_half_a_group",
        rung=6,
        fault="the descriptor of A has a stride of 512 bytes from eight rows to the next eight, instead of 1024",
        why="Half of the rows are multiplied twice, the others never.",
        reports=((VERIFY, "holds what belongs to row"),),
        size=_TILE,
        edits=((_A, _A.replace("1024)", "512)")),),
    ),
    Bug(
        name="leading_offset_too_large",
        rung=6,
        fault="the descriptor of B says that its boxes of 64 columns lie 65536 bytes apart, instead of 8192",
        why="Half of the columns are multiplied with what lies behind the ring.",
        reports=(("wgmma_out_of_bounds", "check the descriptor's address and byte offsets"),),
        size=_TILE,
        edits=((_B, _B.replace("8192", "65536")),),
    ),
    Bug(
        name="bytes_of_a_only",
        rung=6,
        fault="the barrier expects the bytes of A, and not those of B",
        why="The phase can end when half of the data has come.",
        reports=(
            ("wgmma_before_load", "let it expect the bytes of all boxes"),
            ("deadlock", "bytes more came than were announced"),
        ),
        size=_TILE,
        edits=(("constexpr int STEP_BYTES = (BM + BN) * BK *", "constexpr int STEP_BYTES = BM * BK *"),),
    ),
)
