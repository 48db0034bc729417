"""Clusters: places, remote arrivals, the cluster's barrier, and what a CTA may still owe when it exits."""

import numpy as np
import pytest
from emulator_support import compiled, marked_line
from test_emulator_sync import EACH_SCHEDULE, EITHER, SYNC, ints, launch, only_report

from helpers.emulator import compile_kernel, source
from helpers.errors import ArgumentError

pytestmark = pytest.mark.compiler


def test_ranks_follow_x_then_y():
    out = ints(4 * 16)
    assert compiled(SYNC, "placed", FAULT=0).launch("placed", (4, 4), (1,), (out,)).reports == []
    ranks = out.reshape(4, 4, 4)   # blockIdx.y, blockIdx.x
    for y in range(4):
        for x in range(4):
            assert ranks[y, x].tolist() == [x % 2 + 2 * (y % 2), 4, x, y]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@EITHER
@EACH_SCHEDULE
def test_every_cta_hears_of_all(schedule, seed, counters, size):
    out = ints(16)
    run = launch("rounds", 32, (out, 7), counters, grid=16, cluster=(size,), schedule=schedule, seed=seed)
    assert run.reports == [] and (out == 7).all()
    assert run.totals["cluster_barriers"] == 2 * 16 // size
    assert run.totals["mbarrier_arrivals"] == 7 * 16 * size


def test_results_do_not_depend_on_the_workers():
    options = {"grid": 16, "cluster": (4,), "schedule": "random", "seed": 3}
    totals = [launch("rounds", 32, (ints(16), 7), True, workers=workers, **options).totals for workers in (1, 2, 5)]
    assert totals[0] == totals[1] == totals[2]


@EACH_SCHEDULE
def test_another_cta_may_not_be_ready_yet(schedule, seed):
    run = launch("rounds", 32, (ints(2), 1), fault=1, grid=2, cluster=(2,), schedule=schedule, seed=seed)
    assert run.reports[0].kind in ("barrier_unsynchronised", "barrier_uninitialised")
    assert "of CTA (" in run.reports[0].message
    assert any(part in run.reports[0].message for part in ("no barrier of the cluster between", "is not initialised"))


@EACH_SCHEDULE
def test_a_last_arrival_may_come_too_late(schedule, seed):
    assert launch("leaves_early", 32, (ints(2),), grid=2, schedule=schedule, seed=seed).reports == []
    run = launch("leaves_early", 32, (ints(2),), fault=1, grid=2, schedule=schedule, seed=seed)
    report = only_report(run, "exited_cta", "late_arrival")
    assert "arrives at barrier of CTA (0,0,0), which " in report.message and "exited" in report.message
    assert "thread (0,0,0), warp 0, of CTA (1,0,0)" in report.message


@EACH_SCHEDULE
def test_exited_threads_are_not_waited_for(schedule, seed):
    out = ints(2)
    assert launch("some_exit", 64, (out,), grid=2, schedule=schedule, seed=seed).reports == []
    assert out.all()


def test_misuse_of_the_clusters_barrier():
    options = {"grid": 2, "cluster": (2,)}
    report = only_report(launch("rounds", 32, (ints(2), 1), fault=3, **options), "barrier_count", "remote_arrive")
    assert "barrier of CTA 9 of the cluster, which has 2 CTAs" in report.message
    report = only_report(launch("rounds", 32, (ints(2), 1), fault=4, **options), "cluster_barrier", "arrives_again")
    assert "has arrived and not waited: call barrier_cluster_wait() between" in report.message
    report = only_report(launch("rounds", 32, (ints(2), 1), fault=5, **options), "cluster_barrier", "waits")
    assert "without having arrived" in report.message


@EACH_SCHEDULE
def test_a_missing_remote_arrival_is_a_deadlock_over_all_ctas(schedule, seed):
    run = launch("rounds", 32, (ints(2), 5), fault=6, grid=2, cluster=(2,), schedule=schedule, seed=seed)
    report = only_report(run, "deadlock", "remote_wait")
    assert "and its cluster can go on" in report.message
    assert "for a phase of parity 0 to end, and the barrier is in phase 2 (parity 0) with 1 of 2" in report.message
    assert any(row.startswith("  CTA (0,0,0), warp 0: 1 lane waits at barrier") for row in report.details)
    assert any(row.startswith("  CTA (1,0,0), warp 0: ") for row in report.details)


LAST = """#include "hopper.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) last() {
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        mbarrier_init(&barrier, 1000);
        fence_mbarrier_init();
    }
    barrier_cluster_arrive();
    barrier_cluster_wait();
    if (FAULT != 2) mbarrier_arrive_cluster(&barrier, cluster_ctarank() ^ 1);
    FAULT == 1 ? barrier_cluster_arrive_relaxed() : barrier_cluster_arrive();
    if (FAULT == 2) mbarrier_arrive_cluster(&barrier, cluster_ctarank() ^ 1);
    barrier_cluster_wait();
}
"""


@EITHER
@EACH_SCHEDULE
def test_the_last_barrier_must_come_after_the_arrivals_and_order_them(tmp_path, schedule, seed, counters):
    path = tmp_path / "last.cu"
    path.write_text(LAST)
    words = ("", "may have exited by then: a relaxed arrival", "may have exited by then: let a barrier")
    for fault, expected in enumerate(words):
        module = compile_kernel(path, ("last",), {"FAULT": fault}, counters)
        reports = module.launch("last", (2,), (32,), (), schedule=schedule, seed=seed).reports
        assert bool(reports) == bool(fault)
        assert all(report.kind == "exited_cta" and expected in report.message for report in reports)


@pytest.mark.parametrize(
    ("grid", "cluster", "words"),
    [
        ((3,), (2,), r"grid is \(3, 1, 1\), which clusters of \(2, 1, 1\) do not divide"),
        ((16,), (16,), r"cluster is \(16,\): give one to three integers from 1 to 8"),
        ((8, 4), (4, 4), r"cluster is \(4, 4, 1\): a cluster can have 8 CTAs"),
    ],
)
def test_clusters_that_cannot_be_are_refused(grid, cluster, words):
    with pytest.raises(ArgumentError, match=words):
        compiled(SYNC, "rounds", FAULT=0).launch("rounds", grid, (32,), (ints(32), 1), cluster=cluster)


def test_the_kernels_own_cluster_dims_hold():
    module = compiled(SYNC, "placed", FAULT=0)
    with pytest.raises(ArgumentError, match=r"grid is \(3, 2, 1\), which clusters of \(2, 2, 1\) do not divide"):
        module.launch("placed", (3, 2), (1,), (ints(64),))
    with pytest.raises(ArgumentError, match=r"cluster is \(2, 1, 1\), and the __cluster_dims__ of placed are"):
        module.launch("placed", (4, 2), (1,), (ints(64),), cluster=(2, 1, 1))


def test_cluster_dims_may_be_constants_and_belong_to_templates(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(
        '#include "hopper.cuh"\n'
        "constexpr int CTAS = 4;\n"
        'extern "C" __global__ void __cluster_dims__(CTAS / 2) a(int* out) { out[blockIdx.x] = cluster_nctarank(); }\n'
        "template <int N> __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(N)\n"
        "b(int* out) { out[blockIdx.x] = cluster_nctarank(); }\n"
    )
    code = source.code_only(path.read_text())
    assert source.cluster_dims(code, "a") == "CTAS / 2" and source.cluster_dims(code, "b<32>") == "4, 1, 1"
    assert source.launch_bounds(code, "b<32>") == "N"
    module = compile_kernel(path, ("a", "b<32>"))
    for entry, size in (("a", 2), ("b<32>", 4)):
        out = np.zeros(4, np.int32)
        assert module.launch(entry, (4,), (1,), (out,)).reports == []
        assert (out == size).all()


@pytest.mark.parametrize(("fault", "mark"), [(7, "own_wait"), (8, "own_poll")])
@EITHER
@EACH_SCHEDULE
def test_arrivals_of_another_cta_need_a_wait_of_the_cluster(schedule, seed, counters, fault, mark):
    options = {"grid": 2, "cluster": (2,), "schedule": schedule, "seed": seed}
    report = only_report(launch("rounds", 32, (ints(2), 5), counters, fault, **options), "barrier_scope", mark)
    arrival = f"line {marked_line(SYNC, 'remote_arrive')}"
    assert f"waits at barrier with the scope of its own CTA, and {arrival} of CTA (1,0,0) arrives" in report.message
    assert "use mbarrier_wait_cluster; thread (0,0,0), warp 0, of CTA (0,0,0), after thread (0,0,0)" in report.message


@EITHER
@EACH_SCHEDULE
def test_a_wait_of_the_own_cta_is_enough_for_what_is_known(schedule, seed, counters):
    options = {"grid": 2, "schedule": schedule, "seed": seed}
    assert launch("rounds", 32, (ints(2), 5), counters, 7, cluster=(1,), **options).reports == []   # no other CTA
    assert launch("rounds", 32, (ints(2), 5), counters, 9, cluster=(2,), **options).reports == []
    assert launch("rounds", 32, (ints(2), 5), counters, 10, cluster=(2,), **options).reports == []
