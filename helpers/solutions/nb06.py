"""Solutions of notebook 6."""

from helpers.exercises.kinds import edit


def holder(row: int, column: int) -> tuple[int, int]:
    warp, lane = row // 16, row % 8 * 4 + column % 8 // 2
    return 32 * warp + lane, 4 * (column // 8) + 2 * (row % 16 // 8) + column % 2


SOLUTIONS = {
    "06.1": (1540, 3328),
    "06.2": holder,
    "06.3": edit(
        "06_wgmma",
        ("B[BUFFERS][BN / 64][BK * 64]", "B[BN / 64][BUFFERS][BK * 64]"),
        ("shared.B[buffer][box]", "shared.B[box][buffer]"),
        ("shared.B[buffer][0] + k * 64, 8192", "shared.B[0][buffer] + k * 64, 16384"),
    ),
}
