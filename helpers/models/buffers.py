"""When each step is loaded and multiplied: one engine loads, one group of threads multiplies, buffers lie between.

A load waits for the engine and for its buffer; a multiplication for its bytes and for the one before. In clocks, or in
any other unit. A model of the order of things: latency, and what the two take from each other, are left out.
"""

from dataclasses import dataclass

from helpers.checks import require_integer, require_positive
from helpers.typed import typed

MOST_STEPS = 100_000   # each takes some memory


@dataclass(frozen=True)
class Step:
    """One step along K. buffer: where it lies. phase: of that buffer's barrier. load, multiply: (begin, end)."""

    buffer: int
    phase: int
    load: tuple[float, float]
    multiply: tuple[float, float]

    @property
    def parity(self) -> int:
        """What a wait for this step's bytes names."""
        return self.phase % 2


@dataclass(frozen=True)
class BufferSchedule:
    """All steps in order. buffers: how many there are."""

    buffers: int
    steps: tuple[Step, ...]

    @property
    def end(self) -> float:
        """When the last multiplication is done."""
        return self.steps[-1].multiply[1]

    @property
    def waited(self) -> float:
        """How long the threads waited for bytes, in all."""
        return self.end - sum(step.multiply[1] - step.multiply[0] for step in self.steps)


@typed
def buffer_schedule(steps: int, buffers: int, load: float, multiply: float) -> BufferSchedule:
    """Each of `steps` takes `load` to load and `multiply` to multiply; step s goes into buffer s % buffers.

    Raises ArgumentError for numbers that make no schedule.
    """
    for name, value in (("steps", steps), ("buffers", buffers)):
        require_integer(name, value, 1, MOST_STEPS)
    for name, value in (("load", load), ("multiply", multiply)):
        require_positive(name, value, "time")
    done: list[Step] = []
    for step in range(steps):
        freed = done[step - buffers].multiply[1] if step >= buffers else 0.0
        begin = max(done[-1].load[1] if done else 0.0, freed)
        landed = begin + load
        start = max(done[-1].multiply[1] if done else 0.0, landed)
        done.append(Step(step % buffers, step // buffers, (begin, landed), (start, start + multiply)))
    return BufferSchedule(buffers, tuple(done))
