"""The models against independent brute-force counts."""

import dataclasses
import json
import random

import numpy as np
import pytest

from helpers.errors import ArgumentError
from helpers.models.banks import lane_phases, warp_wavefronts
from helpers.models.coalescing import lane_addresses, warp_traffic
from helpers.models.machine import H100_PCIE, H200, gpu_of
from helpers.models.predict import predict
from helpers.models.pyramid import pyramid
from helpers.models.register_tile import RegisterTile
from helpers.models.roofline import Roof, roofs
from helpers.models.tiling import shared_loads, tile_traffic
from helpers.models.waves import occupancy, waves
from helpers.rungs import ROOT
from helpers.yardsticks import load_yardsticks


def random_addresses(rng, width, span):
    return np.array([rng.randrange(span) * width if rng.random() > 0.1 else -1 for _ in range(31)] + [0])


# --- coalescing


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("span", [4, 40, 5000])
def test_traffic_equals_a_walk_over_the_bytes(width, span):
    rng = random.Random(width * span)
    for _ in range(20):
        addresses = random_addresses(rng, width, span)
        touched, sectors, lines = set(), set(), set()
        for address in addresses.tolist():
            for byte in range(address, address + width) if address >= 0 else ():
                touched.add(byte)
                sectors.add(byte // 32)
                lines.add(byte // 128)
        traffic = warp_traffic(addresses, width)
        assert (traffic.bytes_used, traffic.sectors, traffic.lines) == (len(touched), len(sectors), len(lines))
        assert traffic.efficiency == len(touched) / (32 * len(sectors))


def test_the_two_kernels_of_rung_1():
    n = k = 4096
    assert warp_traffic(lane_addresses(lambda lane: 7 * k + 3)).sectors == 1            # A, coalesced
    assert warp_traffic(lane_addresses(lambda lane: 3 * n + 32 + lane)).sectors == 2    # B, coalesced
    assert warp_traffic(lane_addresses(lambda lane: lane * k + 3)).sectors == 32        # A, uncoalesced
    assert warp_traffic(lane_addresses(lambda lane: 3 * n + 5)).sectors == 1            # B, uncoalesced
    assert warp_traffic(lane_addresses(lambda lane: lane + 1)).sectors == 3             # one element off: a sector more


def test_lane_addresses_scale_offset_and_idle_lanes():
    addresses = lane_addresses(lambda lane: lane if lane < 5 else None, width=4, base=256)
    assert addresses.tolist() == [256, 260, 264, 268, 272] + [-1] * 27
    assert addresses.dtype == np.int64
    assert warp_traffic(addresses, 4).bytes_used == 20


@pytest.mark.parametrize(
    "addresses, width, words",
    [
        (np.arange(31), 1, "shape (31,)"),
        (np.arange(32.0), 1, "integers"),
        (np.arange(32), 2, "multiple of 2"),
        (np.arange(32), 3, "1, 2, 4, 8 or 16"),
        (np.full(32, -1), 4, "no active lane"),
    ],
)
@pytest.mark.parametrize("model", [warp_traffic, warp_wavefronts])
def test_bad_addresses_are_named(model, addresses, width, words):
    with pytest.raises(ArgumentError, match="addresses|width") as caught:
        model(addresses, width)
    assert words in str(caught.value) and "\n" not in str(caught.value)


# --- banks


@pytest.mark.parametrize("width, phases", [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
@pytest.mark.parametrize("span", [3, 64, 3000])
def test_wavefronts_equal_a_greedy_schedule(width, phases, span):
    """Serve words pass by pass, one word per bank and pass, and count the passes."""
    rng = random.Random(width + span)
    lanes = 32 // phases   # random addresses have no twins, so that no phases are merged
    for _ in range(20):
        addresses = random_addresses(rng, width, span).tolist()
        passes = ideal = 0
        for phase in range(phases):
            pending = set()
            for address in addresses[phase * lanes : (phase + 1) * lanes]:
                if address >= 0:
                    pending |= {byte // 4 for byte in range(address, address + width)}
            ideal += bool(pending)
            while pending:
                served = {}
                for word in pending:
                    served.setdefault(word % 32, word)
                pending -= set(served.values())
                passes += 1
        result = warp_wavefronts(np.array(addresses), width, "store")
        assert (result.count, result.ideal) == (passes, ideal)
        assert sum(result.per_phase) == result.count


def test_phase_rule():
    apart, twins = np.arange(32) * 16, np.arange(32) // 2 * 16
    assert set(lane_phases(apart, 4)) == {0}
    assert lane_phases(apart, 8).tolist() == [0] * 16 + [1] * 16
    assert lane_phases(apart, 16).tolist() == [lane // 8 for lane in range(32)]
    assert lane_phases(twins, 16).tolist() == [0] * 16 + [1] * 16
    assert lane_phases(twins, 16, "store").tolist() == [lane // 8 for lane in range(32)]
    with pytest.raises(ArgumentError, match="op is 'read'"):
        warp_wavefronts(apart, 16, "read")


def test_wavefronts_equal_the_profiler_on_the_h200():
    record = json.loads((ROOT / "helpers/records/nvidia-h200/profile/bank_patterns.json").read_text())
    assert len(record["accesses"]) == 384
    for access in record["accesses"]:
        offsets = access["offsets"] + [-1] * (32 - len(access["offsets"]))
        result = warp_wavefronts(np.array(offsets), access["width"], access["op"])
        assert (result.count, result.count - result.ideal) == (access["wavefronts"], access["conflicts"]), access


@pytest.mark.parametrize("stride, ways", [(0, 1), (1, 1), (2, 2), (3, 1), (8, 8), (16, 16), (32, 32), (33, 1)])
def test_textbook_strides(stride, ways):
    """CUDA C++ Programming Guide, figure "Strided Shared Memory Accesses": gcd(stride, 32) words meet in a bank."""
    assert warp_wavefronts(lane_addresses(lambda lane: lane * stride, 4), 4).count == ways


def test_reads_of_rung_3_conflict_eightfold_and_the_swizzle_frees_them():
    tile = RegisterTile()
    for chunk in range(8):
        by_hand = lane_addresses(lambda lane, chunk=chunk: lane % 8 * 8 + chunk, 16)
        assert (tile.a_addresses(0, 0, chunk) == by_hand).all()
        assert warp_wavefronts(by_hand, 16).per_phase == (8, 8, 8, 8)
        assert warp_wavefronts(tile.a_addresses(5, 3, chunk, swizzle=True), 16).per_phase == (1, 1, 1, 1)
    for k in range(64):
        for chunk in (0, 1):
            assert warp_wavefronts(tile.b_addresses(3, k, chunk), 16).per_phase == (1, 1)


# --- tiling


@pytest.mark.parametrize(
    "m, n, k, tile_m, tile_n", [(7, 5, 3, 2, 3), (8, 8, 4, 4, 4), (6, 9, 2, 1, 1), (5, 70, 3, 1, 32)]
)
def test_tile_traffic_equals_a_walk_over_the_tiles(m, n, k, tile_m, tile_n):
    loads_a, loads_b, stores = np.zeros((m, k), int), np.zeros((k, n), int), np.zeros((m, n), int)
    for i in range(0, m, tile_m):
        for j in range(0, n, tile_n):
            loads_a[i : i + tile_m, :] += 1
            loads_b[:, j : j + tile_n] += 1
            stores[i : i + tile_m, j : j + tile_n] += 1
    traffic = tile_traffic(m, n, k, tile_m, tile_n)
    assert traffic.a_bytes == 2 * loads_a.sum() and traffic.b_bytes == 2 * loads_b.sum()
    assert traffic.c_bytes == 2 * stores.sum()
    assert (loads_a == traffic.a_reads).all() and (loads_b == traffic.b_reads).all()
    assert traffic.intensity == pytest.approx(2 * m * n * k / (2 * (loads_a.sum() + loads_b.sum() + stores.sum())))


def test_a_tile_of_32_loads_32_times_less_than_a_thread_alone():
    alone, tiled = tile_traffic(4096, 4096, 4096, 1, 1), tile_traffic(4096, 4096, 4096, 32, 32)
    assert alone.loaded_bytes == 32 * tiled.loaded_bytes
    assert tiled.intensity == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize("tile_m, tile_n, vector_a, vector_b", [(1, 1, 1, 1), (4, 4, 1, 4), (8, 8, 8, 8), (8, 4, 1, 2)])
def test_shared_loads_equal_a_loop(tile_m, tile_n, vector_a, vector_b):
    steps, loads, fmas = 64, 0, 0
    for k in range(steps):
        loads += tile_m if k % vector_a == 0 else 0   # A: a load brings vector_a steps of one row
        loads += len(range(0, tile_n, vector_b))      # B: a load brings vector_b columns of one step
        for _ in range(tile_m):
            for _ in range(tile_n):
                fmas += 1
    assert shared_loads(tile_m, tile_n, vector_a, vector_b).loads_per_fma == loads / fmas


@pytest.mark.parametrize("call", [lambda: tile_traffic(0, 1, 1, 1, 1), lambda: shared_loads(8, 0), lambda: waves(0)])
def test_sizes_below_one_are_refused(call):
    with pytest.raises(ArgumentError, match="must be at least 1"):
        call()


# --- register tile


@pytest.mark.parametrize("shape", [{}, {"warps_m": 4, "warps_n": 2}, {"cta_m": 64, "cta_n": 128}])
def test_every_element_has_one_owner(shape):
    tile = RegisterTile(**shape)
    seen = np.zeros((tile.cta_m, tile.cta_n), int)
    for thread in range(tile.threads):
        for row in tile.rows(thread // 32, thread % 32):
            for column in tile.columns(thread // 32, thread % 32):
                seen[row, column] += 1
                assert tile.owners()[row, column] == thread if row == 5 else True
    assert (seen == 1).all()


def test_rung_3_lane_map_as_the_kernel_writes_it():
    tile = RegisterTile()
    assert (tile.threads, tile.thread_m, tile.thread_n) == (256, 8, 16)
    for thread in range(256):
        warp, lane = thread // 32, thread % 32
        box, thread_row, thread_chunk = warp % 4, warp // 4 * 64 + lane % 8, lane // 8
        assert tile.rows(warp, lane).tolist() == [thread_row + 8 * i for i in range(8)]
        columns = [box * 64 + (thread_chunk + 4 * j) * 8 + c for j in range(2) for c in range(8)]
        assert tile.columns(warp, lane).tolist() == columns
        for k_chunk in range(8):
            place = (thread_row + 8 * 3) * 8 + k_chunk
            assert tile.a_addresses(warp, 3, k_chunk)[lane] == 16 * place
        for k in (0, 9, 63):
            for j in range(2):
                place = box * 64 * 8 + k * 8 + thread_chunk + 4 * j
                assert tile.b_addresses(warp, k, j)[lane] == 16 * place


def test_a_tile_that_the_warps_do_not_divide_is_refused():
    with pytest.raises(ArgumentError, match="cta_m is 100"):
        RegisterTile(cta_m=100)
    with pytest.raises(ArgumentError, match="would own 4 columns"):
        RegisterTile(cta_n=64)


# --- waves


def fits(ctas, registers, threads, shared):
    """An SM of compute capability 9.0 filled warp by warp, scheduler by scheduler."""
    warps = -(-threads // 32)
    if ctas > 32 or ctas * warps * 32 > 2048:
        return False
    if ctas * (-(-(shared + 1024) // 128) * 128) > 228 * 1024:
        return False
    free = [16384] * 4
    need = -(-registers * 32 // 256) * 256
    for _ in range(ctas * warps):
        scheduler = max(range(4), key=lambda s: free[s])
        if free[scheduler] < need:
            return False
        free[scheduler] -= need
    return True


def test_occupancy_equals_filling_an_sm():
    rng = random.Random(0)
    for _ in range(300):
        registers, threads = rng.randint(1, 255), rng.randint(1, 1024)
        shared = rng.choice([0, 8192, 32768, rng.randint(0, 232448)])
        most = max((c for c in range(0, 34) if fits(c, registers, threads, shared)), default=0)
        if most == 0:
            with pytest.raises(ArgumentError, match="registers is"):
                occupancy(registers, threads, shared)
        else:
            assert occupancy(registers, threads, shared).ctas_per_sm == most


def test_occupancy_of_the_rungs():
    two = occupancy(registers=32, threads=1024, shared_bytes=8192)
    assert (two.ctas_per_sm, two.warps, two.fraction) == (2, 64, 1.0)
    three = occupancy(registers=168, threads=256, shared_bytes=32768)
    assert (three.ctas_per_sm, three.warps, three.limiters) == (1, 8, ("registers",))
    assert occupancy(registers=128, threads=256, shared_bytes=32768).ctas_per_sm == 2


@pytest.mark.parametrize("arguments", [(0, 32), (256, 32), (32, 1025), (32, 32, 232449)])
def test_a_cta_that_cannot_exist_is_refused(arguments):
    with pytest.raises(ArgumentError, match="can have"):
        occupancy(*arguments)


@pytest.mark.parametrize(
    "tiles, sms, per_sm", [(1, 132, 1), (132, 132, 1), (133, 132, 1), (1024, 132, 1), (16384, 114, 2)]
)
def test_waves_equal_dealing_out_tiles(tiles, sms, per_sm):
    left, count = tiles, 0
    while left > 0:
        tail, left, count = min(left, sms * per_sm), left - sms * per_sm, count + 1
    result = waves(tiles, sms, per_sm)
    assert (result.count, result.tail) == (count, tail)
    assert result.efficiency == pytest.approx(tiles / (count * sms * per_sm))


# --- roofline, pyramid, predict


def test_roof():
    roof = Roof("HBM", 2e12, 60.0)
    assert roof.ridge == 30 and roof.bound(10) == 20 and roof.bound(1000) == 60
    with pytest.raises(ArgumentError, match="intensity"):
        roof.bound(0)
    assert [r.name for r in roofs(H200)] == ["HBM", "L2", "shared memory"]


def test_peaks_are_those_of_the_datasheets():
    assert H200.fp32_tflops == pytest.approx(67, rel=0.005)
    assert H100_PCIE.fp32_tflops == pytest.approx(51, rel=0.01)
    assert H200.dense_tflops == pytest.approx(132 * 4096 * 1.83e9 / 1e12, rel=0.001)


def test_the_gpu_at_hand():
    device = load_yardsticks().device
    assert gpu_of(device) is H200   # the datasheet's
    other = gpu_of(dataclasses.replace(device, name="NVIDIA H200 NVL"))   # the same chip from what its driver says
    for name in ("sm_count", "clock_hz", "l2_bytes", "fp32_tflops", "tensor_tflops", "l2_bandwidth", "shared_bandwidth",
                 "l1_bytes_per_sm", "shared_bytes_per_sm", "shared_bytes_per_cta", "threads_per_sm", "ctas_per_sm"):
        assert getattr(other, name) == getattr(H200, name), name
    assert other.hbm_bandwidth == pytest.approx(H200.hbm_bandwidth, rel=0.005)
    assert pyramid(other)[-1].source == "computed" and pyramid(H200)[-1].source == "datasheet"
    for changes in ({"sm_count": 60}, {"max_clock_mhz": 1785.0}, {"memory_bytes": 96_000_000_000}):
        slice_of_it = gpu_of(dataclasses.replace(device, **changes))   # the name alone is no datasheet
        assert slice_of_it is not H200 and slice_of_it.name == "NVIDIA H200"
        assert slice_of_it.sm_count == changes.get("sm_count", 132)
        assert slice_of_it.clock_hz == changes.get("max_clock_mhz", 1980.0) * 1e6
    unsaid = dataclasses.replace(device, max_clock_mhz=None, memory_bytes=None)
    assert gpu_of(unsaid) is H200
    with pytest.raises(ArgumentError, match="compute capability 6.1"):
        gpu_of(dataclasses.replace(device, name="old", compute_capability="6.1"))
    with pytest.raises(ArgumentError, match="device.l2_bytes"):
        gpu_of(dataclasses.replace(device, name="new", l2_bytes=None))


def test_bounds_are_those_of_the_gpu_that_the_rung_is_measured_on(monkeypatch):
    def here(device):
        monkeypatch.setattr("helpers.models.machine.device_info", lambda: device)
        return predict("01_coalescing"), predict("10_clusters")

    recorded = load_yardsticks().device
    assert [item.title.split(", ")[-1] for item in here(None)] == ["H200: upper bounds"] * 2
    pcie = dataclasses.replace(recorded, name="NVIDIA H100 PCIe", sm_count=114, max_clock_mhz=1755.0,
                               memory_bytes=85_000_000_000)
    first, last = here(pcie)
    assert "H100 PCIe: upper bounds" in first.title and "H100 PCIe: upper bounds" in last.title
    assert last.bounds[0].tflops == pytest.approx(114 * 4096 * 1.755e9 / 1e12)
    first, last = here(dataclasses.replace(recorded, name="NVIDIA RTX 4090", compute_capability="8.9", sm_count=128))
    assert "RTX 4090" in first.title and "H200" in last.title, "the last rung does not run on it: it is shown recorded"
    assert "H200" in here(dataclasses.replace(recorded, name="NVIDIA X", max_clock_mhz=None))[0].title


def test_pyramid_by_hand():
    """132 SMs at 1.98 GHz; three operands of 4 bytes for each of 128 lanes, 128 bytes of shared memory, 64 from L2."""
    found = {level.name: (level.size, level.bandwidth) for level in pyramid(H200)}
    assert found == {
        "registers": (132 * 65536 * 4, pytest.approx(132 * 1.98e9 * 128 * 12)),
        "shared memory": (132 * 256 * 1024, pytest.approx(132 * 1.98e9 * 128)),
        "L2": (60 * 2**20, pytest.approx(132 * 1.98e9 * 64)),
        "HBM": (141e9, 4.8e12),
    }
    for value in (0, -1.0):
        with pytest.raises(ArgumentError, match="measured.'L2'. is .*: it must be a positive number of bytes"):
            pyramid(measured={"L2": value})


def test_pyramid_takes_measured_bandwidths():
    levels = pyramid(H200, measured={"L2": 6e12})
    assert [level.source for level in levels] == ["computed", "computed", "measured", "datasheet"]
    assert levels[2].bandwidth == 6e12
    assert levels[0].bandwidth > levels[1].bandwidth > levels[2].bandwidth > levels[3].bandwidth
    with pytest.raises(ArgumentError, match="L3"):
        pyramid(measured={"L3": 1})


def test_predictions_by_hand():
    per_clock = 132 * 64 * 1.98e9 / 1e12   # TFLOP/s of one multiply-add instruction per SM and clock
    assert predict(1).limit.tflops == pytest.approx(per_clock / 2)
    assert predict(1, entry="matmul_uncoalesced").limit.tflops == pytest.approx(per_clock / 33)
    assert predict(2).limit.tflops == pytest.approx(per_clock / 1.5)
    assert predict(2, a_vector=1).limit.tflops == pytest.approx(per_clock / 2)
    # Rung 3, 8 steps of k: 8 reads of A of 32 wavefronts, 16 of B of 2, 1.5 stores of 4; 1,024 multiply-adds.
    bounds = {bound.name: bound.tflops for bound in predict(3).bounds}
    assert bounds["shared memory wavefronts"] == pytest.approx(per_clock * 1024 / (8 * 32 + 16 * 2 + 6))
    assert bounds["issue slots"] == pytest.approx(4 * per_clock * 1024 / (1024 + 192 + 24 + 1.5))
    swizzled = {bound.name: bound.tflops for bound in predict(3, swizzle=True).bounds}
    assert swizzled["shared memory wavefronts"] == pytest.approx(per_clock * 1024 / (8 * 4 + 16 * 2 + 6))


def test_predictions_rise_along_the_ladder_and_say_the_gap():
    twin = predict(1, entry="matmul_uncoalesced")
    limits = [twin.limit.tflops, *(predict(rung).limit.tflops for rung in (1, 2, 3))]
    assert limits == sorted(limits)
    assert "50% of the bound" in twin.report(twin.limit.tflops / 2)
    slow = dataclasses.replace(H200, clock_hz=H200.clock_hz / 2)
    assert predict(1, gpu=slow).limit.tflops == pytest.approx(limits[1] / 2)
    with pytest.raises(ArgumentError, match="entry"):
        predict(1, entry="other")


def test_resources_that_take_turns():
    prediction = predict(3)
    issue, wavefronts = sorted(bound.tflops for bound in prediction.bounds)[:2]
    assert prediction.in_turn == pytest.approx(issue * wavefronts / (issue + wavefronts))
    assert predict(3, swizzle=True).in_turn > 1.5 * prediction.in_turn   # arithmetic does not count twice
    assert prediction.limit.tflops / 2 <= prediction.in_turn < prediction.limit.tflops


def test_models_in_words():
    assert str(waves(512)) == "512 CTAs in 4 waves of 132, 116 in the last: 97.0% of the places filled"
    fit = "1 CTA of 8 warps on an SM, limited by registers: 8 of 64 warps, an occupancy of 0.125"
    assert str(occupancy(242, 256, 49152)) == fit
    assert str(shared_loads(8, 16, 8, 8)).endswith("3 loads for 128 multiply-adds, 0.0234 loads each")
    assert str(tile_traffic(4096, 4096, 4096, 32, 32)) == "tile 32 x 32: 8.590 GB loaded, 15.9 FLOP per byte"


@pytest.mark.parametrize("size", [0, -1, "a", (1, 2), 1.5, True])
def test_predict_refuses_what_is_no_size(size):
    with pytest.raises(ArgumentError, match="k is .*: it must be an integer"):
        predict(1, k=size)
