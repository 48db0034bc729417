"""The lock that keeps two readers' measurements on one GPU apart: waiting, limit, crash, rights. Needs no GPU."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from helpers.errors import BackendError
from helpers.gpu_lock import gpu_lock
from helpers.rungs import ROOT

GPU = "0000:1B:00.0"
NAME = "hopper-matmul-gpu-0000-1b-00-0.lock"
HOLD = """
import sys, time
from pathlib import Path
from helpers.gpu_lock import gpu_lock
with gpu_lock(sys.argv[1], folder=Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_reader(folder):
    """A process of another reader that holds the GPU."""
    command = [sys.executable, "-c", HOLD, GPU, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_who_waits_is_told_for_whom_and_goes_on_after_a_crash(tmp_path):
    told = []
    with another_reader(tmp_path) as process:
        threading.Timer(0.6, lambda: os.kill(process.pid, signal.SIGKILL)).start()
        begun = time.monotonic()
        with gpu_lock(GPU, folder=tmp_path, limit_s=30, say=told.append):
            waited = time.monotonic() - begun
    assert 0.4 < waited < 20
    assert len(told) == 1, "it is said once"
    assert told[0].startswith("The GPU is being measured by ") and "waiting for at most 30 s" in told[0]
    assert f"(process {process.pid}, since 20" in told[0]


def test_the_wait_has_a_limit_and_says_who_holds_the_gpu(tmp_path):
    with another_reader(tmp_path) as process:
        with pytest.raises(BackendError, match=rf"process {process.pid}.* after 0.3 s of waiting.*HOPPER_LOCK_WAIT"):
            with gpu_lock(GPU, folder=tmp_path, limit_s=0.3, say=lambda _: None):
                pytest.fail("it was given away twice")
        with gpu_lock("0000:2C:00.0", folder=tmp_path, limit_s=0, say=pytest.fail):
            pass   # another GPU is free


def test_an_error_in_the_measurement_releases_the_gpu(tmp_path):
    with pytest.raises(ZeroDivisionError), gpu_lock(GPU, folder=tmp_path):
        _ = 1 / 0
    with gpu_lock(GPU, folder=tmp_path, limit_s=0, say=pytest.fail):
        assert b'"pid"' in (tmp_path / NAME).read_bytes()
    assert (tmp_path / NAME).read_bytes() == b"", "nobody is named who is done"


def test_every_user_can_lock_the_file_whatever_the_umask(tmp_path):
    old = os.umask(0o077)
    try:
        with gpu_lock(GPU, folder=tmp_path):
            pass
    finally:
        os.umask(old)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o666


def test_a_link_in_the_files_place_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / NAME).symlink_to(victim)
    told, entered = [], False
    with gpu_lock(GPU, folder=tmp_path, say=told.append):
        entered = True
    assert entered, "a measurement without a lock is better than none"
    assert "cannot be locked" in told[0] and "HOPPER_LOCK_DIR" in told[0]
    assert victim.read_text() == "precious"


def test_on_a_full_disk_the_lock_holds_without_a_name(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with gpu_lock(GPU, folder=tmp_path, say=pytest.fail):
        with pytest.raises(BackendError, match="by somebody else after"), gpu_lock(
            GPU, folder=tmp_path, limit_s=0.1, say=lambda _: None
        ):
            pytest.fail("it was given away twice")


def test_a_folder_where_files_cannot_be_locked_is_said_and_nothing_stays_open(tmp_path, monkeypatch):
    def unlockable(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unlockable)
    told, entered, before = [], False, os.listdir("/proc/self/fd")
    with gpu_lock(GPU, folder=tmp_path, say=told.append):
        entered = True
    assert entered and "cannot be locked (No locks available)" in told[0] and "HOPPER_LOCK_DIR" in told[0]
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.parametrize(
    "text", ["[" * 999, "", "not json", "[]", '{"user": "x"}', '{"user": "\\n\\u001b[31m", "pid": 1, "since": 2}']
)
def test_what_strangers_write_into_the_file_does_no_harm(tmp_path, text):
    told = []
    with another_reader(tmp_path):
        (tmp_path / NAME).write_text(text)
        with pytest.raises(BackendError), gpu_lock(GPU, folder=tmp_path, limit_s=0.1, say=told.append):
            pass
    assert told[0].isprintable() and told[0].startswith("The GPU is being measured by ")


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan", ""])
def test_a_wait_that_is_no_number_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.setenv("HOPPER_LOCK_WAIT", text)
    with pytest.raises(BackendError, match="HOPPER_LOCK_WAIT is .* it must be seconds"):
        with gpu_lock(GPU, folder=tmp_path):
            pass


def test_the_environment_names_folder_and_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("HOPPER_LOCK_WAIT", "0.1")
    with another_reader(tmp_path), pytest.raises(BackendError, match="after 0.1 s"), gpu_lock(GPU, say=lambda _: None):
        pass
