"""Exercises of notebook 9, persistence."""

import re

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation, emulate
from helpers.models.persistence import Grid
from helpers.models.pipeline import place
from helpers.variants import save_text

M, N = 3072, 5632             # of exercise 1
CTAS, TILES, STEPS = 2, 5, 5  # of exercise 3
SIZE = (128 * TILES, 256, 64 * STEPS)

_PAIR = "// Two fp32 as a pair of bf16"
_AT = "__device__ __forceinline__ Place at(int step) { return {step % STAGES, step / STAGES % 2}; }\n\n"
_COUNTED = "++step, place.advance()) {\n"
_FULL, _WAIT = " " * 20 + "uint64_t* full", " " * 16 + "mbarrier_wait(&shared.full"
_COMPUTED = (   # of exercise 3
    (_PAIR, _AT + _PAIR),
    ("    Place place;\n    if", "    if"),
    (_COUNTED + _FULL, f"++step) {{\n{' ' * 20}const Place place = at(step);\n{_FULL}"),
    (_COUNTED + _WAIT, f"++step) {{\n{' ' * 16}const Place place = at(step);\n{_WAIT}"),
)


def _rounds() -> tuple[int, int, float]:
    """Rounds of 128 and of 132 CTAs, and the share of places that the first fill."""
    few, all_sms = Grid(M, N, 128), Grid(M, N, 132)
    return few.rounds, all_sms.rounds, few.tiles / (few.rounds * few.places)


def _first_place(tile: int, steps: int, stages: int) -> tuple[int, int]:
    """Stage and parity with which a CTA begins its tile number `tile`."""
    at = place(tile * steps, stages)
    return at.stage, at.parity


def _computes_its_places(emulation: Emulation) -> str | None:
    """What is still missing to a ring that goes on over tiles, and whose places are computed."""
    code = re.sub(r"//[^\n]*", "", emulation.source)
    if len(re.findall(r"\bplace = at\(", code)) < 2 or "place.advance(" in code:
        return "both roles should still take their place from at(...): change what they ask it for."
    if emulation.run.totals["barriers"] > emulation.run.totals["ctas"]:
        return "there is a barrier more for all threads: the ring needs none between two tiles."
    loads = 5 * TILES * STEPS
    boxes = emulation.run.totals["tma_load_boxes"]
    if boxes != loads:
        return f"it loads {boxes} boxes: {TILES} tiles of {STEPS} steps need {loads}."
    file = save_text(emulation.source, "09.3.more")
    more = emulate("09_persistence", SIZE, sms=CTAS + 1, counters=False, file=file)
    if more.run.reports or not more.verification.passed:
        return f"it is right for a grid of {CTAS} CTAs, and not for {CTAS + 1}: how many there are says gridDim.x."
    return None


EXERCISES = (
    Number(
        id="09.1",
        expected=_rounds,
        names=("rounds of 128 CTAs", "rounds of 132 CTAs", "share filled by 128 CTAs"),
        tolerance=0.002,
        mistakes=(
            ((4, 4, 1.0), "528 tiles are 16 more than 4 x 128: someone must take them."),
            ((5, 4, 82.5), "the rounds are right. The share is asked for as a number from 0 to 1, not in percent."),
            ((5, 4, 1.03125), "a share cannot be above 1: divide the tiles by the places in all five rounds."),
            ((5, 4, 0.125), "the rounds are right. That is the share of the last round: take all five."),
            ((5, 4, 0.8), "the rounds are right. A round of 128 CTAs has 128 places, not 132."),
        ),
        hints=(
            "How many tiles of 128 x 256 has C along M, and how many along N?",
            "24 x 22 tiles. Rounds: divide by the CTAs, and round up.",
            "528 tiles; 528 / 128 and 528 / 132, rounded up; and 528 / (5 x 128).",
        ),
        because="528 tiles are exactly four rounds of 132, but sixteen more than four rounds of 128; so in the fifth "
        "round 112 of 128 CTAs are idle.",
    ),
    Function(
        id="09.2",
        lines=2,
        reference=_first_place,
        points=((0, 5, 4), (1, 5, 4), (1, 4, 4), (2, 4, 4), (1, 8, 4), (3, 5, 4), (2, 64, 4), (7, 3, 2), (5, 1, 3)),
        names=("tile", "steps", "stages"),
        hints=(
            "How many steps has the CTA done before it begins this tile?",
            "`tile * steps`. The ring does not know tiles: it counts steps.",
            "`done % stages` and `done // stages % 2`, with `done = tile * steps`.",
        ),
        because="the ring counts steps, whatever tile they belong to. For 4 stages and steps that are a multiple of 8 "
        "the answer is always (0, 0): so a kernel that forgets to carry it over is right for such K.",
    ),
    KernelChange(
        id="09.3",
        rung="09_persistence",
        lines=2,
        edits=_COMPUTED,
        size=SIZE,
        more_sizes=((384, 512, 136),),
        goal=_computes_its_places,
        schedules=("lazy", "random"),
        sms=CTAS,
        hints=(
            "What `at` needs is the number of steps that this CTA has done in all its tiles. What does it get?",
            "Tile `i` is the CTA's tile number `i / gridDim.x`, and each tile has `steps` steps.",
            "Put `at(i / gridDim.x * steps + step)` into both loops; the same text stands there twice, so `replace` "
            "mends both at once.",
        ),
        because="producer and consumers count the same steps, over all tiles, and so agree on stage and parity without "
        "a word; it makes no difference whether the place is counted or computed.",
    ),
    FindTheBug.planted(
        "sums_of_two_tiles",
        id="09.4",
        defines={},
        more_sizes=((256, 512, 64),),
        hints=(
            "A single CTA computed both tiles, the first one right. What must a consumer do at the first wgmma of a "
            "tile? Does it do so at the second tile?",
            "`accumulate` says whether to add to the sums or to start from zero. Where does it become false, and how "
            "often does the CTA come by there?",
            "Once, and not once for each tile: declare it inside of the loop over tiles, or set it to false after the "
            "store.",
        ),
        because="who stays must begin each tile as if it were the first. Where each CTA has one tile only, nobody sees "
        "the mistake: with 132 SMs instead of one this kernel is right for this size.",
    ),
)
