"""How fast a kernel is, beside cuBLAS in the same minutes on the same arrays; or the recording of it.

On a GPU that can run the rung `benchmark` measures; elsewhere it returns the recorded measurement of this very code.
A kernel whose result is wrong is refused: it is never timed.

burst      1 s of rest, a spin kernel behind which all launches are queued, then up to 16 launches between two events;
           9 rounds, kernel and cuBLAS in turn, their order swapped each round. Launches of a slow kernel are fewer, so
           that a burst stays below 40 ms: after that the power cap lowers the clock, and it would be no burst.
sustained  3 s back to back, in turn, the first 0.6 s of each turn dropped; 6 rounds. The chip is power-capped here.

Every sample is kept. The headline is the ratio: per round cuBLAS's time over the kernel's, of these the median, with a
95% interval by order statistics (helpers.intervals). Method is part of the figure, so it stands in the measurement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from helpers import cuda, device, gpu
from helpers.arguments import check_sizes
from helpers.arrays import empty_matrix, random_matrix
from helpers.cublas import CublasLt
from helpers.cublas import version as cublas_version
from helpers.device import Telemetry
from helpers.errors import ArgumentError, BackendError, CourseError, NoRecording
from helpers.intervals import median
from helpers.jsonfile import display
from helpers.kernel import Kernel, load
from helpers.records import REGIMES, Measurement, Samples, find_record, size_name
from helpers.rungs import Rung
from helpers.timing import CudaTimer, Launch, Timer
from helpers.verify import FILLING, check, verify

BURST_ROUNDS, SUSTAINED_ROUNDS = 9, 6
BURST_LAUNCHES = 16
BURST_LIMIT_MS = 40.0
SPIN_MS = 0.3
LONGEST_SPIN_MS = 5.0
DROP_S = 0.6
CHUNK_MS = 50.0

Progress = Callable[[str], None]


class BenchmarkRefused(CourseError):
    """The kernel's result is wrong at this size, so there is no time for it. The message says what is wrong."""


@dataclass(frozen=True)
class Contender:
    """Something that computes C = A @ B into an array of its own. launch: queues it once. C: where the result lies."""

    name: str
    launch: Launch
    C: Any


@dataclass(frozen=True)
class Rounds:
    """What the rounds gave: samples, every NVML reading while the kernel ran, and the method in numbers."""

    samples: Samples
    telemetry: tuple[Telemetry, ...]
    method: dict[str, Any]


class Bench:
    """Keeps what several measurements share: the timer, the cuBLAS handle, and the matrices of one size.

    Use it as a context manager when you measure more than once. Raises BackendError without a GPU or without cuBLAS.
    """

    def __init__(self, timer: Timer | None = None, cublas: Any = None) -> None:
        self.timer = timer if timer is not None else CudaTimer()
        self.cublas = cublas if cublas is not None else CublasLt()
        self._operands: tuple[tuple[int, int, int, int], Any, Any] | None = None
        self._verified: set[tuple[str, str]] = set()

    def require_verified(self, kernel: Kernel) -> None:
        """Verify a kernel on its rung's default sizes, once. Raises BenchmarkRefused if it fails."""
        key = (kernel.entry, kernel.code_hash)
        if key in self._verified:
            return
        outcome = verify(kernel)
        if not outcome.passed:
            raise BenchmarkRefused(
                f"{kernel.rung.name}.{kernel.entry} fails verification at {size_name(outcome.m, outcome.n, outcome.k)} "
                f"({outcome.reason.rstrip('.')}), so it gets no time: correct it, and run `python -m helpers verify "
                f"{kernel.rung.number}`."
            )
        self._verified.add(key)

    def operands(self, m: int, n: int, k: int, seed: int) -> tuple[Any, Any]:
        """A [M,K] and B [K,N] of N(0,1) values on the GPU; made once per size and seed."""
        key = (m, n, k, seed)
        if self._operands is None or self._operands[0] != key:
            self._operands = None   # free the old ones first
            self._operands = (key, random_matrix(m, k, seed, "cuda"), random_matrix(k, n, seed + 1, "cuda"))
        return self._operands[1], self._operands[2]

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release cuBLAS and the matrices."""
        self._operands = None
        self.cublas.close()


def benchmark(
    kernel: Kernel | Rung | str | int,
    size: int | tuple[int, int, int] = 4096,
    regime: str = "burst",
    entry: str | None = None,
    *,
    defines: Mapping[str, str | int] | None = None,
    rounds: int | None = None,
    rest_s: float = 1.0,
    turn_s: float = 3.0,
    seed: int = 0,
    bench: Bench | None = None,
    directory: Path | None = None,
) -> Measurement:
    """Measure a kernel against cuBLAS, or return the recording of this very code (see `.source`).

    kernel: a loaded Kernel, or a rung, whose `entry` and `defines` are then loaded. size: N for a cube, or (M, N, K).
    regime: 'burst' or 'sustained'. rounds: 9 for a burst, 6 sustained. rest_s: before each burst, seconds.
    turn_s: length of a sustained turn, seconds. seed: of A; B's is one higher. bench: what several measurements share.
    directory: of the recordings, helpers/records by default.
    A burst measurement takes about 2 x rounds x (rest + 0.04) seconds.
    Raises BenchmarkRefused if the result is wrong, RecordError if there is no GPU and no recording of this code,
    BackendError if cuBLAS is missing, and ArgumentError for arguments that don't fit.
    """
    m, n, k = shape(size)
    check_options(regime, rounds, rest_s, turn_s)
    if isinstance(kernel, Kernel):
        if entry not in (None, kernel.entry) or (defines is not None and dict(defines) != kernel.defines):
            raise ArgumentError(
                f"kernel is loaded with entry {kernel.entry!r} and defines {kernel.defines}, which differ from the "
                "arguments: load it with those you want, load(rung, entry=..., defines=...)."
            )
    else:
        kernel = load(kernel, entry=entry, defines=defines)
    check_sizes(kernel.rung, m, n, k)
    if kernel.backend != "cuda":
        return recorded(kernel, (m, n, k), regime, directory)
    rounds = rounds or (BURST_ROUNDS if regime == "burst" else SUSTAINED_ROUNDS)
    if bench is not None:
        return measure(bench, kernel, (m, n, k), regime, rounds, rest_s, turn_s, seed)
    with Bench() as own:
        return measure(own, kernel, (m, n, k), regime, rounds, rest_s, turn_s, seed)


def recorded(
    kernel: Kernel, size: tuple[int, int, int], regime: str, directory: Path | None = None
) -> Measurement:
    """The newest recording of this very code at this size. Raises NoRecording if there is none."""
    m, n, k = size
    wanted = {"regime": regime, "entry": kernel.entry, "defines": kernel.defines, "directory": directory}
    found = find_record(kernel.rung, m, n, k, code_hash=kernel.code_hash, **wanted)
    if found is not None:
        return replace(found, source="recorded", stale=False)
    other = find_record(kernel.rung, m, n, k, **wanted)
    why = "what was recorded is other code" if other else "nothing was recorded for this size and regime"
    raise NoRecording(
        f"There is no recording for this code ({display(kernel.path)}, {kernel.entry}, N = {size_name(m, n, k)}, "
        f"{regime}): {why}; measure it on a GPU with `python -m helpers bench {kernel.rung.number}`, or take the code "
        "and the size of a recording."
    )


def measure(
    bench: Bench,
    kernel: Kernel,
    size: tuple[int, int, int],
    regime: str,
    rounds: int,
    rest_s: float = 1.0,
    turn_s: float = 3.0,
    seed: int = 0,
) -> Measurement:
    """Measure a kernel that is loaded on the GPU.

    It is verified on its rung's sizes first; then its result and cuBLAS's, at this very size, are checked before and
    after they are timed. Raises BenchmarkRefused if one of them is wrong.
    """
    m, n, k = size
    bench.require_verified(kernel)
    A, B = bench.operands(m, n, k, seed)
    own_C, cublas_C = empty_matrix(m, n, "cuda"), empty_matrix(m, n, "cuda")
    plan = bench.cublas.plan(A, B, cublas_C)
    try:
        ours = Contender(f"{kernel.rung.name}.{kernel.entry}", lambda: kernel(A, B, out=own_C), own_C)
        theirs = Contender("cuBLAS", plan, cublas_C)
        for contender in (ours, theirs):
            contender.C.view(np.uint16).fill(FILLING)   # a NaN that no computation makes
            contender.launch()
            require_right(contender, A, B, "before it was timed")
        if regime == "burst":
            result = burst_rounds(bench.timer, ours.launch, theirs.launch, rounds, rest_s)
        else:
            result = sustained_rounds(bench.timer, ours.launch, theirs.launch, rounds, turn_s)
        for contender in (ours, theirs):
            require_right(contender, A, B, "after it was timed")
        cublas_method = {
            "cublas_algorithm": dict(plan.algorithm),
            "cublas_workspace_bytes": plan.workspace_bytes,
            "cublas_waves": plan.waves,
        }
    finally:
        plan.close()
    power, temperature, reasons, notes = summarize(result.telemetry)
    clocks = [clock for clock in result.samples.kernel_clock_mhz if clock is not None]
    info = device.device_info()
    if info is None:
        raise BackendError(f"The GPU went away while it was measured: {device.no_device_reason()}")
    return Measurement(
        rung=kernel.rung.name,
        entry=kernel.entry,
        code_hash=kernel.code_hash,
        defines=kernel.defines,
        dtype="bfloat16",
        device=info,
        toolkit=toolkit(),
        m=m,
        n=n,
        k=k,
        regime=regime,
        method={**result.method, "inputs": "N(0,1)", "seed": seed, **cublas_method},
        samples=result.samples,
        sm_clock_mhz=median(clocks) if clocks else None,
        power_w=power,
        temperature_c=temperature,
        throttle_reasons=reasons,
        date=device.now(),
        notes=notes,
        source="live",
    )


def burst_rounds(timer: Timer, kernel: Launch, cublas: Launch, rounds: int, rest_s: float = 1.0) -> Rounds:
    """Bursts in turn, the order swapped each round. Needs no GPU itself: `timer` does the timing."""
    launches, spin_ms = {}, SPIN_MS
    for name, launch in (("kernel", kernel), ("cublas", cublas)):
        single = timer.burst(launch, 1, 0.0, SPIN_MS)
        launches[name] = launch_count(single.ms)
        warm = timer.burst(launch, launches[name], 0.0, SPIN_MS)   # warms up, and shows how long queueing takes
        if launches[name] > 1:
            launches[name] = min(launches[name], launch_count(warm.ms))
        spin_ms = max(spin_ms, spin_for(warm.queue_ms))
    samples: dict[str, list] = {"kernel": [], "cublas": []}
    clocks: dict[str, list] = {"kernel": [], "cublas": []}
    telemetry, queue_ms, hidden = [], 0.0, True
    for index in range(rounds):
        order = (("kernel", kernel), ("cublas", cublas))
        for name, launch in order if index % 2 == 0 else order[::-1]:
            burst = timer.burst(launch, launches[name], rest_s, spin_ms)
            samples[name].append((burst.ms,))
            clocks[name].append(burst.sm_clock_mhz)
            queue_ms = max(queue_ms, burst.queue_ms)
            hidden &= burst.queue_ms < spin_ms + (launches[name] - 1) * burst.ms   # queued before the last one's turn
            if name == "kernel":
                telemetry.append(burst.telemetry)
    method = {
        "rounds": rounds,
        "rest_s": rest_s,
        "spin_ms": spin_ms,
        "kernel_launches": launches["kernel"],
        "cublas_launches": launches["cublas"],
        "longest_queue_ms": round(queue_ms, 3),
        "launches_hidden": hidden,
        "order": "in turn, swapped each round",
    }
    return Rounds(
        Samples(*(tuple(part[name]) for part in (samples, clocks) for name in ("kernel", "cublas"))),
        tuple(telemetry),
        method,
    )


def sustained_rounds(timer: Timer, kernel: Launch, cublas: Launch, rounds: int, turn_s: float = 3.0) -> Rounds:
    """Turns of back-to-back launches, the order swapped each round. A sample is the mean of a chunk of about 50 ms."""
    chunk = {}
    for name, launch in (("kernel", kernel), ("cublas", cublas)):
        timer.burst(launch, 1, 0.0, SPIN_MS)
        chunk[name] = max(1, round(CHUNK_MS / timer.burst(launch, 1, 0.0, SPIN_MS).ms))
    drop_s = min(DROP_S, turn_s / 3)
    samples: dict[str, list] = {"kernel": [], "cublas": []}
    clocks: dict[str, list] = {"kernel": [], "cublas": []}
    telemetry: list[Telemetry] = []
    for index in range(rounds):
        order = (("kernel", kernel), ("cublas", cublas))
        for name, launch in order if index % 2 == 0 else order[::-1]:
            turn = timer.turn(launch, turn_s, drop_s, chunk[name])
            samples[name].append(turn.samples_ms)
            clocks[name].append(median(turn.clocks_mhz) if turn.clocks_mhz else None)
            if name == "kernel":
                telemetry.extend(turn.telemetry)
    method = {
        "rounds": rounds,
        "turn_s": turn_s,
        "dropped_s": drop_s,
        "kernel_launches_per_sample": chunk["kernel"],
        "cublas_launches_per_sample": chunk["cublas"],
        "order": "in turn, swapped each round",
    }
    return Rounds(
        Samples(*(tuple(part[name]) for part in (samples, clocks) for name in ("kernel", "cublas"))),
        tuple(telemetry),
        method,
    )


def launch_count(ms: float) -> int:
    """Launches of a burst for a kernel of `ms` milliseconds: 16, or as many as stay below 40 ms, at least one."""
    return max(1, min(BURST_LAUNCHES, int(BURST_LIMIT_MS / ms))) if ms > 0 else BURST_LAUNCHES


def spin_for(queue_ms: float) -> float:
    """Length of the spin, ms: half as long again as queueing took, at least 0.3, at most 5, in steps of 0.1."""
    return min(LONGEST_SPIN_MS, max(SPIN_MS, round(-(-queue_ms * 15 // 1) / 10, 1)))


def require_right(contender: Contender, A: Any, B: Any, when: str) -> None:
    """Raises BenchmarkRefused, saying what is wrong, if the contender's C is not A @ B (fp32 reference)."""
    gpu.synchronize()
    result = check(contender.C, A, B)
    if not result.passed:
        reason = str(result.reason).rstrip(".")
        raise BenchmarkRefused(
            f"{contender.name} gives a wrong result at {size_name(A.shape[0], B.shape[1], A.shape[1])} {when} "
            f"({reason}), so it gets no time: run `python -m helpers verify` to see where it goes wrong."
        )


def summarize(
    telemetry: Sequence[Telemetry],
) -> tuple[float | None, float | None, tuple[str, ...] | None, tuple[str, ...]]:
    """Highest power (W) and temperature (C), all throttle reasons, and why anything is missing."""
    power = [reading.power_w for reading in telemetry if reading.power_w is not None]
    temperature = [reading.temperature_c for reading in telemetry if reading.temperature_c is not None]
    reasons = [reading.throttle_reasons for reading in telemetry if reading.throttle_reasons is not None]
    notes = sorted({reading.reason for reading in telemetry if reading.reason})
    return (
        max(power, default=None),
        max(temperature, default=None),
        tuple(sorted({name for names in reasons for name in names})) if reasons else None,
        tuple(notes),
    )


def toolkit() -> dict[str, str | None]:
    """Versions of what made and timed the code."""
    import cupy

    return {"nvrtc": cuda.nvrtc_version(), "cublas": cublas_version(), "cupy": cupy.__version__}


def shape(size: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """(M, N, K) of a size. Raises ArgumentError for anything but a positive integer or three of them."""
    sizes = (size,) * 3 if isinstance(size, int) and not isinstance(size, bool) else size
    fits = isinstance(sizes, tuple | list) and len(sizes) == 3
    if not fits or not all(isinstance(item, int) and not isinstance(item, bool) and item >= 1 for item in sizes):
        raise ArgumentError(f"size is {size!r}: give N for M = N = K, or a tuple (M, N, K) of positive integers.")
    m, n, k = sizes
    return m, n, k


def check_options(regime: str, rounds: int | None, rest_s: float, turn_s: float) -> None:
    """Raises ArgumentError for a regime or a number that makes no measurement."""
    if regime not in REGIMES:
        raise ArgumentError(f"regime {regime!r} is not known: give 'burst' or 'sustained'.")
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1):
        raise ArgumentError(f"rounds is {rounds!r}: it must be an integer of at least 1 (9 give a 95% interval).")
    if not _is_real(rest_s) or not 0 <= rest_s <= 60:
        raise ArgumentError(f"rest_s is {rest_s!r}: it must be a number of seconds from 0 to 60.")
    if not _is_real(turn_s) or not 0.1 <= turn_s <= 600:
        raise ArgumentError(f"turn_s is {turn_s!r}: it must be a number of seconds from 0.1 to 600.")


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
