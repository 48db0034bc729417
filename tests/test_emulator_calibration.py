"""The emulator's counters against what Nsight Compute counted on a GPU for the same kernels.

Compared are costs per request: sectors of global loads and stores, and wavefronts over their ideal. They depend on
addresses only, so a change of a kernel that keeps its addresses keeps them. (The number of requests may differ, since
compilers vectorise differently.)
"""

import ml_dtypes
import numpy as np
import pytest

from helpers.emulator import compile_kernel
from helpers.profile import find_profile
from helpers.rungs import RUNGS

pytestmark = pytest.mark.compiler
TOLERANCE = 0.02
LARGEST = 512   # emulated in about a second
CASES = [(rung, entry) for rung in RUNGS if rung.number <= 4 for entry in (rung.entry, *rung.twins)]


def emulated_totals(rung, entry, m, n, k):
    A, B, C = (np.zeros(shape, ml_dtypes.bfloat16) for shape in ((m, k), (k, n), (m, n)))
    module = compile_kernel(rung.path, (entry,), counters=True)
    run = module.launch(entry, rung.grid(m, n), rung.block, (A, B, C, m, n, k), rung.shared_bytes)
    assert run.reports == []
    return run.totals


@pytest.mark.parametrize("rung, entry", CASES, ids=[f"{rung.name}.{entry}" for rung, entry in CASES])
def test_counters_agree_with_the_gpus(rung, entry):
    profile = find_profile(rung.name, entry)
    launches = [launch for launch in profile.launches if launch.m <= LARGEST] if profile else []
    if not launches:
        pytest.skip(f"no profile of {rung.name}.{entry} up to {LARGEST} is recorded")
    for launch in launches:
        totals = emulated_totals(rung, entry, launch.m, launch.n, launch.k)
        for op, measured in (("load", launch.sectors_per_load), ("store", launch.sectors_per_store)):
            counted = totals[f"global_{op}_sectors"] / totals[f"global_{op}_requests"]
            assert counted == pytest.approx(measured, rel=TOLERANCE), f"sectors per {op}"
        ideal = totals["shared_load_ideal"] + totals["shared_store_ideal"]
        if launch.conflict_ratio is None:
            assert ideal == 0
        else:
            wavefronts = totals["shared_load_wavefronts"] + totals["shared_store_wavefronts"]
            assert wavefronts / ideal == pytest.approx(launch.conflict_ratio, rel=TOLERANCE)
