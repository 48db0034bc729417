"""Which kernel a shape gets."""

import random
from math import prod

import numpy as np
import pytest
from ml_dtypes import bfloat16

from helpers.arguments import check_launch, check_sizes
from helpers.choice import AMID_SECTORS, choose, room
from helpers.errors import ArgumentError
from helpers.kernel import load
from helpers.matmul import matmul
from helpers.rungs import MAX_SHARED_BYTES, find_rung
from helpers.shapes import SHAPES
from helpers.verify import verify

# Tile, stages, parts of K, rows of A that are loaded; None: rung 10. From the sweep in docs/worklog.md.
EXPECTED = {
    (1, 4096, 4096): (64, 64, 8, 2, 16),
    (16, 6144, 4096): (64, 64, 8, 1, 16),
    (17, 8192, 8192): (64, 64, 8, 1, 32),
    (16, 10240, 8192): (64, 128, 4, 1, 16),
    (64, 28672, 4096): (64, 256, 3, 1, 64),
    (1, 57344, 8192): (64, 256, 3, 1, 16),
    (64, 8448, 4096): (64, 64, 8, 1, 64),        # as many tiles as SMs
    (64, 8456, 4096): (64, 128, 4, 1, 64),
    (128, 16896, 4096): (128, 128, 6, 1, 128),   # again
    (128, 16904, 4096): (128, 256, 4, 1, 128),
    (1, 512, 1024): (64, 64, 8, 2, 16),          # two parts of eight steps
    (1, 512, 960): (64, 64, 8, 1, 16),           # 15 steps
    (256, 256, 4096): (128, 128, 6, 6, 128),     # K is 16 times as long as C is wide
    (256, 256, 4088): (64, 64, 8, 6, 64),
    (128, 4096, 4096): (128, 64, 8, 2, 128),
    (128, 6144, 4096): (128, 64, 8, 1, 128),     # narrow and wide make as many CTAs
    (128, 8192, 8192): (128, 128, 6, 2, 128),    # again, but K is long
    (128, 10240, 8192): (128, 128, 6, 1, 128),
    (65, 28672, 4096): (128, 256, 4, 1, 128),
    (128, 57344, 8192): (128, 256, 4, 1, 128),
    (512, 512, 512): (64, 64, 8, 1, 64),
    (1024, 1024, 1024): (128, 64, 8, 1, 128),
    (1536, 1536, 1536): (128, 192, 5, 1, 128),
    (129, 264, 4096): (64, 64, 8, 6, 64),
    (512, 512, 65536): (128, 128, 6, 6, 128),
    (10, 16776960, 64): (64, 256, 3, 1, 16),
    (10, 16776968, 64): (128, 256, 4, 1, 16),   # more columns than a grid has narrow tiles for
    (2048, 2048, 2048): None,
    (4096, 4096, 65536): None,
    (8192, 8192, 8192): None,
    (1, 8, 8): (64, 64, 8, 1, 16),
}


@pytest.mark.parametrize(("shape", "expected"), EXPECTED.items(), ids=str)
def test_a_shape_gets_its_kernel(shape, expected):
    found = choose(*shape)
    if expected is None:
        assert found.rung == find_rung(10) and found.name == "10_clusters" and found.defines == {}
        return
    assert found.rung.name == "appendix_split_k"
    rows, columns, _ = found.rung.tile
    assert (rows, columns, found.rung.stages, found.rung.split, found.rung.maps.A.rows) == expected
    assert found.defines["A_ROWS" if expected[4] < rows else "TILE_M"] == expected[4]


@pytest.mark.parametrize("size", [shape.size for shape in SHAPES], ids=str)
def test_the_kernel_of_every_shape_holds_its_rows_and_says_why(size):
    found = choose(*size)
    assert found.rung.persistent or found.rung.maps.A.rows >= min(size[0], found.rung.tile[0])
    assert found.why[0].isupper() and found.why.endswith(".") and "\n" not in found.why and "  " not in found.why


@pytest.mark.parametrize("sms", [1, 2, 78, 114, 132])
def test_split_clusters_have_room_at_once(sms):
    """Fewer SMs than on an H200 (H20: 78, H100 PCIe: 114) get fewer CTAs, never a cluster that waits for another."""
    for size in [shape.size for shape in SHAPES]:
        rung = choose(*size, sms=sms).rung
        if (rung.split or 1) > 1:
            m_tiles, n_tiles = rung.tiles(*size[:2])
            assert m_tiles * n_tiles <= room(rung.split, sms)


@pytest.mark.compiler
@pytest.mark.parametrize("size", [(1, 256, 1536), (13, 264, 1048), (33, 520, 200), (100, 136, 2048), (70, 72, 2048)])
def test_what_is_chosen_is_right_on_the_emulator(size):
    found = choose(*size, sms=6)
    assert found.rung.split is not None
    assert verify(load(found.rung, "emulator", defines=found.defines), size).passed


def test_what_is_chosen_can_be_launched_for_any_shape_that_matmul_takes():
    draw = random.Random(4)
    taken = []
    for _ in range(4000):
        ends = [draw.choice((64, 130, 512, 4096, 65536, 10**7, 2**31)) for _ in range(3)]
        m, n, k = draw.randint(1, ends[0]), 8 * draw.randint(1, -(-ends[1] // 8)), 8 * draw.randint(1, -(-ends[2] // 8))
        sms = draw.randint(1, 200)
        found = choose(m, n, k, sms)
        try:
            check_sizes(find_rung(10), m, n, k)
        except ArgumentError:   # matmul asks this first
            continue
        check_sizes(found.rung, m, n, k)
        check_launch(found.rung.grid(m, n, sms), found.rung.block, found.rung.shared_bytes, MAX_SHARED_BYTES)
        assert load(found.rung, "emulator", defines=found.defines).rung == found.rung
        taken.append(found.name)
    assert len(taken) > 2000 and len(set(taken)) > 20


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((10_000_000, 8, 8), "A has 10,000,000 rows but 10_clusters takes M up to 8,388,480: split the product"),
        ((8, 10_000_000, 8), "B has 10,000,000 columns but 10_clusters takes N up to 8,388,608: split the product"),
    ],
)
def test_matrices_too_long_for_matmul_are_refused_in_a_sentence(size, words):
    m, n, k = size
    with pytest.raises(ArgumentError) as caught:
        matmul(np.zeros((m, k), bfloat16), np.zeros((k, n), bfloat16))
    assert str(caught.value).startswith(words)


@pytest.mark.compiler
def test_random_small_shapes_are_right_on_the_emulator():
    draw = random.Random(5)
    for _ in range(12):
        m, n, k = draw.randint(1, 140), 8 * draw.randint(1, 40), 8 * draw.randint(1, 300)
        found = choose(m, n, k, sms=draw.randint(1, 12))
        outcome = verify(load(found.rung, "emulator", defines=found.defines), (m, n, k))
        assert outcome.passed, f"{found.why} {outcome}"


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, -8, 8), (8, 8, 1.5), ("8", 8, 8), ([8], 8, 8), (8, 8, 8, None)])
def test_wrong_sizes_are_refused(shape):
    with pytest.raises(ArgumentError, match="^(m|n|k|sms) is .*: it must be an integer of at least 1.$"):
        choose(*shape)


@pytest.mark.parametrize(("size", "early"), [
    ((512, 512, 512), True),         # short
    ((1, 4096, 4096), True),         # few rows, 128 CTAs for 132 SMs
    ((1, 57344, 8192), True),        # ... and more CTAs than SMs
    ((16, 6144, 4096), False),       # 96 CTAs: the next launch's would find room for a part of them
    ((128, 8192, 8192), False),
    ((65, 512, 512), True),
    ((128, 2048, 2048), True),       # B has 8 MiB
    ((128, 2048, 2056), False),
    ((1, 3840, 4096), True),         # 120 CTAs are nine tenths of the SMs
    ((1, 3776, 4096), False),        # 118 are not
], ids=str)
def test_the_next_launch_comes_early_where_it_pays(size, early):
    assert choose(*size).defines.get("EARLY", 1) == int(early)


# What is taken where clusters work in rounds, and how many rounds that are. Measured in docs/worklog.md.
IN_ROUNDS = {
    (4096, 4096, 4096): ("10_clusters", 4),
    (3584, 3584, 3584): ("10_clusters, all SMs", 3),      # 196 tiles: four rounds of 64
    (2816, 3072, 4096): ("10_clusters, all SMs", 2),
    (4224, 4352, 4096): ("224 x 256, fitted", 5),         # as many rounds of less
    (5120, 5120, 5120): ("224 x 256, fitted", 7),
    (1536, 4352, 4096): ("224 x 256, fitted", 2),
    (3072, 3072, 3072): ("192 x 256, fitted", 3),
    (3000, 3000, 3000): ("192 x 256, fitted", 3),         # rows of B begin amid sectors
    (4090, 4104, 4040): ("224 x 256, fitted", 5),
    (6000, 6008, 2048): ("10_clusters", 9),
    (8192, 5000, 4096): ("10_clusters", 10),              # of four: eleven
    (4096, 6152, 4096): ("10_clusters, clusters of 4", 7),
    (4096, 6160, 4096): ("10_clusters", 7),               # whole sectors
}


@pytest.mark.parametrize(("size", "expected"), IN_ROUNDS.items(), ids=str)
def test_the_rounds_that_cost_least_are_taken(size, expected):
    found = choose(*size)
    m, n, _ = size
    clusters = found.rung.grid(m, n)[0] // found.rung.cluster
    assert (found.name, -(-prod(found.rung.tiles(m, n)) // clusters)) == expected
    assert load(found.rung, "emulator", defines=found.defines).rung == found.rung


def test_what_rounds_cost_is_their_tiles_times_what_an_element_costs():
    """Reckoned by hand for 4,224 x 4,352: 17 x 17 tiles of 256, 19 x 17 of 224, 22 x 17 of 192, 9 x 17 of 512 rows."""
    costs = {some.choice.name: some.total(4224, 4352, 132) for some in AMID_SECTORS}
    assert costs == pytest.approx({
        "10_clusters": 5 * 128 * 256,
        "10_clusters, all SMs": 5 * 128 * 256 * 1.03,
        "224 x 256, fitted": 5 * 224 * 128 * 1.06,
        "192 x 256, fitted": 6 * 192 * 128 * 1.06,
        "10_clusters, clusters of 4": 6 * 128 * 256 * 0.95,
    })


@pytest.mark.parametrize("sms", [1, 2, 3, 16, 78, 114])
def test_fewer_sms_get_a_kernel_that_they_can_run(sms):
    for size in IN_ROUNDS:
        found = choose(*size, sms=sms)
        assert found.rung.grid(*size[:2], sms)[0] <= max(1, room(found.rung.cluster, sms)) * found.rung.cluster


def test_integers_of_numpy_choose_as_pythons_do():
    for size in ((4, 2**20, 2**20), (2**30, 8, 8), (4096, 6152, 4096)):
        assert choose(*map(np.int32, size)) == choose(*size)


def test_one_tile_is_no_tiles():
    assert choose(8, 8, 8).why.endswith(": 1 tile of 64 x 64 for 132 SMs, and K is not split.")
