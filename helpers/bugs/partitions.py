"""Planted bugs in appendix_partitions: a number that clusters draw, and operands that are described once."""

from functools import partial

from helpers.bugs.bug import VERIFY, Bug
from helpers.rungs import PARTITIONS

_EITHER_END = "partition == 0 ? near_0 : clusters - 1 - near_1;"
_SET_BACK = "    if (near_0 + near_1 == clusters - 1) st_relaxed_gpu(drawn, 0);   //"
_SEND = "for (int cta = 0; cta < CLUSTER; ++cta) st_async(&shared.number, number, &shared.has_number, cta);"
_WAIT = "if (PARTITIONS) mbarrier_wait_cluster(&shared.has_number, 0);"
_EXPECT = "mbarrier_arrive_expect_tx(&shared.has_number, sizeof(shared.number));"
_DRAWS = "loaded == min(STAGES, steps)"
_LATER_ONES = "if (i >= clusters && i + clusters < tiles) next = order[i + clusters];"
_SECOND_ONE = "        if (i < tiles) next = order[i];\n"

# Twelve tiles for five clusters, three near partition 0 and two near 1: two of them compute a third one.
_partitions = partial(Bug, rung=PARTITIONS, size=(1536, 512, 128), defines={"STAGES": 2}, sms=10)

BUGS: tuple[Bug, ...] = (
    _partitions(
        name="numbers_drawn_twice",
        fault="near both partitions numbers are drawn from 0 upwards",
        why="Two clusters draw the same number and compute the same tiles, and others are left out.",
        reports=((VERIFY, "never written"),),
        edits=((_EITHER_END, "partition == 0 ? near_0 : near_1;"),),
    ),
    _partitions(
        name="counter_not_set_back",
        fault="whoever draws last does not set the counter back to zero",
        why="It is right once: the next launch draws numbers beyond the last one, and computes one tile a cluster.",
        reports=((VERIFY, "what must be set back"),),
        calls_again=True,
        edits=((_SET_BACK, "    //"),),
    ),
    _partitions(
        name="number_not_waited_for",
        fault="the number is read without a wait for its barrier",
        why="It may still be under way: what lies there is not a number.",
        reports=(("async_race", "wait for its mbarrier has_number"),),
        edits=((_WAIT, ""),),
    ),
    _partitions(
        name="number_kept_from_the_peer",
        fault="the number is sent to the CTA that drew it only",
        why="The peer waits for it forever.",
        reports=(("deadlock", "4 bytes missing"),),
        size=(256, 256, 128),
        edits=((_SEND, "st_async(&shared.number, number, &shared.has_number, 0);"),),
    ),
    _partitions(
        name="number_not_expected",
        fault="the barrier of the number expects an arrival and no bytes",
        why="Its phase ends before the number has been drawn.",
        reports=(("async_race", "wait for its mbarrier has_number"),),
        edits=((_EXPECT, "mbarrier_arrive(&shared.has_number);"),),
    ),
    _partitions(
        name="number_waited_for_in_own_cta",
        fault="the number is waited for with the scope of the own CTA",
        why="What a thread of the peer has sent need not be seen after this wait.",
        reports=(("barrier_scope", "mbarrier_wait_cluster"),),
        edits=((_WAIT, _WAIT.replace("_cluster", "")),),
    ),
    _partitions(
        name="number_drawn_after_a_full_ring",
        fault="the number is drawn at the first tile's step number STAGES, and K may have fewer steps",
        why="The tile is done before that: the producer waits for a number that it has yet to draw.",
        reports=(("deadlock", "4 bytes missing"),),
        size=(256, 256, 64),
        edits=((_DRAWS, "loaded == STAGES"),),
    ),
    _partitions(
        name="second_tile_before_its_number",
        fault="the second tile is read from the list a tile ahead too, when the number is not there yet",
        why="It is the one that the cluster would have had without a number; in a short last round there is none.",
        reports=((VERIFY, "never written"),),
        size=(1792, 256, 128),   # seven tiles
        edits=((_LATER_ONES, _LATER_ONES.replace("i >= clusters && ", "")), (_SECOND_ONE, "")),
    ),
    _partitions(
        name="advanced_by_the_other_stage",
        fault="the descriptor of B is moved on by a stage of A",
        why="The tensor cores multiply with what lies halfway through the stage before.",
        reports=(("load_over_wgmma", "that the wgmma of"), ("async_race", "overwrites what wgmma of")),
        edits=(("stage * (BN * BK * 2));", "stage * (BM * BK * 2));"),),
    ),
)
