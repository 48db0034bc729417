"""Exercises of notebook 3, register tiling."""

import numpy as np

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Number
from helpers.exercises.place_map import PlaceMap
from helpers.models.banks import warp_wavefronts
from helpers.models.machine import WARP
from helpers.models.tiling import shared_loads

ROW_CHUNKS, CHUNK_BYTES = 8, 16


def _quarter_warp(swizzle: bool) -> int:
    """Wavefronts of eight lanes that read chunk 0 of rows 0, 8, ..., 56."""
    rows = 8 * np.arange(8)
    chunks = rows % 8 if swizzle else np.zeros(8, dtype=np.int64)
    addresses = np.full(WARP, -1)
    addresses[:8] = (rows * ROW_CHUNKS + chunks) * CHUNK_BYTES
    return warp_wavefronts(addresses, CHUNK_BYTES).count


EXERCISES = (
    Number(
        id="03.1",
        expected=lambda: shared_loads(4, 8).loads_per_fma,
        names=("loads per multiply-add",),
        tolerance=0.01,
        mistakes=(((4 + 8), "that is the number of loads for a step of k: divide by its multiply-adds."),),
        hints=(
            "For one step of k, how many values of A does the thread need, and how many of B?",
            "It needs 4 + 8 values. How many products does it make of them?",
            "12 loads for 32 multiply-adds.",
        ),
        because="loads grow with the edges of the tile, multiply-adds with its area.",
    ),
    Number(
        id="03.2",
        expected=lambda: (_quarter_warp(swizzle=False), _quarter_warp(swizzle=True)),
        names=("wavefronts as it stands", "wavefronts with the XOR"),
        mistakes=(((8, 1), "the first is right. But which value has `row % 8` for the eight rows 8 * lane + i?"),),
        hints=(
            "The eight lanes read rows i, 8 + i, 16 + i, ...: how many bytes apart?",
            "The rows are 1,024 bytes apart: all in the same banks. What is `row % 8` for each of them?",
            "`(8 * lane + i) % 8` is `i` for every lane, so the XOR moves them all to the same other chunk.",
        ),
        because="rows that share `row % 8` are moved alike; that is why this kernel's rows lie 8 apart in a thread.",
    ),
    PlaceMap(
        id="03.3",
        hints=(
            "The eight rows of a quarter-warp must put the same chunk into eight different places.",
            "They differ in `row % 8`. Which operations of `chunk` and `row % 8` keep a row's chunks apart?",
            "XOR is one: `chunk ^ (row % 8)`.",
        ),
        because="for a fixed chunk the place runs through all eight with the row, and for a fixed row with the chunk.",
    ),
    FindTheBug.planted(
        "stored_as_neighbours",
        id="03.4",
        more_sizes=((256, 512, 192),),
        hints=(
            "Every sum is right. The sentence says in which column some of them lie, and in which they belong.",
            "Column 8 is chunk 1 of the row, column 32 is chunk 4. Which chunks of the box does the thread with "
            "`thread_chunk` 0 compute?",
            "It reads chunks `thread_chunk + 4 * j` of B. Does the last line store to the same ones?",
        ),
        because="a thread's registers have no place in C but the one that the loads gave them: the map of the lanes is "
        "written down twice, where B is read and where C is stored, and both must say the same.",
    ),
)
