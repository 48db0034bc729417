"""compute-sanitizer over the ladder, its output recorded, so that a reader without a GPU can see it too.

    python -m helpers.compute_sanitizer                                       all kernels, all tools (two minutes)
    python -m helpers.compute_sanitizer --rungs 7 10 --tools racecheck        a part of them
    python -m helpers.compute_sanitizer --rungs 10_clusters+CLUSTER-4 appendix_split_k
                                                  a variant of a rung, and those of a kernel of the appendix
    python -m helpers.compute_sanitizer --again                               what is current, too

Each tool watches a child process (helpers.sanitizer.child) that multiplies a few small shapes with a rung, or with a
variant of the last rung or of the appendix's kernels (helpers.subjects). Then each tool is tried on planted faults
(helpers.sanitizer.faults): one that says nothing there proves nothing. Written are planted.json and a file for each
rung and variant in records/<device>/sanitizer/, each as soon as it is there. What a tool has answered about the very
same code is skipped, so after Ctrl-C the same command goes on. A tool that times out, refuses the device or fails in
another way is recorded as just that, and asked again the next time.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers import device
from helpers.checks import require_integer
from helpers.device import Device
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError, BackendError, CourseError
from helpers.jsonfile import display
from helpers.kernel import load
from helpers.nvidia_tools import find_tool, tool_version
from helpers.rungs import ROOT
from helpers.sanitizer import child
from helpers.sanitizer.faults import FAULTS, Fault
from helpers.sanitizer.output import ERROR_EXIT_CODE, REPORTED, TOOLS, Outcome, read_outcome
from helpers.sanitizer.record import (
    Planted,
    PlantedFault,
    Sanitized,
    find_planted,
    find_sanitized,
    planted_path,
    read_planted,
    read_sanitized,
    sanitized_path,
    write_planted,
    write_sanitized,
)
from helpers.subjects import SUBJECTS, Subject, find_subjects
from helpers.words import plural

TIMEOUT_S = 90.0     # of one child
MOST_CHILDREN = 8    # at a time: each needs two processors
FIRST_PORT, PORTS, MOST_PORTS = 49152, 16, 256   # the tool's two halves talk through one: every child has its own
LOOK_S = 0.05        # between two looks at the children
REMEDY = "install NVIDIA Compute Sanitizer, a part of the CUDA Toolkit; the recorded output needs none"
# The kernels of CuPy are none of ours. cuda::barrier is NVIDIA's name for mbarriers, too; the tools may count too few.
OPTIONS = ("--kernel-name", "kns=matmul", "--show-backtrace", "no", "--error-exitcode", str(ERROR_EXIT_CODE))
OPTIONS_OF = {
    "memcheck": ("--padding", "256"),   # bytes behind each allocation that nobody may touch
    "racecheck": ("--num-cuda-barriers", "64"),
    "synccheck": ("--num-cuda-barriers", "64"),
    "initcheck": (),
}
SLOWEST_FIRST = ("racecheck", "synccheck", "memcheck", "initcheck")


@dataclass(frozen=True)
class Job:
    """A tool on a kernel, or on a planted fault. code_hashes: of the functions of the kernel's file."""

    tool: str
    subject: Subject
    code_hashes: tuple[tuple[str, str], ...]
    fault: Fault | None = None

    @property
    def name(self) -> str:
        if self.fault:
            return f"{self.tool} {self.subject.rung.name} with {self.fault.name}"
        return f"{self.tool} {self.subject.name}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of the child."""
        if self.fault:
            return ("--fault", self.fault.name)
        return (self.subject.name, *(() if child.reads_result(self.subject.rung, self.tool) else ("--unread",)))


def sanitizer_command(tool_path: str, job: Job, port: int, python: str = sys.executable) -> list[str]:
    """The command line of a tool with its child."""
    command = [tool_path, "--tool", job.tool, *OPTIONS, *OPTIONS_OF[job.tool]]
    command += ["--port", str(port), "--max-connections", str(PORTS)]
    return [*command, python, "-m", "helpers.sanitizer.child", *job.arguments]


class Running:
    """A child at work: what it prints goes to a file without a name, and nothing of it outlives `end`."""

    def __init__(self, job: Job, command: Sequence[str], timeout_s: float) -> None:
        self.job = job
        self._limit_s, self._begun = timeout_s, time.monotonic()
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
            start_new_session=True,   # so that the whole group can be ended
        )

    def outcome(self) -> Outcome | None:
        """What the tool said; None while it is at work. After the time it is ended."""
        seconds = time.monotonic() - self._begun
        code = self._process.poll()
        if code is None and seconds < self._limit_s:
            return None
        self.end()
        self._output.seek(0)
        text = self._output.read().decode(errors="replace")
        return read_outcome(self.job.tool, text, code, seconds, device.now(), self.job.subject.rung.entry)

    def end(self) -> None:
        """End the child and all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def run_jobs(
    tool_path: str, jobs: Iterable[Job], done: Callable[[Job, Outcome], None], most: int, timeout_s: float = TIMEOUT_S
) -> None:
    """Run the jobs, at most so many at a time; each outcome is handed to `done` as soon as it is there.

    Raises BackendError if the tool cannot be started. Whatever is raised meanwhile, no child runs on.
    """
    waiting, running, started = list(jobs), [], 0
    try:
        while waiting or running:
            while waiting and len(running) < most:
                job = waiting.pop(0)
                command = sanitizer_command(tool_path, job, FIRST_PORT + PORTS * (started % MOST_PORTS))
                try:
                    running.append(Running(job, command, timeout_s))
                except OSError as error:
                    raise BackendError(f"{tool_path} cannot be started ({error.strerror}): {REMEDY}.") from None
                started += 1
            for child_at_work in list(running):
                outcome = child_at_work.outcome()
                if outcome is not None:
                    running.remove(child_at_work)
                    done(child_at_work.job, outcome)
            time.sleep(LOOK_S)
    finally:
        for child_at_work in running:
            child_at_work.end()


def subject_jobs(subjects: Sequence[Subject], tools: Sequence[str]) -> Iterator[Job]:
    """The jobs of the rungs and variants, the slowest first. Compiles the kernels, so that no child has to."""
    hashes = {subject.name: _code_hashes(subject) for subject in subjects}
    for tool in sorted(tools, key=SLOWEST_FIRST.index):
        for subject in sorted(subjects, key=lambda subject: -subject.rung.number):
            yield Job(tool, subject, hashes[subject.name])


def _code_hashes(subject: Subject) -> tuple[tuple[str, str], ...]:
    rung = subject.rung
    return tuple(
        (entry, load(rung, backend="cuda", entry=entry, defines=subject.defines).code_hash)
        for entry in (rung.entry, *rung.twins)
    )


def fault_jobs(tools: Sequence[str]) -> Iterator[Job]:
    """The jobs of the planted faults. Compiles them."""
    for fault in FAULTS:
        if fault.tool in tools:
            subject = Subject(fault.kernel, fault.defines)
            kernel = load(subject.rung, backend="cuda", defines=subject.defines, file=fault.file())
            yield Job(fault.tool, subject, ((kernel.entry, kernel.code_hash),), fault)


class Records:
    """The records of one GPU and one version of the tool. directory: helpers/records if it is None."""

    def __init__(self, info: Device, version: str, directory: Path | None = None) -> None:
        self._info, self._version, self._directory = info, version, directory

    def is_current(self, job: Job) -> bool:
        """Whether the tool has answered already about this very code. Raises RecordError if the file is damaged."""
        if job.fault:
            known = read_planted(planted_path(self._info.slug, self._directory))
            fault = known.fault(job.fault.name) if known and known.version == self._version else None
            return bool(fault and fault.outcome.is_answer and fault.code_hash == job.code_hashes[0][1])
        known = read_sanitized(sanitized_path(job.subject.name, self._info.slug, self._directory))
        outcome = known.outcome(job.tool) if known and known.of_same(self._sanitized(job)) else None
        return bool(outcome and outcome.is_answer)

    def write(self, job: Job, outcome: Outcome) -> Path:
        """Record an outcome. Raises RecordError if it cannot be written."""
        if job.fault:
            fault = PlantedFault(job.fault.name, job.code_hashes[0][1], outcome)
            return write_planted(Planted(self._info, self._version, (fault,)), self._directory)
        return write_sanitized(self._sanitized(job, outcome), self._directory)

    def _sanitized(self, job: Job, *outcomes: Outcome) -> Sanitized:
        rung, defines = job.subject.rung, job.subject.defines
        return Sanitized(
            rung.name, dict(job.code_hashes), self._info, self._version, child.shapes(rung), child.sms(rung), outcomes,
            defines,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if every tool has answered and sees the faults that it must; else 1, and 130 after Ctrl-C."""
    parser = Parser(prog="python -m helpers.compute_sanitizer", description="Record what compute-sanitizer says.")
    parser.add_argument("--rungs", nargs="+", default=[subject.name for subject in SUBJECTS], metavar="RUNG")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_output()
    parser.add_argument("--again", action="store_true", help="what is current, too")
    parser.add_argument("--no-faults", action="store_true", help="leave the planted faults out")
    parser.add_argument("--jobs", type=int, default=min(MOST_CHILDREN, os.cpu_count() or 1), help="children at a time")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="SECONDS", help="of a child, default 90")
    options = parser.parse_args(arguments)
    stopped = "Stopped; what the tools have said is written, and the same command goes on from here."
    return guarded(lambda: _run(options), interrupted=stopped)


def _run(options: argparse.Namespace) -> int:
    require_integer("--jobs", options.jobs, 1)
    if not 1 <= options.timeout <= 3600:
        raise ArgumentError(f"--timeout is {options.timeout}: it must be seconds from 1 to 3600.")
    subjects = list({found.name: found for name in options.rungs for found in find_subjects(name)}.values())
    tools = once(options.tools)
    try:
        info = device.require_device("compute-sanitizer needs a GPU")
        tool_path = find_tool("compute-sanitizer", REMEDY)
    except BackendError as error:
        print(error, file=sys.stderr, flush=True)
        return _show_recorded(subjects)
    records = Records(info, tool_version(tool_path), options.output)
    jobs = [*subject_jobs(subjects, tools), *(() if options.no_faults else fault_jobs(tools))]
    waiting = [job for job in jobs if options.again or not records.is_current(job)]
    print(f"{len(waiting)} of {plural(len(jobs), 'run')} to make", flush=True)
    bad: list[str] = []

    def done(job: Job, outcome: Outcome) -> None:
        try:
            path = records.write(job, outcome)
        except CourseError as error:
            bad.append(job.name)
            print(f"{job.name}: {error}", file=sys.stderr, flush=True)
            return
        if not outcome.is_answer or (job.fault and job.fault.must and outcome.status != REPORTED):
            bad.append(job.name)
        print(f"{job.name}: {outcome}; {outcome.seconds:.0f} s -> {display(path)}", flush=True)

    run_jobs(tool_path, waiting, done, options.jobs, options.timeout)
    if bad:
        print(f"error: no answer, or a planted fault was not seen: {', '.join(sorted(bad))}", file=sys.stderr)
    return 1 if bad else 0


def _show_recorded(subjects: Sequence[Subject]) -> int:
    """Print what is recorded of rungs and variants. Returns the exit code, 1: it is not this machine's."""
    for subject in subjects:
        found = find_sanitized(subject.rung, defines=subject.defines)
        said = "; ".join(map(str, found.outcomes)) if found else "nothing is recorded"
        origin = f", recorded on {found.device.name}, {found.date[:10]}" if found else ""
        print(f"{subject.name}{origin}: {said}", flush=True)
    planted = find_planted()
    for fault in planted.faults if planted else ():
        print(f"planted {fault.name}: {fault.outcome}", flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
