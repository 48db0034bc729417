"""Right kernels under random schedules bring no report. `make soak` makes a thousand such runs, here are 40."""

import pytest

from helpers import soak
from helpers.bugs import bug, plant
from helpers.rungs import PARTITIONS, RUNGS
from helpers.soak import Case, case, main, problem
from helpers.verify import checked_size

RUNS = 40


@pytest.mark.compiler
def test_right_kernels_bring_no_report():
    assert [text for text in soak.problems(range(RUNS)) if text] == []


def test_cases_cover_the_rungs_their_variants_and_odd_sizes():
    cases = [case(number) for number in range(soak.RUNS)]
    assert cases == [case(number) for number in range(soak.RUNS)]
    for drawn in cases:
        assert checked_size(drawn.rung, drawn.size) == drawn.size
    for rung in (*RUNGS, PARTITIONS):
        mine = [drawn for drawn in cases if drawn.rung == rung]
        assert len(mine) >= soak.RUNS // len(soak.KERNELS)
        assert {drawn.entry for drawn in mine} == {rung.entry, *rung.twins}
        settings = soak.VARIANTS.get(rung.number, ({},))
        assert len({str(drawn.defines) for drawn in mine}) == len(settings)
        steps = {-(-drawn.size[2] // rung.tile[2]) for drawn in mine}
        assert {1, 2, rung.stages, rung.stages + 1} <= steps
        for axis in range(3):
            is_ragged = any(drawn.size[axis] % rung.tile[axis] for drawn in mine)
            assert is_ragged == (rung.multiples[axis] < rung.tile[axis])
        if rung.persistent:
            assert any(tiles_of(drawn) > drawn.sms for drawn in mine)   # CTAs that compute several
        if rung.partitions:   # several clusters with a second round, and one that has none
            rounds = {(rung.grid(*drawn.size[:2], drawn.sms)[0] // 2, tiles_of(drawn) // 2) for drawn in mine}
            assert {(1, 4), (2, 4), (3, 4)} <= rounds and {"PARTITIONS": 0} in [drawn.defines for drawn in mine]


def test_cases_cover_fitted_tiles():
    mine = [drawn for drawn in map(case, range(soak.RUNS)) if drawn.rung.abreast]
    assert len(mine) >= soak.RUNS // len(soak.KERNELS)
    assert {drawn.rung.tile[0] for drawn in mine} == {192, 224, 256}
    assert {drawn.rung.stages for drawn in mine} == {2, 3, 4}
    sizes = [drawn.rung.tiles(*drawn.size[:2]) for drawn in mine]
    assert {rows for rows, _ in sizes} == {columns for _, columns in sizes} == {1, 2}
    assert any(drawn.size[1] % 256 > 128 for drawn in mine) and any(0 < drawn.size[1] % 256 <= 128 for drawn in mine)
    assert any(tiles_of(drawn) > drawn.sms for drawn in mine), "clusters that compute several"
    for drawn in mine:
        assert checked_size(drawn.rung, drawn.size) == drawn.size and drawn.rung.constants == drawn.defines


def test_cases_cover_the_variants_of_the_appendix():
    mine = [drawn for drawn in map(case, range(soak.RUNS)) if drawn.rung.split is not None]
    assert len(mine) >= soak.RUNS // len(soak.KERNELS)
    assert {drawn.rung.split for drawn in mine} == set(range(1, 9))
    assert {drawn.rung.tile[:2] for drawn in mine} == {(rows, n) for rows in (64, 128) for n in (64, 128, 192, 256)}
    assert {drawn.rung.stages for drawn in mine} == {1, 2, 3, 4}
    few = [drawn for drawn in mine if drawn.rung.most_rows is not None]
    assert 20 < len(few) < len(mine) - 20 and any(drawn.size[0] == drawn.rung.most_rows for drawn in few)
    for drawn in mine:
        assert checked_size(drawn.rung, drawn.size) == drawn.size
        assert {name: drawn.rung.constants[name] for name in drawn.defines} == drawn.defines
    assert any(drawn.size[2] <= 64 * drawn.rung.split // 2 for drawn in mine), "CTAs without a step"
    assert any(drawn.size[2] > 128 * drawn.rung.split * drawn.rung.stages for drawn in mine), "rings walked twice"


def tiles_of(drawn: Case) -> int:
    """Tiles of C, those of a cluster counted each."""
    m_tiles, n_tiles = drawn.rung.tiles(*drawn.size[:2])
    return m_tiles * n_tiles * drawn.rung.cluster


@pytest.mark.compiler
def test_what_goes_wrong_is_said(monkeypatch, capsys):
    early, dropped = bug("released_before_wait"), bug("last_step_dropped")
    by_report = Case(7, RUNGS[6], "matmul", early.size, 132, {"STAGES": 2})
    text = problem(by_report, plant(early))
    assert text.startswith("run 7, 07_pipelining.matmul, 128 x 256 x 320 -DSTAGES=2: ")
    assert "\nload_over_wgmma: Line " in text
    assert "left out" in problem(Case(8, RUNGS[6], "matmul", dropped.size, 132, {}), plant(dropped))

    monkeypatch.setattr(soak, "problem", lambda drawn: text if drawn.number == 5 else "")
    monkeypatch.setattr(soak, "BUGS", (bug("no_row_guard"),))
    assert main(["--runs", "3", "--seeds", "2"]) == 0
    said = capsys.readouterr().out
    assert "3 runs of right kernels in all, 0 bad, " in said and "3 runs of planted bugs in all, 0 bad, " in said
    assert main(["--runs", "3", "--first", "4", "--seeds", "0"]) == 1
    said = capsys.readouterr().out
    assert text in said and "3 runs of right kernels in all, 1 bad, " in said and "planted" not in said
