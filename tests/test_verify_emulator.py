"""The gate on real kernels, run by the emulator: the rungs pass, and spoiled copies of them do not."""

import time
from math import prod

import numpy as np
import pytest

from helpers.arrays import random_matrix
from helpers.kernel import KernelFault, emulate, load
from helpers.rungs import APPENDIX, H200_SMS, PARTITIONS, RUNGS, find_rung, fitted_tiles, split_k
from helpers.verify import default_sizes, verify, verify_all

pytestmark = pytest.mark.compiler

SECONDS_A_RUNG = 10.0


def spoiled(tmp_path, rung, *changes):
    """A copy of a rung's file in which each old text is replaced; it must be there exactly once."""
    text = find_rung(rung).path.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    path = tmp_path / f"spoiled_{rung}.cu"
    path.write_text(text)
    return path


@pytest.mark.parametrize("rung", [*RUNGS, *APPENDIX], ids=lambda rung: rung.name)
def test_rungs_pass_on_their_own_sizes_in_time(rung):
    for entry in (rung.entry, *rung.twins):
        kernel = load(rung, "emulator", entry=entry)
        verify(kernel, rung.multiples)   # compiles
        started = time.process_time()
        for result in verify_all(kernel):
            assert result.passed, result.reason
        assert time.process_time() - started < SECONDS_A_RUNG


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_rungs_pass_in_every_order(schedule):
    for rung in (*RUNGS, *APPENDIX):
        m, n, k = rung.multiples
        result = emulate(rung, (m, n, 2 * k), schedule=schedule, seed=3, counters=False)
        assert result.verification.passed, result.verification.reason
        assert result.run.reports == [] and result.C.shape == (m, n)


MISTAKES = {
    "last k dropped": (1, (("k < K; ++k", "k < K - 1; ++k"),), "the last value of k was left out"),
    "a row unwritten": (1, (("row >= M ||", "row >= M || row == 5 ||"),), "row 5 was never written"),
    "B transposed": (
        1,
        (("B[size_t(k) * N + column]", "B[size_t(column) * K + k]"),),
        "B was read transposed",
    ),
    "C transposed": (1, (("C[size_t(row) * N + column]", "C[size_t(column) * M + row]"),), "C was stored transposed"),
    "rows beyond C": (1, (("row >= M || column >= N", "column >= N"),), "out of bounds"),
    "tile not waited for": (
        2,
        (("__syncthreads();   // the tiles are read by other threads than wrote them", ""),),
        "race",
    ),
}


@pytest.mark.parametrize(("rung", "changes", "words"), MISTAKES.values(), ids=list(MISTAKES))
def test_spoiled_kernels_are_rejected(tmp_path, rung, changes, words):
    kernel = load(rung, "emulator", file=spoiled(tmp_path, rung, *changes))
    result = verify(kernel, (40, 48, 33))
    assert not result.passed
    assert words in result.reason


LATE = {
    "k wraps at 256": (1, ("size_t(k) * N", "size_t(k & 255) * N")),
    "only 16 steps": (3, ("k0 < K;", "k0 < K && k0 < 16 * BK;")),
    "a step without its barrier": (
        3,
        ("__syncthreads();   // nobody", "if (k0 != 10 * BK) __syncthreads();   // nobody"),
    ),
    "rows of tiles wrap at 8": (3, ("(A) + blockIdx.y", "(A) + blockIdx.y % 8")),
    "columns of tiles wrap at 8": (3, ("(B) + blockIdx.x", "(B) + blockIdx.x % 8")),
}


@pytest.mark.parametrize(("rung", "change"), LATE.values(), ids=list(LATE))
def test_mistakes_after_many_tiles_or_steps_are_rejected(tmp_path, rung, change):
    kernel = load(rung, "emulator", file=spoiled(tmp_path, rung, change))
    assert verify(kernel, find_rung(rung).tile).passed
    assert not verify(kernel).passed


SPLIT = {
    "a part begins late": ("first = steps * rank / SPLIT,", "first = steps * rank / SPLIT + 1,"),
    "a part ends early": ("end = steps * (rank + 1) / SPLIT;", "end = first + steps / SPLIT;"),
    "a part ends late": ("end = steps * (rank + 1) / SPLIT;", "end = (steps * (rank + 1) + SPLIT - 1) / SPLIT;"),
    "K's last step left out": ("(K + BK - 1) / BK", "K / BK"),
    "a parity that stays": ("parity ^= 1;", "parity ^= 0;"),
    "17 rows a warp": ("thread / 32 * 16 < M", "thread / 32 * 17 < M"),
    "a CTA's sums left out": ("for (int cta = 0; cta < SPLIT", "for (int cta = 1; cta < SPLIT"),
    "blocks left out": ("block += 2 * SPLIT", "block += 2 * SPLIT + 2"),
}


@pytest.mark.parametrize("change", SPLIT.values(), ids=list(SPLIT))
def test_mistakes_of_a_split_are_rejected_by_its_own_sizes(tmp_path, change):
    rung, defines = split_k(64, 64, 2, 3, a_rows=40)
    file = spoiled(tmp_path, "appendix_split_k", change)
    assert not verify(load(rung, "emulator", defines=defines, file=file)).passed


TILE = "((next >> 16) * CLUSTER + rank) * BN;"   # the producer's
FITTED = {
    "the peer's columns of B": (TILE, "((next >> 16) * CLUSTER + (rank ^ 1)) * BN;"),
    "columns of clusters wrap at 8": (TILE, "((next >> 16) % 8 * CLUSTER + rank) * BN;"),
    "rows of tiles wrap at 16": (f"(next & 0xffff) * HEIGHT, n0 = {TILE}", f"(next & 15) * HEIGHT, n0 = {TILE}"),
    "quarters of A exchanged": ("m0 + box * BLOCK_ROWS, (1", "m0 + (box ^ 1) * BLOCK_ROWS, (1"),
    "quarters of C exchanged": ("finished.row + block * BLOCK_ROWS", "finished.row + (block ^ 1) * BLOCK_ROWS"),
    "no swizzle for C": ("(chunk ^ row) * 8", "chunk * 8"),
    "chunks of C exchanged": ("* 2 + thread / 8 % 2;", "* 2 + (thread / 8 % 2 ^ 1);"),
    "K's last step left out": ("(K + BK - 1) / BK", "K / BK"),
    "a step too far on the way back": ("steps - 1 - step", "steps - step"),
    "sums of the tile before": ("place.stage, sums, step > 0);", "place.stage, sums, step > 0 || i > first);"),
    "a parity that stays": ("parity ^= 1;", "parity ^= 0;"),
    "quarters without a step are not stored": (
        "if (finished.pending) store_block", "if (finished.pending && block < steps) store_block",
    ),
    "the last tile is not stored": ("if (finished.pending) {", "if (finished.pending && tiles > 1) {"),
    "no wait for a free stage from the third tile on": (
        "mbarrier_wait_cluster(&shared.empty", "if (i < first + 2 * clusters) mbarrier_wait_cluster(&shared.empty",
    ),
    "another phase of a full stage in the third tile": (
        "place.stage], place.parity);", "place.stage], place.parity ^ (i == first + 2 * clusters));",
    ),
    "the box is not waited for": ("cp_async_bulk_wait_group_read<1>();", "cp_async_bulk_wait_group_read<2>();"),
}  # fmt: skip


@pytest.mark.parametrize("change", FITTED.values(), ids=list(FITTED))
def test_mistakes_of_fitted_tiles_are_rejected_by_their_own_sizes(tmp_path, change):
    rung, defines = fitted_tiles(192, 2)
    file = spoiled(tmp_path, "appendix_fitted_tiles", change)
    assert not verify(load(rung, "emulator", defines=defines, file=file)).passed


NUMBER = "mbarrier_wait_cluster(&shared.has_number, 0)"
READ_AHEAD = "if (i >= clusters && i + clusters < tiles)"
SEND = "cta < CLUSTER; ++cta) st_async"
PARTITIONED = {
    "two draw the same number": ("partition == 0 ? near_0 :", "partition == 0 ? near_1 :"),
    "the others' last number is left out": ("clusters - 1 - near_1;", "clusters - 2 - near_1;"),
    "the third round is left out": ("return i + clusters;", "return i + 2 * clusters;"),
    "the third round's tile is not read": (READ_AHEAD, "if (i < 0)"),
    "the second round's tile is not read": ("if (i < tiles) next = order[i];", ";"),
    "half a cluster has the number": (SEND, SEND.replace("CLUSTER", "1")),
    "the number is not waited for": (NUMBER, "0"),
    "the number is waited for in the CTA": (NUMBER, NUMBER.replace("_cluster", "")),
    "drawn is not set back": ("st_relaxed_gpu(drawn, 0);", ";"),
    "not drawn where K is short": ("loaded == min(STAGES, steps)", "loaded == STAGES"),
    "B described by A's bytes": ("stage * (BN * BK * 2)", "stage * (BM * BK * 2)"),
    "a step too far on the way back": ("steps - 1 - step", "steps - step"),
}  # fmt: skip


@pytest.mark.parametrize("change", PARTITIONED.values(), ids=list(PARTITIONED))
def test_mistakes_of_partitions_are_rejected_by_the_size_of_several_rounds(tmp_path, change):
    size = max(default_sizes(PARTITIONS), key=lambda size: prod(PARTITIONS.tiles(*size[:2])))
    assert not verify(load(PARTITIONS, "emulator", file=spoiled(tmp_path, "appendix_partitions", change)), size).passed


STORE = "if (finished.pending) store_block"
SECOND_TILES = {   # mistakes that show after the first steps of a CTA's second tile
    "the way back is right for two steps": (10, "steps - 1 - step :", "1 - step :"),
    "a later tile has four steps": (
        "appendix_fitted_tiles", "= BLOCKS; step < steps;", "= BLOCKS; step < steps && i == first;",
    ),
    "a quarter is not stored where there are more steps": (
        "appendix_partitions", STORE, STORE.replace("pending", "pending && (block < 3 || steps < 4)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new"), SECOND_TILES.values(), ids=list(SECOND_TILES))
def test_mistakes_of_long_second_tiles_are_rejected_by_a_default_size(tmp_path, name, old, new):
    rung = find_rung(name)
    several = [size for size in default_sizes(rung) if rung.rounds(*size[:2], H200_SMS) > 1]
    kernel = load(rung, "emulator", file=spoiled(tmp_path, name, (old, new)))
    assert not verify(kernel, max(several, key=lambda size: size[2])).passed


@pytest.mark.parametrize("height", [192, 256])
def test_other_heights_pass_on_their_own_sizes(height):
    rung, defines = fitted_tiles(height)
    assert [result.reason for result in verify_all(load(rung, "emulator", defines=defines)) if not result.passed] == []


def test_call_raises_what_the_emulator_reports(tmp_path):
    file = spoiled(tmp_path, 1, ("row >= M || column >= N", "column >= N"))
    kernel = load(1, "emulator", file=file)
    A, B = random_matrix(33, 8, 1, "emulator"), random_matrix(8, 8, 2, "emulator")
    with pytest.raises(KernelFault) as caught:
        kernel(A, B)
    assert str(caught.value).startswith("spoiled_1.cu:") and "out of bounds" in str(caught.value)
    assert kernel.run.reports[0].kind == "out_of_bounds"


def test_counters_come_with_every_run_unless_they_are_turned_off():
    counted = emulate(1, (32, 32, 16)).run
    assert counted.counters and counted.totals["global_load_requests"] > 0
    assert emulate(1, (32, 32, 16), counters=False).run.counters == []
    kernel = load(1, "emulator")
    C = kernel(random_matrix(32, 16, 0, "emulator"), random_matrix(16, 32, 1, "emulator"))
    assert kernel.run.counters == counted.counters and np.isfinite(C.astype(np.float32)).all()


def test_twin_asks_for_more_sectors():
    rows = emulate(1, (64, 64, 32)).run.totals
    columns = emulate(1, (64, 64, 32), entry="matmul_uncoalesced").run.totals
    assert columns["global_load_sectors"] > 5 * rows["global_load_sectors"]
    assert columns["global_store_sectors"] == 16 * rows["global_store_sectors"]
