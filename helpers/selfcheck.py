"""Checks on a GPU what the tests cannot check without one: that the instruments themselves are right.

    python -m helpers.selfcheck             about a minute; exit code 1 if a check fails

A figure is only as good as its instrument, so: does the spin spin as long as it was told, does the clock probe repeat,
are launches really hidden, is cuBLAS called right (odd shapes too) and no slower than torch, does a copy reach a
plausible bandwidth, and does a wrong kernel get refused?
"""

import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from helpers import device, gpu
from helpers.arrays import empty_matrix, random_matrix
from helpers.benchmark import Bench, BenchmarkRefused, Contender, benchmark, measure, require_right, toolkit
from helpers.cublas_torch import compare, import_torch
from helpers.cuda import code_hash, compile_cubin
from helpers.entry import Parser, guarded
from helpers.errors import CourseError
from helpers.intervals import median
from helpers.kernel import load
from helpers.ncu import find_ncu
from helpers.nvidia_tools import tool_version
from helpers.record import describe
from helpers.records import read_record, write_record
from helpers.rungs import RUNGS
from helpers.verify import check, verify

PINNED_NVRTC = "13.0"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 1 if a check failed or there is no GPU."""
    Parser(prog="python -m helpers.selfcheck", description="Check the instruments on this GPU.").parse_args(arguments)
    return guarded(_check_all)


def _check_all() -> int:
    """Run every check, print a line each, and say how many failed."""
    print(f"code hashes, the same on every machine with the pinned compiler: {_hashes()}", flush=True)
    info = device.require_device("The instruments can only be checked on a GPU")
    failed = 0
    bench = Bench()
    checks: list[tuple[str, Callable[[], str]]] = [
        ("device", lambda: _device(info)),
        ("toolkit", _toolkit),
        ("spin length", lambda: _spin(bench)),
        ("clock probe", lambda: _clock(bench, info)),
        ("telemetry", lambda: str(bench.timer.read_power())),
        ("bandwidth", _bandwidth),
        ("cuBLAS is right", lambda: _cublas_right(bench)),
        ("cuBLAS is fast", lambda: _cublas_fast(bench)),
        ("rungs verify", _rungs),
        ("burst", lambda: _burst(bench)),
        ("sustained", lambda: _sustained(bench)),
        ("slow kernel", lambda: _slow(bench)),
        ("record round trip", lambda: _round_trip(bench)),
        ("wrong result is refused", lambda: _refused(bench)),
        ("ncu", lambda: f"{find_ncu()} {tool_version(find_ncu())}"),
    ]
    for name, run in checks:
        begun = time.perf_counter()
        try:
            detail, state = run(), "ok    "
        except (CourseError, AssertionError) as error:
            detail, state = str(error) or traceback.format_exc(limit=1), "FAILED"
        except Exception:
            detail, state = traceback.format_exc(), "FAILED"
        failed += state == "FAILED"
        print(f"{state} {name} ({time.perf_counter() - begun:.1f} s): {detail}", flush=True)
    bench.close()
    print(f"{len(checks) - failed} of {len(checks)} checks passed")
    return 1 if failed else 0


def _hashes() -> dict[str, str]:
    return {
        f"{rung.name}.{entry}": code_hash(compile_cubin(rung.path), entry)
        for rung in RUNGS for entry in (rung.entry, *rung.twins)
    }


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _device(info: device.Device) -> str:
    missing = [name for name, value in vars(info).items() if value is None]
    _require(not missing, f"{info} lacks {', '.join(missing)}")
    peaks = [f"{device.peak_tflops(info, unit):.1f} TFLOP/s {unit}" for unit in ("tensor", "cuda_core")]
    return f"{info}, slug {info.slug}, {', '.join(peaks)}"


def _toolkit() -> str:
    versions = toolkit()
    _require(
        str(versions["nvrtc"]).startswith(PINNED_NVRTC),
        f"NVRTC is {versions['nvrtc']}, pinned is {PINNED_NVRTC}: records made here would not fit the pinned compiler",
    )
    return str(versions)


def _spin(bench: Bench) -> str:
    import cupy

    timer: Any = bench.timer
    measured = []
    for asked in (0.3, 1.0):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        timer.queue_spin(asked)
        end.record()
        timer.synchronize()
        measured.append(cupy.cuda.get_elapsed_time(start, end))
    _require(0.28 <= measured[0] <= 0.6 and 0.95 <= measured[1] <= 2.0, f"0.3 and 1.0 ms took {measured} ms")
    return f"0.3 and 1.0 ms took {measured[0]:.3f} and {measured[1]:.3f} ms"


def _clock(bench: Bench, info: device.Device) -> str:
    timer: Any = bench.timer
    clocks = [timer.clock_mhz() for _ in range(20)]
    highest = info.max_clock_mhz or 3000
    _require(all(200 < clock < 1.02 * highest for clock in clocks), f"clocks {clocks} outside 200 to {highest} MHz")
    spread = (max(clocks) - min(clocks)) / median(clocks)
    _require(spread < 0.01, f"clocks of an idle chip spread by {spread:.2%}: {clocks}")
    return f"{median(clocks):.1f} MHz, spread {spread:.3%}, NVML says {timer.read_power().sm_clock_nvml_mhz}"


def _bandwidth() -> str:
    measured = device.measure_bandwidth()
    _require(100 < measured.gb_per_s < 20000, f"{measured.gb_per_s:.0f} GB/s is not plausible")
    spread = (max(measured.samples_ms) - min(measured.samples_ms)) / median(measured.samples_ms)
    return f"{measured.gb_per_s:.0f} GB/s, samples spread by {spread:.2%}"


def _cublas_right(bench: Bench) -> str:
    errors = []
    for m, n, k in ((264, 136, 72), (8, 8, 8), (1024, 512, 2048), (4096, 4096, 4096)):
        A, B, C = random_matrix(m, k, 5, "cuda"), random_matrix(k, n, 6, "cuda"), empty_matrix(m, n, "cuda")
        plan = bench.cublas.plan(A, B, C)
        plan()
        require_right(Contender("cuBLAS", plan, C), A, B, "in the self-check")
        errors.append(f"{m}x{n}x{k}: {check(C, A, B).relative_error:.2e} {plan.algorithm}")
        plan.close()
    return "; ".join(errors)


def _cublas_fast(bench: Bench) -> str:
    size = 4096
    A, B = random_matrix(size, size, 5, "cuda"), random_matrix(size, size, 6, "cuda")
    plan = bench.cublas.plan(A, B, empty_matrix(size, size, "cuda"))
    ours = [bench.timer.burst(plan, 16, 1.0, 0.5) for _ in range(4)][1:]
    tflops = 2 * size**3 / median([burst.ms for burst in ours]) / 1e9
    hidden = max(burst.queue_ms for burst in ours)
    text = f"{tflops:.1f} TFLOP/s at 4096, clock {ours[-1].sm_clock_mhz:.0f} MHz, queueing took {hidden:.3f} ms"
    plan.close()
    torch = import_torch()
    if torch is None:
        return f"{text}; torch is not installed, so not compared"
    found = compare(bench, size, torch, rounds=4)
    _require(found.no_slower, f"{text}; {found}")
    return f"{text}; {found}"


def _rungs() -> str:
    passed = []
    for rung in RUNGS:
        for entry in (rung.entry, *rung.twins):
            outcome = verify(load(rung, backend="cuda", entry=entry))
            shape = f"{outcome.m}x{outcome.n}x{outcome.k}"
            _require(outcome.passed, f"{rung.name}.{entry} {shape}: {outcome.reason}")
            passed.append(f"{rung.name}.{entry}")
    return ", ".join(passed)


def _burst(bench: Bench) -> str:
    result = benchmark(RUNGS[-1], 2048, rounds=3, rest_s=0.2, bench=bench)
    method = result.method
    _require(result.source == "live", f"source is {result.source}")
    _require(
        method["launches_hidden"],
        f"queueing took {method['longest_queue_ms']} ms, too long for a spin of {method['spin_ms']} ms",
    )
    return f"{RUNGS[-1].name} {describe(result)}, {method}"


def _sustained(bench: Bench) -> str:
    result = benchmark(RUNGS[-1], 2048, "sustained", rounds=1, turn_s=1.5, bench=bench)
    counts = [len(samples) for samples in (*result.samples.kernel_ms, *result.samples.cublas_ms)]
    return f"{describe(result)}, samples per turn {counts}, {result.power_w} W, {result.throttle_reasons}"


def _slow(bench: Bench) -> str:
    rung = RUNGS[0]
    result = benchmark(rung, 2048, entry=rung.twins[0], rounds=2, rest_s=0.2, bench=bench)
    launches = result.method["kernel_launches"]
    burst_ms = launches * result.kernel_ms[0]
    _require(launches >= 1 and (launches == 1 or burst_ms < 60), f"{launches} launches took {burst_ms:.1f} ms")
    return f"{describe(result)}, {launches} launches a burst"


def _round_trip(bench: Bench) -> str:
    result = benchmark(RUNGS[0], 1024, rounds=2, rest_s=0.0, bench=bench)
    with tempfile.TemporaryDirectory() as folder:
        path = write_record(result, Path(folder))
        again = read_record(path)
        size = path.stat().st_size
    _require(abs(again.ratio / result.ratio - 1) < 1e-3, f"ratio {result.ratio} came back as {again.ratio}")
    return f"{path.name}, {size} bytes"


def _refused(bench: Bench) -> str:
    good = load(RUNGS[0], backend="cuda")
    bench.require_verified(good)

    def wrong(A: Any, B: Any, out: Any) -> None:
        good(A, B, out=out)
        out.view(np.uint16)[3, 5] = 0

    fake = SimpleNamespace(rung=good.rung, entry=good.entry, code_hash=good.code_hash, defines={}, backend="cuda")
    kernel: Any = type("Wrong", (), {"prepared": lambda self, A, B, out: lambda: wrong(A, B, out), **vars(fake)})()
    try:
        measure(bench, kernel, (512, 512, 512), "burst", 1, 0.0)
    except BenchmarkRefused as error:
        gpu.synchronize()
        return str(error)
    raise AssertionError("a kernel with one wrong element was timed")


if __name__ == "__main__":
    sys.exit(main())
