"""Which thread of a warpgroup holds which element of wgmma's result, and in which register.

The result of m64nNk16 has 64 rows. Warp w has rows 16 w to 16 w + 15; within them it goes by blocks of 8 columns. Of
each block a lane holds two neighbours in row `lane / 4` and the two in the row eight below.
Source: PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", accumulator D.
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.machine import WARP
from helpers.typed import typed

ROWS = 64           # of a warpgroup's result
WARP_ROWS = 16
BLOCK = 8           # columns
THREADS = 128       # of a warpgroup
MOST_COLUMNS = 256   # of the widest wgmma


@dataclass(frozen=True)
class Owner:
    """Who holds an element: thread 0 to 127 of the warpgroup, and the index in its array of sums."""

    thread: int
    register: int

    def __str__(self) -> str:
        warp, lane = divmod(self.thread, WARP)
        return f"thread {self.thread} (lane {lane} of warp {warp}), sums[{self.register}]"


def owner(row: int, column: int) -> Owner:
    """Who holds the element in a row (0 to 63) and a column. Raises ArgumentError outside of the tile."""
    require_integer("row", row)
    require_integer("column", column)
    if not 0 <= row < ROWS:
        raise ArgumentError(f"row is {row}: a warpgroup's result has rows 0 to {ROWS - 1}.")
    if column < 0:
        raise ArgumentError(f"column is {column}: it must be 0 or more.")
    warp, row_of_warp = divmod(row, WARP_ROWS)
    half, row_of_half = divmod(row_of_warp, 8)
    block, column_of_block = divmod(column, BLOCK)
    pair, which = divmod(column_of_block, 2)
    return Owner(warp * WARP + row_of_half * 4 + pair, 4 * block + 2 * half + which)


def element(thread: int, register: int) -> tuple[int, int]:
    """Row and column of what a thread holds in `sums[register]`. Raises ArgumentError for no thread of a warpgroup."""
    require_integer("thread", thread)
    require_integer("register", register)
    if not 0 <= thread < THREADS:
        raise ArgumentError(f"thread is {thread}: a warpgroup has threads 0 to {THREADS - 1}.")
    if register < 0:
        raise ArgumentError(f"register is {register}: it must be 0 or more.")
    warp, lane = divmod(thread, WARP)
    block, rest = divmod(register, 4)
    half, which = divmod(rest, 2)
    return WARP_ROWS * warp + lane // 4 + 8 * half, BLOCK * block + lane % 4 * 2 + which


@typed
def owners(columns: int = 128) -> np.ndarray:
    """The thread that holds each element, int, shape (64, columns). columns: N of the wgmma, up to 256."""
    require_integer("columns", columns, BLOCK, MOST_COLUMNS)
    if columns % BLOCK:
        raise ArgumentError(f"columns is {columns}: it must be a multiple of {BLOCK}.")
    table = np.full((ROWS, columns), -1)
    for thread in range(THREADS):
        for register in range(columns // 2):
            table[element(thread, register)] = thread
    return table
