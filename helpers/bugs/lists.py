"""Planted bugs in rungs 8 and 9: lists of tiles, and CTAs that compute several."""

from helpers.bugs.bug import VERIFY, Bug
from helpers.bugs.host import move_last_tile_out, of_orders, repeat_first_tile

_STAGES = {"STAGES": 2}
_TWO = (256, 256, 64)          # two tiles, one below the other
_ONE_CTA = (256, 256, 192)     # the same, three steps each, for one CTA
_SUMS, _ADD = "        float sums[BN / 2];\n", "sums, a, b, step > 0 || k > 0);"
_NEVER = ((VERIFY, "never written; this is tile (1, 0) of 128 x 256"),)
_LIST = (
    "    const int tile = order[blockIdx.x];\n"
    "    const int m0 = (tile & 0xffff) * BM, n0 = (tile >> 16) * BN;\n"
)
_SNAKE = """    // Row by row, as a snake: every second row of tiles from right to left.
    const int n_tiles = (N + BN - 1) / BN, row = blockIdx.x / n_tiles, column = blockIdx.x % n_tiles;
    const int m0 = row * BM, n0 = (row % 2 == 0 ? column : n_tiles - column) * BN;
"""
_WALK = "for (int i = blockIdx.x; i < tiles; i += gridDim.x) {\n            const int m0 = (order[i]"

BUGS: tuple[Bug, ...] = (
    Bug(
        name="entry_after_ones_own",
        rung=8,
        fault="each CTA takes the entry of the list after its own",
        why="The first tile is never computed, and the last CTA reads beyond the list.",
        reports=(("out_of_bounds", "past the end of order"),),
        size=_TWO,
        edits=(("order[blockIdx.x]", "order[blockIdx.x + 1]"),),
        defines=_STAGES,
    ),
    Bug(
        name="rows_and_columns_exchanged",
        rung=8,
        fault="the column of a tile is taken for its row",
        why="Tiles beyond C are computed and thrown away, others never are.",
        reports=_NEVER,
        size=_TWO,
        edits=(("(tile & 0xffff) * BM, n0 = (tile >> 16) * BN", "(tile >> 16) * BM, n0 = (tile & 0xffff) * BN"),),
        defines=_STAGES,
    ),
    Bug(
        name="tile_twice_in_the_list",
        rung=8,
        fault="the list has one tile twice and another never",
        why="Part of C keeps what was in its memory.",
        reports=_NEVER,
        size=_TWO,
        defines=_STAGES,
        make_change=lambda: of_orders(repeat_first_tile),
    ),
    Bug(
        name="tile_outside_of_c",
        rung=8,
        fault="the list has a tile that lies outside of C",
        why="TMA brings zeros for it and nothing is stored; a tile of C is never computed.",
        reports=_NEVER,
        size=_TWO,
        defines=_STAGES,
        make_change=lambda: of_orders(move_last_tile_out),
    ),
    Bug(
        name="snake_begins_outside",
        rung=8,
        fault="every second row of tiles is walked from right to left, and begins one tile too far on the right",
        why="That tile lies outside of C, and the row's first tile is never computed.",
        reports=_NEVER,
        size=(256, 768, 64),
        edits=((_LIST, _SNAKE),),
        defines=_STAGES,
    ),
    Bug(
        name="place_begins_anew",
        rung=9,
        fault="the consumers begin each tile at the first stage, and the producer goes on",
        why="The two sides disagree about the stage as soon as a tile's steps don't fill the ring twice.",
        reports=(
            ("deadlock", "for a phase of parity"),
            ("wgmma_before_load", "with the parity of this phase"),
            ("load_over_wgmma", "that the wgmma of"),
        ),
        size=_ONE_CTA,
        edits=((_WALK, _WALK.replace("const int m0", "place = Place();\n            const int m0")),),
        defines=_STAGES,
        sms=1,
    ),
    Bug(
        name="sums_of_two_tiles",
        rung=9,
        fault="the accumulators are not begun anew at the second tile",
        why="Each tile holds the sum of all that its CTA computed before it.",
        reports=((VERIFY, "tile (1, 0) of 128 x 256 holds its product plus that of tile (0, 0)"),),
        size=_ONE_CTA,
        edits=(
            (_SUMS, f"{_SUMS}        bool accumulate = false;   // the first wgmma starts from zero\n"),
            (_ADD, "sums, a, b, accumulate);\n                    accumulate = true;"),
        ),
        defines=_STAGES,
        sms=1,
    ),
    Bug(
        name="stored_at_another_tile",
        rung=9,
        fault="the consumers walk the list backwards, the producer forwards",
        why="Every tile is computed once, and stored in the place of another.",
        reports=((VERIFY, "tile (0, 0) of 128 x 256 holds what belongs to tile (1, 0)"),),
        size=_ONE_CTA,
        edits=(("store_sums(sums, C, m0 + consumer * 64, n0, M, N);",
                "store_sums(sums, C, (order[tiles - 1 - i] & 0xffff) * BM + consumer * 64, n0, M, N);"),),
        defines=_STAGES,
        sms=1,
    ),
)
