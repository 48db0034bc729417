"""The emulator runs CUDA C++ right: each feature against a value worked out another way."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from emulator_support import KERNELS, compiled

from helpers.emulator import compile_kernel
from helpers.errors import ArgumentError
from helpers.rungs import RUNGS

pytestmark = pytest.mark.compiler
BF16 = ml_dtypes.bfloat16
FEATURES = "emulator_features.cu"


def launch(entry, grid, block, arguments, counters=False, **options):
    run = compiled(FEATURES, entry, counters=counters).launch(entry, grid, block, arguments, **options)
    assert run.reports == []
    return run


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung.number <= 4], ids=lambda rung: rung.name)
def test_rungs_multiply(rung, counters):
    rng = np.random.default_rng(rung.number)
    m, n, k = (max(unit, small) for unit, small in zip(rung.multiples, (33, 65, 40), strict=True))
    m, k = m + rung.multiples[0], k + rung.multiples[2]
    A, B = (rng.standard_normal(shape).astype(BF16) for shape in ((m, k), (k, n)))
    reference = A.astype(np.float64) @ B.astype(np.float64)
    for entry in (rung.entry, *rung.twins):
        module = compile_kernel(rung.path, (entry,), counters=counters)
        for schedule in ("eager", "lazy", "random"):
            C = np.full((m, n), np.nan, BF16)
            run = module.launch(entry, rung.grid(m, n), rung.block, (A, B, C, m, n, k), rung.shared_bytes, schedule)
            assert run.reports == []
            error = np.abs(C.astype(np.float64) - reference)
            assert error.max() <= 2**-8 * np.abs(reference).max()


def test_indices_in_three_dimensions():
    out = np.zeros((2 * 5, 3 * 2, 2 * 3), np.int32)
    launch("indices", (2, 3, 2), (3, 2, 5), (out,))
    z, y, x = np.indices(out.shape)
    assert (out == x + 1000 * y + 1000000 * z).all()


@pytest.mark.parametrize("dtype, name", [(np.float32, "float"), (BF16, "__nv_bfloat16")])
@pytest.mark.parametrize("counters", [False, True])
def test_template_with_static_shared_memory(dtype, name, counters):
    values = np.arange(192).astype(dtype)
    out = np.zeros_like(values)
    launch(f"reverse<64, {name}>", (3,), (64,), (values, out, 0.5), counters)
    assert (out == (values.reshape(3, 64)[:, ::-1].ravel() * dtype(0.5))).all()


def test_defines_reach_the_kernel():
    values, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    compiled(FEATURES, "reverse<64, float>", SCALE=4).launch("reverse<64, float>", (1,), (64,), (values, out, 1.0))
    assert (out == 4 * values[::-1]).all()


def test_dynamic_shared_memory_of_two_names_is_one():
    out = np.zeros(33, np.int32)
    launch("dynamic_shared", (1,), (32,), (out,), shared_bytes=128)
    assert list(out[:32]) == [*range(1, 32), 0] and out[32] == 64


def test_all_of_227_kb_can_be_used_and_no_more():
    out = np.zeros(33, np.int32)
    launch("dynamic_shared", (1,), (32,), (out,), shared_bytes=227 * 1024)
    with pytest.raises(ArgumentError, match=r"shared_bytes is 232449.*227 KB"):
        launch("dynamic_shared", (1,), (32,), (out,), shared_bytes=227 * 1024 + 1)
    with pytest.raises(ArgumentError, match=r"with 256 bytes of static shared memory"):
        launch("reverse<64, float>", (1,), (64,), (out, out, 1.0), shared_bytes=227 * 1024 - 255)


def test_uninitialised_shared_memory_is_nan():
    out32, out16 = np.zeros(32, np.float32), np.zeros(32, BF16)
    launch("uninitialised", (3,), (32,), (out32, out16))
    assert np.isnan(out32).all() and np.isnan(out16.astype(np.float32)).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_shuffles_and_votes(schedule):
    out = np.zeros((8, 32), np.int32)
    launch("exchanges", (1,), (32,), (out,), schedule=schedule)
    lane = np.arange(32)
    value = 100 + lane
    assert (out[0] == value[7]).all()
    assert (out[1] == value[lane // 8 * 8 + 1]).all()
    assert (out[2] == value[np.where(lane < 3, lane, lane - 3)]).all()
    assert (out[3] == value[np.where(lane % 16 + 5 > 15, lane, (lane + 5) % 32)]).all()
    assert (out[4] == value[lane ^ 16]).all()
    assert (out[5].view(np.uint32) == sum(1 << int(i) for i in lane[lane % 3 == 0])).all()
    assert (out[6] == 1).all()
    assert (out[7] == np.where(lane < 16, value[lane ^ 1], value[31])).all()


def test_shuffles_carry_eight_bytes_in_each_warp():
    values, out = np.random.default_rng(0).integers(0, 1000, (2, 32)).astype(np.float64), np.zeros(2)
    launch("warp_sum", (1,), (32, 2), (values, out))
    assert (out == values.sum(axis=1)).all()


def test_vector_types():
    in4 = np.arange(32, dtype=np.float32).reshape(8, 4)
    in2 = np.array([[i, 9 - 2 * i] for i in range(8)], np.int32)
    out4, out2 = np.zeros_like(in4), np.zeros((8, 2), np.uint32)
    launch("vectors", (1,), (8,), (in4, in2, out4, out2))
    assert (out4 == np.stack([in4[:, 3], in4[:, 2], in4[:, 1], 2 * in4[:, 0] + 1], axis=1)).all()
    assert (out2[:, 0] == in2.max(axis=1).astype(np.uint32)).all()
    assert (out2[:, 1] == np.minimum(in2[:, 0], 3)).all()


def test_bf16_rounds_as_ml_dtypes():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 1000, dtype=np.uint32)
    special = np.array([0, 0x80000000, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 1, 0x00008000], np.uint32)
    values = np.concatenate([special, bits[np.isfinite(bits.view(np.float32))]])[:512].view(np.float32)
    rounded, pairs, back = np.zeros(512, BF16), np.zeros(512, np.uint32), np.zeros((512, 2), np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(BF16)
    launch("conversions", (1,), (512,), (values, rounded, pairs, back))
    assert (rounded.view(np.uint16) == expected.view(np.uint16)).all()
    low, high = expected.view(np.uint16).astype(np.uint32), (-expected).view(np.uint16).astype(np.uint32)
    assert (pairs == (low | high << 16)).all()
    assert (back.view(np.uint32) == np.stack([expected] * 2, 1).astype(np.float32).view(np.uint32)).all()


def test_nan_becomes_the_nan_that_cuda_makes():
    values = np.full(32, np.nan, np.float32)
    rounded, pairs, back = np.zeros(32, BF16), np.zeros(32, np.uint32), np.zeros(64, np.float32)
    launch("conversions", (1,), (32,), (values, rounded, pairs, back))
    assert (rounded.view(np.uint16) == 0x7FFF).all()


@pytest.mark.parametrize("counters", [False, True])
def test_constants_of_the_file_are_no_argument_and_no_fault(counters):
    out = np.zeros(32, np.float32)
    launch("constants", (1,), (32,), (np.arange(32, dtype=np.int32) % 4, out), counters)
    assert (out == np.tile([1, 10, 100, 1000], 8)).all()


def warp_orders(schedule, seed=0):
    ticket, out = np.zeros(1, np.int32), np.zeros((4, 8), np.int32)
    launch("warp_order", (1,), (256,), (ticket, out), schedule=schedule, seed=seed)
    return [tuple(int(warp) for warp in np.argsort(row)) for row in out]


def test_schedules_order_the_warps_differently():
    first, *_ = eager = warp_orders("eager")
    assert first == tuple(range(8))
    first, *_ = lazy = warp_orders("lazy")
    assert first == tuple(range(7, -1, -1))
    randoms = [tuple(warp_orders("random", seed)) for seed in range(6)]
    assert len(set(randoms)) == 6 and tuple(eager) not in randoms and tuple(lazy) not in randoms
    assert len(set(randoms[0])) > 1   # another order between each two barriers
    assert randoms == [tuple(warp_orders("random", seed)) for seed in range(6)]


def test_results_do_not_depend_on_the_workers():
    rng = np.random.default_rng(3)
    A, B = (rng.standard_normal((96, 96)).astype(BF16) for _ in range(2))
    module = compile_kernel(RUNGS[1].path, ("matmul",), counters=True)
    results = []
    for workers in (1, 2, 3):
        C = np.full((96, 96), np.nan, BF16)
        run = module.launch(
            "matmul", (3, 3), (1024,), (A, B, C, 96, 96, 96), schedule="random", seed=5, workers=workers
        )
        results.append((C.tobytes(), run))
    assert results[0] == results[1] == results[2]


def test_more_workers_than_the_process_can_have_stacks_for():
    out = np.zeros((64, 1024), np.int32)
    launch("indices", (1, 64), (1024,), (out,), workers=64)
    assert (out == np.arange(1024) + 1000 * np.arange(64)[:, None]).all()


def test_where_address_space_is_limited():
    script = (
        "import resource, numpy as np\n"
        "from helpers.emulator import compile_kernel\n"
        f"module = compile_kernel({str(KERNELS / FEATURES)!r}, ('indices',))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "out = np.zeros(8, np.int32)\n"
        "run = module.launch('indices', (2,), (4,), (out,))\n"
        "assert run.reports == [] and list(out) == list(range(8))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_an_array_may_be_given_twice_and_views_may_overlap():
    base = np.arange(128, dtype=np.float32)
    launch("reverse<64, float>", (1,), (64,), (base[:64], base[:64], 1.0))
    assert (base[:64] == np.arange(64)[::-1]).all()
    base = np.arange(128, dtype=np.float32)
    launch("reverse<64, float>", (1,), (64,), (base[:64], base[32:96], 1.0))
    assert (base[32:96] == np.arange(64)[::-1]).all() and (base[96:] == np.arange(96, 128)).all()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"entry": "other"}, "entry 'other' was not compiled: give one of indices"),
        ({"arguments": ()}, "indices has 1 parameters but is launched with 0 arguments"),
        ({"arguments": (3,)}, "out of indices is a int: a pointer needs a NumPy array"),
        ({"arguments": (np.zeros((4, 4), np.int32).T[:, 1:],)}, "out of indices is not contiguous"),
        ({"arguments": (np.zeros(0, np.int32),)}, "out of indices is empty"),
        ({"block": (1025,)}, r"block is \(1025,\): give one to three integers"),
        ({"block": (64, 32)}, "block has 2048 threads: a CTA can have 1024"),
        ({"grid": (0,)}, r"grid is \(0,\)"),
        ({"grid": (1, 70000)}, "65535"),
        ({"schedule": "fast"}, "schedule 'fast' is not known"),
        ({"cluster": (2, 1, 1)}, r"grid is \(1, 1, 1\), which clusters of \(2, 1, 1\) do not divide"),
        ({"cluster": (4, 4), "grid": (4, 4)}, r"cluster is \(4, 4, 1\): a cluster can have 8 CTAs"),
        ({"cluster": (9,), "grid": (9,)}, r"cluster is \(9,\): give one to three integers from 1 to 8"),
        ({"shared_bytes": -1}, "shared_bytes is -1"),
    ],
)
def test_a_bad_launch_is_refused_in_a_sentence(change, words):
    launch = {"entry": "indices", "grid": (1,), "block": (1,), "arguments": (np.zeros(1, np.int32),), **change}
    with pytest.raises(ArgumentError, match=words) as caught:
        compiled(FEATURES, "indices").launch(**launch)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize("value, words", [(2**31, "holds -2147483648 to 2147483647"), (1.5, "is a float: give an int")])
def test_a_scalar_that_does_not_fit_is_refused(value, words):
    module = compiled("emulator_traffic.cu", "many")
    arrays = np.zeros(512, np.float32), np.zeros(32, np.float32)
    with pytest.raises(ArgumentError, match=words):
        module.launch("many", (1,), (32,), (*arrays, value))
