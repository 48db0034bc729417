"""How many joules a kernel takes for a TFLOP, sustained, beside cuBLAS.

    print(energies(live=False))          as recorded

    python -m helpers.energy             on a Hopper GPU: rung 10 and cuBLAS at 4096 and 8192, recorded (a minute)
    python -m helpers.energy --rungs 9 10 --sizes 8192

Under its power cap a chip is as fast as its joules last: TFLOP/s are watts over joules for each TFLOP. (A joule for a
TFLOP is a picojoule for a FLOP.) Kernels and cuBLAS run in turn, 3 s each, as in the sustained benchmark.

NVML counts the GPU's energy. The counter is read after each chunk of about 50 ms; the readings of a turn's first 0.6 s
are dropped, and power is the slope of the straight line that fits the others best. (The counter moves in steps: of two
readings alone the place within a step would count.) Energy for a TFLOP is that power times the mean time of a launch.
Two more figures stand beside it: the mean of NVML's own power readings, as a check, and the energy beyond what the GPU
takes with this program loaded and waiting, which is measured in the same way before the first turn.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from helpers import device
from helpers.arrays import empty_matrix
from helpers.benchmark import Bench, Contender, check_options, launch_first, require_right, toolkit
from helpers.checks import require_integer
from helpers.energy_records import CUBLAS, Energies, Energy, EnergyTurn, recorded_energies, write_energies
from helpers.entry import Parser, guarded, once
from helpers.errors import BackendError
from helpers.jsonfile import display
from helpers.kernel import Kernel, load
from helpers.nvml import Telemetry
from helpers.rounds import dropped_s, in_turn, warm_chunk
from helpers.rungs import find_rung
from helpers.timing import Turn
from helpers.typed import typed

RUNGS, SIZES = (10,), (4096, 8192)
ROUNDS, TURN_S = 4, 3.0
IDLE_REST_S, IDLE_S, IDLE_STEP_S = 0.5, 2.0, 0.1
LEAST_STEPS = 3
OVERHEAD_S = 5.0   # a size: matrices, verification, checks; a guess for the estimate


@typed
def energies(*, live: bool = True) -> Energies:
    """Rung 10 and cuBLAS measured now on a Hopper GPU (a minute), else as recorded.

    live: whether to measure at all; False takes the recording everywhere, at once.
    Raises RecordError for a damaged file, BackendError if NVML does not count energy on this GPU.
    """
    kernels = [load(rung) for rung in RUNGS]
    if live and all(kernel.backend == "cuda" for kernel in kernels):
        with Bench() as bench:
            return measure_energies(bench, kernels, SIZES)
    return recorded_energies(device.device_info())


def measure_energies(
    bench: Bench,
    kernels: Sequence[Kernel],
    sizes: Sequence[int],
    rounds: int = ROUNDS,
    turn_s: float = TURN_S,
    report: Callable[[str], None] = lambda line: None,
) -> Energies:
    """Measure kernels that are loaded on the GPU, and cuBLAS, at each M = N = K. Waits while another reader measures.

    Raises BenchmarkRefused if a result is wrong, BackendError if NVML does not count energy on this GPU.
    """
    info = device.require_device("Energy can only be measured on a GPU")
    with bench.alone():
        disturbance = bench.timer.disturbance()
        idle_w = idle_watts(bench.timer.read_power)
        report(f"idle: {idle_w:.0f} W")
        items = []
        for n in sizes:
            items += _measure_size(bench, kernels, n, rounds, turn_s)
            report(f"N={n}: measured")
    method = {
        "rounds": rounds,
        "turn_s": turn_s,
        "dropped_s": dropped_s(turn_s),
        "order": "in turn, swapped each round",
        "inputs": "N(0,1)",
        "seed": 0,
        "idle_s": IDLE_S,
        "watts": "slope of NVML's energy counter",
    }
    if disturbance:
        method["note"] = disturbance
    return Energies(info, "live", device.now(), toolkit(), method, idle_w, tuple(items))


def _measure_size(bench: Bench, kernels: Sequence[Kernel], n: int, rounds: int, turn_s: float) -> list[Energy]:
    for kernel in kernels:
        bench.require_verified(kernel)
    A, B = bench.operands(n, n, n, 0)
    outputs = [empty_matrix(n, n, "cuda") for _ in range(len(kernels) + 1)]
    plan = bench.cublas.plan(A, B, outputs[-1])
    try:
        contenders = [
            Contender(kernel.rung.name, kernel.prepared(A, B, C), C)
            for kernel, C in zip(kernels, outputs[:-1], strict=True)
        ]
        contenders.append(Contender(CUBLAS, plan, outputs[-1]))
        chunks = []
        for contender in contenders:
            launch_first(contender, A, B)
            chunks.append(warm_chunk(bench.timer, contender.launch))
        turns: list[list[EnergyTurn]] = [[] for _ in contenders]
        for who in in_turn(len(contenders), rounds):
            turn = bench.timer.turn(contenders[who].launch, turn_s, dropped_s(turn_s), chunks[who])
            turns[who].append(turn_energy(turn, dropped_s(turn_s)))
        for contender in contenders:
            require_right(contender, A, B, "after it was timed")
    finally:
        plan.close()
    hashes = [*(kernel.code_hash for kernel in kernels), None]
    return [
        Energy(contender.name, code_hash, n, tuple(found))
        for contender, code_hash, found in zip(contenders, hashes, turns, strict=True)
    ]


def turn_energy(turn: Turn, drop_s: float) -> EnergyTurn:
    """What a turn took: of the readings later than `drop_s` after the first one."""
    kept = [
        reading
        for reading in turn.telemetry
        if reading.at_s is not None and reading.at_s - (turn.telemetry[0].at_s or 0.0) >= drop_s
    ]
    power = [reading.power_w for reading in kept if reading.power_w is not None]
    return EnergyTurn(float(np.mean(turn.samples_ms)), watts_of(kept), float(np.mean(power)) if power else None)


def idle_watts(read: Callable[[], Telemetry], sleep: Callable[[float], None] = time.sleep) -> float:
    """Power of a GPU that waits. read: gives a reading of NVML."""
    sleep(IDLE_REST_S)
    readings = []
    for _ in range(round(IDLE_S / IDLE_STEP_S)):
        readings.append(read())
        sleep(IDLE_STEP_S)
    return watts_of(readings)


def watts_of(readings: Sequence[Telemetry]) -> float:
    """Mean power between the first and the last reading: the slope of the line that fits the energy counter best.

    Raises BackendError if the counter is not there, or has hardly moved.
    """
    counted = [(item.at_s, item.energy_j) for item in readings if item.at_s is not None and item.energy_j is not None]
    if readings and not counted:
        why = next((item.reason for item in readings if item.reason), "it has no counter of energy on this GPU")
        raise BackendError(
            f"NVML does not say how much energy the GPU takes ({why}): measure on a data-centre GPU from Volta on."
        )
    # Where it has just moved it is not late: it moves in steps, on some GPUs in longer ones than it is read here.
    moved = [now for before, now in pairwise(counted) if now[1] != before[1]]
    if len(moved) < LEAST_STEPS:
        raise BackendError(
            f"NVML's energy counter has moved {len(moved)} times in a turn, at least {LEAST_STEPS} are needed: take "
            "longer turns."
        )
    seconds, joules = np.array(moved).T
    seconds, joules = seconds - seconds.mean(), joules - joules.mean()
    return float((seconds * joules).sum() / (seconds**2).sum())


def estimate_s(contenders: int, sizes: int, rounds: int, turn_s: float) -> float:
    """Seconds that it takes, roughly."""
    return IDLE_REST_S + IDLE_S + sizes * (OVERHEAD_S + contenders * rounds * turn_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.energy", description="Record joules for a TFLOP, beside cuBLAS.")
    parser.add_argument("--rungs", nargs="+", default=list(RUNGS), metavar="RUNG")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help="M = N = K")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--turn", type=float, default=TURN_S, metavar="SECONDS", help="length of a turn")
    parser.add_output()
    return guarded(lambda: _record(parser.parse_args(arguments)))


def _record(options: argparse.Namespace) -> int:
    for size in options.sizes:
        require_integer("size", size, 1)
    check_options("sustained", options.rounds, 0.0, options.turn)
    rungs, sizes = once(map(find_rung, options.rungs)), once(options.sizes)
    kernels = [load(rung) for rung in rungs]
    for kernel in kernels:
        if kernel.backend != "cuda":
            raise BackendError(
                f"The energy of {kernel.rung.name} can only be measured on a GPU that runs it: find one."
            )
    seconds = estimate_s(len(rungs) + 1, len(sizes), options.rounds, options.turn)
    print(f"about {seconds:.0f} s", flush=True)
    with Bench() as bench:
        found = measure_energies(
            bench, kernels, sizes, options.rounds, options.turn, lambda line: print(line, flush=True)
        )
    print(f"{found}\n-> {display(write_energies(found, options.output))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
