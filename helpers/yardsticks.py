"""What a GPU can do at most, as it was measured: records/<device>/device.json.

`python -m helpers.record` writes it with the ladder, and `python -m helpers.roof` its roofs anew.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers.device import Bandwidth, Device
from helpers.jsonfile import Fields, read_json, write_json
from helpers.record_basics import MS_DIGITS, device_from_json, find_of_device, one_decimal, record_folder
from helpers.records import REGIMES

SCHEMA = "hopper-matmul/device/1"


@dataclass(frozen=True)
class Roof:
    """How fast the tensor cores are with nothing else to do (helpers.roof).

    like_n: the launches are as long as a product of this size would be. inputs: 'N(0,1)' or 'zeros'.
    mhz: SM clock within the kernel. power_w: read while it ran, or None.
    """

    like_n: int
    regime: str
    inputs: str
    tflops: float
    mhz: float
    power_w: float | None


@dataclass(frozen=True)
class Yardsticks:
    """What a GPU can do at most, measured: bandwidth of its memory, the SM clock of an idle chip, its tensor cores.

    bandwidth: by a device copy. idle_clock_mhz: SM clock in a probe kernel after a rest, or None.
    roofs: of a Hopper GPU; empty if not measured.
    """

    device: Device
    bandwidth: Bandwidth
    idle_clock_mhz: float | None
    date: str
    roofs: tuple[Roof, ...] = ()


def write_yardsticks(yardsticks: Yardsticks, directory: Path | None = None) -> Path:
    """Write the measured yardsticks of a GPU to records/<device>/device.json."""
    data = {
        "schema": SCHEMA,
        "device": asdict(yardsticks.device),
        "bandwidth": {
            "gb_per_s": round(yardsticks.bandwidth.gb_per_s, 1),
            "bytes_moved": yardsticks.bandwidth.bytes_moved,
            "samples_ms": [round(value, MS_DIGITS) for value in yardsticks.bandwidth.samples_ms],
        },
        "idle_clock_mhz": one_decimal(yardsticks.idle_clock_mhz),
        "date": yardsticks.date,
    }
    if yardsticks.roofs:
        data["roofs"] = [
            asdict(roof) | {name: one_decimal(getattr(roof, name)) for name in ("tflops", "mhz", "power_w")}
            for roof in yardsticks.roofs
        ]
    path = record_folder(directory) / yardsticks.device.slug / "device.json"
    return write_json(path, data, yardsticks_from_json)


def yardsticks_from_json(data: Any, path: Path) -> Yardsticks:
    """The yardsticks in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    measured = top.object("bandwidth")
    device = device_from_json(top.object("device"))
    top.require_place(device.slug, "device.json")
    return Yardsticks(
        device=device,
        bandwidth=Bandwidth(
            gb_per_s=measured.number("gb_per_s"),
            bytes_moved=measured.integer("bytes_moved", 1),
            samples_ms=tuple(value for value in measured.numbers("samples_ms") if value is not None),
        ),
        idle_clock_mhz=top.optional_number("idle_clock_mhz"),
        date=top.date(),
        roofs=tuple(map(_roof, top.objects("roofs") if top.has("roofs") else ())),
    )


def _roof(item: Fields) -> Roof:
    return Roof(
        like_n=item.integer("like_n", 1),
        regime=item.choice("regime", REGIMES),
        inputs=item.choice("inputs", ("N(0,1)", "zeros")),
        tflops=item.number("tflops"),
        mhz=item.number("mhz"),
        power_w=item.optional_number("power_w"),
    )


def load_yardsticks(device: Device | str | None = None, directory: Path | None = None) -> Yardsticks | None:
    """The recorded yardsticks of a GPU (a Device or its slug), or of the reference GPU; None if there are none.

    Raises RecordError if the file is damaged.
    """
    if device is None:
        return find_of_device("device.json", yardsticks_from_json, directory=directory)
    path = record_folder(directory) / (device.slug if isinstance(device, Device) else device) / "device.json"
    return yardsticks_from_json(read_json(path), path) if path.exists() else None
