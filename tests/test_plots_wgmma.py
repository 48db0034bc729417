"""Pictures of descriptors and fragments: legible, described in words, and true to their models."""

import numpy as np
import pytest
from picture_checks import require_legible

from helpers.errors import ArgumentError
from helpers.models.descriptor import Descriptor
from helpers.models.machine import WARP
from helpers.plots.descriptor import descriptor_bits, operand_steps
from helpers.plots.fragments import fragment_map, store_rows

A = [Descriptor(32 * step, 16, 1024) for step in range(4)]
B = [Descriptor(32768 + 2048 * step, 8192, 1024) for step in range(4)]
LANES = np.arange(WARP)
PAIRS = LANES // 4 * 256 + LANES % 4 * 4
FOURS = LANES // 4 * 256 + LANES % 2 * 16 + LANES % 4 // 2 * 8

PICTURES = {   # name: (draws it, what its alt text must say)
    "bits": (lambda: descriptor_bits(B[2], "B"),
             ["B: 0x4000004002000900", "leading offset: 512 x 16 = 8,192", "swizzle mode: 1 = 128B"]),
    "all bits": (lambda: descriptor_bits(Descriptor(262128, 262128, 262128, "32B")), ["16,383 x 16 = 262,128"]),
    "steps": (lambda: operand_steps(A, B),
              ["begin at bytes 0, 32, 64, 96", "32,768, 34,816", "8,192 bytes, to n = 64"]),
    "steps of warpgroup 1": (lambda: operand_steps([Descriptor(8192 + 32 * s, 16, 1024) for s in range(4)], B, rows=16),
                             ["8,192, 8,224"]),
    "one step": (lambda: operand_steps(A[:1], B[:1], rows=8), ["begin at bytes 0;"]),
    "fragments": (fragment_map, ["Thread 38, lane 6 of warp 1, holds 64 elements, in rows 17 and 25: columns 4 and 5"]),
    "fragments of N = 256": (lambda: fragment_map(127, 256), ["holds 128 elements, in rows 55 and 63"]),
    "stores": (lambda: store_rows({"pairs": (PAIRS, 4), "fours": (FOURS, 8)}, 256),
               ["pairs: 8 sectors, 128 of 256 bytes", "fours: 8 sectors, 256 of 256 bytes"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


@pytest.mark.parametrize(
    "draw, words",
    [
        (lambda: operand_steps(A, B[:3]), "a has 4 steps and b 3"),
        (lambda: operand_steps([], []), "a is .*: it must be a list of at least one Descriptor"),
        (lambda: fragment_map(128), "thread is 128"),
        (lambda: store_rows({"far": (LANES * 256, 4)}, 256), "over 32 rows"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, words):
    with pytest.raises(ArgumentError, match=words):
        draw()
