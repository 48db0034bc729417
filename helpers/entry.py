"""What every command line of the package has in common: errors are one sentence on stderr, never a traceback."""

import argparse
import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TypeVar

from helpers import gpu
from helpers.checks import checked_folder
from helpers.errors import ArgumentError, CourseError
from helpers.words import one_line

T = TypeVar("T")
INTERRUPTED = 130   # what a shell reports for a command that was stopped with Ctrl-C


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)}; see `{self.prog} --help`.\n")

    def add_output(self, default: Path | None = None) -> None:
        """`--output`, the folder that a command writes its records into. default: if that must not be None."""
        self.add_argument("--output", type=folder, default=default, metavar="DIR", help="instead of helpers/records")


def folder(text: str) -> Path:
    """The path of a folder on a command line. A file in its place is refused before hours are measured for it."""
    try:
        return checked_folder("it", text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from None


def once(values: Iterable[T]) -> list[T]:
    """Each value once, in the order in which they came: who names a size or a rung twice wants it once."""
    return list(dict.fromkeys(values))


def fail(sentence: str, code: int = 1) -> int:
    """Print an error and return the exit code."""
    print(one_line(sentence), file=sys.stderr)
    return code


def guarded(work: Callable[[], int], interrupted: str = "Interrupted.") -> int:
    """The exit code of `work`; an error becomes a sentence on stderr and 1, or 130 after Ctrl-C.

    interrupted: what to say after Ctrl-C. A reader that has gone away, such as `head`, is no error to speak of: 1.
    With HOPPER_TRACEBACK set, an error that is a bug also prints its traceback.
    """
    mend_streams()
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return 1
    except CourseError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return fail(interrupted, INTERRUPTED)
    except Exception as error:
        if gpu.is_of_gpu(error):
            return fail(str(gpu.out_of_memory("this command", error)))
        if isinstance(error, MemoryError):
            what = f" ({' '.join(str(error).split()).rstrip('.')})" if str(error).strip() else ""
            return fail(f"The memory does not suffice{what}: give a smaller size, or free some.")
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return fail(f"No space is left for what this command writes ({error.strerror}): free some disk space.")
        if isinstance(error, OSError) and error.filename and error.strerror:
            return fail(f"{error.filename} cannot be used ({error.strerror}): look for it and its rights.")
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("helpers"):
            return fail(f"This Python has no {error.name}: run `make setup`, then use .venv/bin/python.")
        # A bug; who wants to hunt it sets the variable.
        if os.environ.get("HOPPER_TRACEBACK"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        return fail(f"Internal error, {type(error).__name__}: {text}; please report it. HOPPER_TRACEBACK=1 says where.")
    finally:
        _drop_what_cannot_be_written()


def mend_streams() -> None:
    """Streams to which everything can be printed: also where they are closed, or the locale lacks a letter.

    Only what is not mended yet is touched: once stdout leads elsewhere for a while, it cannot be reconfigured.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))
        elif hasattr(stream, "reconfigure") and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


def _drop_what_cannot_be_written() -> None:
    """Empty stdout's buffer, into nothing if need be: else Python would complain at its end and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
