"""bf16 matrices for both backends: NumPy arrays for the emulator, CuPy arrays for the GPU."""

from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from helpers.checks import require_integer
from helpers.errors import ArgumentError, BackendError
from helpers.gpu import memory_for, probe

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ALIGNMENT = 256   # bytes: what cudaMalloc gives, and more than any rung needs
MAX_SCALE = 1e30  # so that the values stay finite in fp32
BACKENDS = ("cuda", "emulator")
INPUTS = ("zeros", "uniform in [0, 1)", "N(0,1)")   # kinds of values; the ladder is measured on the last


def resolve_backend(backend: str) -> str:
    """`"cuda"` or `"emulator"`; `"auto"` is `"cuda"` where there is a GPU. Raises ArgumentError for other names."""
    if backend == "auto":
        return "cuda" if probe().gpu else "emulator"
    if backend not in BACKENDS:
        raise ArgumentError(f"backend {backend!r} is not known: give 'auto', 'cuda' or 'emulator'.")
    return backend


def namespace(backend: str) -> ModuleType:
    """The array module of a backend: numpy or cupy."""
    if backend == "emulator":
        return np
    import cupy

    return cupy


def current_device(backend: str) -> int:
    """The number of the GPU on which this thread works; 0 on the emulator."""
    return namespace(backend).cuda.Device().id if backend == "cuda" else 0


def random_matrix(rows: int, columns: int, seed: int, backend: str = "auto", scale: float = 1.0) -> Any:
    """A bf16 matrix (rows, columns) of normally distributed values with mean 0 and standard deviation `scale`.

    The same seed gives the same values on both backends. Row-major; the base is 256-byte aligned.
    Raises ArgumentError if a size is not a positive integer or the seed is negative.
    """
    backend = resolve_backend(backend)
    if backend == "cuda" and probe().gpu is None:
        raise BackendError(probe().problem)
    require_integer("rows", rows, 1)
    require_integer("columns", columns, 1)
    require_integer("seed", seed, 0)
    if isinstance(scale, bool) or not isinstance(scale, int | float | np.number) or not abs(scale) <= MAX_SCALE:
        raise ArgumentError(f"scale is {scale!r}: it must be a number from {-MAX_SCALE:g} to {MAX_SCALE:g}.")
    require_memory(8 * rows * columns, f"a matrix of {rows:,} x {columns:,}")
    values = np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)
    if scale != 1.0:
        values *= np.float32(scale)
    matrix = empty_matrix(rows, columns, "emulator")
    matrix[...] = values   # rounds to nearest even
    return matrix if backend == "emulator" else to_backend(matrix, backend)


def input_matrix(inputs: str, rows: int, columns: int, seed: int, backend: str) -> Any:
    """A bf16 matrix (rows, columns) of one of `INPUTS`. Raises ArgumentError for another kind."""
    if inputs not in INPUTS:
        raise ArgumentError(f"inputs {inputs!r} are not known: give one of {', '.join(map(repr, INPUTS))}.")
    if inputs == "N(0,1)":
        return random_matrix(rows, columns, seed, backend)
    host = empty_matrix(rows, columns, "emulator")
    values = np.random.default_rng(seed).random((rows, columns), dtype=np.float32) if inputs != "zeros" else 0
    host[...] = np.asarray(values, np.float32).astype(BFLOAT16)
    return to_backend(host, backend)


def empty_matrix(rows: int, columns: int, backend: str) -> Any:
    """A bf16 matrix without defined values, row-major, base 256-byte aligned."""
    if backend == "cuda":
        with memory_for(f"a matrix of {rows:,} x {columns:,}"):
            return namespace(backend).empty((rows, columns), dtype=BFLOAT16)
    size = rows * columns * BFLOAT16.itemsize
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start:start + size].view(BFLOAT16).reshape(rows, columns)


def to_backend(matrix: np.ndarray, backend: str) -> Any:
    """A host matrix as the backend's own array (the bits are copied, not converted)."""
    if backend == "emulator":
        return matrix
    with memory_for(f"a copy of a matrix of {' x '.join(map('{:,}'.format, matrix.shape))}"):
        copy = namespace(backend).empty(matrix.shape, np.uint16)
        copy.set(matrix.view(np.uint16))   # asarray takes memory on the host before, and prints a warning if it cannot
        return copy.view(BFLOAT16)


def to_host(matrix: Any) -> np.ndarray:
    """A matrix of either backend as a NumPy array."""
    if isinstance(matrix, np.ndarray):
        return matrix
    return matrix.view(np.uint16).get().view(BFLOAT16)


def require_memory(needed: int, what: str) -> None:
    """Raises ArgumentError if `what` needs more bytes than the machine has free.

    Linux would grant them and end the process when they are used.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise ArgumentError(
            f"The size is too large for this machine: {what} needs about {needed / 2**30:,.1f} GiB of memory and "
            f"{free / 2**30:,.1f} GiB are free; give a smaller one."
        )


def free_memory() -> int | None:
    """Bytes of memory that the machine can still give, None if it does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
