"""Changed kernels for experiments: the file of the rung stays as it is, the changed text is kept below build/."""

from pathlib import Path

from helpers.cache import cache_directory, write_atomically
from helpers.errors import ArgumentError
from helpers.rungs import Rung, find_rung


def edit(rung: str | int | Rung, *replacements: tuple[str, str]) -> str:
    """The text of a rung's kernel with some text replaced: `edit(1, ("old", "new"), ...)`. The file stays as it is.

    Raises ArgumentError if an old text is not in the kernel, or is there more than once.
    """
    path = find_rung(rung).path
    return replace_in(path.read_text(encoding="utf-8"), path.name, *replacements)


def replace_in(text: str, name: str, *replacements: tuple[str, str]) -> str:
    """A text with replacements made, one after the other. name: what errors call the text; they are those of `edit`."""
    for pair in replacements:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) and pair[0] for part in pair)):
            raise ArgumentError(f"replacement {pair!r} is not a pair of texts: give (old, new), the old one not empty.")
        old, new = pair
        found = text.count(old)
        if found != 1:
            places = "is not there" if found == 0 else f"is there {found} times"
            raise ArgumentError(
                f"text {old!r} {places} in {name}: give text that is there once, copied from the kernel."
            )
        text = text.replace(old, new)
    return text


def save_text(text: str, name: str) -> Path:
    """Write the text of a kernel to build/variants/`name`.cu, for `load(..., file=...)` and `emulate(..., file=...)`.

    Raises ArgumentError for a name that is no plain file name, BackendError if the folder cannot be written.
    """
    if Path(name).name != name or not name:
        raise ArgumentError(f"name {name!r} is not a plain file name: give one such as 'no_barrier'.")
    path = cache_directory("variants") / f"{name}.cu"
    write_atomically(path, text.encode())
    return path


def variant(rung: str | int | Rung, *replacements: tuple[str, str], name: str) -> Path:
    """The file of a changed kernel: `variant(1, ("old", "new"), name="changed")`. Errors as `edit` and `save_text`."""
    return save_text(edit(rung, *replacements), name)
