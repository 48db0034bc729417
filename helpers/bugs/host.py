"""Mistakes on the host's side: launches that are changed on their way to the kernel."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from helpers.bugs.bug import Change
from helpers.launches import Launch
from helpers.tensor_map import TensorMap


def keep_first_map() -> Change:
    """Each launch gets the tensor map of A that the first one got, as a cache does that forgets the address."""
    kept: list[TensorMap] = []

    def change(launch: Launch) -> Launch:
        kept.append(launch.arguments[0])
        return replace(launch, arguments=(kept[0], *launch.arguments[1:]))

    return change


def less_shared_memory(launch: Launch) -> Launch:
    """A launch with the shared memory of three quarters of the ring."""
    return replace(launch, shared_bytes=launch.shared_bytes * 3 // 4)


def of_orders(edit: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A launch whose list of tiles, its only array of int32, went through `edit`."""

    def change(launch: Launch) -> Launch:
        arguments = tuple(
            edit(value) if isinstance(value, np.ndarray) and value.dtype == np.int32 else value
            for value in launch.arguments
        )
        return replace(launch, arguments=arguments)

    return change


def repeat_first_tile(order: np.ndarray) -> np.ndarray:
    """The list with its first tile in the place of its last too."""
    return np.append(order[:-1], order[:1])


def move_last_tile_out(order: np.ndarray) -> np.ndarray:
    """The list with its last tile a hundred rows of tiles further down, where C has none."""
    return np.append(order[:-1], order[-1:] + np.int32(100))
