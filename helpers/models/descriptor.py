"""The 64 bits that tell wgmma where an operand lies in shared memory, and the bytes that it then reads.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout": "Matrix Descriptor Format" and "Strides".
The layouts are also checked against what an H200 did (tests/conformance).
"""

from dataclasses import dataclass

import numpy as np

from helpers.checks import is_integer, require_integer, require_kind, require_known
from helpers.errors import ArgumentError
from helpers.models.swizzle import Swizzle
from helpers.typed import typed
from helpers.words import short

UNIT = 16                # bytes: addresses and offsets go into the descriptor divided by it
LIMIT = UNIT << 14       # the fields have 14 bits
DEPTH = 16               # k of one wgmma
CHUNK = 8                # bf16 in 16 bytes
ROW = 64                 # bf16 in a row of 128 bytes
ELEMENT_BYTES = 2
MOST_EXTENT = 256        # N of the widest wgmma
SWIZZLES = ("none", "128B", "64B", "32B")   # by the value of the field


@dataclass(frozen=True)
class Field:
    """Bits `low` to `low + width - 1` of a descriptor. unit: what the field's value is multiplied by, in bytes."""

    name: str
    low: int
    width: int
    unit: int = 1

    def of(self, bits: int) -> int:
        """The field's value as it stands in the bits."""
        return bits >> self.low & (1 << self.width) - 1


ADDRESS = Field("address", 0, 14, UNIT)
LEADING = Field("leading offset", 16, 14, UNIT)
STRIDE = Field("stride offset", 32, 14, UNIT)
BASE = Field("base offset", 49, 3)   # 0 for tiles that start at a multiple of 1024 bytes, as all here do
SWIZZLE = Field("swizzle mode", 62, 2)
FIELDS = (ADDRESS, LEADING, STRIDE, BASE, SWIZZLE)


@typed
@dataclass(frozen=True)
class Descriptor:
    """An operand in shared memory.

    address: byte of the first element. leading_bytes, stride_bytes: distances whose meaning depends on the layout, see
    `operand_bytes`. swizzle: "none", "128B", "64B" or "32B".
    Raises ArgumentError for what the bits cannot hold.
    """

    address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: str = "128B"

    def __post_init__(self) -> None:
        for name in ("address", "leading_bytes", "stride_bytes"):
            value = getattr(self, name)
            if not is_integer(value) or not 0 <= value < LIMIT or value % UNIT:
                raise ArgumentError(f"{name} is {short(value)}: it must be a multiple of {UNIT} below {LIMIT:,}.")
        require_known("swizzle", self.swizzle, SWIZZLES)

    @property
    def bits(self) -> int:
        """The 64 bits, as `wgmma_descriptor` in kernels/hopper.cuh makes them."""
        values = {
            ADDRESS: self.address // UNIT,
            LEADING: self.leading_bytes // UNIT,
            STRIDE: self.stride_bytes // UNIT,
            SWIZZLE: SWIZZLES.index(self.swizzle),
        }
        return sum(value << field.low for field, value in values.items())

    def __str__(self) -> str:
        return (
            f"{self.bits:#018x}: byte {self.address:,}, leading offset {self.leading_bytes:,} bytes, stride offset "
            f"{self.stride_bytes:,} bytes, swizzle {self.swizzle}"
        )


def decode(bits: int) -> Descriptor:
    """The descriptor that 64 bits stand for. Raises ArgumentError for bits that have no meaning here."""
    if not is_integer(bits) or not 0 <= bits < 1 << 64:
        raise ArgumentError(f"bits is {hex(bits) if is_integer(bits) else short(bits)}: a descriptor has 64 bits.")
    bits = int(bits)
    used = sum((1 << field.width) - 1 << field.low for field in FIELDS)
    if bits & ~used or BASE.of(bits):
        raise ArgumentError(f"bits is {bits:#x}: the bits outside of the fields, and the base offset, must be 0.")
    address, leading, stride = (UNIT * field.of(bits) for field in (ADDRESS, LEADING, STRIDE))
    return Descriptor(address, leading, stride, SWIZZLES[SWIZZLE.of(bits)])


@typed
def operand_bytes(descriptor: Descriptor, extent: int, major: str) -> np.ndarray:
    """The byte of shared memory where each element of an operand begins, int, shape (extent, 16).

    extent: 64 rows of A, or N columns of B. major: along what neighbours in memory lie, "K", or "MN" (M of A, N of B).

    128B, "K":  a row of 128 bytes holds 64 k of one m (or n); rows follow each other in groups of eight, and
                `stride_bytes` lead from group to group. `leading_bytes` is not used.
    128B, "MN": a row holds 64 m (or n) of one k; `stride_bytes` lead to the next eight k, `leading_bytes` to the next
                64 m (or n).
    none, "K":  blocks of 8 x 8, rows of 16 bytes; `stride_bytes` to the next eight m (or n), `leading_bytes` to the
                next eight k.
    none, "MN": the same with `stride_bytes` to the next eight m (or n) and `leading_bytes` to the next eight k, the
                rows of a block holding eight m (or n) of one k.
    Raises ArgumentError for another major, or for the swizzles that the course does not use.
    """
    require_kind("descriptor", descriptor, Descriptor, "make it with Descriptor(...) or decode(bits)")
    require_integer("extent", extent, 1, MOST_EXTENT)
    require_known("major", major, ("K", "MN"))
    if descriptor.swizzle not in ("none", "128B"):
        raise ArgumentError(f"swizzle is {descriptor.swizzle!r}: only 'none' and '128B' are modelled.")
    leading, stride = descriptor.leading_bytes, descriptor.stride_bytes
    mn, k = np.arange(extent)[:, None], np.arange(DEPTH)[None, :]
    if descriptor.swizzle == "128B":
        if major == "K":
            offsets = mn // 8 * stride + mn % 8 * 128 + k * ELEMENT_BYTES
        else:
            offsets = mn // ROW * leading + k // 8 * stride + k % 8 * 128 + mn % ROW * ELEMENT_BYTES
        return Swizzle("128B")(descriptor.address + offsets)
    inner, outer = (k, mn) if major == "K" else (mn, k)
    return (
        descriptor.address + mn // 8 * stride + k // 8 * leading + outer % 8 * UNIT + inner % 8 * ELEMENT_BYTES
    )
