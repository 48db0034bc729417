"""The command line: what it prints for people and for programs, and that every error is one sentence."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from helpers import cli
from helpers.cli.commands import small_size
from helpers.errors import BackendError, RecordError
from helpers.gpu import Probe
from helpers.rungs import APPENDIX, ROOT, RUNGS, find_rung

bf16 = ml_dtypes.bfloat16
COMMANDS = ("list", "verify", "emulate", "bench", "inspect", "diff", "plot", "run", "doctor")


def run(*arguments):
    """Exit code of a command within this process."""
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as exit:
        return exit.code


def rows(capsys, *arguments, code=0):
    """The JSON list of a command, with nothing else on stdout or stderr."""
    assert run(*arguments, "--json") == code
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert isinstance(found, list) and all(isinstance(row, dict) for row in found)
    if code == 0:
        assert printed.err == ""
    return found


def refusal(capsys, *arguments, code=1):
    """The sentence on stderr of a command that fails."""
    assert run(*arguments) == code
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1 and sentence.rstrip().endswith(".") and "Traceback" not in sentence
    return sentence.strip()


@pytest.fixture
def emulator(monkeypatch):
    """A stand-in for the emulator that multiplies with NumPy. `spoil` changes C, `reports` is what it reports."""
    counter = SimpleNamespace
    stand_in = SimpleNamespace(spoil=None, reports=[], launches=[], compiled=[], entries=[], delay=0.0)

    def launch(entry, grid, block, arguments, **options):
        stand_in.launches.append(options)
        stand_in.entries.append(entry)
        time.sleep(stand_in.delay)
        A, B, C = (getattr(argument, "array", argument) for argument in arguments[:3])   # tensor maps have theirs
        C[...] = (A.astype(np.float32) @ B.astype(np.float32)).astype(bf16)
        if stand_in.spoil:
            stand_in.spoil(C)
        counters = [
            counter(line=21, space="global", op="load", bytes=2, requests=8, transactions=16, ideal=8, lanes=256),
            counter(line=40, space="shared", op="store", bytes=4, requests=4, transactions=8, ideal=4, lanes=128),
        ]
        return SimpleNamespace(reports=stand_in.reports, counters=counters, totals={"global_load_requests": 8})

    def compile_kernel(path, entries, defines, counters=False):
        stand_in.compiled.append((path, dict(defines), counters))
        return SimpleNamespace(launch=launch)

    fake = SimpleNamespace(compile_kernel=compile_kernel, compiler_version=lambda: "g++ 12.2")
    monkeypatch.setitem(sys.modules, "helpers.emulator", fake)
    monkeypatch.setattr("helpers.kernel.gpu.probe", lambda: SimpleNamespace(gpu=None, problem="No GPU: buy one."))
    return stand_in


def test_help_of_every_command(capsys):
    for command in COMMANDS:
        assert run(command, "--help") == 0
        assert "--json" in capsys.readouterr().out


def test_list(capsys):
    found = rows(capsys, "list")
    assert [row["number"] for row in found] == [*(rung.number for rung in RUNGS), *[None] * len(APPENDIX)]
    assert [(row["name"], row["notebook"]) for row in found[len(RUNGS):]] == [(rung.name, None) for rung in APPENDIX]
    first = found[0]
    assert {"number", "name", "title", "notebook", "kernel", "compute_capability"} <= set(first)
    assert (first["notebook"], first["kernel"]) == ("notebooks/01_coalescing.ipynb", "kernels/01_coalescing.cu")
    assert run("list") == 0
    assert "01_coalescing" in capsys.readouterr().out


def test_verify_of_one_size(capsys, emulator):
    found = rows(capsys, "verify", "1", "--size", "33x40x17")
    assert [row["entry"] for row in found] == ["matmul", "matmul_uncoalesced"]
    for row in found:
        assert {"rung", "backend", "m", "n", "k", "passed", "relative_error", "reason"} <= set(row)
        assert (row["rung"], row["backend"], row["m"], row["n"], row["k"]) == ("01_coalescing", "emulator", 33, 40, 17)
        assert row["passed"] is True and 1e-3 < row["relative_error"] < 4e-3 and row["reason"] == ""
    assert emulator.compiled[0][1:] == ({}, True)


def test_verify_all_rungs_on_their_own_sizes(capsys, emulator):
    found = rows(capsys, "verify")
    assert {row["rung"] for row in found} == {rung.name for rung in RUNGS}
    assert len(found) > 3 * len(RUNGS)


def test_verify_fails_with_exit_code_1(capsys, emulator):
    def spoil(C):
        C[0, 0] = np.nan

    emulator.spoil = spoil
    (row, _) = rows(capsys, "verify", "01", "--size", "8", code=1)
    assert row["passed"] is False and row["relative_error"] is None and "NaN or infinity at (0, 0)" in row["reason"]
    assert run("verify", "1", "--size", "8") == 1
    assert "NaN or infinity at (0, 0)" in capsys.readouterr().out


def test_verify_names_each_rung_once(capsys, emulator):
    found = rows(capsys, "verify", "1", "01_coalescing", "--size", "8")
    assert len(found) == 2


def test_emulate(capsys, emulator):
    (row,) = rows(capsys, "emulate", "2", "--schedule", "random", "--seed", "7", "--define", "X=3", "--define", "Y")
    wanted = {"rung", "m", "n", "k", "schedule", "seed", "passed", "relative_error", "reports", "counters", "totals"}
    assert wanted <= set(row)
    assert (row["rung"], row["schedule"], row["seed"], row["passed"]) == ("02_smem_tiling", "random", 7, True)
    assert (row["reports"], row["counters"]) == ([], [])
    ((path, defines, counters),) = emulator.compiled
    # Counting is what bounds and races are checked with, so it is on even where nobody asked for the counts.
    assert (path, defines, counters) == (find_rung(2).path, {"X": 3, "Y": 1}, True)
    assert emulator.launches[0]["schedule"] == "random" and emulator.launches[0]["seed"] == 7


def test_emulate_counters(capsys, emulator):
    (row,) = rows(capsys, "emulate", "1", "--counters", "--entry", "matmul_uncoalesced")
    assert emulator.compiled[0][2] is True and emulator.entries == ["matmul_uncoalesced"]
    load, store = row["counters"]
    assert {"line", "space", "op", "bytes", "requests"} <= set(load)
    assert load["sectors_per_request"] == 2.0 and "wavefronts_per_request" not in load
    assert store["wavefronts_per_request"] == 2.0 and "sectors_per_request" not in store
    assert row["totals"] == {"global_load_requests": 8}
    assert run("emulate", "1", "--counters") == 0
    printed = capsys.readouterr().out
    source = find_rung(1).path.read_text().splitlines()
    assert source[20].strip() in printed and "2.00" in printed and "global load requests" in printed


def test_emulate_reports(capsys, emulator):
    emulator.reports = [SimpleNamespace(kind="race", message="threads 1 and 2 wrote tile[3].", line=12)]
    (row,) = rows(capsys, "emulate", "2", code=1)
    assert row["reports"] == [{"kind": "race", "message": "threads 1 and 2 wrote tile[3].", "line": 12}]
    assert row["passed"] is False and "race" in row["reason"]
    assert run("emulate", "2") == 1
    assert "02_smem_tiling.cu:12: race: threads 1 and 2 wrote tile[3]." in capsys.readouterr().out


def test_emulate_another_file(capsys, emulator, tmp_path):
    other = tmp_path / "mine.cu"
    other.write_text(find_rung(1).path.read_text())
    rows(capsys, "emulate", "1", "--file", other)
    assert emulator.compiled[0][0] == other
    assert "kernel file nowhere.cu does not exist" in refusal(capsys, "emulate", "1", "--file", "nowhere.cu")


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_small_sizes_fit(rung):
    for size, multiple in zip(small_size(rung), rung.multiples, strict=True):
        assert size >= 64 and size % multiple == 0


def test_inspect(capsys):
    found = rows(capsys, "inspect", "1", "--sass")
    assert [row["entry"] for row in found] == ["matmul", "matmul_uncoalesced"]
    for row in found:
        assert {"rung", "entry", "registers", "spill_bytes", "static_shared_bytes", "warnings"} <= set(row)
        assert row["registers"] > 0 and row["spill_bytes"] == 0 and row["warnings"] == []
        assert "EXIT" in row["sass"] and re.fullmatch("[0-9a-f]{16}", row["code_hash"])
    (row,) = rows(capsys, "inspect", "2")
    assert row["static_shared_bytes"] == 8192 and "sass" not in row
    assert run("inspect", "2", "--sass") == 0
    assert "BAR.SYNC" in capsys.readouterr().out


def test_diff(capsys):
    (row,) = rows(capsys, "diff", "2")
    assert (row["rung"], row["previous"]) == ("02_smem_tiling", "01_coalescing")
    assert row["added"] > 5 and row["removed"] > 5
    assert run("diff", "2") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("--- kernels/01_coalescing.cu\n+++ kernels/02_smem_tiling.cu\n@@")
    assert "+    __shared__ float A_tile" in printed and "\x1b" not in printed
    assert printed.rstrip("\n") == row["diff"]
    assert "nothing came before it" in refusal(capsys, "diff", "1")


def test_the_appendix_on_the_command_line(capsys):
    for rung, previous in zip(APPENDIX, ("07_pipelining", "10_clusters", "10_clusters"), strict=True):
        (row,) = rows(capsys, "diff", rung.name)
        assert row["previous"] == previous   # which its head names
        (row,) = rows(capsys, "inspect", rung.name)
        assert row["rung"] == rung.name and row["spill_bytes"] == 0
        short = rung.name[:12]   # fits no other
        assert f"{rung.name} has no notebook: read its file, kernels/{rung.name}" in refusal(capsys, "run", short)
        assert f"{rung.name} has no notebook" in refusal(capsys, "slides", rung.name)
    for name, wrong, right in (("appendix_split_k", "TILE_M=128", 64), ("appendix_fitted_tiles", "HEIGHT=192", 224)):
        define, value = wrong.split("=")
        sentence = refusal(capsys, "emulate", name, "--define", wrong, code=1)
        assert f"defines make {define} {value}, but {name} is launched for {right}" in sentence
    assert "rung 'appendix' fits several rungs: give one of " in refusal(capsys, "inspect", "appendix")


def measurement(**changes):
    base = dict(
        notes=(), rung="01_coalescing", entry="matmul", m=4096, n=4096, k=4096, regime="burst",
        tflops=5.1, cublas_tflops=770.0, ratio=0.0066, ratio_interval=SimpleNamespace(low=0.0065, high=0.0067),
        sm_clock_mhz=1900.0, power_w=None, throttle_reasons=(), source="recorded",
        device=SimpleNamespace(name="NVIDIA H200"), date="2026-11-29T00:00:00Z",
        stale=False, code_hash="0" * 16,
    )
    return SimpleNamespace(**(base | changes))


@pytest.fixture
def benchmark(monkeypatch):
    """A stand-in for the benchmark; `answer` is a function of its arguments."""
    stand_in = SimpleNamespace(answer=lambda rung, size, regime: measurement(rung=rung.name, regime=regime), calls=[])

    def fake(rung, size, regime, entry=None):
        stand_in.calls.append((rung.name, size, regime, entry))
        return stand_in.answer(rung, size, regime)

    monkeypatch.setattr(sys.modules["helpers.benchmark"], "benchmark", fake)
    return stand_in


def test_bench(capsys, benchmark):
    found = rows(capsys, "bench")
    assert [row["rung"] for row in found] == [rung.name for rung in RUNGS]
    wanted = {
        "rung", "m", "n", "k", "regime", "tflops", "cublas_tflops", "ratio", "source", "device", "date", "stale",
    }
    assert all(wanted <= set(row) for row in found)
    assert benchmark.calls[0] == ("01_coalescing", (4096,) * 3, "burst", None)
    rows(capsys, "bench", "1", "--size", "64x32x16", "--sustained", "--entry", "matmul_uncoalesced")
    assert benchmark.calls[-1] == ("01_coalescing", (64, 32, 16), "sustained", "matmul_uncoalesced")
    assert run("bench", "1") == 0
    assert "recorded" in capsys.readouterr().out


def test_bench_goes_on_after_a_rung_without_a_recording(capsys, benchmark):
    def answer(rung, size, regime):
        if rung.number == 1:
            raise RecordError("There is no recording for this code.")
        return measurement(rung=rung.name)

    benchmark.answer = answer
    assert run("bench", "--json") == 1
    printed = capsys.readouterr()
    assert [row["rung"] for row in json.loads(printed.out)] == [rung.name for rung in RUNGS[1:]]
    assert printed.err == "There is no recording for this code.\n"


@pytest.fixture
def changed_since(monkeypatch, tmp_path):
    """The recordings of rung 3 as if its kernel had been another one when it was measured."""
    from helpers import record_basics

    monkeypatch.setattr("helpers.kernel.gpu.probe", lambda: Probe(None, "No NVIDIA driver was found."))
    folder = tmp_path / "records"
    shutil.copytree(record_basics.RECORD_DIR, folder)
    for path in folder.glob("*/03_*_burst.json"):
        text = json.loads(path.read_text())
        path.write_text(json.dumps(text | {"code_hash": "0" * 16}))
    monkeypatch.setattr(record_basics, "RECORD_DIR", folder)


def test_bench_says_which_recording_is_stale_and_keeps_its_figures_back(capsys, changed_since):
    assert run("bench", "2", "3", "--json") == 1
    printed = capsys.readouterr()
    good, stale = json.loads(printed.out)
    assert "what was recorded is other code" in printed.err and printed.err.count("\n") == 1
    assert (good["rung"], good["stale"]) == ("02_smem_tiling", False) and good["tflops"] > 0
    assert (stale["rung"], stale["stale"], stale["source"]) == ("03_register_tiling", True, "recorded")
    assert set(stale) == set(good) and stale["size"] == good["size"] == "4096x4096x4096"
    assert stale["device"].startswith("NVIDIA") and stale["date"] and stale["code_hash"] == "0" * 16
    kept = {"rung", "entry", "m", "n", "k", "size", "regime", "source", "device", "date", "stale", "code_hash"}
    assert {key for key, value in stale.items() if value is not None} == kept
    assert rows(capsys, "bench", "3", "--size", "1152x1024x1024", code=1) == []   # nothing recorded: nothing stale
    assert run("bench", "3") == 1
    assert capsys.readouterr().out == "", "people get the sentence alone"


def test_bench_says_what_was_noted_while_it_measured(capsys, benchmark):
    note = "Another process computed on this GPU, so the figures are too low."
    benchmark.answer = lambda *_: measurement(source="live", notes=(note,))
    assert run("bench", "1") == 0 and capsys.readouterr().out.splitlines()[-1] == note
    (row,) = rows(capsys, "bench", "1")
    assert row["notes"] == [note]
    benchmark.answer = lambda *_: measurement(notes=(note,))
    assert run("bench", "1") == 0 and note not in capsys.readouterr().out, "a recording's are not of this run"


def test_bench_records_live_measurements_only(capsys, benchmark, tmp_path, monkeypatch):
    file = tmp_path / "new.json"
    assert "was not written: this machine has no GPU" in refusal(capsys, "bench", "1", "--record", file)
    assert not file.exists()
    assert "--record takes the measurement of one rung" in refusal(capsys, "bench", "--record", file)
    written = []
    monkeypatch.setattr("helpers.records.write_record", lambda item, path: written.append(path))
    benchmark.answer = lambda *_: measurement(source="live")
    rows(capsys, "bench", "1", "--record", file)
    assert written == [file]


def test_unwritable_outputs_are_refused_before_the_work(capsys, benchmark, tmp_path):
    (tmp_path / "file").write_text("precious")
    inside_a_file = tmp_path / "file" / "x.png"
    for arguments in (("bench", "1", "--record", inside_a_file), ("plot", "--output", inside_a_file)):
        assert "cannot be written" in refusal(capsys, *arguments)
    assert benchmark.calls == []
    assert "is no .png file" in refusal(capsys, "plot", "--output", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_plot(capsys, tmp_path):
    file = tmp_path / "new" / "ladder.png"
    (row,) = rows(capsys, "plot", "--output", file)
    assert file.read_bytes().startswith(b"\x89PNG") and "764" in row["alt"]
    assert run("plot", "--output", file) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("ladder.png: the speeds of the rungs, a picture; in words with --json")


def test_run(capsys, monkeypatch, tmp_path):
    ran = []

    def run_notebook(path, output_dir):
        ran.append((path, output_dir))
        if path.name.startswith("bad"):
            raise BackendError("notebook bad.ipynb failed in cell 3 (ValueError: no); the file is unchanged.")
        return output_dir / path.name

    monkeypatch.setattr("helpers.notebooks.run_notebook", run_notebook)
    bad, good = tmp_path / "bad.ipynb", tmp_path / "good.ipynb"
    for path in (bad, good):
        path.write_text("{}")
    assert run("run", bad, good, "2", "02_smem_tiling.ipynb", good, "--output-dir", tmp_path / "out", "--json") == 1
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [(row["notebook"], row["passed"]) for row in found] == [
        ("bad.ipynb", False), ("good.ipynb", True), ("02_smem_tiling.ipynb", True),
    ]
    assert printed.err.count("\n") == 1 and "cell 3" in printed.err
    assert [path for path, _ in ran] == [bad, good, find_rung(2).notebook]
    assert "does not exist" in refusal_of_missing_notebook(capsys, monkeypatch)


def refusal_of_missing_notebook(capsys, monkeypatch):
    monkeypatch.undo()
    return refusal(capsys, "run", "missing.ipynb", "--output-dir", "build/test-notebooks")


def test_doctor(capsys, emulator):
    found = rows(capsys, "doctor")
    assert all({"check", "ok", "detail", "remedy"} <= set(row) for row in found)
    checks = {row["check"]: row for row in found}
    assert checks["python"]["ok"] and checks["NVRTC, headers"]["ok"] and checks["nvdisasm"]["ok"]
    assert checks["C++ compiler"]["detail"] == "g++ 12.2"
    assert all(row["remedy"] for row in found if not row["ok"])
    assert all(not row["remedy"] for row in found if row["ok"])


def test_doctor_says_what_is_missing(capsys, emulator, monkeypatch):
    def missing():
        raise BackendError("No C++ compiler was found: install g++ with `apt-get install g++`.")

    monkeypatch.setattr(sys.modules["helpers.emulator"], "compiler_version", missing)
    found = rows(capsys, "doctor", code=1)
    (row,) = [row for row in found if row["check"] == "C++ compiler"]
    assert not row["ok"] and row["detail"] == "No C++ compiler was found"
    assert row["remedy"].rstrip(".") == "install g++ with `apt-get install g++`"


def test_doctor_without_a_gpu_says_what_the_recording_says(capsys, monkeypatch):
    monkeypatch.setattr("helpers.device.device_info", lambda: None)
    monkeypatch.setattr("helpers.device.no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    (row,) = rows(capsys, "doctor", "--performance")
    assert {"check", "ok", "detail", "remedy"} <= set(row) and row["check"] == "verdict" and not row["ok"]
    assert row["detail"].startswith("No NVIDIA driver was found; recorded on NVIDIA H200, ") and row["remedy"]
    assert run("doctor", "--performance", "--rung", "7", "--size", "8192") == 0
    printed = capsys.readouterr()
    assert printed.err == "" and "07_pipelining at N=8192, burst" in " ".join(printed.out.split())
    assert max(map(len, printed.out.splitlines())) <= 111
    assert "is no cube" in refusal(capsys, "doctor", "--performance", "--size", "1x2x3", code=2)
    assert "03_register_tiling" in refusal(capsys, "doctor", "--performance", "--rung", "3", "--size", "100")


def test_doctor_prints_every_finding_and_refuses_wrong_kernels(capsys, monkeypatch):
    from helpers import performance
    from helpers.causes import Facts, Finding

    asked = []

    def explain(*arguments):
        asked.append(arguments)
        facts = Facts("10_clusters", 4096, "burst", device=object(), refused="it is wrong")
        found = Finding("speed", True, "fast"), Finding("verdict", False, "no " * 40, "do this")
        return performance.Report(facts, found)

    monkeypatch.setattr(performance, "measure_and_explain", explain)
    found = rows(capsys, "doctor", "--performance", "--sustained", code=1)
    assert [row["check"] for row in found] == ["speed", "verdict"] and asked == [("10", 4096, "sustained")]
    assert run("doctor", "--performance") == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "speed             yes  fast", "verdict           no   " + "no " * 28 + "no", " " * 23 + "no " * 10 + "no",
        " " * 23 + "do this",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "required: COMMAND"),
        (("fly",), "invalid choice: 'fly'"),
        (("verify", "--size", "8x8"), "'8x8' is no size: give MxNxK"),
        (("verify", "--size", "0"), "'0' is no size"),
        (("verify", "--size", "8x-8x8"), "is no size"),
        (("verify", "--size", "4294967296"), "is too large"),
        (("verify", "--backend", "gpu"), "invalid choice: 'gpu'"),
        (("emulate",), "required: RUNG"),
        (("emulate", "1", "--seed", "-1"), "--seed"),
        (("emulate", "1", "--seed", "x"), "'x' is no seed"),
        (("emulate", "1", "--schedule", "late"), "invalid choice: 'late'"),
        (("emulate", "1", "--define", "1X=2"), "'1X=2' is no define"),
        (("diff",), "required: RUNG"),
        (("list", "extra"), "unrecognized arguments: extra"),
    ],
)
def test_bad_usage_is_code_2(capsys, arguments, words):
    assert words in refusal(capsys, *arguments, code=2)


@pytest.mark.parametrize("command", ["verify", "emulate", "bench", "inspect", "diff", "run"])
def test_unknown_rung(capsys, command):
    assert "rung '77' is not a rung: give one of 01_coalescing" in refusal(capsys, command, "77")


def test_shape_that_the_rung_does_not_take(capsys, emulator):
    sentence = refusal(capsys, "verify", "3", "--size", "100x256x64")
    assert "A has 100 rows but 03_register_tiling needs M to be a multiple of 128" in sentence
    assert emulator.launches == []


def test_gpu_that_is_not_there(capsys, emulator):
    assert refusal(capsys, "verify", "1", "--backend", "cuda") == "No GPU: buy one."


def test_unknown_entry(capsys, emulator):
    for command in ("emulate", "inspect"):
        assert "entry 'nothing' is not in 01_coalescing.cu" in refusal(capsys, command, "1", "--entry", "nothing")


def test_damaged_record_file(capsys, monkeypatch, tmp_path):
    folder = tmp_path / "nvidia-h200"
    folder.mkdir()
    (folder / "01_coalescing_4096_burst.json").write_text("{ not json")
    monkeypatch.setattr("helpers.record_basics.RECORD_DIR", tmp_path)
    monkeypatch.setattr("helpers.kernel.gpu.probe", lambda: SimpleNamespace(gpu=None, problem="none."))
    sentence = refusal(capsys, "bench", "1")
    assert "01_coalescing_4096_burst.json is not valid JSON" in sentence


def test_bug_is_a_sentence_too(capsys, monkeypatch):
    monkeypatch.setattr("helpers.cli.commands.find_rung", lambda name: 1 / 0)
    sentence = refusal(capsys, "diff", "2")
    assert sentence.startswith("Internal error, ZeroDivisionError: division by zero; please report it.")


def command_line(*arguments, **options):
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "helpers", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment, **options,
    )


def test_as_a_process():
    process = command_line("list", "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == "" and len(json.loads(out)) == len(RUNGS) + len(APPENDIX)
    process = command_line("diff", "99")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and out == "" and err.count("\n") == 1


def test_reader_that_stops_reading():
    process = command_line("inspect", "1", "--sass")
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait(timeout=60)


def interrupted(script, tmp_path):
    """Exit code and stderr of a process that gets Ctrl-C once it has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 5
    return process.returncode, err


def test_ctrl_c_in_python_code(tmp_path):
    script = """
import sys, time, helpers.cli.commands as commands
from helpers.cli import main
def slow(name):
    print("ready", flush=True)
    for _ in range(300):   # a signal that comes just before a sleep does not end it
        time.sleep(0.1)
commands.find_rung = slow
sys.exit(main(["diff", "2"]))
"""
    assert interrupted(script, tmp_path) == (130, "Interrupted.\n")


def test_ctrl_c_in_machine_code(tmp_path):
    """The emulator's launch is one long call of C++ code, in which Python cannot handle a signal."""
    script = """
import ctypes, sys, helpers.cli.commands as commands
from helpers.cli import main
def slow(name):
    print("ready", flush=True)
    ctypes.CDLL(None).poll(None, 0, 30000)
    ctypes.CDLL(None).usleep(30000000)
commands.find_rung = slow
sys.exit(main(["emulate", "2"]))
"""
    assert interrupted(script, tmp_path) == (130, "Interrupted.\n")


def test_warnings_are_lines_on_stderr(capsys, monkeypatch):
    import warnings

    def warn(name):
        warnings.warn("Something is odd: look.", UserWarning, stacklevel=1)
        return replace(find_rung(2))

    monkeypatch.setattr("helpers.cli.commands.find_rung", warn)
    assert run("diff", "2", "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == "Warning: Something is odd: look.\n" and json.loads(printed.out)


def test_paths_are_shown_as_people_type_them(tmp_path):
    from helpers.jsonfile import display

    assert display(ROOT / "build" / "x.png") == "build/x.png"
    assert display(tmp_path / "x.png") == str(tmp_path / "x.png")
    assert not any(Path(display(rung.path)).is_absolute() for rung in RUNGS)
