"""Joules for a TFLOP: the slope of the counter, what is dropped, who takes turns, and what a record holds."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from fake_timer import FakeTimer

from helpers import energy as module
from helpers.benchmark import BenchmarkRefused
from helpers.device import Device
from helpers.energy import energies, turn_energy, watts_of
from helpers.energy_records import (
    CUBLAS,
    Energies,
    Energy,
    EnergyTurn,
    from_json,
    recorded_energies,
    write_energies,
)
from helpers.errors import ArgumentError, BackendError, RecordError
from helpers.kernel import load
from helpers.nvml import Telemetry
from helpers.record_basics import RECORD_DIR
from helpers.rungs import find_rung
from helpers.timing import Turn
from helpers.words import PRINTED_LINE

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0)
N = 4096
TFLOP = 2 * N**3 / 1e12


def readings(watts, seconds=3.0, step_s=0.05, tick_s=0.0, start_w=None, until_s=0.6, first_s=100.0):
    """NVML while so many watts are drawn; `start_w` in the first `until_s`. The counter moves every `tick_s`."""
    found = []
    for index in range(round(seconds / step_s)):
        at = index * step_s
        counted = at if not tick_s else (at + 1e-9) // tick_s * tick_s
        early = min(counted, until_s)
        joules = early * (watts if start_w is None else start_w) + (counted - early) * watts
        found.append(Telemetry(power_w=watts - 2, energy_j=5e6 + joules, at_s=first_s + at))
    return tuple(found)


def test_watts_are_the_slope_of_the_counter() -> None:
    assert watts_of(readings(690.0)) == pytest.approx(690.0)
    for tick_s in (0.02, 0.1, 0.13, 0.2):
        assert watts_of(readings(690.0, seconds=2.4, tick_s=tick_s)) == pytest.approx(690.0, rel=0.005), tick_s


def test_the_beginning_of_a_turn_does_not_count() -> None:
    telemetry = readings(690.0, start_w=300.0)
    turn = Turn((1.0, 1.0, 1.3), (), telemetry, 3.0)
    found = turn_energy(turn, 0.6)
    assert found.watts == pytest.approx(690.0) and found.power_w == pytest.approx(688.0)
    assert found.ms == pytest.approx(1.1), "the mean: the counter sees every launch"
    assert turn_energy(turn, 0.0).watts < 680.0


@pytest.mark.parametrize(
    ("telemetry", "words"),
    [
        ((Telemetry(690.0, at_s=1.0),) * 9, "does not say how much energy .*no counter of energy"),
        ((Telemetry(reason="NVML is not available"),) * 9, r"energy the GPU takes \(NVML is not available\): measure"),
        (readings(690.0)[:3], "has moved 2 times in a turn, at least 3 are needed: take longer"),
        ((), "has moved 0 times"),
        (readings(0.0), "has moved 0 times"),
    ],
)
def test_without_a_counter_there_is_a_sentence(telemetry, words) -> None:
    with pytest.raises(BackendError, match=words):
        watts_of(telemetry)


def test_idle_power_is_measured_with_nothing_running() -> None:
    slept, telemetry = [], iter(readings(120.0, step_s=0.1))
    assert module.idle_watts(lambda: next(telemetry), slept.append) == pytest.approx(120.0)
    assert slept[0] == module.IDLE_REST_S and sum(slept[1:]) == pytest.approx(module.IDLE_S)


def energy(contender, ms, watts=690.0, code_hash="0123456789abcdef"):
    turns = tuple(EnergyTurn(item, watts, watts - 1.0) for item in ms)
    return Energy(contender, None if contender == CUBLAS else code_hash, N, turns)


def found(idle_w=100.0):
    items = (energy("10_clusters", (0.20, 0.21, 0.22)), energy(CUBLAS, (0.22, 0.22, 0.22)))
    method = {"rounds": 3, "turn_s": 3.0, "dropped_s": 0.6}
    return Energies(H200, "live", "2026-11-30T12:00:00Z", {"cublas": "13.1.0"}, method, idle_w, items)


def test_joules_are_watts_times_seconds_for_each_tflop() -> None:
    item = found().items[0]
    assert item.joules() == pytest.approx([690.0 * ms / 1e3 / TFLOP for ms in (0.20, 0.21, 0.22)])
    assert item.joules(100.0)[0] == pytest.approx(590.0 * 0.20 / 1e3 / TFLOP)
    assert item.tflops == pytest.approx(TFLOP / 0.21e-3) and (item.watts, item.power_w) == (690.0, 689.0)
    ratio, interval = found().ratio(item)
    assert ratio == pytest.approx(0.21 / 0.22) and (interval.low, interval.high) == pytest.approx((0.20 / 0.22, 1.0))
    with pytest.raises(ArgumentError, match="cuBLAS was not measured"):
        Energies(H200, items=(item,)).ratio(item)


def test_words() -> None:
    assert str(Energies()) == "energy: no recording"
    assert str(found()).splitlines() == [
        "joules for a TFLOP, sustained on N(0,1), live on NVIDIA H200, 2026-11-30; 100 W idle; intervals of 75%",
        "    N=4096 10_clusters 1.054 J (1.004 to 1.104), 0.901 J beyond idle; 690 W counted, 689 W metered; "
        "654 TFLOP/s",
        "            0.955 of cuBLAS's joules (0.909 to 1.000)",
        "    N=4096 cuBLAS      1.104 J (1.104 to 1.104), 0.944 J beyond idle; 690 W counted, 689 W metered; "
        "625 TFLOP/s",
    ]
    assert max(map(len, str(energies(live=False)).splitlines())) <= PRINTED_LINE, "notebook 10 prints them"


def test_record_and_recording(tmp_path, monkeypatch) -> None:
    path = write_energies(found(), tmp_path)
    assert path == tmp_path / "nvidia-h200" / "energy.json"
    again = recorded_energies(None, tmp_path)
    assert again.source == "recorded" and again.items == found().items and again.idle_w == 100.0
    assert recorded_energies(Device("NVIDIA H20", "9.0", 78), tmp_path) == again, "that of the reference GPU"
    assert recorded_energies(None, tmp_path / "nothing") == Energies()
    with pytest.raises(ArgumentError, match="no measurement"):
        write_energies(Energies(), tmp_path)
    monkeypatch.setattr("helpers.record_basics.RECORD_DIR", tmp_path)
    monkeypatch.setattr(module.device, "device_info", lambda: None)
    assert energies(live=False) == again and "recorded on NVIDIA H200, 2026-11-30" in str(energies())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["energies"][0]["watts"].pop(), r"energies\[0\].watts has 2 turns, but it must be 3"),
        (lambda data: data["energies"][0].update(ms=[], watts=[], power_w=[]), "ms has 0 turns"),
        (lambda data: data["energies"][0].update(code_hash=None), "code_hash"),
        (lambda data: data["energies"][1].update(n=0), "n is 0"),
        (lambda data: data.update(idle_w=-1), "idle_w is -1"),
        (lambda data: data.update(idle_w=5000), "idle_w is 5000, but it must be less than the power of every turn"),
        (lambda data: data.update(energies=[]), "energies is empty"),
        (lambda data: data["energies"].append(data["energies"][0]), "at N = 4096 twice"),
        (lambda data: [data["energies"][0][key].pop() for key in ("ms", "watts", "power_w")], "holds . turns of"),
        (lambda data: data["method"].update(note=[1]), "method.note is a list"),
        (lambda data: data["device"].update(name="NVIDIA H20"), "under that name"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, change, words) -> None:
    path = write_energies(found(), tmp_path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=f"energy.json: .*{words}"):
        recorded_energies(None, tmp_path)


class MeteredTimer(FakeTimer):
    """A timer on whose GPU a launch has `.ms` and `.watts`; 100 W when nothing runs."""

    def __init__(self, counts=True):
        super().__init__(lambda launch: launch.ms)
        self.counts, self.now_s = counts, 0.0

    def read_power(self):
        self.now_s += 0.1
        return Telemetry(100.0, energy_j=100.0 * self.now_s if self.counts else None, at_s=self.now_s)

    def turn(self, launch, seconds, drop_s, chunk_launches):
        turn = super().turn(launch, seconds, drop_s, chunk_launches)
        return Turn((launch.ms,) * 3, turn.clocks_mhz, readings(launch.watts, seconds, until_s=drop_s), seconds)


def product(C, A, B, ms, watts, wrong=0.0):
    def launch():
        C[...] = (A.astype(np.float32) @ B.astype(np.float32) + wrong).astype(ml_dtypes.bfloat16)

    launch.ms, launch.watts, launch.algorithm, launch.close = ms, watts, {"id": 66}, lambda: None
    return launch


def kernel(number=10, ms=0.2, wrong=0.0):
    return SimpleNamespace(
        rung=find_rung(number), code_hash="0123456789abcdef", backend="cuda",
        prepared=lambda A, B, C: product(C, A, B, ms, 690.0, wrong),
    )


@pytest.fixture
def bench(monkeypatch):
    from helpers.arrays import empty_matrix, random_matrix

    monkeypatch.setattr(module, "empty_matrix", lambda rows, columns, _: empty_matrix(rows, columns, "emulator"))
    monkeypatch.setattr("helpers.gpu.synchronize", lambda: None)
    monkeypatch.setattr(module.device, "device_info", lambda: H200)
    monkeypatch.setattr(module, "toolkit", lambda: {"cublas": "13.1.0"})
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(module.idle_watts, "__defaults__", (lambda seconds: None,))
    verified = []
    return SimpleNamespace(
        timer=MeteredTimer(), alone=nullcontext, verified=verified,
        cublas=SimpleNamespace(plan=lambda A, B, C: product(C, A, B, 0.21, 695.0)),
        operands=lambda m, n, k, seed: (random_matrix(m, k, 0, "emulator"), random_matrix(k, n, 1, "emulator")),
        require_verified=lambda kernel: verified.append(kernel.rung.name),
    )


def test_kernels_and_cublas_take_turns(bench) -> None:
    result = module.measure_energies(bench, [kernel(9, 0.25), kernel(10, 0.2)], (64, 128), rounds=2, turn_s=3.0)
    assert [(item.contender, item.n) for item in result.items] == [
        (name, n) for n in (64, 128) for name in ("09_persistence", "10_clusters", CUBLAS)
    ]
    assert [turn.watts for turn in result.find(CUBLAS, 64).turns] == pytest.approx([695.0] * 2)
    assert [turn.ms for turn in result.find("10_clusters", 128).turns] == pytest.approx([0.2] * 2)
    assert result.idle_w == pytest.approx(100.0) and result.source == "live" and result.method["dropped_s"] == 0.6
    turns = [(call[0].ms, call[3]) for call in bench.timer.calls if call[1] == 3.0]
    assert turns[:6] == [(0.25, 200), (0.2, 250), (0.21, 238), (0.21, 238), (0.2, 250), (0.25, 200)]
    assert set(bench.verified) == {"09_persistence", "10_clusters"}
    assert result.find(CUBLAS, 64).code_hash is None and result.find("10_clusters", 64).code_hash


def test_who_else_computed_is_noted(bench) -> None:
    assert "note" not in module.measure_energies(bench, [kernel()], (64,), rounds=1).method
    bench.timer.said = "Another process computed."
    result = module.measure_energies(bench, [kernel()], (64,), rounds=1)
    assert str(result).endswith("TFLOP/s\n    Another process computed.")


def test_a_wrong_kernel_takes_no_turn(bench) -> None:
    with pytest.raises(BenchmarkRefused, match="10_clusters gives a wrong result"):
        module.measure_energies(bench, [kernel(wrong=1.0)], (64,))
    assert not bench.timer.calls


def test_a_gpu_that_does_not_count_is_told_before_the_first_turn(bench) -> None:
    bench.timer = MeteredTimer(counts=False)
    with pytest.raises(BackendError, match="data-centre GPU"):
        module.measure_energies(bench, [kernel()], (64,))
    assert not bench.timer.calls


def test_the_command(bench, capsys, monkeypatch, tmp_path) -> None:
    assert module.estimate_s(2, 2, 4, 3.0) < 65, "seconds of a default run"
    monkeypatch.setattr(module, "load", lambda rung: SimpleNamespace(backend="emulator", rung=rung))
    assert module.main([]) == 1
    assert capsys.readouterr().err == (
        "The energy of 10_clusters can only be measured on a GPU that runs it: find one.\n"
    )
    for arguments, words in ((["--rounds", "0"], "rounds is 0"), (["--sizes", "0"], "size is 0")):
        assert module.main(arguments) == 1 and words in capsys.readouterr().err
    monkeypatch.setattr(module, "load", lambda rung: kernel(rung.number))
    monkeypatch.setattr(module, "Bench", lambda: nullcontext(bench))
    twice = ["--rungs", "9", "10", "09", "--sizes", "64", "64"]
    assert module.main([*twice, "--rounds", "1", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("about ") and out.endswith("energy.json\n")
    assert out.count("0.946 of cuBLAS's joules") == 2, "690 W for 0.2 ms beside 695 W for 0.21 ms"
    assert len(recorded_energies(H200, tmp_path).items) == 3


def test_records_in_the_tree_are_of_the_current_code() -> None:
    """Measure again with `python -m helpers.energy` what this names."""
    found = [from_json(json.loads(path.read_text()), path) for path in sorted(RECORD_DIR.glob("*/energy.json"))]
    items = [item for record in found for item in record.items if item.code_hash]
    stale = {item.contender for item in items if load(item.contender, "emulator").code_hash != item.code_hash}
    assert not stale, f"measure again: {', '.join(sorted(stale))}"
