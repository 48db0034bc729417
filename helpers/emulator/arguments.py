"""Turns Python arguments into what a kernel's parameters want, checking each."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.checks import is_integer
from helpers.emulator.protocol import PARAMETER_KINDS, BufferSpec, Parameter
from helpers.errors import ArgumentError
from helpers.tensor_map import BYTES as MAP_BYTES
from helpers.tensor_map import TensorMap

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
                buffers.append(_buffer(array, array.ctypes.data, array.nbytes, storage))
                self._arrays.append(array)
                self.buffer_names.append(name)
            elif isinstance(value, TensorMap):
                data = _map_bytes(entry, name, kind, parameter.bytes, value)
                storage = ctypes.create_string_buffer(data, len(data))
                buffers.append(_buffer(value.array, value.address, _reachable_bytes(value), storage))
                self._arrays.append(value.array)
                self.buffer_names.append(name)
            else:
                data = _scalar_bytes(entry, name, kind, parameter.bytes, value)
                storage = ctypes.create_string_buffer(data, len(data))
            self._storage.append(storage)
        self.buffers = (BufferSpec * len(buffers))(*buffers)
        self.pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, self._storage))


def _buffer(array: np.ndarray, address: int, size: int, storage: ctypes.Array) -> BufferSpec:
    """An array whose address, in the launch's own memory, is to be written to the beginning of `storage`."""
    return BufferSpec(
        host=address,
        bytes=size,
        argument=ctypes.addressof(storage),
        writable=int(array.flags.writeable),
        is_list=int(array.dtype == np.int32),
    )


def _reachable_bytes(value: TensorMap) -> int:
    """The matrix with the rest of its last 16 bytes, which a TMA store writes too, if the array's memory has them."""
    owner = value.array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    end = owner.ctypes.data + owner.nbytes
    return max(value.nbytes, min(-(-value.nbytes // 16) * 16, end - value.address))


def _checked_array(entry: str, name: str, value: Any) -> np.ndarray:
    if isinstance(value, TensorMap):
        raise ArgumentError(f"{name} of {entry} is a tensor map, and its parameter a pointer: pass the array itself.")
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"{name} of {entry} is a {type(value).__name__}: a pointer needs a NumPy array.")
    if value.dtype.hasobject:
        raise ArgumentError(f"{name} of {entry} is an array of Python objects: give one of numbers.")
    if not value.flags.c_contiguous:
        raise ArgumentError(f"{name} of {entry} is not contiguous: pass numpy.ascontiguousarray({name}).")
    if value.nbytes == 0:
        raise ArgumentError(f"{name} of {entry} is empty: give an array with at least one element.")
    return value


def _map_bytes(entry: str, name: str, kind: str, size: int, value: TensorMap) -> bytes:
    """The record of a tensor map. Raises ArgumentError if the parameter is none or the matrix not in host memory."""
    if kind != "other" or size != MAP_BYTES:
        raise ArgumentError(
            f"{name} of {entry} is a tensor map, and its parameter is not: "
            "declare it `const __grid_constant__ TensorMap`."
        )
    if not isinstance(value.array, np.ndarray):
        raise ArgumentError(f"{name} of {entry} maps a {type(value.array).__name__}: make it of a NumPy array.")
    return value.record().tobytes()


def _scalar_bytes(entry: str, name: str, kind: str, size: int, value: Any) -> bytes:
    """The bytes of a scalar as the parameter has it. Raises ArgumentError if it does not fit."""
    if kind not in _NUMPY_KINDS:
        is_record = isinstance(value, np.ndarray) and value.dtype.names is not None
        data = bytes(value) if is_record or isinstance(value, (ctypes.Structure, np.void)) else b""
        if len(data) != size:
            what = "a tensor map, made with tensor_map" if size == MAP_BYTES else "a ctypes.Structure"
            raise ArgumentError(f"{name} of {entry} must be a structure of {size} bytes: give {what}.")
        return data
    if not is_integer(value) and not (kind == "float" and isinstance(value, (float, np.floating))):
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
