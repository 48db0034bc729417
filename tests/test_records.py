"""Records: every field comes back, damaged files are named and never overwritten, stale code is never shown."""

import json
import math
import os
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers import records
from helpers.device import Bandwidth, Device
from helpers.errors import ArgumentError, CourseError, RecordError
from helpers.held_clock import recorded_clocks
from helpers.intervals import median, median_interval, quartiles
from helpers.jsonfile import RECORDERS, Fields, format_json, recorder, write_json
from helpers.kernel import load
from helpers.order_speeds import find_orders
from helpers.profile import find_profile
from helpers.published import published
from helpers.record_basics import RECORD_DIR
from helpers.records import Measurement, Samples
from helpers.rungs import ROOT, find_rung
from helpers.yardsticks import Roof, Yardsticks, load_yardsticks, write_yardsticks

H200 = Device("NVIDIA H200", "9.0", 132, 1980.0, 62914560, 150_000_000_000, 3201.0, 6144, "580.159.04", 700.0)
H100 = replace(H200, name="NVIDIA H100 PCIe", sm_count=114)


def measurement(**changes) -> Measurement:
    fields = {
        "rung": "01_coalescing", "entry": "matmul", "code_hash": "0123456789abcdef", "defines": {}, "dtype": "bfloat16",
        "device": H200, "toolkit": {"nvrtc": "13.0", "cublas": "13.1.0", "cupy": "14.2.0"},
        "m": 4096, "n": 4096, "k": 4096, "regime": "burst",
        "method": {"rounds": 3, "rest_s": 1.0, "spin_ms": 0.3, "cublas_algorithm": {"id": 66}},
        "samples": Samples(
            ((20.0,), (25.0,), (40.0,)), ((0.2,), (0.25,), (0.2,)), (1900.5, None, 1905.0), (1600.0, 1600.0, 1590.0)
        ),
        "sm_clock_mhz": 1902.8, "power_w": 512.3, "temperature_c": 41.0, "throttle_reasons": (),
        "date": "2026-11-29T12:00:00Z",
    }
    return Measurement(**(fields | changes))


def damage(path: Path, key: str, value) -> None:
    """Set a dotted key of a JSON file, or delete it if the value is Ellipsis."""
    data = json.loads(path.read_text())
    *parents, last = key.split(".")
    target = data
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    path.write_text(json.dumps(data))


def test_round_trip_keeps_every_field(tmp_path):
    original = measurement(defines={"B": 2, "A": "x"}, throttle_reasons=("sw_power_cap",), notes=("a note",))
    path = records.write_record(original, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "01_coalescing+A-x+B-2_4096_burst.json"
    assert records.read_record(path) == original
    assert records.load_records(tmp_path) == [original]


def test_missing_telemetry_stays_none(tmp_path):
    original = measurement(power_w=None, temperature_c=None, sm_clock_mhz=None, throttle_reasons=None)
    assert records.read_record(records.write_record(original, tmp_path)) == original


def test_file_is_compact_and_in_a_fixed_order(tmp_path):
    path = records.write_record(measurement(), tmp_path)
    text = path.read_text()
    lines = text.splitlines()
    assert '    "kernel_ms": [[20.0], [25.0], [40.0]],' in lines
    assert lines[1] == '  "schema": "hopper-matmul/measurement/1",'
    assert list(json.loads(text))[:4] == ["schema", "rung", "entry", "code_hash"]
    records.write_record(records.read_record(path), tmp_path)
    assert path.read_text() == text, "writing what was read changes nothing"


def test_milliseconds_are_rounded_to_nanoseconds(tmp_path):
    samples = Samples(((1 / 3,),), ((2 / 3,),))
    path = records.write_record(measurement(samples=samples), tmp_path)
    assert records.read_record(path).samples.kernel_ms == ((0.333333,),)


def test_speed_and_ratio_are_medians_over_rounds():
    item = measurement()
    assert item.tflops == pytest.approx(2 * 4096**3 / 0.025 / 1e12)
    assert item.cublas_tflops == pytest.approx(2 * 4096**3 / 0.0002 / 1e12)
    assert item.ratio == pytest.approx(0.01)   # of 0.01, 0.01, 0.005: not the ratio of the medians, 0.008
    assert (item.ratio_interval.low, item.ratio_interval.high) == (pytest.approx(0.005), pytest.approx(0.01))
    assert item.ratio_interval.coverage == 0.75
    low, high = item.tflops_quartiles
    assert low < item.tflops < high


def test_round_of_several_samples_counts_as_its_median():
    item = measurement(samples=Samples(((1.0, 9.0, 2.0),), ((4.0, 4.0),)))
    assert item.kernel_ms == (2.0,) and item.ratio == 2.0


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("schema", "hopper-matmul/measurement/0", "schema is .*must be 'hopper-matmul/measurement/1'"),
        ("schema", ..., "schema is missing"),
        ("code_hash", "xyz", "code_hash is \"xyz\".*16 hexadecimal digits"),
        ("code_hash", "0123456789ABCDEF", "16 hexadecimal digits"),
        ("rung", "", "a rung's name"),
        ("n", 4096.0, "n is 4096.0.*an integer of at least 1"),
        ("n", True, "n is true"),
        ("k", 0, "k is 0"),
        ("regime", "fast", "'burst' or 'sustained'"),
        ("dtype", "float32", "dtype"),
        ("samples", [], "samples is a list of 0.*an object"),
        ("samples.kernel_ms", [], "samples.kernel_ms"),
        ("samples.kernel_ms", [[]], "samples.kernel_ms contains a list of 0"),
        ("samples.kernel_ms", [[1.0], [-1.0], [1.0]], "samples.kernel_ms contains -1.0.*above zero"),
        ("samples.kernel_ms", [[1.0], [0], [1.0]], "contains 0"),
        ("samples.kernel_ms", [[1.0], ["1"], [1.0]], "contains \"1\""),
        ("samples.cublas_ms", [[1.0]], "samples.cublas_ms has 1 rounds.*3, as in kernel_ms"),
        ("samples.kernel_clock_mhz", [0, 1, 2], "kernel_clock_mhz contains 0"),
        ("device.sm_count", "132", "device.sm_count is \"132\""),
        ("device", ..., "device is missing"),
        ("toolkit.nvrtc", [1], "toolkit.nvrtc is a list"),
        ("date", "yesterday", "date is \"yesterday\".*a UTC time"),
        ("throttle_reasons", "none", "throttle_reasons"),
        ("power_w", -5, "power_w is -5"),
        ("samples.kernel_ms", [[1.0], [5e-324], [1.0]], "contains 5e-324.*above zero"),
        ("samples.kernel_ms", [[1.0], [10**400], [1.0]], "contains 1000.*finite"),
        ("n", 10**400, "n is 1000"),
        ("date", "٢٠٢٦-11-29T12:00:00Z", "a UTC time"),
        ("date", "2026-13-29T12:00:00Z", "a UTC time"),
        ("date", "2026-11-29T24:00:00Z", "a UTC time"),
        ("device.name", "H200\x1b[2J", "device.name is .*name of a GPU"),
        ("device.driver", "\ud800", "not valid JSON .*surrogates not allowed"),
        ("notes", ["one\ntwo"], "notes is a list of 1.*each of one line"),
        ("defines", {"../x": 1}, "defines is wrong .*not a C identifier"),
        ("defines", {"STAGES": "2 -DX"}, "defines is wrong .*an integer or a word"),
        ("toolkit", {"a\nb" * 100: []}, r'toolkit\."a\\nba.*\.\.\. is a list of 0'),
    ],
)
def test_damaged_record_names_file_key_and_remedy(tmp_path, key, value, words):
    path = records.write_record(measurement(), tmp_path)
    damage(path, key, value)
    before = path.read_text()
    with pytest.raises(RecordError, match=words) as caught:
        records.read_record(path)
    message = str(caught.value)
    assert path.name in message and "restore it with git" in message and "\n" not in message
    with pytest.raises(RecordError, match="in the way and damaged, so it is not overwritten"):
        records.write_record(measurement(), tmp_path)
    assert path.read_text() == before, "a damaged file is not overwritten"


def test_a_key_that_stands_twice_is_refused(tmp_path):
    """As in a file that a merge has left with the lines of both sides: either value could be the right one."""
    path = records.write_record(measurement(), tmp_path)
    path.write_text(path.read_text().replace('"n": 4096', '"n": 4096, "n": 8192'))
    with pytest.raises(RecordError, match='the key "n" stands in an object twice.*restore it with git'):
        records.read_record(path)


def test_a_file_under_the_name_of_something_else_is_refused(tmp_path):
    """Copied or renamed by hand: its figures are not those of the GPU, kernel or size that the place says."""
    device, kernels = RECORD_DIR / "nvidia-h200", {"profile": "09_persistence.json", "orders": "08_hilbert_8192.json"}
    reads = {
        "device.json": lambda: load_yardsticks("nvidia-h100", tmp_path),
        "clock/held.json": lambda: recorded_clocks("nvidia-h100", tmp_path),
        "profile/08_hilbert.json": lambda: find_profile(8, directory=tmp_path),
        "orders/09_persistence_4096.json": lambda: find_orders(find_rung(9), 4096, directory=tmp_path),
    }
    for name, read in reads.items():
        path = tmp_path / "nvidia-h100" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = name.partition("/")[0]
        source = device / folder / kernels[folder] if folder in kernels else device / name
        path.write_bytes(source.read_bytes())
        with pytest.raises(RecordError, match=f"{name}: the file holds nvidia-h200/{folder}.*must be under that name"):
            read()


def test_a_number_that_is_too_large_is_refused_wherever_it_stands(tmp_path):
    """Python reads it as infinity, which JSON does not have: the record could not be written again."""
    path = records.write_record(measurement(method={"rounds": 9}), tmp_path)
    path.write_text(path.read_text().replace('"rounds": 9', '"rounds": 1e999'))
    with pytest.raises(RecordError, match="it contains 1e999, which is too large.*restore it with git"):
        records.read_record(path)


def test_a_long_choice_is_not_shown_whole(tmp_path):
    path = tmp_path / "published.json"
    data = json.loads((RECORD_DIR / "published.json").read_text())
    data["sources"]["x" * 5000] = data["sources"].pop("worklog")
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match="but it must be 'gordic' or 'fast.cu' or 'xxx") as caught:
        published(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"schema": NaN}', "\x00\x01", '{"a": Infinity}'])
def test_what_is_not_a_json_object_is_refused(tmp_path, text):
    path = tmp_path / "nvidia-h200" / "01_coalescing_4096_burst.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(RecordError, match=r"01_coalescing_4096_burst.json (is not valid JSON|holds a JSON)"):
        records.read_record(path)


def test_what_is_no_file_or_no_record_is_refused(tmp_path, monkeypatch):
    folder, pipe, loop, deep, large = (tmp_path / name for name in ("folder", "pipe", "loop", "deep", "large"))
    folder.mkdir()
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    deep.write_text("[" * 100_000)
    monkeypatch.setattr("helpers.jsonfile.MAX_BYTES", 200_000)
    large.write_text(" " * 200_001 + "{}")
    for path, words in (
        (folder, "is a folder: move it away"), (pipe, "is no regular file: move it away"), (loop, "cannot be read"),
        (deep, "nested too deeply: restore it"), (large, "has 200,003 bytes, a record has at most 200,000"),
    ):
        with pytest.raises(RecordError, match=f"{path.name} {words}|{words}") as caught:
            records.read_record(path)
        assert "not valid JSON" not in str(caught.value) and str(caught.value).count("restore") <= 1, "one sentence"


def test_the_remedy_names_the_command_that_records_such_a_file():
    text = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| `python -m helpers\.(\w+)[^`]*` \|.*\| `([\w.]+)/?` \|$", text, re.M))
    assert len(found) >= 9
    for module, name in found.items():
        path = Path("nvidia-h200") / name / ("" if name.endswith(".json") else "10_clusters.json")
        assert recorder(path) == f"`python -m helpers.{module}`", f"{path}: see helpers/jsonfile.py"
    assert recorder(Path("second/nvidia-h200/10_clusters_4096_burst.json")) == "`python -m helpers.record`"
    for module in RECORDERS.values():
        assert find_spec(f"helpers.{module}"), module
    with pytest.raises(RecordError, match="restore it with git.$"):
        Fields([], Path("published.json"))


def test_bytes_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe\x80")
    with pytest.raises(RecordError, match="not valid JSON"):
        records.read_record(path)


def test_lenient_loading_warns_and_keeps_the_rest(tmp_path):
    good = records.write_record(measurement(), tmp_path)
    bad = good.with_name("02_smem_tiling_4096_burst.json")
    bad.write_text("{")
    with pytest.raises(RecordError, match="02_smem_tiling"):
        records.load_records(tmp_path)
    with pytest.warns(records.RecordWarning, match="02_smem_tiling_4096_burst.json"):
        assert records.load_records(tmp_path, strict=False) == [measurement()]


def test_invalid_measurement_is_never_written(tmp_path):
    for samples in (Samples(((math.nan,),), ((1.0,),)), Samples((), ()), Samples(((1.0,),), ((0.0,),))):
        with pytest.raises(RecordError):
            records.write_record(measurement(samples=samples), tmp_path)
    assert not list(tmp_path.rglob("*")), "no file and no folder is left"


def test_unwritable_folder_is_one_sentence(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(CourseError, match="directory is .*, which is a file: give a folder"):
        records.write_record(measurement(), blocked)
    (tmp_path / "nvidia-h200").write_text("a file where the folder must be")
    with pytest.raises(RecordError, match=r"cannot be written \(.*\): give a folder that you may write to"):
        records.write_record(measurement(), tmp_path)


def test_a_failed_write_leaves_the_old_record(tmp_path, monkeypatch):
    path = records.write_record(measurement(), tmp_path)
    before = path.read_text()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(RecordError, match="No space left"):
        records.write_record(measurement(power_w=1.0), tmp_path)
    assert path.read_text() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name], "no temporary file is left"


def test_find_record_wants_the_same_kernel_size_regime_and_code(tmp_path):
    records.write_record(measurement(), tmp_path)
    cube = (4096, 4096, 4096)
    assert records.find_record("01", *cube, directory=tmp_path) == measurement()
    assert records.find_record(1, *cube, code_hash="0123456789abcdef", directory=tmp_path) == measurement()
    assert records.find_record(1, *cube, code_hash="f" * 16, directory=tmp_path) is None
    assert records.find_record(1, 4096, 4096, 2048, directory=tmp_path) is None
    assert records.find_record(1, *cube, regime="sustained", directory=tmp_path) is None
    assert records.find_record(1, *cube, entry="matmul_uncoalesced", directory=tmp_path) is None
    assert records.find_record(1, *cube, defines={"X": 1}, directory=tmp_path) is None
    assert records.find_record(2, *cube, directory=tmp_path) is None


def test_find_record_prefers_the_reference_gpu_then_the_newest(tmp_path):
    other = measurement(device=H100, date="2027-01-01T00:00:00Z")
    records.write_record(other, tmp_path)
    assert records.find_record(1, 4096, 4096, 4096, directory=tmp_path) == other
    records.write_record(measurement(), tmp_path)
    assert records.find_record(1, 4096, 4096, 4096, directory=tmp_path) == measurement()
    newer = measurement(date="2026-12-24T00:00:00Z", power_w=600.0)
    records.write_record(newer, path=tmp_path / "nvidia-h200" / "01_coalescing_second_4096_burst.json")
    assert records.find_record(1, 4096, 4096, 4096, directory=tmp_path) == newer


def test_find_record_says_when_the_wanted_file_is_damaged(tmp_path):
    path = records.write_record(measurement(), tmp_path)
    path.write_text("{")
    with pytest.raises(RecordError, match="01_coalescing_4096_burst.json is not valid JSON"):
        records.find_record(1, 4096, 4096, 4096, directory=tmp_path)
    assert records.find_record(1, 1024, 1024, 1024, directory=tmp_path) is None, "another size is not affected"


def test_entries_and_shapes_have_their_own_files():
    def name(**changes):
        return records.record_path(measurement(**changes), Path("r")).name

    names = {
        name(), name(entry="matmul_uncoalesced"), name(m=512), name(regime="sustained"), name(defines={"X": 1}),
        name(rung="02_smem_tiling"),
    }
    assert len(names) == 6
    assert "01_coalescing.matmul_uncoalesced_4096_burst.json" in names
    assert "01_coalescing_512x4096x4096_burst.json" in names


def test_staleness_is_a_comparison_of_hashes():
    items = [measurement(), measurement(code_hash="f" * 16), measurement(rung="02_smem_tiling")]
    current = {"01_coalescing": "0123456789abcdef"}
    same, changed, gone = records.with_staleness(items, lambda item: current.get(item.rung))
    assert (same.stale, changed.stale, gone.stale) == (False, True, True)


def test_yardsticks_round_trip_and_prefer_the_reference(tmp_path):
    original = Yardsticks(H200, Bandwidth(4021.5, 8_000_000_000, (1.99, 2.01)), 1980.0, "2026-11-29T12:00:00Z")
    path = write_yardsticks(original, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "device.json"
    write_yardsticks(replace(original, device=H100, date="2027-01-01T00:00:00Z"), tmp_path)
    assert load_yardsticks(directory=tmp_path) == original
    assert load_yardsticks(H100, tmp_path).device == H100
    assert load_yardsticks("none", tmp_path) is None
    assert records.load_records(tmp_path) == [], "device.json is no measurement"
    roofs = (Roof(4096, "burst", "N(0,1)", 904.1, 1702.5, None),
             Roof(8192, "sustained", "zeros", 928.0, 1720.0, 455.5))
    write_yardsticks(replace(original, roofs=roofs), tmp_path)
    assert load_yardsticks(directory=tmp_path).roofs == roofs
    damage(path, "bandwidth.gb_per_s", 0)
    with pytest.raises(RecordError, match="bandwidth.gb_per_s is 0"):
        load_yardsticks(directory=tmp_path)


def test_published_figures_have_gpu_size_type_and_source():
    figures = published()
    assert len(figures) >= 17
    for figure in figures:
        assert figure.gpu.startswith("H100") and figure.n in (4096, 8192) and figure.source and figure.url
        assert (figure.dtype == "float32") == (figure.gpu == "H100 PCIe"), "the fp32 figures are those of the PCIe card"
    by_rung = {(item.rung, item.entry): item.tflops for item in figures if item.rung}
    assert by_rung[1, "matmul_uncoalesced"] == 0.243 and by_rung[1, None] == 3.17
    assert by_rung[4, None] == 32 and by_rung[6, None] == 423 and by_rung[10, None] == 764
    assert {item.tflops for item in figures if item.role == "cublas"} == {716, 795}
    ladder = [item.tflops for item in figures if item.role == "kernel" and item.n == 4096]
    assert ladder == sorted(ladder), "the file goes up the ladder"


def test_damaged_published_file_is_named(tmp_path):
    path = tmp_path / "published.json"
    path.write_text((RECORD_DIR / "published.json").read_text().replace("0.243", "-1"))
    with pytest.raises(RecordError, match=r"figures\[0\].tflops is -1"):
        published(path)


def test_recordings_in_the_tree_are_valid_and_of_the_current_code():
    """A kernel that was changed must be measured again: `make record`, or `python -m helpers.record`."""
    found = records.load_records()

    def current(item: Measurement) -> str | None:
        try:
            return load(item.rung, backend="emulator", entry=item.entry, defines=item.defines).code_hash
        except ArgumentError:
            return None   # there is no such kernel any more

    hopper = [item for item in found if item.device.compute_capability == "9.0"]
    stale = [records.record_path(item).name for item in records.with_staleness(hopper, current) if item.stale]
    assert not stale, f"measure again: {', '.join(stale)}"


def test_clocks_and_orders_in_the_tree_are_of_the_current_code():
    """Measure again with `python -m helpers.held_clock` and `python -m helpers.order_speeds` what this names."""
    kept = []
    for path in sorted(RECORD_DIR.glob("*/clock/held.json")):
        kept += [(f"clock of {item.rung}", item.rung, item.code_hash) for item in recorded_clocks(path.parts[-3])]
    for path in sorted(RECORD_DIR.glob("*/orders/*.json")):
        orders = json.loads(path.read_text())["orders"].values()
        kept += [(f"orders/{path.name}", item["rung"], item["code_hash"]) for item in orders]
    assert kept
    current = {rung: load(rung, backend="emulator").code_hash for rung in {rung for _, rung, _ in kept}}
    stale = sorted({name for name, rung, code_hash in kept if current[rung] != code_hash})
    assert not stale, f"measure again: {', '.join(stale)}"


def test_format_json_refuses_what_json_has_not():
    with pytest.raises(ValueError):
        format_json({"a": math.nan})
    assert format_json({}) == "{}"
    assert format_json({"a": [{"b": 1}, {}]}).splitlines() == [
        "{", '  "a": [', "    {", '      "b": 1', "    },", "    {}", "  ]", "}"
    ]
    assert json.loads(format_json({"a": [[1, 2], []], "b": {"c": "é"}})) == {"a": [[1, 2], []], "b": {"c": "é"}}


def test_check_runs_before_anything_is_written(tmp_path):
    def refuse(data, path):
        raise RecordError("no")

    with pytest.raises(RecordError, match="no"):
        write_json(tmp_path / "a" / "b.json", {}, refuse)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [(1, 0, 0, 0.0), (5, 0, 4, 0.9375), (6, 0, 5, 0.96875), (8, 0, 7, 0.9921875), (9, 1, 7, 0.9609375),
     (20, 5, 14, 0.9586105)],
)
def test_interval_is_that_of_the_binomial_table(count, low, high, coverage):
    interval = median_interval([float(value) for value in reversed(range(count))])
    assert (interval.low, interval.high) == (low, high)
    assert interval.coverage == pytest.approx(coverage)


def test_interval_covers_the_median_as_often_as_it_says():
    import numpy as np

    samples = np.random.default_rng(7).exponential(size=(4000, 9))
    intervals = [median_interval(row) for row in samples]
    share = sum(item.low <= math.log(2) <= item.high for item in intervals) / len(intervals)
    assert share == pytest.approx(0.961, abs=0.012)


def test_median_and_quartiles():
    assert median([3, 1, 2]) == 2 and median([4, 1, 2, 3]) == 2.5
    assert quartiles([1, 2, 3, 4, 5]) == (2, 4) and quartiles([7]) == (7, 7)
    for function in (median, quartiles, median_interval):
        with pytest.raises(ArgumentError, match="empty"):
            function([])
    with pytest.raises(ArgumentError, match="confidence"):
        median_interval([1.0], 1.0)


def test_a_measurement_in_words_says_where_it_is_from():
    text = str(measurement())
    assert text.startswith("01_coalescing, N=4096, burst: 5.50 TFLOP/s, recorded on NVIDIA H200, 2026-11-29\n")
    assert "cuBLAS in turn 687 TFLOP/s, ratio 0.0100 (0.00500 to 0.0100)" in text
    assert "measured live on" in str(measurement(source="live")) and "recorded" not in str(measurement(source="live"))
    assert "of code that has changed since" in str(measurement(stale=True))
    assert "01_coalescing.matmul_uncoalesced, N=1x2x3" in str(measurement(entry="matmul_uncoalesced", m=1, n=2, k=3))
