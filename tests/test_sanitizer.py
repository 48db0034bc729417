"""What compute-sanitizer prints becomes an outcome, only a clean run is called clean, and the records are current."""

import json
import os
import stat
import time
from dataclasses import replace
from itertools import combinations

import pytest

from helpers import compute_sanitizer
from helpers.arrays import to_host
from helpers.bugs import BUGS
from helpers.compute_sanitizer import Job, Records, main, run_jobs, sanitizer_command
from helpers.device import Device
from helpers.errors import ArgumentError, BackendError, RecordError
from helpers.kernel import load
from helpers.rungs import RUNGS, find_rung
from helpers.sanitizer import __main__ as page_command
from helpers.sanitizer import child
from helpers.sanitizer.faults import FAULTS, find_fault
from helpers.sanitizer.output import CLEAN, FAILED, REFUSED, REPORTED, TIMED_OUT, TOOLS, read_outcome
from helpers.sanitizer.page import DOCUMENT, EXPLAINED, Explanation, document
from helpers.sanitizer.record import (
    Planted,
    PlantedFault,
    Sanitized,
    find_planted,
    find_sanitized,
    write_planted,
    write_sanitized,
)
from helpers.subjects import CLUSTERS, FITTED, PARTITIONED, SPLITS, SUBJECTS, VARIANTS, Subject, find_subjects
from helpers.variants import replace_in
from helpers.verify import checked_size

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)
DATE = "2026-11-30T02:00:00Z"
LAUNCHED = "launched 3 times, all results right\n"

# As NVIDIA's documentation shows them ("Understanding ... Reports"); paths and addresses are made up.
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 2 bytes
=========     at matmul+0x1a0 in /data/reader/kernels/01_coalescing.cu:34
=========     by thread (256,0,0) in block (0,1,0)
=========     Address 0x7f2b5fa00a50 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2b5fa00000 of size 2,640 bytes
=========
========= Invalid __global__ read of size 2 bytes
=========     at matmul+0x1a0 in /data/reader/kernels/01_coalescing.cu:34
=========     by thread (257,0,0) in block (0,1,0)
=========     Address 0x7f2b5fa00a50 is out of bounds
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "launch failure" on CUDA API call to cudaFree.
=========
The kernel failed on the GPU (unspecified launch failure): start Python anew.
========= Target application returned an error
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at matmul+0x1f0 in 02_smem_tiling.cu:34
=========     and Read access at matmul+0x280 in 02_smem_tiling.cu:43 [11264 hazards]
=========     and Read access at matmul+0x290 in 02_smem_tiling.cu:43 [64 hazards]
=========
launched 1 times, all results right
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block
=========     at matmul+0x2c8 in 02_smem_tiling.cu:36
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 16 errors
========= ERROR SUMMARY: 6 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 2 bytes
=========     at matmul+0x88
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f3c7ec000fc
=========
launched 1 times, all results right
========= ERROR SUMMARY: 1 error
"""
NO_ERRORS = f"========= COMPUTE-SANITIZER\n{LAUNCHED}========= ERROR SUMMARY: 0 errors\n"
NO_HAZARDS = (
    f"========= COMPUTE-SANITIZER\n{LAUNCHED}========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
)
REFUSAL = """\
========= COMPUTE-SANITIZER
========= Error: Device not supported. Please refer to the "Supported Devices" section of the sanitizer documentation
=========
The GPU refused the launch (cudaErrorUnknown): run the kernel on the emulator.
========= ERROR SUMMARY: 1 error
"""


def outcome(tool="memcheck", text=NO_ERRORS, code=0, seconds=3.21):
    return read_outcome(tool, text, code, seconds, DATE)


@pytest.mark.parametrize(
    ("tool", "text", "code", "status", "errors", "warnings", "reports"),
    [
        ("memcheck", NO_ERRORS, 0, CLEAN, 0, 0, {}),
        ("racecheck", NO_HAZARDS, 0, CLEAN, 0, 0, {}),
        ("memcheck", MEMCHECK, 99, REPORTED, 3, 0, {
            "Invalid __global__ read of size 2 bytes at matmul+0x1a0 in 01_coalescing.cu:34": 2,
            'Program hit cudaErrorLaunchFailure (error 719) due to "launch failure" on CUDA API call to cudaFree.': 1,
        }),
        ("racecheck", RACECHECK, 99, REPORTED, 1, 0, {
            "Error: Race reported between Write access at matmul+0x1f0 in 02_smem_tiling.cu:34 and Read access at "
            "matmul+0x280 in 02_smem_tiling.cu:43 and Read access at matmul+0x290 in 02_smem_tiling.cu:43": 1,
        }),
        ("racecheck", RACECHECK.replace("1 error, 0 w", "0 errors, 1 w"), 0, REPORTED, 0, 1, None),
        ("synccheck", SYNCCHECK, 99, REPORTED, 16, 0, {
            "Barrier error detected. Divergent thread(s) in block at matmul+0x2c8 in 02_smem_tiling.cu:36": 1,
        }),
        ("initcheck", INITCHECK, 99, REPORTED, 1, 0, {
            "Uninitialized __global__ memory read of size 2 bytes at matmul+0x88": 1,
        }),
        ("memcheck", REFUSAL, 99, REFUSED, 1, 0, None),
    ],
)  # fmt: skip
def test_what_a_tool_says_is_read(tool, text, code, status, errors, warnings, reports):
    found = outcome(tool, text, code)
    assert (found.status, found.errors, found.warnings) == (status, errors, warnings)
    assert reports is None or found.reports == reports
    assert found.launches == (3 if status == CLEAN else found.launches) and found.seconds == 3.2
    assert all(line.startswith("=========") and "/data" not in line for line in found.output)


@pytest.mark.parametrize(
    ("tool", "text", "code", "status", "why"),
    [
        ("memcheck", "", 0, FAILED, "nothing was printed"),
        ("memcheck", "", None, TIMED_OUT, "the time was over"),
        ("racecheck", "========= COMPUTE-SANITIZER\n", None, TIMED_OUT, "the time was over"),
        ("memcheck", LAUNCHED, 0, FAILED, "no summary"),
        ("racecheck", NO_ERRORS, 0, FAILED, "no summary"),   # the other tools' summary says nothing about races
        ("memcheck", NO_HAZARDS, 0, FAILED, "no summary"),
        ("memcheck", NO_ERRORS.replace("0 errors", "many errors"), 0, FAILED, "no summary"),
        ("racecheck", NO_HAZARDS[:-12], 0, FAILED, "no summary"),   # cut off
        ("memcheck", NO_ERRORS, 1, FAILED, "ended with code 1"),
        ("memcheck", NO_ERRORS, -9, FAILED, "ended with code -9"),
        ("memcheck", NO_ERRORS.replace(LAUNCHED, "06_wgmma.matmul is wrong at 8: C holds NaN.\n"), 1, FAILED,
         "did not all run: 06_wgmma.matmul is wrong at 8: C holds NaN"),
        ("memcheck", "========= Error: No attachable process found. compute-sanitizer timed-out.\n", 1, FAILED,
         "the tool said: Error: No attachable process found"),
        ("racecheck", NO_HAZARDS.replace("=\nlaunched", "=\nlaunched") + "========= Warning: Detected overflow of "
         "tracked cuda::barrier structures. Results might be incorrect.\n", 0, FAILED, "Detected overflow"),
        ("memcheck", "\x00\x1b[31m\ud83d garbage \u2028" * 99, 0, FAILED, "no summary"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_not_called_clean(tool, text, code, status, why):
    found = outcome(tool, text, code)
    assert found.status == status and why in found.why and not found.is_answer
    assert found.why.isprintable()


def test_a_report_about_another_cta_says_whether_it_may_not_be_there_yet_or_any_more():
    read = """\
========= Potential invalid __shared__ read of size 16 bytes
=========     at matmul+0x170 in appendix_split_k.cu:207
=========     by thread (128,0,0) in block (0,0,0)
=========     Address 0x1000400 is located in a block that might not have entered yet
=========
"""
    again = read.replace("128", "129").replace("0x1000400", "0x1000410")
    gone = read.replace("not have entered yet", "have already exited")
    said = outcome("racecheck", read + again + gone + NO_HAZARDS, 0)
    where = "at matmul+0x170 in appendix_split_k.cu:207 is located in"
    place = f"Potential invalid __shared__ read of size 16 bytes {where}"
    assert said.status == REPORTED and said.reports == {
        f"{place} a block that might not have entered yet": 2, f"{place} a block that might have already exited": 1,
    }


def test_a_report_is_one_even_if_the_tool_was_stopped_behind_it():
    cut = MEMCHECK[: MEMCHECK.index("Target")]
    assert outcome("memcheck", cut, None).status == REPORTED
    assert str(outcome("memcheck", cut, None)).startswith("memcheck: reports: "), "no summary has counted them"
    assert "None" not in str(outcome("memcheck", cut, None))
    for end in range(len(MEMCHECK)):   # wherever it breaks off, it is never clean
        assert outcome("memcheck", MEMCHECK[:end], 0).status != CLEAN


def test_of_a_long_output_beginning_and_end_are_kept():
    text = "=========     at x\n" * 500 + "========= " + "y" * 500 + "\n========= ERROR SUMMARY: 0 errors\n"
    lines = outcome(text=text).output
    assert len(lines) == 31 and lines[24] == "... 472 lines ..." and lines[-1].endswith("0 errors")
    assert max(map(len, lines)) <= 200


def sanitized(*outcomes, **changes):
    fields = {
        "rung": "01_coalescing", "code_hashes": {"matmul": "0" * 16, "matmul_uncoalesced": "1" * 16}, "device": H200,
        "version": "2025.3.0.0", "shapes": ((1, 1, 1), (33, 65, 97)), "sms": None,
        "outcomes": outcomes or (outcome(),),
    }
    return Sanitized(**(fields | changes))


def test_round_trip_and_tools_of_the_same_code_are_kept_together(tmp_path):
    path = write_sanitized(sanitized(), tmp_path)
    assert path == tmp_path / "nvidia-h200" / "sanitizer" / "01_coalescing.json"
    assert find_sanitized(1, tmp_path) == sanitized() and find_sanitized(2, tmp_path) is None
    races = outcome("racecheck", RACECHECK, None)
    write_sanitized(sanitized(races), tmp_path)
    assert find_sanitized(1, tmp_path).outcomes == (outcome(), races)
    write_sanitized(sanitized(races, version="2026.1.0.0"), tmp_path)
    assert find_sanitized(1, tmp_path).outcomes == (races,), "another version starts anew"
    assert "/data" not in path.read_text() and str(tmp_path) not in path.read_text()


def test_each_variant_of_a_rung_has_a_record_of_its_own(tmp_path):
    some = {"SPLIT": 3, "A_ROWS": 16}
    changes = {"rung": "appendix_split_k", "code_hashes": {"matmul": "0" * 16}}
    path = write_sanitized(sanitized(defines=some, **changes), tmp_path)
    assert path.name == "appendix_split_k+A_ROWS-16+SPLIT-3.json"
    other = sanitized(outcome("racecheck", NO_HAZARDS), defines=some | {"SPLIT": 8}, **changes)
    write_sanitized(other, tmp_path)
    assert find_sanitized("appendix_split_k", tmp_path, some) == sanitized(defines=some, **changes)
    assert find_sanitized("appendix_split_k", tmp_path, other.defines) == other
    assert find_sanitized("appendix_split_k", tmp_path) is None
    assert "defines" not in json.loads(write_sanitized(sanitized(), tmp_path).read_text())
    data = json.loads(path.read_text())
    for wrong, words in (([], "defines is a list"), (None, "defines is null"), ({"SPLIT": True}, "defines is wrong"),
                         ({"SPLIT": 4}, "under that name"), ({}, "under that name")):
        path.write_text(json.dumps(data | {"defines": wrong}))
        with pytest.raises(RecordError, match=words):
            find_sanitized("appendix_split_k", tmp_path, some)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("shapes", [[1, 1]], "shapes holds something else"),
        ("shapes", [[1, 1, True]], "shapes holds something else"),
        ("shapes", [], "shapes holds something else"),
        ("tools", [], "tools is empty"),
        ("code_hashes", {"matmul": "x"}, "code_hashes.matmul"),
        ("rung", "02_smem_tiling", "under that name"),
        ("version", 5, "version is 5"),
        ("sms", 0, "sms is 0"),
    ],
)
def test_a_damaged_record_is_named_and_kept(tmp_path, key, value, words):
    path = write_sanitized(sanitized(), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    before = path.read_text()
    for work in (lambda: find_sanitized(1, tmp_path), lambda: write_sanitized(sanitized(), tmp_path)):
        with pytest.raises(RecordError, match=words):
            work()
    assert path.read_text() == before


@pytest.mark.parametrize("key, value", [("status", "fine"), ("why", None), ("why", "a\nb"), ("reports", {"x": 0}),
                                        ("exit_code", "1"), ("launches", -1), ("output", [1])])
def test_so_is_a_damaged_outcome(tmp_path, key, value):
    path = write_sanitized(sanitized(), tmp_path)
    data = json.loads(path.read_text())
    data["tools"][0][key] = value
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=rf"tools\[0\].*{key}"):
        find_sanitized(1, tmp_path)


@pytest.mark.parametrize("change", [{"errors": 2}, {"warnings": 1}, {"reports": {"a race": 1}}])
def test_what_reports_something_is_not_clean(tmp_path, change):
    path = write_sanitized(sanitized(), tmp_path)
    data = json.loads(path.read_text())
    data["tools"][0].update(change)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"tools\[0\].status is .clean. beside (2 errors|1 warning|reports), but"):
        find_sanitized(1, tmp_path)


def planted(*names, seen=True):
    said = outcome("memcheck", MEMCHECK, 99) if seen else outcome()
    return Planted(H200, "2025.3.0.0", tuple(PlantedFault(name, "2" * 16, said) for name in names))


def test_planted_faults_are_kept_together(tmp_path):
    write_planted(planted("no_row_guard"), tmp_path)
    path = write_planted(planted("unwritten_a", seen=False), tmp_path)
    found = find_planted(tmp_path)
    assert [item.is_seen for item in found.faults] == [True, False] and found.fault("none") is None
    data = json.loads(path.read_text())
    for broken in (data | {"faults": []}, data | {"schema": "x"}):
        path.write_text(json.dumps(broken))
        with pytest.raises(RecordError, match="planted.json"):
            find_planted(tmp_path)


# The command


def tool(tmp_path, body):
    """A stand-in for compute-sanitizer: a shell script."""
    path = tmp_path / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo 'Version 2025.3.0.0 (build 1)' && exit\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU and a tool, whose kernels are compiled but never launched."""
    monkeypatch.setattr(compute_sanitizer.device, "device_info", lambda: H200)
    monkeypatch.setattr(compute_sanitizer, "load", lambda rung, backend, **options: load(rung, "emulator", **options))


JOB = Job("memcheck", Subject(find_rung(1)), (("matmul", "0" * 16),))


def test_the_command_watches_our_kernels_alone():
    text = " ".join(sanitizer_command("cs", JOB, 50000, "python"))
    assert text.startswith("cs --tool memcheck --kernel-name kns=matmul ") and "--port 50000" in text
    assert text.endswith("python -m helpers.sanitizer.child 01_coalescing")
    fault = replace(JOB, fault=find_fault("no_row_guard"))
    assert sanitizer_command("cs", fault, 1)[-2:] == ["--fault", "no_row_guard"]
    last = Job("initcheck", Subject(find_rung(10)), (("matmul", "0" * 16),))
    assert sanitizer_command("cs", last, 1)[-2:] == ["10_clusters", "--unread"]
    variant = Job("initcheck", SPLITS[2], (("matmul", "0" * 16),))
    assert sanitizer_command("cs", variant, 1)[-1] == variant.subject.name, "threads store C, so it is read"


def collect(tool_path, jobs, **options):
    found = []
    run_jobs(tool_path, jobs, lambda job, said: found.append((job, said)), most=2, **options)
    return found


def test_a_child_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path):
    (_, said), = collect(
        tool(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; echo '========= COMPUTE-SANITIZER'; wait"), [JOB],
        timeout_s=0.5,
    )
    assert said.status == TIMED_OUT and said.exit_code is None and 0.5 <= said.seconds < 5
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        if "Z" in open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]:
            break   # ended, not yet collected
        time.sleep(0.05)
    else:
        assert not os.path.exists(f"/proc/{pid}")


def test_what_is_raised_meanwhile_ends_the_children(tmp_path):
    path = tool(tmp_path, f"case $2 in racecheck) echo $$ > {tmp_path}/pid; exec sleep 60;; esac; sleep 0.5")

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(path, [JOB, replace(JOB, tool="racecheck")], stop, most=2)
    assert not os.path.exists(f"/proc/{int((tmp_path / 'pid').read_text())}")


def test_a_tool_that_cannot_be_started_is_a_sentence(tmp_path):
    with pytest.raises(BackendError, match="none cannot be started .*: install NVIDIA Compute Sanitizer"):
        collect(str(tmp_path / "none"), [JOB])


def answers(tmp_path):
    """A tool that finds nothing in the rungs and each planted fault."""
    clean = f"{LAUNCHED.strip()}\n========= ERROR SUMMARY: 0 errors"
    (tmp_path / "clean").write_text(clean + "\n")
    (tmp_path / "races").write_text(NO_HAZARDS)
    (tmp_path / "seen").write_text(MEMCHECK)
    (tmp_path / "race").write_text(RACECHECK)
    return (
        f'echo "$2" >> {tmp_path}/calls\n'
        f'case "$2 $*" in racecheck*--fault*) cat {tmp_path}/race; exit 99;;\n'
        f"*--fault*) cat {tmp_path}/seen; exit 99;;\n"
        f"racecheck*) cat {tmp_path}/races;; *) cat {tmp_path}/clean;; esac"
    )


def test_the_whole_command_and_its_second_run(tmp_path, monkeypatch, capsys, gpu):
    path = tool(tmp_path, answers(tmp_path))
    monkeypatch.setattr(compute_sanitizer, "find_tool", lambda *_: path)
    command = ["--rungs", "1", "2", "--output", str(tmp_path)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.err == "" and printed.out.startswith(f"{2 * 4 + len(FAULTS)} of {2 * 4 + len(FAULTS)} runs to make")
    assert [item.status for item in find_sanitized(1, tmp_path).outcomes] == [CLEAN] * 4
    assert find_sanitized(2, tmp_path).version == "2025.3.0.0"
    assert {fault.name for fault in find_planted(tmp_path).faults if fault.is_seen} == {item.name for item in FAULTS}
    calls = (tmp_path / "calls").read_text()
    assert main(command) == 0 and capsys.readouterr().out == f"0 of {2 * 4 + len(FAULTS)} runs to make\n"
    assert (tmp_path / "calls").read_text() == calls, "what is current is not run"
    assert main([*command, "--again", "--tools", "memcheck", "--no-faults"]) == 0
    assert (tmp_path / "calls").read_text() == calls + "memcheck\n" * 2


def test_the_appendix_is_run_in_all_its_variants_alone_or_with_the_rungs(tmp_path, monkeypatch, capsys, gpu):
    path = tool(tmp_path, answers(tmp_path))
    monkeypatch.setattr(compute_sanitizer, "find_tool", lambda *_: path)
    command = ["--rungs", "appendix_split_k", "--no-faults", "--output", str(tmp_path)]
    assert main(command) == 0
    count = len(TOOLS) * len(SPLITS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{count} of {count} runs to make" and len(lines) == 1 + count
    found = [find_sanitized(variant.rung, tmp_path, variant.defines) for variant in SPLITS]
    for variant, record in zip(SPLITS, found, strict=True):
        assert [item.status for item in record.outcomes] == [CLEAN] * 4 and record.name == variant.name
        assert record.shapes == child.shapes(variant.rung)
        assert f"racecheck {variant.name}: racecheck: clean;" in str(lines)
    hashes = [record.code_hashes["matmul"] for record in found]
    assert len(set(hashes)) == len(SPLITS), "each was compiled with its own defines"
    assert main(command) == 0 and capsys.readouterr().out == f"0 of {count} runs to make\n"
    assert main([*command, "--again", "--tools", "racecheck", "--rungs", SPLITS[3].name]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 run to make")


def test_by_default_the_rungs_and_the_appendix_are_run(monkeypatch, capsys):
    monkeypatch.setattr(compute_sanitizer.device, "device_info", lambda: None)
    assert main([]) == 1
    said = capsys.readouterr().out.splitlines()
    names = [line.split(":")[0].split(",")[0] for line in said if not line.startswith("planted")]
    assert names == [subject.name for subject in SUBJECTS]


def test_no_answer_is_written_said_and_asked_for_again(tmp_path, monkeypatch, capsys, gpu):
    (tmp_path / "refusal").write_text(REFUSAL)
    path = tool(tmp_path, f"cat {tmp_path}/refusal; exit 1")
    monkeypatch.setattr(compute_sanitizer, "find_tool", lambda *_: path)
    command = ["--rungs", "2", "--tools", "racecheck", "--no-faults", "--output", str(tmp_path)]
    for _ in range(2):
        assert main(command) == 1
        printed = capsys.readouterr()
        assert "1 of 1 run to make" in printed.out and "racecheck: refused (the tool does not" in printed.out
        assert "error: no answer, or a planted fault was not seen: racecheck 02_smem_tiling" in printed.err
    assert find_sanitized(2, tmp_path).outcome("racecheck").status == REFUSED


def test_a_planted_fault_that_must_be_seen_and_is_not_fails(tmp_path, monkeypatch, capsys, gpu):
    path = tool(tmp_path, f"echo '{LAUNCHED.strip()}'; echo '========= ERROR SUMMARY: 0 errors'")
    monkeypatch.setattr(compute_sanitizer, "find_tool", lambda *_: path)
    assert main(["--rungs", "2", "--tools", "initcheck", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.endswith("seen: initcheck 01_coalescing with unwritten_a\n"), "the trial may say nothing"
    assert not find_planted(tmp_path).fault("unwritten_a").is_seen


def test_a_damaged_record_in_the_way_is_said(tmp_path, monkeypatch, capsys, gpu):
    path = write_sanitized(sanitized(), tmp_path)
    path.write_text("{ not json")
    monkeypatch.setattr(compute_sanitizer, "find_tool", lambda *_: tool(tmp_path, "exit 1"))
    assert main(["--rungs", "1", "--no-faults", "--output", str(tmp_path)]) == 1
    assert "01_coalescing.json is not valid JSON" in capsys.readouterr().err and path.read_text() == "{ not json"


def test_without_a_gpu_or_a_tool_a_sentence_and_what_is_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compute_sanitizer.device, "device_info", lambda: None)
    monkeypatch.setattr(compute_sanitizer.device, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    monkeypatch.setattr("helpers.record_basics.RECORD_DIR", tmp_path)
    write_sanitized(sanitized(), tmp_path)
    write_planted(planted("no_row_guard"), tmp_path)
    assert main(["--rungs", "1", "2"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "compute-sanitizer needs a GPU: No NVIDIA driver was found: install it.\n"
    assert printed.out.splitlines() == [
        "01_coalescing, recorded on NVIDIA H200, 2026-11-30: memcheck: clean",
        "02_smem_tiling: nothing is recorded",
        "planted no_row_guard: memcheck: 3 errors: Invalid __global__ read of size 2 bytes at matmul+0x1a0 "
        "in 01_coalescing.cu:34",
    ]
    monkeypatch.setattr(compute_sanitizer.device, "device_info", lambda: H200)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("helpers.nvidia_tools.os.access", lambda *_: False)
    assert main(["--rungs", "2"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("compute-sanitizer was not found on PATH") and "install NVIDIA Compute Sanitizer" in said


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--timeout", "0"], ["--timeout", "nan"], ["--rungs", "11"]])
def test_wrong_arguments_are_refused_in_one_sentence(arguments, capsys):
    assert main(arguments) == 1
    assert capsys.readouterr().err.count("\n") == 1


# The child


def test_the_shapes_have_edges_and_use_every_stage_again():
    for rung in (*RUNGS, *(subject.rung for subject in (*CLUSTERS, *FITTED, PARTITIONED))):
        rows, columns, depth = rung.tile
        smallest, whole, ragged = child.shapes(rung)
        assert smallest == rung.multiples and whole[2] >= (rung.stages + 1) * depth
        m_tiles, n_tiles = rung.tiles(*ragged[:2])
        assert (m_tiles, n_tiles) == (2, 3) and m_tiles * n_tiles == child.EDGED
        if rung.multiples[0] < rows:
            assert ragged[0] % rows and ragged[1] % columns and (depth == 1 or ragged[2] % depth)
        ctas = rung.grid(*ragged[:2], child.sms(rung) or 132)[0] // rung.cluster
        assert not rung.persistent or ctas == child.SHARERS == 2, "each computes three tiles"


def test_clusters_that_keep_pace_come_to_a_checkpoint_where_they_wait():
    paced = [subject for subject in SUBJECTS if child.pace_steps(subject.rung)]
    assert {subject.rung.name for subject in paced} == {"10_clusters", "appendix_fitted_tiles", "appendix_partitions"}
    for subject in paced:
        _, _, (m, n, k) = child.shapes(subject.rung)
        m_tiles, n_tiles = subject.rung.tiles(m, n)
        assert m_tiles * n_tiles // 2 * -(-k // subject.rung.tile[2]) >= 2 * child.pace_steps(subject.rung) == 32


def test_each_two_settings_of_the_appendix_meet_in_a_variant():
    axes = ((64, 128), (64, 256), (1, 3, 8), (True, False))
    taken = [(*variant.rung.tile[:2], variant.rung.split, variant.rung.most_rows == 16) for variant in SPLITS]
    assert all(variant.rung.most_rows in (None, 16) for variant in SPLITS)
    for one, other in combinations(range(len(axes)), 2):
        wanted = {(first, second) for first in axes[one] for second in axes[other]}
        assert {(row[one], row[other]) for row in taken} == wanted


@pytest.mark.parametrize("variant", SPLITS, ids=lambda variant: variant.name)
def test_the_shapes_of_the_appendix_use_every_stage_and_leave_ctas_without_a_step(variant):
    rung = variant.rung
    rows, columns, depth = rung.tile
    sizes = child.shapes(rung)
    steps = [-(-k // depth) for _, _, k in sizes]
    parts = [[(rank + 1) * count // rung.split - rank * count // rung.split for rank in range(rung.split)]
             for count in steps]
    assert min(parts[1]) > rung.stages and min(parts[2]) > rung.stages
    assert rung.split == 1 or max(parts[2]) > min(parts[2]), "one has a step more"
    assert len(sizes) == (3 if rung.split == 1 else 4)
    for count, (m, n, k) in list(zip(parts, sizes, strict=True))[3:]:
        assert min(count) == 0 and sum(count) == rung.split - 1 and k % depth and n % columns and m % 16
    m, n, k = sizes[2]
    assert m % rows and n % columns and k % depth and rung.tiles(m, n) == (1 if rung.most_rows else 2, 3)
    for size in sizes:
        assert checked_size(rung, size) == size


def on_emulator(monkeypatch):
    """The child's GPU is the emulator."""
    monkeypatch.setattr(child, "load", lambda rung, backend, **options: load(rung, "emulator", **options))
    monkeypatch.setattr(child, "to_backend", lambda matrix, backend: matrix)
    monkeypatch.setattr(child, "empty_matrix", lambda m, n, backend: child.random_matrix(m, n, 3, "emulator"))
    monkeypatch.setattr(child.gpu, "synchronize", lambda: None)
    pool = type("Pool", (), {"set_allocator": staticmethod(lambda allocator: None)})
    monkeypatch.setattr(child, "namespace", lambda backend: type("Module", (), {"cuda": pool}))


@pytest.mark.compiler
@pytest.mark.parametrize("subject", [SPLITS[-1], CLUSTERS[0], FITTED[1], PARTITIONED], ids=lambda subject: subject.name)
def test_the_child_multiplies_with_a_variant(subject, monkeypatch, capsys):
    on_emulator(monkeypatch)
    assert child.main([subject.name]) == 0
    count = len(child.shapes(subject.rung))
    assert capsys.readouterr().out == f"launched {count} times, all results right\n"
    assert child.main(["appendix_split_k+SPLIT-2"]) == 1 and "is no variant" in capsys.readouterr().err


def test_a_subject_is_found_by_its_name_or_its_rungs():
    assert find_subjects("appendix_split") == SPLITS and find_subjects(SPLITS[1].name) == (SPLITS[1],)
    assert find_subjects("7") == find_subjects("07_pipelining") == (Subject(find_rung(7)),)
    assert find_subjects("10") == find_subjects("10_clusters") == (Subject(find_rung(10)),)
    assert find_subjects("10_clusters+CLUSTER-4") == CLUSTERS and VARIANTS == (*CLUSTERS, *SPLITS, *FITTED)
    assert find_subjects("appendix_fitted") == FITTED
    assert find_subjects("appendix_p") == find_subjects("appendix_partitions") == (PARTITIONED,)
    assert len({subject.name for subject in SUBJECTS}) == len(SUBJECTS) == len(RUNGS) + len(VARIANTS) + 1
    with pytest.raises(ArgumentError, match="rung '11' is not a rung"):
        find_subjects("11")
    with pytest.raises(ArgumentError) as caught:
        find_subjects("10+CLUSTER-3")
    known = "10_clusters, 10_clusters+CLUSTER-4"
    assert str(caught.value) == f"'10+CLUSTER-3' is no variant that is watched: give one of {known}."


@pytest.mark.compiler
def test_the_child_multiplies_and_refuses_a_wrong_result(monkeypatch):
    monkeypatch.setattr(child, "to_backend", lambda matrix, backend: matrix)
    monkeypatch.setattr(child, "empty_matrix", lambda m, n, backend: child.random_matrix(m, n, 3, "emulator"))
    monkeypatch.setattr(child.gpu, "synchronize", lambda: None)
    kernel = load(2, "emulator")
    assert child.multiply(kernel, child.shapes(kernel.rung)) == 3
    kernel.sms = 1
    monkeypatch.setattr(child, "to_host", lambda C: to_host(C) * 2)
    with pytest.raises(BackendError, match="02_smem_tiling.matmul is wrong at 1: "):
        child.multiply(kernel, child.shapes(kernel.rung))
    assert child.multiply(kernel, child.shapes(kernel.rung), reads=False) == 3
    with pytest.raises(BackendError, match="is wrong at 8: "):   # A is another one than what is compared with
        monkeypatch.undo()
        monkeypatch.setattr(child, "empty_matrix", lambda m, n, backend: child.random_matrix(m, n, 3, "emulator"))
        monkeypatch.setattr(child, "to_backend", lambda matrix, backend: matrix)
        monkeypatch.setattr(child.gpu, "synchronize", lambda: None)
        child.multiply(kernel, [(8, 8, 8)], unwritten=True)


def test_the_child_takes_a_rung_or_a_fault(capsys):
    for arguments in ([], ["1", "--fault", "no_row_guard"]):
        with pytest.raises(SystemExit) as left:
            child.main(arguments)
        assert left.value.code == 2 and "give a rung, or --fault NAME" in capsys.readouterr().err


def test_every_tool_must_see_a_fault_and_every_fault_is_in_a_kernel():
    assert [fault.tool for fault in FAULTS if fault.must] == list(TOOLS)
    shelf = {bug.name: bug for bug in BUGS}
    for fault in FAULTS:
        text, right = fault.file().read_text(), fault.kernel.path.read_text()
        assert fault.unwritten == (text == right)
        if fault.name in shelf:
            assert not shelf[fault.name].rung_fields and not shelf[fault.name].make_change
        for edit in fault.edits:
            assert replace_in(right, fault.kernel.name, edit) == text


# What is in the tree


def test_the_page_is_what_the_records_say(capsys, tmp_path):
    assert page_command.main(["--check"]) == 0, "run `python -m helpers.sanitizer`"
    page = tmp_path / "page.md"
    page.write_text(DOCUMENT.read_text(encoding="utf-8").replace("memcheck", "memchuck"))
    assert page_command.main(["--check", "--file", str(page)]) == 1
    assert "run `python -m helpers.sanitizer`" in capsys.readouterr().err


def test_the_page_says_what_is_there_and_what_is_not():
    assert "Nothing is recorded yet" in document([], None)
    said = (outcome(), outcome("racecheck", RACECHECK, 99), outcome("synccheck", "", None))
    reasons = {
        ("01_coalescing", "racecheck"): Explanation("It is none, see there.", ("Race reported",)),
        ("01_coalescing", "memcheck"): Explanation("never needed"),
        ("02_smem_tiling", "memcheck"): Explanation("nor this"),
    }
    text = document([sanitized(*said)], planted("no_row_guard"), reasons)
    assert "| 01_coalescing | clean | 1 error | timed out: no answer | not run | 3 | NVIDIA H200, 2025.3" in text
    assert "| 02_smem_tiling | not run | not run | not run | not run | - | - |" in text
    assert "- 01_coalescing, racecheck: It is none, see there. It said: \"Error: Race reported between" in text
    assert "| 10_clusters, CLUSTER=4 | not run |" in text
    assert "never needed" not in text and "nor this" not in text
    assert "| memcheck | no guard for rows beyond M | 01_coalescing | yes: \"Invalid __global__ read of" in text
    assert "(a trial) | 06_wgmma | not run |" in text
    assert "not explained yet:\n\n- 01_coalescing, synccheck: It said: the time was over" in text


def test_the_page_has_a_row_for_each_variant_or_says_that_there_is_no_record():
    missing = "It is not recorded yet: run `python -m helpers.compute_sanitizer --rungs appendix_split_k`.\n"
    assert missing in document([sanitized()], None) and "| parts of K |" not in document([sanitized()], None)
    said = (outcome(), outcome("racecheck", RACECHECK, 99))
    record = sanitized(*said, rung="appendix_split_k", defines=SPLITS[2].defines)
    text = document([record], None)
    assert missing not in text and "| tile | parts of K | rows of A | memcheck |" in text
    assert "| 64 x 256 | 3 | 16 of 64 | clean | 1 error | not run | not run | 3 | NVIDIA H200, 2025.3.0.0" in text
    assert "| 128 x 64 | 8 | 16 of 128 | not run | not run | not run | not run | - | - |" in text
    assert f"not explained yet:\n\n- {SPLITS[2].name}, racecheck: It said: \"Error: Race reported between" in text
    reasons = {("appendix_split_k", "racecheck"): Explanation("It is none.", ("Race reported",))}
    explained = document([record], None, reasons)
    assert f"- {SPLITS[2].name}, racecheck: It is none. It said" in explained and "not explained" not in explained
    missing = "It is not recorded yet: run `python -m helpers.compute_sanitizer --rungs appendix_fitted_tiles`.\n"
    fitted = document([sanitized(*said, rung=FITTED[1].rung.name, defines=FITTED[1].defines)], None)
    assert missing in text and missing not in fitted and "| 224 x 128 | clean | 1 error | not run | not" in fitted
    assert "| 192 x 128 | not run | not run | not run | not run | - | - |" in fitted
    missing = "It is not recorded yet: run `python -m helpers.compute_sanitizer --rungs appendix_partitions`.\n"
    partitioned = document([sanitized(*said, rung=PARTITIONED.rung.name)], None)
    assert missing in fitted and missing not in partitioned and "| kernel | memcheck |" in partitioned
    assert "| appendix_partitions | clean | 1 error | not run | not run | 3 | NVIDIA H200, 2025.3" in partitioned


def test_an_explanation_fits_only_what_it_names():
    race = Explanation("why", ("Race reported",))
    assert race.fits(outcome("racecheck", RACECHECK, 99)) and not race.fits(outcome("memcheck", MEMCHECK, 99))
    assert not race.fits(outcome()) and not race.fits(outcome("memcheck", "", None))
    silent = Explanation("why")
    assert silent.fits(outcome("memcheck", "", None)) and not silent.fits(outcome("racecheck", RACECHECK, 99))


def of_tree(subject):
    return find_sanitized(subject.rung, defines=subject.defines)


NOT_RECORDED = all(of_tree(subject) is None for subject in SUBJECTS) and find_planted() is None
# Variants of a kernel none of which is recorded; the page says so.
GROUPS = (CLUSTERS, SPLITS, FITTED, (PARTITIONED,))
NO_RECORD = {variant for group in GROUPS if not any(map(of_tree, group)) for variant in group}
recorded = pytest.mark.skipif(NOT_RECORDED, reason="not recorded yet: run `python -m helpers.compute_sanitizer`")


@recorded
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_every_tool_has_looked_at_every_rung_and_variant(subject):
    found, rung = of_tree(subject), subject.rung
    command = f"run `python -m helpers.compute_sanitizer --rungs {subject.name}`"
    if subject in NO_RECORD:
        pytest.skip(f"not recorded yet: {command}")
    assert found is not None, command
    if found.device.compute_capability == "9.0":
        hashes = {entry: load(rung, "emulator", entry=entry, defines=subject.defines).code_hash
                  for entry in (rung.entry, *rung.twins)}
        assert found.code_hashes == hashes, f"other code: {command}"
    assert (found.shapes, found.sms) == (child.shapes(rung), child.sms(rung))
    for name in TOOLS:
        said, why = found.outcome(name), EXPLAINED.get((rung.name, name))
        assert said is not None, name
        assert said.status == CLEAN or why is not None, f"{said}: mend the kernel, or see EXPLAINED"
        assert said.status == CLEAN or why.fits(said), f"{said}: EXPLAINED names other reports"
        assert said.status != CLEAN or said.launches == len(found.shapes) * len(found.code_hashes)


@recorded
def test_nothing_is_explained_that_is_clean():
    open_questions = {(found.rung, said.tool) for found in map(of_tree, SUBJECTS) if found
                      for said in found.outcomes if said.status != CLEAN}
    assert set(EXPLAINED) <= open_questions


@recorded
def test_the_tools_have_seen_the_planted_faults():
    found = find_planted()
    assert found is not None
    for fault in FAULTS:
        said = found.fault(fault.name)
        if said is None and NO_RECORD.issuperset(SPLITS) and fault.kernel.name == SPLITS[0].rung.name:
            continue
        assert said is not None and said.outcome.tool == fault.tool, fault.name
        assert said.is_seen or not fault.must, f"{fault.name}: {said.outcome}"
        kernel = load(fault.kernel, "emulator", defines=fault.defines, file=fault.file())
        assert said.code_hash == kernel.code_hash, fault.name


def test_records_of_one_version_are_not_another_ones(tmp_path, gpu):
    job = replace(JOB, code_hashes=(("matmul", "0" * 16), ("matmul_uncoalesced", "1" * 16)))
    records = Records(H200, "2025.3.0.0", tmp_path)
    records.write(job, outcome())
    assert records.is_current(job) and not Records(H200, "2026.1.0.0", tmp_path).is_current(job)
    assert not records.is_current(replace(job, tool="racecheck"))
    assert not records.is_current(replace(job, code_hashes=(("matmul", "2" * 16),)))
    records.write(job, outcome("memcheck", "", None))
    assert not records.is_current(job), "a timeout is no answer"
