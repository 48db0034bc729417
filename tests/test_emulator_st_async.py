"""Numbers sent into shared memory (st_async), and the number of an SM: right kernels run clean, each fault is named."""

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled, counters_at, marked_line

from helpers.emulator import Report
from helpers.errors import ArgumentError
from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
FILE = "emulator_st_async.cu"
EITHER = pytest.mark.parametrize("counters", [False, True])
EACH_SCHEDULE = pytest.mark.parametrize(
    ("schedule", "seed"), [("lazy", 0), ("eager", 0), *(("random", seed) for seed in range(6))]
)
THREADS = 64


def line(mark):
    return f"line {marked_line(FILE, mark)}"


def sent(fault, counters, schedule="lazy", seed=0, ctas=2, rounds=3, **options):
    """The run of the sending kernel, and whether all threads have read the numbers of all rounds."""
    module = compiled(FILE, "send_numbers", counters=counters, FAULT=fault, CTAS=ctas)
    out = np.zeros((8, rounds, THREADS), np.int32)
    run = module.launch("send_numbers", (8,), (THREADS,), (out, rounds), schedule=schedule, seed=seed, **options)
    number = 100 * np.arange(rounds)[None, :, None] + np.arange(8)[:, None, None] % ctas
    return run, (out == number).all()


def kinds(run):
    return {report.kind for report in run.reports}


@pytest.mark.parametrize("ctas", [1, 2, 4])
@EITHER
@EACH_SCHEDULE
def test_all_ctas_get_the_numbers(schedule, seed, counters, ctas):
    run, is_right = sent(0, counters, schedule, seed, ctas)
    assert run.reports == [] and is_right


def test_they_count_as_stores_of_their_line():
    run, _ = sent(0, True, rounds=5)
    (counter,) = counters_at(run, marked_line(FILE, "send"), "shared", "store")
    assert (counter.bytes, counter.requests, counter.lanes, counter.array) == (4, 4 * 5 * 2, 4 * 5 * 2, "words")


@EITHER
def test_results_do_not_depend_on_the_workers(counters):
    runs = [sent(0, counters, "random", 5, workers=workers)[0] for workers in (1, 2, 5)]
    assert runs[0].totals == runs[1].totals == runs[2].totals


@EACH_SCHEDULE
def test_a_number_that_nobody_waits_for(schedule, seed):
    """Whoever comes second meets the other."""
    run, _ = sent(1, True, schedule, seed, rounds=1)
    assert kinds(run) == {"async_race"}
    either = (
        f"A thread of {line('read')} reads what the st_async of {line('send')} wrote, and no barrier orders the two: "
        "wait for its mbarrier full with mbarrier_wait_cluster; words + 0; thread (",
        f"The st_async of {line('send')} overwrites what a thread of {line('read')} read, and no barrier orders the",
    )
    assert all(report.message.startswith(either) for report in run.reports)


@pytest.mark.parametrize(("schedule", "found"), [("lazy", -1), ("eager", 5)])
def test_until_it_comes_the_place_holds_neither_number(schedule, found):
    reports, out = misplaced(13, False, schedule)
    assert (out == found).all() and len(reports) == 1


@pytest.mark.parametrize(("fault", "mark"), [(2, "wait"), (3, "poll")])
@EITHER
@EACH_SCHEDULE
def test_a_wait_with_the_scope_of_the_cta(schedule, seed, counters, fault, mark):
    run, _ = sent(fault, counters, schedule, seed)
    (report,) = run.reports
    assert (report.kind, report.line) == ("barrier_scope", marked_line(FILE, mark))
    assert report.message.startswith(
        f"L{line(mark)[1:]} waits at full with the scope of its own CTA, and {line('send')} of CTA (0,0,0) sends a "
        "number there: such a wait need not see it; use mbarrier_wait_cluster; thread ("
    )
    assert "of CTA (1,0,0), after thread (0,0,0), warp 0 of the other." in report.message   # not the sender's own
    assert sent(fault, counters, schedule, seed, ctas=1)[0].reports == []   # which is in scope


@EACH_SCHEDULE
def test_a_number_over_one_whose_readers_told_nothing(schedule, seed):
    """By relaxed arrivals: their reads need not be over."""
    (report,) = sent(5, True, schedule, seed)[0].reports
    assert (report.kind, report.line) == ("async_race", marked_line(FILE, "send"))
    assert report.message.startswith(
        f"The st_async of {line('send')} overwrites what a thread of {line('read')} read, and no barrier orders the "
        "two; words + 0"
    )


@EACH_SCHEDULE
def test_a_number_over_one_whose_readers_nobody_waits_for(schedule, seed):
    """They may also meet the next number, and the phases may go by unseen."""
    run, _ = sent(4, True, schedule, seed)
    either = (
        f"The st_async of {line('send')} overwrites what a thread of {line('read')} read, and no barrier orders the",
        f"A thread of {line('read')} reads what the st_async of {line('send')} wrote, and no barrier orders the",
    )
    assert run.reports[0].message.startswith(either)
    assert kinds(run) <= {"async_race", "deadlock"}


@EACH_SCHEDULE
def test_a_number_over_one_that_has_yet_to_come(schedule, seed):
    (report,) = sent(6, True, schedule, seed, rounds=1)[0].reports
    assert (report.kind, report.line) == ("async_race", marked_line(FILE, "again"))
    assert report.message.startswith(
        f"The st_async of {line('again')} overwrites what the st_async of {line('send')} wrote, and no barrier orders "
        "the two: let those who wait for full give the memory back before the next st_async; words + 0"
    )


@pytest.mark.parametrize(("fault", "mark", "verb", "past"), [
    (7, "overwrite", "overwrites", "wrote"), (8, "peek", "reads", "read"),
])  # fmt: skip
@EACH_SCHEDULE
def test_who_touches_the_place_meanwhile(schedule, seed, fault, mark, verb, past):
    run, _ = sent(fault, True, schedule, seed, rounds=1)
    either = (
        f"A thread of {line(mark)} {verb} what the st_async of {line('send')} wrote, and no barrier orders the two: ",
        f"The st_async of {line('send')} overwrites what a thread of {line(mark)} {past}, and no barrier orders the",
    )
    assert any(report.message.startswith(either) for report in run.reports), run.reports
    assert kinds(run) <= {"async_race", "race", "cluster_unwritten"}


def misplaced(fault, counters, schedule="lazy", seed=0, to=1):
    module, out = compiled(FILE, "misplaced", counters=counters, FAULT=fault, TO=to), np.zeros(THREADS, np.int32)
    return module.launch("misplaced", (2,), (THREADS,), (out,), schedule=schedule, seed=seed).reports, out


@pytest.mark.parametrize("to", [0, 1])
@pytest.mark.parametrize("fault", [0, 10])
@EITHER
@EACH_SCHEDULE
def test_one_number(schedule, seed, counters, fault, to):
    """It is no work of another proxy: the barrier needs no fence, if a barrier of the cluster releases it."""
    reports, out = misplaced(fault, counters, schedule, seed, to)
    assert reports == [] and (out == 5).all()


@pytest.mark.parametrize(("fault", "kind", "words"), [
    (1, "cluster_rank", "writes to the shared memory of CTA 2 of the cluster, which has 2 CTAs: their ranks count"),
    (2, "misaligned", "writes 4 bytes at an address that is not a multiple of 4"),
    (3, "out_of_bounds", "writes 4 bytes past the end of"),
    (4, "out_of_bounds", "needs an address in the CTA's shared memory, and gets another: declare what it names"),
    (5, "out_of_bounds", "needs an address in the CTA's shared memory, and gets another: declare what it names"),
    (6, "barrier_uninitialised", "sends data to the mbarrier at no_barrier + 0 of CTA (1,0,0), which is not"),
    (7, "barrier_address", "names an mbarrier at full + 4, which is not a multiple of 8: make it a uint64_t of its"),
    (9, "barrier_unsynchronised", "uses full of CTA (1,0,0), which line {} initialises, with no fence_mbarrier_init()"),
    (11, "exited_cta", "sends data for full of CTA (1,0,0), which has exited: let a barrier of the cluster be the"),
])  # fmt: skip
@EITHER
@EACH_SCHEDULE
def test_a_place_or_a_barrier_that_cannot_be_used(schedule, seed, counters, fault, kind, words):
    reports, _ = misplaced(fault, counters, schedule, seed)
    first: Report = reports[0]
    assert (first.kind, first.line) == (kind, marked_line(FILE, "sent"))
    assert words.format(marked_line(FILE, "made")) in first.message
    assert "thread (37,0,0), warp 1, of CTA (0,0,0)" in first.message


@EITHER
@EACH_SCHEDULE
def test_a_barrier_of_which_the_cluster_does_not_know(schedule, seed, counters):
    """It may not even be there yet."""
    first: Report = misplaced(8, counters, schedule, seed)[0][0]
    known = {
        "barrier_unsynchronised": "uses full of CTA (1,0,0), which line {} initialises, with no barrier of the cluster",
        "barrier_uninitialised": "sends data to full of CTA (1,0,0), which is not initialised",
    }
    assert first.line == marked_line(FILE, "sent")
    assert known[first.kind].format(marked_line(FILE, "made")) in first.message


@EITHER
@EACH_SCHEDULE
def test_a_cta_that_exits_before_its_number_was_waited_for(schedule, seed, counters):
    (report,) = misplaced(12, counters, schedule, seed)[0]
    assert report.kind == "exit_unwaited"
    if schedule == "lazy":
        assert report.message == (
            f"CTA (1,0,0) exits while what {line('sent')} sends is on its way into its shared memory (issued by thread "
            "(37,0,0), warp 1 of CTA (0,0,0)): wait for it first."
        )
    if schedule == "eager":
        assert "CTA (1,0,0) exits, and no thread has waited for the last data of full (phase 0" in report.message


@EITHER
@EACH_SCHEDULE
def test_a_number_that_was_not_announced(schedule, seed, counters):
    *races, report = misplaced(13, counters, schedule, seed)[0]
    assert {race.kind for race in races} == ({"async_race"} if counters else set())
    assert report.kind in ("exit_bytes", "exit_unwaited")
    assert schedule != "eager" or "and 4 bytes more came than were announced" in report.message


def passed_to_tma(fault, counters, schedule="lazy", seed=0):
    out = np.zeros((1, 64), ml_dtypes.bfloat16)
    module = compiled(FILE, "pass_to_tma", counters=counters, FAULT=fault)
    arguments = (tensor_map(out, (64, 1), swizzle="none"),)
    run = module.launch("pass_to_tma", (1,), (32,), arguments, schedule=schedule, seed=seed)
    return run.reports, out.view(np.int32)


@EITHER
@EACH_SCHEDULE
def test_numbers_for_tma(schedule, seed, counters):
    reports, out = passed_to_tma(0, counters, schedule, seed)
    assert reports == [] and (out == 1000 + np.arange(32)).all()


@pytest.mark.parametrize(("fault", "kind", "message"), [
    (1, "proxy_fence", "The TMA store of {store} reads what {number} wrote, with no fence_proxy_async() between"),
    (2, "async_race", "The TMA store of {store} reads what the st_async of {number} wrote, and no barrier orders"),
    (3, "async_race", "The st_async of {anew} overwrites what the TMA store of {store} read, and no barrier orders"),
    (4, "proxy_fence", "The TMA load of {load} overwrites what {number} wrote, with no fence_proxy_async() between"),
    (5, "async_race", "The TMA load of {load} overwrites what the st_async of {number} wrote, and no barrier orders"),
    (6, "async_race", "The st_async of {number} overwrites what the TMA load of {load_first} wrote, and no barrier"),
])  # fmt: skip
@EACH_SCHEDULE
def test_numbers_and_tma_meet(schedule, seed, fault, kind, message):
    reports, _ = passed_to_tma(fault, True, schedule, seed)
    marks = {mark: line(mark) for mark in ("store", "number", "anew", "load", "load_first")}
    (report,) = [report for report in reports if report.kind == kind]
    assert report.message.startswith(message.format(**marks)), report.message


@EITHER
@EACH_SCHEDULE
def test_the_numbers_are_forgotten_when_tma_loads_over_them(schedule, seed, counters):
    assert passed_to_tma(7, counters, schedule, seed)[0] == []


@EACH_SCHEDULE
def test_numbers_that_another_cta_reads(schedule, seed):
    for fault in (0, 1):
        out = np.zeros(32, np.int32)
        module = compiled(FILE, "all_ones", counters=True, FAULT=fault)
        run = module.launch("all_ones", (2,), (32,), (out,), schedule=schedule, seed=seed)
        assert (out == -1).all()
        if fault == 0:
            assert run.reports == []
            continue
        (report,) = run.reports
        assert (report.kind, report.line) == ("async_race", marked_line(FILE, "far"))
        assert f"reads what the st_async of {line('ones')} wrote, and no barrier orders the two: let" in report.message


def numbers_of_sms(entry, grid, **options):
    out = np.full(grid[::-1], -1, np.int32)
    assert compiled(FILE, entry).launch(entry, grid, (1,), (out,), **options).reports == []
    return out


def test_ctas_lie_on_the_sms_in_turn_cluster_by_cluster_and_every_second_one_backwards():
    assert (numbers_of_sms("sms", (100, 3)) == np.arange(300).reshape(3, 100) % 132).all()
    assert (numbers_of_sms("sms", (7, 1), sms=3) == np.arange(7) % 3).all()
    assert numbers_of_sms("sms_of_clusters", (4, 2), sms=6).tolist() == [[0, 1, 1, 0], [2, 3, 5, 4]]


def test_a_gpu_has_an_sm():
    with pytest.raises(ArgumentError, match="sms is 0: it must be an integer from 1 to"):
        numbers_of_sms("sms", (1, 1), sms=0)
