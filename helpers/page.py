"""The command line of a module that writes one page of docs/: write it, or say with --check that it is out of date."""

from collections.abc import Callable, Sequence
from pathlib import Path

from helpers.entry import Parser, fail, guarded
from helpers.files import write_whole
from helpers.jsonfile import display


def page_main(
    module: str,
    description: str,
    page: Path,
    document: Callable[[], str],
    source: str,
    arguments: Sequence[str] | None = None,
) -> int:
    """Exit code 0, or 1 if the page is out of date (--check) or cannot be made.

    module: as it is called with `python -m`. page: the file by default. document: makes its text. source: what the text
    comes from, for the sentence of --check, such as "the bug shelf says".
    """
    parser = Parser(prog=f"python -m {module}", description=description)
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--file", type=Path, default=page, help=f"default: {display(page)}")
    options = parser.parse_args(arguments)

    def work() -> int:
        file: Path = options.file
        if not options.check:
            write_whole(file, document())
        elif not file.is_file() or file.read_bytes() != document().encode():
            return fail(f"{file.name} is not what {source}: run `python -m {module}`.")
        return 0

    return guarded(work)
