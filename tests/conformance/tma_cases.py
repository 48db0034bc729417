"""Boxes that TMA loads and stores: shapes, places in and beside the matrix, swizzles, multicast, cache policies.

A box begins at a multiple of 16 bytes of a row, and a stored one at no negative coordinate, or the GPU stops:
`refused_cases`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from helpers.arrays import BFLOAT16

from . import oracle
from .cases import Arrays, Box, Case, Refusal, random_state, unwritten

ROWS, COLUMNS = 72, 200     # of the matrix that is read: no multiple of a box
OUT_ROWS, OUT_COLUMNS = 40, 104
TILE_SHARED = 16384 + 1024  # kernels/tma_load.cu, Shared
RING_SHARED = 13 * 1024     # the same, Ring
FAR, FAR_COLUMN = 2**31 - 1, 2**31 - 8   # a column is a multiple of 8
SWIZZLES = {"none": "none", "128B": "swizzled"}   # as a map has it, as a case's name has it
PLACES = (
    (0, 0), (8, 0), (16, 3), (64, 16), (136, 56),   # inside; the last ends with the matrix
    (-8, 0), (-24, 0), (-56, 2), (-64, 0), (0, -1), (0, -15), (0, -16), (-24, -7),   # before it
    (144, 0), (176, 5), (192, 0), (200, 0), (0, 57), (8, 71), (0, 72), (152, 60),   # past the end
    (-8, 60), (152, -3), (1 << 20, 0), (0, 1 << 20), (FAR_COLUMN, 0), (-FAR - 1, 0), (0, FAR), (0, -FAR - 1),
)  # fmt: skip


def numbered(rows: int, columns: int) -> np.ndarray:
    """A matrix whose elements' bits are all different, so that a misplaced one is known. Copies don't mind NaN."""
    return np.arange(rows * columns, dtype=np.uint16).reshape(rows, columns).view(BFLOAT16)


def place_name(place: tuple[int, int]) -> str:
    return f"x{place[0]}_y{place[1]}"


def load_cases() -> Iterator[Case]:
    """One box into a tile."""
    for swizzle, word in SWIZZLES.items():
        for place in PLACES:
            yield load(f"{word}_64x16_{place_name(place)}", (64, 16), swizzle, place)
        yield load(f"{word}_offset", (64, 8), swizzle, (40, 9), offset=3072 if swizzle == "128B" else 384)
        for policy, name in ((1, "evict_first"), (2, "evict_last")):
            yield load(f"{word}_{name}", (64, 8), swizzle, (24, 65), policy=policy)
        yield load(f"{word}_small_matrix", (64, 16), swizzle, (0, 0), matrix=(5, 40))
        # The matrix ends amid a row of its array, and amid 16 bytes.
        for place in ((0, 0), (-32, -9), (-24, 3), (32, 2), (40, 0)):
            yield load(f"{word}_part_of_a_row_{place_name(place)}", (64, 16), swizzle, place, view=(9, 37))
        yield load(f"{word}_one_column", (64, 16), swizzle, (-56, 1), view=(9, 1))
    for box in ((64, 1), (64, 3), (64, 64), (64, 72)):
        yield load(f"swizzled_{box[0]}x{box[1]}", box, "128B", (72, 2))
    for box in ((8, 1), (8, 8), (24, 5), (8, 100), (128, 4), (256, 3), (64, 64)):
        yield load(f"none_{box[0]}x{box[1]}", box, "none", (72, 2))


def load(
    name: str,
    box: tuple[int, int],
    swizzle: str,
    place: tuple[int, int],
    matrix: tuple[int, int] = (ROWS, COLUMNS),
    view: tuple[int, int] | None = None,
    offset: int = 0,
    policy: int = 0,
) -> Case:
    box_bytes = 2 * box[0] * box[1]
    extent = oracle.box_places(box, swizzle, offset).max() + 1
    dump_bytes = -(-int(extent) // 1024) * 1024   # with what must not have been written

    def expected(inputs: Arrays) -> Arrays:
        rows, columns = view or matrix
        tile = oracle.filled_tile(dump_bytes)
        oracle.put_box(tile, oracle.box_of(inputs["matrix"][:rows, :columns], box, *place), swizzle, offset)
        return {"dump": tile}

    return Case(
        name=f"tma_load/{name}",
        file="tma_load.cu",
        entry="load_box",
        arguments=(Box("matrix", box, swizzle, view), "dump", dump_bytes, *place, offset, box_bytes, policy),
        inputs=lambda: {"matrix": numbered(*matrix), "dump": unwritten(dump_bytes)},
        outputs=("dump",),
        expected=expected,
        shared_bytes=TILE_SHARED,
    )


def two_loads() -> Iterator[Case]:
    """Two maps, one barrier."""
    boxes = (Box("matrix", (64, 16), "128B"), Box("matrix", (32, 8), "none"))
    sizes, dump_bytes, x, y = (2048, 512), 3072, 24, 64   # x and y change places for the second

    def expected(inputs: Arrays) -> Arrays:
        tile = oracle.filled_tile(dump_bytes)
        oracle.put_box(tile, oracle.box_of(inputs["matrix"], boxes[0].box, x, y), "128B")
        oracle.put_box(tile, oracle.box_of(inputs["matrix"], boxes[1].box, y, x), "none", 2048)
        return {"dump": tile}

    yield Case(
        name="tma_load/two_maps_one_barrier",
        file="tma_load.cu",
        entry="load_two",
        arguments=(*boxes, "dump", dump_bytes, x, y, 2048, sum(sizes)),
        inputs=lambda: {"matrix": numbered(ROWS, COLUMNS), "dump": unwritten(dump_bytes)},
        outputs=("dump",),
        expected=expected,
        shared_bytes=TILE_SHARED,
    )


def narrow_cases() -> Iterator[Case]:
    """Boxes whose rows are shorter than the 128 bytes of their swizzle.

    No documentation says where rows begin, nor what the barrier gets: an H200 lets them begin every 128 bytes, leaves
    the gaps as they are, and counts the box's own bytes. A barrier that expects the gaps too waits for ever.
    """
    for columns, rows in ((32, 16), (8, 8)):
        for place in ((24, 5), (-8, -3), (184, 68)):
            yield load(f"narrow_{columns}x{rows}_{place_name(place)}", (columns, rows), "128B", place)
        yield store(f"narrow_{columns}x{rows}", (columns, rows), "128B", (24, 5))
        yield expects_gaps((columns, rows))
    yield store("narrow_clipped", (24, 16), "128B", (80, 30), view=(33, 99))


def expects_gaps(box: tuple[int, int]) -> Case:
    place = 24, 5

    def expected(inputs: Arrays) -> Arrays:
        tile = oracle.filled_tile(4096)
        oracle.put_box(tile, oracle.box_of(inputs["matrix"], box, *place), "128B")
        return {"dump": tile, "landed": np.zeros(1, np.int32)}

    return Case(
        name=f"tma_load/narrow_{box[0]}x{box[1]}_expects_gaps",
        file="tma_load.cu",
        entry="probe_box",
        arguments=(Box("matrix", box), "dump", "landed", 4096, *place, 128 * box[1]),
        inputs=lambda: {
            "matrix": numbered(ROWS, COLUMNS), "dump": unwritten(4096), "landed": unwritten(1, np.int32),
        },
        outputs=("dump", "landed"),
        expected=expected,
        shared_bytes=TILE_SHARED,
        hardware_only=True,
    )  # fmt: skip


def multicast_cases() -> Iterator[Case]:
    """Boxes to both CTAs of a cluster: each loads a half, or one loads for the other."""
    for swizzle, word in SWIZZLES.items():
        for masks in ((3, 3), (1, 2), (2, 1), (3, 0), (0, 1), (2, 2)):
            yield multicast(f"{word}_masks_{masks[0]}_{masks[1]}", swizzle, (40, 20), masks)
        for place in ((-24, -3), (184, 60), (152, 72), (0, -32)):
            yield multicast(f"{word}_{place_name(place)}", swizzle, place, (3, 3))
        for policy, name in ((1, "evict_first"), (2, "evict_last")):
            yield multicast(f"{word}_{name}", swizzle, (64, 40), (3, 3), policy)


def multicast(name: str, swizzle: str, place: tuple[int, int], masks: tuple[int, int], policy: int = 0) -> Case:
    box, half_bytes, dump_bytes = (64, 16), 2048, 5120

    def expected(inputs: Arrays) -> Arrays:
        tiles = [oracle.filled_tile(dump_bytes) for _ in range(2)]
        for source, mask in enumerate(masks):
            part = oracle.box_of(inputs["matrix"], box, place[0], place[1] + source * box[1])
            for cta in range(2):
                if mask >> cta & 1:
                    oracle.put_box(tiles[cta], part, swizzle, source * half_bytes)
        return {"dump": np.stack(tiles)}

    return Case(
        name=f"tma_multicast/{name}",
        file="tma_load.cu",
        entry="load_multicast",
        arguments=(Box("matrix", box, swizzle), "dump", dump_bytes, *place, box[1], half_bytes, *masks, policy),
        inputs=lambda: {"matrix": numbered(ROWS, COLUMNS), "dump": unwritten((2, dump_bytes))},
        outputs=("dump",),
        expected=expected,
        grid=(2,),
        cluster=(2, 1, 1),
        shared_bytes=TILE_SHARED,
    )


def ring_cases() -> Iterator[Case]:
    """A ring of three slots, through several phases; the last boxes are partly and wholly below the matrix."""
    boxes, box = 11, (64, 8)

    def expected(swizzle: str, inputs: Arrays) -> Arrays:
        dump = np.empty((boxes, 2 * box[0] * box[1]), np.uint8)
        for number in range(boxes):
            oracle.put_box(dump[number], oracle.box_of(inputs["matrix"], box, 32, number * box[1]), swizzle)
        return {"dump": dump}

    for swizzle, word in SWIZZLES.items():
        yield Case(
            name=f"tma_load/ring_{word}",
            file="tma_load.cu",
            entry="load_ring",
            arguments=(Box("matrix", box, swizzle), "dump", boxes, 32, box[1], 2 * box[0] * box[1]),
            inputs=lambda: {"matrix": numbered(77, 104), "dump": unwritten((boxes, 2 * box[0] * box[1]))},
            outputs=("dump",),
            expected=partial(expected, swizzle),
            block=(64,),
            shared_bytes=RING_SHARED,
        )


def store_cases() -> Iterator[Case]:
    """One box from a tile to the matrix, clipped where it reaches beyond: to whole 16 bytes of a row."""
    places = (
        (0, 0), (8, 8), (16, 3), (40, 24),   # inside; the last ends with the matrix
        (48, 0), (96, 3), (104, 0), (0, 25), (8, 39), (0, 40), (72, 30), (96, 39), (104, 40),
        (1 << 20, 0), (0, 1 << 20), (FAR_COLUMN, 0), (0, FAR), (FAR_COLUMN, FAR),
    )
    for swizzle, word in SWIZZLES.items():
        for place in places:
            yield store(f"{word}_64x16_{place_name(place)}", (64, 16), swizzle, place)
        yield store(f"{word}_offset", (64, 8), swizzle, (8, 9), offset=3072 if swizzle == "128B" else 384)
        for policy, name in ((1, "evict_first"), (2, "evict_last")):
            yield store(f"{word}_{name}", (64, 8), swizzle, (24, 35), policy=policy)
        for place in ((0, 0), (8, 2), (24, 3), (32, 3), (40, 0)):
            yield store(f"{word}_part_of_a_row_{place_name(place)}", (64, 16), swizzle, place, view=(9, 37))
        for columns in (1, 8, 39, 97, 103):
            yield store(f"{word}_{columns}_columns", (64, 16), swizzle, (max(0, columns // 8 * 8 - 32), 35),
                        view=(OUT_ROWS, columns))
    for box in ((8, 1), (24, 5), (96, 3), (8, 64)):
        yield store(f"none_{box[0]}x{box[1]}", box, "none", (40, 2))
    for swizzle, word in SWIZZLES.items():
        for step in (8, 13):
            yield store_groups(f"{word}_groups_{step}_rows_apart", swizzle, step)


def image_of(size: int, seed: int) -> np.ndarray:
    return random_state(seed).randint(0, 256, size, dtype=np.uint8)


def store(
    name: str,
    box: tuple[int, int],
    swizzle: str,
    place: tuple[int, int],
    view: tuple[int, int] | None = None,
    offset: int = 0,
    policy: int = 0,
) -> Case:
    image_bytes = -(-int(oracle.box_places(box, swizzle, offset).max() + 1) // 16) * 16

    def expected(inputs: Arrays) -> Arrays:
        matrix = inputs["matrix"].copy()
        oracle.write_box(matrix, oracle.take_box(inputs["image"], box, swizzle, offset), *place, view)
        return {"matrix": matrix}

    return Case(
        name=f"tma_store/{name}",
        file="tma_store.cu",
        entry="store_box",
        arguments=(Box("matrix", box, swizzle, view), "image", image_bytes, *place, offset, policy),
        inputs=lambda: {
            "matrix": unwritten((OUT_ROWS, OUT_COLUMNS), BFLOAT16), "image": image_of(image_bytes, sum(box)),
        },
        outputs=("matrix",),
        expected=expected,
        shared_bytes=4096,
    )  # fmt: skip


def store_groups(name: str, swizzle: str, step: int) -> Case:
    box, box_bytes, x, y = (64, 8), 1024, 24, 3

    def expected(inputs: Arrays) -> Arrays:
        matrix = inputs["matrix"].copy()
        for number in range(3):
            part = oracle.take_box(inputs["image"], box, swizzle, number * box_bytes)
            oracle.write_box(matrix, part, x, y + number * step)
        return {"matrix": matrix}

    return Case(
        name=f"tma_store/{name}",
        file="tma_store.cu",
        entry="store_groups",
        arguments=(Box("matrix", box, swizzle), "image", box_bytes, x, y, step),
        inputs=lambda: {
            "matrix": unwritten((OUT_ROWS, OUT_COLUMNS), BFLOAT16), "image": image_of(3 * box_bytes, step),
        },
        outputs=("matrix",),
        expected=expected,
        shared_bytes=4096,
    )  # fmt: skip


def refused_cases() -> Iterator[Case]:
    """Boxes that begin amid 16 bytes of a row, inside, before and past the matrix; stored ones that begin before it."""
    for case, x in (
        (load("refused_x70_y2", (64, 16), "128B", (70, 2)), 70),
        (load("refused_x204_y0", (8, 8), "none", (204, 0)), 204),   # all of it beyond, and a multiple of 8 bytes
        (multicast("refused_x-20_y-3", "128B", (-20, -3), (3, 3)), -20),
        (store("refused_x3_y5", (64, 16), "none", (3, 5)), 3),
    ):
        yield replace(case, expected=None, refused=Refusal("illegal instruction", "tma_coordinate", f"x = {x}, "))
    for swizzle, place, words in (
        ("none", (-8, 0), "x = -8, "), ("128B", (-64, 40), "x = -64, "),   # the second has no part in the matrix
        ("128B", (0, -1), "y = -1, "), ("none", (104, -16), "y = -16, "),
        ("none", (-FAR - 1, -FAR - 1), f"x = {-FAR - 1}, "),
    ):
        case = store(f"refused_{place_name(place)}", (64, 16), swizzle, place)
        yield replace(case, expected=None, refused=Refusal("illegal instruction", "tma_coordinate", words))
