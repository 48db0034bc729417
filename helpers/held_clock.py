"""The SM clock that a rung's kernel really runs at, counted by the kernel itself; or the recording of it.

    python -m helpers.held_clock 6 7 10 --sizes 4096 8192 --regimes burst sustained      records it, on a GPU

A probe right after the launches comes too late: tensor cores at work draw much power, the chip lowers its clock for
them within half a millisecond, and raises it again as soon as they rest. So here one thread of each CTA of a copy of
the kernel notes cycles (clock64) and nanoseconds (%globaltimer) at its first and its last instruction, and sums up what
lies between. The clock is the sum of the cycles over the sum of the nanoseconds, over all launches of a burst or turn:
under the power cap it goes up and down too much for one launch to tell.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers import device, gpu
from helpers.arrays import empty_matrix, random_matrix
from helpers.checks import require_kind
from helpers.device import Device, peak_tflops
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError, BackendError
from helpers.gpu_lock import gpu_lock
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.kernel import Kernel, load
from helpers.record_basics import device_from_json, record_folder
from helpers.records import REGIMES, Measurement, require_regime
from helpers.rounds import SPIN_MS, launch_count, warm_turn
from helpers.rungs import Rung, find_rung
from helpers.timing import PROBES, CudaTimer, Timer
from helpers.variants import save_text
from helpers.words import short

SCHEMA = "hopper-matmul/held-clock/1"
TURN_S = 2.0

_NOTES = PROBES / "note_time.cuh"
_KERNEL = 'extern "C" __global__'
_LAST_THREAD = "if (threadIdx.x == blockDim.x - 1) {}(clocks + 4 * (size_t(blockIdx.y) * gridDim.x + blockIdx.x));"


@dataclass(frozen=True)
class HeldClock:
    """The clock inside a kernel. code_hash: of the rung's own code. mhz: over all SMs. date: UTC."""

    rung: str
    code_hash: str
    n: int
    regime: str
    mhz: float
    date: str


@dataclass(frozen=True)
class Clocked:
    """A measurement and the clock that its kernel ran at; None if nobody has measured that."""

    measurement: Measurement
    mhz: float | None

    @property
    def share(self) -> float | None:
        """The speed over the tensor cores' peak at that clock."""
        if self.mhz is None:
            return None
        return self.measurement.tflops / peak_tflops(self.measurement.device, clock_mhz=self.mhz)

    def __str__(self) -> str:
        item = self.measurement
        name = f"{item.rung}, N={item.n}, {item.regime}, {item.source}: {item.tflops:.0f} TFLOP/s"
        if self.mhz is None:
            return f"{name}, clock not recorded"
        return f"{name} at {self.mhz:,.0f} MHz, {self.share:.0%} of the peak at that clock"


def clocked_text(text: str) -> str:
    """The text of a kernel with the notes in it: a parameter more, and its first and last statements."""
    begin = f"int K, unsigned long long* clocks) {{\n    {_LAST_THREAD.format('note_begin')}\n"
    text, signatures = re.subn(r"int K\) \{\n", begin, text)
    if signatures != 1 or not text.endswith("}\n"):
        raise BackendError("The kernel has not the form that its clock can be noted in: see helpers/held_clock.py.")
    text = text.replace(_KERNEL, f"{_NOTES.read_text(encoding='utf-8')}\n{_KERNEL}")
    return text.removesuffix("}\n") + f"    {_LAST_THREAD.format('note_end')}\n}}\n"


def clocked_kernel(own: Kernel, clocks: Any) -> Kernel:
    """A copy of a rung's kernel whose CTAs note their clocks: uint64 (4 x CTAs) of zeros, in the memory of its backend.
    """
    file = save_text(clocked_text(own.source), f"clocked_{own.rung.name}")
    kernel = Kernel(own.rung, own._implementation, own.entry, {}, file)
    kernel.extra_arguments, kernel.sms = (clocks,), own.sms
    return kernel


def measure_clock(rung: str | int | Rung, n: int, regime: str, timer: CudaTimer | None = None) -> HeldClock:
    """Measure it at M = N = K = n. Takes about three seconds.

    Raises ArgumentError for another regime, BackendError without a GPU that runs the rung.
    """
    require_regime(regime)
    own = load(rung, "cuda")
    A, B = random_matrix(n, n, 0, "cuda"), random_matrix(n, n, 1, "cuda")
    with gpu_lock():
        mhz = held_mhz(own, A, B, regime, timer or CudaTimer())
    return HeldClock(own.rung.name, own.code_hash, n, regime, mhz, device.now())


def held_mhz(own: Kernel, A: Any, B: Any, regime: str, timer: Timer) -> float:
    """The clock within a kernel on the GPU, MHz, over a burst after a second of rest or a turn when it is warm."""
    import cupy

    m, n = A.shape[0], B.shape[1]
    clocks = cupy.zeros(4 * math.prod(own.rung.grid(m, n, own.sms)), cupy.uint64)
    launch = clocked_kernel(own, clocks).prepared(A, B, empty_matrix(m, n, "cuda"))
    ms = timer.burst(launch, 1, 0.0, SPIN_MS).ms
    if regime == "burst":
        clocks.fill(0)
        timer.burst(launch, launch_count(ms), 1.0, SPIN_MS)
    else:
        warm_turn(timer, launch, ms, TURN_S, lambda: clocks.fill(0))
    gpu.synchronize()
    return clock_of(clocks.get())


def clock_of(noted: Any) -> float:
    """MHz from what the CTAs noted (see probes/note_time.cuh); zeros where there was no CTA."""
    cycles, nanoseconds = noted.reshape(-1, 4)[:, 2:].astype("int64").sum(axis=0)
    if nanoseconds <= 0:
        raise BackendError("No CTA has noted its clock: did the kernel run?")
    return float(cycles) * 1e3 / float(nanoseconds)


def with_clocks(measurements: Iterable[Measurement], directory: Path | None = None) -> list[Clocked]:
    """Each measurement with its kernel's clock: measured now for a live one, else as recorded for the same code.

    It is None for sizes other than M = N = K, and for a live measurement of other code than the rung's own.
    Raises ArgumentError for what is no measurement.
    """
    remedy = "give what benchmark(...) returned, or recordings(...)"
    if not isinstance(measurements, Iterable):
        raise ArgumentError(f"measurements is {short(measurements)}, not a list of them: {remedy}.")
    items = [*measurements]
    for index, item in enumerate(items):
        require_kind(f"measurements[{index}]", item, Measurement, remedy)
    return [Clocked(item, _mhz(item, directory)) for item in items]


def _mhz(item: Measurement, directory: Path | None) -> float | None:
    if not item.m == item.n == item.k:
        return None
    if item.source == "live":
        own = load(item.rung).code_hash == item.code_hash
        return measure_clock(item.rung, item.n, item.regime).mhz if own else None
    fitting = [
        clock.mhz for clock in recorded_clocks(item.device.slug, directory)
        if (clock.rung, clock.code_hash, clock.n, clock.regime) == (item.rung, item.code_hash, item.n, item.regime)
    ]
    return fitting[-1] if fitting else None


def clock_path(slug: str, directory: Path | None = None) -> Path:
    """Where the clocks of a GPU are kept."""
    return record_folder(directory) / slug / "clock" / "held.json"


def recorded_clocks(slug: str, directory: Path | None = None) -> tuple[HeldClock, ...]:
    """The recorded clocks of a GPU; none if nothing was recorded. Raises RecordError for a damaged file."""
    path = clock_path(slug, directory)
    return from_json(read_json(path), path) if path.exists() else ()


def from_json(data: Any, path: Path) -> tuple[HeldClock, ...]:
    """The clocks in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    top.require_place(device_from_json(top.object("device")).slug, "clock", "held.json")
    return tuple(
        HeldClock(
            item.rung(), item.code_hash(), item.integer("n", 1), item.choice("regime", REGIMES), item.number("mhz"),
            item.date(),
        )
        for item in top.objects("clocks")
    )


def write_clocks(info: Device, clocks: Iterable[HeldClock], directory: Path | None = None) -> Path:
    """Keep clocks; those of the same rung, size and regime are replaced."""
    kept = {(clock.rung, clock.n, clock.regime): clock for clock in recorded_clocks(info.slug, directory)}
    kept |= {(clock.rung, clock.n, clock.regime): clock for clock in clocks}
    rows = [asdict(kept[key]) | {"mhz": round(kept[key].mhz, 1)} for key in sorted(kept)]
    data = {"schema": SCHEMA, "device": asdict(info), "clocks": rows}
    return write_json(clock_path(info.slug, directory), data, from_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.held_clock", description="Record the clock inside kernels.")
    parser.add_argument("rungs", nargs="*", default=["6", "7", "8", "9", "10"], metavar="RUNG")
    parser.add_argument("--sizes", nargs="+", type=int, default=[4096, 8192], metavar="N")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_output()
    options = parser.parse_args(arguments)
    return guarded(lambda: _record(once(map(find_rung, options.rungs)), options))


def _record(rungs: Sequence[Rung], options: Any) -> int:
    info = device.require_device("The clock can only be measured on a GPU")
    timer = CudaTimer()
    for rung in rungs:
        for n in once(options.sizes):
            for regime in once(options.regimes):
                clock = measure_clock(rung, n, regime, timer)
                path = write_clocks(info, [clock], options.output)   # at once: Ctrl-C loses the one at hand alone
                print(f"{rung.name} {n} {regime}: {clock.mhz:,.0f} MHz -> {display(path)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
