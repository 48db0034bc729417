"""Rung 10's clusters keep pace along K: no result depends on it, and nobody waits without end.

So it is with each of the rung's tiles and clusters, which must be right in every other way too.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from helpers import gpu
from helpers.arrays import random_matrix, to_host
from helpers.backends import EmulatedKernel, EmulatorBackend
from helpers.emulator import EmulatorRun
from helpers.kernel import Kernel, emulate, load
from helpers.noting import NotingKernel
from helpers.rungs import Rung, find_rung, with_tiles
from helpers.variants import variant
from helpers.verify import verify, verify_all

RUNG = find_rung(10)
TILES = {
    "four": with_tiles(RUNG, cluster=4),
    "narrow": with_tiles(RUNG, columns=192),
    "narrow, four": with_tiles(RUNG, columns=192, cluster=4),
}
EACH_TILE = pytest.mark.parametrize(("rung", "defines"), TILES.values(), ids=TILES)
ALONE = {"MULTICAST": 0}   # each CTA keeps pace by itself
# All that keep pace in a way of their own.
VARIANTS = {
    "two": (RUNG, {}),
    **TILES,
    "two, alone": (RUNG, ALONE),
    "narrow, four, alone": (TILES["narrow, four"][0], {**TILES["narrow, four"][1], **ALONE}),
}
EACH_VARIANT = pytest.mark.parametrize(("rung", "defines"), VARIANTS.values(), ids=VARIANTS)
STAGES = {"STAGES": 2}
CHECKPOINT = 16   # steps
# (M, N, K) and the SMs of the GPU that is played.
SIZES = [
    ((1288, 264, 1032), 6),
    ((1032, 520, 2120), 8),   # one cluster has no tile in the last round, in which the others pass two checkpoints
    ((264, 72, 3080), 4),
]
EACH_SIZE = pytest.mark.parametrize(("size", "sms"), SIZES, ids=str)
# Begins with the zeros of a library that was just loaded, and waits until the others have come.
WITHOUT_END = (
    ("< expected && tries < PACE_TRIES) ++tries;", "< expected) {}"),
    ("if (keeps_pace && pacer == 0) {", "if (false) {"),
)
# Notes for each CTA how often it has waited, and for how many in all.
NOTING = (
    ("int M, int N, int K) {", "int M, int N, int K, int* notes) {"),
    ("keeps_pace = keep_pace(", "++notes[2 * blockIdx.x], notes[2 * blockIdx.x + 1] += expected, keep_pace("),
)


@dataclass(frozen=True)
class Patient(EmulatorBackend):
    """The emulator with so many clusters at a time. Threads may look as often as they like."""

    workers: int = 1

    def launch(
        self, compiled: EmulatedKernel, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> EmulatorRun:
        options = {"schedule": self.schedule, "seed": self.seed, "dependent": True, "workers": self.workers}
        limits = {"step_limit": 4_000_000_000, "time_limit": 60.0}
        return compiled.module.launch(entry, grid, block, arguments, shared_bytes=shared_bytes, **options, **limits)


def operands(size, kind):
    """A and B: random, or small integers, whose sums are exact in whichever order."""
    m, n, k = size
    if kind == "random":
        return random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")
    rng = np.random.default_rng(7)
    return tuple(rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))


def product_bits(rung: Rung, given, defines, backend):
    """The bits of C. Raises KernelFault if the emulator has anything to report."""
    return Kernel(rung, backend, rung.entry, {**STAGES, **defines}, rung.path)(*given).view(np.uint16)


def steps_of_clusters(rung: Rung, size, sms):
    """How many steps each cluster loads."""
    (ctas,) = rung.grid(*size[:2], sms)
    clusters = ctas // rung.cluster
    tiles = -(-size[0] // (128 * rung.cluster)) * -(-size[1] // rung.constants["TILE_N"])
    return [len(range(first, tiles, clusters)) * -(-size[2] // 64) for first in range(clusters)]


def test_the_sizes_pass_several_checkpoints_and_leave_a_cluster_without_a_tile():
    found = {name: [steps_of_clusters(rung, size, sms) for size, sms in SIZES] for name, (rung, _) in VARIANTS.items()}
    assert all(min(steps) > 3 * CHECKPOINT for by_size in found.values() for steps in by_size)
    assert found["two"][:2] == [[68] * 3, [136, 136, 136, 102]] and found["four"][1] == [170, 136]
    assert found["narrow"][:2] == [[68] * 3, [136, 136, 136, 102]] and found["narrow, four"][1] == [170, 136]


@pytest.mark.compiler
@EACH_SIZE
@EACH_VARIANT
def test_no_bit_depends_on_pace(rung, defines, size, sms):
    given = operands(size, "random")
    expected = product_bits(rung, given, {**defines, "PACE": 0}, EmulatorBackend(counters=False, sms=sms))
    settings = [("lazy", 1), ("eager", 4), ("random", 2), ("random", 4), ("random", 1)]
    for seed, (schedule, workers) in enumerate(settings):
        backend = Patient(schedule=schedule, seed=seed, counters=workers == 2, sms=sms, workers=workers)
        assert (product_bits(rung, given, {**defines, "PACE": 1}, backend) == expected).all()


@pytest.mark.compiler
@EACH_SIZE
def test_no_bit_depends_on_the_tile_or_the_cluster_where_sums_are_exact(size, sms):
    """Others may differ: every second tile of a cluster walks K backwards."""
    given = operands(size, "integers")
    expected = product_bits(RUNG, given, {"PACE": 0}, EmulatorBackend(counters=False, sms=sms))
    for seed, (rung, defines) in enumerate(VARIANTS.values()):
        backend = Patient(schedule="random", seed=seed, counters=False, sms=sms, workers=1 + seed % 4)
        assert (product_bits(rung, given, defines, backend) == expected).all()


@pytest.mark.compiler
@EACH_SIZE
@EACH_VARIANT
def test_all_that_keep_pace_wait_for_as_many_as_come(rung, defines, size, sms):
    """Whoever waited for one more would wait without end here. By multicast the others go along with the first CTA."""
    steps = steps_of_clusters(rung, size, sms)
    alone = defines.get("MULTICAST") == 0
    name = f"patient_{rung.tile[1]}_{rung.cluster}_{alone}_{size[0]}"   # of a library that begins with zeros
    file = variant(10, *WITHOUT_END, *NOTING, ("#define PACE 1", f"#define PACE 1   // {name}"), name=name)
    backend = Patient(counters=False, sms=sms, workers=len(steps))
    kernel = NotingKernel(rung, backend, file, 2 * len(steps) * rung.cluster, {**STAGES, **defines})
    given = operands(size, "random")
    expected = product_bits(rung, given, {**defines, "PACE": 0}, backend)
    assert (kernel(*given).view(np.uint16) == expected).all()

    checkpoints = [count // CHECKPOINT for count in steps]
    ranks = rung.cluster if alone else 1   # that keep pace
    come = [ranks * sum(last >= checkpoint for last in checkpoints) for checkpoint in range(1, max(checkpoints))]
    wanted = [(last, sum(come[: last - 1])) if rank < ranks else (0, 0)
              for last in checkpoints for rank in range(rung.cluster)]
    assert list(zip(kernel.notes[0:-1:2], kernel.notes[1::2], strict=True)) == wanted


@pytest.mark.compiler
@EACH_TILE
def test_other_tiles_and_clusters_are_right(rung, defines):
    """Among the sizes: edges in M, N and K, fewer tiles than clusters, and several for each."""
    for outcome in verify_all(load(rung, "emulator", defines=defines)):
        assert outcome.passed, outcome.reason


@pytest.mark.compiler
@pytest.mark.parametrize("part", RUNG.ablations, ids=str)
@EACH_TILE
def test_other_tiles_and_clusters_are_right_with_a_part_taken_away_too(rung, defines, part):
    outcome = verify(load(rung, "emulator", defines={**defines, **STAGES, **part}), (1032, 264, 328))
    assert outcome.passed, outcome.reason


@pytest.mark.compiler
@EACH_TILE
def test_nothing_is_reported_of_other_tiles_and_clusters(rung, defines):
    """With a ring of two, edges everywhere, and three rounds for one cluster and two for the other."""
    size = (2 * 128 * rung.cluster + 8, rung.tile[1] + 72, 328)
    assert rung.tiles(*size[:2]) == (3, 2)
    for schedule in ("lazy", "random"):
        result = emulate(rung, size, schedule=schedule, sms=2 * rung.cluster, defines={**defines, **STAGES})
        assert result.verification.passed and not result.run.reports


# On a GPU


LONG = """
extern "C" __global__ void busy(long long clocks, int* out) {
    const long long start = clock64();
    while (clock64() - start < clocks) {}
    if (threadIdx.x == 0) out[blockIdx.x] = 1;
}
"""


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def launches(request):
    """Two products of different sizes with their right results, each launched alone first."""
    import cupy

    rung, defines = request.param
    kernel = load(rung, "cuda", defines=defines)
    found = []
    for seed, (m, n, k) in enumerate([(4096, 4096, 4096), (2056, 3080, 6152)]):
        A, B = random_matrix(m, k, seed, "cuda"), random_matrix(k, n, seed + 9, "cuda")
        expected = to_host(kernel(A, B)).view(np.uint16)
        C = cupy.zeros((m, n), np.uint16).view(A.dtype)
        found.append((kernel.prepared(A, B, C), C, expected))
    gpu.synchronize()
    return found


@pytest.mark.hopper
def test_two_streams_at_once(launches):
    """Clusters of two launches count at the same checkpoints, and have the SMs in turn."""
    import cupy

    streams = [cupy.cuda.Stream(non_blocking=True) for _ in launches]
    for _ in range(50):
        for stream, (launch, _, _) in zip(streams, launches, strict=True):
            with stream:
                launch()
    cupy.cuda.Device().synchronize()
    for _, C, expected in launches:
        assert (to_host(C).view(np.uint16) == expected).all()


@pytest.mark.hopper
@pytest.mark.parametrize("blocks", [1, 60, 131])
def test_beside_a_kernel_that_takes_sms_away(launches, blocks):
    """Some clusters begin only when others have ended."""
    import cupy

    busy = cupy.RawKernel(LONG, "busy")
    busy.max_dynamic_shared_size_bytes = 200 * 1024   # nothing fits beside it
    out, other = cupy.zeros(blocks, np.int32), cupy.cuda.Stream(non_blocking=True)
    for launch, C, expected in launches:
        C.view(np.uint16)[...] = 0
        gpu.synchronize()
        with other:
            busy((blocks,), (32,), (np.int64(100_000_000), out), shared_mem=200 * 1024)
        launch()
        cupy.cuda.Device().synchronize()
        assert (to_host(C).view(np.uint16) == expected).all() and out.all()
