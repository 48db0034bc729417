"""Rung 10's clusters keep pace along K: no result depends on it, and nobody waits without end."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from helpers import gpu
from helpers.arrays import random_matrix, to_host
from helpers.backends import EmulatedKernel, EmulatorBackend
from helpers.emulator import EmulatorRun
from helpers.kernel import Kernel, load
from helpers.rungs import Rung, find_rung, in_clusters_of_four
from helpers.variants import variant
from helpers.verify import verify, verify_all

RUNG = find_rung(10)
FOUR, IN_FOURS = in_clusters_of_four(RUNG)
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
    ("if (keeps_pace && first == 0) {", "if (false) {"),
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


def product_bits(rung: Rung, given, defines, backend, file=None):
    """The bits of C. Raises KernelFault if the emulator has anything to report."""
    kernel = Kernel(rung, backend, rung.entry, {**STAGES, **defines}, file or rung.path)
    return kernel(*given).view(np.uint16)


def steps_of_clusters(rung: Rung, size, sms):
    """How many steps each cluster loads."""
    (ctas,) = rung.grid(*size[:2], sms)
    clusters, rows = ctas // rung.cluster, 128 * rung.cluster
    tiles = -(-size[0] // rows) * -(-size[1] // 256)
    return [len(range(first, tiles, clusters)) * -(-size[2] // 64) for first in range(clusters)]


def test_the_sizes_pass_several_checkpoints_and_leave_a_cluster_without_a_tile():
    found = [steps_of_clusters(rung, size, sms) for rung in (RUNG, FOUR) for size, sms in SIZES]
    assert all(min(steps) > 3 * CHECKPOINT for steps in found)
    assert found[1] == [136, 136, 136, 102] and found[4] == [170, 136] and found[0] == [68] * 3


@pytest.mark.compiler
@EACH_SIZE
@pytest.mark.parametrize("kind", ["integers", "random"])
def test_no_bit_depends_on_pace(size, sms, kind):
    """Nor on the cluster's size, where sums are exact: every second tile of a cluster walks K backwards."""
    given = operands(size, kind)
    settings = [("lazy", 1), ("eager", 4), ("random", 2), ("random", 4), ("random", 1)]
    for rung, defines in ((RUNG, {}), (FOUR, IN_FOURS)):
        if rung is RUNG or kind == "random":
            backend = EmulatorBackend(counters=False, sms=sms)
            expected = product_bits(rung, given, {**defines, "PACE": 0}, backend)
        for seed, (schedule, workers) in enumerate(settings):
            backend = Patient(schedule=schedule, seed=seed, counters=workers == 2, sms=sms, workers=workers)
            assert (product_bits(rung, given, {**defines, "PACE": 1}, backend) == expected).all()


@pytest.mark.compiler
@EACH_SIZE
def test_as_many_clusters_are_awaited_as_come(size, sms):
    """Whoever waited for one more would wait without end here."""
    given = operands(size, "random")
    for rung, defines in ((RUNG, {}), (FOUR, IN_FOURS)):
        clusters = len(steps_of_clusters(rung, size, sms))
        backend = Patient(counters=False, sms=sms, workers=clusters)
        name = f"patient_{rung.cluster}_{size[0]}"
        file = variant(10, *WITHOUT_END, ("#define PACE 1", f"#define PACE 1   // {name}"), name=name)
        expected = product_bits(rung, given, {**defines, "PACE": 0}, backend)
        assert (product_bits(rung, given, defines, backend, file) == expected).all()


@pytest.mark.compiler
def test_clusters_of_four_are_right():
    for outcome in verify_all(load(FOUR, "emulator", defines=IN_FOURS)):
        assert outcome.passed, outcome.reason


@pytest.mark.compiler
@pytest.mark.parametrize("defines", RUNG.ablations, ids=str)
def test_clusters_of_four_are_right_with_a_part_taken_away_too(defines):
    outcome = verify(load(FOUR, "emulator", defines={**IN_FOURS, **STAGES, **defines}), (1032, 264, 328))
    assert outcome.passed, outcome.reason


# On a GPU


LONG = """
extern "C" __global__ void busy(long long clocks, int* out) {
    const long long start = clock64();
    while (clock64() - start < clocks) {}
    if (threadIdx.x == 0) out[blockIdx.x] = 1;
}
"""


@pytest.fixture(params=[(RUNG, {}), (FOUR, IN_FOURS)], ids=["two", "four"])
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
