"""What an emulated launch returns: reports, counters and totals."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """A rule that the kernel broke.

    kind: `out_of_bounds`, `misaligned`, `race`, `deadlock`, `barrier_divergence`, `step_limit`, `crash`, or one of
    those of Hopper's barriers and asynchronous data; docs/emulator.md says what each means.
    message: one sentence with the source line and the threads.
    line: in the kernel's source, None if unknown.
    details: lines of a table that says where each warp is; empty for most kinds.
    count: how often it happened.
    """

    kind: str
    message: str
    line: int | None = None
    details: tuple[str, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        return "\n".join((self.message, *self.details))


@dataclass(frozen=True)
class Counter:
    """The memory requests of one source line, of one kind and width.

    space: `global` or `shared`. op: `load` or `store`. bytes: per lane.
    requests: by warps. lanes: that took part, over all requests.
    transactions: 32-byte sectors (global) or passes through the banks, "wavefronts" (shared).
    ideal: transactions with the best addresses: distinct bytes / 32, rounded up, or one wavefront a phase.
    example: a request as the kernel made it, the first full one of CTA 0's first warp: the byte addresses of its 32
    lanes, counted from the start of `array`, -1 for an idle lane. None if that warp made none.
    array: name of the argument or of the shared array that the example lies in.
    """

    line: int
    space: str
    op: str
    bytes: int
    requests: int
    transactions: int
    ideal: int
    lanes: int
    example: tuple[int, ...] | None = field(default=None, compare=False)
    array: str | None = field(default=None, compare=False)

    @property
    def sectors_per_request(self) -> float:
        """Sectors that an average request touches. For global memory."""
        return self.transactions / self.requests

    @property
    def wavefronts_per_request(self) -> float:
        """Passes that an average request takes. For shared memory."""
        return self.transactions / self.requests

    @property
    def ideal_per_request(self) -> float:
        """What `transactions / requests` would be with the best addresses."""
        return self.ideal / self.requests


@dataclass(frozen=True)
class EmulatorRun:
    """A finished launch.

    counters: sorted by line, then space, op and width; empty if the kernel was compiled without counters.
    totals: `barriers` (of all CTAs) and `ctas`; for kernels with hopper.cuh also the names in `protocol.TOTALS`;
    with counters also, for each space and op, such as `global_load`:
    `..._requests`, `..._bytes` (lanes x width), `..._ideal`, and `..._sectors` or `..._wavefronts`; of kernels that
    include hopper.cuh also the names in `protocol.TOTALS`.
    """

    reports: list[Report]
    counters: list[Counter]
    totals: dict[str, int] = field(default_factory=dict)


def sum_counters(counters: Iterable[Counter]) -> dict[str, int]:
    """The totals of all counters, by space and op; every key is present."""
    totals: dict[str, int] = {}
    for space, unit in (("global", "sectors"), ("shared", "wavefronts")):
        for op in ("load", "store"):
            for name in ("requests", unit, "ideal", "bytes"):
                totals[f"{space}_{op}_{name}"] = 0
    for counter in counters:
        prefix = f"{counter.space}_{counter.op}"
        unit = "sectors" if counter.space == "global" else "wavefronts"
        totals[f"{prefix}_requests"] += counter.requests
        totals[f"{prefix}_{unit}"] += counter.transactions
        totals[f"{prefix}_ideal"] += counter.ideal
        totals[f"{prefix}_bytes"] += counter.lanes * counter.bytes
    return totals
