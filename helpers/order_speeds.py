"""One kernel with its tiles in several orders: how fast each is, live or recorded.

    table = order_speeds("08_hilbert", ("row", "hilbert", "shuffled"), 8192)
    table.tflops("row")

    python -m helpers.order_speeds --sizes 4096 8192 16384        on the GPU: record them

The code is the same for every order, so these figures are no part of the ladder and have files of their own:
records/<device>/orders/<rung>_<size>.json. All orders of a size are measured in the same rounds.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from helpers.benchmark import Bench, measure_together
from helpers.entry import Parser, guarded, once
from helpers.errors import ArgumentError, BackendError
from helpers.jsonfile import Fields, display, read_json, write_json
from helpers.kernel import Kernel, load
from helpers.launches import in_order
from helpers.record_basics import preference, record_folder
from helpers.records import Measurement, from_json, size_name, three_digits, to_json
from helpers.rungs import Rung, find_rung
from helpers.speeds import MISSING
from helpers.tile_order import ORDERS

SCHEMA = "hopper-matmul/orders/1"
ROUNDS = 5
RUNG = "08_hilbert"

Measure = Callable[[Sequence[Kernel], int], Sequence[Measurement]]


@dataclass(frozen=True)
class OrderSpeeds:
    """Measurements by order, at M = N = K = size; None where there is no GPU and no recording of this code."""

    size: int
    measured: Mapping[str, Measurement | None]

    def tflops(self, order: str) -> float | None:
        """TFLOP/s in that order, None if not measured. Raises ArgumentError for an order that was not asked for."""
        if order not in self.measured:
            raise ArgumentError(f"order {order!r} was not measured: give one of {', '.join(self.measured)}.")
        found = self.measured[order]
        return None if found is None else found.tflops

    def __str__(self) -> str:
        found = [item for item in self.measured.values() if item is not None]
        if not found:
            return f"N={self.size:,}: {MISSING}"
        shown = ", ".join(
            f"{order} {'-' if item is None else three_digits(item.tflops)}" for order, item in self.measured.items()
        )
        return f"N={self.size:,}: {shown} TFLOP/s, {found[0].source} on {found[0].device.name}, {found[0].date[:10]}"


def order_speeds(
    rung: str | int | Rung,
    orders: Sequence[str] = tuple(ORDERS),
    size: int = 8192,
    measure: Measure | None = None,
    directory: Path | None = None,
    *,
    live: bool = True,
) -> OrderSpeeds:
    """Measure bursts of a rung with its tiles in each of some orders, or take the recording.

    measure: does it on a GPU; tests pass one that needs none. directory: of the recordings, helpers/records by default.
    live: whether to measure at all; False takes the recording everywhere, at once.
    Raises ArgumentError for an unknown order or a rung that gets no list of tiles, and as `measure_together`.
    """
    chosen = find_rung(rung)
    kernels = {order: load(in_order(chosen, order)) for order in orders}
    if not kernels:
        raise ArgumentError(f"orders is empty: give one of {', '.join(ORDERS)}, or more.")
    if live and (measure is not None or any(kernel.backend == "cuda" for kernel in kernels.values())):
        found = (measure or _measure)(tuple(kernels.values()), size)
        return OrderSpeeds(size, dict(zip(kernels, found, strict=True)))
    recorded = find_orders(chosen, size, next(iter(kernels.values())).code_hash, directory)
    return OrderSpeeds(size, {order: recorded.get(order) for order in kernels})


def find_orders(
    rung: Rung, size: int, code_hash: str | None = None, directory: Path | None = None
) -> dict[str, Measurement]:
    """The newest measurements of a rung at a size by order, of the reference GPU if there is one; empty if none are.

    code_hash: only of this very code. Raises RecordError if a file is damaged.
    """
    paths = sorted(record_folder(directory).glob(f"*/orders/{_file_name(rung, size)}"))
    sets = [found for path in paths if (found := _from_json(read_json(path), path))]
    fitting = [item for item in sets if code_hash in (None, next(iter(item.values())).code_hash)]
    first = max(fitting, key=lambda item: preference(next(iter(item.values()))), default={})
    return {order: replace(item, source="recorded", stale=False) for order, item in first.items()}


def write_orders(speeds: OrderSpeeds, directory: Path | None = None) -> Path:
    """Write what was measured to its place in one step; an older record of the size is replaced.

    Raises RecordError if a damaged file is in the way or the folder cannot be written.
    """
    found = {order: item for order, item in speeds.measured.items() if item is not None}
    if not found:
        raise ArgumentError("speeds holds no measurement: measure on a GPU first.")
    one = next(iter(found.values()))
    path = record_folder(directory) / one.device.slug / "orders" / _file_name(find_rung(one.rung), speeds.size)
    measured = {order: to_json(item) for order, item in found.items()}
    return write_json(path, {"schema": SCHEMA, "orders": measured}, _from_json)


def _from_json(data: Any, path: Path) -> dict[str, Measurement]:
    top = Fields(data, path)
    top.choice("schema", (SCHEMA,))
    orders = top.object("orders")
    for order in orders.data:
        if order not in ORDERS:
            orders.fail(order, "is not known", " or ".join(map(repr, ORDERS)))
    found = {order: from_json(item, path) for order, item in orders.data.items()}
    for item in found.values():
        top.require_place(item.device.slug, "orders", f"{item.rung}_{size_name(item.m, item.n, item.k)}.json")
    return found


def _file_name(rung: Rung, size: int) -> str:
    return f"{rung.name}_{size_name(size, size, size)}.json"


def _measure(kernels: Sequence[Kernel], size: int, rounds: int = ROUNDS) -> Sequence[Measurement]:
    with Bench() as bench:
        return measure_together(bench, kernels, (size, size, size), "burst", rounds)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python -m helpers.order_speeds", description="Record a rung with its tiles in other orders.")
    parser.add_argument("--rung", default=RUNG)
    parser.add_argument("--sizes", nargs="+", type=int, default=[4096, 8192, 16384], metavar="N", help="M = N = K")
    parser.add_argument("--orders", nargs="+", choices=ORDERS, default=list(ORDERS))
    parser.add_output()
    return guarded(lambda: _record(parser.parse_args(arguments)))


def _record(options: argparse.Namespace) -> int:
    rung = find_rung(options.rung)
    for size in once(options.sizes):
        if load(rung).backend != "cuda":
            raise BackendError(f"Orders of {rung.name} can only be measured on a GPU that runs it: find one.")
        speeds = order_speeds(rung, options.orders, size)
        print(f"{speeds} -> {display(write_orders(speeds, options.output))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
