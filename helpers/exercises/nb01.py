"""Exercises of notebook 1, coalescing."""

from helpers.exercises.find_the_bug import FindTheBug
from helpers.exercises.kinds import Function, Number
from helpers.models.coalescing import lane_addresses, warp_traffic


def _sectors(stride: int, width: int) -> int:
    """Sectors of a warp whose lane `i` asks for element `stride * i` of `width` bytes."""
    return warp_traffic(lane_addresses(lambda lane: stride * lane, width), width).sectors


EXERCISES = (
    Number(
        id="01.1",
        expected=lambda: _sectors(stride=2, width=2),
        names=("the number of sectors",),
        mistakes=(
            (2, "that would be 32 neighbours: these lanes skip every second element."),
            (32, "that would be a sector for each lane: but eight lanes still fall into the same 32 bytes."),
        ),
        hints=(
            "How many bytes lie between the elements of lane 0 and lane 1?",
            "Lane 31 reads element 62. At which byte does it start, counted from lane 0?",
            "The warp's addresses span 126 bytes from an aligned start. How many pieces of 32 bytes is that?",
        ),
        because="the lanes lie 4 bytes apart, so eight of them share a sector; half of each sector is not used.",
    ),
    Function(
        id="01.2",
        reference=lambda lane, row, N: row * N + lane,
        points=((0, 0, 64), (5, 0, 64), (31, 2, 64), (7, 3, 100)),
        names=("lane", "row", "N"),
        hints=(
            "Row-major: the elements of one row are neighbours in memory.",
            "Row `row` starts at element `row * N`.",
            "Neighbouring lanes should write neighbouring elements: add the lane to the start of the row.",
        ),
        because="32 lanes write 64 neighbouring bytes, two whole sectors when the row starts at a sector.",
    ),
    Number(
        id="01.3",
        expected=lambda: (_sectors(stride=1, width=4), _sectors(stride=1024, width=4)),
        names=("sectors of the coalesced request for B", "sectors of the uncoalesced request for A"),
        mistakes=(((2, 32), "the first is the figure for bf16: an fp32 has twice as many bytes."),),
        hints=(
            "How many bytes do 32 neighbours of four bytes take?",
            "128 bytes from an aligned start: how many sectors? And the twin: do two lanes ever share one?",
            "The twin's lanes lie a whole row apart. A wider element does not bring two rows into one sector.",
        ),
        because="the coalesced request grows with its bytes; the scattered one pays a sector for each lane either way.",
    ),
    FindTheBug.planted(
        "rows_of_b_as_long_as_a",
        id="01.4",
        more_sizes=((33, 95, 20), (64, 64, 64)),
        hints=(
            "Square matrices hide it: which of M, N and K could stand for one another there?",
            "The report names the array and the line. How many elements lie between B's start and row `k` of B?",
            "A row of B has N elements. The line steps over K elements for each k.",
        ),
        because="B is K x N, so its rows are N long. With N = K nobody sees the difference, which is why the checks of "
        "this course take three different sizes.",
    ),
)
