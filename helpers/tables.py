"""Tables as plain text: columns of fixed width, and the table of an emulated run's counters."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.emulator import Counter

ELLIPSIS = "..."
COUNTER_NOTE = "per request, at best: sectors of 32 bytes (global), wavefronts (shared). bytes: of one lane."


@dataclass(frozen=True)
class Column:
    """A column of a table. key: of the row; width: in characters, negative for numbers, which stand at the right."""

    key: str
    title: str
    width: int
    format: str = ""   # a format specification, for numbers

    def cell(self, value: Any) -> str:
        """A value as text of this width (longer text is not cut)."""
        if value is None or isinstance(value, float) and not math.isfinite(value):
            text = "-"
        elif isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, int | float):
            text = format(value, self.format)
        else:
            text = str(value)
        return text.rjust(-self.width) if self.width < 0 else text.ljust(self.width)


COUNTERS = (
    Column("line", "line", -4),
    Column("space", "memory", 6),
    Column("op", "op", 5),
    Column("bytes", "bytes", -5),
    Column("requests", "requests", -10, ","),
    Column("per_request", "per request", -11, ".2f"),
    Column("ideal_per_request", "at best", -7, ".2f"),
    Column("source", "source", 0),
)

CHECK_COLUMNS = (Column("check", "check", 16), Column("ok", "ok", 3), Column("detail", "found", 0))
UNDER_FOUND = " " * 23   # what stands before a remedy, in the line under its check


def line(cells: Iterable[str]) -> str:
    """A row of cells that have their width."""
    return "  ".join(cells).rstrip()


def counter_table(counters: Sequence["Counter"], source: str, width: int | None = None) -> str:
    """The counters beside the source lines that they belong to, and a note on the units.

    source: the text of the kernel file. width: of the table in characters; source lines are cut to fit it.
    """
    texts = source.splitlines()
    rows = [line(column.cell(column.title) for column in COUNTERS)]
    for counter in counters:
        values = {
            "line": counter.line,
            "space": counter.space,
            "op": counter.op,
            "bytes": counter.bytes,
            "requests": counter.requests,
            "per_request": counter.transactions / counter.requests,
            "ideal_per_request": counter.ideal / counter.requests,
            "source": texts[counter.line - 1].strip() if 0 < counter.line <= len(texts) else "",
        }
        row = line(column.cell(values[column.key]) for column in COUNTERS)
        rows.append(row if width is None or len(row) <= width else row[: width - len(ELLIPSIS)] + ELLIPSIS)
    return "\n".join([*rows, COUNTER_NOTE])
