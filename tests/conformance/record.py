"""Records what the GPU of this machine answers: `python -m tests.conformance.record --output DIR [--case TEXT ...]`.

The cases run in a process of their own. One that fails, or that does not answer in time, is named; a new process goes
on with those that remain, as a GPU that faulted serves its process no longer.
"""

import argparse
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from helpers.cuda import nvrtc_version
from helpers.errors import CourseError
from helpers.gpu import require_gpu

from .backends import run
from .cases import Arrays, Case
from .catalogue import CASES, TOPICS
from .recording import entry, write_topic

SECONDS = 60   # for one case; the first of a process also starts CUDA
REPEATS = 2    # launches of each case, which must agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.record", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for one JSON file per topic")
    parser.add_argument("--case", action="append", default=[], help="only cases whose name has this text in it")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.case or any(text in case.name for text in options.case)]
    try:
        device = device_of_this_machine()
    except CourseError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if record(cases, options.output, device) else 0


def device_of_this_machine() -> dict[str, str]:
    """Raises BackendError without a Hopper GPU."""
    gpu = require_gpu("The conformance suite", "==9.0")
    driver = f"{gpu.driver // 1000}.{gpu.driver % 1000 // 10}"
    return {"name": gpu.name, "cuda_driver": driver, "nvrtc": nvrtc_version(), "date": date.today().isoformat()}


def record(cases: list[Case], directory: Path, device: dict[str, str]) -> list[str]:
    """Run the cases and write the files. Returns the names of those that failed or differ from the prediction."""
    answers: dict[str, dict[str, Any]] = defaultdict(dict)
    failed = []
    for case, answer in run_apart(cases):
        verdict = answer if isinstance(answer, str) else compare(case, answer)
        print(f"{case.name}: {verdict}", flush=True)
        if isinstance(answer, str) or verdict.startswith("differs"):
            failed.append(case.name)
        if not isinstance(answer, str):
            answers[case.topic][case.name] = entry(case, answer)
    for topic in TOPICS:
        if topic in answers:
            path = write_topic(directory, topic, device, answers[topic])
            print(f"{path.name}: {len(answers[topic])} cases, {path.stat().st_size:,} bytes")
    print(f"{len(cases) - len(failed)} of {len(cases)} cases as predicted." + "".join(f"\n  {name}" for name in failed))
    return failed


def compare(case: Case, answer: Arrays) -> str:
    """One line on how the answer stands to the prediction."""
    if case.expected is None:
        told = [f"{name} = {array.tolist()}" for name, array in answer.items() if array.size == 1]
        return "recorded, not predicted" + "".join(f"; {text}" for text in told)
    for name, predicted in case.expected(case.inputs()).items():
        found = np.ascontiguousarray(answer[name]).view(np.uint8).ravel()
        wrong = np.flatnonzero(found != np.ascontiguousarray(predicted).view(np.uint8).ravel())
        if wrong.size:
            return f"differs from the prediction in {wrong.size} of {found.size} bytes of {name}, first at {wrong[0]}"
    return "as predicted"


def run_apart(cases: list[Case]) -> Iterator[tuple[Case, Arrays | str]]:
    """Each case with its answer, or with a sentence on why there is none."""
    remaining = list(cases)
    context = multiprocessing.get_context("spawn")
    while remaining:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, [case.name for case in remaining]))
        process.start()
        theirs.close()
        try:
            while remaining:
                answer = _receive(ours, process)
                yield remaining.pop(0), answer
                if isinstance(answer, str):
                    break   # the GPU may be unusable for that process
        finally:
            process.kill()
            process.join()
            ours.close()


def _receive(pipe: Connection, process: Any) -> Arrays | str:
    if not pipe.poll(SECONDS):
        return f"FAILED: no answer in {SECONDS} seconds"
    try:
        return pipe.recv()
    except EOFError:
        process.join(5)
        return f"FAILED: its process ended with exit code {process.exitcode}"


def _work(pipe: Connection, names: list[str]) -> None:
    """In the other process: answer the cases one after the other, until one fails."""
    by_name = {case.name: case for case in CASES}
    for name in names:
        answer = _answer(by_name[name])
        pipe.send(answer)
        if isinstance(answer, str):
            return


def _answer(case: Case) -> Arrays | str:
    try:
        first, *others = (run(case, "cuda") for _ in range(REPEATS))
    except Exception as error:   # whatever it is, the other cases go on
        return f"FAILED: {type(error).__name__}: {error}"
    for other in others:
        if any(first[name].tobytes() != other[name].tobytes() for name in first):
            return "FAILED: two launches gave different answers"
    return first


if __name__ == "__main__":
    sys.exit(main())
