"""What threads and TMA do to shared memory must be ordered by barriers, and shown by proxy fences. With counters."""

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled, marked_line
from test_emulator_sync import EACH_SCHEDULE
from test_emulator_wgmma import gemm

from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
ORDER = "emulator_ordering.cu"
ROUNDS = 4


def copied(fault, schedule, seed, counters=True):
    """The run of the copying kernel and whether the copy is right."""
    values = np.arange(ROUNDS * 8 * 64).reshape(-1, 64).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(values)
    maps = tensor_map(values, (64, 8), swizzle="none"), tensor_map(out, (64, 8), swizzle="none")
    module = compiled(ORDER, "copy", counters=counters, FAULT=fault)
    run = module.launch("copy", (1,), (64,), (*maps, ROUNDS), shared_bytes=4096, schedule=schedule, seed=seed)
    return run, (out == values).all()


@pytest.mark.parametrize("fault", [0, 5])
@pytest.mark.parametrize("counters", [False, True])
@EACH_SCHEDULE
def test_an_ordered_copy_is_right_and_clean(schedule, seed, counters, fault):
    run, is_right = copied(fault, schedule, seed, counters)
    assert run.reports == [] and is_right
    assert run.totals["tma_load_bytes"] == run.totals["tma_store_bytes"] == ROUNDS * 1024


@pytest.mark.parametrize(
    ("fault", "kind", "thread", "tma"),
    [
        (1, "async_race", "read", "load"),
        (2, "async_race", "read", "load"),
        (3, "proxy_fence", "write", "store"),
        (4, "proxy_fence", "write", "store"),
        (6, "async_race", "write", "store"),
        (7, "async_race", "write", "store"),
    ],
)
@EACH_SCHEDULE
def test_a_missing_link_is_named(schedule, seed, fault, kind, thread, tma):
    run, _ = copied(fault, schedule, seed)
    by_thread, by_tma = f"line {marked_line(ORDER, thread)}", f"line {marked_line(ORDER, tma)}"
    # A race is met by whichever of the two comes second.
    first, second = ("reads", "read") if thread == "read" else ("overwrites", "wrote")
    tma_first, tma_second = ("overwrites", "wrote") if tma == "load" else ("reads", "read")
    either = {
        "async_race": (
            f"a thread of {by_thread} {first} what the TMA {tma} of {by_tma} {tma_second}, and no barrier orders",
            f"the TMA {tma} of {by_tma} {tma_first} what a thread of {by_thread} {second}, and no barrier orders",
        ),
        "proxy_fence": (f"the TMA store of {by_tma} reads what {by_thread} wrote, with no fence_proxy_async()",),
    }[kind]
    messages = [report.message[0].lower() + report.message[1:] for report in run.reports if report.kind == kind]
    # Without any barrier one thread may run ahead so far that the others find no phase to wait for.
    stuck = fault == 2 and any(report.kind == "deadlock" for report in run.reports)
    assert stuck or any(message.startswith(either) for message in messages), run.reports
    assert all(message.endswith(".") and "\n" not in message for message in messages)


@EACH_SCHEDULE
def test_one_warp_does_not_speak_for_its_warpgroup(schedule, seed):
    _, run = gemm(bug=18, counters=True, schedule=schedule, seed=seed)
    races = [report for report in run.reports if report.kind == "async_race"]
    assert races, run.reports
    assert "wgmma_wait_group speaks only for the warp that waits" in races[0].message
