"""Solutions of notebook 2."""

from helpers.exercises.kinds import edit

TRANSPOSED = (
    ("A_tile[tile_row][tile_column] =", "A_tile[tile_column][tile_row] ="),
    ("A_tile[tile_row][k]", "A_tile[k][tile_row]"),
)

SOLUTIONS = {
    "02.1": 128,
    "02.2": (32768, 32.0),
    "02.3": edit("02_smem_tiling", *TRANSPOSED, ("A_tile[TILE][TILE];", "A_tile[TILE][TILE + 1];")),
}
