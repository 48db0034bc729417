"""Launch functions that take turns, round after round: how many launches each has, and what they took.

Whose turn it is goes by `in_turn`; how a burst and a turn are timed, by helpers.timing; why so, by helpers.benchmark.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.checks import require_integer
from helpers.intervals import median
from helpers.nvml import Telemetry
from helpers.records import Samples
from helpers.timing import Launch, Timer, Turn

BURST_LAUNCHES = 16
BURST_LIMIT_MS = 40.0    # of a burst: after that the power cap lowers the clock
SPIN_MS = 0.3            # at least, behind which launches are queued
LONGEST_SPIN_MS = 5.0
DROP_S = 0.6             # at the beginning of a turn, while the chip gets warm
CHUNK_MS = 50.0          # of launches, a sample of a turn
MOST_ROUNDS = 1_000      # of one measurement: in bursts they take half an hour, in turns nearly two


@dataclass(frozen=True)
class Rounds:
    """What the rounds gave: samples, every NVML reading while the kernel ran, and the method in numbers."""

    samples: Samples
    telemetry: tuple[Telemetry, ...]
    method: dict[str, Any]


class _Series:
    """What one launch function gave, round by round."""

    def __init__(self) -> None:
        self.ms: list[tuple[float, ...]] = []
        self.clocks: list[float | None] = []
        self.telemetry: list[Telemetry] = []


def _rounds(kernel: _Series, cublas: _Series, method: dict[str, Any]) -> Rounds:
    samples = Samples(tuple(kernel.ms), tuple(cublas.ms), tuple(kernel.clocks), tuple(cublas.clocks))
    return Rounds(samples, tuple(kernel.telemetry), {**method, "order": "in turn, swapped each round"})


def burst_together(
    timer: Timer, kernels: Sequence[Launch], cublas: Launch, rounds: int, rest_s: float = 1.0
) -> list[Rounds]:
    """Bursts in turn, the order swapped each round; a result per kernel. `timer` does the timing."""
    everyone = (*kernels, cublas)
    launches, spin_ms = [], SPIN_MS
    for launch in everyone:
        count = launch_count(timer.burst(launch, 1, 0.0, SPIN_MS).ms)
        warm = timer.burst(launch, count, 0.0, SPIN_MS)   # warms up, and shows how long queueing takes
        launches.append(min(count, launch_count(warm.ms)) if count > 1 else count)
        spin_ms = max(spin_ms, spin_for(warm.queue_ms))
    series = [_Series() for _ in everyone]
    queue_ms, hidden = [0.0] * len(everyone), [True] * len(everyone)
    for who in in_turn(len(everyone), rounds):
        burst = timer.burst(everyone[who], launches[who], rest_s, spin_ms)
        series[who].ms.append((burst.ms,))
        series[who].clocks.append(burst.sm_clock_mhz)
        series[who].telemetry.append(burst.telemetry)
        queue_ms[who] = max(queue_ms[who], burst.queue_ms)
        # queued before the last one's turn
        hidden[who] &= burst.queue_ms < spin_ms + (launches[who] - 1) * burst.ms
    return [
        _rounds(
            series[who],
            series[-1],
            {
                "rounds": rounds,
                "rest_s": rest_s,
                "spin_ms": spin_ms,
                "kernel_launches": launches[who],
                "cublas_launches": launches[-1],
                "longest_queue_ms": round(max(queue_ms[who], queue_ms[-1]), 3),
                "launches_hidden": hidden[who] and hidden[-1],
            },
        )
        for who in range(len(kernels))
    ]


def sustained_together(
    timer: Timer, kernels: Sequence[Launch], cublas: Launch, rounds: int, turn_s: float = 3.0
) -> list[Rounds]:
    """Turns of back-to-back launches, the order swapped each round. A sample is the mean of a chunk of about 50 ms."""
    everyone = (*kernels, cublas)
    chunk = [warm_chunk(timer, launch) for launch in everyone]
    series = [_Series() for _ in everyone]
    for who in in_turn(len(everyone), rounds):
        turn = timer.turn(everyone[who], turn_s, dropped_s(turn_s), chunk[who])
        series[who].ms.append(turn.samples_ms)
        series[who].clocks.append(median(turn.clocks_mhz) if turn.clocks_mhz else None)
        series[who].telemetry.extend(turn.telemetry)
    return [
        _rounds(
            series[who],
            series[-1],
            {
                "rounds": rounds,
                "turn_s": turn_s,
                "dropped_s": dropped_s(turn_s),
                "kernel_launches_per_sample": chunk[who],
                "cublas_launches_per_sample": chunk[-1],
                "launched_as": "a CUDA graph per sample",
            },
        )
        for who in range(len(kernels))
    ]


def require_rounds(rounds: Any) -> None:
    """Raises ArgumentError for a number of rounds that nobody can measure, or that is none."""
    require_integer("rounds", rounds, 1, MOST_ROUNDS)


def in_turn(count: int, rounds: int) -> Iterator[int]:
    """Whose turn it is, from 0, in so many rounds of so many contenders: the order is swapped each round."""
    for index in range(rounds):
        yield from range(count) if index % 2 == 0 else reversed(range(count))


def launch_count(ms: float) -> int:
    """Launches of a burst for a kernel of `ms` milliseconds: 16, or as many as stay below 40 ms, at least one."""
    return max(1, min(BURST_LAUNCHES, int(BURST_LIMIT_MS / ms))) if ms > 0 else BURST_LAUNCHES


def chunk_launches(ms: float) -> int:
    """Launches of a sample of a turn for a kernel of `ms` milliseconds: about 50 ms of them, at least one."""
    return max(1, round(CHUNK_MS / ms))


def warm_chunk(timer: Timer, launch: Launch) -> int:
    """Launches of a sample of a turn, by what one takes that is not the first."""
    timer.burst(launch, 1, 0.0, SPIN_MS)
    return chunk_launches(timer.burst(launch, 1, 0.0, SPIN_MS).ms)


def dropped_s(turn_s: float) -> float:
    """Seconds at the beginning of a turn that do not count."""
    return min(DROP_S, turn_s / 3)


def warm_turn(timer: Timer, launch: Launch, ms: float, seconds: float, begin: Callable[[], None]) -> Turn:
    """A turn of so many seconds, every sample kept, of a kernel of `ms` milliseconds on a chip that is warm from it.

    begin: called when the chip is warm, just before the launches that count.
    """
    chunk = chunk_launches(ms)
    timer.turn(launch, DROP_S, 0.0, chunk)
    begin()
    return timer.turn(launch, seconds, 0.0, chunk)


def spin_for(queue_ms: float) -> float:
    """Length of the spin, ms: half as long again as queueing took, at least 0.3, at most 5, in steps of 0.1."""
    return min(LONGEST_SPIN_MS, max(SPIN_MS, round(-(-queue_ms * 15 // 1) / 10, 1)))
