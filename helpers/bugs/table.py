"""Writes docs/bugs.md, the table of the shelf."""

from collections.abc import Iterable

from helpers.bugs import BUGS, VERIFY, Bug
from helpers.mutants.counts import section as mutants_section
from helpers.rungs import ROOT, find_rung

DOCUMENT = ROOT / "docs" / "bugs.md"

_HEAD = """\
# The bug shelf

Mistakes that are easily made, each planted in a rung that is right without it. Many of them give the right result on
most GPUs most of the time. The emulator names each one, under the `lazy` schedule and under random ones: that is
tested, with 4 schedules by `make test` and with 21 by `make soak`, which also runs the right kernels a thousand times
and wants no report at all.

    from helpers.bugs import bug, plant, search
    print(search(bug("released_before_wait")))        # the report
    plant(bug("released_before_wait"))                # the kernel's file with the bug in it

Where several reports are listed, the schedule decides which of them comes. "The verification" compares C with the
product: it finds mistakes that break no rule, and guesses from the numbers what they are.

This page is written by `python -m helpers.bugs`, from the data in `helpers/bugs/` and `helpers/mutants/`.
"""
_TITLES = "| bug | mistake | what it does | what is reported |\n|---|---|---|---|\n"


def document(bugs: Iterable[Bug] = BUGS) -> str:
    """docs/bugs.md: a table for each rung, and what became of the mutants."""
    by_name: dict[str, list[Bug]] = {}
    for bug in bugs:
        by_name.setdefault(find_rung(bug.rung).name, []).append(bug)
    return _HEAD + "".join(_section(*item) for item in sorted(by_name.items())) + mutants_section()


def _section(name: str, bugs: list[Bug]) -> str:
    rows = "".join(f"| `{bug.name}` | {bug.fault} | {bug.why} | {_reports(bug)} |\n" for bug in bugs)
    return f"\n## {name}\n\n{_TITLES}{rows}"


def _reports(bug: Bug) -> str:
    if bug.gap:
        return f"not found yet: the emulator does not notice {bug.gap}"
    return ", or ".join(f"{_kind(kind)}: \"... {words} ...\"" for kind, words in bug.reports)


def _kind(kind: str) -> str:
    return "the verification" if kind == VERIFY else f"`{kind}`"
