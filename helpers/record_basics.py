"""What every kind of record has in common: where it lies, of which GPU it is, and which of several is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from helpers.checks import checked_folder
from helpers.device import Device
from helpers.jsonfile import Fields, read_json

RECORD_DIR = Path(__file__).resolve().parent / "records"
REFERENCE_DEVICE = "H200"   # recordings of this GPU are shown where there is a choice
MS_DIGITS = 6               # of milliseconds in a file: nanoseconds


class OfDevice(Protocol):
    """What is recorded of a GPU on a day."""

    device: Device
    date: str


Found = TypeVar("Found", bound=OfDevice)


def preference(record: OfDevice) -> tuple[bool, str]:
    """Of several records the one to show has the greatest: that of the reference GPU, of these the newest."""
    return REFERENCE_DEVICE in record.device.name, record.date


def record_folder(directory: Path | None = None) -> Path:
    """The folder of the records: `directory`, or helpers/records. Raises ArgumentError if it is no folder."""
    return RECORD_DIR if directory is None else checked_folder("directory", directory)


def find_of_device(
    name: str, parse: Callable[[Any, Path], Found], info: Device | None = None, directory: Path | None = None
) -> Found | None:
    """The record of that name of this GPU, else the one to show of all GPUs' (`preference`), or None if there is none.

    name: of the file in a GPU's folder. parse: makes the record of a JSON object and the file's path. info: this GPU;
    None: any. Raises RecordError if a file is damaged.
    """
    folder = record_folder(directory)
    own = folder / info.slug / name if info else None
    paths = [own] if own and own.exists() else sorted(folder.glob(f"*/{name}"))
    return max((parse(read_json(path), path) for path in paths), key=preference, default=None)


def device_from_json(fields: Fields) -> Device:
    """The Device in a checked object."""
    return Device(
        name=fields.text("name", r".*[A-Za-z0-9].*", "the name of a GPU"),
        compute_capability=fields.text("compute_capability", r"\d+\.\d+", "a text such as '9.0'"),
        sm_count=fields.integer("sm_count", 1),
        max_clock_mhz=fields.optional_number("max_clock_mhz"),
        l2_bytes=fields.optional_integer("l2_bytes", 1),
        memory_bytes=fields.optional_integer("memory_bytes", 1),
        memory_clock_mhz=fields.optional_number("memory_clock_mhz"),
        memory_bus_bits=fields.optional_integer("memory_bus_bits", 1),
        driver=fields.optional_text("driver"),
        power_limit_w=fields.optional_number("power_limit_w"),
    )


def one_decimal(value: float | None) -> float | None:
    """A measured figure as a record keeps it, or None."""
    return None if value is None else round(value, 1)
