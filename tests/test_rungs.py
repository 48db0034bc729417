"""The rungs as data agree with their kernel files, and are found by any of their names."""

import re
from dataclasses import replace

import pytest

from helpers.errors import ArgumentError
from helpers.rungs import RUNGS, Rung, find_rung

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
    entries = re.findall(r'extern "C" __global__ void[^(]*(?:\([^)]*\)\s*)?\s(\w+)\s*\(', source)
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
    assert rung.grid(1, 1) == (1, 1)
    assert rung.grid(rows, columns) == (1, 1)
    assert rung.grid(rows + 1, 2 * columns) == (2, 2)

