"""Where compiled code is kept between runs: `build/<kind>`, or below HOPPER_CACHE if that is set."""

import os
from pathlib import Path

from helpers.errors import BackendError
from helpers.files import write_whole
from helpers.rungs import ROOT


def cache_directory(kind: str) -> Path:
    """The folder for compiled code of one kind (`"cuda"`, `"emulator"`), made if it is missing.

    Raises BackendError if it cannot be made or written.
    """
    base = os.environ.get("HOPPER_CACHE")
    try:
        directory = (Path(base).expanduser() if base else ROOT / "build") / kind
    except RuntimeError as error:   # ~ of nobody
        raise unwritable(Path(base or ""), OSError(str(error).rstrip("."))) from None
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(directory, error) from None
    if not os.access(directory, os.W_OK | os.X_OK):
        raise unwritable(directory, PermissionError("Permission denied"))
    return directory


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file or nothing: readers never see half of it, and two writers don't mix.

    Raises BackendError if the folder cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        raise unwritable(path.parent, error) from None


def unwritable(directory: Path, error: OSError) -> BackendError:
    """The error for a cache folder that cannot be written."""
    reason = error.strerror or str(error)
    return BackendError(
        f"The folder {directory} for compiled kernels cannot be written ({reason}): "
        "set HOPPER_CACHE to a folder that can."
    )
