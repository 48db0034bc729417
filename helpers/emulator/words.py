"""Puts the runtime's reports into words that name lines, threads and arguments."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from helpers.emulator.image import SharedArray
from helpers.emulator.protocol import OPS, REPORT_KINDS, SPACES, STATES, Place, RawReport, WarpState
from helpers.emulator.results import Report

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


@dataclass(frozen=True)
class Context:
    """What the sentences need of the launch.

    buffers: name and bytes of each pointer argument. arrays: the shared arrays.
    lines: source line of each offset of the code. block: threads along x, y, z. seconds: the launch's time limit.
    """

    entry: str
    buffers: Sequence[tuple[str, int]]
    arrays: Sequence[SharedArray]
    lines: Mapping[int, int]
    block: tuple[int, int, int]
    seconds: float

    def line(self, place: Place) -> int | None:
        """The line of a place, None if unknown."""
        return place.line or self.lines.get(place.code)

    def at(self, place: Place) -> str:
        """`line 12`, or a stand-in."""
        line = self.line(place)
        return f"line {line}" if line else "an unknown line"

    def thread(self, linear: int) -> str:
        """`thread (3,0,0), warp 0`."""
        x, y, _ = self.block
        return f"thread ({linear % x},{linear // x % y},{linear // (x * y)}), warp {linear // 32}"


def describe(reports: Sequence[tuple[RawReport, Sequence[WarpState]]], context: Context) -> list[Report]:
    """The reports in words. Those that differ only in the machine code become one."""
    merged: dict[tuple, Report] = {}
    for raw, states in reports:
        kind = REPORT_KINDS[raw.kind]
        report = Report(
            kind=_KIND_OF_REPORT.get(kind, kind),
            message=_capitalised(_SENTENCES[kind](raw, context)),
            line=context.line(raw.place),
            details=_table(states, context),
            count=raw.count,
        )
        lines = frozenset((report.line, context.line(raw.other)))   # in whichever order a race was met
        key = (report.kind, lines, raw.buffer)
        if key in merged:
            first = merged[key]
            report = Report(first.kind, first.message, first.line, first.details, first.count + report.count)
        merged[key] = report
    return list(merged.values())


def _capitalised(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def _cta(raw: RawReport) -> str:
    return "CTA ({},{},{})".format(*raw.cta)


def _who(raw: RawReport, context: Context) -> str:
    return f"{context.thread(raw.place.thread)}, of {_cta(raw)}"


def _past_or_before(offset: int, name: str, size: int) -> str:
    side = "before the start" if offset < 0 else "past the end"
    return f"{side} of {name}, at offset {offset} of {size} bytes"


def _out_of_bounds(raw: RawReport, context: Context) -> str:
    action = f"{_VERBS[OPS[raw.op]]} {raw.bytes} bytes" if raw.bytes else "reads or writes"
    if SPACES[raw.space] == "shared":
        where = _shared_place(raw, context)
    elif raw.buffer >= 0:
        where = _past_or_before(raw.offset, *context.buffers[raw.buffer])
    else:
        where = f"at address {raw.offset & (1 << 64) - 1:#x}, which is in no argument"
    return f"{context.at(raw.place)} {action} {where}: {_who(raw, context)}."


def _shared_place(raw: RawReport, context: Context) -> str:
    if raw.buffer < 0:
        return "of shared memory, of which the CTA has none"
    array = context.arrays[raw.buffer]
    return _past_or_before(raw.offset - array.begin, array.name, array.bytes)


def _misaligned(raw: RawReport, context: Context) -> str:
    return (
        f"{context.at(raw.place)} {_VERBS[OPS[raw.op]]} {raw.bytes} bytes at an address that is not a multiple of "
        f"{raw.bytes}: {_who(raw, context)}."
    )


def _race(raw: RawReport, context: Context) -> str:
    array = context.arrays[raw.buffer]
    one_warp = raw.place.thread // 32 == raw.other.thread // 32
    barrier = "__syncwarp() or __syncthreads()" if one_warp else "__syncthreads()"
    first, second = context.thread(raw.other.thread), context.thread(raw.place.thread)
    return (
        f"{context.at(raw.place)} {_VERBS[OPS[raw.op]]} what {context.at(raw.other)} {_PAST[OPS[raw.other_op]]}, "
        f"with no {barrier} between: {array.name} at byte {raw.offset - array.begin}, {second}, after {first}, "
        f"of {_cta(raw)}."
    )


def _deadlock(raw: RawReport, context: Context) -> str:
    return f"no thread of {_cta(raw)} can go on: all wait for lanes that do not come."


def _barrier_divergence(raw: RawReport, context: Context) -> str:
    if raw.other.thread >= 0:
        return (
            f"threads of {_cta(raw)} meet at different __syncthreads(), of {context.at(raw.other)} "
            f"({context.thread(raw.other.thread)}) and {context.at(raw.place)} ({context.thread(raw.place.thread)}): "
            "all threads of a CTA must come to the same one."
        )
    x, y, z = context.block
    return (
        f"{raw.detail} of {x * y * z} threads of {_cta(raw)} wait at the __syncthreads() of {context.at(raw.place)}, "
        "and the others do not come: all threads of a CTA must come to the same one."
    )


def _step_limit(raw: RawReport, context: Context) -> str:
    return (
        f"a thread has made {raw.offset:,} memory accesses and barriers and has not ended: the loop round "
        f"{context.at(raw.place)} may be infinite, or give a larger step_limit; {_who(raw, context)}."
    )


def _time_limit(raw: RawReport, context: Context) -> str:
    line = context.line(raw.place)
    loop = f"the loop round line {line}" if line else "a loop"
    return (
        f"{_cta(raw)} has not ended within {context.seconds:g} seconds: {loop} may be infinite, "
        "or give a larger time_limit."
    )


def _crash(raw: RawReport, context: Context) -> str:
    reason = _CRASH_REASONS.get(raw.detail, f"raises signal {raw.detail}")
    if raw.detail == signal.SIGSEGV:
        if raw.buffer >= 0:
            reason = f"writes to {context.buffers[raw.buffer][0]}, which is read-only"
        elif raw.offset:
            reason = f"reads or writes at address {raw.offset & (1 << 64) - 1:#x}, which is in no argument"
    return f"{context.at(raw.place)} {reason}: {_who(raw, context)}."


def _stack_overflow(raw: RawReport, context: Context) -> str:
    return f"{context.at(raw.place)} needs more than 64 KB for local variables: {_who(raw, context)}."


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
}


def _table(states: Sequence[WarpState], context: Context) -> tuple[str, ...]:
    """Where each warp is; neighbouring warps in the same state share a row."""
    rows: list[tuple[int, int, str]] = []   # first warp, last warp, words
    by_warp: dict[int, list[str]] = {}
    for state in states:
        by_warp.setdefault(state.warp, []).append(_state_words(state, context))
    for warp, parts in by_warp.items():
        words = "; ".join(parts)
        if rows and rows[-1][2] == words and rows[-1][1] == warp - 1:
            rows[-1] = (rows[-1][0], warp, words)
        else:
            rows.append((warp, warp, words))
    return tuple(f"  {f'warp {a}' if a == b else f'warps {a}-{b}'}: {words}" for a, b, words in rows)


def _state_words(state: WarpState, context: Context) -> str:
    lanes = state.lanes.bit_count()
    place = f", line {context.line(state.place)}" if context.line(state.place) else ""
    return f"{lanes} {'lane' if lanes == 1 else 'lanes'} {_STATE_WORDS[STATES[state.state]]}{place}"
