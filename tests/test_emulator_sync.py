"""mbarriers, named barriers and register budgets: right kernels run clean under every schedule, faults are named."""

import numpy as np
import pytest
from emulator_support import compiled, marked_line

from helpers.emulator import compile_kernel, words_sync

pytestmark = pytest.mark.compiler
SYNC = "emulator_sync.cu"
EITHER = pytest.mark.parametrize("counters", [False, True])
SCHEDULES = [("eager", 0), ("lazy", 0), *(("random", seed) for seed in range(6))]
EACH_SCHEDULE = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)


def launch(entry, threads, arguments, counters=False, fault=0, grid=1, **options):
    module = compiled(SYNC, entry, counters=counters, FAULT=fault)
    return module.launch(entry, (grid,), (threads,), arguments, **options)


def ints(count):
    return np.zeros(count, np.int32)


def only_report(run, kind, mark):
    """The run's one report, which must be of this kind and line, and one sentence."""
    assert [report.kind for report in run.reports] == [kind], run.reports
    (report,) = run.reports
    assert report.line == marked_line(SYNC, mark)
    assert f"line {report.line}" in report.message.lower()
    assert report.message.endswith(".") and "\n" not in report.message
    return report


# mbarriers -----------------------------------------------------------------------------------------------------------


@EITHER
@EACH_SCHEDULE
def test_a_ring_hands_over_every_value(schedule, seed, counters):
    out = ints(9 * 32)
    run = launch("ring", 64, (out, 9), counters, schedule=schedule, seed=seed)
    assert run.reports == []
    assert (out.reshape(9, 32) == np.arange(9 * 32).reshape(9, 32)[:, np.arange(32) ^ 1]).all()
    assert run.totals["mbarrier_arrivals"] == 2 * 9 * 32 == run.totals["mbarrier_waits"]


@EACH_SCHEDULE
def test_a_slot_read_before_it_is_written_is_a_race(schedule, seed):
    run = launch("ring", 64, (ints(9 * 32), 9), True, fault=1, schedule=schedule, seed=seed)
    # A consumer that has run through all its rounds before the producer's first has met no value to race with.
    lines = {marked_line(SYNC, "ring_read"), marked_line(SYNC, "ring_write")}
    assert {report.kind for report in run.reports} <= {"race", "deadlock"} and run.reports
    for report in run.reports:
        if report.kind == "race":
            assert report.line in lines and "slots" in report.message and "with no barrier between" in report.message


@EACH_SCHEDULE
def test_a_slot_written_before_it_is_read_is_found(schedule, seed):
    run = launch("ring", 64, (ints(9 * 32), 9), True, fault=2, schedule=schedule, seed=seed)
    assert {"race", "barrier_arrivals", "deadlock"} & {report.kind for report in run.reports}


@EITHER
@EACH_SCHEDULE
def test_a_slot_that_is_never_freed_is_a_deadlock_with_a_table(schedule, seed, counters):
    run = launch("ring", 64, (ints(9 * 32), 9), counters, fault=3, schedule=schedule, seed=seed)
    report = only_report(run, "deadlock", "producer_wait")
    assert "waits at empty[0] for a phase of parity 0 to end" in report.message
    assert "in phase 0 (parity 0) with 32 of 32 arrivals missing" in report.message
    consumer = marked_line(SYNC, "consumer_wait")
    assert report.details == (
        f"  warp 0: 32 lanes wait at empty[0] for parity 0: in phase 0, 32 of 32 arrivals missing, line {report.line}",
        f"  warp 1: 32 lanes wait at full[0] for parity 1: in phase 1, 32 of 32 arrivals missing, line {consumer}",
    )


@EACH_SCHEDULE
def test_the_wrong_parity_is_a_deadlock(schedule, seed):
    run = launch("ring", 64, (ints(9 * 32), 9), fault=4, schedule=schedule, seed=seed)
    report = only_report(run, "deadlock", "producer_wait")
    assert "a phase of parity 0 to end, and the barrier is in phase 0 (parity 0)" in report.message


@EACH_SCHEDULE
def test_polling_sees_the_phase_end(schedule, seed):
    out = ints(2)
    assert launch("polled", 64, (out,), schedule=schedule, seed=seed).reports == []
    assert out[0] == 7 and 1 <= out[1] <= 2


def test_polling_for_ever_is_a_deadlock():
    report = only_report(launch("polled", 64, (ints(2),), fault=1), "deadlock", "poll")
    assert "waits at barrier for a phase of parity 0" in report.message and "1 of 1 arrival missing" in report.message


def test_what_is_missing_is_counted_as_people_write_it():
    assert words_sync._missing(1, 5000, 64) == "1 of 5,000 arrivals missing and 64 bytes missing"
    assert words_sync._missing(5000, 5000, 0) == "5,000 of 5,000 arrivals missing"
    assert words_sync._missing(1, 1, 0) == "1 of 1 arrival missing"


@EACH_SCHEDULE
def test_a_try_may_fail(schedule, seed):
    out = ints(3)
    assert launch("polled_in_vain", 32, (out,), schedule=schedule, seed=seed).reports == []
    assert out.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("fault", "kind", "mark", "words"),
    [
        (1, "barrier_uninitialised", "arrive_first", "uses the mbarrier at memory + 0, which is not initialised"),
        (2, "barrier_reinitialised", "initialised_twice", "initialises first, which line"),
        (3, "barrier_count", "no_arrivals", "for 0 arrivals: give 1 to 1,048,575"),
        (4, "barrier_overwritten", "arrive_first", "uses first, whose 8 bytes something has overwritten since line"),
        (5, "barrier_uninitialised", "arrive_first", "uses first, which is not initialised"),
        (6, "barrier_unsynchronised", "arrive_first", "with no barrier such as __syncthreads() between"),
        (7, "barrier_count", "bad_parity", "waits at first for parity 2: a parity is 0 or 1"),
        (8, "barrier_address", "not_shared", "not in the CTA's shared memory"),
        (9, "barrier_address", "not_aligned", "memory + 12, which is not a multiple of 8"),
        (10, "barrier_arrivals", "one_too_many", "first, whose phase 0 already has the 1 arrival"),
        (11, "exit_bytes", "never_comes", "exits while first is in phase 0 with 64 bytes missing"),
        (12, "barrier_bytes", "too_many_bytes", "the bytes that first waits for 1048576"),
        (13, "deadlock", "nobody_comes", "waits at many[1] for a phase of parity 0"),
        (15, "out_of_bounds", "past_the_end", "past the end of memory, at offset 128 of 128 bytes"),
        (16, "out_of_bounds", "far_past_the_end", "past the end of memory, at offset 409600 of 128 bytes"),
        (14, "deadlock", "one_comes", "and the barrier is in phase 0 (parity 0) with 1 of 2 arrivals missing"),
    ],
)
@EITHER
def test_misuse_is_named(fault, kind, mark, words, counters):
    schedule = "eager" if fault == 6 else "lazy"   # the last warp would find no barrier at all
    run = launch("misuse", 64, (ints(1),), counters, fault, shared_bytes=128, schedule=schedule)
    report = only_report(run, kind, mark)
    assert words in report.message
    if fault not in (2, 3, 11):
        assert "thread (40,0,0), warp 1" in report.message


def test_a_barrier_used_before_its_initialisation():
    run = launch("misuse", 64, (ints(1),), fault=6, shared_bytes=128, schedule="lazy")
    assert "not initialised" in only_report(run, "barrier_uninitialised", "arrive_first").message


def test_too_many_arrivals_name_the_last_one():
    run = launch("misuse", 64, (ints(1),), fault=10, shared_bytes=128)
    message = only_report(run, "barrier_arrivals", "one_too_many").message
    assert f"the last by line {marked_line(SYNC, 'expected')}" in message and "waits for 64 bytes" in message
    assert f"initialised for in line {marked_line(SYNC, 'init_first')}" in message


# Named barriers ------------------------------------------------------------------------------------------------------


@EITHER
@EACH_SCHEDULE
def test_writers_arrive_and_readers_wait(schedule, seed, counters):
    out = ints(64)
    run = launch("named", 128, (out, 7), counters, schedule=schedule, seed=seed)
    assert run.reports == [] and (out == np.arange(64)[::-1] * 3).all()
    assert run.totals["named_barriers"] == 1


def test_the_number_and_the_count_are_checked():
    report = only_report(launch("named", 128, (ints(64), 7), fault=1, schedule="eager"), "named_barrier",
                         "named_arrive")
    assert "named barrier 16: the numbers are 0 to 15" in report.message
    report = only_report(launch("named", 128, (ints(64), 7), fault=2, schedule="eager"), "named_barrier",
                         "named_arrive")
    assert "with 40 threads: give a multiple of 32 of at most 128" in report.message


def test_counts_that_differ_name_both_lines():
    report = only_report(launch("named", 128, (ints(64), 7), fault=3, schedule="eager"), "named_barrier", "named_sync")
    first = marked_line(SYNC, "named_arrive")
    assert f"with 96 threads, and line {first} came with 128 (thread (0,0,0), warp 0)" in report.message


@EACH_SCHEDULE
def test_who_is_missing_at_a_named_barrier(schedule, seed):
    run = launch("named", 128, (ints(64), 7), fault=4, schedule=schedule, seed=seed)
    report = only_report(run, "deadlock", "named_sync")
    assert "named barrier 7, to which 96 of 128 threads came" in report.message
    assert report.details[0] == "  warps 0-1: 32 lanes have exited"
    assert "wait at named barrier 7: 32 of 128 threads missing" in report.details[1]


@EACH_SCHEDULE
def test_without_the_named_barrier_there_is_a_race(schedule, seed):
    run = launch("named", 128, (ints(64), 7), True, fault=5, schedule=schedule, seed=seed)
    assert [report.kind for report in run.reports] == ["race"]


def test_number_0_belongs_to_syncthreads():
    report = only_report(launch("named_zero", 64, (ints(64),)), "named_barrier", "zero")
    assert "others wait at __syncthreads(), which is barrier 0" in report.message
    report = only_report(launch("named_zero", 64, (ints(64),), schedule="eager"), "named_barrier", "zero_syncthreads")
    assert "comes to __syncthreads() while others wait at named barrier 0" in report.message


@pytest.mark.parametrize("fault", [0, 1])
@EITHER
@EACH_SCHEDULE
def test_groups_may_take_turns_at_named_barriers(schedule, seed, counters, fault):
    out = ints(128)
    run = launch("turns", 128, (out, 5), counters, fault, schedule=schedule, seed=seed)
    assert run.reports == [] and (out == 0b0101010101).all()


@EACH_SCHEDULE
def test_groups_at_one_named_barrier_must_be_ordered(schedule, seed):
    run = launch("turns", 128, (ints(128), 5), True, 2, schedule=schedule, seed=seed)
    found = [report for report in run.reports if report.kind == "named_barrier"]
    place = f"line {marked_line(SYNC, 'outside')}"
    assert found, run.reports
    assert f"comes to named barrier 3, and nothing orders this after {place} came to it the" in found[0].message
    assert "give each group of warps a number of its own" in found[0].message and found[0].message.endswith(".")


@EACH_SCHEDULE
def test_who_only_arrives_must_know_that_the_round_is_over(schedule, seed):
    run = launch("turns", 128, (ints(128), 5), True, 3, schedule=schedule, seed=seed)
    lines = {report.line for report in run.reports if report.kind == "named_barrier"}
    assert marked_line(SYNC, "once_more") in lines, run.reports


# Warps and warpgroups ------------------------------------------------------------------------------------------------


@EACH_SCHEDULE
def test_one_lane_of_each_warp_is_elected(schedule, seed):
    out = ints(4)
    assert launch("elected", 128, (out,), schedule=schedule, seed=seed).reports == []
    assert (out == 1).all()


@EACH_SCHEDULE
def test_registers_move_between_warpgroups(schedule, seed):
    # __launch_bounds__(256, 2): 65536 / 512 = 128 registers a thread; 40 + 216 = 2 x 128.
    out = ints(256)
    assert launch("registers", 256, (out,), schedule=schedule, seed=seed).reports == []
    assert out.all()


@EACH_SCHEDULE
def test_more_registers_than_there_are(schedule, seed):
    run = launch("registers", 256, (ints(256),), fault=1, schedule=schedule, seed=seed)
    report = only_report(run, "register_budget", "inc")
    assert "waits for 216 registers a thread instead of 128, 11264 for its warpgroup, and only 3072" in report.message
    assert any("wait in setmaxnreg for 216 registers a thread" in row for row in report.details)


def test_warps_count_in_fours_for_the_registers_at_launch(tmp_path):
    # ptxas gives 168 registers for 384 threads, and 128 for 385: each of an SM's four parts has its own.
    text = (
        '#include "hopper.cuh"\n'
        'extern "C" __global__ void __launch_bounds__(BOUND) registers() {\n'
        "    if (threadIdx.x < 128) setmaxnreg_dec<40>(); else setmaxnreg_inc<232>();\n}\n"
    )
    file = tmp_path / "registers.cu"
    file.write_text(text)
    for bound, reports in ((384, 0), (385, 1)):
        run = compile_kernel(file, ("registers",), {"BOUND": bound}).launch("registers", (1,), (384,), ())
        assert len(run.reports) == reports and ("instead of 128," in str(run.reports)) == (bound == 385)


def test_setmaxnreg_must_go_the_way_it_says():
    report = only_report(launch("registers", 256, (ints(256),), fault=2), "register_budget", "inc_less")
    assert "setmaxnreg_inc<56>, which is fewer than the 128" in report.message


def test_a_warpgroup_has_one_value():
    report = only_report(launch("registers", 256, (ints(256),), fault=3, schedule="eager"), "register_budget", "dec_40")
    assert "for 40 registers while other warps of the warpgroup call it for 48" in report.message


@EACH_SCHEDULE
def test_a_warp_that_does_not_come_to_setmaxnreg(schedule, seed):
    run = launch("registers", 256, (ints(256),), fault=4, schedule=schedule, seed=seed)
    report = only_report(run, "register_budget", "dec_40")
    assert "a thread of the same warpgroup exits without that call" in report.message
    assert "thread (0,0,0), warp 0" in report.message


def test_setmaxnreg_needs_launch_bounds():
    report = only_report(launch("unbounded", 128, (ints(128),)), "register_budget", "unbounded")
    assert "in a kernel without __launch_bounds__" in report.message


# Order of accesses ---------------------------------------------------------------------------------------------------


@EACH_SCHEDULE
def test_a_chain_of_barriers_orders(schedule, seed):
    out = ints(32)
    assert launch("chain", 96, (out,), True, schedule=schedule, seed=seed).reports == []
    assert (out == 11).all()


@pytest.mark.parametrize("fault", [1, 2])
@EACH_SCHEDULE
def test_a_broken_chain_does_not(schedule, seed, fault):
    run = launch("chain", 96, (ints(32),), True, fault=fault, schedule=schedule, seed=seed)
    assert [report.kind for report in run.reports] == ["race"]
    assert "value at byte 0" in run.reports[0].message
