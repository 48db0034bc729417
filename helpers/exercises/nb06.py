"""Exercises of notebook 6, wgmma."""

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation
from helpers.models.descriptor import ADDRESS, Descriptor
from helpers.models.fragments import owner
from helpers.rungs import BF16_BYTES, find_rung

ROWS, COLUMNS, DEPTH = find_rung("06_wgmma").tile
BUFFERS = find_rung("06_wgmma").stages
BOX, STEP = 64, 16   # rows of a warpgroup and columns of a box of B; k of one wgmma

_BOXES_FIRST = (   # of exercise 3
    ("B[BUFFERS][BN / 64][BK * 64]", "B[BN / 64][BUFFERS][BK * 64]"),
    ("shared.B[buffer][box]", "shared.B[box][buffer]"),
    ("shared.B[buffer][0]", "shared.B[0][buffer]"),
)


def _address_fields(buffer: int, warpgroup: int, k: int) -> tuple[int, int]:
    """Bits 0 to 13 of the descriptors of A and B, if the kernel's `Shared` begins at byte 0 of shared memory."""
    a_bytes, b_bytes = ROWS * DEPTH * BF16_BYTES, COLUMNS * DEPTH * BF16_BYTES
    a = buffer * a_bytes + (warpgroup * BOX * DEPTH + k) * BF16_BYTES
    b = BUFFERS * a_bytes + buffer * b_bytes + k * BOX * BF16_BYTES
    first, second = (ADDRESS.of(Descriptor(byte, 16, 1024).bits) for byte in (a, b))
    return first, second


def _reference(row: int, column: int) -> tuple[int, int]:
    held = owner(row, column)
    return held.thread, held.register


def _boxes_first(emulation: Emulation) -> str | None:
    if "B[BN / 64][BUFFERS]" not in emulation.source:
        return "B lies as it did before: keep `B[BN / 64][BUFFERS]`, and mend the descriptor."
    return None


EXERCISES = (
    Number(
        id="06.1",
        expected=lambda: _address_fields(buffer=1, warpgroup=1, k=32),
        names=("bits 0 to 13 of A's descriptor", "bits 0 to 13 of B's descriptor"),
        mistakes=(
            ((24640, 53248), "these are the bytes: the descriptor holds them divided by 16."),
            ((1028, 3328), "the second is right. The first is that of warpgroup 0: warpgroup 1 begins 64 rows below."),
            ((1538, 3328), "the second is right. In A 32 k are 64 bytes: a bf16 has two."),
            ((1540, 3076), "the first is right. In B a row is one k: 32 of them are 32 rows of 128 bytes further."),
        ),
        hints=(
            "Add up bytes: where the buffer begins, where the warpgroup's rows begin, how far the step is.",
            "A: buffers of 16,384 bytes, 64 rows of 128 bytes to warpgroup 1, and 32 k of 2 bytes within the row.",
            "A: (16384 + 8192 + 64) / 16. B lies behind both buffers of A, in the second buffer, 32 rows down.",
        ),
        because="a step in k is a few bytes along the row of A, but whole rows of B.",
    ),
    Function(
        id="06.2",
        lines=2,
        reference=_reference,
        points=((0, 0), (0, 1), (1, 0), (8, 0), (0, 8), (16, 2), (25, 77), (63, 127)),
        names=("row", "column"),
        hints=(
            "Which bits of the row choose the warp, the upper or lower half, and the four lanes? Look at the picture.",
            "Warp: row // 16. Lane: four for each row % 8, and column % 8 // 2 among them.",
            "Register: 4 * (column // 8) + 2 * (row % 16 // 8) + column % 2.",
        ),
        because="four lanes share eight columns of a row, and a warp has its sixteen rows in two halves of eight.",
    ),
    KernelChange(
        id="06.3",
        rung="06_wgmma",
        edits=_BOXES_FIRST,
        size=(128, 128, 256),
        more_sizes=((200, 136, 200),),
        goal=_boxes_first,
        hints=(
            "Which two addresses does the leading offset of B's descriptor lie between?",
            "It leads from box 0 to box 1 of the same buffer. What lies between the two now?",
            "Both buffers of box 0: the offset is 2 * 8192 = 16384 bytes.",
        ),
        because="the leading offset leads to the next 64 columns, wherever they are: any multiple of 16 bytes will do.",
    ),
    FindTheBug.planted(
        "refill_after_own_wgmma_only",
        id="06.4",
        more_sizes=((200, 136, 200),),
        hints=(
            "A report names a load, a wgmma that read the same bytes before, and a thread of each. Which thread orders "
            "the load, and for whom has it waited by then?",
            "`wgmma_wait_group` speaks only for the warp that waits. The wgmma of the other warps, and of the other "
            "warpgroup, may still be reading the buffer when thread 0 goes on.",
            "All must have waited before thread 0 orders: put `__syncthreads();` between the wait and the load.",
        ),
        because="a wait says something about a warp's own wgmma, and two warpgroups read a buffer: a barrier makes "
        "everybody's wait known to thread 0. On a GPU the warps mostly run level, so it goes wrong seldom.",
    ),
)
