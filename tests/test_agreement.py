"""Two recordings of the ladder: compared by their ratio to cuBLAS, and never mixed up."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import agreement, records
from helpers.agreement import LIMIT, SECOND, SIZES, THIRD, Pair, pairs
from helpers.errors import RecordError
from helpers.held_clock import recorded_clocks
from helpers.order_speeds import find_orders
from helpers.profile import find_profile
from helpers.record_basics import RECORD_DIR
from helpers.records import Samples, find_record, load_records, write_record
from helpers.rungs import RUNGS, find_rung
from helpers.yardsticks import load_yardsticks

FIRST = find_record(1, 4096, 4096, 4096)


def slower(item, by: float):
    """The same measurement with a kernel that takes longer by a share."""
    kernel_ms = tuple(tuple(ms * (1 + by) for ms in samples) for samples in item.samples.kernel_ms)
    return replace(item, samples=Samples(kernel_ms, item.samples.cublas_ms))


@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path]:
    """Two folders with bursts of all rungs; the second one's kernels are all a per cent slower."""
    first, second = tmp_path / "first", tmp_path / "second"
    for rung in RUNGS:
        for n in SIZES:
            item = replace(FIRST, rung=rung.name, entry=rung.entry, m=n, n=n, k=n)
            write_record(item, first)
            write_record(slower(item, 0.01), second)
    return first, second


def test_all_rungs_agree_within_the_limit(folders, capsys) -> None:
    found = pairs(*folders)
    assert [(pair.first.rung, pair.first.n) for pair in found] == [(rung.name, n) for n in SIZES for rung in RUNGS]
    assert all(pair.difference == pytest.approx(1 / 1.01 - 1, abs=1e-4) and pair.problem == "" for pair in found)
    assert agreement.main([str(folder) for folder in folders]) == 0
    out = capsys.readouterr().out
    assert "first: NVIDIA H200, 2026-" in out and out.endswith("20 of 20 agree within 2%\n")
    assert out.count("-0.99%") == 40, "of the ratio and of the speed"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda item: slower(item, 0.03), "more than 2%"), (lambda item: slower(item, -0.03), "more than 2%"),
        (lambda item: replace(item, code_hash="0" * 16), "recorded of other code"),
        (None, "not recorded a second time"),
    ],
)
def test_a_rung_that_does_not_agree_is_named(folders, capsys, change, problem) -> None:
    first, second = folders
    path = records.record_path(replace(FIRST, rung="07_pipelining"), second)
    if change is None:
        path.unlink()
    else:
        write_record(change(replace(FIRST, rung="07_pipelining")), second)
    bad = [pair for pair in pairs(first, second) if pair.problem]
    assert [(pair.first.rung, pair.first.n, pair.problem) for pair in bad] == [("07_pipelining", 4096, problem)]
    assert agreement.main([str(first), str(second)]) == 1
    assert "19 of 20 agree" in capsys.readouterr().out


def beside_another_cublas(item, by: float):
    """The same measurement on a card whose power lets cuBLAS be slower by a share."""
    cublas_ms = tuple(tuple(ms * (1 + by) for ms in samples) for samples in item.samples.cublas_ms)
    return replace(item, samples=Samples(item.samples.kernel_ms, cublas_ms))


@pytest.mark.parametrize(("name", "agrees"), [("03_register_tiling", True), ("05_tma", True), ("06_wgmma", False)])
def test_a_rung_on_cuda_cores_agrees_by_its_own_speed(folders, capsys, name, agrees) -> None:
    first, second = folders
    write_record(beside_another_cublas(replace(FIRST, rung=name), 0.04), second)
    assert [pair.first.rung for pair in pairs(first, second) if pair.problem] == ([] if agrees else [name])
    assert agreement.main([str(first), str(second)]) == (0 if agrees else 1)
    out = capsys.readouterr().out
    assert ("20 of 20 agree within 2%, 1 of them by their own speed" in out) is agrees
    write_record(slower(beside_another_cublas(replace(FIRST, rung=name), 0.06), 0.03), second)
    assert [pair.first.rung for pair in pairs(first, second) if pair.problem] == [name], "its own speed is apart, too"


def test_only_the_rungs_themselves_are_compared(folders) -> None:
    first, second = folders
    small = {"n": 1024, "m": 1024, "k": 1024}
    for changes in ({"entry": "matmul_uncoalesced"}, {"defines": {"X": 1}}, {"m": 8192}, small):
        write_record(slower(replace(FIRST, **changes), 0.5), first)
    sustained = replace(FIRST, rung="10_clusters", regime="sustained")
    write_record(sustained, first)
    assert len(pairs(first, second)) == 20, "nobody asks for a second sustained recording"
    write_record(slower(sustained, 0.05), second)
    assert len(pairs(first, second)) == 21
    assert [pair.first.regime for pair in pairs(first, second) if pair.problem] == ["sustained"]
    assert len(pairs(first, second, (4096,), ("burst",))) == 10


def test_a_first_recording_without_a_rung_is_refused(folders) -> None:
    first, second = folders
    records.record_path(replace(FIRST, rung="03_register_tiling"), first).unlink()
    with pytest.raises(RecordError, match="has no burst at N=4096 of 03_register_tiling .*python -m helpers.record"):
        pairs(first, second)


def test_a_missing_folder_is_one_sentence(folders, capsys) -> None:
    assert agreement.main([str(folders[0]), "nowhere"]) == 1
    assert capsys.readouterr().err == (
        "nowhere is no folder: record one with `python -m helpers.record --output nowhere`.\n"
    )


def test_nothing_in_common_is_no_agreement(folders, capsys) -> None:
    twice = ["--regimes", "sustained", "sustained", "--sizes", "4096", "4096"]
    assert agreement.main([*map(str, folders), *twice]) == 1
    said = capsys.readouterr()
    assert "have no recording in common, sustained at N=4096: record both" in said.err and not said.out
    for size in ("0", "-1"):
        assert agreement.main([*map(str, folders), "--sizes", size]) == 1
        assert capsys.readouterr().err == f"size is {size}: it must be an integer of at least 1.\n"


def test_a_second_recording_of_another_gpu_has_no_partner(folders) -> None:
    first, second = folders
    shutil.rmtree(second)
    write_record(replace(FIRST, device=replace(FIRST.device, name="NVIDIA H100")), second)
    with pytest.raises(RecordError, match="on the GPU of"):
        pairs(first, second)


def test_the_second_recording_is_no_source_of_figures(tmp_path) -> None:
    """What lies in helpers/records/<device>/second is seen by none of the readers."""
    assert SECOND.parent.parent == RECORD_DIR
    inside = tmp_path / "nvidia-h200" / "second"
    if (RECORD_DIR / "nvidia-h200").is_dir():
        shutil.copytree(RECORD_DIR / "nvidia-h200", inside / "nvidia-h200")
    assert find_record(1, 4096, 4096, 4096, directory=inside) is not None, "the copy is whole"
    assert load_records(tmp_path) == [] and find_record(1, 4096, 4096, 4096, directory=tmp_path) is None
    assert load_yardsticks(directory=tmp_path) is None and load_yardsticks("nvidia-h200", tmp_path) is None
    assert find_profile(1, directory=tmp_path) is None and recorded_clocks("nvidia-h200", tmp_path) == ()
    assert find_orders(find_rung(8), 8192, directory=tmp_path) == {}


def test_the_committed_recordings_agree() -> None:
    """Two whole ladders of machines whose cards are alike, by the ratio alone."""
    found = pairs(SECOND, THIRD)
    assert {(pair.first.rung, pair.first.n) for pair in found if pair.first.regime == "burst"} >= {
        (rung.name, n) for rung in RUNGS for n in SIZES
    }
    for pair in found:
        name = f"{pair.first.rung} {pair.first.n} {pair.first.regime}"
        assert abs(pair.difference) <= LIMIT, f"{name}: see `python -m helpers.agreement` (limit {LIMIT:.0%})"
        assert pair.first.date != pair.second.date, "a copy is no second recording"
        assert pair.problem == "" and not pair.by_speed, f"{name}: {pair.problem}"


def test_a_pair_without_a_second_has_no_difference() -> None:
    assert Pair(FIRST, None).difference is None
