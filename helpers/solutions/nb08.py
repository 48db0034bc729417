"""Solutions of notebook 8."""


def bigger(curve: list[list[int]]) -> list[list[int]]:
    side = round(len(curve) ** 0.5)
    return [
        *([n, m] for m, n in curve),
        *([m, n + side] for m, n in curve),
        *([m + side, n + side] for m, n in curve),
        *([2 * side - 1 - n, side - 1 - m] for m, n in curve),
    ]


SOLUTIONS = {
    "08.1": (16, 8, 512),
    "08.2": bigger,
    "08.3": [
        (
            "    const int tile = order[blockIdx.x];\n"
            "    const int m0 = (tile & 0xffff) * BM, n0 = (tile >> 16) * BN;\n",
            "    const int m_tiles = (M + BM - 1) / BM, n_tiles = (N + BN - 1) / BN;\n"
            "    const int first = blockIdx.x / (4 * n_tiles) * 4;   // row of tiles, of the band\n"
            "    const int height = min(4, m_tiles - first), inside = blockIdx.x - first * n_tiles;\n"
            "    const int m0 = (first + inside % height) * BM, n0 = inside / height * BN;\n",
        ),
    ],
    "08.4": [("n_tiles - column", "n_tiles - 1 - column")],
}
