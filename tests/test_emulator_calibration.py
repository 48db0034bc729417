"""The emulator's counters against what Nsight Compute counted on a GPU, for every rung.

Compared are costs per request: sectors of global loads and stores, and shared-memory wavefronts over their ideal. They
depend on addresses only, and are the same at every size of whole tiles, so a large recorded launch is compared with a
small emulated one. (The number of requests may differ, since compilers vectorise differently.)

ncu counts the operands that wgmma reads among the wavefronts; the emulator counts wgmma's instructions, and their bytes
go 128 to a wavefront if the descriptor names the swizzle with which they lie there.
"""

import pytest

from helpers import emulate
from helpers.models.machine import ROW_BYTES
from helpers.ncu_counters import Launch
from helpers.profile import find_profile
from helpers.rungs import RUNGS

pytestmark = pytest.mark.compiler
TOLERANCE = 0.02
LARGEST = 256   # emulated in about a second
CASES = [(rung, entry) for rung in RUNGS for entry in (rung.entry, *rung.twins)]
NAMES = [f"{rung.name}.{entry}" for rung, entry in CASES]
COMPARED = {"global_load_requests", "global_store_requests", "shared_wavefronts", "shared_wavefronts_ideal"}
WGMMA_M, WGMMA_K, BF16_BYTES = 64, 16, 2


def recorded_launches(rung, entry) -> list[Launch]:
    """Those of the kernel itself, in its own order of tiles, that have the counters compared here."""
    profile = find_profile(rung.name, entry)
    launches = profile.launches if profile else ()
    own = [item for item in launches if item.order == rung.order and not item.defines]
    return [item for item in own if set(item.counters) >= COMPARED]


def wgmma_wavefronts(totals: dict[str, int]) -> int:
    """For the operands of all wgmma, m64 x n x k16 each: A and B from shared memory."""
    count = totals.get("wgmma_instructions", 0)
    if not count:
        return 0
    n = totals["wgmma_flops"] // (count * 2 * WGMMA_M * WGMMA_K)
    return count * (WGMMA_M + n) * WGMMA_K * BF16_BYTES // ROW_BYTES


def shared_wavefronts(totals: dict[str, int], what: str) -> int:
    """Of loads, stores, stmatrix and wgmma. what: 'wavefronts' or 'ideal'."""
    return totals[f"shared_load_{what}"] + totals[f"shared_store_{what}"] + wgmma_wavefronts(totals)


@pytest.mark.parametrize(("rung", "entry"), CASES, ids=NAMES)
def test_counters_agree_with_the_gpus(rung, entry) -> None:
    launches = recorded_launches(rung, entry)
    assert launches, f"record them: `python -m helpers.profile --rungs {rung.number} --sizes 512 4096`"
    emulated = {}
    for launch in launches:
        size = min(launch.n, LARGEST)
        if size not in emulated:
            emulated[size] = emulate(rung, (size, size, size), entry=entry).run.totals
        totals = emulated[size]
        for op, measured in (("load", launch.sectors_per_load), ("store", launch.sectors_per_store)):
            requests = totals[f"global_{op}_requests"]
            if measured is None:   # TMA's are not among them
                assert requests == 0, f"the GPU made no {op} of global memory at N={launch.n}"
            elif requests == 0:        # nor are accesses to the kernel's own variables, which one thread makes
                assert measured == 1.0, f"sectors per {op} at N={launch.n}"
            else:
                counted = totals[f"global_{op}_sectors"] / requests
                assert counted == pytest.approx(measured, rel=TOLERANCE), f"sectors per {op} at N={launch.n}"
        wavefronts, ideal = shared_wavefronts(totals, "wavefronts"), shared_wavefronts(totals, "ideal")
        if launch.conflict_ratio is None:
            assert ideal == 0
        else:
            assert wavefronts / ideal == pytest.approx(launch.conflict_ratio, rel=TOLERANCE), f"at N={launch.n}"


def test_wavefronts_of_wgmma_are_those_that_the_gpu_counted() -> None:
    """Rung 6 at N=512 has no other shared-memory traffic that ncu counts; rung 10 has stmatrix beside it."""
    (launch,) = (item for item in recorded_launches(RUNGS[5], "matmul") if item.n == 512)
    totals = emulate(6, (512,) * 3).run.totals
    assert shared_wavefronts(totals, "wavefronts") == launch.counters["shared_wavefronts"]
    (launch,) = (item for item in recorded_launches(RUNGS[9], "matmul") if item.n == 4096)
    totals = emulate(10, (512,) * 3).run.totals
    # Eight times the edge: 512 times the products, and 64 times the elements of C that stmatrix writes.
    scaled = 512 * wgmma_wavefronts(totals) + 64 * totals["shared_store_wavefronts"]
    assert scaled == launch.counters["shared_wavefronts"]
