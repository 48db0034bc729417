"""What Nsight Compute counts of a launch: the counters' names, what follows from them, and a kernel's profile.

Where the counters come from (Nsight Compute documentation, "Metrics Reference" and "Source Metrics"): `l1tex__...`
count in the L1/shared-memory unit; `memory_l1_wavefronts_shared` and its `_ideal` are sums over the kernel's
instructions, without what other traffic adds to the hardware's wavefront counter: the conflict ratio is theirs.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill

from helpers.device import Device
from helpers.ncu import number
from helpers.records import file_name, size_name
from helpers.rungs import find_rung
from helpers.words import PRINTED_LINE

# Our name -> ncu's name. Units are in the names; counters of one launch, summed over the chip.
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "global_load_instructions": "smsp__sass_inst_executed_op_global_ld.sum",
    "global_store_instructions": "smsp__sass_inst_executed_op_global_st.sum",
    "global_theoretical_sectors": "memory_l2_theoretical_sectors_global",
    "global_theoretical_sectors_ideal": "memory_l2_theoretical_sectors_global_ideal",
    "shared_load_instructions": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_store_instructions": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared_wavefronts": "memory_l1_wavefronts_shared",
    "shared_wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
    "l1_hit_rate_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_rate_pct": "lts__t_sector_hit_rate.pct",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "l2_read_hit_sectors": "lts__t_sectors_op_read_lookup_hit.sum",
    "l2_read_miss_sectors": "lts__t_sectors_op_read_lookup_miss.sum",
    "l2_sm_read_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
    "l2_crossing_sectors": "lts__t_sectors_srcunit_ltcfabric.sum",   # from one partition of L2 to the other
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "theoretical_occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
    "registers_per_thread": "launch__registers_per_thread",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "fma_pipe_pct": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "lsu_wavefront_pct": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "sm_cycles_active_per_sm": "sm__cycles_active.avg",
    "instructions": "smsp__inst_executed.sum",
    "issue_active_pct": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
STALL = re.compile(r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)_per_issue_active\.ratio|"
                   r"smsp__average_warps?_latency_issue_stalled_(\w+)\.ratio")
# Reasons for waiting (ncu's stall reasons, "Warp Scheduler States") that the notebooks speak of.
WAITS = {
    "short_scoreboard": "shared memory",
    "long_scoreboard": "global memory",
    "barrier": "barriers",
    "lg_throttle": "a full queue to L1",
}
# A warp that loads nothing itself has mbarriers alone to wait for there (SYNCS sets a scoreboard, too).
WAITS_WITHOUT_LOADS = {"long_scoreboard": "mbarriers"}


@dataclass(frozen=True)
class Launch:
    """Counters of one launch.

    m, n, k: its shape. counters: by the names of METRICS. stalls: average number of warps of a scheduler that wait for
    a reason, per issued instruction. missing: names that this ncu or GPU does not report. order: of the tiles, by its
    name in `helpers.tile_order.ORDERS`; None for a rung that gets no list of tiles. defines: of a variant's
    compilation; empty for the kernel itself.
    """

    m: int
    n: int
    k: int
    counters: Mapping[str, float]
    stalls: Mapping[str, float]
    missing: tuple[str, ...] = ()
    order: str | None = None
    defines: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int, str, tuple[tuple[str, str], ...]]:
        """What a profile has one launch of: shape, order and defines. It sorts."""
        return (self.m, self.n, self.k, self.order or "", sorted_defines(self.defines))

    def ratio(self, above: str, below: str) -> float | None:
        """One counter over another; None if one is missing or the lower one is zero."""
        if above not in self.counters or not self.counters.get(below):
            return None
        return self.counters[above] / self.counters[below]

    @property
    def sectors_per_load(self) -> float | None:
        """32-byte sectors per request of a global load."""
        return self.ratio("global_load_sectors", "global_load_requests")

    @property
    def sectors_per_store(self) -> float | None:
        """32-byte sectors per request of a global store."""
        return self.ratio("global_store_sectors", "global_store_requests")

    @property
    def conflict_ratio(self) -> float | None:
        """Shared-memory wavefronts over the least that the same instructions need; 1 means no bank conflicts."""
        return self.ratio("shared_wavefronts", "shared_wavefronts_ideal")

    @property
    def l2_read_hit_rate(self) -> float | None:
        """Share of the sectors read that L2 had, 0 to 1."""
        hits, misses = (self.counters.get(f"l2_read_{name}_sectors") for name in ("hit", "miss"))
        return None if hits is None or misses is None or hits + misses == 0 else hits / (hits + misses)


@dataclass(frozen=True)
class Profile:
    """The recorded counters of a kernel and its variants, a Launch for each size, order and set of defines.

    code_hash: of the kernel without defines; its variants are of the same file. ncu: its version. date: UTC, of the
    newest launch.
    """

    rung: str
    entry: str
    code_hash: str
    device: Device
    ncu: str
    date: str
    launches: tuple[Launch, ...]

    @property
    def origin(self) -> str:
        """Where the counters come from: 'ncu, recorded on NVIDIA H200, 2026-11-29'."""
        return f"ncu, recorded on {self.device.name}, {self.date[:10]}"

    def __str__(self) -> str:
        """The largest launch in words: whose counters they are, requests, pipes, and what a warp waits for."""
        own = find_rung(self.rung).order
        kernel = [item for item in self.launches if not item.defines] or self.launches
        usual = [item for item in kernel if item.order == own] or kernel
        largest = max(usual, key=lambda item: item.m * item.n * item.k)
        size = size_name(largest.m, largest.n, largest.k)
        name = f"{file_name(self.rung, self.entry, largest.defines)}, N={size}: {self.origin}"
        loads = largest.counters.get("global_load_requests", 1)   # TMA's are not among them, and pass L1 by
        requests = (
            (largest.sectors_per_load, "{:.3g} sectors a load"),
            (largest.sectors_per_store, "{:.3g} a store" if loads else "{:.3g} sectors a store"),
            (largest.conflict_ratio, "{:.2f} times the shared wavefronts at best"),
        )
        pipes = (
            (largest.counters.get("l1_hit_rate_pct") if loads else None, "L1 answers {:.3g}%"),
            (largest.counters.get("lsu_wavefront_pct"), "wavefronts in use {:.2g}% over all SMs"),
            (largest.counters.get("issue_active_pct"), "issue slots {:.2g}% on busy SMs"),
        )
        lines = [name]
        for facts in (requests, pipes):
            lines.append(", ".join(words.format(value) for value, words in facts if value is not None))
        return "\n    ".join(filter(None, (*lines, self._waits(largest))))

    @staticmethod
    def _waits(launch: Launch) -> str:
        """The largest of the `WAITS`: cycles that a warp spends waiting per instruction that it starts."""
        waits = WAITS if launch.counters.get("global_load_requests", 1) else WAITS | WAITS_WITHOUT_LOADS
        known = sorted(((launch.stalls.get(stall, 0), words) for stall, words in waits.items()), reverse=True)
        if not known[0][0]:
            return ""
        waits = ", ".join(f"{words} {cycles:.2f}" for cycles, words in known)
        return fill(f"cycles a warp waits per instruction: {waits}", PRINTED_LINE - 4, subsequent_indent=" " * 8)

    def launch(
        self, m: int, n: int, k: int, order: str | None = None, defines: Mapping[str, str | int] | None = None
    ) -> Launch | None:
        """The launch at a size, or None. order: of the tiles; the rung's own by default. defines: exactly these."""
        wanted = Launch(m, n, k, {}, {}, (), order or find_rung(self.rung).order, defines or {})
        return next((item for item in self.launches if item.key == wanted.key), None)


def sorted_defines(defines: Mapping[str, str | int] | None) -> tuple[tuple[str, str], ...]:
    """Defines by name, their values as text: 0 and "0" are the same to a compiler."""
    return tuple(sorted((name, str(value)) for name, value in (defines or {}).items()))


def launch_from(
    values: Mapping[str, str],
    m: int,
    n: int,
    k: int,
    order: str | None = None,
    names: Sequence[str] = tuple(METRICS),
    defines: Mapping[str, str | int] | None = None,
) -> Launch:
    """The counters of a launch, out of ncu's values. names: of METRICS, those that were asked for."""
    counters, missing = {}, []
    for name in names:
        value = number(values.get(METRICS[name], ""))
        if value is None:
            missing.append(name)
        else:
            counters[name] = value
    stalls = {}
    for metric, text in values.items():
        match, value = STALL.fullmatch(metric), number(text)
        if match and value is not None and "not_issued" not in metric:
            stalls[match[1] or match[2]] = round(value, 6)
    ordered = dict(sorted(stalls.items(), key=lambda item: -item[1]))
    return Launch(m, n, k, counters, ordered, tuple(missing), order, dict(defines or {}))
