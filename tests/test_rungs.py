"""The rungs as data agree with their kernel files, and are found by any of their names."""

import re
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from helpers.arguments import MAX_SHARED_BYTES
from helpers.cuda import compile_cubin
from helpers.errors import ArgumentError, CompileError
from helpers.rungs import RUNGS, Box, Rung, find_rung
from helpers.tensor_map import UNIT, tensor_map
from helpers.tile_order import ORDERS

rungs = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)


def test_numbers_count_up_and_names_begin_with_them():
    assert [rung.number for rung in RUNGS] == list(range(1, len(RUNGS) + 1))
    assert all(rung.name.startswith(f"{rung.number:02d}_") for rung in RUNGS)
    assert len({rung.name for rung in RUNGS}) == len(RUNGS)


@pytest.mark.parametrize("name", [3, "3", "03", " 03 ", "03_register", "03_register_tiling"])
def test_a_rung_is_found_by_number_name_or_prefix(name):
    assert find_rung(name).number == 3
    assert find_rung(find_rung(name)) is find_rung(3)


@pytest.mark.parametrize("name", ["", " ", "99", "-1", "3.0", "register", "03_x", None, "²", "٣", "9" * 5000])
def test_unknown_rungs_are_refused(name):
    with pytest.raises(ArgumentError, match="is not a rung: give one of 01_coalescing"):
        find_rung(name)


def test_ambiguous_prefix_is_refused(monkeypatch):
    twice = (find_rung(1), replace(find_rung(1), number=2, name="01_coalescing_again"))
    monkeypatch.setattr("helpers.rungs.RUNGS", twice)
    with pytest.raises(ArgumentError, match="rung '01_coal' fits several rungs: give one of 01_coalescing, 01_"):
        find_rung("01_coal")


@rungs
def test_kernel_file_has_the_entries_and_the_head(rung: Rung):
    source = rung.path.read_text()
    entries = re.findall(r'extern "C" __global__ void(?:\s+__\w+__\([^)]*\))*\s+(\w+)\s*\(', source)
    assert set(entries) == {rung.entry, *rung.twins}
    assert source.startswith(f"// {rung.name}: ")
    for part in ("Idea", "Changed", "Contract", "Launch"):
        assert re.search(rf"^// {part} ", source, re.M)


@rungs
def test_tile_block_and_multiples_fit_together(rung: Rung):
    threads = 1
    for size in rung.block:
        threads *= size
    assert threads % 32 == 0 and threads <= 1024
    assert re.fullmatch(r"(>=|==)\d+\.\d", rung.compute_capability)
    assert rung.alignment in (2, 4, 8, 16)
    for multiple, tile in zip(rung.multiples, rung.tile, strict=True):
        assert multiple == 1 or tile % multiple == 0
    rows, columns, _ = rung.tile
    if rung.order is None:
        assert rung.cluster == 1 and not rung.persistent
        assert rung.grid(1, 1) == (1, 1)
        assert rung.grid(rows, columns) == (1, 1)
        assert rung.grid(rows + 1, 2 * columns) == (2, 2)
    else:
        assert rung.order in ORDERS
        assert rung.grid(1, 1) == (rung.cluster,)
        assert rung.grid(rung.cluster * rows + 1, 2 * columns) == (4 * rung.cluster,)


@rungs
def test_boxes_stages_and_shared_memory_fit_together(rung: Rung):
    rows, columns, depth = rung.tile
    assert 0 <= rung.shared_bytes <= MAX_SHARED_BYTES
    assert rung.stages >= 1 and 1 <= rung.cluster <= 8
    sides = {"A": (depth, rows), "B": (columns, depth), "C": (columns, rows)}   # of a tile, the innermost first
    for name, (tile_columns, tile_rows) in sides.items():
        box: Box | None = getattr(rung.maps, name)
        if box is not None:
            assert rung.alignment == UNIT and rung.multiples[1] % 8 == rung.multiples[2] % 8 == 0
            assert tile_columns % box.columns == 0 and tile_rows % box.rows == 0
            matrix = np.zeros((2 * tile_rows, 2 * tile_columns), ml_dtypes.bfloat16)
            tensor_map(matrix, (box.columns, box.rows), box.swizzle, box.l2_promotion)   # the driver's rules
    loaded = 2 * depth * (rows + columns) if rung.maps.A or rung.maps.B else 0
    assert not rung.shared_bytes or rung.shared_bytes >= rung.stages * loaded


def constants_agree(rung: Rung, folder: Path) -> None:
    """Compiles the kernel with assertions that its constants are the rung's; the compiler names the one that is not."""
    source = rung.path.read_text(encoding="utf-8")
    rows, columns, depth = rung.tile
    wanted = {"BM": rows, "BN": columns, "BK": depth, "THREADS": int(np.prod(rung.block))}
    if re.search(r"^ *extern __shared__", source, re.M):
        wanted["sizeof(Shared)"] = rung.shared_bytes
        wanted["STAGES" if re.search(r"\bSTAGES\b", source) else "BUFFERS"] = rung.stages
    else:
        assert rung.shared_bytes == 0 and rung.stages == 1
    path = folder / rung.path.name
    path.write_text(source + "".join(f"static_assert({name} == {value});\n" for name, value in wanted.items()))
    compile_cubin(path)


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung.number >= 3], ids=lambda rung: rung.name)
def test_the_kernels_constants_are_the_rungs(rung, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))
    constants_agree(rung, tmp_path)
    with pytest.raises(CompileError, match="static assertion failed"):
        constants_agree(replace(rung, tile=(rung.tile[0], rung.tile[1] // 2, rung.tile[2])), tmp_path)


PERSISTENT = dict(tile=(128, 256, 64), block=(384,), order="hilbert", persistent=True)


@pytest.mark.parametrize(
    ("fields", "sms", "grid"),
    [
        (dict(tile=(128, 128, 64)), 132, (32, 16)),
        (dict(order="row", tile=(128, 256, 64)), 132, (256,)),
        (PERSISTENT, 132, (132,)),
        (PERSISTENT, 500, (256,)),
        (PERSISTENT, 1, (1,)),
        (PERSISTENT | dict(cluster=2), 132, (132,)),
        (PERSISTENT | dict(cluster=2), 133, (132,)),
        (PERSISTENT | dict(cluster=2), 1, (2,)),
        (PERSISTENT | dict(cluster=2, most_ctas=128), 132, (128,)),
        (PERSISTENT | dict(cluster=2, most_ctas=128), 114, (114,)),
        (PERSISTENT | dict(cluster=2), 1000, (256,)),
    ],
)
def test_grid_of_a_2048_by_4096_result(fields, sms, grid):
    rung = Rung(**dict(number=9, name="09", title="", idea="", block=(384,)) | fields)
    assert rung.grid(2048, 4096, sms) == grid
    assert rung.grid(2048 - 127, 4096 - 127, sms) == grid

