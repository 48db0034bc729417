"""Runs a mutant on the emulator until something is noticed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from helpers.backends import EmulatorBackend
from helpers.cache import cache_directory
from helpers.errors import ArgumentError, CompileError
from helpers.kernel import Kernel
from helpers.mutants.mutate import Mutant
from helpers.rungs import Rung, find_rung, fitted_tiles, split_k
from helpers.variants import save_text
from helpers.verify import run_once, verify

NOT_COMPILED, NOT_LAUNCHED, WRONG, SURVIVES = "does not compile", "is not launched", "wrong result", "survives"
SCHEDULES = (("lazy", 0), ("random", 1), ("eager", 0), ("random", 2), ("random", 3))


@dataclass(frozen=True)
class Setting:
    """A launch that mutants are tried on: (M, N, K), defines, and the SMs of the GPU that is played.

    rung: the variant of the kernel that is launched so; None: the rung itself.
    again: whether it is launched once more, with nothing made anew, and on other matrices, as `verify` does.
    """

    size: tuple[int, int, int]
    defines: Mapping[str, int] = field(default_factory=dict)
    sms: int = 132
    rung: Rung | None = None
    again: bool = False


def _split(size: tuple[int, int, int], *variant: int) -> Setting:
    """A launch of a variant of appendix_split_k."""
    rung, defines = split_k(*variant)
    return Setting(size, defines, rung=rung)


def _fitted(size: tuple[int, int, int], height: int) -> Setting:
    """A launch of appendix_fitted_tiles with tiles of so many rows and two stages, all for one cluster of two CTAs."""
    rung, defines = fitted_tiles(height, stages=2)
    return Setting(size, defines, 2, rung)


# One tile whose ring is walked round several times, under all schedules; then, under two of them, several tiles that
# the ends of the matrices cut off, and the parts of the kernel that other defines switch on. Two stages, so that a step
# too early or too late meets another one.
_RING = {"STAGES": 2}
SETTINGS: Mapping[int | str, Sequence[Setting]] = {
    5: (Setting((128, 256, 320)), Setting((136, 264, 328))),
    6: (Setting((128, 128, 320)), Setting((136, 136, 328))),
    7: (Setting((128, 256, 320), _RING), Setting((136, 264, 328), _RING)),
    8: (Setting((256, 256, 320), _RING), Setting((136, 264, 328), _RING)),
    9: (Setting((256, 256, 320), _RING, 1), Setting((136, 520, 200), _RING, 3)),
    10: (
        Setting((512, 256, 328), _RING, 2),
        Setting((264, 264, 328), _RING, 2),
        Setting((264, 264, 328), {**_RING, "MULTICAST": 0}, 2),
        Setting((264, 264, 328), {**_RING, "TMA_STORE": 0}, 2),
        Setting((264, 264, 328), {**_RING, "OVERLAP": 0}, 2),
        Setting((264, 264, 328), {**_RING, "RELEASE": 1}, 2),
        Setting((520, 264, 1352), _RING, 2),   # six tiles of 22 steps for one cluster: it comes to each checkpoint
    ),
    # Parts of three and four steps; both consumers, cut off; few rows; each width of wgmma; and no split.
    "appendix_split_k": (
        _split((64, 64, 640), 64, 64, 2, 3),
        _split((200, 136, 328), 128, 128, 2, 2),
        _split((9, 64, 320), 64, 64, 2, 2, 16),
        _split((64, 192, 320), 64, 192, 2, 2),
        _split((64, 256, 320), 64, 256, 2, 2),
        _split((72, 72, 328), 64, 64, 2, 1),
    ),
    # Two tiles; four that are cut off, of three steps, which are fewer than the parts of a store; four of the tallest;
    # and six of 22 steps: with one of them for each width of wgmma, and all for one cluster.
    "appendix_fitted_tiles": (
        _fitted((448, 256, 328), 224),
        _fitted((200, 264, 136), 192),
        _fitted((264, 264, 328), 256),
        _fitted((456, 264, 1352), 224),
    ),
    # As rung 10; and 14 tiles for six clusters, four near one partition and two near the other: they draw numbers for a
    # full round, and in the one after that four of them have no tile. Launched again, they draw as before.
    "appendix_partitions": (
        Setting((512, 256, 328), _RING, 2),
        Setting((1792, 512, 136), _RING, 12, again=True),
        Setting((264, 264, 328), _RING, 2),
        Setting((264, 264, 72), {**_RING, "STAGES": 4}, 2),   # fewer steps than stages
        Setting((264, 264, 328), {**_RING, "PARTITIONS": 0}, 2),
        Setting((520, 264, 1352), _RING, 2),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant. caught_by: a kind of report, or one of the words above; says: the report's sentence."""

    mutant: Mutant
    caught_by: str
    says: str = ""

    @property
    def survives(self) -> bool:
        """Whether nothing was noticed."""
        return self.caught_by == SURVIVES

    def __str__(self) -> str:
        return f"{self.mutant.rung}, {self.mutant.name}: {self.caught_by}{f': {self.says}' if self.says else ''}"


def tried(mutant: Mutant) -> Outcome:
    """Run a mutant until something is noticed, or to the end: what became of it."""
    name = f"mutant_{mutant.rung}_{os.getpid()}"   # another process may try the same one
    file = save_text(mutant.text, name)
    try:
        return next(_findings(mutant, file), Outcome(mutant, SURVIVES))
    finally:
        file.unlink(missing_ok=True)
        for library in cache_directory("emulator").glob(f"{name}-*.so"):
            library.unlink(missing_ok=True)


def _findings(mutant: Mutant, file: Path) -> Iterator[Outcome]:
    for number, setting in enumerate(SETTINGS[mutant.rung]):
        for schedule, seed in SCHEDULES if number == 0 else SCHEDULES[:2]:
            rung = setting.rung or find_rung(mutant.rung)
            backend = EmulatorBackend(schedule, seed, sms=setting.sms)
            kernel = Kernel(rung, backend, rung.entry, setting.defines, file)
            try:
                if setting.again:
                    verification = verify(kernel, setting.size, seed)
                else:
                    verification, _ = run_once(kernel, setting.size, seed)
            except CompileError as error:
                yield Outcome(mutant, NOT_COMPILED, str(error))
            except ArgumentError as error:
                yield Outcome(mutant, NOT_LAUNCHED, str(error))
            else:
                if kernel.run.reports:
                    first = kernel.run.reports[0]
                    yield Outcome(mutant, first.kind, first.message)
                elif not verification.passed:
                    yield Outcome(mutant, WRONG, verification.reason)
