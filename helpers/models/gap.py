"""Bound, measured, gap: the factors between what a rung could reach at most and what it reaches."""

from dataclasses import dataclass

from helpers.checks import require_known
from helpers.errors import ArgumentError
from helpers.models.predict import Bound, number
from helpers.typed import typed

CLOCK = "clock"   # the name of that loss
SOURCES = ("counted", "modelled", "measured")


@typed
@dataclass(frozen=True)
class Loss:
    """What explains a part of the gap. factor: of the speed that it leaves, 0 to 1. source: one of SOURCES.

    Raises ArgumentError for a factor or a source that is none.
    """

    name: str
    factor: float
    reason: str
    source: str

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise ArgumentError(f"factor of {self.name!r} is {self.factor!r}: it must be above 0 and at most 1.")
        require_known(f"source of {self.name!r}", self.source, SOURCES)


@typed
@dataclass(frozen=True)
class Gap:
    """One rung. name: of it, with the size. bound: the prediction. measured: TFLOP/s. origin: of that figure.

    losses: the parts of the gap that have a name. What they leave is the `rest`.
    """

    name: str
    bound: Bound
    measured: float
    origin: str
    losses: tuple[Loss, ...]

    @property
    def share(self) -> float:
        """Measured over bound."""
        return self.measured / self.bound.tflops

    @property
    def explained(self) -> float:
        """Share of the bound that the losses leave, all together."""
        left = 1.0
        for loss in self.losses:
            left *= loss.factor
        return left

    @property
    def rest(self) -> float:
        """Measured over what the losses leave. Above 1: they overlap, or a model takes them for too large."""
        return self.share / self.explained

    def __str__(self) -> str:
        head = (
            f"{self.name}: bound {number(self.bound.tflops)} TFLOP/s ({self.bound.name}), "
            f"{self.origin} {number(self.measured)}: {self.share:.0%}"
        )
        width = max(len(loss.name) for loss in (*self.losses, Loss("the rest", 1, "", SOURCES[0])))
        lines = [
            f"    x {loss.factor:.2f}  {loss.name:<{width}}  {loss.reason} ({loss.source})" for loss in self.losses
        ]
        return "\n".join([head, *lines, f"    x {self.rest:.2f}  {'the rest':<{width}}  {self.rest_words}"])

    @property
    def rest_words(self) -> str:
        """What is in the rest."""
        if self.rest > 1:
            return "faster than these parts together: some of them overlap"
        if all(loss.name != CLOCK for loss in self.losses):
            return "with the clock in it, which is not recorded"
        return "waiting, and what nobody has modelled"
