"""Clusters keep pace along K, in rung 10 and in two kernels of the appendix: no result depends on it, and nobody waits
without end.
"""

import re
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np
import pytest

from helpers import gpu
from helpers.arrays import random_matrix, to_host
from helpers.backends import EmulatedKernel, EmulatorBackend
from helpers.emulator import EmulatorRun
from helpers.kernel import Kernel, load
from helpers.launches import TileOrders
from helpers.noting import NotingKernel
from helpers.rungs import PARTITIONS, Rung, find_rung, fitted_tiles, in_clusters_of_four
from helpers.variants import variant
from helpers.verify import verify, verify_all

RUNG = find_rung(10)
FOUR, IN_FOURS = in_clusters_of_four(RUNG)
ALONE = {"MULTICAST": 0}   # each CTA keeps pace by itself
VARIANTS = {
    "two": (RUNG, {}),
    "four": (FOUR, IN_FOURS),
    "two, alone": (RUNG, ALONE),
    "four, alone": (FOUR, {**IN_FOURS, **ALONE}),
    "192 rows": fitted_tiles(192, stages=2),
    "224 rows": fitted_tiles(224, stages=2),
    "by partitions": (PARTITIONS, {}),
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
    ("for (int i = 0; i < CHECKPOINTS; ++i) st_relaxed_gpu(&arrived[i], 0);", ";"),
)


@dataclass(frozen=True)
class Patient(EmulatorBackend):
    """The emulator with so many clusters at a time. Threads may look as often as they like."""

    workers: int = 1

    def launch(
        self, compiled: EmulatedKernel, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> EmulatorRun:
        options = {"schedule": self.schedule, "seed": self.seed, "dependent": True, "sms": self.sms}
        limits = {"step_limit": 4_000_000_000, "time_limit": 60.0, "workers": self.workers}
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


def noting(rung: Rung) -> tuple[tuple[str, str], ...]:
    """The edits with which the kernel notes how often each CTA has waited, for how many in all, how often it clears."""
    found = re.search(r"(keep_pace\(loaded / PACE_STEPS, (.+), (\w+ == 0|clears)\));", rung.path.read_text())
    call, expected, clears = found.groups()
    notes = "int* own = notes + 3 * blockIdx.x"
    return (
        ("int M, int N, int K) {", "int M, int N, int K, int* notes) {"),
        (call, f"[&] {{ {notes}; ++own[0], own[1] += {expected}, own[2] += {clears}; return {call}; }}()"),
    )


def unpaced_bits(rung: Rung, given, defines, sms):
    """The bits of C where no cluster waits for another one."""
    file, backend = rung.path, EmulatorBackend(counters=False, sms=sms)
    if rung.number == RUNG.number:
        defines = {**defines, "PACE": 0}
    else:
        file = variant(rung, ("keeps_pace = rank == 0;", "keeps_pace = false;"), name=f"unpaced_{rung.number}")
    return Kernel(rung, backend, rung.entry, {**STAGES, **defines}, file)(*given).view(np.uint16)


def steps_of_clusters(rung: Rung, size, sms):
    """How many steps each cluster loads."""
    (ctas,) = rung.grid(*size[:2], sms)
    clusters = ctas // rung.cluster
    tiles = prod(rung.tiles(*size[:2]))
    return [len(range(first, tiles, clusters)) * -(-size[2] // 64) for first in range(clusters)]


def test_the_sizes_pass_several_checkpoints_and_leave_a_cluster_without_a_tile():
    found = {name: [steps_of_clusters(rung, size, sms) for size, sms in SIZES] for name, (rung, _) in VARIANTS.items()}
    assert all(min(steps) > 3 * CHECKPOINT for by_size in found.values() for steps in by_size)
    assert found["two"][:2] == [[68] * 3, [136, 136, 136, 102]] and found["four"][1] == [170, 136]
    assert found["192 rows"][:2] == [[85, 85, 68], [170, 170, 136, 136]]


@pytest.mark.compiler
@EACH_SIZE
@EACH_VARIANT
def test_no_bit_depends_on_pace(rung, defines, size, sms):
    given = operands(size, "random")
    expected = unpaced_bits(rung, given, defines, sms)
    settings = [("lazy", 1), ("eager", 4), ("random", 2), ("random", 4)]
    for seed, (schedule, workers) in enumerate(settings):
        backend = Patient(schedule=schedule, seed=seed, counters=workers == 2, sms=sms, workers=workers)
        assert (product_bits(rung, given, defines, backend) == expected).all()


@pytest.mark.compiler
@EACH_SIZE
def test_no_bit_depends_on_the_tile_or_the_cluster_where_sums_are_exact(size, sms):
    """Others may differ: every second tile of a cluster walks K backwards."""
    given = operands(size, "integers")
    expected = unpaced_bits(RUNG, given, {}, sms)
    for seed, (rung, defines) in enumerate(VARIANTS.values()):
        backend = Patient(schedule="random", seed=seed, counters=False, sms=sms, workers=1 + seed % 4)
        assert (product_bits(rung, given, defines, backend) == expected).all()


@pytest.mark.compiler
@EACH_SIZE
@EACH_VARIANT
def test_all_that_keep_pace_wait_for_as_many_as_come(rung, defines, size, sms, monkeypatch):
    """Whoever waited for one more would wait without end here. By multicast the others go along with the first CTA."""
    # The first cluster alone is near partition 1: it draws the last number, and has no tile where one goes without.
    monkeypatch.setattr(TileOrders, "partition_of", lambda self, ctas: np.int32([1, 1, *[0] * (ctas - 2)]))
    steps = steps_of_clusters(rung, size, sms)
    alone = defines.get("MULTICAST") == 0
    name = f"patient_{rung.number}_{rung.tile[0]}_{rung.cluster}_{alone}_{size[0]}"   # of a library that begins with 0
    own = ("constexpr int PACE_TRIES = 50;", f"constexpr int PACE_TRIES = 50;   // {name}")
    file = variant(rung, *WITHOUT_END, *noting(rung), own, name=name)
    backend = Patient(counters=False, sms=sms, workers=len(steps))
    kernel = NotingKernel(rung, backend, file, 3 * len(steps) * rung.cluster, {**STAGES, **defines})
    given = operands(size, "random")
    assert (kernel(*given).view(np.uint16) == unpaced_bits(rung, given, defines, sms)).all()

    checkpoints = [count // CHECKPOINT for count in steps]
    ranks = rung.cluster if alone else 1   # that keep pace
    come = [ranks * sum(last >= checkpoint for last in checkpoints) for checkpoint in range(1, max(checkpoints))]
    wanted = [(last, sum(come[: last - 1])) if rank < ranks else (0, 0)
              for last in checkpoints for rank in range(rung.cluster)]
    waits, expected, clears = np.reshape(kernel.notes[: 3 * len(steps) * rung.cluster], (-1, 3)).T.tolist()
    assert sum(clears) == max(checkpoints)   # at each checkpoint one of them, also where some have no tile
    found = list(zip(waits, expected, strict=True))
    if rung.partitions:   # whoever draws the last number has no tile in the last round
        found, wanted = sorted(found), sorted(wanted)
    assert found == wanted


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
