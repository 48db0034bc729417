"""kernels/hopper.cuh and the emulator's twin of it offer the same functions and say the same about them."""

import re
from pathlib import Path

import helpers.emulator.build as build

ROOT = Path(__file__).resolve().parent.parent
GPU = ROOT / "kernels" / "hopper.cuh"
TWINS = [build.INCLUDE / "emulator" / name for name in ("hopper_sync.h", "hopper_async.h")]
_FUNCTION = re.compile(
    r"(?P<comment>(?:^//[^\n]*\n)+)(?:template <[^>]*>\n)?^(?:__device__ __forceinline__|EMULATOR_INLINE) "
    r"(?P<type>[\w ]+?) (?P<name>\w+)\((?P<parameters>[^{]*?)\)\s*\{",
    re.MULTILINE,
)


def functions(text: str) -> dict[tuple[str, int], tuple[str, str]]:
    """Comment and return type of each function, by name and number of parameters."""
    found = {}
    for match in _FUNCTION.finditer(text):
        parameters = [part for part in match["parameters"].split(",") if part.strip() and "EMULATOR_LINE" not in part]
        found[match["name"], len(parameters)] = (match["comment"], match["type"])
    return found


def test_both_have_the_same_functions_with_the_same_comments():
    gpu = functions(GPU.read_text())
    twins: dict = {}
    for path in TWINS:
        twins |= functions(path.read_text())
    assert len(gpu) >= 40
    assert {key for key in gpu if key not in twins} == set(), "the emulator lacks these"
    assert [key for key, value in gpu.items() if twins[key] != value] == []
