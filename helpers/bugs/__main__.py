"""The page about the bug shelf.

    python -m helpers.bugs            rewrite docs/bugs.md
    python -m helpers.bugs --check    exit 1 if it is not what the shelf says
"""

import sys
from collections.abc import Sequence

from helpers.bugs.table import DOCUMENT, document
from helpers.page import page_main


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the page is out of date (--check)."""
    return page_main(
        "helpers.bugs", "The page about the bug shelf.", DOCUMENT, document, "the bug shelf says", arguments
    )


if __name__ == "__main__":
    sys.exit(main())
