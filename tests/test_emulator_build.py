"""Building: the cache, the compilers, and errors in one sentence."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from emulator_support import KERNELS

from helpers.emulator import build, compile_kernel, compiler_version, image, lines, module, protocol, source
from helpers.emulator.build import kernel_flags
from helpers.emulator.compiler import Compiler
from helpers.errors import ArgumentError, BackendError, CompileError
from helpers.kernel import emulate
from helpers.rungs import KERNEL_DIR

pytestmark = pytest.mark.compiler
HEAD = "#include <cuda_bf16.h>\n"


def write(tmp_path, text, name="kernel.cu"):
    path = tmp_path / name
    path.write_text(HEAD + text)
    return path


def test_compiled_once_and_again_after_a_change(tmp_path, monkeypatch):
    unique = f"// {time.time_ns()}\n"   # a cache that earlier runs have not filled
    path = write(tmp_path, unique + 'extern "C" __global__ void k(int* out) { out[0] = N; }\n')
    runs = []
    original = subprocess.run

    def counted(command, **options):
        runs.append(command)
        return original(command, **options)

    monkeypatch.setattr(subprocess, "run", counted)

    def result(**defines):
        out = np.zeros(1, np.int32)
        compile_kernel(path, ("k",), defines).launch("k", (1,), (1,), (out,))
        return int(out[0])

    assert result(N=7) == 7
    built = len(runs)
    assert result(N=7) == 7 and len(runs) == built
    assert result(N=8) == 8 and len(runs) > built
    path.write_text(path.read_text().replace("= N", "= N + 1"))
    assert result(N=8) == 9


def test_a_changed_header_beside_the_kernel_is_noticed(tmp_path):
    path = write(tmp_path, '#include "value.cuh"\nextern "C" __global__ void k(int* out) { out[0] = VALUE; }\n')
    for value in (1, 2):
        (tmp_path / "value.cuh").write_text(f"#define VALUE {value}\n")
        out = np.zeros(1, np.int32)
        compile_kernel(path, ("k",)).launch("k", (1,), (1,), (out,))
        assert out[0] == value


def test_an_error_is_shown_at_the_kernels_own_line(tmp_path):
    path = write(tmp_path, '\nextern "C" __global__ void k(int* out) {\n    out[0] = undefined_name;\n}\n', "broken.cu")
    with pytest.raises(CompileError, match=r"^broken\.cu:4: .*undefined_name.*\.$") as caught:
        compile_kernel(path, ("k",))
    assert "\n" not in str(caught.value)


def test_an_error_in_a_define_is_shown_where_it_is_used(tmp_path):
    text = '\nstruct S { int a[N]; };\nextern "C" __global__ void k(int* out) { out[0] = sizeof(S); }\n'
    path = write(tmp_path, text)
    for value in (-1, "nothing"):
        with pytest.raises(CompileError, match=r"^kernel\.cu:3: .*: (give it another value|correct this line .*)\.$"):
            compile_kernel(path, ("k",), {"N": value})


def test_an_error_inside_a_header_is_shown_where_the_kernel_uses_it(tmp_path):
    text = 'struct P { double a, b; };\nextern "C" __global__ void k(P* p) {\n    *p = __shfl_sync(~0u, *p, 1);\n}\n'
    with pytest.raises(CompileError, match=r"^kernel\.cu:4: .*shuffle moves at most 8 bytes"):
        compile_kernel(write(tmp_path, text), ("k",))


def test_asm_is_refused_by_name(tmp_path):
    text = '// asm in a comment is fine\nextern "C" __global__ void k(int* out) {\n    asm volatile("nop;");\n}\n'
    with pytest.raises(CompileError, match=r"^kernel\.cu:4: .*inline asm"):
        compile_kernel(write(tmp_path, text), ("k",))


@pytest.mark.parametrize("name", ['a"b.cu', "a:b.cu", "a\nb.cu", "a\\b.cu"])
def test_a_file_name_that_no_compiler_can_speak_of_is_refused(tmp_path, name):
    path = write(tmp_path, "__global__ void k(int* out) { out[0] = 1; }\n", name)
    with pytest.raises(ArgumentError, match="rename it"):
        compile_kernel(path, ("k",))


def test_umlauts_blanks_and_a_byte_order_mark_are_fine(tmp_path):
    folder = tmp_path / "für alle"
    folder.mkdir()
    path = folder / "größer $x %s.cu"
    path.write_text("\ufeff" + HEAD + 'extern "C" __global__ void k(int* out) { *out = 1; }\n', encoding="utf-8")
    assert compile_kernel(path, ("k",)).entries == ("k",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('int g();\nextern "C" __global__ void k(int* out) { *out = g(); }', r"kernel.cu:\d+: g\(\) is declared but"),
        ('extern "C" __global__ int k(int* out) { return 1; }', "cannot be launched .*they must be `__global__ void`"),
        ('extern "C" __global__ void k(int& out) { out = 1; }', "cannot be launched .*they must be `__global__ void`"),
        ('#include "nowhere.h"\n__global__ void k(int* out) {}', "kernel.cu:2: .*nowhere.h"),
    ],
)
def test_code_that_cannot_be_linked_or_launched_is_named(tmp_path, text, words):
    with pytest.raises(CompileError, match=words) as caught:
        compile_kernel(write(tmp_path, text + "\n"), ("k",))
    assert "\n" not in str(caught.value)


def test_too_much_static_shared_memory_is_refused(tmp_path):
    text = 'extern "C" __global__ void k(int* p) {\n    __shared__ int s[12289];\n    s[*p] = 1, *p = s[0];\n}\n'
    with pytest.raises(CompileError, match=r"k of kernel\.cu declares 49156 bytes .* 49152: .*extern __shared__"):
        compile_kernel(write(tmp_path, text), ("k",))


def test_a_missing_entry_or_file_is_named(tmp_path):
    with pytest.raises(ArgumentError, match=r"entry 'other' is not in 01_coalescing\.cu"):
        compile_kernel(KERNEL_DIR / "01_coalescing.cu", ("other",))
    with pytest.raises(ArgumentError, match=r"The kernel file .*missing\.cu cannot be read"):
        compile_kernel(tmp_path / "missing.cu", ("k",))


@pytest.mark.parametrize(
    ("start", "words"),
    [("__global__", 'write extern "C" before it'), ('extern "C"', "is no kernel: write __global__ before its type")],
)
def test_a_function_that_a_gpu_could_not_launch_is_refused(tmp_path, start, words):
    path = write(tmp_path, f"{start} void k(int* out) {{ out[0] = 1; }}\n")
    with pytest.raises(CompileError, match=words):
        compile_kernel(path, ("k",))


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("name", ["send", "write", "accept"])
def test_a_kernel_may_have_the_name_of_a_function_of_the_c_library(tmp_path, name, counters):
    path = write(tmp_path, f'extern "C" __global__ void {name}(int* out) {{ out[0] = 7; }}\n', f"{name}.cu")
    out = np.zeros(1, np.int32)
    compile_kernel(path, (name,), counters=counters).launch(name, (1,), (1,), (out,))
    assert out[0] == 7


def test_launch_bounds_hold(tmp_path):
    bounds = "__launch_bounds__(2 * (N / 4), 3)"
    text = f'constexpr int N = 64;\nextern "C" __global__ void {bounds}\nk(int* out) {{ out[0] = N; }}\n'
    module = compile_kernel(write(tmp_path, text), ("k",))
    out = np.zeros(1, np.int32)
    module.launch("k", (1,), (32,), (out,))
    with pytest.raises(ArgumentError, match="block has 64 threads, and the __launch_bounds__ of k in .* allow 32"):
        module.launch("k", (1,), (8, 8), (out,))
    assert out[0] == 64


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(BackendError, match=r"CXX is 'no-such-compiler', which is not a program .* install g\+\+"):
        compiler_version()
    monkeypatch.setenv("CXX", '"g++')
    with pytest.raises(BackendError, match=r"which is no command line \(No closing quotation\): install g\+\+"):
        compiler_version()
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(BackendError, match=r"false does not work \(.* returned non-zero exit status 1\): "):
        compiler_version()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BackendError, match=r"found no C\+\+ compiler: install g\+\+"):
        compiler_version()


def test_another_system_is_named(monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setenv("CXX", "clang++ -DSOME=1")   # the answer for this one is not remembered yet
    with pytest.raises(BackendError, match=r"runs on Linux, and this is Darwin: use the recorded results\.$"):
        compiler_version()


def test_an_unwritable_cache_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "file"))
    with pytest.raises(BackendError, match=r"cannot be written .*HOPPER_CACHE"):
        compile_kernel(KERNEL_DIR / "01_coalescing.cu", ("matmul",))


def test_a_cache_in_the_home_of_nobody_is_named(monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", "~no-such-user/cache")
    with pytest.raises(BackendError, match=r"for compiled kernels cannot be written .*HOPPER_CACHE"):
        compile_kernel(KERNEL_DIR / "01_coalescing.cu", ("matmul",))


def test_a_compiler_that_makes_nothing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "true")
    with pytest.raises(BackendError, match="made no file and named no error: set CXX"):
        compile_kernel(KERNEL_DIR / "01_coalescing.cu", ("matmul",))


def test_two_processes_can_build_at_once(tmp_path):
    """A runtime and a kernel. The runtime is a small one; the kernel runs with the real one, which is there already."""
    (tmp_path / "emulator").mkdir()
    shutil.copy(build.build_runtime(), tmp_path / "emulator")
    runtime = tmp_path / "runtime"
    small_runtime(runtime)
    script = (
        "import pathlib, sys, time\n"
        "import numpy as np\n"
        "from helpers.emulator import build, compile_kernel\n"
        f"folder, real = pathlib.Path({str(tmp_path)!r}), build.RUNTIME\n"
        f"build.RUNTIME = pathlib.Path({str(runtime)!r})\n"
        "def together(step):\n"
        "    (folder / f'{step}-{sys.argv[1]}').touch()\n"
        "    deadline = time.monotonic() + 20\n"
        "    while len(list(folder.glob(f'{step}-*'))) < 2 and time.monotonic() < deadline:\n"
        "        time.sleep(0.001)\n"
        "together('library')\n"
        "assert build.build_runtime().exists()\n"
        "build.RUNTIME = real\n"
        "together('kernel')\n"
        f"module = compile_kernel({str(KERNELS / 'emulator_features.cu')!r}, ('indices',))\n"
        "out = np.zeros(8, np.int32)\n"
        "module.launch('indices', (2,), (4,), (out,))\n"
        "assert list(out) == list(range(8))\n"
    )
    environment = {**os.environ, "HOPPER_CACHE": str(tmp_path)}
    processes = [subprocess.Popen([sys.executable, "-c", script, str(n)], env=environment) for n in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    kinds = sorted(path.name.partition("-")[0] for path in (tmp_path / "emulator").iterdir())
    assert kinds == ["emulator_features", "libemulator", "libemulator"]   # nothing left over


def small_runtime(folder):
    """The runtime's headers and one source, which takes no time to build and runs nothing."""
    folder.mkdir()
    for header in build.RUNTIME.glob("*.h"):
        shutil.copy(header, folder)
    (folder / "only.cpp").write_text('#include "protocol.h"\n')


def copied_runtime(tmp_path, monkeypatch):
    """The runtime's sources and the cache in folders of their own."""
    runtime = tmp_path / "runtime"
    small_runtime(runtime)
    monkeypatch.setattr(build, "RUNTIME", runtime)
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))
    return runtime


def test_sources_that_change_while_they_are_compiled_are_compiled_again(tmp_path, monkeypatch):
    runtime = copied_runtime(tmp_path, monkeypatch)
    original, changes = build._run_all, []

    def run_and_change(commands):
        original(commands)
        if changes:
            (runtime / "only.cpp").write_text(changes.pop())

    monkeypatch.setattr(build, "_run_all", run_and_change)
    changes += ["int second;\n", "int first;\n"]   # while the first build compiles, and while it links
    library = build.build_runtime()
    assert library == build.build_runtime() and b"second" in library.read_bytes()
    assert len(list(library.parent.iterdir())) == 1
    changes += [f"int n{number};\n" for number in range(20)]
    (runtime / "only.cpp").write_text("int third;\n")
    with pytest.raises(BackendError, match="change while they are compiled: try it again"):
        build.build_runtime()


def test_a_library_is_moved_to_its_place_in_one_step(tmp_path, monkeypatch):
    """If it were linked there, or copied, another process could load the half that is there."""
    copied_runtime(tmp_path, monkeypatch)
    original, linked = build._run_all, []

    def run_and_look(commands):
        original(commands)
        made = Path(commands[-1][commands[-1].index("-o") + 1])
        linked.append((made.stat().st_ino, made.parent.parent.name))

    monkeypatch.setattr(build, "_run_all", run_and_look)
    library = build.build_runtime()
    assert linked[-1] == (library.stat().st_ino, "emulator")   # the same file, made in a folder of its own


def test_a_process_does_not_load_a_runtime_whose_records_have_changed(tmp_path, monkeypatch):
    runtime = copied_runtime(tmp_path, monkeypatch)
    assert build.build_runtime().exists()
    header = runtime / "protocol.h"
    header.write_text(header.read_text().replace("int32_t line = 0;", "int64_t line = 0;", 1))
    with pytest.raises(BackendError, match="files have changed since this process began: start it anew"):
        build.build_runtime()


@pytest.mark.parametrize(
    ("name", "value"),
    [("VERSION", protocol.VERSION + 1), ("RECORDS", protocol.RECORDS[:-1]), ("RECORDS", protocol.RECORDS[::-1])],
)
def test_a_library_of_other_records_is_refused(monkeypatch, name, value):
    path = build.build_runtime()
    monkeypatch.setattr(protocol, name, value)
    with pytest.raises(BackendError, match="is of another version: delete the file"):
        module._load_runtime.__wrapped__(path)


def test_a_kernel_compiles_in_good_time(tmp_path, monkeypatch):
    build.build_runtime()
    for name in ("01_coalescing", "02_smem_tiling", "03_register_tiling"):
        path = tmp_path / f"{name}.cu"
        shutil.copy(KERNEL_DIR / f"{name}.cu", path)
        path.write_text(path.read_text() + f"// {time.time_ns()}\n")
        start = time.monotonic()
        compile_kernel(path, ("matmul",), counters=True)
        assert time.monotonic() - start < 5   # 0.2 seconds on a quiet machine; a loaded one may take longer


def compilers():
    """The C++ compilers on this machine, each once, whatever its names."""
    versions = ("", *(f"-{number}" for number in range(12, 22)))
    names = [family + version for family in ("g++", "clang++") for version in versions]
    found = {os.path.realpath(path): name for name in reversed(names) if (path := shutil.which(name))}
    return sorted(found.values())


CLANG = next((name for name in compilers() if name.startswith("clang")), None)


def allow_no_warnings(monkeypatch):
    """The runtime is built with -Werror: a library of its own in the cache."""
    monkeypatch.setattr(build, "RUNTIME_FLAGS", (*build.RUNTIME_FLAGS, "-Werror"))


@pytest.mark.parametrize("name", compilers())
def test_the_runtime_builds_without_warnings(name, monkeypatch):
    monkeypatch.setenv("CXX", name)
    allow_no_warnings(monkeypatch)
    assert {"-Wall", "-Wextra"} < set(build.RUNTIME_FLAGS)
    assert build.build_runtime().exists()   # from the cache, if these sources have passed before


@pytest.mark.parametrize("name", compilers())
def test_the_headers_compile_without_warnings(name, tmp_path):
    includes = sorted(build.INCLUDE.glob("*.h"))
    unit = tmp_path / "headers.cpp"
    unit.write_text("".join(f'#include "{path.name}"\n' for path in includes) + '#include "emulator/launch.h"\n')
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(build.INCLUDE)]
    unit.write_text(f'#include "hopper.cuh"\n{unit.read_text()}')
    result = subprocess.run([name, *flags, str(unit)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(CLANG is None, reason="clang++ is not on this machine")
def test_clang_gives_the_same_counters(monkeypatch, tmp_path):
    path = KERNELS / "emulator_traffic.cu"
    arguments = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)

    def counters():
        module = compile_kernel(path, ("transpose_tile<0>",), counters=True)
        return module.launch("transpose_tile<0>", (1,), (32,), arguments).counters

    monkeypatch.setenv("CXX", "g++")
    expected = counters()
    monkeypatch.setenv("CXX", CLANG)
    allow_no_warnings(monkeypatch)   # that one is built anyway, and building it takes longest here
    assert counters() == expected


def test_source_text():
    code = source.code_only('a /* asm\n */ "asm" // asm\n\'"\' b')
    assert source.asm_line(code) is None and code.count("\n") == 2 and "b" in code
    assert source.asm_line("x\n__asm__(1)") == 2
    shared = "extern __shared__ __align__(16) float a[];\nextern __shared__ int b [ ];\n__shared__ int c[3];"
    assert source.dynamic_shared_names(shared) == ("a", "b")
    text = "template <int N> __global__ void __launch_bounds__(N * 2) f(const int* __restrict__ A, int n) {}"
    assert source.kernel_names(text) == {"f"}
    assert source.launch_bounds(text, "f<3>") == "N * 2" and source.launch_bounds(text, "g") is None
    text_of_two = "__global__ void __launch_bounds__(max(a, b),\n 2) g() {}  __global__ void f(int n) {}"
    assert source.kernel_names(text_of_two) == {"f", "g"}
    assert source.launch_bounds(text_of_two, "g") == "max(a, b), 2" and source.launch_bounds(text_of_two, "f") is None
    assert source.kernel_names("__global__ void __launch_bounds__(3") == frozenset()
    assert source.parameter_names(text, "f<3>") == ("A", "n")
    assert source.parameter_names("void g(int (*f)(int)) {}", "g") == ()


@pytest.mark.parametrize(
    "symbol, function, name",
    [
        ("_ZZ6matmulE6A_tile", "6matmul", "A_tile"),
        ("_ZZ6matmulE6A_tile_0", "6matmul", "A_tile"),
        ("_ZZ7reverseILi64EfEvPKT0_PS0_fE4tile", "7reverseILi64EfEvPKT0_PS0_f", "tile"),
        ("_ZZ1E", "", "_ZZ1E"),
        ("plain", "", "plain"),
    ],
)
def test_names_of_local_variables(symbol, function, name):
    assert image.split_local_name(symbol) == (function, name)


def test_a_damaged_library_is_no_image(tmp_path):
    for content in (b"", b"\x7fELF\x02\x01" + b"\xff" * 80, b"text" * 100):
        (tmp_path / "x.so").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.so is"):
            image.read_image(Path(tmp_path / "x.so"))


def test_lines_of_inlined_code_are_the_kernels():
    output = "0x0000000000001234\n/a/math.h:30\n./kernel.cu:12 (discriminator 3)\nkernel.cu:40\n0x1240\n??:0"
    assert lines.parse_addr2line(output, "kernel.cu") == {0x1234: 12}


def test_a_full_disk_is_not_blamed_on_the_compiler():
    log = "/tmp/cc.s: Fatal error: can't write 688 bytes to section .text of unit.o: 'No space left on device'\n"
    error = build.compile_error(log, "kernel.cu")
    assert str(error).startswith("No disk space is left for compiling: free some")


def test_a_tensor_map_that_is_no_grid_constant_is_refused(tmp_path):
    text = (KERNEL_DIR / "05_tma.cu").read_text()
    for wrong in ("TensorMap B_map", "const TensorMap B_map"):
        path = tmp_path / "copied.cu"
        path.write_text(text.replace("const __grid_constant__ TensorMap B_map", wrong))
        with pytest.raises(CompileError, match=r"copied.cu:71: parameter B_map of matmul is a TensorMap .* declare it"):
            compile_kernel(path, ("matmul",))


@pytest.mark.parametrize(
    ("declared", "alignment"),
    [("", 16), ("__align__(16) ", 16), ("__align__(128) ", 128), ("alignas(1024) ", 1024), ("__align__(BYTES) ", 1024)],
)
def test_dynamic_shared_memory_is_aligned_as_declared_and_no_more(declared, alignment):
    code = f"extern __shared__ {declared}unsigned char memory[];\nTensorMap map;"
    assert source.dynamic_shared_alignment(code) == alignment
    assert (f".skip {alignment}\n" in build.dynamic_shared_assembly(code)) == (alignment < 1024)


def test_tiles_that_are_aligned_by_luck_only_are_reported(tmp_path):
    path = tmp_path / "unaligned.cu"
    path.write_text((KERNEL_DIR / "05_tma.cu").read_text().replace("__align__(1024) uint8_t", "__align__(16) uint8_t"))
    run = emulate(5, (128, 256, 64), file=path).run
    assert run.reports[0].kind == "tma_alignment"


def test_arrays_of_python_objects_are_refused():
    loaded = compile_kernel(KERNEL_DIR / "03_register_tiling.cu", ("matmul",))
    objects = np.zeros((128, 256), object)
    with pytest.raises(ArgumentError, match="C of matmul is an array of Python objects"):
        A, B = np.zeros((128, 64), "u2"), np.zeros((64, 256), "u2")
        loaded.launch("matmul", (1, 1), (256,), (A, B, objects, 128, 256, 64))


@pytest.mark.parametrize(("version", "fills"), [
    ("g++-11 (Debian 11.3.0-12) 11.3.0", False), ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", True),
    ("c++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", False), ("g++ (conda-forge gcc 14.2.0-1) 14.2.0", True),
    ("Debian clang version 13.0.1-11+b2", True), ("clang version 22.1.8", True), ("my compiler", False),
])
def test_old_compilers_do_without_filled_variables(version, fills):
    compiler = Compiler(("c++",), version)
    assert compiler.fills_variables == fills == ("-ftrivial-auto-var-init=pattern" in kernel_flags(compiler, True))
