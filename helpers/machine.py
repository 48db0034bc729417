"""What this machine can do for the course, in a sentence: measure live, or emulate and show recordings."""

import re
from dataclasses import dataclass

from helpers.errors import BackendError
from helpers.gpu import Gpu, meets, probe
from helpers.rungs import RUNGS


@dataclass(frozen=True)
class Machine:
    """gpu: the first GPU, or None with `gpu_problem` saying why. compiler: the emulator's C++ compiler, or None."""

    gpu: Gpu | None
    gpu_problem: str
    compiler: str | None

    def __str__(self) -> str:
        emulator = f"with {_short(self.compiler)}" if self.compiler else "which needs a C++ compiler: install g++"
        if self.gpu is None:
            return f"No NVIDIA GPU here: kernels run on the emulator ({emulator}); speeds are recordings, labelled so."
        major, minor = self.gpu.capability
        runs = [rung.number for rung in RUNGS if meets(rung.compute_capability, self.gpu.capability)]
        rest = "" if len(runs) == len(RUNGS) else f", of them {len(runs)} of {len(RUNGS)} rungs"
        return (
            f"{self.gpu.name}, compute capability {major}.{minor}: kernels run on it and are measured live{rest}; "
            f"the emulator counts what they ask of memory ({emulator})."
        )


def _short(compiler: str) -> str:
    """`g++ (Debian 12.2.0-14) 12.2.0` without the distribution: `g++ 12.2.0`."""
    name = "clang++" if "clang" in compiler else "g++" if "g++" in compiler else compiler.split()[0]
    versions = re.findall(r"\d+(?:\.\d+)+", compiler)
    return f"{name} {versions[-1]}" if versions else compiler


def machine() -> Machine:
    """Look at this machine. Never raises."""
    from helpers.emulator import compiler_version

    answer = probe()
    try:
        compiler = compiler_version()
    except BackendError:
        compiler = None
    return Machine(answer.gpu, answer.problem, compiler)
