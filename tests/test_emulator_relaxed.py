"""Relaxed accesses to global memory, which several CTAs make at the same time: their values, and the rules of each."""

import numpy as np
import pytest
from emulator_support import compiled, counters_at, marked_line

pytestmark = pytest.mark.compiler
FILE = "emulator_relaxed.cu"
EITHER = pytest.mark.parametrize("counters", [False, True])
ROUNDS, CTAS, THREADS = 50, 8, 64
SUM = ROUNDS * CTAS * THREADS // 4


def ints(count):
    return np.zeros(count, np.int32)


def added(counters, workers, expected=SUM):
    """A run of `add`, the four counts, and what each thread saw."""
    count, seen = ints(4), ints(1 + CTAS * THREADS)
    module = compiled(FILE, "add", counters=counters)
    run = module.launch("add", (CTAS,), (THREADS,), (count, seen, ROUNDS, expected), schedule="random", workers=workers)
    assert seen[0] == 7
    return run, count, seen[1:]


@EITHER
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_nothing_that_ctas_add_at_the_same_time_is_lost(counters, workers):
    for _ in range(5):
        run, count, seen = added(counters, workers)
        assert run.reports == [] and (count == SUM).all()
        assert seen.min() >= ROUNDS and seen.max() <= SUM   # at least one's own
        assert workers > 1 or seen.max() == SUM             # the last CTA comes after all others


@EITHER
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("step", [1, -3])
def test_of_all_that_add_each_is_told_another_number(counters, workers, step):
    module, total = compiled(FILE, "draw", counters=counters), ROUNDS * CTAS * THREADS
    for _ in range(5):
        count, before, own_before = ints(1), ints(total), ints(total)
        arguments = (count, before, own_before, ROUNDS, step)
        run = module.launch("draw", (CTAS,), (THREADS,), arguments, schedule="random", workers=workers)
        assert run.reports == [] and count[0] == step * total
        assert (np.sort(before) == np.sort(step * np.arange(total))).all()
        assert (np.sort(own_before) == own_before.min() + np.arange(total)).all()   # which keeps its value
        assert (np.diff(before.reshape(-1, ROUNDS) * np.sign(step), axis=1) > 0).all()   # a thread's, in turn


def test_a_draw_counts_as_a_store_of_its_line():
    module, total = compiled(FILE, "draw", counters=True), CTAS * THREADS
    run = module.launch("draw", (CTAS,), (THREADS,), (ints(1), ints(total), ints(total), 1, 1))
    (draws,) = counters_at(run, marked_line(FILE, "draw"), "global", "store")
    assert (draws.bytes, draws.lanes, draws.requests, draws.array) == (4, total, total // 32, "count")


def test_they_count_as_loads_and_stores_of_their_line():
    run, _, _ = added(True, 2, expected=1)
    (adds,) = counters_at(run, marked_line(FILE, "add"), "global", "store")
    (looks,) = counters_at(run, marked_line(FILE, "look"), "global", "load")
    warps = CTAS * THREADS // 32
    assert (adds.bytes, adds.requests, adds.lanes, adds.transactions) == (4, *[warps * ROUNDS * n for n in (1, 32, 1)])
    assert (looks.requests, looks.lanes, looks.array) == (warps, 32 * warps, "count")


@EITHER
def test_a_variable_of_the_file_keeps_its_value_from_launch_to_launch(counters):
    module = compiled(FILE, "add_to_own", "add", counters=counters)
    out = ints(4)
    for clear, expected in ((1, None), (0, SUM), (1, 2 * SUM), (0, SUM)):
        module.launch("add_to_own", (CTAS,), (THREADS,), (ROUNDS, ints(4), 0), dependent=True, workers=4)
        run = module.launch("add_to_own", (1,), (THREADS,), (0, out, clear), dependent=True)
        assert run.reports == [] and (expected is None or (out == expected).all())


def broken(fault, counters, place=0, dependent=False, element=4):
    """The one report of a fault, which must be of its line. place: 0: the argument, 1: the file's own variable."""
    module = compiled(FILE, "broken", counters=counters, FAULT=fault, PLACE=place)
    options = {"dependent": dependent, "schedule": "random"}
    (report,) = module.launch("broken", (2,), (THREADS,), (ints(4), element), **options).reports
    assert report.line == marked_line(FILE, str(fault)) and "thread (37,0,0), warp 1, of CTA (" in report.message
    return report


@EITHER
@pytest.mark.parametrize(("place", "name"), [(0, "data"), (1, "own")])
@pytest.mark.parametrize(("element", "where"), [(4, "past the end of"), (-1, "before the start of")])
@pytest.mark.parametrize(("fault", "action"), [(1, "reads"), (2, "writes"), (3, "writes"), (12, "writes")])
def test_outside_of_an_array(fault, action, element, where, place, name, counters):
    report = broken(fault, counters, place, element=element)
    assert report.kind == "out_of_bounds"
    assert f" {action} 4 bytes {where} {name}, at offset {4 * element} of 16 bytes: thread (" in report.message


@EITHER
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(("fault", "action"), [(4, "reads"), (5, "writes"), (6, "writes"), (13, "writes")])
def test_amid_a_number(fault, action, place, counters):
    report = broken(fault, counters, place)
    assert report.kind == "misaligned" and f"{action} 4 bytes at an address that is not a multiple of 4" in str(report)


@EITHER
@pytest.mark.parametrize("fault", [7, 8, 14])
def test_of_memory_that_is_not_global(fault, counters):
    report = broken(fault, counters)
    assert report.kind == "out_of_bounds"
    assert "needs an address in global memory, and gets one of shared memory or of a local variable" in report.message


@EITHER
@pytest.mark.parametrize(("fault", "action"), [(9, "reads"), *((fault, "writes to") for fault in (10, 11, 15))])
def test_a_variable_of_the_file_is_left_alone_until_the_launch_before_has_ended(fault, action, counters):
    report = broken(fault, counters, place=1, dependent=True)
    assert (report.kind, report.count) == ("early_access", 2)   # CTAs
    assert f"{action} global memory (a variable of the file) before its thread has waited" in report.message
    module = compiled(FILE, "broken", counters=counters, FAULT=fault, PLACE=1)
    assert module.launch("broken", (2,), (THREADS,), (ints(4), 4)).reports == []   # no dependent launch


@pytest.mark.parametrize(("fault", "action"), [(9, "reads"), *((fault, "writes to") for fault in (10, 11, 15))])
def test_an_argument_too(fault, action):
    """Here it is no list of the host's, unless it is only read."""
    if fault == 9:
        module = compiled(FILE, "broken", counters=True, FAULT=fault)
        assert module.launch("broken", (2,), (THREADS,), (ints(4), 4), dependent=True).reports == []
        return
    report = broken(fault, True, dependent=True)
    assert report.kind == "early_access" and f"{action} global memory (data) before" in report.message


@EITHER
@pytest.mark.parametrize("workers", [1, 2])
def test_a_wait_for_a_cta_that_cannot_run_meets_the_step_limit(workers, counters):
    """With one worker the other CTA has yet to begin; with two of them it runs beside the one that waits."""
    module = compiled(FILE, "await", counters=counters)
    options = {"workers": workers, "step_limit": 200_000_000 if workers == 2 else 100_000}
    run = module.launch("await", (2,), (32,), (ints(1), 0), **options)
    if workers == 2:
        assert run.reports == []
        return
    (report,) = run.reports
    assert (report.kind, report.line) == ("step_limit", marked_line(FILE, "await"))
    assert report.message.startswith("A thread has made 100,000 memory accesses and barriers and has not ended: ")
    assert "or wait for a CTA of another cluster that does not run meanwhile" in report.message
    assert "let it end after some tries, or give a larger step_limit; thread (0,0,0)" in report.message
    assert "  warp 0: 1 lane running, line" in str(report)
    assert module.launch("await", (2,), (32,), (ints(1), 1), workers=1).reports == []   # the other one comes first


@EITHER
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("second", [(1, 0), (1, 37), (0, 37), (0, 1)], ids=["CTA", "thread of CTA", "warp", "lane"])
def test_who_waits_for_a_thread_of_its_own_cluster_lets_it_go_on(second, schedule, counters):
    """As on a GPU, where all of a cluster's threads are there at once."""
    module, count = compiled(FILE, "take_turns", counters=counters), ints(1)
    run = module.launch("take_turns", (2,), (THREADS,), (count, 9, *second), schedule=schedule, step_limit=20_000)
    assert run.reports == [] and count[0] == 18
