"""What a command prints: a table row by row, or one JSON list at the end."""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from helpers.tables import Column, line
from helpers.words import one_line

__all__ = ["Column", "Output", "in_colour"]


@dataclass
class Output:
    """Collects rows for JSON, or prints them as they come, so that a slow command shows its progress."""

    as_json: bool = False
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    _columns: Sequence[Column] | None = None

    def row(self, row: Mapping[str, Any], columns: Sequence[Column]) -> None:
        """One result: a flat object for JSON, of which the table shows `columns`."""
        self.rows.append(row)
        if self.as_json:
            return
        if columns is not self._columns:
            if self._columns is not None:
                print()
            print(line(column.cell(column.title) for column in columns))
            self._columns = columns
        print(line(column.cell(row.get(column.key)) for column in columns), flush=True)

    def text(self, text: str = "") -> None:
        """Words for people only; they don't appear in JSON."""
        if not self.as_json:
            print(text, flush=True)

    def problem(self, error: Exception) -> None:
        """Print an error that does not stop the command, one sentence on stderr."""
        sys.stdout.flush()
        print(one_line(str(error)), file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Print the JSON list, also after an error: what was found until then."""
        if self.as_json:
            print(json.dumps([_plain(row) for row in self.rows], indent=2, ensure_ascii=False))


def in_colour() -> bool:
    """Whether to colour text: on a terminal, unless NO_COLOR is set."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _plain(value: Any) -> Any:
    """A value that JSON has: NaN and infinity become null, tuples lists, NumPy numbers numbers."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
