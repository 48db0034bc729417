"""Why is mine slower: every cause from made-up facts, the verdict's side, and how facts are collected."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from helpers import performance
from helpers.benchmark import BenchmarkRefused
from helpers.causes import Facts, filled, findings
from helpers.device import Device
from helpers.errors import ArgumentError
from helpers.nvml import BoardState
from helpers.performance import measure_and_explain, why_slower
from helpers.records import Measurement, Samples

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0, 62914560, 150_000_000_000, 3201.0, 6016, "580.159.04", 700.0)
CALM = BoardState(700.0, 700.0, 1980.0, None, 0.0, 1, False, ())


def measured(tflops: float, cublas: float, **changes) -> Measurement:
    """Rung 10 at N=4096 in nine even rounds, at these speeds."""
    ms, cublas_ms = (2 * 4096**3 / speed / 1e9 for speed in (tflops, cublas))
    fields = {
        "rung": "10_clusters", "entry": "matmul", "code_hash": "0123456789abcdef", "defines": {}, "dtype": "bfloat16",
        "device": H200, "toolkit": {"nvrtc": "13.0", "cublas": "13.1.0", "cupy": "14.2.0"}, "m": 4096, "n": 4096,
        "k": 4096, "regime": "burst",
        "method": {"launches_hidden": True, "longest_queue_ms": 0.2, "spin_ms": 0.3},
        "samples": Samples(((ms,),) * 9, ((cublas_ms,),) * 9), "sm_clock_mhz": 1900.0, "power_w": 500.0,
        "temperature_c": 40.0, "throttle_reasons": (), "date": "2026-11-29T12:00:00Z",
    }
    return Measurement(**(fields | changes))


RECORDED = measured(800, 790)


def facts(mine: Measurement | None = RECORDED, **changes) -> Facts:
    fields = {
        "rung": "10_clusters", "n": 4096, "regime": "burst", "device": H200, "state": CALM, "mine": mine,
        "recorded": RECORDED, "held_mhz": 1630.0, "recorded_mhz": 1634.0, "code_hash": "0123456789abcdef",
        "spill_bytes": 0,
    }
    return Facts(**(fields | changes))


def by_name(found) -> dict:
    return {item.check: item for item in found}


def test_nothing_is_wrong_with_the_recording_itself() -> None:
    found = findings(facts())
    assert [item.check for item in found] == [
        "speed", "cuBLAS", "card", "power cap", "clocks", "throttle reasons", "other processes", "toolkit", "size",
        "code", "ptxas", "launches", "rounds", "verdict",
    ]
    assert all(item.ok and not item.remedy for item in found)
    assert found[-1].detail == "It is not slower: 100.0% of the recorded speed, 100.0% of the recorded ratio"
    assert found[0].detail == "800 TFLOP/s here, 800 recorded on NVIDIA H200, 2026-11-29: 100.0%"
    assert found[2].detail == "NVIDIA H200: 132 SMs at up to 1,980 MHz, of the H200 SXM's kind"


def test_small_differences_between_machines_are_nothing() -> None:
    assert findings(facts(measured(780, 771)))[-1].ok
    assert not findings(facts(measured(770, 760)))[-1].ok


SLOW = measured(600, 592.5)   # the machine is slower: cuBLAS lost as much
ALONE = measured(600, 790)    # the kernel alone is slower
CAUSES = [
    # (the cause that is named first, facts, words of its detail, words of its remedy)
    ("card", facts(SLOW, device=replace(H200, sm_count=114, max_clock_mhz=1755.0, memory_bytes=85_000_000_000)),
     "114 SMs at up to 1,755 MHz, of the H100 PCIe's kind; the recorded NVIDIA H200 has 132 .*are 77%", "the ratio"),
    ("card", facts(SLOW, state=replace(CALM, mig=True)), "MIG has cut it", "a whole GPU"),
    ("power cap", facts(SLOW, state=replace(CALM, power_limit_w=450.0)),
     "450 W, 500 W read at most; the board came with 700 W", "nvidia-smi -pl 700"),
    ("power cap", facts(SLOW, state=replace(CALM, power_limit_w=350.0, default_limit_w=350.0)),
     "350 W.*; the recorded GPU had 700 W", "compare the ratio"),
    ("clocks", facts(SLOW, state=replace(CALM, set_clock_mhz=1200.0)), "; set to 1,200", "nvidia-smi -rac"),
    ("clocks", facts(SLOW, held_mhz=1225.5), "1,226 within the kernel, 1,634 within the recorded one: 75%", "say why"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("sw_power_cap",))), "the power limit lowers", "rest"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("sw_thermal_slowdown",), temperature_c=88.0)),
     "sw_thermal_slowdown, 88 C: heat lowers", "airflow"),
    ("throttle reasons", facts(SLOW, state=replace(CALM, throttle_reasons=("hw_power_brake_slowdown",))),
     "the power supply's brake", "power supply"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("hw_slowdown",))), "the board itself", "PERFORMANCE"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("applications_clocks_setting",))), "by hand", "-rac"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("sync_boost",))), "share a clock", "administrator"),
    ("throttle reasons", facts(replace(SLOW, throttle_reasons=("reason_0x1000",))), "0x1000 lowers", "nvidia-smi"),
    ("other processes", facts(SLOW, state=replace(CALM, busy_pct=37.0, processes=2)),
     "2 with memory on the GPU, GPU busy 37% of the time", "when they are done"),
    ("other processes", facts(SLOW, state=replace(CALM, busy_pct=99.0, processes=2, others=("process 7 (train)",))),
     r"2 with memory on the GPU, among them process 7 \(train\), GPU busy 99%", "when they are done"),
    ("toolkit", facts(replace(ALONE, toolkit={"nvrtc": "12.8", "cublas": "13.1.0", "cupy": "14.2.0"})),
     "nvrtc 12.8, .*, driver 580.159.04; recorded with nvrtc 13.0", "make setup"),
    ("code", facts(ALONE, code_hash="f" * 16), "f{16}, the recorded one is 0123456789abcdef", "git diff kernels/10_"),
    ("code", facts(ALONE, code_hash="f" * 16, spill_bytes=96), "recorded one", "git diff"),
    ("launches", facts(replace(ALONE, method={"launches_hidden": False, "longest_queue_ms": 6.2, "spin_ms": 3.1})),
     "queued in 6.2 ms behind a spin of 3.1 ms", "free the CPU"),
    ("rounds", facts(replace(SLOW, samples=Samples(
        tuple((ms,) for ms in (0.2, 0.23, 0.26) * 3), tuple((ms,) for ms in (0.2025, 0.233, 0.2633) * 3)))),
     "quartiles .*% apart", "measure again"),
]


@pytest.mark.parametrize(("name", "found", "detail", "remedy"), CAUSES)
def test_each_cause_is_found_and_named_in_the_verdict(name, found, detail, remedy) -> None:
    checks = by_name(findings(found))
    assert not checks[name].ok and re.search(detail, checks[name].detail) and remedy in checks[name].remedy
    assert f"what fits: {name}" in checks["verdict"].detail
    assert checks["verdict"].remedy == f"begin with {name}: {checks[name].remedy}"
    assert all(bool(item.remedy) != item.ok for item in checks.values())


def test_cublas_tells_the_machine_from_the_kernel() -> None:
    everything = {"state": replace(CALM, power_limit_w=450.0), "code_hash": "f" * 16}
    machine, kernel, both, theirs = (
        findings(facts(mine, **everything))[-1].detail
        for mine in (SLOW, ALONE, measured(500, 650), measured(800, 850))
    )
    assert machine.startswith("The machine: cuBLAS in turn is slower too (75.0% of the recorded, the kernel 75.0%)")
    assert machine.endswith("what fits: power cap")
    assert kernel.startswith("The kernel: cuBLAS in turn is as fast as recorded (100.0%), the kernel is not (75.0%)")
    assert kernel.endswith("what fits: code")
    assert both.startswith("Both: ") and both.endswith("what fits: power cap, code")
    assert theirs.startswith("The kernel is as fast as recorded, but cuBLAS is faster here (107.6%)")


def test_no_known_cause_is_said() -> None:
    verdict = findings(facts(SLOW))[-1]
    assert "no known cause fits" in verdict.detail and "measure again" in verdict.remedy and not verdict.ok


def test_reasons_and_code_of_the_recording_are_no_causes() -> None:
    capped = replace(RECORDED, throttle_reasons=("sw_power_cap",))
    checks = by_name(findings(facts(capped, recorded=capped, spill_bytes=8, warnings=("warning: x",))))
    assert checks["throttle reasons"].detail == "sw_power_cap, 40 C: as in the recording" and checks["ptxas"].ok
    assert checks["ptxas"].detail == "warning: x, 8 bytes spilled, as in the recorded code"


@pytest.mark.parametrize(
    ("spill_bytes", "warnings", "words"),
    [
        (0, ("ptxas info : (C7510) Potential Performance Loss: wgmma instructions are serialized",), "serialized"),
        (96, (), "96 bytes spilled"), (0, ("ptxas warning : something",), "something"),
    ],
)
def test_what_ptxas_says_of_changed_code_counts(spill_bytes, warnings, words) -> None:
    checks = by_name(findings(facts(ALONE, code_hash="f" * 16, spill_bytes=spill_bytes, warnings=warnings)))
    assert words in checks["ptxas"].detail and "helpers inspect 10" in checks["ptxas"].remedy
    assert checks["verdict"].detail.endswith("what fits: code, ptxas")
    assert by_name(findings(facts(ALONE, code_hash="f" * 16)))["ptxas"].ok


def test_size_counts_where_the_last_wave_is_emptier_than_on_the_recorded_gpu() -> None:
    assert filled("10_clusters", 4096, 132) == pytest.approx(256 / (4 * 66))   # 64 clusters have four tiles each
    assert filled("10_clusters", 4096, 114) == pytest.approx(256 / (5 * 57))
    assert filled("07_pipelining", 2048, 132) == pytest.approx(128 / 132)
    assert filled("07_pipelining", 4096, 132) == pytest.approx(512 / (4 * 132))
    assert filled("01_coalescing", 4096, 132) is None
    small = facts(SLOW, n=1024, recorded=None)
    size = by_name(findings(small))["size"]
    assert not size.ok and size.detail == "N=1024: tiles fill 24% of the SMs' time"
    assert by_name(findings(facts(SLOW, n=1024)))["size"].ok, "the recorded GPU had the same wave"
    fewer = by_name(findings(facts(SLOW, device=replace(H200, sm_count=102))))   # 256 tiles in 6 waves of 51
    assert fewer["size"].detail == "N=4096: tiles fill 84% of the SMs' time" and not fewer["size"].ok
    assert fewer["verdict"].detail.endswith("what fits: card, size")
    odd = facts(SLOW, device=replace(H200, sm_count=100), n=2304)   # 81 tiles on 50 places, 64 as recorded
    assert by_name(findings(odd))["size"].detail == "N=2304: tiles fill 81% of the SMs' time, as on the recorded GPU"


def test_missing_facts_leave_checks_out_and_not_wrong() -> None:
    bare = Device("NVIDIA H200", "9.0", 132)
    found = findings(facts(None, device=bare, state=BoardState(), held_mhz=None, recorded_mhz=None, spill_bytes=None))
    checks = by_name(found)
    assert set(checks) == {"card", "size", "code", "verdict"} and "Nothing was measured" in checks["verdict"].detail
    checks = by_name(findings(facts(recorded=None, recorded_mhz=None)))
    assert "nothing is recorded of 10_clusters at N=4096, burst" in checks["verdict"].detail
    assert "compare at N=4096 or 8192" in checks["verdict"].remedy and not checks["verdict"].ok
    unmeasured = replace(RECORDED, throttle_reasons=None)
    assert "throttle reasons" not in by_name(findings(facts(unmeasured, state=BoardState())))


def test_a_refused_kernel_has_no_speed() -> None:
    found = by_name(findings(facts(None, refused="10_clusters.matmul is wrong at 4096.")))
    assert found["speed"].detail == "10_clusters.matmul is wrong at 4096" and "verify 10" in found["speed"].remedy
    assert found["verdict"].detail == "The kernel is wrong, so it has no speed"


def test_without_a_gpu_it_is_one_sentence_and_the_recording() -> None:
    (verdict,) = findings(facts(None, device=None, no_gpu="No NVIDIA driver was found: install it."))
    assert verdict.detail == (
        "No NVIDIA driver was found; recorded on NVIDIA H200, 2026-11-29: 10_clusters at N=4096, burst, "
        "800 TFLOP/s, 1.013 of cuBLAS"
    )
    assert verdict.remedy == "install it"


# Collecting the facts.

@pytest.fixture
def machine(monkeypatch):
    """A GPU that is not there: what it would have said and measured."""
    monkeypatch.setattr(performance.device, "device_info", lambda: H200)
    monkeypatch.setattr(performance, "board_state", lambda: CALM)
    monkeypatch.setattr(performance, "find_record", lambda *_, **__: RECORDED)
    monkeypatch.setattr(performance, "recorded_clocks", lambda slug: (
        SimpleNamespace(rung="10_clusters", n=4096, regime="burst", mhz=1634.0),
        SimpleNamespace(rung="10_clusters", n=8192, regime="burst", mhz=1594.0),
    ))
    asked = []
    monkeypatch.setattr(performance, "measure_clock", lambda rung, n, regime: (
        asked.append((rung.name, n, regime)) or SimpleNamespace(mhz=1225.5)))
    return asked


def test_a_measurement_in_a_notebook_is_explained(machine) -> None:
    report = why_slower(replace(SLOW, source="live"))
    assert machine == [("10_clusters", 4096, "burst")]
    assert (report.facts.held_mhz, report.facts.recorded_mhz) == (1225.5, 1634.0) and report.facts.spill_bytes == 0
    lines = str(report).splitlines()
    assert lines[0] == "10_clusters, N=4096, burst: why is mine slower?"
    assert any(text.startswith("verdict           no   The machine") for text in lines)
    assert any(text.startswith(" " * 23 + "begin with clocks: ") for text in lines)
    assert max(map(len, lines)) <= 111
    assert report.verdict == report.findings[-1]


def test_no_clock_is_taken_of_a_changed_or_an_early_kernel(machine, tmp_path) -> None:
    from helpers.kernel import load

    why_slower(replace(SLOW, source="live", defines={"OVERLAP": 0}))
    why_slower(replace(SLOW, source="live", rung="04_swizzling"))
    copy = tmp_path / "mine.cu"
    copy.write_text(load(10).source)
    why_slower(replace(SLOW, source="live"), load(10, file=copy))
    assert machine == []


def test_a_recording_is_not_taken_for_a_measurement(machine) -> None:
    assert why_slower(RECORDED).facts.mine is None and why_slower().facts.mine is None
    with pytest.raises(ArgumentError, match="measured"):
        why_slower(800)
    with pytest.raises(ArgumentError, match="measured is of 4096x512x4096: give one of M = N = K"):
        why_slower(replace(SLOW, n=512))


def test_a_measurement_of_its_own(machine, monkeypatch) -> None:
    class FakeBench:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    kernel = SimpleNamespace(
        backend="cuda", code_hash="0123456789abcdef", report=SimpleNamespace(spill_bytes=0, warnings=()),
        path=performance.find_rung(10).path, entry="matmul", defines={},
    )
    asked = []
    monkeypatch.setattr(performance, "load", lambda *_, **__: kernel)
    monkeypatch.setattr(performance, "Bench", FakeBench)
    monkeypatch.setattr(
        performance, "benchmark", lambda kernel, n, regime, rounds, bench: asked.append((n, regime, rounds)) or ALONE
    )
    report = measure_and_explain(10, 8192, "sustained")
    assert asked == [(8192, "sustained", 3)] and report.facts.mine is ALONE

    def refuse(*_, **__):
        raise BenchmarkRefused("it is wrong.")

    monkeypatch.setattr(performance, "benchmark", refuse)
    assert measure_and_explain(10).facts.refused == "it is wrong."
    for arguments, words in (((3, 100), "03_register_tiling"), ((10, 4096, "fast"), "regime 'fast'")):
        with pytest.raises(ArgumentError, match=words):
            measure_and_explain(*arguments)


@pytest.mark.gpu
def test_on_this_gpu() -> None:
    report = measure_and_explain(1, 1024)
    assert report.facts.mine is not None and by_name(report.findings)["card"].detail
