"""The NVRTC side: compile reports, SASS and the code hash, all without a GPU; and errors in words."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from helpers import cuda, elf
from helpers.cuda import code_hash, compile_cubin, compile_report, sass
from helpers.errors import ArgumentError, BackendError, CompileError
from helpers.kernel import load
from helpers.rungs import RUNGS, find_rung

SIMPLE = """#include "part.cuh"
extern "C" __global__ void scale(float* x, int n) {
    if (threadIdx.x < n) x[threadIdx.x] *= FACTOR;
}
extern "C" __global__ void sums(float* x) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[63 - threadIdx.x] + tile[threadIdx.x];
}
"""

# 200 values that are all needed at the end, and 64 registers to keep them in.
SPILLING = """extern "C" __global__ void __launch_bounds__(1024) f(volatile float* x, int n) {
    float values[200];
#pragma unroll
    for (int i = 0; i < 200; ++i) values[i] = x[i * n];
#pragma unroll
    for (int i = 0; i < 200; ++i) x[i * n + 1] = values[i] * values[(i + 77) % 200];
}"""


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def simple(tmp_path):
    path = tmp_path / "simple.cu"
    path.write_text(SIMPLE)
    (tmp_path / "part.cuh").write_text("constexpr float FACTOR = 3.0f;\n")
    return path


def test_report_holds_what_ptxas_says(simple):
    cubin = compile_cubin(simple)
    assert sorted(cubin.entries) == ["scale", "sums"]
    scale, sums = compile_report(cubin, "scale"), compile_report(cubin, "sums")
    assert (scale.static_shared_bytes, scale.barriers, scale.spill_bytes) == (0, 0, 0)
    assert (sums.static_shared_bytes, sums.barriers) == (256, 1)
    assert 4 <= scale.registers <= 32
    assert scale.warnings == ()
    assert "Compile time" not in cubin.log and "scale" in cubin.log
    assert cubin.arch == "sm_90a" and cubin.nvrtc_version == cuda.nvrtc_version() and cubin.seconds > 0


def test_spills_are_counted(tmp_path):
    path = tmp_path / "spill.cu"
    path.write_text(SPILLING)
    cubin = compile_cubin(path)
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill", cubin.log)]
    assert compile_report(cubin, "f").spill_bytes == sum(spilled) > 0


def test_warnings_are_kept(tmp_path):
    path = tmp_path / "unused.cu"
    path.write_text('extern "C" __global__ void f(int* x) { int y; *x = 1; }')
    (warning,) = compile_report(compile_cubin(path), "f").warnings
    assert warning.startswith("unused.cu(1): warning") and '"y"' in warning


def test_compile_error_names_file_line_and_reason(tmp_path):
    path = tmp_path / "broken.cu"
    path.write_text('extern "C" __global__ void f(int* x) {\n    *x = missing;\n    y = 2;\n}')
    with pytest.raises(CompileError) as caught:
        compile_cubin(path)
    assert str(caught.value) == (
        'broken.cu(2): error: identifier "missing" is undefined '
        "(broken.cu does not compile for sm_90a, the first of 2 errors): correct that line."
    )


def test_missing_include_and_missing_file(tmp_path):
    path = tmp_path / "lost.cu"
    with pytest.raises(ArgumentError, match="lost.cu cannot be read"):
        compile_cubin(path)
    path.write_text('#include "nowhere.cuh"\n')
    with pytest.raises(CompileError, match=r'lost.cu\(1\).*nowhere.cuh'):
        compile_cubin(path)


def test_unknown_architecture_and_entry(simple):
    with pytest.raises(BackendError, match="does not take the options for sm_13"):
        compile_cubin(simple, arch="sm_13")
    with pytest.raises(ArgumentError, match="entry 'other' is not in the kernel file: it has s"):
        compile_report(compile_cubin(simple), "other")


def test_hash_ignores_comments_names_and_blank_lines(simple):
    before = code_hash(compile_cubin(simple), "sums")
    text = SIMPLE.replace("__shared__ float tile", "// the tile\n\n    __shared__ float tile").replace("tile", "box")
    simple.write_text(text)
    after = compile_cubin(simple)
    assert code_hash(after, "sums") == before
    assert re.fullmatch("[0-9a-f]{16}", before)


def test_hash_changes_with_the_code_of_this_entry_only(simple):
    before = compile_cubin(simple)
    simple.write_text(SIMPLE.replace("63 - threadIdx.x", "62 - threadIdx.x"))
    after = compile_cubin(simple)
    assert code_hash(after, "sums") != code_hash(before, "sums")
    assert code_hash(after, "scale") == code_hash(before, "scale")


def test_edited_include_is_noticed(simple):
    before = compile_cubin(simple)
    (simple.parent / "part.cuh").write_text("constexpr float FACTOR = 5.0f;\n")
    assert code_hash(compile_cubin(simple), "scale") != code_hash(before, "scale")


def test_defines_and_architecture_reach_the_compiler(tmp_path):
    path = tmp_path / "define.cu"
    path.write_text('extern "C" __global__ void f(int* x) { *x = VALUE * __CUDA_ARCH__; }')
    hashes = {
        code_hash(compile_cubin(path, {"VALUE": value}, arch), "f") for value in (1, 2) for arch in ("sm_90a", "sm_80")
    }
    assert len(hashes) == 4


def test_second_compilation_comes_from_the_cache_with_its_log(simple, monkeypatch):
    first = compile_cubin(simple)
    monkeypatch.setattr(cuda, "_compile", lambda *_: pytest.fail("compiled again"))
    assert compile_cubin(simple) == first


def test_damaged_cache_is_made_again(simple):
    first = compile_cubin(simple)
    first.path.write_bytes(first.data[:100])
    assert compile_cubin(simple).data == first.data
    first.path.with_suffix(".json").write_text("{")
    assert compile_cubin(simple).data == first.data == first.path.read_bytes()


def test_cache_that_cannot_be_written(simple, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "file"))
    with pytest.raises(BackendError, match="cannot be written .*: set HOPPER_CACHE to a folder that can"):
        compile_cubin(simple)


def test_sass_is_of_one_entry(simple):
    cubin = compile_cubin(simple)
    scale, sums = sass(cubin, "scale"), sass(cubin, "sums")
    assert "FMUL" in scale and "BAR.SYNC" not in scale
    assert "BAR.SYNC" in sums and "FMUL" not in sums
    assert "EXIT" in scale and ".section" not in scale


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_rungs_compile_without_spills_or_warnings(rung):
    for entry in (rung.entry, *rung.twins):
        report = load(rung, "emulator", entry=entry).report
        assert report.spill_bytes == 0 and report.warnings == () and report.registers > 0
        assert report.registers * rung.block[0] <= 65_536
        assert "STL" not in sass(compile_cubin(rung.path), entry)


def test_inspection_and_the_live_kernel_share_their_options(monkeypatch):
    """The kernel's report and hash come from the very cubin that is loaded; there is no second set of options."""
    seen = []
    compiled = compile_cubin(find_rung(1).path)
    monkeypatch.setattr("helpers.kernel.compile_cubin", lambda *arguments: seen.append(arguments) or compiled)
    kernel = load(1, "emulator")
    assert kernel.report and kernel.code_hash and kernel.sass
    assert seen == [(kernel.path, {}, "sm_90a")]


@pytest.mark.parametrize("break_it", ["headers", "nvrtc", "nvdisasm"])
def test_missing_toolchain_is_said_in_words(break_it, tmp_path):
    """In a process of its own, as caches hold what was once found."""
    code = {
        "headers": "pathfinder.find_nvidia_header_directory = lambda name: None",
        "nvrtc": (
            "import cuda.bindings.nvrtc as nvrtc\n"
            "def missing(*_): raise RuntimeError('libnvrtc.so.13 not found')\n"
            "nvrtc.nvrtcVersion = missing"
        ),
        "nvdisasm": "pathfinder.find_nvidia_binary_utility = lambda name: None",
    }[break_it]
    script = f"""
from cuda import pathfinder
{code}
from helpers.errors import BackendError
from helpers.kernel import load
try:
    load(1, "emulator").sass
except BackendError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    words = {"headers": "cuda_bf16.h", "nvrtc": "libnvrtc.so.13 not found", "nvdisasm": "nvdisasm was not found"}
    assert done.stderr == ""
    assert words[break_it] in done.stdout and "make setup" in done.stdout and done.stdout.count("\n") == 1


def test_elf_reader(simple):
    data = compile_cubin(simple).data
    found = elf.sections(data)
    assert found[".text.scale"] and found[".text.sums"] and len(found[".text.sums"]) % 16 == 0
    assert ".strtab" in found
    for damaged in (b"", data[:40], b"x" + data[1:], data[: len(data) // 2]):
        with pytest.raises(ValueError, match="ELF"):
            elf.sections(damaged)


def test_hash_is_of_the_section_alone(simple):
    cubin = compile_cubin(simple)
    place = cubin.data.index(elf.sections(cubin.data)[".text.sums"])
    edited = bytearray(cubin.data)
    edited[place] ^= 1
    assert code_hash(replace(cubin, data=bytes(edited)), "sums") != code_hash(cubin, "sums")
    assert code_hash(replace(cubin, data=bytes(edited)), "scale") == code_hash(cubin, "scale")
