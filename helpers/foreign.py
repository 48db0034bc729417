"""Arrays of any library as the backend's own, without a copy: NumPy's on the emulator, CuPy's on the GPU.

Those of a GPU come through DLPack. On the host NumPy's DLPack knows no bfloat16, so there a torch tensor is seen
through its bits, and other arrays through `numpy.asarray`. torch is not imported: who passes a tensor has done that.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.arguments import check_device, is_device_array
from helpers.arrays import BFLOAT16, empty_matrix, require_memory
from helpers.errors import ArgumentError, BackendError
from helpers.words import first_line, short

# The kinds of memory by DLPack's DLDeviceType: CPU and pinned memory; CUDA and managed memory.
BACKENDS = {1: "emulator", 3: "emulator", 2: "cuda", 13: "cuda"}
UNCHANGING = ("jax", "jaxlib", "tensorflow")   # libraries whose compilers rely on arrays that are never written to


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor."""
    return isinstance(value, getattr(sys.modules.get("torch"), "Tensor", ()))


def is_own(value: Any) -> bool:
    """Whether a value is an array of NumPy or CuPy, which a kernel takes as it is."""
    return isinstance(value, np.ndarray) or is_device_array(value)


def address(array: Any) -> int:
    """Where the first element of a CuPy array or a tensor lies."""
    return array.data_ptr() if is_tensor(array) else array.data.ptr


def signature(value: Any) -> tuple[Any, ...] | None:
    """All that decides whether a matrix on the GPU suits, and what is launched for it; None for other values.

    Two arrays with equal ones lie at the same place in the same form.
    """
    if is_tensor(value) and value.device.type == "cuda" and value.layout == sys.modules["torch"].strided:
        gradient = value.requires_grad and sys.modules["torch"].is_grad_enabled()
        return value.data_ptr(), value.shape, value.stride(), value.dtype, gradient
    if is_device_array(value):
        return value.data.ptr, value.shape, value.strides, value.dtype.name
    return None


def backend_of(name: str, value: Any) -> str:
    """The backend in whose memory an array lies: `"cuda"` or `"emulator"`.

    Raises ArgumentError for what is no array, and for an array that lies elsewhere.
    """
    if is_own(value):
        return "emulator" if isinstance(value, np.ndarray) else "cuda"
    if is_tensor(value):
        place = value.device.type
        if place in ("cpu", "cuda"):
            return "emulator" if place == "cpu" else "cuda"
        raise ArgumentError(
            f"{name} is a torch tensor on device {place!r}: it must lie in the memory of the CPU or of an NVIDIA GPU; "
            f"pass {name}.cpu() or {name}.cuda()."
        )
    if not all(hasattr(type(value), needed) for needed in ("__dlpack__", "__dlpack_device__")):
        raise ArgumentError(
            f"{name} is {short(value)}, not an array: give a bfloat16 matrix of CuPy, NumPy or torch, or another with "
            "__dlpack__; random_matrix makes one."
        )
    try:
        return BACKENDS[int(value.__dlpack_device__()[0])]
    except Exception as error:
        raise ArgumentError(
            f"{name} lies on a device that is neither a CPU nor an NVIDIA GPU ({first_line(error)}): copy it to one."
        ) from None


def moved(name: str, value: Any, backend: str) -> str:
    """What to type for a copy of an array in a backend's memory."""
    if is_tensor(value):
        return f"{name}.cuda()" if backend == "cuda" else f"{name}.cpu()"
    return f"cupy.asarray({name})" if backend == "cuda" else f"cupy.asnumpy({name})"


def own_array(name: str, value: Any, backend: str) -> Any:
    """An array that lies in the backend's memory as an array of NumPy or CuPy, over the same memory.

    On the GPU CuPy's current stream then waits for what its library has queued; a tensor is imported within
    `torch_stream`, where it need not.
    Raises ArgumentError, in the words of its library, for an array that cannot be seen so.
    """
    if is_own(value):
        return value
    tensor = is_tensor(value)
    if tensor:
        value = _checked_tensor(name, value, backend)
    try:
        if backend == "cuda":
            import cupy

            return cupy.from_dlpack(value.__dlpack__(stream=-1) if tensor else value)   # -1: on one stream already
        if tensor:
            return value.view(sys.modules["torch"].int16).numpy().view(BFLOAT16)
        return np.asarray(value, copy=False) if hasattr(type(value), "__array__") else np.from_dlpack(value)
    except Exception as error:   # of any library
        module = "cupy" if backend == "cuda" else "numpy"
        raise ArgumentError(
            f"{name} is a {_kind(value)} that {module} cannot see without a copy ({first_line(error)}): "
            f"pass a bfloat16 array of {module}."
        ) from None


def require_changing(name: str, value: Any) -> None:
    """Raises ArgumentError if an array is of a library that never writes to one."""
    if type(value).__module__.split(".")[0] in UNCHANGING:
        raise ArgumentError(
            f"{name} is a {_kind(value)}, which its library takes for never changing: leave {name} away, and convert "
            "the array that is returned with from_dlpack."
        )


def empty_like_kind(model: Any, rows: int, columns: int, backend: str) -> Any:
    """A bf16 matrix (rows, columns) without defined values: a torch tensor if `model` is one, else CuPy's or NumPy's.

    Raises ArgumentError or BackendError if there is not enough memory.
    """
    what = f"C of {rows:,} x {columns:,}"
    if backend == "emulator":
        require_memory(rows * columns * BFLOAT16.itemsize, what)
    if not is_tensor(model):
        return empty_matrix(rows, columns, backend)
    try:
        return model.new_empty((rows, columns))
    except RuntimeError as error:   # torch.OutOfMemoryError is one, and long
        why = first_line(error).partition(". ")[0]
        raise BackendError(f"torch has no memory for {what} ({why}): delete tensors, or give smaller ones.") from None


@dataclass(frozen=True)
class _TorchStream:
    """A stream of torch in the form in which CuPy takes one of another library; torch's own have it from 2.10 on."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol, cudaStream_t): CUDA Python, "CUDA Stream Protocol"."""
        return 0, self.pointer


@contextmanager
def torch_stream(values: Sequence[Any]) -> Iterator[None]:
    """Where arrays are multiplied on the GPU: if one of them is a torch tensor, CuPy's current stream is torch's.

    So the product stands in line with torch's own work, also while torch captures a graph (after a first call, which
    loads the kernel). Where CuPy's arrays are among them, its own stream and torch's wait for each other.
    """
    tensor = next(filter(is_tensor, values), None)
    if tensor is None:
        yield
        return
    import cupy

    own = cupy.cuda.get_current_stream()
    pointer = sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream
    if pointer == own.ptr:
        yield
        return
    stream = cupy.cuda.Stream.from_external(_TorchStream(pointer))
    mixed = any(map(is_device_array, values))
    if mixed:
        stream.wait_event(own.record())
    with stream:
        yield
    if mixed:
        own.wait_event(stream.record())


def note_change(value: Any) -> None:
    """Tell torch that a tensor was written to, as its own functions do: its gradients then notice."""
    if is_tensor(value):
        sys.modules["torch"].autograd.graph.increment_version(value)


def _checked_tensor(name: str, tensor: Any, backend: str) -> Any:
    """A torch tensor that has no gradient to lose and can be shared. Raises ArgumentError."""
    torch = sys.modules["torch"]
    if tensor.layout != torch.strided:
        raise ArgumentError(f"{name} has layout {tensor.layout}: it must be dense; pass {name}.to_dense().")
    if tensor.dtype != torch.bfloat16:
        raise ArgumentError(
            f"{name} has dtype {tensor.dtype}: it must be torch.bfloat16; convert it with {name}.to(torch.bfloat16)."
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(
            f"{name} requires a gradient, and this product has none: pass {name}.detach(), or call it within "
            "torch.no_grad()."
        )
    if not tensor.is_contiguous():
        raise ArgumentError(
            f"{name} is a strided view, strides {tuple(tensor.stride())} elements for shape {tuple(tensor.shape)}: "
            f"it must be row-major and contiguous; pass {name}.contiguous()."
        )
    if backend == "cuda":
        check_device(name, tensor.device.index)
    return tensor.detach()


def _kind(value: Any) -> str:
    return f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
