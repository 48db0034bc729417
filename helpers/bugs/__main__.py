"""The page about the bug shelf.

    python -m helpers.bugs            rewrite docs/bugs.md
    python -m helpers.bugs --check    exit 1 if it is not what the shelf says
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.bugs.table import DOCUMENT, document
from helpers.entry import Parser, fail, guarded
from helpers.files import write_whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the page is out of date (--check)."""
    parser = Parser(prog="python -m helpers.bugs", description="The page about the bug shelf.")
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--file", type=Path, default=DOCUMENT, help="default: docs/bugs.md")
    options = parser.parse_args(arguments)
    return guarded(lambda: _update(options.file, options.check))


def _update(file: Path, check: bool) -> int:
    if not check:
        write_whole(file, document())
    elif not file.is_file() or file.read_bytes() != document().encode():
        return fail(f"{file.name} is not what the bug shelf says: run `python -m helpers.bugs`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
