"""Planted bugs in rung 10: clusters, multicast, and stores by TMA."""

from functools import partial

from helpers.bugs.bug import VERIFY, Bug

_ARRIVE = "if (lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);"
_OWN = "if (lane == 0) mbarrier_arrive_cluster(&shared.empty[stage], cluster_ctarank());"
_EMPTY = "mbarrier_wait_cluster(&shared.empty[place.stage], place.parity ^ 1);"
_GRID = "griddepcontrol_wait();      //"
_FIRST = "barrier_cluster_arrive();   // the peer"
_FIRST_WAIT = f"    barrier_cluster_wait();\n    {_GRID}"
_STEP = "                    wgmma_wait_group<1>();\n                    release(shared, place.previous(), thread);"
_LAST = "wgmma_wait_group<0>();\n            release(shared, place.previous(), thread);"
_READ = "if (thread == 0) cp_async_bulk_wait_group_read<1>();"
_READ_BOX = f"{_READ}   // the store before last has read this box,"
_KNOWN = "barrier_sync(1 + consumer, 128);                       //"
_SHOWN = "barrier_sync(1 + consumer, 128);   //"
_FENCE = "fence_proxy_async();               //"
_ARRIVED = "        barrier_cluster_arrive();   // all that came from the peer"
_TILES = "        Finished finished;\n"
_TRIES, _LIMIT = "< expected && tries < PACE_TRIES) ++tries;", " && tries < PACE_TRIES"
_EXPECTED = "min(clusters, tiles - (before - 1) / steps * clusters) : 0;"

# One tile of a cluster, five steps: each of the two stages is used again.
_clusters = partial(Bug, rung=10, size=(256, 256, 320), defines={"STAGES": 2}, sms=2)

BUGS: tuple[Bug, ...] = (
    _clusters(
        name="freed_in_own_cta_only",
        fault="a stage is given back to the own CTA's producer only",
        why="The peer's producer, which sends half of B here, waits forever.",
        reports=(("deadlock", "8 of 16 arrivals missing"),),
        edits=((_ARRIVE, _OWN),),
    ),
    _clusters(
        name="peer_not_counted",
        fault="the same, and the empty barriers expect the own CTA's consumers only",
        why="Nothing hangs: the peer multicasts over a stage that this CTA still reads.",
        reports=(
            ("load_over_wgmma", "that the wgmma of"),
            ("load_over_load", "has yet to write"),
            ("async_race", "The TMA load of"),
        ),
        edits=((_ARRIVE, _OWN), ("READERS * CONSUMERS * WARPS);", "CONSUMERS * WARPS);")),
    ),
    _clusters(
        name="no_last_cluster_barrier",
        fault="a CTA ends without waiting for its peer",
        why="The peer still arrives at its barriers, in shared memory that belongs to nobody.",
        reports=(("exited_cta", "let a barrier of the cluster be the last"),),
        edits=(("    barrier_cluster_wait();\n}", "}"),),
    ),
    _clusters(
        name="arrived_too_early",
        fault="the consumers arrive at the last cluster barrier before their first tile",
        why="The peer may end while they still arrive at its empty barriers.",
        reports=(("exited_cta", "let a barrier of the cluster be the last"),),
        edits=((_ARRIVED, "        //"), (_TILES, f"        barrier_cluster_arrive();\n{_TILES}")),
    ),
    _clusters(
        name="last_arrival_relaxed",
        fault="the consumers' arrival at the last cluster barrier is relaxed",
        why="It hands nothing on: the peer may end before their arrivals at its empty barriers have come.",
        reports=(("exited_cta", "so let the last one be barrier_cluster_arrive()"),),
        edits=((_ARRIVED, _ARRIVED.replace("arrive()", "arrive_relaxed()")),),
    ),
    _clusters(
        name="no_first_cluster_barrier",
        fault="a CTA waits for its own threads only after it made its barriers",
        why="The peer may send bytes and arrivals to barriers that are not there yet.",
        reports=(("barrier_unsynchronised", "no barrier of the cluster between"),),
        edits=((_FIRST, "__syncthreads();   // the peer"), (_FIRST_WAIT, f"    {_GRID}")),
    ),
    _clusters(
        name="cluster_wait_of_own_cta",
        fault="the producer waits for the peer's arrivals with the scope of its own CTA",
        why="What the peer's threads did before they arrived need not have happened for this wait.",
        reports=(("barrier_scope", "mbarrier_wait_cluster"),),
        edits=((_EMPTY, _EMPTY.replace("_cluster", "")),),
    ),
    _clusters(
        name="multicast_to_itself",
        fault="the multicast mask names the sender only",
        why="The peer waits for its other half of B forever.",
        reports=(("deadlock", "16384 bytes missing"),),
        edits=(("(1 << CLUSTER) - 1);", "1 << rank);"),),
    ),
    _clusters(
        name="multicast_to_a_third",
        fault="the multicast mask names a CTA that the cluster doesn't have",
        why="The instruction is undefined.",
        reports=(("multicast_mask", "one bit for each"),),
        edits=(("(1 << CLUSTER) - 1);", "(1 << (CLUSTER + 1)) - 1);"),),
    ),
    _clusters(
        name="bytes_of_own_half_only",
        fault="a full barrier expects what its own CTA sends, and not the peer's half of B",
        why="The phase can end before that half has come.",
        reports=(("wgmma_before_load", "let it expect the bytes of all boxes"),),
        edits=(("expect_tx(full, STAGE_BYTES);", "expect_tx(full, STAGE_BYTES - BN / 2 * BK * 2);"),),
    ),
    _clusters(
        name="released_a_step_early",
        fault="the stage is given back whose wgmma have just been issued, and not the one before",
        why="wgmma_wait_group<1> covers the stage before: this one is still read.",
        reports=(("load_over_wgmma", "release a stage only after"),),
        edits=(
            (_STEP, "                    wgmma_wait_group<1>();"),
            ("                place.advance();", "release(shared, place.stage, thread);\nplace.advance();"),
            (_LAST, "wgmma_wait_group<0>();"),
        ),
    ),
    _clusters(
        name="staging_overwritten",
        fault="nobody waits until the store before last has read its staging box",
        why="Threads write the next part of C over what TMA still reads.",
        reports=(("write_over_store", "waits with cp_async_bulk_wait_group_read<0>()"),),
        edits=((_READ, ""),),
    ),
    _clusters(
        name="one_store_too_many_left",
        fault="two stores may still read when the third box is written, and there are two boxes",
        why="Threads write the next part of C over what TMA still reads.",
        reports=(("write_over_store", "waits with cp_async_bulk_wait_group_read<0>()"),),
        edits=((_READ_BOX, _READ.replace("<1>", "<2>") + "   // two boxes, so two stores may still be read,"),),
    ),
    _clusters(
        name="others_not_told",
        fault="no named barrier after the wait for a store: one thread waits, and the others write at once",
        why="Only the waiting thread knows that the box is free.",
        reports=(("write_over_store", "a barrier tells the others"), ("async_race", "the TMA store")),
        edits=((_KNOWN, "//"),),
    ),
    _clusters(
        name="stored_before_written",
        fault="no named barrier between writing the staging box and its store",
        why="TMA reads rows that other warps have not written yet.",
        reports=(
            ("store_unwritten", "with a barrier before the store"),
            ("async_race", "The TMA store of"),
        ),
        edits=((_SHOWN, "//"),),
    ),
    _clusters(
        name="one_barrier_for_both",
        fault="both consumers use the same named barrier",
        why="It counts threads of the other consumer, and lets some go before all of their own have come.",
        reports=(("named_barrier", "give each group of warps a number of its own"),),
        edits=((_KNOWN, "barrier_sync(1, 128);   //"), (_SHOWN, "barrier_sync(1, 128);   //")),
    ),
    _clusters(
        name="barrier_of_too_many",
        fault="the named barrier of one consumer waits for 256 threads",
        why="128 threads come to it: the kernel hangs.",
        reports=(("deadlock", "128 of 256 threads missing"),),
        edits=((_SHOWN, "barrier_sync(1 + consumer, 256);   //"),),
    ),
    _clusters(
        name="no_proxy_fence",
        fault="no fence_proxy_async between writing the staging box and its store",
        why="TMA reads what was there before the threads' writes.",
        reports=(("proxy_fence", "with no fence_proxy_async()"), ("store_without_fence", "fence_proxy_async()")),
        edits=((_FENCE, "//"),),
    ),
    _clusters(
        name="fence_by_one_thread",
        fault="only the thread that stores executes fence_proxy_async, before the barrier",
        why="Each thread must show TMA its own writes.",
        reports=(("proxy_fence", "with no fence_proxy_async()"),),
        edits=((_FENCE, "if (thread == 0) fence_proxy_async();   //"),),
    ),
    _clusters(
        name="store_not_drained",
        fault="the last stores are not waited for",
        why="The CTA ends, and its shared memory is given away while TMA still reads it.",
        reports=(("store_undrained", "may still read shared memory when its thread exits"),),
        edits=(("if (thread == 0) cp_async_bulk_wait_group_read<0>();", ""),),
    ),
    _clusters(
        name="launch_before_not_waited_for",
        fault="no griddepcontrol_wait in a kernel that is launched before the one before it has ended",
        why="Its first loads may come before the launch before has stored what they load.",
        reports=(("early_access", "reads global memory (A_map)"),),
        edits=((_GRID, "//"),),
    ),
    _clusters(
        name="pace_without_tries",
        fault="a cluster waits at each checkpoint until all clusters have come there, however long that takes",
        why="Those with no tile in the last round never come: the others hang.",
        reports=(("step_limit", "or wait for a CTA of another cluster that does not run meanwhile"),),
        size=(768, 256, 2048),
        sms=4,
        edits=(
            (_TRIES, _TRIES.replace(_LIMIT, "")),
            ("return tries < PACE_TRIES;", "return true;"),
            (_EXPECTED, "clusters : 0;"),
        ),
    ),
    _clusters(
        name="staging_not_swizzled",
        fault="the staging box is written in plain rows, and C's map has the 128B swizzle",
        why="TMA undoes a swizzle that was never made: chunks of eight columns change places.",
        reports=((VERIFY, "the 16-byte chunks of C's rows"),),
        edits=(("((2 * i + chunk) ^ row % 8);", "(2 * i + chunk);"),),
    ),
    _clusters(
        name="last_tile_not_stored",
        fault="the tile that waits in registers at the end is not stored",
        why="Each CTA's last tile is lost.",
        reports=((VERIFY, "never written; this is 2 tiles of 128 x 256, the first of them (2, 0)"),),
        size=(512, 256, 320),
        edits=(("        if (finished.pending) {\n#pragma unroll", "        if (false) {\n#pragma unroll"),),
    ),
)
