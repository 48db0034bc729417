"""Joules for a TFLOP as data and as a file: records/<device>/energy.json (helpers.energy measures them)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers.device import Device
from helpers.errors import ArgumentError
from helpers.intervals import Interval, median, median_interval
from helpers.jsonfile import Fields, write_json
from helpers.record_basics import MS_DIGITS, device_from_json, find_of_device, one_decimal, record_folder
from helpers.records import three_digits

SCHEMA = "hopper-matmul/energy/1"
FILE = "energy.json"
CUBLAS = "cuBLAS"
INDENT = " " * 12    # of a printed line that goes on


@dataclass(frozen=True)
class EnergyTurn:
    """One turn. ms: mean time of a launch. watts: by the energy counter. power_w: mean of NVML's power readings in the
    same time, None if it gives none.
    """

    ms: float
    watts: float
    power_w: float | None


@dataclass(frozen=True)
class Energy:
    """A kernel (its rung's name) or cuBLAS at M = N = K = n. code_hash: None for cuBLAS."""

    contender: str
    code_hash: str | None
    n: int
    turns: tuple[EnergyTurn, ...]

    def joules(self, idle_w: float = 0.0) -> tuple[float, ...]:
        """By turn, joules for a TFLOP. idle_w: power that is not counted."""
        tflop = 2 * self.n**3 / 1e12
        return tuple((turn.watts - idle_w) * turn.ms / 1e3 / tflop for turn in self.turns)

    @property
    def watts(self) -> float:
        """Mean power of a turn by the energy counter, the median of the turns."""
        return median([turn.watts for turn in self.turns])

    @property
    def power_w(self) -> float | None:
        """The same by NVML's power readings, or None."""
        found = [turn.power_w for turn in self.turns if turn.power_w is not None]
        return median(found) if found else None

    @property
    def tflops(self) -> float:
        """TFLOP/s, of the median of the turns."""
        return 2 * self.n**3 / median([turn.ms for turn in self.turns]) / 1e9


@dataclass(frozen=True)
class Energies:
    """What was measured on a GPU. device: None, and no items, if nobody has recorded any. source: 'live' or 'recorded'.

    idle_w: power with the program loaded and waiting, before the first turn. method: in numbers, units in the names.
    """

    device: Device | None = None
    source: str = "recorded"
    date: str = ""
    toolkit: Mapping[str, str | None] | None = None
    method: Mapping[str, Any] | None = None
    idle_w: float = 0.0
    items: tuple[Energy, ...] = ()

    def find(self, contender: str, n: int) -> Energy | None:
        """What a contender, by its rung's name or 'cuBLAS', took at a size; None if that was not measured."""
        return next((item for item in self.items if (item.contender, item.n) == (contender, n)), None)

    def ratio(self, item: Energy) -> tuple[float, Interval]:
        """Joules of a contender over cuBLAS's of the same round: the median, and its interval.

        Raises ArgumentError if cuBLAS was not measured at this size.
        """
        cublas = self.find(CUBLAS, item.n)
        if cublas is None:
            raise ArgumentError(f"item is of N = {item.n:,}, where cuBLAS was not measured: take another size.")
        ratios = [ours / theirs for ours, theirs in zip(item.joules(), cublas.joules(), strict=True)]
        return median(ratios), median_interval(ratios)

    def __str__(self) -> str:
        if self.device is None or not self.items:
            return "energy: no recording"
        coverage = median_interval(self.items[0].joules()).coverage
        head = (
            f"joules for a TFLOP, sustained on N(0,1), {self.source} on {self.device.name}, {self.date[:10]}; "
            f"{self.idle_w:.0f} W idle; intervals of {coverage:.0%}"
        )
        width = max(len(item.contender) for item in self.items)
        note = (self.method or {}).get("note")
        lines = [head, *(f"    N={item.n} {self._words(item, width)}" for item in self.items)]
        return "\n".join([*lines, f"    {note}"] if note else lines)

    def _words(self, item: Energy, width: int) -> str:
        interval = median_interval(item.joules())
        metered = "" if item.power_w is None else f", {item.power_w:.0f} W metered"
        text = (
            f"{item.contender:<{width}} {median(item.joules()):.3f} J ({interval.low:.3f} to {interval.high:.3f}), "
            f"{median(item.joules(self.idle_w)):.3f} J beyond idle; {item.watts:.0f} W counted{metered}; "
            f"{three_digits(item.tflops)} TFLOP/s"
        )
        if item.contender == CUBLAS or self.find(CUBLAS, item.n) is None:
            return text
        ratio, interval = self.ratio(item)
        return f"{text}\n{INDENT}{ratio:.3f} of cuBLAS's joules ({interval.low:.3f} to {interval.high:.3f})"


def energy_path(slug: str, directory: Path | None = None) -> Path:
    """Where the energies of a GPU are kept."""
    return record_folder(directory) / slug / FILE


def recorded_energies(info: Device | None = None, directory: Path | None = None) -> Energies:
    """The recording of this GPU, else of the reference GPU, else none. Raises RecordError for a damaged file."""
    return find_of_device(FILE, from_json, info, directory) or Energies()


def write_energies(found: Energies, directory: Path | None = None) -> Path:
    """Write them to records/<device>/energy.json. Raises ArgumentError if nothing was measured."""
    if found.device is None or not found.items:
        raise ArgumentError("found holds no measurement: measure on a GPU first.")
    data = {
        "schema": SCHEMA,
        "device": asdict(found.device),
        "toolkit": dict(found.toolkit or {}),
        "method": dict(found.method or {}),
        "idle_w": one_decimal(found.idle_w),
        "energies": [
            {
                "contender": item.contender,
                "code_hash": item.code_hash,
                "n": item.n,
                "ms": [round(turn.ms, MS_DIGITS) for turn in item.turns],
                "watts": [one_decimal(turn.watts) for turn in item.turns],
                "power_w": [one_decimal(turn.power_w) for turn in item.turns],
            }
            for item in found.items
        ],
        "date": found.date,
    }
    return write_json(energy_path(found.device.slug, directory), data, from_json)


def from_json(data: Any, path: Path) -> Energies:
    """The energies in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    info = device_from_json(top.object("device"))
    top.require_place(info.slug, FILE)
    found = Energies(
        info, "recorded", top.date(), top.scalars("toolkit"), top.scalars("method"), top.number("idle_w"),
        tuple(map(_energy, top.objects("energies"))),
    )
    if not found.items:
        top.fail("energies", "is empty", "what at least one contender took")
    for item in found.items:
        who, other = f"{item.contender} at N = {item.n}", found.find(CUBLAS, item.n) or item
        if found.find(item.contender, item.n) is not item:
            top.fail("energies", f"holds {who} twice", "each contender at each size once")
        if len(item.turns) != len(other.turns):
            top.fail("energies", f"holds {len(item.turns)} turns of {who}", f"{len(other.turns)}, as of cuBLAS")
    if found.idle_w >= (least := min(turn.watts for item in found.items for turn in item.turns)):
        top.fail("idle_w", f"is {found.idle_w:g}", f"less than the power of every turn, {least:g} at least")
    return found


def _energy(item: Fields) -> Energy:
    columns = {key: item.numbers(key, allow_null=key == "power_w") for key in ("ms", "watts", "power_w")}
    for key, values in columns.items():
        if not values or len(values) != len(columns["ms"]):
            item.fail(key, f"has {len(values)} turns", f"{len(columns['ms']) or 'one or more'}, as in ms")
    turns = tuple(EnergyTurn(*values) for values in zip(*columns.values(), strict=True))
    contender = item.text("contender")
    return Energy(contender, None if contender == CUBLAS else item.code_hash(), item.integer("n", 1), turns)
