"""How fast all SMs of this GPU together read shared memory, L2 and HBM: the measured part of the memory pyramid.

    python -m helpers.memory_speed        records it in records/<device>/memory.json, on any GPU that runs rung 1 (10 s)

The probe (helpers/probes/memory_speed.cu) reads and adds up, on every SM. Its sums are checked: a memory whose bytes
did not all come has no speed. L2 is read twice. Once each SM is somewhere else; once all are at the same place at about
the same time, as neighbours in a matrix product often are.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers import device, gpu
from helpers.cuda import compile_cubin
from helpers.device import Device
from helpers.entry import Parser, guarded
from helpers.errors import BackendError
from helpers.gpu_lock import gpu_lock
from helpers.held_clock import clock_of
from helpers.intervals import median
from helpers.jsonfile import Fields, display, write_json
from helpers.models.machine import H200, Gpu, gpu_of
from helpers.record_basics import device_from_json, find_of_device, record_folder
from helpers.rounds import SPIN_MS
from helpers.timing import PROBES, CudaTimer, Timer
from helpers.typed import typed

SCHEMA = "hopper-matmul/memory/1"
FILE = "memory.json"
RULE = ">=7.5"   # the oldest that NVRTC 13 compiles for
SOURCE = PROBES / "memory_speed.cu"
THREADS = 1024                 # as the probe has them
BLOCK_CHUNKS = THREADS * 8     # chunks of 16 bytes that a CTA reads at once
SHARED_CHUNKS = THREADS * 3
CHUNK_BYTES = 16
LEVELS = ("shared memory", "L2", "HBM")
APART, TOGETHER = "each SM elsewhere", "all SMs at the same place"
SHARED_READS = 30_000          # of each thread: some milliseconds
L2_ROUNDS = 8
L2_SHARE = 3                   # a third of L2: it has two halves, and a line may be in both
HBM_BYTES = 1 << 31
LAUNCHES, ROUNDS, REST_S = 4, 5, 0.2


@dataclass(frozen=True)
class MemorySpeed:
    """One memory, read by all SMs. level: one of LEVELS. pattern: APART or TOGETHER. array_bytes: what was read, once.

    gb_per_s: 1e9 bytes a second, all SMs together, the median of some bursts. mhz: SM clock within the kernel.
    """

    level: str
    pattern: str
    array_bytes: int
    gb_per_s: float
    mhz: float

    def bytes_per_clock(self, sms: int) -> float:
        """Bytes for each SM and clock."""
        return self.gb_per_s * 1e3 / self.mhz / sms


@dataclass(frozen=True)
class MemorySpeeds:
    """The memories of a GPU. device: None, and no items, if nobody has recorded any. source: 'live' or 'recorded'."""

    device: Device | None
    source: str
    date: str
    items: tuple[MemorySpeed, ...]

    @property
    def gpu(self) -> Gpu:
        """The GPU, for the models; an H200 if nobody has recorded any."""
        return gpu_of(self.device) if self.device else H200

    @property
    def bandwidths(self) -> dict[str, float]:
        """Bytes per second by level, each SM elsewhere: what `models.pyramid.pyramid(measured=...)` takes."""
        return {item.level: item.gb_per_s * 1e9 for item in self.items if item.pattern == APART}

    def __str__(self) -> str:
        if self.device is None:
            return "memory: no recording"
        head = f"memory, {self.source} on {self.device.name}, {self.date[:10]}"
        return "\n".join([head, *(f"    {speed_words(item, self.device.sm_count)}" for item in self.items)])


@dataclass(frozen=True)
class Walk:
    """What a launch reads. reads: of 16 bytes by each thread, in shared memory. Else chunks of 16 bytes of an array of
    `total`: CTA b reads `count` from b * `stride` on, `rounds` times.
    """

    level: str
    pattern: str
    total: int
    stride: int = 0
    count: int = 0
    rounds: int = 0
    reads: int = 0

    def bytes_read(self, ctas: int) -> int:
        """By all CTAs, in a launch."""
        chunks = self.reads * THREADS if self.reads else self.count * self.rounds
        return chunks * CHUNK_BYTES * ctas

    def sum_of(self, cta: int) -> int:
        """What the threads of a CTA must have added up, modulo 2^32, if word i of the array is i."""
        if self.reads:
            in_pass = [_sum(number * THREADS, (number + 1) * THREADS) for number in range(SHARED_CHUNKS // THREADS)]
            return sum(in_pass[read % len(in_pass)] for read in range(self.reads)) % 2**32
        first = cta * self.stride % self.total
        beyond = max(0, first + self.count - self.total)   # chunks that it reads at the array's beginning
        return self.rounds * (_sum(first, first + self.count - beyond) + _sum(0, beyond)) % 2**32


def _sum(first: int, end: int) -> int:
    """Of the words of some chunks: chunk c holds 4c to 4c + 3."""
    return (4 * first + 4 * end - 1) * 2 * (end - first)


def speed_words(item: MemorySpeed, sms: int) -> str:
    """A memory in one line."""
    return (
        f"{item.level}, {item.pattern}: {item.gb_per_s / 1e3:.2f} TB/s, "
        f"{item.bytes_per_clock(sms):.3g} bytes per clock and SM at {item.mhz:,.0f} MHz"
    )


@typed
def memory_speeds(*, live: bool = True) -> MemorySpeeds:
    """Measured now on a GPU (about ten seconds), else as recorded.

    live: whether to measure at all; False takes the recording everywhere. Raises RecordError for a damaged file.
    """
    info = device.device_info()
    if live and info is not None and info.meets(RULE):
        return MemorySpeeds(info, "live", device.now(), measure_memory(CudaTimer()))
    return recorded_speeds(info)


def walks(sms: int, l2_bytes: int, hbm_bytes: int = HBM_BYTES) -> tuple[Walk, ...]:
    """The four measurements on a GPU of so many SMs: shared memory, L2 apart and together, HBM."""
    blocks = max(1, l2_bytes // L2_SHARE // CHUNK_BYTES // BLOCK_CHUNKS)
    stride = max(1, blocks // sms) * BLOCK_CHUNKS
    part = max(1, hbm_bytes // CHUNK_BYTES // BLOCK_CHUNKS // sms) * BLOCK_CHUNKS   # of an SM
    small = blocks * BLOCK_CHUNKS
    return (
        Walk("shared memory", APART, SHARED_CHUNKS, reads=SHARED_READS),
        Walk("L2", APART, small, stride, small, L2_ROUNDS),
        Walk("L2", TOGETHER, small, 0, small, L2_ROUNDS),
        Walk("HBM", APART, part * sms, part, part, 1),
    )


@gpu_lock()
def measure_memory(timer: Timer, report: Callable[[str], None] = lambda line: None) -> tuple[MemorySpeed, ...]:
    """Measure all of them. Raises BackendError if the probe does not run here, or has not read what it should."""
    import cupy

    answer = gpu.require_gpu("memory_speed", RULE)
    info = device.device_info()
    if info is None or not info.l2_bytes or not info.memory_bytes:
        raise BackendError(f"The size of the memories of {answer.name} is not known: update the driver.")
    cubin = compile_cubin(SOURCE, {}, answer.architecture)
    functions = {name: gpu.load_function(cubin.path, name) for name in ("read_shared", "read_global")}
    ctas = answer.sms
    planned = walks(ctas, info.l2_bytes, min(HBM_BYTES, info.memory_bytes // 8))
    out = cupy.zeros(ctas * THREADS, cupy.uint32)
    found = []
    for walk in planned:
        values = cupy.arange(4 * walk.total, dtype=cupy.uint32)
        expected = [walk.sum_of(cta) for cta in range(ctas)]
        log = cupy.zeros(4 * ctas, cupy.uint64)
        name, arguments = launch_arguments(walk, values, out, log)

        def launch(name: str = name, arguments: tuple = arguments) -> None:
            gpu.launch_function(functions[name], (ctas,), (THREADS,), arguments, 0)

        ms = burst_ms(timer, launch)
        summed = out.get().reshape(ctas, THREADS).astype(np.uint64).sum(axis=1) % 2**32
        if summed.tolist() != expected:
            raise BackendError(f"The probe {SOURCE.name} has not read all of {walk.level}: its sums are wrong.")
        speed = walk.bytes_read(ctas) / ms / 1e6
        found.append(MemorySpeed(walk.level, walk.pattern, walk.total * CHUNK_BYTES, speed, clock_of(log.get())))
        report(speed_words(found[-1], ctas))
    return tuple(found)


def launch_arguments(walk: Walk, values: Any, out: Any, log: Any) -> tuple[str, tuple]:
    """The probe's function and its arguments. values: uint32 (4 x total). out, log: see the probe."""
    if walk.reads:
        return "read_shared", (values, out, log, np.int32(walk.reads))
    sizes = (np.uint32(size) for size in (walk.total, walk.stride, walk.count))
    return "read_global", (values, out, log, *sizes, np.int32(walk.rounds))


def burst_ms(timer: Timer, launch: Callable[[], None]) -> float:
    """Milliseconds a launch: the median of some bursts, after one that fills the caches."""
    timer.burst(launch, 1, 0.0, SPIN_MS)
    return median([timer.burst(launch, LAUNCHES, REST_S, SPIN_MS).ms for _ in range(ROUNDS)])


def speeds_path(slug: str, directory: Path | None = None) -> Path:
    """Where the speeds of a GPU's memories are kept."""
    return record_folder(directory) / slug / FILE


def recorded_speeds(info: Device | None = None, directory: Path | None = None) -> MemorySpeeds:
    """The recording of this GPU, else of the reference GPU, else none. Raises RecordError for a damaged file."""
    return find_of_device(FILE, from_json, info, directory) or MemorySpeeds(None, "recorded", "", ())


def from_json(data: Any, path: Path) -> MemorySpeeds:
    """The speeds in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    items = tuple(
        MemorySpeed(
            item.choice("level", LEVELS), item.choice("pattern", (APART, TOGETHER)), item.integer("array_bytes", 1),
            item.number("gb_per_s"), item.number("mhz"),
        )
        for item in top.objects("speeds")
    )
    date = top.date()
    device = device_from_json(top.object("device"))
    top.require_place(device.slug, FILE)
    return MemorySpeeds(device, "recorded", date, items)


def write_speeds(speeds: MemorySpeeds, directory: Path | None = None) -> Path:
    """Write them to records/<device>/memory.json."""
    rows = [asdict(item) | {"gb_per_s": round(item.gb_per_s, 1), "mhz": round(item.mhz, 1)} for item in speeds.items]
    data = {"schema": SCHEMA, "device": asdict(speeds.device), "speeds": rows, "date": speeds.date}
    return write_json(speeds_path(speeds.device.slug, directory), data, from_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.memory_speed", description="Record how fast the memories of this GPU are.")
    parser.add_output()
    options = parser.parse_args(arguments)

    def work() -> int:
        info = device.require_device("The memories can only be measured on a GPU")
        items = measure_memory(CudaTimer(), report=lambda line: print(line, flush=True))
        speeds = MemorySpeeds(info, "recorded", device.now(), items)
        print(f"written to {display(write_speeds(speeds, options.output))}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    raise SystemExit(main())
