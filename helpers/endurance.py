"""Long runs: random shapes, each verified, then thousands of launches whose results must not differ in a single bit.

    python -m helpers.endurance                          on a GPU: rungs 4 to 10, 60 shapes and 10,000 launches each
    python -m helpers.endurance --rungs 10 --shapes 500
    python -m helpers.endurance --rungs 10_clusters+CLUSTER-4 appendix_split_k     a variant, and all of a kernel's

A variant has the name of its record; `helpers.subjects` lists them, and a kernel of the appendix stands for all of its
own.
The launches of a shape take two pairs of matrices in turn, on two streams at once, and each writes over a C that holds
a NaN which no computation makes. Every rung sums in a fixed order, so equal inputs give equal bits; what hangs, reads
a tile too early or leaves something of the launch before shows here.
"""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from helpers import gpu
from helpers.arrays import BACKENDS, empty_matrix, namespace, random_matrix
from helpers.checks import require_integer
from helpers.entry import Parser, guarded
from helpers.kernel import Kernel, load
from helpers.rungs import RUNGS, Rung
from helpers.subjects import Subject, find_subjects
from helpers.verify import FILLING, verify

SHAPES, LAUNCHES = 60, 10_000
FIRST_RUNG = 4
MOST_ROWS, MOST_COLUMNS, MOST_DEPTH = 1200, 1600, 2000
SKINNY = ((1, 4096, 4096), (16, 2048, 1024), (64, 4096, 512), (4096, 256, 64))
IN_ROUNDS = ((3000, 5000, 1100), (2600, 9000, 2056))   # for persistent kernels: several tiles for each CTA
PAIRS = 2

Size = tuple[int, int, int]


def sizes(rung: Rung, count: int, seed: int) -> list[Size]:
    """So many shapes (M, N, K) that the rung takes: the smallest, K round its stages, skinny ones, and random ones.

    Persistent rungs get large ones, too. Where CTAs divide K, it goes round the stages of each.
    """
    rows, columns, depth = rung.tile
    each = [steps * (rung.split or 1) for steps in (rung.stages - 1, rung.stages, rung.stages + 1)]
    around = [(rows, columns, depth * steps) for steps in (1, *each) if steps]
    wanted = [(1, 1, 1), *around, *SKINNY, *(IN_ROUNDS if rung.persistent else ())]
    draw = random.Random(seed)
    while len(wanted) < count:
        most_rows = rung.most_rows or MOST_ROWS
        wanted.append((draw.randint(1, most_rows), draw.randint(1, MOST_COLUMNS), draw.randint(1, MOST_DEPTH)))
    return [_fitting(rung, size) for size in wanted[:count]]


def _fitting(rung: Rung, size: Size) -> Size:
    m, n, k = (-(-length // multiple) * multiple for length, multiple in zip(size, rung.multiples, strict=True))
    return min(m, rung.most_rows or m), n, k


def problem(kernel: Kernel, size: Size, launches: int, seed: int = 0) -> str:
    """Verify a shape, then launch it that often: what was wrong, in a sentence; "" if nothing."""
    outcome = verify(kernel, size, seed)
    if not outcome.passed:
        return str(outcome)
    differing = _repeat(kernel, size, launches, seed)
    if differing:
        return f"{kernel.rung.name}, {size}: {differing} of {launches} launches gave other bits than the first one."
    return ""


def _repeat(kernel: Kernel, size: Size, launches: int, seed: int) -> int:
    """How many of the launches gave another result than the first of the same pair."""
    m, n, k = size
    xp = namespace(kernel.backend)
    results, firsts, launch, counts = [], [], [], []
    for pair in range(PAIRS):
        A = random_matrix(m, k, 2 * (PAIRS * seed + pair), kernel.backend)
        B = random_matrix(k, n, 2 * (PAIRS * seed + pair) + 1, kernel.backend)
        C = empty_matrix(m, n, kernel.backend)
        launch.append(kernel.prepared(A, B, C))
        launch[-1]()
        results.append(C.view(np.uint16))
        firsts.append(results[-1].copy())
        counts.append(xp.zeros((), np.int64))
    _synchronize(kernel)
    streams = _streams(kernel)
    for index in range(launches):
        pair = index % PAIRS
        with streams[pair]:
            results[pair][...] = FILLING
            launch[pair]()
            counts[pair] += (results[pair] != firsts[pair]).any()
    if kernel.backend == "cuda":
        xp.cuda.Device().synchronize()
    return sum(int(count) for count in counts)


def _synchronize(kernel: Kernel) -> None:
    if kernel.backend == "cuda":
        gpu.synchronize()


def _streams(kernel: Kernel) -> list[Any]:
    """One for each pair; on the emulator, which has none, contexts that do nothing."""
    if kernel.backend == "emulator":
        return [nullcontext()] * PAIRS
    return [namespace("cuda").cuda.Stream(non_blocking=True) for _ in range(PAIRS)]


def problems(kernel: Kernel, shapes: int, launches: int, seed: int) -> Iterator[str]:
    """For each shape what was wrong, or ""; the launches are shared out evenly among the shapes."""
    chosen = sizes(kernel.rung, shapes, seed)
    for number, size in enumerate(chosen):
        yield problem(kernel, size, -(-launches // len(chosen)), seed + number)


def _load(subject: Subject, backend: str) -> Kernel:
    return load(subject.rung, backend, defines=subject.defines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if something was wrong."""
    parser = Parser(prog="python -m helpers.endurance", description="Many shapes and many launches of each kernel.")
    parser.add_argument(
        "--rungs", nargs="+", default=[rung.name for rung in RUNGS if rung.number >= FIRST_RUNG], metavar="RUNG",
        help="or a variant, such as 10_clusters+CLUSTER-4; default: rungs 4 to 10",
    )
    parser.add_argument("--shapes", type=int, default=SHAPES, help=f"of each, default {SHAPES}")
    parser.add_argument("--launches", type=int, default=LAUNCHES, help=f"of each, default {LAUNCHES:,}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", choices=BACKENDS, default="cuda")
    options = parser.parse_args(arguments)

    def work() -> int:
        for name in ("shapes", "launches"):
            require_integer(f"--{name}", getattr(options, name), 1)
        require_integer("--seed", options.seed, 0)
        bad = 0
        chosen = {subject.name: subject for name in options.rungs for subject in find_subjects(name)}
        kernels = [(subject, _load(subject, options.backend)) for subject in chosen.values()]   # all, before one runs
        for subject, kernel in kernels:
            started, found = time.monotonic(), 0
            for text in problems(kernel, options.shapes, options.launches, options.seed):
                if text:
                    found += 1
                    print(f"{subject.name}: {text}" if subject.is_variant else text, flush=True)
            print(
                f"{subject.name}, {kernel!r}: {options.shapes} shapes, {options.launches:,} launches, {found} bad, "
                f"{time.monotonic() - started:.0f} s", flush=True,
            )
            bad += found
        return 1 if bad else 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
