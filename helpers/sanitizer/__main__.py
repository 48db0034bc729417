"""The page about compute-sanitizer.

    python -m helpers.sanitizer            rewrite docs/sanitizer.md
    python -m helpers.sanitizer --check    exit 1 if it is not what the records say
"""

import sys
from collections.abc import Sequence

from helpers.page import page_main
from helpers.sanitizer.page import DOCUMENT, document


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if the page is out of date (--check)."""
    return page_main(
        "helpers.sanitizer", "The page about compute-sanitizer.", DOCUMENT, document, "the records say", arguments
    )


if __name__ == "__main__":
    sys.exit(main())
