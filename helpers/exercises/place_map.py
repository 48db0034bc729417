"""The exercise kind for swizzles: a map (row, chunk) -> place in the row, judged by the bank model."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.exercises.kinds import Function
from helpers.models.banks import warp_wavefronts
from helpers.models.machine import WARP

CHUNK_BYTES, QUARTER_WARP = 16, 8


@dataclass(frozen=True, kw_only=True)
class PlaceMap(Function):
    """Asks for a map (row, chunk) -> place in the row that is one-to-one and free of conflicts by row and by column.

    rows, row_chunks: of the tile. groups: so many groups of eight neighbouring rows are read, chunk by chunk.
    """

    rows: int = 128
    row_chunks: int = 8
    groups: int = 1

    def _problem(self, answer: Any) -> str | None:
        if problem := self._not_a_map(answer):
            return problem
        places = np.array([[answer(row, chunk) for chunk in range(self.row_chunks)] for row in range(self.rows)])
        for row in range(self.rows):
            if sorted(places[row]) != list(range(self.row_chunks)):
                wanted = f"each place 0 to {self.row_chunks - 1} must be used once"
                return f"in row {row} the chunks go to {places[row].tolist()}: {wanted}."
        for first in range(0, QUARTER_WARP * self.groups, QUARTER_WARP):
            rows = np.arange(first, first + QUARTER_WARP)
            for chunk in range(self.row_chunks):
                addresses = np.full(WARP, -1)
                addresses[:QUARTER_WARP] = (rows * self.row_chunks + places[rows, chunk]) * CHUNK_BYTES
                count = warp_wavefronts(addresses, CHUNK_BYTES).count
                if count > 1:
                    lanes = f"eight lanes that read chunk {chunk} of rows {rows[0]} to {rows[-1]}"
                    return f"{lanes} still take {count} wavefronts; one is possible."
        return None

    def _not_a_map(self, answer: Any) -> str | None:
        """What the base class finds wrong with the answer as a function, apart from its values."""
        if not callable(answer):
            return super()._problem(answer)
        for row, chunk in ((0, 0), (5, 3 % self.row_chunks), (self.rows - 1, self.row_chunks - 1)):
            value = None
            try:
                value = answer(row, chunk)
            except Exception:   # the base class says what stopped it
                pass
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                return super()._problem(answer)
        return None
