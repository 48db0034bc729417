"""What a cluster of CTAs shares, and how rung 10's shared memory is shared out.

CTAs below each other in C multiply with the same B, CTAs beside each other with the same A. In a cluster each of them
fetches a part of what they share and multicasts it to the others: it crosses from L2 once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.errors import ArgumentError
from helpers.models.machine import H200, Gpu
from helpers.rungs import BF16_BYTES, find_rung
from helpers.typed import typed
from helpers.words import plural, short

RUNG = 10
CONSUMERS, WARPS = 2, 4      # warpgroups that multiply, and their warps
BOX = 64                     # rows and columns of a box of C in the staging
BARRIER_BYTES = 8
MOST_STAGES = 64       # far more than fit


@dataclass(frozen=True)
class ClusterStep:
    """A step along K in a cluster of `rows` x `columns` CTAs, for each CTA. tile: rows, columns and depth of a CTA.

    a_bytes, b_bytes: of its operands. clocks: that its tensor cores take.
    """

    rows: int
    columns: int
    tile: tuple[int, int, int]
    a_bytes: int
    b_bytes: int
    clocks: float

    @property
    def name(self) -> str:
        """'no cluster' or '2 x 1'."""
        return "no cluster" if self.ctas == 1 else f"{self.rows} x {self.columns}"

    @property
    def ctas(self) -> int:
        """CTAs of the cluster."""
        return self.rows * self.columns

    @property
    def fetched_a(self) -> int:
        """Bytes of A that a CTA fetches itself: its part of what the CTAs beside it need too."""
        return self.a_bytes // self.columns

    @property
    def fetched_b(self) -> int:
        """Bytes of B that a CTA fetches itself."""
        return self.b_bytes // self.rows

    @property
    def fetched(self) -> int:
        """Bytes that a CTA fetches from L2."""
        return self.fetched_a + self.fetched_b

    @property
    def landed(self) -> int:
        """Bytes that land in a CTA's stage, whoever fetched them: what its `full` barrier expects."""
        return self.a_bytes + self.b_bytes

    @property
    def bytes_per_clock(self) -> float:
        """Bytes from L2 for each clock and SM, if the tensor cores never wait."""
        return self.fetched / self.clocks

    @property
    def readers(self) -> int:
        """CTAs that read what one CTA fetches: those in its column of the cluster, and those in its row."""
        return self.rows + self.columns - 1

    @property
    def empty_arrivals(self) -> int:
        """Arrivals that end a phase of a CTA's `empty` barrier: each consumer warp of each of its readers."""
        return self.readers * CONSUMERS * WARPS

    def __str__(self) -> str:
        return (
            f"{self.name:<10}: a CTA fetches {self.fetched:,} of {self.landed:,} bytes a step, "
            f"{self.bytes_per_clock:.0f} a clock"
        )


@typed
def cluster_step(
    rows: int = 1, columns: int = 1, tile: tuple[int, int, int] = (128, 256, 64), gpu: Gpu = H200
) -> ClusterStep:
    """A step of 64 k of rung 10, or of another tile, in a cluster of so many CTAs.

    Raises ArgumentError for sizes below 1, and for parts that are no whole bytes.
    """
    m, n, k = tile
    for name, value in (("rows", rows), ("columns", columns), ("tile", min(tile))):
        if value < 1:
            raise ArgumentError(f"{name} is {value}: it must be at least 1.")
    a_bytes, b_bytes = m * k * BF16_BYTES, n * k * BF16_BYTES
    if a_bytes % columns or b_bytes % rows:
        raise ArgumentError(f"a tile of {m} x {n} x {k} cannot be split among {rows} x {columns} CTAs: take fewer.")
    return ClusterStep(rows, columns, tuple(tile), a_bytes, b_bytes, 2 * m * n * k / gpu.tensor_flop_per_clock_sm)


@dataclass(frozen=True)
class SharedBudget:
    """What lies in a CTA's shared memory. name: of the plan. parts: bytes by what they hold. limit: of a CTA."""

    name: str
    parts: Mapping[str, int]
    limit: int

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(self.parts.values())

    @property
    def free(self) -> int:
        """Bytes that are left; negative if the plan does not fit."""
        return self.limit - self.total

    def __str__(self) -> str:
        verdict = f"{self.free:,} left" if self.free >= 0 else f"{-self.free:,} too many"
        return f"{self.name}: {self.total:,} of {self.limit:,} bytes, {verdict}"


@typed
def shared_budget(stages: int = 4, boxes: int = 2, name: str = "", gpu: Gpu = H200) -> SharedBudget:
    """Rung 10's shared memory with so many stages, and so many staging boxes of 64 x 64 for each consumer."""
    for what, value in (("stages", stages), ("boxes", boxes)):
        if not 0 <= value <= MOST_STAGES:
            raise ArgumentError(f"{what} is {short(value)}: it must be 0 to {MOST_STAGES}.")
    step = cluster_step(tile=find_rung(RUNG).tile)
    parts = {
        "A": stages * step.a_bytes,
        "B": stages * step.b_bytes,
        "C": CONSUMERS * boxes * BOX * BOX * BF16_BYTES,
        "barriers": 2 * stages * BARRIER_BYTES,
    }
    default = f"{plural(stages, 'stage')}, {boxes} {'box' if boxes == 1 else 'boxes'}"
    return SharedBudget(name or default, parts, gpu.shared_bytes_per_cta)
