"""The rungs of the ladder as data: what file, what shape rules, how it is launched.

Add a rung by adding a `Rung` to `RUNGS`; nothing else in the package names a kernel file.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from helpers.errors import ArgumentError

ROOT = Path(__file__).resolve().parent.parent
KERNEL_DIR = ROOT / "kernels"
NOTEBOOK_DIR = ROOT / "notebooks"


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder.

    number, name, title: `3`, `"03_register_tiling"`, `"Register tiling"`.
    entry: the `extern "C"` function that is measured; `twins` are further ones in the same file.
    tile: (rows, columns, depth) of C's tile per CTA and of one step along K.
    block: threads per CTA. grid: (ceil(N / columns), ceil(M / rows)).
    multiples: (M, N, K) must be multiples of these (1 = any size).
    alignment: bytes; the base address of each matrix must be a multiple of it.
    shared_bytes: dynamic shared memory per CTA (static shared memory is in the kernel itself).
    compute_capability: a rule, `'>=7.0'` or `'==9.0'`.
    """

    number: int
    name: str
    title: str
    idea: str
    tile: tuple[int, int, int]
    block: tuple[int, ...]
    multiples: tuple[int, int, int] = (1, 1, 1)
    alignment: int = 2
    shared_bytes: int = 0
    compute_capability: str = ">=7.0"
    entry: str = "matmul"
    twins: tuple[str, ...] = field(default=())

    @property
    def path(self) -> Path:
        """The kernel file."""
        return KERNEL_DIR / f"{self.name}.cu"

    @property
    def notebook(self) -> Path:
        """The notebook that explains it."""
        return NOTEBOOK_DIR / f"{self.name}.ipynb"

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """CTAs along x (columns of C) and y (rows of C) for an M x N result."""
        rows, columns, _ = self.tile
        return (-(-n // columns), -(-m // rows))


RUNGS: tuple[Rung, ...] = (
    Rung(
        number=1,
        name="01_coalescing",
        title="Coalescing",
        idea="a warp is one memory request",
        tile=(32, 32, 1),
        block=(1024,),
        twins=("matmul_uncoalesced",),
    ),
    Rung(
        number=2,
        name="02_smem_tiling",
        title="Shared-memory tiling",
        idea="tiles reused from shared memory",
        tile=(32, 32, 32),
        block=(1024,),
    ),
    Rung(
        number=3,
        name="03_register_tiling",
        title="Register tiling",
        idea="each thread keeps an 8 x 16 tile of C in registers",
        tile=(128, 256, 64),
        block=(256,),
        multiples=(128, 256, 64),
        alignment=16,
    ),
)


def find_rung(name: "str | int | Rung") -> Rung:
    """The rung of a number, a name or a unique prefix: `5`, `"05"`, `"05_tma"`.

    Raises ArgumentError if no rung, or more than one, answers to it.
    """
    if isinstance(name, Rung):
        return name
    text = str(name).strip()
    if re.fullmatch(r"[0-9]{1,3}", text):
        found = [rung for rung in RUNGS if rung.number == int(text)]
    else:
        found = [rung for rung in RUNGS if text and rung.name.startswith(text)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(rung.name for rung in RUNGS)
    problem = "is not a rung" if not found else "fits several rungs"
    raise ArgumentError(f"rung {text[:40]!r} {problem}: give one of {names}, its number, or a unique prefix.")
