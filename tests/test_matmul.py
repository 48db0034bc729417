"""matmul: the arrays of every library, one memory, one sentence for what does not suit.

torch and a GPU are played here, so that nothing is needed; the real ones have tests/test_matmul_gpu.py.
"""

import ctypes
import re
import sys
from importlib import import_module
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from helpers import foreign, gpu, matmul
from helpers.arrays import empty_matrix
from helpers.backends import EmulatorBackend
from helpers.choice import choose
from helpers.errors import BackendError, CourseError
from helpers.gpu import Gpu, Probe
from helpers.kernel import KernelFault

bf16 = ml_dtypes.bfloat16
module = import_module("helpers.matmul")   # the package's attribute of that name is the function
H200 = Gpu("NVIDIA H200", (9, 0), 13000, 227 * 1024, 132)
A100 = Gpu("NVIDIA A100", (8, 0), 13000, 163 * 1024, 108)


def matrix(rows=8, columns=8, seed=0):
    """Of -1, 0 and 1: sums of up to 256 of them are exact in bf16."""
    found = empty_matrix(rows, columns, "emulator")
    found[...] = np.random.default_rng(seed).integers(-1, 2, (rows, columns))
    return found


def product(A, B):
    return (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)


def sentence_of(*arguments, **options):
    """What a wrong call says; nothing may have been launched."""
    with pytest.raises(CourseError) as caught:
        matmul(*arguments, **options)
    said = str(caught.value)
    assert not isinstance(caught.value, KernelFault)
    assert "\n" not in said and said.endswith(".") and ". " not in said
    return said


@pytest.fixture
def nothing_launched(monkeypatch):
    def launch(*arguments, **options):
        raise AssertionError("it was launched")

    monkeypatch.setattr(EmulatorBackend, "launch", launch)


# NumPy, on the emulator


@pytest.mark.compiler
@pytest.mark.parametrize("shape", [(1, 8, 8), (5, 72, 64), (130, 264, 200)], ids=str)
def test_the_product_is_right(shape):
    m, n, k = shape
    A, B = matrix(m, k, 1), matrix(k, n, 2)
    C = matmul(A, B)
    assert type(C) is np.ndarray and C.dtype == bf16 and np.array_equal(C, product(A, B))
    out = empty_matrix(m, n, "emulator")
    assert matmul(A, B, out, backend="emulator") is out and np.array_equal(out, C)


@pytest.mark.compiler
def test_operands_may_be_one_array_read_only_or_a_row_of_a_wider_one():
    A, wide = matrix(), matrix(8, 12)
    A.flags.writeable = False
    assert np.array_equal(matmul(A, A), product(A, A))
    assert np.array_equal(matmul(wide[2:3, :8], A), product(wide[2:3, :8], A))


def test_a_kernel_is_loaded_once_for_all_shapes(monkeypatch):
    loads = []

    def load(rung, backend, defines):
        loads.append((rung.name, backend, defines))
        return SimpleNamespace(addressed=lambda A, B, out: lambda: None)

    module._loaded.cache_clear()
    monkeypatch.setattr(module, "load", load)
    try:
        for rows in (8, 8, 16):
            matmul(matrix(rows, 8), matrix())
    finally:
        module._loaded.cache_clear()
    assert loads == [("appendix_split_k", "emulator", choose(8, 8, 8).defines)]


class Silent:
    def __repr__(self):
        raise RuntimeError("no")


class Exported:
    """Has the two methods, and nothing behind them."""

    def __init__(self, device):
        self.device = device

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device

    def __dlpack__(self, **options):
        raise BufferError("not for you.\nReally.")


READ_ONLY = matrix()
READ_ONLY.flags.writeable = False
NO_ARRAYS = {
    "None": None, "True": True, "an integer": 3, "NaN": float("nan"), "a complex": 1j, "a text": "A", "bytes": b"abc",
    "lists": [[1.0, 2.0], [3.0, 4.0]], "a dict": {}, "a set": {1}, "a function": len, "the class": np.ndarray,
    "an object": object(), "a range": range(8), "a memoryview": memoryview(b"ab"), "a scalar": bf16(1),
    "silent": Silent(),
}  # fmt: skip
WRONG = {
    **{dtype: (np.zeros((8, 8), dtype), f"X has dtype .*{re.escape(dtype)}.*: it must be bfloat16; convert")
       for dtype in ("float32", "float64", "float16", "int8", "uint16", "bool", "complex128", "object", "U3", "V2",
                     "datetime64[s]")},
    "float8": (np.zeros((8, 8), ml_dtypes.float8_e4m3fn), "X has dtype float8_e4m3fn"),
    "0-D": (np.array(bf16(1)), r"X has shape \(\): it must have 2 dimensions"),
    "1-D": (np.zeros(8, bf16), r"X has shape \(8,\): it must have 2 dimensions"),
    "3-D": (np.zeros((1, 8, 8), bf16), r"X has shape \(1, 8, 8\): it must have 2 dimensions"),
    "no rows": (np.zeros((0, 8), bf16), "X is empty"),
    "no columns": (np.zeros((8, 0), bf16), "X is empty"),
    "Fortran order": (np.asfortranarray(matrix()), r"X is stored by columns.*pass numpy.ascontiguousarray\(X\)"),
    "every second column": (matrix(8, 16)[:, ::2], "X is a strided view"),
    "upside down": (matrix()[::-1], "X is a strided view"),
    "one row repeated": (np.broadcast_to(matrix(1, 8), (8, 8)), "X is a strided view"),
    "masked": (np.ma.masked_array(matrix()), "X is a numpy.MaskedArray, not a NumPy array"),
    "misaligned": (matrix(1, 72).reshape(-1)[1:65].reshape(8, 8), r"X begins 2 bytes past .*X.copy\(\), or X.clone"),
    "on ROCm": (Exported((10, 0)), "X lies on a device that is neither a CPU nor an NVIDIA GPU"),
    "of no device": (Exported(None), "X lies on a device that is neither"),
    "of a raising device": (Exported(RuntimeError("boom.\nMore.")), r"X lies on a device that is neither .*\(boom\)"),
    "not given away": (Exported((1, 0)), r"X is a test_matmul.Exported that numpy cannot see .*\(not for you\)"),
    **{name: (value, "X is .*, not an array: give a bfloat16 matrix") for name, value in NO_ARRAYS.items()},
}  # fmt: skip


@pytest.mark.parametrize("place", ["A", "B", "out"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_get_a_sentence(name, place, nothing_launched):
    value, words = WRONG[name]
    if place == "out" and value is None:
        return   # the same as none given
    said = sentence_of(**{"A": matrix(), "B": matrix(seed=1)} | {place: value})
    assert re.match(words.replace("X", place), said), said


@pytest.mark.parametrize(("shapes", "words"), {
    ((8, 16), (8, 8)): r"B has shape \(8, 8\) but A has 16 columns: A @ B needs B to have 16 rows.",
    ((8, 8), (8, 12)): "B has 12 columns but 10_clusters needs N to be a multiple of 8: pad with zeros to 16.",
    ((8, 7), (7, 8)): "A has 7 columns but 10_clusters needs K to be a multiple of 8: pad with zeros to 8.",
}.items(), ids=str)  # fmt: skip
def test_shapes_that_no_kernel_takes_are_refused(shapes, words, nothing_launched):
    assert re.match(words, sentence_of(*(matrix(*shape) for shape in shapes)))


def test_out_is_named_as_it_is_given(nothing_launched):
    A, B, whole = matrix(), matrix(seed=1), matrix(3, 64).reshape(-1)
    assert sentence_of(A, B, matrix(8, 16)).startswith("out has shape (8, 16) but A @ B has shape (8, 8): give out")
    assert sentence_of(A, B, READ_ONLY).startswith("out is read-only")
    assert sentence_of(A, B, A).startswith("out shares memory with A")
    assert sentence_of(A, B, B).startswith("out shares memory with B")
    assert "shares memory with A" in sentence_of(whole[:64].reshape(8, 8), B, whole[8:72].reshape(8, 8))


def test_a_result_beyond_the_memory_is_refused_before_it_is_made(nothing_launched):
    tall, wide = np.zeros((1 << 20, 8), bf16), np.zeros((8, 1 << 20), bf16)
    assert "C of 1,048,576 x 1,048,576 needs about 2,048.0 GiB" in sentence_of(tall, wide)


@pytest.mark.parametrize("backend", ["gpu", "AUTO", "", None, 1, [], b"auto", np.array(["cuda", "auto"]), object()])
def test_unknown_backends_are_refused(backend, nothing_launched):
    said = sentence_of(matrix(), matrix(), backend=backend)
    assert said.startswith("backend is ") and "one of 'auto', 'cuda', 'emulator'" in said


# torch, played


class Torch(SimpleNamespace):
    """The few names of torch that are used, for tensors over NumPy's memory."""

    def __init__(self):
        self.bfloat16, self.float32, self.int16 = "torch.bfloat16", "torch.float32", "torch.int16"
        self.strided, self.grad, self.changed, self.stream = "torch.strided", True, [], 0
        self.Tensor = Tensor
        self.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=self.changed.append))
        self.cuda = SimpleNamespace(current_stream=lambda device: SimpleNamespace(cuda_stream=self.stream))

    def is_grad_enabled(self):
        return self.grad


class Tensor:
    def __init__(self, array, device="cpu", index=None, **state):
        self.array, self.device = array, SimpleNamespace(type=device, index=index)
        self.layout = state.get("layout", "torch.strided")
        self.dtype = state.get("dtype", "torch.bfloat16")
        self.requires_grad = state.get("requires_grad", False)
        self.free = state.get("free", True)

    shape = property(lambda self: self.array.shape)

    def data_ptr(self):
        return self.array.ctypes.data

    def detach(self):
        return Tensor(self.array, self.device.type, self.device.index)

    def stride(self):
        return tuple(step // 2 for step in self.array.strides)

    def is_contiguous(self):
        return self.array.flags.c_contiguous

    def view(self, dtype):
        assert dtype == "torch.int16"
        return Tensor(self.array.view(np.int16), self.device.type, dtype=dtype)

    def numpy(self):
        if self.dtype != "torch.int16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def new_empty(self, shape):
        if not self.free:
            raise RuntimeError("CUDA out of memory. Tried to allocate.\nSee documentation.")
        return Tensor(empty_matrix(*shape, "emulator"), self.device.type, self.device.index)

    def __dlpack_device__(self):
        raise AssertionError("torch tells by itself where a tensor lies")

    def __dlpack__(self, **options):
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self.device.index:
            raise BufferError("Can't export tensors on a different CUDA device index.")
        return capsule(self.array, self.device.index or 0)


@pytest.fixture
def torch(monkeypatch):
    played = Torch()
    monkeypatch.setitem(sys.modules, "torch", played)
    return played


@pytest.mark.compiler
def test_torch_tensors_of_the_cpu_share_their_memory(torch):
    A, B = Tensor(matrix(seed=1)), Tensor(matrix(seed=2))
    C = matmul(A, B)
    assert isinstance(C, Tensor) and np.array_equal(C.array, product(A.array, B.array)) and not torch.changed
    out = Tensor(empty_matrix(8, 8, "emulator"))
    assert matmul(A, B, out) is out and np.array_equal(out.array, C.array)
    assert torch.changed == [out]


@pytest.mark.compiler
def test_libraries_mix_in_one_memory_and_the_result_is_of_the_kind_of_a(torch):
    A, B = matrix(seed=1), matrix(seed=2)
    assert isinstance(matmul(A, Tensor(B)), np.ndarray)
    assert isinstance(matmul(Tensor(A), B), Tensor)
    out = empty_matrix(8, 8, "emulator")
    assert matmul(Tensor(A), Tensor(B), out) is out and np.array_equal(out, product(A, B))


@pytest.mark.parametrize(("tensor", "words"), [
    (Tensor(matrix(), dtype="torch.float32"),
     r"X has dtype torch.float32: it must be torch.bfloat16; convert it with X.to\(torch.bfloat16\)."),
    (Tensor(matrix(), requires_grad=True), r"X requires a gradient, and this product has none: pass X.detach\(\)"),
    (Tensor(matrix(), layout="torch.sparse_coo"), r"X has layout torch.sparse_coo: .*pass X.to_dense\(\)"),
    (Tensor(matrix(8, 16)[:, ::2]), r"X is a strided view, strides \(16, 2\) elements .*pass X.contiguous\(\)."),
    (Tensor(matrix(), device="meta"), "X is a torch tensor on device 'meta'"),
    (Tensor(np.zeros(8, bf16)), r"X has shape \(8,\)"),
], ids=["dtype", "gradient", "layout", "strides", "meta", "1-D"])  # fmt: skip
@pytest.mark.parametrize("place", ["A", "B", "out"])
def test_tensors_that_do_not_suit_get_the_words_of_torch(tensor, words, place, torch, nothing_launched):
    said = sentence_of(**{"A": Tensor(matrix()), "B": Tensor(matrix(seed=1))} | {place: tensor})
    assert re.match(words.replace("X", place), said), said


@pytest.mark.compiler
def test_without_gradients_a_parameter_is_a_matrix(torch):
    torch.grad = False
    A, B = Tensor(matrix(seed=1), requires_grad=True), Tensor(matrix(seed=2))
    assert np.array_equal(matmul(A, B).array, product(A.array, B.array))


@pytest.mark.compiler
def test_torch_itself_where_it_is_installed():
    torch = pytest.importorskip("torch")
    a, b = matrix(8, 16, 1), matrix(16, 24, 2)
    A, B = (torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16) for array in (a, b))
    C = matmul(A, B)
    assert isinstance(C, torch.Tensor) and np.array_equal(C.view(torch.int16).numpy().view(bf16), product(a, b))
    out = torch.zeros_like(C)
    version = out._version
    assert matmul(A, b, out) is out and torch.equal(out, C) and out._version > version
    weight = torch.nn.Parameter(B)
    assert sentence_of(A, weight).startswith("B requires a gradient")
    with torch.no_grad():
        assert torch.equal(matmul(A, weight), C)
    for wrong, words in {
        B.float(): "B has dtype torch.float32", B.T: "B is a strided view", B.to_sparse(): "B has layout",
        B.to("meta"): "B is a torch tensor on device 'meta'", B[0]: "B has shape (24,)",
    }.items():  # fmt: skip
        assert sentence_of(A, wrong).startswith(words)


def test_memory_that_torch_does_not_have_is_said_in_a_sentence(torch, nothing_launched):
    said = sentence_of(Tensor(matrix(), free=False), Tensor(matrix()))
    assert said.startswith("torch has no memory for C of 8 x 8 (CUDA out of memory") and "delete tensors" in said


# A third library


class Array:
    """Of a library with `__array__`, as JAX has it on the host: read-only, and never a copy."""

    def __init__(self, array, copies=False):
        self.array, self.copies = array.view(), copies
        self.array.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        if self.copies and copy is False:
            raise ValueError("it lies in pieces")
        return self.array

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        raise AssertionError("NumPy's DLPack knows no bfloat16")


@pytest.mark.compiler
def test_another_librarys_arrays_are_seen_through_numpy():
    A, B = matrix(seed=1), matrix(seed=2)
    assert np.array_equal(matmul(Array(A), Array(B)), product(A, B))


def test_what_would_have_to_be_copied_is_refused(nothing_launched):
    said = sentence_of(Array(matrix(), copies=True), matrix())
    assert said.startswith("A is a test_matmul.Array that numpy cannot see without a copy (it lies in pieces)")


def test_arrays_that_never_change_are_no_output(monkeypatch, nothing_launched):
    monkeypatch.setattr(Array, "__module__", "jaxlib._jax")
    said = sentence_of(matrix(), matrix(seed=1), Array(matrix()))
    assert said.startswith("out is a jaxlib.Array, which its library takes for never changing: leave out away")


# A GPU, played: CuPy's arrays lie over the host's memory


class Capsule(ctypes.Structure):
    """DLManagedTensor of dlpack.h, flat."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


KEPT = []   # a capsule without a deleter never says when it is done


def capsule(array, device=0):
    """A bf16 array of NumPy as the DLPack capsule of a GPU."""
    lengths = ctypes.c_int64 * array.ndim
    shape, strides = lengths(*array.shape), lengths(*(step // 2 for step in array.strides))
    made = Capsule(array.ctypes.data, 2, device, array.ndim, 4, 16, 1, shape, strides, 0, None, None)
    KEPT.append((made, shape, strides, array))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(made), b"dltensor", None)


def host(array):
    """What lies at the address of a CuPy array that was made here."""
    words = np.ctypeslib.as_array(ctypes.cast(array.data.ptr, ctypes.POINTER(ctypes.c_uint16)), array.shape)
    return words.view(bf16)


@pytest.fixture
def card(monkeypatch):
    """A played H200. `events` is what was asked of it, in order."""
    import cupy

    real, events, current = cupy.from_dlpack, [], []

    class Stream:
        def __init__(self, ptr):
            self.ptr = ptr

        @classmethod
        def from_external(cls, foreign):
            version, ptr = foreign.__cuda_stream__()
            assert version == 0
            return cls(ptr)

        def record(self):
            return self.ptr

        def wait_event(self, event):
            events.append(f"{self.ptr} waits for {event}")

        def __enter__(self):
            current.append(self)

        def __exit__(self, *error):
            current.pop()

    def from_dlpack(value):
        events.append(f"import on {current[-1].ptr}")
        return real(value.__dlpack__(stream=current[-1].ptr) if hasattr(value, "__dlpack__") else value)

    def loaded(rung, defines, backend, device):
        assert (rung.name, backend, device) == ("appendix_split_k", "cuda", 0)

        def launch(A, B, out):
            events.append(f"launch on {current[-1].ptr}")
            host(out)[...] = product(host(A), host(B))

        return SimpleNamespace(addressed=lambda *arrays: lambda: launch(*arrays))

    module._launches.cache_clear()   # what lay at an address in another test lies there no more
    current.append(Stream(0))
    monkeypatch.setattr(gpu, "probe", lambda: Probe(H200))
    for user in (module, import_module("helpers.arguments")):
        monkeypatch.setattr(user, "current_device", lambda backend: 0)
    monkeypatch.setattr(gpu, "synchronize", lambda: events.append("wait"))
    monkeypatch.setattr(cupy, "from_dlpack", from_dlpack)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: current[-1])
    monkeypatch.setattr(cupy.cuda, "Stream", Stream)
    monkeypatch.setattr(module, "_loaded", loaded)
    monkeypatch.setattr(foreign, "empty_matrix", lambda m, n, backend: real(capsule(empty_matrix(m, n, "emulator"))))
    return SimpleNamespace(
        events=events, array=lambda values, device=0: real(capsule(values, device)),
        tensor=lambda values, index=0, **state: Tensor(values, "cuda", index, **state),
    )  # fmt: skip


class Foreign:
    """A GPU array of a third library."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream):
        return capsule(self.array)


def test_cupys_arrays_run_on_its_current_stream(card):
    a, b, c = matrix(seed=1), matrix(seed=2), empty_matrix(8, 8, "emulator")
    C = matmul(card.array(a), card.array(b))
    assert type(C).__module__.startswith("cupy") and C.dtype == bf16 and np.array_equal(host(C), product(a, b))
    out = card.array(c)
    assert matmul(card.array(a), card.array(b), out=out, backend="cuda") is out
    assert np.array_equal(c, product(a, b)) and card.events == ["launch on 0"] * 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pointer", [0, 7_654_321])
def test_cupy_takes_a_stream_of_torch_without_a_warning(pointer):
    import cupy

    assert cupy.cuda.Stream.from_external(foreign._TorchStream(pointer)).ptr == pointer


def test_tensors_run_on_torchs_current_stream(card, torch):
    a, b = matrix(seed=1), matrix(seed=2)
    torch.stream = 7
    C = matmul(card.tensor(a), card.tensor(b))
    assert isinstance(C, Tensor) and C.device.type == "cuda" and np.array_equal(C.array, product(a, b))
    assert card.events == ["import on 7"] * 3 + ["launch on 7"]
    card.events.clear()
    torch.stream = 0   # one stream, by two names
    out = card.tensor(empty_matrix(8, 8, "emulator"))
    assert matmul(card.tensor(a), card.tensor(b), out) is out and torch.changed == [out]
    assert card.events == ["import on 0"] * 3 + ["launch on 0"]
    torch.grad = False
    assert np.array_equal(matmul(card.tensor(a, requires_grad=True), card.tensor(b)).array, C.array)


def test_streams_of_two_libraries_wait_for_each_other(card, torch):
    a, b = matrix(seed=1), matrix(seed=2)
    torch.stream = 7
    C = matmul(card.array(a), card.tensor(b))
    assert type(C).__module__.startswith("cupy") and np.array_equal(host(C), product(a, b))
    assert card.events == ["7 waits for 0", "import on 7", "launch on 7", "0 waits for 7"]
    card.events.clear()
    torch.stream = 0
    matmul(card.array(a), card.tensor(b))
    assert card.events == ["import on 0", "launch on 0"]


def test_a_third_library_gets_a_cupy_array_that_is_finished(card):
    a, b = matrix(seed=1), matrix(seed=2)
    C = matmul(Foreign(a), card.array(b))
    assert type(C).__module__.startswith("cupy") and np.array_equal(host(C), product(a, b))
    assert card.events == ["import on 0", "launch on 0", "wait"]
    c = empty_matrix(8, 8, "emulator")
    out = Foreign(c)
    assert matmul(card.array(a), card.array(b), out) is out and np.array_equal(c, product(a, b))
    assert card.events[-2:] == ["launch on 0", "wait"]


def test_matrices_that_lie_where_checked_ones_lay_are_only_launched(card, torch, monkeypatch):
    """Checking takes the CPU longer than a small product the GPU."""
    a, b, c = matrix(seed=1), matrix(seed=2), empty_matrix(8, 8, "emulator")
    checks = []
    real = module._checked
    monkeypatch.setattr(module, "_checked", lambda *given: checks.append(1) or real(*given))
    for _ in range(3):   # new objects each time, which lie in the same place
        assert np.array_equal(matmul(card.tensor(a), card.tensor(b), card.tensor(c)).array, product(a, b))
        assert matmul(card.array(a), card.array(b), card.array(c)) is not None
    assert len(checks) == 2 and len(torch.changed) == 3
    card.events.clear()
    torch.stream = 7
    matmul(card.tensor(a), card.tensor(b), card.tensor(c))
    assert card.events == ["launch on 7"], "on the stream of this call"
    a[...] = matrix(seed=3)
    assert np.array_equal(matmul(card.tensor(a), card.tensor(b), card.tensor(c)).array, product(a, b))
    assert len(checks) == 2


def test_what_lies_there_in_another_form_is_checked_anew(card, torch):
    a, b = matrix(seed=1), matrix(seed=2)
    matmul(card.array(a), card.array(b))
    matmul(card.tensor(a), card.tensor(b))
    assert sentence_of(card.array(a.T), card.array(b)).endswith("pass cupy.ascontiguousarray(A).")
    assert sentence_of(card.array(a.reshape(4, 16)), card.array(b)).startswith("B has shape (8, 8)")
    assert sentence_of(card.tensor(a, requires_grad=True), card.tensor(b)).startswith("A requires a gradient")
    assert sentence_of(card.tensor(a, dtype="torch.float16"), card.tensor(b)).startswith("A has dtype torch.float16")
    assert sentence_of(card.array(a), card.array(b), card.array(a)).startswith("out shares memory with A")
    assert sentence_of(card.array(a), card.array(b), backend="emulator").endswith("pass cupy.asnumpy(A).")


def test_results_are_remembered_up_to_a_number(card):
    a, b = card.array(matrix(seed=1)), card.array(matrix(seed=2))
    kept = [matmul(a, b) for _ in range(3 * module.MOST_RESULTS)]
    assert len({C.data.ptr for C in kept}) == len(kept)
    assert 0 < len(module._known([a, b], "auto")) <= module.MOST_RESULTS


def test_arrays_in_two_memories_are_refused_with_what_to_type(card, torch):
    on_gpu, on_host = card.array(matrix()), matrix(seed=1)
    tensor, cpu = card.tensor(matrix()), Tensor(matrix())
    for given, words in [
        ((on_gpu, on_host), "B lies in host memory, and A on the GPU: all must lie there; pass cupy.asarray(B)."),
        ((on_host, on_gpu), "B lies on the GPU, and A in host memory: all must lie there; pass cupy.asnumpy(B)."),
        ((tensor, cpu), "B lies in host memory, and A on the GPU: all must lie there; pass B.cuda()."),
        ((cpu, tensor), "B lies on the GPU, and A in host memory: all must lie there; pass B.cpu()."),
        ((cpu, cpu, tensor), "out lies on the GPU, and A in host memory: all must lie there; make out there."),
    ]:
        assert sentence_of(*given) == words
    assert sentence_of(cpu, cpu, backend="cuda").startswith("A lies in host memory, and backend 'cuda' works on the")
    assert sentence_of(on_gpu, on_gpu, backend="emulator").endswith("pass cupy.asnumpy(A).")
    assert not card.events


def test_arrays_of_another_gpu_are_refused(card, torch):
    here = card.array(matrix())
    for far in (card.array(matrix(), 1), card.tensor(matrix(), 1)):
        said = sentence_of(here, far)
        assert said.startswith("B lies on GPU 1 but GPU 0 is current") and "cupy.cuda.Device(1)" in said


def test_arrays_of_a_gpu_are_checked_as_on_the_emulator(card, torch):
    good = card.array(matrix())
    assert sentence_of(good, card.array(matrix(8, 16).T[:8])).startswith("B is a strided view")
    assert sentence_of(card.array(matrix(16, 8).T), good).endswith("pass cupy.ascontiguousarray(A).")
    assert sentence_of(good, good, good).startswith("out shares memory with A")
    assert sentence_of(good, card.tensor(matrix(), requires_grad=True)).startswith("B requires a gradient")
    shifted = matrix(1, 72).reshape(-1)[1:65].reshape(8, 8)
    assert "A begins 2 bytes past" in sentence_of(card.tensor(shifted), good)
    assert sentence_of(good, Exported((2, 0))).startswith("B is a test_matmul.Exported that cupy cannot see")


def test_arrays_of_a_gpu_that_cannot_run_it_are_refused(card, monkeypatch):
    on_gpu = card.array(matrix())
    monkeypatch.setattr(gpu, "probe", lambda: Probe(A100))
    said = sentence_of(on_gpu, on_gpu)
    assert said.startswith("10_clusters needs a GPU of compute capability exactly 9.0 (Hopper), and NVIDIA A100 has")
    assert "cupy.asnumpy(A)" in said
    monkeypatch.setattr(gpu, "probe", lambda: Probe(None, "There is none: buy one."))
    with pytest.raises(BackendError, match="There is none: buy one."):
        matmul(matrix(), matrix(), backend="cuda")


@pytest.mark.compiler
def test_beside_a_gpu_that_cannot_run_it_host_arrays_still_multiply(monkeypatch):
    monkeypatch.setattr(gpu, "probe", lambda: Probe(A100))
    assert np.array_equal(matmul(matrix(), matrix(seed=1)), product(matrix(), matrix(seed=1)))
