"""The rungs of the ladder as data: what file, what shape rules, how it is launched.

Add a rung by adding a `Rung` to `RUNGS`; nothing else in the package names a kernel file.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from helpers.checks import is_integer, require_integer
from helpers.errors import ArgumentError
from helpers.rung import (
    BF16_BYTES,
    H200_SMS,
    KERNEL_DIR,
    MAX_SHARED_BYTES,
    NOTEBOOK_DIR,
    ROOT,
    Box,
    Maps,
    Rung,
    ring_bytes,
    staging_bytes,
)
from helpers.words import short

__all__ = [
    "APPENDIX", "BF16_BYTES", "FITTED_HEIGHTS", "H200_SMS", "KERNEL_DIR", "MAX_SHARED_BYTES", "NOTEBOOK_DIR",
    "PARTITIONS", "ROOT", "RUNGS", "Box", "Maps", "Rung", "base_of", "find_rung", "fitted_tiles", "in_clusters_of_four",
    "split_k",
]

AB_MAPS = Maps(A=Box(64, 128), B=Box(64, 64))
ABC_MAPS = Maps(A=Box(64, 128), B=Box(64, 64), C=Box(64, 64), C_pointer=True)
TMA_MULTIPLES = (1, 8, 8)   # TMA moves 16 bytes at least along a row

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
        shared_bytes=ring_bytes((128, 256, 64), stages=2, barriers=1),
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
        shared_bytes=ring_bytes((128, 128, 64), stages=2, barriers=1),
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
        shared_bytes=ring_bytes((128, 256, 64), stages=4, barriers=2),
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
        shared_bytes=ring_bytes((128, 256, 64), stages=4, barriers=2),
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
        shared_bytes=ring_bytes((128, 256, 64), stages=4, barriers=2),
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
        shared_bytes=ring_bytes((128, 256, 64), stages=4, barriers=2) + staging_bytes(Box(64, 64)),
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
    rows = _one_of("rows", rows, (64, 128))
    columns = _one_of("columns", columns, (64, 128, 192, 256))
    split = _one_of("split", split, range(1, 9))
    loaded = rows if a_rows is None else _one_of("a_rows", a_rows, range(8, 129, 8))
    require_integer("stages", stages, 1)
    stages = int(stages)
    if loaded > rows:
        raise ArgumentError(f"a_rows is {a_rows}: the tile has {rows} rows; give {rows} at most.")
    tile = (rows, columns, 64)
    if stages > (most := MAX_SHARED_BYTES // ring_bytes(tile, 1, barriers=2)):
        raise ArgumentError(
            f"stages is {short(stages)}: shared memory has room for {most} of a tile of {rows} x {columns}; "
            f"give {most} at most."
        )
    partial = rows * columns * 4   # fp32 sums, where the ring was; the file has room for them without a split too
    ring = ring_bytes(tile, stages, barriers=0)
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
    return rung, defines if a_rows is None else defines | {"A_ROWS": loaded}


FITTED_HEIGHTS = (192, 224, 256)   # rows of a tile for which the file has a wgmma


def fitted_tiles(height: int, stages: int = 4) -> tuple[Rung, dict[str, int]]:
    """appendix_fitted_tiles, whose clusters compute tiles of 192, 224 or 256 rows and 256 columns; its defines.

    stages: 2 to 4. Raises ArgumentError for what the file does not compile with.
    """
    height = _one_of("height", height, FITTED_HEIGHTS)
    stages = _one_of("stages", stages, range(2, 5))
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
        shared_bytes=ring_bytes(tile, stages, barriers=2) + staging_bytes(quarter),
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


_NUMBER_BYTES = 16   # of a barrier and what it brings, at the end of shared memory
PARTITIONS = replace(
    RUNGS[-1],
    number=len(RUNGS) + 3,
    name="appendix_partitions",
    title="Partitions",
    idea="each half of the chip computes rows that lie next to each other",
    shared_bytes=RUNGS[-1].shared_bytes + _NUMBER_BYTES,
    maps=replace(ABC_MAPS, C_pointer=False),
    partitions=True,
    constants={},
    maker="",
    defaults={},
    base="10_clusters",
    ablations=({"PARTITIONS": 0},),
)


def _one_of(name: str, value: object, known: Sequence[int]) -> int:
    """The argument as Python's integer: NumPy's overflow. Raises ArgumentError if it is none that is known."""
    if not is_integer(value) or value not in known:
        raise ArgumentError(f"{name} is {short(value)}: it must be one of {', '.join(map(str, known))}.")
    return int(value)


# What the files compile to without defines.
APPENDIX: tuple[Rung, ...] = (split_k(64, 128, 4, 4)[0], fitted_tiles(224)[0], PARTITIONS)


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
    names = ", ".join(rung.name for rung in found or (*RUNGS, *APPENDIX))
    problem = "is not a rung" if not found else "fits several rungs"
    raise ArgumentError(f"rung {text[:40]!r} {problem}: give one of {names}, its number, or a unique prefix.")
