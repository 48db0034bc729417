"""Swizzling: where a 16-byte chunk of a shared tile is kept, so that neither its rows nor its columns conflict.

A tile has rows of 32, 64 or 128 bytes. Its byte address, from a multiple of `period_bytes` on, tells the chunk within
the row from bit 4 on, and from bit 7 on the line of 128 bytes, which takes all 32 banks once. A swizzle adds bits of
the line to the bits of the chunk, without carry: an XOR.
Source of the three modes: PTX ISA, "Swizzling Modes" of tensor copies; the kernels use "128B" from rung 4 on.
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import require_integer, require_integers, require_known
from helpers.errors import ArgumentError
from helpers.models.machine import ROW_BYTES
from helpers.typed import typed

CHUNK_BYTES = 16
CHUNK_BIT = 4                                              # the lowest bit of an address that tells the chunk
LINE_BIT = 7                                               # the lowest bit that tells the line of 128 bytes
MODES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}         # mode -> bits that are added
MOST_ROWS = 1 << 14                                        # of a tile: all shared memory has fewer
PERIOD_ROWS = 8                                            # after which the pattern repeats, in every mode


@typed
@dataclass(frozen=True)
class Swizzle:
    """One of the modes that TMA knows: "128B" (that of rungs 4 to 10), "64B", "32B" or "none" (rows of 128 bytes).

    Raises ArgumentError for any other.
    """

    mode: str = "128B"

    def __post_init__(self) -> None:
        require_known("mode", self.mode, MODES)

    @property
    def bits(self) -> int:
        """Bits of the address that are changed, from bit 4 on; as many, from bit 7 on, are added to them."""
        return MODES[self.mode]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the tile."""
        return CHUNK_BYTES << self.bits if self.bits else ROW_BYTES

    @property
    def row_chunks(self) -> int:
        """Chunks of a row."""
        return self.row_bytes // CHUNK_BYTES

    @property
    def period_bytes(self) -> int:
        """After so many bytes the pattern repeats; the tile must begin at a multiple of it."""
        return PERIOD_ROWS * self.row_bytes

    @property
    def formula(self) -> str:
        """The XOR on an address, in words."""
        if not self.bits:
            return "every chunk stays"
        if self.bits == 1:
            return f"bit {CHUNK_BIT} ^= bit {LINE_BIT}"
        return f"bits {CHUNK_BIT}-{CHUNK_BIT + self.bits - 1} ^= bits {LINE_BIT}-{LINE_BIT + self.bits - 1}"

    def __call__(self, address):
        """Where the byte at `address` of the unswizzled tile is kept; an int or an integer array, idle lanes (-1) too.

        Called twice it gives the address back: the bits that are added do not change.
        """
        require_integers("address", address)
        mask = (1 << self.bits) - 1
        moved = address ^ (address >> LINE_BIT & mask) << CHUNK_BIT
        return np.where(np.asarray(address) < 0, address, moved) if isinstance(address, np.ndarray) else moved

    def place(self, row, chunk):
        """The place in its row at which a chunk is kept. row, chunk: ints or integer arrays."""
        require_integers("row", row)
        require_integers("chunk", chunk)
        return self(row * self.row_bytes + chunk * CHUNK_BYTES) % self.row_bytes // CHUNK_BYTES

    def lines(self, rows: int = PERIOD_ROWS) -> np.ndarray:
        """What lies in shared memory, line by line: row and chunk of each 16 bytes, int, shape (lines, 8, 2).

        rows: of the tile, a multiple of 8. Raises ArgumentError if it is not.
        """
        require_integer("rows", rows, PERIOD_ROWS, MOST_ROWS)
        if rows % PERIOD_ROWS:
            raise ArgumentError(f"rows is {rows}: it must be a multiple of {PERIOD_ROWS}, the pattern's length.")
        came_from = self(np.arange(0, rows * self.row_bytes, CHUNK_BYTES))   # its own inverse
        row, byte = np.divmod(came_from, self.row_bytes)
        return np.stack([row, byte // CHUNK_BYTES], axis=-1).reshape(-1, ROW_BYTES // CHUNK_BYTES, 2)
