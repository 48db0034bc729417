"""What compute-sanitizer and the long runs watch: the rungs, the last one's other clusters, the appendix's kernels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from helpers.errors import ArgumentError
from helpers.records import file_name
from helpers.rungs import (
    FITTED_HEIGHTS,
    PARTITIONS,
    RUNGS,
    Rung,
    find_rung,
    fitted_tiles,
    in_clusters_of_four,
    split_k,
)
from helpers.words import short


@dataclass(frozen=True)
class Subject:
    """A kernel that is watched: a rung, and the defines that its file is compiled with."""

    rung: Rung
    defines: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Of its record: the rung's, and for a variant its defines."""
        return file_name(self.rung.name, None, self.defines)

    @property
    def is_variant(self) -> bool:
        """Whether it is compiled with defines."""
        return bool(self.defines)


CLUSTERS: tuple[Subject, ...] = (Subject(*in_clusters_of_four(10)),)
# Each two of the tile's rows, its columns (the fewest and the most), the parts of K and the rows of A meet in one.
SPLITS: tuple[Subject, ...] = tuple(
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
FITTED: tuple[Subject, ...] = tuple(Subject(*fitted_tiles(height)) for height in FITTED_HEIGHTS)
VARIANTS: tuple[Subject, ...] = (*CLUSTERS, *SPLITS, *FITTED)
PARTITIONED = Subject(PARTITIONS)
SUBJECTS: tuple[Subject, ...] = (*map(Subject, RUNGS), *VARIANTS, PARTITIONED)


def find_subjects(name: str) -> tuple[Subject, ...]:
    """The subject of that name, such as `"10_clusters+CLUSTER-4"`, or a rung by its number, its name or a prefix.

    That is the rung as it is; of a kernel of the appendix that is made for a shape, all variants.
    Raises ArgumentError if there is none, or if several rungs answer to it.
    """
    named = tuple(subject for subject in SUBJECTS if subject.name == name)
    if named:
        return named
    text = str(name)
    if "+" in text:
        rung = find_rung(text.partition("+")[0])
        known = ", ".join(subject.name for subject in SUBJECTS if subject.rung.name == rung.name)
        raise ArgumentError(f"{short(text)} is no variant that is watched: give one of {known}.")
    rung = find_rung(name)
    found = tuple(subject for subject in SUBJECTS if subject.rung.name == rung.name)
    return tuple(subject for subject in found if not subject.is_variant) or found
