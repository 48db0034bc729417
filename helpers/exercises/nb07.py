"""Exercises of notebook 7, pipelining."""

from helpers.errors import CompileError
from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, KernelChange, Number
from helpers.kernel import Emulation, emulate
from helpers.models.machine import H200
from helpers.models.pipeline import THREADS, WARPS, place
from helpers.variants import save_text

BF16, BARRIER = 2, 8                    # bytes
ROWS, COLUMNS, DEPTH = 128, 192, 64     # of exercise 1
STEPS = 9                               # of exercise 3: each of the four stages is used again


def _bytes_and_stages() -> tuple[int, int]:
    """What `full` expects for a step of ROWS x COLUMNS x DEPTH, and how many stages fit into a CTA's shared memory."""
    expected = (ROWS + COLUMNS) * DEPTH * BF16
    return expected, H200.shared_bytes_per_cta // (expected + 2 * BARRIER)


def _producer_and_consumer(step: int, stages: int) -> tuple[int, int, int]:
    """Stage, parity that the producer names at `empty`, parity that a consumer names at `full`."""
    at = place(step, stages)
    return at.stage, at.parity ^ 1, at.parity


def _one_group_in_flight(emulation: Emulation) -> str | None:
    """What is still missing to a ring whose consumers keep one group of wgmma running between two steps.

    Who holds a stage while he waits for the next one needs two: with a single stage such a ring cannot turn.
    """
    waited = emulation.run.totals["mbarrier_waits"] - STEPS * 2 * THREADS
    if waited < STEPS:
        return "the producer no longer waits for `empty` at each step."
    arrivals = emulation.run.totals["mbarrier_arrivals"] - STEPS
    if arrivals < (STEPS - 1) * 2 * WARPS:
        return f"the consumer warps arrive {arrivals} times: each must give back every stage but perhaps the last."
    file = save_text(emulation.source, "07.3.single")
    try:
        single = emulate("07_pipelining", (128, 256, 2 * DEPTH), defines={"STAGES": 1}, counters=False, file=file)
    except CompileError:   # the reader asserts that there are two
        return None
    if single.verification.passed and not single.run.reports:
        return (
            "it is right, but no group runs on while its consumer turns to the next step: wgmma_wait_group<1>() must "
            "be the only wait of a step, apart from the last."
        )
    return None


EXERCISES = (
    Number(
        id="07.1",
        expected=_bytes_and_stages,
        names=("bytes that `full` expects", "stages that fit"),
        mistakes=(
            ((20480, 11), "those are elements: a bf16 has two bytes."),
            ((49152, 4), "that is the kernel's own tile, 128 x 256."),
            ((40960, 4), "the first is right. But there is room for one stage more: divide 227 * 1024."),
        ),
        hints=(
            "A step brings 128 rows of A and 192 columns of B, each 64 deep.",
            "(128 + 192) * 64 elements of two bytes. A stage has two barriers of 8 bytes besides.",
            "40,960 bytes; and 227 * 1024 divided by 40,976, rounded down.",
        ),
        because="(128 + 192) * 64 * 2 bytes; a smaller stage leaves room for more of them.",
    ),
    Function(
        id="07.2",
        lines=2,
        reference=_producer_and_consumer,
        points=((0, 4), (1, 4), (3, 4), (4, 4), (7, 4), (8, 4), (5, 3), (2, 1), (3, 1), (63, 2)),
        names=("step", "stages"),
        hints=(
            "How many steps went through this stage before this one? That is the phase; its parity is the phase mod 2.",
            "Stage: `step % stages`. The round `step // stages` is the phase of `full` that a consumer waits for. The "
            "producer waits for the phase of `empty` that ended one round earlier.",
            "`step % stages, (step // stages + 1) % 2, step // stages % 2`.",
        ),
        because="a stage's n-th filling ends phase n of `full`, and needs the end of phase n - 1 of `empty`; a new "
        "barrier passes for phase -1, whose parity is 1.",
    ),
    KernelChange(
        id="07.3",
        rung="07_pipelining",
        lines=5,
        size=(128, 256, STEPS * DEPTH),
        more_sizes=((200, 264, 136),),
        goal=_one_group_in_flight,
        schedules=("lazy", "random"),
        hints=(
            "After wgmma_wait_group<1>() the newest group may still run, but which one is over for certain?",
            "That of the step before. So give back the stage before this one, from the second step on; and before the "
            "sums are stored, nothing may run any more.",
            "Arrive at `shared.empty[(place.stage + STAGES - 1) % STAGES]` if `step > 0`, and put a "
            "`wgmma_wait_group<0>();` behind the loop.",
        ),
        because="the tensor cores have the next group in their queue before they finish the last one. The ring must "
        "have two stages at least, as a consumer now holds two.",
    ),
    FindTheBug.planted(
        "every_thread_counted",
        id="07.4",
        defines={},
        more_sizes=((200, 264, 584),),
        hints=(
            "Begin at the barrier that lacks arrivals, not at the line that waits. How many does it want, and how many "
            "have come?",
            "Eight of 256 have come. Find the line where the consumers arrive at `empty`: which of their threads do?",
            "Lane 0 of each of eight warps, so let the barrier expect `CONSUMERS * WARPS`.",
        ),
        because="a phase ends with as many arrivals as its barrier was made for, no fewer. (All 256 threads might "
        "arrive instead; but one arrival for each warp says as much.)",
    ),
)
