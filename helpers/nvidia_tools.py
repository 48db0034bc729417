"""Command-line tools of the CUDA Toolkit that the course can use but does not install: their places and versions."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from helpers.errors import BackendError

FOLDERS = ("bin", "", "compute-sanitizer")   # below a toolkit's root; some packages leave out the links in bin
ROOTS = ("/usr/local/cuda", "/usr/lib/cuda")
TIMEOUT_S = 30.0


def find_tool(name: str, remedy: str) -> str:
    """The path of a tool: on PATH, below CUDA_HOME or CUDA_PATH, or in a toolkit's usual place.

    Raises BackendError with the remedy ("install ...") if there is none.
    """
    for place in _places(name):
        if place and os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise BackendError(f"{name} was not found on PATH, nor where the CUDA Toolkit usually is: {remedy}.")


def _places(name: str) -> Iterator[str | None]:
    yield shutil.which(name)
    named = [os.environ.get(variable, "") for variable in ("CUDA_HOME", "CUDA_PATH")]
    versions = sorted(map(str, Path("/usr/local").glob("cuda-*")), reverse=True)
    for root in (*named, *ROOTS, *versions):
        if root:
            yield from (os.path.join(root, folder, name) for folder in FOLDERS)


def tool_version(tool: str) -> str:
    """What a tool says its version is, e.g. '2025.3.0.0', or 'unknown'."""
    command = [tool, "--version"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    match = re.search(r"Version (\S+)", text)
    return match[1] if match else "unknown"
