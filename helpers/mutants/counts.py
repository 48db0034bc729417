"""How many mutants were caught by what, as the last recorded run found it, and the section of docs/bugs.md about it."""

import json
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from helpers.files import write_whole
from helpers.mutants import HARMLESS, MUTATED_RUNGS, NOT_COMPILED, NOT_LAUNCHED, SURVIVES, WRONG
from helpers.rungs import find_rung
from helpers.words import plural

COUNTS = Path(__file__).with_name("counts.json")
_NO_REPORT = (NOT_COMPILED, NOT_LAUNCHED, SURVIVES, WRONG)

_HEAD = """\

## Mutants

`python -m helpers.mutants`, a part of `make soak`, goes through rungs 5 to 10 and the appendix's kernels. It removes
each call of a primitive, and of a kernel's own functions that call some, puts a related one in its place, exchanges it
with its neighbour, and makes each of its arguments, each number in them and each constant of the file one more and one
less. Each of these {mutants} is run on the emulator until something is noticed: {refused:,} are refused by one of
{kinds} kinds of report, {wrong} give a wrong result, {early} do not compile or cannot be launched. The other {harmless}
are harmless, for the reasons below (`helpers/mutants/harmless.py`).

| kernel | mutants | refused by a report | wrong result | do not compile, or are not launched | harmless |
|---|---|---|---|---|---|
"""


def recorded() -> dict[int | str, dict[str, int]]:
    """For each rung the number of mutants by what caught them."""
    known = json.loads(COUNTS.read_text(encoding="utf-8"))
    return {rung: known[str(rung)] for rung in MUTATED_RUNGS if str(rung) in known}


def record(rung: int | str, counts: Mapping[str, int]) -> None:
    """Keep a rung's counts."""
    known = recorded() if COUNTS.is_file() else {}
    known[rung] = dict(sorted(counts.items()))
    ordered = {str(number): known[number] for number in MUTATED_RUNGS if number in known}
    write_whole(COUNTS, json.dumps(ordered, indent=1) + "\n")


def section() -> str:
    """The section of docs/bugs.md."""
    by_rung = recorded()
    totals = [_row(counts) for counts in by_rung.values()]
    mutants, refused, wrong, early, harmless = (sum(column) for column in zip(*totals, strict=True))
    kinds = {kind for counts in by_rung.values() for kind in counts} - set(_NO_REPORT)
    total = plural(mutants, "mutant")
    head = _HEAD.format(mutants=total, refused=refused, kinds=len(kinds), wrong=wrong, early=early, harmless=harmless)
    rows = [f"| {find_rung(rung).name} | {' | '.join(map(str, _row(counts)))} |\n" for rung, counts in by_rung.items()]
    return head + "".join(rows) + "\n" + "".join(_reasons())


def _row(counts: Mapping[str, int]) -> tuple[int, int, int, int, int]:
    """Mutants, and of these: refused, wrong, not compiled or launched, harmless."""
    total, wrong, harmless = sum(counts.values()), counts.get(WRONG, 0), counts.get(SURVIVES, 0)
    early = counts.get(NOT_COMPILED, 0) + counts.get(NOT_LAUNCHED, 0)
    return total, total - wrong - harmless - early, wrong, early, harmless


def _reasons() -> Iterator[str]:
    """A line for each reason that a mutant is harmless."""
    yield "The harmless ones:\n\n"
    for why in dict.fromkeys(entry.reason for entry in HARMLESS):
        names = dict.fromkeys(name for entry in HARMLESS if entry.reason == why for name in entry.names)
        rungs = {rung for entry in HARMLESS if entry.reason == why for rung in entry.rungs}
        yield f"- {', '.join(f'`{name}`' for name in names)} ({_where(rungs)}). {why}\n"


def _where(rungs: Set[int | str]) -> str:
    """`"rungs 5, 6, appendix_split_k"`."""
    numbers = sorted(rung for rung in rungs if isinstance(rung, int))
    ladder = (f"rung{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}",) if numbers else ()
    return ", ".join((*ladder, *(rung for rung in MUTATED_RUNGS if rung in rungs and isinstance(rung, str))))
