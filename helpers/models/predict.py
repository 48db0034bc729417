"""Upper bounds for the speed of a rung, written down before it is measured.

Each bound takes one resource of the GPU and asks how fast the rung would be if nothing else cost anything; the lowest
one is the prediction. Per clock an SM issues 4 warp instructions, does 4 x 32 fp32 multiply-adds, and passes one
wavefront of at most 128 bytes through L1 or shared memory (NVIDIA H100 whitepaper; CUDA C++ Programming Guide,
"Compute Capabilities"). That one L1 wavefront serves one 128-byte line is an assumption of this model.
"""

from dataclasses import dataclass

from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.models.banks import warp_wavefronts
from helpers.models.coalescing import lane_addresses, warp_traffic
from helpers.models.machine import WARP, Gpu, gpu_for
from helpers.models.register_tile import CHUNK, RegisterTile
from helpers.models.tiling import shared_loads, tile_traffic
from helpers.rungs import BF16_BYTES, Rung, find_rung
from helpers.typed import typed

WGMMA_M, WGMMA_K = 64, 16   # rows and depth of one wgmma


def number(value: float) -> str:
    """Three digits without an exponent: 0.507, 8.36, 66.9, 267, 6,553."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass(frozen=True)
class Bound:
    """One resource: its name, the TFLOP/s that it allows, and where the figure comes from (one phrase)."""

    name: str
    tflops: float
    reason: str


@dataclass(frozen=True)
class Prediction:
    """All bounds of one rung. Printed, it is a table, the lowest bound first."""

    title: str
    bounds: tuple[Bound, ...]

    @property
    def limit(self) -> Bound:
        """The lowest bound: the prediction."""
        return min(self.bounds, key=lambda bound: bound.tflops)

    def gap(self, measured: float) -> float:
        """Measured TFLOP/s over the predicted bound: 1 is the bound itself."""
        return measured / self.limit.tflops

    @property
    def in_turn(self) -> float:
        """TFLOP/s if issue slots and wavefronts took turns instead of working at the same time: their times add up.

        (The arithmetic is no third one: a multiply-add is done while its issue slot lasts.)
        """
        return 1 / sum(1 / bound.tflops for bound in self.bounds if bound.name.endswith(("slots", "wavefronts")))

    def report(self, measured: float) -> str:
        """Bound, measured, gap, in one line."""
        return (
            f"bound {number(self.limit.tflops)} TFLOP/s ({self.limit.name}), measured {number(measured)} TFLOP/s: "
            f"{self.gap(measured):.0%} of the bound."
        )

    def __str__(self) -> str:
        ordered = sorted(self.bounds, key=lambda bound: bound.tflops)
        width = max(len(bound.name) for bound in ordered)
        lines = [f"{bound.name:<{width}}  {number(bound.tflops):>7} TFLOP/s  {bound.reason}" for bound in ordered]
        return "\n".join([self.title, *lines])


@dataclass(frozen=True)
class WarpWork:
    """What a warp does for `fmas` multiply-add instructions of 32 lanes each.

    instructions: all warp instructions issued, the multiply-adds among them. wavefronts: passes through L1 or shared
    memory; `path` says which. Both may be fractions, as averages over a loop.
    """

    fmas: float
    instructions: float
    wavefronts: float
    path: str


@typed
def predict(
    rung: "str | int | Rung",
    m: int = 4096,
    n: int = 4096,
    k: int = 4096,
    gpu: Gpu | None = None,
    entry: str = "matmul",
    swizzle: bool = False,
    a_vector: int = 4,
) -> Prediction:
    """The bounds of a rung for C[m,n] = A[m,k] @ B[k,n] on `gpu`: by default the one that it is measured on.

    That is this machine's if it can run the rung, else the H200 of the recordings.
    entry: 'matmul', or 'matmul_uncoalesced' for rung 1. swizzle: rung 3 with its shared tiles swizzled (rung 4).
    a_vector: elements of A that one shared load of rung 2 brings: 1 in the source, 4 once compiled.
    Raises ArgumentError for what is no rung or no size.
    """
    found = find_rung(rung)
    gpu = gpu or gpu_for(found.compute_capability)
    for name, size in (("m", m), ("n", n), ("k", k)):
        require_integer(name, size, 1)
    if found.number >= 6:
        bounds = (*_tensor_bounds(found, gpu), *_memory_bounds(m, n, k, found.cluster_tile, gpu))
        return Prediction(f"{found.name}, M={m} N={n} K={k}, {gpu.name}: upper bounds", bounds)
    if found.number == 1:
        work = _coalescing_work(k, entry)
    elif found.number == 2:
        work = _smem_tiling_work(a_vector)
    else:
        work = _register_tiling_work(RegisterTile(), swizzle or found.number >= 4, by_tma=found.number == 5)
    name = found.name + (f" ({entry})" if entry != "matmul" else "") + (" with swizzle" if swizzle else "")
    title = f"{name}, M={m} N={n} K={k}, {gpu.name}: upper bounds"
    return Prediction(title, (*_sm_bounds(work, gpu), *_memory_bounds(m, n, k, found.tile[:2], gpu)))


def _coalescing_work(k: int, entry: str) -> WarpWork:
    """Rung 1 per step of k and warp: a load of A, a load of B, two conversions, one multiply-add."""
    if entry == "matmul":
        a, b = lane_addresses(lambda lane: 0), lane_addresses(lambda lane: lane)
    elif entry == "matmul_uncoalesced":
        a, b = lane_addresses(lambda lane: lane * k), lane_addresses(lambda lane: 0)
    else:
        raise ArgumentError(f"entry is {entry!r}: rung 1 has 'matmul' and 'matmul_uncoalesced'.")
    wavefronts = warp_traffic(a).lines + warp_traffic(b).lines
    return WarpWork(fmas=1, instructions=5, wavefronts=wavefronts, path="L1")


def _smem_tiling_work(a_vector: int) -> WarpWork:
    """Rung 2 per step of k and warp: a broadcast of A (one load for `a_vector` steps), a row of B, one multiply-add."""
    loads = shared_loads(1, 1, vector_a=a_vector).loads
    read_a = warp_wavefronts(lane_addresses(lambda lane: 0, 4 * a_vector), 4 * a_vector).count
    read_b = warp_wavefronts(lane_addresses(lambda lane: lane, 4), 4).count
    return WarpWork(fmas=1, instructions=1 + loads, wavefronts=read_a / a_vector + read_b, path="shared memory")


def _register_tiling_work(tile: RegisterTile, swizzle: bool, by_tma: bool = False) -> WarpWork:
    """Rungs 3 to 5 per 8 steps of k and warp: 8 + 16 loads of 128 bits, a conversion per value, 1,024 multiply-adds.

    The stores that fill the tiles are spread over the step's `cta_k / 8` rounds. by_tma: no warp makes them, but the
    memory still takes their bytes.
    """
    rows, columns = tile.thread_m, tile.thread_n
    reads_a = [warp_wavefronts(tile.a_addresses(0, i, 0, swizzle), 16).count for i in range(rows)]
    reads_b = [
        warp_wavefronts(tile.b_addresses(0, row, chunk, swizzle), 16).count
        for row in range(CHUNK)
        for chunk in range(columns // CHUNK)
    ]
    store = warp_wavefronts(lane_addresses(lambda lane: lane, 16), 16, "store").count   # whole rows: no conflicts
    stores = (tile.cta_m + tile.cta_n) / tile.threads   # 16-byte stores of a thread per 8 steps of k
    fmas = rows * columns * CHUNK
    conversions = (rows + columns) * CHUNK
    return WarpWork(
        fmas=fmas,
        instructions=fmas + conversions + len(reads_a) + len(reads_b) + (0 if by_tma else stores),
        wavefronts=sum(reads_a) + sum(reads_b) + stores * store,
        path="shared memory",
    )


def _tensor_bounds(rung: Rung, gpu: Gpu) -> tuple[Bound, ...]:
    """Bounds of the rungs that multiply with wgmma: the tensor cores, and the shared memory that feeds them.

    Each wgmma of 64 x N x 16 reads 64 x 16 of one operand and 16 x N of the other from shared memory, at 128 bytes a
    clock, N being the tile's columns; where tiles lie abreast, C is computed transposed, and N is the tile's rows.
    (So a kernel of 128 x 256 tiles reads 168 M wavefronts at N = 8192: what Nsight Compute counted.)
    """
    rows, columns, _ = rung.tile
    width = rows if rung.abreast else columns
    flop = 2 * WGMMA_M * WGMMA_K * width
    read = (WGMMA_M + width) * WGMMA_K * BF16_BYTES
    feed = flop * gpu.shared_bandwidth / read / 1e12
    rate = gpu.tensor_flop_per_clock_sm
    return (
        Bound("tensor cores", gpu.tensor_tflops, f"{gpu.sm_count} SMs x {rate:,} FLOP x clock"),
        Bound("shared memory to tensor cores", feed, f"{number(flop / read)} FLOP per byte that wgmma reads"),
    )


def _sm_bounds(work: WarpWork, gpu: Gpu) -> tuple[Bound, ...]:
    """Bounds inside the SM: arithmetic, issue slots, wavefronts."""
    flop_per_clock = work.fmas * WARP * 2 * gpu.sm_count
    lanes = gpu.fp32_lanes_per_sm
    issue = flop_per_clock * gpu.schedulers_per_sm / work.instructions * gpu.clock_hz / 1e12
    passes = flop_per_clock / work.wavefronts * gpu.clock_hz / 1e12
    return (
        Bound("fp32 arithmetic", gpu.fp32_tflops, f"{gpu.sm_count} SMs x {lanes} lanes x 2 FLOP x clock"),
        Bound("issue slots", issue, f"{work.instructions / work.fmas:.3g} instructions per multiply-add"),
        Bound(f"{work.path} wavefronts", passes, f"{work.wavefronts / work.fmas:.3g} wavefronts per multiply-add"),
    )


def _memory_bounds(m: int, n: int, k: int, tile: tuple[int, int], gpu: Gpu) -> tuple[Bound, ...]:
    """Bounds outside the SM: every CTA, or cluster, fetches its operands once from L2, HBM gives each element once."""
    traffic = tile_traffic(m, n, k, *tile)
    once = tile_traffic(m, n, k, m, n)
    return (
        Bound(
            "L2 to SM",
            traffic.intensity * gpu.l2_bandwidth / 1e12,
            f"{number(traffic.intensity)} FLOP per byte, {gpu.l2_bytes_per_clock_sm} bytes per clock and SM",
        ),
        Bound(
            "HBM",
            once.intensity * gpu.hbm_bandwidth / 1e12,
            f"{number(once.intensity)} FLOP per byte if each byte travels once",
        ),
    )
