"""What a kernel file is told with -D: every value is taken as it is given, or refused in a sentence of ours."""

import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.cli.parser import define
from helpers.defines import SWITCH, checked_defines, declared_defines, require_declared
from helpers.errors import ArgumentError
from helpers.kernel import load
from helpers.rungs import APPENDIX, RUNGS, Rung, find_rung

FILES = pytest.mark.parametrize("rung", [*RUNGS, *APPENDIX], ids=lambda rung: rung.name)


def switches(rung: Rung) -> set[str]:
    found = declared_defines(rung.path).items()
    return {name for name, default in found if default in SWITCH and name not in rung.constants}


@pytest.mark.parametrize(
    "value", ["", None, True, np.bool_(True), 2.0, b"1", "1 2", "1;", "x" * 101, 10**99, -(10**99), 10**5000, [1]],
    ids=lambda value: type(value).__name__,
)
def test_values_that_no_file_can_be_given_are_refused(value):
    with pytest.raises(ArgumentError) as caught:
        checked_defines({"X": value})
    sentence = str(caught.value)
    assert sentence.startswith("define X has the value ") and len(sentence) < 200
    assert sentence.endswith(": it must be an integer or a word, of 100 letters at most, such as 1.")


@pytest.mark.parametrize("name", ["", "A B", "1A", "A.*", "(A|B)", "A[", "\u00e4", "A\n", "A" * 101, None, 1, ("A",)])
def test_names_that_are_no_identifiers_are_refused(name):
    with pytest.raises(ArgumentError, match="is not a C identifier of 100 letters at most") as caught:
        checked_defines({name: 1})
    assert len(str(caught.value)) < 200


def test_values_that_can_be_given_are_taken():
    given = {"A": 1, "B": "float", "_C": "-1", "D" * 100: "x" * 100, "E": np.int64(3), "F": 10**99 - 1}
    assert checked_defines(given) == given
    assert type(checked_defines({"E": np.int64(3)})["E"]) is int   # it goes into records
    assert checked_defines(None) == {}


def test_a_number_that_python_does_not_read_is_refused_by_the_check_that_says_why():
    assert define("X=" + "9" * 100) == ("X", int("9" * 100))
    name, value = define("X=" + "9" * 5000)
    with pytest.raises(ArgumentError, match="of 100 letters at most"):
        checked_defines({name: value})


@FILES
def test_all_defines_of_a_file_are_found_with_their_defaults(rung):
    """Loosely looked for, so that one that is written in another way is noticed."""
    text = rung.path.read_text(encoding="utf-8")
    asked = re.findall(r"^[ \t]*#[ \t]*if(?:n?def|[ \t]+!?[ \t]*defined)?\b[ \t(]*(\w+)", text, re.MULTILINE)
    assert asked == list(declared_defines(rung.path))


def test_a_name_that_begins_like_another_and_an_include_guard_are_no_defines(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(
        "#ifndef GUARD\n#define GUARD   // once\n#ifndef PACE_X\n#define PACE 1\n#endif\n"
        "#ifndef A   // why\n#define A 2   // 2 of them\n#endif\n#ifndef B\n#define B A\n#endif\n#endif\n"
    )
    assert declared_defines(path) == {"A": "2", "B": "A"}


@FILES
def test_a_switch_is_asked_for_its_truth_alone(rung):
    """What is 0 or 1 by default takes no other value, so it must not be a number that counts something."""
    code = re.sub(r"//.*|^#.*", "", rung.path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for name in switches(rung):
        counted = rf"(?:[-+*/%<>^,[]|[=!<>]=)\s*{name}\b|\b{name}\s*(?:[-+*/%<>^,\]]|[=!]=)"
        assert re.search(rf"\b{name}\b", code) and not re.findall(counted, code), f"{rung.name}: {name}"


@FILES
def test_what_a_files_defines_may_be(rung):
    names = declared_defines(rung.path).keys() - rung.constants.keys()
    for name in names:
        good = (0, 1, "0", "1") if name in switches(rung) else (1, str(rung.stages), rung.stages)
        for value in good:
            require_declared(rung, {name: value, "OTHER": "x"})
        no_count = (0, -1, rung.stages + 1, 2**31, "x", "1.5", "02", name)
        for value in (2, -1, "x", "01") if name in switches(rung) else no_count:
            with pytest.raises(ArgumentError, match=rf"^define {name} is {re.escape(repr(value))}: it .*must be .*\.$"):
                require_declared(rung, {"OTHER": "x", name: value})


def test_more_stages_than_there_is_shared_memory_for_are_refused_before_the_launch():
    """On a GPU they lie behind the CTA's shared memory: the kernel stops there, and no other is launched after it."""
    with pytest.raises(ArgumentError) as caught:
        load(10, "emulator", defines={"STAGES": 5})
    assert str(caught.value) == (
        "define STAGES is 5: it must be an integer from 1 to 4, the stages that 10_clusters has shared memory for."
    )
    assert load(10, "emulator", defines={"STAGES": 4}).defines == {"STAGES": 4}


def test_what_a_rung_is_launched_for_is_left_to_the_check_of_the_launch():
    """Its values are one alone, and may be another define's name; by default it may be 1 without being a switch."""
    appendix = find_rung("appendix_split_k")
    assert load(appendix, "emulator", defines={"A_ROWS": "TILE_M"}).defines == {"A_ROWS": "TILE_M"}
    require_declared(replace(find_rung(10), constants={"PACE": 2}), {"PACE": 2})


@FILES
def test_what_is_counted_is_the_stages_of_a_ring(rung):
    counts = declared_defines(rung.path).keys() - switches(rung) - rung.constants.keys()
    assert counts <= {"STAGES", "BUFFERS"} and (not counts or rung.stages > 1)


def test_the_switches_of_the_last_rung_and_of_the_appendix():
    assert switches(find_rung(10)) >= {"MULTICAST", "TMA_STORE", "OVERLAP", "PACE", "RELEASE"}
    assert "EARLY" in switches(find_rung("appendix_split_k")) and switches(find_rung(4)) == {"SWIZZLE"}
    assert not switches(find_rung("appendix_fitted_tiles")) and switches(find_rung("appendix_p")) == {"PARTITIONS"}
