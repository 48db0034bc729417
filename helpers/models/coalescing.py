"""How many 32-byte sectors one warp request of global memory touches.

Source: CUDA C++ Programming Guide, "Device Memory Accesses"; Nsight Compute, "Memory Tables" (sectors per request).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from helpers.checks import is_integer
from helpers.errors import ArgumentError
from helpers.models.machine import LINE_BYTES, SECTOR_BYTES, WARP
from helpers.typed import typed
from helpers.words import short

WIDTHS = (1, 2, 4, 8, 16)   # bytes that one lane can ask for in one instruction


@dataclass(frozen=True)
class Traffic:
    """Global-memory traffic of one warp request.

    sectors: 32-byte sectors touched. lines: 128-byte lines touched.
    bytes_used: bytes that the lanes asked for, each counted once.
    """

    sectors: int
    bytes_used: int
    lines: int

    @property
    def bytes_fetched(self) -> int:
        """Bytes that travel: whole sectors."""
        return self.sectors * SECTOR_BYTES

    @property
    def efficiency(self) -> float:
        """Bytes used over bytes fetched, 0 to 1."""
        return self.bytes_used / self.bytes_fetched


@typed
def lane_addresses(expression: Callable[[int], int | None], width: int = 2, base: int = 0) -> np.ndarray:
    """The byte addresses that a warp asks for, int64 of shape (32,).

    expression: gives the element index of a lane (0 to 31), or None for a lane that does not take part.
    width: bytes of an element. base: byte address of element 0. An idle lane gets the address -1.

        lane_addresses(lambda lane: row * K + k)         # all lanes read one element of A
        lane_addresses(lambda lane: k * N + lane)        # neighbours along a row of B
    """
    _check_width(width)
    indices = [expression(lane) for lane in range(WARP)]
    return np.array([-1 if index is None else base + int(index) * width for index in indices], dtype=np.int64)


@typed
def warp_traffic(addresses: np.ndarray, width: int = 2) -> Traffic:
    """Count what a warp's 32 byte addresses (int64, shape (32,)) of `width` bytes each cost.

    A negative address is a lane that does not take part. Raises ArgumentError (a ValueError) for another shape,
    an unknown width, or an address that is not a multiple of `width`: the hardware faults there.
    """
    touched = touched_bytes(addresses, width)
    return Traffic(
        sectors=len(np.unique(touched // SECTOR_BYTES)),
        bytes_used=len(touched),
        lines=len(np.unique(touched // LINE_BYTES)),
    )


def touched_bytes(addresses: np.ndarray, width: int) -> np.ndarray:
    """The addresses of the single bytes that the warp asks for, sorted, each once (int64). Errors as `warp_traffic`."""
    addresses = check_addresses(addresses, width)
    active = addresses[addresses >= 0]
    return np.unique(active[:, None] + np.arange(width))


def check_addresses(addresses: np.ndarray, width: int) -> np.ndarray:
    """`addresses` as int64 of shape (32,), each a multiple of `width` (or negative: idle). Raises ArgumentError."""
    _check_width(width)
    try:
        addresses = np.asarray(addresses)
    except ValueError:   # lists of unlike lengths
        addresses = np.empty(0)
    if addresses.shape != (WARP,) or addresses.dtype.kind not in "iu":
        raise ArgumentError(
            f"addresses has shape {addresses.shape} and dtype {addresses.dtype}: "
            f"give the byte addresses of the {WARP} lanes as integers of shape ({WARP},)."
        )
    addresses = addresses.astype(np.int64)
    crooked = np.flatnonzero((addresses >= 0) & (addresses % width != 0))
    if len(crooked):
        lane = int(crooked[0])
        raise ArgumentError(
            f"addresses[{lane}] is {addresses[lane]}: an access of {width} bytes must start at a multiple of {width}."
        )
    if (addresses < 0).all():
        raise ArgumentError("addresses has no active lane: give at least one address that is not negative.")
    return addresses


def _check_width(width: int) -> None:
    if not is_integer(width) or width not in WIDTHS:
        raise ArgumentError(f"width is {short(width)}: a lane asks for 1, 2, 4, 8 or 16 bytes.")
