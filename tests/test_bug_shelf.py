"""The bug shelf: every planted bug is named by a report, and the kernels are right without it."""

from dataclasses import replace

import pytest

from helpers.bugs import BUGS, VERIFY, Bug, bug, fitted_tiles, is_named, partitions, plant, search, split_k
from helpers.bugs.__main__ import main
from helpers.bugs.find import PlantedBackend, planted_kernel, unchanged
from helpers.bugs.table import DOCUMENT, document
from helpers.emulator import Report
from helpers.emulator.compiler import find_compiler
from helpers.emulator.protocol import REPORT_KINDS
from helpers.errors import ArgumentError
from helpers.kernel import emulate
from helpers.rungs import APPENDIX, RUNGS, find_rung
from helpers.verify import verify

SCHEDULES = [("lazy", 0), ("random", 0), ("random", 1), ("random", 2)]   # `make soak` tries 20 seeds
LEAST_BUGS = 30
UNSET = {"accumulators_not_started"}   # the mistake is a variable that was never given a value


def expected(planted: Bug) -> list[pytest.MarkDecorator]:
    """A bug that the emulator does not notice yet fails, and that is noticed once it does not."""
    return [pytest.mark.xfail(reason=f"not noticed yet: {planted.gap}", strict=True)] if planted.gap else []


SHELF = [pytest.param(planted, id=planted.name, marks=expected(planted)) for planted in BUGS]


@pytest.mark.compiler
@pytest.mark.parametrize("planted", SHELF)
def test_every_bug_is_named_whatever_the_schedule(planted):
    if planted.name in UNSET and not find_compiler().fills_variables:
        pytest.skip("this compiler does not fill variables that are never given a value: take g++ 12 or newer")
    findings = [search(planted, *schedule) for schedule in SCHEDULES]
    assert [str(finding) for finding in findings if not finding.named_by] == []


@pytest.mark.compiler
@pytest.mark.parametrize(
    "planted", split_k.BUGS + fitted_tiles.BUGS + partitions.BUGS, ids=lambda planted: planted.name
)
def test_the_default_sizes_of_the_verification_notice_what_is_wrong_with_the_appendix(planted):
    outcome = verify(planted_kernel(planted, PlantedBackend(change=unchanged)))
    assert not outcome.passed and outcome.reason


@pytest.mark.compiler
@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_the_kernels_are_right_without_the_bugs(schedule):
    launches = {(find_rung(bug.rung), bug.size, bug.sms, tuple(bug.defines.items())) for bug in BUGS}
    for rung, size, sms, defines in launches:
        emulation = emulate(rung, size, schedule=schedule, seed=7, sms=sms, defines=dict(defines))
        assert emulation.run.reports == []
        assert emulation.verification.passed, emulation.verification.reason


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.name)
def test_every_bug_changes_a_rung_that_is_there(planted):
    path = plant(planted)   # raises where a text is not there once
    text, right = path.read_text(), find_rung(planted.rung).path.read_text()
    assert (text != right) == bool(planted.edits)
    assert planted.edits or planted.rung_fields or planted.make_change
    assert planted.fault and planted.why.endswith(".") and "|" not in planted.fault + planted.why
    assert planted.reports and all(words for _, words in planted.reports)
    known = {*REPORT_KINDS.values(), VERIFY}
    assert planted.gap or {kind for kind, _ in planted.reports} <= known


def test_the_shelf_covers_rungs_and_kinds():
    found = [planted for planted in BUGS if not planted.gap]
    assert len(found) >= LEAST_BUGS and len({planted.name for planted in BUGS}) == len(BUGS)
    assert {find_rung(planted.rung).name for planted in found} == {rung.name for rung in (*RUNGS, *APPENDIX)}
    assert len({kind for planted in found for kind, _ in planted.reports}) >= 20


def test_a_bug_is_named_by_its_own_report_only():
    planted = replace(bug("no_wait_for_copy"), reports=(("async_race", "TMA load"), (VERIFY, "left out")))
    assert is_named(planted, Report("async_race", "The TMA load of line 3"))
    assert is_named(planted, Report("async_race", "A wait", details=("of a TMA load",)))
    assert is_named(planted, Report(VERIFY, "the last values were left out"))
    assert not is_named(planted, Report("race", "The TMA load of line 3"))
    assert not is_named(planted, Report("async_race", "The TMA store of line 3"))
    with pytest.raises(ArgumentError, match="bug 'no_such' is not on the shelf: give one of no_row_guard, "):
        bug("no_such")


@pytest.mark.compiler
def test_what_is_not_named_is_said():
    planted = replace(bug("tail_of_k_dropped"), reports=((VERIFY, "the last 7 values"),))
    finding = search(planted, "random", 3)
    assert finding.named_by is None and "the last 6 values of k were left out" in finding.verdict
    assert str(finding).startswith("tail_of_k_dropped, random 3: NOT NAMED, but said was: C is wrong")
    right = search(replace(planted, edits=()))
    assert right.reports == () and right.verdict == "" and str(right).endswith("but said was: nothing")


def test_the_page_is_what_the_shelf_says(tmp_path, capsys):
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `python -m helpers.bugs`"
    assert all(f"\n| `{planted.name}` | " in document() for planted in BUGS)
    other = tmp_path / "bugs.md"
    assert main(["--check", "--file", str(other)]) == 1
    assert capsys.readouterr().err == "bugs.md is not what the bug shelf says: run `python -m helpers.bugs`.\n"
    assert main(["--file", str(other)]) == 0 and main(["--check", "--file", str(other)]) == 0
    other.write_text(other.read_text() + "more\n")
    assert main(["--check", "--file", str(other)]) == 1
