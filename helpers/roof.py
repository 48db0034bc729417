"""How fast the tensor cores of this GPU are with nothing else to do: the yardstick above every matmul.

    python -m helpers.roof        records it in records/<device>/device.json, on a Hopper GPU (about half a minute)

The probe (helpers/probes/wgmma_roof.cu) multiplies on every SM with operands that stay in shared memory. It loads
nothing and waits for nobody, so its speed is the clock's, which it reads itself: cycles and nanoseconds at the
beginning and at the end of each CTA. A launch lasts as long as a product of size `like_n` would at its speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from helpers import device, gpu
from helpers.arrays import input_matrix
from helpers.cuda import compile_cubin
from helpers.entry import Parser, guarded
from helpers.errors import BackendError
from helpers.gpu_lock import gpu_lock
from helpers.held_clock import clock_of
from helpers.intervals import median
from helpers.jsonfile import display
from helpers.nvml import Telemetry
from helpers.records import require_regime, three_digits
from helpers.rounds import BURST_LAUNCHES, SPIN_MS, warm_turn
from helpers.timing import PROBES, CudaTimer, Timer
from helpers.yardsticks import Roof, load_yardsticks, write_yardsticks

RULE = "==9.0"
SOURCE = PROBES / "wgmma_roof.cu"
STAGES, ROWS, COLUMNS, DEPTH = 4, 128, 256, 64   # as the probe has them; two warpgroups share the rows
THREADS = 256
SHARED_BYTES = STAGES * (ROWS + COLUMNS) * DEPTH * 2
STEP_FLOP = 2 * ROWS * COLUMNS * DEPTH           # of a CTA
ROUNDS = 3
TURN_S = 2.0
JOBS = (   # like_n, regime, inputs
    (4096, "burst", "N(0,1)"),
    (8192, "burst", "N(0,1)"),
    (8192, "burst", "zeros"),
    (8192, "sustained", "N(0,1)"),
    (8192, "sustained", "zeros"),
)


@dataclass(frozen=True)
class Roofs:
    """The roofs of a GPU. name: of the GPU. source: 'live' or 'recorded'."""

    name: str
    source: str
    date: str
    items: tuple[Roof, ...]

    def find(self, like_n: int, regime: str, inputs: str = "N(0,1)") -> Roof | None:
        """The roof of launches that long, in a regime, on such inputs; None if it is not there."""
        wanted = (like_n, regime, inputs)
        return next((item for item in self.items if (item.like_n, item.regime, item.inputs) == wanted), None)

    def __str__(self) -> str:
        if not self.items:
            return "wgmma alone: no recording"
        head = f"wgmma alone, {self.source} on {self.name}, {self.date[:10]}"
        return "\n".join([head, *(f"    {roof_words(item)}" for item in self.items)])


def roof_words(item: Roof) -> str:
    """A roof in one line."""
    power = "" if item.power_w is None or item.regime == "burst" else f", {item.power_w:.0f} W"
    return (
        f"{item.inputs}, {item.regime}, as long as N={item.like_n}: {three_digits(item.tflops)} TFLOP/s "
        f"at {item.mhz:,.0f} MHz{power}"
    )


def roofs(*, live: bool = True) -> Roofs:
    """Measured now on a Hopper GPU (about half a minute), else as recorded. Raises RecordError for a damaged file.

    live: whether to measure at all; False takes the recording everywhere, at once.
    """
    info = device.device_info()
    if live and info is not None and info.meets(RULE):
        return Roofs(info.name, "live", device.now(), measure_roofs(CudaTimer()))
    recorded = load_yardsticks()
    if recorded is None:
        return Roofs("", "recorded", "", ())
    return Roofs(recorded.device.name, "recorded", recorded.date, recorded.roofs)


def steps_like(n: int, ctas: int) -> int:
    """Steps of each CTA that make as many FLOP as a product of size n, at least one."""
    return max(1, round(2 * n**3 / (STEP_FLOP * ctas)))


@gpu_lock()
def measure_roofs(timer: CudaTimer, report: Callable[[str], None] = lambda line: None) -> tuple[Roof, ...]:
    """Measure all of them. Raises BackendError if the probe does not run here."""
    import cupy

    answer = gpu.require_gpu("wgmma_roof", RULE)
    function = gpu.load_function(compile_cubin(SOURCE, {}, answer.architecture).path, "wgmma_roof")
    ctas = answer.sms
    out = cupy.zeros(ctas * THREADS, cupy.float32)
    log = cupy.zeros(4 * ctas, cupy.uint64)
    values = SHARED_BYTES // 2
    found = []
    for like_n, regime, inputs in JOBS:
        matrix = input_matrix(inputs, 1, values, 0, "cuda")
        steps = steps_like(like_n, ctas)
        arguments = (matrix, out, log, np.int32(steps))

        def launch(arguments: tuple = arguments) -> None:
            gpu.launch_function(function, (ctas,), (THREADS,), arguments, SHARED_BYTES)

        ms, telemetry = timed(timer, launch, regime, lambda: log.fill(0))
        if not bool(cupy.isfinite(out).all()) or bool((out != 0).any()) != (inputs != "zeros"):
            raise BackendError(f"The probe {SOURCE.name} has computed nonsense on {inputs}: look at its operands.")
        tflops = STEP_FLOP * steps * ctas / ms / 1e9
        power = [reading.power_w for reading in telemetry if reading.power_w is not None]
        found.append(Roof(like_n, regime, inputs, tflops, clock_of(log.get()), median(power) if power else None))
        report(roof_words(found[-1]))
    return tuple(found)


def timed(
    timer: Timer, launch: Callable[[], None], regime: str, begin: Callable[[], None] = lambda: None
) -> tuple[float, Sequence[Telemetry]]:
    """Milliseconds a launch, and NVML's readings: the median of three bursts, or of a turn of two seconds.

    begin: called when the GPU is warm, just before the launches that count. Raises ArgumentError for another regime.
    """
    require_regime(regime)
    warm = timer.burst(launch, 1, 0.0, SPIN_MS)
    if regime == "burst":
        begin()
        bursts = [timer.burst(launch, BURST_LAUNCHES, 1.0, SPIN_MS) for _ in range(ROUNDS)]
        return median([burst.ms for burst in bursts]), [burst.telemetry for burst in bursts]
    turn = warm_turn(timer, launch, warm.ms, TURN_S, begin)
    return median(turn.samples_ms), turn.telemetry[len(turn.telemetry) // 2 :]   # NVML's power is a moving average


def record(directory: Path | None = None) -> Path:
    """Measure the roofs and write them beside the GPU's other yardsticks, which must be there.

    Raises BackendError without a Hopper GPU or without its other yardsticks.
    """
    info = device.require_device("The roof can only be measured on a GPU")
    known = load_yardsticks(info, directory)
    if known is None:
        raise BackendError(f"{info.name} has no yardsticks yet: run `python -m helpers.record` first.")
    found = measure_roofs(CudaTimer(), report=lambda line: print(line, flush=True))
    return write_yardsticks(replace(known, roofs=found, date=device.now()), directory)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.roof", description="Record how fast the tensor cores are alone.")
    parser.add_output()
    options = parser.parse_args(arguments)

    def work() -> int:
        print(f"written to {display(record(options.output))}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    raise SystemExit(main())
