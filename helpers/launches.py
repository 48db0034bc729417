"""What a call `kernel(A, B)` launches: grid, block, and the arguments in the order of the kernel's parameters.

    rungs 1-4    A, B, C, M, N, K
    rungs 5-7    A_map, B_map, C, M, N, K   (appendix_split_k too)
    rung 8       A_map, B_map, C, order, M, N, K
    rung 9       A_map, B_map, C, order, tiles, M, N, K
    rung 10      A_map, B_map, C_map, C, order, tiles, M, N, K
    appendix_fitted_tiles      A_map, B_map, C_map, order, tiles, M, N, K

All of it follows from the fields of the rung.
"""

from dataclasses import dataclass, replace
from typing import Any

from helpers.arrays import current_device, namespace
from helpers.errors import ArgumentError
from helpers.rungs import Box, Rung
from helpers.tensor_map import tensor_map
from helpers.tile_order import ORDERS, packed, tile_order


@dataclass(frozen=True)
class Launch:
    """One launch, as `Kernel.launch` takes it."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    shared_bytes: int


def in_order(rung: Rung, order: str) -> Rung:
    """The rung with its tiles in another order, by name. Raises ArgumentError if it is unknown, or takes no list."""
    if rung.order is None:
        raise ArgumentError(f"{rung.name} gets no list of tiles: take a rung from 8 on.")
    if order not in ORDERS:
        raise ArgumentError(f"order {order!r} is not known: give {', '.join(map(repr, ORDERS))}.")
    return replace(rung, order=order)


class TileOrders:
    """The packed tile orders of one kernel in the memory of its backend: each list is made and uploaded once."""

    def __init__(self, backend: str):
        self._backend = backend
        self._lists: dict[tuple, Any] = {}

    def get(self, order: str, m_tiles: int, n_tiles: int) -> Any:
        """The order of that name for so many tiles: an int32 array of m | n << 16."""
        key = (order, m_tiles, n_tiles, current_device(self._backend))
        if key not in self._lists:
            self._lists[key] = _uploaded(packed(tile_order(order, m_tiles, n_tiles)), self._backend)
        return self._lists[key]


def plan_launch(rung: Rung, A: Any, B: Any, C: Any, sms: int, orders: TileOrders) -> Launch:
    """The launch that makes C = A @ B on a GPU of so many SMs. A, B and C are checked already.

    The tensor maps are made anew: of these arrays, wherever they lie.
    """
    (m, k), n = A.shape, B.shape[1]
    boxes = (rung.maps.A, rung.maps.B, rung.maps.C)
    arguments = [_mapped(matrix, box) for matrix, box in zip((A, B, C), boxes, strict=True)]
    if rung.maps.C_pointer:
        arguments.append(C)
    if rung.order is not None:
        tiles = orders.get(rung.order, *rung.tiles(m, n))
        arguments += [tiles, tiles.size] if rung.persistent else [tiles]
    return Launch(rung.grid(m, n, sms), rung.block, (*arguments, m, n, k), rung.shared_bytes)


def _mapped(matrix: Any, box: Box | None) -> Any:
    if box is None:
        return matrix
    return tensor_map(matrix, (box.columns, box.rows), box.swizzle, box.l2_promotion)


def _uploaded(values: Any, backend: str) -> Any:
    if backend != "cuda":
        return values
    uploaded = namespace(backend).asarray(values)
    namespace(backend).cuda.get_current_stream().synchronize()   # later launches may be on other streams
    return uploaded
