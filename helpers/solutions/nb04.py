"""Solutions of notebook 4."""


def place(row: int, chunk: int) -> int:
    return chunk ^ (row // 2 % 4)


SOLUTIONS = {
    "04.1": (5, 2896),
    "04.2": place,
    "04.3": [
        (
            "B_tile[to_box * BOX_CHUNKS + chunk_index(row, chunk)]",
            "B_tile[to_box * BOX_CHUNKS + row * ROW_CHUNKS + chunk]",
        ),
        (
            "B_tile[box * BOX_CHUNKS + chunk_index(k_chunk * CHUNK + k, thread_chunk + 4 * j)]",
            "B_tile[box * BOX_CHUNKS + (k_chunk * CHUNK + k) * ROW_CHUNKS + thread_chunk + 4 * j]",
        ),
    ],
    "04.4": [
        ("warp / 4 * 64 + lane % 8 * 8;", "warp / 4 * 64 + lane % 8;"),
        ("chunk_index(thread_row + i, k_chunk)", "chunk_index(thread_row + 8 * i, k_chunk)"),
        ("C_chunks[(thread_row + i) * B_stride", "C_chunks[(thread_row + 8 * i) * B_stride"),
    ],
}
