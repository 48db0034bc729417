"""Exercises of notebook 4, swizzling."""

import numpy as np

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import KernelChange, Number
from helpers.exercises.place_map import PlaceMap
from helpers.kernel import Emulation
from helpers.models.machine import WARP
from helpers.models.swizzle import CHUNK_BYTES, Swizzle

ROW, CHUNK = 22, 3
SWIZZLE = Swizzle("128B")
NEIGHBOURING_ROWS = (   # a thread's eight rows, in the kernel 8 apart
    ("A thread's rows lie 8 apart: the eight lanes that a 128-bit load\n", "A thread's rows are neighbours.\n"),
    ("    // serves together then read rows with eight different `row % 8`, so the XOR sends them to eight different "
     "places.\n", ""),
    ("lane % 8;    // the thread's rows: this one, then every 8th",
     "lane % 8 * 8;   // the thread's rows: this one and the next 7"),
    ("chunk_index(thread_row + 8 * i, k_chunk)", "chunk_index(thread_row + i, k_chunk)"),
    ("C_chunks[(thread_row + 8 * i) * B_stride", "C_chunks[(thread_row + i) * B_stride"),
)


def _place_and_byte() -> tuple[int, int]:
    """Where chunk CHUNK of row ROW is kept: place in the row, byte from the start of the tile."""
    return SWIZZLE.place(ROW, CHUNK), SWIZZLE(ROW * SWIZZLE.row_bytes + CHUNK * CHUNK_BYTES)


def _b_without_the_xor(emulation: Emulation) -> str | None:
    """What is still missing to A with the XOR, B without, and no conflicts."""
    first_chunks = np.arange(WARP) * CHUNK_BYTES   # a warp stores four rows: chunk after chunk, if nothing is swizzled
    stores = {name: np.array(emulation.counter(name, "store").example) for name in ("A_tile", "B_tile")}
    if (stores["A_tile"] == first_chunks).all():
        return "the XOR is gone from A too: keep it there, the reads of A need it."
    if (stores["B_tile"] != first_chunks).any():
        return "the chunks of B still change places."
    return _conflict(emulation)


def _conflict(emulation: Emulation) -> str | None:
    """The first access to shared memory that takes more wavefronts than it needs, if there is one."""
    for counter in emulation.run.counters:
        if counter.space == "shared" and counter.transactions > counter.ideal:
            return (
                f"the {counter.op} in line {counter.line} takes {counter.wavefronts_per_request:.3g} wavefronts a "
                f"request instead of {counter.ideal_per_request:.3g}."
            )
    return None


EXERCISES = (
    Number(
        id="04.1",
        expected=_place_and_byte,
        names=("place in the row", "byte of the tile"),
        mistakes=(
            ((ROW ^ CHUNK, ROW * 128 + (ROW ^ CHUNK) * 16), "a row has only places 0 to 7: XOR with `row % 8`."),
            ((CHUNK, ROW * 128 + CHUNK * 16), "that is where it lies without the XOR."),
            ((SWIZZLE.place(ROW, CHUNK), SWIZZLE.place(ROW, CHUNK) * 16), "the place is right. But the byte counts "
             "from the start of the tile, and 22 rows lie before this one."),
        ),
        hints=(
            "What is `row % 8`, and what is its XOR with the chunk, bit by bit?",
            "22 % 8 is 6, in bits 110; chunk 3 is 011. Where the bits differ, the XOR has a 1.",
            "The place is 5. The byte is 22 * 128 + 5 * 16.",
        ),
        because="110 XOR 011 is 101; the row's own bits, from bit 7 on, stay as they are.",
    ),
    PlaceMap(
        id="04.2",
        rows=64,
        row_chunks=4,
        groups=8,
        hints=(
            "All 32 banks are 128 bytes, so two rows. Which rows of eight share their banks with row 0?",
            "Rows 0, 2, 4 and 6 do; row 1 uses the other half of the banks. What tells these four apart?",
            "`row // 2 % 4` does, and there are four places: `chunk ^ (row // 2 % 4)`.",
        ),
        because="two rows fill the banks once, so only the pair of rows must count. TMA knows this as its 64-byte "
        "swizzle (`chunk ^ row // 2 % 4`): bits 4-5 ^= bits 7-8.",
    ),
    KernelChange(
        id="04.3",
        rung="04_swizzling",
        lines=2,
        size=(128, 256, 128),
        more_sizes=((256, 512, 64),),
        goal=_b_without_the_xor,
        hints=(
            "B_tile is stored in one place and read in another. What does chunk_index(row, chunk) give without XOR?",
            "`row * ROW_CHUNKS + chunk`. Both the store and the read need it; one alone gives a wrong result.",
            "Replace `B_tile[to_box * BOX_CHUNKS + chunk_index(row, chunk)]` by "
            "`B_tile[to_box * BOX_CHUNKS + row * ROW_CHUNKS + chunk]`, and the read likewise.",
        ),
        because="B is stored and read along its rows only, and rows never conflict. It even saves registers: see "
        "`load(4, file=...).report`. (TMA will swizzle B all the same: the tensor cores of notebook 6 want it so.)",
    ),
    FindTheBug(
        id="04.4",
        rung="04_swizzling",
        size=(128, 256, 128),
        more_sizes=((256, 512, 64),),
        schedules=("lazy", "random"),
        edits=NEIGHBOURING_ROWS,
        goal=_conflict,
        hints=(
            "Which rows of A_tile do the first eight lanes read in one request? Write down `row % 8` for each of them.",
            "They are rows 0, 8, 16, ... for `i` = 0: the XOR moves them all to the same place, the same four banks.",
            "Either let a thread's rows lie eight apart again (where they are numbered, read and stored), or take the "
            "XOR with what differs now: `row / 8 % 8`.",
        ),
        because="a swizzle fits the rows that are read together. `row % 8` fits eight neighbouring rows, and TMA knows "
        "no other: so the lanes are laid to fit it.",
    ),
)
