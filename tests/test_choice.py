"""Which kernel a shape gets."""

import pytest

from helpers.choice import choose, room
from helpers.errors import ArgumentError
from helpers.kernel import load
from helpers.rungs import find_rung
from helpers.shapes import SHAPES
from helpers.verify import verify

# Tile, stages, parts of K, rows of A that are loaded; None: rung 10. From the sweep in docs/worklog.md.
EXPECTED = {
    (1, 4096, 4096): (64, 128, 4, 3, 16),
    (16, 6144, 4096): (64, 128, 4, 2, 16),
    (17, 8192, 8192): (64, 128, 4, 2, 32),
    (64, 28672, 4096): (64, 256, 2, 1, 64),
    (1, 57344, 8192): (64, 128, 8, 1, 16),
    (128, 4096, 4096): (128, 64, 8, 2, 128),
    (65, 28672, 4096): (128, 256, 4, 1, 128),
    (128, 57344, 8192): (128, 256, 4, 1, 128),
    (512, 512, 512): (64, 64, 8, 1, 64),
    (1024, 1024, 1024): (128, 64, 8, 1, 128),
    (1536, 1536, 1536): (128, 192, 5, 1, 128),
    (129, 264, 4096): (64, 64, 8, 6, 64),
    (512, 512, 65536): (128, 128, 6, 6, 128),
    (2048, 2048, 2048): None,
    (4096, 4096, 65536): None,
    (8192, 8192, 8192): None,
    (1, 8, 8): (64, 128, 4, 1, 16),
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
    assert found.rung.maps.A.rows >= min(size[0], found.rung.tile[0])
    assert found.why.endswith(".") and "\n" not in found.why and "  " not in found.why


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


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, -8, 8), (8, 8, 1.5), ("8", 8, 8), ([8], 8, 8), (8, 8, 8, None)])
def test_wrong_sizes_are_refused(shape):
    with pytest.raises(ArgumentError, match="^(m|n|k|sms) is .*: it must be an integer of at least 1.$"):
        choose(*shape)
