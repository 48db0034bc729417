"""One kernel on zeros, on uniform and on normal inputs: the same instructions, another clock.

    print(input_speeds("10_clusters", 4096))

    python -m helpers.input_speeds --sizes 4096 8192 --regimes burst sustained        on a Hopper GPU: record them

What a kernel computes with decides how many bits switch, hence how much power it draws, hence which clock the chip
holds. So inputs are part of the method. These figures are no part of the ladder and have files of their own:
records/<device>/inputs/<rung>_<size>_<regime>.json. The clock is that within the kernel (helpers.held_clock).
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from helpers import device
from helpers.arguments import check_sizes
from helpers.arrays import INPUTS, empty_matrix, input_matrix
from helpers.benchmark import Bench, Contender, check_options, launch_first, toolkit
from helpers.checks import require_integer
from helpers.device import Device
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError, BackendError
from helpers.held_clock import held_mhz
from helpers.intervals import median
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.kernel import Kernel, load
from helpers.record_basics import MS_DIGITS, device_from_json, preference, record_folder
from helpers.records import REGIMES, size_name, three_digits
from helpers.rounds import burst_together, sustained_together
from helpers.rungs import Rung, find_rung
from helpers.speeds import MISSING

SCHEMA = "hopper-matmul/inputs/1"
RUNG = "10_clusters"
ROUNDS = {"burst": 5, "sustained": 3}
TURN_S = 2.0

Measure = Callable[[Kernel, int, str], Sequence["InputSpeed"]]


@dataclass(frozen=True)
class InputSpeed:
    """A kernel on one kind of inputs. kernel_ms: a launch, median of each round. mhz: SM clock within the kernel."""

    inputs: str
    kernel_ms: tuple[float, ...]
    mhz: float

    def tflops(self, n: int) -> float:
        """Of the product at M = N = K = n."""
        return 2 * n**3 / median(self.kernel_ms) / 1e9


@dataclass(frozen=True)
class InputSpeeds:
    """A kernel at M = N = K = n on each kind of inputs; `items` is empty without a GPU and a recording of this code.

    device, toolkit, method: of the measurement, None and empty without one. source: 'live' or 'recorded'.
    """

    rung: str
    code_hash: str
    n: int
    regime: str
    items: tuple[InputSpeed, ...] = ()
    device: Device | None = None
    toolkit: Mapping[str, str | None] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    source: str = "recorded"

    def __str__(self) -> str:
        name = f"{self.rung}, N={self.n}, {self.regime}"
        if not self.items or self.device is None:
            return f"{name}: {MISSING}"
        width = max(len(item.inputs) for item in self.items)
        lines = [
            f"    {item.inputs:<{width}}  {three_digits(item.tflops(self.n))} TFLOP/s at {item.mhz:,.0f} MHz"
            for item in self.items
        ]
        return "\n".join([f"{name}: {self.source} on {self.device.name}, {self.date[:10]}", *lines])


def input_speeds(
    rung: str | int | Rung = RUNG,
    size: int = 4096,
    regime: str = "burst",
    measure: Measure | None = None,
    directory: Path | None = None,
    *,
    live: bool = True,
) -> InputSpeeds:
    """Measure a rung on each kind of inputs, in turn, or take the recording of this very code. A live burst takes 20 s.

    measure: does it on a GPU; tests pass one that needs none. directory: of the recordings, helpers/records by default.
    live: whether to measure at all; False takes the recording everywhere, at once.
    Raises ArgumentError for a size or a regime that does not fit, BenchmarkRefused if a result is wrong.
    """
    require_integer("size", size, 1)
    check_options(regime, None, 0.0, 1.0)
    kernel, n = load(rung), int(size)
    check_sizes(kernel.rung, n, n, n)
    if live and (measure is not None or kernel.backend == "cuda"):
        items = tuple((measure or measure_inputs)(kernel, n, regime))
        info = device.require_device("The GPU went away while it was measured")
        method = {"rounds": len(items[0].kernel_ms), "order": "in turn, swapped each round", "seed": 0}
        return InputSpeeds(
            kernel.rung.name, kernel.code_hash, n, regime, items, info, toolkit(), method, device.now(), "live"
        )
    found = find_inputs(kernel.rung, n, regime, kernel.code_hash, directory)
    return found or InputSpeeds(kernel.rung.name, kernel.code_hash, n, regime)


def measure_inputs(kernel: Kernel, n: int, regime: str) -> list[InputSpeed]:
    """Measure a kernel on the GPU at M = N = K = n. Raises BenchmarkRefused if it is wrong on one of the inputs."""
    with Bench() as bench, bench.alone():
        bench.require_verified(kernel)
        matrices = [[input_matrix(inputs, n, n, seed, "cuda") for seed in (0, 1)] for inputs in INPUTS]
        contenders = []
        for inputs, (A, B) in zip(INPUTS, matrices, strict=True):
            C = empty_matrix(n, n, "cuda")
            contender = Contender(f"{kernel.rung.name} on {inputs}", kernel.prepared(A, B, C), C)
            launch_first(contender, A, B)
            contenders.append(contender)
        # Normal inputs have the place that cuBLAS has in the benchmark: a turn in each round.
        *others, last = [contender.launch for contender in contenders]
        if regime == "burst":
            results = burst_together(bench.timer, others, last, ROUNDS[regime])
        else:
            results = sustained_together(bench.timer, others, last, ROUNDS[regime], TURN_S)
        rounds = [*(result.samples.kernel_ms for result in results), results[0].samples.cublas_ms]
        found = []
        for inputs, (A, B), samples in zip(INPUTS, matrices, rounds, strict=True):
            kernel_ms = tuple(median(item) for item in samples)
            mhz = held_mhz(kernel, A, B, regime, bench.timer)
            found.append(InputSpeed(inputs, kernel_ms, mhz))
        return found


def find_inputs(
    rung: Rung, n: int, regime: str, code_hash: str | None = None, directory: Path | None = None
) -> InputSpeeds | None:
    """The newest record of a rung, of the reference GPU if there is one, or None. Raises RecordError for a damaged one.

    code_hash: only of this very code.
    """
    paths = sorted(record_folder(directory).glob(f"*/inputs/{_file_name(rung.name, n, regime)}"))
    found = [from_json(read_json(path), path) for path in paths]
    fitting = [item for item in found if code_hash in (None, item.code_hash)]
    return max(fitting, key=preference, default=None)


def write_inputs(speeds: InputSpeeds, directory: Path | None = None) -> Path:
    """Write what was measured to its place in one step; an older record there is replaced.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    if speeds.device is None or not speeds.items:
        raise ArgumentError("speeds holds no measurement: measure on a GPU first.")
    data = {
        "schema": SCHEMA,
        "rung": speeds.rung,
        "code_hash": speeds.code_hash,
        "device": asdict(speeds.device),
        "toolkit": dict(speeds.toolkit),
        "n": speeds.n,
        "regime": speeds.regime,
        "method": dict(speeds.method),
        "inputs": [
            {
                "inputs": item.inputs,
                "kernel_ms": [round(ms, MS_DIGITS) for ms in item.kernel_ms],
                "mhz": round(item.mhz, 1),
            }
            for item in speeds.items
        ],
        "date": speeds.date,
    }
    folder = record_folder(directory) / speeds.device.slug / "inputs"
    return write_json(folder / _file_name(speeds.rung, speeds.n, speeds.regime), data, from_json)


def _file_name(rung: str, n: int, regime: str) -> str:
    return f"{rung}_{size_name(n, n, n)}_{regime}.json"


def from_json(data: Any, path: Path) -> InputSpeeds:
    """The speeds in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    items = tuple(
        InputSpeed(
            item.choice("inputs", INPUTS),
            tuple(ms for ms in item.numbers("kernel_ms") if ms is not None),
            item.number("mhz"),
        )
        for item in top.objects("inputs")
    )
    if tuple(item.inputs for item in items) != INPUTS or not all(item.kernel_ms for item in items):
        top.fail("inputs", "lacks some", f"one with times for each of {', '.join(INPUTS)}, in this order")
    found = InputSpeeds(
        rung=top.rung(),
        code_hash=top.code_hash(),
        n=top.integer("n", 1),
        regime=top.choice("regime", REGIMES),
        items=items,
        device=device_from_json(top.object("device")),
        toolkit=top.scalars("toolkit"),
        method=dict(top.object("method").data),
        date=top.date(),
    )
    top.require_place(found.device.slug, "inputs", _file_name(found.rung, found.n, found.regime))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.input_speeds", description="Record a rung on several kinds of inputs.")
    parser.add_argument("--rung", default=RUNG)
    parser.add_argument("--sizes", nargs="+", type=int, default=[4096], metavar="N", help="M = N = K")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_output()
    return guarded(lambda: _record(parser.parse_args(arguments)))


def _record(options: argparse.Namespace) -> int:
    rung = find_rung(options.rung)
    if load(rung).backend != "cuda":
        raise BackendError(f"The inputs of {rung.name} can only be measured on a GPU that runs it: find one.")
    for size in once(options.sizes):
        for regime in once(options.regimes):
            speeds = input_speeds(rung, size, regime)
            print(f"{speeds}\n-> {display(write_inputs(speeds, options.output))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
