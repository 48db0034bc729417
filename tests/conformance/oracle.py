"""What the hardware should answer, computed in NumPy from the documentation; shares nothing with the emulator.

Addresses are offsets into a tile that begins at a multiple of 1024 bytes.
"""

import numpy as np

from helpers.arrays import BFLOAT16

FILLING = 0xA5     # of shared memory, before a copy
NUMBER_BYTES = 4   # of st_async


def swizzled(offsets: np.ndarray, swizzle: str) -> np.ndarray:
    """Where the byte at an offset lies: under 128B swizzle the 16-byte chunk (bits 4-6) is XORed with the row."""
    return offsets ^ ((offsets >> 7 & 7) << 4) if swizzle == "128B" else offsets


def box_of(matrix: np.ndarray, box: tuple[int, int], x: int, y: int) -> np.ndarray:
    """The 16-bit elements of a box (columns, rows) at (x, y); 0 beyond the matrix."""
    columns, rows = x + np.arange(box[0]), y + np.arange(box[1])
    inside = ((rows >= 0) & (rows < matrix.shape[0]))[:, None] & (columns >= 0) & (columns < matrix.shape[1])
    picked = matrix.view(np.uint16)[rows.clip(0, matrix.shape[0] - 1)][:, columns.clip(0, matrix.shape[1] - 1)]
    return np.where(inside, picked, np.uint16(0))


def filled_tile(size: int) -> np.ndarray:
    return np.full(size, FILLING, np.uint8)


def box_places(box: tuple[int, int], swizzle: str, offset: int = 0) -> np.ndarray:
    """Where the bytes (rows, bytes of a row) of a box (columns, rows) lie in a tile.

    Rows lie one behind the other; under a swizzle each has 128 bytes, also if it is shorter.
    """
    pitch = 128 if swizzle == "128B" else 2 * box[0]
    return swizzled(offset + pitch * np.arange(box[1])[:, None] + np.arange(2 * box[0]), swizzle)


def put_box(tile: np.ndarray, elements: np.ndarray, swizzle: str, offset: int = 0) -> None:
    """Lay the 16-bit elements of a box into a tile."""
    rows, columns = elements.shape
    tile[box_places((columns, rows), swizzle, offset)] = np.ascontiguousarray(elements).view(np.uint8)


def take_box(tile: np.ndarray, box: tuple[int, int], swizzle: str, offset: int = 0) -> np.ndarray:
    """The 16-bit elements of a box that lies in a tile."""
    return tile[box_places(box, swizzle, offset)].view(np.uint16)


def write_box(
    array: np.ndarray, elements: np.ndarray, x: int, y: int, shape: tuple[int, int] | None = None
) -> None:
    """Write a box's elements at (x, y) into the matrix (rows, columns) at the beginning of an array, all of it if None.

    Clipped in units of 8 elements (16 bytes): where the matrix ends amid one, the array gets all of it.
    """
    rows, columns = shape or array.shape
    end, target = -(-columns // 8) * 8, array.view(np.uint16)
    for row in range(elements.shape[0]):
        for column in range(elements.shape[1]):
            if 0 <= y + row < rows and 0 <= x + column < end:
                target[y + row, x + column] = elements[row, column]


def operand(
    image: np.ndarray, extent: int, major: str, leading: int, stride: int, swizzle: str, start: int = 0
) -> np.ndarray:
    """A wgmma operand (extent, 16), fp32, that lies in an image where a descriptor says.

    Source: PTX ISA, "Matrix descriptor" and "Strides"; CUTLASS, mma_traits_sm90_gmma.hpp. major: "K" or "MN".
    """
    mn, k = np.arange(extent)[:, None], np.arange(16)[None, :]
    if major == "K":   # 8 rows of a 16-byte (128-byte) row each, `stride` from one group of 8 to the next
        row_bytes, next_chunk = (128, 16) if swizzle == "128B" else (16, leading)
        offsets = mn // 8 * stride + mn % 8 * row_bytes + k // 8 * next_chunk + k % 8 * 2
    elif swizzle == "128B":   # 64 values along M or N, then the next k; `stride` after 8 k, `leading` to the next 64
        offsets = mn // 64 * leading + mn % 64 * 2 + k // 8 * stride + k % 8 * 128
    else:   # 8 values along M or N, then the next k; `leading` after 8 k, `stride` to the next 8 values
        offsets = mn // 8 * stride + mn % 8 * 2 + k // 8 * leading + k % 8 * 16
    low = swizzled(start + offsets, swizzle)
    bits = image[low].astype(np.uint16) | image[low + 1].astype(np.uint16) << 8
    return bits.view(BFLOAT16).astype(np.float32)


def fragments(d: np.ndarray) -> np.ndarray:
    """The accumulators (128, N / 2) of a tile (64, N), by thread and register.

    Source: PTX ISA, "Register fragments for wgmma", figure of D: warp w has rows 16 w to 16 w + 15.
    """
    thread, register = np.arange(128)[:, None], np.arange(d.shape[1] // 2)[None, :]
    rows = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    columns = register // 4 * 8 + thread % 4 * 2 + register % 2
    return d[rows, columns]


def stored_matrices(offsets: np.ndarray, size: int) -> np.ndarray:
    """Shared memory after stmatrix.x4: lane l's register r has the numbers 8 l + 2 r and one more.

    Lane 8 m + i gives the address of row i of matrix m, which is register m of lanes 4 i to 4 i + 3.
    """
    tile = filled_tile(size)
    for lane in range(32):
        matrix, row = divmod(lane, 8)
        values = [8 * (4 * row + part) + 2 * matrix + half for part in range(4) for half in range(2)]
        tile[offsets[lane]:offsets[lane] + 16] = np.array(values, np.uint16).view(np.uint8)
    return tile


def two_transposed(offsets: np.ndarray, size: int) -> np.ndarray:
    """Shared memory after stmatrix.x2.trans with the same numbers in registers 0 and 1.

    Column c of matrix m is register m of lanes 4 c to 4 c + 3, two rows in each; lanes from 16 on give no address.
    """
    tile = filled_tile(size)
    for lane in range(16):
        matrix, row = divmod(lane, 8)
        values = [8 * (4 * column + row // 2) + 2 * matrix + row % 2 for column in range(8)]
        tile[offsets[lane]:offsets[lane] + 16] = np.array(values, np.uint16).view(np.uint8)
    return tile


def answers(script: list[tuple[int, str, int]], box_bytes: int) -> np.ndarray:
    """What two CTAs' barriers answer to a script (see kernels/mbarrier.cu), copies landing at once."""

    class Barrier:
        def __init__(self, count: int):
            self.count = self.pending = count
            self.bytes = self.phase = 0

        def change(self, arrivals: int = 0, expected: int = 0, landed: int = 0) -> None:
            self.bytes += expected - landed
            self.pending -= arrivals
            assert self.pending >= 0, "the script arrives too often"
            if self.pending == 0 and self.bytes == 0:
                self.pending, self.phase = self.count, self.phase + 1

        def is_over(self, parity: int) -> bool:
            return self.phase % 2 != parity

    barriers: list[Barrier] = [Barrier(1), Barrier(1)]
    told = np.full((len(script), 2), -1, np.int32)
    for step, (ranks, operation, number_) in enumerate(script):
        for rank in (rank for rank in range(2) if ranks >> rank & 1):
            own = barriers[rank]
            match operation:
                case "INIT":
                    barriers[rank] = Barrier(number_)
                case "ARRIVE" | "ARRIVE_THREADS":
                    own.change(arrivals=1 if operation == "ARRIVE" else number_)
                case "EXPECT" | "ARRIVE_EXPECT":
                    own.change(arrivals=int(operation == "ARRIVE_EXPECT"), expected=number_)
                case "TRY":
                    told[step, rank] = own.is_over(number_)
                case "WAIT" | "WAIT_CLUSTER":
                    assert own.is_over(number_), f"step {step} waits for ever"
                case "ARRIVE_AT" | "RELEASE_AT":
                    barriers[number_].change(arrivals=1)
                case "LOAD":
                    own.change(landed=box_bytes)
                case "SEND":
                    barriers[number_].change(landed=NUMBER_BYTES)
                case "LOAD_MULTICAST":
                    for cta in (cta for cta in range(2) if number_ >> cta & 1):
                        barriers[cta].change(landed=box_bytes)
                case _:
                    assert operation == "INVALIDATE", operation
    return told

