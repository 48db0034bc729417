"""What a tile of C saves: global bytes by tile size, shared-memory loads by thread tile.

A tile of C of tile_m x tile_n elements needs tile_m rows of A and tile_n columns of B, once each, along all of K.
So every element of A is loaded once per column of tiles, every element of B once per row of tiles.
"""

from dataclasses import dataclass

from helpers.errors import ArgumentError
from helpers.typed import typed
from helpers.words import plural


@dataclass(frozen=True)
class TileTraffic:
    """Global traffic of C[m,n] = A[m,k] @ B[k,n] with tiles of C of tile_m x tile_n, nothing shared between tiles.

    a_bytes, b_bytes: loaded. c_bytes: stored. a_reads, b_reads: how often each element of A and of B is loaded.
    """

    m: int
    n: int
    k: int
    tile_m: int
    tile_n: int
    a_bytes: int
    b_bytes: int
    c_bytes: int
    a_reads: int
    b_reads: int

    def __str__(self) -> str:
        return (
            f"tile {self.tile_m} x {self.tile_n}: {self.loaded_bytes / 1e9:,.3f} GB loaded, "
            f"{self.intensity:.3g} FLOP per byte"
        )

    @property
    def loaded_bytes(self) -> int:
        """Bytes of A and B that are loaded."""
        return self.a_bytes + self.b_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes loaded and stored."""
        return self.loaded_bytes + self.c_bytes

    @property
    def flops(self) -> int:
        """Floating-point operations: a multiplication and an addition for each m, n, k."""
        return 2 * self.m * self.n * self.k

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: FLOP per byte loaded or stored."""
        return self.flops / self.total_bytes


@typed
def tile_traffic(m: int, n: int, k: int, tile_m: int, tile_n: int, element_bytes: int = 2) -> TileTraffic:
    """Global bytes for tiles of C of tile_m x tile_n elements; tiles at the edge load only what exists.

    1 x 1 is a thread that shares with nobody. 1 x 32 is a warp along a row of C: its 32 lanes share one element of A
    (a broadcast) and nothing of B. Raises ArgumentError for sizes below 1.
    """
    sizes = {"m": m, "n": n, "k": k, "tile_m": tile_m, "tile_n": tile_n, "element_bytes": element_bytes}
    for name, value in sizes.items():
        _check_positive(name, value)
    a_reads = -(-n // tile_n)
    b_reads = -(-m // tile_m)
    return TileTraffic(
        m, n, k, tile_m, tile_n,
        a_bytes=m * k * element_bytes * a_reads,
        b_bytes=k * n * element_bytes * b_reads,
        c_bytes=m * n * element_bytes,
        a_reads=a_reads,
        b_reads=b_reads,
    )


@dataclass(frozen=True)
class SharedLoads:
    """Shared-memory reads of a thread that owns tile_m x tile_n elements of C, per step of k.

    loads: load instructions, an average if a load brings several steps of k. values: operands that arrive.
    """

    tile_m: int
    tile_n: int
    loads: float
    values: int

    def __str__(self) -> str:
        return (
            f"thread tile {self.tile_m} x {self.tile_n}: {self.values} values in {self.loads:.3g} loads for "
            f"{plural(self.tile_m * self.tile_n, 'multiply-add')}, {self.loads_per_fma:.3g} loads each"
        )

    @property
    def loads_per_fma(self) -> float:
        """Load instructions per multiply-add."""
        return self.loads / (self.tile_m * self.tile_n)

    @property
    def values_per_fma(self) -> float:
        """Operands read per multiply-add."""
        return self.values / (self.tile_m * self.tile_n)


@typed
def shared_loads(tile_m: int, tile_n: int, vector_a: int = 1, vector_b: int = 1) -> SharedLoads:
    """Shared-memory loads for a thread tile of tile_m x tile_n.

    vector_a, vector_b: elements that one load instruction brings (8 bf16 in 128 bits), all of them used.
    Raises ArgumentError for sizes below 1.
    """
    for name, value in {"tile_m": tile_m, "tile_n": tile_n, "vector_a": vector_a, "vector_b": vector_b}.items():
        _check_positive(name, value)
    return SharedLoads(tile_m, tile_n, tile_m / vector_a + tile_n / vector_b, tile_m + tile_n)


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ArgumentError(f"{name} is {value}: it must be at least 1.")
