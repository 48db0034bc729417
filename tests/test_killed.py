"""A command that is killed in the middle of writing leaves whole files, and nothing that is in the next one's way."""

import signal
import subprocess
import sys

import pytest

from helpers.records import load_records, read_record, write_record
from helpers.rungs import ROOT

WRITER = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from helpers.records import load_records, write_record

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)   # nothing can be cleared up

record, directory = load_records()[0], Path(sys.argv[1])
write_record(replace(record, notes=("first",)), directory)
setattr(os, sys.argv[2], killed)
write_record(replace(record, notes=("second",) * 20_000), directory)
"""


@pytest.mark.parametrize("step", ["fdopen", "fsync", "chmod", "replace"])
def test_a_record_is_whole_after_a_kill_and_the_next_one_is_written(tmp_path, step):
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path), step], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL, "it is not written in these steps any more: see write_whole"
    (found,) = load_records(tmp_path)
    assert found.notes == ("first",)
    path = write_record(load_records()[0], tmp_path)
    assert read_record(path).notes == load_records()[0].notes
    (left,) = (item for item in path.parent.iterdir() if item != path)
    ignored = subprocess.run(["git", "check-ignore", "-q", "--no-index", f"helpers/records/x/{left.name}"], cwd=ROOT)
    assert ignored.returncode in (0, 128), "what a kill leaves behind is no file of the repository (128: no git here)"
