"""Compiles all kernels and probes for Hopper with other versions of NVRTC: registers, spills and warnings of each.

    python -m pip install --no-deps --target build/nvrtc-12.9 "nvidia-cuda-nvrtc-cu12==12.9.*" "nvidia-cuda-runtime-cu12==12.9.*"
    python scripts/nvrtc.py build/nvrtc-12.9

Each argument is a folder that holds libnvrtc.so.* and CUDA's headers somewhere below. Exit code 1 if a kernel does not
compile, spills, or is warned about. The course itself uses the pinned version only (helpers/cuda.py).
"""   # noqa: E501

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = ("-arch=sm_90a", "-std=c++17", "--ptxas-options=-v")


class Nvrtc:
    """A version of the compiler, loaded from a folder."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(_one(folder, "libnvrtc.so.*")))
        self.include = _one(folder, "cuda_bf16.h").parent
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, path: Path) -> tuple[int, str]:
        """NVRTC's status, 0 if all went well, and what compiler and assembler said."""
        program = ctypes.c_void_p()
        call = self.library
        call.nvrtcCreateProgram(ctypes.byref(program), path.read_bytes(), path.name.encode(), 0, None, None)
        includes = (f"-I{folder}" for folder in (path.parent, ROOT / "kernels", self.include))
        options = [option.encode() for option in (*OPTIONS, *includes)]
        status = call.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        size = ctypes.c_size_t()
        call.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        call.nvrtcGetProgramLog(program, log)
        call.nvrtcDestroyProgram(ctypes.byref(program))
        return status, log.value.decode(errors="replace")


def _one(folder: Path, pattern: str) -> Path:
    found = sorted(path for path in folder.rglob(pattern) if "alt" not in path.name)
    if not found:
        raise SystemExit(f"error: {folder} holds no {pattern}: install NVRTC and CUDA's headers there, see above.")
    return found[0]


def faults(nvrtc: Nvrtc) -> Iterator[str]:
    """A line per file is printed; what is wrong is yielded."""
    for path in sorted((ROOT / "kernels").glob("*.cu")) + sorted((ROOT / "helpers" / "probes").glob("*.cu")):
        status, log = nvrtc.compile(path)
        registers = re.findall(r"Used (\d+) registers", log)
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", log)))
        warned = [line for line in log.splitlines() if re.search(r"\bwarning\s*[#:]|Potential Performance Loss", line)]
        print(f"NVRTC {nvrtc.version}  {path.name:<20} {', '.join(registers)} registers, {spilled} bytes spilled")
        if status:
            yield f"{path.name} does not compile with NVRTC {nvrtc.version}: {log.strip().splitlines()[0]}"
        if spilled:
            yield f"{path.name} spills {spilled} bytes with NVRTC {nvrtc.version}"
        yield from (f"{path.name}, NVRTC {nvrtc.version}: {line.strip()}" for line in warned)


def main(folders: list[str]) -> int:
    """Exit code 0, or 1 if something was wrong, 2 without a folder."""
    if not folders:
        print(__doc__, file=sys.stderr)
        return 2
    found = [fault for folder in folders for fault in faults(Nvrtc(Path(folder)))]
    print(*found, sep="\n", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
