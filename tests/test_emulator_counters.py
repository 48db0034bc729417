"""The emulator's counters against costs that are known, and against the models in NumPy."""

import numpy as np
import pytest
from emulator_support import compiled, counters_at, marked_line

from helpers.emulator import Counter
from helpers.kernel import emulate
from helpers.models.banks import warp_wavefronts
from helpers.models.coalescing import warp_traffic

pytestmark = pytest.mark.compiler
TRAFFIC = "emulator_traffic.cu"
TYPES = {1: "unsigned char", 2: "__nv_bfloat16", 4: "float", 8: "float2", 16: "float4"}
LANES = np.arange(32)


def gather_global(index, width):
    """The counters of a load and a store of elements `index` (patterns, 32) of `width` bytes."""
    index = np.atleast_2d(index).astype(np.int32)
    entry = f"gather_global<{TYPES[width]}>"
    module = compiled(TRAFFIC, entry, counters=True)
    memory = np.zeros(int(index.max() + 1) * width, np.uint8)
    run = module.launch(entry, (len(index),), (32,), (np.ascontiguousarray(index), memory, memory.copy()))
    assert run.reports == []
    (load,) = counters_at(run, marked_line(TRAFFIC, "gather_load"), "global", "load")
    (store,) = counters_at(run, marked_line(TRAFFIC, "gather_store"), "global", "store")
    assert load.bytes == store.bytes == width
    return load, store


def gather_shared(index, width):
    """The counters of a store and a load of elements `index` (patterns, 32) of a shared array."""
    index = np.atleast_2d(index).astype(np.int32)
    entry = f"gather_shared<{TYPES[width]}, 1024>"
    module = compiled(TRAFFIC, entry, counters=True)
    out = np.zeros(index.size * width, np.uint8)
    run = module.launch(entry, (len(index),), (32,), (np.ascontiguousarray(index), out))
    (load,) = counters_at(run, marked_line(TRAFFIC, "shared_load"), "shared", "load")
    (store,) = counters_at(run, marked_line(TRAFFIC, "shared_store"), "shared", "store")
    assert load.bytes == store.bytes == width
    return load, store


@pytest.mark.parametrize(
    "index, width, sectors, ideal",
    [
        (LANES, 4, 4, 4),
        (LANES, 2, 2, 2),
        (LANES * 0, 2, 1, 1),          # a broadcast
        (LANES * 16, 2, 32, 2),        # a sector each
        (LANES * 2, 4, 8, 4),
        (LANES + 4, 4, 5, 4),          # shifted by half a sector
        (LANES, 16, 16, 16),
        (LANES * 2, 16, 32, 16),
        (LANES[::-1], 8, 8, 8),        # the order of the lanes is free
        (LANES // 2, 4, 2, 2),
    ],
)
def test_sectors_of_known_patterns(index, width, sectors, ideal):
    for counter in gather_global(index, width):
        assert counter.requests == 1 and counter.lanes == 32
        assert (counter.sectors_per_request, counter.ideal_per_request) == (sectors, ideal)


@pytest.mark.parametrize(
    "index, width, wavefronts, ideal",
    [
        (LANES, 4, 1, 1),
        (LANES * 0, 4, 1, 1),
        (LANES * 2, 4, 2, 1),
        (LANES * 32, 4, 32, 1),
        (LANES * 31, 4, 1, 1),         # an odd stride meets every bank once
        (LANES, 2, 1, 1),              # two bf16 of one word
        (LANES, 8, 2, 2),
        (LANES, 16, 4, 4),
        (LANES * 8, 16, 32, 4),        # eight lanes of a quarter-warp in the same four banks
    ],
)
def test_wavefronts_of_known_patterns(index, width, wavefronts, ideal):
    for counter in gather_shared(index, width):
        assert counter.requests == 1 and counter.lanes == 32
        assert (counter.wavefronts_per_request, counter.ideal_per_request) == (wavefronts, ideal)


def random_patterns(rng, count, high):
    """Patterns of all kinds: scattered, in a row, repeated in pairs, with idle lanes; (count, 32)."""
    patterns = rng.integers(0, high, (count, 32))
    patterns[::4] = rng.integers(0, high - 64, (len(patterns[::4]), 1)) + LANES
    patterns[1::4] = patterns[1::4, LANES ^ (LANES & 1)]
    patterns[2::4] = patterns[2::4, LANES ^ (LANES & 2)] % 40
    patterns[rng.random(patterns.shape) < 0.1] = -1
    patterns[:, 0] = np.maximum(patterns[:, 0], 0)   # no warp is wholly idle
    return patterns


@pytest.mark.parametrize("width", TYPES)
def test_sectors_agree_with_the_model(width):
    patterns = random_patterns(np.random.default_rng(width), 200, 2000)
    models = [warp_traffic(np.where(row < 0, -1, row * width), width) for row in patterns]
    for counter in gather_global(patterns, width):
        assert counter.requests == 200
        assert counter.lanes == (patterns >= 0).sum()
        assert counter.transactions == sum(model.sectors for model in models)
        assert counter.ideal == sum(-(-model.bytes_used // 32) for model in models)


@pytest.mark.parametrize("width", TYPES)
def test_wavefronts_agree_with_the_model(width):
    patterns = random_patterns(np.random.default_rng(width), 200, 1024)
    addresses = [np.where(row < 0, -1, row * width) for row in patterns]
    for counter, op in zip(gather_shared(patterns, width), ("load", "store"), strict=True):
        models = [warp_wavefronts(row, width, op) for row in addresses]
        assert counter.transactions == sum(model.count for model in models)
        assert counter.ideal == sum(model.ideal for model in models)


@pytest.mark.parametrize("padding, wavefronts", [(0, 32), (1, 1)])
def test_padding_removes_the_conflicts_of_a_column(padding, wavefronts):
    entry = f"transpose_tile<{padding}>"
    matrix, out = np.arange(1024, dtype=np.float32).reshape(32, 32), np.zeros((32, 32), np.float32)
    run = compiled(TRAFFIC, entry, counters=True).launch(entry, (1,), (32,), (matrix, out))
    assert (out == matrix.T).all() and run.reports == []
    (load,) = counters_at(run, marked_line(TRAFFIC, "column_load"), "shared", "load")
    (store,) = counters_at(run, marked_line(TRAFFIC, "row_store"), "shared", "store")
    assert (load.requests, load.wavefronts_per_request) == (32, wavefronts)
    assert (store.requests, store.wavefronts_per_request) == (32, 1)


def test_lanes_that_leave_a_loop_early_take_no_part():
    out = np.zeros(32, np.float32)
    run = compiled(TRAFFIC, "ragged", counters=True).launch("ragged", (1,), (32,), (np.ones(1024, np.float32), out))
    assert (out == LANES + 1).all()
    (load,) = counters_at(run, marked_line(TRAFFIC, "ragged_load"), "global", "load")
    assert (load.requests, load.lanes) == (32, 32 * 33 // 2)
    assert load.transactions == sum(4 - k // 8 for k in range(32))


def test_a_pair_of_bf16_is_one_access_and_local_arrays_are_none():
    words = np.arange(128, dtype=np.uint32)
    out = np.zeros_like(words)
    run = compiled(TRAFFIC, "pairs", counters=True).launch("pairs", (1,), (32,), (words, out, 1))
    assert (out.reshape(4, 32) == np.roll(words.reshape(4, 32), -1, axis=0)).all()
    load, store = marked_line(TRAFFIC, "pair_load"), marked_line(TRAFFIC, "pair_store")
    assert run.counters == [
        Counter(load, "global", "load", 4, requests=4, transactions=16, ideal=16, lanes=128),
        Counter(store, "global", "store", 4, requests=4, transactions=16, ideal=16, lanes=128),
    ]


@pytest.mark.parametrize("workers", [1, 2])
def test_long_loops_are_counted_exactly(workers):
    rounds = 40_001   # more than a thread may do at a stretch
    module = compiled(TRAFFIC, "many", counters=True)
    arguments = np.ones(1024, np.float32), np.zeros(32, np.float32), rounds
    run = module.launch("many", (2,), (32,), arguments, workers=workers)
    (load,) = counters_at(run, marked_line(TRAFFIC, "many_load"), "global", "load")
    assert (load.requests, load.lanes) == (2 * rounds, 64 * rounds)
    assert load.transactions == 2 * (4 * 20_001 + 8 * 20_000)


def test_totals_are_the_sums_of_the_counters():
    run = compiled(TRAFFIC, "transpose_tile<0>", counters=True).launch(
        "transpose_tile<0>", (3,), (32,), (np.zeros(1024, np.float32), np.zeros(1024, np.float32))
    )
    assert run.totals == {
        "barriers": 0, "ctas": 3,
        "global_load_requests": 96, "global_load_sectors": 384, "global_load_ideal": 384, "global_load_bytes": 12288,
        "global_store_requests": 96, "global_store_sectors": 384, "global_store_ideal": 384,
        "global_store_bytes": 12288,
        "shared_load_requests": 96, "shared_load_wavefronts": 3072, "shared_load_ideal": 96,
        "shared_load_bytes": 12288,
        "shared_store_requests": 96, "shared_store_wavefronts": 96, "shared_store_ideal": 96,
        "shared_store_bytes": 12288,
    }


def test_barriers_are_counted_without_counters_too():
    entry = "reverse<64, float>"
    arrays = np.zeros(192, np.float32), np.zeros(192, np.float32)
    run = compiled("emulator_features.cu", entry).launch(entry, (3,), (64,), (*arrays, 1.0))
    assert run.counters == [] and run.totals == {"barriers": 3, "ctas": 3}


def test_example_is_a_request_as_the_kernel_made_it():
    index = np.stack([7 * LANES % 32, LANES[::-1]])   # CTA 0 makes the first, CTA 1 the second
    index[0, 5] = -1                                  # an idle lane
    expected = tuple(np.where(index[0] < 0, -1, 4 * index[0]).tolist())
    for gather, arrays in ((gather_global, 2), (gather_shared, 1)):
        examples = gather(index, 4)
        assert [counter.example for counter in examples] == [expected, expected]
        assert len({counter.array for counter in examples}) == arrays   # the store to global memory has its own


@pytest.mark.parametrize("entry, lane_step", [("matmul", 0), ("matmul_uncoalesced", 64 * 2)])
@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_examples_of_rung_1(entry, lane_step, schedule):
    counters = emulate("01_coalescing", (64, 64, 64), entry=entry, schedule=schedule).run.counters
    (a,) = (counter for counter in counters if counter.array == "A")
    assert a.example == tuple((lane_step * LANES).tolist())   # row `lane` of A, or row 0 for all
    assert warp_traffic(np.array(a.example), a.bytes).sectors == a.sectors_per_request
