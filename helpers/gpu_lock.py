"""One measurement at a time on a GPU that several readers share.

    with gpu_lock():
        ...   # measure

The lock is `flock` on a file per GPU in a folder that everybody can write, /tmp or HOPPER_LOCK_DIR. The system releases
it when the process ends, however it ends, so that nobody has to clear up after a crash. The file is there for all users
to lock, and says who holds it. Only measurements take the lock: a kernel that is merely verified runs at any time.
"""

import contextlib
import fcntl
import getpass
import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from helpers.checks import checked_path
from helpers.device import now
from helpers.errors import BackendError
from helpers.gpu import probe

FOLDER_VARIABLE, WAIT_VARIABLE = "HOPPER_LOCK_DIR", "HOPPER_LOCK_WAIT"
WAIT_S = 900.0     # a class of thirty, each with a measurement of half a minute
LOOK_S = 0.2       # between two attempts
SHOWN_LETTERS = 40   # of a name that stands in the file


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


@contextlib.contextmanager
def gpu_lock(
    gpu: str | None = None,
    *,
    limit_s: float | None = None,
    folder: Path | None = None,
    say: Callable[[str], None] = _say,
) -> Iterator[None]:
    """Hold a GPU for a measurement; while someone else does, wait, and say so once.

    gpu: what names the card to everybody, by default the PCI address of the first visible one. limit_s: seconds to
    wait at most, 900 or HOPPER_LOCK_WAIT by default. folder: of the lock files, /tmp or HOPPER_LOCK_DIR by default.
    Where the file cannot be made or locked the measurement goes on without a lock, and a sentence says so.
    Raises BackendError when the time is over, naming who holds the GPU.
    """
    limit_s = _wait_s() if limit_s is None else limit_s
    path = _folder(folder) / f"hopper-matmul-gpu-{_file_name(gpu or pci_address())}.lock"
    try:
        file = _locked(path, limit_s, say)
    except OSError as error:
        why = error.strerror or error
        say(f"{path} cannot be locked ({why}), so others may measure meanwhile: set {FOLDER_VARIABLE} to a folder.")
        yield
        return
    try:
        _write(file, json.dumps({"user": _user(), "pid": os.getpid(), "since": now()}))
        try:
            yield
        finally:
            _write(file, "")
    finally:
        os.close(file)   # which releases the lock


def pci_address() -> str:
    """The PCI address of the first visible GPU, which is the same for all readers, whatever devices they see.

    Raises BackendError without a GPU.
    """
    answer = probe()
    if answer.gpu is None:
        raise BackendError(answer.problem)
    import cupy

    return cupy.cuda.runtime.deviceGetPCIBusId(0)


def _locked(path: Path, limit_s: float, say: Callable[[str], None]) -> int:
    """The file, locked. Raises OSError if it cannot be made or locked, BackendError when the time is over."""
    file = _opened(path)
    try:
        _wait(file, limit_s, say)
    except BaseException:
        os.close(file)
        raise
    return file


def _wait(file: int, limit_s: float, say: Callable[[str], None]) -> None:
    """Take the lock, or raise BackendError when the time is over."""
    end = time.monotonic() + limit_s
    told = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        holder = _holder(file)
        if time.monotonic() >= end:
            raise BackendError(
                f"The GPU is still being measured by {holder} after {limit_s:g} s of waiting: try again later, or set "
                f"{WAIT_VARIABLE} to more seconds."
            )
        if not told:
            say(f"The GPU is being measured by {holder}: waiting for at most {limit_s:g} s, lest it be disturbed.")
            told = True
        time.sleep(LOOK_S)


def _opened(path: Path) -> int:
    """The lock file, made for all users if it is missing. Raises OSError, also for a link or anything but a file."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    # In a folder such as /tmp Linux refuses O_CREAT for a file of somebody else, so it comes second.
    try:
        file = os.open(path, flags)
    except FileNotFoundError:
        try:
            file = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(file, 0o666)   # whatever the umask
        except FileExistsError:   # another reader was faster
            file = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(0, "it is no file")
    return file


def _write(file: int, text: str) -> None:
    """Say in the file who holds the lock; on a full disk the lock holds all the same, without a name."""
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)


def _holder(file: int) -> str:
    """Who holds the lock, as its file says; the file may be empty for a moment, and anybody can write it."""
    try:
        data = json.loads(os.pread(file, 1000, 0))
        user, pid, since = (_short(data[key]) for key in ("user", "pid", "since"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return "somebody else"
    return f"{user} (process {pid}, since {since})"


def _short(value: Any) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))[:SHOWN_LETTERS]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):   # a user without a name, as in some containers
        return f"user {os.getuid()}"


def _folder(folder: Path | None) -> Path:
    """TMPDIR is often a user's own, so it is not asked where there is a /tmp."""
    named = folder or os.environ.get(FOLDER_VARIABLE)
    if named:
        return checked_path("folder", named, "folder")
    return Path("/tmp") if os.path.isdir("/tmp") else Path(tempfile.gettempdir())


def _file_name(gpu: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in gpu.lower())


def _wait_s() -> float:
    text = os.environ.get(WAIT_VARIABLE)
    if text is None:
        return WAIT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise BackendError(f"{WAIT_VARIABLE} is {text[:SHOWN_LETTERS]!r}: it must be seconds, at least 0.")
    return seconds
