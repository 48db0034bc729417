"""Kernel, load and random_matrix: arguments are checked before anything is launched, in words."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import helpers.kernel
from helpers import gpu
from helpers.arguments import INT32_MAX, check_launch, check_matrix, check_sizes, launch_arguments
from helpers.arrays import random_matrix
from helpers.backends import CudaBackend, EmulatorBackend
from helpers.errors import ArgumentError, BackendError
from helpers.gpu import Gpu, Probe, meets
from helpers.kernel import Kernel, KernelFault, emulate, load
from helpers.rungs import RUNGS, find_rung

bf16 = ml_dtypes.bfloat16
H200 = Gpu("NVIDIA H200", (9, 0), 13000, 227 * 1024, 132)
A100 = Gpu("NVIDIA A100", (8, 0), 13000, 163 * 1024, 108)


@dataclass
class RecordingBackend:
    """Multiplies with NumPy and keeps what it was asked to launch."""

    name: str = "emulator"
    shared_limit: int = 227 * 1024
    sms: int = 132
    reports: tuple = ()
    launches: list = field(default_factory=list)
    compiled: list = field(default_factory=list)

    def compile(self, kernel):
        self.compiled.append(kernel.path)
        return "compiled"

    def launch(self, compiled, entry, grid, block, arguments, shared_bytes):
        self.launches.append((entry, grid, block, arguments, shared_bytes))
        A, B, C = arguments[:3]
        C[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)
        return SimpleNamespace(reports=list(self.reports), counters=[], totals={})


def kernel_of(rung=1, **options):
    found = find_rung(rung)
    return Kernel(found, RecordingBackend(**options), found.entry, {}, found.path)


class CupyArray:
    """Looks like a CuPy array to code that must not import CuPy."""

    __module__ = "cupy.fake"
    __cuda_array_interface__ = {}


@pytest.fixture
def use_gpu(monkeypatch):
    """Pretend that the driver shows this GPU, or none."""

    def use(found):
        answer = Probe(found, "" if found else "No NVIDIA driver was found (test): install the driver.")
        monkeypatch.setattr(gpu, "probe", lambda: answer)
        monkeypatch.setattr("helpers.arrays.probe", lambda: answer)

    return use


def matrix(rows=8, columns=8, dtype=bf16):
    return np.ones((rows, columns), dtype)


def offset_matrix(rows, columns, offset):
    memory = random_matrix(1, rows * columns + 128, 0, "emulator").reshape(-1)
    return memory[offset:offset + rows * columns].reshape(rows, columns)


def test_call_returns_the_product_and_launches_once():
    kernel = kernel_of()
    A, B = random_matrix(40, 24, 1, "emulator"), random_matrix(24, 70, 2, "emulator")
    C = kernel(A, B)
    assert C.shape == (40, 70) and C.dtype == bf16
    assert np.array_equal(C, (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16))
    ((entry, grid, block, arguments, shared_bytes),) = kernel._implementation.launches
    assert (entry, grid, block, shared_bytes) == ("matmul", (3, 2), (1024,), 0)
    assert [type(value) for value in arguments[3:]] == [np.int32] * 3
    assert arguments[3:] == (40, 70, 24)


def test_file_is_compiled_once():
    kernel = kernel_of()
    for _ in range(3):
        kernel(matrix(), matrix())
    assert len(kernel._implementation.compiled) == 1


def test_out_is_filled_and_returned():
    kernel = kernel_of()
    C = np.zeros((8, 8), bf16)
    assert kernel(matrix(), matrix(), out=C) is C
    assert (C == bf16(8)).all()


WRONG_OPERANDS = {
    "A is a list, not a NumPy array": ([[1.0]], matrix()),
    "B is a NoneType, not a NumPy array": (matrix(), None),
    "A is a numpy.MaskedArray, not a NumPy array": (np.ma.array(matrix()), matrix()),
    "A is a CuPy array in GPU memory, but this kernel runs on the emulator: pass cupy.asnumpy(A)":
        (CupyArray(), matrix()),
    "A has dtype float32: it must be bfloat16": (matrix(dtype=np.float32), matrix()),
    "B has dtype float16: it must be bfloat16": (matrix(), matrix(dtype=np.float16)),
    "A has shape (8,): it must have 2 dimensions": (np.ones(8, bf16), matrix()),
    "B has shape (1, 8, 8): it must have 2 dimensions": (matrix(), np.ones((1, 8, 8), bf16)),
    "A has shape (): it must have 2 dimensions": (np.array(1, bf16), matrix()),
    "A is empty, shape (0, 8)": (np.ones((0, 8), bf16), matrix()),
    "B is empty, shape (8, 0)": (matrix(), np.ones((8, 0), bf16)),
    "A is empty, shape (8, 0)": (np.ones((8, 0), bf16), np.ones((0, 8), bf16)),
    "B has shape (9, 8) but A has 8 columns: A @ B needs B to have 8 rows": (matrix(), matrix(9)),
    "A is stored by columns (Fortran order or a transposed view), strides (2, 8) bytes for shape (4, 8): "
    "it must be row-major and contiguous; pass numpy.ascontiguousarray(A)": (matrix(8, 4).T, matrix()),
    "B is stored by columns": (matrix(), np.asfortranarray(matrix())),
    "A is a strided view, strides (32, 2)": (matrix(8, 16)[:, :8], matrix()),
    "B is a strided view": (matrix(), matrix(8, 16)[:, ::2]),
    "A is a strided view, strides (-16, 2)": (matrix()[::-1], matrix()),
    "A is a strided view, strides (0, 2)": (np.broadcast_to(np.ones(8, bf16), (8, 8)), matrix()),
}


@pytest.mark.parametrize(("words", "operands"), WRONG_OPERANDS.items(), ids=list(WRONG_OPERANDS))
def test_wrong_operands_are_refused_before_the_launch(words, operands):
    kernel = kernel_of()
    with pytest.raises(ArgumentError) as caught:
        kernel(*operands)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert isinstance(caught.value, ValueError)
    assert not kernel._implementation.launches and not kernel._implementation.compiled


def test_host_array_on_the_gpu_is_refused():
    kernel = kernel_of(name="cuda")
    with pytest.raises(ArgumentError, match=r"A is a NumPy array in host memory.*pass cupy.asarray\(A\)"):
        kernel(matrix(), matrix())
    with pytest.raises(ArgumentError, match="A is a list, not an array"):
        kernel([[1]], matrix())
    assert not kernel._implementation.launches


def test_row_and_column_vectors_are_matrices_too():
    kernel = kernel_of()
    assert kernel(matrix(1, 8), matrix(8, 1)).shape == (1, 1)
    assert kernel(matrix(8, 1), matrix(1, 8)).shape == (8, 8)
    assert kernel(matrix(8, 16)[:1, :8], matrix(8, 1)).shape == (1, 1)   # one row of a wider matrix is contiguous


def test_read_only_operands_are_fine():
    A = matrix()
    A.flags.writeable = False
    assert kernel_of()(A, matrix()).shape == (8, 8)


def test_out_is_checked():
    kernel, A, B = kernel_of(), matrix(), matrix()
    for C, words in {
        "shape": (np.zeros((8, 9), bf16), r"C has shape \(8, 9\) but A @ B has shape \(8, 8\)"),
        "dtype": (np.zeros((8, 8), np.float32), "C has dtype float32"),
        "strides": (np.zeros((8, 8), bf16).T, "C is stored by columns"),
        "read-only": (np.frombuffer(bytes(128), bf16).reshape(8, 8), "C is read-only"),
        "A itself": (A, "C shares memory with A"),
        "B itself": (B, "C shares memory with B"),
    }.values():
        with pytest.raises(ArgumentError, match=words):
            kernel(A, B, out=C)
    assert not kernel._implementation.launches
    assert (A == 1).all() and (B == 1).all()


def test_shapes_must_be_multiples():
    rung = replace(find_rung(3), name="03_r", tile=(128, 256, 64), multiples=(128, 256, 64))
    check_sizes(rung, 128, 256, 64)
    for shape, words in {
        (130, 256, 64): "A has 130 rows but 03_r needs M to be a multiple of 128: pad with zeros to 256.",
        (128, 255, 64): "B has 255 columns but 03_r needs N to be a multiple of 256: pad with zeros to 256.",
        (128, 256, 65): "A has 65 columns but 03_r needs K to be a multiple of 64: pad with zeros to 128.",
    }.items():
        with pytest.raises(ArgumentError) as caught:
            check_sizes(rung, *shape)
        assert str(caught.value) == words


def test_sizes_must_fit_the_grid_and_int():
    rung = find_rung(1)
    check_sizes(rung, 65_535 * 32, 1, 1)
    with pytest.raises(ArgumentError, match="A has 2,097,121 rows but 01_coalescing takes M up to 2,097,120"):
        check_sizes(rung, 65_535 * 32 + 1, 1, 1)
    with pytest.raises(ArgumentError, match="B has 2,147,483,647 columns .* N up to 2,147,483,615"):
        check_sizes(rung, 1, INT32_MAX, 1)
    with pytest.raises(ArgumentError, match="takes K up to"):
        check_sizes(rung, 1, 1, 2**31)


@pytest.mark.parametrize("offset", [1, 4, 7])
def test_alignment_is_checked_where_the_rung_needs_it(offset):
    kernel = kernel_of(3)
    m, n, k = kernel.rung.multiples
    good, bad = random_matrix(k, n, 1, "emulator"), offset_matrix(m, k, offset)
    with pytest.raises(ArgumentError, match=rf"A begins {2 * offset} bytes past a multiple of 16.*pass A.copy\(\)"):
        kernel(bad, good)
    with pytest.raises(ArgumentError, match="B begins"):
        kernel(random_matrix(m, k, 1, "emulator"), offset_matrix(k, n, offset))
    assert not kernel._implementation.launches
    assert kernel(bad.copy(), good).shape == (m, n)   # the remedy works


def test_alignment_does_not_matter_elsewhere():
    assert kernel_of(1)(offset_matrix(8, 8, 1), matrix()).shape == (8, 8)


WRONG_LAUNCHES = {
    "grid is 4: it must be a tuple": dict(grid=4),
    "grid is (): it must be a tuple": dict(grid=()),
    "grid is (1, 1, 1, 1): it must be a tuple": dict(grid=(1, 1, 1, 1)),
    "grid.x is 0": dict(grid=(0,)),
    "grid.x is 1.5": dict(grid=(1.5,)),
    "grid.x is True": dict(grid=(True,)),
    "grid.y is 65536: it must be an integer from 1 to 65,535": dict(grid=(1, 65536)),
    "block.x is -1": dict(block=(-1,)),
    "block.z is 128": dict(block=(1, 1, 128)),
    "block (64, 32) has 2,048 threads: a CTA has at most 1,024": dict(block=(64, 32)),
    "shared_bytes is -4": dict(shared_bytes=-4),
    "shared_bytes is 232449: it must be an integer from 0 to 232,448": dict(shared_bytes=232449),
    "shared_bytes is 1.0": dict(shared_bytes=1.0),
}


@pytest.mark.parametrize(("words", "change"), WRONG_LAUNCHES.items(), ids=list(WRONG_LAUNCHES))
def test_wrong_launches_are_refused(words, change):
    kernel = kernel_of()
    launch = dict(grid=(1,), block=(32,), arguments=(matrix(), matrix(), matrix()), shared_bytes=0) | change
    with pytest.raises(ArgumentError) as caught:
        kernel.launch(**launch)
    assert words in str(caught.value)
    assert not kernel._implementation.launches


def test_open_launch_passes_what_it_is_given():
    kernel = kernel_of()
    A, B, C = matrix(), matrix(), matrix()
    run = kernel.launch((2, 3), (16, 16), (A, B, C, 8, 2.5, np.int64(7)), shared_bytes=512)
    assert run is kernel.run
    ((entry, grid, block, arguments, shared_bytes),) = kernel._implementation.launches
    assert (entry, grid, block, shared_bytes) == ("matmul", (2, 3), (16, 16), 512)
    assert arguments[0] is A
    assert [value.dtype for value in arguments[3:]] == [np.int32, np.float32, np.int64]


def test_launch_arguments_are_checked():
    for arguments, words in {
        "other memory": ((CupyArray(),), "argument 0 is a CuPy array in GPU memory"),
        "text": ((1, "x"), "argument 1 is 'x': it must be an array, a number or a tensor map"),
        "true": ((True,), "argument 0 is True: it must be an array, a number or a tensor map"),
        "scalar text": ((np.str_("x"),), "argument 0 is np.str_"),
        "objects": ((np.zeros(4, object),), "argument 0 holds Python objects: give an array of numbers"),
        "too large": ((2**31,), "argument 0 is 2,147,483,648: it must fit a 32-bit int"),
        "strided": ((matrix()[:, ::2],), "argument 0 is a strided view"),
        "no tuple": (matrix(), "arguments is a ndarray: it must be a tuple"),
    }.values():
        with pytest.raises(ArgumentError, match=words):
            launch_arguments(arguments, "emulator")


def test_structure_goes_by_value_on_either_backend():
    descriptor = np.zeros(1, np.dtype([("opaque", "<u8", 16)]))
    assert launch_arguments((descriptor,), "cuda") == (descriptor,)
    assert launch_arguments((descriptor,), "emulator") == (descriptor,)
    with pytest.raises(ArgumentError, match="host memory"):
        launch_arguments((np.ones(1, bf16),), "cuda")


def test_reports_of_the_emulator_raise_and_are_kept():
    report = SimpleNamespace(kind="out_of_bounds", message="thread 5 reads A[64], A has 64 elements.", line=12)
    kernel = kernel_of(reports=(report, report))
    with pytest.raises(KernelFault) as caught:
        kernel(matrix(), matrix())
    assert str(caught.value) == (
        "01_coalescing.cu:12: out of bounds: thread 5 reads A[64], A has 64 elements (and 1 more report)."
    )
    assert caught.value.run is kernel.run


def test_auto_is_the_gpu_only_if_it_can_run_the_rung(use_gpu):
    rung = find_rung(1)
    use_gpu(None)
    assert load(1).backend == "emulator"
    use_gpu(A100)
    assert load(1).backend == "cuda"
    assert load(replace(rung, compute_capability="==9.0")).backend == "emulator"
    use_gpu(H200)
    assert load(replace(rung, compute_capability="==9.0")).backend == "cuda"
    assert load(1, backend="emulator").backend == "emulator"


def test_gpu_that_is_too_old_is_refused_before_compiling(use_gpu, monkeypatch):
    monkeypatch.setattr(helpers.kernel, "compile_cubin", lambda *_: pytest.fail("compiled"))
    use_gpu(A100)
    with pytest.raises(BackendError, match=r"compute capability exactly 9.0 \(Hopper\), and NVIDIA A100 has 8.0"):
        load(replace(find_rung(1), compute_capability="==9.0"), backend="cuda")
    with pytest.raises(BackendError, match="capability 9.0 or newer"):
        load(replace(find_rung(1), compute_capability=">=9.0"), backend="cuda")
    use_gpu(None)
    with pytest.raises(BackendError, match="No NVIDIA driver was found"):
        load(1, backend="cuda")


def test_architecture_is_the_cards_own():
    assert H200.architecture == "sm_90a"
    assert A100.architecture == "sm_80"
    assert replace(A100, capability=(8, 9)).architecture == "sm_89"
    with pytest.raises(BackendError, match="compute capability 7.0, which this NVRTC does not compile for"):
        _ = replace(A100, capability=(7, 0)).architecture
    rung = find_rung(1)
    assert Kernel(rung, CudaBackend(A100), "matmul", {}, rung.path).architecture == "sm_80"
    assert Kernel(rung, EmulatorBackend(), "matmul", {}, rung.path).architecture == "sm_90a"


def test_rules():
    assert meets(">=7.5", (7, 5)) and meets(">=7.5", (12, 0)) and not meets(">=7.5", (7, 0))
    assert meets("==9.0", (9, 0)) and not meets("==9.0", (10, 0)) and not meets("==9.0", (8, 9))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(rung="11"), "rung '11' is not a rung: give one of 01_coalescing"),
        (dict(rung="0"), "is not a rung|fits several"),
        (dict(rung=""), "is not a rung"),
        (dict(rung=1, backend="gpu"), "backend 'gpu' is not known: give 'auto', 'cuda' or 'emulator'"),
        (dict(rung=1, entry="nothing"), "entry 'nothing' is not in .*: give 'matmul' or 'matmul_uncoalesced'"),
        (dict(rung=1, file="missing.cu"), "kernel file missing.cu does not exist"),
        (dict(rung=1, file=5), "file is 5: it must be the path of a .cu file"),
        (dict(rung=1, file="x" * 5000), "does not exist"),
        (dict(rung=1, defines=["X"]), r"defines is \['X'\]: it must be a dict"),
        (dict(rung=1, defines={"X": None}), "define X has the value None"),
        (dict(rung=1, file="/"), "kernel file / is a folder: give the path of a .cu file"),
        (dict(rung=1, file="/dev/null"), "kernel file /dev/null is no file"),
        (dict(rung=1, defines={"A B": 1}), "define 'A B' is not a C identifier"),
        (dict(rung=1, defines={None: 1}), "define None is not a C identifier"),
        (dict(rung=1, defines={"X": "1; y"}), "define X has the value '1; y'"),
        (dict(rung=1, defines={"X": True}), "define X has the value True"),
        (dict(rung=10, defines={"PACE": ""}), "define PACE has the value '': it must be an integer or a word, of 100"),
        (dict(rung=10, defines={"PACE": 2}), "define PACE is 2: it is a switch, so it must be 0 or 1"),
        (dict(rung=10, defines={"STAGES": 0}), "define STAGES is 0: it must be an integer from 1 to 4, the stages"),
    ],
)
def test_load_refuses(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        load(**arguments)


def test_load_finds_entries_and_files(tmp_path):
    assert load("01", entry="matmul_uncoalesced", backend="emulator").entry == "matmul_uncoalesced"
    copy = tmp_path / "mine.cu"
    copy.write_text(find_rung(1).path.read_text())
    kernel = load(1, "emulator", file=copy, defines={"X": 3})
    assert kernel.path == copy and kernel.source == copy.read_text() and kernel.defines == {"X": 3}
    # Another file may count with what is a switch in the rung's.
    assert load(10, "emulator", file=copy, defines={"PACE": 2}).defines == {"PACE": 2}


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_kernels_hold_no_inline_assembly(rung):
    assert "asm" not in rung.path.read_text()


def test_random_matrix():
    A = random_matrix(64, 96, 5, "emulator")
    assert A.shape == (64, 96) and A.dtype == bf16 and A.flags.c_contiguous
    assert A.ctypes.data % 256 == 0
    assert np.array_equal(A, random_matrix(64, 96, 5, "emulator"))
    assert not np.array_equal(A, random_matrix(64, 96, 6, "emulator"))
    values = random_matrix(512, 512, 1, "emulator").astype(np.float64)
    assert abs(values.mean()) < 0.01 and abs(values.std() - 1) < 0.01
    assert abs(random_matrix(512, 512, 1, "emulator", scale=0.25).astype(np.float64).std() - 0.25) < 0.01


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 4, 1), "rows is 0"),
        ((4, -1, 1), "columns is -1"),
        ((4, 2.0, 1), "columns is 2.0"),
        ((4, 4, -1), "seed is -1"),
        ((4, 4, True), "seed is True"),
        ((4, 4, 1, "tpu"), "backend 'tpu' is not known"),
        ((4, 4, 1, "emulator", float("nan")), "scale is nan"),
    ],
)
def test_random_matrix_refuses(arguments, words):
    with pytest.raises(ArgumentError, match=words):
        random_matrix(*arguments)


def test_limits_of_the_card_hold():
    check_launch((1,), (32,), 163 * 1024, 163 * 1024)
    with pytest.raises(ArgumentError, match="from 0 to 166,912"):
        check_launch((1,), (32,), 163 * 1024 + 1, 163 * 1024)


def test_check_matrix_names_its_argument():
    with pytest.raises(ArgumentError, match="^weights has dtype int8"):
        check_matrix("weights", np.ones((2, 2), np.int8), "emulator")


@pytest.mark.compiler
def test_the_table_of_an_emulation_fits_and_names_its_lines():
    emulation = emulate("03_register_tiling", (128, 256, 64))
    rows = emulation.table().splitlines()
    assert max(map(len, rows)) <= 110 and rows[-1].startswith("per request")
    counter = emulation.counter("A_tile")
    (row,) = (row for row in rows if row.split()[:3] == [str(counter.line), "shared", "load"])
    assert "32.00     4.00  for (int i = 0; i < TM; ++i) unpack(A_tile[" in row and row.endswith("...")
    assert "unpack(A_tile[chunk_index(thread_row + 8 * i, k_chunk)], a[i]);" in emulation.table(width=None)
    with pytest.raises(ArgumentError, match=r"array 'X': give one of A \(load\), A_tile \(load\)"):
        emulation.counter("X")


def test_another_file_needs_no_twins(use_gpu, tmp_path):
    use_gpu(None)
    path = tmp_path / "mine.cu"
    path.write_text('extern "C" __global__ void mine(int* out) {}\n')
    assert load(1, "emulator", file=path, entry="mine").entries == ("mine",)
    assert load(1, "emulator").entries == ("matmul", "matmul_uncoalesced")


def test_a_size_that_does_not_fit_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr("helpers.arrays.free_memory", lambda: 2**30)
    with pytest.raises(ArgumentError, match=r"a matrix of 20,000 x 20,000 needs about 3.0 GiB of memory and 1.0 GiB"):
        random_matrix(20_000, 20_000, 0, "emulator")
    with pytest.raises(ArgumentError, match=r"checking 9,000 x 9,000 x 64 needs about 2.4 GiB"):
        emulate(1, (9_000, 9_000, 64))
    monkeypatch.setattr("helpers.arrays.free_memory", lambda: None)
    assert random_matrix(3, 4, 0, "emulator").shape == (3, 4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(seed=-1), "seed is -1: it must be an integer of at least 0"),
        (dict(seed="a"), "seed is 'a': it must be an integer"),
        (dict(counters="a"), "counters is 'a': it must be True or False"),
        (dict(schedule=None), "schedule None is not known"),
    ],
)
def test_emulate_refuses(options, words):
    with pytest.raises(ArgumentError, match=words):
        emulate(1, (8, 8, 8), **options)


def test_a_matrix_for_the_gpu_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr("helpers.arrays.probe", lambda: Probe(None, "No NVIDIA driver was found: install it."))
    with pytest.raises(BackendError, match="No NVIDIA driver was found: install it."):
        random_matrix(2, 2, 0, "cuda")


@pytest.mark.parametrize("scale", ["a", None, True, float("nan"), float("inf"), 1e39, -1e300])
def test_a_scale_that_is_no_number_of_fp32_is_refused(scale):
    with pytest.raises(ArgumentError, match=r"scale is .*: it must be a number from -1e\+30 to 1e\+30"):
        random_matrix(2, 2, 0, "emulator", scale)


def test_a_grid_of_numpy_integers_is_passed_as_integers():
    kernel = kernel_of()
    A, C = (np.zeros((32, 32), bf16) for _ in range(2))
    kernel.launch((np.int64(1), np.int32(2)), (np.int64(32),), (A, A, C, 1, 1, 1))
    _, grid, block, _, _ = kernel._implementation.launches[0]
    assert [type(size) for size in (*grid, *block)] == [int, int, int]
