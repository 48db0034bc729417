"""Files of records damaged at random: each is refused in one sentence that names it, or is as good as a right one."""

import json
import math
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from mutations import damaged_bytes, damaged_json, json_bytes

from helpers import cluster_room, cublas_torch, energy_records, input_speeds, memory_speed, shapes_page
from helpers.agreement import pairs, row
from helpers.arrays import INPUTS
from helpers.cublas_torch import Comparison, CublasTorch
from helpers.errors import RecordError
from helpers.held_clock import recorded_clocks, with_clocks, write_clocks
from helpers.input_speeds import InputSpeed, InputSpeeds
from helpers.memory_speed import APART, LEVELS, MemorySpeed, MemorySpeeds
from helpers.minutes import load_running
from helpers.order_speeds import OrderSpeeds, find_orders, write_orders
from helpers.profile import find_profile, write_profile
from helpers.published import published
from helpers.record_basics import RECORD_DIR
from helpers.records import find_record, read_record, write_record
from helpers.rungs import find_rung
from helpers.sanitizer import page as sanitizer_page
from helpers.sanitizer.record import find_planted, find_sanitized, write_planted, write_sanitized
from helpers.shape_records import load_shapes, write_shape
from helpers.shapes import Shape
from helpers.yardsticks import load_yardsticks, write_yardsticks

GOOD = find_record(8, 4096, 4096, 4096)
DEVICE, SLUG, DATE = GOOD.device, GOOD.device.slug, "2026-11-29T12:00:00Z"
INPUT_SPEEDS = InputSpeeds(
    "10_clusters", "0" * 16, 4096, "burst", tuple(InputSpeed(name, (0.17,) * 3, 1700.0) for name in INPUTS), DEVICE,
    dict(GOOD.toolkit), {"rounds": 3}, DATE,
)  # fmt: skip
MEMORY = MemorySpeeds(
    DEVICE, "recorded", DATE, tuple(MemorySpeed(level, APART, 1 << 20, 4e3, 1.9e3) for level in LEVELS)
)
ROOM = cluster_room.ClusterRoom(DEVICE, "recorded", DATE, {1: 132, 2: 66, 4: 30, 8: 14})
TORCH = CublasTorch(DEVICE, {"torch": "2"}, DATE, (Comparison(4096, (0.18,) * 9, (0.19,) * 9, {"rounds": 9}),))
VARIANT = replace(find_sanitized(10), rung="appendix_split_k", defines={"A_ROWS": 16, "SPLIT": 3})


@dataclass(frozen=True)
class Kind:
    """A kind of file in a folder of records.

    path: below the folder. make: writes a good one into a folder, None: it is copied from the course's. use: reads it
    from the folder and does with it what the course does; returns what was read, to be compared with what is read again
    after `rewrite` has written it to a folder of its own.
    """

    path: str
    use: Callable[[Path], Any]
    rewrite: Callable[[Any, Path], object] | None = None
    make: Callable[[Path], object] | None = None


def use_measurement(folder: Path) -> Any:
    item = read_record(folder / SLUG / "08_hilbert_4096_burst.json")
    require_sound((item.tflops, item.cublas_tflops, item.ratio, item.tflops_quartiles, item.ratio_interval, str(item)))
    if item.rung == "08_hilbert":
        size, regime = (item.m, item.n, item.k), item.regime
        assert find_record(8, *size, regime, item.entry, defines=item.defines, directory=folder) == item
    return item


def use_yardsticks(folder: Path) -> Any:
    assert load_yardsticks(directory=folder) is not None
    return load_yardsticks(SLUG, folder)


def use_profile(folder: Path) -> Any:
    item = find_profile(8, directory=folder)
    values = [
        getattr(launch, name) for launch in item.launches for name in dir(type(launch))
        if isinstance(getattr(type(launch), name), property)
    ]
    require_sound((values, str(item), item.launch(512, 512, 512), item.origin))
    return item


def use_clocks(folder: Path) -> Any:
    found = recorded_clocks(SLUG, folder)
    items = with_clocks([GOOD], folder)
    require_sound((found, items, [str(item) for item in items], [item.share for item in items]))
    return found


def use_orders(folder: Path) -> Any:
    found = find_orders(find_rung(8), 4096, directory=folder)
    speeds = OrderSpeeds(4096, found)
    require_sound((str(speeds), [speeds.tflops(order) for order in found]))
    assert all((item.rung, item.m, item.n, item.k) == ("08_hilbert", 4096, 4096, 4096) for item in found.values())
    return found


def use_inputs(folder: Path) -> Any:
    found = input_speeds.find_inputs(find_rung(10), 4096, "burst", directory=folder)
    require_sound((str(found), [item.tflops(found.n) for item in found.items]))
    assert (found.rung, found.n, found.regime) == ("10_clusters", 4096, "burst")
    return found


def use_memory(folder: Path) -> Any:
    found = memory_speed.recorded_speeds(DEVICE, folder)
    require_sound((str(found), found.bandwidths, found.gpu))
    return found


def use_room(folder: Path) -> Any:
    found = cluster_room.recorded_room(DEVICE, folder)
    require_sound((str(found), [found.sms(ctas) for ctas in found.clusters]))
    return found


def use_energy(folder: Path) -> Any:
    found = energy_records.recorded_energies(None, folder)
    require_sound([str(found), *((item.joules(found.idle_w), item.watts, item.tflops) for item in found.items)])
    return found


def use_shape(folder: Path) -> Any:
    (found,) = load_shapes(SLUG, folder).values()
    limits = shapes_page.recorded_limits(SLUG)
    line = shapes_page.row(Shape("long", "deep", *found.size), found, limits)
    require_sound((str(found), line, shapes_page.reasons(found, limits), shapes_page.summary({found.size: found})))
    return found


def use_sanitizer(folder: Path, defines: Mapping[str, Any] | None = None) -> Any:
    found = find_sanitized("appendix_split_k" if defines else 10, folder, defines)
    require_sound((sanitizer_page.document([found], None), [str(item) for item in found.outcomes]))
    return found


def use_planted(folder: Path) -> Any:
    found = find_planted(folder)
    require_sound((sanitizer_page.document([], found), [str(item.outcome) for item in found.faults]))
    return found


def use_torch(folder: Path) -> Any:
    found = cublas_torch.read_comparisons(cublas_torch.torch_path(SLUG, folder))
    require_sound([(str(item), item.ratio, item.spread) for item in found.comparisons])
    return found


def use_published(folder: Path) -> Any:
    found = published(folder / "published.json")
    require_sound(found)
    return found


def use_running(folder: Path) -> Any:
    found = load_running(folder / "running.json")
    require_sound(found)
    return found


def use_second(folder: Path) -> Any:
    found = pairs(RECORD_DIR, folder, sizes=(4096,))
    require_sound([row(pair) for pair in found])
    return None


KINDS = {
    "measurement": Kind(f"{SLUG}/08_hilbert_4096_burst.json", use_measurement,
                        lambda item, folder: write_record(item, path=folder / SLUG / "08_hilbert_4096_burst.json")),
    "yardsticks": Kind(f"{SLUG}/device.json", use_yardsticks, write_yardsticks),
    "profile": Kind(f"{SLUG}/profile/08_hilbert.json", use_profile, write_profile),
    "clocks": Kind(f"{SLUG}/clock/held.json", use_clocks, lambda item, folder: write_clocks(DEVICE, item, folder)),
    "orders": Kind(f"{SLUG}/orders/08_hilbert_4096.json", use_orders,
                   lambda item, folder: write_orders(OrderSpeeds(4096, item), folder) if item else None),
    "inputs": Kind(f"{SLUG}/inputs/10_clusters_4096_burst.json", use_inputs, input_speeds.write_inputs,
                   lambda folder: input_speeds.write_inputs(INPUT_SPEEDS, folder)),
    "memory": Kind(f"{SLUG}/memory.json", use_memory, memory_speed.write_speeds,
                   lambda folder: memory_speed.write_speeds(MEMORY, folder)),
    "room": Kind(f"{SLUG}/clusters.json", use_room, cluster_room.write_room,
                 lambda folder: cluster_room.write_room(ROOM, folder)),
    "energy": Kind(f"{SLUG}/energy.json", use_energy, energy_records.write_energies),
    "shape": Kind(f"{SLUG}/shapes/512x512x65536.json", use_shape, write_shape),
    "sanitizer": Kind(f"{SLUG}/sanitizer/10_clusters.json", use_sanitizer, write_sanitized),
    "variant": Kind(f"{SLUG}/sanitizer/{VARIANT.name}.json", lambda folder: use_sanitizer(folder, VARIANT.defines),
                    write_sanitized, lambda folder: write_sanitized(VARIANT, folder)),
    "planted": Kind(f"{SLUG}/sanitizer/planted.json", use_planted, write_planted),
    "torch": Kind(f"{SLUG}/cublas_torch.json", use_torch, cublas_torch.write_comparisons,
                  lambda folder: cublas_torch.write_comparisons(TORCH, folder)),
    "published": Kind("published.json", use_published),
    "running": Kind("running.json", use_running),
    "second": Kind(f"{SLUG}/08_hilbert_4096_burst.json", use_second),
}  # fmt: skip


def require_sound(value: Any) -> None:
    """Fails for a number that is none, and for text that cannot be written."""
    if isinstance(value, float):
        assert math.isfinite(value)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, Mapping):
        require_sound([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            require_sound(item)
    elif is_dataclass(value):
        require_sound([getattr(value, field.name) for field in fields(value)])


def require_sentence(error: Exception, path: Path) -> None:
    text = str(error)
    assert "\n" not in text and text.endswith(".") and len(text) < 600, text
    text.encode()
    assert path.name in text, f"{text} does not name {path.name}"


def damaged(draw: random.Random, good: bytes) -> bytes:
    if draw.random() < 0.4:
        return damaged_bytes(draw, good)
    return json_bytes(draw, damaged_json(draw, json.loads(good)))


def cases(seed: str, count: int) -> Iterator[tuple[int, random.Random]]:
    return ((number, random.Random(f"{seed} {number}")) for number in range(count))


@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_are_refused_or_right(name, tmp_path, fuzz):
    kind = KINDS[name]
    folder, again = tmp_path / "records", tmp_path / "again"
    if name == "second":
        (folder / SLUG).mkdir(parents=True)
        for file in (RECORD_DIR / SLUG).glob("*_4096_burst.json"):
            shutil.copy(file, folder / SLUG)
    elif kind.make:
        kind.make(folder)
    else:
        (folder / kind.path).parent.mkdir(parents=True)
        shutil.copy(RECORD_DIR / kind.path, folder / kind.path)
    path = folder / kind.path
    good = path.read_bytes()
    kind.use(folder)
    accepted, count = 0, (25 if name == "second" else 100) * fuzz   # the second recording is read with the first
    for number, draw in cases(name, count):
        path.write_bytes(damaged(draw, good))
        try:
            found = kind.use(folder)
        except RecordError as error:
            require_sentence(error, path)
            continue
        except Exception as error:
            raise AssertionError(f"case {number}: {path.read_bytes()[:2000]!r}") from error
        accepted += 1
        if kind.rewrite is None:
            continue
        shutil.rmtree(again, ignore_errors=True)
        try:
            kind.rewrite(found, again)
        except RecordError as error:
            require_sentence(error, path)
        except Exception as error:
            raise AssertionError(f"case {number}: written again") from error
    assert accepted < count, "nothing was damaged"
    assert sorted(file.name for file in folder.rglob(".*")) == []
