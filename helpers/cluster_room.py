"""How many clusters of CTAs have room on this GPU at once: the driver's answer (cuOccupancyMaxActiveClusters).

    print(cluster_room())

    python -m helpers.cluster_room        records it in records/<device>/clusters.json, on a Hopper GPU (a second)

The CTAs are rung 9's, each with so much shared memory that an SM has room for one. A cluster needs free SMs of one GPC
(a group of SMs), and the SMs of a GPC are not always a multiple of its size: then some are left over. Rung 9 has no
`__cluster_dims__` of its own, so that the driver can be asked about every size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from helpers import device, gpu
from helpers.cuda import compile_cubin
from helpers.device import Device
from helpers.entry import Parser, guarded
from helpers.errors import ArgumentError
from helpers.jsonfile import Fields, display, write_json
from helpers.record_basics import device_from_json, find_of_device, record_folder
from helpers.rungs import find_rung
from helpers.typed import typed
from helpers.words import plural, short

SCHEMA = "hopper-matmul/clusters/1"
RUNG = find_rung("09_persistence")
SIZES = (1, 2, 4, 8)   # CTAs; 8 is the most that every Hopper GPU takes
FILE = "clusters.json"


@dataclass(frozen=True)
class ClusterRoom:
    """How many clusters have room at once. clusters: by the CTAs of a cluster; empty if nobody has recorded any.

    device: None without a recording. source: 'live' or 'recorded'.
    """

    device: Device | None = None
    source: str = "recorded"
    date: str = ""
    clusters: Mapping[int, int] = field(default_factory=dict)

    def sms(self, ctas: int) -> int:
        """SMs that clusters of so many CTAs fill, a CTA on each. Raises ArgumentError for a size nobody asked about."""
        if ctas not in list(self.clusters):
            asked = ", ".join(map(str, self.clusters)) or "a GPU first"
            raise ArgumentError(
                f"ctas is {short(ctas)}: it must be a size that the driver was asked about; ask {asked}."
            )
        return ctas * self.clusters[ctas]

    def __str__(self) -> str:
        if self.device is None:
            return "room for clusters: no recording"
        parts = [f"{n} of {plural(ctas, 'CTA')} ({self.sms(ctas)} SMs)" for ctas, n in self.clusters.items()]
        return f"room for clusters, {self.source} on {self.device.name}, {self.date[:10]}\n    {', '.join(parts)}"


@typed
def cluster_room(*, live: bool = True) -> ClusterRoom:
    """Asked now on a Hopper GPU (a second), else as recorded. Raises RecordError for a damaged file.

    live: whether to ask at all; False takes the recording everywhere.
    """
    info = device.device_info()
    if live and info is not None and info.meets(RUNG.compute_capability):
        return ClusterRoom(info, "live", device.now(), ask_driver())
    return recorded_room(info)


def ask_driver() -> dict[int, int]:
    """Clusters that have room, by the CTAs of a cluster. Raises BackendError if no Hopper GPU answers."""
    answer = gpu.require_gpu(RUNG.name, RUNG.compute_capability)
    function = gpu.load_function(compile_cubin(RUNG.path, {}, answer.architecture).path, RUNG.entry)
    return {ctas: gpu.most_clusters(function, ctas, RUNG.block[0], RUNG.shared_bytes) for ctas in SIZES}


def room_path(slug: str, directory: Path | None = None) -> Path:
    """Where a GPU's answer is kept."""
    return record_folder(directory) / slug / FILE


def recorded_room(info: Device | None = None, directory: Path | None = None) -> ClusterRoom:
    """The recording of this GPU, else of the reference GPU, else none. Raises RecordError for a damaged file."""
    return find_of_device(FILE, from_json, info, directory) or ClusterRoom()


def from_json(data: Any, path: Path) -> ClusterRoom:
    """The answer in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    room = [(item.integer("ctas", 1), item.integer("clusters")) for item in top.objects("room")]
    date = top.date()
    info = device_from_json(top.object("device"))
    if tuple(ctas for ctas, _ in room) != SIZES or any(ctas * count > info.sm_count for ctas, count in room):
        top.fail("room", f"is {room}", f"for {SIZES} CTAs, with a CTA on each of {info.sm_count} SMs at most")
    top.require_place(info.slug, FILE)
    return ClusterRoom(info, "recorded", date, dict(room))


def write_room(room: ClusterRoom, directory: Path | None = None) -> Path:
    """Write it to records/<device>/clusters.json. Raises ArgumentError if nobody was asked."""
    if room.device is None:
        raise ArgumentError("room holds no answer: ask on a Hopper GPU first.")
    rows = [{"ctas": ctas, "clusters": count} for ctas, count in room.clusters.items()]
    data = {"schema": SCHEMA, "device": asdict(room.device), "room": rows, "date": room.date}
    return write_json(room_path(room.device.slug, directory), data, from_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.cluster_room", description="Record how many clusters have room at once.")
    parser.add_output()
    options = parser.parse_args(arguments)

    def work() -> int:
        info = device.require_device("Room for clusters can only be asked of a GPU")
        room = ClusterRoom(info, "live", device.now(), ask_driver())
        print(f"{room}\nwritten to {display(write_room(room, options.output))}")
        return 0

    return guarded(work)


if __name__ == "__main__":
    raise SystemExit(main())
