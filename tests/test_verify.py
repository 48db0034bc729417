"""The gate: it lets right results through and says in words what is wrong with the others."""

import math
from dataclasses import dataclass, field, replace
from itertools import combinations

import ml_dtypes
import numpy as np
import pytest

from helpers.arrays import BFLOAT16, random_matrix
from helpers.errors import ArgumentError
from helpers.kernel import KernelFault
from helpers.reference import as_float, error_bound
from helpers.rungs import APPENDIX, H200_SMS, RUNGS, Rung, find_rung, fitted_tiles, in_clusters_of_four, split_k
from helpers.verify import GUARD_BAND, check, default_sizes, run_once, verify, verify_all

bf16 = ml_dtypes.bfloat16


@dataclass
class FakeKernel:
    """Stands for a Kernel: right by itself, until `mistake(C, A, B, call)` spoils what it wrote."""

    mistake: object = None
    rung: Rung = find_rung(1)
    entry: str = "matmul"
    backend: str = "emulator"
    run: object = None
    calls: list = field(default_factory=list)

    def __call__(self, A, B, out):
        self.calls.append((A, B))
        out[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)
        if self.mistake:
            self.mistake(out, A, B, len(self.calls))
        return out

    def prepared(self, A, B, out):
        return lambda: self(A, B, out)


def operands(m, n, k):
    return random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")


def product(A, B):
    return (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)


SIZE = (48, 40, 56)


def outcome(mistake, size=SIZE):
    return verify(FakeKernel(mistake), size)


def test_right_result_passes_with_the_error_of_one_rounding():
    result = verify(FakeKernel(), (192, 160, 128))
    assert result.passed and result.reason == ""
    assert result.relative_error == pytest.approx(1.66e-3, rel=0.05)
    assert (result.rung, result.backend, result.m, result.n, result.k) == ("01_coalescing", "emulator", 192, 160, 128)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_right_result_passes_on_all_default_sizes(rung):
    assert all(result.passed for result in verify_all(FakeKernel(rung=rung)))


def test_nothing_is_launched_after_the_first_failure():
    def mistake(C, A, B, call):
        C[0, 0] = np.nan if call == 4 else C[0, 0]   # the first launch of the second size

    kernel = FakeKernel(mistake)
    result = verify(kernel)
    assert not result.passed and len(kernel.calls) == 4
    assert (result.m, result.n, result.k) == default_sizes(kernel.rung)[1]


def test_kernel_runs_three_times_the_last_on_fresh_arrays():
    kernel = FakeKernel()
    verify(kernel, SIZE)
    (A1, B1), (A2, B2), (A3, B3) = kernel.calls
    assert A1 is A2 and B1 is B2
    assert A3.ctypes.data != A1.ctypes.data and B3.ctypes.data != B1.ctypes.data
    assert not np.array_equal(A1, A3) and not np.array_equal(B1, B3)


def test_nan_that_was_computed():
    def mistake(C, A, B, call):
        C[3, 7] = np.nan

    result = outcome(mistake)
    assert not result.passed and "NaN or infinity at (3, 7), 1 element" in result.reason


def test_infinity_is_rejected():
    def mistake(C, A, B, call):
        C[0, 0] = np.inf

    assert "infinity at (0, 0)" in outcome(mistake).reason


UNWRITTEN = {
    "the element was never written": (3, 7),
    "row 5 was never written": (5, slice(None)),
    "rows 5 to 9 were never written": (slice(5, 10), slice(None)),
    "column 39 was never written": (slice(None), 39),
    "all of C was never written": (slice(None), slice(None)),
    "rows 8 to 15, columns 16 to 31 were never written": (slice(8, 16), slice(16, 32)),
}


@pytest.mark.parametrize(("words", "place"), UNWRITTEN.items(), ids=list(UNWRITTEN))
def test_unwritten_elements_are_named(words, place):
    def mistake(C, A, B, call):
        C.view(np.uint16)[place] = untouched[place]

    untouched = np.full(SIZE[:2], 0x7FE5, np.uint16)
    result = outcome(mistake)
    assert not result.passed
    assert words in result.reason
    assert np.isnan(result.relative_error)


def test_kernel_that_writes_nothing():
    class Idle(FakeKernel):
        def __call__(self, A, B, out):
            return out

    assert "all of C was never written" in verify(Idle(), SIZE).reason


def test_transposed_store_is_recognised():
    def mistake(C, A, B, call):
        C[...] = C.T.copy().reshape(C.shape)

    assert "C was stored transposed" in outcome(mistake).reason


def test_transposed_operands_are_recognised():
    def transposed_b(C, A, B, call):
        C[...] = product(A, np.ascontiguousarray(B.reshape(B.shape[::-1]).T))

    def transposed_a(C, A, B, call):
        C[...] = product(np.ascontiguousarray(A.reshape(A.shape[::-1]).T), B)

    assert "B was read transposed" in outcome(transposed_b).reason
    assert "A was read transposed" in outcome(transposed_a).reason


@pytest.mark.parametrize(
    ("count", "words"), [(1, "last value of k was left out"), (8, "last 8 values of k were left out")]
)
def test_dropped_end_of_k_is_recognised(count, words):
    def mistake(C, A, B, call):
        C[...] = product(A[:, :-count], B[:-count])

    assert words in outcome(mistake).reason


def test_dropped_last_k_is_rejected_for_a_long_sum_too():
    def mistake(C, A, B, call):
        C[...] = product(A[:, :-1], B[:-1])

    assert not outcome(mistake, (64, 48, 8192)).passed


def test_zeros_and_factors_are_recognised():
    def zero(C, A, B, call):
        C[8:16] = 0

    def twice(C, A, B, call):
        C[...] = C + C

    assert "in rows 8 to 15; they are all zero" in outcome(zero).reason
    assert "they are 2 times what they should be" in outcome(twice).reason


def test_one_wrong_element():
    def mistake(C, A, B, call):
        C[11, 13] += bf16(1.0)

    result = outcome(mistake)
    assert not result.passed
    assert "C is wrong in 1 element, first at (11, 13)" in result.reason


def test_truncation_instead_of_rounding_is_rejected():
    def mistake(C, A, B, call):
        exact = A.astype(np.float32) @ B.astype(np.float32)
        C.view(np.uint16)[...] = exact.view(np.uint32) >> 16

    assert not outcome(mistake, (64, 48, 96)).passed


def around(C):
    """The memory that C lies in, as 16-bit values, and where in it C begins."""
    memory = C.base
    while memory.base is not None and isinstance(memory.base, np.ndarray):
        memory = memory.base
    return memory.reshape(-1).view(np.uint16), (C.ctypes.data - memory.ctypes.data) // 2


@pytest.mark.parametrize("side", ["before", "after"])
def test_values_outside_c(side):
    def mistake(C, A, B, call):
        memory, place = around(C)
        memory[place - 3 if side == "before" else place + C.size + 2] = 0x1212

    result = outcome(mistake)
    assert not result.passed
    assert f"wrote 1 values outside C, the nearest 3 places {side} it" in result.reason


def test_nan_in_the_guard_band_is_seen():
    assert np.isfinite(np.array(GUARD_BAND, np.uint16).view(bf16))   # else a NaN written there could go unseen


def test_changed_input():
    def mistake(C, A, B, call):
        B[0, 0] = 1

    assert "changed its input B" in outcome(mistake).reason


def test_runs_that_differ():
    def mistake(C, A, B, call):
        if call == 2:
            C.view(np.uint16)[2, 3] ^= 1

    result = outcome(mistake)
    assert not result.passed
    assert "two runs on the same A and B differ in 1 element, first at (2, 3)" in result.reason


def test_a_launch_that_is_done_again():
    """A kernel that leaves something behind in what was made for its launch alone, and needs it as it was."""

    class Leaving(FakeKernel):
        def prepared(self, A, B, out):
            launches = []

            def launch():
                self(A, B, out)
                launches.append(self)
                if len(launches) > 1:
                    out.view(np.uint16)[8:16] = 0x7FE5

            return launch

    result = verify(Leaving(), SIZE)
    assert not result.passed
    assert "two runs on the same A and B differ in 320 elements (16.7 %), first at (8, 0): " in result.reason
    assert result.reason.endswith("look for a race, and for what must be set back.")


@pytest.mark.parametrize("call", [1, 2, 3])
def test_an_input_that_is_changed_by_any_of_the_launches(call):
    def mistake(C, A, B, number):
        if number == call:
            A[2, 3] += 1

    assert "changed its input A" in outcome(mistake).reason


def test_state_that_survives_into_the_next_pair():
    kept = {}

    def mistake(C, A, B, call):
        if call == 1:
            kept["C"] = C.copy()
        C[...] = kept["C"]

    result = outcome(mistake)
    assert not result.passed
    assert result.reason.startswith("on a second pair of matrices of the same shape: C is wrong")


def test_report_of_the_emulator_fails_a_right_result():
    def mistake(C, A, B, call):
        raise KernelFault("kernel.cu:12: race: two threads wrote tile[3].", run=None)

    result = outcome(mistake)
    assert not result.passed
    assert result.reason.startswith("kernel.cu:12: race")
    assert result.relative_error < 4e-3


def test_reading_beyond_a_is_seen():
    class Reader(FakeKernel):
        def __call__(self, A, B, out):
            out[...] = product(A, B)
            beyond = np.lib.stride_tricks.as_strided(A, (A.size + 1,), (2,))[-1]
            out[-1, -1] += beyond
            return out

    assert "NaN" in verify(Reader(), SIZE).reason


def test_check_alone():
    A, B = operands(*SIZE)
    assert check(product(A, B), A, B).passed
    assert "must have shape (48, 40)" in check(product(A, B)[:-1], A, B).reason
    assert "dtype float32" in check(product(A, B).astype(np.float32), A, B).reason


def test_check_of_zeros():
    A, B = np.zeros((4, 5), bf16), np.zeros((5, 6), bf16)
    assert check(np.zeros((4, 6), bf16), A, B) == (True, 0.0, 0.0, "")
    assert not check(np.ones((4, 6), bf16), A, B).passed


def test_bound_covers_rounding_and_grows_with_the_root_of_k():
    bounds = []
    for k in (64, 4096):
        A, B = operands(32, 32, k)
        a, b = as_float(A), as_float(B)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        rounded = exact.astype(np.float32).astype(bf16).astype(np.float64)
        assert (np.abs(rounded - exact) <= error_bound(a, b, exact.astype(np.float32))).all()
        lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=0)
        bounds.append((error_bound(a, b, np.zeros_like(exact, np.float32)) / lengths).mean())
    assert bounds[1] / bounds[0] == pytest.approx(8.0)


def test_as_float_is_exact_for_every_bf16():
    bits = np.arange(2**16, dtype=np.uint16)
    values, expected = as_float(bits.view(bf16)), bits.view(bf16).astype(np.float32)
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    assert same.all()


@pytest.mark.parametrize("few", [8, 16, 40, 120])
def test_default_sizes_of_a_rung_for_few_rows_keep_to_them(few):
    sizes = default_sizes(split_k(128, 64, 2, 3, few)[0])
    rows = {m for m, _, _ in sizes}
    assert {1, few} <= rows and max(rows) == few and len(rows) > 3
    assert any(m % 8 for m in rows) and len(set(sizes)) == len(sizes) > 8


def test_default_sizes_of_a_split_leave_warps_without_rows_and_ctas_without_steps():
    appendix = find_rung("appendix_split_k")
    sizes = default_sizes(appendix)
    assert {m % 64 for m, _, _ in sizes} >= {1, 17, 33, 49, 63}
    steps = {-(-k // 64) for _, _, k in sizes}
    assert min(steps) < appendix.split and any(count % appendix.split for count in steps if count > 8 * appendix.split)


@pytest.mark.parametrize("rung", [*RUNGS, *APPENDIX], ids=lambda rung: rung.name)
def test_default_sizes(rung):
    sizes = default_sizes(rung)
    rows, columns, depth = rung.tile
    steps = {-(-k // depth) for _, _, k in sizes}
    assert {1, 2} <= steps and max(steps) >= 5
    assert all(size % multiple == 0 for shape in sizes for size, multiple in zip(shape, rung.multiples, strict=True))
    assert any(len(set(shape)) == 3 for shape in sizes)
    assert any(m > 8 * rows for m, _, _ in sizes) and any(n > 8 * columns for _, n, _ in sizes)
    assert any(k > 1024 for _, _, k in sizes)
    if rung.multiples == (1, 1, 1):
        assert {(1, 1, 1), (33, 65, 17), (129, 31, 100)} <= set(sizes)
    assert not any(shape == other for shape, other in combinations(sizes, 2))


def test_default_sizes_of_a_pipeline_lie_round_its_stages():
    rung = Rung(7, "07", "", "", tile=(128, 256, 64), block=(384,), multiples=(1, 8, 8), stages=4)
    sizes = default_sizes(rung)
    assert {1, 2, 3, 4, 5, 9} <= {k // 64 for _, _, k in sizes if k % 64 == 0}
    assert any(k % 64 for _, _, k in sizes)
    assert any(m % 128 for m, _, _ in sizes) and any(n % 256 for _, n, _ in sizes)
    assert all(n % 8 == 0 and k % 8 == 0 for _, n, k in sizes)


def test_default_sizes_of_a_persistent_rung_give_its_ctas_several_tiles_each():
    rung = Rung(
        10, "10", "", "", tile=(128, 256, 64), block=(384,), multiples=(1, 8, 8), stages=4, cluster=2, order="hilbert",
        persistent=True,
    )
    loads = []
    for m, n, _ in default_sizes(rung):
        m_tiles, n_tiles = rung.tiles(m, n)
        (ctas,) = rung.grid(m, n, 132)
        loads.append(m_tiles * n_tiles / (ctas // 2))
    assert max(loads) > 2 and not max(loads).is_integer() and min(loads) == 1
    assert any(-(-m // 128) % 2 for m, _, _ in default_sizes(rung))   # a cluster whose second CTA has no rows


@pytest.mark.parametrize("rung", [rung for rung in (*RUNGS, *APPENDIX) if rung.persistent], ids=lambda rung: rung.name)
def test_default_sizes_of_a_persistent_rung_have_a_second_tile_of_many_steps_and_one_of_few(rung):
    """More steps than those that store the tile before, four, and in another place of the ring than the first tile."""
    steps = {-(-k // 64) for m, n, k in default_sizes(rung) if rung.rounds(m, n, H200_SMS) > 1}
    assert min(steps) < 4 < max(steps) and all(max(steps) % stages for stages in (2, 3, 4))


@pytest.mark.parametrize("sms", [114, 132])
def test_default_sizes_of_clusters_that_draw_numbers_end_with_a_short_second_round_and_with_a_short_third_one(sms):
    rung, rounds = find_rung("appendix_partitions"), set()
    for m, n, _ in default_sizes(rung):
        tiles, clusters = math.prod(rung.tiles(m, n)), rung.grid(m, n, sms)[0] // 2
        if tiles % clusters:
            rounds.add(rung.rounds(m, n, sms))
    assert rounds == {2, 3}


@pytest.mark.parametrize("height", [192, 224, 256])
def test_default_sizes_of_a_rung_whose_ctas_lie_abreast(height):
    rung, _ = fitted_tiles(height)
    sizes, rounds = default_sizes(rung), set()
    for m, n, _ in sizes:
        m_tiles, n_tiles = rung.tiles(m, n)
        rounds.add(m_tiles * n_tiles / (rung.grid(m, n, 132)[0] // 2))
    assert max(rounds) > 2 and not max(rounds).is_integer() and 1 in rounds
    assert {-(-n // 128) % 2 for _, n, _ in sizes} == {0, 1}   # of a cluster the second CTA has columns, or none
    assert any(m % height for m, _, _ in sizes) and any(n % 256 > 128 for _, n, _ in sizes)
    assert {1, 2, 3, 4, 5, 9} <= {-(-k // 64) for _, _, k in sizes}


@pytest.mark.parametrize("rung", [*RUNGS, *APPENDIX, in_clusters_of_four()[0]], ids=lambda rung: str(rung.tile))
def test_a_tile_too_far_down_lands_in_the_guard_band(rung):
    """Of a cluster's tile all rows, whether its CTAs lie one below the other or abreast."""
    m, n = 2 * rung.tile[0] * rung.cluster, 2 * rung.tile[1] * rung.cluster
    step = m // rung.tiles(m, n)[0]   # rows of a cluster's tile

    def mistake(C, A, B, call):
        memory, place = around(C)
        memory[place + C.size + step * n - 1] = 0x3F80

    assert "wrote 1 values outside C" in verify(FakeKernel(mistake, rung=rung), (m, n, 64)).reason


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((8, 8), "tuple of three integers"),
        (8, "tuple of three integers"),
        ((8, 0, 8), "N = 0"),
        ((8, 8, -1), "K = -1"),
        ((8.0, 8, 8), "M = 8.0"),
        ((True, 8, 8), "M = True"),
    ],
)
def test_size_is_checked(size, words):
    with pytest.raises(ArgumentError, match=words.replace("(", r"\(")):
        verify(FakeKernel(), size)


def test_size_that_the_rung_does_not_take():
    kernel = FakeKernel(rung=replace(find_rung(3), multiples=(128, 128, 64)))
    with pytest.raises(ArgumentError, match="N to be a multiple of 128: pad with zeros to 256"):
        verify(kernel, (128, 129, 64))
    assert not kernel.calls


def test_without_a_size_the_first_failure_is_returned():
    def mistake(C, A, B, call):
        if C.shape == (33, 65):
            C[0, 0] = 99

    result = verify(FakeKernel(mistake))
    assert not result.passed and (result.m, result.n) == (33, 65)
    assert verify(FakeKernel()).passed


def test_run_once_returns_c():
    result, C = run_once(FakeKernel(), (5, 6, 7), seed=3)
    assert result.passed and C.shape == (5, 6)
    assert check(C, random_matrix(5, 7, 6, "emulator"), random_matrix(7, 6, 7, "emulator")).passed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda A, B, C: (None, B, C), "A is a NoneType, not a NumPy array"),
        (lambda A, B, C: (A, B.tolist(), C), "B is a list, not a NumPy array"),
        (lambda A, B, C: (A, B, None), "C is a NoneType, not a NumPy array"),
        (lambda A, B, C: (A.astype(np.float32), B, C), "A has dtype float32: it must be bfloat16"),
        (lambda A, B, C: (A[0], B, C), "A has shape .*: it must have 2 dimensions"),
        (lambda A, B, C: (A[:0], B, C), "A is empty"),
        (lambda A, B, C: (A, B[:-1], C), "A has 8 columns but B has 7 rows"),
    ],
)
def test_check_refuses_what_is_no_product(change, words):
    A, B, C = change(random_matrix(4, 8, 0, "emulator"), random_matrix(8, 6, 1, "emulator"), np.zeros((4, 6), BFLOAT16))
    with pytest.raises(ArgumentError, match=words):
        check(C, A, B)


@pytest.mark.parametrize("kernel", [1, "01_coalescing", None])
def test_what_is_no_kernel_is_not_verified(kernel):
    for function in (verify, verify_all):
        with pytest.raises(ArgumentError, match=r"kernel is .*: it must be a loaded kernel, such as load\(1\)"):
            function(kernel)
