"""Kernels that note what they do: a variant with one parameter more, an array that its threads write to.

Only for the emulator, which runs the threads of a CTA in turn: there `count = ++notes[0]; notes[count] = ...` keeps the
order in which things happened.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from helpers.backends import EmulatorBackend
from helpers.errors import CourseError
from helpers.kernel import Kernel
from helpers.rungs import Rung


class NotingKernel(Kernel):
    """A kernel on the emulator whose last parameter is an `int*`. words: the most that it can note in a launch.

    notes: the array itself, int32 (1 + words), for kernels that use it in a way of their own.
    """

    def __init__(
        self,
        rung: Rung,
        backend: EmulatorBackend,
        file: Path,
        words: int,
        defines: Mapping[str, str | int] | None = None,
    ):
        super().__init__(rung, backend, rung.entry, defines or {}, file)
        self.notes = np.zeros(1 + words, np.int32)
        self.extra_arguments = (self.notes,)

    @property
    def noted(self) -> list[int]:
        """What the launches so far have noted, in order."""
        return self.notes[1 : 1 + self.notes[0]].tolist()

    def note_product(self, size: tuple[int, int, int], seed: int) -> list[int]:
        """What it has noted after one product of that size. Raises CourseError if the product is not right."""
        from helpers.verify import run_once

        outcome, _ = run_once(self, size, seed)
        if not outcome.passed:
            reason = outcome.reason.rstrip(".")
            raise CourseError(f"{self.rung.name} with its notes is wrong ({reason}): mend it first.")
        return self.noted
