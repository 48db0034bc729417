"""Every check of a picture says no to what it is there for, and nothing to a good picture."""

import numpy as np
import pytest
from picture_checks import MAX_SECONDS, problems

from helpers.plots.figure import CARD, GREY, INK, PALE, SKY, VERMILLION, YELLOW, key, new_picture, style

ALT = "A line from 0 to 1 in a frame of its own, and the text 1,071 TFLOP/s beside it."


def picture(*texts, alt=ALT, width=6.0, line=None, noise=False):
    """A picture with a line, and texts as (words, x, y, options) in shares of its axes."""
    with style():
        made = new_picture(width, 4.0)
        axes = made.add_axes((0.1, 0.1, 0.8, 0.8))
        axes.plot([0, 1], [0, 1], color=INK)
        axes.axvspan(0.7, 1, color=YELLOW)
        for words, x, y, options in texts:
            axes.text(x, y, words, **options)
        if line:
            axes.plot(*line, color=INK)
        if noise:
            axes.imshow(np.random.default_rng(0).random((500, 500)), extent=(0, 1, 0, 1), aspect="auto")
        made.alt = alt
    return made


def test_a_good_picture_has_no_problems():
    assert problems(picture(("1,071 TFLOP/s", 0.1, 0.8, {}), ("dark on light", 0.72, 0.4, {}))) == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda: picture(("one", 0.2, 0.8, {}), ("two", 0.22, 0.8, {})), "'one' covers 'two'"),
        (lambda: picture(("far", 1.2, 0.8, {})), "'far' covers '(edge)'"),
        (lambda: picture(("small", 0.2, 0.8, {"fontsize": 8})), "8.0 points"),
        (lambda: picture(("pale", 0.2, 0.8, {"color": SKY})), "'pale' has a contrast of"),
        (lambda: picture(("grey", 0.8, 0.4, {"color": GREY})), "'grey' has a contrast of"),
        (lambda: picture(("struck", 0.2, 0.8, {}), line=([0.25, 0.25], [0.7, 0.9])), "'struck' is crossed"),
        (lambda: picture(("blue: the tile", 0.2, 0.8, {})), "speaks of 'blue'"),
        (lambda: picture(width=11), "11.0 inches wide"),
        (lambda: picture(noise=True, width=9.9), "bytes"),
        (lambda: picture(alt="A line."), "7 characters"),
        (lambda: picture(alt=ALT[:-1]), "no sentence"),
        (lambda: picture(alt=ALT.replace(" in", "\nin")), "no sentence"),
        (lambda: picture(alt=ALT + " It has 1 tiles."), "'1 tiles'"),
        (lambda: picture(("at 1.98 GHz", 0.1, 0.8, {})), "leaves out 1.98"),
        (lambda: picture(("6,554 TFLOP/s", 0.1, 0.8, {})), "leaves out 6,554"),
    ],
)
def test_each_check_says_no(bad, says):
    found = problems(bad())
    assert any(says in problem for problem in found), found


def test_slow_drawing_is_a_problem():
    assert problems(picture(), MAX_SECONDS) == ["drawing it takes 3.0 s"]


def test_a_label_on_paper_is_not_crossed():
    paper = {"boxstyle": "round", "facecolor": CARD, "edgecolor": "none"}
    assert problems(picture(("kept", 0.2, 0.8, {"bbox": paper, "zorder": 5}), line=([0.25, 0.25], [0.6, 0.9]))) == []


def test_a_key_has_a_square_for_each_colour_and_its_words_do_not_meet():
    entries = [("number: the step",), ("parity 0", SKY), ("parity 1", VERMILLION), ("waits", PALE, "xx")]
    with style():
        made = new_picture(8.0, 2.0)
        key(made, 0.02, 0.5, entries)
    made.alt = ALT
    assert problems(made) == []
    assert [text.get_text() for text in made.texts] == [words for words, *_ in entries]
    squares = [artist.get_x() for artist in made.artists]
    assert len(squares) == 3 and squares == sorted(squares)
