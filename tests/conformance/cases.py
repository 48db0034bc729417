"""A conformance case as data: a micro-kernel, what it is given, and which arrays hold its answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from helpers.errors import ArgumentError

KERNELS = Path(__file__).parent / "kernels"
UNWRITTEN = 0xEE   # the bytes of an answer before the kernel has written it

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Box:
    """An argument that is a tensor map: of which array, and the box of it.

    view: (rows, columns) of the map where it is of the array's first rows and columns only.
    """

    array: str
    box: tuple[int, int]
    swizzle: str = "128B"
    view: tuple[int, int] | None = None


@dataclass(frozen=True)
class Refusal:
    """That a launch breaks a rule. status: with which a GPU stops. kind, words: of the emulator's report."""

    status: str
    kind: str
    words: str


@dataclass(frozen=True)
class Case:
    """One launch of a micro-kernel.

    name: topic/what is looked at. file, entry: the kernel. arguments: in the kernel's order: the name of an array of
    `inputs`, a tensor map, an integer, or a structure (a NumPy array of one structured value).
    inputs: makes the arrays, those of the answers too. outputs: names of the arrays that hold the answer.
    cluster: CTAs of a cluster, as the kernel declares them. defines: for the preprocessor.
    expected: what is predicted from the inputs alone, where that is cheap; independent of the emulator.
    hardware_only: the emulator reports a fault of which the hardware says nothing; recorded to know what it does.
    refused: for a launch that must fail; there is no answer then, but a status.
    """

    name: str
    file: str
    entry: str
    arguments: tuple[str | int | Box | np.ndarray, ...]
    inputs: Callable[[], Arrays]
    outputs: tuple[str, ...]
    expected: Callable[[Arrays], Arrays] | None
    grid: tuple[int, ...] = (1,)
    block: tuple[int, ...] = (128,)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared_bytes: int = 0
    defines: Mapping[str, int] = field(default_factory=dict)
    hardware_only: bool = False
    refused: Refusal | None = None

    @property
    def path(self) -> Path:
        return KERNELS / self.file

    @property
    def topic(self) -> str:
        return self.name.partition("/")[0]

    def prediction(self) -> Arrays | None:
        """What `expected` makes of the inputs. Raises ArgumentError unless its arrays are those of the outputs."""
        if self.expected is None:
            return None
        inputs = self.inputs()
        predicted = self.expected(inputs)
        ours, theirs = _described(predicted), _described({name: inputs[name] for name in self.outputs})
        if ours != theirs:
            raise ArgumentError(
                f"expected of {self.name} gives {ours}, and must give what its outputs are, {theirs}: "
                "mend the one that is wrong, and bind names that are set again later (`lambda inputs, told=told: ...`)."
            )
        return predicted


def _described(arrays: Arrays) -> str:
    return ", ".join(f"{name}: {array.dtype} {array.shape}" for name, array in sorted(arrays.items())) or "nothing"


def unwritten(shape: int | tuple[int, ...], dtype: type | np.dtype = np.uint8) -> np.ndarray:
    """An array for an answer."""
    array = np.empty(shape, dtype)
    array.view(np.uint8).fill(UNWRITTEN)
    return array


def random_state(seed: int) -> np.random.RandomState:
    """The generator whose numbers NumPy promises never to change, as recorded answers depend on them."""
    return np.random.RandomState(seed)
