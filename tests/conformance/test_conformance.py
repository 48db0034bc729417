"""The emulator answers as the hardware did, byte for byte, under every schedule; and both as the documentation says."""

from pathlib import Path

import numpy as np
import pytest

from helpers.arrays import BFLOAT16
from helpers.cuda import compile_report
from helpers.errors import RecordError
from helpers.gpu import probe

from . import record, recording
from .backends import cubin, run
from .cases import Arrays, Box, Case
from .catalogue import CASES, TOPICS, entries_of

SCHEDULES = (("lazy", 0, False), ("eager", 0, False), ("random", 1, False), ("random", 2, False), ("lazy", 0, True))
FILES = sorted({case.file for case in CASES})
EMULATED = [case for case in CASES if not case.hardware_only]
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


@pytest.mark.hopper
@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_this_gpu_answers_as_the_recorded_one(case):
    assert_same(run(case, "cuda"), recording.recorded(case), case.name)


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


def test_the_question_is_part_of_the_record():
    hashes = [recording.input_hash(case) for case in CASES]
    assert len(set(hashes)) == len(CASES), "two cases ask the same"
    assert any(isinstance(argument, Box) for argument in CASES[-1].arguments)


@pytest.mark.skipif(probe().gpu is not None, reason="there is a GPU, which answers")
def test_the_recorder_goes_on_after_a_failure(capsys, tmp_path):
    failed = record.record(list(EMULATED[:2]), tmp_path, {})
    assert failed == [case.name for case in EMULATED[:2]]
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": FAILED: ")[0] for line in lines[:2]] == failed
    assert list(tmp_path.iterdir()) == []
