"""Writes docs/sanitizer.md: what compute-sanitizer said about the rungs and the appendix, and what it cannot see."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from helpers.rungs import ROOT, RUNGS
from helpers.sanitizer.faults import FAULTS, Fault
from helpers.sanitizer.output import CLEAN, REPORTED, TOOLS, Outcome
from helpers.sanitizer.record import Planted, Sanitized, find_planted, find_sanitized
from helpers.subjects import CLUSTERS, FITTED, PARTITIONED, SPLITS, SUBJECTS, Subject

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


# (rung, tool) -> why its reports are no faults, for each variant of the rung too. Whatever is not clean must stand
# here, and nothing else: it is tested.
EXPLAINED: Mapping[tuple[str, str], Explanation] = {}

_HEAD = """\
# compute-sanitizer over the ladder

NVIDIA's compute-sanitizer runs a kernel with its memory accesses and barriers instrumented. Its four tools look for
accesses outside of an allocation or misaligned (memcheck), races in shared memory (racecheck), wrong uses of barriers
(synccheck) and reads of global memory that nobody has written (initcheck). Each watches every rung multiply a few small
shapes, ragged ones among them: K is so long that each stage of a ring is used again and that clusters which keep pace
come to wait for one another, and persistent kernels get so few SMs that each CTA computes several tiles. So it is with
the last rung in clusters of four, and with the kernels of the appendix, those made for a shape in a few variants. The
results are compared as well.

This page is written by `python -m helpers.sanitizer` from `helpers/records/<device>/sanitizer/`, where the tools' own
words are. `python -m helpers.compute_sanitizer` records them, on a GPU with the CUDA Toolkit.
"""
_NOTHING = """
Nothing is recorded yet: run `python -m helpers.compute_sanitizer`.
"""
_APPENDIX = """
## The appendix

`kernels/appendix_split_k.cu` is compiled anew for a shape: for a tile, a number of CTAs that divide K among themselves,
and the rows of A that are loaded where M is small ([shapes.md](shapes.md)). Each two of these choices meet in one of
the variants. Where K is divided, some shapes have fewer steps along K than CTAs, so that a CTA has nothing to add.
"""
_FITTED = """
`kernels/appendix_fitted_tiles.cu` is compiled anew for tiles as tall as fill the last round. These are a CTA's; the two
of a cluster lie side by side.
"""
_PARTITIONS = """
`kernels/appendix_partitions.cu` is one file for all shapes. Its clusters draw numbers that say which tiles are theirs.
"""
_NOT_RECORDED = """
It is not recorded yet: run `python -m helpers.compute_sanitizer --rungs {name}`.
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
  It also reports reads of another CTA's memory that may come before that CTA begins or after it ends (2023.2). The
  notes do not say that it knows what wgmma reads, or that TMA's stores read. 2025.4 and 2026.1 mend false reports about
  mbarriers, warpgroups and clusters, and 2026.1 mends missed ones across clusters too: an older tool may report races
  that are none, and miss some in rung 10 and the appendix.
- synccheck looks at `__syncthreads`, named barriers, mbarriers and the order of wgmma within a warpgroup. Of programs
  compiled with CUDA 13.0 it may report divergence that is none ("Known Issues").
- initcheck looks at global memory, and knows what `cp.async.bulk` reads and writes since 2025.4. An older tool sees in
  rungs 5 to 10 and in fitted tiles at most the list of tiles being read, in `appendix_partitions` also the SMs'
  partitions and the numbers being drawn, in `appendix_split_k` nothing, and does not know that TMA has written C: so
  the C of rung 10, of fitted tiles and of `appendix_partitions` is not read under initcheck.
- All of them see one schedule, the one that happened, on small shapes. The emulator tries many schedules and knows
  wgmma, TMA and mbarriers ([emulator.md](emulator.md), [bugs.md](bugs.md)).

Sources: NVIDIA, *Compute Sanitizer*, sections "Racecheck support for asynchronous copy", "Racecheck cluster entry and
exit race detection", "Synccheck support for wgmma", "Initcheck Tool"; *Compute Sanitizer Release Notes*, 2022.3 to
2026.3, "Known Limitations" and "Known Issues" (docs.nvidia.com/compute-sanitizer).
"""


def recorded() -> list[Sanitized]:
    """The records of all rungs and variants that there are."""
    found = (find_sanitized(subject.rung, defines=subject.defines) for subject in SUBJECTS)
    return [item for item in found if item is not None]


def document(
    records: Iterable[Sanitized] | None = None,
    planted: Planted | None = None,
    explained: Mapping[tuple[str, str], Explanation] = EXPLAINED,
) -> str:
    """docs/sanitizer.md. records, planted: those in the tree by default."""
    if records is None:
        records, planted = recorded(), find_planted()
    known = {item.name: item for item in records}
    if not known and planted is None:
        return _HEAD + _NOTHING + _LIMITS
    parts = [_HEAD]
    if known:
        parts += [_rungs(known), _appendix(known), _explanations(known.values(), explained)]
    if planted is not None:
        parts.append(_faults(planted))
    return "".join((*parts, _LIMITS))


def _rungs(known: Mapping[str, Sanitized]) -> str:
    subjects = (*map(Subject, RUNGS), *CLUSTERS)
    return "\n## The rungs\n\n" + _table(("rung",), [((_title(item),), known.get(item.name)) for item in subjects])


def _title(subject: Subject) -> str:
    """Such as `"10_clusters, CLUSTER=4"`."""
    return ", ".join((subject.rung.name, *(f"{name}={value}" for name, value in subject.defines.items())))


def _appendix(known: Mapping[str, Sanitized]) -> str:
    splits = []
    for variant in SPLITS:
        rows, columns, _ = variant.rung.tile
        splits.append((f"{rows} x {columns}", str(variant.rung.split), f"{variant.rung.most_rows or rows} of {rows}"))
    heights = [(f"{variant.rung.tile[0]} x {variant.rung.tile[1]}",) for variant in FITTED]
    tables = (
        _variants(("tile", "parts of K", "rows of A"), SPLITS, splits, known),
        _variants(("tile",), FITTED, heights, known),
        _variants(("kernel",), (PARTITIONED,), [(PARTITIONED.name,)], known),
    )
    return f"{_APPENDIX}{tables[0]}{_FITTED}{tables[1]}{_PARTITIONS}{tables[2]}"


def _variants(
    names: tuple[str, ...],
    variants: Sequence[Subject],
    cells: Iterable[tuple[str, ...]],
    known: Mapping[str, Sanitized],
) -> str:
    """The table of a kernel's variants, or that there is no record of any. cells: what each row begins with."""
    if not any(variant.name in known for variant in variants):
        return _NOT_RECORDED.format(name=variants[0].rung.name)
    rows = [(first, known.get(variant.name)) for first, variant in zip(cells, variants, strict=True)]
    return f"\n{_table(names, rows)}"


def _table(names: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], Sanitized | None]]) -> str:
    """A table of what the tools said. names: of the columns before, which the rows begin with."""
    lines = [f"| {' | '.join((*names, *TOOLS))} | launches of each | recorded |\n"]
    lines.append("|---" * (len(names) + len(TOOLS) + 2) + "|\n")
    for first, found in rows:
        cells = [_cell(found.outcome(tool) if found else None) for tool in TOOLS]
        launches = max((item.launches for item in found.outcomes), default=0) if found else "-"
        origin = f"{found.device.name}, {found.version}, {found.date[:10]}" if found else "-"
        lines.append(f"| {' | '.join((*first, *cells))} | {launches} | {origin} |\n")
    return "".join(lines)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not run"
    if outcome.status != REPORTED:
        return outcome.status if outcome.status == CLEAN else f"{outcome.status}: no answer"
    return outcome.counted


def _explanations(records: Iterable[Sanitized], explained: Mapping[tuple[str, str], Explanation]) -> str:
    """What is not clean, in the tools' own words: first what is no fault of the kernel, then what is not explained."""
    known, open_lines = [], []
    for found in records:
        for outcome in found.outcomes:
            if outcome.status == CLEAN:
                continue
            why = explained.get((found.rung, outcome.tool))
            said = "; ".join(f"\"{text}\"" for text in outcome.reports) or outcome.why
            line = f"{f'{why.reason} ' if why else ''}It said: {said}."
            (known if why else open_lines).append(f"- {found.name}, {outcome.tool}: {line}\n")
    parts = (
        ("What is not clean, and why it is no fault of the kernel", known),
        ("What is not clean, and is not explained yet", open_lines),
    )
    return "".join(f"\n{title}:\n\n{''.join(lines)}" for title, lines in parts if lines)


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
