"""Exercises of notebook 5, TMA."""

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation
from helpers.rungs import BF16_BYTES

BM, BN, BK, M = 64, 192, 64, 100   # the second row of tiles has 36 rows inside
BY_BOX = (
    (
        "mbarrier_arrive_expect_tx(&shared.full[buffer], STEP_BYTES);",
        "mbarrier_arrive_expect_tx(&shared.full[buffer], BM * BK * 2);",
    ),
    (
        "for (int box = 0; box < BN / 64; ++box) {",
        "for (int box = 0; box < BN / 64; ++box) {\n"
        "        mbarrier_arrive_expect_tx(&shared.full[buffer], 64 * BK * 2);",
    ),
)


def _announced_by_box(emulation: Emulation) -> str | None:
    if "STEP_BYTES)" in emulation.source or emulation.source.count("expect_tx(") < 2:
        return "it is right, but it announces the bytes of the whole step at once again: announce each box by itself."
    return None


EXERCISES = (
    Number(
        id="05.1",
        expected=(BM + BN) * BK * BF16_BYTES,
        names=("bytes",),
        mistakes=(
            ((M - BM + BN) * BK * BF16_BYTES, "that is what lies inside of the matrices: the zeros are counted too."),
            ((BM + BN) * BK, "that is the number of elements: a bf16 has two bytes."),
            (BM * BK * BF16_BYTES, "that is A's box alone: B's come to the same barrier."),
            (BN * BK * BF16_BYTES, "those are B's boxes alone: A's comes to the same barrier."),
            (49152, "that is for the tile of this notebook's kernel, 128 x 256: here it is 64 x 192."),
        ),
        hints=(
            "What does a barrier count: bytes that were read from the matrix, or bytes that have landed?",
            "Bytes that have landed, zeros too. So the shape of the tile decides, and M does not.",
            "A's box has 64 x 64 elements, B's three have 64 x 192 together, and each takes two bytes.",
        ),
        because="a box always brings all of its bytes, so one constant does for every tile, at the edges too.",
    ),
    Function(
        id="05.2",
        reference=lambda step, buffers: (step % buffers, step // buffers % 2),
        points=((0, 2), (1, 2), (2, 2), (3, 2), (4, 2), (7, 2), (3, 1), (4, 1), (4, 3), (5, 3), (6, 3), (13, 4)),
        names=("step", "buffers"),
        hints=(
            "The buffers are used in turn. After how many steps is the same buffer used again?",
            "Step `s` is use number `s // buffers` of its buffer, and each use ends one phase, from phase 0 on.",
            "The buffer is `step % buffers`, the parity that of phase `step // buffers`.",
        ),
        because="a buffer's n-th use ends phase n of its barrier; of the phase's number one bit is enough.",
    ),
    KernelChange(
        id="05.3",
        rung="05_tma",
        edits=BY_BOX,
        size=(128, 256, 192),
        more_sizes=((200, 328, 320),),
        schedules=("lazy", "eager"),
        goal=_announced_by_box,
        hints=(
            "Read the report: how many arrivals was the barrier made for, and how many come in one phase?",
            "Five arrivals come, one for each box. How many must the barrier wait for, so that no phase ends before?",
            "`mbarrier_init(&shared.full[buffer], 1 + BN / 64)`: five arrivals instead of one.",
        ),
        because="a phase ends when its arrivals and its bytes are complete, and you decide how they are split. With "
        "one arrival for A, and only `mbarrier_expect_tx` for B, it could end when A has landed before B is announced.",
    ),
    FindTheBug.planted(
        "loads_beyond_k",
        id="05.4",
        more_sizes=((128, 256, 320), (200, 328, 136)),
        hints=(
            "How many steps has K = 64, and how many does the report's CTA order? The kernel orders in two places.",
            "One step, and two are ordered: a second buffer is filled that nobody will ever wait for.",
            "The loop that fills the buffers at the start must end at `steps` too, as the one further down does.",
        ),
        because="shared memory belongs to a CTA as long as it runs. A copy that lands later writes into that of the "
        "next CTA. Only a K with fewer steps than buffers shows it, so a check needs such a K.",
    ),
)
