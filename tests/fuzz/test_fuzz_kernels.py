"""Random shapes, defines and damaged kernel files on the emulator: right, refused, or named as wrong; never a crash."""

import random
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
from mutations import damaged_bytes

from helpers.defines import SWITCH, declared_defines
from helpers.errors import ArgumentError
from helpers.kernel import emulate
from helpers.rungs import APPENDIX, KERNEL_DIR, PARTITIONS, ROOT, RUNGS, Rung, split_k
from helpers.soak import KERNELS, VARIANTS, case, problem

FIRST = 100_000   # number of the first case: not one of those that `make soak` runs
MOST_S = 240      # of a process: the emulator stops an endless loop after 120 s
TWO = (0, 1)

# What the kernels' defines can be, as their files declare them.
RINGS = {"STAGES": (1, 2, 3, 4)}
DEFINES: Mapping[int, Mapping[str, tuple[int, ...]]] = {
    4: {"SWIZZLE": TWO},
    5: {"BUFFERS": (1, 2)},
    6: {"BUFFERS": (1, 2)},
    7: RINGS,
    8: RINGS,
    9: RINGS,
    # A stage is given back one step after it was read, so with one alone the producer would wait for what never comes.
    10: {"STAGES": (2, 3, 4), "MULTICAST": TWO, "TMA_STORE": TWO, "OVERLAP": TWO, "PACE": TWO, "RELEASE": TWO},
    PARTITIONS.number: {"STAGES": (2, 3, 4), "PARTITIONS": TWO},
}
OUTSIDE = (-1, 0, 5, 7, 64, 10**6, 2**40, "x", "1.5", "")
# What is exchanged in a kernel's text.
EXCHANGES = (
    ("<", "<="), ("<", ">"), ("==", "!="), ("+", "-"), ("*", "+"), ("&&", "||"), ("0", "1"), ("1", "0"), ("64", "63"),
    ("128", "256"), ("32", "31"), (";", ""), ("(", ""), ("}", ""), ("{", "{{"), ("threadIdx", "blockIdx"), ("M", "N"),
    ("K", "M"), ("int", "float"), ("const", ""), ("return", "break"), ("__syncthreads()", ""), ("if", "while"),
    ("for", "if"), ("++", "--"), ("float", "int"), ("&", "*"), ("A", "B"), ("row", "column"), ("static", "extern"),
)  # fmt: skip


def test_the_defines_are_those_of_the_files():
    for rung in (*RUNGS, PARTITIONS):
        declared = {name: default in SWITCH for name, default in declared_defines(rung.path).items()}
        drawn = {name: values == TWO for name, values in DEFINES.get(rung.number, {}).items()}
        assert {name: declared[name] for name in declared.keys() - rung.constants.keys()} == drawn, rung.name


@pytest.mark.compiler
def test_random_shapes_and_schedules_are_right(fuzz):
    """The defines of `make soak`; each combination that is new costs a compilation, so it is left to the next test.

    Kernels that are made for a shape are an exception: each of their cases has a variant of its own.
    """
    found = [problem(case(number)) for number in range(FIRST, FIRST + 10 * fuzz)]
    assert [text for text in found if text] == []


@pytest.mark.compiler
def test_random_defines_are_right(fuzz):
    """Any combination, in a longer run; in a short one those that are compiled anyway."""
    found = []
    with_defines = (drawn for drawn in map(case, count(FIRST)) if drawn.rung.number in DEFINES)
    for drawn in islice(with_defines, 6 * fuzz):
        draw = random.Random(f"defines {drawn.number}")
        defines = draw.choice(VARIANTS[drawn.rung.number])
        if fuzz > 1:
            defines = {name: draw.choice(values) for name, values in DEFINES[drawn.rung.number].items()}
        found.append(problem(replace(drawn, defines=defines)))
    assert [text for text in found if text] == []


FEW_ROWS = split_k(64, 64, 2, 2, 16)[0]


@pytest.mark.parametrize("rung", [*RUNGS, *APPENDIX, FEW_ROWS], ids=lambda rung: f"{rung.name} {rung.most_rows or ''}")
def test_random_shapes_that_a_rung_does_not_take_are_refused(rung, fuzz):
    draw = random.Random(f"refused {rung.name}")
    for _ in range(30 * fuzz):
        size = [draw.choice((1, 7, 8, 64, 128, 256, 320, 1000)) * multiple for multiple in rung.multiples]
        axis = draw.randrange(3)
        wrong = [0, -1, -rung.multiples[axis], 2**31 - 1, 2**31, 2**40, 10**30, 1.5, 64.0, "64", None, True]
        if axis == 0 and rung.most_rows is not None:
            wrong += [rung.most_rows + 1, 70]
        if rung.multiples[axis] > 1:
            wrong += [1, rung.multiples[axis] + 1, 3 * rung.multiples[axis] - 1]
        size[axis] = draw.choice(wrong)
        if draw.random() < 0.1:
            size = draw.choice((size[:2], [*size, 1], None, 64, "64x64x64", {}))
        with pytest.raises(ArgumentError) as caught:
            emulate(rung, tuple(size) if isinstance(size, list) else size)
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.compiler
def test_a_ring_of_one_stage_is_too_short_for_rung_10():
    code, said = run_file(RUNGS[9], "--size", "128x256x192", "--define", "STAGES=1")
    assert code == 1 and "a ring of one would wait forever" in said


def run_file(rung: Rung, *more: str) -> tuple[int, str]:
    """Exit code and output of `emulate` in a process of its own, which a kernel could end."""
    done = subprocess.run(
        [sys.executable, "-m", "helpers", "emulate", rung.handle, *more],
        cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=MOST_S,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1), f"exit code {done.returncode}: {said[-2000:]}"
    assert "Traceback" not in said and "Internal error" not in said, said[-2000:]
    assert said.strip()
    if done.returncode == 1 and not done.stdout:
        assert done.stderr.count("\n") == 1 and len(done.stderr) < 1500, done.stderr
    return done.returncode, said


def damaged_kernel(draw: random.Random, rung: Rung) -> bytes:
    text = rung.path.read_text(encoding="utf-8")
    kind = draw.random()
    if kind < 0.15:
        return damaged_bytes(draw, text.encode())
    start = text.index("__global__")
    for _ in range(draw.choice((1, 1, 2))):
        lines = text.split("\n")
        at = draw.randrange(text.count("\n", 0, start), len(lines))
        if kind < 0.35:      # a line is lost, there twice, or elsewhere
            line = lines.pop(at)
            lines[at:at] = draw.choice(([], [line, line]))
            text = "\n".join(lines)
            continue
        old, new = draw.choice([pair for pair in EXCHANGES if pair[0] in text[start:]])
        places = [match.start() for match in re.finditer(re.escape(old), text) if match.start() >= start]
        place = draw.choice(places)
        text = text[:place] + new + text[place + len(old):]
    return text.encode()


@pytest.mark.compiler
def test_damaged_kernel_files_are_refused_or_named(tmp_path, fuzz):
    faults = []
    (tmp_path / "hopper.cuh").write_bytes((KERNEL_DIR / "hopper.cuh").read_bytes())
    for number in range(3 * fuzz):
        draw = random.Random(f"kernel {number}")
        rung = KERNELS[number % len(KERNELS)]
        path = Path(tmp_path / f"{number}.cu")
        path.write_bytes(damaged_kernel(draw, rung))
        try:
            run_file(rung, "--file", str(path))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            faults.append(f"case {number}, {rung.name}: {error}")
    assert faults == [], "\n\n".join(faults)


@pytest.mark.compiler
def test_defines_out_of_range_are_refused_or_named(fuzz):
    for number in range(2 * fuzz):
        draw = random.Random(f"outside {number}")
        rung = RUNGS[draw.choice(sorted(DEFINES)) - 1]
        name = draw.choice(sorted(DEFINES[rung.number]))
        run_file(rung, "--define", f"{name}={draw.choice(OUTSIDE)}")
