"""What lies between a rung's bound and its measured speed: bound, measured, gap, and the named parts of the gap.

    print(explain_gap(benchmark("07_pipelining", 4096)))
    gap_chart([explain_gap(item) for item in with_clocks(recordings())])       # helpers.plots.gaps
"""

from dataclasses import replace

from helpers.errors import ArgumentError
from helpers.held_clock import Clocked
from helpers.kernel import load
from helpers.models.gap import CLOCK, Gap, Loss
from helpers.models.machine import Gpu, gpu_of
from helpers.models.persistence import MEASURED, play_tiles
from helpers.models.predict import Prediction, predict
from helpers.models.waves import occupancy
from helpers.records import Measurement
from helpers.rungs import RUNGS, Rung, find_rung
from helpers.typed import typed
from helpers.words import plural

FIRST_ON_TENSOR_CORES = 6
CLUSTER_START = 932       # clocks at the barrier of the cluster: see models.persistence.MEASURED
CLUSTER_LOAD = 512        # 32,768 bytes a step at 64 a clock: B's other half comes with the peer's


@typed
def explain_gap(item: Measurement | Clocked, gpu: Gpu | None = None) -> Gap:
    """The gap of a measurement. Its parts, where they are known: places of the last wave that stay empty (counted);
    issue slots and wavefronts that take turns, and the beginning and the end of tiles (modelled); the clock (measured).

    item: with the clock inside its kernel (helpers.held_clock.with_clocks), or without; the rungs on CUDA cores hold
    the clock that was measured right after them. gpu: the GPU of the measurement by default.
    """
    clocked = item if isinstance(item, Clocked) else Clocked(item, None)
    measured = clocked.measurement
    rung = find_rung(measured.rung)
    if rung not in RUNGS:
        raise ArgumentError(f"item is of {rung.name}: it must be of a rung of the ladder, whose tiles are modelled.")
    if measured.defines:
        raise ArgumentError(f"item is of {rung.name} with {measured.defines}: it must be of the rung as it is.")
    gpu = gpu or gpu_of(measured.device)
    sizes = (measured.m, measured.n, measured.k)
    prediction = predict(rung, *sizes, gpu=gpu, entry=measured.entry)
    on_cuda_cores = rung.number < FIRST_ON_TENSOR_CORES
    mhz = clocked.mhz or (measured.sm_clock_mhz if on_cuda_cores else None)
    losses = (
        _places(measured, rung, gpu),
        _turns(prediction) if on_cuda_cores else None,
        _ends(rung, measured, gpu),
        _clock(mhz, gpu),
    )
    name = rung.name if measured.entry == rung.entry else measured.entry
    size = f"N={measured.n}" if len(set(sizes)) == 1 else "x".join(map(str, sizes))
    return Gap(
        f"{name}, {size}, {measured.regime}", prediction.limit, measured.tflops,
        "measured live" if measured.source == "live" else f"recorded on {measured.device.name}",
        tuple(loss for loss in losses if loss is not None),
    )


def rounds(rung: Rung, m: int, n: int, gpu: Gpu) -> tuple[int, int]:
    """How often the GPU is filled, the last time counted whole, and how many CTAs that is each time."""
    tiles = rung.tiles(m, n)
    count = tiles[0] * tiles[1] * rung.cluster
    if rung.persistent:
        slots = rung.grid(m, n, gpu.sm_count)[0]
        return -(-count // slots), slots
    slots = gpu.sm_count * _ctas_per_sm(rung, gpu)
    return -(-count // slots), slots


def _ctas_per_sm(rung: Rung, gpu: Gpu) -> int:
    report = load(rung, "emulator").report
    shared = max(rung.shared_bytes, report.static_shared_bytes)
    return occupancy(report.registers, rung.block[0], shared, gpu).ctas_per_sm


def _places(measured: Measurement, rung: Rung, gpu: Gpu) -> Loss | None:
    """Of all places for CTAs in all rounds, those that compute something of C."""
    filled, slots = rounds(rung, measured.m, measured.n, gpu)
    places = gpu.sm_count if rung.persistent else slots
    rows, columns, _ = rung.tile
    factor = measured.m * measured.n / (filled * places * rows * columns)
    if factor >= 1:
        return None
    what = f"{plural(filled, 'round')} of {slots} CTAs on {places} SMs" if rung.persistent else (
        f"{plural(filled, 'wave')} of {slots} CTAs"
    )
    return Loss("places", factor, what, "counted")


def _turns(prediction: Prediction) -> Loss:
    factor = prediction.in_turn / prediction.limit.tflops
    return Loss("turns", factor, "issue slots and wavefronts, one after the other", "modelled")


def _ends(rung: Rung, measured: Measurement, gpu: Gpu) -> Loss | None:
    """Beginning and end of the tiles of one SM: of the rungs that have a ring of stages."""
    if rung.number <= FIRST_ON_TENSOR_CORES:
        return None
    steps = -(-measured.k // rung.tile[2])
    if not rung.persistent:
        played = play_tiles(1, steps, rung.stages, persistent=False)
        factor, what = played.busy, "before the first bytes, and while it stores"
    else:
        tiles, _ = rounds(rung, measured.m, measured.n, gpu)
        costs, last = MEASURED, 0.0
        if rung.cluster > 1:   # stores run under the next tile's steps, but for the last
            costs = replace(MEASURED, start=MEASURED.start + CLUSTER_START, load=CLUSTER_LOAD, store=0.0)
            last = MEASURED.store
        played = play_tiles(tiles, steps, rung.stages, costs)
        factor = played.multiplying / (played.end + last)
        what = "before the first bytes, and while stores have nothing beside"
    return Loss("beginning and end", factor, what, "modelled")


def _clock(mhz: float | None, gpu: Gpu) -> Loss | None:
    if mhz is None:
        return None
    highest = gpu.clock_hz / 1e6
    return Loss(CLOCK, min(1.0, mhz / highest), f"{mhz:,.0f} of {highest:,.0f} MHz", "measured")
