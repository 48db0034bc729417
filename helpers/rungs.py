"""The rungs of the ladder as data: what file, what shape rules, how it is launched.

Add a rung by adding a `Rung` to `RUNGS`; nothing else in the package names a kernel file.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from helpers.checks import is_integer, require_integer
from helpers.errors import ArgumentError
from helpers.words import short

ROOT = Path(__file__).resolve().parent.parent
KERNEL_DIR = ROOT / "kernels"
NOTEBOOK_DIR = ROOT / "notebooks"


MAX_SHARED_BYTES = 227 * 1024   # of a CTA on compute capability 9.0, static and dynamic together
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
    """One kernel of the ladder.

    number, name, title: `3`, `"03_register_tiling"`, `"Register tiling"`. An appendix has the number behind the last.
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
    dependent: a programmatic dependent launch, which may begin while the one before ends; the kernel waits for that.
    split: CTAs of a cluster that divide K among themselves; the grid is (split, columns of tiles, rows of tiles).
    None: a CTA goes through all of K.
    most_rows: M is at most so many, where the kernel loads no more of A; None: any.
    constants: what the file's defines must be for this launch, by name; `load` refuses others.
    maker: the function of this module that gives variants of the rung with other constants, and their defines.
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
        """How a reader names it: by its number, or the appendix by its name."""
        return str(self.number) if self.number <= len(RUNGS) else self.name

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
            clusters = min(clusters, max(1, min(sms, self.most_ctas or sms) // self.cluster))
        return (clusters * self.cluster,)


BF16_BYTES = 2
AB_MAPS = Maps(A=Box(64, 128), B=Box(64, 64))
ABC_MAPS = Maps(A=Box(64, 128), B=Box(64, 64), C=Box(64, 64), C_pointer=True)
TMA_MULTIPLES = (1, 8, 8)   # TMA moves 16 bytes at least along a row


def _ring_bytes(tile: tuple[int, int, int], stages: int, barriers: int) -> int:
    """Shared memory for so many steps of A and B, and 8-byte mbarriers for each, in whole units of 16 bytes."""
    rows, columns, depth = tile
    return -(-stages * ((rows + columns) * depth * BF16_BYTES + 8 * barriers) // 16) * 16


def _staging_bytes(box: Box) -> int:
    """Shared memory for two boxes of C for each of two consumers."""
    return 2 * 2 * box.columns * box.rows * BF16_BYTES


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
    Rung(
        number=4,
        name="04_swizzling",
        title="Swizzling",
        idea="an XOR spreads the chunks of shared memory over the banks",
        tile=(128, 256, 64),
        block=(256,),
        multiples=(128, 256, 64),
        alignment=16,
    ),
    Rung(
        number=5,
        name="05_tma",
        title="TMA",
        idea="one thread moves whole tiles while the others compute",
        tile=(128, 256, 64),
        block=(256,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 256, 64), stages=2, barriers=1),
        compute_capability=">=9.0",
        maps=AB_MAPS,
        stages=2,
        ablations=({"BUFFERS": 1},),
    ),
    Rung(
        number=6,
        name="06_wgmma",
        title="wgmma",
        idea="tensor cores multiply straight from shared memory",
        tile=(128, 128, 64),
        block=(256,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 128, 64), stages=2, barriers=1),
        compute_capability="==9.0",
        maps=AB_MAPS,
        stages=2,
    ),
    Rung(
        number=7,
        name="07_pipelining",
        title="Pipelining",
        idea="a producer loads, two consumers multiply, a ring of stages lies between them",
        tile=(128, 256, 64),
        block=(384,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 256, 64), stages=4, barriers=2),
        compute_capability="==9.0",
        maps=AB_MAPS,
        stages=4,
        ablations=({"STAGES": 1}, {"STAGES": 2}, {"STAGES": 3}),
    ),
    Rung(
        number=8,
        name="08_hilbert",
        title="Hilbert scheduling",
        idea="neighbours in time work on neighbours in space",
        tile=(128, 256, 64),
        block=(384,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 256, 64), stages=4, barriers=2),
        compute_capability="==9.0",
        maps=AB_MAPS,
        stages=4,
        order="hilbert",
    ),
    Rung(
        number=9,
        name="09_persistence",
        title="Persistence",
        idea="a CTA stays on its SM and computes one tile after the other",
        tile=(128, 256, 64),
        block=(384,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 256, 64), stages=4, barriers=2),
        compute_capability="==9.0",
        maps=AB_MAPS,
        stages=4,
        order="hilbert",
        persistent=True,
        most_ctas=128,
    ),
    Rung(
        number=10,
        name="10_clusters",
        title="Clusters",
        idea="two SMs share what they load, and a tile is stored while the next one is computed",
        tile=(128, 256, 64),
        block=(384,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes((128, 256, 64), stages=4, barriers=2) + _staging_bytes(Box(64, 64)),
        compute_capability="==9.0",
        maps=ABC_MAPS,
        stages=4,
        cluster=2,
        order="grouped",
        persistent=True,
        most_ctas=128,
        dependent=True,
        constants={"CLUSTER": 2},
        maker="in_clusters_of_four",
        defaults={"CLUSTER": 2},
        ablations=({"MULTICAST": 0}, {"TMA_STORE": 0}, {"OVERLAP": 0}, {"PACE": 0}, {"RELEASE": 1}),
    ),
)


def in_clusters_of_four(rung: "str | int | Rung" = 10) -> tuple[Rung, dict[str, int]]:
    """Rung 10 with four CTAs to a cluster, which find room on 120 SMs of an H100 or H200; its defines.

    Raises ArgumentError for a rung whose file has no such clusters.
    """
    rung, defines = find_rung(rung), {"CLUSTER": 4}
    if "CLUSTER" not in rung.defaults:
        raise ArgumentError(f"rung is {rung.name}, whose file has no clusters of four: give 10.")
    return replace(rung, cluster=4, most_ctas=120, constants=defines), defines


SPLIT_K_DEFAULTS: dict[str, int | str] = {"TILE_M": 64, "TILE_N": 128, "STAGES": 4, "SPLIT": 4, "A_ROWS": "TILE_M"}


def split_k(
    rows: int, columns: int, stages: int, split: int, a_rows: int | None = None
) -> tuple[Rung, dict[str, int]]:
    """appendix_split_k with a tile of C of rows x columns, so many stages, and K in so many parts; its defines.

    a_rows: of A that are loaded, all of the tile's by default; with fewer than those, M must not be larger.
    Raises ArgumentError for what the file does not compile with.
    """
    for name, value, known in (
        ("rows", rows, (64, 128)),
        ("columns", columns, (64, 128, 192, 256)),
        ("split", split, range(1, 9)),
        ("a_rows", rows if a_rows is None else a_rows, range(8, 129, 8)),
    ):
        if not is_integer(value) or value not in known:
            raise ArgumentError(f"{name} is {value!r}: it must be one of {', '.join(map(str, known))}.")
    require_integer("stages", stages, 1)
    loaded = rows if a_rows is None else a_rows
    if loaded > rows:
        raise ArgumentError(f"a_rows is {a_rows}: the tile has {rows} rows; give {rows} at most.")
    tile = (rows, columns, 64)
    if stages > (most := MAX_SHARED_BYTES // _ring_bytes(tile, 1, barriers=2)):
        raise ArgumentError(
            f"stages is {short(stages)}: shared memory has room for {most} of a tile of {rows} x {columns}; "
            f"give {most} at most."
        )
    partial = rows * columns * 4   # fp32 sums, where the ring was; the file has room for them without a split too
    ring = _ring_bytes(tile, stages, barriers=0)
    defines = {"TILE_M": rows, "TILE_N": columns, "STAGES": stages, "SPLIT": split}
    rung = Rung(
        number=len(RUNGS) + 1,
        name="appendix_split_k",
        title="Split K",
        idea="the CTAs of a cluster divide K and add up what they have",
        tile=tile,
        block=(128 * (1 + rows // 64),),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=max(ring, partial) + stages * 2 * 8,
        compute_capability="==9.0",
        maps=Maps(A=Box(64, loaded), B=Box(64, 64)),
        stages=stages,
        dependent=True,
        split=split,
        most_rows=loaded if loaded < rows else None,
        constants=defines | {"A_ROWS": loaded},
        maker="split_k",
        defaults=SPLIT_K_DEFAULTS,
        base="07_pipelining",
    )
    return rung, defines if a_rows is None else defines | {"A_ROWS": a_rows}


def fitted_tiles(height: int, stages: int = 4) -> tuple[Rung, dict[str, int]]:
    """appendix_fitted_tiles, whose clusters compute tiles of 192, 224 or 256 rows and 256 columns; its defines.

    stages: 2 to 4. Raises ArgumentError for what the file does not compile with.
    """
    for name, value, known in (("height", height, (192, 224, 256)), ("stages", stages, range(2, 5))):
        if not is_integer(value) or value not in known:
            raise ArgumentError(f"{name} is {short(value)}: it must be one of {', '.join(map(str, known))}.")
    tile = (height, 128, 64)
    quarter = Box(64, height // 4)   # of A, and of C
    defines = {"HEIGHT": height, "STAGES": stages}
    rung = Rung(
        number=len(RUNGS) + 2,
        name="appendix_fitted_tiles",
        title="Fitted tiles",
        idea="tiles as tall as fill the last round",
        tile=tile,
        block=(384,),
        multiples=TMA_MULTIPLES,
        alignment=16,
        shared_bytes=_ring_bytes(tile, stages, barriers=2) + _staging_bytes(quarter),
        compute_capability="==9.0",
        maps=Maps(A=quarter, B=Box(64, 64), C=quarter),
        stages=stages,
        cluster=2,
        abreast=True,
        order="grouped",
        persistent=True,
        dependent=True,
        constants=dict(defines),
        maker="fitted_tiles",
        defaults={"HEIGHT": 224, "STAGES": 4},
        base="10_clusters",
    )
    return rung, defines


# What the files compile to without defines.
APPENDIX: tuple[Rung, ...] = (split_k(64, 128, 4, 4)[0], fitted_tiles(224)[0])


def base_of(rung: Rung) -> Rung | None:
    """The kernel that a rung's changes are told from: the rung before, or what it names; None for the first."""
    if rung.base is not None:
        return find_rung(rung.base)
    return next((other for other in RUNGS if other.number == rung.number - 1), None)


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
        found = [rung for rung in (*RUNGS, *APPENDIX) if text and rung.name.startswith(text)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(rung.name for rung in (*RUNGS, *APPENDIX))
    problem = "is not a rung" if not found else "fits several rungs"
    raise ArgumentError(f"rung {text[:40]!r} {problem}: give one of {names}, its number, or a unique prefix.")
