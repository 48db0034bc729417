"""Records the ladder: the whole `PLAN` or a part of it, each measurement written as soon as it is there.

    python -m helpers.record                                                     the plan: at most twenty minutes
    python -m helpers.record --rungs 1 2 3 --sizes 4096 --regimes burst sustained
    python -m helpers.record --list                                              what would be measured, and how long

It needs a GPU. Rungs of one size and regime share their rounds, and cuBLAS's turn in each. What has a recording of the
very same code, of the same GPU, with as many rounds and with all launches hidden, is skipped, so an interrupted run
goes on where it stopped: Ctrl-C loses only the measurements at hand. A second recording of the same ladder goes into a
folder of its own (`--output helpers/records/nvidia-h200/second`); `python -m helpers.agreement` compares the two.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from helpers import device
from helpers.arguments import require_suitable
from helpers.benchmark import BURST_ROUNDS, SUSTAINED_ROUNDS, Bench, BenchmarkRefused, check_options, measure_together
from helpers.device import Device
from helpers.entry import Parser, guarded, once
from helpers.errors import RecordError
from helpers.jsonfile import display
from helpers.kernel import Kernel, load
from helpers.progress import CountedTimer, Progress, duration
from helpers.record_basics import RECORD_DIR, record_folder
from helpers.records import REGIMES, Measurement, file_name, read_record, require_regime, size_name, write_record
from helpers.roof import RULE as ROOF_RULE
from helpers.roof import measure_roofs
from helpers.rounds import BURST_LIMIT_MS
from helpers.rungs import RUNGS, Rung, find_rung
from helpers.timing import CudaTimer
from helpers.words import plural
from helpers.yardsticks import Yardsticks, load_yardsticks, write_yardsticks

TWIN_LIMIT = 4096   # the uncoalesced twin takes seconds a launch at 8192
OVERHEAD_S = 3.0    # compiling, making the matrices, verifying, checking: a guess for the estimate, each job
YARDSTICKS_S = 30.0


@dataclass(frozen=True)
class Part:
    """A part of the plan: the rungs from number `first_rung` on, in one regime, at M = N = K of each size."""

    regime: str
    sizes: tuple[int, ...]
    first_rung: int = 1


# What the course says about speed comes from these; the most important ones first. Rungs before the tensor cores never
# reach the power limit, so that sustained they are what they are in bursts.
PLAN = (
    Part("burst", (4096, 8192)),
    Part("sustained", (4096, 8192), first_rung=6),
    Part("burst", (1024, 2048)),
)


@dataclass(frozen=True)
class Job:
    """One measurement to make: a kernel function of a rung at M = N = K = size, in a regime."""

    rung: Rung
    entry: str
    size: int
    regime: str
    ablation: tuple[tuple[str, int], ...] = ()   # defines, sorted

    @property
    def defines(self) -> dict[str, int]:
        """What the preprocessor sees."""
        return dict(self.ablation)

    @property
    def name(self) -> str:
        """For people: '01_coalescing.matmul_uncoalesced 4096 burst'."""
        return f"{file_name(self.rung.name, self.entry, self.defines)} {self.size} {self.regime}"


def plan_jobs(
    rungs: Iterable[Rung],
    sizes: Iterable[int],
    regimes: Iterable[str],
    twin_limit: int = TWIN_LIMIT,
    ablations: bool = False,
) -> list[Job]:
    """Every combination, by size (the matrices are made once), then regime, then rung. Twins stop at `twin_limit`.

    ablations: whether the rungs' ablations have jobs too, beside the rung itself.
    Raises ArgumentError for a size that does not suit a rung, or an unknown regime.
    """
    jobs: list[Job] = []
    rungs, regimes = tuple(rungs), tuple(regimes)
    for regime in regimes:
        require_regime(regime)
    for size in sizes:
        entries = []
        for rung in rungs:
            require_suitable(rung, size)
            for entry in (rung.entry, *rung.twins):
                if entry == rung.entry or size <= twin_limit:
                    entries.append((rung, entry, ()))
            if ablations:
                entries.extend((rung, rung.entry, tuple(sorted(defines.items()))) for defines in rung.ablations)
        jobs.extend(
            Job(rung, entry, size, regime, ablation) for regime in regimes for rung, entry, ablation in entries
        )
    return jobs


def planned_jobs(rungs: Iterable[Rung], twin_limit: int = TWIN_LIMIT, ablations: bool = False) -> list[Job]:
    """The jobs of `PLAN` for these rungs; ablations only where the whole ladder has its turn."""
    rungs = tuple(rungs)
    jobs: list[Job] = []
    for part in PLAN:
        chosen = [rung for rung in rungs if rung.number >= part.first_rung]
        jobs += plan_jobs(chosen, part.sizes, (part.regime,), twin_limit, ablations and part.first_rung == 1)
    return jobs


def job_path(job: Job, info: Device, directory: Path) -> Path:
    """Where the job's record belongs."""
    stem = file_name(job.rung.name, job.entry, job.defines)
    return record_folder(directory) / info.slug / f"{stem}_{size_name(job.size, job.size, job.size)}_{job.regime}.json"


def is_current(path: Path, code_hash: str, info: Device, rounds: int) -> bool:
    """Whether the file is a record that `suffices` for this code and GPU. Raises RecordError if it is damaged."""
    return path.exists() and read_record(path).suffices(code_hash, info, rounds)


def estimate_s(jobs: Sequence[Job], rounds: dict[str, int], rest_s: float, turn_s: float) -> float:
    """Seconds that the jobs take, roughly: a turn each a round, and one of cuBLAS's for those of a size and regime."""
    total = 0.0
    for (_, regime), group in groupby(jobs, key=lambda job: (job.size, job.regime)):
        each = rest_s + BURST_LIMIT_MS / 1e3 if regime == "burst" else turn_s
        count = len(list(group))
        total += (count + 1) * rounds[regime] * each + count * OVERHEAD_S
    return total


def run_jobs(
    jobs: Sequence[Job],
    directory: Path,
    info: Device,
    rounds: dict[str, int],
    *,
    load_kernel: Callable[[Job], Kernel],
    measure_jobs: Callable[[list[Kernel], list[Job]], list[Measurement]],
    force: bool = False,
    report: Callable[[str], None] = print,
    begin: Callable[[list[Job]], None] = lambda waiting: None,
) -> int:
    """Measure and write what is not current. Returns how many jobs failed: each is reported, and the rest goes on.

    load_kernel, measure_jobs: do the work, the latter for jobs of one size and regime; tests pass fakes.
    rounds: by regime. begin: told the jobs that are not current, before the first is measured.
    """
    failed = 0
    numbers = {job: f"[{index}/{len(jobs)}] {job.name}:" for index, job in enumerate(jobs, 1)}
    waiting: list[tuple[Job, Kernel]] = []
    for job in jobs:
        try:
            kernel = load_kernel(job)
            if not force and is_current(job_path(job, info, directory), kernel.code_hash, info, rounds[job.regime]):
                report(f"{numbers[job]} is current")
            else:
                waiting.append((job, kernel))
        except RecordError as error:
            failed += 1
            report(f"{numbers[job]} {error}")
    begin([job for job, _ in waiting])
    for _, group in groupby(waiting, key=lambda pair: (pair[0].size, pair[0].regime)):
        batches = [list(group)]
        while batches:
            batch = batches.pop(0)
            begun = time.perf_counter()
            try:
                measurements = measure_jobs([kernel for _, kernel in batch], [job for job, _ in batch])
            except BenchmarkRefused as error:
                if len(batch) > 1:   # one of them is wrong: it is refused alone
                    batches = [[pair] for pair in batch]
                    continue
                failed += 1
                report(f"{numbers[batch[0][0]]} refused: {error}")
                continue
            seconds = time.perf_counter() - begun
            for (job, _), measurement in zip(batch, measurements, strict=True):
                path = job_path(job, info, directory)
                try:
                    write_record(measurement, path=path)
                except RecordError as error:
                    failed += 1
                    report(f"{numbers[job]} {error}")
                else:
                    report(f"{numbers[job]} {describe(measurement)}; {seconds / len(batch):.0f} s -> {display(path)}")
    return failed


def describe(measurement: Measurement) -> str:
    """A measurement in one line."""
    interval = measurement.ratio_interval
    clock = "" if measurement.sm_clock_mhz is None else f", {measurement.sm_clock_mhz:.0f} MHz"
    return (
        f"{measurement.tflops:.4g} TFLOP/s, cuBLAS {measurement.cublas_tflops:.4g}, ratio {measurement.ratio:.4f} "
        f"({interval.low:.4f} to {interval.high:.4f}){clock}"
    )


def record_yardsticks(directory: Path, timer: CudaTimer, report: Callable[[str], None] = print) -> None:
    """Measure and write bandwidth and idle clock of the GPU, and of a Hopper its tensor cores' roof: half a minute."""
    time.sleep(1.0)
    clock = timer.clock_mhz()
    bandwidth = device.measure_bandwidth()
    found = measure_roofs(timer, report) if timer.device.meets(ROOF_RULE) else ()
    path = write_yardsticks(Yardsticks(timer.device, bandwidth, clock, device.now(), found), directory)
    shown = "-" if clock is None else f"{clock:.0f} MHz"
    report(f"{timer.device.name}: {bandwidth.gb_per_s:.0f} GB/s, idle clock {shown} -> {display(path)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 1 if something failed, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    stopped = "Stopped; what was measured is written, and the same command goes on from here."
    return guarded(lambda: _run(options), interrupted=stopped)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m helpers.record", description="Record the ladder on this GPU.")
    parser.add_argument("--rungs", nargs="+", default=None, metavar="RUNG", help="all by default")
    parser.add_argument("--sizes", nargs="+", type=int, default=None, metavar="N", help="M = N = K, not the plan's")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=None, help="for all rungs, not the plan's")
    parser.add_argument("--rounds", type=int, default=None, help="9 for bursts and 6 sustained by default")
    parser.add_argument("--rest", type=float, default=1.0, metavar="SECONDS", help="before each burst")
    parser.add_argument("--turn", type=float, default=3.0, metavar="SECONDS", help="length of a sustained turn")
    parser.add_argument("--twin-limit", type=int, default=TWIN_LIMIT, metavar="N", help="largest size of a twin")
    parser.add_argument("--ablations", action="store_true", help="the rungs' ablations, too")
    parser.add_output(RECORD_DIR)
    parser.add_argument("--force", action="store_true", help="measure what is current, too")
    parser.add_argument("--no-yardsticks", action="store_true", help="leave device.json alone")
    parser.add_argument("--list", action="store_true", help="show the jobs and how long they take, and stop")
    return parser


def _run(options: argparse.Namespace) -> int:
    for regime in options.regimes or REGIMES:
        check_options(regime, options.rounds, options.rest, options.turn)
    jobs = _jobs(options)
    rounds = {"burst": options.rounds or BURST_ROUNDS, "sustained": options.rounds or SUSTAINED_ROUNDS}

    def seconds(some: Sequence[Job]) -> float:
        return estimate_s(some, rounds, options.rest, options.turn)

    total = seconds(jobs) + (0 if options.no_yardsticks else YARDSTICKS_S)
    if options.list:
        for job in jobs:
            print(job.name)
    print(f"{plural(len(jobs), 'measurement')}, about {duration(total)} if none is current", flush=True)
    if options.list:
        return 0
    info = device.require_device("The ladder can only be recorded on a GPU")
    timer = CudaTimer()
    if not options.no_yardsticks:
        known = load_yardsticks(info, options.output)
        if options.force or known is None or known.device != info:
            record_yardsticks(options.output, timer)
    progress = Progress(seconds(jobs))

    def begin(waiting: list[Job]) -> None:
        progress.total_s = seconds(waiting)
        progress.report(f"{len(waiting)} of {len(jobs)} to measure, about {duration(progress.total_s)}")

    with Bench(CountedTimer(timer, progress.work, BURST_LIMIT_MS / 1e3)) as bench:

        def measure_jobs(kernels: list[Kernel], group: list[Job]) -> list[Measurement]:
            size, regime = group[0].size, group[0].regime
            found = measure_together(
                bench, kernels, (size,) * 3, regime, rounds[regime], options.rest, options.turn
            )
            progress.work(len(group) * OVERHEAD_S)
            return found

        try:
            failed = run_jobs(
                jobs,
                options.output,
                info,
                rounds,
                load_kernel=lambda job: load(job.rung, backend="cuda", entry=job.entry, defines=job.defines),
                measure_jobs=measure_jobs,
                force=options.force,
                report=progress.report,
                begin=begin,
            )
        finally:
            progress.close()
    if failed:
        print(f"error: {failed} of {plural(len(jobs), 'measurement')} failed, see above", file=sys.stderr)
    return 1 if failed else 0


def _jobs(options: argparse.Namespace) -> list[Job]:
    """What the command line asks for: the plan, or every combination of the sizes and regimes that it names."""
    rungs = RUNGS if options.rungs is None else once(map(find_rung, options.rungs))
    if options.sizes is None and options.regimes is None:
        return planned_jobs(rungs, options.twin_limit, options.ablations)
    sizes = options.sizes or [size for part in PLAN if part.regime == "burst" for size in part.sizes]
    regimes = options.regimes or ("burst",)
    return plan_jobs(rungs, once(sizes), once(regimes), options.twin_limit, options.ablations)


if __name__ == "__main__":
    sys.exit(main())
