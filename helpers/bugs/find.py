"""Runs a planted bug on the emulator and says whether a report names it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from helpers.bugs.bug import VERIFY, Bug, Change
from helpers.emulator import Report
from helpers.kernel import EmulatorBackend, Kernel
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


class PlantedKernel(Kernel):
    """A rung's kernel with a bug: another file, and launches that are changed on their way.

    reports: of all launches.
    """

    def __init__(self, bug: Bug, schedule: str, seed: int):
        rung = replace(find_rung(bug.rung), **bug.rung_fields)
        backend = EmulatorBackend(schedule=schedule, seed=seed, sms=bug.sms)
        super().__init__(rung, backend, rung.entry, bug.defines, plant(bug))
        self.reports: list[Report] = []
        self._change: Change = bug.make_change() if bug.make_change else unchanged

    def launch(self, grid: Sequence[int], block: Sequence[int], arguments: Sequence, shared_bytes: int = 0):
        launch = self._change(Launch(tuple(grid), tuple(block), tuple(arguments), shared_bytes))
        try:
            return super().launch(launch.grid, launch.block, launch.arguments, launch.shared_bytes)
        finally:
            self.reports += self.run.reports if self.run else []


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
    kernel = PlantedKernel(bug, schedule, seed)
    if bug.calls_again:
        outcome = verify(kernel, bug.size, seed)
    else:
        outcome, _ = run_once(kernel, bug.size, seed)
    said = [*kernel.reports, Report(VERIFY, outcome.reason)]
    named_by = next((report for report in said if is_named(bug, report)), None)
    return Finding(bug, schedule, seed, tuple(kernel.reports), outcome.reason, named_by)


def is_named(bug: Bug, report: Report) -> bool:
    """Whether a report is one of those that the bug must bring."""
    return any(report.kind == kind and words in str(report) for kind, words in bug.reports)
