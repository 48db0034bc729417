"""wgmma: who owns what, both majors of both operands, every N, both swizzles, offsets, steps, groups."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from helpers.arrays import BFLOAT16

from . import oracle
from .cases import Arrays, Box, Case, random_state, unwritten

SHARED_BYTES = 97 * 1024   # kernels/wgmma.cu, Shared
WIDTHS = (64, 128, 192, 224, 256)
MAJORS = ("K", "MN")
# kernels/wgmma.cu, Setup
SETUP = np.dtype([(name, "<i4") for name in (
    "a_bytes", "b_bytes", "a_major", "a_leading", "a_stride", "a_step", "b_major", "b_leading", "b_stride", "b_step",
    "swizzle", "steps", "accumulate", "initial_bits",
)])  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """How an operand lies in shared memory.

    leading, stride: the descriptor's offsets in bytes. step: bytes from 16 k to the next. size: of the image.
    """

    major: str
    leading: int
    stride: int
    step: int
    size: int


def operand(extent: int, major: str, swizzle: str, steps: int, pad: int = 0) -> Operand:
    """The usual layout of `extent` x (16 * steps) values; `pad` bytes are added to each offset."""
    if swizzle == "128B" and major == "K":    # rows of 128 bytes: 64 k
        return Operand("K", 16, 1024 + pad, 32, extent // 8 * (1024 + pad))
    if swizzle == "128B":                     # k in rows of 128 bytes: 64 of M or N
        leading = steps * 2048 + pad
        return Operand("MN", leading, 1024, 2048, -(-extent // 64) * leading)
    if major == "K":                          # column after column of 8 k
        leading = extent * 16 + pad
        return Operand("K", leading, 128, 2 * leading, 2 * steps * leading)
    stride = 16 * steps * 16 + pad            # strip after strip of 8 of M or N
    return Operand("MN", 128, stride, 256, extent // 8 * stride)


def small_integers(size: int, seed: int) -> np.ndarray:
    """An image full of bf16 integers from -1 to 2, each wrong address a wrong sum; few values compress well."""
    values = np.array([-1, 0, 0, 0, 1])[random_state(seed).randint(0, 5, size // 2)]
    return values.astype(BFLOAT16).view(np.uint8)


def setup_of(a: Operand, b: Operand, swizzle: str, steps: int, accumulate: bool, initial: float) -> np.ndarray:
    value = np.zeros(1, SETUP)
    value[0] = (
        a.size, b.size, MAJORS.index(a.major), a.leading, a.stride, a.step // 16,
        MAJORS.index(b.major), b.leading, b.stride, b.step // 16,
        int(swizzle == "128B"), steps, int(accumulate), np.float32(initial).view(np.int32),
    )  # fmt: skip
    return value


def product(inputs: Arrays, n: int, a: Operand, b: Operand, swizzle: str, steps: range, a_start: int = 0) -> np.ndarray:
    """The sum (64, n) of the products of these steps."""
    total = np.zeros((64, n), np.float32)
    for step in steps:
        left = oracle.operand(
            inputs["a_image"], 64, a.major, a.leading, a.stride, swizzle, a_start + step * a.step
        )
        right = oracle.operand(inputs["b_image"], n, b.major, b.leading, b.stride, swizzle, step * b.step)
        total += left @ right.T
    return total


def one_group(
    name: str,
    n: int,
    a: Operand,
    b: Operand,
    swizzle: str,
    steps: int = 1,
    accumulate: bool = False,
    initial: float = 0.0,
    images: tuple[np.ndarray, np.ndarray] | None = None,
) -> Case:
    def inputs() -> Arrays:
        a_image, b_image = images or (small_integers(a.size, n), small_integers(b.size, n + 1))
        return {"a_image": a_image.copy(), "b_image": b_image.copy(), "dump": unwritten((128, n // 2), np.float32)}

    def expected(given: Arrays) -> Arrays:
        sums = oracle.fragments(product(given, n, a, b, swizzle, range(steps)))
        if accumulate:
            sums = sums + np.float32(initial) + np.arange(n // 2, dtype=np.float32)
        return {"dump": sums}

    return Case(
        name=f"wgmma/{name}",
        file="wgmma.cu",
        entry=f"wgmma_n{n}",
        arguments=("a_image", "b_image", "dump", setup_of(a, b, swizzle, steps, accumulate, initial)),
        inputs=inputs,
        outputs=("dump",),
        expected=expected,
        shared_bytes=SHARED_BYTES,
    )


def advanced_cases() -> Iterator[Case]:
    """Descriptors that are moved on and back, with and without a swizzle."""
    for swizzle in ("128B", "none"):
        a, b = operand(64, "K", swizzle, 4), operand(64, "MN", swizzle, 4)
        yield replace(one_group(f"advanced_{swizzle.lower()}", 64, a, b, swizzle, 4), entry="wgmma_advanced")


def ownership_cases() -> Iterator[Case]:
    """D[m, n] = 256 m + n: the dump tells which element each register is."""
    for n in WIDTHS:
        a, b = operand(64, "K", "none", 1), operand(n, "K", "none", 1)
        left, right = np.zeros((64, 16)), np.zeros((n, 16))
        left[:, 0], right[:, 0] = np.arange(64), 256
        left[:, 1], right[:, 1] = 1, np.arange(n)
        images = tuple(
            # Column after column of 8 k: (extent, 2, 8) -> (2, extent, 8).
            values.reshape(-1, 2, 8).transpose(1, 0, 2).astype(BFLOAT16).reshape(-1).view(np.uint8)
            for values in (left, right)
        )
        yield one_group(f"ownership_n{n}", n, a, b, "none", images=images)


def layout_cases() -> Iterator[Case]:
    """Majors, swizzles and widths; several steps within a swizzle atom; unusual offsets."""
    for a_major in MAJORS:
        for b_major in MAJORS:
            majors = f"{a_major.lower()}_{b_major.lower()}"
            for n in WIDTHS:
                yield usual(f"swizzled_{majors}_n{n}", n, a_major, b_major, "128B", steps=4 if n <= 128 else 2)
            for n in (64, 128, 224, 256):
                yield usual(f"none_{majors}_n{n}", n, a_major, b_major, "none", steps=2 if n <= 128 else 1)
            yield usual(f"swizzled_{majors}_one_step", 64, a_major, b_major, "128B", steps=1)
            yield usual(f"swizzled_{majors}_padded", 128, a_major, b_major, "128B", steps=2, pad=1024)
            yield usual(f"none_{majors}_padded", 128, a_major, b_major, "none", steps=2, pad=48)
    # Offsets the other way round: the nearest neighbour along K instead of along M and N, and the reverse.
    yield one_group("none_k_neighbours_along_k", 64, Operand("K", 128, 256, 64 * 32, 4096),
                    Operand("K", 128, 256, 64 * 32, 4096), "none", steps=2)
    yield one_group("none_mn_neighbours_along_mn", 64, Operand("MN", 1024, 128, 2048, 4096),
                    Operand("MN", 1024, 128, 2048, 4096), "none", steps=2)
    yield one_group("swizzled_mn_groups_of_64_between_k", 128, Operand("MN", 2048, 1024, 2048, 4096),
                    Operand("MN", 1024, 2048, 4096, 8192), "128B", steps=2)
    # Offsets that the layout does not use may be anything.
    for unused in (0, 4096):
        yield one_group(f"swizzled_k_unused_leading_{unused}", 64, Operand("K", unused, 1024, 32, 8192),
                        Operand("K", unused, 1024, 32, 8192), "128B", steps=4)
        yield one_group(f"swizzled_mn_unused_leading_{unused}", 64, Operand("MN", unused, 1024, 2048, 8192),
                        Operand("MN", unused, 1024, 2048, 8192), "128B", steps=4)


def usual(name: str, n: int, a_major: str, b_major: str, swizzle: str, steps: int, pad: int = 0) -> Case:
    a, b = operand(64, a_major, swizzle, steps, pad), operand(n, b_major, swizzle, steps, pad)
    return one_group(name, n, a, b, swizzle, steps)


def accumulation_cases() -> Iterator[Case]:
    """Whether the accumulators' old values count, for one step and several."""
    a, b = operand(64, "K", "128B", 4), operand(64, "MN", "128B", 4)
    for steps in (1, 3):
        for accumulate in (False, True):
            yield one_group(f"accumulate_{accumulate}_steps_{steps}".lower(), 64, a, b, "128B", steps, accumulate, 64.0)
    yield one_group("accumulate_false_over_nan", 64, a, b, "128B", 2, False, float("nan"))


def group_cases() -> Iterator[Case]:
    """Several groups in flight; two warpgroups; operands that came by TMA."""
    a, b = operand(64, "K", "128B", 4), operand(64, "K", "128B", 4)

    def groups(inputs: Arrays) -> Arrays:
        parts = [product(inputs, 64, a, b, "128B", range(step, step + 1)) for step in range(4)]
        first = 1 + parts[0]
        dumps = (first, parts[1] + parts[2] + parts[3], first + parts[1])
        return {"dump": np.stack([oracle.fragments(dump.astype(np.float32)) for dump in dumps])}

    yield Case(
        name="wgmma/groups_in_flight",
        file="wgmma.cu",
        entry="wgmma_groups",
        arguments=("a_image", "b_image", "dump", setup_of(a, b, "128B", 4, False, 0.0)),
        inputs=lambda: {
            "a_image": small_integers(a.size, 1), "b_image": small_integers(b.size, 2),
            "dump": unwritten((3, 128, 32), np.float32),
        },
        outputs=("dump",),
        expected=groups,
        shared_bytes=SHARED_BYTES,
    )  # fmt: skip

    both = Operand("K", a.leading, a.stride, a.step, 2 * a.size)

    def warpgroups(inputs: Arrays) -> Arrays:
        tiles = [product(inputs, 64, a, b, "128B", range(4), a_start=part * a.size) for part in range(2)]
        return {"dump": np.concatenate([oracle.fragments(tile) for tile in tiles])}

    yield Case(
        name="wgmma/two_warpgroups",
        file="wgmma.cu",
        entry="wgmma_warpgroups",
        arguments=("a_image", "b_image", "dump", setup_of(both, b, "128B", 4, False, 0.0)),
        inputs=lambda: {
            "a_image": small_integers(both.size, 3), "b_image": small_integers(b.size, 4),
            "dump": unwritten((256, 32), np.float32),
        },
        outputs=("dump",),
        expected=warpgroups,
        block=(256,),
        shared_bytes=SHARED_BYTES,
    )  # fmt: skip

    def integer_matrix(rows: int, columns: int, seed: int) -> np.ndarray:
        return small_integers(2 * rows * columns, seed).view(BFLOAT16).reshape(rows, columns)

    yield Case(
        name="wgmma/operands_through_tma",
        file="wgmma.cu",
        entry="wgmma_tma",
        arguments=(Box("A", (64, 64)), Box("B", (64, 64)), "dump"),
        inputs=lambda: {
            "A": integer_matrix(64, 64, 5), "B": integer_matrix(64, 128, 6), "dump": unwritten((128, 64), np.float32),
        },
        outputs=("dump",),
        expected=lambda inputs: {
            "dump": oracle.fragments(inputs["A"].astype(np.float32) @ inputs["B"].astype(np.float32))
        },
        shared_bytes=SHARED_BYTES,
    )  # fmt: skip
