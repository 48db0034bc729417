"""How fast a kernel is, beside cuBLAS in the same minutes on the same arrays; or the recording of it.

On a GPU that can run the rung `benchmark` measures; elsewhere it returns the recorded measurement of this very code.
A kernel whose result is wrong is refused: it is never timed.

burst      1 s of rest, a spin kernel behind which all launches are queued, then up to 16 launches between two events;
           9 rounds, kernel and cuBLAS in turn, their order swapped each round. Launches of a slow kernel are fewer, so
           that a burst stays below 40 ms: after that the power cap lowers the clock, and it would be no burst.
sustained  3 s back to back (CUDA graphs of about 50 ms), in turn, the first 0.6 s of each turn dropped; 6 rounds. The
           chip is power-capped here.
Several kernels can share the rounds, and cuBLAS's turn in each (`measure_together`).

Every sample is kept. The headline is the ratio: per round cuBLAS's time over the kernel's, of these the median, with a
95% interval by order statistics (helpers.intervals). Method is part of the figure, so it stands in the measurement.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from helpers import cuda, device, gpu
from helpers.arguments import check_sizes
from helpers.arrays import empty_matrix, random_matrix
from helpers.checks import is_integer
from helpers.cublas import CublasLt
from helpers.cublas import version as cublas_version
from helpers.errors import ArgumentError, CourseError, NoRecording
from helpers.gpu_lock import gpu_lock
from helpers.intervals import median
from helpers.jsonfile import display
from helpers.kernel import Kernel, load
from helpers.nvml import Telemetry
from helpers.records import Measurement, find_record, require_regime, size_name
from helpers.rounds import Rounds, burst_together, require_rounds, sustained_together
from helpers.rungs import Rung, find_rung
from helpers.timing import CudaTimer, Launch, Timer
from helpers.verify import FILLING, check, verify

BURST_ROUNDS, SUSTAINED_ROUNDS = 9, 6


class BenchmarkRefused(CourseError):
    """The kernel's result is wrong at this size, so there is no time for it. The message says what is wrong."""


@dataclass(frozen=True)
class Contender:
    """Something that computes C = A @ B into an array of its own. launch: queues it once. C: where the result lies."""

    name: str
    launch: Launch
    C: Any


class Bench:
    """Keeps what several measurements share: the timer, the cuBLAS handle, and the matrices of one size.

    Use it as a context manager when you measure more than once. Raises BackendError without a GPU or without cuBLAS.
    """

    def __init__(self, timer: Timer | None = None, cublas: Any = None) -> None:
        self.timer = timer if timer is not None else CudaTimer()
        self.alone = gpu_lock if self.timer.on_gpu else nullcontext   # no other reader measures on this GPU meanwhile
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
                f"{kernel.rung.handle}`."
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
    rounds = int(rounds or default_rounds(regime))
    if bench is not None:
        return measure(bench, kernel, (m, n, k), regime, rounds, rest_s, turn_s, seed)
    with Bench() as own:
        return measure(own, kernel, (m, n, k), regime, rounds, rest_s, turn_s, seed)


def default_rounds(regime: str) -> int:
    """As many as the 95% interval needs: 9 bursts, or 6 sustained turns."""
    return BURST_ROUNDS if regime == "burst" else SUSTAINED_ROUNDS


def recorded(
    kernel: Kernel, size: tuple[int, int, int], regime: str, directory: Path | None = None
) -> Measurement:
    """The newest recording of this very code at this size. Raises NoRecording if there is none."""
    m, n, k = size
    if kernel.rung != find_rung(kernel.rung.handle):   # the same code, with its tiles in another order, say
        raise NoRecording(
            f"There is no recording of {kernel.rung.name} launched in another way than the course's: load it as "
            f"load({kernel.rung.name!r}), or measure it on a GPU."
        )
    wanted = {"regime": regime, "entry": kernel.entry, "defines": kernel.defines, "directory": directory}
    found = find_record(kernel.rung, m, n, k, code_hash=kernel.code_hash, **wanted)
    if found is not None:
        return replace(found, source="recorded", stale=False)
    other = find_record(kernel.rung, m, n, k, **wanted)
    why = "what was recorded is other code" if other else "nothing was recorded for this size and regime"
    raise NoRecording(
        f"There is no recording for this code ({display(kernel.path)}, {kernel.entry}, N = {size_name(m, n, k)}, "
        f"{regime}): {why}; measure it on a GPU with `{_command(kernel, size, regime)}`, or take the code and the size "
        "of a recording."
    )


def _command(kernel: Kernel, size: tuple[int, int, int], regime: str) -> str:
    """What to type to measure this very kernel: a line of the shell, or of Python for what the shell cannot name."""
    if kernel.defines or kernel.path != kernel.rung.path:
        return f"benchmark(kernel, {size}, {regime!r})"
    entry = "" if kernel.entry == kernel.rung.entry else f" --entry {kernel.entry}"
    sustained = " --sustained" if regime == "sustained" else ""
    return f"python -m helpers bench {kernel.rung.handle} --size {size_name(*size)}{entry}{sustained}"


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
    """Measure a kernel that is loaded on the GPU. See `measure_together`."""
    return measure_together(bench, [kernel], size, regime, rounds, rest_s, turn_s, seed)[0]


def measure_together(
    bench: Bench,
    kernels: Sequence[Kernel],
    size: tuple[int, int, int],
    regime: str,
    rounds: int,
    rest_s: float = 1.0,
    turn_s: float = 3.0,
    seed: int = 0,
) -> list[Measurement]:
    """Measure kernels that are loaded on the GPU, all in the same rounds: each has its turn, and cuBLAS one for all.

    Each is verified on its rung's sizes first; then its result and cuBLAS's, at this very size, are checked before and
    after they are timed. Waits while another reader measures on this GPU (helpers.gpu_lock).
    Raises BenchmarkRefused if one of them is wrong, and BackendError if the GPU stays with another reader too long.
    """
    with bench.alone():
        return _measured_together(bench, kernels, size, regime, rounds, rest_s, turn_s, seed)


def _measured_together(
    bench: Bench,
    kernels: Sequence[Kernel],
    size: tuple[int, int, int],
    regime: str,
    rounds: int,
    rest_s: float,
    turn_s: float,
    seed: int,
) -> list[Measurement]:
    m, n, k = size
    disturbance = bench.timer.disturbance()
    for kernel in kernels:
        bench.require_verified(kernel)
    A, B = bench.operands(m, n, k, seed)
    cublas_C = empty_matrix(m, n, "cuda")
    plan = bench.cublas.plan(A, B, cublas_C)
    try:
        ours = [_contender(kernel, A, B) for kernel in kernels]
        theirs = Contender("cuBLAS", plan, cublas_C)
        for contender in (*ours, theirs):
            launch_first(contender, A, B)
        launches = [contender.launch for contender in ours]
        if regime == "burst":
            results = burst_together(bench.timer, launches, theirs.launch, rounds, rest_s)
        else:
            results = sustained_together(bench.timer, launches, theirs.launch, rounds, turn_s)
        for contender in (*ours, theirs):
            require_right(contender, A, B, "after it was timed")
        cublas_method = {
            "cublas_algorithm": dict(plan.algorithm),
            "cublas_workspace_bytes": plan.workspace_bytes,
            "cublas_waves": plan.waves,
        }
    finally:
        plan.close()
    extra = {"inputs": "N(0,1)", "seed": seed, **cublas_method}
    if len(kernels) > 1:
        extra["measured_with"] = [contender.name for contender in ours]
    return [
        measurement_of(kernel, size, regime, result, extra, disturbance)
        for kernel, result in zip(kernels, results, strict=True)
    ]


def _contender(kernel: Kernel, A: Any, B: Any) -> Contender:
    C = empty_matrix(A.shape[0], B.shape[1], "cuda")
    return Contender(f"{kernel.rung.name}.{kernel.entry}", kernel.prepared(A, B, C), C)


def measurement_of(
    kernel: Kernel,
    size: tuple[int, int, int],
    regime: str,
    result: Rounds,
    method: Mapping[str, Any],
    disturbance: str,
) -> Measurement:
    """What the rounds gave of a kernel, with all that was true of it and of the GPU meanwhile.

    method: added to the rounds' own. disturbance: what the timer says of other processes; if it says something, that is
    noted, and the measurement does not suffice (`Measurement.suffices`).
    """
    m, n, k = size
    power, temperature, reasons, missing = summarize(result.telemetry)
    clocks = [clock for clock in result.samples.kernel_clock_mhz if clock is not None]
    return Measurement(
        rung=kernel.rung.name,
        entry=kernel.entry,
        code_hash=kernel.code_hash,
        defines=kernel.defines,
        dtype="bfloat16",
        device=device.require_device("The GPU went away while it was measured"),
        toolkit=toolkit(),
        m=m,
        n=n,
        k=k,
        regime=regime,
        method={**result.method, **method, **({"disturbed": True} if disturbance else {})},
        samples=result.samples,
        sm_clock_mhz=median(clocks) if clocks else None,
        power_w=power,
        temperature_c=temperature,
        throttle_reasons=reasons,
        date=device.now(),
        notes=(*([disturbance] if disturbance else []), *missing),
        source="live",
    )


def launch_first(contender: Contender, A: Any, B: Any) -> None:
    """Launch it over a C that holds a NaN which no computation makes. Raises BenchmarkRefused if C is then wrong."""
    contender.C.view(np.uint16).fill(FILLING)
    contender.launch()
    require_right(contender, A, B, "before it was timed")


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
    sizes = (size,) * 3 if is_integer(size) else size
    fits = isinstance(sizes, tuple | list) and len(sizes) == 3
    if not fits or not all(is_integer(item) and item >= 1 for item in sizes):
        raise ArgumentError(f"size is {size!r}: give N for M = N = K, or a tuple (M, N, K) of positive integers.")
    m, n, k = map(int, sizes)
    return m, n, k


def check_options(regime: str, rounds: int | None, rest_s: float, turn_s: float) -> None:
    """Raises ArgumentError for a regime or a number that makes no measurement."""
    require_regime(regime)
    if rounds is not None:
        require_rounds(rounds)
    if not _is_real(rest_s) or not 0 <= rest_s <= 60:
        raise ArgumentError(f"rest_s is {rest_s!r}: it must be a number of seconds from 0 to 60.")
    if not _is_real(turn_s) or not 0.1 <= turn_s <= 600:
        raise ArgumentError(f"turn_s is {turn_s!r}: it must be a number of seconds from 0.1 to 600.")


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
