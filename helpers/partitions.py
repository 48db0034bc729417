"""The two partitions of the GPU's L2 cache: which one each SM is connected to.

    python -m helpers.partitions         on an H100 or H200: measures it now (less than a second)

An SM asks the partition that it is connected to. What is at home in the other one crosses over, and is then kept in
both. So a line that SMs of both need crosses and takes room twice; kernels/appendix_partitions.cu has fewer of them.

NVIDIA doesn't document which SM belongs where, so it is measured, once in a process. Atomics are done where their
address is at home: a probe times them on 32 addresses from each SM, and the SMs of a partition find the same ones slow.
No result hangs on the answer: where it is wrong or missing, a kernel is a little slower.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from helpers import device, gpu
from helpers.cuda import compile_cubin
from helpers.entry import Parser, guarded
from helpers.timing import PROBES
from helpers.words import plural

RULE = "==9.0"
SOURCE = PROBES / "partitions.cu"
WORDS, DISTANCE = 32, 1056   # as the probe has them
ALONE_BYTES = 128 * 1024     # of shared memory: an SM has room for one such CTA
TRIES = 3                    # of a measurement: what else runs on the GPU may disturb one
CLEAR = 0.5                  # of the correlation of an SM's times with those of another one: less is no answer


def partitions_from(cycles: Any) -> tuple[int, ...] | None:
    """The partition of each SM, 0 for that of the first SM and 1 for the other; None if the times don't say it clearly.

    cycles: of an atomic, (SMs, addresses); zeros where an SM did not answer.
    """
    times = np.asarray(cycles, float)
    if not times.all():
        return None
    times = times - times.mean(axis=0)                        # an address may be far from all SMs,
    times -= times.mean(axis=1, keepdims=True)                # and an SM from all addresses
    lengths = np.linalg.norm(times, axis=1)
    if not lengths.all():
        return None
    alike = times @ times[0] / (lengths * lengths[0])         # near 1 in the same partition, near -1 in the other
    return tuple(int(value < 0) for value in alike) if (np.abs(alike) >= CLEAR).all() else None


@cache
def sm_partitions(number: int) -> tuple[int, ...]:
    """The partition of each SM of the current GPU; zeros if the probe, run up to TRIES times, does not tell them apart.

    number: the GPU's, so that each is asked once. Raises BackendError if the probe does not run.
    """
    for _ in range(TRIES):
        cycles = atomic_cycles()
        found = partitions_from(cycles)
        if found is not None:
            return found
    return (0,) * len(cycles)


def atomic_cycles() -> np.ndarray:
    """Cycles of a chain of eight atomics, (SMs, addresses), on the current GPU."""
    import cupy

    answer = gpu.require_gpu(SOURCE.stem, RULE)
    function = gpu.load_function(compile_cubin(SOURCE, {}, answer.architecture).path, "atomic_cycles")
    words = cupy.zeros(WORDS * DISTANCE, np.int32)
    cycles = cupy.zeros((answer.sms, WORDS), np.int32)
    for sm in range(answer.sms):
        gpu.launch_function(function, (answer.sms,), (1,), (words, cycles, np.int32(sm)), ALONE_BYTES)
    gpu.synchronize()
    return cycles.get()


def described(cycles: Any) -> str:
    """What was measured, in words. cycles: as of `partitions_from`."""
    found = partitions_from(cycles)
    if found is None:
        return "The times of atomics do not tell two partitions of L2 apart here."
    times, other = np.asarray(cycles), np.array(found) == 1
    means = np.array([times[~other].mean(axis=0), times[other].mean(axis=0)])   # (partitions, addresses)
    near, far = means.min(axis=0).mean(), means.max(axis=0).mean()
    return (
        f"{plural(int((~other).sum()), 'SM')} near one partition of L2, {other.sum()} near the other; eight atomics "
        f"take {near:,.0f} cycles near their address, {far:,.0f} from the other side\n"
        f"partition of each SM: {''.join(map(str, found))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    Parser(prog="python -m helpers.partitions", description="Which SMs are near which partition of L2.").parse_args(
        arguments
    )

    def work() -> int:
        device.require_device("Partitions of L2 can only be told apart on a GPU")
        print(described(atomic_cycles()))
        return 0

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
