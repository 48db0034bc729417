"""Every exercise accepts its solution, refuses nothing with a traceback, and has three hints."""

import ast
import difflib
import inspect
import re
import threading
import time

import numpy as np
import pytest

from helpers.bugs import BUGS
from helpers.errors import ArgumentError, BackendError
from helpers.exercises import Function, KernelChange, Number, edit, faulty
from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Exercise, Status, Written
from helpers.exercises.place_map import PlaceMap
from helpers.exercises.registry import all_exercises, find_exercise, solution_of
from helpers.exercises.session import Session
from helpers.notebooks import read_notebook
from helpers.rungs import RUNGS
from helpers.variants import replace_in

EXERCISES = all_exercises()
HINTS = ("look", "look closer", "it is 32")


def of_kind(kind):
    return [exercise for exercise in EXERCISES if isinstance(exercise, kind)]


def number(**fields):
    return Number(**{"id": "99.1", "hints": HINTS, "because": "a sector each.", "expected": 32} | fields)


PAIR = number(expected=lambda: (2, 32.0), names=("coalesced", "uncoalesced"), tolerance=0.01)
ROW = Function(
    id="99.2",
    hints=HINTS,
    because="a warp is a row.",
    names=("thread", "tile"),
    reference=lambda thread, tile: thread // tile,
    points=((0, 32), (33, 32), (5, 2)),
)
TWIN = KernelChange(
    id="99.3",
    hints=HINTS,
    because="lanes along a row.",
    rung=1,
    size=(33, 40, 8),
    goal=lambda emulation: None if emulation.run.totals["global_load_requests"] else "it loads nothing.",
)

KINDS = ["number", "pair", "function", "kernel", "fault"]
LOADED = 'B[size_t(b_row) * N + column]) : 0.0f;'
FAULT = FindTheBug.planted(
    "no_barrier_after_loading", id="99.5", hints=HINTS, because="all threads load.", more_sizes=((64, 64, 64),)
)


class Hostile:
    """An answer that fails at whatever is done with it."""

    def __getattribute__(self, name):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    def __eq__(self, other):
        raise RuntimeError("no")


def silly_answers():
    return [
        "", "32", "no\nkernel", "x.cu", b"32", True, float("nan"), float("inf"), 1j, 10**400, -1, [], (), {}, {1, 2},
        [[1, 2], [3, 4]], (1, 2, 3), ("a", "b"), [("a",)], {"TILE": object()}, {"": 1}, object(), Hostile(), int, len,
        lambda: 1, lambda *x: None, lambda *x: 1 / 0, lambda *x: "text", lambda *x: exit(3), np.zeros((2, 2)),
        np.array("a"), np.datetime64("2020-01-01"), Exception, range(3),
    ]  # fmt: skip


# The exercises of the notebooks


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_solution_passes_and_skeleton_is_open(exercise):
    assert exercise.judge(...).status is Status.OPEN
    verdict = exercise.judge(solution_of(exercise))
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert verdict.status is Status.RIGHT, verdict.words


@pytest.mark.parametrize("exercise", of_kind(Number), ids=lambda exercise: exercise.id)
def test_listed_mistakes_are_wrong(exercise):
    for wrong, words in exercise.mistakes:
        verdict = exercise.judge(wrong)
        assert verdict.status is Status.WRONG and verdict.words == words


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_hints_are_three_different_sentences(exercise):
    assert len(set(exercise.hints)) == 3
    assert all(hint[0].isupper() or not hint[0].isalpha() for hint in exercise.hints)
    assert all(hint.endswith((".", "?", ":", "`")) for hint in exercise.hints)


def test_ids_are_unique_and_every_notebook_has_two():
    ids = [exercise.id for exercise in EXERCISES]
    assert len(ids) == len(set(ids))
    for rung in RUNGS:
        if rung.notebook.exists():
            mine = [name for name in ids if name.startswith(f"{rung.number:02d}.")]
            assert len(mine) >= 2, rung.name
            text = rung.notebook.read_text(encoding="utf-8")
            assert all(f'check(\\"{name}\\"' in text for name in mine), f"{rung.name} leaves out one of {mine}"


def test_padding_is_asked_of_the_transposed_tile():
    exercise = find_exercise("02.3")
    plain = edit("02_smem_tiling", ("// 3. Store: lanes along a row of C.", "// 3. Store."))
    verdict = exercise.judge(plain)
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert verdict.status is Status.WRONG and "transposed" in verdict.words
    assert "whole kernel" in exercise.judge("A_tile[TILE][TILE + 1]").words


WAIT_AND_RELEASE = """wgmma_wait_group<0>();   // the tensor cores have read the stage for this warp
            if (thread % 32 == 0) mbarrier_arrive(&shared.empty[place.stage]);
        }
"""
HELD = """{wait}
            if ({when}thread % 32 == 0) mbarrier_arrive(&shared.empty[(place.stage + STAGES - 1) % STAGES]);
        }}
        {end}
"""
IN_FLIGHT, ALL_DONE = "wgmma_wait_group<1>();", "wgmma_wait_group<0>();"
RING = {   # exercise 07.3: a consumer's step, and what the verdict says
    "waits for all in the last step": (
        HELD.format(wait=f"if (step == steps - 1) {ALL_DONE} else {IN_FLIGHT}", when="step > 0 && ", end=""), "queue"),
    "gives the last stage back too": (
        HELD.format(wait=IN_FLIGHT, when="step > 0 && ", end=f"{ALL_DONE} if (thread % 32 == 0) "
                    "mbarrier_arrive(&shared.empty[(steps - 1) % STAGES]);"), "queue"),
    "asserts that there are two stages": (
        HELD.format(wait="static_assert(STAGES >= 2); " + IN_FLIGHT, when="step > 0 && ", end=ALL_DONE), "queue"),
    "waits for all after all": (WAIT_AND_RELEASE.replace(ALL_DONE, IN_FLIGHT + ALL_DONE), "no group runs on"),
    "gives back what nobody read": (HELD.format(wait=IN_FLIGHT, when="", end=ALL_DONE), "load over wgmma"),
    "stores too early": (HELD.format(wait=IN_FLIGHT, when="step > 0 && ", end=""), "accumulator read"),
}


@pytest.mark.parametrize("name", RING)
def test_near_misses_of_a_group_in_flight(name):
    step, words = RING[name]
    verdict = find_exercise("07.3").judge([(WAIT_AND_RELEASE, step)])
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert words in verdict.words and (verdict.status is Status.RIGHT) == (words == "queue"), verdict.words


@pytest.mark.parametrize(("done", "words"), [
    ("(i - blockIdx.x) / gridDim.x * steps", "count the same steps"),
    ("i / 2 * steps", "not for 3"),
    ("i * steps", "async race"),
])
def test_near_misses_of_computed_places(done, words):
    verdict = find_exercise("09.3").judge(find_exercise("09.3").start.replace("at(step)", f"at({done} + step)"))
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert words in verdict.words, verdict.words


FOR_ONE_SIZE = {   # right at the size that the reader has seen, and nowhere else
    "05.3": ([("full[buffer], 1);", "full[buffer], 2 + K / 64);")], "reports deadlock"),
    "08.3": (
        [
            ("    const int tile = order[blockIdx.x];\n", "    const int first = blockIdx.x / 12 * 4;\n"),
            ("(tile & 0xffff) * BM, n0 = (tile >> 16) * BN;",
             "(first + (blockIdx.x - 3 * first) % min(4, 6 - first)) * BM;\n"
             "    const int n0 = (blockIdx.x - 3 * first) / min(4, 6 - first) * BN;"),
        ],
        "result is wrong",
    ),
    "09.3": (find_exercise("09.3").start.replace("at(step)", "at(i / gridDim.x * 5 + step)"), "wgmma unwritten"),
}


@pytest.mark.compiler
@pytest.mark.parametrize("name", FOR_ONE_SIZE)
def test_a_kernel_for_one_size_only_is_refused(name):
    answer, words = FOR_ONE_SIZE[name]
    verdict = find_exercise(name).judge(answer)
    assert verdict.status is Status.WRONG, verdict.words
    (m, n, k), = find_exercise(name).more_sizes
    assert words in verdict.words and f" with M={m} N={n} K={k}: " in verdict.words


def test_every_kernel_is_run_at_two_sizes_at_least():
    assert all(exercise.more_sizes for exercise in of_kind(KernelChange))


@pytest.mark.compiler
@pytest.mark.parametrize("exercise", of_kind(FindTheBug), ids=lambda exercise: exercise.id)
def test_faulty_kernels_show_a_symptom_and_their_solution_mends_it(exercise):
    case = exercise.faulty
    emulation = case.run()
    assert emulation.run.reports or not emulation.verification.passed or exercise.goal(emulation)
    assert repr(case) == f"FaultyKernel(file={case.file!r})", "which tells no edits"
    assert "M={} N={} K={}".format(*exercise.size) in case.report() and case.file.read_text() == exercise.start
    solution = solution_of(exercise)
    assert all(old in exercise.start for old, _ in solution), "the solution is made of texts of the faulty kernel"
    assert exercise.judge([]).words == "this is the kernel as it was: change it first."
    assert exercise.judge(edit(exercise.rung)).status is Status.RIGHT


MENDINGS = {
    "01.4": (
        [[("* K + column", "* N + column")]],
        [
            ([("* K + column", "* M + column")], "reports out of bounds"),
            ([("* K + column", "* N + row")], "reports out of bounds"),
            ([("k < K; ++k", "k < N; ++k")], "result is wrong"),
        ],
    ),
    "02.4": (
        [
            [("    if (row >= M || column >= N) return;\n", ""),
             ("    // 3. Store: lanes along a row of C.\n", "    if (row >= M || column >= N) return;\n")],
            edit("02_smem_tiling"),
        ],
        [
            ([("    if (row >= M || column >= N) return;\n", "")], "reports out of bounds"),
            ([("|| column >= N", "")], "reports out of bounds"),
            ([("row >= M || column >= N", "row >= M && column >= N")], "reports out of bounds"),
        ],
    ),
    "03.4": (
        [
            [("TN * thread_chunk + j", "4 * j + thread_chunk")],
            [("thread_chunk + 4 * j)]", "TN * thread_chunk + j)]")],   # then the thread computes neighbours
        ],
        [
            ([("TN * thread_chunk + j", "thread_chunk + j")], "never written"),
            ([("TN * thread_chunk + j", "thread_chunk + 8 * j")], "reports out of bounds"),
        ],
    ),
    "04.4": (
        [
            [("chunk ^ row % 8", "chunk ^ row / 8 % 8")],
            [("chunk ^ row % 8", "chunk ^ (row / 8 + row) % 8")],
        ],
        [
            ([("chunk ^ row % 8", "chunk ^ row / 4 % 8")], "line 92 takes 8 wavefronts"),
            ([("lane % 8 * 8;", "lane % 8;")], "never written"),
            ([("SWIZZLE ? ", "")], "does not compile"),
        ],
    ),
    "05.4": (
        [
            [("step < BUFFERS; ++step", "step < min(BUFFERS, steps); ++step")],
            [("step < BUFFERS; ++step) load", "step < BUFFERS; ++step) if (step < steps) load")],
        ],
        [
            ([("step < BUFFERS; ++step", "step < BUFFERS - 1; ++step")], "deadlock"),
            ([("step < BUFFERS; ++step", "step < steps; ++step")], "with M=128 N=256 K=320"),
            ([("step + BUFFERS < steps", "step + BUFFERS <= steps")], "exit unwaited"),
        ],
    ),
}


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "mending"), [(name, one) for name, (some, _) in MENDINGS.items() for one in some])
def test_other_mendings_are_right_too(name, mending):
    verdict = find_exercise(name).judge(mending)
    assert verdict.status is Status.RIGHT, verdict.words


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("name", "answer", "words"), [(name, *one) for name, (_, some) in MENDINGS.items() for one in some]
)
def test_mendings_that_do_not_do_are_told_why(name, answer, words):
    verdict = find_exercise(name).judge(answer)
    assert verdict.status is Status.WRONG and words in verdict.words, verdict.words


# What the notebooks say


def cells_of(exercise):
    """The cells of an exercise's notebook up to the one that checks it."""
    found = next(rung.notebook for rung in RUNGS if exercise.id.startswith(f"{rung.number:02d}."))
    cells = read_notebook(found).cells
    place = next(i for i, cell in enumerate(cells) if f'check("{exercise.id}"' in cell.source)
    return cells[:place + 1]


def cell_of(exercise):
    """The source of the cell that checks an exercise, and the text before it that asks for it."""
    cells = cells_of(exercise)
    return cells[-1].source, next(c.source for c in cells[::-1] if f"**{exercise.id}**" in c.source)


@pytest.mark.parametrize("exercise", of_kind((Function, PlaceMap)), ids=lambda exercise: exercise.id)
def test_a_skeleton_is_its_solution_without_the_readers_lines(exercise):
    cell, text = cell_of(exercise)
    solution = solution_of(exercise)
    skeleton = next(node for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef))
    whole = ast.parse(inspect.getsource(solution)).body[0]
    assert skeleton.name == whole.name
    assert [a.arg for a in skeleton.args.args] == [a.arg for a in whole.args.args] == list(exercise.names)
    assert ast.unparse(skeleton.body[-1]) == "return ..."
    kept = [ast.unparse(node) for node in skeleton.body[:-1]]
    assert [ast.unparse(node) for node in whole.body[:len(kept)]] == kept
    rows = inspect.getsource(solution).splitlines()[whole.body[len(kept)].lineno - 1:]
    assert len([row for row in rows if row.strip()]) == exercise.lines
    assert_length_is_stated(exercise, text)


def assert_length_is_stated(exercise, text):
    """The notebook says how many lines, numbers or places are the reader's; "about" means one more or less."""
    numbers = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    found = re.search(r"\([^()]*?(about )?(\w+) (?:line|number|place)s?\.?\)", text, re.IGNORECASE)
    assert found, f"{exercise.id} does not say how long its answer is"
    stated = int(found[2]) if found[2].isdigit() else numbers.index(found[2].lower())
    assert abs(stated - exercise.lines) <= bool(found[1]), (stated, exercise.lines)


@pytest.mark.parametrize(
    "exercise", [e for e in of_kind(KernelChange) if not isinstance(e, FindTheBug)], ids=lambda exercise: exercise.id
)
def test_a_kernel_to_change_is_its_solution_without_the_readers_lines(exercise):
    cell, text = cell_of(exercise)
    solution = solution_of(exercise)
    whole = solution if isinstance(solution, str) else replace_in(exercise.start, "the start", *solution)
    matcher = difflib.SequenceMatcher(None, exercise.start.splitlines(), whole.splitlines(), autojunk=False)
    changed = [max(j - i, n - k) for tag, i, j, k, n in matcher.get_opcodes() if tag != "equal"]
    assert sum(changed) == exercise.lines
    assert_length_is_stated(exercise, text)
    if exercise.edits:
        assert exercise.start in made_kernels(exercise), "the notebook makes the kernel to start from"


def made_kernels(exercise):
    """The texts of kernels that the exercise's cell makes with `edit`, from texts that it or a cell before it names."""
    sources = [cell.source for cell in cells_of(exercise) if cell.cell_type == "code"]
    assigned = [[node for node in ast.parse(source).body if isinstance(node, ast.Assign)] for source in sources]
    texts = [node for nodes in assigned for node in nodes if isinstance(node.value, ast.Constant)]
    names = {"edit": edit}
    for node in texts + [node for node in assigned[-1] if "emulate" not in ast.unparse(node.value)]:
        exec(compile(ast.Module([node], []), "cell", "exec"), names)   # a cell of our own notebook
    return [value for value in names.values() if isinstance(value, str)]


@pytest.mark.parametrize("exercise", of_kind(FindTheBug), ids=lambda exercise: exercise.id)
def test_a_notebook_does_not_tell_the_fault_it_asks_for(exercise):
    cell, text = cell_of(exercise)
    assert "find the bug" in text.lower()
    told = cell + text + exercise.hints[0]
    pieces = [piece.strip() for pair in (*exercise.edits, *solution_of(exercise)) for piece in pair]
    assert not any(piece in told for piece in pieces if piece)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_notebook_has_three_to_five_exercises_of_three_kinds(rung):
    mine = [exercise for exercise in EXERCISES if exercise.id.startswith(f"{rung.number:02d}.")]
    assert 3 <= len(mine) <= 5
    assert any(isinstance(exercise, Number) for exercise in mine)
    assert sum(isinstance(exercise, FindTheBug) for exercise in mine) == 1
    faults = of_kind(FindTheBug)
    assert any(isinstance(exercise, Written | KernelChange) and exercise not in faults for exercise in mine)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_solutions_can_be_pasted_into_the_notebook(exercise, capsys):
    Session().solution(exercise.id)
    printed = capsys.readouterr().out
    cell, _ = cell_of(exercise)
    variable = re.search(rf'check\("{exercise.id}", (\w+)\)', cell)[1]
    names = {}
    exec(printed.split("\n\n", 1)[1].rpartition("\n\n")[0], names)   # between the head and the reason
    verdict = exercise.judge(names[variable])
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert verdict.status is Status.RIGHT, verdict.words


@pytest.mark.parametrize("exercise", of_kind(KernelChange), ids=lambda exercise: exercise.id)
def test_a_kernel_that_was_not_changed_is_told_so(exercise):
    assert "do not change the kernel's text" in exercise.judge({"STAGES": 2}).words
    for answer in (exercise.start, [], [("#include <cuda_bf16.h>", "#include <cuda_bf16.h>")]):
        assert exercise.judge(answer).words == "this is the kernel as it was: change it first."


PLAIN = [
    "", "32", b"32", True, float("nan"), 1j, 10**400, (1, 2, 3, 4, 5), {1, 2}, object(), Hostile(), int, lambda: 1,
    lambda *x: None, lambda *x: 1 / 0, lambda *x: exit(3), lambda *x: "text", lambda *x: np.zeros((2, 2)),
    lambda *x: [[], [1]], np.zeros((2, 2)), np.array([None]), Exception, range(3), [1], [("a", "b", "c")], {},
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(PLAIN)))
def test_no_exercise_of_the_notebooks_is_upset_by_a_silly_answer(index):
    for exercise in EXERCISES:
        verdict = exercise.judge(PLAIN[index])
        assert verdict.status is not Status.RIGHT, exercise.id
        assert verdict.words.endswith((".", "?")), (exercise.id, verdict.words)
        if not isinstance(PLAIN[index], Hostile):
            assert "could not be checked" not in verdict.words, (exercise.id, verdict.words)


# The framework


@pytest.mark.parametrize("exercise", [number(), PAIR, ROW, TWIN, FAULT], ids=KINDS)
@pytest.mark.parametrize("index", range(len(silly_answers())))
def test_silly_answers_get_a_sentence(exercise, index):
    verdict = exercise.judge(silly_answers()[index])
    assert verdict.status in (Status.WRONG, Status.UNCHECKED)
    assert verdict.words.strip() and "Traceback" not in verdict.words


@pytest.mark.parametrize("answer", [..., None, (1, ...), [("a", ...)], {"TILE": ...}])
@pytest.mark.parametrize("exercise", [number(), PAIR, ROW, TWIN, FAULT], ids=KINDS)
def test_unanswered_gets_a_kind_sentence(exercise, answer):
    verdict = exercise.judge(answer)
    assert verdict.status is Status.OPEN
    assert "three dots" in verdict.words


def test_a_function_that_is_not_written_is_open():
    assert ROW.judge(lambda thread, tile: ...).status is Status.OPEN
    assert "lack a `return`" in ROW.judge(lambda thread, tile: None).words


def forever(*point):
    while True:
        try:
            pass
        except Exception:
            pass


def test_a_function_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(Exercise, "seconds", 0.2)
    started = time.monotonic()
    for exercise in (ROW, *of_kind((Function, PlaceMap))):
        verdict = exercise.judge(forever)
        assert verdict.status is Status.WRONG and "stopped after 0.2 seconds" in verdict.words
    assert time.monotonic() - started < 10
    assert ROW.judge(lambda thread, tile: thread // tile).status is Status.RIGHT


@pytest.mark.compiler
def test_a_kernel_that_does_not_end_is_stopped(monkeypatch):
    monkeypatch.setattr(KernelChange, "seconds", 4)
    verdict = FAULT.judge((LOADED, LOADED + " volatile int x = 1; while (x) {}"))
    assert verdict.status is Status.WRONG and "loop that never ends" in verdict.words
    monkeypatch.undo()
    assert FAULT.judge(edit(2)).status is Status.RIGHT


def test_what_a_goal_cannot_compile_is_said_in_words():
    exercise = find_exercise("08.3")
    text = replace_in(exercise.start, "the start", *solution_of(exercise))
    verdict = exercise.judge(text.replace("sums", "totals"))
    if verdict.status is Status.UNCHECKED:
        pytest.skip(verdict.words)
    assert verdict.status is Status.WRONG and "the check adds a line" in verdict.words, verdict.words


def test_a_machine_that_cannot_check_is_not_the_answers_fault(monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", "/proc/nowhere")
    verdict = TWIN.judge([("float sum = 0.0f", "float sum = 1000.0f")])
    assert verdict.status is Status.UNCHECKED and "set HOPPER_CACHE to a folder" in verdict.words, verdict.words


def test_the_time_to_build_the_emulator_is_not_the_answers(monkeypatch):
    monkeypatch.setattr(KernelChange, "seconds", 0.3)
    monkeypatch.setattr(KernelChange, "_problem", lambda exercise, answer: "run.")
    built = []
    monkeypatch.setattr("helpers.emulator.build.build_runtime", lambda: built.append(time.sleep(0.5)))
    assert TWIN.judge("text").words == "run." and built

    def no_compiler():
        raise BackendError("no compiler")

    monkeypatch.setattr("helpers.emulator.build.build_runtime", no_compiler)
    assert TWIN.judge("text").words == "run."
    assert TWIN.judge(...).status is Status.OPEN


def test_checks_in_other_threads_have_no_limit():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(number().judge(32)))
    thread.start()
    thread.join()
    assert verdicts[0].status is Status.RIGHT


@pytest.mark.parametrize(("answer", "words"), [
    (None, "three dots"),
    (lambda row, chunk: ..., "three dots"),
    (lambda row, chunk: None, "at row=0, chunk=0 your function returns nothing"),
    (lambda row, chunk: chunk if row < 9 else None, "at row=9, chunk=0 your function returns nothing"),
    (lambda row, chunk: chunk if row < 9 else [][0], "at row=9, chunk=0 your function stops with IndexError"),
    (lambda row, chunk: (chunk ^ row % 8) / 1, "gives 0.0; a place in the row is a whole number, 0 to 7"),
    (lambda row, chunk: row + chunk, "at row=1, chunk=7 your function gives 8; a place in the row"),
    (lambda row, chunk: 0, "in row 0 the chunks go to [0, 0, 0, 0, 0, 0, 0, 0]"),
    (lambda row, chunk: chunk, "still take 8 wavefronts"),
    (lambda row: row, "stops with TypeError"),
    ("chunk ^ row", "a function of row, chunk is asked for"),
])
def test_maps_of_places_are_told_what_is_wrong(answer, words):
    verdict = find_exercise("03.3").judge(answer)
    assert verdict.status is not Status.RIGHT and words in verdict.words, verdict.words


@pytest.mark.parametrize("answer", [32, 32.0, np.int64(32), np.float32(32), np.array(32), [32], np.array([32])])
@pytest.mark.filterwarnings("error")
def test_numbers_of_any_type_are_right(answer):
    assert number().judge(answer).status is Status.RIGHT


def test_wrong_numbers_are_told_apart():
    exercise = number(mistakes=((2, "that is the coalesced kernel."),), names=("sectors",))
    assert exercise.judge(31).words == "sectors: 31 is too small."
    assert exercise.judge(33).words == "sectors: 33 is too large."
    assert exercise.judge(2).words == "that is the coalesced kernel."
    assert PAIR.judge((2, 32.2)).status is Status.RIGHT
    assert PAIR.judge((2, 33)).words == "uncoalesced: 33 is too large."
    assert "a tuple of 2 numbers" in PAIR.judge(2).words
    assert "without quotation marks" in PAIR.judge("2, 32").words


@pytest.mark.parametrize(("value", "shown"), [("0", "'0'"), (["0"], "['0']"), (b"0", "b'0'"), (10**400, "1000")])
def test_what_only_looks_like_the_number_is_refused_in_words(value, shown):
    verdict = ROW.judge(lambda thread, tile: value)
    assert verdict.status is Status.WRONG
    assert verdict.words.startswith(f"at thread=0, tile=32 your function gives {shown}"), verdict.words


def test_functions_are_compared_at_points():
    assert ROW.judge(lambda thread, tile: thread // tile).status is Status.RIGHT
    assert ROW.judge(lambda t, n: t % n).words == "at thread=5, tile=2 your function gives 1; it should give 2."
    assert ROW.judge(lambda t, n: t).words == "at thread=33, tile=32 your function gives 33; it should give 1."
    assert "at thread=0, tile=32 your function stops with ZeroDivisionError" in ROW.judge(lambda t, n: n // t).words
    assert "stops with TypeError" in ROW.judge(lambda t: t).words


@pytest.mark.compiler
def test_kernels_run_on_the_emulator():
    swapped = [
        ("threadIdx.x / TILE;\n    const int column = blockIdx.x * TILE + threadIdx.x % TILE", "threadIdx.x % TILE;\n"
         "    const int column = blockIdx.x * TILE + threadIdx.x / TILE"),
    ]  # fmt: skip
    assert TWIN.judge(swapped).status is Status.RIGHT
    assert TWIN.judge(edit(1, *swapped)).status is Status.RIGHT
    assert "as it was" in TWIN.judge(edit(1)).words
    assert "result is wrong" in TWIN.judge([("float sum = 0.0f", "float sum = 1000.0f")]).words
    assert "reports out of bounds" in TWIN.judge([("row >= M || column >= N", "row > M || column >= N")]).words
    broken = TWIN.judge([("float sum = 0.0f;", "float sum = 0.0f")])
    assert "does not compile" in broken.words and broken.status is Status.WRONG
    demanding = KernelChange(id="99.4", hints=HINTS, because="x", rung=1, size=(8, 8, 8), goal=lambda run: "do more.")
    assert demanding.judge(swapped).words == "do more."


@pytest.mark.compiler
@pytest.mark.parametrize("mending", [
    (LOADED, LOADED + " __syncthreads();"),
    [(LOADED, LOADED + "\n" + 8 * " " + "__syncthreads();")],
    [("#pragma unroll", "__syncthreads();\n#pragma unroll")],
    edit(2),
])
def test_every_right_mending_is_right(mending):
    assert FAULT.judge(mending).status is Status.RIGHT


@pytest.mark.compiler
@pytest.mark.parametrize(("mending", "words"), [
    ((LOADED, LOADED + " __syncwarp();"), "reports race"),
    ((LOADED, LOADED + " if (K == 70) __syncthreads();"), "reports race"),
    ((LOADED, LOADED + " if (tile_row < 8) __syncthreads();"), "reports race"),
    ((LOADED, LOADED + " syncthreads();"), "does not compile"),
    ((LOADED, LOADED.replace(" :", " * 2.0f :") + " __syncthreads();"), "result is wrong"),
    ([(LOADED, LOADED)], "as it was"),
    ({"TILE": 16}, "do not change the kernel's text"),
    (34, "look at line 34"),
    (35, "look at line 35"),
    (np.int64(31), "elsewhere than in line 31"),
    (-1, "elsewhere than in line -1"),
])
def test_a_mending_that_does_not_do_is_told_why(mending, words):
    verdict = FAULT.judge(mending)
    assert verdict.status is Status.WRONG and words in verdict.words, verdict.words


@pytest.mark.compiler
def test_the_faulty_kernel_can_be_run_and_read(monkeypatch):
    monkeypatch.setattr("helpers.exercises.registry.exercises", lambda notebook: (FAULT, ROW))
    case = faulty("99.5")
    assert case.report().startswith("02_smem_tiling with a fault, M=40 N=48 K=70: 2 reports\nLine 31 writes")
    assert "M=32 N=32 K=70, random schedule 5: " in case.report((32, 32, 70), schedule="random", seed=5)
    assert "31 >         A_tile" in case.source.text and "35 \n" in case.source.text.replace("35   ", "35 ")
    assert FAULT.start.count("__syncthreads") == 1 and "\n        \n" not in FAULT.start
    with pytest.raises(ArgumentError, match="has no faulty kernel"):
        faulty("99.2")
    with pytest.raises(ArgumentError, match="does not exist"):
        faulty("99.9")


def test_a_bug_on_the_host_is_no_exercise():
    host = [bug.name for bug in BUGS if not bug.edits or bug.rung_fields or bug.make_change or bug.calls_again]
    assert host
    for name in host:
        with pytest.raises(ValueError, match=name):
            FindTheBug.planted(name, id="99.5", hints=HINTS, because="x.")


def test_edit_names_what_does_not_fit():
    with pytest.raises(ArgumentError, match="is not there"):
        edit(1, ("no such text", ""))
    with pytest.raises(ArgumentError, match=r"is there \d+ times"):
        edit(1, ("TILE", "T"))
    with pytest.raises(ArgumentError, match="not a pair"):
        edit(1, "text")


@pytest.mark.parametrize("fields", [{"hints": ("a", "b")}, {"hints": ("a", "", "c")}, {"because": " "}])
def test_an_incomplete_exercise_cannot_be_written(fields):
    with pytest.raises(ValueError, match="99.1"):
        number(**fields)


@pytest.fixture
def session(monkeypatch):
    exercise = number()
    registry = "helpers.exercises.registry"
    monkeypatch.setattr(f"{registry}.exercises", lambda notebook: (exercise,) if notebook == "99" else ())
    monkeypatch.setattr(f"{registry}.solution_of", lambda exercise: 32)
    return Session()


def test_hints_come_one_at_a_time_and_check_mentions_them_once(session, capsys):
    session.check("99.1", ...)
    session.check("99.1", 1)
    assert capsys.readouterr().out.count("hint(") == 2
    for step, text in enumerate(HINTS, 1):
        session.hint("99.1")
        assert capsys.readouterr().out == f"99.1 hint {step} of 3: {text}\n"
    session.hint("99.1")
    assert 'solution("99.1")' in capsys.readouterr().out
    session.check("99.1", 1)
    session.check("99.1", 32)
    assert capsys.readouterr().out.splitlines()[-1] == "99.1 right: a sector each."
    session.solution("99.1")
    assert "answer = 32" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["99.7", "98.1", "", "x", None, 99.1, ..., "../../x", [], "99.1 "])
def test_unknown_exercises_get_a_sentence(session, capsys, name):
    session.check(name, 1)
    session.hint(name)
    session.solution(name)
    assert capsys.readouterr().out.count("does not exist") == 3


def test_find_exercise_finds_all():
    assert [find_exercise(exercise.id) for exercise in EXERCISES] == list(EXERCISES)
