"""Work in a thread of its own, while the main one waits for it and for Ctrl-C."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

STEP_S = 0.2   # after which the waiting thread looks for Ctrl-C again


class Background:
    """A function that runs in a thread.

    Python handles a signal in the main thread between two of its own instructions, so a main thread in a long call of
    machine code would not hear Ctrl-C. The end is told by an event: Thread.join takes a thread for ended once Ctrl-C
    has come during a join (Python 3.11, bpo-45274).
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._outcome: list[tuple[Any, BaseException | None]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._outcome.append((self._function(), None))
        except BaseException as error:
            self._outcome.append((None, error))
        finally:
            self._ended.set()

    def result(self) -> Any:
        """Wait for what the function returns or raises. Raises KeyboardInterrupt after Ctrl-C; it then runs on."""
        while not self._ended.wait(STEP_S):   # in steps: a signal that comes just before a wait does not end it
            pass
        value, error = self._outcome[0]
        if error is not None:
            raise error
        return value

    def ends_within(self, seconds: float) -> bool:
        """Wait at most so long for the end; whether it has ended."""
        return self._ended.wait(seconds)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the function, as soon as it runs Python code."""
        identity = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(KeyboardInterrupt))
