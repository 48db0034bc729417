"""The exercise kind for swizzles: a map (row, chunk) -> place in the row, judged by the bank model."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.checks import is_integer
from helpers.exercises.kinds import Written, Wrong
from helpers.models.banks import warp_wavefronts
from helpers.models.machine import WARP
from helpers.words import short

CHUNK_BYTES, QUARTER_WARP = 16, 8


@dataclass(frozen=True, kw_only=True)
class PlaceMap(Written):
    """Asks for a map (row, chunk) -> place in the row that is one-to-one and free of conflicts by row and by column.

    rows, row_chunks: of the tile. groups: so many groups of eight neighbouring rows are read, chunk by chunk.
    """

    names: tuple[str, ...] = ("row", "chunk")
    rows: int = 128
    row_chunks: int = 8
    groups: int = 1

    def _problem(self, answer: Any) -> str | None:
        chunks = range(self.row_chunks)
        places = np.array([[self._place(answer, row, chunk) for chunk in chunks] for row in range(self.rows)])
        for row in range(self.rows):
            if sorted(places[row]) != list(chunks):
                wanted = f"each place 0 to {self.row_chunks - 1} must be used once"
                return f"in row {row} the chunks go to {places[row].tolist()}: {wanted}."
        for first in range(0, QUARTER_WARP * self.groups, QUARTER_WARP):
            rows = np.arange(first, first + QUARTER_WARP)
            for chunk in chunks:
                addresses = np.full(WARP, -1)
                addresses[:QUARTER_WARP] = (rows * self.row_chunks + places[rows, chunk]) * CHUNK_BYTES
                count = warp_wavefronts(addresses, CHUNK_BYTES).count
                if count > 1:
                    lanes = f"eight lanes that read chunk {chunk} of rows {rows[0]} to {rows[-1]}"
                    return f"{lanes} still take {count} wavefronts; one is possible."
        return None

    def _place(self, answer: Any, row: int, chunk: int) -> int:
        place = self.value(answer, row, chunk)
        if not is_integer(place) or not 0 <= place < self.row_chunks:
            wanted = f"a place in the row is a whole number, 0 to {self.row_chunks - 1}"
            raise Wrong(f"{self.where(row, chunk)} gives {short(place)}; {wanted}.")
        return int(place)
