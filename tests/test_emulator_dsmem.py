"""Reads of another CTA's shared memory: right kernels run clean under every schedule, each fault is named."""

import ml_dtypes
import numpy as np
import pytest
from emulator_support import compiled, counters_at, marked_line

from helpers.tensor_map import tensor_map

pytestmark = pytest.mark.compiler
DSMEM = "emulator_dsmem.cu"
EITHER = pytest.mark.parametrize("counters", [False, True])
SCHEDULES = [("lazy", 0), ("eager", 0), *(("random", seed) for seed in range(10))]
EACH_SCHEDULE = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES)
ROUNDS = 3


def summed(
    fault, counters, schedule="lazy", seed=0, ctas=4, grid=(8,), threads=64, rounds=ROUNDS, values=None, **options
):
    """The run of the summing kernel and whether every CTA has the sums of its cluster."""
    module = compiled(DSMEM, "split_sum", counters=counters, FAULT=fault, CTAS=ctas)
    count = int(np.prod(grid))
    values = np.arange(count * threads, dtype=np.float32) if values is None else values
    out = np.zeros((count, rounds, threads, 4), np.float32)
    run = module.launch("split_sum", grid, (threads,), (values, out, rounds), schedule=schedule, seed=seed, **options)
    sums = values.reshape(count // ctas, ctas, threads).sum(1).repeat(ctas, 0)
    told = sums[:, None, :, None] + ctas * np.arange(rounds, dtype=np.float32)[:, None, None]
    return run, (out == told * np.arange(1, 5)).all()


def passed_on(fault, counters, schedule="lazy", seed=0, ctas=4, rounds=ROUNDS, **options):
    """The run of the copying kernel and whether every CTA has the tiles of its neighbour."""
    module = compiled(DSMEM, "neighbours", counters=counters, FAULT=fault, CTAS=ctas)
    values = np.arange(8 * rounds * 8 * 64).reshape(-1, 64).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(values)
    tiles = tensor_map(values, (64, 8), swizzle="none")
    options |= {"shared_bytes": 2048, "schedule": schedule, "seed": seed}
    run = module.launch("neighbours", (8,), (64,), (tiles, out.view(np.uint32), rounds), **options)
    shape = (8 // ctas, ctas, -1)
    return run, (out.reshape(shape) == np.roll(values.reshape(shape), -1, 1)).all()


def reports_of(run, kind):
    """The run's reports of this kind, of which there must be one; each message is one sentence."""
    found = [report for report in run.reports if report.kind == kind]
    assert found, run.reports
    assert all(report.message.endswith(".") and "\n" not in report.message for report in run.reports)
    return found


# Right ones ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ctas", [1, 2, 4, 8])
@EITHER
@EACH_SCHEDULE
def test_a_cluster_sums_what_its_ctas_have(schedule, seed, counters, ctas):
    run, is_right = summed(0, counters, schedule, seed, ctas)
    assert run.reports == [] and is_right
    assert run.totals["cluster_load_bytes"] == 8 * (ctas - 1) * ROUNDS * 64 * 16


@pytest.mark.parametrize("grid", [(4, 3), (4, 2, 3), (8, 1, 2)])
@pytest.mark.parametrize("threads", [16, 72, 256])
@EITHER
def test_clusters_lie_along_x_also_in_grids_of_more_dimensions(counters, threads, grid):
    run, is_right = summed(0, counters, "random", 3, 4, grid, threads)
    assert run.reports == [] and is_right


@EITHER
@pytest.mark.parametrize("fault", [0, 3])
def test_results_do_not_depend_on_the_workers(counters, fault):
    """Nor on what a worker has run before: each cluster starts anew."""
    runs = [summed(fault, counters, "random", 5, workers=workers, rounds=1)[0] for workers in (1, 2, 5)]
    assert runs[0].totals == runs[1].totals == runs[2].totals
    assert runs[0].counters == runs[1].counters == runs[2].counters
    assert runs[0].reports == runs[1].reports == runs[2].reports
    assert bool(runs[0].reports) == (counters and fault == 3)


@pytest.mark.parametrize("ctas", [2, 4])
@pytest.mark.parametrize("fault", [0, 2])
@EITHER
def test_what_was_read_and_waited_for_is_of_one_cluster_and_one_phase(counters, fault, ctas):
    run, is_right = passed_on(fault, counters, ctas=ctas, workers=1)
    assert is_right and sum(report.count for report in run.reports) == (8 * 64 * ROUNDS if fault and counters else 0)


def test_a_value_may_be_all_ones():
    """A NaN that a thread has written is no memory that nobody wrote."""
    run, _ = summed(0, True, values=np.full(8 * 64, 0xFFFFFFFF, np.uint32).view(np.float32))
    assert run.reports == []


def test_data_on_its_way_is_not_called_unwritten():
    """With counters it is a race."""
    run, is_right = passed_on(1, False, "lazy", rounds=1)
    assert run.reports == [] and not is_right
    run, is_right = passed_on(1, True, "lazy", rounds=1)
    assert [(report.kind, report.count) for report in run.reports] == [("async_race", 8 * 64)] and not is_right


@pytest.mark.parametrize("workers", [1, 2])
@EITHER
def test_an_exit_has_to_do_with_the_reads_of_its_own_cluster(counters, workers):
    (report,) = summed(14, counters, workers=workers)[0].reports
    assert report.kind == "exited_cta" and "a relaxed arrival" in report.message
    assert report.count == 4 * 3 * (64 if counters else 1)   # without counters one for each CTA that reads


@EACH_SCHEDULE
def test_the_last_read_of_a_cta_counts_whichever_warp_comes_first(schedule, seed):
    """Without counters; half of the warps have arrived before."""
    (report,) = summed(13, False, schedule, seed, rounds=1)[0].reports
    assert report.kind == "exited_cta" and (report.count == 8 * 3 or "has exited" in report.message)


@pytest.mark.parametrize("ctas", [1, 2, 4, 8])
@pytest.mark.parametrize("fault", [0, 6])
@EITHER
@EACH_SCHEDULE
def test_tiles_of_tma_are_read_by_neighbours(schedule, seed, counters, fault, ctas):
    """Without a barrier of the cluster at the end: owners wait for their readers at an mbarrier."""
    run, is_right = passed_on(fault, counters, schedule, seed, ctas)
    assert run.reports == [] and is_right


@pytest.mark.parametrize("ctas", [1, 4])
def test_reads_count_as_shared_loads_of_their_line(ctas):
    run, _ = summed(0, True, ctas=ctas, grid=(8,))
    (counter,) = counters_at(run, marked_line(DSMEM, "read"), "shared", "load")
    warps, reads = 8 * 2, ROUNDS * ctas
    assert (counter.bytes, counter.requests, counter.lanes) == (16, warps * reads, 32 * warps * reads)
    assert counter.transactions == counter.ideal == 4 * counter.requests
    assert (counter.array, counter.example) == ("partial", tuple(range(0, 512, 16)))
    assert run.totals["cluster_load_bytes"] == 16 * 64 * 8 * ROUNDS * (ctas - 1)


# Wrong ones ----------------------------------------------------------------------------------------------------------


@EACH_SCHEDULE
def test_values_read_without_a_barrier(schedule, seed):
    """Who comes second meets the other; who reads before anything was written meets nothing."""
    run, _ = summed(1, True, schedule, seed)
    for report in reports_of(run, "race"):
        write, read = f"line {marked_line(DSMEM, 'write')}", f"line {marked_line(DSMEM, 'read')}"
        either = f"L{read[1:]} reads what {write} wrote", f"L{write[1:]} writes what {read} read"
        assert report.message.startswith(either)
        words = "with no barrier of the cluster between (a relaxed arrival there orders nothing): partial"
        assert words in report.message
    assert {report.kind for report in run.reports} <= {"race", "cluster_unwritten", "exited_cta"}


@EACH_SCHEDULE
def test_values_read_after_a_relaxed_barrier(schedule, seed):
    run, is_right = summed(3, True, schedule, seed)
    (report,) = reports_of(run, "race")
    assert is_right and report.line == marked_line(DSMEM, "read") and len(run.reports) == 1
    words = "reads what line {} wrote, with no barrier of the cluster between".format(marked_line(DSMEM, "write"))
    assert words in report.message
    if schedule == "eager":
        place = "partial of CTA (1,0,0) at byte 0, thread (0,0,0), warp 0, of CTA (0,0,0), after "
        assert report.message.endswith(f"{place}thread (0,0,0), warp 0, of CTA (1,0,0).")


@pytest.mark.parametrize("fault", [2, 4])
@EACH_SCHEDULE
def test_values_overwritten_before_they_were_read(schedule, seed, fault):
    """Without the second barrier, or with a relaxed one."""
    run, _ = summed(fault, True, schedule, seed)
    write, read = marked_line(DSMEM, "write"), marked_line(DSMEM, "read")
    lines = {report.line for report in reports_of(run, "race")}
    assert lines <= {write, read}
    if fault == 4:
        (report,) = reports_of(run, "race")
        assert f"Line {write} writes what line {read} read, with no barrier of the cluster between" in report.message


@pytest.mark.parametrize(("fault", "words"), [
    (2, "let a barrier of the cluster be the last thing"),
    (4, "a relaxed arrival at the barrier of the cluster orders no accesses before it"),
    (9, "let a barrier of the cluster be the last thing"),
    (12, "let a barrier of the cluster be the last thing"),
    (13, "let a barrier of the cluster be the last thing"),
])
@EITHER
@EACH_SCHEDULE
def test_a_cta_that_exits_while_another_may_read(schedule, seed, counters, fault, words):
    run, _ = summed(fault, counters, schedule, seed, rounds=1)
    for report in reports_of(run, "exited_cta"):
        assert report.line == marked_line(DSMEM, "read")
        assert "reads the shared memory of CTA (" in report.message and "exited" in report.message
        assert words in report.message
    assert {report.kind for report in run.reports} == {"exited_cta"}


@pytest.mark.parametrize(("fault", "kind", "words"), [
    (5, "cluster_rank", "reads the shared memory of CTA 4 of the cluster, which has 4 CTAs: their ranks count from 0"),
    (6, "misaligned", "reads 16 bytes at an address that is not a multiple of 16"),
    (7, "out_of_bounds", "reads 16 bytes past the end of partial"),
    (8, "cluster_unwritten", "reads 16 bytes of spare + "),
    (11, "out_of_bounds", "needs an address in the CTA's shared memory, and gets another: declare what it names"),
])
@EITHER
@EACH_SCHEDULE
def test_a_place_that_cannot_be_read(schedule, seed, counters, fault, kind, words):
    run, _ = summed(fault, counters, schedule, seed)
    report = reports_of(run, kind)[0]
    assert len(run.reports) == 1 and report.line == marked_line(DSMEM, "read")
    assert words in report.message and "thread (" in report.message


@EITHER
def test_the_cta_whose_memory_is_read_is_named(counters):
    """Who comes to the barrier last goes on at once, and begins with the first CTA's memory."""
    words = "of partial of CTA (0,0,0), at offset 5104 of 4096 bytes: thread (63,0,0), warp 1, of CTA (3,0,0)."
    assert summed(7, counters, "eager", grid=(4,))[0].reports[0].message.endswith(words)
    (report,) = summed(8, counters, "lazy", grid=(4,))[0].reports
    assert report.count == 4 * 4 * 64 * ROUNDS   # of each thread's reads of the four


@EACH_SCHEDULE
def test_one_cta_reads_itself_by_the_rules_of_all_shared_memory(schedule, seed):
    run, _ = summed(10, True, schedule, seed, ctas=1)
    races = reports_of(run, "race")
    assert all("with no __syncthreads() between: partial at byte" in report.message for report in races)
    (race,) = reports_of(summed(15, True, schedule, seed, ctas=1)[0], "race")   # not in the first CTA
    assert "with no __syncthreads() between: partial at byte" in race.message
    assert race.message.endswith("of CTA (7,0,0).")


@pytest.mark.parametrize(("fault", "kind", "mark", "other", "words"), [
    (1, "async_race", "copy", "load", "a thread of line {} reads what the TMA load of line {} wrote"),
    (2, "async_race", "copy", "load", "a thread of line {} reads what the TMA load of line {} wrote"),
    (3, "async_race", "load", "copy", "the TMA load of line {} overwrites what a thread of line {} read"),
    (4, "async_race", "load", "copy", "the TMA load of line {} overwrites what a thread of line {} read"),
    (5, "race", "overwrite", "copy", "line {} writes what line {} read, with no barrier of the cluster between"),
    (7, "exited_cta", "copy", "copy", "line {} reads the shared memory of CTA ("),
])
@EACH_SCHEDULE
def test_a_missing_link_between_tma_and_readers(schedule, seed, fault, kind, mark, other, words):
    run, _ = passed_on(fault, True, schedule, seed)
    expected = words.format(marked_line(DSMEM, mark), marked_line(DSMEM, other))
    messages = [report.message[0].lower() + report.message[1:] for report in reports_of(run, kind)]
    assert any(message.startswith(expected) for message in messages), run.reports


def told(missing, chain, schedule, seed, counters=True):
    """The run of the kernel with three readers, and what they read."""
    module = compiled(DSMEM, "readers", counters=counters, CHAIN=chain, FAULT=0)
    out = np.zeros((4, 32), np.float32)
    return module.launch("readers", (4,), (32,), (out, missing), schedule=schedule, seed=seed), out[1:]


@pytest.mark.parametrize("chain", [0, 1])
@EITHER
@EACH_SCHEDULE
def test_readers_tell_the_owner_or_each_other(schedule, seed, counters, chain):
    run, found = told(0, chain, schedule, seed, counters)
    assert run.reports == [] and (found == np.arange(32)).all()


@pytest.mark.parametrize("missing", [1, 2, 3])
@EACH_SCHEDULE
def test_each_reader_counts(schedule, seed, missing):
    """Whichever read last: the one that was not waited for is named."""
    run, _ = told(missing, 0, schedule, seed)
    (report,) = reports_of(run, "race")
    assert f"of CTA ({missing},0,0)" in report.message and len(run.reports) == 1
    assert report.line in (marked_line(DSMEM, "one_reads"), marked_line(DSMEM, "first_writes"))


@EACH_SCHEDULE
def test_a_chain_without_its_last_link(schedule, seed):
    run, _ = told(3, 1, schedule, seed)
    assert reports_of(run, "race")


@EITHER
@EACH_SCHEDULE
def test_a_read_after_the_last_word(schedule, seed, counters):
    """The owner exits once it has been told that its tile has been read, and it is read again."""
    (report,) = passed_on(8, counters, schedule, seed, rounds=1)[0].reports
    assert (report.kind, report.line) == ("exited_cta", marked_line(DSMEM, "again"))
