"""An mbarrier as PTX describes it: a phase that ends when all its arrivals have come and all its bytes have landed.

    full = Mbarrier(arrivals=1)
    full = full.arrive_expect_tx(49152).complete_tx(49152)
    full.blocks(0)          # False: the phase of parity 0 has ended

Source: PTX ISA, "mbarrier", "Phase of the mbarrier object" and "Tracking asynchronous operations".
"""

from dataclasses import dataclass, replace

from helpers.checks import is_integer, require_integer
from helpers.errors import ArgumentError
from helpers.words import plural, short

MOST = (1 << 20) - 1   # arrivals and bytes that a barrier can count


@dataclass(frozen=True)
class Mbarrier:
    """The state of a barrier; each operation gives the next one.

    arrivals: that a phase waits for. phase: number of the current one, from 0. pending: arrivals that it still waits
    for (None: all). bytes: that it still waits for. event: what led here.
    """

    arrivals: int
    phase: int = 0
    pending: int | None = None
    bytes: int = 0
    event: str = "init"

    def __post_init__(self) -> None:
        require_integer("arrivals", self.arrivals, 1, MOST)
        require_integer("phase", self.phase, 0)
        require_integer("bytes", self.bytes, -MOST, MOST)
        if self.pending is not None:
            require_integer("pending", self.pending, 0, self.arrivals)
        else:
            object.__setattr__(self, "pending", self.arrivals)

    @property
    def parity(self) -> int:
        """Of the current phase."""
        return self.phase % 2

    def blocks(self, parity: int) -> bool:
        """Whether a wait with this parity would wait: while the current phase has it. Else it passes at once."""
        if not is_integer(parity) or parity not in (0, 1):
            raise ArgumentError(f"parity is {short(parity)}: it must be 0 or 1.")
        return self.parity == parity

    def arrive(self) -> "Mbarrier":
        """One arrival. Raises ArgumentError if the phase has all of its arrivals."""
        return self._arrived("arrive")._settled()

    def expect_tx(self, bytes: int) -> "Mbarrier":
        """So many more bytes are waited for."""
        require_integer("bytes", bytes, 0, MOST)
        return replace(self, bytes=self.bytes + bytes, event=f"expect {bytes:,} bytes")._settled()

    def arrive_expect_tx(self, bytes: int) -> "Mbarrier":
        """Bytes are announced, then one arrival comes."""
        require_integer("bytes", bytes, 0, MOST)
        announced = replace(self, bytes=self.bytes + bytes)
        return announced._arrived(f"expect {bytes:,} bytes, arrive")._settled()

    def complete_tx(self, bytes: int) -> "Mbarrier":
        """So many bytes have landed."""
        require_integer("bytes", bytes, 0, MOST)
        return replace(self, bytes=self.bytes - bytes, event=f"{bytes:,} bytes land")._settled()

    def _arrived(self, event: str) -> "Mbarrier":
        if self.pending == 0:
            count = plural(self.arrivals, "arrival")
            raise ArgumentError(f"phase {self.phase} has all of its {count}: let it end first.")
        return replace(self, pending=self.pending - 1, event=event)

    def _settled(self) -> "Mbarrier":
        """The next phase, if this one waits for nothing more."""
        if self.pending or self.bytes:
            return self
        return replace(self, phase=self.phase + 1, pending=self.arrivals)
