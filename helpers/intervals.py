"""A distribution-free confidence interval for a median, from the order statistics of a few samples.

Source: the sign test turned round, e.g. Conover, "Practical Nonparametric Statistics", section on quantiles: for n
independent samples the chance that the median lies outside [x(r), x(n + 1 - r)] is 2 * P(Binomial(n, 1/2) < r).
No shape of the distribution is assumed, and no random numbers are drawn, so the same samples give the same interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.errors import ArgumentError


@dataclass(frozen=True)
class Interval:
    """A closed interval for a median.

    low, high: in the unit of the samples.
    coverage: the chance (0 to 1) that such an interval contains the median. Fewer than six samples cannot reach 0.95:
    then the interval is the whole range, and the coverage says what that is worth (5 samples: 0.9375, 1 sample: 0).
    """

    low: float
    high: float
    coverage: float


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises ArgumentError for no values."""
    if not len(values):
        raise ArgumentError("values is empty: a median needs at least one sample.")
    ordered = sorted(float(value) for value in values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """First and third quartile, linear between neighbours (NumPy's default). Raises ArgumentError for no values."""
    if not len(values):
        raise ArgumentError("values is empty: quartiles need at least one sample.")
    ordered = sorted(float(value) for value in values)

    def quantile(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = math.floor(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return quantile(0.25), quantile(0.75)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """The narrowest symmetric order-statistics interval whose coverage reaches `confidence`, else the whole range.

    Nine samples give the second smallest to the second largest (coverage 0.961), six the whole range (0.969).
    Raises ArgumentError for no values, or a confidence outside (0, 1).
    """
    if not len(values):
        raise ArgumentError("values is empty: an interval needs at least one sample.")
    if not 0 < confidence < 1:
        raise ArgumentError(f"confidence is {confidence}: give a number between 0 and 1, e.g. 0.95.")
    ordered = sorted(float(value) for value in values)
    count = len(ordered)
    best = Interval(ordered[0], ordered[-1], 1 - 2 * 0.5**count)
    outside = 0.5**count   # P(Binomial(count, 1/2) < rank) for rank = 1
    for rank in range(2, count // 2 + 1):
        outside += math.comb(count, rank - 1) * 0.5**count
        if 1 - 2 * outside < confidence:
            break
        best = Interval(ordered[rank - 1], ordered[count - rank], 1 - 2 * outside)
    return best
