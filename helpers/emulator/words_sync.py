"""Reports of barriers, clusters and register budgets in words: the rule, both lines, who, and what is missing."""

from collections.abc import Callable

from helpers.emulator.context import Context, cta_name, earlier, owner, who
from helpers.emulator.protocol import OPS, STATES, RawReport, WarpState
from helpers.words import plural

_VERBS = {"load": "reads", "store": "overwrites"}
_PAST = {"load": "read", "store": "wrote"}


def _barrier(raw: RawReport, context: Context) -> str:
    """The barrier's name, with its CTA if it is of another one than the thread."""
    name = context.mbarrier(raw.barrier)
    if raw.other_cta[:] != raw.cta[:] and context.has_clusters:
        return f"{name} of {cta_name(raw.other_cta)}"
    return name


def _missing(pending: int, expected: int, bytes_: int) -> str:
    """What a phase still waits for."""
    parts = []
    if pending:
        parts.append(f"{pending:,} of {plural(expected, 'arrival')} missing")
    if bytes_ > 0:
        parts.append(f"{bytes_} bytes missing")
    if bytes_ < 0:
        parts.append(f"{-bytes_} bytes more came than were announced")
    return " and ".join(parts) or "nothing missing"


def _mbarrier_state(state: WarpState, context: Context) -> str:
    parity, phase, pending, expected, bytes_ = state.values[:5]
    name = context.mbarrier(state.barrier)
    return f"wait at {name} for parity {parity}: in phase {phase}, {_missing(pending, expected, bytes_)}"


def _named_state(state: WarpState, context: Context) -> str:
    number, arrived, expected = state.values[:3]
    return f"wait at named barrier {number}: {expected - arrived} of {expected} threads missing"


def _cluster_state(state: WarpState, context: Context) -> str:
    return f"wait at the cluster's barrier, to which {plural(state.values[0], 'thread')} came"


def _registers_state(state: WarpState, context: Context) -> str:
    wanted, has, free = state.values[:3]
    return f"wait in setmaxnreg for {wanted} registers a thread: they have {has}, and {free} of the CTA are free"


def _warpgroup_state(state: WarpState, context: Context) -> str:
    return f"wait for the warpgroup, of which {state.values[3]} of {state.values[4]} threads came"


STATE_WORDS: dict[str, Callable[[WarpState, Context], str]] = {
    "mbarrier": _mbarrier_state,
    "named_barrier": _named_state,
    "cluster_barrier": _cluster_state,
    "registers": _registers_state,
    "warpgroup": _warpgroup_state,
}


def deadlock(raw: RawReport, context: Context) -> str:
    """No thread can go on; the report is about the wait that explains it best."""
    start = f"no thread of {cta_name(raw.cta)}{' and its cluster' if context.has_clusters else ''} can go on"
    values = raw.values
    state = STATES[values[7]]
    if state == "mbarrier":
        return (
            f"{start}: {context.at(raw.place)} waits at {context.mbarrier(raw.barrier)} for a phase of parity "
            f"{values[0]} to end, and the barrier is in phase {values[1]} (parity {values[1] % 2}) with "
            f"{_missing(*values[2:5])}; {context.thread(raw.place.thread)}."
        )
    if state == "named_barrier":
        return (
            f"{start}: {context.at(raw.place)} waits at named barrier {values[0]}, to which {values[1]} of "
            f"{values[2]} threads came; {context.thread(raw.place.thread)}."
        )
    if state == "cluster_barrier":
        return (
            f"{start}: {context.at(raw.place)} waits at the cluster's barrier, to which only "
            f"{plural(values[0], 'thread')} came: all that have not exited must come; "
            f"{context.thread(raw.place.thread)}."
        )
    if state == "warpgroup":
        return (
            f"{start}: {context.at(raw.place)} is for a whole warpgroup, of which {values[3]} of {values[4]} threads "
            f"came; {context.thread(raw.place.thread)}."
        )
    if state == "wgmma" and values[1]:
        return (
            f"{start}: {context.at(raw.place)} waits for a wgmma, to which only {values[0]} of the warpgroup's 128 "
            f"threads came, in line {values[1]}: all must come; {context.thread(raw.place.thread)}."
        )
    return f"{start}: {context.at(raw.place)} waits for what does not come; {context.thread(raw.place.thread)}."


def _uninitialised(raw: RawReport, context: Context) -> str:
    use = "sends data to" if raw.detail else "uses"
    return (
        f"{context.at(raw.place)} {use} {_barrier(raw, context)}, which is not initialised: call mbarrier_init first, "
        f"and let a barrier lie between; {who(raw, context)}."
    )


def _reinitialised(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} initialises {context.mbarrier(raw.barrier)}, which {context.at(raw.other)} has "
        f"initialised: let one thread do it, once, or call mbarrier_inval between; {who(raw, context)}, after "
        f"{context.thread(raw.other.thread)}."
    )


def _overwritten(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} uses {_barrier(raw, context)}, whose 8 bytes something has overwritten since line "
        f"{raw.barrier_line} initialised it: keep other data off it; {who(raw, context)}."
    )


def _address(raw: RawReport, context: Context) -> str:
    if raw.barrier < 0:
        return (
            f"{context.at(raw.place)} names an mbarrier that is not in the CTA's shared memory: declare it "
            f"__shared__; {who(raw, context)}."
        )
    return (
        f"{context.at(raw.place)} names an mbarrier at {context.shared_place(raw.barrier)}, which is not a multiple "
        f"of 8: make it a uint64_t of its own; {who(raw, context)}."
    )


def _count(raw: RawReport, context: Context) -> str:
    place, name, value = context.at(raw.place), context.mbarrier(raw.barrier), raw.values[0]
    if raw.detail == 1:
        text = f"{place} waits at {name} for parity {value}: a parity is 0 or 1"
    elif raw.detail == 2:
        text = f"{place} initialises more mbarriers than the emulator has room for (4,096)"
    elif raw.detail == 3:
        text = f"{place} arrives at {name} of CTA {value} of the cluster, which has {plural(raw.values[1], 'CTA')}"
    else:
        text = f"{place} initialises {name} for {plural(value, 'arrival')}: give 1 to 1,048,575"
    return f"{text}; {who(raw, context)}."


def _arrivals(raw: RawReport, context: Context) -> str:
    expected, bytes_, phase = raw.values[:3]
    return (
        f"{context.at(raw.place)} arrives at {_barrier(raw, context)}, whose phase {phase} already has the "
        f"{plural(expected, 'arrival')} it was initialised for in line {raw.barrier_line} (the last by "
        f"{context.at(raw.other)}) and waits for {bytes_} bytes: wait for the phase's end before arriving again, or "
        f"initialise it for more; {who(raw, context)}."
    )


def _bytes(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} makes the bytes that {_barrier(raw, context)} waits for {raw.values[0]}: they must "
        f"stay below 1048576; announce with expect_tx what one phase's copies bring; {who(raw, context)}."
    )


def _unsynchronised(raw: RawReport, context: Context) -> str:
    if raw.values[0]:
        missing = "no fence_mbarrier_init() after it"
    elif raw.values[1]:
        missing = "no barrier of the cluster between"
    else:
        missing = "no barrier such as __syncthreads() between"
    return (
        f"{context.at(raw.place)} uses {_barrier(raw, context)}, which {context.at(raw.other)} initialises, with "
        f"{missing}; {who(raw, context)}, after {context.thread(raw.other.thread)}."
    )


def _scope(raw: RawReport, context: Context) -> str:
    fault = (
        "sends a number there: such a wait need not see it"
        if raw.detail
        else "arrives there: for such a wait nothing that the other CTA did before needs to be over, not even its reads"
    )
    return (
        f"{context.at(raw.place)} waits at {context.mbarrier(raw.barrier)} with the scope of its own CTA, and "
        f"{context.at(raw.other)} of {cta_name(raw.other_cta)} {fault}; use mbarrier_wait_cluster; "
        f"{who(raw, context)}, after {context.thread(raw.other.thread)} of the other."
    )


def _named_barrier(raw: RawReport, context: Context) -> str:
    number, threads, block, expected = raw.values[:4]
    place = f"{context.at(raw.place)} comes to named barrier {number}"
    if raw.detail == 0:
        text = f"{place}: the numbers are 0 to 15"
    elif raw.detail == 1:
        text = f"{place} with {plural(threads, 'thread')}: give a multiple of 32 of at most {block}, the CTA's threads"
    elif raw.detail == 2:
        text = (
            f"{place} with {threads} threads, and {context.at(raw.other)} came with {expected} "
            f"({context.thread(raw.other.thread)}): all must give the same count"
        )
    elif raw.detail == 3:
        text = f"{place} while others wait at __syncthreads(), which is barrier 0: take a number from 1 to 15"
    elif raw.detail == 5:
        text = (
            f"{place}, and nothing orders this after {context.at(raw.other)} came to it the time before "
            f"({context.thread(raw.other.thread)}): either may come first, and be counted for the other; give each "
            "group of warps a number of its own, or let them wait for each other"
        )
    else:
        text = (
            f"{context.at(raw.place)} comes to __syncthreads() while others wait at named barrier 0 of "
            f"{context.at(raw.other)}, which is the same barrier: take a number from 1 to 15 there"
        )
    return f"{text}; {who(raw, context)}."


def _cluster_barrier(raw: RawReport, context: Context) -> str:
    if raw.detail == 0:
        text = (
            f"{context.at(raw.place)} arrives at the cluster's barrier, where {context.at(raw.other)} has arrived "
            "and not waited: call barrier_cluster_wait() between"
        )
    else:
        text = (
            f"{context.at(raw.place)} waits at the cluster's barrier without having arrived: call "
            "barrier_cluster_arrive() first"
        )
    return f"{text}; {who(raw, context)}."


def _exited_cta(raw: RawReport, context: Context) -> str:
    to = cta_name(raw.other_cta)
    is_read = raw.detail >= 4
    fault = "has exited" if raw.detail in (0, 1, 4) else "may have exited by then"
    action = f"{'sends data for' if raw.detail == 1 else 'arrives at'} {context.mbarrier(raw.barrier)}"
    if is_read:
        action = "reads the shared memory"
    remedy = "let a barrier of the cluster be the last thing that its CTAs do"
    if raw.detail in (3, 6):
        remedy = (
            "a relaxed arrival at the barrier of the cluster orders no accesses before it, so let the last one be "
            "barrier_cluster_arrive()"
        )
    return f"{context.at(raw.place)} {action} of {to}, which {fault}: {remedy}; {who(raw, context)}."


def _exit_bytes(raw: RawReport, context: Context) -> str:
    bytes_, phase, pending, expected = raw.values[:4]
    announced = f" (last announced by line {context.line(raw.place)})" if context.line(raw.place) else ""
    return (
        f"{cta_name(raw.cta)} exits while {context.mbarrier(raw.barrier)} is in phase {phase} with "
        f"{_missing(pending, expected, bytes_)}{announced}: expect_tx must announce what the copies bring."
    )


def _exit_unwaited(raw: RawReport, context: Context) -> str:
    if raw.values[4]:
        return (
            f"{cta_name(raw.cta)} exits while what {context.at(raw.place)} sends is on its way into its shared "
            f"memory (issued by {context.thread(raw.other.thread)} of {cta_name(raw.other_cta)}): wait for it first."
        )
    announced = f", announced by {context.at(raw.place)}" if context.line(raw.place) else ""
    return (
        f"{cta_name(raw.cta)} exits, and no thread has waited for the last data of "
        f"{context.mbarrier(raw.barrier)} (phase {raw.values[1] - 1}{announced}): it may still have been on its way; "
        "wait for what is loaded, or do not load it."
    )


def _register_budget(raw: RawReport, context: Context) -> str:
    place, values = context.at(raw.place), raw.values
    if raw.detail == 1:
        text = f"{place} calls setmaxnreg in a kernel without __launch_bounds__: the registers at launch are unknown"
    elif raw.detail == 2:
        name, way = ("inc", "fewer") if values[2] else ("dec", "more")
        text = f"{place} calls setmaxnreg_{name}<{values[0]}>, which is {way} than the {values[1]} the thread has"
    elif raw.detail == 3:
        text = (
            f"{place} calls setmaxnreg for {values[0]} registers while other warps of the warpgroup call it for "
            f"{values[1]} ({context.at(raw.other)}): all must make the same call"
        )
    elif raw.detail == 4:
        text = (
            f"{place} calls setmaxnreg, and a thread of the same warpgroup exits without that call: all 128 must "
            "make it"
        )
    else:
        wanted, has, free = values[:3]
        text = (
            f"{place} waits for {wanted} registers a thread instead of {has}, {(wanted - has) * 128} for its "
            f"warpgroup, and only {free} of the CTA are free: the sum must stay within the registers at launch, "
            "and the others must call setmaxnreg_dec first"
        )
    return f"{text}; {who(raw, context)}."


def _proxy_fence(raw: RawReport, context: Context) -> str:
    actor = _ASYNC_ACTORS[raw.values[0]]
    return (
        f"{actor} of {context.at(raw.place)} {_VERBS[OPS[raw.op]]} what {context.at(raw.other)} wrote, with no "
        f"fence_proxy_async() between: {context.shared_place(raw.offset)}{owner(raw)}, written by "
        f"{earlier(raw, context)}; {who(raw, context)}."
    )


def load_barrier(raw: RawReport, context: Context) -> str:
    """The mbarrier that a load reports to, and what it must count for a wait there to be enough."""
    missing, is_under_way = raw.values[2:4]
    name = context.mbarrier(raw.barrier)
    if is_under_way and missing <= 0:
        return f"the load's mbarrier {name}, which expects no more bytes: let it expect the bytes of all boxes"
    return f"the load's mbarrier {name}, with the parity of this phase, and let it expect the bytes of all boxes"


_ASYNC_ACTORS = ("the TMA load", "wgmma", "the TMA store", "a thread", "the st_async")
_BRING = ("the TMA load", "the st_async")   # those that an mbarrier waits for


def _async_race(raw: RawReport, context: Context) -> str:
    actor = _ASYNC_ACTORS[raw.values[1]]
    first = f"{actor} of {context.at(raw.other)}"
    second = f"{_ASYNC_ACTORS[raw.values[0]]} of {context.at(raw.place)}"
    reason = "no barrier orders the two"
    if raw.barrier >= 0 and _ASYNC_ACTORS[raw.values[0]] in _BRING:
        reason += (
            f": let those who wait for {context.mbarrier(raw.barrier)} give the memory back before the next "
            f"{'load' if raw.values[0] == 0 else 'st_async'}"
        )
    elif raw.barrier >= 0 and raw.has_owner:
        reason += (
            f": let that CTA wait for its mbarrier {context.mbarrier(raw.barrier)}, and then a barrier of the cluster "
            "come (a relaxed arrival there orders nothing)"
        )
    elif raw.barrier >= 0 and actor == "the st_async":
        reason += f": wait for its mbarrier {context.mbarrier(raw.barrier)} with mbarrier_wait_cluster"
    elif raw.barrier >= 0:
        reason += f": wait for {load_barrier(raw, context)}"
    if actor == "wgmma":
        reason += ", for all warps of the warpgroup (wgmma_wait_group speaks only for the warp that waits)"
    return (
        f"{second} {_VERBS[OPS[raw.op]]} what {first} {_PAST[OPS[raw.other_op]]}, and {reason}; "
        f"{context.shared_place(raw.offset)}{owner(raw)}; {who(raw, context)}, after {earlier(raw, context)}."
    )


def _cluster_rank(raw: RawReport, context: Context) -> str:
    rank, count = raw.values[:2]
    action = "reads" if OPS[raw.op] == "load" else "writes to"
    return (
        f"{context.at(raw.place)} {action} the shared memory of CTA {rank} of the cluster, which has "
        f"{plural(count, 'CTA')}: their ranks count from 0; {who(raw, context)}."
    )


def _cluster_unwritten(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} reads {raw.bytes} bytes of {context.shared_place(raw.offset)}{owner(raw)}, to which "
        "nothing was written: who reads must name a place that the other CTA fills, and come after a barrier of the "
        f"cluster; {who(raw, context)}."
    )


def _early_access(raw: RawReport, context: Context) -> str:
    action = "reads" if OPS[raw.op] == "load" else "writes to"
    name = context.buffers[raw.buffer][0] if raw.buffer >= 0 else "a variable of the file"
    return (
        f"{context.at(raw.place)} {action} global memory ({name}) before its thread has "
        "waited for the launch before, which may still be at work there, since this is a dependent launch: let each "
        f"thread execute griddepcontrol_wait() first; {who(raw, context)}."
    )


SENTENCES: dict[str, Callable[[RawReport, Context], str]] = {
    "barrier_uninitialised": _uninitialised,
    "barrier_reinitialised": _reinitialised,
    "barrier_overwritten": _overwritten,
    "barrier_address": _address,
    "barrier_count": _count,
    "barrier_arrivals": _arrivals,
    "barrier_bytes": _bytes,
    "barrier_unsynchronised": _unsynchronised,
    "barrier_scope": _scope,
    "named_barrier": _named_barrier,
    "cluster_barrier": _cluster_barrier,
    "exited_cta": _exited_cta,
    "exit_bytes": _exit_bytes,
    "exit_unwaited": _exit_unwaited,
    "register_budget": _register_budget,
    "proxy_fence": _proxy_fence,
    "async_race": _async_race,
    "cluster_rank": _cluster_rank,
    "cluster_unwritten": _cluster_unwritten,
    "early_access": _early_access,
}
