"""What the tools watch: the ten rungs, and variants of the appendix in which its choices meet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from helpers.records import file_name
from helpers.rungs import RUNGS, Rung, find_rung, split_k


@dataclass(frozen=True)
class Subject:
    """A kernel that the tools watch: a rung, and the defines that its file is compiled with."""

    rung: Rung
    defines: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Of its record: the rung's, and for a variant its defines."""
        return file_name(self.rung.name, None, self.defines)


# Each two of the tile's rows, its columns (the fewest and the most), the parts of K and the rows of A meet in one.
VARIANTS: tuple[Subject, ...] = tuple(
    Subject(*split_k(rows, columns, stages, split, a_rows))
    for rows, columns, stages, split, a_rows in (
        (64, 64, 8, 1, None),
        (128, 256, 4, 1, 16),
        (64, 256, 2, 3, 16),
        (128, 64, 8, 3, None),
        (64, 256, 2, 8, None),
        (128, 64, 8, 8, 16),
    )
)
SUBJECTS: tuple[Subject, ...] = (*map(Subject, RUNGS), *VARIANTS)


def find_subjects(name: str) -> tuple[Subject, ...]:
    """The subject of that name, or all of a rung, by its number, its name or a unique prefix.

    Raises ArgumentError if there is none, or if several rungs answer to it.
    """
    named = tuple(subject for subject in SUBJECTS if subject.name == name)
    if named:
        return named
    rung = find_rung(name)
    return tuple(subject for subject in SUBJECTS if subject.rung.name == rung.name)
