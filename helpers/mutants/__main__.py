"""Tries all mutants of the kernels.

    python -m helpers.mutants             rungs 5 to 10 and the appendix's kernels, in about half an hour
    python -m helpers.mutants --rungs 7 appendix_split_k
    python -m helpers.mutants --record    and keep the counts for docs/bugs.md
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from helpers.entry import Parser, guarded, once
from helpers.mutants import MUTATED_RUNGS, SURVIVES, Outcome, mutants, reason, tried
from helpers.mutants.counts import record
from helpers.words import plural

PROGRESS = 100   # mutants from one line of progress to the next


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if a mutant survives that is not listed as harmless, or one that is listed does not."""
    parser = Parser(prog="python -m helpers.mutants", description="Every call of a primitive removed or changed.")
    parser.add_argument(
        "--rungs", type=_rung, nargs="+", choices=MUTATED_RUNGS, default=MUTATED_RUNGS, help="default: all of these"
    )
    parser.add_argument("--record", action="store_true", help="keep the counts for docs/bugs.md")
    options = parser.parse_args(arguments)
    return guarded(lambda: _try_all(once(options.rungs), options.record))


def _rung(text: str) -> int | str:
    """A rung's number, or a name."""
    return int(text) if text.isdecimal() else text


def problem(outcome: Outcome) -> str:
    """What is wrong with an outcome, "" if it is as it must be."""
    why = reason(outcome.mutant.rung, outcome.mutant.name)
    if outcome.survives and not why:
        return f"{outcome}, and is not listed as harmless"
    return f"{outcome}, and is listed as harmless" if why and not outcome.survives else ""


def _try_all(rungs: Iterable[int | str], keep: bool) -> int:
    bad = 0
    for rung in rungs:
        started, counts = time.monotonic(), Counter[str]()
        for outcome in map(tried, mutants(rung)):
            counts[outcome.caught_by] += 1
            if text := problem(outcome):
                bad += 1
                print(text, flush=True)
            if counts.total() % PROGRESS == 0:
                print(f"rung {rung}: {counts.total()} tried", flush=True)
        if keep:
            record(rung, counts)
        seconds = time.monotonic() - started
        total, harmless = plural(counts.total(), "mutant"), counts[SURVIVES]
        print(f"rung {rung}: {total}, {harmless} survive, {seconds:.0f} s", flush=True)
    print(f"{bad} mutants not as listed", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
