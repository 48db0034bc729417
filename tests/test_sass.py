"""Reading machine code: loops and instruction counts, on a listing and on the kernels' own code."""

import pytest

from helpers.errors import ArgumentError
from helpers.kernel import load
from helpers.sass import inner_loop, opcode_counts

LISTING = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/                   MOV R2, RZ ;
.L_x_2:
        /*0020*/              @!P0 LDG.E.U16.CONSTANT R8, desc[UR6][R8.64] ;
        /*0030*/                   FFMA R4, R12, R4, R13 ;
        /*0040*/                   FFMA R4, R12, R4, R13 ;
        /*0050*/               @P1 BRA `(.L_x_2) ;
        /*0060*/              @!P0 BRA `(.L_x_1) ;
.L_x_3:
        /*0070*/                   FFMA R4, R12, R4, R13 ;
        /*0080*/               @P1 BRA `(.L_x_3) ;
.L_x_4:
        /*0090*/                   BRA `(.L_x_4);
        /*00a0*/                   NOP;
"""


def test_the_innermost_loop_with_the_most_multiply_adds():
    body = inner_loop(LISTING)
    assert body.splitlines()[0] == ".L_x_2:" and len(body.splitlines()) == 5
    assert opcode_counts(body) == {"FFMA": 2, "LDG": 1, "BRA": 1}
    assert list(opcode_counts(body))[0] == "FFMA"
    assert opcode_counts(body, suffixes=True)["LDG.E.U16.CONSTANT"] == 1
    assert opcode_counts(LISTING)["NOP"] == 0 and opcode_counts(LISTING)["FFMA"] == 3


def test_code_without_such_a_loop_is_refused():
    for listing in ("", LISTING.replace("FFMA", "FADD")):
        with pytest.raises(ArgumentError, match="is in no loop"):
            inner_loop(listing)


@pytest.mark.parametrize("rung, products", [(1, 16), (2, 32), (3, 1024)])
def test_the_kernels_loops(rung, products):
    """What notebooks 1 to 3 say of the compiler's loops: unrolled by 16, by 32, and 8 steps of an 8 x 16 tile."""
    assert opcode_counts(inner_loop(load(rung, "emulator").sass))["FFMA"] == products


WAITING = """.L_x_1:
        /*0010*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR24].tnspB, R24 ;
        /*0020*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0030*/               @P0 BRA.U.ANY `(.L_x_2) ;
        /*0040*/               @P0 BRA `(.L_x_1) ;
        /*0050*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR24].tnspB, R24 ;
        /*0060*/                   EXIT ;
.L_x_3:
        /*0070*/                   BRA `(.L_x_1) ;
"""


def test_a_loop_may_hold_others_and_what_lies_behind_the_end_is_none():
    body = inner_loop(WAITING, "HGMMA")
    assert body.splitlines()[-1].strip().startswith("/*0040*/") and opcode_counts(body)["HGMMA"] == 1


def test_the_loop_of_rung_6_multiplies_two_steps():
    counts = opcode_counts(inner_loop(load(6, "emulator").sass, "HGMMA"))
    assert (counts["HGMMA"], counts["UTMALDG"], counts["LDS"], counts["FFMA"]) == (8, 6, 0, 0)
