"""Whether two recordings of the ladder agree: the ratio to cuBLAS, rung by rung, within two per cent.

    python -m helpers.record --output helpers/records/nvidia-h200/second        on another machine
    python -m helpers.agreement                                                 the second recording beside the third
    python -m helpers.agreement helpers/records                                 the course's own beside the second
    python -m helpers.agreement FIRST SECOND                                    any two folders of recordings

Speeds of two machines differ, since chips and their cooling do; the ratio of two kernels that ran in turn should not.
That holds where both are limited by power, as all kernels on tensor cores are. Rungs on CUDA cores are not: they run at
the maximum clock, and take the same time on every card. There cuBLAS alone carries the difference between two cards
into the ratio, so such a rung agrees also by its own speed.
The second and the third lie in folders of their own, below what helpers.records reads: no figure of the course is from
them. Their cards are alike; the course's own is faster, and its rungs are apart from theirs by up to what cuBLAS is.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.checks import checked_folder, require_integer
from helpers.entry import Parser, guarded, once
from helpers.errors import RecordError
from helpers.gaps import FIRST_ON_TENSOR_CORES
from helpers.jsonfile import display
from helpers.record_basics import RECORD_DIR
from helpers.records import REGIMES, Measurement, load_records, size_name
from helpers.rungs import RUNGS, find_rung
from helpers.tables import Column, line

SECOND = RECORD_DIR / "nvidia-h200" / "second"
THIRD = RECORD_DIR / "nvidia-h200" / "third"
SIZES = (4096, 8192)
LIMIT = 0.02
COLUMNS = (
    Column("rung", "rung", 20),
    Column("size", "N", -5),
    Column("regime", "regime", 9),
    Column("first", "first", -8, ".4g"),
    Column("second", "second", -8, ".4g"),
    Column("difference", "differ", -7, ".2%"),
    Column("speed", "TFLOP/s", -8, ".2%"),
    Column("words", "", 0),
)


@dataclass(frozen=True)
class Pair:
    """Two recordings of a rung at M = N = K = size in a regime; None where the second folder has none."""

    first: Measurement
    second: Measurement | None

    @property
    def difference(self) -> float | None:
        """By how much the second ratio to cuBLAS is above the first, as a share of it."""
        return None if self.second is None else self.second.ratio / self.first.ratio - 1

    @property
    def speed_difference(self) -> float | None:
        """By how much the second speed is above the first, as a share of it."""
        return None if self.second is None else self.second.tflops / self.first.tflops - 1

    @property
    def by_speed(self) -> bool:
        """Whether the ratios are apart, and only because cuBLAS is as fast as its card's power allows."""
        return (
            self.second is not None
            and abs(self.difference) > LIMIT
            and abs(self.speed_difference) <= LIMIT
            and find_rung(self.first.rung).number < FIRST_ON_TENSOR_CORES
        )

    @property
    def problem(self) -> str:
        """Why the two don't agree, or ''."""
        if self.second is None:
            return "not recorded a second time"
        if self.second.code_hash != self.first.code_hash:
            return "recorded of other code"
        return f"more than {LIMIT:.0%}" if abs(self.difference) > LIMIT and not self.by_speed else ""


def pairs(first: Path, second: Path, sizes: Sequence[int] = SIZES, regimes: Sequence[str] = REGIMES) -> list[Pair]:
    """The recordings of the rungs themselves in one folder, each with that of the same GPU in the other.

    Every burst must have its second; sustained recordings are compared where both folders have them.
    Raises RecordError if a folder is missing or a file damaged, or if the first folder lacks a rung's burst.
    """
    for size in sizes:
        require_integer("size", size, 1)
    for argument, folder in (("first", first), ("second", second)):
        if not checked_folder(argument, folder).is_dir():
            name = display(folder)
            raise RecordError(f"{name} is no folder: record one with `python -m helpers.record --output {name}`.")
    found = [_recordings(folder) for folder in (first, second)]
    devices = {key[0] for key in found[1]} or {key[0] for key in found[0]}
    matched = [
        Pair(found[0][device, rung.name, size, regime], found[1].get((device, rung.name, size, regime)))
        for device in sorted(devices)
        for size in sizes
        for regime in regimes
        for rung in RUNGS
        if (device, rung.name, size, regime) in found[0]
        and (regime == "burst" or (device, rung.name, size, regime) in found[1])
    ]
    known = {(pair.first.rung, pair.first.n) for pair in matched if pair.first.regime == "burst"}
    for size in sizes if "burst" in regimes else ():
        lacking = [rung.name for rung in RUNGS if (rung.name, size) not in known]
        if lacking:
            raise RecordError(
                f"{display(first)} has no burst at N={size} of {', '.join(lacking)} on the GPU of {display(second)}: "
                "record it with `python -m helpers.record`."
            )
    return matched


def _recordings(folder: Path) -> dict[tuple[str, str, int, str], Measurement]:
    main = {rung.name: rung.entry for rung in RUNGS}
    return {
        (item.device.name, item.rung, item.n, item.regime): item
        for item in load_records(folder)
        if item.m == item.n == item.k and not item.defines and main.get(item.rung) == item.entry
    }


def row(pair: Pair) -> dict[str, object]:
    """A pair as a line of the table."""
    first, second = pair.first, pair.second
    return {
        "rung": first.rung,
        "size": size_name(first.m, first.n, first.k),
        "regime": first.regime,
        "first": first.ratio,
        "second": None if second is None else second.ratio,
        "difference": pair.difference,
        "speed": pair.speed_difference,
        "words": "its own speed agrees; cuBLAS's is its card's" if pair.by_speed else pair.problem,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0, or 1 if a rung does not agree."""
    parser = Parser(prog="python -m helpers.agreement", description="Compare two recordings of the ladder.")
    parser.add_argument("first", nargs="?", type=Path, help=f"default: {display(SECOND)}")
    parser.add_argument("second", nargs="?", type=Path, help=f"default: {display(SECOND)}, or the third without FIRST")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="N", help="M = N = K")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    return guarded(lambda: _compare(parser.parse_args(arguments)))


def _compare(options: argparse.Namespace) -> int:
    first = options.first or SECOND
    second = options.second or (SECOND if options.first else THIRD)
    sizes, regimes = once(options.sizes), once(options.regimes)
    found = pairs(first, second, sizes, regimes)
    if not found:
        asked = f"{' or '.join(regimes)} at N={', '.join(map(str, sizes))}"
        raise RecordError(
            f"{display(first)} and {display(second)} have no recording in common, {asked}: record both with "
            "`python -m helpers.record`."
        )
    for name, items in (
        ("first", [pair.first for pair in found]),
        ("second", [pair.second for pair in found if pair.second]),
    ):
        days = sorted({item.date[:10] for item in items})
        devices = ", ".join(sorted({item.device.name for item in items}))
        print(f"{name}: {devices}, {' and '.join(dict.fromkeys((days[0], days[-1])))}" if days else f"{name}: nothing")
    print(line(column.cell(column.title) for column in COLUMNS))
    for pair in found:
        cells = row(pair)
        print(line(column.cell(cells[column.key]) for column in COLUMNS))
    apart = [pair for pair in found if pair.problem]
    own = sum(pair.by_speed for pair in found)
    added = f", {own} of them by their own speed" if own else ""
    print(f"{len(found) - len(apart)} of {len(found)} agree within {LIMIT:.0%}{added}")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main())
