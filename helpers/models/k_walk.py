"""What it saves to walk K backwards on every second tile: L2 as a cache, played piece by piece.

`helpers.models.l2` says what the order of tiles costs, with every tile walking K forwards. Here the same cache (least
recently used, all CTAs of a wave at the same step) is played access by access, in either direction. Rung 10 keeps its
clusters nearly at the same step, and with half an L2 the model reads from HBM what Nsight Compute counted (a test
compares them); with -DPACE=0 they drift apart, which the model leaves out.
"""

from collections import OrderedDict

import numpy as np

from helpers.errors import ArgumentError
from helpers.models.l2 import wave_tiles
from helpers.models.machine import H200
from helpers.rungs import BF16_BYTES, find_rung
from helpers.typed import typed
from helpers.words import short

MOST_STEPS = 1 << 23   # of all tiles
_ROWS, _COLUMNS, _DEPTH = find_rung("10_clusters").tile
CLUSTER_TILE = (2 * _ROWS, _COLUMNS, _DEPTH)


@typed
def hbm_read(
    tiles: np.ndarray,
    k: int,
    backwards: bool,
    clusters: int = 64,
    l2_bytes: float = H200.l2_bytes,
    tile: tuple[int, int, int] = CLUSTER_TILE,
) -> int:
    """Bytes of A and B that come from HBM if whole tiles are computed in this order, so many clusters at a time.

    tiles: (m, n) of each cluster's tile, integers (tiles, 2). k: of the product. backwards: every second wave begins at
    the end of K. The stores of C pass through L2, too.
    """
    rows, columns, depth = tile
    steps = -(-k // depth)
    if len(tiles) * steps > MOST_STEPS:
        raise ArgumentError(
            f"k is {short(k)}: that is {len(tiles):,} tiles of {short(steps)} steps each, and the model of L2 plays "
            f"{MOST_STEPS:,} steps at most; give a smaller product."
        )
    sizes = {"A": rows * depth * BF16_BYTES, "B": columns * depth * BF16_BYTES, "C": rows * columns * BF16_BYTES}
    held: OrderedDict[tuple, int] = OrderedDict()
    used, fetched = 0, 0
    for number, wave in enumerate(wave_tiles(tiles, clusters)):
        strips = [("A", m) for m in np.unique(wave[:, 0]).tolist()] + [("B", n) for n in np.unique(wave[:, 1]).tolist()]
        walk = range(steps - 1, -1, -1) if backwards and number % 2 else range(steps)
        pieces = [(*strip, step) for step in walk for strip in strips]
        for piece in pieces + [("C", m, n) for m, n in wave.tolist()]:
            if piece in held:
                held.move_to_end(piece)
                continue
            held[piece] = sizes[piece[0]]
            used += held[piece]
            fetched += held[piece] if piece[0] != "C" else 0
            while used > l2_bytes:
                used -= held.popitem(last=False)[1]
    return fetched
