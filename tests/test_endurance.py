"""The long runs, played on the emulator: what they try, and that they notice."""

import pytest

from helpers import endurance
from helpers.kernel import load
from helpers.rungs import RUNGS, find_rung
from helpers.variants import variant


@pytest.mark.parametrize("rung", RUNGS[3:], ids=lambda rung: rung.name)
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


@pytest.mark.parametrize("option", ["--shapes", "--launches"])
def test_counts_are_checked(option, capsys):
    assert endurance.main([option, "0", "--backend", "emulator"]) == 1
    assert option in capsys.readouterr().err
