"""Guesses at results whose parts lie in the wrong place: what each mistake gives, and that others don't give it."""

import numpy as np
import pytest

from helpers.arrays import BFLOAT16, random_matrix
from helpers.misplaced import name_tiles, swizzled, whole_tiles
from helpers.reference import as_float
from helpers.verify import check

M, N, K = 96, 192, 128
TILE = (32, 64)


def operands(m=M, n=N, k=K):
    return random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")


def rounded(values):
    return values.astype(BFLOAT16)


def reason(C, A, B, tile=TILE):
    return check(C, A, B, tile=tile).reason


def test_tiles_in_each_others_place():
    A, B = operands()
    C = as_float(A) @ as_float(B)
    C[:32, 64:128], C[64:, 128:] = C[64:, 128:].copy(), C[:32, 64:128].copy()
    said = reason(rounded(C), A, B)
    assert said.endswith("; tile (0, 1) of 32 x 64 holds what belongs to tile (2, 2).")
    assert "tile" not in reason(rounded(C), A, B, tile=None)


def test_a_ragged_tile_in_anothers_place():
    A, B = operands(m=90, n=180)
    C = as_float(A) @ as_float(B)
    C[64:, 128:] = C[:26, :52]
    assert "tile (2, 2) of 32 x 64 holds what belongs to tile (0, 0)" in reason(rounded(C), A, B)


def test_sums_that_were_not_begun_anew():
    A, B = operands()
    C = as_float(A) @ as_float(B)
    C[32:64, :64] += C[:32, :64]
    said = reason(rounded(C), A, B)
    assert "tile (1, 0) of 32 x 64 holds its product plus that of tile (0, 0): the sums were not begun anew" in said


def test_rows_and_columns_of_others():
    A, B = operands()
    C = as_float(A) @ as_float(B)
    C[40:48] = C[20:28]
    assert reason(rounded(C), A, B).endswith("; row 40 holds what belongs to row 20.")
    C = as_float(A) @ as_float(B)
    C[:, 7] = C[:, 100]
    assert reason(rounded(C), A, B).endswith("; column 7 holds what belongs to column 100.")
    C[:, 7] = C[:, 100] + 1
    assert "holds what" not in reason(rounded(C), A, B)


def test_swizzled_moves_the_chunks_of_each_row():
    matrix = np.arange(16 * 70, dtype=np.float32).reshape(16, 70)
    moved = swizzled(matrix, np.arange(16))
    assert moved.shape == (16, 128)
    for row in range(16):
        for column in range(70):
            chunk = column // 8 % 8 ^ row % 8
            assert moved[row, column // 64 * 64 + chunk * 8 + column % 8] == matrix[row, column]
    assert (swizzled(moved, np.arange(16))[:, :70] == matrix).all()
    assert (swizzled(matrix[3:5], np.array([3, 4])) == moved[3:5]).all()


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_a_swizzle_that_one_side_made(name):
    A, B = operands()
    a, b = as_float(A), as_float(B)
    if name == "A":
        a = swizzled(a, np.arange(M))
    if name == "B":
        b = swizzled(b, np.arange(K))
    C = a @ b
    if name == "C":
        C = swizzled(C, np.arange(M))
    assert f"the 16-byte chunks of {name}'s rows were swizzled by one side only" in reason(rounded(C), A, B)


def test_tiles_that_were_never_written():
    A, B = operands()
    C = rounded(as_float(A) @ as_float(B))
    C.view(np.uint16)[32:64, 64:128] = 0x7FE5
    assert reason(C, A, B).endswith("columns 64 to 127 were never written; this is tile (1, 1) of 32 x 64.")
    C.view(np.uint16)[64:, :64] = 0x7FE5
    assert "never written; this is 2 tiles of 32 x 64, the first of them (1, 1)." in reason(C, A, B)
    C.view(np.uint16)[0, 0] = 0x7FE5
    assert "tile" not in reason(C, A, B)


def test_masks_that_are_made_of_tiles():
    mask = np.zeros((40, 70), bool)
    mask[32:, 64:] = True
    assert whole_tiles(mask, TILE) == [(1, 1)] and name_tiles([(1, 1)], TILE) == "tile (1, 1) of 32 x 64"
    mask[:32, :64] = True
    assert whole_tiles(mask, TILE) == [(0, 0), (1, 1)]
    mask[0, 65] = True
    assert whole_tiles(mask, TILE) == []
