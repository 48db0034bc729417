"""Programmatic dependent launches: a grid may start while the one before ends.

Its CTAs come when those of the launch before have exited, whose last writes may still be on their way, or have called
griddepcontrol_launch_dependents (kernels/hopper.cuh). They set themselves up meanwhile, and wait for its end with
griddepcontrol_wait; a kernel without that instruction must not be launched so. CuPy has no such launch, so the
driver's own is called: cuLaunchKernelEx with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION (CUDA C++
Programming Guide, "Programmatic Dependent Launch and Synchronization"). Hopper and newer.
"""

import ctypes
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np


class CUDADriverError(Exception):
    """What the driver answered. It has the name of CuPy's, which helpers.gpu turns into a sentence."""


class Parameters:
    """The arguments of a kernel as the driver wants them: an array of addresses. Holds what they point to."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._values = [_value(argument) for argument in arguments]
        self._addresses = (ctypes.c_void_p * len(self._values))(*(value.ctypes.data for value in self._values))

    @property
    def address(self) -> int:
        """Of the array."""
        return ctypes.addressof(self._addresses)


def _value(argument: Any) -> np.ndarray:
    """An argument's own bytes: of a CuPy array its address on the GPU, of a NumPy value or tensor map the value."""
    if hasattr(argument, "data") and hasattr(argument.data, "ptr"):
        return np.array([argument.data.ptr], np.uint64)
    return np.ascontiguousarray(argument)


class DependentLaunch:
    """A launch of a CuPy function, ready to be queued: a call costs the CPU little more than the driver's own work.

    grid: CTAs, block: threads, along up to three axes. shared: bytes of dynamic shared memory.
    """

    def __init__(
        self, function: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared: int
    ) -> None:
        from cuda.bindings import driver

        allowed = driver.CUlaunchAttribute()
        allowed.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        allowed.value.programmaticStreamSerializationAllowed = 1
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = (*grid, 1, 1)[:3]
        config.blockDimX, config.blockDimY, config.blockDimZ = (*block, 1, 1)[:3]
        config.sharedMemBytes = shared
        config.attrs, config.numAttrs = [allowed], 1
        self._driver, self._config, self._owner = driver, config, function
        self._function = driver.CUfunction(function.kernel.ptr)
        self._parameters = Parameters(arguments)
        self._lock = Lock()

    def __call__(self) -> None:
        """Queue it on CuPy's current stream. Raises CUDADriverError if the driver refuses it."""
        import cupy

        driver = self._driver
        stream = driver.CUstream(cupy.cuda.get_current_stream().ptr)
        with self._lock:   # another thread may launch it on a stream of its own
            self._config.hStream = stream
            (status,) = driver.cuLaunchKernelEx(self._config, self._function, self._parameters.address, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise CUDADriverError(status.name)
