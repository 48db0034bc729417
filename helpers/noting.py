"""Kernels that note what they do: a variant with one parameter more, an array that its threads write to.

Only for the emulator, which runs the threads of a CTA in turn: there `count = ++notes[0]; notes[count] = ...` keeps the
order in which things happened.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.kernel import EmulatorBackend, Kernel
from helpers.rungs import Rung


class NotingKernel(Kernel):
    """A kernel on the emulator whose last parameter is an `int*`. words: the most that it can note in a launch."""

    def __init__(
        self,
        rung: Rung,
        backend: EmulatorBackend,
        file: Path,
        words: int,
        defines: Mapping[str, str | int] | None = None,
    ):
        super().__init__(rung, backend, rung.entry, defines or {}, file)
        self._notes = np.zeros(1 + words, np.int32)

    @property
    def noted(self) -> list[int]:
        """What the launches so far have noted, in order."""
        return self._notes[1 : 1 + self._notes[0]].tolist()

    def launch(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared_bytes: int = 0) -> Any:
        """As the kernel's own, with the array for the notes behind the arguments."""
        return super().launch(grid, block, (*arguments, self._notes), shared_bytes)
