"""Writes docs/licences.md: the licence of every package of the lock files, as its own metadata says.

    python -m helpers.licences            rewrite the page
    python -m helpers.licences --check    exit 1 if it is not what the lock files and the installed packages say
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from helpers.errors import ArgumentError
from helpers.files import read_text
from helpers.page import page_main
from helpers.rungs import ROOT

DOCUMENT = ROOT / "docs" / "licences.md"
LOCKS = (ROOT / "requirements.lock", ROOT / "requirements-gpu.lock")
MOST_LETTERS = 60   # of a name of a licence; some packages put its whole text there

# Of what is pinned for other machines, other versions of Python or the gpu extra, from the metadata of those files.
ELSEWHERE: Mapping[str, str] = {
    "appnope==1.0.0": "BSD-2-Clause",
    "colorama==0.4.6": "BSD License",
    "contourpy==1.3.3": "BSD License",
    "contourpy==1.4.0": "BSD-3-Clause",
    "numpy==2.4.6": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "numpy==2.5.5": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "nvidia-cublas==13.1.0.3": "LicenseRef-NVIDIA-Proprietary",
    "overrides==7.7.0": "Apache License, Version 2.0",
    "pexpect==4.9.0": "ISC license",
    "ptyprocess==0.7.0": "ISC License (ISCL)",
    "pywinpty==3.1.2": "MIT License",
    "soupsieve==2.10": "MIT",
    "soupsieve==4.1.3": "MIT",
}
HEAD = """# Licences of what the course uses

The course itself is under the MIT licence (`LICENSE`). It contains no code of the packages below: `make setup` installs
them from the package index. The table names every package of `requirements.lock` and `requirements-gpu.lock` with the
licence that its own metadata states. The packages marked `LicenseRef-NVIDIA-Proprietary` are parts of the CUDA Toolkit,
under NVIDIA's own terms; `nvidia-cublas` is needed only to repeat the measurements.

Written by `python -m helpers.licences`.

| package | version | where | licence |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Pin:
    """A line of a lock file. marker: on which machines it is installed, "" for all. extra: with which extra alone."""

    name: str
    version: str
    marker: str
    extra: str = ""

    @property
    def where(self) -> str:
        """On which machines it is installed, as Markdown."""
        return f"`{self.marker}`" if self.marker else f"with the extra `{self.extra}`" if self.extra else "everywhere"

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def pins(locks: Sequence[Path] = LOCKS) -> Iterator[Pin]:
    """The pinned packages, in the order of the files. Raises ArgumentError for a line that is no pin."""
    for path in locks:
        for line in read_text(path).splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            match = re.fullmatch(r"([\w.-]+)==([\w.!+-]+)\s*(?:;\s*(.+?))?\s*", line)
            if match is None:
                raise ArgumentError(f"{path.name} has the line {line!r}: it must be NAME==VERSION or with a marker.")
            yield Pin(match[1], match[2], match[3] or "", "gpu" if "gpu" in path.name else "")


def licence(pin: Pin) -> str:
    """The licence of a package, from its metadata if that version is installed.

    Raises ArgumentError if it is not, and is not among those that are known.
    """
    try:
        found = distribution(pin.name)
    except PackageNotFoundError:
        found = None
    if found is not None and found.version == pin.version:
        return stated(found)
    if str(pin) not in ELSEWHERE:
        raise ArgumentError(
            f"{pin} is not installed here, so its licence is not known: run `make setup`, or, if it is for other "
            "machines, add it to ELSEWHERE in helpers/licences.py."
        )
    return ELSEWHERE[str(pin)]


def stated(package: Distribution) -> str:
    """What a package's metadata says: an SPDX expression, else a short name, else what it is classified as.

    Raises ArgumentError if it says nothing.
    """
    data = package.metadata
    if data.get("License-Expression"):
        return data["License-Expression"]
    name = " ".join((data.get("License") or "").split())
    if name and name != "UNKNOWN" and len(name) <= MOST_LETTERS and not name.startswith("Copyright"):
        return name
    classes = [text.rpartition(" :: ")[2] for text in data.get_all("Classifier") or () if text.startswith("License ::")]
    if not classes:
        raise ArgumentError(f"{data['Name']} states no licence: look it up, and decide whether it can be used.")
    return " and ".join(classes)


def document() -> str:
    """The page, as Markdown."""
    rows = [
        f"| {pin.name} | {pin.version} | {pin.where} | {licence(pin)} |" for pin in pins()
    ]
    return HEAD + "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the page is out of date (--check) or cannot be made."""
    return page_main(
        "helpers.licences", "The page about the licences of the packages.", DOCUMENT, document,
        "the lock files and packages say", arguments,
    )


if __name__ == "__main__":
    sys.exit(main())
