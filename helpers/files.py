"""Files are written whole or not at all, and read only if they are files."""

import errno
import os
import tempfile
from pathlib import Path

MAX_BYTES = 64 << 20   # of a text; the largest notebook may have 1 MB


def read_text(path: Path) -> str:
    """The text of a file in UTF-8. Raises OSError, also for a pipe or a device, which may never end, and a huge file.

    Raises UnicodeDecodeError for a file that is no such text.
    """
    path = Path(path)
    require_file(path)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than {MAX_BYTES:,}", str(path))
    return path.read_text(encoding="utf-8")


def require_file(path: Path) -> None:
    """Raises OSError if there is no file, or if it is something else, such as a folder, a pipe or a device."""
    path = Path(path)
    path.stat()
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def write_whole(path: Path, data: bytes | str) -> Path:
    """Write a file (text in UTF-8) in one step, with its folder if that is missing. Returns the path.

    Readers never see half of it, two writers don't mix, and if it fails, the old file is untouched and nothing is left
    behind. A link stays one: the file that it leads to is written. Raises OSError, also for a pipe or a device, which
    would be replaced.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        require_file(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return Path(path)
