"""Each planted fault is found and named: rule, source line, threads, argument."""

import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from emulator_support import KERNELS, compiled, marked_line

from helpers.emulator import protocol, words
from helpers.rungs import ROOT

pytestmark = pytest.mark.compiler
FAULTS = "emulator_faults.cu"
EITHER = pytest.mark.parametrize("counters", [False, True])


def zeros(count, dtype=np.float32):
    return np.zeros(count, dtype)


def launch(entry, threads, arguments, counters=True, grid=1, sync=0, **options):
    module = compiled(FAULTS, entry, counters=counters, SYNC=sync)
    return module.launch(entry, (grid,), (threads,), arguments, **options)


def only_report(run, kind, mark):
    """The run's one report, which must be of this kind and line, and one sentence."""
    assert [report.kind for report in run.reports] == [kind], run.reports
    (report,) = run.reports
    assert report.line == marked_line(FAULTS, mark)
    assert f"line {report.line}" in report.message.lower()
    assert report.message.endswith(".") and "\n" not in report.message
    return report


@EITHER
def test_reading_past_the_end_names_the_argument(counters):
    report = only_report(launch("read_past_end", 32, (zeros(64), zeros(64), 64), counters, grid=2),
                         "out_of_bounds", "read_past_end")
    assert "past the end of in, at offset 256 of 256 bytes" in report.message
    assert "thread (31,0,0), warp 0, of CTA (1,0,0)" in report.message
    assert ("reads 4 bytes" if counters else "reads or writes") in report.message


@EITHER
def test_names_can_be_given(counters):
    arguments = zeros(64), zeros(64), 64
    run = launch("read_past_end", 32, arguments, counters, grid=2, names=("A", "B", "n"))
    assert "past the end of A" in run.reports[0].message


@EITHER
def test_writing_before_the_start(counters):
    report = only_report(launch("write_before_start", 32, (zeros(64), 4096), counters), "out_of_bounds",
                         "write_before_start")
    assert "before the start of out, at offset -16384 of 256 bytes" in report.message


def test_without_counters_a_small_stray_write_is_still_noticed():
    out = zeros(64)
    run = launch("write_before_start", 32, (out, 1), counters=False)
    assert [report.kind for report in run.reports] == ["out_of_bounds"]
    assert "wrote before the start of out, at offset -4" in run.reports[0].message
    only_report(launch("write_before_start", 32, (out, 1), counters=True), "out_of_bounds", "write_before_start")


def test_an_access_at_the_very_end_is_no_fault():
    for counters in (False, True):
        assert launch("read_past_end", 32, (zeros(33), zeros(33), 33), counters).reports == []


def test_a_wild_pointer_is_in_no_argument():
    report = only_report(launch("wild_pointer", 32, (zeros(64),)), "out_of_bounds", "wild_pointer")
    assert "writes 4 bytes at address 0x" in report.message and "in no argument" in report.message
    assert "thread (5,0,0)" in report.message
    only_report(launch("wild_pointer", 32, (zeros(64),), counters=False), "crash", "wild_pointer")


def test_beyond_a_shared_array():
    report = only_report(launch("shared_past_end", 1, (zeros(4), 256), shared_bytes=1024), "out_of_bounds",
                         "shared_past_end")
    assert "writes 4 bytes past the end of dynamic_tile, at offset 1024 of 1024 bytes" in report.message


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_race_names_both_lines_and_threads(schedule):
    run = launch("missing_barrier", 64, (zeros(64), zeros(64)), schedule=schedule)
    (report,) = run.reports
    write, read = marked_line(FAULTS, "race_write"), marked_line(FAULTS, "race_read")
    assert report.kind == "race" and report.line in (write, read)
    assert f"ine {write} " in report.message and f"ine {read} " in report.message
    assert "__syncthreads()" in report.message and "tile at byte" in report.message
    assert report.message.count("thread (") == 2 and "CTA (0,0,0)" in report.message
    assert report.count > 1


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_race_of_the_next_round(schedule):
    assert launch("missing_second_barrier", 64, (zeros(64), zeros(64), 1), schedule=schedule).reports == []
    (report,) = launch("missing_second_barrier", 64, (zeros(64), zeros(64), 2), schedule=schedule).reports
    assert report.kind == "race"
    for mark in ("reuse_write", "reuse_read"):
        assert f"ine {marked_line(FAULTS, mark)} " in report.message


def test_syncwarp_orders_the_lanes_of_one_warp():
    (report,) = launch("warp_exchange", 32, (zeros(32),)).reports
    assert report.kind == "race" and "no __syncwarp() or __syncthreads() between" in report.message
    assert launch("warp_exchange", 32, (zeros(32),), sync=1).reports == []


@EITHER
def test_a_barrier_that_some_threads_never_reach(counters):
    report = only_report(launch("exit_before_barrier", 96, (zeros(96),), counters), "barrier_divergence",
                         "exit_before_barrier")
    assert "40 of 96 threads of CTA (0,0,0) wait" in report.message
    line = report.line
    assert report.details == (
        f"  warp 0: 32 lanes wait at __syncthreads(), line {line}",
        f"  warp 1: 8 lanes wait at __syncthreads(), line {line}; 24 lanes have exited",
        "  warp 2: 32 lanes have exited",
    )


@EITHER
def test_threads_at_different_barriers(counters):
    (report,) = launch("different_barriers", 64, (zeros(64),), counters).reports
    assert report.kind == "barrier_divergence"
    for mark in ("first_barrier", "second_barrier"):
        assert f"line {marked_line(FAULTS, mark)}" in report.message


@EITHER
def test_lanes_that_miss_a_shuffle(counters):
    (report,) = launch("missing_lanes", 32, (zeros(32),), counters).reports
    assert report.kind == "barrier_divergence"
    assert f"16 lanes wait for other lanes of the warp, line {marked_line(FAULTS, 'missing_lanes')}" in str(report)


def test_an_endless_loop_meets_the_step_limit():
    run = launch("endless_loop", 64, (zeros(1),), step_limit=100_000)
    report = only_report(run, "step_limit", "endless_loop")
    assert "100,000 memory accesses" in report.message and "thread (3,0,0)" in report.message
    assert report.details == (
        f"  warp 0: 31 lanes wait at __syncthreads(), line {marked_line(FAULTS, 'endless_barrier')}; "
        f"1 lane running, line {report.line}",
        f"  warp 1: 32 lanes wait at __syncthreads(), line {marked_line(FAULTS, 'endless_barrier')}",
    )


def test_an_endless_loop_meets_the_time_limit():
    start = time.monotonic()
    run = launch("endless_loop", 64, (zeros(1),), counters=False, time_limit=0.2)
    assert time.monotonic() - start < 2
    report = only_report(run, "step_limit", "endless_loop")
    assert "within 0.2 seconds" in report.message and "1 lane running" in str(report)


@EITHER
@pytest.mark.parametrize(
    ("kind", "report_kind", "mark", "words"),
    [
        (1, "step_limit", "nothing", "may be infinite, or give a larger"),
        (2, "step_limit", "unchanged", "may be infinite, or give a larger"),
        (3, "deadlock", "poll", "waits at awaited for a phase of parity 0 to end"),
        (4, "step_limit", "busy_poll", "a thread has made 100,000 memory accesses and barriers and has not ended"),
    ],
)
def test_loops_without_end_say_where_each_warp_is(kind, report_kind, mark, words, counters):
    module = compiled("emulator_loops.cu", "loops", counters=counters)
    limits = {"time_limit": 0.2, "step_limit": 100_000}
    (report,) = module.launch("loops", (1,), (96,), (zeros(2, np.int32), kind), **limits).reports
    assert (report.kind, report.line) == (report_kind, marked_line("emulator_loops.cu", mark))
    assert words.lower() in report.message.lower() and report.message.endswith(".")
    meets = f"wait at __syncthreads(), line {marked_line('emulator_loops.cu', 'meets')}"
    assert len(report.details) == 3 and report.details[2] == f"  warp 2: 32 lanes {meets}"
    assert "  warp 1: " in report.details[1] and f"line {report.line}" in report.details[1]


@EITHER
@pytest.mark.parametrize(
    "entry, arguments, words",
    [
        ("divide_by_zero", (zeros(32, np.int32), 0), "divides an integer by zero: thread (0,0,0)"),
        ("trap", (zeros(1, np.int32),), "calls __trap(): thread (2,0,0)"),
    ],
)
def test_crashes_are_reported(entry, arguments, words, counters):
    report = only_report(launch(entry, 32, arguments, counters, schedule="eager"), "crash", entry)
    assert words in report.message


def test_a_misaligned_wide_access():
    report = only_report(launch("misaligned", 1, (zeros(8), zeros(4), 1)), "misaligned", "misaligned")
    assert "reads 16 bytes at an address that is not a multiple of 16" in report.message
    assert [r.kind for r in launch("misaligned", 1, (zeros(8), zeros(4), 1), counters=False).reports] == ["crash"]
    assert launch("misaligned", 1, (zeros(8), zeros(4), 4)).reports == []


@EITHER
def test_a_full_stack(counters):
    (report,) = launch("deep_stack", 1, (zeros(1), 40000), counters).reports
    assert report.kind == "crash" and "more than 64 KB for local variables" in report.message


@EITHER
def test_a_read_only_array_stays_as_it_is(counters):
    array = zeros(8)
    array.flags.writeable = False
    report = only_report(launch("write_const", 1, (array,), counters), "crash", "write_const")
    assert "writes to in, which is read-only" in report.message
    assert (array == 0).all()


def test_the_first_cta_is_blamed_whatever_the_workers():
    reports = set()
    for workers in (1, 2, 4):
        for _ in range(3):
            run = launch("trap", 32, (zeros(1, np.int32),), grid=50, workers=workers)
            reports.add(str(run.reports))
    assert len(reports) == 1 and "CTA (0,0,0)" in reports.pop()


def test_a_module_runs_again_after_a_fault():
    for _ in range(3):
        assert len(launch("divide_by_zero", 32, (zeros(32, np.int32), 0), counters=False).reports) == 1
        assert launch("divide_by_zero", 32, (zeros(32, np.int32) + 1, 1), counters=False, grid=1).reports != []
        assert launch("missing_barrier", 64, (zeros(64), zeros(64)), counters=False).reports == []


def test_launches_from_several_threads():
    runs = []
    threads = [
        threading.Thread(target=lambda: runs.append(launch("trap", 32, (zeros(1, np.int32),), counters=False)))
        for _ in range(4)
    ]
    launch("trap", 32, (zeros(1, np.int32),), counters=False)   # compiled before the threads start
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(run.reports) for run in runs] == [1] * 4


def test_the_keyboard_interrupts_a_launch():
    script = (
        "import sys, numpy as np\n"
        "from helpers.emulator import compile_kernel\n"
        f"module = compile_kernel({str(KERNELS / FAULTS)!r}, ('endless_loop',), {{'SYNC': 0}})\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    module.launch('endless_loop', (1,), (64,), (np.zeros(1, np.float32),))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert output == "interrupted\n" and process.returncode == 0


def test_without_addr2line_the_report_says_that_the_line_is_unknown(monkeypatch):
    from helpers.emulator import lines

    monkeypatch.setattr(lines, "TOOLS", ("no-such-tool",))
    compiled.cache_clear()   # a module remembers the lines that it has looked up
    run = launch("read_past_end", 32, (zeros(64), zeros(64), 64), grid=2)
    compiled.cache_clear()
    assert run.reports[0].line is None and "n unknown line reads 4 bytes past the end of in" in run.reports[0].message


def test_the_documentation_lists_every_kind_of_report():
    text = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    listed = [kind for row in rows for kind in re.findall(r"`(\w+)`", row)]
    kinds = {words._KIND_OF_REPORT.get(kind, kind) for kind in protocol.REPORT_KINDS.values()}
    assert sorted(listed) == sorted(kinds)
    assert set(words._SENTENCES) == set(protocol.REPORT_KINDS.values())
