"""Arguments that name a folder: what is none gets one sentence from one check, before anything is measured."""

import importlib
from pathlib import Path

import pytest

import helpers
from helpers.agreement import pairs
from helpers.benchmark import benchmark
from helpers.checks import checked_folder, checked_path
from helpers.cli import main
from helpers.device import Device
from helpers.energy_records import recorded_energies
from helpers.errors import ArgumentError
from helpers.held_clock import recorded_clocks
from helpers.kernel import load
from helpers.notebooks import run_notebook
from helpers.record import job_path, plan_jobs
from helpers.records import find_record, load_records, write_record
from helpers.rungs import NOTEBOOK_DIR, RUNGS
from helpers.shape_records import load_shapes
from helpers.slides import export
from helpers.yardsticks import load_yardsticks

H200 = Device("NVIDIA H200", "9.0", 132)
FOLDERS = {
    "load_records": load_records,
    "find_record": lambda value: find_record(1, 4096, 4096, 4096, directory=value),
    "write_record": lambda value: write_record(find_record(1, 4096, 4096, 4096), value),
    "benchmark": lambda value: benchmark(load(1, backend="emulator"), directory=value),
    "load_shapes": lambda value: load_shapes("nvidia-h200", value),
    "load_yardsticks": lambda value: load_yardsticks("nvidia-h200", value),
    "recorded_energies": lambda value: recorded_energies(None, value),
    "recorded_clocks": lambda value: recorded_clocks("nvidia-h200", value),
    "job_path": lambda value: job_path(plan_jobs(RUNGS[:1], [1024], ["burst"])[0], H200, value),
    "pairs": lambda value: pairs(value, value),
    "run_notebook": lambda value: run_notebook(NOTEBOOK_DIR / "01_coalescing.ipynb", value),
    "export": lambda value: export(NOTEBOOK_DIR / "01_coalescing.ipynb", value),
}
NEEDED = ("pairs", "run_notebook", "export")   # where None does not mean helpers/records
RECORDING = (
    "cluster_room", "compute_sanitizer", "cublas_torch", "energy", "held_clock", "input_speeds", "memory_speed",
    "order_speeds", "profile", "record", "roof", "shapes",
)


def test_a_path_of_a_folder(tmp_path):
    file, loop = tmp_path / "file", tmp_path / "loop"
    file.write_text("")
    loop.symlink_to(loop)
    assert checked_folder("d", str(tmp_path)) == tmp_path and checked_folder("d", tmp_path / "new") == tmp_path / "new"
    assert checked_path("p", file) == checked_path("p", str(file)) == file
    for value, words in (
        (None, "d is None: it must be the path of a folder, a text or a pathlib.Path."),
        (b"x", "d is b'x': it must be the path of a folder, a text or a pathlib.Path."),
        ("a\0b", "d is 'a\\x00b': it must be the path of a folder, a text or a pathlib.Path."),
        (file, f"d is '{file}', which is a file: give a folder."),
        (file / "x", f"d is '{file}/x', which is no folder (Not a directory): give another one."),
        (loop, f"d is '{loop}', which is no folder (Too many levels of symbolic links): give another one."),
        ("a" * 300, f"d is '{'a' * 296}..., which is no folder (File name too long): give another one."),
    ):
        with pytest.raises(ArgumentError) as caught:
            checked_folder("d", value)
        assert str(caught.value) == words
    with pytest.raises(ArgumentError, match=r"p is 3: it must be the path of a file, a text or a pathlib.Path\."):
        checked_path("p", 3)


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_no_folder_is_refused_in_a_sentence(name, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for value in (*[None] * (name in NEEDED), 3, b"x", [], "a\0b", "a" * 300, file, str(file), file / "below"):
        with pytest.raises(ArgumentError, match=r"^\w+ is .*folder.*\.$"):
            FOLDERS[name](value)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", RECORDING)
def test_a_file_in_place_of_a_folder_is_refused_before_anything_is_measured(command, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"helpers.{command}").main(["--output", str(file)])
    start = f"python -m helpers.{command}: argument --output: it is '{file}', which is a file: give a folder; see "
    assert ended.value.code == 2 and capsys.readouterr().err.startswith(start)


@pytest.mark.parametrize("command", ["run", "slides"])
def test_so_is_one_in_place_of_a_folder_for_notebooks(command, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(SystemExit) as ended:
        main([command, "1", "--output-dir", str(file)])
    assert ended.value.code == 2 and f"--output-dir: it is '{file}', which is a file" in capsys.readouterr().err


def test_every_command_that_records_is_tried():
    sources = {path.stem: path.read_text() for path in Path(helpers.__file__).parent.glob("*.py")}
    assert set(RECORDING) == {name for name, text in sources.items() if "parser.add_output(" in text}
