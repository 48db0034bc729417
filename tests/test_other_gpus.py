"""What a reader gets on each generation of NVIDIA GPU, with the card simulated: every rung, every capability."""

from importlib import import_module

import pytest

from helpers import gpu
from helpers.benchmark import benchmark
from helpers.cli import main
from helpers.cuda import compile_cubin, compile_report, supported_architectures
from helpers.device import Device
from helpers.errors import BackendError
from helpers.gpu import Gpu, Probe
from helpers.kernel import load
from helpers.machine import Machine, machine
from helpers.memory_speed import RULE, SOURCE
from helpers.models.machine import H200, gpu_for
from helpers.rungs import ROOT, RUNGS, find_rung
from helpers.timing import PROBES
from helpers.verify import Verification
from helpers.words import PRINTED_LINE

CARDS = {
    (7, 0): "Tesla V100-SXM2-16GB",
    (7, 5): "Tesla T4",
    (8, 0): "NVIDIA A100-SXM4-40GB",
    (8, 6): "NVIDIA GeForce RTX 3090",
    (8, 9): "NVIDIA L4",
    (9, 0): "NVIDIA H100 80GB HBM3",
    (10, 0): "NVIDIA B200",
    (12, 0): "NVIDIA GeForce RTX 5090",
}
# Shared memory that a CTA can have: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
SHARED_KIB = {
    (7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99
}  # fmt: skip
NO_RUNG, CUDA_CORES, ALL = (), (1, 2, 3, 4), tuple(rung.number for rung in RUNGS)
LAST = RUNGS[-1].number
LIVE = {
    (7, 0): NO_RUNG,   # NVRTC 13 does not compile for it
    (7, 5): CUDA_CORES,
    (8, 0): CUDA_CORES,
    (8, 6): CUDA_CORES,
    (8, 9): CUDA_CORES,
    (9, 0): ALL,
    (10, 0): (*CUDA_CORES, 5),   # it has TMA, and tensor cores of another kind
    (12, 0): (*CUDA_CORES, 5),
}
CASES = [(rung, capability) for rung in RUNGS for capability in CARDS]
LATER = f"Rungs 5 to {LAST} run on the emulator (with g++ 12.2.0), and their speeds are recordings, labelled so: "
SENTENCES = {
    (7, 0): "Tesla V100-SXM2-16GB has compute capability 7.0, which this NVRTC does not compile for (the oldest is "
    "7.5): kernels run on the emulator (with g++ 12.2.0); speeds are recordings, labelled so.",
    (8, 9): "NVIDIA L4, compute capability 8.9: rungs 1 to 4 run on it and are measured live. " + LATER
    + "rung 5 needs compute capability 9.0 or newer and "
    + f"rungs 6 to {LAST} need compute capability exactly 9.0 (Hopper).",
    (9, 0): "NVIDIA H100 80GB HBM3, compute capability 9.0: kernels run on it and are measured live; the emulator "
    "counts what they ask of memory (with g++ 12.2.0).",
    (10, 0): "NVIDIA B200, compute capability 10.0: rungs 1 to 5 run on it and are measured live. "
    + LATER.replace("5", "6") + f"rungs 6 to {LAST} need compute capability exactly 9.0 (Hopper).",
}  # fmt: skip


@pytest.fixture
def use_card(monkeypatch):
    """Pretend that the driver shows a card of this compute capability."""

    def use(capability):
        found = Gpu(CARDS[capability], capability, 13000, SHARED_KIB[capability] * 1024, 80)
        for module in ("helpers.gpu", "helpers.arrays", "helpers.machine", "helpers.cli.doctor"):
            monkeypatch.setattr(import_module(module), "probe", lambda: Probe(found))
        return found

    return use


def name_of(case):
    return case.name if hasattr(case, "name") else ".".join(map(str, case))


@pytest.mark.parametrize(("rung", "capability"), CASES, ids=name_of)
def test_a_rung_runs_live_or_on_the_emulator_with_the_reason(use_card, rung, capability):
    card = use_card(capability)
    kernel = load(rung)
    why = kernel.why_emulated
    if rung.number in LIVE[capability]:
        assert (kernel.backend, why) == ("cuda", "")
        assert repr(kernel) == f"<Kernel {rung.name}.matmul on cuda>"
        return
    assert kernel.backend == "emulator" and kernel.architecture == "sm_90a"
    assert card.name in why and name_of(capability) in why and why.endswith(", so it runs on the emulator.")
    assert why.count(". ") == 0, "one sentence"
    assert why in repr(kernel)
    if capability != (7, 0):
        needed = "9.0 or newer" if rung.number == 5 else "exactly 9.0 (Hopper)"
        assert why.startswith(f"{rung.name} needs a GPU of compute capability {needed}, and ")
    assert load(rung, "emulator").why_emulated == "", "who asks for the emulator gets no reason"
    with pytest.raises(BackendError, match=rf"{card.name}.*: use the emulator"):
        load(rung, "cuda")


@pytest.mark.parametrize(("rung", "capability"), CASES, ids=name_of)
def test_the_rule_that_is_listed_is_what_runs(rung, capability):
    """`helpers list`, `gpu_for` and whatever else asks the rule say the same as what `load` does."""
    assert gpu.meets(rung.compute_capability, capability) == (rung.number in LIVE[capability])


def test_the_oldest_card_is_the_oldest_that_the_compiler_knows():
    """NVRTC 13 has dropped Volta: neither a rung nor the memory probe compiles for it, and no rule promises it."""
    oldest = "{}.{}".format(*divmod(min(supported_architectures()), 10))
    assert oldest == "7.5"
    assert {rung.compute_capability for rung in RUNGS if rung.number in CUDA_CORES} == {RULE} == {f">={oldest}"}
    assert f"Turing, Ampere, Ada: compute capability {oldest} to 8.9" in (ROOT / "README.md").read_text()
    assert f"Rungs 1 to 4 run from {oldest} on" in (ROOT / "docs" / "glossary.md").read_text()
    for path in (SOURCE, *(find_rung(number).path for number in CUDA_CORES)):
        compile_cubin(path, {}, "sm_75")
    with pytest.raises(BackendError, match="does not take the options for sm_70"):
        compile_cubin(find_rung(1).path, {}, "sm_70")


def test_bounds_are_not_those_of_a_card_that_runs_no_rung(monkeypatch):
    v100 = Device(CARDS[7, 0], "7.0", 80, 1530.0, 6 << 20, 16 << 30, 877.0, 4096)
    monkeypatch.setattr("helpers.models.machine.device_info", lambda: v100)
    assert {gpu_for(rung.compute_capability) for rung in RUNGS} == {H200}


@pytest.mark.parametrize("capability", SENTENCES, ids=name_of)
def test_the_first_cell_of_a_notebook_says_what_runs_where(use_card, monkeypatch, capability):
    monkeypatch.setattr("helpers.emulator.compiler_version", lambda: "g++ (Debian 12.2.0-14) 12.2.0")
    use_card(capability)
    assert machine().sentence == SENTENCES[capability] == " ".join(str(machine()).split())
    assert max(map(len, str(machine()).splitlines())) <= PRINTED_LINE


@pytest.mark.parametrize("capability", CARDS, ids=name_of)
def test_the_first_cell_agrees_with_what_load_does(use_card, capability):
    use_card(capability)
    live = [rung.number for rung in RUNGS if load(rung).backend == "cuda"]
    words = machine().sentence
    assert f"compute capability {name_of(capability)}" in words
    if live and len(live) < len(RUNGS):
        assert f"rungs 1 to {live[-1]} run on it and are measured live" in words
        assert f"ungs {live[-1] + 1} to {LAST} run on the emulator" in words
    else:
        assert ("kernels run on it and are measured live" in words) == bool(live)
        assert ("kernels run on the emulator" in words) == (not live)


def test_without_a_compiler_that_is_said_too(use_card):
    words = Machine(use_card((8, 9)), "", None).sentence
    assert "run on the emulator (which needs a C++ compiler: install g++)" in words


@pytest.mark.parametrize("capability", CARDS, ids=name_of)
@pytest.mark.parametrize("number", ALL)
def test_the_command_line_says_the_reason_after_the_table(use_card, monkeypatch, capsys, capability, number):
    use_card(capability)

    def verified(kernel, size):
        return Verification(kernel.rung.name, kernel.entry, kernel.backend, *size, True, 0.001, 0.001, "")

    monkeypatch.setattr(import_module("helpers.verify"), "verify", verified)
    arguments = ["verify", str(number), "--size", "128x256x64"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    emulated = number not in LIVE[capability]
    assert (" emulator " in printed, " cuda " in printed) == (emulated, not emulated)
    assert printed.count("so it runs on the emulator.") == emulated
    assert main([*arguments, "--json"]) == 0
    assert "so it runs" not in capsys.readouterr().out


@pytest.mark.parametrize("capability", [(8, 0), (12, 0)], ids=name_of)
def test_the_speed_of_an_emulated_rung_is_the_recorded_one_and_that_is_said(use_card, capsys, capability):
    use_card(capability)
    assert benchmark(10, 4096).source == "recorded"
    assert main(["bench", "10"]) == 0
    printed = capsys.readouterr().out
    assert "NVIDIA H200" in printed and "recorded" in printed
    assert "exactly 9.0 (Hopper)" in printed
    assert "so it runs on the emulator, and its speed is the recorded one." in printed


@pytest.mark.parametrize("capability", CARDS, ids=name_of)
def test_the_doctor_counts_the_rungs_of_the_card(use_card, capability):
    from helpers.cli import doctor

    use_card(capability)
    finding = doctor.gpu()
    count = len(LIVE[capability])
    assert finding.ok is (count == len(RUNGS))
    assert finding.ok or f"it runs {count} of {len(RUNGS)} rungs" in finding.detail


LIVE_CASES = [
    (rung, capability)
    for rung, capability in CASES
    if rung.number in LIVE[capability] and capability != (9, 0)
]


@pytest.mark.parametrize(("rung", "capability"), LIVE_CASES, ids=name_of)
def test_what_is_said_to_run_on_a_card_compiles_for_it_and_fits(rung, capability):
    """The machine code is made for the card's own architecture; its shared memory is within the card's."""
    card = Gpu(CARDS[capability], capability, 13000, SHARED_KIB[capability] * 1024, 80)
    report = compile_report(compile_cubin(rung.path, {}, card.architecture), rung.entry)
    assert report.static_shared_bytes + rung.shared_bytes <= card.shared_bytes
    assert report.static_shared_bytes <= 48 * 1024
    assert report.spill_bytes == 0 and report.warnings == ()
    assert report.registers * rung.block[0] <= 65536


@pytest.mark.parametrize("capability", [key for key in CARDS if LIVE[key]], ids=name_of)
def test_the_probes_of_the_timer_compile_for_every_card_that_measures(capability):
    card = Gpu(CARDS[capability], capability, 13000, SHARED_KIB[capability] * 1024, 80)
    for probe in ("spin.cu", "sm_clock.cu"):
        compile_cubin(PROBES / probe, {}, card.architecture)


def test_without_nvrtc_a_gpu_falls_to_the_emulator_too(use_card, monkeypatch):
    use_card((8, 0))

    def missing():
        raise BackendError("NVRTC was not found: run `make setup`.")

    monkeypatch.setattr(gpu, "supported_architectures", missing)
    kernel = load(find_rung(1))
    assert kernel.backend == "emulator" and kernel.why_emulated == "NVRTC was not found, so it runs on the emulator."
