"""Planted bugs in rung 7: a ring of stages between a producer and two consumers."""

from helpers.bugs.bug import VERIFY, Bug
from helpers.bugs.host import keep_first_map

_STAGES = {"STAGES": 2}
_TILE = (128, 256, 320)   # one tile, five steps: each of the two stages is used again
_INIT = "mbarrier_init(&shared.empty[stage], CONSUMERS * WARPS);"
_EMPTY = "mbarrier_wait(&shared.empty[place.stage], place.parity ^ 1);"
_FULL = "mbarrier_wait(&shared.full[place.stage], place.parity);"
_WAIT = "wgmma_wait_group<0>();"
_RELEASE = "if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);"
_STORE = "store_sums(sums, C, m0 + consumer * 64, n0, M, N);"
_STEP = "for (int step = 0; step < steps; ++step, place.advance()) {\n                uint64_t* full"

_OVERWRITTEN = (("load_over_wgmma", "that the wgmma of"), ("load_over_load", "has yet to write"))
_AGAIN = ("barrier_arrivals", "wait for the phase's end before arriving again")

BUGS: tuple[Bug, ...] = (
    Bug(
        name="no_wait_for_empty",
        rung=7,
        fault="the producer does not wait until a stage is empty",
        why="It overwrites stages that the tensor cores still read.",
        reports=(*_OVERWRITTEN, _AGAIN),
        size=_TILE,
        edits=((_EMPTY, ""),),
        defines=_STAGES,
    ),
    Bug(
        name="producer_parity",
        rung=7,
        fault="the producer begins with the parity of the consumers",
        why="It waits for a stage to be emptied that nobody has filled: the kernel hangs.",
        reports=(("deadlock", "waits at empty[0] for a phase of parity 0 to end"),),
        size=_TILE,
        edits=((_EMPTY, _EMPTY.replace(" ^ 1", "")),),
        defines=_STAGES,
    ),
    Bug(
        name="no_wait_for_full",
        rung=7,
        fault="the consumers do not wait until a stage is full",
        why="They multiply what was in the stage before.",
        reports=(
            ("wgmma_before_load", "wait for the load's mbarrier"),
            ("wgmma_unwritten", "to which nothing was written"),
            ("async_race", "reads what the TMA load of"),
        ),
        size=_TILE,
        edits=((_FULL, ""),),
        defines=_STAGES,
    ),
    Bug(
        name="parity_never_flips",
        rung=7,
        fault="the parity does not flip when the ring begins again",
        why="From the second round on every wait is over before it begins, or never.",
        reports=(*_OVERWRITTEN, _AGAIN, ("wgmma_before_load", "with the parity of this phase")),
        size=_TILE,
        edits=(("            parity ^= 1;\n", ""),),
        defines=_STAGES,
    ),
    Bug(
        name="released_before_wait",
        rung=7,
        fault="a stage is given back before the wgmma that read it are waited for",
        why="The producer overwrites operands that the tensor cores still read.",
        reports=(("load_over_wgmma", "release a stage only after"),),
        size=_TILE,
        edits=((_WAIT, ""), (_RELEASE, f"{_RELEASE}\n            {_WAIT}")),
        defines=_STAGES,
    ),
    Bug(
        name="one_group_left_running",
        rung=7,
        fault="a stage is given back while the last group of wgmma may still run",
        why="wgmma_wait_group<1> leaves that very group running that reads the stage.",
        reports=(("load_over_wgmma", "release a stage only after"),),
        size=_TILE,
        edits=((_WAIT, "wgmma_wait_group<1>();"), (_STORE, f"{_WAIT}\n        {_STORE}")),
        defines=_STAGES,
    ),
    Bug(
        name="one_warp_speaks_for_four",
        rung=7,
        fault="one warp of each consumer gives the stage back for all four",
        why="wgmma_wait_group says nothing about the other warps, whose part of the wgmma may still read the stage.",
        reports=(("load_over_wgmma", "that the wgmma of"), ("async_race", "overwrites what wgmma of")),
        size=_TILE,
        edits=((_INIT, _INIT.replace(" * WARPS", "")), ("if (thread % 32 == 0)", "if (thread == 0)")),
        defines=_STAGES,
    ),
    Bug(
        name="one_consumer_counted",
        rung=7,
        fault="a stage counts as empty when one of its two consumers has read it",
        why="The producer overwrites what the slower consumer still reads.",
        reports=(
            *_OVERWRITTEN,
            ("async_race", "overwrites what wgmma of"),
            ("deadlock", "with 4 of 4 arrivals missing"),
        ),
        size=_TILE,
        edits=((_INIT, "mbarrier_init(&shared.empty[stage], WARPS);"),),
        defines=_STAGES,
    ),
    Bug(
        name="every_thread_counted",
        rung=7,
        fault="the empty barriers expect every thread, and one of each warp arrives",
        why="A stage never becomes empty again: the kernel hangs.",
        reports=(("deadlock", "with 248 of 256 arrivals missing"),),
        size=_TILE,
        edits=(
            (_INIT, "mbarrier_init(&shared.empty[stage], CONSUMERS * 128);"),
            ("one arrival of each consumer warp.", "one arrival of each consumer thread."),
        ),
        defines=_STAGES,
    ),
    Bug(
        name="made_by_every_warp",
        rung=7,
        fault="a thread of each warp makes the barriers, and not one of the CTA",
        why="A barrier may begin anew when others have arrived at it.",
        reports=(("barrier_reinitialised", "let one thread do it, once"),),
        size=_TILE,
        edits=(("if (threadIdx.x == 0) {", "if (threadIdx.x % 32 == 0) {"),),
        defines=_STAGES,
    ),
    Bug(
        name="next_slot",
        rung=7,
        fault="B goes to the stage after the one that was waited for",
        why="It overwrites a stage that is in use, and its own stage holds an old B.",
        reports=(
            ("load_over_wgmma", "that the wgmma of"),
            ("load_over_load", "give each box its own place"),
            ("wgmma_before_load", "multiplies with B"),
            ("wgmma_unwritten", "multiplies with B"),
        ),
        size=_TILE,
        edits=(("load(shared.B[place.stage][box]", "load(shared.B[(place.stage + 1) % STAGES][box]"),),
        defines=_STAGES,
    ),
    Bug(
        name="one_step_too_many",
        rung=7,
        fault="the producer loads one step more than the consumers multiply",
        why="The CTA ends, and its shared memory is given away while TMA still writes to it.",
        reports=(
            ("exit_unwaited", "wait for what is loaded, or do not load it"),
            ("exit_unwaited", "is on its way into its shared memory"),
        ),
        size=_TILE,
        edits=((_STEP, _STEP.replace("<", "<=")),),
        defines=_STAGES,
    ),
    Bug(
        name="registers_beyond_the_budget",
        rung=7,
        fault="the consumers ask for 240 registers and the producer keeps 40",
        why="The CTA has fewer: setmaxnreg waits forever.",
        reports=(("register_budget", "the sum must stay within the registers at launch"),),
        size=_TILE,
        edits=(("CONSUMER_REGISTERS = 232;", "CONSUMER_REGISTERS = 240;"),),
        defines=_STAGES,
    ),
    Bug(
        name="producer_keeps_its_registers",
        rung=7,
        fault="the producer does not give up registers",
        why="The consumers wait for registers that are never free.",
        reports=(("register_budget", "the others must call setmaxnreg_dec first"),),
        size=_TILE,
        edits=(("        setmaxnreg_dec<PRODUCER_REGISTERS>();\n", ""),),
        defines=_STAGES,
    ),
    Bug(
        name="last_step_dropped",
        rung=7,
        fault="the number of steps along K is rounded down",
        why="Right whenever K is a multiple of the step; else the last products are missing.",
        reports=((VERIFY, "the last 8 values of k were left out"),),
        size=(128, 256, 200),
        edits=(("steps = (K + BK - 1) / BK;", "steps = K / BK;"),),
        defines=_STAGES,
    ),
    Bug(
        name="both_consumers_take_the_upper_half",
        rung=7,
        fault="the second consumer multiplies the first one's rows of A",
        why="The lower half of each tile of C is a copy of the upper half.",
        reports=((VERIFY, "row 64 holds what belongs to row 0"),),
        size=_TILE,
        edits=(("shared.A[place.stage] + consumer * 64 * BK + k", "shared.A[place.stage] + k"),),
        defines=_STAGES,
    ),
    Bug(
        name="stale_tensor_map",
        rung=7,
        fault="a later call gets the tensor map of the first call's A",
        why="It reads the old matrix, or memory that has been freed.",
        reports=((VERIFY, "it is the product with the A of the run before"),),
        size=(128, 256, 128),
        defines=_STAGES,
        make_change=keep_first_map,
        calls_again=True,
    ),
)
