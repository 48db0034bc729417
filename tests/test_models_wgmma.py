"""Models of wgmma against independent counts: bounds, descriptors, fragments."""

import random

import numpy as np
import pytest
from conformance import oracle

from helpers.arrays import BFLOAT16
from helpers.errors import ArgumentError
from helpers.models.descriptor import SWIZZLES, Descriptor, decode, operand_bytes
from helpers.models.fragments import Owner, element, owner, owners
from helpers.models.machine import H200
from helpers.models.predict import predict
from helpers.rungs import Rung, fitted_tiles


def bounds(rung: int | Rung, **sizes: int) -> dict[str, float]:
    return {bound.name: bound.tflops for bound in predict(rung, **sizes).bounds}


def test_the_tensor_cores_of_the_datasheet_run_at_a_lower_clock():
    assert H200.tensor_tflops == pytest.approx(1070.5, abs=1)
    assert H200.dense_tflops == pytest.approx(H200.tensor_tflops * 1.83 / 1.98, rel=0.001)


@pytest.mark.parametrize("rung, columns", [(6, 128), (7, 256), (9, 256)])
def test_bounds_of_the_tensor_rungs_by_hand(rung, columns):
    found = bounds(rung)
    assert found["tensor cores"] == H200.tensor_tflops
    # Clocks of one wgmma: multiplying, and reading 64 x 16 and 16 x N bf16 at 128 bytes a clock.
    multiplying, reading = 2 * 64 * 16 * columns / 4096, 2 * 16 * (64 + columns) / 128
    assert found["shared memory to tensor cores"] == pytest.approx(H200.tensor_tflops * multiplying / reading)
    # A step of 64 k fetches (128 + N) x 64 bf16 at 64 bytes a clock, and takes 128 x N x 64 x 2 / 4096 clocks.
    fetching = 2 * 64 * (128 + columns) / 64
    loads_only = H200.tensor_tflops * (2 * 64 * 128 * columns / 4096) / fetching
    assert loads_only * 0.97 < found["L2 to SM"] < loads_only   # the stores of C come on top


def test_the_model_of_operand_reads_counts_what_the_profiler_counted():
    """168 M wavefronts at N = 8192 with tiles of 128 x 256 on an H200 (Nsight Compute)."""
    flop = 2 * 8192**3
    seconds_at_bound = flop / (bounds(7)["shared memory to tensor cores"] * 1e12)
    assert seconds_at_bound * H200.clock_hz * H200.sm_count == pytest.approx(168e6, rel=0.005)


def test_a_cluster_fetches_b_once_for_two_tiles():
    alone, together = bounds(9)["L2 to SM"], bounds(10)["L2 to SM"]
    assert together / alone == pytest.approx((1 / 256 + 1 / 128 + 2 / 4096) / (1 / 256 + 1 / 256 + 2 / 4096), rel=0.02)


@pytest.mark.parametrize("height", [192, 224])
def test_bounds_of_tiles_abreast_by_hand(height):
    """A cluster's two tiles share A; wgmma computes them transposed, so that its N is the tile's height."""
    found = bounds(fitted_tiles(height)[0], m=20 * height)
    multiplying, reading = 2 * 64 * 16 * height / 4096, 2 * 16 * (64 + height) / 128
    assert found["shared memory to tensor cores"] == pytest.approx(H200.tensor_tflops * multiplying / reading)
    fetching = 2 * 64 * (height / 2 + 128) / 64   # of a step of 64 k
    loads_only = H200.tensor_tflops * (2 * 64 * height * 128 / 4096) / fetching
    assert loads_only * 0.97 < found["L2 to SM"] < loads_only


# --- descriptor


EXAMPLES = [
    (Descriptor(0, 16, 1024), 0x4000004000010000),
    (Descriptor(49152, 8192, 1024), 0x4000004002000C00),
    (Descriptor(262128, 262128, 262128, "none"), 0x00003FFF3FFF3FFF),
    (Descriptor(16, 0, 0, "32B"), 0xC000000000000001),
]


@pytest.mark.parametrize("descriptor, bits", EXAMPLES)
def test_descriptors_have_the_bits_of_the_ptx_isa(descriptor, bits):
    assert descriptor.bits == bits and decode(bits) == descriptor
    assert f"{bits:#018x}" in str(descriptor)


def test_any_descriptor_survives_its_bits():
    rng = random.Random(6)
    for _ in range(200):
        address, leading, stride = (16 * rng.randrange(1 << 14) for _ in range(3))
        one = Descriptor(address, leading, stride, rng.choice(SWIZZLES))
        assert decode(one.bits) == one


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Descriptor(8, 16, 1024), "address is 8"),
        (lambda: Descriptor(0, 1 << 18, 1024), "leading_bytes is 262144"),
        (lambda: Descriptor(0, 16, -16), "stride_bytes is -16"),
        (lambda: Descriptor(0, 16, 16, "256B"), "swizzle is '256B'"),
        (lambda: decode(1 << 64), "64 bits"),
        (lambda: decode(1 << 14), "outside of the fields"),
        (lambda: decode(1 << 49), "base offset"),
        (lambda: operand_bytes(Descriptor(0, 16, 16), 64, "M"), "major is 'M'"),
        (lambda: operand_bytes(Descriptor(0, 16, 16, "64B"), 64, "K"), "swizzle is '64B'"),
    ],
)
def test_what_no_descriptor_can_say_is_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("extent", [64, 128, 256])
def test_operands_lie_where_the_conformance_suite_says(extent, major, swizzle):
    rng = np.random.default_rng(extent)
    image = rng.integers(0, 256, 1 << 18, dtype=np.uint8)
    image[1::2] &= 0x3F   # finite values
    leading, stride = {("128B", "K"): (16, 1024), ("128B", "MN"): (8192, 1024)}.get((swizzle, major), (128, 1024))
    start = 32 if (major, swizzle) == ("K", "128B") else 2048
    places = operand_bytes(Descriptor(start, leading, stride, swizzle), extent, major)
    values = (image[places].astype(np.uint16) | image[places + 1].astype(np.uint16) << 8).view(BFLOAT16)
    expected = oracle.operand(image, extent, major, leading, stride, swizzle, start)
    assert (values.astype(np.float32) == expected).all()
    assert len(np.unique(places)) == places.size


# --- fragments


@pytest.mark.parametrize("columns", [64, 128, 256])
def test_fragments_are_those_of_the_conformance_suite(columns):
    numbers = np.arange(64 * columns).reshape(64, columns)
    expected = oracle.fragments(numbers)   # by thread and register
    for thread in range(128):
        for register in range(columns // 2):
            row, column = element(thread, register)
            assert numbers[row, column] == expected[thread, register]
            assert owner(row, column) == Owner(thread, register)
    table = owners(columns)
    assert (np.bincount(table.ravel()) == columns // 2).all() and len(np.unique(table)) == 128


def test_owners_in_words_and_refusals():
    assert str(owner(25, 77)) == "thread 38 (lane 6 of warp 1), sums[39]"
    for call, words in (
        (lambda: owner(64, 0), "row is 64"),
        (lambda: owner(0, -1), "column is -1"),
        (lambda: element(128, 0), "thread is 128"),
        (lambda: element(0, -1), "register is -1"),
    ):
        with pytest.raises(ArgumentError, match=words):
            call()
