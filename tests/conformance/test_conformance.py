"""The emulator answers as the hardware did, byte for byte, under every schedule; and both as the documentation says."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from helpers.arrays import BFLOAT16
from helpers.cuda import compile_report
from helpers.errors import ArgumentError, RecordError
from helpers.gpu import probe

from . import record, recording
from .backends import RuleBroken, cubin, run
from .cases import Arrays, Box, Case
from .catalogue import AWAITED, CASES, MAKERS, entries_of

SCHEDULES = (("lazy", 0, False), ("eager", 0, False), ("random", 1, False), ("random", 2, False), ("lazy", 0, True))
DEVICE = {"name": "Some  GPU"}
FILES = sorted({case.file for case in CASES})
EMULATED = [case for case in CASES if not case.hardware_only and not case.refused]
REFUSED = [case for case in CASES if case.refused]
PREDICTED = [case for case in CASES if case.expected is not None]
RECORDED = [case for case in CASES if case.name not in AWAITED]


@cache
def reference() -> recording.Recording:
    return recording.read()


def answer_of(case: Case) -> Arrays | str:
    """The hardware's answer; where it is awaited, what is predicted."""
    return case.prediction() if case.name in AWAITED else reference().answer(case)


def by_name(case: Case | str) -> str:
    return case.name if isinstance(case, Case) else case


def assert_same(found: Arrays, wanted: Arrays, where: str) -> None:
    assert found.keys() == wanted.keys(), where
    for name, array in wanted.items():
        assert (found[name].dtype, found[name].nbytes) == (array.dtype, array.nbytes), f"{where}: {name}"
        ours, theirs = (np.ascontiguousarray(data).view(np.uint8).ravel() for data in (found[name], array))
        wrong = np.flatnonzero(ours != theirs)
        assert not wrong.size, (
            f"{where}: {name} differs in {wrong.size} of {ours.size} bytes, first at {wrong[0]}: "
            f"0x{ours[wrong[0]]:02x} instead of 0x{theirs[wrong[0]]:02x}"
        )


@pytest.mark.compiler
@pytest.mark.parametrize("case", EMULATED, ids=by_name)
def test_emulator_answers_as_the_hardware(case):
    wanted = answer_of(case)
    for schedule, seed, counters in SCHEDULES:
        found = run(case, "emulator", schedule, seed, counters)
        assert_same(found, wanted, f"{case.name}, {schedule} {seed}, counters {counters}")


@pytest.mark.parametrize("case", [case for case in PREDICTED if case.name not in AWAITED], ids=by_name)
def test_hardware_answers_as_predicted(case):
    assert_same(reference().answer(case), case.prediction(), case.name)


@pytest.mark.compiler
@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_emulator_names_what_stops_the_hardware(case):
    for schedule, seed, counters in SCHEDULES:
        with pytest.raises(RuleBroken, match=rf": {case.refused.kind}: .*{case.refused.words}.*{case.refused.status}"):
            run(case, "emulator", schedule, seed, counters)


@pytest.mark.compiler
@pytest.mark.parametrize("case", [case for case in CASES if case.hardware_only], ids=by_name)
def test_emulator_names_bytes_for_which_a_barrier_waits_in_vain(case):
    """The hardware's kernel gives up waiting, and has an answer."""
    with pytest.raises(RuleBroken, match=rf"exit_bytes: .* with {missing_bytes(case)} bytes missing"):
        run(case, "emulator")


def missing_bytes(case: Case) -> int:
    box, expected = case.arguments[0].box, case.arguments[6]
    return expected - 2 * box[0] * box[1]


@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_hardware_stops_as_it_was_said_to(case):
    assert reference().answer(case) == case.refused.status


@pytest.mark.hopper
@pytest.mark.parametrize("case", [case for case in CASES if not case.refused], ids=by_name)
def test_this_gpu_answers_as_the_recorded_one(case):
    assert_same(run(case, "cuda"), answer_of(case), case.name)


@pytest.mark.hopper
def test_this_gpu_stops_as_the_recorded_one():
    for case, answer in record.run_apart(REFUSED):
        assert record.judge(case, answer) == (record.REFUSED, reference().answer(case)), case.name


@pytest.mark.parametrize("file", FILES)
def test_kernels_compile_for_hopper_without_warnings(file):
    case = next(case for case in CASES if case.file == file)
    compiled = cubin(case)
    assert set(compiled.entries) == set(entries_of(file)), "a kernel without a case"
    for entry in compiled.entries:
        report = compile_report(compiled, entry)
        assert (report.warnings, report.spill_bytes) == ((), 0)


def test_names_are_unique_and_every_case_is_recorded_or_awaited():
    assert len({case.name for case in CASES}) == len(CASES)
    assert reference().cases.keys() == {case.name for case in RECORDED}
    assert len(RECORDED) + len(AWAITED) == len(CASES)
    assert all(case.expected is not None for case in CASES if case.name in AWAITED)


def test_the_recording_is_small_and_names_its_device():
    assert recording.RECORDED.stat().st_size < 1_000_000
    assert reference().device.keys() == {"name", "cuda_driver", "nvrtc", "date"}
    assert reference().device["name"] == "NVIDIA H200"


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, BFLOAT16])
def test_an_answer_is_written_and_read_back(dtype, tmp_path):
    case = EMULATED[0]
    array = np.arange(60).reshape(3, 20).astype(dtype)
    path = recording.write(tmp_path, DEVICE, {case.name: recording.entry(case, {"dump": array})})
    assert path == tmp_path / "some-gpu.json"
    read = recording.read(path).answer(case)["dump"]
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_damaged_foreign_and_missing_answers_are_named(tmp_path: Path):
    case, other = EMULATED[:2]
    answer = recording.entry(case, {"dump": np.zeros(4, np.uint8)})
    path = recording.write(tmp_path, DEVICE, {case.name: answer, other.name: answer})
    with pytest.raises(RecordError, match="with other inputs"):
        recording.read(path).answer(other)
    whole = answer["arrays"]["dump"]["lzma"]
    for key, value, words in (
        ("sha256", "0" * 64, "SHA-256"), ("lzma", whole[:-8], "is damaged"), ("lzma", "?" + whole, "is damaged"),
        ("shape", [5], "is damaged"), ("dtype", "no type", "is damaged"),
    ):  # fmt: skip
        packed = answer["arrays"]["dump"] | {key: value}
        path = recording.write(tmp_path, DEVICE, {case.name: answer | {"arrays": {"dump": packed}}})
        with pytest.raises(RecordError, match=words):
            recording.read(path).answer(case)
    with pytest.raises(RecordError, match="has no case"):
        recording.read(path).answer(other)
    path.write_text("{}")
    with pytest.raises(RecordError, match="no device or no cases"):
        recording.read(path)


def test_the_status_of_a_refused_case_is_written_and_read_back(tmp_path):
    case = REFUSED[0]
    path = recording.write(tmp_path, DEVICE, {case.name: recording.entry(case, "launch failure")})
    assert recording.read(path).answer(case) == "launch failure"


def test_verdicts():
    predicted = next(case for case in PREDICTED if case.outputs == ("dump",))
    right = predicted.prediction()
    wrong = {"dump": right["dump"].copy()}
    wrong["dump"].view(np.uint8).ravel()[5] ^= 1
    assert record.judge(predicted, right) == (record.AS_PREDICTED, "")
    verdict, detail = record.judge(predicted, wrong)
    assert verdict == record.DIFFERENT and detail.startswith("1 of ") and detail.endswith("of dump, first at 5")
    stopped, late = record.Failure("it stopped", REFUSED[0].refused.status), record.Failure("no answer")
    assert record.judge(predicted, stopped) == (record.FAILED, "it stopped")
    assert record.judge(REFUSED[0], stopped) == (record.REFUSED, "illegal instruction")
    assert record.judge(REFUSED[0], late) == (record.FAILED, "no answer")
    assert record.judge(REFUSED[0], right)[0] == record.FAILED


def test_predictions_fit_the_outputs():
    for case in PREDICTED:
        case.prediction()


@pytest.mark.parametrize("wrong", [
    {"dump": np.zeros(7, np.int32)}, {"dump": np.zeros(4096, np.int8)}, {"other": np.zeros(4096, np.uint8)}, {},
])  # fmt: skip
def test_a_prediction_that_does_not_fit_is_named_before_anything_runs(wrong, monkeypatch, tmp_path, capsys):
    case = replace(EMULATED[0], expected=lambda inputs: wrong)
    monkeypatch.setattr(record, "CASES", (EMULATED[1], case))
    monkeypatch.setattr(record, "run_apart", lambda *_: pytest.fail("it ran"))
    assert record.main(["--output", str(tmp_path), "--backend", "emulator"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"expected of {case.name} gives ") and "what its outputs are, dump: uint8 (4096,): " in line
    with pytest.raises(ArgumentError):
        case.prediction()


@pytest.mark.parametrize(("given", "code", "words"), [
    (["--output", "FILE"], 2, "argument --output: it is 'FILE', which is a file: give a folder; see `python"),
    (["--output", "FILE/x"], 2, "argument --output: it is 'FILE/x', which is no folder (Not a directory): give"),
    ([], 2, "the following arguments are required: --output; see `python"),
    (["--output", "NEW", "--case", "stmatrix", "--case", "no such"], 1, "--case 'no such' is in no name of a case"),
], ids=str)
def test_wrong_arguments_get_a_sentence_before_anything_runs(given, code, words, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(record, "run_apart", lambda *_: pytest.fail("it ran"))
    file, new = tmp_path / "file", tmp_path / "new"
    file.write_text("")
    arguments = [text.replace("FILE", str(file)).replace("NEW", str(new)) for text in given]
    try:
        found = record.main([*arguments, "--backend", "emulator"])
    except SystemExit as error:
        found = error.code
    (line,) = capsys.readouterr().err.splitlines()
    assert found == code and words.replace("FILE", str(file)) in line and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_cases_stay_as_they_were_made(maker):
    """What a generator sets again for its next case must not change the ones before."""
    finished = {case.name: case for case in CASES}
    for case in maker():
        then, now = finished[case.name], recording.input_hash(case)   # `case` is the last that its generator has made
        assert recording.input_hash(then) == now, case.name
        if case.expected is not None:
            assert_same(then.prediction(), case.prediction(), case.name)


def test_boxes_begin_where_they_may_if_nothing_is_refused():
    for case in CASES:
        if case.entry in ("load_box", "load_multicast", "store_box"):   # then x and y
            x, y = case.arguments[3:5]
            is_wrong = x % 8 != 0 or case.entry == "store_box" and min(x, y) < 0
            assert is_wrong == bool(case.refused), case.name


def test_the_question_is_part_of_the_record():
    hashes = [recording.input_hash(case) for case in CASES]
    assert len(set(hashes)) == len(CASES), "two cases ask the same"
    assert any(isinstance(argument, Box) for argument in CASES[-1].arguments)


@pytest.mark.compiler
def test_a_rehearsal_writes_what_the_hardware_answered(capsys, tmp_path):
    """The whole recorder but for the GPU, in whose place the emulator answers."""
    assert record.main(["--output", str(tmp_path), "--backend", "emulator"]) == 0
    assert ", 0 different, 0 failed, " in capsys.readouterr().out.splitlines()[-1]
    written = recording.read(tmp_path / "emulator.json")
    assert written.cases.keys() == {case.name for case in (*EMULATED, *REFUSED)}
    for case in EMULATED:
        assert_same(written.answer(case), answer_of(case), case.name)
    assert all(written.answer(case) == reference().answer(case) for case in REFUSED)


@pytest.mark.skipif(probe().gpu is not None, reason="there is a GPU, which answers")
def test_the_recorder_goes_on_after_a_failure(capsys, tmp_path):
    cases = [REFUSED[0], *EMULATED[:2]]   # the refused one comes last
    failed = record.record(cases, tmp_path, {})
    assert failed == [case.name for case in (*cases[1:], cases[0])]
    *lines, summary = capsys.readouterr().out.splitlines()
    assert [line.partition(": failed: ")[0] for line in lines] == failed
    assert summary.startswith("3 cases in ")
    assert "0 as predicted, 0 different, 3 failed, 0 refused as expected, 0 recorded" in summary
    assert list(tmp_path.iterdir()) == []
