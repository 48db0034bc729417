"""The errors that a reader is meant to read: one sentence, what is wrong and what to do.

Every error that the package raises on purpose is a `CourseError`; the command line prints it
without a traceback and exits with 1. Anything else that escapes is a bug.
"""


class CourseError(Exception):
    """Base of all deliberate errors. The message is one sentence with the remedy."""


class ArgumentError(CourseError, ValueError):
    """An argument is wrong: which one, what it is, what it must be."""


class BackendError(CourseError, RuntimeError):
    """The machine cannot do it: no GPU, no compiler, a GPU that is too old."""


class CompileError(BackendError):
    """A kernel does not compile; the message starts with the compiler's first error and its line."""


class RecordError(CourseError, ValueError):
    """A record file is damaged or does not fit the schema; the message names the file."""


class NoRecording(RecordError):
    """Nothing is damaged, but this code has not been recorded at this size."""
