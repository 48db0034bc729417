"""The process that compute-sanitizer watches: it multiplies a few small shapes with a kernel, or with a planted fault.

    compute-sanitizer --tool memcheck python -m helpers.sanitizer.child 07_pipelining
    compute-sanitizer --tool racecheck python -m helpers.sanitizer.child --fault no_barrier_after_loading

Its last line is `launched N times, all results right`. Matrices are made on the host and copied, and C is compared
there. So every byte on the GPU is written by a copy or by the kernel that is watched. No other kernel runs but, for the
one that goes by the partitions of L2, the probe that tells them apart; the tool does not watch that.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from helpers import gpu
from helpers.arrays import empty_matrix, namespace, random_matrix, to_backend, to_host
from helpers.entry import Parser, guarded
from helpers.errors import BackendError
from helpers.kernel import Kernel, load
from helpers.records import size_name
from helpers.rungs import Rung
from helpers.subjects import find_subjects
from helpers.verify import check

LEAST_K = 96   # of rungs whose step along K is shorter
EDGED = 2 * 3    # tiles of C with edges
SHARERS = 2      # CTAs or clusters by which a persistent kernel's tiles are shared
CHECKPOINTS = 2  # that each of these passes, where they keep pace: from the second one on they wait
_PACE = re.compile(r"^constexpr int PACE_STEPS = (\d+);", re.MULTILINE)


def shapes(rung: Rung) -> tuple[tuple[int, int, int], ...]:
    """(M, N, K) of the products: the smallest; whole tiles; and two by three tiles with an edge in M, N and K.

    The last two are so deep that each stage of the ring is used again, and that clusters that keep pace along K wait
    for one another. Where CTAs divide K, there is also one of two tiles with edges and a step less than CTAs. With a
    limit for M, it is M of whole tiles, and one row less with edges.
    """
    rows, columns, depth = *rung.cluster_tile, rung.tile[2]
    least_m, least_n, least_k = rung.multiples
    parts = rung.split or 1
    paced = -(-CHECKPOINTS * pace_steps(rung) // (EDGED // SHARERS))   # steps, of each of its tiles
    deep = max((rung.stages + 2) * parts * depth, paced * depth, LEAST_K)
    whole = rung.most_rows or rows
    ragged = whole - least_m if rung.most_rows else rows + least_m
    sizes = [
        rung.multiples,
        (whole, columns, deep),
        (ragged, 2 * columns + least_n, deep + least_k),
    ]
    if parts > 1:
        sizes.append((whole - least_m, columns + least_n, (parts - 2) * depth + least_k))
    return tuple(sizes)


def pace_steps(rung: Rung) -> int:
    """Steps along K from one checkpoint to the next, by the kernel's file; 0 where its clusters do not keep pace."""
    found = _PACE.search(rung.path.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def sms(rung: Rung) -> int | None:
    """SMs that a persistent kernel is launched for: two CTAs or clusters share all tiles; None for other kernels."""
    return SHARERS * rung.cluster if rung.persistent else None


def multiply(kernel: Kernel, sizes: Iterable[tuple[int, int, int]], reads: bool = True, unwritten: bool = False) -> int:
    """Multiply random matrices of these sizes and return the number of launches.

    reads: whether C is copied to the host and compared. unwritten: leave A as it was allocated.
    Raises BackendError if a result is wrong or the kernel fails.
    """
    count = 0
    for m, n, k in sizes:
        A, B = random_matrix(m, k, 1, "emulator"), random_matrix(k, n, 2, "emulator")
        on_gpu = [empty_matrix(m, k, "cuda") if unwritten else to_backend(A, "cuda"), to_backend(B, "cuda")]
        C = empty_matrix(m, n, "cuda")
        kernel(*on_gpu, out=C)
        gpu.synchronize()
        count += 1
        if reads:
            require_product(kernel, A, B, to_host(C))
    return count


def require_product(kernel: Kernel, A: Any, B: Any, C: Any) -> None:
    """Raises BackendError if C is not A @ B."""
    outcome = check(C, A, B)
    if not outcome.passed:
        size = size_name(A.shape[0], B.shape[1], A.shape[1])
        raise BackendError(f"{kernel.rung.name}.{kernel.entry} is wrong at {size}: {outcome.reason}")


def reads_result(rung: Rung, tool: str) -> bool:
    """Whether C is read: not where initcheck would not know that TMA has written it."""
    return not (tool == "initcheck" and rung.maps.C is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 if a result is wrong."""
    parser = Parser(prog="python -m helpers.sanitizer.child", description="What compute-sanitizer watches.")
    parser.add_argument("rung", nargs="?", help="a rung's name, or that of a variant (helpers.subjects)")
    parser.add_argument("--fault", default=None, metavar="NAME", help="a planted fault instead")
    parser.add_argument("--unread", action="store_true", help="do not compare the results")
    options = parser.parse_args(arguments)
    if (options.rung is None) == (options.fault is None):
        parser.error("give a rung, or --fault NAME")
    return guarded(lambda: run(options.rung, options.fault, not options.unread))


def run(rung: str | None, fault: str | None, reads: bool) -> int:
    """What `main` does. A pool would take memory for several arrays at once: each gets an allocation of its own."""
    namespace("cuda").cuda.set_allocator(None)
    count = 0
    if fault is not None:
        from helpers.sanitizer.faults import find_fault

        planted = find_fault(fault)
        kernel = load(planted.kernel, backend="cuda", defines=planted.defines, file=planted.file())
        count = multiply(kernel, [planted.size], reads=False, unwritten=planted.unwritten)
    else:
        for subject in find_subjects(rung):
            for entry in (subject.rung.entry, *subject.rung.twins):
                kernel = load(subject.rung, backend="cuda", entry=entry, defines=subject.defines)
                kernel.sms = sms(subject.rung) or kernel.sms
                count += multiply(kernel, shapes(subject.rung), reads)
    print(f"launched {count} times, all results right", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
