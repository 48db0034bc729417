"""The ladder from the records: which figures there are, of which kind, and the picture of them.

Published, recorded and live figures never mix. A recording counts only if it is of the kernel as it is now.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from helpers.device import Device, peak_tflops
from helpers.errors import BackendError
from helpers.intervals import median
from helpers.kernel import load
from helpers.published import published
from helpers.records import Measurement, find_record
from helpers.rungs import RUNGS, Rung, find_rung
from helpers.typed import typed

if TYPE_CHECKING:
    from helpers.plots.figure import Picture
    from helpers.plots.ladder import LadderPoint

SIZE = 4096


@typed
def recordings(up_to: int | None = None, size: int = SIZE, regime: str = "burst") -> list[Measurement]:
    """The recordings of the current kernels at M = N = K = size, up the ladder, twins before their rung.

    up_to: number of the last rung. Raises BackendError without NVRTC, which says whether a recording is still of this
    code, and RecordError for a damaged file.
    """
    found = []
    for rung in RUNGS:
        if up_to is not None and rung.number > up_to:
            break
        for entry in (*rung.twins, rung.entry):
            code = load(rung, "emulator", entry=entry).code_hash
            record = find_record(rung, size, size, size, regime, entry, code)
            found.extend([record] if record else [])
    return found


@typed
def ladder_points(measurements: Sequence[Measurement], size: int = SIZE) -> "list[LadderPoint]":
    """The published figures of this size, then the measured ones by their source, recorded or live."""
    from helpers.plots.ladder import LadderPoint

    return [
        *(LadderPoint(number, figure.label, figure.tflops, "published") for number, figure in _published(size)),
        *(
            LadderPoint(_number(find_rung(item.rung), item.entry), item.rung, item.tflops, item.source)
            for item in measurements
        ),
    ]


@typed
def plot_ladder(up_to: int | None = None, live: Sequence[Measurement] = (), size: int = SIZE) -> "Picture":
    """The picture of the ladder, bursts at M = N = K = size.

    up_to: number of the last rung whose recording is drawn. live: measurements of this session, drawn beside them.
    Raises as `recordings` does.
    """
    from helpers.plots.ladder import ladder

    of_size = [item for item in live if item.source == "live" and item.m == item.n == item.k == size]
    measured = [*recordings(up_to, size), *of_size]
    labels = {"published": f"published: H100, N={size} (rung 1: PCIe, fp32)"}
    for kind in ("recorded", "live"):
        of_kind = [item for item in measured if item.source == kind]
        if of_kind:
            newest = max(of_kind, key=lambda item: item.date)
            labels[kind] = f"{kind}: {newest.device.name}, {newest.date[:10]}, bf16, N={size}"
    # cuBLAS was timed in turn with every kernel; the live figures' cuBLAS where there are some.
    beside = of_size or measured
    cublas = median([item.cublas_tflops for item in beside]) if beside else None
    peak = _dense_peak(beside[0].device) if beside else None
    return ladder(ladder_points(measured, size), cublas=cublas, dense_peak=peak, labels=labels)


def _dense_peak(device: Device) -> float | None:
    """Of the tensor cores at the highest clock; None for a GPU whose rate is not known, which then has no such line."""
    try:
        return peak_tflops(device)
    except BackendError:
        return None


def _published(size: int) -> Iterator[tuple[int, object]]:
    for figure in published():
        if figure.role == "kernel" and figure.rung is not None and figure.n == size:
            rung = next((rung for rung in RUNGS if rung.number == figure.rung), None)
            yield (_number(rung, figure.entry or rung.entry) if rung else figure.rung), figure


def _number(rung: Rung, entry: str) -> int:
    """The place on the ladder; the uncoalesced twin of rung 1 stands before it, at 0."""
    return rung.number - 1 if entry in rung.twins else rung.number
