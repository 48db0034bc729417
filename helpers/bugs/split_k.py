"""Planted bugs in appendix_split_k: a cluster that divides K, and sums that cross it through shared memory."""

from functools import partial

from helpers.bugs.bug import VERIFY, Bug
from helpers.rungs import split_k

_CLUSTER = "    barrier_cluster_arrive();\n    barrier_cluster_wait();   //"
_READY = f"{_CLUSTER} all CTAs' sums are there\n"
_LEAVE = f"{_CLUSTER} nobody leaves while others still read its sums\n"
_FREE = "if (warpgroup > 0) barrier_sync(1, CONSUMERS * 128);"
_GRID = "griddepcontrol_wait();   // the launch"

# Nine steps in two parts: each CTA walks its ring of two stages round twice.
_RUNG, _DEFINES = split_k(64, 64, 2, 2)
_split = partial(Bug, rung=_RUNG, defines=_DEFINES, size=(64, 64, 576))
# The same with both consumers.
_WIDE_RUNG, _WIDE_DEFINES = split_k(128, 64, 2, 2)
_wide = partial(Bug, rung=_WIDE_RUNG, defines=_WIDE_DEFINES, size=(128, 64, 576))
# Few rows: 16 of the tile's 64 are loaded.
_FEW_RUNG, _FEW_DEFINES = split_k(64, 64, 2, 2, a_rows=16)
_few = partial(Bug, rung=_FEW_RUNG, defines=_FEW_DEFINES, size=(9, 64, 576))

BUGS: tuple[Bug, ...] = (
    _split(
        name="sums_read_too_early",
        fault="no barrier of the cluster between writing the sums and reading those of the others",
        why="A CTA adds up what the others have not written yet.",
        reports=(("async_race", "then a barrier of the cluster come"), ("race", "no barrier of the cluster between")),
        edits=((_READY, ""),),
    ),
    _split(
        name="sums_arrival_relaxed",
        fault="the arrival at the cluster's barrier after the sums are written is relaxed",
        why="It hands nothing on: the others may still see what was in that memory before.",
        reports=(("race", "a relaxed arrival there orders nothing"),),
        edits=((_READY, _READY.replace("arrive()", "arrive_relaxed()")),),
    ),
    _split(
        name="left_before_sums_were_read",
        fault="a CTA ends without waiting until the others have read its sums",
        why="They read shared memory that belongs to nobody, or to the next CTA.",
        reports=(("exited_cta", "let a barrier of the cluster be the last"),),
        edits=((_LEAVE, ""),),
    ),
    _split(
        name="warps_without_rows_leave",
        fault="warps whose rows lie below the end of C return at once",
        why="The barrier of the consumers waits for 128 threads, and 32 come: the kernel hangs.",
        reports=(("deadlock", "to which 32 of 128 threads came"),),
        size=(16, 64, 576),
        edits=((_FREE, f"if (warpgroup > 0 && !has_rows) return;\n    {_FREE}"),),
    ),
    _split(
        name="ring_overwritten_by_sums",
        fault="no barrier of the consumers before the sums are written where the ring was",
        why="A warp that has finished overwrites what wgmma of another still reads.",
        reports=(("async_race", "overwrites what wgmma of"),),
        edits=((_FREE, "//"),),
    ),
    _wide(
        name="sums_over_the_other_consumer",
        fault="a consumer waits for its own four warps only before the sums are written",
        why="The sums take the ring's place, which the other consumer still reads.",
        reports=(("async_race", "overwrites what wgmma of"),),
        edits=((_FREE, "if (warpgroup > 0) barrier_sync(1 + consumer, 128);"),),
    ),
    _wide(
        name="both_consumers_in_one_place",
        fault="a consumer's threads are counted from zero, so that both write their sums to the same place",
        why="Half of the sums are lost.",
        reports=(("race", "no barrier between"),),
        edits=(("index = threadIdx.x - 128;", "index = thread;"),),
    ),
    _split(
        name="parts_rounded_down",
        fault="each CTA takes steps / SPLIT steps, and nobody the rest",
        why="Right whenever the parts divide the steps; else the last products are missing.",
        reports=((VERIFY, "the last 64 values of k were left out"),),
        edits=(("end = steps * (rank + 1) / SPLIT;", "end = first + steps / SPLIT;"),),
    ),
    _split(
        name="rank_ignored",
        fault="every CTA takes itself for the first",
        why="All multiply the first part of K and store the first part of the tile.",
        reports=((VERIFY, "at (0, 16): 2,048 elements (50 %) were never written"),),
        edits=(("rank = cluster_ctarank(),", "rank = 0,"),),
    ),
    _split(
        name="left_block_twice",
        fault="the right block's sums are read from the left block's place",
        why="Columns 8 to 15 of each 16 are a copy of columns 0 to 7.",
        reports=((VERIFY, "column 8 holds what belongs to column 0"),),
        edits=(("&shared.partial[block + 1][index], cta", "&shared.partial[block][index], cta"),),
    ),
    _split(
        name="last_row_left_out",
        fault="a warp counts as without rows when only its first row is left",
        why="The last row of C is never written where M is one more than a multiple of 16.",
        reports=((VERIFY, "row 48 was never written"),),
        size=(49, 64, 576),
        edits=(("thread / 32 * 16 < M;", "thread / 32 * 16 + 1 < M;"),),
    ),
    _few(
        name="zero_rows_not_written",
        fault="the rows of A that are not loaded are not set to zero",
        why="wgmma multiplies what was there before: nothing that is stored, but what it is nobody knows.",
        reports=(("wgmma_unwritten", "multiplies with A from memory to which nothing was written"),),
        edits=(("if (A_ROWS < TILE_M) {", "if (false) {"),),
    ),
    _few(
        name="zero_rows_not_shown",
        fault="no fence_proxy_async after the zeros are written",
        why="wgmma reads through another proxy, and may see what was there before.",
        reports=(("proxy_fence", "with no fence_proxy_async()"),),
        edits=(("fence_proxy_async();   // wgmma", "//"),),
    ),
    _few(
        name="bytes_of_the_whole_tile",
        fault="the full barriers expect all rows of a tile of A, of which few are loaded",
        why="They wait forever for bytes that nobody sends.",
        reports=(("deadlock", "6144 bytes missing"),),
        edits=(("STAGE_BYTES = (A_ROWS + TILE_N)", "STAGE_BYTES = (TILE_M + TILE_N)"),),
    ),
    _few(
        name="box_of_the_whole_tile",
        fault="the tensor map of A has a box of 64 rows, and the kernel expects 16",
        why="More bytes come than the barrier was told of.",
        reports=(("deadlock", "6144 bytes more came than were announced"),),
        rung_fields={"maps": _RUNG.maps},
    ),
    _split(
        name="loaded_before_the_launch_before_ended",
        fault="no griddepcontrol_wait in a kernel that may begin while the launch before still stores",
        why="Its first loads may come before the launch before has stored what they load.",
        reports=(("early_access", "reads global memory (A_map)"),),
        edits=((_GRID, "//"),),
    ),
)
