"""The partitions of L2: how SMs are told apart, and appendix_partitions, whose clusters draw their tiles by them."""

import re
from collections import Counter
from math import prod

import numpy as np
import pytest

from helpers import gpu, partitions
from helpers.arrays import random_matrix, to_host
from helpers.backends import EmulatorBackend
from helpers.cuda import compile_cubin, sass
from helpers.kernel import Kernel, emulate, load
from helpers.launches import TileOrders
from helpers.noting import NotingKernel
from helpers.partitions import described, partitions_from, sm_partitions
from helpers.rungs import H200_SMS, PARTITIONS
from helpers.variants import variant
from helpers.verify import default_sizes, verify

HALF = H200_SMS // 2
MIXED = np.random.default_rng(5).permutation(np.repeat([0, 1], HALF))
SIDES = {   # which SM is where
    "mixed": MIXED,
    "the other way round": 1 - MIXED,
    "in turn": np.arange(H200_SMS) % 2,
    "halves": np.arange(H200_SMS) // HALF,
    "a fifth": np.arange(H200_SMS) % 5 == 1,
    "few": np.arange(8) < 3,
}


def times(sides=MIXED, noise=3.0, apart=100.0, seed=0):
    """Made-up cycles, (SMs, 32 addresses): half of the addresses are at home on each side."""
    draw = np.random.default_rng(seed)
    homes = np.arange(32) // 3 % 2
    cycles = 700.0 + apart * (np.asarray(sides)[:, None] != homes)
    cycles += draw.normal(0, 200, 32) + draw.normal(0, 80, (len(sides), 1))   # addresses and SMs that are far from all
    return np.rint(cycles + draw.normal(0, noise, cycles.shape)).astype(np.int32)


def labelled(sides) -> tuple[int, ...]:
    """So that the first SM is at 0."""
    return tuple(int(side != sides[0]) for side in sides)


# Which SM is where


@pytest.mark.parametrize("noise", [0.0, 3.0, 10.0])
@pytest.mark.parametrize("name", SIDES)
def test_sms_of_two_partitions_are_told_apart(name, noise):
    found = partitions_from(times(SIDES[name], noise))
    assert found == labelled(SIDES[name]) and found[0] == 0 and set(map(type, found)) == {int}


def test_nothing_is_said_where_the_times_say_nothing():
    assert partitions_from(np.full((132, 32), 700)) is None
    assert partitions_from(np.zeros((1, 32))) is None
    assert partitions_from(times(apart=0.0)) is None, "noise alone"
    assert partitions_from(times(np.zeros(132))) is None, "all on one side"
    assert partitions_from(times(noise=0.0, apart=0.0)) is None
    assert partitions_from(times(noise=500.0)) is None


def test_an_sm_that_is_on_neither_side_makes_it_no_answer():
    cycles = times()
    assert partitions_from(cycles) is not None
    cycles[7] = np.where(np.arange(32) // 3 % 4 < 2, 700, 800)   # every second group is far, but of other addresses
    assert partitions_from(cycles) is None


def test_an_sm_that_did_not_answer_makes_it_no_answer():
    for seed in range(300):   # by chance its zeros look like one side's times
        cycles = times(seed=seed)
        cycles[7] = 0
        assert partitions_from(cycles) is None


def test_in_words():
    sides = np.arange(132) % 3 == 1
    said = described(times(sides, noise=0.0, apart=100.0, seed=1))
    assert re.fullmatch(
        r"88 SMs near one partition of L2, 44 near the other; eight atomics take ([\d,]+) cycles near their address, "
        r"([\d,]+) from the other side\npartition of each SM: (010){44}", said
    )
    near, far = (int(value.replace(",", "")) for value in re.findall(r"([\d,]+) (?:cycles|from)", said))
    assert far - near == pytest.approx(100, abs=30), "an SM's own distance is in it too"
    assert described(np.full((132, 32), 700)) == "The times of atomics do not tell two partitions of L2 apart here."


@pytest.fixture
def measured(monkeypatch):
    """Measurements that come one after the other; how many were made is their length."""
    answers, made = [times(), np.full((132, 32), 9), times(1 - MIXED), *[np.full((4, 32), 9)] * 3], []
    monkeypatch.setattr(partitions, "atomic_cycles", lambda: made.append(answers[len(made)]) or made[-1])
    sm_partitions.cache_clear()
    yield made
    sm_partitions.cache_clear()


def test_each_gpu_is_measured_until_it_answers_and_one_that_says_nothing_has_zeros(measured):
    first = sm_partitions(0)
    assert first == sm_partitions(0) == labelled(MIXED) and len(measured) == 1
    assert sm_partitions(1) == sm_partitions(1) == labelled(MIXED) and len(measured) == 3, "the first was disturbed"
    assert sm_partitions(2) == sm_partitions(2) == (0,) * 4 and len(measured) == 6


def test_on_the_command_line(measured, monkeypatch, capsys):
    monkeypatch.setattr(partitions.device, "device_info", lambda: None)
    monkeypatch.setattr(partitions.device, "no_device_reason", lambda: "there is none.")
    assert partitions.main([]) == 1 and not measured
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Partitions of L2 can only be told apart on a GPU: there is none.\n")
    monkeypatch.setattr(partitions.device, "require_device", lambda what: None)
    assert partitions.main([]) == 0
    assert capsys.readouterr().out.startswith("66 SMs near one partition of L2, 66 near the other; eight atomics take ")


def test_the_probe_has_the_sizes_that_it_is_launched_with_and_waits_for_each_atomic():
    text = partitions.SOURCE.read_text(encoding="utf-8")
    assert f"constexpr int WORDS = {partitions.WORDS}, DISTANCE = {partitions.DISTANCE};" in text
    code = sass(compile_cubin(partitions.SOURCE), "atomic_cycles")
    assert "ATOMG" in code and "RED" not in re.findall(r"\b[A-Z]+\b", code)   # a reduction would not come back


# The kernel on the emulator

SIZES = {   # (M, N, K), the SMs that are played, and by the cluster's tiles how many each cluster computes
    "one round": ((250, 520, 136), 132, 1),
    "four rounds, the last one not full": ((1032, 520, 328), 8, 15 / 4),
    "three rounds": ((2050, 264, 72), 12, 3),
    "K of one step": ((1032, 520, 64), 6, 5),
    "K of less than a ring": ((1032, 264, 128), 6, 10 / 3),
    "one cluster, past a checkpoint": ((520, 520, 1032), 2, 9),
}
EACH_SIZE = pytest.mark.parametrize(("size", "sms", "rounds"), SIZES.values(), ids=SIZES)
KINDS = {   # the SMs' partitions
    "in turn": lambda sms: np.arange(sms) // 2 % 2,
    "unknown": np.zeros,
    "all on the other side": np.ones,
    "halves": lambda sms: np.arange(sms) >= sms // 2,
}


@pytest.fixture
def playing(monkeypatch):
    """Lets the SMs that are played be of these partitions: a function of how many they are."""

    def play(partition_of):
        monkeypatch.setattr(TileOrders, "partition_of", lambda orders, ctas: partition_of(ctas).astype(np.int32))

    return play


@EACH_SIZE
def test_the_sizes_are_what_they_are_called(size, sms, rounds):
    assert prod(PARTITIONS.tiles(*size[:2])) / (PARTITIONS.grid(*size[:2], sms)[0] // 2) == rounds


@pytest.mark.compiler
@EACH_SIZE
@pytest.mark.parametrize("defines", [{}, {"PARTITIONS": 0}, {"STAGES": 2}, {"STAGES": 3}], ids=str)
def test_products_are_right_in_every_order(size, sms, rounds, defines):
    for seed, schedule in enumerate(("lazy", "eager", "random", "random")):
        found = emulate(PARTITIONS, size, schedule=schedule, seed=seed, sms=sms, defines=defines, counters=seed == 3)
        assert found.run.reports == [] and found.verification.passed, found.verification.reason


@pytest.mark.compiler
@EACH_SIZE
def test_no_bit_depends_on_the_partitions_or_on_who_draws_first(size, sms, rounds, playing):
    """Whoever computes a tile walks K in the direction of its round."""
    m, n, k = size
    A, B = random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")

    def bits(schedule, seed, defines):
        backend = EmulatorBackend(schedule, seed, counters=False, sms=sms)
        return Kernel(PARTITIONS, backend, "matmul", defines, PARTITIONS.path)(A, B).view(np.uint16)

    expected = bits("lazy", 0, {"PARTITIONS": 0})
    for seed, partition_of in enumerate(KINDS.values()):
        playing(partition_of)
        for schedule in ("lazy", "random"):
            assert (bits(schedule, seed, {}) == expected).all()


NOTED = (
    ("int M, int N, int K) {", "int M, int N, int K, int* notes) {"),
    ("shared.number : first) + clusters;", "shared.number : first) + clusters;\n"
     "        if (thread == 0) notes[blockIdx.x * 3 + warpgroup] = i - clusters | sm_number() << 16;"),
)


@pytest.mark.compiler
@pytest.mark.parametrize("sms", [2, 8, 22, 132])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_drawn_from_both_ends(kind, sms, playing):
    """Those near partition 0 have the first ones, the others the last; all threads of a cluster have the same."""
    playing(KINDS[kind])
    size = (2050, 2056, 72)   # more tiles than clusters
    (ctas,) = PARTITIONS.grid(*size[:2], sms)
    file = variant(PARTITIONS, *NOTED, name="noted_partitions")
    for seed in range(3):
        kernel = NotingKernel(PARTITIONS, EmulatorBackend("random", seed, False, sms), file, 3 * ctas)
        A, B = random_matrix(size[0], size[2], 1, "emulator"), random_matrix(size[2], size[1], 2, "emulator")
        kernel(A, B)
        notes = kernel.notes[:-1].reshape(-1, 6)   # of a cluster, two CTAs of three warpgroups
        numbers, places = notes[:, 0] & 0xffff, notes[:, 0] >> 16   # and the SM of the thread that draws
        assert (notes & 0xffff == numbers[:, None]).all() and sorted(numbers) == list(range(ctas // 2))
        sides = KINDS[kind](ctas)[places]
        assert set(numbers[sides == 0]) == set(range(int((sides == 0).sum())))


@pytest.mark.compiler
@pytest.mark.parametrize("kind", KINDS)
def test_a_launch_leaves_its_zero_as_it_was_and_can_be_made_again(kind, playing, monkeypatch):
    playing(KINDS[kind])
    plans = []
    original = TileOrders.zero
    monkeypatch.setattr(TileOrders, "zero", lambda orders: plans.append(original(orders)) or plans[-1])
    kernel = load("appendix_partitions", "emulator")
    kernel.sms = 22
    A, B = random_matrix(1032, 72, 1, "emulator"), random_matrix(72, 776, 2, "emulator")
    C = random_matrix(1032, 776, 3, "emulator")
    launch = kernel.prepared(A, B, C)
    results = []
    for _ in range(4):
        C.view(np.uint16)[...] = 0x7FE5
        launch()
        results.append(C.view(np.uint16).copy())
        assert plans[0].tolist() == [0] and len(plans) == 1
    assert all((found == results[0]).all() for found in results) and np.isfinite(C.astype(np.float32)).all()


def test_the_default_sizes_come_to_a_third_round_that_is_not_full():
    """On as many SMs as an H200 has. So a mistake in what is drawn, or in what follows it, shows in `verify`."""
    found = [prod(PARTITIONS.tiles(m, n)) / (PARTITIONS.grid(m, n)[0] // 2) for m, n, _ in default_sizes(PARTITIONS)]
    assert 1 in found and 2 < max(found) < 3


# On a GPU


@pytest.mark.hopper
def test_the_partitions_of_a_gpu_are_two_and_stay_the_same():
    first = partitions_from(partitions.atomic_cycles())
    assert first is not None and len(first) == gpu.probe().gpu.sms
    assert min(Counter(first).values()) > len(first) // 4 and set(first) == {0, 1}
    assert all(partitions_from(partitions.atomic_cycles()) == first for _ in range(3))
    assert sm_partitions(-1) == first


@pytest.mark.hopper
@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("defines", [{}, {"PARTITIONS": 0}, {"STAGES": 2}, {"STAGES": 3}], ids=str)
def test_products_are_right_on_the_gpu_for_any_partitions(kind, defines, monkeypatch):
    """And in launches that are made again, one after the other, whose zeros must be zeros again."""
    import cupy

    if kind is not None:
        count = gpu.probe().gpu.sms
        listed = cupy.asarray(KINDS[kind](count).astype(np.int32))
        monkeypatch.setattr(TileOrders, "partition_of", lambda orders, ctas: listed)
    kernel = load(PARTITIONS, "cuda", defines=defines)
    for size in ((250, 520, 136), (1032, 520, 64), (4104, 5128, 328), (2056, 9000, 1032)):
        m, n, k = size
        outcome = verify(kernel, size)
        assert outcome.passed, outcome.reason
        A, B = random_matrix(m, k, 1, "cuda"), random_matrix(k, n, 2, "cuda")
        C = random_matrix(m, n, 3, "cuda")
        launch, results = kernel.prepared(A, B, C), []
        for _ in range(20):
            C.view(np.uint16)[...] = 0x7FE5
            launch()
            results.append(C.view(np.uint16).copy())
        first = to_host(results[0])
        assert all((to_host(found) == first).all() for found in results)


@pytest.mark.hopper
@pytest.mark.parametrize("sms", [2, 6, 23, 1000])
def test_products_are_right_on_the_gpu_for_any_number_of_clusters(sms):
    kernel = load(PARTITIONS, "cuda")
    kernel.sms = sms
    outcome = verify(kernel, (2056, 3080, 328))
    assert outcome.passed, outcome.reason
