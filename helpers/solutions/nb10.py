"""Solutions of notebook 10."""


def address(thread: int, store: int) -> int:
    warp, lane = divmod(thread, 32)
    row = 16 * warp + 8 * (lane // 16) + lane % 8
    chunk = 2 * store + lane // 8 % 2
    return row * 128 + (chunk ^ row % 8) * 16


SOLUTIONS = {
    "10.1": (24576, 49152, 24),
    "10.2": address,
    "10.3": [
        (
            "        if (lane == 0) mbarrier_arrive(&shared.empty[stage]);\n    } else {",
            "        if (lane < CLUSTER) mbarrier_arrive_cluster(&shared.empty[stage], lane);\n    } else {",
        ),
        ("shared.empty[stage], CONSUMERS * WARPS);", "shared.empty[stage], READERS * CONSUMERS * WARPS);"),
    ],
    "10.4": [("cp_async_bulk_wait_group_read<2>", "cp_async_bulk_wait_group_read<1>")],
}
