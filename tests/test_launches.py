"""What a call launches follows from the rung's fields: arguments in the kernel's order, maps of these very arrays."""

import gc
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from helpers.arguments import check_cluster, check_shared, check_sizes
from helpers.arrays import random_matrix
from helpers.backends import CudaBackend
from helpers.errors import ArgumentError
from helpers.gpu import Gpu
from helpers.kernel import Kernel, emulate, load
from helpers.launches import SM_NUMBERS, ZEROS, Launch, TileOrders, plan_launch
from helpers.rungs import PARTITIONS, RUNGS, Box, Maps, Rung, find_rung, fitted_tiles
from helpers.tensor_map import TensorMap
from helpers.tile_order import grouped, hilbert, packed, tile_order, upper_first
from helpers.verify import verify

bf16 = ml_dtypes.bfloat16
A_BOX, B_BOX, C_BOX = Box(64, 128), Box(64, 64), Box(64, 64, swizzle="none", l2_promotion="none")
TMA = Rung(
    number=7, name="07_tma", title="", idea="", tile=(128, 256, 64), block=(384,), multiples=(1, 8, 8), alignment=16,
    shared_bytes=200_000, maps=Maps(A=A_BOX, B=B_BOX), stages=4,
)
ORDERED = replace(TMA, order="hilbert")
PERSISTENT = replace(ORDERED, persistent=True)
CLUSTERS = replace(PERSISTENT, cluster=2, maps=Maps(A=A_BOX, B=B_BOX, C=C_BOX))
BOTH = replace(CLUSTERS, maps=replace(CLUSTERS.maps, C_pointer=True))


def operands(m=300, n=520, k=72):
    A, B = random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")
    return A, B, np.zeros((m, n), bf16)


def planned(rung, sms=132, matrices=None):
    A, B, C = matrices or operands()
    return plan_launch(rung, A, B, C, sms, TileOrders("emulator")), A, B, C


def assert_maps(value, array, box):
    assert isinstance(value, TensorMap) and value.array is array
    assert (value.box, value.swizzle, value.l2_promotion) == (
        (box.columns, box.rows), box.swizzle, box.l2_promotion
    )


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung.number <= 4], ids=lambda rung: rung.name)
def test_pointers_and_sizes(rung):
    plan, A, B, C = planned(rung)
    assert plan.arguments[0] is A and plan.arguments[1] is B and plan.arguments[2] is C
    assert plan.arguments[3:] == (300, 520, 72)
    assert (plan.grid, plan.block, plan.shared_bytes) == (rung.grid(300, 520), rung.block, rung.shared_bytes)


def test_maps_take_the_place_of_their_pointers():
    plan, A, B, C = planned(TMA)
    assert_maps(plan.arguments[0], A, A_BOX)
    assert_maps(plan.arguments[1], B, B_BOX)
    assert plan.arguments[2] is C and plan.arguments[3:] == (300, 520, 72)
    assert (plan.grid, plan.block, plan.shared_bytes) == ((3, 3), (384,), 200_000)


def test_an_order_goes_before_the_sizes():
    plan, _, _, C = planned(ORDERED)
    assert plan.arguments[2] is C and np.array_equal(plan.arguments[3], packed(hilbert(3, 3)))
    assert plan.arguments[4:] == (300, 520, 72) and plan.grid == (9,)


def test_a_persistent_rung_gets_the_number_of_tiles_too():
    plan, *_ = planned(PERSISTENT, sms=4)
    assert np.array_equal(plan.arguments[3], packed(hilbert(3, 3)))
    assert plan.arguments[4:] == (9, 300, 520, 72) and plan.grid == (4,)


def test_clusters_walk_tiles_of_two():
    plan, _, _, C = planned(CLUSTERS, sms=5)
    assert_maps(plan.arguments[2], C, C_BOX)
    assert np.array_equal(plan.arguments[3], packed(hilbert(2, 3)))
    assert plan.arguments[4:] == (6, 300, 520, 72) and plan.grid == (4,)


def test_clusters_abreast_walk_tiles_of_two_side_by_side():
    abreast = replace(CLUSTERS, abreast=True)
    plan, *_ = planned(abreast, sms=5)
    assert np.array_equal(plan.arguments[3], packed(hilbert(3, 2)))
    assert plan.arguments[4:] == (6, 300, 520, 72) and plan.grid == (4,)
    assert (abreast.cluster_tile, CLUSTERS.cluster_tile, TMA.cluster_tile) == ((128, 512), (256, 256), (128, 256))


def test_fitted_tiles_get_three_maps_and_no_pointer():
    rung, _ = fitted_tiles(192)
    plan, *matrices = planned(rung)
    for value, matrix, box in zip(plan.arguments, matrices, (Box(64, 48), Box(64, 64), Box(64, 48)), strict=False):
        assert_maps(value, matrix, box)
    assert np.array_equal(plan.arguments[3], packed(tile_order("grouped", 2, 3)))
    assert plan.arguments[4:] == (6, 300, 520, 72) and plan.grid == (12,)


def test_partitions_get_the_upper_rows_first_the_sms_and_a_zero():
    plan, *matrices = planned(PARTITIONS, sms=9, matrices=operands(m=1100))
    for value, matrix, box in zip(plan.arguments, matrices, (Box(64, 128), Box(64, 64), Box(64, 64)), strict=False):
        assert_maps(value, matrix, box)
    order, tiles, partition_of, drawn, *sizes = plan.arguments[3:]
    clusters = 4   # of nine SMs, eight of which two and two are a cluster
    assert plan.grid == (2 * clusters,) and tiles == 15 and sizes == [1100, 520, 72]
    assert np.array_equal(order, packed(upper_first(grouped(5, 3), clusters)))
    assert not np.array_equal(order, packed(grouped(5, 3)))
    assert partition_of.dtype == np.int32 and partition_of.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert drawn.dtype == np.int32 and drawn.tolist() == [0]
    assert plan.kept == (drawn,) and plan.shared_bytes == PARTITIONS.shared_bytes
    assert planned(find_rung(10))[0].kept == ()


def test_no_more_sms_are_listed_than_ctas_can_lie_on():
    """Any number of SMs may be set; and one cluster lies on two."""
    assert planned(PARTITIONS, sms=10**12)[0].arguments[5].size == 2 * 6
    assert planned(PARTITIONS, sms=1)[0].arguments[5].size == 2


def test_rounds_of_the_list_are_those_of_the_launch():
    """With as many tiles as clusters or fewer there is one round; one list serves all launches of a kind."""
    orders = TileOrders("emulator")
    few, many, again = (plan_launch(PARTITIONS, *operands(m=1100), sms, orders).arguments[3] for sms in (9, 132, 9))
    assert np.array_equal(many, packed(upper_first(grouped(5, 3), 15))) and again is few
    assert np.array_equal(orders.get("grouped", 5, 3), packed(grouped(5, 3)))   # as the order has them


def test_every_launch_of_partitions_gets_a_zero_of_its_own():
    orders, matrices = TileOrders("emulator"), operands()
    plans = [plan_launch(PARTITIONS, *matrices, 132, orders) for _ in range(ZEROS + 1)]
    addresses = {plan.kept[0].ctypes.data for plan in plans}
    assert len(addresses) == len(plans) == 1025 and all(plan.kept[0].tolist() == [0] for plan in plans)
    assert len({id(plan.arguments[5]) for plan in plans}) == 1, "the SMs are told from one list"
    plans[0].kept[0][0] = 7
    assert sum(int(plan.kept[0][0]) for plan in plans) == 7


class FakeCuda:
    """CuPy, as far as lists are uploaded with it. log: what was done, in order."""

    def __init__(self):
        self.log, self.cuda = [], self
        self.asarray = lambda values: (self.log.append("upload"), np.array(values))[1]

    @contextmanager
    def using_allocator(self, allocator):
        self.log.append(f"allocator {allocator}")
        yield
        self.log.append("pool")

    def get_current_stream(self):
        return SimpleNamespace(synchronize=lambda: self.log.append("wait"))


def test_each_gpu_is_asked_for_its_partitions_once_and_has_its_own_zeros(monkeypatch):
    fake, numbers, asked = FakeCuda(), [0], []
    monkeypatch.setattr("helpers.launches.namespace", lambda backend: fake)
    monkeypatch.setattr("helpers.launches.current_device", lambda backend: numbers[-1])
    monkeypatch.setattr("helpers.partitions.sm_partitions", lambda number: asked.append(number) or (0, 1, 1, number))
    orders = TileOrders("cuda")
    first = orders.partition_of(132)
    padding = [0] * (SM_NUMBERS - 4)   # %smid may be any small number
    assert first.tolist() == [0, 1, 1, 0, *padding] and first.dtype == np.int32
    assert orders.partition_of(8) is first
    # From no pool, which would hand it on to a stream while another one's launch still reads it.
    assert fake.log == ["allocator None", "upload", "pool", "wait"]
    zero = orders.zero()
    numbers.append(3)
    assert orders.partition_of(132).tolist() == [0, 1, 1, 3, *padding] and asked == [0, 3]
    other = orders.zero()
    assert zero.base is not other.base and fake.log.count("upload") == 4
    numbers.append(0)
    assert orders.zero().base is zero.base and fake.log.count("upload") == 4


@pytest.mark.parametrize("backend", ["emulator", "cuda"])
def test_what_a_launch_keeps_lives_as_long_as_it_can_be_launched(backend, monkeypatch):
    """The launch itself holds addresses on a GPU: another one's zero must not lie there meanwhile."""
    kernel = kernel_of(PARTITIONS)
    if backend == "cuda":
        implementation = CudaBackend(Gpu("NVIDIA H200", (9, 0), 13000, 232_448, 132))
        monkeypatch.setattr("helpers.kernel.CudaBackend.prepared", lambda *_: lambda: None)
        kernel = Kernel(PARTITIONS, implementation, "matmul", {}, PARTITIONS.path)
        kernel.cubin = SimpleNamespace(path="unused")
        kernel._compiled = None
    plans = [Launch((2,), (384,), (), 0, (np.zeros(1, np.int32),))]
    if backend == "emulator":
        plans[0] = replace(plans[0], arguments=plans[0].kept)
    alive = weakref.ref(plans[0].kept[0])
    monkeypatch.setattr("helpers.kernel.plan_launch", lambda *_: plans.pop())
    launch = kernel.planned(*operands())
    gc.collect()
    assert alive() is not None
    del launch, kernel
    gc.collect()
    assert alive() is None


def test_c_can_go_as_a_map_and_as_a_pointer():
    plan, _, _, C = planned(BOTH)
    assert_maps(plan.arguments[2], C, C_BOX)
    assert plan.arguments[3] is C and np.array_equal(plan.arguments[4], packed(hilbert(2, 3)))


def test_maps_are_never_of_another_call_and_lists_are_made_once():
    orders = TileOrders("emulator")
    first, second = operands(), operands()
    plans = []
    for matrices in (first, second, first):
        plans.append(plan_launch(PERSISTENT, *matrices, 132, orders))
        maps = plans[-1].arguments[:2]
        assert [found.address for found in maps] == [matrix.ctypes.data for matrix in matrices[:2]]
    assert plans[0].arguments[3] is plans[1].arguments[3] is plans[2].arguments[3]
    other = plan_launch(PERSISTENT, *operands(m=600), 132, orders)
    assert np.array_equal(other.arguments[3], packed(hilbert(5, 3)))
    assert np.array_equal(plan_launch(CLUSTERS, *first, 132, orders).arguments[3], packed(hilbert(2, 3)))


@dataclass
class RecordingBackend:
    """Keeps what it was asked to launch, and makes the product out of the maps it was given."""

    name: str = "emulator"
    shared_limit: int = 227 * 1024
    sms: int = 132
    launches: list = field(default_factory=list)

    def compile(self, kernel):
        return "compiled"

    def launch(self, compiled, entry, grid, block, arguments, shared_bytes):
        self.launches.append((grid, arguments, shared_bytes))
        A, B, C = (value.array if isinstance(value, TensorMap) else value for value in arguments[:3])
        C[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)
        return SimpleNamespace(reports=[], counters=[], totals={})


def kernel_of(rung, **options):
    return Kernel(rung, RecordingBackend(**options), "matmul", {}, find_rung(1).path)


@pytest.mark.parametrize("rung", [TMA, ORDERED, PERSISTENT, CLUSTERS], ids=["maps", "order", "persistent", "clusters"])
def test_calls_of_every_kind_pass_verification(rung):
    kernel = kernel_of(rung)
    assert verify(kernel, (129, 264, 72)).passed
    for _, arguments, _ in kernel._implementation.launches:
        assert [type(value) for value in arguments[-3:]] == [np.int32] * 3


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_stale_map_is_noticed_by_verification(place):
    """A kernel that goes on using the first call's map, as one that caches it by shape would."""
    kernel, kept = kernel_of(CLUSTERS), {}
    launch = kernel._implementation.launch

    def stale(compiled, entry, grid, block, arguments, shared_bytes):
        value = kept.setdefault(place, arguments[place])
        return launch(compiled, entry, grid, block, (*arguments[:place], value, *arguments[place + 1:]), shared_bytes)

    kernel._implementation.launch = stale
    assert not verify(kernel, (129, 264, 72)).passed


def test_sms_are_the_backends_and_can_be_set():
    kernel = kernel_of(PERSISTENT, sms=114)
    A, B, _ = operands(m=2000, n=4096)
    kernel(A, B)
    kernel.sms = 3
    kernel(A, B)
    assert [grid for grid, _, _ in kernel._implementation.launches] == [(114,), (3,)]
    for wrong in (0, 2.5, None, True):
        kernel.sms = wrong
        with pytest.raises(ArgumentError, match="sms is .*: it must be an integer of at least 1"):
            kernel(A, B)
    with pytest.raises(ArgumentError, match="sms is 0"):
        emulate(1, (32, 32, 32), sms=0)


def test_shapes_that_tma_cannot_take_are_refused_before_the_launch():
    kernel = kernel_of(TMA)
    for (m, n, k), words in {
        (8, 12, 64): "B has 12 columns but 07_tma needs N to be a multiple of 8: pad with zeros to 16",
        (8, 64, 12): "A has 12 columns but 07_tma needs K to be a multiple of 8: pad with zeros to 16",
    }.items():
        with pytest.raises(ArgumentError, match=words):
            kernel(*operands(m, n, k)[:2])
    memory = random_matrix(1, 8 * 64 + 8, 0, "emulator").reshape(-1)
    with pytest.raises(ArgumentError, match="A begins 2 bytes past a multiple of 16"):
        kernel(memory[1:513].reshape(8, 64), random_matrix(64, 64, 0, "emulator"))
    assert kernel(*operands(1, 8, 8)[:2]).shape == (1, 8)
    assert len(kernel._implementation.launches) == 1


def test_tiles_that_do_not_fit_a_packed_order_are_refused():
    check_sizes(ORDERED, 65_535 * 128, 32_768 * 256, 64)
    with pytest.raises(ArgumentError, match="takes N up to 8,388,608"):
        check_sizes(ORDERED, 128, 32_768 * 256 + 8, 64)
    with pytest.raises(ArgumentError, match="takes M up to 8,388,480"):
        check_sizes(ORDERED, 65_535 * 128 + 1, 256, 64)
    abreast = replace(CLUSTERS, abreast=True)   # whose entries are two tiles wide
    check_sizes(abreast, 128, 32_768 * 512, 64)
    with pytest.raises(ArgumentError, match="takes N up to 16,777,216"):
        check_sizes(abreast, 128, 32_768 * 512 + 8, 64)


def test_grids_that_are_no_whole_clusters_are_refused():
    check_cluster((4, 3), (2, 1, 1))
    check_cluster((4,), (1, 1, 1))
    with pytest.raises(ArgumentError) as caught:
        check_cluster((5, 3), (2, 1, 1))
    assert str(caught.value) == (
        "grid.x is 5, and the kernel's clusters have 2 CTAs along x: it must be a multiple of 2; launch 6."
    )
    with pytest.raises(ArgumentError, match="grid.y is 1, and the kernel's clusters have 4 CTAs along y"):
        check_cluster((4,), (1, 4, 1))


def test_static_and_dynamic_shared_memory_share_the_limit():
    check_shared(1024, 231_424, 232_448)
    with pytest.raises(ArgumentError, match="shared_bytes is 231,425, with 1,024 bytes of static .* 231,424 at most"):
        check_shared(1024, 231_425, 232_448)


class FakeFunction:
    """A function of CuPy's that keeps what it was launched with."""

    shared_size_bytes = 1024

    def __init__(self):
        self.launches = []

    def __call__(self, grid, block, arguments, shared_mem):
        self.launches.append((grid, shared_mem))


def test_what_a_gpu_would_refuse_is_refused_before_the_launch(monkeypatch):
    function = FakeFunction()
    monkeypatch.setattr("helpers.backends.gpu.load_function", lambda path, entry: function)
    monkeypatch.setattr("helpers.backends.gpu.cluster_dims", lambda found: (2, 1, 1))
    rung = find_rung(1)
    kernel = Kernel(rung, CudaBackend(Gpu("NVIDIA H200", (9, 0), 13000, 232_448, 132)), "matmul", {}, rung.path)
    kernel.cubin = SimpleNamespace(path="unused")
    kernel.launch((4,), (32,), (1,), 231_424)
    for grid, shared_bytes, words in (
        ((5,), 0, "grid.x is 5, and the kernel's clusters have 2 CTAs along x"),
        ((4,), 231_425, "shared_bytes is 231,425, with 1,024 bytes of static shared memory"),
        ((4,), 232_449, "shared_bytes is 232449: it must be an integer from 0 to 232,448"),
    ):
        with pytest.raises(ArgumentError, match=words):
            kernel.launch(grid, (32,), (1,), shared_bytes)
    assert function.launches == [((4,), 231_424)] and kernel.sms == 132


# The rungs themselves, with so few SMs that a CTA computes many tiles, or more than there are tiles

ORDERED_RUNGS = [rung for rung in (*RUNGS, PARTITIONS) if rung.order]
ordered_rungs = pytest.mark.parametrize("rung", ORDERED_RUNGS, ids=lambda rung: rung.name)


@ordered_rungs
@pytest.mark.compiler
@pytest.mark.parametrize("sms", [1, 3, 500])
def test_rungs_are_right_for_any_number_of_sms_on_the_emulator(rung, sms):
    kernel = load(rung, "emulator")
    kernel.sms = sms
    for size in ((300, 600, 200), (900, 264, 328)):
        outcome = verify(kernel, size)
        assert outcome.passed, outcome.reason


@ordered_rungs
@pytest.mark.hopper
@pytest.mark.parametrize("sms", [1, 3, 500])
def test_rungs_are_right_for_any_number_of_sms_on_the_gpu(rung, sms):
    kernel = load(rung, "cuda")
    kernel.sms = sms
    for size in ((300, 600, 200), (2500, 3080, 1000)):
        outcome = verify(kernel, size)
        assert outcome.passed, outcome.reason


# On a GPU

CLUSTER = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(unsigned* out) {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) out[blockIdx.x] = rank;
}
"""


@pytest.mark.hopper
def test_cluster_dims_of_a_kernel_are_known_on_the_gpu(tmp_path):
    import cupy

    path = tmp_path / "pairs.cu"
    path.write_text(CLUSTER)
    kernel, out = load(1, "cuda", file=path, entry="pairs"), cupy.full(6, 9, cupy.uint32)
    kernel.launch((6,), (32,), (out,))
    assert out.tolist() == [0, 1, 0, 1, 0, 1]
    with pytest.raises(ArgumentError, match="grid.x is 5, and the kernel's clusters have 2 CTAs along x"):
        kernel.launch((5,), (32,), (out,))
    assert kernel.sms == cupy.cuda.Device().attributes["MultiProcessorCount"]


@pytest.mark.hopper
def test_orders_are_uploaded_once():
    orders = TileOrders("cuda")
    first = orders.get("hilbert", 5, 3)
    assert np.array_equal(first.get(), packed(hilbert(5, 3))) and orders.get("hilbert", 5, 3) is first


@pytest.mark.hopper
def test_partitions_and_zeros_on_the_gpu():
    orders = TileOrders("cuda")
    found, zeros = orders.partition_of(132), [orders.zero() for _ in range(ZEROS + 1)]
    assert found.dtype == np.int32 and set(found.tolist()) <= {0, 1} and found.size == SM_NUMBERS
    assert len({zero.data.ptr for zero in zeros}) == ZEROS + 1 and {zero.item() for zero in zeros} == {0}


def test_a_prepared_launch_keeps_its_arrays_alive():
    """A tensor map for the GPU is an address: who drops A and B must not leave the launch with freed memory."""
    arrays = operands()
    held = kernel_of(CLUSTERS).planned(*arrays).args[0]
    assert all(mine is yours for mine, yours in zip(held, arrays, strict=True))
