"""The bar of a long measurement: counted in planned seconds, at the pace so far, and never in the way of its lines."""

import io
from types import SimpleNamespace

import pytest

from helpers.progress import CountedTimer, Progress, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_the_pace() -> None:
    clock = Clock()
    progress = Progress(600.0, io.StringIO(), clock)
    assert progress.left_s == 600.0
    progress.work(10.0)
    clock.now += 40.0
    assert progress.left_s == 590.0, "ten seconds say nothing about the pace yet"
    progress.work(90.0)
    clock.now += 110.0   # 100 planned seconds took 150
    assert progress.left_s == pytest.approx(750.0)
    progress.total_s = 300.0   # what is current is left out
    assert progress.left_s == pytest.approx(300.0)
    progress.work(400.0)
    assert progress.left_s == 0.0 and str(progress).startswith("[" + 30 * "#" + "] 100%")


def test_a_terminal_has_a_bar_below_the_lines(capsys) -> None:
    stream = Terminal()
    progress = Progress(100.0, stream, Clock())
    progress.work(17.0)
    assert stream.getvalue() == "\r[" + 5 * "#" + 25 * "." + "]  17%, 2 min left\x1b[K"
    progress.report("measured")
    assert capsys.readouterr().out == "measured\n"
    assert stream.getvalue().endswith("\r\x1b[K\r[" + 5 * "#" + 25 * "." + "]  17%, 2 min left\x1b[K")
    progress.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_log_has_a_line_a_minute(capsys) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(300.0, stream, clock)
    for _ in range(130):
        clock.now += 1.0
        progress.work(1.0)
    progress.report("measured")
    progress.close()
    lines = stream.getvalue().splitlines()
    assert [line.split("] ")[1] for line in lines] == [" 20%, 4 min left", " 40%, 3 min left"]
    assert "\r" not in stream.getvalue() and capsys.readouterr().out == "measured\n"


def test_the_counted_timer_passes_on_and_counts() -> None:
    asked, planned = [], []
    timer = SimpleNamespace(
        burst=lambda *arguments: asked.append(arguments) or "burst", turn=lambda *arguments: asked.append(arguments)
    )
    counted = CountedTimer(timer, planned.append, 0.04)
    assert counted.burst(len, 16, 1.0, 0.3) == "burst"
    counted.burst(len, 1, 0.0, 0.3)   # warming up
    counted.turn(len, 3.0, 0.6, 250)
    assert asked == [(len, 16, 1.0, 0.3), (len, 1, 0.0, 0.3), (len, 3.0, 0.6, 250)]
    assert planned == [1.04, 3.0]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.2, "1 s"), (59, "59 s"), (61, "2 min"), (3600, "1 h 00 min"), (3661, "1 h 02 min")],
)
def test_durations(seconds, words) -> None:
    assert duration(seconds) == words
