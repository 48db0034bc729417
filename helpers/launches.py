"""What a call `kernel(A, B)` launches: grid, block, and the arguments in the order of the kernel's parameters.

    rungs 1-4    A, B, C, M, N, K
    rungs 5-7    A_map, B_map, C, M, N, K   (appendix_split_k too)
    rung 8       A_map, B_map, C, order, M, N, K
    rung 9       A_map, B_map, C, order, tiles, M, N, K
    rung 10      A_map, B_map, C_map, C, order, tiles, M, N, K
    appendix_fitted_tiles      A_map, B_map, C_map, order, tiles, M, N, K
    appendix_partitions        A_map, B_map, C_map, order, tiles, partition_of, drawn, M, N, K

All of it follows from the fields of the rung.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers.arrays import current_device, namespace
from helpers.errors import ArgumentError
from helpers.rungs import Box, Rung
from helpers.tensor_map import tensor_map
from helpers.tile_order import ORDERS, packed, tile_order, upper_first

ZEROS = 1024        # that are uploaded at once
SM_NUMBERS = 1024   # more than any GPU has SMs


@dataclass(frozen=True)
class Launch:
    """One launch, as `Kernel.launch` takes it. kept: arrays of its own, which must live as long as it is launched."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared_bytes: int
    kept: tuple[Any, ...] = ()


def in_order(rung: Rung, order: str) -> Rung:
    """The rung with its tiles in another order, by name. Raises ArgumentError if it is unknown, or takes no list."""
    if rung.order is None:
        raise ArgumentError(f"{rung.name} gets no list of tiles: take a rung from 8 on.")
    if order not in ORDERS:
        raise ArgumentError(f"order {order!r} is not known: give {', '.join(map(repr, ORDERS))}.")
    return replace(rung, order=order)


class TileOrders:
    """The packed tile orders of one kernel in the memory of its backend: each list is made and uploaded once.

    And what else its launches find in memory: the partitions of the SMs, and zeros.
    """

    def __init__(self, backend: str):
        self._backend = backend
        self._lists: dict[tuple, Any] = {}
        self._zeros: dict[int, Iterator[Any]] = {}

    def get(self, order: str, m_tiles: int, n_tiles: int, round_tiles: int | None = None) -> Any:
        """The order of that name for so many tiles: an int32 array of m | n << 16.

        round_tiles: of a round; the upper rows of each then come first. None: as the order has them.
        """
        key = (order, m_tiles, n_tiles, round_tiles, current_device(self._backend))
        if key not in self._lists:
            tiles = tile_order(order, m_tiles, n_tiles)
            if round_tiles is not None:
                tiles = upper_first(tiles, round_tiles)
            self._lists[key] = _uploaded(packed(tiles), self._backend)
        return self._lists[key]

    def partition_of(self, ctas: int) -> Any:
        """The partition of L2 of each SM, int32. ctas: of the launch, which on the emulator lie on as many SMs at most.

        There it is 1 for every third pair of SMs: one side has more clusters, so that a counter that is not set back
        shows in the next launch.
        """
        from helpers.partitions import sm_partitions

        device, is_played = current_device(self._backend), self._backend != "cuda"
        key = ("partitions", ctas if is_played else None, device)
        if key not in self._lists:
            found = np.arange(ctas) // 2 % 3 == 1 if is_played else _padded(sm_partitions(device))
            self._lists[key] = _uploaded(np.array(found, np.int32), self._backend)
        return self._lists[key]

    def zero(self) -> Any:
        """An int32 array of one zero that no other launch gets."""
        device = current_device(self._backend)
        one = next(self._zeros.get(device, iter(())), None)
        if one is None:
            zeros = _uploaded(np.zeros((ZEROS, 1), np.int32), self._backend)
            self._zeros[device] = map(zeros.__getitem__, range(ZEROS))   # threads may ask at once: each gets another
            one = next(self._zeros[device])
        return one


def plan_launch(rung: Rung, A: Any, B: Any, C: Any, sms: int, orders: TileOrders) -> Launch:
    """The launch that makes C = A @ B on a GPU of so many SMs. A, B and C are checked already.

    The tensor maps are made anew: of these arrays, wherever they lie.
    """
    (m, k), n = A.shape, B.shape[1]
    boxes = (rung.maps.A, rung.maps.B, rung.maps.C)
    arguments = [_mapped(matrix, box) for matrix, box in zip((A, B, C), boxes, strict=True)]
    if rung.maps.C_pointer:
        arguments.append(C)
    grid = rung.grid(m, n, sms)
    if rung.order is not None:
        tiles = orders.get(rung.order, *rung.tiles(m, n), grid[0] // rung.cluster if rung.partitions else None)
        arguments += [tiles, tiles.size] if rung.persistent else [tiles]
    kept = []
    if rung.partitions:
        kept.append(orders.zero())
        arguments += [orders.partition_of(grid[0]), *kept]
    return Launch(grid, rung.block, (*arguments, m, n, k), rung.shared_bytes, tuple(kept))


def _mapped(matrix: Any, box: Box | None) -> Any:
    if box is None:
        return matrix
    return tensor_map(matrix, (box.columns, box.rows), box.swizzle, box.l2_promotion)


def _padded(partitions: Sequence[int]) -> list[int]:
    """With zeros behind: PTX does not promise that %smid is less than the number of SMs."""
    return [*partitions, *[0] * (SM_NUMBERS - len(partitions))]


def _uploaded(values: Any, backend: str) -> Any:
    if backend != "cuda":
        return values
    xp = namespace(backend)
    with xp.cuda.using_allocator(None):   # a pool would hand it on while a launch of another stream still reads it
        uploaded = xp.asarray(values)
    xp.cuda.get_current_stream().synchronize()   # later launches may be on other streams
    return uploaded
