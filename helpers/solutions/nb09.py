"""Solutions of notebook 9."""

from helpers.exercises.kinds import edit


def first_place(tile: int, steps: int, stages: int) -> tuple[int, int]:
    done = tile * steps
    return done % stages, done // stages % 2


AT = """// The place of a step in the ring.
__device__ __forceinline__ Place at(int step) {
    return {step % STAGES, step / STAGES % 2};
}

"""
PAIR = "// Two fp32 as a pair of bf16"
COUNTED = "for (int step = 0; step < steps; ++step, place.advance()) {\n"
COMPUTED = "for (int step = 0; step < steps; ++step) {\n{}const Place place = at(i / gridDim.x * steps + step);\n"
FULL, WAIT = "                    uint64_t* full", "                mbarrier_wait(&shared.full"

SOLUTIONS = {
    "09.1": (5, 4, 528 / 640),
    "09.2": first_place,
    "09.3": edit(
        "09_persistence",
        (PAIR, AT + PAIR),
        ("    Place place;\n    if", "    if"),
        (COUNTED + FULL, COMPUTED.replace("{}", " " * 20) + FULL),
        (COUNTED + WAIT, COMPUTED.replace("{}", " " * 16) + WAIT),
    ),
}
