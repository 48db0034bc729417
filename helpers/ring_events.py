"""Who waits at which barrier of rung 7's ring, and in which order: the kernel's own report of a run on the emulator.

    log = ring_events(steps=5, stages=2, schedule="random", seed=1)
    log.events[0]     # the producer waits for empty[0] with parity 1

The kernel runs with a few lines more, which note each wait and each arrival as it happens. A plain counter orders the
events, because the emulator runs the threads of a CTA in turn. The order is one that the schedule allows; it has no
times.
"""

from dataclasses import dataclass

from helpers.backends import EmulatorBackend, require_schedule
from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.pipeline import PRODUCER
from helpers.noting import NotingKernel
from helpers.rungs import find_rung
from helpers.variants import variant

RUNG = 7
WAIT, PASS, ARRIVE = range(3)
KINDS = ("wait", "pass", "arrive")   # by number
WARPS_BEFORE = 4                     # the producer's, before those of the consumers
MOST_STEPS = 64

_NOTE = """// Notes an event: `what` of step `step` by a warp, at a stage, with the parity that it names.
__device__ void note(int* events, int warp, int what, int step, int stage, int parity) {
    const int count = ++events[0];
    events[count] = warp | what << 4 | parity << 6 | stage << 7 | step << 16;
}

extern "C" __global__"""
_EMPTY = "mbarrier_wait(&shared.empty[place.stage], place.parity ^ 1);"
_FULL = "mbarrier_wait(&shared.full[place.stage], place.parity);"
_RELEASE = "if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);"


def _call(what: int, parity: str) -> str:
    return f"note(events, threadIdx.x / 32, {what}, step, place.stage, {parity});"


_FIRST = "if (thread == 0) "   # the first warp of a consumer stands for all four where it waits
EDITS = (
    ('extern "C" __global__', _NOTE),
    ("       int M, int N, int K) {", "       int M, int N, int K, int* events) {"),
    (_EMPTY, f"{_call(WAIT, 'place.parity ^ 1')} {_EMPTY} {_call(PASS, 'place.parity ^ 1')}"),
    (_FULL, f"{_FIRST}{_call(WAIT, 'place.parity')} {_FULL} {_FIRST}{_call(PASS, 'place.parity')}"),
    (_RELEASE, f"{_RELEASE[:-1].replace('mbarrier', '{ mbarrier')}; {_call(ARRIVE, '0')} }}"),
)


@dataclass(frozen=True)
class RingEvent:
    """One event. what: "wait" (it begins), "pass" (it is over) or "arrive" (at `empty`). warp: of the CTA.

    parity: that the wait names; of an arrival 0.
    """

    who: str
    warp: int
    what: str
    barrier: str
    stage: int
    parity: int
    step: int


@dataclass(frozen=True)
class RingLog:
    """The events of a run in their order. totals: the emulator's."""

    steps: int
    stages: int
    schedule: str
    seed: int
    events: tuple[RingEvent, ...]
    totals: dict[str, int]

    def waits_of(self, who: str) -> list[tuple[str, int, int]]:
        """The barrier, the stage and the parity that somebody waits for, one after another."""
        return [(e.barrier, e.stage, e.parity) for e in self.events if e.who == who and e.what == "wait"]


def ring_events(steps: int = 5, stages: int = 2, schedule: str = "lazy", seed: int = 0) -> RingLog:
    """Run one tile of rung 7 with so many steps along K on the emulator, and bring what its warps noted.

    Raises ArgumentError for arguments that don't fit, and CourseError if the kernel was not right.
    """
    require_integer("steps", steps, 1)
    require_integer("stages", stages, 1)
    require_integer("seed", seed, 0)
    if steps > MOST_STEPS:
        raise ArgumentError(f"steps is {steps}: the log has room for {MOST_STEPS}.")
    require_schedule(schedule)
    rung = find_rung(RUNG)
    if stages > rung.stages:
        raise ArgumentError(f"stages is {stages}: the shared memory of {rung.name} has room for {rung.stages}.")
    rows, columns, depth = rung.tile
    backend = EmulatorBackend(schedule=schedule, seed=seed, counters=False)
    file = variant(RUNG, *EDITS, name="ring_events")
    kernel = NotingKernel(rung, backend, file, words=16 * MOST_STEPS, defines={"STAGES": stages})
    noted = kernel.note_product((rows, columns, steps * depth), seed)
    return RingLog(steps, stages, schedule, seed, tuple(map(_event, noted)), dict(kernel.run.totals))


def _event(code: int) -> RingEvent:
    warp, what, parity, stage, step = code & 15, code >> 4 & 3, code >> 6 & 1, code >> 7 & 511, code >> 16
    produces = warp < WARPS_BEFORE
    who = PRODUCER if produces else f"consumer {warp // WARPS_BEFORE}"
    barrier = "empty" if produces or what == ARRIVE else "full"
    return RingEvent(who, warp, KINDS[what], barrier, stage, parity, step)
