"""Which kernel a shape gets."""

import pytest

from helpers.choice import LARGE, choose
from helpers.errors import ArgumentError
from helpers.rungs import find_rung

SHAPES = [(1, 8, 8), (1, 14336, 4096), (128, 4096, 14336), (4096, 4096, 4096), (LARGE - 1, 65536, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_shape_gets_a_kernel_with_its_reason(shape):
    found = choose(*shape)
    assert found.rung == find_rung(10) and found.name == "10_clusters" and found.defines == {}
    assert found.why.endswith(".") and "\n" not in found.why


def test_large_products_follow_a_hilbert_curve():
    assert choose(LARGE, LARGE, 64).rung.order == "hilbert"
    assert choose(LARGE, LARGE - 8, 64).rung.order == choose(LARGE - 8, LARGE, 64).rung.order == "grouped"


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, -8, 8), (8, 8, 1.5), ("8", 8, 8), ([8], 8, 8), (8, 8, 8, None)])
def test_wrong_sizes_are_refused(shape):
    with pytest.raises(ArgumentError, match="^(m|n|k|sms) is .*: it must be an integer of at least 1.$"):
        choose(*shape)
