"""Planted bugs in rung 5: TMA copies and their mbarriers."""

from helpers.bugs.bug import VERIFY, Bug
from helpers.bugs.host import less_shared_memory
from helpers.rungs import Box, Maps

_TILE = (128, 256, 320)   # one tile, five steps: each of the two buffers is used again
_PLAIN_A = Maps(A=Box(64, 128, swizzle="none"), B=Box(64, 64))
_EXPECT = "mbarrier_arrive_expect_tx(&shared.full[buffer], STEP_BYTES);"
_WAIT = "mbarrier_wait(&shared.full[buffer], step / BUFFERS % 2);"

BUGS: tuple[Bug, ...] = (
    Bug(
        name="no_wait_for_copy",
        rung=5,
        fault="nobody waits for the copy",
        why="The threads multiply with what was in the buffer before.",
        reports=(("async_race", "reads what the TMA load of"),),
        size=_TILE,
        edits=((_WAIT, ""),),
    ),
    Bug(
        name="parity_of_the_step",
        rung=5,
        fault="the parity is that of the step, and not of the buffer's use",
        why="At the second step the wait asks for a phase that counts as over before it began.",
        reports=(
            ("async_race", "reads what the TMA load of"),
            ("deadlock", "waits at full[1] for a phase of parity 1 to end"),
        ),
        size=_TILE,
        edits=((_WAIT, "mbarrier_wait(&shared.full[buffer], step % 2);"),),
    ),
    Bug(
        name="no_bytes_expected",
        rung=5,
        fault="the barrier is not told to expect bytes",
        why="The phase ends with the arrival, before the copy has come.",
        reports=(
            ("async_race", "let it expect the bytes of all boxes"),
            ("deadlock", "bytes more came than were announced"),
            ("exit_bytes", "bytes more came than were announced"),
        ),
        size=_TILE,
        edits=((_EXPECT, "mbarrier_arrive(&shared.full[buffer]);"),),
    ),
    Bug(
        name="too_many_bytes_expected",
        rung=5,
        fault="the barrier expects more bytes than the copies bring",
        why="The phase never ends: the kernel hangs.",
        reports=(("deadlock", "bytes missing"),),
        size=_TILE,
        edits=((_EXPECT, "mbarrier_arrive_expect_tx(&shared.full[buffer], STEP_BYTES + 128);"),),
    ),
    Bug(
        name="no_fence_after_init",
        rung=5,
        fault="no fence_mbarrier_init after the barriers are made",
        why="TMA need not see the barriers that it reports to.",
        reports=(("barrier_unsynchronised", "no fence_mbarrier_init()"),),
        size=_TILE,
        edits=(("fence_mbarrier_init();   // TMA must see them too", ""),),
    ),
    Bug(
        name="no_barrier_after_init",
        rung=5,
        fault="no __syncthreads after the barriers are made",
        why="A warp waits at a barrier that is not there yet.",
        reports=(
            ("barrier_uninitialised", "let a barrier lie between"),
            ("barrier_unsynchronised", "no barrier such as __syncthreads()"),
        ),
        size=_TILE,
        edits=(("__syncthreads();   // nobody waits at a barrier that is not there yet", ""),),
    ),
    Bug(
        name="one_barrier_not_made",
        rung=5,
        fault="only the first buffer's barrier is made",
        why="The second is whatever bits lie in shared memory.",
        reports=(("barrier_uninitialised", "call mbarrier_init first"),),
        size=_TILE,
        edits=(("buffer < BUFFERS; ++buffer) mbarrier_init", "buffer < 1; ++buffer) mbarrier_init"),),
    ),
    Bug(
        name="refill_while_read",
        rung=5,
        fault="no __syncthreads before a buffer is filled again",
        why="The next copy lands on what slower warps still read.",
        reports=(("async_race", "TMA load of"),),
        size=_TILE,
        edits=(("        __syncthreads();\n        if", "        if"),),
    ),
    Bug(
        name="loads_beyond_k",
        rung=5,
        fault="all buffers are filled at the start, even if K has fewer steps",
        why="A copy that nobody waits for may land after the CTA has ended, in the memory of the next one.",
        reports=(
            ("exit_unwaited", "is on its way into its shared memory"),
            ("exit_unwaited", "no thread has waited for the last data of full[1]"),
        ),
        size=(128, 256, 64),
        edits=(("step < BUFFERS && step < steps; ++step", "step < BUFFERS; ++step"),),
    ),
    Bug(
        name="map_not_swizzled",
        rung=5,
        fault="the tensor map of A has no swizzle, and the kernel reads swizzled rows",
        why="Each row's chunks of eight k are multiplied with the wrong rows of B.",
        reports=((VERIFY, "the 16-byte chunks of A's rows"),),
        size=_TILE,
        rung_fields={"maps": _PLAIN_A},
    ),
    Bug(
        name="too_little_shared_memory",
        rung=5,
        fault="the launch asks for less shared memory than the kernel uses",
        why="Copies and barriers lie where the CTA has no memory.",
        reports=(("out_of_bounds", "past the end of shared_memory"),),
        size=_TILE,
        make_change=lambda: less_shared_memory,
    ),
)
