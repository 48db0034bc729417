"""Why is mine slower? Collects what `helpers.causes` needs to know, and prints what it finds.

    print(why_slower(measured))                       in a notebook: of a measurement that was made there
    python -m helpers doctor --performance            measures the last rung beside the recording (half a minute)
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill, wrap

from helpers import device
from helpers.arguments import check_sizes
from helpers.benchmark import Bench, BenchmarkRefused, benchmark, check_options
from helpers.causes import Facts, Finding, findings
from helpers.checks import require_kind
from helpers.errors import ArgumentError, CourseError
from helpers.held_clock import measure_clock, recorded_clocks
from helpers.kernel import Kernel, load
from helpers.nvml import LOOK_BACK_S, BoardState, PowerMeter
from helpers.records import Measurement, find_record, size_name
from helpers.rungs import Rung, find_rung
from helpers.tables import CHECK_COLUMNS, UNDER_FOUND, line

RUNG = "10_clusters"
ROUNDS = 6      # the fewest that give a 95% interval

WIDTH = 88   # of the words in the last column


@dataclass(frozen=True)
class Report:
    """The findings about a measurement; the last one is the verdict."""

    facts: Facts
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Finding:
        """On which side to look, and where to begin."""
        return self.findings[-1]

    def __str__(self) -> str:
        if self.facts.device is None:
            return fill(f"{self.verdict.detail}.", len(UNDER_FOUND) + WIDTH)
        name = f"{self.facts.rung}, N={self.facts.n}, {self.facts.regime}: why is mine slower?"
        lines = [name, line(column.cell(column.title) for column in CHECK_COLUMNS)]
        for finding in self.findings:
            head, *rest = wrap(finding.detail, WIDTH)
            cells = {"check": finding.check, "ok": finding.ok, "detail": head}
            lines.append(line(column.cell(cells[column.key]) for column in CHECK_COLUMNS))
            lines += [UNDER_FOUND + part for part in (*rest, *wrap(finding.remedy, WIDTH))]
        return "\n".join(lines)


def why_slower(measured: Measurement | None = None, kernel: Kernel | None = None) -> Report:
    """What may make a measurement slower than the recording of its rung.

    measured: live, as `benchmark` gives it; a recording, or None, is answered with what the recording says. kernel: as
    it was measured, for one that is not in the rung's own file. Asks NVML after two seconds of rest; measures nothing
    but, of a Hopper rung, the clock within the kernel (two seconds more).
    """
    if measured is not None:
        require_kind("measured", measured, Measurement, "give what benchmark(...) returned")
        if not measured.m == measured.n == measured.k:
            size = size_name(measured.m, measured.n, measured.k)
            raise ArgumentError(f"measured is of {size}: give one of M = N = K, as the recordings are.")
    rung = find_rung(measured.rung if measured is not None else RUNG)
    n, regime = (measured.n, measured.regime) if measured is not None else (4096, "burst")
    live = measured if measured is not None and measured.source == "live" else None
    return _report(rung, n, regime, live, kernel)


def measure_and_explain(rung: str | int | Rung = RUNG, n: int = 4096, regime: str = "burst") -> Report:
    """Measure a rung at M = N = K = n in a few rounds, where a GPU runs it, and say what may make it slower.

    Raises ArgumentError for a size or a regime that does not fit.
    """
    chosen = find_rung(rung)
    check_sizes(chosen, n, n, n)
    check_options(regime, None, 0.0, 1.0)
    return _report(chosen, n, regime, None, None, measure=True)


def _report(
    rung: Rung, n: int, regime: str, mine: Measurement | None, kernel: Kernel | None, measure: bool = False
) -> Report:
    defines = {} if mine is None else dict(mine.defines)
    entry = rung.entry if mine is None else mine.entry
    kernel = kernel or load(rung, entry=entry, defines=defines)
    facts = {
        "rung": rung.name, "n": n, "regime": regime,
        "recorded": _recorded(rung, n, regime, entry, defines, kernel),
        "code_hash": kernel.code_hash, "spill_bytes": kernel.report.spill_bytes, "warnings": kernel.report.warnings,
    }
    info = device.device_info()
    if info is None:
        found = Facts(**facts, no_gpu=device.no_device_reason() or "There is no GPU.")
        return Report(found, findings(found))
    facts |= {"device": info, "state": board_state()}
    if measure and kernel.backend == "cuda":
        try:
            with Bench() as bench:
                mine = benchmark(kernel, n, regime, rounds=ROUNDS if regime == "burst" else 3, bench=bench)
        except BenchmarkRefused as refusal:
            facts["refused"] = str(refusal)
    facts["mine"] = mine
    own = kernel.path == rung.path and kernel.entry == rung.entry and not kernel.defines
    if mine is not None and own and rung.compute_capability == "==9.0":   # the tensor cores lower the clock
        facts |= _clocks(rung, n, regime, facts["recorded"])
    found = Facts(**facts)
    return Report(found, findings(found))


def _recorded(
    rung: Rung, n: int, regime: str, entry: str, defines: Mapping[str, str | int], kernel: Kernel
) -> Measurement | None:
    """The recording of this very code, else of what the rung was."""
    wanted = {"regime": regime, "entry": entry, "defines": defines}
    return find_record(rung, n, n, n, code_hash=kernel.code_hash, **wanted) or find_record(rung, n, n, n, **wanted)


def board_state() -> BoardState:
    """What NVML says after a moment in which this process asks nothing of the GPU."""
    time.sleep(LOOK_BACK_S)
    return PowerMeter().state()


def _clocks(rung: Rung, n: int, regime: str, recorded: Measurement | None) -> dict[str, float | None]:
    """The clock within the rung's kernel, now and as recorded."""
    try:
        held = measure_clock(rung, n, regime).mhz
    except CourseError:   # a kernel of another form has no clock noted; the rest stands without it
        held = None
    clocks = () if recorded is None else recorded_clocks(recorded.device.slug)
    then = [clock.mhz for clock in clocks if (clock.rung, clock.n, clock.regime) == (rung.name, n, regime)]
    return {"held_mhz": held, "recorded_mhz": then[-1] if then else None}
