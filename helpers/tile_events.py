"""What rung 10's warpgroups do in which order, and where they store: the kernel's own report of a run on the emulator.

    log = tile_events(steps=5, tiles=2)
    log.actions("consumer 1")     # multiply step 0 of tile 0, ..., store quarter 0 of tile 0, ...
    log.addresses[0]              # the 128 bytes of the staging box that the threads give to the first stmatrix

The kernel runs with a few lines more, which note each load, multiplication and store of CTA 0. The order is that of
each warpgroup's own instructions; it has no times.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from helpers.backends import EmulatorBackend
from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.fragments import THREADS
from helpers.models.stmatrix import STORES
from helpers.models.swizzle import CHUNK_BYTES
from helpers.noting import NotingKernel
from helpers.rungs import find_rung
from helpers.typed import typed
from helpers.variants import variant

RUNG = 10
PRODUCER = "producer"
LOAD, MULTIPLY, STORE, ADDRESS = range(4)
KINDS = ("load", "multiply", "store")   # by number
MOST_STEPS, MOST_TILES = 32, 4
WORDS = 2048                            # enough for these

_NOTE = """// Notes an action of CTA 0: `value` is a step along K, or the quarter of a finished tile.
__device__ void note(int* events, int role, int kind, int tile, int value) {
    if (blockIdx.x == 0) events[++events[0]] = role | kind << 2 | tile << 4 | value << 8;
}

// Stores 64 columns"""
_NAMED = """#define store_block(...) noting_store_block(events, __VA_ARGS__)

extern "C" __global__"""
_STMATRIX = "        stmatrix_x4(box + place * 8,"
_FIRST_BOX = "if (consumer == 0 && finished.stores == 1)"
_ADDRESS = f"        {_FIRST_BOX} note(events, 1, {ADDRESS}, i, thread | place << 7);\n{_STMATRIX}"
_ISSUE = "        cp_async_bulk_tensor_store("
_EXPECT = "mbarrier_arrive_expect_tx(full, STAGE_BYTES);"
_MULTIPLY = "multiply(A, B, place.stage, sums, step > 0);"
EDITS = (
    ("// Stores 64 columns", _NOTE),
    ("store_block(Shared& shared,", "noting_store_block(int* events, Shared& shared,"),
    (_STMATRIX, _ADDRESS),
    (_ISSUE, f"        note(events, 1 + consumer, {STORE}, (finished.stores - 1) / BLOCKS, block);\n{_ISSUE}"),
    ('extern "C" __global__', _NAMED),
    ("int tiles,\n       int M, int N, int K) {", "int tiles,\n       int M, int N, int K, int* events) {"),
    (_EXPECT, f"note(events, 0, {LOAD}, i / clusters, k0 / BK);\n                    {_EXPECT}"),
    (
        _MULTIPLY,
        f"if (thread == 0) note(events, 1 + consumer, {MULTIPLY}, i / clusters, step);\n                {_MULTIPLY}",
    ),
)


@dataclass(frozen=True)
class Action:
    """One action. kind: "load", "multiply" or "store". tile: which of the CTA's tiles it is for, from 0 on.

    value: of a load the step along K, counted from K's beginning; of a multiplication the step, in the order in which
    the tile is computed; of a store the quarter of the tile.
    """

    who: str
    kind: str
    tile: int
    value: int


@dataclass(frozen=True)
class TileLog:
    """The actions of a run, and the bytes of its staging box that the first consumer's threads gave to stmatrix.

    addresses: of the first box, int, shape (4, 128): store, thread. totals: the emulator's.
    """

    steps: int
    tiles: int
    events: tuple[Action, ...]
    addresses: np.ndarray
    totals: Mapping[str, int]

    def actions(self, who: str) -> list[Action]:
        """What somebody does, in its own order."""
        return [event for event in self.events if event.who == who]


@typed
def tile_events(steps: int = 5, tiles: int = 2, defines: Mapping[str, int] | None = None) -> TileLog:
    """Run so many tiles of one cluster, each of so many steps along K, on the emulator, and bring what CTA 0 noted.

    Raises ArgumentError for arguments that don't fit, and CourseError if the kernel was not right.
    """
    for name, value, most in (("steps", steps, MOST_STEPS), ("tiles", tiles, MOST_TILES)):
        require_integer(name, value, 1)
        if value > most:
            raise ArgumentError(f"{name} is {value}: the log has room for {most}.")
    rung = find_rung(RUNG)
    rows, columns, depth = rung.tile
    backend = EmulatorBackend(counters=False, sms=rung.cluster)   # one cluster takes all tiles
    kernel = NotingKernel(rung, backend, variant(RUNG, *EDITS, name="tile_events"), WORDS, defines)
    noted = kernel.note_product((rows * rung.cluster, columns * tiles, steps * depth), seed=0)
    actions = tuple(_action(code) for code in noted if _kind(code) != ADDRESS)
    return TileLog(steps, tiles, actions, _addresses(noted), dict(kernel.run.totals))


def _kind(code: int) -> int:
    return code >> 2 & 3


def _action(code: int) -> Action:
    role, tile, value = code & 3, code >> 4 & 15, code >> 8
    return Action(PRODUCER if role == 0 else f"consumer {role}", KINDS[_kind(code)], tile, value)


def _addresses(noted: list[int]) -> np.ndarray:
    table = np.full((STORES, THREADS), -1, np.int64)
    for code in noted:
        if _kind(code) == ADDRESS:
            store, thread, chunk = code >> 4 & 15, code >> 8 & 127, code >> 15
            table[store, thread] = chunk * CHUNK_BYTES
    return table
