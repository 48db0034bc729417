"""Checks of a kernel's arguments, before anything is launched. Both backends use the same ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.arrays import BFLOAT16, current_device
from helpers.checks import require_integer
from helpers.errors import ArgumentError
from helpers.rungs import Rung
from helpers.tensor_map import TensorMap
from helpers.tile_order import N_LIMIT
from helpers.words import short

INT32_MAX = 2**31 - 1
MAX_GRID = (INT32_MAX, 65_535, 65_535)          # CUDA C++ Programming Guide, "Technical Specifications"
MAX_BLOCK = (1024, 1024, 64)
MAX_THREADS = 1024


def check_product(rung: Rung, A: Any, B: Any, backend: str) -> tuple[int, int, int]:
    """M, N and K of A @ B. Raises ArgumentError if A or B is not what the rung takes on this backend."""
    for name, matrix in (("A", A), ("B", B)):
        check_matrix(name, matrix, backend)
    (m, k), (rows, n) = A.shape, B.shape
    if rows != k:
        raise ArgumentError(
            f"B has shape {tuple(B.shape)} but A has {k:,} columns: A @ B needs B to have {k:,} rows."
        )
    check_sizes(rung, m, n, k)
    for name, matrix in (("A", A), ("B", B)):
        check_alignment(name, matrix, rung)
    return m, n, k


def check_output(rung: Rung, C: Any, A: Any, B: Any, backend: str, name: str = "C") -> None:
    """Raises ArgumentError if C, by the name that it has as an argument, cannot take the result of A @ B."""
    check_matrix(name, C, backend)
    expected = (A.shape[0], B.shape[1])
    if tuple(C.shape) != expected:
        raise ArgumentError(
            f"{name} has shape {tuple(C.shape)} but A @ B has shape {expected}: give {name} that shape."
        )
    check_alignment(name, C, rung)
    if isinstance(C, np.ndarray) and not C.flags.writeable:
        raise ArgumentError(f"{name} is read-only: it must be writable; make it with numpy.empty.")
    begin, end = _extent(C)
    for other_name, other in (("A", A), ("B", B)):
        other_begin, other_end = _extent(other)
        if begin < other_end and other_begin < end:
            raise ArgumentError(f"{name} shares memory with {other_name}: give {name} memory of its own.")


def check_matrix(name: str, matrix: Any, backend: str) -> None:
    """Raises ArgumentError if `matrix` is not a row-major, non-empty bf16 matrix in the backend's memory."""
    check_operand(name, matrix, backend)
    if not matrix.flags.c_contiguous:
        module = "cupy" if backend == "cuda" else "numpy"
        by_columns = "stored by columns (Fortran order or a transposed view)"
        kind = by_columns if matrix.flags.f_contiguous else "a strided view"
        raise ArgumentError(
            f"{name} is {kind}, strides {matrix.strides} bytes for shape {tuple(matrix.shape)}: "
            f"it must be row-major and contiguous; pass {module}.ascontiguousarray({name})."
        )


def check_operand(name: str, matrix: Any, backend: str) -> None:
    """Raises ArgumentError if `matrix` is not a non-empty bf16 matrix, of any strides, in the backend's memory."""
    check_memory(name, matrix, backend)
    convert = 'convert it with .astype("bfloat16"), after `import ml_dtypes`'
    if matrix.dtype != BFLOAT16:
        raise ArgumentError(f"{name} has dtype {matrix.dtype}: it must be bfloat16; {convert}.")
    if matrix.ndim != 2:
        raise ArgumentError(
            f"{name} has shape {tuple(matrix.shape)}: it must have 2 dimensions; reshape it to a matrix."
        )
    if 0 in matrix.shape:
        raise ArgumentError(
            f"{name} is empty, shape {tuple(matrix.shape)}: both sizes must be at least 1; give it rows and columns."
        )


def check_memory(name: str, matrix: Any, backend: str) -> None:
    """Raises ArgumentError if `matrix` is not an array of the backend: NumPy on the host or CuPy on the GPU."""
    kind = f"{type(matrix).__module__.split('.')[0]}.{type(matrix).__name__}".removeprefix("builtins.")
    on_gpu = is_device_array(matrix)
    is_host = isinstance(matrix, np.ndarray) and not isinstance(matrix, np.ma.MaskedArray)
    if backend == "cuda" and not on_gpu:
        if is_host:
            raise ArgumentError(
                f"{name} is a NumPy array in host memory, but this kernel runs on the GPU: pass cupy.asarray({name})."
            )
        raise ArgumentError(f"{name} is a {kind}, not an array: make it with random_matrix or cupy.asarray.")
    if backend == "emulator" and not is_host:
        if on_gpu:
            raise ArgumentError(
                f"{name} is a CuPy array in GPU memory, but this kernel runs on the emulator: "
                f"pass cupy.asnumpy({name})."
            )
        raise ArgumentError(f"{name} is a {kind}, not a NumPy array: make it with random_matrix or numpy.asarray.")
    if backend == "cuda":
        check_device(name, matrix.device.id)


def check_device(name: str, device: int) -> None:
    """Raises ArgumentError if an array lies on another GPU than the current one."""
    current = current_device("cuda")
    if device != current:
        raise ArgumentError(
            f"{name} lies on GPU {device} but GPU {current} is current: "
            f"copy it there, or work within `with cupy.cuda.Device({device}):`."
        )


def is_device_array(value: Any) -> bool:
    """Whether a value is a CuPy array. CuPy is not imported for it."""
    return type(value).__module__.split(".")[0] == "cupy" and hasattr(type(value), "__cuda_array_interface__")


def check_sizes(rung: Rung, m: int, n: int, k: int) -> None:
    """Raises ArgumentError if the rung cannot multiply matrices of these sizes.

    The kernels count rows, columns and steps in `int` and element offsets in `size_t`, a grid has at most 65,535 CTAs
    along y and z, and an order's entries have 16 bits for each of a tile's coordinates.
    """
    axes = (("M", "A has {:,} rows", m), ("N", "B has {:,} columns", n), ("K", "A has {:,} columns", k))
    for (axis, words, size), multiple in zip(axes, rung.multiples, strict=True):
        if size % multiple:
            padded = -(-size // multiple) * multiple
            raise ArgumentError(
                f"{words.format(size)} but {rung.name} needs {axis} to be a multiple of {multiple}: "
                f"pad with zeros to {padded:,}."
            )
    rows, columns, depth = rung.tile
    if rung.most_rows is not None and m > rung.most_rows:
        raise ArgumentError(
            f"A has {m:,} rows but {rung.name} was made to load {rung.most_rows} of them: make it with a_rows of at "
            "least M, or without, or call helpers.matmul, which chooses."
        )
    if rung.split is not None:
        most_n = MAX_GRID[1] * columns
    else:
        most_n = INT32_MAX - columns if rung.order is None else N_LIMIT * rung.cluster_tile[1]
    limits = (min(MAX_GRID[1] * rows, INT32_MAX - rows), most_n, INT32_MAX - depth)
    for (axis, words, size), limit in zip(axes, limits, strict=True):
        if size > limit:
            raise ArgumentError(
                f"{words.format(size)} but {rung.name} takes {axis} up to {limit:,}: split the product into parts."
            )


def require_suitable(rung: Rung, size: int) -> None:
    """Raises ArgumentError if a rung cannot multiply square matrices of a size that a command line names."""
    if size < 1 or any(size % multiple for multiple in rung.multiples):
        multiple = max(rung.multiples)
        needed = f"a multiple of {multiple:,}" if multiple > 1 else "a size of at least 1"
        raise ArgumentError(f"size {size} does not suit {rung.name}: take {needed}.")


def check_alignment(name: str, matrix: Any, rung: Rung) -> None:
    """Raises ArgumentError if the first element does not lie where the rung's wide loads need it."""
    begin, _ = _extent(matrix)
    if begin % rung.alignment:
        raise ArgumentError(
            f"{name} begins {begin % rung.alignment} bytes past a multiple of {rung.alignment}, but {rung.name} moves "
            f"{rung.alignment} bytes at a time: pass {name}.copy(), or {name}.clone() of torch, which starts aligned "
            "memory."
        )


def check_launch(grid: Sequence[int], block: Sequence[int], shared_bytes: int, shared_limit: int) -> None:
    """Raises ArgumentError if a GPU would refuse this launch configuration."""
    for name, sizes, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        if not isinstance(sizes, tuple | list) or not 1 <= len(sizes) <= 3:
            raise ArgumentError(f"{name} is {sizes!r}: it must be a tuple of one to three integers, such as (8, 4).")
        for axis, size, limit in zip("xyz", sizes, limits, strict=False):
            require_integer(f"{name}.{axis}", size, 1, limit)
    threads = int(np.prod(block, dtype=np.int64))
    if threads > MAX_THREADS:
        raise ArgumentError(f"block {tuple(block)} has {threads:,} threads: a CTA has at most {MAX_THREADS:,}.")
    require_integer("shared_bytes", shared_bytes, 0, shared_limit)


def check_shared(static_bytes: int, dynamic_bytes: int, limit: int) -> None:
    """Raises ArgumentError if a CTA cannot have so much static and dynamic shared memory together."""
    if static_bytes + dynamic_bytes > limit:
        raise ArgumentError(
            f"shared_bytes is {dynamic_bytes:,}, with {static_bytes:,} bytes of static shared memory: "
            f"a CTA can have {limit:,} bytes together; launch with {max(0, limit - static_bytes):,} at most."
        )


def check_cluster(grid: Sequence[int], cluster: Sequence[int]) -> None:
    """Raises ArgumentError if the grid cannot be divided into clusters of so many CTAs along x, y and z."""
    for axis, size, group in zip("xyz", (*grid, 1, 1)[:3], (*cluster, 1, 1)[:3], strict=True):
        if size % group:
            raise ArgumentError(
                f"grid.{axis} is {size:,}, and the kernel's clusters have {group} CTAs along {axis}: "
                f"it must be a multiple of {group}; launch {-(-size // group) * group:,}."
            )


def launch_arguments(arguments: Sequence[Any], backend: str) -> tuple[Any, ...]:
    """A kernel's arguments in the form in which they are passed: arrays as they are, Python integers as C `int`.

    Tensor maps are encoded for the GPU and go to the emulator as they are.

    Raises ArgumentError for arrays in the other memory, integers that don't fit, and anything else.
    """
    if not isinstance(arguments, tuple | list):
        raise ArgumentError(f"arguments is a {type(arguments).__name__}: it must be a tuple, one item per parameter.")
    return tuple(_launch_argument(f"argument {place}", value, backend) for place, value in enumerate(arguments))


def _launch_argument(name: str, value: Any, backend: str) -> Any:
    if isinstance(value, TensorMap):
        check_memory(f"the matrix of {name}", value.array, backend)
        return value.encode() if backend == "cuda" else value
    if isinstance(value, np.generic) and value.dtype.kind in "biufV":
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if not -INT32_MAX - 1 <= value <= INT32_MAX:
            raise ArgumentError(f"{name} is {value:,}: it must fit a 32-bit int; pass numpy.int64 for a long long.")
        return np.int32(value)   # CuPy would pass a Python integer with 64 bits
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind == "V" and value.dtype != BFLOAT16:
        return value   # a structure passed by value, such as a TMA descriptor
    if not isinstance(value, np.ndarray) and not is_device_array(value):
        raise ArgumentError(f"{name} is {short(value)}: it must be an array, a number or a tensor map.")
    check_memory(name, value, backend)
    if value.dtype.hasobject:   # the kernel would write over what Python counts on
        raise ArgumentError(f"{name} holds Python objects: give an array of numbers, such as random_matrix makes.")
    if not value.flags.c_contiguous:
        raise ArgumentError(f"{name} is a strided view: it must be contiguous; make a copy of it.")
    return value


def _extent(matrix: Any) -> tuple[int, int]:
    """First address of a contiguous array and the first behind it."""
    begin = matrix.data.ptr if is_device_array(matrix) else matrix.ctypes.data
    return begin, begin + matrix.nbytes
