"""The long runs, played on the emulator: what they try, and that they notice."""

import pytest

from helpers import endurance
from helpers.kernel import load
from helpers.rungs import RUNGS, find_rung
from helpers.subjects import CLUSTERS, FITTED, PARTITIONED, SPLITS, VARIANTS, Subject
from helpers.variants import variant

TRIED = [*RUNGS[3:], *(subject.rung for subject in (*CLUSTERS, *FITTED, PARTITIONED))]


@pytest.mark.parametrize("rung", TRIED, ids=lambda rung: f"{rung.name} {rung.constants}")
def test_the_shapes_suit_the_rung_and_go_round_its_stages(rung):
    chosen = endurance.sizes(rung, 40, 1)
    assert len(chosen) == 40 and chosen == endurance.sizes(rung, 40, 1) != endurance.sizes(rung, 40, 2)
    for size in chosen:
        assert all(length % multiple == 0 < length for length, multiple in zip(size, rung.multiples, strict=True))
    steps = {k // rung.tile[2] for m, n, k in chosen[:6]}
    assert {1, rung.stages, rung.stages + 1} <= steps
    rounds = [rung.grid(m, n)[0] // rung.cluster < rung.tiles(m, n)[0] * rung.tiles(m, n)[1] for m, n, k in chosen]
    assert any(rounds) or not rung.persistent
    if rung.multiples[0] == 1:
        assert chosen[0] == (1, *rung.multiples[1:]) and any(m == 1 and n > 1000 for m, n, k in chosen)


@pytest.mark.parametrize("subject", SPLITS, ids=lambda subject: subject.name)
def test_the_shapes_of_the_appendix_go_round_the_stages_of_each_part_and_keep_to_its_rows(subject):
    rung = subject.rung
    chosen = endurance.sizes(rung, 40, 1)
    for size in chosen:
        assert all(length % multiple == 0 < length for length, multiple in zip(size, rung.multiples, strict=True))
    rows = {m for m, _, _ in chosen}
    assert len(rows) > 5 and (rung.most_rows is None or max(rows) == rung.most_rows)
    each = [k / rung.tile[2] / rung.split for _, _, k in chosen[1:5]]
    assert each == [1 / rung.split, rung.stages - 1, rung.stages, rung.stages + 1]


@pytest.mark.compiler
def test_a_right_kernel_has_no_problem():
    assert endurance.problem(load("07_pipelining", "emulator"), (130, 264, 72), 4) == ""


@pytest.mark.compiler
def test_a_wrong_kernel_is_named():
    file = variant("06_wgmma", ("step > 0 || k > 0", "step > 1 || k > 0"), name="endurance")
    assert "WRONG" in endurance.problem(load("06_wgmma", "emulator", file=file), (128, 128, 192), 2)


@pytest.mark.compiler
def test_a_launch_that_differs_is_counted():
    kernel = load(find_rung(4), "emulator")
    prepared, count = kernel.prepared, []

    def spoiled(A, B, out):
        launch = prepared(A, B, out)

        def run():
            launch()
            count.append(1)
            if len(count) == 5:
                out[0, 0] = 7.0

        return run

    kernel.prepared = spoiled
    assert endurance._repeat(kernel, (128, 256, 64), 6, 0) == 1


def test_what_is_no_rung_is_refused_before_another_one_runs(monkeypatch, capsys):
    monkeypatch.setattr(endurance, "problems", lambda *_: pytest.fail("it ran"))
    assert endurance.main(["--rungs", "10", "11", "--backend", "emulator"]) == 1
    assert capsys.readouterr().err.startswith("rung '11' is not a rung: ")


def test_variants_are_loaded_by_their_names_each_once(monkeypatch, capsys):
    loaded = []
    monkeypatch.setattr(endurance, "problems", lambda kernel, *_: loaded.append(kernel) or ["", "bad"])
    names = ["10", CLUSTERS[0].name, "10_clusters", CLUSTERS[0].name, "appendix_split_k", SPLITS[2].name]
    assert endurance.main(["--rungs", *names, "--backend", "emulator"]) == 1
    wanted = (Subject(find_rung(10)), *CLUSTERS, *SPLITS)
    assert [(kernel.rung, kernel.defines) for kernel in loaded] == [(item.rung, dict(item.defines)) for item in wanted]
    said = capsys.readouterr().out.splitlines()
    assert said[:3:2] == ["bad", f"{CLUSTERS[0].name}: bad"]
    assert said[3].startswith("10_clusters+CLUSTER-4, <Kernel 10_clusters.matmul on emulator>: 60 shapes")
    assert endurance.main(["--rungs", *(subject.name for subject in VARIANTS), "--backend", "emulator"]) == 1
    assert len(loaded) == len(wanted) + len(VARIANTS)


def test_rungs_4_to_10_are_tried_by_default_and_variants_that_nobody_watches_never(monkeypatch, capsys):
    loaded = []
    monkeypatch.setattr(endurance, "problems", lambda kernel, *_: loaded.append(kernel.rung.number) or [])
    assert endurance.main(["--backend", "emulator"]) == 0 and loaded == [4, 5, 6, 7, 8, 9, 10]
    capsys.readouterr()
    assert endurance.main(["--rungs", "10_clusters+CLUSTER-3", "--backend", "emulator"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("'10_clusters+CLUSTER-3' is no variant that is watched: give one of 10_clusters, 10_cl")


@pytest.mark.compiler
def test_a_variant_is_launched_as_it_is_compiled(capsys):
    names = [CLUSTERS[0].name, SPLITS[-1].name, FITTED[1].name, PARTITIONED.name]
    assert endurance.main(["--rungs", *names, "--shapes", "2", "--launches", "4", "--backend", "emulator"]) == 0
    assert capsys.readouterr().out.count("2 shapes, 4 launches, 0 bad") == len(names)


@pytest.mark.parametrize("option", ["--shapes", "--launches"])
def test_counts_are_checked(option, capsys):
    assert endurance.main([option, "0", "--backend", "emulator"]) == 1
    assert option in capsys.readouterr().err
