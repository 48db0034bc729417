"""Random command lines: each ends soon, with 0, or with 1 or 2 and sentences; nothing outside its folder is written."""

import contextlib
import importlib
import io
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from helpers.rungs import KERNEL_DIR, ROOT, RUNGS

MOST_S = 120   # of a command; the slowest takes some seconds, more where others compute, or the first time
COMMANDS = ("list", "verify", "emulate", "bench", "inspect", "diff", "plot", "run", "slides", "doctor")

RUNG = (
    "1", "01", "2", "10_clusters", "9", "appendix_s", "appendix_f", "appendix_p", "appendix", "0", "11", "-1", "", " 1",
    "0" * 30, "01_coalescing.cu", "x" * 500, "ä", "\udcff", "1\n2", "*", "1.0", "٣", "--", "-",
)  # fmt: skip
NUMBER = ("1", "2", "0", "-1", "x", "", "1e3", "nan", "inf", "9" * 5000, "1_0", "٣", " 1", "0x10", "1.5", str(2**63))
SIZE = (
    "64", "128x256x64", "1x1x1", "33x65x17", "128x0x64", "-1", "64x64", "x", "", "65536x65536x65536", "9" * 300,
    "1x2x3x4", "٣", "2147483647", "2147483648", "64X64X64",
)  # fmt: skip
WORD = (
    "", "matmul", "matmul_uncoalesced", "burst", "sustained", "hilbert", "row", "global_load", "H200", "no GPU",
    "emulator", "eager", "random", "check", "link", "canonicalise",
    "a\nb", "\udcff", "é", "-", "--", "x" * 3000, "$(ls)", "../..", "%s%n", "{}", "*",
)  # fmt: skip
DEFINE = (
    "BUFFERS=1", "STAGES=2", "STAGES", "X=", "=1", "1X=2", "X=1 2", "X=-DY", "X=;", "matmul=other", "int=float",
    "é=1", "X=" + "9" * 400, "",
)  # fmt: skip
PATHS = (
    "record.json", "damaged.json", "empty", "folder", "records", "run.json", "good.ipynb", "damaged.ipynb", "page.md",
    "no_marks.md", "good.cu", "damaged.cu", "binary", "pipe", "none", "none/none.png", "new.png", "new.json",
    "empty/x.png", "loop", "/dev/null", "/dev/zero", "/proc/self/mem", "/", "", "x" * 300, "é ü.png", "\udcff.png",
    "new", "dangling", "-", "https://x.y/z",
)  # fmt: skip
VALUES = {"rung": RUNG, "number": NUMBER, "size": SIZE, "word": WORD, "define": DEFINE, "path": PATHS,
          "count": NUMBER[:-1]}   # how often something long is done


@dataclass(frozen=True)
class Line:
    """A command. before: arguments that every line of it begins with, so that it does little. options: with the kind of
    their values, "" for none; places: the kinds of what comes without an option's name."""

    name: str
    options: dict[str, str]
    places: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


LADDER = (
    Line("list", {}),
    Line("verify", {"--backend": "word", "--size": "size"}, ("rung",), ("--size", "1x8x8")),
    Line("emulate", {"--size": "size", "--schedule": "word", "--seed": "number", "--counters": "", "--define": "define",
                     "--file": "path", "--entry": "word"}, ("rung",), ("1",)),
    Line("bench", {"--size": "size", "--sustained": "", "--record": "path", "--entry": "word"}, ("rung",)),
    Line("inspect", {"--sass": "", "--entry": "word"}, ("rung",), ("1",)),
    Line("diff", {}, ("rung",)),
    Line("plot", {"--output": "path"}, (), ("--output", "new.png")),
    Line("run", {"--output-dir": "path"}, ("path",), ("damaged.ipynb",)),
    Line("slides", {"--output-dir": "path"}, ("path",), ("good.ipynb", "--output-dir", "slides")),
    Line("doctor", {"--performance": "", "--rung": "rung", "--size": "size", "--sustained": ""}),
)  # fmt: skip
MODULES = (
    Line("agreement", {"--sizes": "number", "--regimes": "word"}, ("path", "path")),
    Line("bugs.__main__", {"--check": "", "--file": "path"}),
    Line("cluster_room", {"--output": "path"}),
    Line("compute_sanitizer", {"--rungs": "rung", "--tools": "word", "--output": "path", "--again": "",
                               "--no-faults": "", "--jobs": "number", "--timeout": "number"}),
    Line("cublas_torch", {"--sizes": "number", "--output": "path"}),
    Line("endurance", {"--rungs": "rung", "--shapes": "count", "--launches": "count", "--seed": "number",
                       "--backend": "word"}, (), ("--rungs", "1", "--shapes", "1", "--launches", "1")),
    Line("energy", {"--rungs": "rung", "--sizes": "number", "--rounds": "number", "--turn": "number",
                    "--output": "path"}),
    Line("glossary", {}, ("word", "path")),
    Line("held_clock", {"--sizes": "number", "--regimes": "word", "--output": "path"}, ("rung",)),
    Line("input_speeds", {"--rung": "rung", "--sizes": "number", "--regimes": "word", "--output": "path"}),
    Line("licences", {"--check": "", "--file": "path"}),
    Line("memory_speed", {"--output": "path"}),
    Line("minutes", {"--first": "", "--machine": "word", "--output": "path"}, ("path",)),
    Line("mutants.__main__", {"--rungs": "rung", "--record": ""}),
    Line("notebooks", {}, ("word", "path")),
    Line("order_speeds", {"--rung": "rung", "--sizes": "number", "--orders": "word", "--output": "path"}),
    Line("partitions", {}),
    Line("profile", {"--rungs": "rung", "--sizes": "number", "--orders": "word", "--only": "word", "--output": "path",
                     "--launch": "rung"}),
    Line("readme", {"--check": "", "--file": "path"}),
    Line("record", {"--rungs": "rung", "--sizes": "number", "--regimes": "word", "--rounds": "number",
                    "--rest": "number", "--turn": "number", "--twin-limit": "number", "--ablations": "",
                    "--output": "path", "--force": "", "--no-yardsticks": "", "--list": ""}),
    Line("roof", {"--output": "path"}),
    Line("sanitizer.__main__", {"--check": "", "--file": "path"}),
    Line("sanitizer.child", {"--fault": "word", "--unread": ""}, ("rung",)),
    Line("selfcheck", {}),
    Line("shapes", {"--groups": "word", "--only": "size", "--rounds": "number", "--output": "path", "--force": "",
                    "--plan": ""}),
    Line("shapes_page", {"--check": "", "--file": "path"}),
    Line("soak", {"--runs": "count", "--first": "number", "--seeds": "word"}, (), ("--runs", "1", "--seeds", "0")),
)  # fmt: skip


def arguments_of(draw: random.Random, line: Line) -> list[str]:
    """Arguments that mostly fit the command's options, and sometimes nothing."""
    found = list(line.before)
    for _ in range(draw.choice((0, 1, 1, 2, 3, 6))):
        name = draw.choice((*line.options, *line.places, "junk"))
        if name == "junk":
            found.append(draw.choice((*WORD, *PATHS, "--help", "--json", "-h", "--no-such", "--file=x", "-x", "---")))
        elif name in line.options:
            found.append(name if draw.random() < 0.9 else draw.choice((name + "=", name[:4], name.upper())))
            kind = line.options[name]
            if kind and draw.random() < 0.95:
                found += [draw.choice(VALUES[kind]) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
        else:
            found.append(draw.choice(VALUES[name]))
    if line.name in COMMANDS and draw.random() < 0.3:
        found.append("--json")
    return found


def test_every_command_is_tried():
    tried = {line.name.removesuffix(".__main__") for line in MODULES}
    marked = {
        ".".join(path.relative_to(ROOT / "helpers").with_suffix("").parts).removesuffix(".__main__")
        for path in (ROOT / "helpers").rglob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert marked - {"__main__"} == tried
    from helpers.cli.parser import build_parser

    commands = next(action for action in build_parser()._actions if action.choices)
    assert set(commands.choices) == {line.name for line in LADDER}


def is_outside(path: object, folder: Path, temporary: str = tempfile.gettempdir(), root: Path = ROOT) -> bool:
    """Whether a command must not write there: what is in the project, wherever that lies, and all but a few folders."""
    real, project, *allowed = (
        os.path.realpath(os.fsdecode(item)) + os.sep for item in (path, root, folder, root / "build", temporary)
    )
    own = tuple(allowed[:2])
    return not real.startswith(own) and (real.startswith(project) or not real.startswith(allowed[2]))


def test_a_project_in_the_temporary_folder_is_left_alone_too(tmp_path):
    root, folder = tmp_path / "project", tmp_path / "project" / "build" / "mine"
    places = {"project/helpers/mutants/counts.json": True, "project/build/x": False, "other": False, "project": True}
    found = {name: is_outside(tmp_path / name, folder, str(tmp_path), root) for name in places}
    assert found == places
    assert is_outside("/etc/passwd", folder, str(tmp_path), root)
    assert not is_outside(folder / "x", folder, "/none", root)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with files of all kinds, which is the current one. Nothing can be written outside it."""
    fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    no_gpu = lambda: SimpleNamespace(gpu=None, problem="No GPU: buy one.")   # noqa: E731
    from helpers import gpu

    probe = gpu.probe
    for name, module in list(sys.modules.items()):
        if name.startswith("helpers") and getattr(module, "probe", None) is probe:
            monkeypatch.setattr(module, "probe", no_gpu)
    monkeypatch.setattr("helpers.cli.commands.RUNGS", RUNGS[:1])
    monkeypatch.setattr("helpers.cli.commands.existing_notebooks", lambda: [tmp_path / "good.ipynb"])
    monkeypatch.setattr("helpers.mutants.__main__.mutants", lambda rung: ())
    monkeypatch.setattr("helpers.glossary.notebook_paths", lambda: [tmp_path / "good.ipynb"])
    replace_file, make_file = os.replace, Path.open

    def guarded_replace(old: object, new: object) -> None:
        if is_outside(new, tmp_path):
            raise PermissionError(13, "Permission denied", str(new))
        replace_file(old, new)

    def guarded_open(path: Path, mode: str = "r", *arguments: object, **others: object) -> object:
        if set(mode) & set("wax+") and is_outside(path, tmp_path):
            raise PermissionError(13, "Permission denied", str(path))
        return make_file(path, mode, *arguments, **others)

    monkeypatch.setattr(os, "replace", guarded_replace)
    monkeypatch.setattr(Path, "open", guarded_open)
    return tmp_path


def fill(folder: Path) -> None:
    """Make the files of PATHS, or make them anew."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    record = ROOT / "helpers/records/nvidia-h200/01_coalescing_4096_burst.json"
    shutil.copy(record, folder / "record.json")
    shutil.copytree(record.parent, folder / "records" / "nvidia-h200")
    (folder / "damaged.json").write_bytes(record.read_bytes()[:900])
    (folder / "empty").touch()
    (folder / "folder").mkdir()
    (folder / "run.json").write_text('[{"notebook": "01_coalescing.ipynb", "passed": true, "seconds": 1.5}]')
    cells = [nbformat.v4.new_markdown_cell("# A\n## Goal"), nbformat.v4.new_code_cell("1")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "good.ipynb")
    (folder / "damaged.ipynb").write_text('{"cells": [')
    shutil.copy(ROOT / "docs" / "workshop.md", folder / "page.md")
    (folder / "no_marks.md").write_text("nothing")
    shutil.copy(KERNEL_DIR / "01_coalescing.cu", folder / "good.cu")
    (folder / "damaged.cu").write_text((KERNEL_DIR / "01_coalescing.cu").read_text()[:1500])
    (folder / "binary").write_bytes(bytes(range(256)) * 40)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in what takes longer, as SystemExit would: no `except Exception` stops it."""
    class TookTooLong(BaseException):
        pass

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except TookTooLong:
        raise AssertionError(f"it took more than {seconds} s") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(main: Callable[[Sequence[str]], int], arguments: list[str]) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), limited(MOST_S):
        try:
            code = main(arguments)
        except SystemExit as exit:
            code = exit.code
    return code, out.getvalue(), err.getvalue()


def require_clear(code: object, out: str, err: str) -> None:
    """What every command line promises."""
    said = out + err
    assert "Traceback" not in said and "Internal error" not in said, said[-2000:]
    assert code in (0, 1, 2), code
    assert all(len(line) < 1500 for line in err.splitlines()), "a very long line"
    if code == 2:
        assert out == "" and err.count("\n") == 1, err
        assert "see `python -m helpers" in err and err.endswith(" --help`.\n"), err
    if code == 1:
        assert said.strip() not in ("", "[]"), "failed without a word"
        assert all(line.rstrip()[-1:] in ".:" for line in err.splitlines() if not line.startswith(" ")), err


def try_lines(lines: Sequence[Line], count: int, seed: str, call: Callable[[Line], Callable], place: Path) -> None:
    faults = []
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        line = lines[number % len(lines)]
        arguments = arguments_of(draw, line)
        started = time.monotonic()
        try:
            found = outcome(call(line), arguments)
            require_clear(*found)
            assert [path.name for path in place.rglob("*.part")] == []
            assert stat.S_ISFIFO(os.stat("pipe").st_mode) and all(map(os.path.islink, ("loop", "dangling")))
        except Exception as error:
            faults.append(f"case {number}: {line.name} {arguments}: {type(error).__name__}: {error}"[:3000])
        if os.environ.get("FUZZ_TIMES") and time.monotonic() - started > 0.5:
            print(f"{time.monotonic() - started:.1f} s {line.name} {arguments}")
        fill(place)
    assert faults == [], "\n\n".join(faults)


@pytest.mark.compiler
def test_random_lines_of_the_ladder(place, fuzz):
    from helpers import cli

    try_lines(LADDER, 40 * fuzz, "ladder", lambda line: lambda more: cli.main([line.name, *more]), place)


def test_random_lines_of_the_other_commands(place, fuzz):
    def call(line: Line) -> Callable[[Sequence[str]], int]:
        return importlib.import_module(f"helpers.{line.name}").main

    try_lines(MODULES, 57 * fuzz, "modules", call, place)
