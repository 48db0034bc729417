"""C = A @ B, with the kernel that suits the shape, on the arrays of any library.

    C = matmul(A, B)             # CuPy arrays or torch tensors: on the GPU; NumPy arrays: on the emulator
    matmul(A, B, out=C)
"""

from collections.abc import Callable, Iterable
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
    address,
    backend_of,
    empty_like_kind,
    is_own,
    is_tensor,
    moved,
    note_change,
    own_array,
    require_changing,
    signature,
    torch_stream,
)
from helpers.kernel import Kernel, load
from helpers.rungs import H200_SMS, Rung

Known = dict[int, Callable[[], None]]   # by the address of C
MOST_RESULTS = 16                       # of them: new ones soon lie where earlier ones were
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
    Matrices on the GPU that lie where checked ones lay, in the same form, are launched without another check. Where
    microseconds count, `load(...).prepared(A, B, C)` does all but the launch once.
    Raises ArgumentError or BackendError, one sentence and nothing launched, if an argument or the GPU does not suit.
    """
    require_known("backend", backend, ("auto", *BACKENDS))
    given = {"A": A, "B": B} if out is None else {"A": A, "B": B, "out": out}
    known = _known(given.values(), backend)
    wanted = "cuda" if known else _common_backend(given, backend)
    with torch_stream(list(given.values())) if wanted == "cuda" else nullcontext():
        if known and out is None:
            given["out"] = empty_like_kind(A, A.shape[0], B.shape[1], wanted)
        result, launch = _launch(given, wanted, known)
        launch()
        if wanted == "cuda" and not all(is_own(value) or is_tensor(value) for value in (A, B, result)):
            gpu.synchronize()
    note_change(out)
    return result


def _launch(given: dict[str, Any], backend: str, known: Known | None) -> tuple[Any, Callable[[], None]]:
    """C, and what launches its product: as known of where it lies, or else checked and planned."""
    if known and (launch := known.get(address(given["out"]))):
        return given["out"], launch
    result, launch = _checked(given, backend)
    if known is not None:
        if len(known) >= MOST_RESULTS:
            known.clear()
        known[address(result)] = launch
    return result, launch


def _known(values: Iterable[Any], backend: str) -> Known | None:
    """The launches of matrices that lie where these lie, and were checked; none yet, or None if none can be kept.

    A launch holds addresses, and no matrix: it is as right for any others that lie there in the same form.
    """
    signatures = tuple(map(signature, values))
    return None if None in signatures else _launches((backend, current_device("cuda"), *signatures))


@lru_cache(maxsize=256)
def _launches(key: tuple[Any, ...]) -> Known:
    """Where the launches of matrices with these signatures are kept; empty at first."""
    return {}


def _checked(given: dict[str, Any], backend: str) -> tuple[Any, Callable[[], None]]:
    """C, and what launches its product. Raises ArgumentError if an argument does not suit."""
    arrays = {name: own_array(name, value, backend) for name, value in given.items()}
    m, n, k = check_product(LAST, arrays["A"], arrays["B"], backend)
    if "out" not in given:
        result = empty_like_kind(given["A"], m, n, backend)
        arrays["out"] = own_array("out", result, backend)
    else:
        require_changing("out", given["out"])
        check_output(LAST, arrays["out"], arrays["A"], arrays["B"], backend, name="out")
        result = given["out"]
    choice = _chosen(m, n, k, _sms(backend))
    kernel = _loaded(choice.rung, tuple(choice.defines.items()), backend, current_device(backend))
    return result, kernel.addressed(arrays["A"], arrays["B"], arrays["out"])


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
