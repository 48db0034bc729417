"""Measurements as files: one JSON file each, checked when read, written whole, never overwritten when damaged.

    records/<device>/<rung>[.<entry>][+<DEFINE>-<value>]_<size>_<regime>.json      a Measurement

Other files beside them have modules of their own, which docs/measuring.md lists.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from helpers.checks import checked_path
from helpers.defines import checked_defines
from helpers.device import Device
from helpers.errors import ArgumentError, RecordError
from helpers.intervals import Interval, median, median_interval, quartiles
from helpers.jsonfile import Fields, read_json, write_json
from helpers.record_basics import MS_DIGITS, device_from_json, one_decimal, preference, record_folder
from helpers.rungs import RUNGS, Rung, find_rung
from helpers.words import short

SCHEMA = "hopper-matmul/measurement/1"
REGIMES = ("burst", "sustained")


class RecordWarning(UserWarning):
    """A damaged record was left out; the message names the file and the remedy."""


@dataclass(frozen=True)
class Samples:
    """Every sample of a measurement, by round.

    kernel_ms, cublas_ms: per round one or more samples, milliseconds per launch (a burst has one sample a round).
    kernel_clock_mhz, cublas_clock_mhz: per round the SM clock right after the launches, MHz, or None if not measured.
    """

    kernel_ms: tuple[tuple[float, ...], ...]
    cublas_ms: tuple[tuple[float, ...], ...]
    kernel_clock_mhz: tuple[float | None, ...] = ()
    cublas_clock_mhz: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """One kernel against cuBLAS, at one size, in one regime.

    code_hash: of the machine code (helpers.cuda.code_hash). defines: of the compilation. device: the GPU.
    toolkit: versions of nvrtc, cublas, cupy. method: how it was timed (launches, rest, spin, ...), units in the names.
    sm_clock_mhz: median SM clock after the kernel's launches, measured in a kernel. power_w: highest reading.
    temperature_c: highest reading. throttle_reasons: all that were active. These four are None when not available, and
    `notes` says why. date: UTC. source: 'live' or 'recorded'. stale: whether the kernel has changed since.
    """

    rung: str
    entry: str
    code_hash: str
    defines: Mapping[str, str | int]
    dtype: str
    device: Device
    toolkit: Mapping[str, str | None]
    m: int
    n: int
    k: int
    regime: str
    method: Mapping[str, Any]
    samples: Samples
    sm_clock_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle_reasons: tuple[str, ...] | None
    date: str
    notes: tuple[str, ...] = ()
    source: str = field(default="recorded", compare=False)
    stale: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Two lines: the speed with its origin, then the spread and cuBLAS beside it."""
        name = file_name(self.rung, self.entry, self.defines)
        origin = "measured live" if self.source == "live" else "recorded"
        stale = ", of code that has changed since" if self.stale else ""
        low, high = self.tflops_quartiles
        interval = self.ratio_interval
        return (
            f"{name}, N={size_name(self.m, self.n, self.k)}, {self.regime}: {three_digits(self.tflops)} TFLOP/s, "
            f"{origin} on {self.device.name}, {self.date[:10]}{stale}\n"
            f"    quartiles {three_digits(low)} to {three_digits(high)}; cuBLAS in turn "
            f"{three_digits(self.cublas_tflops)} TFLOP/s, ratio {three_digits(self.ratio)} "
            f"({three_digits(interval.low)} to {three_digits(interval.high)})"
        )

    @property
    def flop(self) -> int:
        """Floating-point operations of the product: a multiply and an add for each of M x N x K."""
        return 2 * self.m * self.n * self.k

    @property
    def kernel_ms(self) -> tuple[float, ...]:
        """Per round, milliseconds per launch of the kernel (the median of the round's samples)."""
        return tuple(median(samples) for samples in self.samples.kernel_ms)

    @property
    def cublas_ms(self) -> tuple[float, ...]:
        """Per round, milliseconds per launch of cuBLAS."""
        return tuple(median(samples) for samples in self.samples.cublas_ms)

    @property
    def tflops(self) -> float:
        """TFLOP/s of the kernel: from the median of the rounds."""
        return self.flop / median(self.kernel_ms) / 1e9

    @property
    def tflops_quartiles(self) -> tuple[float, float]:
        """First and third quartile of the rounds, TFLOP/s."""
        low_ms, high_ms = quartiles(self.kernel_ms)
        return self.flop / high_ms / 1e9, self.flop / low_ms / 1e9

    @property
    def cublas_tflops(self) -> float:
        """TFLOP/s of cuBLAS, timed in turn with the kernel on the same arrays."""
        return self.flop / median(self.cublas_ms) / 1e9

    @property
    def ratios(self) -> tuple[float, ...]:
        """Per round, the kernel's speed over cuBLAS's."""
        return tuple(cublas / kernel for kernel, cublas in zip(self.kernel_ms, self.cublas_ms, strict=True))

    @property
    def ratio(self) -> float:
        """The headline: the median of the per-round ratios."""
        return median(self.ratios)

    @property
    def ratio_interval(self) -> Interval:
        """95% interval of the headline by order statistics; with fewer than six rounds the range, see its coverage."""
        return median_interval(self.ratios)

    def suffices(self, code_hash: str, info: Device, rounds: int) -> bool:
        """Whether it need not be made again: of this very code and GPU, with at least so many rounds.

        Where the CPU was late once, the figure holds some of its delay, and beside another process it is too low: that
        does not suffice.
        """
        return (
            self.code_hash == code_hash
            and self.device.name == info.name
            and len(self.samples.kernel_ms) >= rounds
            and bool(self.method.get("launches_hidden", True))
            and not self.method.get("disturbed", False)
        )


def require_regime(regime: Any) -> None:
    """Raises ArgumentError for anything but 'burst' and 'sustained'."""
    if not isinstance(regime, str) or regime not in REGIMES:
        raise ArgumentError(f"regime {short(regime)} is not known: give 'burst' or 'sustained'.")


def three_digits(value: float) -> str:
    """A positive figure with three digits and no exponent: 0.00671, 5.35, 799."""
    digits = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:,.{digits}f}"


def size_name(m: int, n: int, k: int) -> str:
    """A shape in a file name: '4096', or '512x1024x256' (MxNxK) if it is not a cube."""
    return str(n) if m == n == k else f"{m}x{n}x{k}"


def file_name(rung: str, entry: str | None = None, defines: Mapping[str, str | int] | None = None) -> str:
    """The stem that a kernel's files share: '01_coalescing', '01_coalescing.matmul_uncoalesced', '05_tma+BUFFERS-1'.

    The rung's main entry is left out; an unknown rung has 'matmul'.
    """
    main = next((item.entry for item in RUNGS if item.name == rung), "matmul")
    name = rung if entry in (None, main) else f"{rung}.{entry}"
    return name + "".join(f"+{key}-{value}" for key, value in sorted((defines or {}).items()))


def record_path(measurement: Measurement, directory: Path | None = None) -> Path:
    """Where a measurement belongs."""
    stem = file_name(measurement.rung, measurement.entry, measurement.defines)
    size = size_name(measurement.m, measurement.n, measurement.k)
    return record_folder(directory) / measurement.device.slug / f"{stem}_{size}_{measurement.regime}.json"


def to_json(measurement: Measurement) -> dict[str, Any]:
    """The JSON object of a measurement, keys in a fixed order, milliseconds rounded to nanoseconds."""

    def rounded(rounds: Iterable[Iterable[float]]) -> list[list[float]]:
        return [[round(value, MS_DIGITS) for value in samples] for samples in rounds]

    samples = measurement.samples
    reasons = measurement.throttle_reasons
    return {
        "schema": SCHEMA,
        "rung": measurement.rung,
        "entry": measurement.entry,
        "code_hash": measurement.code_hash,
        "defines": dict(sorted(measurement.defines.items())),
        "dtype": measurement.dtype,
        "device": asdict(measurement.device),
        "toolkit": dict(measurement.toolkit),
        "m": measurement.m,
        "n": measurement.n,
        "k": measurement.k,
        "regime": measurement.regime,
        "method": dict(measurement.method),
        "samples": {
            "kernel_ms": rounded(samples.kernel_ms),
            "cublas_ms": rounded(samples.cublas_ms),
            "kernel_clock_mhz": list(map(one_decimal, samples.kernel_clock_mhz)),
            "cublas_clock_mhz": list(map(one_decimal, samples.cublas_clock_mhz)),
        },
        "sm_clock_mhz": one_decimal(measurement.sm_clock_mhz),
        "power_w": one_decimal(measurement.power_w),
        "temperature_c": one_decimal(measurement.temperature_c),
        "throttle_reasons": None if reasons is None else list(reasons),
        "date": measurement.date,
        "notes": list(measurement.notes),
    }


def from_json(data: Any, path: Path) -> Measurement:
    """The measurement in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    nested = top.object("samples")
    samples = Samples(
        kernel_ms=nested.rounds("kernel_ms"),
        cublas_ms=nested.rounds("cublas_ms"),
        kernel_clock_mhz=nested.numbers("kernel_clock_mhz", allow_null=True),
        cublas_clock_mhz=nested.numbers("cublas_clock_mhz", allow_null=True),
    )
    if len(samples.kernel_ms) != len(samples.cublas_ms):
        nested.fail("cublas_ms", f"has {len(samples.cublas_ms)} rounds", f"{len(samples.kernel_ms)}, as in kernel_ms")
    toolkit = top.scalars("toolkit")
    return Measurement(
        rung=top.rung(),
        entry=top.entry(),
        code_hash=top.code_hash(),
        defines=defines_from_json(top),
        dtype=top.choice("dtype", ("bfloat16",)),
        device=device_from_json(top.object("device")),
        toolkit=toolkit,
        m=top.integer("m", 1),
        n=top.integer("n", 1),
        k=top.integer("k", 1),
        regime=top.choice("regime", REGIMES),
        method=dict(top.object("method").data),
        samples=samples,
        sm_clock_mhz=top.optional_number("sm_clock_mhz"),
        power_w=top.optional_number("power_w"),
        temperature_c=top.optional_number("temperature_c"),
        throttle_reasons=top.texts("throttle_reasons") if top.has("throttle_reasons") else None,
        date=top.date(),
        notes=top.texts("notes"),
    )


def defines_entry(defines: Mapping[str, str | int]) -> dict[str, Any]:
    """The defines of a variant as they stand in a record: nothing if there are none."""
    return {"defines": dict(sorted(defines.items()))} if defines else {}


def defines_from_json(fields: Fields, required: bool = True) -> dict[str, str | int]:
    """The defines under `defines` in a checked object. required: False where it lacks them if there are none."""
    if not required and "defines" not in fields.data:
        return {}
    try:
        return checked_defines(fields.scalars("defines"))
    except ArgumentError as error:
        fields.fail("defines", f"is wrong ({str(error).rstrip('.')})", "an object such as {\"BUFFERS\": 1}")


def write_record(measurement: Measurement, directory: Path | None = None, path: Path | None = None) -> Path:
    """Write a measurement to its place (or to `path`), in one step; an older valid record there is replaced.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    return write_json(path or record_path(measurement, directory), to_json(measurement), from_json)


def read_record(path: Path) -> Measurement:
    """The measurement in a file. Raises RecordError if it is missing or damaged."""
    path = checked_path("path", path)
    return from_json(read_json(path), path)


def load_records(directory: Path | None = None, strict: bool = True) -> list[Measurement]:
    """All measurements below a folder, by device, rung, entry, size and regime.

    directory: RECORD_DIR by default; a missing one holds none. strict: a damaged file raises RecordError; otherwise it
    is left out with a RecordWarning.
    """
    found = []
    for path in _record_files(record_folder(directory)):
        try:
            found.append(read_record(path))
        except RecordError as error:
            if strict:
                raise
            warnings.warn(str(error), RecordWarning, stacklevel=2)
    return sorted(found, key=_order)


def find_record(
    rung: str | int | Rung,
    m: int,
    n: int,
    k: int,
    regime: str = "burst",
    entry: str | None = None,
    code_hash: str | None = None,
    *,
    defines: Mapping[str, str | int] | None = None,
    directory: Path | None = None,
) -> Measurement | None:
    """The newest recording of a kernel at a size, of the reference GPU if there is one, or None.

    code_hash: only a recording of this very code; without it any, whose `stale` only `with_staleness` finds out.
    Raises RecordError if nothing fits and a file of that very name is damaged.
    """
    wanted = find_rung(rung)
    entry = entry or wanted.entry
    defines = {key: str(value) for key, value in (defines or {}).items()}
    fitting = []
    damaged: list[RecordError] = []
    name = f"{file_name(wanted.name, entry, defines)}_{size_name(m, n, k)}_{regime}.json"
    for path in _record_files(record_folder(directory)):
        if not path.name.startswith(wanted.name):
            continue
        try:
            record = read_record(path)
        except RecordError as error:
            damaged.extend([error] if path.name == name else [])
            continue
        same = (record.rung, record.entry, record.m, record.n, record.k, record.regime) == (
            wanted.name, entry, m, n, k, regime,
        )
        same = same and {key: str(value) for key, value in record.defines.items()} == defines
        if same and code_hash in (None, record.code_hash):
            fitting.append(record)
    if not fitting and damaged:
        raise damaged[0]
    return max(fitting, key=preference, default=None)


def with_staleness(
    measurements: Iterable[Measurement], current_hash: Callable[[Measurement], str | None]
) -> list[Measurement]:
    """The same measurements, each with `stale` set: whether its hash differs from what `current_hash` gives for it.

    current_hash: the hash of the kernel as it is now, or None if there is no such kernel any more (then it is stale).
    """
    return [replace(item, stale=current_hash(item) != item.code_hash) for item in measurements]


def _record_files(directory: Path) -> list[Path]:
    """Files of measurements: every JSON file that lies in a device's folder and is named after a regime."""
    return sorted(path for regime in REGIMES for path in directory.glob(f"*/*_{regime}.json"))


def _order(measurement: Measurement) -> tuple:
    return (
        measurement.device.slug, measurement.rung, measurement.entry, sorted(map(str, measurement.defines.items())),
        measurement.m * measurement.n * measurement.k, measurement.regime,
    )
