"""wgmma in the emulator: operands by descriptor, fragments of accumulators, and every rule that it can break."""

import time

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled, marked_line

from helpers.emulator.compiler import find_compiler
from helpers.kernel import load, random_matrix
from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
BF16 = ml_dtypes.bfloat16
DATA, GEMM = "async_data.cu", "async_gemm.cu"
DUMP = 64 * 1024
WIDTHS = [64, 128, 192, 224, 256]
SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(4))]


def put(memory, offset, swizzle, values, place):
    """Write values[mn, k] to the byte that place(mn, k) says, from `offset`; swizzled by the address's own bits."""
    for mn in range(values.shape[0]):
        for k in range(16):
            address = offset + place(mn, k)
            if swizzle:
                address ^= (address >> 7 & 7) << 4
            memory[address // 2] = values[mn, k].view(np.uint16)


def layouts(extent, major, swizzle, offset):
    """Where an operand lies: the place of (mn, k), then the descriptor's leading and stride byte offsets.

    From the PTX ISA's layouts, and as measured on an H200 for 128B: for K-major, rows of 128 bytes in groups of eight;
    for MN-major, k in rows of 64 values. Without a swizzle, blocks of 8 x 8 with 16-byte rows, here placed apart.
    """
    if major == "K" and swizzle:
        return lambda mn, k: mn // 8 * 1024 + mn % 8 * 128 + 2 * k, 16, 1024
    if major == "K":
        return lambda mn, k: mn // 8 * 288 + mn % 8 * 16 + k // 8 * 128 + k % 8 * 2, 128, 288
    if swizzle:
        return lambda mn, k: mn // 64 * 4096 + k // 8 * 1024 + k % 8 * 128 + mn % 64 * 2, 4096, 1024
    span = extent // 8 * 128 + 64
    return lambda mn, k: mn // 8 * 128 + k // 8 * span + k % 8 * 16 + mn % 8 * 2, span, 128


def fragments(tile):
    """The accumulators of each thread of a 64 x N tile, by the picture in the PTX ISA (m64nNk16, D)."""
    columns = tile.shape[1]
    out = np.zeros((128, columns // 2), np.float32)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for j in range(columns // 8):
            for half in range(2):
                for i in range(2):
                    row, column = 16 * warp + lane // 4 + 8 * half, 8 * j + 2 * (lane % 4) + i
                    out[thread, 4 * j + 2 * half + i] = tile[row, column]
    return out


@pytest.mark.parametrize("swizzle", [0, 1])
@pytest.mark.parametrize("b_major", ["K", "MN"])
@pytest.mark.parametrize("a_major", ["K", "MN"])
@pytest.mark.parametrize("columns", WIDTHS)
def test_every_shape_and_layout(columns, a_major, b_major, swizzle):
    rng = np.random.default_rng(columns)
    A, B = (rng.integers(-4, 5, (extent, 16)).astype(BF16) for extent in (64, columns))
    image = np.full(DUMP // 2, 0x7FC0, np.uint16)   # NaN wherever no operand is
    operands = []
    # In 128-byte rows the operands start amid a row, as the second step along K does.
    for values, major, offset in ((A, a_major, 0), (B, b_major, 16 * 1024)):
        place, leading, stride = layouts(len(values), major, swizzle, offset)
        start = offset + (64 if swizzle and major == "K" else 0)
        put(image, start, swizzle, values, place)
        operands += [start, leading, stride]
    module = compiled(
        DATA, "wgmma", COLUMNS=columns, A_KIND=int(a_major == "MN"), B_KIND=int(b_major == "MN"), SWIZZLE=swizzle
    )
    product = A.astype(np.float32) @ B.astype(np.float32).T
    threads, numbers = np.arange(128)[:, None], np.arange(columns // 2)[None, :]
    for schedule, seed in SCHEDULES[:3]:
        out = np.zeros((2, 128, columns // 2), np.float32)
        run = module.launch("wgmma", (1,), (128,), (image, out, *operands), DUMP, schedule=schedule, seed=seed)
        assert run.reports == []
        assert (out[0] == fragments(product) + threads + 1000 * numbers).all()
        assert (out[1] == fragments(product)).all()
        assert run.totals["wgmma_instructions"] == 2
        assert run.totals["wgmma_flops"] == 2 * 2 * 64 * columns * 16


@pytest.mark.parametrize("made_at", [0, 16 * 1024, 48 * 1024])
@pytest.mark.parametrize("swizzle", [0, 1])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_a_descriptor_that_was_moved_is_as_good_as_one_made_there(major, swizzle, made_at):
    """Forwards and backwards; the offsets beside the address stay, 262128 of which are all bits that there are."""
    image = np.random.default_rng(7).integers(-4, 5, DUMP // 2).astype(BF16).view(np.uint16)
    leading, stride = layouts(64, major, swizzle, 0)[1:]
    if major == "K" and swizzle:
        leading = 262128   # unused
    operands, kind = (4096, leading, stride, 20 * 1024 + 32, leading, stride), int(major == "MN")
    results = []
    for start in (-1, made_at):
        defines = {"COLUMNS": 64, "A_KIND": kind, "B_KIND": kind, "SWIZZLE": swizzle, "FROM": start}
        out = np.zeros((2, 128, 32), np.float32)
        run = compiled(DATA, "wgmma", **defines).launch("wgmma", (1,), (128,), (image, out, *operands), DUMP)
        assert run.reports == []
        results.append(out)
    assert (results[0] == results[1]).all() and np.abs(results[0][1]).sum() > 0


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("columns", WIDTHS)
def test_every_shape_holds_all_of_its_accumulators_and_no_register_behind_them(columns, counters, schedule):
    module = compiled(DATA, "touch_last", counters=counters, COLUMNS=columns, A_KIND=0, B_KIND=0, SWIZZLE=1)

    def touch(how):
        out = np.zeros(128, np.float32)
        return module.launch("touch_last", (1,), (128,), (out, how), DUMP, schedule=schedule).reports, out

    reports, out = touch(0)
    assert reports == [] and (out == np.arange(128) + columns // 2).all()
    written = {("accumulator_written", marked_line(DATA, "wait_last"))}   # the values are no longer those of a wgmma
    if counters:
        written.add(("accumulator_written", marked_line(DATA, "write_last")))
        read = {("accumulator_read", marked_line(DATA, "read_last"))}
        assert {(report.kind, report.line) for report in touch(1)[0]} == read
    assert {(report.kind, report.line) for report in touch(2)[0]} == written


def operand_launch(block=128, swizzle=1, made_at=-1, **changed):
    image = np.zeros(DUMP // 2, np.uint16)
    out = np.zeros((2, 256, 32), np.float32)
    operands = {"a": 0, "a_leading": 16, "a_stride": 1024, "b": 16384, "b_leading": 16, "b_stride": 1024} | changed
    module = compiled(DATA, "wgmma", COLUMNS=64, A_KIND=0, B_KIND=0, SWIZZLE=swizzle, FROM=made_at)
    return module.launch("wgmma", (1,), (block,), (image, out, *operands.values()), DUMP)


@pytest.mark.parametrize(
    "changes, kind, words",
    [
        ({"swizzle": 2}, "wgmma_descriptor", "the 64B swizzle, which the emulator does not play"),
        ({"swizzle": 3}, "wgmma_descriptor", "the 32B swizzle"),
        ({"a": 8}, "wgmma_descriptor", "of a tile at byte 8 of shared memory: it must start at a multiple of 16"),
        ({"b_stride": 1000}, "wgmma_descriptor", "byte offset of 1000"),
        ({"b_leading": 1 << 18}, "wgmma_descriptor", "byte offset of 262144"),
        ({"a": 8, "made_at": 16}, "wgmma_descriptor", "moves a descriptor on by -8 bytes: it must be a multiple of 16"),
        ({"a": 1 << 18, "made_at": 0}, "wgmma_descriptor", "moves a descriptor on to byte 262144 of shared memory: it"),
        ({"a": -(1 << 18), "made_at": 0}, "wgmma_descriptor", "moves a descriptor on to byte -262144 of shared memory"),
        ({"b": 60 * 1024, "made_at": 0}, "wgmma_out_of_bounds", "B from memory, bytes 61440 to 69631"),
        ({"b": 60 * 1024}, "wgmma_out_of_bounds", "B from memory, bytes 61440 to 69631"),
        ({"block": 96}, "wgmma_incomplete", "a warpgroup of 96 threads"),
        ({"block": 160}, "wgmma_incomplete", "a warpgroup of 32 threads"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes, kind, words):
    (report,) = operand_launch(**changes).reports
    assert report.kind == kind and words in report.message
    assert report.message.endswith(".") and "\n" not in report.message


def gemm(m=256, n=256, k=640, bug=0, counters=False, stages=4, cluster=1, swizzle="128B", **options):
    """Run the pipelined matmul; returns whether C is right, and the run."""
    rng = np.random.default_rng(m + n + k)
    A, B = rng.integers(-2, 3, (m, k)).astype(BF16), rng.integers(-2, 3, (k, n)).astype(BF16)
    C = np.full((m, n), np.nan, BF16)
    maps = tensor_map(A, (64, 128), swizzle), tensor_map(B, (64, 64)), tensor_map(C, (64, 64))
    module = compiled(GEMM, "matmul", counters=counters, BUG=bug, STAGES=stages, CLUSTER=cluster)
    rows = -(-m // (128 * cluster)) * cluster
    shared_bytes = stages * (32768 + 16) + 32768
    run = module.launch("matmul", (rows, -(-n // 128)), (384,), (*maps, k), shared_bytes, **options)
    expected = (A.astype(np.float32) @ B.astype(np.float32)).astype(BF16)
    return bool((expected == C).all()), run


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_a_correct_pipeline_is_right_and_unreported(cluster, counters):
    for schedule, seed in SCHEDULES:
        is_right, run = gemm(m=512, cluster=cluster, counters=counters, schedule=schedule, seed=seed)
        assert is_right and run.reports == []


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", [(128, 128, 64), (200, 136, 200), (8, 8, 8), (130, 264, 1000)])
def test_any_depth_of_the_ring_and_ragged_shapes(shape, stages):
    for schedule, seed in SCHEDULES[1:4]:
        is_right, run = gemm(*shape, stages=stages, schedule=schedule, seed=seed)
        assert is_right and run.reports == []


def test_what_a_multicast_saves():
    totals = {cluster: gemm(m=512, n=256, k=256, cluster=cluster)[1].totals for cluster in (1, 2, 4)}
    loads = 4 * 2 * 4   # tiles of C along M and N, steps
    assert totals[1]["tma_load_bytes"] == loads * 32768
    assert totals[2]["tma_load_bytes"] == loads * (16384 + 8192)
    assert totals[4]["tma_load_bytes"] == loads * (16384 + 4096)
    for cluster in (2, 4):
        saved = totals[cluster]["tma_multicast_bytes_saved"]
        assert totals[cluster]["tma_load_bytes"] + saved == totals[1]["tma_load_bytes"]


# Of each planted fault: the kind that is always reported (one of them), and lines that the message names.
FAULTS = {
    1: ({"barrier_arrivals", "deadlock", "load_over_load"}, ()),
    2: ({"wgmma_before_load"}, ("wgmma", "load_B")),
    3: ({"load_over_wgmma", "load_over_load"}, ("load_B",)),
    4: ({"wgmma_before_load", "wgmma_unwritten"}, ("wgmma",)),
    5: ({"load_over_wgmma"}, ("wgmma",)),
    6: ({"wgmma_unfenced"}, ("wgmma",)),
    7: ({"swizzle_mismatch"}, ("wgmma", "load_A")),
    8: ({"wgmma_out_of_bounds"}, ("wgmma",)),
    9: ({"accumulator_unset"}, ("wgmma",)),
    10: ({"wgmma_undrained"}, ("wgmma",)),
    11: ({"accumulator_written"}, ("wait",)),
    12: ({"load_over_wgmma"}, ("wgmma",)),
    13: ({"wgmma_undrained"}, ("wgmma",)),
    14: ({"store_without_fence", "proxy_fence"}, ("store",)),
    15: ({"store_unwritten", "async_race"}, ("store",)),
    16: ({"store_undrained"}, ("store",)),
    17: ({"write_over_store"}, ("store",)),
}


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("bug", FAULTS)
def test_each_planted_fault_is_found_and_named(bug, counters):
    kinds, marks = FAULTS[bug]
    if "accumulator_unset" in kinds and not find_compiler().fills_variables:
        pytest.skip("this compiler does not fill variables that are never given a value: take g++ 12 or newer")
    for schedule, seed in SCHEDULES[1:]:
        _, run = gemm(bug=bug, counters=counters, schedule=schedule, seed=seed)
        found = [report for report in run.reports if report.kind in kinds]
        assert found, (schedule, seed, run.reports)
        for report in found:
            assert report.message.endswith(".") and "\n" not in report.message
            assert "CTA (" in report.message
        lines = [f"ine {marked_line(GEMM, mark)} " for mark in marks]
        assert any(all(line in report.message for line in lines) for report in found), (lines, found)


def test_reading_accumulators_before_the_wait_is_named_at_its_line():
    for counters in (False, True):
        _, run = gemm(bug=13, counters=counters)
        assert "accumulator_read" in {report.kind for report in run.reports}


@pytest.mark.parametrize("counters", [False, True])
def test_results_that_are_nan_may_be_stored_while_the_next_wgmma_runs(counters):
    # The last rung stores a tile by stmatrix while the next one is multiplied, and its NaN are those of A.
    kernel = load(10, "emulator", defines={"STAGES": 2})
    kernel.sms = 2
    A, B = random_matrix(512, 328, 1, "emulator"), random_matrix(328, 256, 2, "emulator")
    A[3, 5] = A[300, 7] = np.nan
    C = kernel(A, B).astype(np.float32)
    assert np.flatnonzero(np.isnan(C).any(axis=1)).tolist() == [3, 300]


def test_a_map_without_swizzle_does_not_fit_the_descriptor():
    is_right, run = gemm(swizzle="none")
    (report,) = run.reports
    assert not is_right and report.kind == "swizzle_mismatch"
    assert "reads A with the 128B swizzle, but" in report.message and "loads it without a swizzle" in report.message


def test_results_do_not_depend_on_the_number_of_workers():
    runs = [gemm(bug=12, schedule="random", seed=5, workers=workers)[1].reports for workers in (1, 2, 3)]
    assert runs[0] == runs[1] == runs[2]


# Which of two warps that differ is named depends on the one that came first.
WARPGROUP_FAULTS = {
    1: ("wgmma_mismatch", ("first",), "gives another descriptor of A than thread ("),
    2: ("wgmma_mismatch", ("first",), "gives another descriptor of B than thread ("),
    4: ("wgmma_mismatch", ("first", "other_shape"), "asks for another shape than thread ("),
    5: ("wgmma_mismatch", ("first",), "gives another `accumulate` than thread ("),
    6: ("wgmma_mismatch", ("early_commit", "commit"), "commits a group of other wgmma"),
    7: ("wgmma_mismatch", ("second",), "gives another array of accumulators"),
    8: ("wgmma_unfenced", ("unfenced",), "no wgmma_fence() before, and accumulators were accessed"),
}


def warpgroup_launch(fault, counters=False, **options):
    module = compiled(DATA, "warpgroup_faults", counters=counters)
    return module.launch("warpgroup_faults", (1,), (128,), (np.zeros(128, np.float32), fault), DUMP, **options)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize("fault", WARPGROUP_FAULTS)
def test_a_warp_that_does_otherwise_is_named(fault, schedule):
    kind, marks, words = WARPGROUP_FAULTS[fault]
    assert warpgroup_launch(0, schedule=schedule).reports == []
    (report,) = warpgroup_launch(fault, schedule=schedule).reports
    assert report.kind == kind and report.line in [marked_line(DATA, mark) for mark in marks]
    assert words in report.message and report.message.count("warp ") in (1, 2)


def test_a_warp_that_never_comes_is_a_deadlock_that_says_so():
    (report,) = warpgroup_launch(3).reports
    assert report.kind == "deadlock"
    assert f"96 of its 128 threads have come to the wgmma of line {marked_line(DATA, 'first')}" in str(report)


def test_with_counters_reading_an_accumulator_too_early_has_its_line():
    (report,) = warpgroup_launch(9, counters=True).reports
    assert (report.kind, report.line) == ("accumulator_read", marked_line(DATA, "read"))
    assert warpgroup_launch(0, counters=True).reports == []


def test_the_target_of_a_quarter_of_a_second_is_not_missed_by_far():
    """1024^3 takes 0.06 s on two processors; a machine that is busy or slow gets ten times the target."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        is_right, _ = gemm(1024, 1024, 1024)
        seconds.append(time.perf_counter() - start)
        assert is_right
    assert min(seconds) < 2.5
