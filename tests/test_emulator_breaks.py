"""Rules broken in ways that are easily overlooked, and right kernels beside them that must not be reported."""

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled
from test_emulator_sync import EACH_SCHEDULE

from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
BREAKS = "emulator_breaks.cu"
SHARED_BYTES = 8192 + 512 + 640

# The kernel, the report's kind and words, and whether it is found without counters too.
FAULTS = [
    ("wgmma_in_two_branches", "wgmma_mismatch", "is another wgmma than thread", True),
    ("sums_scaled_after_the_fence", "wgmma_unfenced", "written after the wgmma_fence()", True),
    ("multicast_to_nobody", "multicast_mask", "multicasts to the CTAs of mask 0x0", True),
    ("load_over_writes_without_fence", "proxy_fence", "overwrites what line", False),
    ("stored_twice_with_writes_between", "store_without_fence", "fence_proxy_async()", True),
    ("used_after_a_barrier_of_others", "barrier_unsynchronised", "no barrier such as __syncthreads() between", False),
    ("relaxed_without_fence", "barrier_unsynchronised", "no fence_mbarrier_init() after it", True),
    ("read_early_after_a_new_barrier", "async_race", "no barrier orders the two", False),
    ("setmaxnreg_by_one_lane", "register_budget", "a thread of the same warpgroup exits without that call", True),
    ("setmaxnreg_by_one_warp", "deadlock", "is for a whole warpgroup, of which 32 of 128 threads came", True),
    ("named_barrier_for_too_many", "deadlock", "waits at named barrier 1, to which 64 of 128 threads came", True),
]
RIGHT = [
    "sums_scaled_before_the_fence",
    "load_over_writes_with_fence",
    "stored_twice",
    "relaxed_with_fence",
    "eighty_barriers",
    "relaxed_arrival_frees_operands",
]


def launch(entry, counters, schedule, seed):
    values = (np.arange(128 * 64).reshape(128, 64) % 7 - 3).astype(ml_dtypes.bfloat16)
    grid = 2 if entry in ("multicast_to_nobody", "named_barrier_for_too_many") or "relaxed" in entry else 1
    entries = [fault[0] for fault in FAULTS] + RIGHT
    arguments = tensor_map(values, (64, 64)), np.zeros(256, np.float32)
    module = compiled(BREAKS, *entries, counters=counters)
    return module.launch(entry, (grid,), (128,), arguments, SHARED_BYTES, schedule=schedule, seed=seed)


@pytest.mark.parametrize(("entry", "kind", "words", "always"), FAULTS, ids=[fault[0] for fault in FAULTS])
@EACH_SCHEDULE
def test_the_broken_rule_is_named(schedule, seed, entry, kind, words, always):
    with_counters = "proxy_fence" if kind == "store_without_fence" else kind
    reports = launch(entry, True, schedule, seed).reports
    if entry == "used_after_a_barrier_of_others" and reports[0].kind == "barrier_uninitialised":
        return   # warp 2 came before warp 0
    assert with_counters in {report.kind for report in reports}, reports
    assert any(words in report.message for report in reports)
    if always:
        assert kind in {report.kind for report in launch(entry, False, schedule, seed).reports}


@pytest.mark.parametrize("counters", [False, True])
@pytest.mark.parametrize("entry", RIGHT)
@EACH_SCHEDULE
def test_right_kernels_are_not_reported(schedule, seed, entry, counters):
    assert launch(entry, counters, schedule, seed).reports == []
