"""Counters of one launch from Nsight Compute (`ncu`), recorded, so that a reader without a GPU can see them too.

    python -m helpers.profile --rungs 1 2 3 --sizes 512 1024        on a machine with the GPU and ncu
    python -m helpers.profile --rungs 8 --sizes 8192 --orders row grouped hilbert shuffled --only l2 dram
    python -m helpers.profile --rungs 10 --sizes 8192 16384 --defines PACE=0 --only dram

It starts ncu once per kernel, size and order of tiles, on a child of itself that launches the kernel once, and writes
records/<device>/profile/<rung>[.<entry>].json. There a variant's counters stand beside the kernel's, with its defines.
Clocks are left alone (`--clock-control none`). ncu runs the kernel several times with cold caches and restores memory
in between: its counters are exact, its times are not the benchmark's, so no time is kept. Where there is no GPU, no ncu
or no permission to read counters, a sentence says so and the recorded counters are shown. What is counted, and what
follows from it, is in helpers.ncu_counters.
"""

import argparse
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from helpers import device
from helpers.arguments import require_suitable
from helpers.cli.parser import define
from helpers.defines import declared_defines
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError, BackendError, CourseError
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.launches import in_order
from helpers.models.machine import SECTOR_BYTES
from helpers.ncu import SECTIONS, NoPermission, find_ncu, launch_values
from helpers.ncu_counters import METRICS, Launch, Profile, launch_from, sorted_defines
from helpers.nvidia_tools import tool_version
from helpers.record_basics import device_from_json, preference, record_folder
from helpers.records import defines_entry, defines_from_json, file_name, size_name
from helpers.rungs import RUNGS, Rung, find_rung
from helpers.tile_order import ORDERS

SCHEMA = "hopper-matmul/profile/1"


def launch_command(
    rung: Rung, entry: str, size: int, defines: Mapping[str, str | int] | None = None, python: str = sys.executable
) -> list[str]:
    """The command line of a child that launches a kernel once, its tiles in the order of `rung.order`."""
    order = [] if rung.order is None else ["--orders", rung.order]
    given = [f"{name}={value}" for name, value in sorted_defines(defines)]
    variant = ["--defines", *given] if given else []
    return [python, "-m", "helpers.profile", "--launch", rung.name, entry, str(size), *order, *variant]


def collect(
    rung: Rung,
    entry: str,
    size: int,
    ncu: str | None = None,
    timeout_s: float = 300,
    names: Sequence[str] = tuple(METRICS),
    skipped: Collection[str] = (),
    defines: Mapping[str, str | int] | None = None,
) -> Launch:
    """Profile one launch of a kernel at M = N = K = size. Takes about 10 to 30 seconds.

    rung: its `order` may be another than the course's, made with `in_order`. names: of METRICS; of a part of them no
    sections are collected, which is much quicker. skipped: names that are known to be missing. defines: of a variant.
    Metrics that this ncu does not know are left out and named in `missing`. Raises BackendError without ncu, without
    the permission to read counters, or if ncu fails.
    """
    sections = SECTIONS if len(names) == len(METRICS) else ()
    metrics = [METRICS[name] for name in names if name not in skipped]
    child = launch_command(rung, entry, size, defines)
    values = launch_values(ncu or find_ncu(), entry, metrics, child, sections, timeout_s)
    return launch_from(values, size, size, size, rung.order, names, defines)


def profile_path(rung: str, entry: str, folder: str, directory: Path | None = None) -> Path:
    """Where the counters of a kernel belong. folder: the device's slug."""
    return record_folder(directory) / folder / "profile" / f"{file_name(rung, entry)}.json"


def write_profile(profile: Profile, directory: Path | None = None) -> Path:
    """Write a profile to its place in one step; launches of the same code at other sizes and orders and with other
    defines are kept, and so are a launch's counters that are not in the new one.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    path = profile_path(profile.rung, profile.entry, profile.device.slug, directory)
    launches = {item.key: item for item in profile.launches}
    if path.exists():
        old = from_json(read_json(path), path)
        if (old.code_hash, old.device.name, old.ncu) == (profile.code_hash, profile.device.name, profile.ncu):
            known = {item.key: item for item in old.launches}
            launches = known | {key: _merged(known[key], item) if key in known else item
                                for key, item in launches.items()}
    data = {
        "schema": SCHEMA,
        "rung": profile.rung,
        "entry": profile.entry,
        "code_hash": profile.code_hash,
        "device": asdict(profile.device),
        "ncu": profile.ncu,
        "date": profile.date,
        "launches": [
            {
                "m": item.m,
                "n": item.n,
                "k": item.k,
                **({} if item.order is None else {"order": item.order}),
                **defines_entry(item.defines),
                "counters": {name: _whole(value) for name, value in item.counters.items()},
                "stalls": dict(item.stalls),
                "missing": list(item.missing),
            }
            for _, item in sorted(launches.items())
        ],
    }
    return write_json(path, data, from_json)


def _merged(old: Launch, new: Launch) -> Launch:
    counters = {**old.counters, **new.counters}
    missing = dict.fromkeys((*old.missing, *new.missing))
    return replace(
        new,
        counters=counters,
        stalls=new.stalls or old.stalls,
        missing=tuple(name for name in missing if name not in counters),
    )


def from_json(data: Any, path: Path) -> Profile:
    """The profile in a JSON object. Raises RecordError naming the file and the key that does not fit."""
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))

    def counts(item: Fields, key: str) -> dict[str, float]:
        nested = item.object(key)
        return {name: nested.number(name, positive=False) for name in nested.data}

    found = Profile(
        rung=top.rung(),
        entry=top.entry(),
        code_hash=top.code_hash(),
        device=device_from_json(top.object("device")),
        ncu=top.text("ncu"),
        date=top.date(),
        launches=tuple(
            Launch(
                item.integer("m", 1), item.integer("n", 1), item.integer("k", 1),
                counts(item, "counters"), counts(item, "stalls"), item.texts("missing"),
                item.optional_text("order"),
                defines_from_json(item, required=False),
            )
            for item in top.objects("launches")
        ),
    )
    top.require_place(found.device.slug, "profile", f"{file_name(found.rung, found.entry)}.json")
    return found


def find_profile(
    rung: str | int | Rung, entry: str | None = None, code_hash: str | None = None, directory: Path | None = None
) -> Profile | None:
    """The newest recorded profile of a kernel, of the reference GPU if there is one, or None.

    code_hash: only a profile of this very code. Raises RecordError if a file of the kernel is damaged.
    """
    wanted = find_rung(rung)
    name = f"{file_name(wanted.name, entry or wanted.entry)}.json"
    paths = sorted(record_folder(directory).glob(f"*/profile/{name}"))
    found = [from_json(read_json(path), path) for path in paths]
    fitting = [item for item in found if code_hash in (None, item.code_hash)]
    return max(fitting, key=preference, default=None)


def run_launch(
    rung: str, entry: str, size: int, order: str | None = None, defines: Mapping[str, str | int] | None = None
) -> None:
    """What the child of ncu does: one launch of the kernel, or of a variant of it with `defines`, on the GPU.

    order: of the tiles, if not the rung's own.
    """
    from helpers import gpu
    from helpers.arrays import empty_matrix, random_matrix
    from helpers.kernel import load

    chosen = find_rung(rung) if order is None else in_order(find_rung(rung), order)
    kernel = load(chosen, backend="cuda", entry=entry, defines=defines)
    A, B = random_matrix(size, size, 1, "cuda"), random_matrix(size, size, 2, "cuda")
    C = empty_matrix(size, size, "cuda")
    kernel(A, B, out=C)
    gpu.synchronize()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.profile", description="Record counters with ncu.")
    parser.add_argument("--rungs", nargs="+", default=[rung.name for rung in RUNGS], metavar="RUNG")
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024], metavar="N", help="M = N = K")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=None, help="of tiles, for rungs from 8 on")
    parser.add_argument("--defines", nargs="+", type=define, default=[], metavar="NAME=VALUE", help="of a variant")
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME", help="counters whose names begin so")
    parser.add_output()
    parser.add_argument("--launch", nargs=3, metavar=("RUNG", "ENTRY", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    return guarded(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.launch:
        rung, entry, size = options.launch
        if not re.fullmatch(r"[1-9][0-9]{0,9}", size):
            raise ArgumentError(f"--launch has the size {size!r}: it must be an integer of at least 1.")
        order = options.orders[0] if options.orders else None
        run_launch(rung, entry, int(size), order, dict(options.defines))
        return 0
    names = _chosen_names(options.only)
    orders = options.orders or (None,)
    return _record(options.rungs, once(options.sizes), orders, options.output, names, _defines(options.defines))


def _defines(given: Sequence[tuple[str, str | int]]) -> dict[str, str | int]:
    """The defines by name. Raises ArgumentError if one is given twice."""
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"--defines gives {name} more than once: profile one variant after the other.")
    return dict(given)


def _require_variant(rung: Rung, defines: Mapping[str, str | int]) -> None:
    """Raises ArgumentError for a define that makes no variant of the rung's file, as which it would be recorded.

    The file does not ask for it, or takes that value anyway.
    """
    declared = declared_defines(rung.path)
    known = [name for name in declared if name not in rung.constants]   # those are of another launch
    for name, value in defines.items():
        if str(value) == declared.get(name):
            raise ArgumentError(
                f"--defines gives {name}={value}, which {rung.path.name} takes anyway: give another value, or none."
            )
        if name not in declared:
            remedy = f"give {', '.join(known)}" if known else "profile it without"
            raise ArgumentError(f"--defines gives {name}, for which {rung.path.name} does not ask: {remedy}.")


def _chosen_names(beginnings: Sequence[str] | None) -> tuple[str, ...]:
    """The names of METRICS that begin with one of the texts; all without any. Raises ArgumentError if none does."""
    chosen = tuple(name for name in METRICS if beginnings is None or name.startswith(tuple(beginnings)))
    if not chosen:
        known = ", ".join(dict.fromkeys(name.split("_")[0] for name in METRICS))
        raise ArgumentError(f"--only {' '.join(beginnings or ())} fits no counter: names begin with {known}.")
    return chosen


def _record(
    rungs: Sequence[str],
    sizes: Sequence[int],
    orders: Sequence[str | None],
    output: Path | None,
    names: Sequence[str],
    defines: Mapping[str, str | int],
) -> int:
    from helpers.kernel import load

    wanted = [(rung, order) for rung in once(map(find_rung, rungs)) for order in once(orders)]
    chosen = [in_order(rung, order) if order else rung for rung, order in wanted]
    for rung in chosen:
        load(rung, backend="emulator", entry=rung.entry, defines=defines)   # refuses defines for another launch
        for size in sizes:
            require_suitable(rung, size)
    for rung in chosen:
        _require_variant(rung, defines)
    try:
        info = device.require_device("Counters can only be recorded on a GPU")
        tool = find_ncu()
    except BackendError as error:
        print(error, file=sys.stderr, flush=True)
        return _show_recorded(chosen)
    version = tool_version(tool)
    failed, missing = 0, {}   # missing: by kernel, what the first of its launches lacked
    for rung in chosen:
        for entry in (rung.entry, *rung.twins):
            code_hash = load(rung, backend="cuda", entry=entry).code_hash
            for size in sizes:
                try:
                    known = missing.get((rung.name, entry), ())
                    launch = collect(rung, entry, size, tool, names=names, skipped=known, defines=defines)
                    profile = Profile(rung.name, entry, code_hash, info, version, device.now(), (launch,))
                    path = write_profile(profile, output)
                except NoPermission as error:   # the next launch would be refused, too
                    print(error, file=sys.stderr, flush=True)
                    return _show_recorded(chosen)
                except CourseError as error:
                    failed += 1
                    print(f"{rung.name}.{entry} {size}: error: {error}", file=sys.stderr, flush=True)
                    continue
                missing[rung.name, entry] = launch.missing
                print(_summary(rung.name, entry, launch, path), flush=True)
    return 1 if failed else 0


def _show_recorded(rungs: Sequence[Rung]) -> int:
    """Print the recorded counters of rungs. Returns the exit code, 1: they are not this machine's."""
    for rung in once(find_rung(rung.handle) for rung in rungs):
        for entry in (rung.entry, *rung.twins):
            found = find_profile(rung, entry)
            print(found or f"{file_name(rung.name, entry)}: no counters are recorded", flush=True)
    return 1


def _summary(rung: str, entry: str, launch: Launch, path: Path) -> str:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    missing = f", not reported: {', '.join(launch.missing)}" if launch.missing else ""
    shape = size_name(launch.m, launch.n, launch.k) + (f" {launch.order}" if launch.order else "")
    shape += "".join(f" {name}={value}" for name, value in sorted_defines(launch.defines))
    return (
        f"{rung}.{entry} {shape}: sectors per load {shown(launch.sectors_per_load)}, "
        f"per store {shown(launch.sectors_per_store)}, shared wavefronts / ideal {shown(launch.conflict_ratio)}"
        f"{_memory_summary(launch)}{missing} -> {display(path)}"
    )


def _memory_summary(launch: Launch) -> str:
    crossing = launch.counters.get("l2_crossing_sectors")
    facts = (
        (launch.counters.get("l2_hit_rate_pct"), ", L2 hits {:.1f}%"),
        (launch.l2_read_hit_rate, ", of reads {:.1%}"),
        (None if crossing is None else SECTOR_BYTES * crossing, ", {:,.0f} bytes cross in L2"),
        (launch.counters.get("dram_read_bytes"), ", {:,.0f} bytes read from HBM"),
        (launch.counters.get("dram_write_bytes"), ", {:,.0f} written"),
    )
    return "".join(words.format(value) for value, words in facts if value is not None)


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else round(value, 4)


if __name__ == "__main__":
    sys.exit(main())
