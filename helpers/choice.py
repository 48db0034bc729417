"""Which kernel multiplies a shape, and why: a chain of conditions, read from top to bottom."""

from dataclasses import dataclass, field

from helpers.checks import require_integer
from helpers.launches import in_order
from helpers.rungs import H200_SMS, Rung, find_rung

LAST = find_rung(10)
LARGE = 16384   # rows and columns of C from which bands of tiles read more than L2 keeps


@dataclass(frozen=True)
class Choice:
    """The kernel for a shape.

    rung: what is launched, with its order of tiles. defines: what its file is compiled with. name: for tables.
    why: one sentence.
    """

    rung: Rung
    name: str
    why: str
    defines: dict[str, int] = field(default_factory=dict, hash=False)


def choose(m: int, n: int, k: int, sms: int = H200_SMS) -> Choice:
    """The kernel for C = A @ B with A (m, k) and B (k, n) on a GPU of so many SMs.

    Raises ArgumentError for sizes that are no integers of at least 1.
    """
    for name, value in (("m", m), ("n", n), ("k", k), ("sms", sms)):
        require_integer(name, value, 1)
    if min(m, n) >= LARGE:
        why = f"C has {LARGE:,} rows and columns or more: on a Hilbert curve, tiles that run together read the least."
        return Choice(in_order(LAST, "hilbert"), f"{LAST.name}, Hilbert order", why)
    return Choice(LAST, LAST.name, "It is the fastest rung, and takes the tiles of C in bands of rows.")
