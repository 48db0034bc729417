"""cublasLt by ctypes: the fake library reads the very memory that it is pointed at, with the layouts it is given."""

import ctypes
import weakref
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from helpers import cublas
from helpers.errors import ArgumentError, BackendError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class DeviceArray:
    """A NumPy array with what cuBLAS needs of a CuPy array: `.data.ptr`, dtype, shape, flags."""

    def __init__(self, values):
        self.values = values
        self.data = SimpleNamespace(ptr=values.ctypes.data)
        self.dtype, self.shape, self.ndim, self.flags = values.dtype, values.shape, values.ndim, values.flags


class FakeCublasLt:
    """Does what the documentation of cublasLt says, on host memory. `fail` maps a function to the status it returns.

    algorithms: how many it knows, with the numbers 77, 78 and so on. state: of each, a number or a list.
    """

    def __init__(self, fail=None, algorithms=1, state=0):
        self.fail, self.algorithms = fail or {}, algorithms
        self.states = state if isinstance(state, list) else [state] * max(1, algorithms)
        self.used = []
        self.objects, self.destroyed, self.next = {}, [], 1
        self.workspace_limit = None

    def __getattr__(self, name):
        if not name.startswith("cublasLt"):
            raise AttributeError(name)

        def call(*arguments):
            if name in self.fail:
                return self.fail[name]
            for ending in ("Create", "Destroy"):
                if name.endswith(ending):
                    return getattr(self, f"_{ending.lower()}")(name, *arguments)
            return getattr(self, f"_{name}")(*arguments)

        return call

    def _create(self, name, pointer, *arguments):
        pointer._obj.value = self.next
        self.objects[self.next] = (name, arguments)
        self.next += 1
        return 0

    def _destroy(self, name, pointer):
        assert self.objects.pop(pointer.value)[0] == name.replace("Destroy", "Create")
        self.destroyed.append(name)
        return 0

    def _cublasLtGetVersion(self):
        return 130204

    def _cublasLtMatmulPreferenceSetAttribute(self, preference, attribute, buffer, size):
        assert self.objects[preference.value][0] == "cublasLtMatmulPreferenceCreate"
        assert (attribute, size) == (1, 8)
        self.workspace_limit = buffer._obj.value
        return 0

    def _cublasLtMatmulAlgoGetHeuristic(self, handle, op, a, b, c, d, preference, wanted, results, found):
        assert wanted == len(results._obj)
        for place, (result, state) in enumerate(zip(results._obj, self.states, strict=False)):
            result.workspace_bytes, result.state, result.waves = 4096, state, 1.5
            result.algorithm.data[0] = 77 + place
        found._obj.value = min(wanted, self.algorithms)
        return 0

    def _cublasLtMatmulAlgoConfigGetAttribute(self, algorithm, attribute, value, size, written):
        if attribute == 6:
            return 7   # a version that does not know the stages
        assert size == (2 if attribute == 8 else 4)
        value._obj.value = algorithm._obj.data[0] + attribute
        return 0

    def _cublasLtMatmul(self, handle, op, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,
                        workspace, workspace_bytes, stream):
        compute, scale = self.objects[op.value][1]
        assert (compute, scale) == (68, 0), "fp32 compute and fp32 scale"
        assert alpha._obj.value == 1.0 and beta._obj.value == 0.0
        assert c.value == d.value
        self.used.append(algorithm._obj.data[0])
        assert workspace_bytes.value == self.workspace_limit == 32 * 1024 * 1024
        first, second = self._matrix(a, a_layout), self._matrix(b, b_layout)
        self._matrix(c, c_layout)[...] = (first.astype(np.float32) @ second.astype(np.float32)).astype(BFLOAT16)
        self.stream = stream.value
        return 0

    def _matrix(self, pointer, layout):
        """A column-major view: element (row, column) lies `column * ld + row` elements from the pointer."""
        dtype, rows, columns, ld = self.objects[layout.value][1]
        assert dtype == 14, "bf16"
        memory = np.frombuffer((ctypes.c_uint16 * (ld * columns)).from_address(pointer.value), np.uint16)
        return np.lib.stride_tricks.as_strided(memory.view(BFLOAT16), (rows, columns), (2, 2 * ld))


def matrix(rows, columns, seed=0):
    values = np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)
    return DeviceArray(values.astype(BFLOAT16))


def handle(library):
    return cublas.CublasLt(library, workspace=SimpleNamespace(data=SimpleNamespace(ptr=4096)))


def test_computes_the_row_major_product_of_rectangular_matrices():
    library = FakeCublasLt()
    A, B, C = matrix(6, 16, 1), matrix(16, 10, 2), matrix(6, 10, 3)
    with handle(library) as lt:
        plan = lt.plan(A, B, C)
        plan(stream=1234)
        assert (plan.m, plan.n, plan.k) == (6, 10, 16)
        assert (plan.workspace_bytes, plan.waves) == (4096, 1.5)
        assert plan.algorithm == {"id": 77, "tile": 78, "split_k": 79, "cluster_shape": 85}
        plan.close()
    expected = A.values.astype(np.float32) @ B.values.astype(np.float32)
    np.testing.assert_array_equal(C.values, expected.astype(BFLOAT16))
    assert library.stream == 1234 and library.used == [77]
    assert not library.objects, "everything that was created is destroyed"


def test_every_proposal_has_a_plan_and_other_arrays_can_take_its_place():
    library = FakeCublasLt(algorithms=5, state=[0, 0, 15, 0, 0])
    matrices = [(matrix(6, 16, seed), matrix(16, 10, seed + 1), matrix(6, 10, seed + 2)) for seed in (1, 4)]
    with handle(library) as lt:
        plans = lt.plans(*matrices[0], most=4)
        assert [plan.algorithm["id"] for plan in plans] == [77, 78, 80] and plans[0].proposals == 3
        plans[2].on(*matrices[1])(stream=0)
        plans[1](stream=0)
        assert library.used == [80, 78]
        for A, B, C in matrices:
            expected = A.values.astype(np.float32) @ B.values.astype(np.float32)
            np.testing.assert_array_equal(C.values, expected.astype(BFLOAT16))
        with pytest.raises(ArgumentError, match=r"\(6, 8\) and \(8, 10\): this plan is for 6 x 10 x 16; make another"):
            plans[0].on(matrix(6, 8), matrix(8, 10), matrix(6, 10))
        for plan in plans:
            plan.close()
    assert not library.objects


def test_a_launch_keeps_its_arrays_alive():
    """cuBLAS has their addresses only."""
    with handle(FakeCublasLt()) as lt:
        plan = lt.plan(matrix(6, 16), matrix(16, 10), matrix(6, 10))
        other = [matrix(6, 16), matrix(16, 10), matrix(6, 10)]
        alive, launch = [weakref.ref(array) for array in other], plan.on(*other)
        del other
        assert all(array() is not None for array in alive)
        del launch
        assert not any(array() is not None for array in alive)
        plan.close()


def test_a_plan_that_fails_takes_the_others_with_it():
    library = FakeCublasLt(algorithms=3)
    lt, asked, lists = handle(library), [], library._cublasLtMatmulAlgoGetHeuristic

    def twice(*arguments):
        asked.append(arguments)
        return lists(*arguments) if len(asked) <= 2 else 15

    library._cublasLtMatmulAlgoGetHeuristic = twice
    with pytest.raises(BackendError, match="no algorithm"):
        lt.plans(matrix(2, 2), matrix(2, 2), matrix(2, 2))
    assert len(library.objects) == 1, "only the handle is left"


def test_closing_twice_is_harmless():
    library = FakeCublasLt()
    lt = handle(library)
    plan = lt.plan(matrix(2, 2), matrix(2, 2), matrix(2, 2))
    plan.close()
    plan.close()
    lt.close()
    lt.close()
    assert library.destroyed.count("cublasLtDestroy") == 1


def test_status_codes_are_named():
    with pytest.raises(BackendError, match=r"cublasLtCreate with CUBLAS_STATUS_NOT_INITIALIZED: .*nvidia-smi"):
        handle(FakeCublasLt(fail={"cublasLtCreate": 1}))
    lt = handle(FakeCublasLt(fail={"cublasLtMatmul": 13}))
    with pytest.raises(BackendError, match=r"for 2 x 4 x 8 with CUBLAS_STATUS_EXECUTION_FAILED"):
        lt.plan(matrix(2, 8), matrix(8, 4), matrix(2, 4))(stream=0)
    assert cublas.status_name(99) == "cuBLAS status 99"


@pytest.mark.parametrize(
    "library",
    [
        FakeCublasLt(algorithms=0),
        FakeCublasLt(state=15),
        FakeCublasLt(fail={"cublasLtMatmulAlgoGetHeuristic": 15}),
    ],
)
def test_no_algorithm_is_one_sentence_and_leaks_nothing(library):
    lt = handle(library)
    with pytest.raises(BackendError, match=r"no algorithm for .* 2 x 3 x 5 \(CUBLAS_STATUS_NOT_SUPPORTED\)"):
        lt.plan(matrix(2, 5), matrix(5, 3), matrix(2, 3))
    assert len(library.objects) == 1, "only the handle is left"


@pytest.mark.parametrize(
    ("A", "B", "C", "words"),
    [
        (matrix(2, 5), matrix(4, 3), matrix(2, 3), "B has shape .4, 3. but A has 5 columns"),
        (matrix(2, 5), matrix(5, 3), matrix(3, 2), "C has shape .3, 2."),
        (DeviceArray(np.zeros((2, 5), np.float32)), matrix(5, 3), matrix(2, 3), "A has dtype float32"),
        (DeviceArray(np.zeros(5, BFLOAT16)), matrix(5, 3), matrix(2, 3), "A has shape"),
        (matrix(2, 5), DeviceArray(np.zeros((3, 5), BFLOAT16).T), matrix(2, 3), "B is not row-major"),
        (np.zeros((2, 5), BFLOAT16), matrix(5, 3), matrix(2, 3), "A is a ndarray"),
    ],
)
def test_wrong_operands_are_named(A, B, C, words):
    with pytest.raises(ArgumentError, match=words):
        handle(FakeCublasLt()).plan(A, B, C)


def test_missing_library_names_the_remedy(monkeypatch):
    from cuda import pathfinder

    def missing(name):
        raise RuntimeError("not here")

    def no_library(name):
        raise OSError(name)

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", missing)
    monkeypatch.setattr(ctypes, "CDLL", no_library)
    with pytest.raises(BackendError, match=r"libcublasLt.* was not found: run `make setup`.*pip install nvidia-cublas"):
        cublas.load_library()
    assert cublas.version() is None


def test_version_is_read_as_major_minor_patch():
    assert cublas.version(FakeCublasLt()) == "13.2.4"


def test_heuristic_result_has_the_size_of_the_header():
    assert ctypes.sizeof(cublas.HeuristicResult) == 96   # sizeof(cublasLtMatmulHeuristicResult_t) in cublasLt.h
    assert cublas.HeuristicResult.workspace_bytes.offset == 64


def test_status_names_agree_with_the_library():
    try:
        library = cublas.load_library()
    except BackendError as error:
        pytest.skip(str(error))
    library.cublasLtGetStatusName.restype = ctypes.c_char_p
    for status, name in cublas.STATUS_NAMES.items():
        assert library.cublasLtGetStatusName(status).decode() == name
