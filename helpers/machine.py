"""What this machine can do for a reader: run kernels live, or on the emulator with recorded speeds."""

from dataclasses import dataclass

from helpers.device import Device, device_info, no_device_reason
from helpers.errors import BackendError


@dataclass(frozen=True)
class Machine:
    """device: the GPU, or None and why. compiler: the C++ compiler of the emulator, or None and why."""

    device: Device | None
    no_device: str | None
    compiler: str | None
    no_compiler: str | None

    def __str__(self) -> str:
        if self.device is not None:
            gpu = f"{self.device.name}, {self.device.sm_count} SMs. Kernels run on it, and speeds are measured live."
        else:
            gpu = f"none ({self.no_device}). Kernels run on the CPU emulator, and speeds are recordings."
        emulator = f"counters and reports, compiled with {self.compiler}." if self.compiler else f"no: {self.no_compiler}"
        return f"GPU       {gpu}\nemulator  {emulator}"


def machine() -> Machine:
    """Look at this machine. Never raises for something that is missing: it says so."""
    from helpers.emulator import compiler_version

    compiler = no_compiler = None
    try:
        compiler = compiler_version()
    except BackendError as error:
        no_compiler = str(error)
    device = device_info()
    reason = None if device else (no_device_reason() or "no NVIDIA GPU").rstrip(".")
    return Machine(device, reason, compiler, no_compiler)
