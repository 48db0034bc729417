"""Puts the runtime's reports into words that name lines, threads and arguments."""

import signal
from collections.abc import Sequence

from helpers.emulator import words_async, words_sync
from helpers.emulator.context import Context, capitalised, cta_name, earlier, owner, who
from helpers.emulator.protocol import OPS, REPORT_KINDS, SPACES, STATES, RawReport, WarpState
from helpers.emulator.results import Report
from helpers.words import plural

OWN_VARIABLE = 2   # a relaxed access's detail: it is near one
_VERBS = {"load": "reads", "store": "writes"}
_PAST = {"load": "read", "store": "wrote"}
_STATE_WORDS = {
    "not_started": "have not started",
    "running": "running",
    "exited": "have exited",
    "syncthreads": "wait at __syncthreads()",
    "syncwarp": "wait for other lanes of the warp",
}
_KIND_OF_REPORT = {"time_limit": "step_limit", "stack_overflow": "crash", "stray_write": "out_of_bounds"}


def describe(reports: Sequence[tuple[RawReport, Sequence[WarpState]]], context: Context) -> list[Report]:
    """The reports in words. Those that differ only in the machine code become one."""
    merged: dict[tuple, Report] = {}
    for raw, states in reports:
        kind = REPORT_KINDS[raw.kind]
        report = Report(
            kind=_KIND_OF_REPORT.get(kind, kind),
            message=capitalised(_SENTENCES[kind](raw, context)),
            line=context.line(raw.place),
            details=_table(states, context),
            count=raw.count,
        )
        lines = frozenset((report.line, context.line(raw.other)))   # in whichever order a race was met
        key = (report.kind, lines, raw.buffer, raw.barrier)
        if key in merged:
            first = merged[key]
            report = Report(first.kind, first.message, first.line, first.details, first.count + report.count)
        merged[key] = report
    return list(merged.values())


def _past_or_before(offset: int, name: str, size: int) -> str:
    side = "before the start" if offset < 0 else "past the end"
    return f"{side} of {name}, at offset {offset} of {size} bytes"


def _out_of_bounds(raw: RawReport, context: Context) -> str:
    action = f"{_VERBS[OPS[raw.op]]} {raw.bytes} bytes" if raw.bytes else "reads or writes"
    if SPACES[raw.space] == "shared":
        if raw.detail:
            return (
                f"{context.at(raw.place)} needs an address in the CTA's shared memory, and gets another: declare what "
                f"it names __shared__; {who(raw, context)}."
            )
        where = _shared_place(raw, context)
    elif raw.buffer >= 0:
        ranges = context.variables if raw.bytes and raw.detail == OWN_VARIABLE else context.buffers
        where = _past_or_before(raw.offset, *ranges[raw.buffer])
    elif raw.detail:
        return (
            f"{context.at(raw.place)} needs an address in global memory, and gets one of shared memory or of a local "
            f"variable: give it an argument's, or a __device__ variable's; {who(raw, context)}."
        )
    else:
        where = f"at address {raw.offset & (1 << 64) - 1:#x}, which is in no argument"
    return f"{context.at(raw.place)} {action} {where}: {who(raw, context)}."


def _shared_place(raw: RawReport, context: Context) -> str:
    if raw.buffer < 0:
        return "of shared memory, of which the CTA has none"
    array = context.arrays[raw.buffer]
    return _past_or_before(raw.offset - array.begin, array.name + owner(raw), array.bytes)


def _misaligned(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} {_VERBS[OPS[raw.op]]} {raw.bytes} bytes at an address that is not a multiple of "
        f"{raw.bytes}: {who(raw, context)}."
    )


def _race(raw: RawReport, context: Context) -> str:
    array = context.arrays[raw.buffer]
    one_warp = raw.place.thread // 32 == raw.other.thread // 32
    barrier = "__syncwarp() or __syncthreads()" if one_warp else "__syncthreads()"
    if context.mbarriers or context.has_clusters:
        barrier = "barrier"   # of whichever kind
    first, second = context.thread(raw.other.thread), context.thread(raw.place.thread)
    if raw.other_cta[:] != raw.cta[:]:
        return (
            f"{context.at(raw.place)} {_VERBS[OPS[raw.op]]} what {context.at(raw.other)} {_PAST[OPS[raw.other_op]]}, "
            f"with no barrier of the cluster between (a relaxed arrival there orders nothing): {array.name}"
            f"{owner(raw)} at byte {raw.offset - array.begin}, {who(raw, context)}, after {earlier(raw, context)}."
        )
    return (
        f"{context.at(raw.place)} {_VERBS[OPS[raw.op]]} what {context.at(raw.other)} {_PAST[OPS[raw.other_op]]}, "
        f"with no {barrier} between: {array.name} at byte {raw.offset - array.begin}, {second}, after {first}, "
        f"of {cta_name(raw.cta)}."
    )


def _deadlock(raw: RawReport, context: Context) -> str:
    if raw.values[7]:
        return words_sync.deadlock(raw, context)
    return f"no thread of {cta_name(raw.cta)} can go on: all wait for lanes that do not come."


def _barrier_divergence(raw: RawReport, context: Context) -> str:
    if raw.other.thread >= 0:
        return (
            f"threads of {cta_name(raw.cta)} meet at different __syncthreads(), of {context.at(raw.other)} "
            f"({context.thread(raw.other.thread)}) and {context.at(raw.place)} ({context.thread(raw.place.thread)}): "
            "all threads of a CTA must come to the same one."
        )
    x, y, z = context.block
    return (
        f"{raw.detail} of {x * y * z} threads of {cta_name(raw.cta)} wait at the __syncthreads() of "
        f"{context.at(raw.place)}, and the others do not come: all threads of a CTA must come to the same one."
    )


def _step_limit(raw: RawReport, context: Context) -> str:
    awaits = ""
    if raw.detail:
        awaits = (
            "or wait for a CTA of another cluster that does not run meanwhile (nor need it on a GPU that others "
            "share): let it end after some tries, "
        )
    return (
        f"a thread has made {raw.offset:,} memory accesses and barriers and has not ended: the loop round "
        f"{context.at(raw.place)} may be infinite, {awaits}or give a larger step_limit; {who(raw, context)}."
    )


def _time_limit(raw: RawReport, context: Context) -> str:
    line = context.line(raw.place)
    loop = f"the loop round line {line}" if line else "a loop"
    return (
        f"{cta_name(raw.cta)} has not ended within {context.seconds:g} seconds: {loop} may be infinite, "
        "or give a larger time_limit."
    )


def _crash(raw: RawReport, context: Context) -> str:
    reason = _CRASH_REASONS.get(raw.detail, f"raises signal {raw.detail}")
    if raw.detail == signal.SIGSEGV:
        if raw.buffer >= 0:
            reason = f"writes to {context.buffers[raw.buffer][0]}, which is read-only"
        elif raw.offset:
            reason = f"reads or writes at address {raw.offset & (1 << 64) - 1:#x}, which is in no argument"
    return f"{context.at(raw.place)} {reason}: {who(raw, context)}."


def _stack_overflow(raw: RawReport, context: Context) -> str:
    return f"{context.at(raw.place)} needs more than 64 KB for local variables: {who(raw, context)}."


def _stray_write(raw: RawReport, context: Context) -> str:
    where = _past_or_before(raw.offset, *context.buffers[raw.buffer])
    return f"some thread wrote {where}: compile with counters to see which."


_CRASH_REASONS = {
    signal.SIGSEGV: "reads or writes where there is no memory (a null or wild pointer), or 16 bytes misaligned",
    signal.SIGBUS: "reads or writes an address that has no memory",
    signal.SIGFPE: "divides an integer by zero",
    signal.SIGILL: "executes an illegal instruction",
    signal.SIGTRAP: "calls __trap()",
    signal.SIGABRT: "fails an assertion",
}

_SENTENCES = {
    "out_of_bounds": _out_of_bounds,
    "misaligned": _misaligned,
    "race": _race,
    "deadlock": _deadlock,
    "barrier_divergence": _barrier_divergence,
    "step_limit": _step_limit,
    "time_limit": _time_limit,
    "crash": _crash,
    "stack_overflow": _stack_overflow,
    "stray_write": _stray_write,
    **words_sync.SENTENCES,
    **words_async.SENTENCES,
}


def _table(states: Sequence[WarpState], context: Context) -> tuple[str, ...]:
    """Where each warp is; neighbouring warps in the same state share a row."""
    rows: list[tuple[str, int, int, str]] = []   # CTA, first warp, last warp, words
    by_warp: dict[tuple[str, int], list[str]] = {}
    for state in states:
        cta = f"{cta_name(state.cta)}, " if context.has_clusters else ""
        by_warp.setdefault((cta, state.warp), []).append(_state_words(state, context))
    for (cta, warp), parts in by_warp.items():
        words = "; ".join(parts)
        if rows and (rows[-1][0], rows[-1][2], rows[-1][3]) == (cta, warp - 1, words):
            rows[-1] = (cta, rows[-1][1], warp, words)
        else:
            rows.append((cta, warp, warp, words))
    return tuple(f"  {cta}{f'warp {a}' if a == b else f'warps {a}-{b}'}: {words}" for cta, a, b, words in rows)


def _state_words(state: WarpState, context: Context) -> str:
    lanes = plural(state.lanes.bit_count(), "lane")
    place = f", line {context.line(state.place)}" if context.line(state.place) else ""
    name = STATES[state.state]
    detailed = words_sync.STATE_WORDS.get(name) or words_async.STATE_WORDS.get(name)
    words = detailed(state, context) if detailed else _STATE_WORDS[name]
    verb, _, rest = words.partition(" ")
    if lanes == "1 lane":
        verb = {"wait": "waits", "have": "has"}.get(verb, verb)
    return f"{lanes} {verb} {rest}".rstrip() + place
