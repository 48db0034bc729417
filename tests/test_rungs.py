"""The rungs as data agree with their kernel files, and are found by any of their names."""

import re
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from helpers.arguments import check_product, check_sizes
from helpers.benchmark import recorded
from helpers.cuda import compile_cubin
from helpers.defines import declared_defines
from helpers.errors import ArgumentError, CompileError, NoRecording
from helpers.kernel import load
from helpers.rungs import (
    APPENDIX,
    MAX_SHARED_BYTES,
    PARTITIONS,
    RUNGS,
    Box,
    Rung,
    base_of,
    find_rung,
    fitted_tiles,
    in_clusters_of_four,
    split_k,
)
from helpers.tensor_map import UNIT, tensor_map
from helpers.tile_order import ORDERS

ONE_OF_A_FILE = (*RUNGS, PARTITIONS)   # launched as the file is without defines
rungs = pytest.mark.parametrize("rung", ONE_OF_A_FILE, ids=lambda rung: rung.name)


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
    with pytest.raises(ArgumentError, match="'01_coal' fits several rungs: give one of 01_coalescing, 01_coalescing_a"):
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


@pytest.mark.parametrize("rung", ONE_OF_A_FILE[2:], ids=lambda rung: rung.name)
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



# The appendix: rows, columns, stages, parts of K, rows of A
VARIANTS = [
    (64, 128, 4, 4, None), (64, 64, 1, 1, 8), (128, 256, 1, 1, None), (128, 256, 2, 3, 104), (64, 192, 3, 8, 40),
    (128, 64, 8, 5, 128), (64, 256, 2, 7, 16), (128, 192, 5, 2, 8), (64, 64, 11, 6, 64),
]  # fmt: skip
variants = pytest.mark.parametrize("variant", VARIANTS, ids=str)


@variants
def test_a_variant_of_the_appendix_is_what_its_file_says(variant, tmp_path, monkeypatch):
    """Also where the sums take more memory than the ring, with and without a split: the file has room for both."""
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))
    rung, defines = split_k(*variant)
    rows, columns, _ = rung.tile
    assert rung.shared_bytes <= MAX_SHARED_BYTES and rung.shared_bytes % 16 == 0
    wanted = rung.constants | {"THREADS": rung.block[0], "sizeof(Shared)": rung.shared_bytes}
    path = tmp_path / rung.path.name
    source = rung.path.read_text(encoding="utf-8")
    path.write_text(source + "".join(f"static_assert({name} == {value});\n" for name, value in wanted.items()))
    compile_cubin(path, defines)
    assert rung.maps.A.rows == rung.constants["A_ROWS"] and rung.cluster == 1
    assert rung.grid(1, 8) == (rung.split, 1, 1)
    assert rung.grid(rows + 1, 2 * columns + 8) == (rung.split, 3, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((32, 64, 2, 2), "rows is 32: it must be one of 64, 128."),
        ((64, 320, 2, 2), "columns is 320: it must be one of 64, 128, 192, 256."),
        ((64, 64, 2, 9), "split is 9: it must be one of 1, 2, 3, 4, 5, 6, 7, 8."),
        ((64, 64, 2, True), "split is True: it must be one of 1, 2"),
        ((64, 64, 2, 2.0), "split is 2.0: it must be one of 1, 2"),
        ((64, 64, 0, 2), "stages is 0: it must be an integer of at least 1."),
        ((64, 64, 2, 2, 0), "a_rows is 0: it must be one of 8, 16"),
        ((64, 64, 2, 2, 12), "a_rows is 12: it must be one of 8, 16"),
        ((64, 64, 2, 2, 72), "a_rows is 72: the tile has 64 rows; give 64 at most."),
        (([64], 64, 2, 2), "rows is [64]: it must be one of 64, 128."),
        ((64, 10**4000, 2, 2), "columns is 1000"),
        ((64, 64, 15, 2), "stages is 15: shared memory has room for 14 of a tile of 64 x 64; give 14 at most."),
        ((128, 256, 5, 2), "stages is 5: shared memory has room for 4 of a tile of 128 x 256; give 4 at most."),
        ((64, 64, 10**4000, 2), "stages is 1000"),
    ],
    ids=str,
)
def test_variants_of_the_appendix_that_its_file_does_not_take_are_refused(arguments, problem):
    with pytest.raises(ArgumentError) as caught:
        split_k(*arguments)
    assert str(caught.value).startswith(problem) and len(str(caught.value)) < 200


def test_more_rows_than_the_appendix_loads_are_refused():
    few, defines = split_k(64, 64, 2, 2, a_rows=16)
    kernel = load(few, "emulator", defines=defines)
    said = (
        "^A has 70 rows but appendix_split_k was made to load 16 of them: make it with a_rows of at least M, or "
        "without, or call helpers.matmul, which chooses.$"
    )
    with pytest.raises(ArgumentError, match=said):
        kernel(np.zeros((70, 64), ml_dtypes.bfloat16), np.zeros((64, 8), ml_dtypes.bfloat16))
    with pytest.raises(ArgumentError, match="A has 17 rows"):
        check_product(few, np.zeros((17, 8), ml_dtypes.bfloat16), np.zeros((8, 8), ml_dtypes.bfloat16), "emulator")
    check_sizes(few, 16, 64, 64)
    for whole in (split_k(64, 64, 2, 2)[0], split_k(64, 64, 2, 2, 64)[0]):
        check_sizes(whole, 70, 64, 64)


@pytest.mark.parametrize(
    ("variant", "defines", "problem"),
    [
        ((64, 128, 4, 4), {"SPLIT": 2}, "SPLIT 2, but appendix_split_k is launched for 4"),
        ((64, 128, 4, 4), {"A_ROWS": 16}, "A_ROWS 16, but appendix_split_k is launched for 64"),
        ((64, 128, 4, 4), {"STAGES": "8"}, "STAGES 8, but appendix_split_k is launched for 4"),
        ((128, 128, 4, 4), None, "TILE_M 64, but appendix_split_k is launched for 128"),
        ((64, 64, 2, 2, 16), {"TILE_N": 64, "STAGES": 2, "SPLIT": 2}, "A_ROWS 64, but appendix_split_k is"),
    ],
    ids=str,
)
def test_defines_of_another_launch_are_refused(variant, defines, problem):
    """The launch would come with boxes, a grid or memory of another size: a hang or garbage on a GPU."""
    with pytest.raises(ArgumentError) as caught:
        load(split_k(*variant)[0], "emulator", defines=defines)
    assert problem in str(caught.value) and str(caught.value).endswith("split_k(...) of helpers.rungs.")


@variants
def test_defines_of_the_launch_are_taken(variant):
    rung, defines = split_k(*variant)
    assert load(rung, "emulator", defines=defines | {"MORE": "x"}).defines == defines | {"MORE": "x"}
    assert load(rung, "emulator", defines={name: str(value) for name, value in defines.items()}).rung == rung


def test_a_variant_of_the_appendix_without_a_recording_is_said_in_a_sentence_that_can_be_typed():
    rung, defines = split_k(64, 128, 4, 3, 16)
    with pytest.raises(NoRecording, match=r"load it as load\('appendix_split_k'\), or measure it on a GPU"):
        recorded(load(rung, "emulator", defines=defines), (8, 4096, 4096), "burst")
    with pytest.raises(NoRecording, match="`python -m helpers bench appendix_split_k --size 8x4096x4096`"):
        recorded(load("appendix_split_k", "emulator"), (8, 4096, 4096), "burst")


@pytest.mark.parametrize("rung", [find_rung(10), *APPENDIX], ids=lambda rung: rung.name)
def test_defaults_are_those_of_the_file(rung):
    found = declared_defines(rung.path)
    assert bool(rung.defaults) == bool(rung.maker)   # of a file that is launched in one way, nothing is compiled in
    assert rung.defaults == {name: int(found[name]) if found[name].isdigit() else found[name]
                             for name in rung.constants}


def test_clusters_of_four_are_launched_as_they_are_compiled():
    four, defines = in_clusters_of_four(find_rung(10))
    assert (four.cluster, four.grid(8192, 8192), four.constants) == (4, (120,), defines)
    assert load(four, "emulator", defines=defines).rung is four
    for rung, wrong in ((find_rung(10), defines), (four, {})):
        with pytest.raises(ArgumentError, match=r"give both from one call, rung, defines = in_clusters_of_four\("):
            load(rung, "emulator", defines=wrong)


def test_clusters_of_four_are_made_of_rung_10_alone():
    assert in_clusters_of_four() == in_clusters_of_four("10") == in_clusters_of_four(find_rung(10))
    for other in (9, find_rung(1), "appendix_split_k", PARTITIONS):
        with pytest.raises(ArgumentError, match="rung is .*, whose file has no clusters of four: give 10."):
            in_clusters_of_four(other)


FITTED = [(192, 4), (224, 2), (224, 4), (256, 3), (256, 4)]
fitted = pytest.mark.parametrize("variant", FITTED, ids=str)


@fitted
def test_fitted_tiles_are_what_their_file_says(variant, tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_CACHE", str(tmp_path / "cache"))
    height, stages = variant
    rung, defines = fitted_tiles(*variant)
    assert rung.shared_bytes <= MAX_SHARED_BYTES and rung.constants == defines and rung.tile == (height, 128, 64)
    rows, columns, depth = rung.tile
    wanted = {"HEIGHT": rows, "BN": columns, "BK": depth, "STAGES": rung.stages, "CLUSTER": rung.cluster,
              "THREADS": rung.block[0], "sizeof(Shared)": rung.shared_bytes, "BLOCK_ROWS": rung.maps.A.rows}
    path = tmp_path / rung.path.name
    source = rung.path.read_text(encoding="utf-8")
    path.write_text(source + "".join(f"static_assert({name} == {value});\n" for name, value in wanted.items()))
    compile_cubin(path, defines)
    assert rung.stages == stages and rung.maps.C == rung.maps.A
    assert rung.tiles(height + 1, 256) == (2, 1) and rung.tiles(height, 264) == (1, 2)   # of clusters, side by side
    assert rung.grid(1, 8) == (2,) and rung.grid(height + 1, 264) == (8,) and rung.grid(8192, 8192) == (132,)


@fitted
def test_fitted_tiles_are_loaded_with_their_defines_alone(variant):
    rung, defines = fitted_tiles(*variant)
    assert load(rung, "emulator", defines=defines).rung is rung
    for other in FITTED:
        if other != variant:
            with pytest.raises(ArgumentError, match=r"give both from one call, rung, defines = fitted_tiles\("):
                load(fitted_tiles(*other)[0], "emulator", defines=defines)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((128,), "height is 128: it must be one of 192, 224, 256."),
        (("192",), "height is '192': it must be one of 192, 224, 256."),
        (([192],), "height is [192]: it must be one of 192, 224, 256."),
        ((224.0,), "height is 224.0: it must be one of 192, 224, 256."),
        ((10**4000,), "height is 1000"),
        ((224, 1), "stages is 1: it must be one of 2, 3, 4."),
        ((224, 5), "stages is 5: it must be one of 2, 3, 4."),
        ((224, True), "stages is True: it must be one of 2, 3, 4."),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fitted_tiles_that_the_file_does_not_have_are_refused(arguments, problem):
    with pytest.raises(ArgumentError) as caught:
        fitted_tiles(*arguments)
    assert str(caught.value).startswith(problem) and len(str(caught.value)) < 200


def test_the_partitions_are_launched_like_the_last_rung():
    """But for a number that it draws, and C's pointer, which no thread needs where TMA alone stores."""
    last = find_rung(10)
    for field in ("tile", "block", "multiples", "alignment", "cluster", "order", "persistent", "most_ctas", "stages"):
        assert getattr(PARTITIONS, field) == getattr(last, field)
    assert PARTITIONS.partitions and PARTITIONS.dependent and not PARTITIONS.maps.C_pointer
    assert replace(PARTITIONS.maps, C_pointer=True) == last.maps
    assert PARTITIONS.shared_bytes == last.shared_bytes + 16 <= MAX_SHARED_BYTES
    assert [rung.name for rung in (*RUNGS, *APPENDIX) if rung.partitions] == ["appendix_partitions"]
    assert PARTITIONS.number == max(rung.number for rung in (*RUNGS, *APPENDIX))
    assert {"PARTITIONS", "STAGES"} == set(declared_defines(PARTITIONS.path))


def test_the_appendix_is_found_by_name():
    split, fitted, partitions = APPENDIX
    assert find_rung("appendix_split") is find_rung("appendix_split_k") is split
    assert find_rung("appendix_f") is find_rung("appendix_fitted_tiles") is fitted
    assert find_rung("appendix_p") is find_rung("appendix_partitions") is partitions is PARTITIONS
    for rung in APPENDIX:
        assert load(rung.name, "emulator").rung is rung and rung.handle == rung.name
        assert rung.path.read_text(encoding="utf-8").startswith(f"// {rung.name}: ")
    assert [rung.handle for rung in RUNGS] == [str(rung.number) for rung in RUNGS]
    assert base_of(split) is find_rung(7) and base_of(fitted) is base_of(partitions) is find_rung(10)
    assert base_of(find_rung(10)) is find_rung(9) and base_of(find_rung(1)) is None
    with pytest.raises(ArgumentError, match="several rungs: give one of appendix_split_k, appendix_fitted_tiles, "):
        find_rung("appendix_")
    with pytest.raises(ArgumentError, match="rung '11' is not a rung: give one of 01_.*, appendix_split_k, .*number"):
        find_rung(11)


@pytest.mark.parametrize("integer", [np.uint8, np.int16, np.int64])
def test_integers_of_numpy_make_the_same_rung(integer):
    """Eight bits have no room for -4, nor sixteen for the bytes of a stage."""
    assert fitted_tiles(integer(192), np.int8(3)) == fitted_tiles(192, 3)
    given = map(integer, (64, 128, 8, 2, 16))
    assert split_k(*given) == split_k(64, 128, 8, 2, 16)


def test_clusters_are_no_more_than_find_room_at_once():
    """Those of four on GPUs with fewer SMs than an H200: one that begins when others end would double the time."""
    rung, _ = in_clusters_of_four()
    assert [rung.grid(65536, 65536, sms)[0] // 4 for sms in (132, 114, 78, 17, 16)] == [30, 25, 17, 3, 4]
