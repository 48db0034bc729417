"""What all command lines share: one sentence for every error, whole files, quiet Ctrl-C."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from helpers import record
from helpers.background import Background
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError
from helpers.files import read_text, write_whole
from helpers.rungs import ROOT

MODULES = (
    "helpers", "helpers.record", "helpers.profile", "helpers.readme", "helpers.notebooks", "helpers.selfcheck",
)


def raising(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ArgumentError("size is 0: it must be 1."), 1, "size is 0: it must be 1.\n"),
        (KeyboardInterrupt(), 130, "Interrupted.\n"),
        (MemoryError("Unable to\nallocate 3 GiB"), 1, "The memory does not suffice (Unable to allocate 3 GiB)"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space is left for what this command writes"),
        (PermissionError(errno.EACCES, "Permission denied", "x.cu"), 1, "x.cu cannot be used (Permission denied)"),
        (ZeroDivisionError("division by zero"), 1, "Internal error, ZeroDivisionError: division by zero; please"),
    ],
)
def test_every_error_is_one_sentence(capsys, error, code, words):
    assert guarded(raising(error)) == code
    printed = capsys.readouterr().err
    assert printed.startswith(words) and printed.count("\n") == 1


def run(module, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60, **options
    )


@pytest.mark.parametrize("module", MODULES)
def test_bad_usage_is_one_sentence(module):
    done = run(module, "--no-such-option")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"python -m {module}")


@pytest.mark.parametrize("module", MODULES)
def test_a_python_without_the_packages_is_told_which_has_them(module):
    done = subprocess.run([sys.executable, "-S", "-m", module], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("This Python has no ") and done.stderr.count("\n") == 1


INTERRUPTED_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "ml_dtypes"):
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", MODULES)
def test_ctrl_c_while_python_imports(module, tmp_path):
    """Some commands are done so soon that no signal from here would be sure to come in time: Python sends it itself."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTED_IMPORT)
    done = run(module, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 130 and done.stderr == "Interrupted.\n"


@pytest.mark.parametrize("buffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_stdout_that_cannot_be_written(buffered):
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}   # empty: not set
    done = run("helpers", "diff", "1", preexec_fn=lambda: os.close(1))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    for form in ((), ("--json",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "helpers", "list", *form],
                stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
            )  # fmt: skip
        assert done.returncode == 1 and done.stderr.startswith("No space is left") and done.stderr.count("\n") == 1
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "helpers", "list", *form],
            stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        os.close(writer)
        assert done.returncode == 1 and done.stderr == ""


def test_json_goes_into_a_file(tmp_path):
    """A file can be sought and stderr, to which stdout leads for a while, cannot."""
    with open(tmp_path / "list.json", "w+") as file:
        done = subprocess.run(
            [sys.executable, "-m", "helpers", "list", "--json"],
            stdout=file, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        file.seek(0)
        assert done.returncode == 0 and done.stderr == "" and json.load(file)[0]["number"] == 1


@pytest.mark.skipif(not str(ROOT).isascii(), reason="in such a locale Python imports no NumPy from this folder")
def test_letters_that_the_locale_lacks(tmp_path):
    plain = os.environ | {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    missing = str(tmp_path / "für.cu")
    done = run("helpers", "emulate", "2", "--json", "--file", missing, env=plain)
    assert done.returncode == 1 and json.loads(done.stdout) == []
    assert done.stderr.count("\n") == 1 and "does not exist" in done.stderr


@pytest.mark.compiler
def test_what_a_kernel_prints_is_not_in_the_json(tmp_path):
    kernel = tmp_path / "mine.cu"
    kernel.write_text(
        "#include <cstdio>\n#include <cuda_bf16.h>\n"
        'extern "C" __global__ void matmul(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, '
        'int N, int K) { if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) printf("hello\\n"); }\n'
    )
    done = run("helpers", "emulate", "2", "--json", "--size", "8", "--file", str(kernel))
    (row,) = json.loads(done.stdout)
    assert row["passed"] is False and done.stderr == "hello\n"


@pytest.mark.compiler
def test_ctrl_c_while_a_kernel_compiles_leaves_nothing_behind(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers", "emulate", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=ROOT, env=os.environ | {"HOPPER_CACHE": str(tmp_path)}, start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob("emulator/building-*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)   # until the compilers run
    os.killpg(process.pid, signal.SIGINT)   # as a terminal does: the compiler gets it as well
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err, json.loads(out)) == (130, "Interrupted.\n", [])
    assert list(tmp_path.glob("emulator/*")) == []


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "new" / "file"
    write_whole(target, "old")
    assert target.read_text() == "old" and target.stat().st_mode & 0o777 == 0o644

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("helpers.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, b"new")
    assert target.read_text() == "old" and list(target.parent.iterdir()) == [target]
    monkeypatch.undo()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", b"new")


def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    """Else a pipe would be waited for without end, a device read until the memory is full, and /dev/null replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):
        with pytest.raises(OSError, match="it is no regular file"):
            read_text(path)
    with pytest.raises(OSError, match="it is no regular file"):
        write_whole(pipe, "new")
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 1 << 40)
    with pytest.raises(OSError, match="it has 1,099,511,627,776 bytes, more than 67,108,864"):
        read_text(large)


def test_a_link_stays_one_when_its_file_is_written(tmp_path):
    (tmp_path / "file").write_text("old")
    for name, target in (("link", "file"), ("dangling", "made"), ("loop", "loop")):
        (tmp_path / name).symlink_to(target)
    write_whole(tmp_path / "link", "new")
    write_whole(tmp_path / "dangling", "new")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "loop", "new")
    assert (tmp_path / "file").read_text() == (tmp_path / "made").read_text() == "new"
    assert all((tmp_path / name).is_symlink() for name in ("link", "dangling", "loop"))


def test_of_a_very_long_sentence_beginning_and_remedy_are_shown(capsys):
    assert guarded(raising(ArgumentError(f"rung {'x' * 5000} is none: give one."))) == 1
    with pytest.raises(SystemExit):
        Parser(prog="python -m helpers.x").parse_args(["y" * 5000])
    sentence, usage = capsys.readouterr().err.splitlines()
    assert sentence.startswith("rung xxx") and sentence.endswith("xxx is none: give one.") and len(sentence) < 1000
    assert usage.startswith("python -m helpers.x: unrecognized") and usage.endswith("see `python -m helpers.x --help`.")
    assert len(usage) < 1000


HIDE = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
"""


@pytest.mark.parametrize(
    ("package", "command", "words"),
    [
        ("numpy", ("list",), "This Python has no numpy: "),
        ("ml_dtypes", ("doctor", "--json"), "This Python has no ml_dtypes: "),
        ("matplotlib", ("plot",), "This Python has no matplotlib: "),
        ("nbclient", ("run", "1"), "This Python has no nbclient: "),
        ("cuda", ("inspect", "1"), "cuda-pathfinder cannot be imported (No module named 'cuda"),
    ],
)
def test_a_missing_package_is_named(tmp_path, package, command, words):
    (tmp_path / "sitecustomize.py").write_text(HIDE.format(package=package))
    done = run("helpers", *command, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and done.stderr.startswith(words) and done.stderr.count("\n") == 1
    assert "run `make setup`" in done.stderr


def test_ctrl_c_while_a_notebook_runs(tmp_path):
    """The kernel ends, the result's folder holds whole files, and nothing else is said."""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    ready = tmp_path / "ready"
    source = f"import os, time\nopen({str(ready)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell | {"source": source}]}
    (tmp_path / "slow.ipynb").write_text(json.dumps(notebook))
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers", "run", str(tmp_path / "slow.ipynb"), "--output-dir", str(tmp_path / "out")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (ready.exists() and ready.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "Interrupted.\n")
    assert json.loads((tmp_path / "out" / "slow.ipynb").read_text())["cells"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["slow.ipynb"]
    kernel = int(ready.read_text())
    while os.path.exists(f"/proc/{kernel}") and time.monotonic() < deadline:
        if "Z" in open(f"/proc/{kernel}/stat").read().rpartition(")")[2].split()[0]:   # ended, not yet collected
            break
        time.sleep(0.05)
    else:
        assert not os.path.exists(f"/proc/{kernel}")


@pytest.mark.parametrize(
    ("module", "arguments", "words"),
    [
        ("helpers.record", ("--rest", "-1"), "rest_s is -1.0: it must be a number of seconds"),
        ("helpers.record", ("--rest", "nan", "--list"), "rest_s is nan: it must be a number of seconds"),
        ("helpers.record", ("--turn", "0", "--regimes", "sustained"), "turn_s is 0.0: it must be a number of seconds"),
        ("helpers.record", ("--sizes", "0"), "size 0 does not suit 01_coalescing: take a size of at least 1"),
        ("helpers.profile", ("--sizes", "-5"), "size -5 does not suit 01_coalescing: take a size of at least 1"),
        ("helpers.profile", ("--launch", "1", "matmul", "y"), "--launch has the size 'y'"),
        ("helpers.readme", ("--file", "/nowhere/README.md"), "/nowhere/README.md cannot be read (No such file"),
        ("helpers.notebooks", ("check", "nowhere.ipynb"), "notebook nowhere.ipynb does not exist"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(module, arguments, words):
    done = run(module, *arguments)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith(words)
    assert done.stderr.count("\n") == 1


def test_work_in_the_background_returns_raises_and_can_be_interrupted():
    assert Background(lambda: 7).result() == 7
    with pytest.raises(ArgumentError, match="no"):
        Background(raising(ArgumentError("no."))).result()
    slow = Background(lambda: [time.sleep(0.01) for _ in range(3000)])
    assert not slow.ends_within(0.05)
    slow.interrupt()
    assert slow.ends_within(5)
    with pytest.raises(KeyboardInterrupt):
        slow.result()


def test_what_is_named_twice_is_wanted_once(capsys):
    assert once([4096, 8192, 4096]) == [4096, 8192] and once(()) == []
    arguments = ["--rungs", "10", "10_clusters", "9", "--sizes", "512", "512", "--regimes", "burst", "burst", "--list"]
    assert record.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == ["10_clusters 512 burst", "09_persistence 512 burst"]
