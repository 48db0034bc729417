"""How a shape is measured beside the best that cuBLAS proposes, with matrices that come from HBM.

In a model each layer has weights of its own, so that they are not in L2 when their turn comes. Here there are several
copies of A and B, together at least four times as large as L2. All contenders take them in one common turn: each launch
finds the copy that nobody has used for longest. Matrices that are that large by themselves have one copy.

Of cuBLAS's list (up to eight algorithms) each is tried in one burst. Then bursts as in helpers.benchmark: ours, the
first of the list, and the one that was fastest, in turn; what is compared with is the faster of the two. Short launches
go in groups of about half a millisecond, each a CUDA graph, as in programs that generate text: the CPU would take
longer to queue them one by one than the GPU to run them. Values are N(0,1), all cut from one pool, so that making them
takes no minutes. Every copy of every contender's C is checked, before it is timed and after.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers import device
from helpers.arrays import empty_matrix, random_matrix
from helpers.benchmark import Bench, Contender, launch_first, measurement_of, require_right
from helpers.choice import Choice
from helpers.errors import BackendError
from helpers.intervals import median
from helpers.kernel import Kernel
from helpers.models.machine import H200
from helpers.records import Samples
from helpers.rounds import SPIN_MS, Rounds, burst_together, launch_count
from helpers.shape_records import Limits, Proposal, ShapeSpeed, product_bytes, work_of
from helpers.timing import Launch, Timer
from helpers.verify import FILLING

L2_TIMES = 4
PROPOSALS = 8
POOL_VALUES = 33_554_467        # a prime: rows of a matrix begin at ever new places of the pool
GROUP_MS, MOST_IN_GROUP = 0.5, 64
DATASHEET = Limits(H200.dense_tflops, H200.hbm_bandwidth / 1e9)
LAUNCH_MS = 0.005               # what even the smallest product takes, roughly
SHORT_REST_S, REST_S, RESTS = 0.05, 0.2, 10   # a rest before a burst, ten times as long as it, within these limits
TRIAL_MS = 5.0                  # of a burst in which a proposal is tried, at most, or a single launch
EFFICIENCY, OVERHEAD_S, START_S = 0.7, 0.7, 15.0   # guesses for the estimate: of the bounds, of a shape, of the program


class Rotation:
    """Which copies are next, for all contenders together. group: launches that are queued in one; copies: at least so
    many, and as many more as whole groups take.
    """

    def __init__(self, copies: int, group: int = 1) -> None:
        if copies < group:
            self.copies, self.group = copies, group - group % copies
        else:
            self.copies, self.group = copies + -copies % group, group
        self._groups, self._next = max(1, self.copies // self.group), 0

    def launch(self, launches: Sequence[Launch], timer: Timer) -> Launch:
        """Queues a group of a contender's launches, each on the next copy. launches: one for each copy.

        Where a group has several they are a CUDA graph, so each must have been launched before.
        """
        places = [range(index * self.group, (index + 1) * self.group) for index in range(self._groups)]
        sequences = [[launches[place % self.copies] for place in group] for group in places]
        groups = [timer.captured(some) if len(some) > 1 else some[0] for some in sequences]

        def queue() -> None:
            groups[self._next]()
            self._next = (self._next + 1) % self._groups

        return queue


@dataclass(frozen=True)
class Rotated:
    """A contender on each of the copies."""

    name: str
    launches: tuple[Launch, ...]
    outputs: tuple[Any, ...]

    def launch_first(self, operands: Sequence[tuple[Any, Any]]) -> None:
        """Launch it once on each copy, over a C that holds a NaN. Raises BenchmarkRefused if one is then wrong."""
        first, *others = (
            Contender(self.name, launch, C) for launch, C in zip(self.launches, self.outputs, strict=True)
        )
        launch_first(first, *operands[0])
        for other in others:
            other.C.view(np.uint16).fill(FILLING)
            other.launch()
        self.require_right(operands, first.C, "before it was timed")

    def require_right(self, operands: Sequence[tuple[Any, Any]], right: Any, when: str) -> None:
        """Raises BenchmarkRefused if a C is wrong. right: one that is right; another one with its bits is, too."""
        for launch, C, (A, B) in zip(self.launches, self.outputs, operands, strict=True):
            if not bool((C.view(np.uint16) == right.view(np.uint16)).all()):
                require_right(Contender(self.name, launch, C), A, B, when)


def value_pool(values: int = POOL_VALUES) -> Any:
    """Values of N(0,1) on the GPU, bf16 (1, values)."""
    return random_matrix(1, values, 0, "cuda")


def cut(pool: Any, rows: int, columns: int, first: int) -> Any:
    """A bf16 matrix (rows, columns) of the pool's values from number `first` on; behind its end it begins again."""
    matrix = empty_matrix(rows, columns, "cuda")
    source, target = pool.reshape(-1).view(np.uint16), matrix.reshape(-1).view(np.uint16)
    done = 0
    while done < target.size:
        begin = (first + done) % source.size
        count = min(source.size - begin, target.size - done)
        target[done : done + count] = source[begin : begin + count]
        done += count
    return matrix


def copies_for(m: int, n: int, k: int, l2_bytes: int) -> int:
    """Copies of A, B and C that are together at least four times as large as L2."""
    return -(-L2_TIMES * l2_bytes // product_bytes(m, n, k))


def group_for(m: int, n: int, k: int) -> int:
    """Launches that are queued in one: about half a millisecond of them, by what an H200 takes at least."""
    return max(1, min(MOST_IN_GROUP, int(GROUP_MS / (LAUNCH_MS + DATASHEET.ms(m, n, k)))))


def measure_shape(
    bench: Bench,
    kernel: Kernel,
    choice: Choice,
    size: tuple[int, int, int],
    pool: Any,
    rounds: int,
    disturbance: str = "",
) -> ShapeSpeed:
    """Measure what was chosen for a shape beside cuBLAS. kernel: the choice's, on the GPU. pool: see `value_pool`.

    disturbance: what the timer said of other processes. Waits while another reader measures on this GPU.
    Raises BenchmarkRefused if a result is wrong.
    """
    info = device.require_device("Shapes can only be measured on a GPU")
    if not info.l2_bytes:
        raise BackendError(f"The size of L2 of {info.name} is not known: update the driver.")
    rotation = Rotation(copies_for(*size, info.l2_bytes), group_for(*size))
    with bench.alone():
        operands = _operands(pool, size, rotation.copies)
        ours = _rotated(choice.name, kernel.prepared, operands)
        trial_C = empty_matrix(*size[:2], "cuda")
        plans = bench.cublas.plans(*operands[0], trial_C, PROPOSALS)
        try:
            trials = [_trial(bench.timer, rotation, [plan.on(A, B, trial_C) for A, B in operands]) for plan in plans]
            places = sorted({0, trials.index(min(trials))})
            theirs = [_rotated(f"cuBLAS's proposal {place}", plans[place].on, operands) for place in places]
            results = _in_turn(bench.timer, rotation, [ours, *theirs], operands, rounds, min(trials))
            algorithms = [dict(plan.algorithm) for plan in plans]
        finally:
            for plan in plans:
                plan.close()
    own, *others = _by_contender(results, rotation.group)
    turns = dict(zip(places, others, strict=True))
    compared = min(turns, key=lambda place: median(turns[place].ms))
    found = replace(
        results[0],
        samples=Samples(
            tuple((ms,) for ms in own.ms), tuple((ms,) for ms in turns[compared].ms), own.clocks_mhz,
            turns[compared].clocks_mhz,
        ),
    )
    method = {
        "kernel_launches": own.launches,
        "cublas_launches": turns[compared].launches,
        "longest_queue_ms": max(result.method["longest_queue_ms"] for result in results),
        "launches_hidden": all(result.method["launches_hidden"] for result in results),
        "launches_in_a_graph": rotation.group,
        "copies": rotation.copies,
        "copied_bytes": rotation.copies * product_bytes(*size),
        "inputs": "N(0,1)",
        "pool_values": int(pool.size),
        "seed": 0,
    }
    proposals = tuple(
        Proposal(place, trial, algorithm, turns[place].ms if place in turns else ())
        for place, (trial, algorithm) in enumerate(zip(trials, algorithms, strict=True))
    )
    measurement = measurement_of(kernel, size, "burst", found, method, disturbance)
    return ShapeSpeed(measurement, choice.name, choice.why, work_of(kernel, *size[:2]), compared, proposals)


def _operands(pool: Any, size: tuple[int, int, int], copies: int) -> list[tuple[Any, Any]]:
    """A and B of a shape, with values of their own, and as many copies of both as there are to be."""
    m, n, k = size
    A, B = cut(pool, m, k, 0), cut(pool, k, n, m * k)
    return [(A, B), *((A.copy(), B.copy()) for _ in range(copies - 1))]


def _rotated(
    name: str, prepare: Callable[[Any, Any, Any], Launch], operands: Sequence[tuple[Any, Any]]
) -> Rotated:
    """A contender that has run once on each of the copies. prepare: makes a launch of A, B and C.

    Raises BenchmarkRefused if a result is wrong.
    """
    outputs = tuple(empty_matrix(A.shape[0], B.shape[1], "cuda") for A, B in operands)
    launches = tuple(prepare(A, B, C) for (A, B), C in zip(operands, outputs, strict=True))
    found = Rotated(name, launches, outputs)
    found.launch_first(operands)
    return found


def _in_turn(
    timer: Timer,
    rotation: Rotation,
    contenders: Sequence[Rotated],
    operands: Sequence[tuple[Any, Any]],
    rounds: int,
    trial_ms: float,
) -> list[Rounds]:
    """The rounds, of groups of launches; their results are checked again. trial_ms: what a launch takes, roughly.

    As of `burst_together`: a result for each contender but the last, which stands as cuBLAS in all of them.
    """
    right = [contender.outputs[0].copy() for contender in contenders]
    *others, last = [rotation.launch(contender.launches, timer) for contender in contenders]
    results = burst_together(timer, others, last, rounds, rest_for(trial_ms * rotation.group))
    for contender, C in zip(contenders, right, strict=True):
        contender.require_right(operands, C, "after it was timed")
    return results


@dataclass(frozen=True)
class _Series:
    """Of one contender, by round: milliseconds of a launch, and the SM clock. launches: of a burst."""

    ms: tuple[float, ...]
    clocks_mhz: tuple[float | None, ...]
    launches: int


def _by_contender(results: Sequence[Rounds], group: int) -> list[_Series]:
    """What `_in_turn` gave, for each contender, by single launches. group: launches that were queued in one."""
    last = results[0]
    found = [
        *((item.samples.kernel_ms, item.samples.kernel_clock_mhz, item.method["kernel_launches"]) for item in results),
        (last.samples.cublas_ms, last.samples.cublas_clock_mhz, last.method["cublas_launches"]),
    ]
    return [
        _Series(tuple(samples[0] / group for samples in ms), clocks, count * group) for ms, clocks, count in found
    ]


def _trial(timer: Timer, rotation: Rotation, launches: Sequence[Launch]) -> float:
    """Milliseconds of a launch, in one burst after a group that warms up. launches: one for each copy."""
    launches[0]()
    launch = rotation.launch(launches, timer)
    ms = timer.burst(launch, 1, 0.0, SPIN_MS).ms
    count = min(launch_count(ms), max(1, int(TRIAL_MS / ms)))
    return timer.burst(launch, count, 0.0, SPIN_MS).ms / rotation.group


def rest_for(group_ms: float) -> float:
    """Seconds of rest before each burst of groups that take so long: the longer it is, the warmer the chip gets."""
    return min(REST_S, max(SHORT_REST_S, RESTS * group_ms * launch_count(group_ms) / 1e3))


def estimate_s(sizes: Sequence[tuple[int, int, int]], rounds: int) -> float:
    """Seconds that some shapes take on an H200, roughly: three contenders, at a fair share of the datasheet's speed."""
    total = START_S
    for size in sizes:
        ms = max(LAUNCH_MS, DATASHEET.ms(*size) / EFFICIENCY) * group_for(*size)
        total += OVERHEAD_S + 3 * rounds * (rest_for(ms) + ms * launch_count(ms) / 1e3)
    return total
