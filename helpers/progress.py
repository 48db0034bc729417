"""How far a long measurement is, and how long it still takes: a bar on a terminal, a line a minute in a log."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from helpers.timing import Burst, Launch, Timer, Turn

WIDTH = 30
TRUSTED_S = 20.0   # of planned work, before the pace so far counts for the rest
LOG_EVERY_S = 60.0


class Progress:
    """Work counted in the seconds that it was planned to take.

    total_s: of the whole plan. stream: where the bar goes, stderr by default. clock: seconds that only grow.
    """

    def __init__(
        self, total_s: float, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total_s, self.done_s = total_s, 0.0
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._begun = self._logged = clock()

    @property
    def left_s(self) -> float:
        """Seconds still to go: what is left of the plan, at the pace so far."""
        left = max(0.0, self.total_s - self.done_s)
        pace = (self._clock() - self._begun) / self.done_s if self.done_s >= TRUSTED_S else 1.0
        return left * pace

    def __str__(self) -> str:
        """'[#####.........................]  17%, 12 min left'."""
        share = min(1.0, self.done_s / self.total_s) if self.total_s > 0 else 1.0
        bar = ("#" * int(share * WIDTH)).ljust(WIDTH, ".")
        return f"[{bar}] {int(100 * share):>3}%, {duration(self.left_s)} left"

    def work(self, planned_s: float) -> None:
        """So much of the plan is done."""
        self.done_s += planned_s
        if self._stream.isatty():
            self._draw()
        elif self._clock() - self._logged >= LOG_EVERY_S:
            self._logged = self._clock()
            print(self, file=self._stream, flush=True)

    def report(self, line: str) -> None:
        """Print a line on stdout; a bar stays below it."""
        self.close()
        print(line, flush=True)
        if self._stream.isatty():
            self._draw()

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _draw(self) -> None:
        print(f"\r{self}\x1b[K", end="", file=self._stream, flush=True)


class CountedTimer:
    """A timer that tells after each burst behind a rest, and after each turn, what that was planned to take (s)."""

    def __init__(self, timer: Timer, done: Callable[[float], None], burst_s: float) -> None:
        """burst_s: planned for the launches of a burst, beside its rest."""
        self._timer, self._done, self._burst_s = timer, done, burst_s

    @property
    def on_gpu(self) -> bool:
        """See Timer."""
        return self._timer.on_gpu

    def disturbance(self) -> str:
        """See Timer."""
        return self._timer.disturbance()

    def burst(self, launch: Launch, launches: int, rest_s: float, spin_ms: float) -> Burst:
        """See Timer."""
        found = self._timer.burst(launch, launches, rest_s, spin_ms)
        if rest_s > 0:   # one without a rest only warms up
            self._done(rest_s + self._burst_s)
        return found

    def turn(self, launch: Launch, seconds: float, drop_s: float, chunk_launches: int) -> Turn:
        """See Timer."""
        found = self._timer.turn(launch, seconds, drop_s, chunk_launches)
        self._done(seconds)
        return found

    def captured(self, launches: Sequence[Launch]) -> Launch:
        """See Timer."""
        return self._timer.captured(launches)


def duration(seconds: float) -> str:
    """'40 s', '12 min', '2 h 05 min'; rounded up."""
    if seconds < 60:
        return f"{-(-seconds // 1):.0f} s"
    minutes = int(-(-seconds // 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
