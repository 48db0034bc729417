"""cuBLAS as the yardstick: cublasLt called directly, bf16 in and out, fp32 accumulation.

Row-major C[M,N] = A[M,K] @ B[K,N] is column-major C^T[N,M] = B^T[N,K] @ A^T[K,M], and a row-major matrix read by
columns is its transpose: so cublasLt gets B first, then A, with no transposition and no copy.
The names and numbers below are those of cublasLt.h and cublas_api.h of CUDA 13 (NVIDIA cuBLAS documentation, "Using
the cuBLASLt API"). 32 MiB of workspace is what the documentation recommends on Hopper.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from helpers.errors import ArgumentError, BackendError
from helpers.gpu import memory_for

WORKSPACE_BYTES = 32 * 1024 * 1024
REMEDY = "run `make setup` on a machine with an NVIDIA GPU, or `pip install nvidia-cublas`"

CUDA_R_32F = 0
CUDA_R_16BF = 14
CUBLAS_COMPUTE_32F = 68
PREFERENCE_MAX_WORKSPACE_BYTES = 1
# cublasLtMatmulAlgoConfigAttributes_t
ALGORITHM_ATTRIBUTES = {"id": 0, "tile": 1, "split_k": 2, "stages": 6, "cluster_shape": 8}

STATUS_NAMES = {
    0: "CUBLAS_STATUS_SUCCESS",
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t: opaque, 64 bytes."""

    _fields_ = [("data", ctypes.c_uint64 * 8)]


class HeuristicResult(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, the workspace it needs (bytes), its status and its waves."""

    _fields_ = [
        ("algorithm", Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


_POINTER = ctypes.c_void_p
_SIGNATURES: dict[str, list[Any]] = {
    "cublasLtCreate": [_POINTER],
    "cublasLtDestroy": [_POINTER],
    "cublasLtMatmulDescCreate": [_POINTER, ctypes.c_int, ctypes.c_int],
    "cublasLtMatmulDescDestroy": [_POINTER],
    "cublasLtMatrixLayoutCreate": [_POINTER, ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
    "cublasLtMatrixLayoutDestroy": [_POINTER],
    "cublasLtMatmulPreferenceCreate": [_POINTER],
    "cublasLtMatmulPreferenceSetAttribute": [_POINTER, ctypes.c_int, _POINTER, ctypes.c_size_t],
    "cublasLtMatmulPreferenceDestroy": [_POINTER],
    "cublasLtMatmulAlgoGetHeuristic": [_POINTER] * 7 + [ctypes.c_int, _POINTER, _POINTER],
    "cublasLtMatmulAlgoConfigGetAttribute": [_POINTER, ctypes.c_int, _POINTER, ctypes.c_size_t, _POINTER],
    "cublasLtMatmul": [_POINTER] * 14 + [ctypes.c_size_t, _POINTER],
}


def load_library() -> ctypes.CDLL:
    """The cublasLt library of the nvidia-cublas wheel or of a CUDA toolkit, with the argument types declared.

    Raises BackendError if there is none.
    """
    path = None
    try:
        from cuda import pathfinder

        path = pathfinder.load_nvidia_dynamic_lib("cublasLt").abs_path
    except (ImportError, RuntimeError):   # pathfinder's errors are RuntimeErrors; the loader may still know a place
        pass
    for name in (path, "libcublasLt.so.13", "libcublasLt.so"):
        if name is None:
            continue
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        return declare(library)
    raise BackendError(f"The cuBLAS library (libcublasLt) was not found: {REMEDY}.")


def declare(library: Any) -> Any:
    """Set argument and result types of the functions used here. Returns the library."""
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = ctypes.c_int
    library.cublasLtGetVersion.argtypes = []
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return library


def version(library: Any = None) -> str | None:
    """cuBLAS's version, e.g. '13.1.0' for 130100, or None if the library is missing."""
    try:
        number = int((library or load_library()).cublasLtGetVersion())
    except BackendError:
        return None
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def status_name(status: int) -> str:
    """The name of a status code."""
    return STATUS_NAMES.get(status, f"cuBLAS status {status}")


class CublasLt:
    """A cublasLt handle with its workspace on the GPU. Use it as a context manager, or call `close`.

    workspace: a device buffer of WORKSPACE_BYTES with `.data.ptr`; allocated through CuPy if it is not given.
    library: the loaded library; found if it is not given. Raises BackendError if there is no cuBLAS or no GPU.
    """

    def __init__(self, library: Any = None, workspace: Any = None) -> None:
        self.library = library if library is not None else load_library()
        self._handle = ctypes.c_void_p()
        self._call("cublasLtCreate", ctypes.byref(self._handle))
        if workspace is None:
            import cupy

            with memory_for("cuBLAS's workspace"):
                workspace = cupy.empty(WORKSPACE_BYTES, cupy.uint8)
        self.workspace = workspace

    def plan(self, A: Any, B: Any, C: Any) -> "MatmulPlan":
        """Prepare C = A @ B for these very arrays; calling the plan launches it on CuPy's current stream.

        A [M,K], B [K,N], C [M,N]: row-major contiguous bf16 arrays on the GPU. Raises ArgumentError for others.
        """
        return MatmulPlan(self, A, B, C)

    def plans(self, A: Any, B: Any, C: Any, most: int = 8) -> "list[MatmulPlan]":
        """A plan for each algorithm of cublasLt's own list, at most so many; the first is what `plan` takes."""
        found = [MatmulPlan(self, A, B, C, most)]
        try:
            for place in range(1, found[0].proposals):
                found.append(MatmulPlan(self, A, B, C, most, place))
        except BaseException:
            for plan in found:
                plan.close()
            raise
        return found

    def close(self) -> None:
        """Release the handle; a second call does nothing."""
        if self._handle:
            handle, self._handle = self._handle, ctypes.c_void_p()
            self._call("cublasLtDestroy", handle)

    def __enter__(self) -> "CublasLt":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status:
            hint = (
                "check with nvidia-smi that the driver sees the GPU"
                if status == 1
                else "free GPU memory" if status == 3 else "check that cuBLAS fits the driver (`nvidia-smi`)"
            )
            raise BackendError(f"cuBLAS refused {name} with {status_name(status)}: {hint}.")


class MatmulPlan:
    """One cublasLt product, ready to launch. Holds its arrays, so that their memory stays.

    m, n, k: its shape. workspace_bytes: what the chosen algorithm uses. waves: cuBLAS's own estimate of waves.
    algorithm: cuBLAS's numbers for the algorithm (id, tile, parts of K, stages, cluster shape).
    proposals: how many algorithms cublasLt has listed, of the `most` that it was asked for; `place` counts from 0.
    """

    def __init__(self, cublas: CublasLt, A: Any, B: Any, C: Any, most: int = 1, place: int = 0) -> None:
        self.m, self.n, self.k = check_operands(A, B, C)
        self._cublas = cublas
        self._descriptors: list[tuple[str, ctypes.c_void_p]] = []
        try:
            operation = self._create("cublasLtMatmulDesc", CUBLAS_COMPUTE_32F, CUDA_R_32F)
            # Column-major views: rows, columns, leading dimension.
            b_layout = self._create("cublasLtMatrixLayout", CUDA_R_16BF, self.n, self.k, self.n)
            a_layout = self._create("cublasLtMatrixLayout", CUDA_R_16BF, self.k, self.m, self.k)
            c_layout = self._create("cublasLtMatrixLayout", CUDA_R_16BF, self.n, self.m, self.n)
            listed = self._list(operation, b_layout, a_layout, c_layout, most)
        except BaseException:
            self.close()
            raise
        self.proposals, self._result = len(listed), listed[place]
        self._alpha, self._beta = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._function = cublas.library.cublasLtMatmul
        self._layouts = (operation, a_layout, b_layout, c_layout)
        self._launch = self.on(A, B, C)
        self.workspace_bytes = int(self._result.workspace_bytes)
        self.waves = round(float(self._result.waves), 3)
        self.algorithm = self._describe()

    def __call__(self, stream: int | None = None) -> None:
        """Queue the product; returns before it has run. stream: a CUDA stream handle, CuPy's current one by default."""
        self._launch(stream)

    def on(self, A: Any, B: Any, C: Any) -> Callable[..., None]:
        """The same algorithm for other matrices of the same shape: a launch, to be called like the plan.

        It holds its arrays, so that their memory stays, and works until the plan is closed.
        Raises ArgumentError if they have another shape.
        """
        if check_operands(A, B, C) != (self.m, self.n, self.k):
            raise ArgumentError(
                f"A and B have shapes {A.shape} and {B.shape}: this plan is for {self.m} x {self.n} x {self.k}; "
                "make another."
            )
        operation, a_layout, b_layout, c_layout = self._layouts
        a, b, c = (ctypes.c_void_p(array.data.ptr) for array in (A, B, C))
        arguments = (
            self._cublas._handle, operation, ctypes.byref(self._alpha), b, b_layout, a, a_layout,
            ctypes.byref(self._beta), c, c_layout, c, c_layout, ctypes.byref(self._result.algorithm),
            ctypes.c_void_p(self._cublas.workspace.data.ptr), ctypes.c_size_t(WORKSPACE_BYTES),
        )

        return partial(self._queue, (A, B, C), arguments)

    def _queue(self, kept: tuple[Any, ...], arguments: tuple[Any, ...], stream: int | None = None) -> None:
        """Queue a product; the arrays stay as long as this is bound to them, since the arguments hold but addresses."""
        if stream is None:
            import cupy

            stream = cupy.cuda.get_current_stream().ptr
        status = self._function(*arguments, ctypes.c_void_p(stream))
        if status:
            raise BackendError(
                f"cuBLAS refused cublasLtMatmul for {self.m} x {self.n} x {self.k} with {status_name(status)}: "
                "check that cuBLAS fits the driver (`nvidia-smi`)."
            )

    def close(self) -> None:
        """Release the descriptors; a second call does nothing."""
        while self._descriptors:
            kind, pointer = self._descriptors.pop()
            self._cublas._call(f"{kind}Destroy", pointer)

    def _create(self, kind: str, *arguments: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self._cublas._call(f"{kind}Create", ctypes.byref(pointer), *arguments)
        self._descriptors.append((kind, pointer))
        return pointer

    def _list(
        self, operation: Any, first: Any, second: Any, result_layout: Any, most: int
    ) -> list[HeuristicResult]:
        """The algorithms of cublasLt's own list, at most so many, at least one."""
        preference = self._create("cublasLtMatmulPreference")
        limit = ctypes.c_uint64(WORKSPACE_BYTES)
        self._cublas._call(
            "cublasLtMatmulPreferenceSetAttribute", preference, PREFERENCE_MAX_WORKSPACE_BYTES,
            ctypes.byref(limit), ctypes.sizeof(limit),
        )
        results = (HeuristicResult * most)()
        found = ctypes.c_int(0)
        shape = f"{self.m} x {self.n} x {self.k}"
        status = self._cublas.library.cublasLtMatmulAlgoGetHeuristic(
            self._cublas._handle, operation, first, second, result_layout, result_layout, preference, most,
            ctypes.byref(results), ctypes.byref(found),
        )
        usable = [] if status else [item for item in results[: found.value] if not item.state]
        if not usable:
            name = status_name(status or results[0].state or 15)
            raise BackendError(
                f"cuBLAS has no algorithm for a bf16 product of {shape} ({name}): "
                "take N and K that are multiples of 8."
            )
        return usable

    def _describe(self) -> dict[str, int]:
        """cuBLAS's numbers for the algorithm; an attribute that this version does not know is left out."""
        described = {}
        for name, number in ALGORITHM_ATTRIBUTES.items():
            value, written = ctypes.c_uint32(0), ctypes.c_size_t(0)
            size = 2 if name == "cluster_shape" else 4
            status = self._cublas.library.cublasLtMatmulAlgoConfigGetAttribute(
                ctypes.byref(self._result.algorithm), number, ctypes.byref(value), size, ctypes.byref(written)
            )
            if status == 0:
                described[name] = int(value.value)
        return described


def check_operands(A: Any, B: Any, C: Any) -> tuple[int, int, int]:
    """M, N, K of row-major contiguous bf16 matrices on the GPU. Raises ArgumentError naming what does not fit."""
    for name, array in (("A", A), ("B", B), ("C", C)):
        # A NumPy array of bf16 has no readable `.data`, so it is ruled out first.
        if isinstance(array, np.ndarray) or not hasattr(getattr(array, "data", None), "ptr"):
            raise ArgumentError(f"{name} is a {type(array).__name__}: cuBLAS needs a CuPy array on the GPU.")
        if array.dtype.name != "bfloat16":
            raise ArgumentError(f"{name} has dtype {array.dtype.name}: cuBLAS is called for bfloat16 here.")
        if array.ndim != 2 or min(array.shape) < 1:
            raise ArgumentError(f"{name} has shape {array.shape}: it must be a matrix with at least one element.")
        if not array.flags.c_contiguous:
            raise ArgumentError(f"{name} is not row-major contiguous: pass a copy (cupy.ascontiguousarray).")
    (m, k), (rows, n) = A.shape, B.shape
    if rows != k:
        raise ArgumentError(f"B has shape {B.shape} but A has {k} columns: A @ B needs B to have {k} rows.")
    if C.shape != (m, n):
        raise ArgumentError(f"C has shape {C.shape}: A @ B has shape {(m, n)}.")
    return m, n, k
