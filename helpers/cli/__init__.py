"""The command line: `python -m helpers COMMAND`.

A table for people, or with --json one list of flat objects on stdout and nothing else there. Errors are one sentence on
stderr: exit 1, or 2 for a command line that makes no sense. A traceback is a bug.
"""

import contextlib
import ctypes
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence

from helpers.background import Background
from helpers.cli.output import Output
from helpers.cli.parser import build_parser
from helpers.entry import INTERRUPTED, guarded, mend_streams

MOMENT_S = 0.5     # for a command to end by itself: a compiler hears Ctrl-C as well
PATIENCE_S = 1.0   # for a command's thread to tidy up after Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `arguments` are the command line's by default."""
    mend_streams()
    options = build_parser().parse_args(arguments)
    output = Output(as_json=options.json)
    started: list[Background] = []
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        with _stdout_kept_clean() if options.json else contextlib.nullcontext():
            code = guarded(lambda: _run(lambda: options.function(options, output), options.in_thread, started))
        code = guarded(lambda: output.finish() or code)
    if not all(work.ends_within(0) for work in started):   # in machine code that does not end
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    return code


def _run(function: Callable[[], int], in_thread: bool, started: list[Background]) -> int:
    """Run a command, in a thread of its own (which is added to `started`) if it calls the emulator's machine code.

    After Ctrl-C it is told to stop and tidy up, and gets a moment for that.
    """
    if not in_thread:
        return function()
    started.append(Background(function))
    try:
        return started[0].result()
    except KeyboardInterrupt:
        if not started[0].ends_within(MOMENT_S):
            started[0].interrupt()
            started[0].ends_within(PATIENCE_S)
        raise


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
