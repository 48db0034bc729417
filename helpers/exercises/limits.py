"""A time limit for code that somebody else wrote."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TimeUp(BaseException):
    """The time is up. No Exception, so that `except Exception` in the code does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeUp in the code inside after so many seconds.

    Only in the main thread, where notebooks run their cells; without effect in others, and where a timer already runs.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "setitimer") or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    before = signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _raise(number: int, frame: FrameType | None) -> None:
    raise TimeUp
