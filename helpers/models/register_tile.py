"""Who owns which element of C's tile, and which shared-memory bytes a warp reads for it: the lane map of rung 3.

A CTA's tile is split among warps, a warp's tile among lanes. Lanes lie 8 along M and 4 along N. A thread's rows are
every eighth one from `lane % 8` on, its columns whole chunks of eight neighbours: chunk `lane / 8`, then every fourth.
Shared tiles are rows of 128 bytes, eight chunks of 16 bytes each.
"""

from dataclasses import dataclass

import numpy as np

from helpers.errors import ArgumentError
from helpers.models.machine import ROW_BYTES, WARP
from helpers.typed import typed

CHUNK = 8            # bf16 in one 128-bit load
CHUNK_BYTES = 16
BOX_COLUMNS = 64     # bf16 in a row of 128 bytes
LANES_M = 8          # lanes of a warp along M
LANES_N = WARP // LANES_M


@typed
@dataclass(frozen=True)
class RegisterTile:
    """The tiles of one CTA. Defaults: rung 3.

    cta_m, cta_n, cta_k: C's tile and the depth of a step. warps_m, warps_n: warps along M and N.
    A thread owns thread_m x thread_n elements of C. Raises ArgumentError if the warps don't divide the tile.
    """

    cta_m: int = 128
    cta_n: int = 256
    cta_k: int = 64
    warps_m: int = 2
    warps_n: int = 4

    def __post_init__(self) -> None:
        for axis, size, unit in (("m", self.cta_m, self.warps_m * LANES_M), ("n", self.cta_n, self.warps_n * LANES_N)):
            if size % unit:
                raise ArgumentError(f"cta_{axis} is {size}: with these warps it must be a multiple of {unit}.")
        if self.thread_n % CHUNK:
            raise ArgumentError(
                f"a thread would own {self.thread_n} columns: give warps_n that makes it a multiple of 8."
            )

    @property
    def threads(self) -> int:
        """Threads of the CTA."""
        return self.warps_m * self.warps_n * WARP

    @property
    def warp_m(self) -> int:
        """Rows of a warp's tile."""
        return self.cta_m // self.warps_m

    @property
    def warp_n(self) -> int:
        """Columns of a warp's tile."""
        return self.cta_n // self.warps_n

    @property
    def thread_m(self) -> int:
        """Rows that a thread owns."""
        return self.warp_m // LANES_M

    @property
    def thread_n(self) -> int:
        """Columns that a thread owns."""
        return self.warp_n // LANES_N

    def warp_origin(self, warp: int) -> tuple[int, int]:
        """First row and first column of a warp's tile within the CTA's."""
        return warp // self.warps_n * self.warp_m, warp % self.warps_n * self.warp_n

    def rows(self, warp: int, lane: int) -> np.ndarray:
        """The rows of C's tile that a thread owns, int, shape (thread_m,)."""
        return self.warp_origin(warp)[0] + lane % LANES_M + LANES_M * np.arange(self.thread_m)

    def columns(self, warp: int, lane: int) -> np.ndarray:
        """The columns of C's tile that a thread owns, int, shape (thread_n,)."""
        chunks = lane // LANES_M + LANES_N * np.arange(self.thread_n // CHUNK)
        return self.warp_origin(warp)[1] + (chunks[:, None] * CHUNK + np.arange(CHUNK)).ravel()

    def owners(self) -> np.ndarray:
        """The thread that owns each element of C's tile, int, shape (cta_m, cta_n)."""
        owners = np.full((self.cta_m, self.cta_n), -1)
        for thread in range(self.threads):
            warp, lane = divmod(thread, WARP)
            owners[np.ix_(self.rows(warp, lane), self.columns(warp, lane))] = thread
        return owners

    def a_addresses(self, warp: int = 0, i: int = 0, chunk: int = 0, swizzle: bool = False) -> np.ndarray:
        """Byte addresses of a warp's 128-bit reads of A: row `i` of each thread, 16-byte chunk `chunk` of the row.

        swizzle: chunk XOR row % 8 instead (rung 4). int64, shape (32,).
        """
        rows = np.array([self.rows(warp, lane)[i] for lane in range(WARP)])
        return _chunk_address(rows, np.full(WARP, chunk), swizzle)

    def b_addresses(self, warp: int = 0, k: int = 0, chunk: int = 0, swizzle: bool = False) -> np.ndarray:
        """Byte addresses of a warp's 128-bit reads of B: row `k` of the step, chunk `chunk` of the thread's columns.

        B's tile is boxes of 64 columns, cta_k rows of 128 bytes each, one after another. int64, shape (32,).
        """
        columns = np.array([self.columns(warp, lane)[chunk * CHUNK] for lane in range(WARP)])
        box, column = np.divmod(columns, BOX_COLUMNS)
        return box * (self.cta_k * ROW_BYTES) + _chunk_address(np.full(WARP, k), column // CHUNK, swizzle)


def _chunk_address(rows: np.ndarray, chunks: np.ndarray, swizzle: bool) -> np.ndarray:
    """Byte address of a 16-byte chunk in a shared tile of 128-byte rows, int64."""
    places = chunks ^ rows % 8 if swizzle else chunks
    return (rows * ROW_BYTES + places * CHUNK_BYTES).astype(np.int64)
