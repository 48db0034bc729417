"""cuBLAS as it is called here beside torch.matmul: whether the yardstick is as fast as the one that readers know.

    python -m helpers.cublas_torch        on a GPU with torch: measures both in turn and records it (a minute)

The course calls cublasLt itself (helpers.cublas), with the first algorithm of its own list. torch calls cuBLAS too,
with its own choices. If ours were slower, every ratio of the course would be too good; so both run on the same arrays,
in the same rounds, and records/<device>/cublas_torch.json keeps the times. torch is no requirement of the course.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device
from helpers.arrays import empty_matrix
from helpers.benchmark import BURST_ROUNDS, Bench, Contender, launch_first, require_right, toolkit
from helpers.device import Device
from helpers.entry import Parser, guarded, once
from helpers.errors import BackendError
from helpers.intervals import Interval, median, median_interval, quartiles
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.record_basics import MS_DIGITS, device_from_json, record_folder
from helpers.records import three_digits
from helpers.rounds import burst_together

SCHEMA = "hopper-matmul/cublas-torch/1"
SIZES = (4096, 8192)


@dataclass(frozen=True)
class Comparison:
    """Both at M = N = K = n, in bursts. cublas_ms, torch_ms: a launch, by round. method: how, units in the names."""

    n: int
    cublas_ms: tuple[float, ...]
    torch_ms: tuple[float, ...]
    method: Mapping[str, Any]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Per round, the speed of our cuBLAS over torch's."""
        return tuple(torch / cublas for cublas, torch in zip(self.cublas_ms, self.torch_ms, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the per-round ratios."""
        return median(self.ratios)

    @property
    def ratio_interval(self) -> Interval:
        """95% interval of the ratio."""
        return median_interval(self.ratios)

    @property
    def spread(self) -> float:
        """Their common spread: from first to third quartile, as a share of the median; the wider one of both."""

        def of(times: tuple[float, ...]) -> float:
            low, high = quartiles(times)
            return (high - low) / median(times)

        return max(of(self.cublas_ms), of(self.torch_ms))

    @property
    def no_slower(self) -> bool:
        """Whether the interval of the ratio reaches 1, up to the common spread."""
        return self.ratio_interval.high >= 1 - self.spread

    def __str__(self) -> str:
        ours, theirs = (2 * self.n**3 / median(times) / 1e9 for times in (self.cublas_ms, self.torch_ms))
        interval = self.ratio_interval
        return (
            f"N={self.n}, burst: cuBLAS {three_digits(ours)} TFLOP/s, torch.matmul {three_digits(theirs)}, ratio "
            f"{self.ratio:.4f} ({interval.low:.4f} to {interval.high:.4f}), spread {self.spread:.2%}: "
            f"{'not slower' if self.no_slower else 'slower'} than torch beyond it"
        )


@dataclass(frozen=True)
class CublasTorch:
    """The record of a GPU. toolkit: versions of cublas (ours), torch, nvrtc, cupy."""

    device: Device
    toolkit: Mapping[str, str | None]
    date: str
    comparisons: tuple[Comparison, ...]


def compare(bench: Bench, n: int, torch: Any, rounds: int = BURST_ROUNDS, rest_s: float = 1.0) -> Comparison:
    """Measure both on the GPU. torch: the module. Raises BenchmarkRefused if one of them is wrong."""
    A, B = bench.operands(n, n, n, 0)
    outs = [empty_matrix(n, n, "cuda") for _ in range(2)]
    plan = bench.cublas.plan(A, B, outs[0])
    try:
        contenders = [
            Contender("cuBLAS", plan, outs[0]),
            Contender("torch.matmul", torch_launch(torch, A, B, outs[1]), outs[1]),
        ]
        for contender in contenders:
            launch_first(contender, A, B)
        with bench.alone():
            result = burst_together(bench.timer, [contenders[0].launch], contenders[1].launch, rounds, rest_s)[0]
        for contender in contenders:
            require_right(contender, A, B, "after it was timed")
        algorithm = dict(plan.algorithm)
    finally:
        plan.close()
    own = {"kernel_launches": "cublas_launches", "cublas_launches": "torch_launches"}
    method = {own.get(key, key): value for key, value in result.method.items()}
    method |= {"inputs": "N(0,1)", "seed": 0, "cublas_algorithm": algorithm}
    ours, theirs = (
        tuple(median(samples) for samples in rounds)
        for rounds in (result.samples.kernel_ms, result.samples.cublas_ms)
    )
    return Comparison(n, ours, theirs, method)


def torch_launch(torch: Any, A: Any, B: Any, C: Any) -> Any:
    """What queues torch.matmul on these very arrays: bf16 CuPy matrices, whose memory torch sees."""
    a, b, c = (torch.from_dlpack(array.view(np.int16)).view(torch.bfloat16) for array in (A, B, C))
    return lambda: torch.matmul(a, b, out=c)


def import_torch() -> Any:
    """The module torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def torch_path(slug: str, directory: Path | None = None) -> Path:
    """Where the record of a GPU is kept."""
    return record_folder(directory) / slug / "cublas_torch.json"


def write_comparisons(found: CublasTorch, directory: Path | None = None) -> Path:
    """Write the record in one step. Raises RecordError if a damaged file is in the way."""
    data = {
        "schema": SCHEMA,
        "device": asdict(found.device),
        "toolkit": dict(found.toolkit),
        "date": found.date,
        "comparisons": [
            {
                "n": item.n,
                "cublas_ms": [round(ms, MS_DIGITS) for ms in item.cublas_ms],
                "torch_ms": [round(ms, MS_DIGITS) for ms in item.torch_ms],
                "method": dict(item.method),
            }
            for item in found.comparisons
        ],
    }
    return write_json(torch_path(found.device.slug, directory), data, from_json)


def read_comparisons(path: Path) -> CublasTorch:
    """The record in a file. Raises RecordError if it is missing or damaged."""
    return from_json(read_json(path), path)


def from_json(data: Any, path: Path) -> CublasTorch:
    """The record in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    comparisons = []
    for item in top.objects("comparisons"):
        cublas_ms, torch_ms = (
            tuple(ms for ms in item.numbers(key) if ms is not None) for key in ("cublas_ms", "torch_ms")
        )
        if not cublas_ms or len(cublas_ms) != len(torch_ms):
            item.fail("torch_ms", f"has {len(torch_ms)} rounds", f"{len(cublas_ms)}, as in cublas_ms, at least one")
        comparisons.append(Comparison(item.integer("n", 1), cublas_ms, torch_ms, dict(item.object("method").data)))
    device = device_from_json(top.object("device"))
    top.require_place(device.slug, "cublas_torch.json")
    return CublasTorch(
        device,
        top.scalars("toolkit"),
        top.date(),
        tuple(comparisons),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 1 if our cuBLAS is slower."""
    parser = Parser(prog="python -m helpers.cublas_torch", description="Compare cuBLAS as called here with torch.")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help="M = N = K")
    parser.add_output()
    return guarded(lambda: _record(parser.parse_args(arguments)))


def _record(options: argparse.Namespace) -> int:
    info = device.require_device("cuBLAS and torch can only be compared on a GPU")
    torch = import_torch()
    if torch is None:
        raise BackendError("This Python has no torch: run this with one that has it, beside CuPy.")
    with Bench() as bench:
        found = []
        for n in once(options.sizes):
            found.append(compare(bench, n, torch))
            print(found[-1], flush=True)
    versions = {**toolkit(), "torch": str(torch.__version__)}
    path = write_comparisons(CublasTorch(info, versions, device.now(), tuple(found)), options.output)
    print(f"-> {display(path)}")
    return 0 if all(item.no_slower for item in found) else 1


if __name__ == "__main__":
    sys.exit(main())
