"""The mutants that nothing can notice, each with the reason: what they change is speed, or nothing at all."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Harmless:
    """Mutants of some rungs that are as right as the kernel. reason: why, in a sentence."""

    rungs: tuple[int | str, ...]
    names: tuple[str, ...]
    reason: str


_LOADS, _RING, _WGMMA = (5, 6), (7, 8, 9), (6, 7, 8, 9, 10)
_SPLIT, _FITTED, _PARTITIONS = ("appendix_split_k",), ("appendix_fitted_tiles",), ("appendix_partitions",)
_CLUSTERS = (10, *_FITTED, *_PARTITIONS)
# Reasons of several entries, which the page tells together.
_SCOPE = "A wait of cluster scope sees all that one of CTA scope sees."
_LEADING = "The leading offset of a K-major operand is not used where a row of it is as wide as the swizzle."
_MULTIPLE = "k is a multiple of 16: it is above 1 where it is above 0."
_EXPECTED = "Bytes may land before they are expected: the phase cannot end without the arrival that comes with them."
_REGISTERS = "The fence is about registers, which a wait does not touch."
_TWO_WAITS = "Two waits for different things, and nothing comes between them."
_PACE = "Clusters keep pace less well: that costs time, no result hangs on it, and nobody waits for long."
_PREFETCH = "A prefetch is a hint: a map that is not fetched beforehand is fetched at its first use."


def _cleared(ahead: int, first: int) -> tuple[str, ...]:
    """Mutants of the two stores that clear checkpoints: their numbers in the file."""
    changes = ("removed", "value + 1", "value - 1")
    return (
        *(f"st_relaxed_gpu {number}: {change}" for number in (ahead, first) for change in changes),
        *(f"st_relaxed_gpu {ahead}: pointer, 4 -> {place} at 24" for place in (5, 3)),
    )


HARMLESS: tuple[Harmless, ...] = (
    Harmless(
        _LOADS,
        ("mbarrier_wait 1: mbarrier_wait_cluster in its place",),
        _SCOPE,
    ),
    Harmless(
        _RING + _SPLIT,
        (
            "mbarrier_wait 1: mbarrier_wait_cluster in its place",
            "mbarrier_wait 2: mbarrier_wait_cluster in its place",
        ),
        _SCOPE,
    ),
    Harmless(
        _CLUSTERS,
        ("mbarrier_wait 1: mbarrier_wait_cluster in its place",),
        _SCOPE,
    ),
    Harmless(
        _LOADS + _RING + (10,) + _SPLIT,
        ("mbarrier_arrive_expect_tx 1: after cp_async_bulk_tensor_load 1",),
        _EXPECTED,
    ),
    Harmless(
        _PARTITIONS,
        (
            "mbarrier_arrive_expect_tx 1: after fence_mbarrier_init 1",
            "mbarrier_arrive_expect_tx 2: after cp_async_bulk_tensor_load 1",
        ),
        _EXPECTED,
    ),
    Harmless(
        _LOADS,
        ("THREADS + 1",),
        "A bound on the threads of a launch, of which no more come; the compiler gives each fewer registers.",
    ),
    Harmless(
        _WGMMA + _SPLIT + _FITTED + _PARTITIONS,
        ("wgmma_descriptor 1: leading_bytes + 16", "wgmma_descriptor 1: leading_bytes - 16"),
        _LEADING,
    ),
    Harmless(
        _FITTED,
        ("wgmma_descriptor 2: leading_bytes + 16", "wgmma_descriptor 2: leading_bytes - 16"),
        "The 64 columns of B are one box: there is no next one, to which the leading offset would lead.",
    ),
    Harmless(
        (6,),
        ("wgmma_m64n128k16 1: accumulate, 0 -> 1 at 17",),
        _MULTIPLE,
    ),
    Harmless(
        _RING,
        ("wgmma_m64n256k16 1: accumulate, 0 -> 1 at 17",),
        _MULTIPLE,
    ),
    Harmless(
        (10, *_PARTITIONS),
        ("wgmma_m64n256k16 1: accumulate, 0 -> 1 at 19",),
        _MULTIPLE,
    ),
    Harmless(
        _FITTED,
        ("wgmma 1: accumulate, 0 -> 1 at 19",),
        _MULTIPLE,
    ),
    Harmless(
        (6,),
        ("mbarrier_wait 1: after wgmma_fence 1",),
        _REGISTERS,
    ),
    Harmless(
        _RING,
        ("mbarrier_wait 2: after wgmma_fence 1",),
        _REGISTERS,
    ),
    Harmless(
        _RING + _CLUSTERS + _SPLIT,
        (
            "__shfl_sync 1: removed",
            "__shfl_sync 1: value, 128 -> 127 at 15",
            "__shfl_sync 1: lane + 1",
            "__shfl_sync 1: lane - 1",
        ),
        "All lanes of a warp hold the same number, and the shuffle only lets the compiler know; 127 changes no lane 0.",
    ),
    Harmless(
        _RING + _CLUSTERS,
        ("setmaxnreg_inc 1: removed",),
        "The compiler then makes do with the registers that a thread has at launch, and spills what they do not hold.",
    ),
    Harmless(
        _RING + _CLUSTERS + _SPLIT,
        ("mbarrier_init 1: after mbarrier_init 2",),
        "The two barriers have nothing to do with each other.",
    ),
    Harmless(
        (10,),
        ("mbarrier_arrive_release_cluster 1: mbarrier_arrive_cluster in its place",),
        "Nothing written is handed over: so it is without RELEASE.",
    ),
    Harmless(
        (10,),
        ("mbarrier_arrive_cluster 1: mbarrier_arrive_release_cluster in its place",),
        "The same with a release that nobody needs: so it is with RELEASE, and slower.",
    ),
    Harmless(
        _FITTED + _PARTITIONS,
        ("mbarrier_arrive_cluster 1: mbarrier_arrive_release_cluster in its place",),
        "The same with a release that nobody needs, which costs time.",
    ),
    Harmless(
        _CLUSTERS,
        ("barrier_cluster_arrive 1: barrier_cluster_arrive_relaxed in its place",),
        "Only the barriers are handed over here, and fence_mbarrier_init does that.",
    ),
    Harmless(
        _CLUSTERS,
        ("barrier_cluster_arrive 2: barrier_cluster_arrive_relaxed in its place",),
        "The producer arrives at no barrier of the peer's, and the peer has waited for the bytes that it sent.",
    ),
    Harmless(
        _CLUSTERS,
        (
            "cp_async_bulk_wait_group_read 1: cp_async_bulk_wait_group in its place",
            "cp_async_bulk_wait_group_read 2: cp_async_bulk_wait_group in its place",
            "cp_async_bulk_wait_group_read 1: N - 1",
            "wgmma_wait_group 1: N - 1",
        ),
        "Waits for more than it must, which costs time.",
    ),
    Harmless(
        _CLUSTERS,
        ("barrier_cluster_wait 1: after griddepcontrol_wait 1",),
        _TWO_WAITS,
    ),
    Harmless(
        _SPLIT,
        ("__syncthreads 1: after griddepcontrol_wait 1",),
        _TWO_WAITS,
    ),
    Harmless(
        _SPLIT,
        ("barrier_sync 1: id + 1", "barrier_sync 1: id - 1"),
        "A number that nobody else uses by then: __syncthreads, which has number 0, has let all threads go.",
    ),
    Harmless(
        _CLUSTERS,
        ("release 1: thread + 1", "release 2: thread + 1"),
        "Other lanes of the warp arrive, as many; each has waited itself.",
    ),
    Harmless(
        _CLUSTERS,
        ("fence_proxy_async 1: after barrier_sync 2",),
        "The fence lies between the writes and the store here too: that of the storing thread, after the barrier.",
    ),
    Harmless(
        _CLUSTERS,
        (
            "red_add_relaxed_gpu 1: removed",
            "red_add_relaxed_gpu 1: pointer + 1",   # nobody is found at the first checkpoint: pace is given up there
            "red_add_relaxed_gpu 1: value + 1",
            "red_add_relaxed_gpu 1: value - 1",
            "ld_relaxed_gpu 1: removed",
            "ld_relaxed_gpu 1: pointer, 1 -> 0 at 24",
            "keep_pace 1: removed",
            "keep_pace 1: checkpoint + 1",
            "keep_pace 1: expected + 1",
            "keep_pace 1: expected - 1",
            "keep_pace 1: clears negated",
        )
        + tuple(f"{name} {sign} 1" for name in ("PACE_STEPS", "CHECKPOINTS", "PACE_TRIES") for sign in "+-"),
        _PACE,
    ),
    Harmless(
        (10, *_FITTED),
        ("keep_pace 1: clears, 0 -> 1 at 10", "keep_pace 1: clears, 0 -> -1 at 10", *_cleared(1, 2)),
        _PACE,
    ),
    Harmless(_PARTITIONS, _cleared(2, 3), _PACE),
    Harmless(
        _PARTITIONS,
        ("sm_number 1: removed",),
        "Where the partition is not the SM's own, a cluster draws from the other end, which costs time.",
    ),
    Harmless(
        _PARTITIONS,
        ("st_relaxed_gpu 1: after st_async 1",),
        "The counter is for the next launch, the number for this one: neither waits for the other.",
    ),
    Harmless(
        _SPLIT,
        ("griddepcontrol_launch_dependents 1: removed",),
        "The next launch sets up later, which costs time.",
    ),
    Harmless(
        _CLUSTERS,
        tuple(f"prefetch_tensormap {number}: removed" for number in (1, 2, 3))
        + tuple(
            f"prefetch_tensormap {number}: map = &{name}_map"
            for number, name in ((1, "B"), (1, "C"), (2, "A"), (2, "C"), (3, "A"), (3, "B"))
        )
        + tuple(f"prefetch_tensormap {number}: after prefetch_tensormap {number + 1}" for number in (1, 2)),
        _PREFETCH,
    ),
    Harmless(
        _SPLIT,
        (
            "prefetch_tensormap 1: removed",
            "prefetch_tensormap 1: map = &B_map",
            "prefetch_tensormap 2: removed",
            "prefetch_tensormap 2: map = &A_map",
            "prefetch_tensormap 1: after prefetch_tensormap 2",
        ),
        _PREFETCH,
    ),
)


def reason(rung: int | str, name: str) -> str:
    """Why a mutant is harmless, "" if it is not listed."""
    return next((entry.reason for entry in HARMLESS if rung in entry.rungs and name in entry.names), "")


def listed() -> list[tuple[int | str, str]]:
    """Rung and name of each mutant that is listed."""
    return [(rung, name) for entry in HARMLESS for rung in entry.rungs for name in entry.names]
