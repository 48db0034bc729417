"""Sets the course up inside a hosted notebook (Colab, Kaggle, JupyterHub), where there is no make. In the first
cell of every notebook in notebooks/, once for each kernel:

    %run ../scripts/hosted_setup.py

(beside the folder: %run "hopper-matmul/scripts/hosted_setup.py")

It installs into the running kernel's own environment what is missing there, in the versions of requirements.lock;
what the host already has and the course can use stays as it is, and so does the host's Jupyter. Then the kernel finds
`helpers` and stands in notebooks/, as if JupyterLab had been started from the project. Running it again, from there,
does nothing.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, FIRST_UNSUPPORTED = (3, 11), (3, 14)
COURSES_CUPY = "cupy-cuda13x"
# A hosted notebook runs in the host's Jupyter, and replacing that under a running kernel breaks it.
HOSTS_OWN = ("jupyterlab", "nbclient", "nbformat", "ipykernel")


def main() -> None:
    """Install what is missing and prepare this kernel. Ends with one sentence on what is wrong, if something is."""
    if not OLDEST <= sys.version_info[:2] < FIRST_UNSUPPORTED:
        sys.exit(f"This kernel is Python {sys.version.split()[0]}: choose a host with Python 3.11, 3.12 or 3.13.")
    if rivals := rival_cupys():
        pip("uninstall", "--yes", *rivals, COURSES_CUPY)   # with a rival's files its own may go
    if wanted := missing(installed_versions()):
        print(f"installing {', '.join(wanted)}", flush=True)
        pip("install", *wanted)
    importlib.invalidate_caches()
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    os.chdir(ROOT / "notebooks")
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name):
        print("No C++ compiler was found, so kernels cannot be emulated: run `!apt-get install -y g++` if you may.")
    from helpers import machine

    print(f"Ready, in {Path.cwd().name}/. {machine()}")


def missing(installed: dict[str, str]) -> list[str]:
    """What to give pip: the course's requirements that are not installed in a version that fits, as they are locked.

    installed: distribution -> version.
    """
    from packaging.requirements import Requirement  # ipykernel requires it

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = [Requirement(line) for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()]
    found = []
    for requirement in map(Requirement, project["dependencies"]):
        name = canonical(requirement.name)
        have = installed.get(name)
        if name in HOSTS_OWN or have is not None and requirement.specifier.contains(have, prereleases=True):
            continue
        mine = [pin for pin in pins if canonical(pin.name) == name and (pin.marker is None or pin.marker.evaluate())]
        found.append(f"{mine[0].name}{mine[0].specifier}")
    return found


def rival_cupys() -> list[str]:
    """CuPy for other versions of CUDA: it has the same modules, and the two overwrite each other."""
    names = {canonical(item.metadata["Name"] or "") for item in distributions()}
    return sorted(name for name in names if re.fullmatch(r"cupy(-cuda\d+x?|-rocm.*)?", name) and name != COURSES_CUPY)


def installed_versions() -> dict[str, str]:
    """Distribution -> version, of those that the course requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {}
    for line in project["dependencies"]:
        name = canonical(re.match(r"[\w.-]+", line).group())
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(*arguments: str) -> None:
    """Run pip in this kernel's environment; ends with a sentence if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        sys.exit(f"pip could not {arguments[0]} what the course needs ({last}): the host must reach a package index.")


if __name__ == "__main__":
    main()
