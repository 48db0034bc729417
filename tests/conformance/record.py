"""Records what the GPU of this machine answers: `python -m tests.conformance.record --output DIR [--case TEXT ...]`.

All cases run in one process beside this one. If one fails, or does not answer in time, a new process goes on with those
that remain, as a GPU that stopped serves its process no longer. Refused cases, which make it stop, come last, each in a
process of its own, some at once. What is not as predicted is named; the hardware's answer is written all the same.
With `--backend emulator` the emulator answers, into a file of its own name: a rehearsal for which no GPU is needed.
"""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from helpers.arrays import BACKENDS
from helpers.cuda import nvrtc_version
from helpers.entry import Parser, folder, guarded
from helpers.errors import ArgumentError
from helpers.gpu import require_gpu

from .backends import run, status_of
from .cases import Arrays, Case
from .catalogue import CASES
from .recording import entry, write

SECONDS = 30   # for one case; the first of a process also starts CUDA
REPEATS = 2    # launches of each case, which must agree
AT_ONCE = 4    # processes of refused cases: each has a GPU context of its own, and most of its time goes into imports

AS_PREDICTED, DIFFERENT, FAILED = "as predicted", "different", "failed"
REFUSED, UNPREDICTED = "refused as expected", "recorded without a prediction"


@dataclass(frozen=True)
class Failure:
    """That there is no answer. sentence: why. status: with which the GPU stopped, if it did."""

    sentence: str
    status: str = ""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m tests.conformance.record", description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=folder, required=True, help="folder for the file, named after the GPU")
    parser.add_argument("--case", action="append", default=[], help="only cases whose name has this text in it")
    parser.add_argument("--backend", choices=BACKENDS, default="cuda", help="emulator: rehearse without a GPU")
    options = parser.parse_args(arguments)

    def work() -> int:
        cases = chosen_cases(options.case, options.backend)
        wrong = record(cases, options.output, device_of_this_machine(options.backend), options.backend)
        return 1 if wrong else 0

    return guarded(work)


def chosen_cases(texts: list[str], backend: str) -> list[Case]:
    """The cases with one of the texts in their names, or all, that the backend can answer.

    Raises ArgumentError for a text that is in none of their names.
    """
    cases = [case for case in CASES if backend == "cuda" or not case.hardware_only]
    for text in texts:
        if not any(text in case.name for case in cases):
            raise ArgumentError(f"--case {text!r} is in no name of a case for {backend}: give a part of one, such as "
                                f"{cases[0].name.partition('/')[0]}.")
    return [case for case in cases if not texts or any(text in case.name for text in texts)]


def device_of_this_machine(backend: str) -> dict[str, str]:
    """What stands at the head of the file. Raises BackendError without a Hopper GPU, unless the emulator answers."""
    if backend == "emulator":
        return {"name": "Emulator", "date": date.today().isoformat()}
    gpu = require_gpu("The conformance suite", "==9.0")
    driver = f"{gpu.driver // 1000}.{gpu.driver % 1000 // 10}"
    return {"name": gpu.name, "cuda_driver": driver, "nvrtc": nvrtc_version(), "date": date.today().isoformat()}


def record(cases: list[Case], directory: Path, device: dict[str, str], backend: str = "cuda") -> list[str]:
    """Run the cases and write the file. Returns the names of those that failed or differ from the prediction.

    Raises ArgumentError, before anything runs, if the prediction of a case does not fit its outputs.
    """
    begin = time.monotonic()
    for case in cases:
        case.prediction()
    answers: dict[str, dict[str, Any]] = {}
    verdicts: Counter[str] = Counter()
    wrong = []
    for case, answer in run_apart(cases, backend):
        verdict, detail = judge(case, answer)
        verdicts[verdict] += 1
        if verdict != AS_PREDICTED:
            print(f"{case.name}: {verdict}: {detail}", flush=True)
        if verdict in (DIFFERENT, FAILED):
            wrong.append(case.name)
        if verdict != FAILED:
            answers[case.name] = entry(case, answer.status if isinstance(answer, Failure) else answer)
    if answers:
        path = write(directory, device, answers)
        print(f"{path.name}: {len(answers)} cases, {path.stat().st_size:,} bytes")
    sums = (f"{verdicts[verdict]} {verdict}" for verdict in (AS_PREDICTED, DIFFERENT, FAILED, REFUSED, UNPREDICTED))
    print(f"{len(cases)} cases in {time.monotonic() - begin:.0f} s: {', '.join(sums)}.")
    return wrong


def judge(case: Case, answer: Arrays | Failure) -> tuple[str, str]:
    """How the answer stands to the prediction, and a remark on it."""
    if isinstance(answer, Failure):
        if case.refused and case.refused.status == answer.status:
            return REFUSED, answer.status
        return FAILED, answer.sentence
    if case.refused:
        return FAILED, f"it ran, and was to stop with the status {case.refused.status}"
    prediction = case.prediction()
    if prediction is None:
        return UNPREDICTED, ", ".join(f"{name} = {array.tolist()}" for name, array in answer.items() if array.size == 1)
    for name, predicted in prediction.items():
        found = np.ascontiguousarray(answer[name]).view(np.uint8).ravel()
        wrong = np.flatnonzero(found != np.ascontiguousarray(predicted).view(np.uint8).ravel())
        if wrong.size:
            return DIFFERENT, f"{wrong.size} of {found.size} bytes of {name}, first at {wrong[0]}"
    return AS_PREDICTED, ""


def run_apart(cases: list[Case], backend: str = "cuda") -> Iterator[tuple[Case, Arrays | Failure]]:
    """Each case with its answer, the refused ones last."""

    def run_alone(case: Case) -> list[tuple[Case, Arrays | Failure]]:
        return list(_run_together([case], backend))

    yield from _run_together([case for case in cases if not case.refused], backend)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answers in pool.map(run_alone, [case for case in cases if case.refused]):
            yield from answers


def _run_together(cases: list[Case], backend: str) -> Iterator[tuple[Case, Arrays | Failure]]:
    """In one process, and after each failure in a new one."""
    remaining = list(cases)
    context = multiprocessing.get_context("spawn")
    while remaining:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(theirs, [case.name for case in remaining], backend))
        process.start()
        theirs.close()
        try:
            while remaining:
                answer = _receive(ours, process)
                yield remaining.pop(0), answer
                if isinstance(answer, Failure):
                    break   # the GPU may be unusable for that process
        finally:
            process.kill()
            process.join()
            ours.close()


def _receive(pipe: Connection, process: Any) -> Arrays | Failure:
    if not pipe.poll(SECONDS):
        return Failure(f"no answer in {SECONDS} seconds")
    try:
        return pipe.recv()
    except EOFError:
        process.join(5)
        return Failure(f"its process ended with exit code {process.exitcode}")


def _work(pipe: Connection, names: list[str], backend: str) -> None:
    """In the other process: answer the cases one after the other, until one fails."""
    by_name = {case.name: case for case in CASES}
    for name in names:
        answer = _answer(by_name[name], backend)
        pipe.send(answer)
        if isinstance(answer, Failure):
            break
    os._exit(0)   # an orderly end would unload kernels, which a GPU that stopped answers with a traceback for each


def _answer(case: Case, backend: str) -> Arrays | Failure:
    try:
        first, *others = (run(case, backend) for _ in range(REPEATS))
    except Exception as error:   # whatever it is, the other cases go on
        return Failure(f"{type(error).__name__}: {error}", status_of(error))
    for other in others:
        if any(first[name].tobytes() != other[name].tobytes() for name in first):
            return Failure("two launches gave different answers")
    return first


if __name__ == "__main__":
    sys.exit(main())
