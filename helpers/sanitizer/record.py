"""What compute-sanitizer said, as files: one for each rung or variant, and one for planted faults.

    records/<device>/sanitizer/<rung>[+<DEFINE>-<value>].json     a Sanitized
    records/<device>/sanitizer/planted.json                       a Planted
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from helpers.device import Device
from helpers.jsonfile import Fields, read_json, write_json
from helpers.record_basics import device_from_json, find_of_device, record_folder
from helpers.records import defines_entry, defines_from_json, file_name
from helpers.rungs import Rung, find_rung
from helpers.sanitizer.output import CLEAN, REPORTED, STATUSES, TOOLS, Outcome

SCHEMA = "hopper-matmul/sanitizer/1"
PLANTED_SCHEMA = "hopper-matmul/sanitizer-planted/1"
FOLDER = "sanitizer"
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Sanitized:
    """What the tools said about a rung, or about a variant of one.

    code_hashes: of each function of the kernel's file. version: compute-sanitizer's. shapes: (M, N, K) of the products.
    sms: that a persistent kernel was launched for, so that its CTAs compute several tiles; None for the others.
    outcomes: by the tools' order. defines: of the compilation. date: of the newest.
    """

    rung: str
    code_hashes: Mapping[str, str]
    device: Device
    version: str
    shapes: tuple[Shape, ...]
    sms: int | None
    outcomes: tuple[Outcome, ...]
    defines: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of its file, and of the `Subject` that it is about."""
        return file_name(self.rung, None, self.defines)

    @property
    def date(self) -> str:
        return max(item.date for item in self.outcomes)

    def outcome(self, tool: str) -> Outcome | None:
        """What a tool said, or None."""
        return next((item for item in self.outcomes if item.tool == tool), None)

    def of_same(self, other: "Sanitized") -> bool:
        """Whether both are of the same code, tool, GPU and shapes."""
        mine, others = ((item.name, item.code_hashes, item.device.name, item.version, item.shapes, item.sms)
                        for item in (self, other))
        return mine == others


@dataclass(frozen=True)
class PlantedFault:
    """A fault, by its name, and what the tool that is tried on it said. code_hash: of the kernel with the fault."""

    name: str
    code_hash: str
    outcome: Outcome

    @property
    def is_seen(self) -> bool:
        """Whether the tool reported it."""
        return self.outcome.status == "reported"


@dataclass(frozen=True)
class Planted:
    """What the tools said about the planted faults on a GPU. version: compute-sanitizer's."""

    device: Device
    version: str
    faults: tuple[PlantedFault, ...]

    @property
    def date(self) -> str:
        return max(item.outcome.date for item in self.faults)

    def fault(self, name: str) -> PlantedFault | None:
        """The fault of that name, or None."""
        return next((item for item in self.faults if item.name == name), None)


def sanitized_path(name: str, folder: str, directory: Path | None = None) -> Path:
    """Where the record of a subject of that name belongs. folder: the device's slug."""
    return record_folder(directory) / folder / FOLDER / f"{name}.json"


def planted_path(folder: str, directory: Path | None = None) -> Path:
    """Where the record of the planted faults belongs."""
    return record_folder(directory) / folder / FOLDER / "planted.json"


def write_sanitized(found: Sanitized, directory: Path | None = None) -> Path:
    """Write a record to its place in one step; what other tools said of the same code is kept.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    path = sanitized_path(found.name, found.device.slug, directory)
    outcomes = {item.tool: item for item in found.outcomes}
    old = read_sanitized(path)
    if old is not None and old.of_same(found):
        outcomes = {item.tool: item for item in old.outcomes} | outcomes
    data = {
        "schema": SCHEMA,
        "rung": found.rung,
        **defines_entry(found.defines),
        "code_hashes": dict(found.code_hashes),
        "device": asdict(found.device),
        "version": found.version,
        "shapes": [list(shape) for shape in found.shapes],
        "sms": found.sms,
        "tools": [_outcome_json(outcomes[tool]) for tool in TOOLS if tool in outcomes],
    }
    return write_json(path, data, sanitized_from_json)


def write_planted(found: Planted, directory: Path | None = None) -> Path:
    """Write the record of the planted faults; those of the same GPU and version that are not among them are kept."""
    path = planted_path(found.device.slug, directory)
    faults = {item.name: item for item in found.faults}
    old = read_planted(path)
    if old is not None and (old.device.name, old.version) == (found.device.name, found.version):
        faults = {item.name: item for item in old.faults} | faults
    data = {
        "schema": PLANTED_SCHEMA,
        "device": asdict(found.device),
        "version": found.version,
        "faults": [
            {"name": item.name, "code_hash": item.code_hash, **_outcome_json(item.outcome)}
            for _, item in sorted(faults.items())
        ],
    }
    return write_json(path, data, planted_from_json)


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return asdict(replace(outcome, output=())) | {"output": list(outcome.output)}


def sanitized_from_json(data: Any, path: Path) -> Sanitized:
    """The record in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    hashes = top.object("code_hashes")
    shapes = top.take("shapes", "a list of [M, N, K]")
    if not isinstance(shapes, list) or not shapes or not all(map(_is_shape, shapes)):
        top.fail("shapes", "holds something else", "a list of [M, N, K], each at least 1")
    found = Sanitized(
        rung=top.rung(),
        code_hashes={name: hashes.code_hash(name) for name in hashes.data},
        device=device_from_json(top.object("device")),
        version=top.text("version"),
        shapes=tuple(tuple(shape) for shape in shapes),
        sms=top.optional_integer("sms", 1),
        outcomes=tuple(map(_outcome, top.objects("tools"))),
        defines=defines_from_json(top, required=False),
    )
    if not found.outcomes:
        top.fail("tools", "is empty", "what at least one tool said")
    top.require_place(found.device.slug, FOLDER, f"{found.name}.json")
    return found


def planted_from_json(data: Any, path: Path) -> Planted:
    """The planted faults in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (PLANTED_SCHEMA,))
    found = Planted(
        device=device_from_json(top.object("device")),
        version=top.text("version"),
        faults=tuple(
            PlantedFault(item.text("name", r"\w+", "a name"), item.code_hash(), _outcome(item))
            for item in top.objects("faults")
        ),
    )
    if not found.faults:
        top.fail("faults", "is empty", "at least one fault")
    top.require_place(found.device.slug, FOLDER, "planted.json")
    return found


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(
        isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in value
    )


def _outcome(item: Fields) -> Outcome:
    reports = item.object("reports")
    why = item.take("why", "a text")
    if not isinstance(why, str) or not why.isprintable():
        item.fail("why", "is something else", "a text of one line")
    found = Outcome(
        tool=item.choice("tool", TOOLS),
        status=item.choice("status", STATUSES),
        why=why,
        exit_code=None if not item.has("exit_code") else int(item.number("exit_code", positive=False)),
        errors=item.optional_integer("errors"),
        warnings=item.optional_integer("warnings"),
        launches=item.integer("launches"),
        seconds=item.number("seconds", positive=False),
        reports={text: reports.integer(text, 1) for text in reports.data},
        output=item.texts("output"),
        date=item.date(),
    )
    if found.status == CLEAN and (found.errors or found.warnings or found.reports):
        item.fail("status", f'is "{CLEAN}" beside {found.counted}', f'"{REPORTED}" where something was reported')
    return found


def read_sanitized(path: Path) -> Sanitized | None:
    """The record in a file, None if there is no file. Raises RecordError if it is damaged."""
    return sanitized_from_json(read_json(path), path) if path.exists() else None


def read_planted(path: Path) -> Planted | None:
    """The record in a file, None if there is no file. Raises RecordError if it is damaged."""
    return planted_from_json(read_json(path), path) if path.exists() else None


def find_sanitized(
    rung: str | int | Rung, directory: Path | None = None, defines: Mapping[str, str | int] | None = None
) -> Sanitized | None:
    """The newest record of a rung, compiled with these defines, of the reference GPU if there is one, or None.

    Raises RecordError if a file is damaged.
    """
    name = file_name(find_rung(rung).name, None, defines)
    return find_of_device(f"{FOLDER}/{name}.json", sanitized_from_json, directory=directory)


def find_planted(directory: Path | None = None) -> Planted | None:
    """The newest record of planted faults, of the reference GPU if there is one, or None."""
    return find_of_device(f"{FOLDER}/planted.json", planted_from_json, directory=directory)
