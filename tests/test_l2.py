"""The L2 model against a cache played access by access, orders of tiles by profile and by speed, and their pictures."""

import time
from dataclasses import replace

import numpy as np
import pytest
from picture_checks import require_legible

from helpers import profile
from helpers.errors import ArgumentError, NoRecording
from helpers.exercises.kinds import Status
from helpers.exercises.registry import find_exercise
from helpers.launches import in_order
from helpers.models.k_walk import hbm_read
from helpers.models.l2 import l2_traffic, patch, wave_tiles
from helpers.models.machine import H200
from helpers.ncu_counters import METRICS, Launch
from helpers.order_speeds import find_orders, order_speeds, write_orders
from helpers.plots.l2 import hbm_bars, pace_bars
from helpers.plots.tile_order import walks, wave_patches
from helpers.records import find_record
from helpers.rungs import BF16_BYTES, find_rung
from helpers.speeds import MISSING
from helpers.tile_order import ORDERS, grouped, hilbert, row_major, shuffled, tile_order
from helpers.variants import edit

TILE = (128, 256, 64)


def course_order(name, size):
    return tile_order(name, size // TILE[0], size // TILE[1])


# The model


def played(tiles, m, n, k, ctas, l2_bytes, tile):
    """HBM bytes of a least-recently-used cache, piece by piece: it has what was touched since which no more distinct
    bytes were touched than it holds. Within a step nobody comes first, so the steps at both ends count in full.
    """
    rows, columns, depth = tile
    touched, read = {}, 0   # piece: (when it was touched last, its bytes)
    for wave, now in enumerate(wave_tiles(tiles, ctas)):
        heights = {int(i): min(rows, m - int(i) * rows) for i in now[:, 0]}
        widths = {int(j): min(columns, n - int(j) * columns) for j in now[:, 1]}
        sides = {**{("A", i): side for i, side in heights.items()}, **{("B", j): side for j, side in widths.items()}}
        for step in range(k // depth):
            pieces = {(name, step): side * depth * BF16_BYTES for name, side in sides.items()}
            for piece, size in pieces.items():
                last = touched.get(piece, ((-1, 0), 0))[0]
                since = sum(bytes_ for other, (when, bytes_) in touched.items() if when >= last and other not in pieces)
                if piece not in touched or since + sum(pieces.values()) > l2_bytes:
                    read += size
            touched |= {piece: ((wave, step), size) for piece, size in pieces.items()}
        stored = sum(heights[int(i)] * widths[int(j)] * BF16_BYTES for i, j in now)
        touched["C", wave] = ((wave, k // depth), stored)
    return read


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("l2_bytes", [0, 9_000, 40_000, 90_000, 150_000, 400_000, 10**9])
def test_the_model_is_the_cache_it_claims_to_be(order, l2_bytes):
    tile = (16, 32, 8)
    for m, n, k, ctas in ((200, 310, 64, 7), (256, 256, 128, 13), (16, 640, 24, 3)):
        tiles = tile_order(order, -(-m // tile[0]), -(-n // tile[1]))
        traffic = l2_traffic(tiles, m, n, k, ctas, l2_bytes, tile)
        assert traffic.hbm_read == played(tiles, m, n, k, ctas, l2_bytes, tile), (m, n, k)


@pytest.mark.parametrize("order", ORDERS)
def test_traffic_lies_between_once_and_a_wave_at_a_time(order):
    tiles = course_order(order, 4096)
    none, some, all_of_it = (l2_traffic(tiles, 4096, 4096, 4096, l2_bytes=size) for size in (0, 60 << 20, 1 << 40))
    assert all_of_it.hbm_read == all_of_it.once == 2 * 4096 * 4096 * 2
    assert all_of_it.once <= some.hbm_read <= none.hbm_read
    assert none.hbm_read == sum(len(item.rows) * 2**20 + len(item.columns) * 2**21 for item in none.patches)
    assert some.sm_read == 512 * (128 + 256) * 4096 * 2
    assert some.hit_rate == 1 - some.hbm_read / some.sm_read and some.hbm_write == 4096 * 4096 * 2


def test_the_orders_of_the_course_at_16384():
    """A product of 16,384 is played in well under a second; compact patches read a third of what rows read."""
    start = time.process_time()
    read = {name: l2_traffic(course_order(name, 16384), 16384, 16384, 16384) for name in ORDERS}
    assert time.process_time() - start < 1
    assert read["hilbert"].hbm_read < 0.4 * read["row"].hbm_read
    assert read["shuffled"].hbm_read > 1.3 * read["row"].hbm_read
    assert read["row"].strips > 60 > 30 > read["hilbert"].strips
    assert read["row"].kept_steps < read["hilbert"].kept_steps


def test_patches_count_strips():
    assert patch(row_major(12, 11)).strips == 23
    rows = patch(row_major(128, 64)[:132])
    assert (len(rows.rows), len(rows.columns), rows.tiles) == (3, 64, 132)
    assert str(rows) == "132 tiles: 3 of A + 64 strips of B" and rows.step_bytes() == (3 * 16 + 64 * 32) * 1024
    assert str(patch(np.array([[5, 7]]))) == "1 tile: 1 of A + 1 strip of B"


def test_wrong_arguments_of_the_model_are_refused():
    tiles = row_major(4, 4)
    with pytest.raises(ArgumentError, match="k is 0"):
        l2_traffic(tiles, 512, 1024, 0)
    with pytest.raises(ArgumentError, match="ctas is 0"):
        l2_traffic(tiles, 512, 1024, 64, ctas=0)
    with pytest.raises(ArgumentError, match="leaves out a tile of 4 x 4"):
        l2_traffic(np.zeros_like(tiles), 512, 1024, 64)
    for wrong in (tiles[1:], tiles.astype(float), tiles.ravel()):
        with pytest.raises(ArgumentError, match="no list of this product's 16 tiles"):
            l2_traffic(wrong, 512, 1024, 64)
    with pytest.raises(ArgumentError, match="tiles is no list"):
        patch(np.zeros((0, 2), int))


def test_a_shuffled_order_is_the_same_each_time():
    assert np.array_equal(shuffled(5, 7), shuffled(5, 7))
    assert not np.array_equal(shuffled(5, 7), shuffled(5, 7, seed=1))


# Profiles and speeds by order


def test_a_rung_takes_another_order_and_no_other_than_there_is():
    assert in_order(find_rung(8), "row").order == "row" and find_rung(8).order == "hilbert"
    with pytest.raises(ArgumentError, match="07_pipelining gets no list of tiles"):
        in_order(find_rung(7), "row")
    with pytest.raises(ArgumentError, match="order 'peano' is not known"):
        in_order(find_rung(8), "peano")


def launch(order, size=8192, **counters):
    return Launch(size, size, size, counters, {}, (), order)


@pytest.mark.parametrize("order", ORDERS)
def test_with_half_an_l2_the_model_reads_what_was_counted(order):
    found = profile.find_profile(8)
    launch = found and found.launch(4096, 4096, 4096, order)
    if launch is None:
        pytest.skip("no profile of N = 4096 in this order is recorded")
    modelled = l2_traffic(course_order(order, 4096), 4096, 4096, 4096, l2_bytes=H200.l2_bytes / 2).hbm_read
    assert launch.counters["dram_read_bytes"] == pytest.approx(modelled, rel=0.02)


@pytest.mark.parametrize("n", [4096, 8192, 16384])
def test_with_half_an_l2_and_clusters_in_step_rung_10_reads_what_was_counted(n):
    found = profile.find_profile(10)
    launch = found and found.launch(n, n, n)
    if launch is None:
        pytest.skip(f"no profile of N = {n} is recorded")
    tiles = grouped(n // 256, n // 256)
    modelled = hbm_read(tiles, n, backwards=True, l2_bytes=H200.l2_bytes / 2)
    assert launch.counters["dram_read_bytes"] == pytest.approx(modelled, rel=0.03)


def test_profiles_keep_the_orders_apart(tmp_path):
    first = profile.find_profile(1)
    read = {name: launch(name, dram_read_bytes=number, l2_read_hit_sectors=3, l2_read_miss_sectors=1)
            for number, name in enumerate(ORDERS)}
    for item in read.values():
        profile.write_profile(replace(first, rung="08_hilbert", launches=(item,)), tmp_path)
    found = profile.find_profile(8, directory=tmp_path)
    for number, name in enumerate(ORDERS):
        assert found.launch(8192, 8192, 8192, name).counters["dram_read_bytes"] == number
    assert found.launch(8192, 8192, 8192) == read["hilbert"], "the rung's own"
    assert found.launch(4096, 4096, 4096, "row") is None
    assert read["row"].l2_read_hit_rate == 0.75 and launch("row").l2_read_hit_rate is None


def test_the_child_of_ncu_is_told_the_order(monkeypatch):
    command = profile.launch_command(in_order(find_rung(8), "grouped"), "matmul", 512)
    assert command[-7:] == ["helpers.profile", "--launch", "08_hilbert", "matmul", "512", "--orders", "grouped"]
    told = []
    monkeypatch.setattr(profile, "run_launch", lambda *arguments: told.append(arguments))
    assert profile.main(command[-6:]) == 0 and profile.main(["--launch", "01_coalescing", "matmul", "64"]) == 0
    assert told == [("08_hilbert", "matmul", 512, "grouped", {}), ("01_coalescing", "matmul", 64, None, {})]


def test_a_part_of_the_counters_is_quicker_and_adds_to_what_is_known(tmp_path, capsys):
    names = ("l2_hit_rate_pct", "dram_read_bytes", "dram_write_bytes")
    row = dict.fromkeys((METRICS[name] for name in names[:2]), "12")
    lines = [['ID', *row], ["0", *row.values()]]
    text = "\n".join(",".join(f'"{word}"' for word in line) for line in lines)
    tool = tmp_path / "ncu"
    tool.write_text(f"#!/bin/sh\necho \"$*\" > {tmp_path}/told\ncat <<'END'\n{text}\nEND\n")
    tool.chmod(0o755)
    found = profile.collect(find_rung(8), "matmul", 512, str(tool), names=names, skipped=["dram_write_bytes"])
    told = (tmp_path / "told").read_text()
    assert "--section" not in told and "dram__bytes_write" not in told and "dram__bytes_read.sum" in told
    assert found.counters == {"l2_hit_rate_pct": 12, "dram_read_bytes": 12} and found.missing == ("dram_write_bytes",)
    first = profile.find_profile(1)
    for item in (launch("hilbert", 512, instructions=5, dram_write_bytes=7), found):
        profile.write_profile(replace(first, rung="08_hilbert", launches=(item,)), tmp_path)
    merged = profile.find_profile(8, directory=tmp_path).launch(512, 512, 512)
    assert merged.counters == {**found.counters, "instructions": 5, "dram_write_bytes": 7} and merged.missing == ()
    assert profile.main(["--rungs", "8", "--only", "l3"]) == 1
    assert "--only l3 fits no counter: names begin with global, shared, l1, l2, dram" in capsys.readouterr().err


def test_orders_of_a_rung_without_a_list_are_refused(capsys):
    assert profile.main(["--rungs", "7", "--orders", "row"]) == 1
    assert "07_pipelining gets no list of tiles" in capsys.readouterr().err


def test_speeds_by_order_are_recorded_apart_from_the_ladder(tmp_path):
    record = find_record(8, 8192, 8192, 8192)
    slow = replace(record, samples=replace(
        record.samples, kernel_ms=tuple(tuple(2 * ms for ms in item) for item in record.samples.kernel_ms)))

    def measure(kernels, size):
        assert [kernel.rung.order for kernel in kernels] == ["row", "hilbert"] and size == 8192
        return [slow, record]

    live = order_speeds(8, ("row", "hilbert"), 8192, measure)
    assert live.tflops("row") == pytest.approx(record.tflops / 2) and live.tflops("hilbert") == record.tflops
    path = write_orders(live, tmp_path)
    assert path == tmp_path / "nvidia-h200" / "orders" / "08_hilbert_8192.json"
    found = find_orders(find_rung(8), 8192, record.code_hash, tmp_path)
    assert list(found) == ["row", "hilbert"] and found["row"].tflops == pytest.approx(record.tflops / 2, rel=1e-4)
    assert find_orders(find_rung(8), 8192, "f" * 16, tmp_path) == {}
    recorded = order_speeds(8, ("row", "hilbert"), 8192, measure, tmp_path, live=False)
    assert recorded.tflops("hilbert") == pytest.approx(record.tflops, rel=1e-4) and "recorded on" in str(recorded)
    with pytest.raises(ArgumentError, match="order 'grouped' was not measured: give one of row, hilbert"):
        live.tflops("grouped")


def test_without_a_gpu_and_a_recording_there_are_words(tmp_path, monkeypatch):
    monkeypatch.setattr("helpers.gpu.probe", lambda: type("Answer", (), {"gpu": None, "problem": "none"})())
    table = order_speeds(8, ("row", "shuffled"), 4096, directory=tmp_path)
    assert str(table) == f"N=4,096: {MISSING}" and table.tflops("row") is None
    with pytest.raises(ArgumentError, match="gets no list"):
        order_speeds(7, ("row",), 4096)
    with pytest.raises(ArgumentError, match="orders is empty"):
        order_speeds(8, (), 4096)


def test_another_order_never_gets_the_recording_of_the_rung():
    from helpers.benchmark import recorded
    from helpers.kernel import load

    with pytest.raises(NoRecording, match="launched in another way"):
        recorded(load(in_order(find_rung(8), "row"), "emulator"), (8192, 8192, 8192), "burst")


def test_recorded_orders_are_of_the_current_code():
    from helpers.kernel import load

    for size in (4096, 8192, 16384):
        found = find_orders(find_rung(8), size)
        assert {item.code_hash for item in found.values()} <= {load(8, "emulator").code_hash}, size


# The exercise on the kernel


@pytest.mark.compiler
def test_a_kernel_in_another_order_is_told_which_tile_is_wrong():
    rows = edit("08_hilbert", (
        "    const int tile = order[blockIdx.x];\n    const int m0 = (tile & 0xffff) * BM, n0 = (tile >> 16) * BN;\n",
        "    const int n_tiles = (N + BN - 1) / BN;\n"
        "    const int m0 = blockIdx.x / n_tiles * BM, n0 = blockIdx.x % n_tiles * BN;\n",
    ))
    verdict = find_exercise("08.3").judge(rows)
    assert verdict.status is Status.WRONG and "tile (m, n) = (1, 0) is computed by CTA 3; it should be" in verdict.words
    listed = find_exercise("08.3").judge([("& 0xffff) * BM", "& 0xfffe | tile & 1) * BM")])
    assert "still reads `order`" in listed.words


# The pictures

MODELLED = {f"N={n:,}": {name: l2_traffic(course_order(name, n), n, n, n) for name in ORDERS} for n in (4096, 16384)}
COUNTED = {size: {name: None if name == "grouped" else 1.1 * item.hbm_read for name, item in orders.items()}
           for size, orders in MODELLED.items()}
CURVES = {f"{m} x {n}": hilbert(m, n) for m, n in ((2, 2), (4, 4), (8, 8), (11, 7), (32, 16))}
AT_16384 = {name: course_order(name, 16384) for name in ORDERS}
PACED = {"N=8,192": {"model": 9.6e8, "in step": 9.55e8, "PACE=0": 1.01e9},
         "N=16,384": {"model": 8.11e9, "in step": 8.1e9, "PACE=0": None}}
PICTURES = {
    "curves": (lambda: walks(CURVES), ["11 x 7 tiles from (0, 0) to (10, 0), each step to a neighbour"]),
    "orders": (lambda: walks({"rows": row_major(6, 9), "bands": grouped(6, 9, 2)}, "two"),
               ["two. rows: 6 x 9 tiles", "with 5 jumps"]),
    "one tile": (lambda: walks({"one": hilbert(1, 1)}), ["1 x 1 tile from (0, 0) to (0, 0)"]),
    "patches": (lambda: wave_patches(AT_16384, 20),
                ["wave 21", "row: 132 tiles, 3 of A + 64 of B = 67 strips", "hilbert: 132 tiles, 16 of A + 12 of B"]),
    "first patch": (lambda: wave_patches({"row": row_major(32, 16)}, 0), ["9 of A + 16 of B = 25 strips"]),
    "bars": (lambda: hbm_bars(MODELLED), ["row 34.1 GB (67%)", "A and B once are 1.07 GB.", "No profile is recorded."]),
    "bars with counts": (lambda: hbm_bars(MODELLED, COUNTED, "ncu, recorded on NVIDIA H200, 2026-11-29"),
                         ["row 34.1 GB (67%), 37.6 GB counted", "grouped 10.9 GB (89%);"]),
    "pace": (lambda: pace_bars(PACED, "ncu, recorded on NVIDIA H200, 2026-11-30"),
             ["N=8,192: model 960 MB, in step 955 MB, PACE=0 1.01 GB.",
              "in step 8.1 GB, PACE=0 no profile recorded."]),
    "pace without counts": (lambda: pace_bars({"N=4,096": {"model": 1.1e8, "in step": None}}, title="two"),
                            ["two. N=4,096: model 110 MB, in step no profile recorded."]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name):
    draw, sentences = PICTURES[name]
    require_legible(draw, sentences)


def test_wrong_arguments_of_the_pictures_are_refused():
    with pytest.raises(ArgumentError, match="orders is empty"):
        walks({})
    with pytest.raises(ArgumentError, match="wave is 4: these orders have 4 waves, so give 0 to 3"):
        wave_patches({"row": row_major(32, 16)}, 4)
    with pytest.raises(ArgumentError, match="modelled is empty"):
        hbm_bars({})
    for nothing in ({}, {"N=8,192": {}}):
        with pytest.raises(ArgumentError, match="read is empty"):
            pace_bars(nothing)
