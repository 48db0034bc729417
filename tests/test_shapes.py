"""Shapes that people run: the list, copies that come from HBM, cuBLAS's best, the records, and docs/shapes.md."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from fake_timer import FakeTimer
from matplotlib.text import Text
from picture_checks import require_legible

from helpers import rotation, shapes
from helpers.arrays import BFLOAT16, empty_matrix, random_matrix
from helpers.benchmark import BenchmarkRefused
from helpers.choice import Choice, choose
from helpers.device import Device
from helpers.errors import ArgumentError, RecordError
from helpers.kernel import load
from helpers.launches import in_order
from helpers.plots.shapes import ratio_chart
from helpers.record_basics import RECORD_DIR
from helpers.records import Measurement, Samples
from helpers.rotation import Rotation, copies_for, cut, measure_shape
from helpers.rungs import find_rung, split_k
from helpers.shape_records import (
    Limits,
    Proposal,
    ShapeSpeed,
    Work,
    load_shapes,
    product_bytes,
    shape_from_json,
    work_of,
    write_shape,
)
from helpers.shapes import GROUPS, SHAPES, Shape, chosen_shapes, is_current, run_shapes
from helpers.shapes_page import DOCUMENT, by_group, document, reasons, recorded_shapes

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0, l2_bytes=62_914_560)
LIMITS = Limits(900.0, 4500.0)
RUNG = find_rung(10)
ALL = Choice(RUNG, "10_clusters", "It is the fastest rung.")


LAST = load(10, "emulator")


# The list


def test_the_projections_of_llama_3() -> None:
    sizes = {shape.size for shape in SHAPES if shape.group == "llama-8b"}
    assert {(n, k) for _, n, k in sizes} == {(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)}
    sizes = {shape.size for shape in SHAPES if shape.group == "llama-70b"}
    assert {(n, k) for _, n, k in sizes} == {(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)}
    assert {m for m, _, _ in sizes} == {1, 16, 128, 2048, 8192} and len(sizes) == 20
    for model, multiple in ((shapes.LLAMA_8B, 1024), (shapes.LLAMA_70B, 4096)):   # as Meta's own code computes it
        hidden = int(int(2 * 4 * model.hidden / 3) * 1.3)
        assert model.ffn == -(-hidden // multiple) * multiple and model.heads * model.head_dim == model.hidden


def test_every_shape_has_a_group_a_name_of_its_own_and_suits_what_is_chosen() -> None:
    assert {shape.group for shape in SHAPES} == set(GROUPS)
    assert len({(shape.group, shape.name) for shape in SHAPES}) == len(SHAPES)
    for shape in SHAPES:
        rung = choose(*shape.size).rung
        assert all(size % multiple == 0 for size, multiple in zip(shape.size, rung.multiples, strict=True)), shape


def test_shapes_are_chosen_by_group_and_by_size() -> None:
    sizes = [shape.size for shape in chosen_shapes((), ())]
    assert len(sizes) == len(set(sizes)) == len({shape.size for shape in SHAPES}) < len(SHAPES), "8192 is in two groups"
    assert {shape.group for shape in chosen_shapes(("squares",), ())} == {"squares"}
    found = chosen_shapes(("squares",), ((129, 264, 4096),))
    assert (129, 264, 4096) in {shape.size for shape in found} and len(found) == 7
    with pytest.raises(ArgumentError, match="size 7x8x9 is not in the table"):
        chosen_shapes((), ((7, 8, 9),))
    with pytest.raises(ArgumentError, match="group is 'cubes'"):
        chosen_shapes(("cubes",), ())


# Copies


def test_copies_are_four_times_as_large_as_l2() -> None:
    for shape in SHAPES:
        copies = copies_for(*shape.size, H200.l2_bytes)
        assert copies * product_bytes(*shape.size) >= 4 * H200.l2_bytes
        assert copies == 1 or (copies - 1) * product_bytes(*shape.size) < 4 * H200.l2_bytes


@pytest.mark.parametrize(("copies", "group", "found"), [(3, 1, (3, 1)), (3, 8, (3, 6)), (5, 4, (8, 4)), (4, 4, (4, 4))])
def test_groups_and_copies_suit_each_other(copies, group, found) -> None:
    turn = Rotation(copies, group)
    assert (turn.copies, turn.group) == found


@pytest.mark.parametrize(("copies", "group"), [(3, 1), (3, 6), (8, 4)])
def test_all_contenders_take_the_copies_in_one_common_turn(copies, group) -> None:
    used, turn, timer = [], Rotation(copies, group), FakeTimer({})
    contenders = [
        turn.launch([lambda who=who, copy=copy: used.append((who, copy)) for copy in range(copies)], timer)
        for who in "ab"
    ]
    for who in (0, 1, 0, 0, 1):
        contenders[who]()
    assert [who for who, _ in used] == [who for who in "abaab" for _ in range(group)]
    assert [copy for _, copy in used] == [index % copies for index in range(5 * group)]


def test_short_launches_are_grouped() -> None:
    groups = {shape.size: rotation.group_for(*shape.size) for shape in SHAPES}
    assert groups[512, 512, 512] == 64 and groups[1, 4096, 4096] > 16 and groups[8192, 8192, 8192] == 1
    for size, group in groups.items():
        assert group in (1, 64) or group * (rotation.DATASHEET.ms(*size) + rotation.LAUNCH_MS) <= 0.5


def test_the_rest_goes_with_the_burst() -> None:
    assert [rotation.rest_for(ms) for ms in (0.01, 0.5, 1.4, 20.0)] == pytest.approx([0.05, 0.08, 0.2, 0.2])


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Lets `measure_shape` run on NumPy arrays, with an L2 of 20,000 bytes: three copies, in groups of three."""
    monkeypatch.setattr(rotation, "group_for", lambda m, n, k: 4)
    monkeypatch.setattr(rotation, "empty_matrix", lambda rows, columns, _: empty_matrix(rows, columns, "emulator"))
    monkeypatch.setattr("helpers.gpu.synchronize", lambda: None)
    monkeypatch.setattr(rotation.device, "device_info", lambda: replace(H200, l2_bytes=20_000))
    toolkit = {"nvrtc": "13.0", "cublas": "13.1.0", "cupy": "14.2.0"}
    monkeypatch.setattr(import_module("helpers.benchmark"), "toolkit", lambda: toolkit)   # the module, not the function


POOL = random_matrix(1, 1009, 0, "emulator")


def test_a_matrix_is_cut_from_the_pool_and_goes_round_at_its_end(on_the_cpu) -> None:
    matrix = cut(POOL, 30, 70, 1000)
    expected = POOL.reshape(-1).view(np.uint16)[(1000 + np.arange(2100)) % 1009].reshape(30, 70)
    assert np.array_equal(matrix.view(np.uint16), expected) and matrix.dtype == BFLOAT16


def test_a_and_b_have_values_of_their_own(on_the_cpu, monkeypatch) -> None:
    firsts = []
    monkeypatch.setattr(rotation, "cut", lambda pool, r, c, first: firsts.append(first) or cut(pool, r, c, first))
    measured(size=(40, 64, 128))
    assert firsts == [0, 40 * 128]


# Measuring


def product(A, B, C, log, name, wrong=lambda calls: False):
    calls = []

    def launch():
        calls.append(1)
        log.append((name, A.ctypes.data))
        C[...] = (A.astype(np.float32) @ B.astype(np.float32) + 9.0 * wrong(len(calls))).astype(BFLOAT16)

    launch.name = name
    return launch


class FakePlan:
    def __init__(self, cublas, place, arrays):
        self.cublas, self.place = cublas, place
        self.algorithm = {"id": 66, "split_k": place + 1}
        cublas.opened += 1

    def on(self, A, B, C):
        return product(A, B, C, self.cublas.log, self.place, self.cublas.wrong)

    def close(self):
        self.cublas.opened -= 1


class FakeCublas:
    """Proposes an algorithm for each of `ms`."""

    def __init__(self, ms, log, wrong=lambda calls: False):
        self.ms, self.log, self.opened, self.wrong = ms, log, 0, wrong

    def plans(self, A, B, C, most):
        assert most == 8
        return [FakePlan(self, place, (A, B, C)) for place in range(len(self.ms))]


class RotatingTimer(FakeTimer):
    """Finds out by launching: a burst takes what the product that it has launched takes, as often as it has."""

    def __init__(self, log, ms, queue_ms=0.1):
        super().__init__(lambda launch: 0.0, queue_ms)
        self.log, self.each = log, ms

    def burst(self, launch, launches, rest_s, spin_ms):
        begun = len(self.log)
        found = super().burst(launch, launches, rest_s, spin_ms)
        names = [name for name, _ in self.log[begun:]]
        self.calls[-1] = (names[0], len(names), rest_s, spin_ms)
        clock = 1500.0 if names[0] == "ours" else 1600.0 + names[0]
        return replace(found, ms=self.each[names[0]] * len(names) / launches, sm_clock_mhz=clock)

    def captured(self, launches):
        assert {launch.name for launch in launches} <= {name for name, _ in self.log}, "launched before"
        return super().captured(launches)


def bench_of(ours_ms, cublas_ms, **options):
    log = []
    each = {"ours": ours_ms, **dict(enumerate(cublas_ms))}
    return SimpleNamespace(
        timer=RotatingTimer(log, each), cublas=FakeCublas(cublas_ms, log, **options), alone=nullcontext, log=log
    )


def kernel_of(bench, wrong=lambda calls: False):
    return SimpleNamespace(
        rung=RUNG, entry="matmul", code_hash="0123456789abcdef", defines={"STAGES": 4}, sms=132,
        prepared=lambda A, B, C: product(A, B, C, bench.log, "ours", wrong),
    )


def measured(ours_ms=0.01, cublas_ms=(0.011, 0.013, 0.0105), size=(40, 64, 128), rounds=3):
    bench = bench_of(ours_ms, cublas_ms)
    return measure_shape(bench, kernel_of(bench), ALL, size, POOL, rounds), bench


def test_ours_takes_turns_with_the_first_and_the_fastest_proposal(on_the_cpu) -> None:
    found, bench = measured()
    timed = [call for call in bench.timer.calls if call[2] > 0]
    assert [name for name, *_ in timed] == ["ours", 0, 2, 2, 0, "ours", "ours", 0, 2]
    assert {count for _, count, *_ in timed} == {48} and {rest for *_, rest, _ in timed} == {0.05}
    assert found.measurement.kernel_ms == pytest.approx((0.01,) * 3)
    assert found.measurement.cublas_ms == pytest.approx((0.0105,) * 3)
    assert found.measurement.ratio == pytest.approx(1.05)
    assert found.compared == 2 and found.cublas.parts == 3
    samples = found.measurement.samples
    assert samples.kernel_clock_mhz == (1500.0,) * 3 and samples.cublas_clock_mhz == (1602.0,) * 3
    assert [len(item.ms) for item in found.proposals] == [3, 0, 3]
    assert [item.trial_ms for item in found.proposals] == pytest.approx([0.011, 0.013, 0.0105])
    method = found.measurement.method
    assert (method["launches_in_a_graph"], method["kernel_launches"], method["cublas_launches"]) == (3, 48, 48)
    assert (method["copies"], method["inputs"]) == (3, "N(0,1)")
    assert bench.cublas.opened == 0, "the plans are released"
    assert found.measurement.notes == ()


def test_who_else_computed_is_noted(on_the_cpu) -> None:
    bench = bench_of(0.01, (0.01,))
    found = measure_shape(bench, kernel_of(bench), ALL, (40, 64, 128), POOL, 1, "Another process computed.")
    assert found.measurement.notes == ("Another process computed.",) and found.measurement.method["disturbed"] is True


def test_every_launch_finds_the_copy_that_nobody_has_used_for_longest(on_the_cpu) -> None:
    _, bench = measured()
    begin = next(i for i, (name, _) in enumerate(bench.log) if name == 0) + 3 * 3   # behind what is checked
    used = [address for _, address in bench.log[-600:]]
    assert begin < len(bench.log) - 600 and len(set(used)) == 3
    assert all(len(set(used[i : i + 3])) == 3 for i in range(len(used) - 2))


def test_the_first_proposal_alone_if_it_is_the_fastest(on_the_cpu) -> None:
    found, bench = measured(cublas_ms=(0.01, 0.02))
    assert {name for name, _, rest, _ in bench.timer.calls if rest} == {"ours", 0}
    assert found.compared == 0 and [len(item.ms) for item in found.proposals] == [3, 0]


def test_what_is_said_of_cublas_is_of_the_proposal_that_is_compared(on_the_cpu, monkeypatch) -> None:
    """The first of the list, which was slower when all were tried, and faster in its turns."""
    monkeypatch.setattr(rotation, "group_for", lambda m, n, k: 1)
    bench = bench_of(2.0, (4.0, 3.0))
    burst = bench.timer.burst

    def swapped(launch, launches, rest_s, spin_ms):
        bench.timer.each |= {0: 3.0, 1: 4.0} if rest_s else {}
        return burst(launch, launches, rest_s, spin_ms)

    bench.timer.burst = swapped
    found = measure_shape(bench, kernel_of(bench), ALL, (40, 64, 128), POOL, 2)
    assert found.compared == 0 and found.measurement.cublas_ms == (3.0, 3.0)
    counts = {name: count for name, count, rest, _ in bench.timer.calls if rest}
    method = found.measurement.method
    assert (counts[0], counts[1]) == (10, 13)
    assert (method["kernel_launches"], method["cublas_launches"]) == (counts["ours"], counts[0])


def test_long_launches_are_not_grouped_and_get_a_rest(on_the_cpu, monkeypatch) -> None:
    monkeypatch.setattr(rotation, "group_for", lambda m, n, k: 1)
    found, bench = measured(1.0, (1.1,))
    timed = [call for call in bench.timer.calls if call[2] > 0]
    assert {count for _, count, *_ in timed} == {16} and [rest for *_, rest, _ in timed] == pytest.approx([0.176] * 6)
    assert found.measurement.method["launches_in_a_graph"] == 1 and found.measurement.kernel_ms == (1.0,) * 3
    assert [call[:2] for call in bench.timer.calls[:2]] == [(0, 1), (0, 4)], "it is tried in a short burst"


@pytest.mark.parametrize("call", [1, 3])
def test_a_kernel_that_is_wrong_on_one_copy_is_not_timed(on_the_cpu, call) -> None:
    bench, calls = bench_of(0.01, (0.01,)), []

    def wrong(_):
        calls.append(1)
        return len(calls) == call

    with pytest.raises(BenchmarkRefused, match="10_clusters gives a wrong result .*before it was timed"):
        measure_shape(bench, kernel_of(bench, wrong), ALL, (40, 64, 128), POOL, 1)
    assert not bench.timer.calls


def test_a_result_that_spoils_under_load_is_refused(on_the_cpu) -> None:
    bench = bench_of(0.01, (0.01,))
    with pytest.raises(BenchmarkRefused, match="after it was timed"):
        measure_shape(bench, kernel_of(bench, lambda calls: calls > 8), ALL, (40, 64, 128), POOL, 1)
    assert bench.cublas.opened == 0


def test_a_wrong_cublas_is_refused_too(on_the_cpu) -> None:
    bench = bench_of(0.01, (0.01,), wrong=lambda calls: True)
    with pytest.raises(BenchmarkRefused, match="cuBLAS's proposal 0 gives a wrong result"):
        measure_shape(bench, kernel_of(bench), ALL, (40, 64, 128), POOL, 1)


def test_how_c_is_divided() -> None:
    assert work_of(LAST, 4096, 4096) == Work((128, 256), 512, 128, "grouped")
    assert work_of(LAST, 1, 4096) == Work((128, 256), 32, 32, "grouped"), "clusters of two CTAs"
    work = work_of(load(7, "emulator"), 4096, 4352)
    assert work == Work((128, 256), 32 * 17, 132, None) and (work.waves, work.last_wave) == (5, 16)
    rung, defines = split_k(64, 64, 4, 4)
    small = work_of(load(rung, "emulator", defines=defines), 16, 4096)
    assert small.ctas == 4 * 64 and small.at_once == 3 * 132, "three have room on an SM"


# Records


def speed(size=(16, 4096, 4096), ms=0.02, cublas_ms=0.018, work=None, parts=1):
    (m, n, k), choice, rounds = size, ALL, 6
    proposals = (
        Proposal(0, 0.03, {"id": 66}, (0.03,) * rounds),
        Proposal(1, cublas_ms, {"id": 66, "split_k": parts}, (cublas_ms,) * rounds),
        Proposal(2, 0.04, {"id": 66}),
    )
    measurement = Measurement(
        rung=choice.rung.name, entry="matmul", code_hash="0123456789abcdef", defines=choice.defines, dtype="bfloat16",
        device=H200, toolkit={"cublas": "13.1.0"}, m=m, n=n, k=k, regime="burst", method={"launches_hidden": True},
        samples=Samples(((ms,),) * rounds, ((cublas_ms,),) * rounds), sm_clock_mhz=None, power_w=None,
        temperature_c=None, throttle_reasons=None, date="2026-11-30T12:00:00Z", source="live",
    )
    return ShapeSpeed(measurement, choice.name, choice.why, work or work_of(LAST, m, n), 1, proposals)


def test_a_record_holds_everything(tmp_path) -> None:
    found = speed()
    path = write_shape(found, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "shapes" / "16x4096x4096.json"
    assert load_shapes("nvidia-h200", tmp_path) == {(16, 4096, 4096): found}
    assert load_shapes("nvidia-h20", tmp_path) == {}
    assert write_shape(speed((512, 512, 512)), tmp_path).name == "512.json"
    appendix = replace(found, measurement=replace(found.measurement, rung="appendix_split_k", n=4104))
    assert write_shape(appendix, tmp_path).exists() and load_shapes("nvidia-h200", tmp_path)[16, 4104, 4096] == appendix
    assert str(found) == (
        "10_clusters: 20.0 us, 26.8 TFLOP/s, 1,691 GB/s, cuBLAS 18.0 us, ratio 0.9000 (0.9000 to 0.9000)"
    )


def test_a_measured_shape_survives_its_file(on_the_cpu, tmp_path) -> None:
    found, _ = measured(cublas_ms=(1 / 90, 1 / 91))
    (again,) = load_shapes("nvidia-h200", write_shape(found, tmp_path).parents[2]).values()
    assert again.compared == found.compared == 1
    assert again.measurement.ratio == pytest.approx(found.measurement.ratio, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(compared=0), "compared is 0, but it must be the place of the proposal whose times"),
        (lambda data: data.update(compared=2), "compared is 2"),
        (lambda data: data["cublas"][1]["ms"].pop(), "compared is 1"),
        (lambda data: data["cublas"][1]["algorithm"].update(split_k="2"), r"cublas\[1\].algorithm.split_k is .2., but"),
        (lambda data: data["cublas"][0].update(place=1), r"cublas holds the places \[1, 1"),
        (lambda data: data["work"].update(ctas=0), "work.ctas is 0"),
        (lambda data: data["measurement"].update(m=17), "under that name"),
        (lambda data: data["measurement"].update(code_hash="x"), "code_hash"),
        (lambda data: data.update(why=""), "why is"),
        (lambda data: data["cublas"][0].update(trial_ms=0), r"cublas\[0\].trial_ms is 0"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, change, words) -> None:
    path = write_shape(speed(), tmp_path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match=f"16x4096x4096.json: .*{words}"):
        load_shapes("nvidia-h200", tmp_path)


def test_what_is_current(tmp_path) -> None:
    path, kernel = write_shape(speed(), tmp_path), SimpleNamespace(code_hash="0123456789abcdef")
    assert is_current(path, ALL, kernel, H200, 6)
    assert not is_current(tmp_path / "none.json", ALL, kernel, H200, 6)
    assert not is_current(path, ALL, kernel, H200, 7)
    for method in ({"launches_hidden": False}, {"disturbed": True}):
        bad = replace(speed((16, 4096, 4104)), measurement=replace(speed((16, 4096, 4104)).measurement, method=method))
        assert not is_current(write_shape(bad, tmp_path), ALL, kernel, H200, 6), method
    assert not is_current(path, ALL, SimpleNamespace(code_hash="f" * 16), H200, 6)
    assert not is_current(path, ALL, kernel, replace(H200, name="NVIDIA H100"), 6)
    for other in (
        replace(ALL, name="another"), replace(ALL, defines={"STAGES": 3}), replace(ALL, rung=in_order(RUNG, "hilbert")),
    ):
        assert not is_current(path, other, kernel, H200, 6)


# The command


def test_shapes_are_measured_once_and_a_wrong_one_does_not_stop_the_rest(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shapes, "choose", lambda m, n, k, sms: ALL)
    some = chosen_shapes(("squares",), ())
    lines, asked = [], []

    def measure(kernel, choice, shape):
        asked.append(shape.size[0])
        if shape.size[0] == 1024:
            raise BenchmarkRefused("it is wrong.")
        found = speed(shape.size)
        late = asked[-2:] == [1024, 2048]
        return replace(found, measurement=replace(found.measurement, method={"launches_hidden": not late}))

    def run(**options):
        return run_shapes(
            some, tmp_path, H200, 6, load_kernel=lambda choice: SimpleNamespace(code_hash="0123456789abcdef"),
            measure=measure, report=lines.append, **options,
        )

    assert run() == 1 and asked == [512, 1024, 2048, 2048, 4096, 8192, 16384], "2048 twice: the CPU was late"
    assert lines[1] == "[2/6] 1024: it is wrong." and lines[0].startswith("[1/6] 512: 10_clusters: 20.0 us")
    asked.clear()
    assert run() == 1 and asked == [1024] and lines[-1] == "[6/6] 16384: is current"
    asked.clear()
    assert run(force=True) == 1 and len(asked) == 6 + 1


def test_the_plan_and_what_it_costs(capsys) -> None:
    assert rotation.estimate_s([shape.size for shape in chosen_shapes((), ())], shapes.ROUNDS) < 200
    assert shapes.main(["--plan", "--groups", "ragged", "--only", "512"]) == 0
    out = capsys.readouterr().out
    assert "129x264x4096  a row more than a tile: " in out and "\n5 shapes, about " in out


def test_the_command_measures_what_is_chosen_and_writes_it(on_the_cpu, capsys, monkeypatch, tmp_path) -> None:
    bench = bench_of(0.01, (0.011,))
    bench.timer.said = "Another process computed."
    monkeypatch.setattr(shapes, "SHAPES", (Shape("squares", "tiny", 40, 64, 128),))
    monkeypatch.setattr(shapes, "Bench", lambda: nullcontext(bench))
    monkeypatch.setattr(shapes, "value_pool", lambda: POOL)
    loaded = []
    monkeypatch.setattr(
        shapes, "load", lambda rung, backend, defines: loaded.append((rung, backend, defines)) or kernel_of(bench)
    )
    assert shapes.main(["--output", str(tmp_path), "--rounds", "2"]) == 0
    assert loaded == [(choose(40, 64, 128).rung, "cuda", choose(40, 64, 128).defines)]
    (found,) = load_shapes("nvidia-h200", tmp_path).values()
    assert found.measurement.notes == ("Another process computed.",) and len(found.measurement.kernel_ms) == 2
    out = capsys.readouterr().out
    assert out.startswith("1 shape, about ") and "[1/1] 40x64x128: " in out and "ratio 1.1000" in out


def test_the_command_needs_a_gpu_and_sense(capsys, monkeypatch) -> None:
    monkeypatch.setattr(shapes.device, "device_info", lambda: None)
    monkeypatch.setattr(shapes.device, "no_device_reason", lambda: "No NVIDIA driver was found: install it.")
    assert shapes.main([]) == 1
    assert "The shapes can only be measured on a GPU: No NVIDIA driver" in capsys.readouterr().err
    assert shapes.main(["--rounds", "0"]) == 1 and "rounds is 0" in capsys.readouterr().err
    assert shapes.main(["--only", "7"]) == 1 and "size 7 is not in the table" in capsys.readouterr().err


# The page


def test_reasons_follow_from_the_record() -> None:
    few = speed((16, 4096, 4096), work=Work((128, 256), 32, 32, "grouped"), parts=4)
    assert reasons(few, LIMITS) == [
        "Bound by HBM: ours reaches 38% of that, cuBLAS 42%.",
        "Our 32 CTAs with tiles of 128 x 256 leave 100 SMs of 132 without work.",
        "cuBLAS cuts K into 4 parts.",
    ]
    waves = speed((4224, 4352, 4096), 0.25, 0.24, Work((128, 256), 578, 128, "grouped"))
    assert reasons(waves, LIMITS) == [
        "Bound by the tensor cores: ours reaches 67% of that, cuBLAS 70%.",
        "Our 578 CTAs with tiles of 128 x 256 take 5 waves of 128, and 66 are left for the last one.",
    ]
    edges = speed((1000, 1100, 1000), 0.01, 0.009, Work((128, 256), 40, 40, "grouped"))
    assert reasons(edges, LIMITS)[2:] == [
        "16% of what our tiles compute lies outside C.",
        "Rows of B begin amid sectors, which makes them slow to load.",
        "A launch of ours takes 10.0 us, of which 2.4 are work: its beginning and its end count.",
    ]
    clusters = speed((4090, 4104, 4040), 0.2, 0.19, Work((224, 128), 19 * 17 * 2, 132, "grouped"))
    assert "9% of what our tiles compute lies outside C." in reasons(clusters, LIMITS), "of whole clusters"
    parts = speed((4090, 4104, 4040), 0.2, 0.19, Work((128, 256), 32 * 17 * 3, 132, None))
    assert "6% of what our tiles compute lies outside C." in reasons(parts, LIMITS), "however often K is cut"
    even = speed((8192, 8192, 8192), 1.4, 1.38, Work((128, 256), 2048, 128, "grouped"))
    assert reasons(even, LIMITS) == ["Bound by the tensor cores: ours reaches 87% of that, cuBLAS 89%."]


def test_the_page_shows_what_is_recorded(tmp_path) -> None:
    for name in ("device.json", "memory.json"):
        (tmp_path / "nvidia-h200").mkdir(exist_ok=True)
        (tmp_path / "nvidia-h200" / name).write_bytes((RECORD_DIR / "nvidia-h200" / name).read_bytes())
    write_shape(speed((16, 4096, 4096), 0.02, 0.018), tmp_path)
    write_shape(speed((8192, 8192, 8192), 1.35, 1.38), tmp_path)
    text = document(tmp_path)
    line = "| o, 16 tokens | 16 x 4,096 x 4,096 | 10_clusters | 1,691 GB/s | 1,879 GB/s | 0.900 (0.900 to 0.900) | "
    assert line in text and re.search(re.escape(line) + r"\d\d% \|", text)
    assert len(re.findall(r"\| 814 TFLOP/s \| 797 TFLOP/s \| 1\.022", text)) == 2, "in both of its groups"
    assert "Of 2 shapes 1 are faster than with cuBLAS, 1 slower" in text and "holds the median" not in text
    assert text.count("Where cuBLAS is faster") == 1
    assert "- o, 16 tokens (16 x 4,096 x 4,096): Bound by HBM" in text
    assert "| - | - | - | - | - |" in text and text.endswith("|\n")


def test_the_page_is_what_the_records_say() -> None:
    """Write it anew with `python -m helpers.shapes_page`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_records_in_the_tree_are_of_what_is_chosen_now() -> None:
    """Measure again with `python -m helpers.shapes` what this names."""
    stale = []
    for path in sorted(RECORD_DIR.glob("*/shapes/*.json")):
        found = shape_from_json(json.loads(path.read_text()), path)
        choice = choose(*found.size, sms=found.measurement.device.sm_count)
        kernel = load(choice.rung, "emulator", defines=choice.defines)
        if not is_current(path, choice, kernel, found.measurement.device, 1):
            stale.append(path.stem)
    assert not stale, f"measure again: {', '.join(stale)}"


# The picture


def group(*times: tuple[str, float, float]) -> dict[str, ShapeSpeed]:
    return {name: speed(ms=ms, cublas_ms=cublas_ms) for name, ms, cublas_ms in times}


def test_recorded_shapes_come_by_group(tmp_path) -> None:
    for name in ("device.json", "memory.json"):
        (tmp_path / "nvidia-h200").mkdir(exist_ok=True)
        (tmp_path / "nvidia-h200" / name).write_bytes((RECORD_DIR / "nvidia-h200" / name).read_bytes())
    assert recorded_shapes(tmp_path) == {}
    write_shape(speed((8192, 8192, 8192)), tmp_path)
    write_shape(speed((7, 8, 16)), tmp_path)   # not in the table
    found = by_group(recorded_shapes(tmp_path))
    assert list(found) == list(GROUPS.values())
    assert {title: list(shapes) for title, shapes in found.items() if shapes} == {
        "Llama-3 70B": ["o, 8,192 tokens"], "Squares": ["square 8,192"]
    }


@pytest.mark.parametrize(
    ("groups", "sentences"),
    [
        ({"Both": group(("slow", 0.020, 0.018), ("fast", 0.02, 0.021), ("even", 0.02, 0.02))},
         ["3 marks", "Both, 1 of 3 faster, 1 slower, from slow 0.900 to fast 1.050"]),
        ({"One": group(("alone", 0.02, 0.03)), "Empty": {}}, ["1 mark,", "One, 1 of 1 faster, 0 slower, alone 1.500."]),
        ({"Even": group(("a", 0.02, 0.02), ("b", 0.02, 0.02))}, ["Even, 0 of 2 faster, 0 slower"]),
        ({"Far": group(("a shape with a rather long name", 0.02, 0.2), ("another of that kind", 0.2, 0.002))},
         ["from another of that kind 0.010 to a shape with a rather long name 10.000"]),
        ({}, ["no recording"]), ({"Empty": {}}, ["no recording"]),
    ],
)
def test_a_mark_for_each_shape(groups, sentences) -> None:
    require_legible(lambda: ratio_chart(groups), sentences)


def test_marks_lie_where_the_ratios_are() -> None:
    shapes = group(("slow", 0.020, 0.018), ("fast", 0.02, 0.021))
    slow = shapes["slow"]
    shapes["appendix"] = replace(slow, measurement=replace(slow.measurement, rung="appendix_split_k"))
    (axes,) = ratio_chart({"Both": shapes}).axes
    marks = [(line.get_marker(), *line.get_xdata()) for line in axes.lines if line.get_marker() in "oD"]
    assert marks == [("o", pytest.approx(0.9)), ("D", pytest.approx(0.9)), ("o", pytest.approx(1.05))]


def test_names_of_the_last_marks_do_not_lie_on_the_line_of_cublas() -> None:
    """Beside a long scale a name on the left of the last mark would cross the 1, among the other marks."""
    shapes = group(("no power of two", 0.02, 0.0121), ("among", 0.02, 0.0187), ("a row more than a tile", 0.02, 0.0218))
    picture = ratio_chart({"Ragged": shapes})
    (axes,) = picture.axes
    renderer = picture.canvas.get_renderer()
    (box,) = [Text.get_window_extent(text, renderer) for text in axes.texts if "a row more" in text.get_text()]
    assert axes.transData.transform((1.09, 0))[0] < box.x0 and box.x1 < axes.get_window_extent(renderer).x1
