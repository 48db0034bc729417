"""A ring of stages between a producer and its consumers, played as the kernel plays it, with given costs.

    ring = play_ring(steps=8, stages=4, costs=Costs(latency=800, load=768, multiply=512))
    ring.end, ring.busy

The protocol is exact: "full" and "empty" mbarriers with their parities. The times are modelled, in clocks or in any
other unit: loads come one after another, each some latency after its order; the consumers' multiplications take turns
on the tensor cores; waiting and arriving cost nothing.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from helpers.checks import require_integer, require_positive
from helpers.errors import ArgumentError
from helpers.models.mbarrier import Mbarrier
from helpers.typed import typed
from helpers.words import short

MOST_STEPS = 200_000
WARPS, THREADS = 4, 128   # of a warpgroup
PRODUCER, TMA = "producer", "TMA"


@dataclass(frozen=True)
class Place:
    """Where a step lies. stage: its place in the ring. parity: of the phase of `full` that its bytes end."""

    stage: int
    parity: int


def place(step: int, stages: int) -> Place:
    """The place of a step in a ring of so many stages: each round of the ring is one phase of every barrier."""
    return Place(step % stages, step // stages % 2)


@typed
@dataclass(frozen=True)
class Costs:
    """What a step costs. latency: from an order to its first byte. load: from its first byte to its last.

    multiply: of one consumer's part, while it has the tensor cores for itself.
    """

    latency: float
    load: float
    multiply: float

    def __post_init__(self) -> None:
        for name in ("latency", "load", "multiply"):
            require_positive(name, getattr(self, name), "time")


@dataclass(frozen=True)
class Wait:
    """A wait at a barrier. who: "producer", "consumer 1", ... barrier: "full" or "empty". begin, end: equal if it
    passed at once."""

    who: str
    barrier: str
    stage: int
    parity: int
    step: int
    begin: float
    end: float


@dataclass(frozen=True)
class Work:
    """A load of "TMA" or a multiplication of a consumer."""

    who: str
    step: int
    stage: int
    begin: float
    end: float


@dataclass(frozen=True)
class Ring:
    """All that happened. waits: in the order in which they ended. work: in the order in which it began."""

    steps: int
    stages: int
    consumers: int
    waits: tuple[Wait, ...]
    work: tuple[Work, ...]

    @property
    def end(self) -> float:
        """When the last multiplication is done."""
        return max(item.end for item in self.work)

    @property
    def busy(self) -> float:
        """Share of the time in which the tensor cores multiply, 0 to 1."""
        return sum(item.end - item.begin for item in self.work if item.who != TMA) / self.end

    @property
    def wait_calls(self) -> int:
        """Calls of mbarrier_wait: of one thread of the producer and of all threads of the consumers."""
        return self.steps * (1 + self.consumers * THREADS)

    @property
    def arrivals(self) -> int:
        """Arrivals: of the producer's thread at `full`, of each consumer warp at `empty`."""
        return self.steps * (1 + self.consumers * WARPS)

    def waits_of(self, who: str) -> list[tuple[str, int, int]]:
        """The barrier, the stage and the parity that somebody waits for, one after another."""
        return [(wait.barrier, wait.stage, wait.parity) for wait in self.waits if wait.who == who]


@typed
def play_ring(steps: int, stages: int, costs: Costs, consumers: int = 2) -> Ring:
    """Play the ring until the last step is multiplied. Raises ArgumentError for numbers that make no ring."""
    for name, value in (("steps", steps), ("stages", stages), ("consumers", consumers)):
        require_integer(name, value, 1)
    for name, count in (("steps x consumers", steps * consumers), ("stages", stages)):
        if count > MOST_STEPS:
            raise ArgumentError(f"{name} is {short(count)}: at most {MOST_STEPS:,} can be played; give fewer.")
    player = _Player(steps, stages, costs, consumers)
    player.run()
    return Ring(steps, stages, consumers, tuple(player.waits), tuple(sorted(player.work, key=lambda item: item.begin)))


@dataclass(frozen=True)
class _Blocked:
    """Somebody who waits, and how to go on."""

    who: str
    actor: Iterator
    key: tuple[str, int]
    parity: int
    step: int
    begin: float


class _Player:
    """A clock, the barriers, and those who act. An actor yields a wait, (barrier, stage, parity, step), or a time."""

    def __init__(self, steps: int, stages: int, costs: Costs, consumers: int):
        self.waits: list[Wait] = []
        self.work: list[Work] = []
        self._steps, self._stages, self._costs, self._consumers = steps, stages, costs, consumers
        self._barriers = {("full", stage): Mbarrier(1) for stage in range(stages)}
        self._barriers |= {("empty", stage): Mbarrier(consumers * WARPS) for stage in range(stages)}
        self._blocked: list[_Blocked] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._now = self._wire_free = self._tensor_cores_free = 0.0

    def run(self) -> None:
        self._go_on(PRODUCER, self._producer())
        for number in range(1, self._consumers + 1):
            self._go_on(f"consumer {number}", self._consumer(f"consumer {number}"))
        while self._agenda:
            self._now, _, action = heapq.heappop(self._agenda)
            action()

    def _producer(self) -> Iterator:
        for step in range(self._steps):
            at = place(step, self._stages)
            yield "empty", at.stage, at.parity ^ 1, step
            key = ("full", at.stage)
            self._change(key, lambda full: full.arrive_expect_tx(1))
            begin = max(self._now + self._costs.latency, self._wire_free)
            self._wire_free = begin + self._costs.load
            self.work.append(Work(TMA, step, at.stage, begin, self._wire_free))
            self._at(self._wire_free, lambda key=key: self._change(key, lambda full: full.complete_tx(1)))

    def _consumer(self, who: str) -> Iterator:
        for step in range(self._steps):
            at = place(step, self._stages)
            yield "full", at.stage, at.parity, step
            begin = max(self._now, self._tensor_cores_free)
            self._tensor_cores_free = end = begin + self._costs.multiply
            self.work.append(Work(who, step, at.stage, begin, end))
            yield end
            for _ in range(WARPS):
                self._change(("empty", at.stage), Mbarrier.arrive)

    def _go_on(self, who: str, actor: Iterator) -> None:
        """Let somebody act until the next wait that does not pass at once, or until a time."""
        for wish in actor:
            if isinstance(wish, float):
                self._at(wish, lambda: self._go_on(who, actor))
                return
            barrier, stage, parity, step = wish
            blocked = _Blocked(who, actor, (barrier, stage), parity, step, self._now)
            if self._barriers[blocked.key].blocks(parity):
                self._blocked.append(blocked)
                return
            self._end_wait(blocked)

    def _end_wait(self, blocked: _Blocked) -> None:
        barrier, stage = blocked.key
        wait = Wait(blocked.who, barrier, stage, blocked.parity, blocked.step, blocked.begin, self._now)
        self.waits.append(wait)

    def _change(self, key: tuple[str, int], change: Callable[[Mbarrier], Mbarrier]) -> None:
        """An event at a barrier; those whose phase has ended by it go on at once."""
        self._barriers[key] = change(self._barriers[key])
        passing = [item for item in self._blocked if item.key == key and not self._barriers[key].blocks(item.parity)]
        for item in passing:
            self._blocked.remove(item)
            self._end_wait(item)
            self._at(self._now, lambda item=item: self._go_on(item.who, item.actor))

    def _at(self, time: float, action: Callable[[], None]) -> None:
        self._count += 1   # of those at one time, first come, first served
        heapq.heappush(self._agenda, (float(time), self._count, action))
