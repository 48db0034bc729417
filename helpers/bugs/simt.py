"""Planted bugs in rungs 1 to 4: threads, shared memory and __syncthreads."""

from helpers.bugs.bug import VERIFY, Bug

_ARRIVED = "__syncthreads();   // the tiles are read by other threads than wrote them"
_LEFT = "__syncthreads();   // nobody overwrites a tile that a slower warp still reads"
_TILE = (128, 256, 128)   # one tile of rungs 3 and 4, two steps

BUGS: tuple[Bug, ...] = (
    Bug(
        name="no_row_guard",
        rung=1,
        fault="no guard for rows beyond M",
        why="The last CTAs read beyond A and write beyond C, into whatever lies there.",
        reports=(("out_of_bounds", "past the end of"),),
        size=(40, 48, 33),
        edits=(("if (row >= M || column >= N) return;", "if (column >= N) return;"),),
    ),
    Bug(
        name="transposed_output",
        rung=1,
        fault="C is stored column by column",
        why="Every product is right and lies in the wrong place; a square result even has the right size.",
        reports=((VERIFY, "C was stored transposed"),),
        size=(40, 48, 33),
        edits=(("C[size_t(row) * N + column] =", "C[size_t(column) * M + row] ="),),
    ),
    Bug(
        name="no_barrier_after_loading",
        rung=2,
        fault="no __syncthreads between loading a tile and reading it",
        why="A warp multiplies with what slower warps have not loaded yet.",
        reports=(("race", "__syncthreads() between"),),
        size=(40, 48, 70),
        edits=((_ARRIVED, ""),),
    ),
    Bug(
        name="no_barrier_before_next_tile",
        rung=2,
        fault="no __syncthreads between reading a tile and loading the next",
        why="A fast warp overwrites the tile that a slower one still reads.",
        reports=(("race", "__syncthreads() between"),),
        size=(40, 48, 70),
        edits=((_LEFT, ""),),
    ),
    Bug(
        name="tail_of_k_dropped",
        rung=2,
        fault="only whole steps along K are computed",
        why="Right whenever K is a multiple of the step; else the last products are missing.",
        reports=((VERIFY, "the last 6 values of k were left out"),),
        size=(40, 48, 70),
        edits=(("for (int k0 = 0; k0 < K; k0 += TILE)", "for (int k0 = 0; k0 + TILE <= K; k0 += TILE)"),),
    ),
    Bug(
        name="no_column_guard",
        rung=2,
        fault="no guard for columns of A beyond K",
        why="The last step reads the beginning of the next row, and at the end of A beyond it.",
        reports=(("out_of_bounds", "past the end of A"),),
        size=(40, 48, 70),
        edits=(("row < M && a_column < K ?", "row < M ?"),),
    ),
    Bug(
        name="no_barrier_in_big_tiles",
        rung=3,
        fault="no __syncthreads between reading a tile and loading the next",
        why="A fast warp overwrites the tile that a slower one still reads.",
        reports=(("race", "__syncthreads() between"),),
        size=_TILE,
        edits=((_LEFT, ""),),
    ),
    Bug(
        name="boxes_too_far_apart",
        rung=3,
        fault="a box of B counts as 256 rows long where it is written, and has 64",
        why="The third and fourth box are written where the CTA has no shared memory.",
        reports=(("out_of_bounds", "past the end of"),),
        size=_TILE,
        edits=(("B_tile[to_box * BOX_CHUNKS +", "B_tile[to_box * BN * ROW_CHUNKS +"),),
    ),
    Bug(
        name="swizzled_when_read_only",
        rung=4,
        fault="A is swizzled where it is read, and not where it is written",
        why="Each row's chunks of eight k are multiplied with the wrong rows of B.",
        reports=((VERIFY, "the 16-byte chunks of A's rows"),),
        size=_TILE,
        edits=(("A_tile[chunk_index(row, chunk)] =", "A_tile[row * ROW_CHUNKS + chunk] ="),),
    ),
    Bug(
        name="no_barrier_in_swizzled_tiles",
        rung=4,
        fault="no __syncthreads between loading a tile and reading it",
        why="A warp multiplies with what slower warps have not loaded yet.",
        reports=(("race", "__syncthreads() between"),),
        size=_TILE,
        edits=((_ARRIVED, ""),),
    ),
)
