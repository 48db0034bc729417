"""Turns Python arguments into what a kernel's parameters want, checking each."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.emulator.protocol import PARAMETER_KINDS, BufferSpec, Parameter
from helpers.errors import ArgumentError

_NUMPY_KINDS = {"int": "i", "unsigned": "u", "float": "f"}


class PreparedArguments:
    """The arguments of one launch in memory. Keep it alive while the launch runs.

    pointers: address of each argument's value. buffers: the arrays among the arguments.
    buffer_names: their names, in the same order.
    """

    def __init__(self, entry: str, parameters: Sequence[Parameter], values: Sequence[Any], names: Sequence[str]):
        if len(values) != len(parameters):
            raise ArgumentError(
                f"{entry} has {len(parameters)} parameters but is launched with {len(values)} arguments: "
                "make the two agree."
            )
        self._arrays: list[np.ndarray] = []
        self._storage: list[ctypes.Array] = []
        self.buffer_names: list[str] = []
        buffers = []
        for index, (parameter, value) in enumerate(zip(parameters, values, strict=True)):
            name = names[index] if index < len(names) else f"argument {index + 1}"
            kind = PARAMETER_KINDS[parameter.kind]
            if kind == "pointer":
                array = _checked_array(entry, name, value)
                storage = ctypes.create_string_buffer(ctypes.sizeof(ctypes.c_void_p))
                buffers.append(
                    BufferSpec(
                        host=array.ctypes.data,
                        bytes=array.nbytes,
                        argument=ctypes.addressof(storage),
                        writable=int(array.flags.writeable),
                    )
                )
                self._arrays.append(array)
                self.buffer_names.append(name)
            else:
                data = _scalar_bytes(entry, name, kind, parameter.bytes, value)
                storage = ctypes.create_string_buffer(data, len(data))
            self._storage.append(storage)
        self.buffers = (BufferSpec * len(buffers))(*buffers)
        self.pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, self._storage))


def _checked_array(entry: str, name: str, value: Any) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"{name} of {entry} is a {type(value).__name__}: a pointer needs a NumPy array.")
    if not value.flags.c_contiguous:
        raise ArgumentError(f"{name} of {entry} is not contiguous: pass numpy.ascontiguousarray({name}).")
    if value.nbytes == 0:
        raise ArgumentError(f"{name} of {entry} is empty: give an array with at least one element.")
    return value


def _scalar_bytes(entry: str, name: str, kind: str, size: int, value: Any) -> bytes:
    """The bytes of a scalar as the parameter has it. Raises ArgumentError if it does not fit."""
    if kind not in _NUMPY_KINDS:
        data = bytes(value) if isinstance(value, (ctypes.Structure, np.void)) else b""
        if len(data) != size:
            raise ArgumentError(f"{name} of {entry} must be a structure of {size} bytes: give a ctypes.Structure.")
        return data
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    is_number = is_integer or isinstance(value, (float, np.floating))
    if not (is_integer if kind != "float" else is_number):
        wanted = "a number" if kind == "float" else "an integer"
        raise ArgumentError(f"{name} of {entry} is a {type(value).__name__}: give {wanted}.")
    dtype = np.dtype(f"{_NUMPY_KINDS[kind]}{size}")
    if kind != "float":
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise ArgumentError(
                f"{name} of {entry} is {value}: its parameter holds {limits.min} to {limits.max}."
            )
    return np.array(value, dtype=dtype).tobytes()
