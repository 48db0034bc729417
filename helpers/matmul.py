"""C = A @ B, with the kernel that suits the shape, on the arrays of any library.

    C = matmul(A, B)             # CuPy arrays or torch tensors: on the GPU; NumPy arrays: on the emulator
    matmul(A, B, out=C)
"""

from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from helpers import gpu
from helpers.arguments import check_output, check_product
from helpers.arrays import BACKENDS, current_device
from helpers.checks import require_known
from helpers.choice import LAST, choose
from helpers.errors import ArgumentError, BackendError
from helpers.foreign import (
    backend_of,
    empty_like_kind,
    is_own,
    is_tensor,
    moved,
    note_change,
    own_array,
    require_changing,
    torch_stream,
)
from helpers.kernel import Kernel, load
from helpers.rungs import H200_SMS, Rung

WORDS = {"cuda": "on the GPU", "emulator": "in host memory"}

_chosen = lru_cache(maxsize=4096)(choose)


def matmul(A: Any, B: Any, out: Any = None, *, backend: str = "auto") -> Any:
    """C = A @ B for row-major bf16 matrices, accumulated in fp32, by the kernel that `helpers.choice.choose` names.

    A (M, K), B (K, N): any M; N and K multiples of 8; bases 16-byte aligned. CuPy arrays, torch tensors, NumPy arrays
    (ml_dtypes.bfloat16), or others with `__dlpack__`, such as JAX's; all in one memory, which is never copied.
    out: takes C (M, N) and is returned; it shares no memory with A and B. Without it C is new: a torch tensor where A
    is one, else a NumPy array in host memory and a CuPy array on the GPU.
    backend: `"auto"` goes by where the arrays lie: on the GPU, which must be a Hopper, or in host memory, where the
    emulator multiplies, which is made for small sizes; `"cuda"` and `"emulator"` insist on one.

    On the GPU it returns before the kernel has finished: with torch tensors it runs on torch's current stream, else on
    CuPy's. Arrays of a third library don't know of that stream, so there it waits until C is finished. There are no
    gradients. A kernel file is compiled on its first call and kept: edit it, and the next Python sees it.
    Where microseconds count, `load(...).prepared(A, B, C)` does all but the launch once.
    Raises ArgumentError or BackendError, one sentence and nothing launched, if an argument or the GPU does not suit.
    """
    require_known("backend", backend, ("auto", *BACKENDS))
    given = {"A": A, "B": B} if out is None else {"A": A, "B": B, "out": out}
    backend = _common_backend(given, backend)
    with torch_stream(list(given.values())) if backend == "cuda" else nullcontext():
        arrays = {name: own_array(name, value, backend) for name, value in given.items()}
        m, n, k = check_product(LAST, arrays["A"], arrays["B"], backend)
        if out is None:
            result = empty_like_kind(A, m, n, backend)
            arrays["out"] = own_array("out", result, backend)
        else:
            require_changing("out", out)
            check_output(LAST, arrays["out"], arrays["A"], arrays["B"], backend, name="out")
            result = out
        choice = _chosen(m, n, k, _sms(backend))
        kernel = _loaded(choice.rung, tuple(choice.defines.items()), backend, current_device(backend))
        kernel.planned(arrays["A"], arrays["B"], arrays["out"])()
        if backend == "cuda" and not all(is_own(value) or is_tensor(value) for value in given.values()):
            gpu.synchronize()
    note_change(out)
    return result


def _common_backend(given: dict[str, Any], backend: str) -> str:
    """Where all of the arrays lie. Raises ArgumentError if they don't, BackendError if the GPU cannot multiply them."""
    places = {name: backend_of(name, value) for name, value in given.items()}
    wanted = places["A"] if backend == "auto" else backend
    if wanted == "cuda":
        _require_hopper()
    for name, place in places.items():
        if place != wanted:
            why = f"and A {WORDS[wanted]}" if backend == "auto" else f"and backend {backend!r} works {WORDS[wanted]}"
            remedy = "make out there" if name == "out" else f"pass {moved(name, given[name], wanted)}"
            raise ArgumentError(f"{name} lies {WORDS[place]}, {why}: all must lie there; {remedy}.")
    return wanted


def _require_hopper() -> None:
    """Raises BackendError if there is no GPU, or one that cannot run the last rung."""
    answer = gpu.probe()
    if answer.gpu is None:
        raise BackendError(answer.problem)
    if problem := gpu.unfit(LAST.name, LAST.compute_capability, answer.gpu):
        raise BackendError(
            f"{problem}: use A @ B of their own library, or the emulator with copies in host memory, such as "
            "cupy.asnumpy(A)."
        )


def _sms(backend: str) -> int:
    found = gpu.probe().gpu
    return found.sms if backend == "cuda" and found else H200_SMS


@lru_cache(maxsize=256)
def _loaded(rung: Rung, defines: tuple[tuple[str, int], ...], backend: str, device: int) -> Kernel:
    """The kernel, once for each GPU: the driver loads its code for the current one."""
    return load(rung, backend, defines=dict(defines))
