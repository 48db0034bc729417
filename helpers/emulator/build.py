"""Builds the runtime library and kernels, each once: files in the cache folder are named after what went into them."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from helpers.cache import cache_directory, unwritable
from helpers.emulator import protocol, source
from helpers.emulator.compiler import Compiler, find_compiler, machine_flags, machine_identity, sanitizer_flags
from helpers.errors import ArgumentError, BackendError, CompileError

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"
MOST_BUILDS = 3   # of sources that keep changing
MAX_SHARED_BYTES = 227 * 1024        # of a CTA on Hopper, static and dynamic together
MAX_STATIC_SHARED_BYTES = 48 * 1024  # what can be declared without `extern`, on every GPU
SPARE_SHARED_BYTES = 64 * 1024
USES_HOPPER = re.compile(r"\bTensorMap\b")
DYNAMIC_SHARED = "emulator_dynamic_shared"   # the symbol at which the dynamic arrays begin
NO_SPACE = "No space left on device"
LAUNCH_FILE = "emulator-launch"      # the name under which messages speak of the generated part

LINK_FLAGS = (
    "-Wl,-rpath,$ORIGIN",
    "-Wl,-z,defs",
    "-Wl,-Bsymbolic",   # the file's own functions are called, also those that have the name of one of libc's
)
COMMON_FLAGS = ("-std=c++17", "-fPIC", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-pthread")
RUNTIME_FLAGS = ("-O3", "-g1", "-Wall", "-Wextra")   # -O3 unrolls the loops of wgmma_math.cpp
KERNEL_FLAGS = (
    "-g", "-gdwarf-4",             # addr2line reads DWARF 4 of both compilers right, not DWARF 5
    "-w",                          # warnings are nvcc's business
    "-fno-exceptions",
    "-fno-finite-loops",           # a loop without end is a fault to be reported; C++ would let it be left out
    "-ffp-contract=fast",          # a * b + c is one operation, as on the GPU
    "-ftls-model=local-dynamic",   # shared memory is thread-local, and all of it in this library
    "-fstack-clash-protection",    # a stack overflow always meets the page below the stack
)
PATTERN_FLAGS = ("-ftrivial-auto-var-init=pattern",)   # what was never given a value is no plausible number
# For compiling only: the link goes without, so that the hooks are the runtime's and not ThreadSanitizer's. No kernel
# ends with a jump to the runtime in place of a call: where it returns to says which line it is.
HOOK_FLAGS = ("-fsanitize=thread", "-fno-optimize-sibling-calls")
# The last two keep an access at its own source line: they would move it to where its address is computed.
GNU_HOOK_FLAGS = ("--param", "tsan-instrument-func-entry-exit=0", "-fno-ivopts", "-fno-tree-pre")
# clang would unroll loops, merge accesses into vectors and split vectors before it puts the hooks in, and the counters
# would count what that leaves.
CLANG_HOOK_FLAGS = (
    "-mllvm", "-tsan-instrument-func-entry-exit=0",
    "-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize", "-mllvm", "-disable-vector-combine",
)


def build_runtime() -> Path:
    """The runtime library, built if need be (a few seconds, once). Raises BackendError if it cannot be."""
    compiler = find_compiler()
    flags = (*COMMON_FLAGS, *RUNTIME_FLAGS, *machine_flags(), *sanitizer_flags())
    sources = sorted(RUNTIME.glob("*.cpp"))
    headers = [*sorted(RUNTIME.glob("*.h")), *sorted((INCLUDE / "emulator").glob("abi*.h"))]
    names = [path.name for path in sources]

    def key() -> str:
        contents = _contents(sources + headers)
        if protocol.HEADER_DIGEST not in {sha256(content).hexdigest() for content in contents}:
            raise BackendError(
                "The emulator's files have changed since this process began: start it anew (in a notebook, restart the "
                "kernel)."
            )
        return _key(compiler.version, machine_identity(), flags, *names, *contents)

    def build(built: Path, scratch: Path) -> None:
        objects = [scratch / f"{path.stem}.o" for path in sources]
        _run_all([
            [*compiler.command, *flags, "-c", str(path), "-o", str(target)]
            for path, target in zip(sources, objects, strict=True)
        ])
        link = [*compiler.command, "-shared", "-pthread", *sanitizer_flags(), f"-Wl,-soname,{built.name}"]
        _run_all([[*link, "-o", str(built), *map(str, objects)]])

    return _cached("libemulator", key, build)


def build_kernel(
    path: Path, entries: Sequence[str], defines: Mapping[str, str | int], counters: bool, runtime: Path
) -> Path:
    """The library of a kernel's file, compiled if need be.

    Raises ArgumentError for an entry that the file does not have, CompileError if the file does not compile.
    """
    compiler = find_compiler()
    text = _read(path)
    code = source.code_only(text)
    _check_source(path, code, entries)
    assembly = dynamic_shared_assembly(code)
    unit = translation_unit(path.name, text, entries)
    flags = kernel_flags(compiler, counters)
    settings = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    headers = [*sorted(INCLUDE.rglob("*")), *sorted(path.parent.glob("*.cuh")), *sorted(path.parent.glob("*.h"))]

    def key() -> str:
        identity = compiler.version, machine_identity(), runtime.name, flags, LINK_FLAGS, settings, unit, assembly
        return _key(*identity, *_contents(headers))

    def build(built: Path, scratch: Path) -> None:
        unit_path = scratch / "unit.cpp"
        unit_path.write_text(unit, encoding="utf-8")
        includes = ["-I", str(INCLUDE), "-I", str(path.resolve().parent)]
        compiled = scratch / "unit.o"
        command = [*compiler.command, *flags, *includes, *settings, "-c", str(unit_path), "-o", str(compiled)]
        _compile(command, path.name)
        dynamic = scratch / "dynamic.s"
        dynamic.write_text(assembly, encoding="utf-8")
        link = [*compiler.command, "-shared", str(compiled), str(dynamic), str(runtime), *LINK_FLAGS]
        _compile([*link, "-o", str(built)], path.name)

    return _cached(path.stem[:100], key, build)


def kernel_flags(compiler: Compiler, counters: bool) -> tuple[str, ...]:
    """The compiler's flags for a kernel."""
    flags = (*COMMON_FLAGS, *KERNEL_FLAGS, *machine_flags(), "-O2")
    if compiler.fills_variables:
        flags += PATTERN_FLAGS
    if not compiler.is_clang:
        # Shared arrays have no constructors; without this flag each access would first ask for one.
        flags += ("-fno-extern-tls-init",)
    if counters:
        flags += (*HOOK_FLAGS, *(CLANG_HOOK_FLAGS if compiler.is_clang else GNU_HOOK_FLAGS))
    return flags


def dynamic_shared_assembly(code: str) -> str:
    """Assembly that defines the dynamic shared arrays of a kernel's file: one piece of memory, whatever their types.

    Linked after the kernel, it lies behind the static arrays, so that an index beyond one of those ends up here and
    not in memory of the process; with room to spare for an index beyond the dynamic arrays.
    """
    labels = [
        f".globl {name}\n.hidden {name}\n.type {name}, %tls_object\n{name}:"
        for name in (*source.dynamic_shared_names(code), DYNAMIC_SHARED)
    ]
    size = MAX_SHARED_BYTES + SPARE_SHARED_BYTES
    # Where 1024 bytes are not asked for, a GPU need not give them: then the arrays begin at no more than what is.
    alignment = source.dynamic_shared_alignment(code)
    shift = [f".skip {alignment}"] if alignment < 1024 and USES_HOPPER.search(code) else []
    lines = ['.section .tbss,"awT",%nobits', ".balign 1024", *shift, *labels, f".skip {size}"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


def translation_unit(name: str, text: str, entries: Sequence[str]) -> str:
    """The C++ that is compiled for a kernel's file: the language, the file as it is, and how to call it.

    The file is included by value, so that its `#include "..."` finds the emulator's headers before the GPU's, and
    under its own name, so that messages and line numbers are those of the file.
    """
    code = source.code_only(text)
    attributes = [
        f"{macro}({number}, {arguments})"
        for macro, find in (("EMULATOR_BOUNDS", source.launch_bounds), ("EMULATOR_CLUSTER", source.cluster_dims))
        for number, entry in enumerate(entries)
        if _has_meaning(arguments := find(code, entry), entry)
    ]
    return "\n".join([
        '#include "emulator/cuda.h"',
        f'#line 1 "{name}"',
        text,
        f'#line 1 "{LAUNCH_FILE}"',
        '#include "emulator/launch.h"',
        f"extern thread_local char {DYNAMIC_SHARED}[];",
        f'extern "C" char* emulator_dynamic() {{ return {DYNAMIC_SHARED}; }}',
        *(f"EMULATOR_ENTRY({number}, {entry})" for number, entry in enumerate(entries)),
        *attributes,
        "",
    ])


def _has_meaning(arguments: str | None, entry: str) -> bool:
    """Whether an attribute's arguments mean something outside of the kernel: a template's parameters don't."""
    return arguments is not None and ("<" not in entry or re.fullmatch(r"[\d\s,]+", arguments) is not None)


def compile_error(log: str, name: str) -> BackendError:
    """The compiler's first error in one sentence, at the kernel's own line; `log` has the rest."""
    if NO_SPACE in log:
        return _disk_full()
    missing = re.search(r"undefined (?:reference to|symbol:) [`']?([^'\n]+)", log)
    if missing:
        found = re.search(rf"{re.escape(name)}:\d+", log)
        place = found[0] if found else name
        return CompileError(f"{place}: {missing[1]} is declared but not defined: define it in this file.")
    # An error in what a -D says comes without a line, and a note has the one that uses it.
    start = re.search(r"^([^\n]*?): (?:fatal )?error: (.*)$", log, re.MULTILINE)
    if start and start[1] == "<command-line>":
        used = re.search(rf"^{re.escape(name)}:(\d+):.* in expansion of macro '(\w+)'", log[start.end():], re.MULTILINE)
        if used:
            line, macro = used.groups()
            return CompileError(f"{name}:{line}: {start[2]}, with {macro} as it is defined: give it another value.")
    first = re.search(r"^([^\n:]+):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", log, re.MULTILINE)
    if first is None:
        last = next((line for line in reversed(log.splitlines()) if line.strip()), "no message")
        return CompileError(f"{name} does not compile: {last.strip().rstrip('.')}.")
    file, line, message = first[1], first[2], first[3].strip()
    if Path(file).name != name:
        # The error is in a header: the kernel's line is where the header's function was used.
        used = re.search(rf"(?:^|/){re.escape(name)}:(\d+)", log, re.MULTILINE)
        if used:
            line = used[1]
        elif file == LAUNCH_FILE or file.endswith("emulator/launch.h"):
            return CompileError(
                f"{name} compiles, but its functions cannot be launched ({message.rstrip('.')}): "
                "they must be `__global__ void`, with parameters that are passed by value."
            )
        else:
            place = f"{Path(file).name}:{line}"
            return CompileError(f"{place}: {message.rstrip('.')}: correct the #includes and defines of {name}.")
    return CompileError(f"{name}:{line}: {message.rstrip('.')}: correct this line and compile again.")


def _check_source(path: Path, code: str, entries: Sequence[str]) -> None:
    if not path.name.isprintable() or set(path.name) & set(':"\\'):
        raise ArgumentError(
            f"The kernel file's name is {path.name!r}: compilers cannot speak of a file whose name has a quote, "
            "a colon, a backslash or a control character; rename it."
        )
    line = source.asm_line(code)
    if line is not None:
        raise CompileError(
            f"{path.name}:{line}: the emulator cannot run inline asm: "
            "use a function of hopper.cuh, which it has a twin of."
        )
    for entry in entries:
        if not source.has_function(code, entry):
            raise ArgumentError(f"entry {entry!r} is not in {path.name}: give the name of one of its functions.")
        if source.base_name(entry) not in source.kernel_names(code):
            raise CompileError(f"{entry} of {path.name} is no kernel: write __global__ before its type.")
        if found := source.map_without_grid_constant(code, entry):
            raise CompileError(
                f"{path.name}:{found[1]}: parameter {found[0]} of {entry} is a TensorMap that a thread would copy, and "
                f"TMA does not look for maps there: declare it `const __grid_constant__ TensorMap {found[0]}`."
            )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")   # without the mark that some editors begin a file with
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f"The kernel file {path} cannot be read ({reason}): give a .cu file in UTF-8.") from None


def _compile(command: Sequence[str], name: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}   # plain quotes, English
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    if result.returncode != 0:
        raise compile_error(result.stderr, name)


def _run_all(commands: Sequence[Sequence[str]]) -> None:
    """Run commands of the runtime's build, as many at once as there are processors."""
    waiting, running = list(commands), []
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                command = waiting.pop(0)
                running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            process = running.pop(0)
            _, log = process.communicate()
            if process.returncode != 0:
                if NO_SPACE in log:
                    raise _disk_full()
                first = next((line for line in log.splitlines() if "error" in line), "no message")
                raise BackendError(
                    f"The emulator's runtime does not build with {command[0]} ({first.strip()}): "
                    "set CXX to g++ 12 or clang++ 14, or later."
                )
    finally:
        for process in running:
            process.kill()
            process.wait()


def _disk_full() -> BackendError:
    return BackendError(
        "No disk space is left for compiling: free some, or set HOPPER_CACHE and TMPDIR to folders where there is some."
    )


def _scratch(directory: Path) -> "tempfile.TemporaryDirectory[str]":
    try:
        return _ScratchDirectory(dir=directory, prefix="building-")
    except OSError as error:
        raise unwritable(directory, error) from None


class _ScratchDirectory(tempfile.TemporaryDirectory):
    """A temporary folder as a Path."""

    def __enter__(self) -> Path:
        return Path(super().__enter__())


def _install(built: Path, target: Path) -> None:
    """Move a finished file to its place in one step: another process sees all of it or nothing."""
    if not built.exists():
        raise BackendError("The C++ compiler made no file and named no error: set CXX to g++ or clang++.")
    try:
        os.replace(built, target)
    except OSError as error:
        raise unwritable(target.parent, error) from None


def _cached(name: str, key: Callable[[], str], build: Callable[[Path, Path], None]) -> Path:
    """The library of that name and key, made by `build(library, scratch folder)` if there is none.

    The key covers all that is compiled. It is asked again after the build: sources that changed while the compiler read
    them would leave a library under the name of another.
    """
    for _ in range(MOST_BUILDS):
        before = key()
        library = cache_directory("emulator") / f"{name}-{before}.so"
        if library.exists():
            return library
        with _scratch(library.parent) as scratch:
            built = scratch / library.name
            build(built, scratch)
            if key() == before:
                _install(built, library)
                return library
    raise BackendError("The emulator's sources, or a kernel's headers, change while they are compiled: try it again.")


def _contents(paths: Iterable[Path]) -> list[bytes]:
    return [path.read_bytes() for path in paths if path.is_file()]


def _key(*parts: object) -> str:
    digest = sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
