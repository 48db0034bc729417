"""ncu's output becomes counters, and every way in which ncu can fail becomes a sentence."""

import csv
import io
import json
import stat
from dataclasses import replace

import pytest

from helpers import ncu, nvidia_tools, profile
from helpers.device import Device
from helpers.errors import BackendError, RecordError
from helpers.ncu_counters import METRICS, Launch, Profile, launch_from
from helpers.profile import find_profile
from helpers.rungs import APPENDIX, RUNGS, find_rung

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)

VALUES = {
    METRICS["global_load_requests"]: "1,048,576",
    METRICS["global_load_sectors"]: "3,145,728",
    METRICS["global_store_requests"]: "8192",
    METRICS["global_store_sectors"]: "16384",
    METRICS["shared_load_requests"]: "100",
    METRICS["shared_load_wavefronts"]: "850",
    METRICS["shared_wavefronts"]: "800 (0x10: 400; 0x20: 400)",
    METRICS["shared_wavefronts_ideal"]: "400",
    METRICS["l2_hit_rate_pct"]: "99.25",
    METRICS["tensor_pipe_pct"]: "n/a",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "12.5",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": "0.25",
    "smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio": "7",
    "smsp__average_warp_latency_issue_stalled_wait.ratio": "3.5",
}


def table(rows=1, values=VALUES, quoting=csv.QUOTE_ALL):
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")
    writer.writerow(["ID", "Process ID", "Kernel Name", *values])
    writer.writerow(["", "", "", *("sector" for _ in values)])
    for row in range(rows):
        writer.writerow([row, 1234, "matmul(const __nv_bfloat16 *, int)", *values.values()])
    lines = text.getvalue()
    lines = lines if lines.startswith('"') else lines.replace("ID,", '"ID",', 1)
    return f"==PROF== Connected to process 1234\na line of the program\n{lines}"


def test_counters_come_out_of_the_table():
    launch = launch_from(ncu.parse_csv(table()), 512, 512, 512)
    assert launch.counters["global_load_sectors"] == 3145728
    assert launch.sectors_per_load == 3.0 and launch.sectors_per_store == 2.0
    assert launch.conflict_ratio == 2.0
    assert launch.counters["l2_hit_rate_pct"] == 99.25
    assert launch.stalls == {"long_scoreboard": 12.5, "wait": 3.5, "short_scoreboard": 0.25}
    assert list(launch.stalls) == ["long_scoreboard", "wait", "short_scoreboard"], "the largest first"
    assert "tensor_pipe_pct" in launch.missing and "tensor_pipe_pct" not in launch.counters
    assert set(launch.missing) | set(launch.counters) == set(METRICS)


def test_unquoted_numbers_are_read_too():
    values = {name: value.replace(",", "") for name, value in VALUES.items()}
    launch = launch_from(ncu.parse_csv(table(values=values, quoting=csv.QUOTE_MINIMAL)), 1, 1, 1)
    assert launch.sectors_per_load == 3.0


def test_ratios_without_their_counters_are_none():
    empty = Launch(1, 1, 1, {"shared_wavefronts_ideal": 0, "shared_wavefronts": 0}, {})
    assert empty.conflict_ratio is None and empty.sectors_per_load is None


@pytest.mark.parametrize(("rows", "words"), [(0, "0 launches instead of one"), (2, "2 launches instead of one")])
def test_exactly_one_launch_is_profiled(rows, words):
    with pytest.raises(RecordError, match=words):
        ncu.parse_csv(table(rows))


def test_output_without_a_table_is_quoted():
    with pytest.raises(RecordError, match="no table .*==ERROR== something"):
        ncu.parse_csv("==PROF== x\n==ERROR== something\n==WARNING== y\n")
    with pytest.raises(RecordError, match="it printed nothing"):
        ncu.parse_csv("")


@pytest.mark.parametrize(
    ("text", "value"), [("1,048,576", 1048576.0), ("99.5", 99.5), ("n/a", None), ("", None), ("(!) n/a", None)]
)
def test_numbers(text, value):
    assert ncu.number(text) == value


def test_command_leaves_the_clocks_alone_and_profiles_one_launch():
    child = profile.launch_command(find_rung(1), "matmul_uncoalesced", 512)
    command = ncu.ncu_command("ncu", "matmul_uncoalesced", ["a", "b"], child)
    text = " ".join(command)
    assert "--clock-control none" in text and "--launch-count 1" in text and "--metrics a,b" in text
    assert "--csv --page raw" in text and "--print-units base" in text
    assert "--kernel-name matmul_uncoalesced" in text
    assert command[-5:] == ["helpers.profile", "--launch", "01_coalescing", "matmul_uncoalesced", "512"]


def script(tmp_path, body):
    """A stand-in for ncu: a shell script."""
    path = tmp_path / "ncu"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_collect_reads_what_the_tool_prints(tmp_path):
    (tmp_path / "out.csv").write_text(table())
    launch = profile.collect(find_rung(1), "matmul", 512, script(tmp_path, f"cat {tmp_path}/out.csv"))
    assert (launch.m, launch.n, launch.k, launch.sectors_per_load) == (512, 512, 512, 3.0)


def test_metrics_that_the_tool_does_not_know_are_left_out(tmp_path):
    unknown = METRICS["tensor_pipe_pct"]
    (tmp_path / "out.csv").write_text(table())
    tool = script(
        tmp_path,
        f'case "$*" in *{unknown}*) echo "==ERROR== Failed to find metric {unknown}"; exit 1;; esac\n'
        f"cat {tmp_path}/out.csv",
    )
    launch = profile.collect(find_rung(1), "matmul", 512, tool)
    assert launch.sectors_per_load == 3.0 and "tensor_pipe_pct" in launch.missing


def test_missing_permission_is_a_sentence(tmp_path):
    tool = script(tmp_path, 'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1')
    with pytest.raises(BackendError, match="does not let this user read GPU counters.*run as root"):
        profile.collect(find_rung(1), "matmul", 512, tool)


def test_other_failures_quote_the_tool(tmp_path):
    tool = script(tmp_path, 'echo "==ERROR== The application returned an error code (1)." >&2; exit 9')
    with pytest.raises(BackendError, match=r"ncu failed with code 9 \(==ERROR== The application returned"):
        profile.collect(find_rung(1), "matmul", 512, tool)
    with pytest.raises(BackendError, match="took more than"):
        profile.collect(find_rung(1), "matmul", 512, script(tmp_path, "sleep 5"), timeout_s=0.2)
    with pytest.raises(BackendError, match="cannot be started"):
        profile.collect(find_rung(1), "matmul", 512, str(tmp_path / "none"))


def test_no_ncu_is_a_sentence(monkeypatch):
    monkeypatch.setattr(nvidia_tools.shutil, "which", lambda name: None)
    monkeypatch.setattr(nvidia_tools.os, "access", lambda path, mode: False)
    with pytest.raises(BackendError, match="ncu was not found on PATH"):
        ncu.find_ncu()


def test_a_tool_is_found_below_the_toolkit_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setattr(nvidia_tools.shutil, "which", lambda name: None)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "nonsense"))
    for folder in ("bin", "compute-sanitizer"):
        root = tmp_path / folder
        (root / folder).mkdir(parents=True)
        tool = root / folder / "a-tool"
        tool.write_text("#!/bin/sh\necho 'NVIDIA (R) A Tool'\necho 'Version 2025.3.0.0 (build 1)'\n")
        monkeypatch.setenv("CUDA_HOME", str(root))
        with pytest.raises(BackendError, match="a-tool was not found on PATH.*: install it."):
            nvidia_tools.find_tool("a-tool", "install it")   # it cannot be executed yet
        tool.chmod(0o755)
        assert nvidia_tools.find_tool("a-tool", "install it") == str(tool)
        assert nvidia_tools.tool_version(str(tool)) == "2025.3.0.0"
    assert nvidia_tools.tool_version(str(tmp_path / "none")) == "unknown"


def sample(**changes):
    launch = launch_from(ncu.parse_csv(table()), 512, 512, 512)
    fields = {
        "rung": "01_coalescing", "entry": "matmul", "code_hash": "0123456789abcdef", "device": H200,
        "ncu": "2025.3.0.0", "date": "2026-11-29T12:00:00Z", "launches": (launch,),
    }
    return Profile(**(fields | changes))


def test_round_trip(tmp_path):
    path = profile.write_profile(sample(), tmp_path)
    assert path == tmp_path / "nvidia-h200" / "profile" / "01_coalescing.json"
    assert profile.find_profile(1, directory=tmp_path) == sample()
    assert profile.find_profile(1, code_hash="f" * 16, directory=tmp_path) is None
    assert profile.find_profile(1, "matmul_uncoalesced", directory=tmp_path) is None


def test_sizes_of_the_same_code_are_kept_together(tmp_path):
    larger = replace(sample().launches[0], m=1024, n=1024, k=1024)
    profile.write_profile(sample(launches=(larger,)), tmp_path)
    profile.write_profile(sample(), tmp_path)
    found = profile.find_profile(1, directory=tmp_path)
    assert [item.m for item in found.launches] == [512, 1024]
    assert found.launch(1024, 1024, 1024) == larger and found.launch(2048, 2048, 2048) is None
    profile.write_profile(sample(code_hash="f" * 16), tmp_path)
    assert [item.m for item in profile.find_profile(1, directory=tmp_path).launches] == [512], "other code starts anew"


def test_a_variant_stands_beside_the_kernel_and_neither_is_taken_for_the_other(tmp_path):
    kernel = sample().launches[0]
    slow, slower = (replace(kernel, defines={"PACE": value}, counters={"dram_read_bytes": value}) for value in (0, 1))
    for item in (slow, slower, replace(slow, m=1024, n=1024, k=1024)):
        profile.write_profile(sample(launches=(item,)), tmp_path)
    found = profile.find_profile(1, directory=tmp_path)
    assert found.launch(512, 512, 512) is None and "01_coalescing+PACE-0, N=1024" in str(found)
    path = profile.write_profile(sample(), tmp_path)
    found = profile.find_profile(1, directory=tmp_path)
    assert len(found.launches) == 4 and found.launch(512, 512, 512) == kernel
    assert found.launch(512, 512, 512, defines={"PACE": 0}) == slow
    assert found.launch(512, 512, 512, defines={"PACE": "1"}) == slower
    assert found.launch(512, 512, 512, defines={"PACE": 2}) is None
    assert "01_coalescing, N=512" in str(found), "the kernel, not a variant of it"
    data = json.loads(path.read_text())
    assert [item.get("defines") for item in data["launches"]] == [None, {"PACE": 0}, {"PACE": 1}, {"PACE": 0}]
    data["launches"][1]["defines"] = {"PACE": True}
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"launches\[1\].defines is wrong \(define PACE has the value True"):
        profile.find_profile(1, directory=tmp_path)


def test_the_child_of_ncu_compiles_the_variant(monkeypatch, tmp_path):
    command = profile.launch_command(find_rung(10), "matmul", 512, {"STAGES": 3, "PACE": 0})
    assert command[-3:] == ["--defines", "PACE=0", "STAGES=3"]
    told = []
    monkeypatch.setattr(profile, "run_launch", lambda *arguments: told.append(arguments))
    assert profile.main(command[3:]) == 0
    assert told == [("10_clusters", "matmul", 512, "grouped", {"PACE": 0, "STAGES": 3})]
    (tmp_path / "out.csv").write_text(table())
    tool = script(tmp_path, f'echo "$*" > {tmp_path}/told; cat {tmp_path}/out.csv')
    launch = profile.collect(find_rung(10), "matmul", 512, tool, defines={"PACE": 0})
    assert launch.defines == {"PACE": 0} and (tmp_path / "told").read_text().endswith("--defines PACE=0\n")


def test_a_variant_is_recorded_with_its_defines(monkeypatch, capsys, tmp_path):
    (tmp_path / "out.csv").write_text(table())
    monkeypatch.setattr(profile.device, "device_info", lambda: H200)
    monkeypatch.setattr(profile, "find_ncu", lambda: script(tmp_path, f"cat {tmp_path}/out.csv"))
    loaded = []

    def load(rung, backend, entry, defines=None):
        loaded.append(defines)
        return type("Kernel", (), {"code_hash": "0" * 16})

    monkeypatch.setattr("helpers.kernel.load", load)
    arguments = ["--rungs", "10", "--sizes", "512", "--output", str(tmp_path)]
    assert profile.main([*arguments, "--defines", "PACE=0"]) == 0 and profile.main(arguments) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "10_clusters.matmul 512 grouped PACE=0: " in printed[0] and "512 grouped: " in printed[1]
    found = profile.find_profile(10, directory=tmp_path)
    assert [item.defines for item in found.launches] == [{}, {"PACE": 0}] and {"PACE": 0} in loaded


def test_what_crosses_l2_is_told_when_it_is_recorded(monkeypatch, capsys, tmp_path):
    values = {METRICS["l2_crossing_sectors"]: "1,000", METRICS["dram_read_bytes"]: "64"}
    (tmp_path / "out.csv").write_text(table(values=values))
    monkeypatch.setattr(profile.device, "device_info", lambda: H200)
    monkeypatch.setattr(profile, "find_ncu", lambda: script(tmp_path, f"cat {tmp_path}/out.csv"))
    monkeypatch.setattr("helpers.kernel.load", lambda *_, **__: type("Kernel", (), {"code_hash": "0" * 16}))
    chosen = ["--rungs", "appendix_p", "--sizes", "512", "--only", "l2_crossing", "dram_read"]
    assert profile.main([*chosen, "--output", str(tmp_path)]) == 0
    assert ", 32,000 bytes cross in L2, 64 bytes read from HBM" in capsys.readouterr().out


def test_defines_for_another_launch_are_refused_before_anything_is_profiled(monkeypatch, capsys):
    monkeypatch.setattr(profile, "collect", lambda *_, **__: pytest.fail("it was profiled"))
    monkeypatch.setattr(profile.device, "require_device", lambda *_: pytest.fail("it looked for a GPU"))
    assert profile.main(["--rungs", "8", "10", "--sizes", "512", "--defines", "CLUSTER=4"]) == 1
    assert capsys.readouterr().err.startswith("defines make CLUSTER 4, but 10_clusters is launched for 2")


@pytest.mark.parametrize(("given", "words"), [
    (["PACE=0", "FOO"], "--defines gives FOO, for which 10_clusters.cu does not ask: give STAGES, PACE, MULTICAST, "),
    (["STAGES=2", "PACE=1"], "--defines gives PACE=1, which 10_clusters.cu takes anyway: give another value, or none."),
    (["PACE=2"], "define PACE is 2: it is a switch, so it must be 0 or 1."),
    (["PACE="], "define PACE has the value '': it must be an integer or a word, "),
    (["PACE=0", "PACE=1"], "--defines gives PACE more than once: profile one variant after the other."),
], ids=str)
def test_defines_that_make_no_variant_are_refused(given, words, monkeypatch, capsys):
    """They would stand in the record as one, with the kernel's own counters."""
    monkeypatch.setattr(profile.device, "require_device", lambda *_: pytest.fail("it looked for a GPU"))
    assert profile.main(["--rungs", "10", "--sizes", "512", "--defines", *given]) == 1
    assert capsys.readouterr().err.startswith(words)
    assert profile.main(["--rungs", "10", "1", "--sizes", "512", "--defines", "PACE=0"]) == 1
    words = "--defines gives PACE, for which 01_coalescing.cu does not ask: profile it without.\n"
    assert capsys.readouterr().err == words


def test_damaged_profile_is_named_and_kept(tmp_path):
    path = profile.write_profile(sample(), tmp_path)
    data = json.loads(path.read_text())
    data["launches"][0]["counters"]["l2_hit_rate_pct"] = "high"
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=r"launches\[0\].counters.l2_hit_rate_pct is \"high\""):
        profile.find_profile(1, directory=tmp_path)
    before = path.read_text()
    with pytest.raises(RecordError):
        profile.write_profile(sample(), tmp_path)
    assert path.read_text() == before


def test_command_line_refuses_in_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(profile.device, "device_info", lambda: None)
    monkeypatch.setattr(profile.device, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    assert profile.main(["--rungs", "1"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "Counters can only be recorded on a GPU: No NVIDIA driver was found: install it.\n"
    assert "01_coalescing, N=" in printed.out and "01_coalescing.matmul_uncoalesced, N=" in printed.out
    assert profile.main(["--rungs", "3", "--sizes", "100"]) == 1
    assert "size 100 does not suit 03_register_tiling" in capsys.readouterr().err


def test_without_permission_the_recorded_counters_are_shown(monkeypatch, capsys, tmp_path):
    tool = script(tmp_path, 'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1')
    monkeypatch.setattr(profile.device, "device_info", lambda: sample().device)
    monkeypatch.setattr(profile, "find_ncu", lambda: tool)
    monkeypatch.setattr("helpers.kernel.load", lambda *_, **__: type("Kernel", (), {"code_hash": "0" * 16}))
    assert profile.main(["--rungs", "4", "8", "--sizes", "512", "1024", "--output", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "does not let this user read GPU counters" in printed.err
    assert printed.out.count("ncu, recorded on NVIDIA H200") == 2 and "04_swizzling, N=1024" in printed.out
    monkeypatch.setattr(profile, "find_profile", lambda *_: None)
    assert profile.main(["--rungs", "2"]) == 1
    assert capsys.readouterr().out == "02_smem_tiling: no counters are recorded\n"
    assert profile.main(["--rungs", "appendix_split", "appendix_fitted", "appendix_part"]) == 1
    assert capsys.readouterr().out == "".join(f"{rung.name}: no counters are recorded\n" for rung in APPENDIX)


def test_profiles_in_the_tree_are_valid_and_of_the_current_code():
    """Counters of a kernel that was changed must be collected again: `python -m helpers.profile`."""
    from helpers.kernel import load

    for rung in RUNGS:
        for entry in (rung.entry, *rung.twins):
            found = profile.find_profile(rung, entry)
            if found is not None and found.device.compute_capability == "9.0":
                assert found.code_hash == load(rung, backend="emulator", entry=entry).code_hash, f"{rung.name}.{entry}"


EVIDENCE = (   # requests, conflicts, bytes of L2 and HBM, use of the tensor cores, occupancy; beside them stalls
    "global_load_requests", "global_store_requests", "shared_wavefronts", "shared_wavefronts_ideal", "l2_hit_rate_pct",
    "l2_read_sectors", "l2_write_sectors", "dram_read_bytes", "dram_write_bytes", "tensor_pipe_pct",
    "achieved_occupancy_pct",
)


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_every_rung_has_its_counters_recorded(rung):
    for entry in (rung.entry, *rung.twins):
        found = find_profile(rung, entry)
        assert found is not None, f"record them: `python -m helpers.profile --rungs {rung.number}`"
        assert any(set(EVIDENCE) <= set(launch.counters) and launch.stalls for launch in found.launches)


@pytest.mark.parametrize("entry, sectors", [("matmul", "1.5 sectors a load, 2 a store"),
                                            ("matmul_uncoalesced", "16.5 sectors a load, 32 a store")])
def test_a_profile_in_words_as_notebook_1_shows_it(entry, sectors):
    text = str(find_profile("01_coalescing", entry))
    assert "N=1024: ncu, recorded on NVIDIA H200, 2026-" in text and sectors in text and "L1 answers 9" in text
