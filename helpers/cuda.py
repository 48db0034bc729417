"""Compiles a kernel file for NVIDIA GPUs with NVRTC, and reads what came out. Needs no GPU.

The same options serve the kernel that runs and the one that is inspected, so the registers and the SASS shown are those
of the code that is measured. `helpers.gpu` loads and launches the result.
"""

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from helpers.cache import cache_directory, write_atomically
from helpers.defines import checked_defines
from helpers.elf import sections
from helpers.errors import ArgumentError, BackendError, CompileError
from helpers.rungs import KERNEL_DIR
from helpers.words import first_line, plural

HOPPER = "sm_90a"   # the `a` allows wgmma and setmaxnreg, which exist on this architecture only
REINSTALL = "run `make setup`, which installs the pinned wheels"


@dataclass(frozen=True)
class Cubin:
    """Machine code of one kernel file.

    data: the ELF file. path: where it lies in the cache. log: what compiler and assembler said (without times).
    seconds: duration of the compilation, also when the cubin came out of the cache.
    """

    data: bytes
    log: str
    seconds: float
    nvrtc_version: str
    arch: str
    path: Path

    @property
    def entries(self) -> tuple[str, ...]:
        """The kernels in the file, in the order of the ELF sections."""
        prefix = ".text."
        return tuple(name.removeprefix(prefix) for name in sections(self.data) if name.startswith(prefix))


@dataclass(frozen=True)
class CompileReport:
    """What the assembler says about one kernel.

    registers: per thread. spill_bytes: stores plus loads per thread, 0 if everything fits in registers.
    static_shared_bytes: per CTA, without the dynamic part. barriers: hardware barriers (`bar`) used.
    warnings: of the compiler and the assembler, one line each, for the whole file.
    """

    entry: str
    registers: int
    spill_bytes: int
    static_shared_bytes: int
    barriers: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        facts = (
            f"{self.entry}: {self.registers} registers a thread, {self.spill_bytes} bytes spilled, "
            f"{self.static_shared_bytes:,} bytes of static shared memory a CTA, {plural(self.barriers, 'barrier')}"
        )
        return "\n".join((facts, *self.warnings))


def compile_cubin(path: Path, defines: Mapping[str, str | int] | None = None, arch: str = HOPPER) -> Cubin:
    """Compile a kernel file, or take the result from the cache if no input has changed.

    Headers are looked for beside the file, then beside the rungs (`hopper.cuh`), then among CUDA's. The key covers the
    text of the file and of everything it includes, the options and the compiler's version.
    Raises CompileError with the compiler's first error, and BackendError if NVRTC or the CUDA headers are missing.
    """
    path = Path(path)
    include_directories = (path.parent, KERNEL_DIR, cuda_include_directory())
    options = (
        f"-arch={arch}",
        "-std=c++17",
        "--ptxas-options=-v",
        *(f"-D{name}={value}" for name, value in sorted(checked_defines(defines).items())),
    )
    key = _content_key(path, include_directories, options)
    stored = cache_directory("cuda") / f"{path.stem[:100]}-{key}.cubin"
    return _read_cached(stored) or _compile(path, options, include_directories, stored, arch)


def compile_report(cubin: Cubin, entry: str) -> CompileReport:
    """Registers, spills and shared memory of one kernel, out of the log of its compilation.

    Raises ArgumentError if the file has no such kernel.
    """
    _require_entry(cubin, entry)
    heading = "Compiling entry function"
    part = re.search(rf"{heading} '{re.escape(entry)}'(.*?)(?={heading}|\Z)", cubin.log, re.S)
    text = part.group(1) if part else ""

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found.group(1)) if found else 0

    return CompileReport(
        entry=entry,
        registers=number(r"Used (\d+) registers"),
        spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        static_shared_bytes=number(r"(\d+) bytes smem"),
        barriers=number(r"used (\d+) barriers"),
        warnings=_warnings(cubin.log),
    )


def sass(cubin: Cubin, entry: str) -> str:
    """The SASS (machine instructions) of one kernel, as nvdisasm prints it.

    Raises BackendError if nvdisasm is missing or fails.
    """
    _require_entry(cubin, entry)
    tool = nvdisasm()
    try:
        done = subprocess.run([tool, "-c", cubin.path], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[0]
        raise BackendError(f"nvdisasm could not disassemble {cubin.path.name} ({detail}): {REINSTALL}.") from None
    listing = re.search(rf"^\.text\.{re.escape(entry)}:\n(.*?)(?=^//-----|\Z)", done.stdout, re.S | re.M)
    if listing is None:
        raise BackendError(f"nvdisasm printed no code for {entry} of {cubin.path.name}: {REINSTALL}.")
    return listing.group(1).rstrip() + "\n"


def code_hash(cubin: Cubin, entry: str) -> str:
    """Identity of a kernel's machine code: the first 16 hex digits of the SHA-256 of its `.text` section.

    Comments, names and the rest of the file don't change it; any change of an instruction does.
    """
    _require_entry(cubin, entry)
    return hashlib.sha256(sections(cubin.data)[f".text.{entry}"]).hexdigest()[:16]


@cache
def cuda_include_directory() -> Path:
    """The folder of the CUDA headers (cuda_bf16.h). Raises BackendError if there is none."""
    found = _pathfinder().find_nvidia_header_directory("cudart")
    if found is None or not (Path(found) / "cuda_bf16.h").is_file():
        raise BackendError(f"The CUDA headers (cuda_bf16.h) were not found: {REINSTALL} (nvidia-cuda-runtime).")
    return Path(found)


@cache
def nvrtc_version() -> str:
    """Version of the compiler, such as `"13.0"`. Raises BackendError if NVRTC is missing."""
    return ".".join(str(part) for part in _call("nvrtcVersion"))


@cache
def supported_architectures() -> tuple[int, ...]:
    """Architectures that this NVRTC compiles for, such as `(75, 80, 90)`. Raises BackendError without NVRTC."""
    return tuple(_call("nvrtcGetSupportedArchs")[0])


@cache
def nvdisasm() -> Path:
    """The disassembler of the nvidia-cuda-nvdisasm wheel or of a CUDA toolkit. Raises BackendError without one."""
    found = _pathfinder().find_nvidia_binary_utility("nvdisasm")
    if found is None:
        raise BackendError(f"nvdisasm was not found: {REINSTALL} (nvidia-cuda-nvdisasm).")
    return Path(found)


def _pathfinder() -> ModuleType:
    """What finds NVIDIA's wheels. Raises BackendError without it."""
    try:
        from cuda import pathfinder
    except ImportError as error:
        raise BackendError(f"cuda-pathfinder cannot be imported ({first_line(error)}): {REINSTALL}.") from None
    return pathfinder


def _call(name: str, *arguments: object) -> tuple:
    """Call an NVRTC function; its results without the status. Raises BackendError if NVRTC is missing or refuses."""
    try:
        from cuda.bindings import nvrtc

        status, *results = getattr(nvrtc, name)(*arguments)
    except Exception as error:   # each version of the bindings has its own way to say that there is no library
        raise BackendError(
            f"NVRTC, the CUDA compiler library, cannot be used ({first_line(error)}): {REINSTALL} (nvidia-cuda-nvrtc)."
        ) from None
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BackendError(f"NVRTC refused {name} ({status.name}): {REINSTALL} (nvidia-cuda-nvrtc).")
    return tuple(results)


def _compile(path: Path, options: tuple[str, ...], includes: tuple[Path, ...], stored: Path, arch: str) -> Cubin:
    from cuda.bindings import nvrtc

    version = nvrtc_version()   # first: it says in words if there is no NVRTC
    source = _read_source(path)
    started = time.perf_counter()
    (program,) = _call("nvrtcCreateProgram", source, path.name.encode(), 0, [], [])
    try:
        flags = [option.encode() for option in (*options, *(f"-I{directory}" for directory in includes))]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        seconds = time.perf_counter() - started
        log = _clean_log(_bytes_of(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").decode(errors="replace"))
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _compile_error(path, arch, log, status.name)
        data = _bytes_of(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    cubin = Cubin(data, log, round(seconds, 3), version, arch, stored)
    _write_cached(cubin)
    return cubin


def _bytes_of(program: object, size_name: str, content_name: str) -> bytes:
    (size,) = _call(size_name, program)
    buffer = bytearray(size)
    _call(content_name, program, buffer)
    return bytes(buffer)


def _compile_error(path: Path, arch: str, log: str, status: str) -> BackendError:
    errors = [line for line in log.splitlines() if re.search(r"\berror\b|^ptxas fatal", line)]
    if status == "NVRTC_ERROR_INVALID_OPTION":
        detail = errors[0] if errors else status
        return BackendError(f"NVRTC {nvrtc_version()} does not take the options for {arch} ({detail}): {REINSTALL}.")
    first = errors[0].strip().rstrip(".") if errors else status
    more = f", the first of {len(errors)} errors" if len(errors) > 1 else ""
    return CompileError(f"{first} ({path.name} does not compile for {arch}{more}): correct that line.")


def _content_key(path: Path, includes: tuple[Path, ...], options: tuple[str, ...]) -> str:
    """Hash of everything that the result depends on: CuPy's and NVRTC's own caches miss edits of included files."""
    digest = hashlib.sha256(repr((path.name, options, nvrtc_version())).encode())
    seen: set[Path] = set()
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        text = _read_source(file)
        digest.update(b"%d:" % len(text) + text)
        for name in re.findall(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', text, re.M):
            candidates = [directory / name.decode() for directory in (file.parent, *includes)]
            waiting.extend(next(([found] for found in candidates if found.is_file()), []))
    return digest.hexdigest()[:24]


def _read_source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArgumentError(
            f"The kernel file {path} cannot be read ({error.strerror or error}): give the path of a .cu file."
        ) from None


def _read_cached(stored: Path) -> Cubin | None:
    """A stored cubin, or None if there is none or it is damaged (it is then made again)."""
    try:
        data = stored.read_bytes()
        notes = json.loads(stored.with_suffix(".json").read_text())
        if hashlib.sha256(data).hexdigest() != notes.pop("sha256"):
            return None
        return Cubin(data=data, path=stored, **notes)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write_cached(cubin: Cubin) -> None:
    notes = {key: value for key, value in asdict(cubin).items() if key not in ("data", "path")}
    notes["sha256"] = hashlib.sha256(cubin.data).hexdigest()
    write_atomically(cubin.path, cubin.data)
    write_atomically(cubin.path.with_suffix(".json"), json.dumps(notes, indent=1).encode())


def _require_entry(cubin: Cubin, entry: str) -> None:
    if entry not in cubin.entries:
        raise ArgumentError(f"entry {entry!r} is not in the kernel file: it has {', '.join(cubin.entries) or 'none'}.")


def _clean_log(log: str) -> str:
    """The log without what differs from run to run."""
    lines = log.rstrip("\0").splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip() and "Compile time" not in line)


def _warnings(log: str) -> tuple[str, ...]:
    """Lines that say that something may be wrong, among them ptxas's notes that it serialised wgmma."""
    return tuple(
        line.strip() for line in log.splitlines()
        if re.search(r"\bwarning\s*[#:]", line) or "Potential Performance Loss" in line
    )
