"""Where TMA puts the elements of a box: which element of the matrix lies at each place of shared memory.

A box is laid down row after row, its 16-byte chunks permuted by the swizzle; what lies outside of the matrix comes as
zeros. The model knows boxes whose rows are as long as those of their swizzle, and boxes without one.
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import require_integer, require_kind
from helpers.errors import ArgumentError
from helpers.models.swizzle import Swizzle
from helpers.tensor_map import SPANS, UNIT, TensorMap
from helpers.typed import typed

OUTSIDE = -1   # the source of a zero
BF16_BYTES = 2
INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False)
class BoxPlacement:
    """One copy of a box from global to shared memory.

    map: of the matrix. x, y: column and row of the box's first element; they may lie outside of the matrix.
    sources: int64 of shape (box rows, box columns), in the order of shared memory: the index of the element that lies
    there among all elements of the matrix, row by row; OUTSIDE for a zero.
    """

    map: TensorMap
    x: int
    y: int
    sources: np.ndarray

    @property
    def bytes(self) -> int:
        """What a barrier must expect: those of the whole box."""
        return self.map.box_bytes

    @property
    def outside_bytes(self) -> int:
        """How many of them are zeros that were never read from global memory."""
        return int((self.sources == OUTSIDE).sum()) * BF16_BYTES

    @property
    def shared(self) -> np.ndarray:
        """What shared memory holds after the copy: bf16, of the same shape as `sources`."""
        matrix = np.ascontiguousarray(self.map.array).reshape(-1)
        return np.where(self.sources == OUTSIDE, np.zeros(1, matrix.dtype), matrix[self.sources])


@typed
def place_box(tensor_map: TensorMap, x: int, y: int) -> BoxPlacement:
    """Where the elements of the box whose first element is in column `x` and row `y` of the matrix go.

    Raises ArgumentError for an x at which no box can begin, and for a box that the model does not know.
    """
    require_kind("tensor_map", tensor_map, TensorMap, "make it with helpers.tensor_map.tensor_map")
    for name, value in (("x", x), ("y", y)):
        require_integer(name, value, -INT32_MAX - 1, INT32_MAX)   # coordinates are C ints
    unit = UNIT // BF16_BYTES
    if x % unit:
        begin = x // unit * unit
        raise ArgumentError(f"x is {x}: a box begins at a multiple of {unit} columns (16 bytes); give {begin}.")
    columns, rows = tensor_map.box
    row_bytes, span = columns * BF16_BYTES, SPANS[tensor_map.swizzle]
    if span and row_bytes != span:
        raise ArgumentError(
            f"box has rows of {row_bytes} bytes: with swizzle {tensor_map.swizzle!r} this model knows rows of {span} "
            f"bytes only; give {span // BF16_BYTES} columns."
        )
    places = np.arange(0, rows * row_bytes, BF16_BYTES, dtype=np.int64)
    offsets = Swizzle(tensor_map.swizzle)(places)   # there and back: an XOR is its own inverse
    row, column = y + offsets // row_bytes, x + offsets % row_bytes // BF16_BYTES
    width, height = tensor_map.shape
    inside = (0 <= row) & (row < height) & (0 <= column) & (column < width)
    sources = np.where(inside, row * width + column, OUTSIDE).reshape(rows, columns)
    return BoxPlacement(tensor_map, x, y, sources)
