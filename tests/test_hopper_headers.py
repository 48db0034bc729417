"""kernels/hopper.cuh and its twin in the emulator: they declare the same, and each backend includes its own."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from helpers.cuda import code_hash, compile_cubin
from helpers.emulator import compile_kernel
from helpers.emulator.build import INCLUDE
from helpers.emulator.source import asm_line, code_only
from helpers.rungs import KERNEL_DIR

HEADER = KERNEL_DIR / "hopper.cuh"
TWIN = INCLUDE / "hopper.cuh"

_FUNCTION = re.compile(
    r"(?P<comment>(?:^//[^\n]*\n)*)^(?P<template>(?:template\s*<[^>]*>\s*)?)"
    r"(?:__device__\s+__forceinline__|EMULATOR_INLINE)\s+(?P<returns>\w+)\s+(?P<name>\w+)\((?P<rest>)",
    re.MULTILINE,
)
_TYPE = re.compile(
    r"(?P<comment>(?:^//[^\n]*\n)*)^(?:struct|enum class)\s+(?:(?:__align__|alignas)\(\d+\)\s+)?(?P<name>\w+)\s*"
    r"\{(?P<body>[^}]*)\}",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Declaration:
    """What a reader must be able to rely on in both headers. signature: types only, names of parameters may differ."""

    name: str
    signature: str
    comment: str


def declarations(text: str) -> list[Declaration]:
    """The functions and types of a header, in its order, each with the comment right above it."""
    found = []
    for match in _FUNCTION.finditer(text):
        parameters = _parameters(text[match.start("rest"):])
        signature = f"{_squeezed(match['template'])}{match['returns']}({', '.join(parameters)})"
        found.append((match.start(), Declaration(match["name"], signature, match["comment"])))
    for match in _TYPE.finditer(text):
        found.append((match.start(), Declaration(match["name"], _squeezed(match["body"]), match["comment"])))
    return [declaration for _, declaration in sorted(found, key=lambda item: item[0])]


def _parameters(text: str) -> list[str]:
    """The types of a parameter list, from behind its opening parenthesis; defaults stay, the emulator's line goes."""
    depth, end = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    parts = [_squeezed(part) for part in text[:end - 1].split(",")]
    return [_without_name(part) for part in parts if part and part != "EMULATOR_LINE"]


def _without_name(parameter: str) -> str:
    declared, equals, default = parameter.partition(" = ")
    if "(&" in declared:
        declared = re.sub(r"\(&\w*\)", "(&)", declared)
    else:
        declared = re.sub(r"(?<=[\s*&])\w+$", "", declared).strip()
    return declared + equals + default


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def twin_text() -> str:
    """The twin with the emulator's headers of the same purpose, which it includes; without destructors, which tell the
    C++ compiler how a parameter is passed.
    """
    text = TWIN.read_text(encoding="utf-8")
    parts = re.findall(r'#include "(emulator/hopper_\w+\.h)"', text)
    whole = "\n".join([text, *((INCLUDE / part).read_text(encoding="utf-8") for part in parts)])
    return re.sub(r"\n *~\w+\(\) \{\}.*", "", whole)


needs_both = pytest.mark.skipif(not (HEADER.exists() and TWIN.exists()), reason="hopper.cuh is not written yet")


@needs_both
def test_both_headers_declare_the_same():
    header, twin = declarations(HEADER.read_text(encoding="utf-8")), declarations(twin_text())
    assert len(header) > 40
    signatures = [sorted((found.name, found.signature) for found in each) for each in (header, twin)]
    missing = [item for item in signatures[0] if item not in signatures[1]]
    added = [item for item in signatures[1] if item not in signatures[0]]
    assert (missing, added) == ([], [])
    assert signatures[0] == signatures[1]   # each once


@needs_both
def test_both_headers_say_the_same_about_it():
    header, twin = (
        {(found.name, found.signature): found.comment for found in declarations(text)}
        for text in (HEADER.read_text(encoding="utf-8"), twin_text())
    )
    different = [name for name, comment in header.items() if name in twin and twin[name] != comment]
    assert different == []
    assert [name for name, comment in header.items() if not comment] == []


@needs_both
def test_the_twin_holds_no_assembly_and_the_kernels_none_outside_of_the_header():
    assert asm_line(code_only(twin_text())) is None
    for path in sorted(KERNEL_DIR.iterdir()):
        if path != HEADER and path.is_file():
            assert asm_line(code_only(path.read_text(encoding="utf-8"))) is None, path.name
    assert asm_line(code_only(HEADER.read_text(encoding="utf-8"))) is not None


def test_differences_are_noticed():
    """The comparison itself: what counts and what does not."""
    header = "// Waits.\n// PTX: x\n__device__ __forceinline__ void wait(uint64_t* barrier, int n = 1) { asm(); }\n"
    twin = "// Waits.\n// PTX: x\nEMULATOR_INLINE void wait(uint64_t* b, int n = 1,\n     EMULATOR_LINE) {}\n"
    (first,) = declarations(header)
    assert declarations(twin) == [first]
    for old, new in {"Waits": "Blocks", "uint64_t* b": "uint32_t* b", " wait": " mwait", "int n = 1": "int n"}.items():
        assert declarations(twin.replace(old, new)) != [first], old
    arrays = "template <int N>\n__device__ __forceinline__ void f(float (&d)[N]) {}\n"
    assert declarations(arrays)[0].signature == "template <int N>void(float (&)[N])"
    assert declarations(arrays.replace("(&d)", "(&)")) == declarations(arrays)
    struct = "// A map.\nstruct __align__(64) TensorMap {\n    uint64_t opaque[16];\n};\n"
    assert declarations(struct) == declarations(struct.replace("__align__", "alignas"))
    assert declarations(struct) == [Declaration("TensorMap", "uint64_t opaque[16];", "// A map.\n")]


@pytest.mark.parametrize("path", sorted(KERNEL_DIR.glob("*.cu")), ids=lambda path: path.stem)
def test_kernels_include_nothing_that_only_one_backend_has(path: Path):
    included = set(re.findall(r'^\s*#\s*include\s*([<"][^>"]+[>"])', path.read_text(encoding="utf-8"), re.MULTILINE))
    assert included <= {"<cuda_bf16.h>", '"hopper.cuh"'}


# Each backend finds its own header

USES_HOPPER = """#include "hopper.cuh"
extern "C" __global__ void k(int* out) {
    if (elect_sync()) out[0] = int(cluster_nctarank());
}
"""


@needs_both
@pytest.mark.compiler
@pytest.mark.parametrize("beside", ["", "#error this is the GPU's header\n"], ids=["alone", "beside the GPU's"])
def test_the_emulator_includes_its_own_header(tmp_path, beside):
    """Although a quoted include looks beside the file first: kernels/hopper.cuh lies beside the rungs."""
    path = tmp_path / "uses_hopper.cu"
    path.write_text(USES_HOPPER)
    if beside:
        (tmp_path / "hopper.cuh").write_text(beside)
    out = np.zeros(1, np.int32)
    assert compile_kernel(path, ("k",)).launch("k", (1,), (32,), (out,)).reports == []
    assert out[0] == 1


@needs_both
def test_nvrtc_finds_the_header_from_any_folder(tmp_path, monkeypatch):
    """A changed kernel lies below build/variants; and a change of the header is a change of the kernel."""
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "uses_hopper.cu"
    path.write_text(USES_HOPPER)
    before = compile_cubin(path)
    assert before.entries == ("k",)
    folder = tmp_path / "kernels"
    folder.mkdir()
    changed = HEADER.read_text(encoding="utf-8").replace("%%cluster_nctarank", "%%cluster_ctarank")
    (folder / "hopper.cuh").write_text(changed, encoding="utf-8")
    monkeypatch.setattr("helpers.cuda.KERNEL_DIR", folder)
    after = compile_cubin(path)
    assert after.path != before.path and code_hash(after, "k") != code_hash(before, "k")
