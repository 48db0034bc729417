"""Rung 10 in pictures: bytes from L2 by shape of the cluster, the shared memory, what is stored when and where."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_some
from helpers.errors import ArgumentError
from helpers.models.clusters import ClusterStep, SharedBudget
from helpers.models.fragments import WARP_ROWS
from helpers.models.machine import H200, ROW_BYTES, WARP, Gpu
from helpers.models.stmatrix import MATRIX_ROWS
from helpers.models.swizzle import CHUNK_BYTES
from helpers.plots.figure import (
    GREY,
    INK,
    MATRIX,
    ON,
    PALE,
    PHASES,
    SKY,
    YELLOW,
    Picture,
    key,
    new_picture,
    style,
)
from helpers.plots.lanes import fits
from helpers.tile_events import PRODUCER, Action, TileLog
from helpers.typed import typed
from helpers.words import plural

_ROW = 0.5   # inches
_PAGE = 9.4
_WIDTH, _MORE = 7.19, 1.02   # of the bars of memory: inches, and times the longest one
_PARTS = {"A": MATRIX["A"], "B": MATRIX["B"], "C": MATRIX["C"], "barriers": YELLOW}
_TILES = (SKY, YELLOW)   # the actions of a tile, in turn


@typed
def cluster_bars(steps: Sequence[ClusterStep], gpu: Gpu = H200, title: str = "") -> Picture:
    """A bar for each cluster: what a CTA fetches from L2 per clock, A and B, if the tensor cores never wait.

    The dashed line is what the bounds reckon that an SM takes in.
    """
    require_some("steps", steps, most=20)
    heading = title or "Bytes from L2 for each clock and SM, if the tensor cores never wait"
    with style():
        height = 0.55 + _ROW * len(steps) + 0.95
        picture = new_picture(_PAGE, height)
        axes = picture.add_axes((0.13, 0.62 / height, 0.84, _ROW * len(steps) / height))
        for row, step in enumerate(steps):
            left = 0.0
            for name, size in (("A", step.fetched_a), ("B", step.fetched_b)):
                width = size / step.clocks
                color = MATRIX[name]
                axes.barh(row, width, 0.62, left, color=color, edgecolor=INK, lw=0.9)
                axes.text(left + width / 2, row, f"{name} {width:.0f}", ha="center", va="center", color=ON[color])
                left += width
            axes.text(left + 0.7, row, f"{left:.0f}", va="center", fontweight="bold")
        axes.axvline(gpu.l2_bytes_per_clock_sm, color=INK, lw=1.6, ls=(0, (4, 3)))
        axes.set_xlim(0, gpu.l2_bytes_per_clock_sm * 1.06)
        axes.set_ylim(len(steps) - 0.5, -0.5)
        axes.set_yticks(range(len(steps)), [step.name for step in steps])
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("bytes a clock and SM")
        words = f"dashed: the {gpu.l2_bytes_per_clock_sm} that bounds reckon with"
        picture.text(0.97, 1 - 0.5 / height, words, ha="right", va="center", fontsize=10.5)
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        parts = "; ".join(
            f"{step.name}: A {step.fetched_a / step.clocks:.0f} and B {step.fetched_b / step.clocks:.0f}, together "
            f"{step.bytes_per_clock:.0f}" for step in steps
        )
        picture.alt = f"{heading}. {parts}. The bounds reckon with {gpu.l2_bytes_per_clock_sm} bytes a clock."
    return picture


@typed
def memory_bars(budgets: Sequence[SharedBudget], title: str = "") -> Picture:
    """A bar for each plan of a CTA's shared memory, by what lies in it; the dashed line is all that a CTA can have."""
    heading = title or "Shared memory of a CTA"
    require_some("budgets", budgets, most=20)
    limit = budgets[0].limit
    most = max(limit, *(budget.total for budget in budgets))
    with style():
        height = 0.95 + _ROW * len(budgets) + 0.62
        picture = new_picture(_PAGE, height)
        axes = picture.add_axes((0.215, 0.62 / height, _WIDTH / _PAGE, _ROW * len(budgets) / height))
        for row, budget in enumerate(budgets):
            left = 0
            for name, size in budget.parts.items():
                axes.barh(row, size, 0.62, left, color=_PARTS[name], edgecolor=INK, lw=0.9)
                label = f"{size:,}"
                if fits(label, size / (_MORE * most) * _WIDTH):
                    paper = {"boxstyle": "round,pad=0.1", "facecolor": _PARTS[name], "edgecolor": "none"}
                    axes.text(left + size / 2, row, label, ha="center", va="center", color=ON[_PARTS[name]], bbox=paper)
                left += size
        axes.axvline(limit, color=INK, lw=1.6, ls=(0, (4, 3)))
        axes.set_xlim(0, most * _MORE)
        axes.set_ylim(len(budgets) - 0.5, -0.5)
        left = [f"{budget.free:,} left" if budget.free >= 0 else f"{-budget.free:,} too many" for budget in budgets]
        names = [f"{budget.name}\n{words}" for budget, words in zip(budgets, left, strict=True)]
        axes.set_yticks(range(len(budgets)), names, linespacing=1.1)
        axes.tick_params(axis="y", length=0, labelsize=10.5)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("bytes")
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        words = ("A, all stages", "B, all stages", "staging of C", "barriers (a hair)")
        key(picture, 0.015, 1 - 0.62 / height, list(zip(words, _PARTS.values(), strict=True)))
        words = f"dashed: all there is, {limit:,}"
        picture.text(0.985, 1 - 0.62 / height, words, ha="right", va="center", fontsize=10.5)
        found = []
        for budget in budgets:
            parts = ", ".join(f"{name} {size:,}" for name, size in budget.parts.items())
            found.append(f"{budget} ({parts})")
        picture.alt = f"{heading}, in bytes. {'; '.join(found)}."
    return picture


@typed
def stmatrix_map(boxes: Mapping[str, Sequence[int]], title: str = "") -> Picture:
    """Which lane addresses which 16 bytes of the first 16 rows of a staging box, a panel for each list of addresses.

    boxes: by label, the 32 addresses of a warp's stmatrix, in bytes of the box. A colour for each matrix: eight lanes,
    which shared memory serves together.
    """
    heading = title or "The rows that the lanes of a warp address in one stmatrix"
    if not 1 <= len(boxes) <= 2:
        raise ArgumentError(f"boxes are {len(boxes)}: one or two fit in a picture.")
    cell, top, bottom = 0.25, 1.16, 0.6
    with style():
        height = top + cell * WARP_ROWS + bottom
        picture = new_picture(_PAGE, height)
        found = []
        for index, (label, addresses) in enumerate(boxes.items()):
            axes = picture.add_axes((0.065 + 0.495 * index, bottom / height, 0.43, cell * WARP_ROWS / height))
            found.append(f"{label}: {_draw_lanes(axes, np.asarray(addresses))}")
            picture.text(0.065 + 0.495 * index, 1 - 0.92 / height, label, fontweight="bold", va="center")
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        labels = [f"matrix {matrix}: lanes {8 * matrix}-{8 * matrix + 7}" for matrix in range(len(PHASES))]
        key(picture, 0.015, 1 - 0.57 / height, list(zip(labels, PHASES, strict=True)))
        picture.alt = f"{heading}. {'. '.join(found)}."
    return picture


def _draw_lanes(axes: Axes, addresses: np.ndarray) -> str:
    if addresses.shape != (WARP,) or addresses.min() < 0 or addresses.max() >= WARP_ROWS * ROW_BYTES:
        raise ArgumentError(
            f"addresses are {addresses.shape} in number and reach to {addresses.max(initial=0)}: give the "
            f"{WARP} of warp 0, in its {WARP_ROWS} rows of {ROW_BYTES} bytes."
        )
    places = ROW_BYTES // CHUNK_BYTES
    banks = []
    for lane, address in enumerate(addresses.tolist()):
        row, place = address // ROW_BYTES, address % ROW_BYTES // CHUNK_BYTES
        color = PHASES[lane // MATRIX_ROWS]
        axes.add_patch(Rectangle((place, row), 1, 1, facecolor=color, edgecolor="white", lw=0.9, zorder=2))
        axes.text(place + 0.5, row + 0.5, str(lane), ha="center", va="center_baseline", fontsize=10, color=ON[color],
                  zorder=3)
        if lane < MATRIX_ROWS:
            banks.append(4 * place)
    for place in range(places + 1):
        axes.axvline(place, color=PALE, lw=0.8, zorder=0)
    for row in range(WARP_ROWS + 1):
        axes.axhline(row, color=INK if row == MATRIX_ROWS else PALE, lw=0.8, zorder=0)
    axes.set_xlim(0, places)
    axes.set_ylim(WARP_ROWS, 0)
    axes.set_xticks(np.arange(places) + 0.5, [str(4 * place) for place in range(places)])
    axes.set_yticks(np.arange(0, WARP_ROWS, 4) + 0.5, [str(row) for row in range(0, WARP_ROWS, 4)])
    axes.set_xlabel("first bank of four", labelpad=2)
    axes.set_ylabel("row of the box", labelpad=2)
    axes.tick_params(length=0, labelsize=10.5)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return f"lanes 0 to 7 address the banks from {', '.join(map(str, banks))} on, in rows 0 to 7"


@typed
def tile_chart(logs: Mapping[str, TileLog], title: str = "") -> Picture:
    """What the producer does in its order, and for each log what the first consumer does. A colour for each tile.

    Plain: a step along K, loaded or multiplied. Striped: a quarter of a finished tile on its way to C.
    """
    require_some("logs", logs, most=12)
    first = next(iter(logs.values()))
    heading = title or f"{plural(first.tiles, 'tile')} of {plural(first.steps, 'step')}: in which order"
    rows = [("producer loads", first.actions(PRODUCER))]
    rows += [(label, _along_k(log)) for label, log in logs.items()]
    end = max(len(actions) for _, actions in rows)
    with style():
        height = 0.95 + _ROW * len(rows) + 0.62
        picture = new_picture(_PAGE, height)
        axes = picture.add_axes((0.2, 0.62 / height, 0.785, _ROW * len(rows) / height))
        for row, (_, actions) in enumerate(rows):
            for place, action in enumerate(actions):
                _draw_action(axes, place, row, action)
        axes.set_xlim(0, end)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_xticks(range(0, end + 1, 5))
        axes.set_xlabel("actions of the warpgroup, one after another (no times)")
        axes.spines["left"].set_visible(False)
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        labels = ("tiles 0, 2, ...", "tiles 1, 3, ...") if first.tiles > 2 else ("first tile", "second tile")
        key(picture, 0.015, 1 - 0.6 / height, list(zip(labels[: first.tiles], _TILES, strict=False)))
        words = "plain: a step, counted from the beginning of K; striped: a quarter stored"
        picture.text(0.985, 1 - 0.6 / height, words, ha="right", va="center", fontsize=10.5)
        told = "; ".join(f"{label}: {', '.join(_told(actions))}" for label, actions in rows)
        picture.alt = f"{heading}. {told}."
    return picture


def _along_k(log: TileLog) -> list[Action]:
    """The first consumer's actions, its steps counted along K: its n-th multiplication takes what came n-th."""
    loads = iter(log.actions(PRODUCER))
    return [
        replace(action, value=next(loads).value) if action.kind == "multiply" else action
        for action in log.actions("consumer 1")
    ]


def _draw_action(axes: Axes, place: int, row: int, action: Action) -> None:
    color = _TILES[action.tile % len(_TILES)]
    is_store = action.kind == "store"
    box = Rectangle((place, row - 0.36), 1, 0.72, facecolor=color, edgecolor=GREY if is_store else INK, lw=0.9)
    axes.add_patch(box)
    paper = None
    if is_store:
        box.set(hatch="////")
        axes.add_patch(Rectangle((place, row - 0.36), 1, 0.72, fill=False, edgecolor=INK, lw=0.9, zorder=3))
        paper = {"boxstyle": "round,pad=0.15", "facecolor": color, "edgecolor": "none"}
    axes.text(place + 0.5, row, str(action.value), ha="center", va="center", color=ON[color], zorder=4, bbox=paper)


def _told(actions: Sequence[Action]) -> Iterator[str]:
    """Each action in words; those that count on, up or down, in one: 'load steps 0 to 4 of tile 0'."""
    begin = 0
    for end in range(1, len(actions) + 1):
        run = actions[begin : end + 1]
        ways = {after.value - before.value for before, after in pairwise(run)}
        if end < len(actions) and len({(action.kind, action.tile) for action in run}) == 1 and ways in ({1}, {-1}):
            continue
        first, last = actions[begin], actions[end - 1]
        what = "quarter" if first.kind == "store" else "step"
        which = f"{what}s {first.value} to {last.value}" if end > begin + 1 else f"{what} {first.value}"
        yield f"{first.kind} {which} of tile {first.tile}"
        begin = end
