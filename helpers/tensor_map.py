"""Tensor maps: what the TMA unit must know of a matrix in global memory to move boxes of it.

    A_map = tensor_map(A, box=(64, 128))          # 64 columns, 128 rows
    kernel.launch(grid, block, (A_map, B_map, C, m, n, k), shared_bytes)

The driver encodes one for the GPU; the emulator reads a plain record. The driver's rules are checked here, for both.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from helpers.arrays import BFLOAT16
from helpers.checks import require_known
from helpers.errors import ArgumentError, BackendError
from helpers.words import first_line, short

BYTES = 128
MAX_BOX = 256                   # elements along each dimension
MAX_ELEMENTS = 1 << 32          # along each dimension of the matrix
MAX_STRIDE = 1 << 40            # bytes
UNIT = 16                       # bytes: addresses, strides and rows of a box are multiples of it
# In the order of the driver's enumerations.
SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}   # swizzle -> bytes of a row of the box; 0: any
PROMOTIONS = ("none", "64B", "128B", "256B")

MAGIC = 0x544D4150   # "TMAP"
# What the emulator reads: the twin of helpers/emulator/runtime/tensor_map.h. The address is the launch's own copy's.
RECORD = np.dtype({
    "names": ["address", "magic", "rank", "element_bytes", "swizzle", "l2_promotion", "fill", "dims", "stride", "box"],
    "formats": ["<u8", "<u4", "<u4", "<u4", "<u4", "<u4", "<u4", ("<u8", 2), "<u8", ("<u4", 2)],
    "offsets": [0, 8, 12, 16, 20, 24, 28, 32, 48, 56],
    "itemsize": BYTES,
})
OPAQUE = np.dtype([("opaque", "<u8", BYTES // 8)])   # what the driver makes, passed by value


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A row-major bf16 matrix and the box of it that one copy moves. Make it with `tensor_map`.

    array: the matrix, which stays alive with its map. shape: elements (columns, rows), the innermost first.
    strides_bytes: from row to row. box: elements (columns, rows).
    swizzle: how 16-byte chunks are permuted in shared memory: "128B", "64B", "32B" or "none".
    l2_promotion: how much L2 fetches at once: "none", "64B", "128B" or "256B".
    Elements of a box beyond the matrix are read as 0 and not written.
    Raises ArgumentError, naming the rule, for a map that the driver would refuse.
    """

    array: Any
    shape: tuple[int, int]
    strides_bytes: tuple[int]
    box: tuple[int, int]
    swizzle: str = "128B"
    l2_promotion: str = "128B"

    def __post_init__(self) -> None:
        _check(self)

    @property
    def address(self) -> int:
        """Of the first element."""
        return _address(self.array)

    @property
    def nbytes(self) -> int:
        """From the first element to the end of the last row."""
        columns, rows = self.shape
        return (rows - 1) * self.strides_bytes[0] + columns * BFLOAT16.itemsize

    @property
    def box_bytes(self) -> int:
        """What one copy moves, also where the box reaches beyond the matrix: the bytes that a barrier expects."""
        return self.box[0] * self.box[1] * BFLOAT16.itemsize

    def encode(self) -> np.ndarray:
        """The 128 bytes that the GPU wants, as one structured value that CuPy passes to a kernel by value.

        Raises BackendError if the driver refuses it.
        """
        words = _encoded(self.address, self.shape, self.strides_bytes, self.box, self.swizzle, self.l2_promotion)
        value = np.zeros(1, OPAQUE)
        value["opaque"] = words
        return value

    def record(self) -> np.ndarray:
        """The 128 bytes that the emulator reads; without the address."""
        value = np.zeros(1, RECORD)
        value["magic"] = MAGIC
        value["rank"] = 2
        value["element_bytes"] = BFLOAT16.itemsize
        value["swizzle"] = list(SPANS).index(self.swizzle)
        value["l2_promotion"] = PROMOTIONS.index(self.l2_promotion)
        value["dims"] = self.shape
        value["stride"] = self.strides_bytes[0]
        value["box"] = self.box
        return value


def tensor_map(array: Any, box: tuple[int, int], swizzle: str = "128B", l2_promotion: str = "128B") -> TensorMap:
    """The map of a row-major bf16 matrix, NumPy's for the emulator or CuPy's for the GPU. box: (columns, rows).

    Raises ArgumentError, naming the rule, for a map that the driver would refuse.
    """
    _check_array(array)
    rows, columns = array.shape
    return TensorMap(array, (columns, rows), (_row_stride(array),), _pair(box), swizzle, l2_promotion)


def _check_array(array: Any) -> None:
    """Raises ArgumentError if an array is no bf16 matrix, or one whose rows have gaps between their columns."""
    if not hasattr(array, "strides") or getattr(array, "ndim", 0) != 2 or array.dtype != BFLOAT16:
        kind = f"not an array but of type {type(array).__name__}"
        if hasattr(array, "shape") and hasattr(array, "dtype"):
            kind = f"of dtype {array.dtype} and shape {tuple(array.shape)}"
        raise ArgumentError(
            f"array is {kind}: a tensor map here is of a bfloat16 matrix with 2 dimensions; give one such as "
            "random_matrix makes."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError("array is masked, and TMA knows no masks: pass array.filled(0).")
    if array.strides[1] != BFLOAT16.itemsize and array.shape[1] > 1:
        raise ArgumentError(
            f"array has {array.strides[1]} bytes from one column to the next: the innermost dimension of a tensor map "
            "has no gaps; pass a copy that is row-major."
        )


def _row_stride(array: Any) -> int:
    """Bytes from row to row. Where there is one row none is ever taken, and what stands there may suit no map."""
    rows, columns = array.shape
    return array.strides[0] if rows > 1 else -(-columns * BFLOAT16.itemsize // UNIT) * UNIT


def _pair(box: Any) -> tuple[int, int]:
    whole = isinstance(box, tuple | list) and len(box) == 2 and all(
        isinstance(size, int | np.integer) and not isinstance(size, bool) for size in box
    )
    if not whole:
        raise ArgumentError(f"box is {short(box)}: it must be two integers, (columns, rows).")
    return int(box[0]), int(box[1])


def _check(wanted: TensorMap) -> None:
    """The rules of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management") for such a map."""
    _check_array(wanted.array)
    _pair(wanted.box)
    own = (tuple(wanted.array.shape[::-1]), (_row_stride(wanted.array),))
    if (wanted.shape, wanted.strides_bytes) != own:
        raise ArgumentError(
            f"shape and strides_bytes are {short((wanted.shape, wanted.strides_bytes))}, but those of the array are "
            f"{own}: make the map with tensor_map."
        )
    for name, value, known in (("swizzle", wanted.swizzle, SPANS), ("l2_promotion", wanted.l2_promotion, PROMOTIONS)):
        require_known(name, value, known)
    for axis, size in zip(("columns", "rows"), wanted.shape, strict=True):
        if not 1 <= size <= MAX_ELEMENTS:
            raise ArgumentError(f"array has {size:,} {axis}: a tensor map has from 1 to 2^32 elements a dimension.")
    if wanted.address % UNIT:
        raise ArgumentError(
            f"array begins {wanted.address % UNIT} bytes past a multiple of {UNIT}: the address in a tensor map must "
            f"be a multiple of {UNIT}; pass array.copy(), which starts aligned memory."
        )
    (stride,) = wanted.strides_bytes
    if stride % UNIT:
        raise ArgumentError(
            f"array has {stride:,} bytes from row to row: strides in a tensor map must be multiples of {UNIT}; "
            f"pad the rows to a multiple of {UNIT // BFLOAT16.itemsize} columns."
        )
    if not 0 < stride < MAX_STRIDE:
        raise ArgumentError(
            f"array has {stride:,} bytes from row to row: strides in a tensor map are positive and less than 2^40; "
            "pass a copy, or the matrix in parts."
        )
    for axis, size in zip(("columns", "rows"), wanted.box, strict=True):
        if not 1 <= size <= MAX_BOX:
            remedy = "take several boxes" if size > MAX_BOX else "give a positive number"
            raise ArgumentError(f"box has {size:,} {axis}: a box has from 1 to {MAX_BOX} of them; {remedy}.")
    row_bytes, span = wanted.box[0] * BFLOAT16.itemsize, SPANS[wanted.swizzle]
    if row_bytes % UNIT:
        raise ArgumentError(
            f"box has rows of {row_bytes} bytes: the innermost dimension of a box must be a multiple of {UNIT} bytes; "
            f"give a multiple of {UNIT // BFLOAT16.itemsize} columns."
        )
    if span and row_bytes > span:
        raise ArgumentError(
            f"box has rows of {row_bytes} bytes: with swizzle {wanted.swizzle!r} the innermost dimension of a box has "
            f"at most {span} bytes; give at most {span // BFLOAT16.itemsize} columns, in several boxes."
        )


def _address(array: Any) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


@lru_cache(maxsize=1024)
def _encoded(
    address: int,
    shape: tuple[int, int],
    strides_bytes: tuple[int],
    box: tuple[int, int],
    swizzle: str,
    l2_promotion: str,
) -> tuple[int, ...]:
    """The driver's sixteen words. They depend on nothing else, so the same arguments need not ask the driver again."""
    from cuda.bindings import driver

    arguments = (
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        len(shape),
        address,
        [driver.cuuint64_t(size) for size in shape],
        [driver.cuuint64_t(stride) for stride in strides_bytes],
        [driver.cuuint32_t(size) for size in box],
        [driver.cuuint32_t(1) for _ in box],   # every element of the box
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(list(SPANS).index(swizzle)),
        driver.CUtensorMapL2promotion(PROMOTIONS.index(l2_promotion)),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,   # zeros
    )
    try:
        status, encoded = driver.cuTensorMapEncodeTiled(*arguments)
    except RuntimeError as error:   # cuda-bindings found no driver to call
        raise BackendError(
            f"A tensor map is encoded by the NVIDIA driver, and there is none ({first_line(error)}): "
            "give the map to a kernel on the emulator, which needs none."
        ) from None
    if status != driver.CUresult.CUDA_SUCCESS:
        raise BackendError(
            f"The driver refused the tensor map of a {shape[1]:,} x {shape[0]:,} matrix with boxes of {box[1]} x "
            f"{box[0]} ({status.name}): use a GPU of compute capability 9.0 or newer."
        )
    return tuple(int(word) for word in encoded.opaque)
