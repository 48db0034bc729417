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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device
from helpers.arrays import empty_matrix
from helpers.benchmark import (
    Bench,
    Contender,
    check_options,
    dropped_s,
    in_turn,
    launch_first,
    require_right,
    toolkit,
    warm_chunk,
)
from helpers.checks import require_integer
from helpers.device import Device, Telemetry
from helpers.entry import Parser, guarded
from helpers.errors import ArgumentError, BackendError
from helpers.intervals import Interval, median, median_interval
from helpers.jsonfile import Fields, display, write_json
from helpers.kernel import Kernel, load
from helpers.records import (
    MS_DIGITS,
    device_from_json,
    find_of_device,
    one_decimal,
    record_folder,
    three_digits,
)
from helpers.rungs import find_rung
from helpers.timing import Turn
from helpers.typed import typed

SCHEMA = "hopper-matmul/energy/1"
FILE = "energy.json"
CUBLAS = "cuBLAS"
RUNGS, SIZES = (10,), (4096, 8192)
ROUNDS, TURN_S = 4, 3.0
IDLE_REST_S, IDLE_S, IDLE_STEP_S = 0.5, 2.0, 0.1
LEAST_STEPS = 3
INDENT = " " * 12    # of a printed line that goes on
OVERHEAD_S = 5.0   # a size: matrices, verification, checks; a guess for the estimate


@dataclass(frozen=True)
class EnergyTurn:
    """One turn. ms: mean time of a launch. watts: by the energy counter. power_w: mean of NVML's power readings in the
    same time, None if it gives none.
    """

    ms: float
    watts: float
    power_w: float | None


@dataclass(frozen=True)
class Energy:
    """A kernel (its rung's name) or cuBLAS at M = N = K = n. code_hash: None for cuBLAS."""

    contender: str
    code_hash: str | None
    n: int
    turns: tuple[EnergyTurn, ...]

    def joules(self, idle_w: float = 0.0) -> tuple[float, ...]:
        """By turn, joules for a TFLOP. idle_w: power that is not counted."""
        tflop = 2 * self.n**3 / 1e12
        return tuple((turn.watts - idle_w) * turn.ms / 1e3 / tflop for turn in self.turns)

    @property
    def watts(self) -> float:
        """Mean power of a turn by the energy counter, the median of the turns."""
        return median([turn.watts for turn in self.turns])

    @property
    def power_w(self) -> float | None:
        """The same by NVML's power readings, or None."""
        found = [turn.power_w for turn in self.turns if turn.power_w is not None]
        return median(found) if found else None

    @property
    def tflops(self) -> float:
        """TFLOP/s, of the median of the turns."""
        return 2 * self.n**3 / median([turn.ms for turn in self.turns]) / 1e9


@dataclass(frozen=True)
class Energies:
    """What was measured on a GPU. device: None, and no items, if nobody has recorded any. source: 'live' or 'recorded'.

    idle_w: power with the program loaded and waiting, before the first turn. method: in numbers, units in the names.
    """

    device: Device | None = None
    source: str = "recorded"
    date: str = ""
    toolkit: Mapping[str, str | None] | None = None
    method: Mapping[str, Any] | None = None
    idle_w: float = 0.0
    items: tuple[Energy, ...] = ()

    def find(self, contender: str, n: int) -> Energy | None:
        """What a contender, by its rung's name or 'cuBLAS', took at a size; None if that was not measured."""
        return next((item for item in self.items if (item.contender, item.n) == (contender, n)), None)

    def ratio(self, item: Energy) -> tuple[float, Interval]:
        """Joules of a contender over cuBLAS's of the same round: the median, and its interval.

        Raises ArgumentError if cuBLAS was not measured at this size.
        """
        cublas = self.find(CUBLAS, item.n)
        if cublas is None:
            raise ArgumentError(f"item is of N = {item.n:,}, where cuBLAS was not measured: take another size.")
        ratios = [ours / theirs for ours, theirs in zip(item.joules(), cublas.joules(), strict=True)]
        return median(ratios), median_interval(ratios)

    def __str__(self) -> str:
        if self.device is None or not self.items:
            return "energy: no recording"
        coverage = median_interval(self.items[0].joules()).coverage
        head = (
            f"joules for a TFLOP, sustained on N(0,1), {self.source} on {self.device.name}, {self.date[:10]}; "
            f"{self.idle_w:.0f} W idle; intervals of {coverage:.0%}"
        )
        width = max(len(item.contender) for item in self.items)
        note = (self.method or {}).get("note")
        lines = [head, *(f"    N={item.n}  {self._words(item, width)}" for item in self.items)]
        return "\n".join([*lines, f"    {note}"] if note else lines)

    def _words(self, item: Energy, width: int) -> str:
        interval = median_interval(item.joules())
        metered = "" if item.power_w is None else f", {item.power_w:.0f} W by the power meter"
        text = (
            f"{item.contender:<{width}}  {median(item.joules()):.3f} J ({interval.low:.3f} to {interval.high:.3f}), "
            f"{median(item.joules(self.idle_w)):.3f} J beyond idle; {item.watts:.0f} W{metered}; "
            f"{three_digits(item.tflops)} TFLOP/s"
        )
        if item.contender == CUBLAS or self.find(CUBLAS, item.n) is None:
            return text
        ratio, interval = self.ratio(item)
        return f"{text}\n{INDENT}{ratio:.3f} of cuBLAS's joules ({interval.low:.3f} to {interval.high:.3f})"


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


def energy_path(slug: str, directory: Path | None = None) -> Path:
    """Where the energies of a GPU are kept."""
    return record_folder(directory) / slug / FILE


def recorded_energies(info: Device | None = None, directory: Path | None = None) -> Energies:
    """The recording of this GPU, else of the reference GPU, else none. Raises RecordError for a damaged file."""
    return find_of_device(FILE, from_json, info, directory) or Energies()


def write_energies(found: Energies, directory: Path | None = None) -> Path:
    """Write them to records/<device>/energy.json. Raises ArgumentError if nothing was measured."""
    if found.device is None or not found.items:
        raise ArgumentError("found holds no measurement: measure on a GPU first.")
    data = {
        "schema": SCHEMA,
        "device": asdict(found.device),
        "toolkit": dict(found.toolkit or {}),
        "method": dict(found.method or {}),
        "idle_w": one_decimal(found.idle_w),
        "energies": [
            {
                "contender": item.contender,
                "code_hash": item.code_hash,
                "n": item.n,
                "ms": [round(turn.ms, MS_DIGITS) for turn in item.turns],
                "watts": [one_decimal(turn.watts) for turn in item.turns],
                "power_w": [one_decimal(turn.power_w) for turn in item.turns],
            }
            for item in found.items
        ],
        "date": found.date,
    }
    return write_json(energy_path(found.device.slug, directory), data, from_json)


def from_json(data: Any, path: Path) -> Energies:
    """The energies in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    info = device_from_json(top.object("device"))
    top.require_place(info.slug, FILE)
    found = Energies(
        info, "recorded", top.date(), top.scalars("toolkit"), top.scalars("method"), top.number("idle_w"),
        tuple(map(_energy, top.objects("energies"))),
    )
    if not found.items:
        top.fail("energies", "is empty", "what at least one contender took")
    for item in found.items:
        who, other = f"{item.contender} at N = {item.n}", found.find(CUBLAS, item.n) or item
        if found.find(item.contender, item.n) is not item:
            top.fail("energies", f"holds {who} twice", "each contender at each size once")
        if len(item.turns) != len(other.turns):
            top.fail("energies", f"holds {len(item.turns)} turns of {who}", f"{len(other.turns)}, as of cuBLAS")
    if found.idle_w >= (least := min(turn.watts for item in found.items for turn in item.turns)):
        top.fail("idle_w", f"is {found.idle_w:g}", f"less than the power of every turn, {least:g} at least")
    return found


def _energy(item: Fields) -> Energy:
    columns = {key: item.numbers(key, allow_null=key == "power_w") for key in ("ms", "watts", "power_w")}
    for key, values in columns.items():
        if not values or len(values) != len(columns["ms"]):
            item.fail(key, f"has {len(values)} turns", f"{len(columns['ms']) or 'one or more'}, as in ms")
    turns = tuple(EnergyTurn(*values) for values in zip(*columns.values(), strict=True))
    contender = item.text("contender")
    return Energy(contender, None if contender == CUBLAS else item.code_hash(), item.integer("n", 1), turns)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.energy", description="Record joules for a TFLOP, beside cuBLAS.")
    parser.add_argument("--rungs", nargs="+", default=list(RUNGS), metavar="RUNG")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help="M = N = K")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--turn", type=float, default=TURN_S, metavar="SECONDS", help="length of a turn")
    parser.add_argument("--output", type=Path, default=None, metavar="DIR", help="instead of helpers/records")
    return guarded(lambda: _record(parser.parse_args(arguments)))


def _record(options: argparse.Namespace) -> int:
    for size in options.sizes:
        require_integer("size", size, 1)
    check_options("sustained", options.rounds, 0.0, options.turn)
    rungs, sizes = list(dict.fromkeys(map(find_rung, options.rungs))), list(dict.fromkeys(options.sizes))
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
