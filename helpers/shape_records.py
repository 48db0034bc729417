"""What was measured of a shape: records/<device>/shapes/<shape>.json, a file for each (helpers.shapes).

A file holds what ran and why, the measurement beside cuBLAS, and everything that cuBLAS proposed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from helpers.intervals import median
from helpers.jsonfile import Fields, read_json, write_json
from helpers.kernel import Kernel
from helpers.models.waves import occupancy
from helpers.record_basics import MS_DIGITS, record_folder
from helpers.records import Measurement, from_json, size_name, three_digits, to_json

SCHEMA = "hopper-matmul/shape/1"


@dataclass(frozen=True)
class Proposal:
    """An algorithm that cuBLAS proposes. place: in its list, from 0. trial_ms: a launch, when all were tried.

    algorithm: cuBLAS's numbers for it. ms: by round, milliseconds of a launch; empty if it had no turns.
    """

    place: int
    trial_ms: float
    algorithm: Mapping[str, int]
    ms: tuple[float, ...] = ()

    @property
    def parts(self) -> int:
        """Into how many parts it cuts K."""
        return max(1, self.algorithm.get("split_k", 1))


@dataclass(frozen=True)
class Work:
    """How C is divided. tile: rows and columns of C that a CTA computes at a time. at_once: CTAs that run together.

    ctas: as many as there would be with one for each tile, or for each part of a tile. order: of the tiles, None if it
    goes by blockIdx.
    """

    tile: tuple[int, int]
    ctas: int
    at_once: int
    order: str | None

    @property
    def waves(self) -> int:
        """How often the SMs are filled."""
        return -(-self.ctas // self.at_once)

    @property
    def last_wave(self) -> int:
        """CTAs of the last wave."""
        return self.ctas - (self.waves - 1) * self.at_once


def work_of(kernel: Kernel, m: int, n: int) -> Work:
    """How a kernel divides an M x N result. kernel.sms: of the GPU. What runs at a time follows from its registers and
    shared memory (helpers.models.waves).
    """
    rung = kernel.rung
    launched = prod(rung.grid(m, n, kernel.sms))
    if rung.persistent:
        return Work(rung.tile[:2], prod(rung.tiles(m, n)) * rung.cluster, launched, rung.order)
    report = kernel.report
    room = occupancy(report.registers, prod(rung.block), rung.shared_bytes + report.static_shared_bytes)
    return Work(rung.tile[:2], launched, kernel.sms * room.ctas_per_sm, rung.order)


@dataclass(frozen=True)
class ShapeSpeed:
    """A shape as it was measured.

    measurement: of what runs, beside the faster one of cuBLAS's first proposal and the one that was fastest when all
    were tried; `compared` is its place. choice, why: what runs, and why. proposals: cuBLAS's, in its own order.
    """

    measurement: Measurement
    choice: str
    why: str
    work: Work
    compared: int
    proposals: tuple[Proposal, ...]

    @property
    def size(self) -> tuple[int, int, int]:
        """(M, N, K)."""
        return self.measurement.m, self.measurement.n, self.measurement.k

    @property
    def ms(self) -> float:
        """Milliseconds of a launch, the median of the rounds."""
        return median(self.measurement.kernel_ms)

    @property
    def cublas_ms(self) -> float:
        """Milliseconds of a launch of the cuBLAS that it is compared with."""
        return median(self.measurement.cublas_ms)

    @property
    def cublas(self) -> Proposal:
        """The proposal of cuBLAS that it is compared with."""
        return next(item for item in self.proposals if item.place == self.compared)

    @property
    def loses(self) -> bool:
        """Whether cuBLAS is faster for sure: the whole interval of the ratio lies below 1."""
        return self.measurement.ratio_interval.high < 1

    @property
    def wins(self) -> bool:
        """Whether ours is faster for sure."""
        return self.measurement.ratio_interval.low > 1

    def __str__(self) -> str:
        interval = self.measurement.ratio_interval
        return (
            f"{self.choice}: {1e3 * self.ms:.1f} us, {three_digits(self.measurement.tflops)} TFLOP/s, "
            f"{three_digits(product_bytes(*self.size) / self.ms / 1e6)} GB/s, cuBLAS {1e3 * self.cublas_ms:.1f} us, "
            f"ratio {self.measurement.ratio:.4f} ({interval.low:.4f} to {interval.high:.4f})"
        )


def product_bytes(m: int, n: int, k: int) -> int:
    """Bytes of A, B and C in bf16: what a product moves at least."""
    return 2 * (m * k + k * n + m * n)


@dataclass(frozen=True)
class Limits:
    """What a GPU can do at most. tflops: of the tensor cores alone. gb_per_s: of HBM, in 1e9 bytes."""

    tflops: float
    gb_per_s: float

    def flop_ms(self, m: int, n: int, k: int) -> float:
        """Milliseconds that the FLOP of a product take at least."""
        return 2 * m * n * k / self.tflops / 1e9

    def byte_ms(self, m: int, n: int, k: int) -> float:
        """Milliseconds that its bytes take at least."""
        return product_bytes(m, n, k) / self.gb_per_s / 1e6

    def by_memory(self, m: int, n: int, k: int) -> bool:
        """Whether the bytes take longer."""
        return self.byte_ms(m, n, k) > self.flop_ms(m, n, k)

    def ms(self, m: int, n: int, k: int) -> float:
        """The bound: the longer one."""
        return max(self.flop_ms(m, n, k), self.byte_ms(m, n, k))


def shape_path(size: tuple[int, int, int], slug: str, directory: Path | None = None) -> Path:
    """Where the record of a shape belongs."""
    return record_folder(directory) / slug / "shapes" / f"{size_name(*size)}.json"


def write_shape(speed: ShapeSpeed, directory: Path | None = None) -> Path:
    """Write a shape's measurement to its place in one step; an older valid record there is replaced.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    rows, columns = speed.work.tile
    data = {
        "schema": SCHEMA,
        "choice": speed.choice,
        "why": speed.why,
        "work": {
            "rows": rows,
            "columns": columns,
            "ctas": speed.work.ctas,
            "at_once": speed.work.at_once,
            "order": speed.work.order,
        },
        "compared": speed.compared,
        "cublas": [
            {
                "place": item.place,
                "trial_ms": round(item.trial_ms, MS_DIGITS),
                "algorithm": dict(item.algorithm),
                "ms": [round(ms, MS_DIGITS) for ms in item.ms],
            }
            for item in speed.proposals
        ],
        "measurement": to_json(speed.measurement),
    }
    return write_json(shape_path(speed.size, speed.measurement.device.slug, directory), data, shape_from_json)


def shape_from_json(data: Any, path: Path) -> ShapeSpeed:
    """The measurement of a shape in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    work = top.object("work")
    found = ShapeSpeed(
        from_json(top.object("measurement").data, path),
        top.text("choice"),
        top.text("why"),
        Work(
            (work.integer("rows", 1), work.integer("columns", 1)), work.integer("ctas", 1), work.integer("at_once", 1),
            work.optional_text("order"),
        ),
        top.integer("compared"),
        tuple(
            Proposal(
                item.integer("place"), item.number("trial_ms"), _algorithm(item.object("algorithm")),
                tuple(ms for ms in item.numbers("ms") if ms is not None),
            )
            for item in top.objects("cublas")
        ),
    )
    top.require_place(found.measurement.device.slug, "shapes", f"{size_name(*found.size)}.json")
    places = [item.place for item in found.proposals]
    if places != list(range(len(places))):
        top.fail("cublas", f"holds the places {places}", "proposals in their order, from place 0 on")
    times = {item.place: item.ms for item in found.proposals}
    if times.get(found.compared) != found.measurement.cublas_ms:
        top.fail("compared", f"is {found.compared}", "the place of the proposal whose times are the measurement's")
    return found


def _algorithm(numbers: Fields) -> dict[str, int]:
    return {name: numbers.integer(name) for name in numbers.data}


def load_shapes(device_slug: str, directory: Path | None = None) -> dict[tuple[int, int, int], ShapeSpeed]:
    """The recorded shapes of a GPU by (M, N, K). Raises RecordError if a file is damaged."""
    paths = sorted((record_folder(directory) / device_slug / "shapes").glob("*.json"))
    return {found.size: found for found in (shape_from_json(read_json(path), path) for path in paths)}
