"""What runs a kernel: the GPU, or the emulator. `helpers.kernel` has the kernel itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from helpers import gpu
from helpers.arguments import check_cluster, check_shared
from helpers.errors import ArgumentError
from helpers.rungs import H200_SMS, MAX_SHARED_BYTES

if TYPE_CHECKING:
    from helpers.emulator import EmulatedModule, EmulatorRun
    from helpers.kernel import Kernel

SCHEDULES = ("eager", "lazy", "random")


class Backend(Protocol):
    """What a kernel needs of a backend."""

    name: str
    shared_limit: int   # bytes of dynamic shared memory that a CTA can have
    sms: int            # streaming multiprocessors

    def compile(self, kernel: "Kernel") -> Any:
        """The kernel's file, ready to be launched."""

    def launch(self, compiled: Any, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int) -> Any:
        """Launch a function of it; the emulator returns its EmulatorRun, the GPU None."""


@dataclass(frozen=True)
class EmulatedKernel:
    """A kernel compiled for the emulator. dependent: whether it waits for the launch before by itself, see `Rung`."""

    module: "EmulatedModule"
    dependent: bool


@dataclass(frozen=True)
class EmulatorBackend:
    """Runs a kernel on the CPU. schedule: `"eager"`, `"lazy"` or `"random"` (with `seed`).

    counters: count memory traffic, and check bounds and races, which needs the same instrumentation. Ten times faster
    without, but then a kernel can be right by luck. sms: of the GPU that is played.
    """

    schedule: str = "lazy"
    seed: int = 0
    counters: bool = True
    sms: int = H200_SMS
    name: str = "emulator"
    shared_limit: int = MAX_SHARED_BYTES

    def compile(self, kernel: "Kernel") -> EmulatedKernel:
        from helpers.emulator import compile_kernel

        module = compile_kernel(kernel.path, kernel.entries, kernel.defines, counters=self.counters)
        return EmulatedKernel(module, kernel.rung.dependent)

    def launch(
        self, compiled: EmulatedKernel, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> "EmulatorRun":
        return compiled.module.launch(
            entry,
            grid,
            block,
            arguments,
            shared_bytes=shared_bytes,
            schedule=self.schedule,
            seed=self.seed,
            dependent=compiled.dependent,
            sms=self.sms,
        )


@dataclass(frozen=True)
class GpuKernel:
    """A loaded kernel: CuPy's function, the CTAs of its clusters along x, y, z, and its static shared memory.

    dependent: whether it waits for the launch before by itself, see `Rung`.
    """

    function: Any
    cluster: tuple[int, int, int]
    static_shared_bytes: int
    dependent: bool


@dataclass(frozen=True)
class CudaBackend:
    """Runs a kernel on the GPU, compiled for the card's own architecture. Launches are asynchronous."""

    gpu: gpu.Gpu
    name: str = "cuda"

    @property
    def shared_limit(self) -> int:
        return self.gpu.shared_bytes

    @property
    def sms(self) -> int:
        return self.gpu.sms

    def compile(self, kernel: "Kernel") -> GpuKernel:
        function = gpu.load_function(kernel.cubin.path, kernel.entry)
        return GpuKernel(function, gpu.cluster_dims(function), function.shared_size_bytes, kernel.rung.dependent)

    def launch(
        self, compiled: GpuKernel, entry: str, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> None:
        self.prepared(compiled, grid, block, arguments, shared_bytes)()

    def prepared(
        self, compiled: GpuKernel, grid: tuple, block: tuple, arguments: tuple, shared_bytes: int
    ) -> Callable[[], None]:
        """A launch as a function of no arguments."""
        check_cluster(grid, compiled.cluster)
        check_shared(compiled.static_shared_bytes, shared_bytes, self.shared_limit)
        return gpu.prepared_launch(compiled.function, grid, block, arguments, shared_bytes, compiled.dependent)


def require_schedule(schedule: str) -> None:
    """Raises ArgumentError if there is no such schedule."""
    if schedule not in SCHEDULES:
        raise ArgumentError(f"schedule {schedule!r} is not known: give 'eager', 'lazy' or 'random'.")
