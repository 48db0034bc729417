"""Models of wgmma against independent counts: bounds, descriptors, fragments."""

import pytest

from helpers.models.machine import H200
from helpers.models.predict import predict


def bounds(rung: int, **sizes: int) -> dict[str, float]:
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
