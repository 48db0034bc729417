"""Which address each lane gives to stmatrix, as rung 10 stores its sums to the staging box.

stmatrix writes four matrices of 8 x 8 bf16: lanes 8 j to 8 j + 7 give the addresses of the eight rows of matrix j, 16
bytes each. In rung 10 a warp has 16 rows of the box; matrices 0 and 1 are its rows 0-7 and 8-15 of one chunk of eight
columns, matrices 2 and 3 those of the next chunk. Store i of four takes chunks 2 i and 2 i + 1.
Source: PTX ISA, "stmatrix"; the same map stands in kernels/10_clusters.cu, `store_block`.
"""

import numpy as np

from helpers.errors import ArgumentError
from helpers.models.fragments import THREADS, WARP_ROWS
from helpers.models.machine import WARP
from helpers.models.swizzle import CHUNK_BYTES, Swizzle
from helpers.typed import typed

STORES = 4            # of a warp for a box of 64 columns
MATRIX_ROWS = 8


def row_and_chunk(thread: int, store: int) -> tuple[int, int]:
    """The row (0 to 63) and the chunk (0 to 7) of the box whose 16 bytes a thread addresses. Raises ArgumentError."""
    for name, value, limit in (("thread", thread, THREADS), ("store", store, STORES)):
        if not 0 <= value < limit:
            raise ArgumentError(f"{name} is {value}: it must be 0 to {limit - 1}.")
    warp, lane = divmod(thread, WARP)
    return WARP_ROWS * warp + lane % WARP_ROWS, 2 * store + lane // WARP_ROWS


def stmatrix_address(thread: int, store: int, mode: str = "128B") -> int:
    """The byte of the box that a thread of the consumer gives to store `store`. mode: the swizzle, or "none"."""
    swizzle = Swizzle(mode)
    row, chunk = row_and_chunk(thread, store)
    return int(swizzle(row * swizzle.row_bytes + chunk * CHUNK_BYTES))


@typed
def stmatrix_addresses(store: int = 0, warp: int = 0, mode: str = "128B") -> np.ndarray:
    """The 32 addresses of a warp, int64."""
    return np.array([stmatrix_address(WARP * warp + lane, store, mode) for lane in range(WARP)])
