"""Planted bugs in appendix_fitted_tiles: C computed transposed, A shared by two CTAs, quarters that are no 64 rows."""

from dataclasses import replace
from functools import partial

from helpers.bugs.bug import VERIFY, Bug
from helpers.rungs import Box, fitted_tiles

_STORED = "const int m0 = (next & 0xffff) * HEIGHT, n0 = ((next >> 16) * CLUSTER + rank) * BN + consumer * 64;"
_BELOW = "const int m0 = ((next & 0xffff) * CLUSTER + rank) * HEIGHT, n0 = (next >> 16) * CLUSTER * BN + consumer * 64;"
_BESIDE = "row = thread % 8, chunk = thread / 32 * 2 + thread / 8 % 2;"
_UNDER = "row = thread % 16, chunk = thread / 32 * 2;"
_SWIZZLE = "(chunk ^ row) * 8;"

# One tile of a cluster, five steps: each of the two stages is used again. A quarter of the tile has 56 rows.
_RUNG, _DEFINES = fitted_tiles(224, stages=2)
_fitted = partial(Bug, rung=_RUNG, defines=_DEFINES, size=(224, 256, 320), sms=2)

BUGS: tuple[Bug, ...] = (
    _fitted(
        name="majors_not_exchanged",
        fault="A and B change places as operands of wgmma, and what is said of their layouts does not",
        why="The tensor cores walk each operand along the wrong direction, and beyond what was loaded.",
        reports=(("wgmma_unwritten", "check the descriptor's address and byte offsets against the boxes"),),
        size=(224, 256, 64),   # one step: the other stage is empty
        edits=(("wgmma_m64n224k16<Major::MN, Major::K>", "wgmma_m64n224k16<Major::K, Major::MN>"),),
    ),
    _fitted(
        name="upper_half_from_both",
        fault="both CTAs send the upper half of A's rows, and neither the lower half",
        why="The bytes add up, so nobody waits in vain: the lower half is multiplied as it was before.",
        reports=(
            ("wgmma_unwritten", "multiplies with B from memory to which nothing was written"),
            ("load_over_load", "give each box its own place"),
        ),
        edits=(("half = rank * (BLOCKS / CLUSTER);", "half = 0;"),),
    ),
    _fitted(
        name="peer_below",
        fault="the CTAs of a cluster store one below the other, as in 10_clusters, and they multiply side by side",
        why="The second one's columns are never written, and its sums lie in rows that are not theirs.",
        reports=((VERIFY, "columns 128 to 255 were never written; this is tile (0, 1) of 224 x 128"),),
        edits=((_STORED, _BELOW),),
    ),
    _fitted(
        name="second_matrix_below",
        fault="the second matrix of an stmatrix is written below the first, and belongs beside it",
        why="wgmma's rows are columns of C here: its rows 8 to 15 are the next chunk, which nobody writes.",
        reports=(("out_of_bounds", "past the end of shared_memory"), ("race", "no barrier between")),
        edits=((_BESIDE, _UNDER), (_SWIZZLE, _SWIZZLE.replace("row", "row % 8"))),
    ),
    _fitted(
        name="box_of_64_rows",
        fault="the tensor map of C has a box of 64 rows, and a quarter of the tile has 56",
        why="Each store takes eight rows more than the staging box has, from what lies behind it.",
        reports=(
            ("out_of_bounds", "past the end of shared_memory"),
            ("store_unwritten", "all threads must have written their part"),
            ("write_over_store", "may still read"),
        ),
        rung_fields={"maps": replace(_RUNG.maps, C=Box(64, 64))},
    ),
)
