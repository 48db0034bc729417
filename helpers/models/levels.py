"""Bytes that a rung moves at each level of memory, and so its FLOP per byte there: the roofline's other axis.

Three levels, as `helpers.models.roofline.roofs` has them. Shared memory: what passes through it, 128 bytes a wavefront
(of rung 1 through L1, which is the same memory); of rungs 6 to 10 what wgmma reads. L2: what the SMs ask of it, every
CTA (or cluster) its own operands once, and C. HBM: what L2, played as an LRU cache, does not hold, and C.
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import require_known
from helpers.errors import ArgumentError
from helpers.models.k_walk import hbm_read
from helpers.models.l2 import l2_traffic
from helpers.models.machine import H200, Gpu
from helpers.models.predict import number, predict
from helpers.rungs import BF16_BYTES, Rung, find_rung
from helpers.tile_order import row_major, tile_order
from helpers.typed import typed

HBM, L2, SHARED = "HBM", "L2", "shared memory"
LEVELS = (HBM, L2, SHARED)
CTAS_PER_SM = {1: 2, 2: 2, 6: 2}   # of the rungs of which more than one CTA fits on an SM
MOST_TILES = 1 << 18               # rung 1's of N = 16,384
L1_DEPTH = 32                      # of the strips that the CTAs of rung 1 are at together


@dataclass(frozen=True)
class LevelBytes:
    """What one product moves. rung: its name. flop: of the product. bytes_at: by level, of LEVELS."""

    rung: str
    flop: int
    bytes_at: dict[str, float]

    def intensity(self, level: str) -> float:
        """FLOP per byte of that level."""
        require_known("level", level, self.bytes_at)
        return self.flop / self.bytes_at[level]

    def __str__(self) -> str:
        return f"{self.rung}: " + ", ".join(
            f"{number(self.bytes_at[level] / 1e9)} GB at {level} ({number(self.intensity(level))} FLOP per byte)"
            for level in LEVELS
        )


@typed
def level_bytes(rung: str | int | Rung, m: int = 4096, n: int = 4096, k: int = 4096, gpu: Gpu = H200) -> LevelBytes:
    """What a rung moves for C[m,n] = A[m,k] @ B[k,n] on `gpu`. Raises ArgumentError for what is no rung or no size."""
    found = find_rung(rung)
    tiles = -(-m // found.tile[0]) * -(-n // found.tile[1])
    if tiles > MOST_TILES:
        raise ArgumentError(
            f"m and n are {m:,} and {n:,}: that is {tiles:,} tiles of {found.name}, and the model of L2 plays "
            f"{MOST_TILES:,} at most; give a smaller C."
        )
    bounds = {bound.name: bound.tflops * 1e12 for bound in predict(found, m, n, k, gpu).bounds}
    flop = 2 * m * n * k
    # A bound is FLOP per byte times the level's bandwidth.
    shared = next(rate for name, rate in bounds.items() if name.endswith("wavefronts") or name.startswith(SHARED))
    return LevelBytes(found.name, flop, {
        HBM: hbm_bytes(found, m, n, k, gpu),
        L2: flop * gpu.l2_bandwidth / bounds["L2 to SM"],
        SHARED: flop * gpu.shared_bandwidth / shared,
    })


def hbm_bytes(rung: Rung, m: int, n: int, k: int, gpu: Gpu = H200) -> int:
    """Bytes that a rung reads from HBM and writes to it, by the model of L2, in the order of tiles of its own."""
    tile = (*rung.cluster_tile, max(rung.tile[2], L1_DEPTH))
    tiles = _order(rung, m, n)
    slots = gpu.sm_count * CTAS_PER_SM.get(rung.number, 1)
    if rung.most_ctas:
        slots = min(slots, rung.most_ctas)
    if rung.cluster > 1:   # these walk every second tile backwards along K
        return hbm_read(tiles, k, True, slots // rung.cluster, gpu.l2_bytes, tile) + m * n * BF16_BYTES
    traffic = l2_traffic(tiles, m, n, k, slots, gpu.l2_bytes, tile)
    return traffic.hbm_read + traffic.hbm_write


def _order(rung: Rung, m: int, n: int) -> np.ndarray:
    grid = rung.tiles(m, n)
    return tile_order(rung.order, *grid) if rung.order else row_major(*grid)
