"""The command line: `python -m helpers COMMAND`.

A table for people, or with --json one list of flat objects on stdout and nothing else there. Errors are one sentence on
stderr: exit 1, or 2 for a command line that makes no sense. A traceback is a bug.
"""

import contextlib
import ctypes
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence

from helpers.cli.output import Output
from helpers.cli.parser import build_parser
from helpers.entry import INTERRUPTED, guarded, mend_streams

STEP_S = 0.2       # after which the main thread looks for Ctrl-C again
PATIENCE_S = 1.0   # for a command's thread to tidy up after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `arguments` are the command line's by default."""
    mend_streams()
    options = build_parser().parse_args(arguments)
    output = Output(as_json=options.json)
    threads: list[threading.Thread] = []
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        with _stdout_kept_clean() if options.json else contextlib.nullcontext():
            own_threads = threads if options.in_thread else None
            code = guarded(lambda: _run(lambda: options.function(options, output), own_threads))
        code = guarded(lambda: output.finish() or code)
    if any(thread.is_alive() for thread in threads):   # in machine code that does not end
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return code


def _run(function: Callable[[], int], threads: list[threading.Thread] | None) -> int:
    """Run a command so that Ctrl-C stops it at once, even within the emulator's machine code.

    Python handles a signal in the main thread between two of its own instructions. So the work is done in another
    thread (which is added to `threads`), and after Ctrl-C the main one tells it to stop and tidy up, and waits a
    moment for that. With `threads` None it is done here.
    """
    if threads is None:
        return function()
    results: list[int | BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=work, daemon=True)
    threads.append(thread)
    thread.start()
    try:
        while thread.is_alive():   # in steps: a signal that comes just before a wait does not end it
            thread.join(STEP_S)
    except KeyboardInterrupt:
        identity = ctypes.c_ulong(thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(KeyboardInterrupt))
        thread.join(PATIENCE_S)
        raise
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


@contextlib.contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Send to stderr what is printed by others meanwhile, such as a kernel's printf: stdout is for the JSON list."""
    try:
        real = os.dup(1)
    except OSError:   # stdout is closed
        yield
        return
    libc = ctypes.CDLL(None)
    try:
        libc.fflush(None)
        os.dup2(2, 1)
        yield
    finally:
        libc.fflush(None)
        os.dup2(real, 1)
        os.close(real)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"Warning: {message}", file=sys.stderr)
