"""What a persistent CTA does in which order: the report of rung 9's own kernel, run on the emulator.

    log = persistence_events(tiles=3, steps=5, seed=1)
    log.ordered_early(1)     # steps of tile 1 that were ordered before a consumer began to store tile 0

The kernel runs with a few lines more, which note each order of the producer, each step and each store of a consumer's
first warp. A plain counter orders the events, because the emulator runs the threads of a CTA in turn. The order is one
that the schedule allows; it has no times.
"""

from dataclasses import dataclass

from helpers.backends import EmulatorBackend, require_schedule
from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.pipeline import PRODUCER
from helpers.noting import NotingKernel
from helpers.rungs import find_rung
from helpers.variants import variant

RUNG = 9
KINDS = ("order", "step", "step done", "store", "store done")   # by number
_ORDER, _STEP, _STEP_DONE, _STORE, _STORE_DONE = range(len(KINDS))
_WARPS_BEFORE = 4   # the producer's, before those of the consumers
MOST_STEPS = 256    # of all tiles together

_NOTE = """// Notes an event of the CTA's tile number `tile`.
__device__ void note(int* events, int what, int tile, int step) {
    const int count = ++events[0];
    events[count] = threadIdx.x / 32 | what << 4 | tile << 8 | step << 16;
}

extern "C" __global__"""
_ARRIVE = "mbarrier_arrive_expect_tx(full, STAGE_BYTES);"
_FULL = "mbarrier_wait(&shared.full[place.stage], place.parity);"
_RELEASE = "if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);"
_STORES = "store_sums(sums, C, m0 + consumer * 64, n0, M, N);"


def _call(what: int, step: str = "step") -> str:
    return f"note(events, {what}, i / gridDim.x, {step});"


_FIRST = "if (thread == 0) "   # the first warp of a consumer stands for all four
EDITS = (
    ('extern "C" __global__', _NOTE),
    ("int tiles, int M, int N, int K) {", "int tiles, int M, int N, int K, int* events) {"),
    (_ARRIVE, f"{_call(_ORDER)} {_ARRIVE}"),
    (_FULL, f"{_FULL} {_FIRST}{_call(_STEP)}"),
    (_RELEASE, f"{_FIRST}{_call(_STEP_DONE)} {_RELEASE}"),
    (_STORES, f"{_FIRST}{_call(_STORE, '0')} {_STORES} {_FIRST}{_call(_STORE_DONE, '0')}"),
)


@dataclass(frozen=True)
class PersistenceEvent:
    """One event. what: one of KINDS. step: of the tile; 0 of a store."""

    who: str
    what: str
    tile: int
    step: int


@dataclass(frozen=True)
class PersistenceLog:
    """The events of a CTA in their order. totals: the emulator's."""

    tiles: int
    steps: int
    stages: int
    events: tuple[PersistenceEvent, ...]
    totals: dict[str, int]

    def index(self, who: str, what: str, tile: int, step: int = 0) -> int:
        """When something happened: its place among the events. Raises ArgumentError if it did not."""
        try:
            return self.events.index(PersistenceEvent(who, what, tile, step))
        except ValueError:
            raise ArgumentError(f"no event is {what!r} of {who} in tile {tile}, step {step}.") from None

    @property
    def consumers(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(sorted({event.who for event in self.events} - {PRODUCER}))

    def ordered_early(self, tile: int) -> int:
        """Steps of a tile that were ordered before the last consumer had stored the tile before it."""
        stored = max(self.index(who, "store done", tile - 1) for who in self.consumers)
        return sum(event.what == "order" and event.tile == tile for event in self.events[:stored])


def persistence_events(tiles: int = 3, steps: int = 5, schedule: str = "random", seed: int = 0) -> PersistenceLog:
    """Run rung 9 on one SM with so many tiles, each of so many steps along K, and bring what its warps noted.

    Raises ArgumentError for arguments that don't fit, and CourseError if the kernel was not right.
    """
    require_integer("tiles", tiles, 1)
    require_integer("steps", steps, 1)
    require_integer("seed", seed, 0)
    if tiles * steps > MOST_STEPS:
        raise ArgumentError(f"tiles x steps is {tiles * steps}: the log has room for {MOST_STEPS}.")
    require_schedule(schedule)
    rung = find_rung(RUNG)
    rows, columns, depth = rung.tile
    backend = EmulatorBackend(schedule=schedule, seed=seed, counters=False, sms=1)
    kernel = NotingKernel(rung, backend, variant(RUNG, *EDITS, name="persistence_events"), words=16 * MOST_STEPS)
    noted = kernel.note_product((tiles * rows, columns, steps * depth), seed)
    return PersistenceLog(tiles, steps, rung.stages, tuple(map(_event, noted)), dict(kernel.run.totals))


def _event(code: int) -> PersistenceEvent:
    warp, what, tile, step = code & 15, code >> 4 & 15, code >> 8 & 255, code >> 16
    who = PRODUCER if warp < _WARPS_BEFORE else f"consumer {warp // _WARPS_BEFORE}"
    return PersistenceEvent(who, KINDS[what], tile, step)
