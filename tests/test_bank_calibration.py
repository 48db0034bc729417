"""The bank model against the hardware: 384 single-warp requests counted by ncu on an H200."""

import json

import numpy as np
import pytest

from helpers.models.banks import warp_wavefronts
from helpers.rungs import ROOT

RECORD = json.loads((ROOT / "helpers/records/nvidia-h200/profile/bank_patterns.json").read_text())


@pytest.mark.parametrize("op", ["load", "store"])
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_wavefronts_and_ideal_equal_the_hardware_counters(op: str, width: int) -> None:
    accesses = [a for a in RECORD["accesses"] if a["op"] == op and a["width"] == width]
    assert len(accesses) == 48
    for access in accesses:
        offsets = access["offsets"]
        addresses = np.array(offsets + [-1] * (32 - len(offsets)), dtype=np.int64)
        found = warp_wavefronts(addresses, width, op)
        expected = (access["wavefronts"], access["wavefronts"] - access["conflicts"])
        assert (found.count, found.ideal) == expected, access["pattern"]
