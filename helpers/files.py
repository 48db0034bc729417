"""Files are written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes | str) -> Path:
    """Write a file (text in UTF-8) in one step, with its folder if that is missing. Returns the path.

    Readers never see half of it, two writers don't mix, and if it fails, the old file is untouched and nothing is left
    behind. Raises OSError.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path
