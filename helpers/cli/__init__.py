"""The command line: `python -m helpers COMMAND`.

A table for people, or with --json one list of flat objects on stdout and nothing else there. Errors are one sentence on
stderr: exit 1, or 2 for a command line that makes no sense. A traceback is a bug.
"""

import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence

from helpers.cli.output import Output
from helpers.cli.parser import build_parser
from helpers.errors import CourseError

INTERRUPTED = 130   # what a shell reports for a command that was stopped with Ctrl-C


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `arguments` are the command line's by default."""
    options = build_parser().parse_args(arguments)
    output = Output(as_json=options.json)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = _interruptible(lambda: _run(options.function, options, output), options.in_thread)
            output.finish()
            sys.stdout.flush()
            return code
        except BrokenPipeError:   # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1


def _run(function: Callable, options: object, output: Output) -> int:
    try:
        return function(options, output)
    except BrokenPipeError:
        raise
    except CourseError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return fail("Interrupted.", INTERRUPTED)
    except Exception as error:   # a bug; who wants to hunt it sets the variable
        if os.environ.get("HOPPER_TRACEBACK"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        return fail(f"Internal error, {type(error).__name__}: {text}; please report it. HOPPER_TRACEBACK=1 says where.")


def fail(sentence: str, code: int = 1) -> int:
    """Print an error and return the exit code."""
    print(" ".join(sentence.split()), file=sys.stderr)
    return code


def _interruptible(function: Callable[[], int], in_thread: bool) -> int:
    """Run a command so that Ctrl-C stops it at once, even within the emulator's machine code.

    Python handles a signal in the main thread between two of its own instructions. So the work is done in another
    thread, and the main one waits and ends the process.
    """
    if not in_thread:
        return function()
    results: list[int | BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
        thread.join()
    except KeyboardInterrupt:
        fail("Interrupted.")
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    (result,) = results
    if isinstance(result, BaseException):
        raise result
    return result


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"Warning: {message}", file=sys.stderr)
