"""Mutants of the kernels: all are found, and a sample of them is noticed. `make soak` tries them all."""

import pytest

from helpers.bugs.table import document
from helpers.mutants import MUTATED_RUNGS, SURVIVES, WRONG, Mutant, Outcome, mutants, reason, tried
from helpers.mutants.__main__ import main, problem
from helpers.mutants.calls import calls, own_primitives, primitives
from helpers.mutants.counts import recorded, section
from helpers.mutants.harmless import HARMLESS, listed
from helpers.rungs import APPENDIX, find_rung

ALL = [mutant for rung in MUTATED_RUNGS for mutant in mutants(rung)]
SAMPLE = [mutant for mutant in ALL if not reason(mutant.rung, mutant.name)][::71]
SURVIVORS = [
    (5, "THREADS + 1"),
    (6, "wgmma_descriptor 1: leading_bytes - 16"),
    ("appendix_split_k", "barrier_sync 1: id - 1"),
    ("appendix_fitted_tiles", "wgmma_descriptor 1: leading_bytes + 16"),
    ("appendix_partitions", "sm_number 1: removed"),
]


def named(rung: int | str, name: str) -> Mutant:
    """A mutant by its name."""
    (found,) = [mutant for mutant in mutants(rung) if mutant.name == name]
    return found


@pytest.mark.compiler
@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: f"{mutant.rung} {mutant.name}")
def test_a_mutant_is_noticed(mutant):
    outcome = tried(mutant)
    assert not outcome.survives and problem(outcome) == ""


@pytest.mark.compiler
@pytest.mark.parametrize(("rung", "name"), SURVIVORS)
def test_a_harmless_mutant_is_not_reported(rung, name):
    outcome = tried(named(rung, name))
    assert outcome.survives and problem(outcome) == ""


@pytest.mark.compiler
def test_what_must_be_set_back_is_missed_when_a_mutant_is_launched_again():
    outcome = tried(named("appendix_partitions", "st_relaxed_gpu 1: removed"))
    assert outcome.caught_by == WRONG and outcome.says.endswith("what must be set back.")


def test_what_is_listed_as_harmless_is_there_once_and_says_why():
    assert len(listed()) == len(set(listed()))
    assert [entry for entry in listed() if entry not in {(mutant.rung, mutant.name) for mutant in ALL}] == []
    assert all(entry.reason.endswith(".") and "|" not in entry.reason for entry in HARMLESS)


def test_rungs_5_to_10_and_all_kernels_of_the_appendix_have_mutants():
    assert MUTATED_RUNGS == (*range(5, 11), *(rung.name for rung in APPENDIX))


def test_every_call_of_a_primitive_is_removed_once():
    for rung in MUTATED_RUNGS:
        text = find_rung(rung).path.read_text(encoding="utf-8")
        names = {mutant.name for mutant in mutants(rung)}
        assert len(names) == len(mutants(rung))
        for call in calls(text):
            assert f"{call.primitive} {call.number}: removed" in names
            parameters = (primitives() | own_primitives(text))[call.primitive]
            assert len(call.arguments) in (len(parameters), len(parameters) - 1)   # the last may have a default
    assert {"__syncthreads", "mbarrier_init", "wgmma_m64n256k16", "stmatrix_x4", "elect_sync"} <= set(primitives())


def test_mutants_are_what_their_names_say():
    text = find_rung(10).path.read_text(encoding="utf-8")
    for name, old, new in [
        ("wgmma_commit_group 1: removed", "    }\n    wgmma_commit_group();\n", "    }\n    ;\n"),
        ("cluster_ctarank 1: removed", "rank = cluster_ctarank(),", "rank = 0,"),
        ("__shfl_sync 1: removed", "__shfl_sync(~0u, threadIdx.x / 128, 0)", "(threadIdx.x / 128)"),
        ("wgmma_wait_group 1: N + 1", "wgmma_wait_group<1>()", "wgmma_wait_group<(1) + 1>()"),
        ("mbarrier_wait_cluster 1: mbarrier_wait in its place", "mbarrier_wait_cluster(&", "mbarrier_wait(&"),
        ("wgmma_m64n256k16 1: accumulate negated", "accumulate || k > 0)", "!(accumulate || k > 0))"),
        ("cp_async_bulk_tensor_store 1: map = &A_map", "store(&C_map,", "store(&A_map,"),
        ("barrier_sync 1: id, 1 -> 2 at 1", "(1 + consumer, 128);                       //",
         "(2 + consumer, 128);                       //"),
        ("cp_async_bulk_tensor_store 1: after cp_async_bulk_commit_group 1",
         "cp_async_bulk_tensor_store(&C_map, box, finished.column + block * 64, finished.row);\n"
         "        cp_async_bulk_commit_group();",
         "cp_async_bulk_commit_group();\n"
         "        cp_async_bulk_tensor_store(&C_map, box, finished.column + block * 64, finished.row);"),
        ("READERS - 1", "READERS = MULTICAST ? CLUSTER : 1;", "READERS = (MULTICAST ? CLUSTER : 1) - 1;"),
    ]:
        assert text.count(old) == 1
        assert named(10, name).text == text.replace(old, new), name
    not_moved = named("appendix_partitions", "wgmma_descriptor_advance 1: removed").text
    assert "    A = (A);   // bytes\n" in not_moved


def test_the_counts_are_those_of_these_mutants():
    assert recorded().keys() == set(MUTATED_RUNGS)
    for rung, counts in recorded().items():
        assert sum(counts.values()) == len(mutants(rung)), "run `python -m helpers.mutants --record`"
        assert counts.get(SURVIVES, 0) == sum(number == rung for number, _ in listed())
    assert section() in document()
    assert all(entry.reason in section() for entry in HARMLESS)
    why = reason("appendix_split_k", "__syncthreads 1: after griddepcontrol_wait 1")
    assert f"(rung 10, {', '.join(rung.name for rung in APPENDIX)}). {why}" in section()


def test_what_is_not_as_listed_is_said(monkeypatch, capsys):
    harmful, harmless = mutants(5)[0], named(5, "THREADS + 1")
    caught = {mutant.name: WRONG for mutant in mutants(5)} | {name: SURVIVES for rung, name in listed() if rung == 5}
    monkeypatch.setattr("helpers.mutants.__main__.tried", lambda mutant: Outcome(mutant, caught[mutant.name]))
    assert main(["--rungs", "5"]) == 0
    assert capsys.readouterr().out.endswith("\n0 mutants not as listed\n")
    with pytest.raises(SystemExit):
        main(["--rungs", "4"])
    assert "choose from 5, 6, 7, 8, 9, 10" in capsys.readouterr().err
    caught |= {harmful.name: SURVIVES, harmless.name: WRONG}
    assert main(["--rungs", "5"]) == 1
    said = capsys.readouterr().out
    assert f"5, {harmful.name}: survives, and is not listed as harmless\n" in said
    assert "5, THREADS + 1: wrong result, and is listed as harmless\n" in said
    assert said.endswith("\n2 mutants not as listed\n")
