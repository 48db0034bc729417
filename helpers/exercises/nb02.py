"""Exercises of notebook 2, shared-memory tiling."""

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import KernelChange, Number
from helpers.kernel import Emulation

TILE, WIDE, N = 32, 64, 4096
FP32, BF16 = 4, 2   # bytes
TRANSPOSED = (
    ("A_tile[tile_row][tile_column] =", "A_tile[tile_column][tile_row] ="),
    ("A_tile[tile_row][k]", "A_tile[k][tile_row]"),
)


def _wide_tile() -> tuple[int, float]:
    """Bytes of two fp32 tiles of WIDE x WIDE, and FLOP per byte of bf16 loaded in one step."""
    flop = 2 * WIDE**3
    return 2 * WIDE * WIDE * FP32, flop / (2 * WIDE * WIDE * BF16)


def _transposed_without_conflicts(emulation: Emulation) -> str | None:
    lanes = emulation.counter("A_tile", "store").example
    if lanes[1] - lanes[0] == FP32:
        return "`A_tile` is no longer stored transposed: keep that, and change its declaration."
    shared = [counter for counter in emulation.run.counters if counter.space == "shared"]
    worst = max(shared, key=lambda counter: counter.wavefronts_per_request / counter.ideal_per_request)
    if worst.transactions > worst.ideal:
        return (
            f"the {worst.op} in line {worst.line} still takes {worst.wavefronts_per_request:.3g} wavefronts "
            f"a request instead of {worst.ideal_per_request:.3g}."
        )
    return None


EXERCISES = (
    Number(
        id="02.1",
        expected=N // TILE,
        names=("the number of loads",),
        mistakes=(
            (N, "that is the first rung's count of uses: here one load serves 32 threads of a CTA."),
            (TILE, "that is how often one load is used, not how many loads there are."),
        ),
        hints=(
            "Which CTAs need a given element of A? Think of the row of C that it contributes to.",
            "All CTAs in that row of tiles need it, and each loads it once.",
            "How many tiles of 32 columns are there in 4096 columns?",
        ),
        because="the N / 32 CTAs of a row of tiles each load it once.",
    ),
    Number(
        id="02.2",
        expected=_wide_tile,
        names=("bytes of shared memory", "FLOP per byte loaded"),
        tolerance=0.01,
        mistakes=(
            ((16384, 32), "the second is right. But the tiles in shared memory are fp32, four bytes an element."),
            ((32768, 16), "the first is right. But the elements travel as bf16, two bytes each."),
            ((32768, 64), "the first is right. But a step loads two tiles, one of A and one of B."),
        ),
        hints=(
            "The tiles are fp32 in shared memory, but they travel as bf16.",
            "In one step a CTA does 2 * 64 * 64 * 64 FLOP and loads two tiles of 64 x 64 bf16.",
            "Bytes: 2 * 64 * 64 * 4. Intensity: 2 * 64**3 / (2 * 64 * 64 * 2).",
        ),
        because="twice the tile's edge, four times the memory, twice the intensity.",
    ),
    KernelChange(
        id="02.3",
        rung="02_smem_tiling",
        edits=TRANSPOSED,
        size=(64, 64, 64),
        more_sizes=((40, 48, 70),),
        goal=_transposed_without_conflicts,
        hints=(
            "Look at the store to A_tile: its lanes differ in `tile_column`, which is now the row of the tile.",
            "Rows are 32 floats, 128 bytes, apart: all lanes meet in one bank. What if a row had another length?",
            "One more column: `A_tile[TILE][TILE + 1]`.",
        ),
        because="a row of 33 words moves each next row one bank further, so the 32 lanes meet 32 banks.",
    ),
    FindTheBug.planted(
        "left_before_the_barrier",
        id="02.4",
        more_sizes=((40, 48, 70), (33, 31, 33)),
        hints=(
            "The report counts threads that do not come to a barrier. Where did they go, and which threads are they?",
            "Those beyond C leave at once. In the first kernel nobody missed them: what do others need of them here?",
            "Take the early `return` away, so that all threads load and wait. What must the last line then ask before "
            "it stores?",
        ),
        because="each thread brings elements for the others and is counted at the barriers, also if it has none of C "
        "to store: so the question comes last.",
    ),
)
