"""The ladder from the records: lines that a GPU has no figure for are left out, not an error."""

from dataclasses import replace

import pytest

from helpers.ladder import plot_ladder, recordings


@pytest.fixture(scope="module")
def recorded():
    found = recordings(1)
    assert found, "no recording of rung 1"
    return found[-1]


def test_the_dense_peak_is_that_of_the_gpu_measured(recorded) -> None:
    peak = recorded.device.sm_count * 4096 * recorded.device.max_clock_mhz * 1e6 / 1e12
    assert f"dense peak {peak:.0f}" in plot_ladder(up_to=1).alt.replace(",", "")


def test_a_gpu_of_unknown_rate_has_no_peak_line(recorded) -> None:
    device = replace(recorded.device, name="NVIDIA Unheard Of", compute_capability="7.0")
    live = replace(recorded, device=device, source="live")
    alt = plot_ladder(up_to=1, live=[live]).alt
    assert "dense peak" not in alt and "(live" in alt
