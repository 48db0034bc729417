"""The GPU of this machine: whether there is one, what it can run, and how a cubin is launched on it.

Finding out needs neither CuPy nor a driver. CuPy is imported only where a GPU is really used.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from helpers.cuda import supported_architectures
from helpers.dependent import DependentLaunch
from helpers.errors import BackendError
from helpers.nvml import memory_info
from helpers.words import first_line

NEEDED_DRIVER = 13000   # CUDA 13.0, as cuDriverGetVersion counts
CUDA_ERRORS = ("CUDARuntimeError", "CUDADriverError")   # CuPy's, for what CUDA refuses
UNAVAILABLE = ("cudaErrorDevicesUnavailable", "CUDA_ERROR_DEVICE_UNAVAILABLE")
NO_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")
STATIC_LIMIT = 48 * 1024   # more shared memory than this has to be asked for (CUDA C++ Programming Guide, 16.4)


@dataclass(frozen=True)
class Gpu:
    """The first visible GPU.

    capability: (major, minor), such as (9, 0). driver: what cuDriverGetVersion says, such as 13000.
    shared_bytes: the most shared memory that a CTA can ask for. sms: streaming multiprocessors.
    """

    name: str
    capability: tuple[int, int]
    driver: int
    shared_bytes: int
    sms: int

    @property
    def architecture(self) -> str:
        """The card's own architecture for NVRTC: `sm_90a` on Hopper, `sm_89` and so on elsewhere.

        Raises BackendError if the installed NVRTC cannot compile for it.
        """
        major, minor = self.capability
        own = 10 * major + minor
        if own == 90:
            return "sm_90a"
        # Code for a lower minor number runs on a higher one of the same generation.
        usable = [number for number in supported_architectures() if number // 10 == major and number <= own]
        if not usable:
            oldest = min(supported_architectures())
            raise BackendError(
                f"{self.name} has compute capability {major}.{minor}, which this NVRTC does not compile for "
                f"(the oldest is {oldest // 10}.{oldest % 10}): use the emulator, load(..., backend='emulator')."
            )
        return f"sm_{max(usable)}"


@dataclass(frozen=True)
class Probe:
    """Answer to "is there a GPU?": the GPU, or None and a sentence that says why not, with the remedy."""

    gpu: Gpu | None
    problem: str = ""


@cache
def probe() -> Probe:
    """Ask the driver for the first GPU. Never raises."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return Probe(None, f"cuda-bindings cannot be imported ({error}): run `make setup`.")
    try:
        return _probe(driver)
    except Exception as error:   # without libcuda.so.1 the kind of error depends on the version of the bindings
        why = "" if "NotFound" in type(error).__name__ else f" ({' '.join(str(error).split()).rstrip('.')})"
        return Probe(None, f"No NVIDIA driver was found{why}: install it if there is a GPU, or use the emulator.")


class _DriverRefusal(Exception):
    """A driver call that did not succeed, with its name and status."""


def _probe(driver: Any) -> Probe:
    def ask(name: str, *arguments: object) -> Any:
        status, *results = getattr(driver, name)(*arguments)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise _DriverRefusal(f"{name}: {status.name}")
        return results[0] if results else None

    try:
        ask("cuInit", 0)
        count = ask("cuDeviceGetCount")
    except _DriverRefusal as error:
        return Probe(None, f"The NVIDIA driver finds no usable GPU ({error}): see `nvidia-smi`, or use the emulator.")
    if count == 0:
        return Probe(None, "The NVIDIA driver shows no GPU: see `nvidia-smi` and CUDA_VISIBLE_DEVICES.")
    attribute = driver.CUdevice_attribute
    device = ask("cuDeviceGet", 0)
    major = ask("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    minor = ask("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    shared = ask("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device)
    sms = ask("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
    name = ask("cuDeviceGetName", 128, device).split(b"\0")[0].decode(errors="replace")
    version = ask("cuDriverGetVersion")
    if version < NEEDED_DRIVER:
        return Probe(None, f"The driver of {name} supports CUDA {_dotted(version)}, this package needs "
                           f"{_dotted(NEEDED_DRIVER)}: update the NVIDIA driver, or use the emulator.")
    return Probe(Gpu(name, (major, minor), version, shared, sms))


def meets(rule: str, capability: tuple[int, int]) -> bool:
    """Whether a compute capability fits a rung's rule, `">=7.5"` or `"==9.0"`."""
    major, minor = (int(part) for part in rule[2:].split("."))
    return capability == (major, minor) if rule.startswith("==") else capability >= (major, minor)


def rule_words(rule: str) -> str:
    """A rung's rule in words: `"7.5 or newer"`, `"exactly 9.0 (Hopper)"`."""
    return f"exactly {rule[2:]} (Hopper)" if rule.startswith("==") else f"{rule[2:]} or newer"


def unfit(name: str, rule: str, gpu: Gpu) -> str:
    """Why a GPU cannot run the rung of this name and rule, a sentence without its full stop; "" if it can."""
    try:
        _ = gpu.architecture
    except BackendError as error:   # NVRTC has dropped the card, or is not there: so it is with every rung
        return str(error).rpartition(": ")[0]
    if not meets(rule, gpu.capability):
        major, minor = gpu.capability
        needed = rule_words(rule)
        return f"{name} needs a GPU of compute capability {needed}, and {gpu.name} has {major}.{minor}"
    return ""


def require_gpu(rung_name: str, rule: str) -> Gpu:
    """The GPU, if it can run a rung with this rule.

    Raises BackendError, before anything is compiled, if there is none or it does not fit.
    """
    answer = probe()
    if answer.gpu is None:
        raise BackendError(answer.problem)
    if problem := unfit(rung_name, rule, answer.gpu):
        raise BackendError(f"{problem}: use the emulator, load(..., backend='emulator').")
    return answer.gpu


def load_function(cubin_path: Path, entry: str) -> Any:
    """The CuPy function of a kernel in a cubin file. Raises BackendError if the driver refuses the file."""
    import cupy

    try:
        return cupy.RawModule(path=str(cubin_path)).get_function(entry)
    except Exception as error:
        raise driver_error(f"The driver cannot load {entry} of {cubin_path.name}", error) from None


def cluster_dims(function: Any) -> tuple[int, int, int]:
    """The CTAs of a cluster along x, y and z, as the kernel's `__cluster_dims__` says; 1, 1, 1 if it has none."""
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute
    handle = driver.CUfunction(function.kernel.ptr)
    sizes = []
    for axis in ("WIDTH", "HEIGHT", "DEPTH"):
        wanted = getattr(attribute, f"CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_{axis}")
        status, size = driver.cuFuncGetAttribute(wanted, handle)
        sizes.append(size if status == driver.CUresult.CUDA_SUCCESS else 0)
    x, y, z = (max(1, size) for size in sizes)   # 0: the kernel does not say
    return x, y, z


def most_clusters(function: Any, ctas: int, threads: int, shared: int) -> int:
    """How many clusters of so many CTAs along x have room on the GPU at once, as the driver reckons (0: none).

    function: without `__cluster_dims__`. threads, shared: of a CTA; bytes of dynamic shared memory.
    Raises BackendError if the driver refuses the question.
    """
    from cuda.bindings import driver

    _allow_shared(function, shared)
    size = driver.CUlaunchAttribute()
    size.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dims = size.value.clusterDim
    dims.x, dims.y, dims.z = ctas, 1, 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = ctas, 1, 1   # a multiple of the cluster; else of no account
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared
    config.attrs, config.numAttrs = [size], 1
    status, count = driver.cuOccupancyMaxActiveClusters(driver.CUfunction(function.kernel.ptr), config)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise BackendError(f"The driver does not say how many clusters of {ctas} CTAs fit ({status.name}): update it.")
    return count


def launch_function(function: Any, grid: Sequence[int], block: Sequence[int], arguments: tuple, shared: int) -> None:
    """Queue one launch on CuPy's current stream. Raises BackendError if the driver refuses it."""
    prepared_launch(function, grid, block, arguments, shared)()


def prepared_launch(
    function: Any, grid: Sequence[int], block: Sequence[int], arguments: tuple, shared: int, dependent: bool = False
) -> Callable[[], None]:
    """The same as a function of no arguments, to be called as often as needed.

    dependent: as a programmatic dependent launch, see helpers.dependent.
    """
    grid, block = tuple(grid), tuple(block)
    try:
        _allow_shared(function, shared)
        if dependent:
            queue = DependentLaunch(function, grid, block, arguments, shared)
        else:
            queue = partial(function, grid, block, arguments, shared_mem=shared)
    except Exception as error:
        raise driver_error("The GPU refused the launch", error) from None

    def launch() -> None:
        try:
            queue()
        except Exception as error:
            raise driver_error("The GPU refused the launch", error) from None

    return launch


def _allow_shared(function: Any, shared: int) -> None:
    """Ask for so many bytes of dynamic shared memory where a function does not have them by itself."""
    if shared > STATIC_LIMIT:
        function.max_dynamic_shared_size_bytes = shared


def synchronize() -> None:
    """Wait for the GPU. Raises BackendError if a kernel failed on it."""
    import cupy

    try:
        cupy.cuda.get_current_stream().synchronize()
    except Exception as error:
        raise driver_error("The kernel failed on the GPU", error) from None


@contextmanager
def memory_for(what: str) -> Iterator[None]:
    """Where arrays are made on the GPU, mostly the first use of it.

    Raises BackendError if its memory does not suffice for `what`, or if CUDA refuses the GPU: another process may have
    it to itself (compute mode Exclusive Process).
    """
    try:
        yield
    except Exception as error:
        if is_of_gpu(error):
            raise out_of_memory(what, error) from None
        if type(error).__name__ != "CUDARuntimeError":
            raise
        raise unavailable(what, error) from None


def is_of_gpu(error: Exception) -> bool:
    """Whether the GPU's memory did not suffice, not the machine's.

    Either an array had no room (CuPy's OutOfMemoryError), or what CUDA makes by itself: a context, a kernel's code.
    """
    if isinstance(error, MemoryError):
        return type(error).__module__.partition(".")[0] == "cupy"
    return type(error).__name__ in CUDA_ERRORS and any(word in str(error) for word in NO_MEMORY)


def out_of_memory(what: str, error: Exception) -> BackendError:
    """An error that `is_of_gpu` as one sentence: how much more was needed, and how much is free."""
    import cupy

    asked = re.search(r"allocating ([\d,]+) bytes", str(error))
    needed = f"{_size(int(asked[1].replace(',', '')))} more" if asked else "more"
    try:
        known = cupy.cuda.runtime.memGetInfo()
    except Exception as refusal:   # it makes a context, too; the sentence is worth having without it
        known = memory_info()
        if is_of_gpu(refusal):
            needed += ", beside a CUDA context of some hundred MiB,"
    left = "{} of {} are free".format(*map(_size, known)) if known else "it does not say how much is free"
    return BackendError(
        f"The GPU's memory does not suffice for {what}: {needed} is needed, and {left}; give a smaller size, delete "
        "arrays of this session, or see in `nvidia-smi` who else uses the GPU."
    )


def unavailable(what: str, error: Exception) -> BackendError:
    """CUDA refuses the GPU, as a sentence: another process has it to itself, or left no memory for a context."""
    return BackendError(
        f"The GPU cannot be used for {what} ({first_line(error)}): see in `nvidia-smi` whether another process has it "
        "to itself or has taken its memory, or use the emulator."
    )


def driver_error(what: str, error: Exception) -> BackendError:
    """A driver's error as one sentence."""
    if is_of_gpu(error):
        return out_of_memory("this launch", error)
    if any(word in str(error) for word in UNAVAILABLE):
        return unavailable("this launch", error)
    return BackendError(
        f"{what} ({first_line(error)}): run the kernel on the emulator to see where, then start Python anew."
    )


def _size(count: int) -> str:
    """So many bytes in words."""
    if count < 1 << 20:
        return f"{count:,} bytes"
    return f"{count / 2**20:,.0f} MiB" if count < 1 << 30 else f"{count / 2**30:,.2f} GiB"


def _dotted(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
