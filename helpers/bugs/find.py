"""Runs a planted bug on the emulator and says whether a report names it."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers.backends import EmulatedKernel, EmulatorBackend
from helpers.bugs.bug import VERIFY, Bug, Change
from helpers.emulator import EmulatorRun, Report
from helpers.kernel import Kernel
from helpers.launches import Launch
from helpers.rungs import find_rung
from helpers.variants import variant
from helpers.verify import run_once, verify


@dataclass(frozen=True)
class Finding:
    """What one run of a planted bug brought.

    reports: the emulator's. verdict: what the verification says, "" if the result is right.
    named_by: the report that names the bug, or None.
    """

    bug: Bug
    schedule: str
    seed: int
    reports: tuple[Report, ...]
    verdict: str
    named_by: Report | None

    def __str__(self) -> str:
        run = f"{self.bug.name}, {self.schedule} {self.seed}"
        if self.named_by:
            return f"{run}: {self.named_by.kind}: {self.named_by.message}"
        said = "; ".join(f"{report.kind}: {report.message}" for report in self.reports) or self.verdict or "nothing"
        return f"{run}: NOT NAMED, but said was: {said}"


@dataclass(frozen=True)
class PlantedBackend(EmulatorBackend):
    """The emulator, with launches that are changed on their way to it. reports: of all launches."""

    change: Change = field(kw_only=True)
    reports: list[Report] = field(default_factory=list)

    def launch(
        self, compiled: EmulatedKernel, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> EmulatorRun:
        changed = self.change(Launch(grid, block, arguments, shared_bytes))
        run = super().launch(compiled, entry, changed.grid, changed.block, changed.arguments, changed.shared_bytes)
        self.reports.extend(run.reports)
        return run


def planted_kernel(bug: Bug, backend: PlantedBackend) -> Kernel:
    """A rung's kernel with a bug."""
    rung = replace(find_rung(bug.rung), **bug.rung_fields)
    return Kernel(rung, backend, rung.entry, bug.defines, plant(bug))


def unchanged(launch: Launch) -> Launch:
    """The launch as it is."""
    return launch


def plant(bug: Bug) -> Path:
    """The file of the rung's kernel with the bug in it; the rung's own, if the bug is on the host's side.

    Raises ArgumentError if a text that is to be replaced is not in the kernel, or more than once.
    """
    if not bug.edits:
        return find_rung(bug.rung).path
    return variant(bug.rung, *bug.edits, name=f"bug_{bug.name}")


def search(bug: Bug, schedule: str = "lazy", seed: int = 0) -> Finding:
    """Run a bug once, and see what is reported."""
    change = bug.make_change() if bug.make_change else unchanged
    backend = PlantedBackend(schedule=schedule, seed=seed, sms=bug.sms, change=change)
    kernel = planted_kernel(bug, backend)
    if bug.calls_again:
        outcome = verify(kernel, bug.size, seed)
    else:
        outcome, _ = run_once(kernel, bug.size, seed)
    said = [*backend.reports, Report(VERIFY, outcome.reason)]
    named_by = next((report for report in said if is_named(bug, report)), None)
    return Finding(bug, schedule, seed, tuple(backend.reports), outcome.reason, named_by)


def is_named(bug: Bug, report: Report) -> bool:
    """Whether a report is one of those that the bug must bring."""
    return any(report.kind == kind and words in str(report) for kind, words in bug.reports)
