"""Exercises of notebooks 6 to 10: a planted fault can be read from its report, and is mended in more than one way."""

import re

import pytest

from helpers.exercises.kinds import Status, Verdict
from helpers.exercises.registry import find_exercise, solution_of

REFILL = "        if (threadIdx.x == 0 && step + BUFFERS < steps)"
WAIT = "        wgmma_wait_group<0>();   // until"
COUNT, ARRIVE = "CONSUMERS * 128);", "if (thread % 32 == 0) mbarrier_arrive("
STORE = "            store_sums(sums, C, m0 + consumer * 64, n0, M, N);"
FLAG = "        bool accumulate = false;   // the first wgmma starts from zero\n"
STEP = "            for (int step = 0; step < steps; ++step, place.advance()) {\n                mbarrier_wait("
READ = "cp_async_bulk_wait_group_read<2>"

RIGHT = {
    "06.4": (
        [(REFILL, f"        barrier_sync(1, 256);\n{REFILL}")],
        [("        wgmma_wait_group<0>();", "        wgmma_wait_group<0>();\n        __syncthreads();")],
    ),
    "07.4": (
        [(COUNT, "8);")],
        [(ARRIVE, "mbarrier_arrive(")],
        [(COUNT, "CONSUMERS);"), (ARRIVE, "barrier_sync(1 + consumer, 128); if (thread == 0) mbarrier_arrive(")],
    ),
    "08.4": (
        [("row % 2 == 0 ? column : n_tiles - column", "column")],
        [("n_tiles - column", "(n_tiles - column - 1)")],
    ),
    "09.4": (
        [(FLAG, ""), (STEP, f"            bool accumulate = false;\n{STEP}")],
        [("sums, a, b, accumulate);", "sums, a, b, step > 0 || k > 0);")],
        [(STORE, f"{STORE}\n            for (float& sum : sums) sum = 0.0f;")],
    ),
    "10.4": (
        [(READ, "cp_async_bulk_wait_group_read<0>")],
        [(f"if (thread == 0) {READ}", "cp_async_bulk_wait_group_read<1>")],
    ),
}
WRONG = {
    "06.4": (
        ((WAIT, f"        __syncthreads();\n{WAIT}"), "load over wgmma"),
        ((REFILL, f"        barrier_sync(1 + warpgroup, 128);\n{REFILL}"), "async race"),
        ((REFILL, f"        wgmma_wait_group<0>();\n{REFILL}"), "speaks only for the warp that waits"),
        (106, "look at line 106"),
        (36, "may lie in another"),
    ),
    "07.4": (
        ((COUNT, "128);"), "120 of 128 arrivals missing"),
        ((COUNT, "WARPS);"), "load over wgmma"),
        ([(COUNT, "CONSUMERS);"), ("thread % 32 == 0", "thread == 0")], "speaks only for the warp that waits"),
    ),
    "08.4": (
        (("n_tiles - column", "2 - column"), "wrong with M=384 N=256 K=64"),
        (("row % 2 == 0", "row % 2 == 1"), "this is tile (0, 0)"),
    ),
    "09.4": (
        (("sums, a, b, accumulate);", "sums, a, b, k > 0);"), "values of k were left out"),
        (("float sums[BN / 2];", "float sums[BN / 2] = {};"), "were not begun anew"),
    ),
    "10.4": (
        ((READ, "cp_async_bulk_wait_group_read<3>"), "write over store"),
        (("finished.stores++ % 2", "0"), "write over store"),
    ),
}  # fmt: skip


def judged(name: str, answer: object) -> Verdict:
    verdict = find_exercise(name).judge(answer)
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    return verdict


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "mending"), [(name, each) for name, some in RIGHT.items() for each in some])
def test_right_mendings(name, mending):
    verdict = judged(name, mending)
    assert verdict.status is Status.RIGHT, verdict.words


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "answer", "words"), [(name, *each) for name, some in WRONG.items() for each in some])
def test_wrong_mendings_are_told_apart(name, answer, words):
    verdict = judged(name, answer)
    assert verdict.status is Status.WRONG and words in verdict.words, verdict.words


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "words"), [
    ("06.4", "line 36 overwrites what wgmma of line 100 read, and no barrier orders the two"),
    ("07.4", "248 of 256 arrivals missing; thread (0,0,0), warp 0. warp 0: 1 lane waits at empty[0]"),
    ("08.4", "rows 128 to 255, columns 0 to 255 were never written; this is tile (1, 0)"),
    ("09.4", "tile (1, 0) of 128 x 256 holds its product plus that of tile (0, 0)"),
    ("10.4", "may still read: its thread waits with cp_async_bulk_wait_group_read<0>()"),
])
def test_the_report_leads_to_the_fault_and_does_not_give_the_mending(name, words):
    exercise = find_exercise(name)
    report = exercise.faulty.report()
    assert words in " ".join(report.split()), report
    assert all(new.strip() not in report for _, new in solution_of(exercise))


@pytest.mark.compiler
def test_a_deadlock_keeps_its_table():
    lines = find_exercise("07.4").faulty.report().splitlines()
    assert [line for line in lines if re.match(r"  warps? \d", line)] and "  warps 1-3: 32 lanes have exited" in lines


def test_of_a_long_sequence_the_first_wrong_item_is_shown():
    solution = solution_of(find_exercise("08.2"))

    def shifted(curve):
        return [[m, n - (place == 12)] for place, (m, n) in enumerate(solution(curve))]

    verdict = find_exercise("08.2").judge(shifted)
    assert verdict.words.endswith("your function gives [3, 0] as item [12]; it should give [3, 1] there.")
    assert find_exercise("08.2").judge(lambda curve: curve[:1] * 4).status is Status.WRONG
    longer = find_exercise("08.2").judge(lambda curve: solution(curve) + [[0, 0]] * (len(curve) > 1))
    assert longer.words.endswith("your function gives 17 items; it should give 16.")
