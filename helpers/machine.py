"""What this machine can do for the course, in a sentence: measure live, or emulate and show recordings."""

import re
from dataclasses import dataclass
from textwrap import fill

from helpers.errors import BackendError
from helpers.gpu import Gpu, probe, rule_words, unfit
from helpers.rungs import RUNGS, Rung
from helpers.words import PRINTED_LINE


@dataclass(frozen=True)
class Machine:
    """gpu: the first GPU, or None with `gpu_problem` saying why. compiler: the emulator's C++ compiler, or None."""

    gpu: Gpu | None
    gpu_problem: str
    compiler: str | None

    def __str__(self) -> str:
        """The sentence, in lines that a notebook's page has room for."""
        return fill(self.sentence, PRINTED_LINE)

    @property
    def sentence(self) -> str:
        """What runs where, in a line."""
        emulator = f"with {_short(self.compiler)}" if self.compiler else "which needs a C++ compiler: install g++"
        if self.gpu is None:
            return f"No NVIDIA GPU here: kernels run on the emulator ({emulator}); speeds are recordings, labelled so."
        major, minor = self.gpu.capability
        card = f"{self.gpu.name}, compute capability {major}.{minor}"
        problems = {rung: unfit(rung.name, rung.compute_capability, self.gpu) for rung in RUNGS}
        live = [rung for rung, problem in problems.items() if not problem]
        rest = [rung for rung, problem in problems.items() if problem]
        if not rest:
            return (
                f"{card}: kernels run on it and are measured live; "
                f"the emulator counts what they ask of memory ({emulator})."
            )
        if not live:
            return (
                f"{problems[rest[0]]}: kernels run on the emulator ({emulator}); speeds are recordings, labelled so."
            )
        return (
            f"{card}: {_span(live)} run on it and are measured live. {_span(rest)[0].upper()}{_span(rest)[1:]} run on "
            f"the emulator ({emulator}), and their speeds are recordings, labelled so: {_needs(rest)}."
        )


def _span(rungs: list[Rung]) -> str:
    """`rung 5`, or `rungs 1 to 4`."""
    first, last = rungs[0].number, rungs[-1].number
    return f"rung {first}" if first == last else f"rungs {first} to {last}"


def _needs(rungs: list[Rung]) -> str:
    """What compute capability rungs need: those with the same rule together."""
    rules = dict.fromkeys(rung.compute_capability for rung in rungs)
    groups = [(rule, [rung for rung in rungs if rung.compute_capability == rule]) for rule in rules]
    return " and ".join(
        f"{_span(group)} need{'s' if len(group) == 1 else ''} compute capability {rule_words(rule)}"
        for rule, group in groups
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
