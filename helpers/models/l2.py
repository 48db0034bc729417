"""What an order of tiles costs in L2 and HBM: who runs together, which strips they need, what L2 still holds.

The GPU computes C in waves of as many CTAs as it holds at a time. A tile of C needs a strip of A (the rows of the tile,
all of K) and a strip of B (its columns, all of K), in steps along K. The model plays that in lock-step: all CTAs of a
wave are at the same step, so a piece of a strip that several of them need comes from HBM at most once a wave. L2 is a
least-recently-used cache of so many bytes, any piece at any place; the tiles of C pass through it when a wave ends.

Within the model nothing is estimated. A piece of step k was last touched in an earlier wave, at step k too, and what
was touched in between grows evenly with k; so all steps of a strip are decided at once, and a product of 16,384 takes
milliseconds. A test plays the same cache access by access. What the model leaves out: CTAs drift apart (`kept_steps`
says how far they may), L2's replacement is not quite LRU, and its two halves may hold a line twice: with half the bytes
the model reads from HBM what Nsight Compute counted for N = 4096, in all four orders (a test compares them).
"""

from dataclasses import dataclass, field

import numpy as np

from helpers.errors import ArgumentError
from helpers.models.machine import H200
from helpers.rungs import BF16_BYTES, find_rung
from helpers.typed import typed
from helpers.words import plural, short

TILE = find_rung("08_hilbert").tile
MOST_STEPS = 1 << 20   # along K


@dataclass(frozen=True)
class Patch:
    """The tiles of C that are computed together, and the strips of A and B that they need.

    rows, columns: numbers of the rows and columns of tiles, each once, ascending. tiles: how many tiles there are.
    """

    tiles: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def strips(self) -> int:
        """Strips of A and of B together."""
        return len(self.rows) + len(self.columns)

    def __str__(self) -> str:
        return f"{plural(self.tiles, 'tile')}: {len(self.rows)} of A + {plural(len(self.columns), 'strip')} of B"

    def step_bytes(self, tile: tuple[int, int, int] = TILE) -> int:
        """Bytes of A and B that the patch needs in one step along K, each once (whole tiles)."""
        rows, columns, depth = tile
        return (len(self.rows) * rows + len(self.columns) * columns) * depth * BF16_BYTES


@typed
def patch(tiles: np.ndarray) -> Patch:
    """The patch of some tiles: an integer array (tiles, 2) of (m, n)."""
    tiles = np.asarray(tiles)
    if tiles.ndim != 2 or tiles.shape[1] != 2 or not len(tiles) or tiles.dtype.kind not in "iu":
        raise ArgumentError("tiles is no list of tiles: give at least one (m, n) a row, integers.")
    rows, columns = (tuple(np.unique(tiles[:, axis]).tolist()) for axis in (0, 1))
    return Patch(len(tiles), rows, columns)


@typed
def wave_tiles(tiles: np.ndarray, ctas: int = H200.sm_count) -> list[np.ndarray]:
    """The tiles that run together, wave by wave: the CTAs start in the order of the list, `ctas` at a time."""
    if ctas < 1:
        raise ArgumentError(f"ctas is {ctas}: it must be at least 1.")
    return [tiles[first : first + ctas] for first in range(0, len(tiles), ctas)]


@dataclass(frozen=True)
class L2Traffic:
    """What the model says of one product. Bytes of one launch with a cold L2.

    patches: of the waves. steps: along K. once: A and B, each byte once. sm_read: A and B from L2 to the SMs.
    hbm_reads: of them, from HBM to L2, a number for each wave. hbm_write: C. l2_bytes: capacity. missed: of each strip
    (those of A, then those of B) in each wave, the share that comes from HBM, 0 to 1 (waves, strips); NaN where a wave
    does not need the strip.
    """

    patches: tuple[Patch, ...]
    steps: int
    once: int
    sm_read: int
    hbm_reads: tuple[int, ...]
    hbm_write: int
    l2_bytes: float
    missed: np.ndarray = field(repr=False, compare=False)

    @property
    def hbm_read(self) -> int:
        """Bytes of A and B that come from HBM."""
        return sum(self.hbm_reads)

    @property
    def hit_rate(self) -> float:
        """Share of the SMs' reads that L2 answers without HBM, 0 to 1."""
        return 1 - self.hbm_read / self.sm_read

    @property
    def strips(self) -> float:
        """Strips of A and B that a full wave needs, the mean (of the last wave if there is no other)."""
        full = self.patches[:-1] or self.patches
        return sum(item.strips for item in full) / len(full)

    @property
    def kept_steps(self) -> int:
        """Steps along K that L2 can hold of a wave: so far may its CTAs drift apart and still share."""
        return int(self.l2_bytes // max(item.step_bytes() for item in self.patches))

    def __str__(self) -> str:
        return (
            f"{self.strips:.1f} strips a wave, {self.hit_rate:.1%} of {self.sm_read / 1e9:.3g} GB answered by L2, "
            f"{self.hbm_read / 1e9:.3g} GB from HBM"
        )


@typed
def l2_traffic(
    tiles: np.ndarray,
    m: int,
    n: int,
    k: int,
    ctas: int = H200.sm_count,
    l2_bytes: float = H200.l2_bytes,
    tile: tuple[int, int, int] = TILE,
) -> L2Traffic:
    """Play C[m,n] = A[m,k] @ B[k,n] with the tiles of C computed in the order of `tiles`, `ctas` at a time.

    tiles: (m, n) of each tile, integers (tiles, 2). l2_bytes: what L2 holds; 0 for none. tile: (rows, columns, depth).
    Raises ArgumentError for a list that is not every tile of such a product once.
    """
    for name, value in {"m": m, "n": n, "k": k}.items():
        if value < 1:
            raise ArgumentError(f"{name} is {value}: it must be at least 1.")
    grid, steps = (-(-m // tile[0]), -(-n // tile[1])), -(-k // tile[2])
    if steps > MOST_STEPS:
        raise ArgumentError(f"k is {short(k)}: the model of L2 plays {MOST_STEPS:,} steps at most; give a smaller k.")
    tiles = np.asarray(tiles)
    _require_order(tiles, grid)
    heights, widths = _sides(m, tile[0]), _sides(n, tile[1])
    strip_bytes = np.concatenate([heights, widths]) * k * BF16_BYTES
    waves = wave_tiles(tiles, ctas)
    needed = np.zeros((len(waves), sum(grid)), dtype=bool)   # strips of A, then of B
    for wave, now in enumerate(waves):
        needed[wave, now[:, 0]] = True
        needed[wave, grid[0] + now[:, 1]] = True
    stored = np.array([(heights[now[:, 0]] * widths[now[:, 1]]).sum() * BF16_BYTES for now in waves])
    missed = [_missed_steps(needed, stored, strip_bytes / steps, wave, steps, l2_bytes) for wave in range(len(waves))]
    sm_read = sum(int(strip_bytes[now[:, 0]].sum() + strip_bytes[grid[0] + now[:, 1]].sum()) for now in waves)
    return L2Traffic(
        patches=tuple(map(patch, waves)),
        steps=steps,
        once=(m + n) * k * BF16_BYTES,
        sm_read=sm_read,
        hbm_reads=tuple(round(float((strip_bytes * share).sum())) for share in np.array(missed) / steps),
        hbm_write=m * n * BF16_BYTES,
        l2_bytes=l2_bytes,
        missed=np.where(needed, np.array(missed) / steps, np.nan),
    )


def _missed_steps(
    needed: np.ndarray, stored: np.ndarray, step_bytes: np.ndarray, wave: int, steps: int, l2_bytes: float
) -> np.ndarray:
    """For each strip, the steps along K whose piece is not in L2 when a wave needs it.

    An LRU cache still holds what was touched since which no more distinct bytes than it has were touched. Between step
    k of an earlier wave and step k of this one that is: of the steps behind k, the strips from that wave to the last
    one; of the steps before k, those from the next wave to this one; of step k, all; and the tiles of C in between.
    """
    now = needed[wave]
    missed = np.where(now, steps, 0)
    if now @ step_bytes > l2_bytes:   # L2 does not hold a single step
        return missed
    k = np.arange(steps)
    between, waiting, written = np.zeros_like(now), now.copy(), 0.0
    for earlier in range(wave - 1, -1, -1):
        behind, before = between | needed[earlier], between | now
        written += stored[earlier]
        step = (needed[earlier] | before) @ step_bytes
        touched = (steps - 1 - k) * (behind @ step_bytes) + k * (before @ step_bytes) + step + written
        found = waiting & needed[earlier]
        missed[found] = (touched > l2_bytes).sum()
        waiting &= ~found
        between = behind
        if not waiting.any() or touched.min() > l2_bytes:
            break
    return missed


def _sides(size: int, side: int) -> np.ndarray:
    """The length of each tile along one dimension; the last one may be short."""
    return np.minimum(side, size - np.arange(0, size, side))


def _require_order(tiles: np.ndarray, grid: tuple[int, int]) -> None:
    count = grid[0] * grid[1]
    if tiles.ndim != 2 or tiles.shape != (count, 2) or tiles.dtype.kind not in "iu":
        raise ArgumentError(f"tiles is no list of this product's {count:,} tiles: give integers, one (m, n) a row.")
    inside = ((tiles >= 0) & (tiles < grid)).all()
    if not inside or len(np.unique(tiles[:, 0].astype(np.int64) * grid[1] + tiles[:, 1])) != count:
        raise ArgumentError(f"tiles leaves out a tile of {grid[0]} x {grid[1]}: give each of them once.")
