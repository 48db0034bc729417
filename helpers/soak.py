"""Runs the right kernels under many random schedules, and the bug shelf under many: no false report, no bug missed.

    python -m helpers.soak                 1,000 runs of the kernels, 20 random schedules for each bug
    python -m helpers.soak --runs 50 --first 700 --seeds 0
"""

import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.bugs import BUGS, search
from helpers.entry import Parser, guarded
from helpers.kernel import emulate
from helpers.rungs import APPENDIX, FITTED_HEIGHTS, PARTITIONS, RUNGS, Rung, fitted_tiles, split_k

RUNS, SEEDS = 1000, 20
PROGRESS = 100     # runs from one line of progress to the next
MOST_TILES = 2     # of a CTA or a cluster, along M and N of a result
LEAST_K = 80       # K goes at least so far, for rungs whose steps are short

# Other settings of the kernels' defines, which must be as right.
_RINGS = ({}, {"STAGES": 2}, {"STAGES": 3})
VARIANTS: Mapping[int, tuple[Mapping[str, int], ...]] = {
    4: ({}, {"SWIZZLE": 0}),
    5: ({}, {"BUFFERS": 1}),
    6: ({}, {"BUFFERS": 1}),
    7: _RINGS,
    8: _RINGS,
    9: _RINGS,
    10: (*_RINGS, {"MULTICAST": 0}, {"TMA_STORE": 0}, {"OVERLAP": 0}),
    PARTITIONS.number: (*_RINGS, *PARTITIONS.ablations),
}
KERNELS: tuple[Rung, ...] = (*RUNGS, *APPENDIX)   # of those that are made for a shape any variant is drawn


@dataclass(frozen=True)
class Case:
    """One run of a right kernel, all of it drawn from its number."""

    number: int
    rung: Rung
    entry: str
    size: tuple[int, int, int]
    sms: int
    defines: Mapping[str, int]

    def __str__(self) -> str:
        m, n, k = self.size
        defines = "".join(f" -D{name}={value}" for name, value in self.defines.items())
        sms = f", {self.sms} SMs" if self.rung.persistent else ""
        return f"run {self.number}, {self.rung.name}.{self.entry}, {m} x {n} x {k}{sms}{defines}"


def case(number: int) -> Case:
    """The case of a number: the kernels take turns."""
    draw = random.Random(number)
    rung, defines = _variant(draw, KERNELS[number % len(KERNELS)])
    steps = max(2 * rung.stages + 2, LEAST_K // rung.tile[2], (rung.split or 0) * (2 * rung.stages + 1))
    rows, columns = rung.cluster_tile
    most = (MOST_TILES * rows // rung.tile[0], MOST_TILES * columns // rung.tile[1], steps)
    lengths = [_length(draw, *limits) for limits in zip(rung.tile, rung.multiples, most, strict=True)]
    if rung.most_rows is not None:
        lengths[0] = draw.randint(1, rung.most_rows)
    return Case(
        number=number,
        rung=rung,
        entry=draw.choice((rung.entry, *rung.twins)),
        size=(lengths[0], lengths[1], lengths[2]),
        sms=rung.cluster * draw.randint(1, 3),
        defines=defines,
    )


def _variant(draw: random.Random, rung: Rung) -> tuple[Rung, Mapping[str, int]]:
    """A rung with defines for its file; of one made for a shape a tile, a ring, and where K is split parts and rows."""
    if rung.abreast:
        return fitted_tiles(draw.choice(FITTED_HEIGHTS), draw.randint(2, 4))
    if rung.split is None:
        return rung, draw.choice(VARIANTS.get(rung.number, ({},)))
    rows, columns = draw.choice((64, 128)), draw.choice((64, 128, 192, 256))
    a_rows = draw.choice((None, draw.randrange(8, rows + 1, 8)))
    return split_k(rows, columns, draw.randint(1, 4), draw.randint(1, 8), a_rows)


def problem(case: Case, file: Path | None = None) -> str:
    """Run a case, on the rung's kernel or on another file: what was reported or wrong, "" if all was right."""
    emulation = emulate(
        case.rung,
        case.size,
        schedule="random",
        seed=case.number,
        sms=case.sms,
        entry=case.entry,
        defines=case.defines,
        file=file,
    )
    reports = [f"{report.kind}: {report}" for report in emulation.run.reports] if emulation.run else []
    verdict = "" if emulation.verification.passed else emulation.verification.reason
    text = "\n".join(reports) or verdict
    return f"{case}: {text}" if text else ""


def problems(numbers: Iterable[int]) -> Iterator[str]:
    """For each case what went wrong, or ""."""
    return (problem(case(number)) for number in numbers)


def missed(seeds: int) -> Iterator[str]:
    """For each run of each bug of the shelf, lazy and with so many seeds: "" if a report named it, else what came."""
    for bug in BUGS:
        if bug.gap:
            continue
        for schedule, seed in [("lazy", 0), *(("random", seed) for seed in range(seeds))]:
            finding = search(bug, schedule, seed)
            yield "" if finding.named_by else str(finding)


def _length(draw: random.Random, unit: int, multiple: int, most: int) -> int:
    """Up to so many units, often few, whole ones or, where the kernel takes it, less in the last one."""
    whole = draw.randint(1, draw.choice((most, most, most, 2))) * unit
    if multiple >= unit or draw.random() < 0.3:
        return whole
    return max(multiple, whole - draw.randrange(0, unit, multiple))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if there was a false report, a wrong result, or a bug that was not named."""
    parser = Parser(prog="python -m helpers.soak", description="Random schedules, right kernels and planted bugs.")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of right kernels, default {RUNS}")
    parser.add_argument("--first", type=int, default=0, help="number of the first run, default 0")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"random schedules for each bug, default {SEEDS}")
    options = parser.parse_args(arguments)
    return guarded(lambda: _soak(options.runs, options.first, options.seeds))


def _soak(runs: int, first: int, seeds: int) -> int:
    wrong = _count("runs of right kernels", problems(range(first, first + runs)))
    unnamed = _count("runs of planted bugs", missed(seeds)) if seeds else 0
    return 1 if wrong or unnamed else 0


def _count(what: str, texts: Iterable[str]) -> int:
    """Print what went wrong, as it comes, and progress; the number of runs in which something did."""
    started, bad, done = time.monotonic(), 0, 0
    for done, text in enumerate(texts, 1):
        if text:
            bad += 1
            print(text, flush=True)
        if done % PROGRESS == 0:
            print(f"{done} {what}, {bad} bad, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{done} {what} in all, {bad} bad, {time.monotonic() - started:.0f} s", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
