"""The emulator answers as the hardware did, byte for byte, under every schedule; and both as the documentation says."""

from pathlib import Path

import numpy as np
import pytest

from helpers.arrays import BFLOAT16
from helpers.cuda import compile_report
from helpers.errors import RecordError
from helpers.gpu import probe

from . import record, recording
from .backends import RuleBroken, cubin, run
from .cases import Arrays, Box, Case
from .catalogue import CASES, TOPICS, entries_of

SCHEDULES = (("lazy", 0, False), ("eager", 0, False), ("random", 1, False), ("random", 2, False), ("lazy", 0, True))
FILES = sorted({case.file for case in CASES})
EMULATED = [case for case in CASES if not case.hardware_only and not case.refused]
REFUSED = [case for case in CASES if case.refused]
PREDICTED = [case for case in CASES if case.expected is not None]


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
    wanted = recording.recorded(case)
    for schedule, seed, counters in SCHEDULES:
        found = run(case, "emulator", schedule, seed, counters)
        assert_same(found, wanted, f"{case.name}, {schedule} {seed}, counters {counters}")


@pytest.mark.parametrize("case", PREDICTED, ids=by_name)
def test_hardware_answers_as_predicted(case):
    assert_same(recording.recorded(case), case.expected(case.inputs()), case.name)


@pytest.mark.compiler
@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_emulator_names_what_stops_the_hardware(case):
    for schedule, seed, counters in SCHEDULES:
        with pytest.raises(RuleBroken, match=rf": {case.refused.kind}: .*{case.refused.words}.*{case.refused.status}"):
            run(case, "emulator", schedule, seed, counters)


@pytest.mark.parametrize("case", REFUSED, ids=by_name)
def test_hardware_stops_as_it_was_said_to(case):
    assert recording.recorded(case) == case.refused.status


@pytest.mark.hopper
@pytest.mark.parametrize("case", [case for case in CASES if not case.refused], ids=by_name)
def test_this_gpu_answers_as_the_recorded_one(case):
    assert_same(run(case, "cuda"), recording.recorded(case), case.name)


@pytest.mark.hopper
def test_this_gpu_stops_as_the_recorded_one():
    for case, answer in record.run_apart(REFUSED):
        assert record.judge(case, answer) == (record.REFUSED, recording.recorded(case)), case.name


@pytest.mark.parametrize("file", FILES)
def test_kernels_compile_for_hopper_without_warnings(file):
    case = next(case for case in CASES if case.file == file)
    compiled = cubin(case)
    assert set(compiled.entries) == set(entries_of(file)), "a kernel without a case"
    for entry in compiled.entries:
        report = compile_report(compiled, entry)
        assert (report.warnings, report.spill_bytes) == ((), 0)


def test_names_are_unique_and_every_topic_is_recorded():
    assert len({case.name for case in CASES}) == len(CASES)
    assert {path.stem for path in recording.RECORDED.glob("*.json")} == set(TOPICS)


def test_recordings_are_small_and_name_their_device():
    for topic in TOPICS:
        path = recording.RECORDED / f"{topic}.json"
        assert path.stat().st_size < 700_000
        content = recording.read_json(path)
        assert content["device"].keys() == {"name", "cuda_driver", "nvrtc", "date"}
        assert content["cases"].keys() == {case.name for case in CASES if case.topic == topic}


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, BFLOAT16])
def test_an_answer_is_written_and_read_back(dtype, tmp_path):
    case = EMULATED[0]
    array = np.arange(60).reshape(3, 20).astype(dtype)
    recording.write_topic(tmp_path, case.topic, {}, {case.name: recording.entry(case, {"dump": array})})
    read = recording.recorded(case, tmp_path)["dump"]
    assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_damaged_foreign_and_missing_answers_are_named(tmp_path: Path):
    case, other = EMULATED[:2]
    answer = recording.entry(case, {"dump": np.zeros(4, np.uint8)})
    recording.write_topic(tmp_path, case.topic, {}, {case.name: answer, other.name: answer})
    with pytest.raises(RecordError, match="with other inputs"):
        recording.recorded(other, tmp_path)
    answer["arrays"]["dump"]["sha256"] = "0" * 64
    recording.write_topic(tmp_path, case.topic, {}, {case.name: answer})
    with pytest.raises(RecordError, match="SHA-256"):
        recording.recorded(case, tmp_path)
    with pytest.raises(RecordError, match="has no case"):
        recording.recorded(other, tmp_path)


def test_the_status_of_a_refused_case_is_written_and_read_back(tmp_path):
    case = REFUSED[0]
    recording.write_topic(tmp_path, case.topic, {}, {case.name: recording.entry(case, "launch failure")})
    assert recording.recorded(case, tmp_path) == "launch failure"


def test_verdicts():
    predicted = next(case for case in PREDICTED if case.outputs == ("dump",))
    right = predicted.expected(predicted.inputs())
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


def test_columns_of_boxes_are_multiples_of_16_bytes_where_nothing_is_refused():
    for case in CASES:
        if case.entry in ("load_box", "load_multicast", "store_box"):   # x is their fourth argument
            assert (case.arguments[3] % 8 != 0) == bool(case.refused), case.name


def test_the_question_is_part_of_the_record():
    hashes = [recording.input_hash(case) for case in CASES]
    assert len(set(hashes)) == len(CASES), "two cases ask the same"
    assert any(isinstance(argument, Box) for argument in CASES[-1].arguments)


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
