"""Tile after tile on one SM: what a tile costs beside its loop over K, with and without a CTA that stays.

    one = play_tiles(1, steps=64, stages=4)                     # a CTA of rung 8 or earlier
    four = play_tiles(4, steps=64, stages=4)                    # a CTA of rung 9, with four tiles
    again = play_tiles(4, steps=64, stages=4, persistent=False)  # four CTAs of rung 8, one after another

The ring is played as the kernel plays it: a stage is ordered again when both consumers have read it, loads come one
after another, the consumers' multiplications take turns on the tensor cores. What costs time is given, in clocks.
"""

from dataclasses import dataclass

from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.machine import H200
from helpers.typed import typed

TMA, START = "TMA", "CTA"
CONSUMERS = ("consumer 1", "consumer 2")
MOST_STEPS = 2_000_000
TILE = (128, 256)   # rows and columns of C of rungs 7 to 10


@typed
@dataclass(frozen=True)
class TileCosts:
    """Clocks. start: from the CTA's first instruction to the first order. latency: from an order to its first byte.
    load: from a step's first byte to its last. multiply: of one consumer's part of a step. store: of its part of C.
    """

    start: float
    latency: float
    load: float
    multiply: float
    store: float

    def __post_init__(self) -> None:
        for name in ("start", "latency", "load", "multiply", "store"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(f"{name} is {getattr(self, name)!r}: it must be a time, 0 or more.")

    def __str__(self) -> str:
        return (
            f"clocks: {self.start:,} from a CTA's start to its first order, {self.latency:,} more to the first byte; a "
            f"step: {self.load:,} to load,\n{self.multiply:,} for a consumer's half of the multiplying; a tile: "
            f"{self.store:,} for each consumer to store its half"
        )


# In a kernel of the same tile, ring and costs of a step, with clusters and TMA stores besides, on an H200 at N = 4096:
# first order 1,825 clocks after the start, 932 of them at the barrier of the cluster, which this rung does not have;
# first stage full at 3,372; 1,900 for the store. A step is 49,152 bytes at 64 a clock, and 2 x 64 x 256 x 64 FLOP for
# each consumer at 4,096 a clock.
MEASURED = TileCosts(start=1825 - 932, latency=3372 - 1825 - 768, load=768, multiply=512, store=1900)


@dataclass(frozen=True)
class Span:
    """Somebody at work. who: "CTA", "TMA" or a consumer. what: "start", "load", "multiply" or "store"; step: of the
    tile, or None."""

    who: str
    what: str
    tile: int
    step: int | None
    begin: float
    end: float


@dataclass(frozen=True)
class TileTimeline:
    """What happened on one SM. spans: in the order in which they were played."""

    tiles: int
    steps: int
    persistent: bool
    spans: tuple[Span, ...]

    @property
    def end(self) -> float:
        """When the last store is done."""
        return max(span.end for span in self.spans)

    @property
    def multiplying(self) -> float:
        """Clocks in which the tensor cores multiply."""
        return sum(span.end - span.begin for span in self.spans if span.what == "multiply")

    @property
    def busy(self) -> float:
        """Share of the time in which the tensor cores multiply, 0 to 1."""
        return self.multiplying / self.end

    @property
    def beside(self) -> float:
        """Clocks a tile in which the tensor cores rest."""
        return (self.end - self.multiplying) / self.tiles


@typed
def play_tiles(
    tiles: int, steps: int, stages: int = 4, costs: TileCosts = MEASURED, persistent: bool = True
) -> TileTimeline:
    """Play so many tiles, each of so many steps along K. persistent: by one CTA, otherwise by one CTA after another.

    Raises ArgumentError for numbers below 1.
    """
    for name, value in (("tiles", tiles), ("steps", steps), ("stages", stages)):
        require_integer(name, value, 1)
    if tiles * steps > MOST_STEPS:
        raise ArgumentError(f"tiles x steps is {tiles * steps:,}: at most {MOST_STEPS:,} can be played; give fewer.")
    spans: list[Span] = []
    if persistent:
        _play_cta(spans, 0.0, range(tiles), steps, stages, costs)
    else:
        now = 0.0
        for tile in range(tiles):
            now = _play_cta(spans, now, range(tile, tile + 1), steps, stages, costs)
    return TileTimeline(tiles, steps, persistent, tuple(spans))


def _play_cta(spans: list[Span], begin: float, tiles: range, steps: int, stages: int, costs: TileCosts) -> float:
    """One CTA from its start; returns when its last store is done."""
    spans.append(Span(START, "start", tiles[0], None, begin, begin + costs.start))
    wire_free = ordered = tensor_cores_free = begin + costs.start
    total = len(tiles) * steps
    landed: list[float] = []                       # by step, counted over all tiles
    read = [[] for _ in CONSUMERS]                 # when each consumer has read each step
    ready = [begin + costs.start] * len(CONSUMERS)
    while min(map(len, read)) < total:
        while len(landed) < total and (len(landed) < stages or min(map(len, read)) > len(landed) - stages):
            count = len(landed)
            if count >= stages:
                ordered = max(ordered, *(done[count - stages] for done in read))
            first_byte = max(ordered + costs.latency, wire_free)
            wire_free = first_byte + costs.load
            spans.append(Span(TMA, "load", tiles[count // steps], count % steps, first_byte, wire_free))
            landed.append(wire_free)
        # Next on the tensor cores: who can begin first.
        able = [number for number, done in enumerate(read) if len(done) < len(landed)]
        number = min(able, key=lambda number: max(ready[number], landed[len(read[number])]))
        count = len(read[number])
        tile, step = tiles[count // steps], count % steps
        start = max(ready[number], landed[count], tensor_cores_free)
        tensor_cores_free = ready[number] = start + costs.multiply
        spans.append(Span(CONSUMERS[number], "multiply", tile, step, start, ready[number]))
        read[number].append(ready[number])
        if step == steps - 1:
            ready[number] += costs.store
            spans.append(Span(CONSUMERS[number], "store", tile, None, ready[number] - costs.store, ready[number]))
    return max(ready)


@typed
@dataclass(frozen=True)
class Grid:
    """C in tiles, dealt to CTAs of which each SM holds one. places: SMs, or CTAs of a persistent kernel, if fewer."""

    m: int
    n: int
    places: int

    def __post_init__(self) -> None:
        for name in ("m", "n", "places"):
            require_integer(name, getattr(self, name), 1)

    @property
    def tiles(self) -> int:
        """Tiles of C, those at the edges counted whole."""
        return -(-self.m // TILE[0]) * -(-self.n // TILE[1])

    @property
    def rounds(self) -> int:
        """Tiles of the CTA that has most, one after another."""
        return -(-self.tiles // self.places)

    def useful(self, sm_count: int = H200.sm_count) -> float:
        """Share of what all SMs could multiply in these rounds that is of use: the elements of C over those that fit.

        It pays for both: tiles that hang over the edge of C, and places that stay empty.
        """
        return self.m * self.n / (self.rounds * sm_count * TILE[0] * TILE[1])


@typed
def grid_clocks(grid: Grid, steps: int, persistent: bool, stages: int = 4, costs: TileCosts = MEASURED) -> float:
    """Clocks of the CTA, or of the chain of CTAs on one SM, that has most tiles."""
    if persistent:
        return play_tiles(grid.rounds, steps, stages, costs).end
    return grid.rounds * play_tiles(1, steps, stages, costs).end
