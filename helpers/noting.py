"""Kernels that note what they do: a variant with one parameter more, an array that its threads write to.

Only for the emulator, which runs the threads of a CTA in turn: there `count = ++notes[0]; notes[count] = ...` keeps the
order in which things happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.kernel import EmulatorBackend, Kernel
from helpers.rungs import Rung


@dataclass(frozen=True, eq=False)
class _NotingBackend(EmulatorBackend):
    """An emulator that hands each launch the array for its notes, behind the other arguments."""

    notes: np.ndarray | None = None

    def launch(
        self, compiled: Any, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> Any:
        return super().launch(compiled, entry, grid, block, (*arguments, self.notes), shared_bytes)


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
        self.notes = np.zeros(1 + words, np.int32)
        super().__init__(rung, _NotingBackend(**vars(backend), notes=self.notes), rung.entry, defines or {}, file)

    @property
    def noted(self) -> list[int]:
        """What the launches so far have noted, in order."""
        return self.notes[1 : 1 + self.notes[0]].tolist()
