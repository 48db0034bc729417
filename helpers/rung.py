"""What a rung is: a kernel as data, and the grid and the tiles that follow. `helpers.rungs` has them all."""

from dataclasses import dataclass, field
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL_DIR = ROOT / "kernels"
NOTEBOOK_DIR = ROOT / "notebooks"

MAX_SHARED_BYTES = 227 * 1024   # of a CTA on compute capability 9.0, static and dynamic together
BF16_BYTES = 2
GPC_SMS = 16     # of a graphics processing cluster, at least; a cluster of CTAs lies in one
H200_SMS = 132   # streaming multiprocessors of an H200 and of an H100 SXM


@dataclass(frozen=True)
class Box:
    """The part of a matrix that one TMA copy moves: columns x rows elements, the innermost dimension first.

    swizzle, l2_promotion: as of `helpers.tensor_map.tensor_map`.
    """

    columns: int
    rows: int
    swizzle: str = "128B"
    l2_promotion: str = "128B"


@dataclass(frozen=True)
class Maps:
    """Which matrices a kernel gets as tensor maps, with their boxes; None: as a pointer.

    C_pointer: C goes as a pointer too, after its map, for a variant of the kernel whose threads store.
    """

    A: Box | None = None
    B: Box | None = None
    C: Box | None = None
    C_pointer: bool = False


@dataclass(frozen=True)
class Rung:
    """One kernel, of the ladder or of the appendix.

    number, name, title: `3`, `"03_register_tiling"`, `"Register tiling"`. Those of the appendix have numbers behind the
    last rung's.
    entry: the `extern "C"` function that is measured; `twins` are further ones in the same file.
    tile: (rows, columns, depth) of C's tile per CTA and of one step along K.
    block: threads per CTA. grid: (ceil(N / columns), ceil(M / rows)), unless `order` or `split` is given.
    multiples: (M, N, K) must be multiples of these (1 = any size).
    alignment: bytes; the base address of each matrix must be a multiple of it.
    shared_bytes: dynamic shared memory per CTA (static shared memory is in the kernel itself).
    compute_capability: a rule, `'>=7.5'` or `'==9.0'`.
    maps: which of A, B and C the kernel gets as tensor maps.
    stages: steps along K that are in shared memory at once.
    cluster: CTAs of a cluster, whose tiles lie one below the other in C, or side by side where `abreast`.
    order: `"hilbert"` or another of `helpers.tile_order.ORDERS`: the grid is one-dimensional and the kernel gets the
    list of tiles (with a cluster: of the clusters' tiles), each m | n << 16. None: it goes by blockIdx.
    persistent: the grid is a CTA for each SM, at most `most_ctas`, and each loops over the list.
    partitions: the kernel gets the partition of L2 that each SM is connected to, and an int that starts at zero, in
    which clusters draw numbers; the list has the upper rows of each round first (`helpers.partitions`).
    dependent: a programmatic dependent launch, which may begin while the one before ends; the kernel waits for that.
    split: CTAs of a cluster that divide K among themselves; the grid is (split, columns of tiles, rows of tiles).
    None: a CTA goes through all of K.
    most_rows: M is at most so many, where the kernel loads no more of A; None: any.
    constants: what the file's defines must be for this launch, by name; `load` refuses others.
    maker: the function of `helpers.rungs` that gives variants of the rung with other constants, and their defines.
    defaults: what the file takes for these where none is given; a text is the name of another define.
    base: the name of the kernel that its changes are told from; None: the rung before.
    ablations: defines that take a part of the kernel away; they are recorded beside it.
    `helpers.launches` says what arguments follow from this.
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
    compute_capability: str = ">=7.5"   # the oldest that NVRTC 13 compiles for
    entry: str = "matmul"
    twins: tuple[str, ...] = field(default=())
    maps: Maps = Maps()
    stages: int = 1
    cluster: int = 1
    abreast: bool = False
    order: str | None = None
    persistent: bool = False
    most_ctas: int | None = None
    partitions: bool = False
    dependent: bool = False
    split: int | None = None
    most_rows: int | None = None
    constants: dict[str, int] = field(default_factory=dict, hash=False)
    maker: str = ""
    defaults: dict[str, int | str] = field(default_factory=dict, hash=False)
    base: str | None = None
    ablations: tuple[dict[str, int], ...] = field(default=(), hash=False)

    @property
    def path(self) -> Path:
        """The kernel file."""
        return KERNEL_DIR / f"{self.name}.cu"

    @property
    def notebook(self) -> Path:
        """The notebook that explains it."""
        return NOTEBOOK_DIR / f"{self.name}.ipynb"

    @property
    def handle(self) -> str:
        """How a reader names it: by its number, if its name begins with that, or else by its name."""
        return str(self.number) if self.name.startswith(f"{self.number:02d}_") else self.name

    @property
    def cluster_tile(self) -> tuple[int, int]:
        """Rows and columns of C that a cluster computes at a time."""
        rows, columns, _ = self.tile
        return (rows, columns * self.cluster) if self.abreast else (rows * self.cluster, columns)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Tiles of an M x N result along M and N; those of a cluster count as one."""
        rows, columns = self.cluster_tile
        return (-(-m // rows), -(-n // columns))

    def grid(self, m: int, n: int, sms: int = H200_SMS) -> tuple[int, ...]:
        """CTAs for an M x N result on a GPU of so many SMs: along x (columns of C) and y (rows), or in one row.

        Where CTAs divide K: along x those of a tile, along y and z the columns and rows of C.
        """
        m_tiles, n_tiles = self.tiles(m, n)
        if self.split is not None:
            return (self.split, n_tiles, m_tiles)
        if self.order is None:
            return (n_tiles, m_tiles * self.cluster)
        clusters = m_tiles * n_tiles
        if self.persistent:
            most = min(room(self.cluster, sms), (self.most_ctas or sms) // self.cluster)
            clusters = min(clusters, max(1, most))
        return (clusters * self.cluster,)

    def rounds(self, m: int, n: int, sms: int = H200_SMS) -> int:
        """How many tiles of an M x N result a cluster of a persistent rung computes at most, one after the other."""
        clusters = self.grid(m, n, sms)[0] // self.cluster
        return -(-prod(self.tiles(m, n)) // clusters)


def room(split: int, sms: int) -> int:
    """Clusters of so many CTAs that find room at once, a CTA on each SM.

    A cluster lies in one GPC, and GPCs have 16 or 18 SMs: where there are several, clusters of three and more leave SMs
    idle (`python -m helpers.cluster_room` asks the driver).
    """
    return sms // split if split <= 2 or sms <= GPC_SMS else sms * 10 // 11 // split


def ring_bytes(tile: tuple[int, int, int], stages: int, barriers: int) -> int:
    """Shared memory for so many steps of A and B, and 8-byte mbarriers for each, in whole units of 16 bytes."""
    rows, columns, depth = tile
    return -(-stages * ((rows + columns) * depth * BF16_BYTES + 8 * barriers) // 16) * 16


def staging_bytes(box: Box) -> int:
    """Shared memory for two boxes of C for each of two consumers."""
    return 2 * 2 * box.columns * box.rows * BF16_BYTES
