"""Writes docs/sanitizer.md: what compute-sanitizer said about each rung, and what it cannot see."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from helpers.rungs import ROOT, RUNGS
from helpers.sanitizer.faults import FAULTS, Fault
from helpers.sanitizer.output import CLEAN, REPORTED, TOOLS, Outcome
from helpers.sanitizer.record import Planted, Sanitized, find_planted, find_sanitized

DOCUMENT = ROOT / "docs" / "sanitizer.md"


@dataclass(frozen=True)
class Explanation:
    """Why what a tool says about a right kernel is no fault of the kernel.

    reason: a sentence or two, with its source. only: words that each of the tool's reports must contain one of; () for
    a tool that gives no answer, such as after a timeout.
    """

    reason: str
    only: tuple[str, ...] = ()

    def fits(self, outcome: Outcome) -> bool:
        """Whether it explains all that the tool said."""
        if outcome.status == REPORTED:
            return bool(outcome.reports) and all(any(word in text for word in self.only) for text in outcome.reports)
        return not self.only and outcome.status != CLEAN


# (rung, tool) -> why its reports are no faults. Whatever is not clean must stand here, and nothing else: it is tested.
EXPLAINED: Mapping[tuple[str, str], Explanation] = {}

_HEAD = """\
# compute-sanitizer over the ladder

NVIDIA's compute-sanitizer runs a kernel with its memory accesses and barriers instrumented. Its four tools look for
accesses outside of an allocation or misaligned (memcheck), races in shared memory (racecheck), wrong uses of barriers
(synccheck) and reads of global memory that nobody has written (initcheck). Each watches every rung multiply a few small
shapes, ragged ones among them: K is so long that each stage of a ring is used again, and persistent kernels get so few
SMs that each CTA computes several tiles. The results are compared as well.

This page is written by `python -m helpers.sanitizer` from `helpers/records/<device>/sanitizer/`, where the tools' own
words are. `python -m helpers.compute_sanitizer` records them, on a GPU with the CUDA Toolkit.
"""
_NOTHING = """
Nothing is recorded yet: run `python -m helpers.compute_sanitizer`.
"""
_PLANTED = """
## Planted faults

A tool that says nothing about a kernel is trusted because it says something about these. The trials show how far it
sees.

| tool | fault | planted in | reported |
|---|---|---|---|
"""
_LIMITS = """
## What the tools cannot see

By NVIDIA's documentation of Compute Sanitizer and its release notes; the versions are those in which something came:

- memcheck knows the addresses of plain loads and stores, of distributed shared memory (2022.3), of wgmma (2023.1) and
  of bulk copies without a tensor map, `cp.async.bulk` (2024.2, 2025.2). Loads by TMA, with a tensor map, came with
  2026.2. An older tool takes what TMA reads for granted. (The hardware keeps to the map: beyond its edges come zeros.)
- racecheck looks at shared memory alone, at the accesses of threads and at `cp.async`, `cp.async.bulk` from global to
  shared memory (2024.4) and distributed shared memory (2023.1), and takes mbarriers and cluster barriers into account.
  The notes do not say that it knows what wgmma reads, or that TMA's stores read. 2025.4 and 2026.1 mend false reports
  about mbarriers, warpgroups and clusters, so an older tool may report races that are none.
- synccheck looks at `__syncthreads`, named barriers, mbarriers and the order of wgmma within a warpgroup. Of programs
  compiled with CUDA 13.0 it may report divergence that is none ("Known Issues").
- initcheck looks at global memory, and knows what `cp.async.bulk` reads and writes since 2025.4. An older tool sees in
  rungs 5 to 10 at most the list of tiles being read, and does not know that TMA has written C: so the C of rung 10 is
  not read under initcheck.
- All of them see one schedule, the one that happened, on small shapes. The emulator tries many schedules and knows
  wgmma, TMA and mbarriers ([emulator.md](emulator.md), [bugs.md](bugs.md)).

Sources: NVIDIA, *Compute Sanitizer*, sections "Racecheck support for asynchronous copy", "Racecheck cluster entry and
exit race detection", "Synccheck support for wgmma", "Initcheck Tool"; *Compute Sanitizer Release Notes*, 2022.3 to
2026.3, "Known Limitations" and "Known Issues" (docs.nvidia.com/compute-sanitizer).
"""


def recorded() -> list[Sanitized]:
    """The records of all rungs that there are."""
    return [found for found in map(find_sanitized, RUNGS) if found is not None]


def document(
    records: Iterable[Sanitized] | None = None,
    planted: Planted | None = None,
    explained: Mapping[tuple[str, str], Explanation] = EXPLAINED,
) -> str:
    """docs/sanitizer.md. records, planted: those in the tree by default."""
    if records is None:
        records, planted = recorded(), find_planted()
    known = {item.rung: item for item in records}
    if not known and planted is None:
        return _HEAD + _NOTHING + _LIMITS
    parts = [_HEAD]
    if known:
        parts.append(_rungs(known))
        parts.append(_explanations(known, explained))
    if planted is not None:
        parts.append(_faults(planted))
    return "".join((*parts, _LIMITS))


def _rungs(known: Mapping[str, Sanitized]) -> str:
    lines = ["\n## The rungs\n\n", f"| rung | {' | '.join(TOOLS)} | launches of each | recorded |\n"]
    lines.append("|---" * (len(TOOLS) + 3) + "|\n")
    for rung in RUNGS:
        found = known.get(rung.name)
        cells = [_cell(found.outcome(tool) if found else None) for tool in TOOLS]
        launches = max((item.launches for item in found.outcomes), default=0) if found else "-"
        origin = f"{found.device.name}, {found.version}, {found.date[:10]}" if found else "-"
        lines.append(f"| {rung.name} | {' | '.join(cells)} | {launches} | {origin} |\n")
    return "".join(lines)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.status != REPORTED:
        return outcome.status if outcome.status == CLEAN else f"{outcome.status}: no answer"
    return outcome.counted


def _explanations(known: Mapping[str, Sanitized], explained: Mapping[tuple[str, str], Explanation]) -> str:
    lines = []
    for (rung, tool), explanation in sorted(explained.items()):
        outcome = known[rung].outcome(tool) if rung in known else None
        if outcome is not None and outcome.status != CLEAN:
            said = "; ".join(f"\"{text}\"" for text in outcome.reports) or outcome.why
            lines.append(f"- {rung}, {tool}: {explanation.reason} It said: {said}.\n")
    return f"\nWhat is not clean, and why it is no fault of the kernel:\n\n{''.join(lines)}" if lines else ""


def _faults(planted: Planted) -> str:
    lines = [_PLANTED]
    for fault in FAULTS:
        lines.append(f"| {fault.tool} | {fault.what}{'' if fault.must else ' (a trial)'} | {fault.kernel.name} "
                     f"| {_seen(planted, fault)} |\n")
    return "".join(lines)


def _seen(planted: Planted, fault: Fault) -> str:
    found = planted.fault(fault.name)
    if found is None:
        return "not run"
    if found.is_seen:
        first = next(iter(found.outcome.reports), "")
        return f"yes: \"{first}\"" if first else "yes"
    return "no" if found.outcome.status == CLEAN else f"{found.outcome.status}: no answer"
