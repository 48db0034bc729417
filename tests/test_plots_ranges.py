"""Every kind of picture stays legible for the parameters that a reader would try, not for the notebook's alone.

Of each kind the first and the last parameters are tried; those between, with `--soak` only.
"""

import random
from collections.abc import Iterable

import numpy as np
import pytest
from picture_checks import require_legible

from helpers.arrays import random_matrix
from helpers.models.buffers import buffer_schedule
from helpers.models.clusters import cluster_step, shared_budget
from helpers.models.coalescing import lane_addresses
from helpers.models.descriptor import Descriptor
from helpers.models.mbarrier import Mbarrier
from helpers.models.persistence import play_tiles
from helpers.models.pipeline import Costs, play_ring
from helpers.models.predict import predict
from helpers.models.register_tile import RegisterTile
from helpers.models.registers import RegisterSplit
from helpers.models.stmatrix import stmatrix_addresses
from helpers.models.tiling import shared_loads, tile_traffic
from helpers.models.tma import place_box
from helpers.models.waves import occupancy, waves
from helpers.persistence_events import persistence_events
from helpers.plots import clusters, persistence
from helpers.plots.banks import bank_map
from helpers.plots.bounds import bound_bars
from helpers.plots.buffers import buffer_timeline
from helpers.plots.coalescing import sector_map
from helpers.plots.descriptor import descriptor_bits, operand_steps
from helpers.plots.fragments import fragment_map, store_rows
from helpers.plots.mbarrier import barrier_life
from helpers.plots.pipeline import ring_chart, ring_timeline
from helpers.plots.register_tile import loads_per_fma, thread_tile
from helpers.plots.registers import register_bars
from helpers.plots.swizzle import address_bits, chunk_places, wavefront_chart
from helpers.plots.tile_order import walks, wave_patches
from helpers.plots.tiling import tile_reuse, traffic_bars
from helpers.plots.tma import box_layout
from helpers.plots.waves import occupancy_bars, wave_chart, wave_efficiency
from helpers.ring_events import ring_events
from helpers.rungs import RUNGS
from helpers.tensor_map import tensor_map
from helpers.tile_events import tile_events
from helpers.tile_order import grouped, hilbert, row_major

RNG = random.Random(0)
COSTS = Costs(latency=800, load=768, multiply=512)
MATRIX = random_matrix(200, 328, seed=0, backend="emulator")


def lanes(step: int, width: int) -> np.ndarray:
    return lane_addresses(lambda lane: step * lane, width)


def box(columns: int, rows: int, swizzle: str, x: int, y: int, highlight: int):
    return lambda: box_layout(place_box(tensor_map(MATRIX, (columns, rows), swizzle), x, y), highlight=highlight)


def barrier(arrivals: int, expected: int, landings: int) -> list[Mbarrier]:
    states = [Mbarrier(arrivals)]
    for _ in range(arrivals - 1):
        states.append(states[-1].arrive())
    states.append(states[-1].arrive_expect_tx(expected))
    for _ in range(landings):
        states.append(states[-1].complete_tx(expected // landings))
    return states


def split(at_launch: int, producer: int, *consumers: int) -> RegisterSplit:
    after = {"producer": producer} | {f"consumer {i + 1}": registers for i, registers in enumerate(consumers)}
    return RegisterSplit(at_launch, after)


def gains(count: int, seed: int):
    rng = random.Random(seed)
    modelled = [rng.choice([1.0, rng.uniform(0.97, 1.3), rng.uniform(0.9995, 1.0005)]) for _ in range(count)]
    measured = [rng.choice([None, value + rng.uniform(-0.02, 0.02)]) for value in modelled]
    return lambda: persistence.gain_chart([2**(10 + i) for i in range(count)], modelled, measured)


def patches(m: int, n: int, wave: int, ctas: int):
    orders = {"row": row_major(m, n), "grouped": grouped(m, n), "hilbert": hilbert(m, n)}
    return lambda: wave_patches(orders, wave, ctas)


def families():
    """Label and drawing function of every picture of the sweep."""
    for width in (1, 2, 4, 8, 16):
        for step, op in ((0, "load"), (2, "store"), (9, "load"), (32, "store")):
            yield f"bank_map {step} {width}", lambda s=step, w=width, o=op: bank_map(lanes(s, w), w, o)
        yield f"sectors {width}", lambda w=width: sector_map(
            {"one": {"A": lanes(0, w)}, "other": {"A": lanes(1, w), "B": lanes(w + 1, w)}}, w)
    for width in (4, 8, 16):
        for step in (2, 16):
            yield f"wavefronts {step} {width}", lambda s=step, w=width: wavefront_chart(
                {"a long name": lanes(s, w), "": lanes(1, w)}, w)
    for row in (0, 31):
        yield f"bits {row}", lambda r=row: address_bits(r, r % 8)
    for modes in (("none", "128B"), ("64B", "32B"), ("32B",)):
        yield f"places {modes}", lambda m=modes: chunk_places(m, 7, 1)
    for warp, lane in ((0, 0), (3, 13), (7, 31)):
        yield f"thread_tile {warp} {lane}", lambda w=warp, x=lane: thread_tile(warp=w, lane=x)
    for tile in (RegisterTile(128, 128), RegisterTile(64, 256)):
        yield f"thread_tile {tile}", lambda t=tile: thread_tile(t, 1, 13)
    for m, n, k in ((32, 32, 32), (128, 8192, 64), (4096, 4096, 65536), (300, 200, 100), (16384, 16384, 16384)):
        for t in ((128, 256, 64), (1, 1, 1)):
            yield f"reuse {m} {n} {k} {t}", lambda s=(m, n, k), t=t: tile_reuse(*s, *t, (0, 0), 0)
    for sizes in ((32,), (128, 1024, 65536)):
        yield f"traffic {sizes}", lambda s=sizes: traffic_bars({f"{n}": tile_traffic(n, n, n, 32, 64) for n in s})
    for tiles in (((1, 1),), ((1, 1), (2, 2), (4, 4), (8, 8), (8, 16), (16, 16))):
        yield f"loads {tiles}", lambda t=tiles: loads_per_fma({f"{m} x {n}": shared_loads(m, n) for m, n in t})
    for registers, threads, shared in ((16, 32, 0), (255, 256, 227 * 1024), (64, 1024, 0), (32, 128, 1024)):
        yield f"occupancy {registers}", lambda a=(registers, threads, shared): occupancy_bars(occupancy(*a))
    for tiles in (1, 133, 13 * 132, 10**6):
        for ctas in (1, 16):
            yield f"waves {tiles} {ctas}", lambda t=tiles, c=ctas: wave_chart(waves(t, 132, c))
    for sizes in (np.arange(64, 1025, 64), np.arange(128, 65537, 128)):
        yield f"efficiency {sizes[-1]}", lambda s=sizes: wave_efficiency(
            s, [waves((-(-n // 128)) ** 2) for n in s.tolist()], int(s[3]))
    for rung in RUNGS:
        for size, share in ((256, 1e-3), (16384, 0.999)):
            def bounds(rung=rung, size=size, share=share):
                found = predict(rung.name, size, size, size)
                return bound_bars(found, share * found.limit.tflops, "recorded on NVIDIA H200")
            yield f"bounds {rung.name} {size}", bounds
    for columns, swizzle in ((8, "none"), (16, "32B"), (32, "64B"), (64, "128B"), (64, "none"), (256, "none")):
        for rows, x, y in ((1, 0, 0), (8, -columns // 2 // 8 * 8, -3), (64, 320, 190)):
            yield f"box {columns} {rows} {swizzle}", box(columns, rows, swizzle, x, y, rows // 8)
    for arrivals, expected, landings in ((1, 1024, 1), (3, 1 << 19, 4), (12, 49152, 2)):
        yield f"barrier {arrivals}", lambda a=(arrivals, expected, landings): barrier_life(barrier(*a))
    for steps in (1, 20, 40):
        for load, multiply in ((1, 3), (3, 1)):
            yield f"buffers {steps} {load} {multiply}", lambda s=steps, a=load, b=multiply: buffer_timeline(
                [buffer_schedule(s, buffers, a, b) for buffers in (1, 2, 3, 4)])
            yield f"ring {steps} {load} {multiply}", lambda s=steps, a=load, b=multiply: ring_timeline(
                [play_ring(s, stages, Costs(latency=a, load=a, multiply=b)) for stages in (1, 4)])
        for persistent in (True, False):
            yield f"tiles {steps} {persistent}", lambda s=steps, p=persistent: persistence.tile_timeline(
                [play_tiles(tiles, s, persistent=p) for tiles in (1, 3, 6)])
    for seed in range(2):
        address = 16 * RNG.randrange(1 << 14)
        yield f"descriptor {seed}", lambda a=address: descriptor_bits(Descriptor(a, 16, 1024))
    for rows in (1, 8, 48):
        yield f"operands {rows}", lambda r=rows: operand_steps(
            [Descriptor(32 * s, 16, 1024) for s in range(4)], [Descriptor(2048 * s, 8192, 1024) for s in range(4)],
            rows=r)
    for columns in (8, 16, 96, 256):
        yield f"fragments {columns}", lambda c=columns: fragment_map(c // 2 - 1, c)
    for width in (2, 4, 8, 16):
        yield f"stores {width}", lambda w=width: store_rows(
            {"rows": (np.arange(32) // 4 * 512 + np.arange(32) % 4 * w, w)}, 512)
    for launch in ((168, 24, 240), (168, 40, 232, 232), (128, 24, 168, 168, 152), (168, 168, 168, 168)):
        yield f"registers {launch}", lambda a=launch: register_bars(split(*a), 128)
    for shape in ((1, 1), (1, 40), (40, 1), (5, 3), (16, 16), (128, 64)):
        yield f"walks {shape}", lambda s=shape: walks({"row": row_major(*s), "grouped": grouped(*s), "h": hilbert(*s)})
    for m, n, wave, ctas in ((4, 4, 0, 4), (32, 16, 3, 132), (16, 64, 1, 128), (200, 10, 4, 78)):
        yield f"patches {m} {n}", patches(m, n, wave, ctas)
    for shapes in (((1, 1),), ((1, 1), (1, 2), (2, 1), (2, 2), (4, 1), (1, 4), (4, 2))):
        yield f"clusters {shapes}", lambda s=shapes: clusters.cluster_bars([cluster_step(*shape) for shape in s])
    for plans in (((1, 0),), ((1, 2), (2, 2), (3, 4), (4, 2), (8, 8))):
        yield f"memory {plans}", lambda p=plans: clusters.memory_bars([shared_budget(*plan) for plan in p])
    for store in (0, 3):
        yield f"stmatrix {store}", lambda s=store: clusters.stmatrix_map({"a": stmatrix_addresses(s)})
    for count in (1, 2, 4, 7):
        for seed in range(2):
            yield f"gains {count} {seed}", gains(count, seed)
    for top in (1024, 4096, 65536):
        yield f"share {top}", lambda t=top: persistence.useful_share(
            np.arange(256, t + 1, 64), {"132 CTAs": 132, "128 CTAs": 128, "all": 10**6}, (512, 1024))


PICTURES = dict(families())


def ends(names: Iterable[str]) -> list:
    """All names as parameters, of which those that are neither the first nor the last of their kind are to soak."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(name.split()[0], []).append(name)
    kept = {kind[end] for kind in kinds.values() for end in (0, -1)}
    return [pytest.param(name, marks=() if name in kept else pytest.mark.soak) for name in names]


@pytest.mark.parametrize("name", ends(PICTURES))
def test_picture_of_other_parameters(name):
    require_legible(PICTURES[name])


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("steps", "stages", "schedule"),
    [
        (1, 1, "lazy"), (12, 4, "random"),
        *(pytest.param(*shape, schedule, marks=pytest.mark.soak)
          for shape in ((1, 1), (3, 1), (8, 3), (12, 4)) for schedule in ("lazy", "random")),
    ],
)
def test_picture_of_a_ring(steps, stages, schedule):
    require_legible(lambda: ring_chart(ring_events(steps, stages, schedule, 3)))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("tiles", "steps"), [(1, 1), (5, 6), *(pytest.param(*shape, marks=pytest.mark.soak) for shape in ((2, 3), (3, 8)))]
)
def test_picture_of_a_persistent_kernel(tiles, steps):
    require_legible(lambda: persistence.tile_chart(persistence_events(tiles, steps, seed=2)))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("steps", "tiles"), [(1, 1), (4, 3), *(pytest.param(*shape, marks=pytest.mark.soak) for shape in ((2, 2), (8, 2)))]
)
def test_picture_of_a_clusters_tiles(steps, tiles):
    logs = {"consumer 1": tile_events(steps, tiles), "OVERLAP=0": tile_events(steps, tiles, {"OVERLAP": 0})}
    require_legible(lambda: clusters.tile_chart(logs))
