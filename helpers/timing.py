"""Times launches on the GPU with CUDA events, and reads the SM clock inside a kernel right after them.

Launches are queued behind a spinning kernel, so that the events between which they stand time the GPU and not how fast
the CPU launches (without it cuBLAS at N = 4096 reads 5% low). The SM clock comes from helpers/probes/sm_clock.cu.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from helpers.cuda import compile_cubin
from helpers.device import Device, device_info, no_device_reason
from helpers.errors import BackendError
from helpers.gpu import driver_error, load_function, probe
from helpers.nvml import PowerMeter, Telemetry

PROBES = Path(__file__).resolve().parent / "probes"
CLOCK_WINDOW_US = 50
FALLBACK_CLOCK_MHZ = 2000.0   # only turns a spin's milliseconds into cycles

Launch = Callable[[], Any]


@dataclass(frozen=True)
class Burst:
    """One burst. ms: per launch. sm_clock_mhz: right after the last launch, or None. queue_ms: how long the CPU took to
    queue everything; the launches were hidden behind the spin if it is below the spin's length. telemetry: read while
    the GPU was at work.
    """

    ms: float
    sm_clock_mhz: float | None
    queue_ms: float
    telemetry: Telemetry


@dataclass(frozen=True)
class Turn:
    """Back-to-back launches. samples_ms: per chunk, milliseconds per launch. clocks_mhz: SM clock after each chunk.
    telemetry: a reading per chunk. seconds: of the whole turn, the dropped beginning included.
    """

    samples_ms: tuple[float, ...]
    clocks_mhz: tuple[float, ...]
    telemetry: tuple[Telemetry, ...]
    seconds: float


class Timer(Protocol):
    """What the benchmark needs of a timer; tests pass one that needs no GPU.

    on_gpu: whether it times on a real GPU, where others may measure, too.
    """

    on_gpu: bool

    def disturbance(self) -> str:
        """A sentence about other processes that compute on the GPU, "" if there are none."""

    def burst(self, launch: Launch, launches: int, rest_s: float, spin_ms: float) -> Burst:
        """Rest, then time `launches` launches queued behind a spin of `spin_ms`."""

    def turn(self, launch: Launch, seconds: float, drop_s: float, chunk_launches: int) -> Turn:
        """Launch back to back for `seconds`; samples that began in the first `drop_s` are left out."""

    def captured(self, launches: Sequence[Launch]) -> Launch:
        """One launch that makes all of these, one after the other: a CUDA graph, which costs the CPU one launch.

        Each must have been launched before.
        """


class CudaTimer:
    """The real timer, on CuPy's current stream of the first GPU. Raises BackendError without a GPU."""

    on_gpu = True

    def __init__(self) -> None:
        device = device_info()
        gpu = probe().gpu
        if device is None or gpu is None:
            raise BackendError(f"Time can only be measured on a GPU: {no_device_reason()}")
        import cupy
        import numpy

        self._cupy, self._numpy = cupy, numpy
        self.device: Device = device
        self._spin = load_function(compile_cubin(PROBES / "spin.cu", {}, gpu.architecture).path, "spin")
        self._clock = load_function(compile_cubin(PROBES / "sm_clock.cu", {}, gpu.architecture).path, "sm_clock")
        self._cycles_per_ms = (device.max_clock_mhz or FALLBACK_CLOCK_MHZ) * 1e3
        self._meter = PowerMeter(cupy=cupy)
        self._slot = cupy.zeros(2, cupy.uint64)
        self.queue_clock()   # the first launch of each probe loads it
        self.queue_spin(0.0)
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for the GPU. Raises BackendError if a kernel failed on it."""
        try:
            self._cupy.cuda.get_current_stream().synchronize()
        except Exception as error:
            raise driver_error("A kernel failed on the GPU while it was timed", error) from None

    def queue_spin(self, spin_ms: float) -> None:
        """Queue the spinning kernel; at a clock below the maximum it takes longer."""
        self._spin((1,), (1,), (self._numpy.int64(spin_ms * self._cycles_per_ms),))

    def queue_clock(self, slot: Any = None) -> None:
        """Queue the clock probe: 50 us on one SM. slot: uint64 (2,) on the GPU, for cycles and nanoseconds."""
        target = self._slot if slot is None else slot
        self._clock((1,), (1,), (target, self._numpy.uint64(CLOCK_WINDOW_US * 1000)))

    def clock_mhz(self) -> float | None:
        """The SM clock now, MHz: queue the probe, wait, read it."""
        self.queue_clock()
        self.synchronize()
        return clock_from(*(int(value) for value in self._slot.get()))

    def disturbance(self) -> str:
        """See Timer."""
        self.synchronize()
        return self._meter.disturbance()

    def read_power(self) -> Telemetry:
        """One NVML reading."""
        return self._meter.read()

    def burst(self, launch: Launch, launches: int, rest_s: float, spin_ms: float) -> Burst:
        """See Timer."""
        start, end = self._event(), self._event()
        self.synchronize()
        time.sleep(rest_s)
        began = time.perf_counter()
        self.queue_spin(spin_ms)
        start.record()
        for _ in range(launches):
            launch()
        end.record()
        queue_ms = (time.perf_counter() - began) * 1e3
        self.queue_clock()
        telemetry = self._meter.read()
        self.synchronize()
        total_ms = self._cupy.cuda.get_elapsed_time(start, end)
        clock = clock_from(*(int(value) for value in self._slot.get()))
        return Burst(total_ms / launches, clock, queue_ms, telemetry)

    def turn(self, launch: Launch, seconds: float, drop_s: float, chunk_launches: int) -> Turn:
        """See Timer. A chunk is one CUDA graph, and two chunks are in the GPU's queue at any time: the GPU never waits
        for the CPU, which takes longer to queue one launch than a GPU takes for a small product.

        The clock probe after each chunk (0.1% of it) is not timed.
        """
        queue_chunk = self.captured([launch] * chunk_launches)
        self.synchronize()
        slots: list[Any] = []
        chunks: list[tuple[Any, Any, Any, float]] = []
        readings: list[Telemetry] = []
        samples: list[float] = []
        clocks: list[float] = []
        began = time.perf_counter()

        def finish(start: Any, end: Any, slot: Any, queued_s: float) -> None:
            end.synchronize()
            if queued_s < drop_s:
                return
            samples.append(self._cupy.cuda.get_elapsed_time(start, end) / chunk_launches)
            slots.append(slot)

        while (elapsed := time.perf_counter() - began) < seconds or not samples:
            start, end = self._event(), self._event()
            slot = self._cupy.zeros(2, self._cupy.uint64)
            start.record()
            queue_chunk()
            end.record()
            self.queue_clock(slot)
            chunks.append((start, end, slot, elapsed))
            if len(chunks) > 1:
                readings.append(self._meter.read())
                finish(*chunks.pop(0))
        for chunk in chunks:
            finish(*chunk)
        self.synchronize()
        for slot in slots:
            clock = clock_from(*(int(value) for value in slot.get()))
            if clock is not None:
                clocks.append(clock)
        return Turn(tuple(samples), tuple(clocks), tuple(readings), time.perf_counter() - began)

    def captured(self, launches: Sequence[Launch]) -> Launch:
        """See Timer."""
        stream = self._cupy.cuda.Stream(non_blocking=True)   # the default stream cannot be captured
        with stream:
            stream.begin_capture()
            for launch in launches:
                launch()
            return stream.end_capture().launch

    def _event(self) -> Any:
        return self._cupy.cuda.Event()


def clock_from(cycles: int, nanoseconds: int) -> float | None:
    """MHz from a cycle count and the nanoseconds it took; None if the probe did not run."""
    return None if cycles <= 0 or nanoseconds <= 0 else cycles * 1e3 / nanoseconds
