"""The system's C++ compiler: which one, its version, and the flags that the emulator needs of it."""

import functools
import os
import platform
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import BackendError

FILLING_GNU = 12
REMEDY = "install g++ (Debian and Ubuntu: apt-get install g++) or set CXX to a C++17 compiler"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler. command: the program, with arguments if CXX has some. version: the first line of --version."""

    command: tuple[str, ...]
    version: str

    @property
    def is_clang(self) -> bool:
        """Whether it takes clang's flags rather than g++'s."""
        return "clang" in self.version

    @property
    def fills_variables(self) -> bool:
        """Whether it can fill variables that are never given a value: clang does, and g++ from version 12 on."""
        number = re.search(r"\b(\d+)\.\d+", self.version)
        return self.is_clang or (number is not None and int(number[1]) >= FILLING_GNU)

    @property
    def name(self) -> str:
        """The program's name, for messages."""
        return Path(self.command[0]).name


def find_compiler() -> Compiler:
    """$CXX, else g++, else clang++. Raises BackendError if there is none or it does not work."""
    return _find(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


def compiler_version() -> str:
    """One line that names the C++ compiler and its version. Raises BackendError without one."""
    return find_compiler().version


@functools.lru_cache(maxsize=8)
def _find(wanted: str, _path: str) -> Compiler:
    if platform.system() != "Linux":
        raise BackendError(f"The emulator runs on Linux, and this is {platform.system()}: use the recorded results.")
    try:
        command = tuple(shlex.split(wanted))
    except ValueError as error:   # a quote that is not closed
        raise BackendError(f"CXX is {wanted!r}, which is no command line ({error}): {REMEDY}.") from None
    if command:
        if shutil.which(command[0]) is None:
            raise BackendError(f"CXX is {wanted!r}, which is not a program on this machine: {REMEDY}.")
    else:
        found = next((name for name in ("g++", "clang++") if shutil.which(name)), None)
        if found is None:
            raise BackendError(f"The emulator found no C++ compiler: {REMEDY}.")
        command = (found,)
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error).rstrip(".")
        raise BackendError(f"The C++ compiler {command[0]} does not work ({reason}): {REMEDY}.") from None
    return Compiler(command, next(iter(result.stdout.splitlines()), command[0]))


@functools.cache
def machine_flags() -> tuple[str, ...]:
    """Flags for this machine's own processor."""
    return ("-march=native",) if platform.machine() == "x86_64" else ()


def sanitizer_flags() -> tuple[str, ...]:
    """Flags for the runtime library if $HOPPER_SANITIZE names sanitizers: `make sanitize` (scripts/sanitize.sh)."""
    wanted = os.environ.get("HOPPER_SANITIZE", "")
    return (f"-fsanitize={wanted}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer") if wanted else ()


@functools.cache
def machine_identity() -> str:
    """What `-march=native` depends on, so that machines that share a cache folder don't share code."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"
