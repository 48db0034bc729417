"""Shapes that people run: what `helpers.choice.choose` takes for each, beside the best that cuBLAS proposes.

    python -m helpers.shapes --plan              the shapes, and how long they take
    python -m helpers.shapes                     on a Hopper GPU: measure and record what is not current
    python -m helpers.shapes --groups squares --only 129x264x4096

C[M,N] = A[M,K] @ B[K,N]; of a layer of a model A holds a row for each token and B its weights. Each shape has a file of
its own, records/<device>/shapes/<shape>.json, written as soon as it is measured. `python -m helpers.shapes_page` writes
docs/shapes.md from them; helpers/rotation.py has the method.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import device
from helpers.benchmark import Bench, BenchmarkRefused, check_options
from helpers.checks import require_known
from helpers.choice import Choice, choose
from helpers.cli.parser import size
from helpers.device import Device
from helpers.entry import Parser, fail, guarded
from helpers.errors import ArgumentError, RecordError
from helpers.jsonfile import read_json
from helpers.kernel import Kernel, load
from helpers.progress import duration
from helpers.record_basics import RECORD_DIR
from helpers.records import size_name
from helpers.rotation import estimate_s, measure_shape, value_pool
from helpers.shape_records import ShapeSpeed, shape_from_json, shape_path, write_shape
from helpers.words import plural

ROUNDS = 6   # the fewest whose range is a 95% interval of the median
TOKENS = (1, 16, 128, 2048, 8192)


@dataclass(frozen=True)
class Shape:
    """A product that people run. group: one of GROUPS. name: for the table."""

    group: str
    name: str
    m: int
    n: int
    k: int

    @property
    def size(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.m, self.n, self.k


@dataclass(frozen=True)
class Model:
    """A decoder with grouped-query attention. hidden: values of a token. heads, kv_heads: of queries, of keys and of
    values. ffn: hidden values of its feed-forward layer.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """(N, K) of the matrices of a layer, those with the same input side by side in one."""
        return {
            "q, k, v": ((self.heads + 2 * self.kv_heads) * self.head_dim, self.hidden),
            "o": (self.hidden, self.heads * self.head_dim),
            "gate, up": (2 * self.ffn, self.hidden),
            "down": (self.hidden, self.ffn),
        }


# From the params.json of Meta's releases: dim, n_heads, n_kv_heads. The feed-forward layer is 1.3 x 2/3 x 4 x dim,
# rounded up to a multiple of 1,024 (8B) or 4,096 (70B): github.com/meta-llama/llama-models, models/llama3/model.py.
LLAMA_8B = Model(hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336)
LLAMA_70B = Model(hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=28672)

GROUPS = {
    "llama-8b": "Llama-3 8B",
    "llama-70b": "Llama-3 70B",
    "squares": "Squares",
    "between": "Between powers of two",
    "long": "Tall, wide and deep",
    "ragged": "Ragged",
}


def _projections(group: str, model: Model) -> list[Shape]:
    return [
        Shape(group, f"{name}, {plural(tokens, 'token')}", tokens, n, k)
        for name, (n, k) in model.projections.items()
        for tokens in TOKENS
    ]


SHAPES: tuple[Shape, ...] = (
    *_projections("llama-8b", LLAMA_8B),
    *_projections("llama-70b", LLAMA_70B),
    *(Shape("squares", f"square {n:,}", n, n, n) for n in (512, 1024, 2048, 4096, 8192, 16384)),
    *(Shape("between", f"square {n:,}", n, n, n) for n in (2560, 3000, 3072, 3584, 4608, 5120)),
    Shape("long", "tall", 65536, 1024, 1024),
    Shape("long", "wide", 1024, 65536, 1024),
    Shape("long", "deep", 4096, 4096, 65536),
    Shape("long", "deep, small C", 512, 512, 65536),
    Shape("ragged", "no power of two", 1000, 1000, 1000),
    Shape("ragged", "a little less than 4,096", 4090, 4104, 4040),
    Shape("ragged", "a row more than a tile", 129, 264, 4096),
    Shape("ragged", "a tile more than fits evenly", 4224, 4352, 4096),
)


def is_current(path: Path, choice: Choice, kernel: Kernel, info: Device, rounds: int) -> bool:
    """Whether the file is a record of this very choice that suffices for this code and GPU (`Measurement.suffices`).

    Raises RecordError if the file is damaged.
    """
    if not path.exists():
        return False
    found = shape_from_json(read_json(path), path)
    measured = found.measurement
    return (
        (found.choice, found.work.order) == (choice.name, choice.rung.order)
        and (measured.rung, dict(measured.defines)) == (choice.rung.name, dict(choice.defines))
        and measured.suffices(kernel.code_hash, info, rounds)
    )


def chosen_shapes(groups: Sequence[str], only: Sequence[tuple[int, int, int]]) -> list[Shape]:
    """The shapes of some groups, and those of some sizes whatever their group; all if neither is given. Each size once.

    Raises ArgumentError for a size that the table does not have.
    """
    for group in groups:
        require_known("group", group, GROUPS)
    for wanted in only:
        if wanted not in {shape.size for shape in SHAPES}:
            raise ArgumentError(f"size {size_name(*wanted)} is not in the table: `--plan` lists those that are.")
    found = [shape for shape in SHAPES if shape.group in groups or shape.size in only or not (groups or only)]
    return list({shape.size: shape for shape in reversed(found)}.values())[::-1]


def run_shapes(
    shapes: Sequence[Shape],
    directory: Path,
    info: Device,
    rounds: int,
    *,
    load_kernel: Callable[[Choice], Kernel],
    measure: Callable[[Kernel, Choice, Shape], ShapeSpeed],
    force: bool = False,
    report: Callable[[str], None] = print,
) -> int:
    """Measure and write what is not current. Returns how many failed: each is reported, and the rest goes on.

    load_kernel, measure: do the work; tests pass fakes.
    """
    failed = 0
    for index, shape in enumerate(shapes, 1):
        head = f"[{index}/{len(shapes)}] {size_name(*shape.size)}:"
        path = shape_path(shape.size, info.slug, directory)
        try:
            choice = choose(*shape.size, sms=info.sm_count)
            kernel = load_kernel(choice)
            if not force and is_current(path, choice, kernel, info, rounds):
                report(f"{head} is current")
                continue
            found = measure(kernel, choice, shape)
            if not found.measurement.method["launches_hidden"]:   # the CPU was late once: once more
                found = measure(kernel, choice, shape)
            write_shape(found, directory)
        except (ArgumentError, BenchmarkRefused, RecordError) as error:
            failed += 1
            report(f"{head} {error}")
        else:
            report(f"{head} {found}")
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 1 if something failed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    stopped = "Stopped; what was measured is written, and the same command goes on from here."
    return guarded(lambda: _run(options), interrupted=stopped)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m helpers.shapes", description="Record shapes that people run on this GPU.")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=[], help="all by default")
    parser.add_argument("--only", nargs="+", type=size, default=[], metavar="MxNxK", help="shapes of the table")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"{ROUNDS} by default, for a 95%% interval")
    parser.add_output(RECORD_DIR)
    parser.add_argument("--force", action="store_true", help="measure what is current, too")
    parser.add_argument("--plan", action="store_true", help="show the shapes and how long they take, and stop")
    return parser


def _run(options: argparse.Namespace) -> int:
    check_options("burst", options.rounds, 0.0, 1.0)
    shapes = chosen_shapes(options.groups, options.only)
    if options.plan:
        for shape in shapes:
            choice = choose(*shape.size)
            print(f"{size_name(*shape.size)}  {shape.name}: {choice.name}. {choice.why}")
    seconds = estimate_s([shape.size for shape in shapes], options.rounds)
    print(f"{plural(len(shapes), 'shape')}, about {duration(seconds)} if none is current", flush=True)
    if options.plan:
        return 0
    info = device.require_device("The shapes can only be measured on a GPU")
    with Bench() as bench:
        pool, disturbance = value_pool(), bench.timer.disturbance()
        failed = run_shapes(
            shapes,
            options.output,
            info,
            options.rounds,
            load_kernel=lambda choice: load(choice.rung, backend="cuda", defines=choice.defines),
            measure=lambda kernel, choice, shape: measure_shape(
                bench, kernel, choice, shape.size, pool, options.rounds, disturbance
            ),
            force=options.force,
            report=lambda line: print(line, flush=True),
        )
    return fail(f"{failed} of {plural(len(shapes), 'shape')} failed, see above.") if failed else 0


if __name__ == "__main__":
    sys.exit(main())
