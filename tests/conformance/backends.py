"""Runs a case on the GPU or on the emulator: the same arrays, maps and arguments."""

from functools import cache
from typing import Any

import numpy as np

from helpers import gpu
from helpers.arguments import launch_arguments
from helpers.arrays import namespace
from helpers.cuda import Cubin, compile_cubin
from helpers.emulator import EmulatedModule, compile_kernel
from helpers.errors import BackendError
from helpers.tensor_map import tensor_map

from .cases import Arrays, Box, Case
from .catalogue import entries_of

# What CUDA calls the ways in which a kernel can fail, in words.
STATUSES = {
    "cudaErrorIllegalInstruction": "illegal instruction",
    "cudaErrorIllegalAddress": "illegal address",
    "cudaErrorMisalignedAddress": "misaligned address",
    "cudaErrorLaunchFailure": "launch failure",
}


class RuleBroken(BackendError):
    """The emulator reported something; only the refused cases break a rule."""


def run(case: Case, backend: str, schedule: str = "lazy", seed: int = 0, counters: bool = False) -> Arrays:
    """The arrays of a case's answer. schedule, seed, counters: of the emulator.

    Raises RuleBroken if the emulator reports anything.
    """
    arrays = {name: _to_backend(array, backend) for name, array in case.inputs().items()}
    arguments = launch_arguments([_argument(argument, arrays) for argument in case.arguments], backend)
    if backend == "cuda":
        function = _function(case.file, case.entry, tuple(case.defines.items()), case.path)
        gpu.launch_function(function, case.grid, case.block, arguments, case.shared_bytes)
        gpu.synchronize()
    else:
        module = _emulated(case.file, tuple(case.defines.items()), counters, case.path)
        done = module.launch(
            case.entry, case.grid, case.block, arguments,
            shared_bytes=case.shared_bytes, schedule=schedule, seed=seed, cluster=case.cluster,
        )  # fmt: skip
        if done.reports:
            reports = "; ".join(f"line {report.line}: {report.kind}: {report.message}" for report in done.reports)
            raise RuleBroken(f"{case.name} under {schedule} (seed {seed}): {reports}")
    return {name: _to_host(arrays[name]) for name in case.outputs}


def cubin(case: Case) -> Cubin:
    """A case's kernel file, compiled for Hopper. Needs no GPU."""
    return compile_cubin(case.path, case.defines)


def status_of(error: Exception) -> str:
    """The status with which the GPU stopped, or would have as the emulator says, as in `STATUSES`; empty if none."""
    is_ours, text = isinstance(error, RuleBroken), str(error)
    return next((words for name, words in STATUSES.items() if (words if is_ours else name) in text), "")


@cache
def _function(file: str, entry: str, defines: tuple[tuple[str, int], ...], path: Any) -> Any:
    """A kernel of the GPU. It stays loaded: once the GPU has stopped, it could not be unloaded."""
    return gpu.load_function(compile_cubin(path, dict(defines)).path, entry)


@cache
def _emulated(file: str, defines: tuple[tuple[str, int], ...], counters: bool, path: Any) -> EmulatedModule:
    return compile_kernel(path, entries_of(file), dict(defines), counters=counters)


def _argument(argument: str | int | Box | np.ndarray, arrays: dict[str, Any]) -> Any:
    if isinstance(argument, str):
        return arrays[argument]
    if isinstance(argument, Box):
        array = arrays[argument.array]
        if argument.view is not None:
            rows, columns = argument.view
            array = array[:rows, :columns]
        return tensor_map(array, argument.box, swizzle=argument.swizzle)
    return argument


def _to_backend(array: np.ndarray, backend: str) -> Any:
    """A copy in the backend's memory, 256-byte aligned; bits are copied, not converted."""
    module = namespace(backend)
    raw = np.ascontiguousarray(array).view(np.uint8).ravel()
    if backend == "emulator":
        memory = np.empty(raw.size + 256, np.uint8)
        start = -memory.ctypes.data % 256
        copy = memory[start:start + raw.size]
        copy[:] = raw
    else:
        copy = module.asarray(raw)
    return copy.view(array.dtype).reshape(array.shape)


def _to_host(array: Any) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return array
    return array.view(np.uint8).get().view(array.dtype).reshape(array.shape)
