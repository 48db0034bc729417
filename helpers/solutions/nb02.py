"""Solutions of notebook 2."""

SOLUTIONS = {
    "02.1": 128,
    "02.2": (32768, 32.0),
    "02.3": [("A_tile[TILE][TILE];", "A_tile[TILE][TILE + 1];")],
    "02.4": [
        ("    if (row >= M || column >= N) return;\n\n", ""),
        ("    C[size_t(row) * N + column] =", "    if (row < M && column < N) C[size_t(row) * N + column] ="),
    ],
}
