"""Shared memory as 32 columns of banks: which lane reads which words, in which phase, and where they collide."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_integer
from helpers.models.banks import Wavefronts, warp_wavefronts
from helpers.models.machine import BANK_BYTES, BANKS, ROW_BYTES
from helpers.plots.figure import GREY, INK, ON, PALE, PHASES, VERMILLION, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed
from helpers.words import plural

MAX_ROWS = 32   # rows of 128 bytes that fit in a picture


@typed
def bank_map(addresses: np.ndarray, width: int = 4, op: str = "load", title: str = "", max_rows: int = 16) -> Picture:
    """Draw the words that a warp's request touches, a row for each 128 bytes, a column for each bank.

    addresses: byte addresses (int64, shape (32,)), `width` bytes each; op: 'load' or 'store'. Phases that want the
    very same words are drawn as one. Rows that nobody touches are left out. The strip below counts the different
    words that a phase wants from a bank: its maximum is the number of passes (wavefronts) of that phase.
    max_rows: at most so many rows are drawn (up to 32); the strip counts all.
    """
    result = warp_wavefronts(addresses, width, op)
    require_integer("max_rows", max_rows, 1)
    groups = _groups(np.asarray(addresses), result)
    touched_rows = np.unique(np.concatenate([list(cells) for _, cells in groups]) // ROW_BYTES)
    shown = touched_rows[: min(max_rows, MAX_ROWS)]
    place = {int(row): i for i, row in enumerate(shown)}
    with style():
        top, bottom, cell = 0.86, 1.28, 0.26   # inches: title and legend, strip, a row
        height = top + bottom + cell * len(shown)
        picture = new_picture(9.6, height)
        axes = picture.add_axes((0.09, bottom / height, 0.895, cell * len(shown) / height))
        _frame(axes, shown)
        for index, (_, cells) in enumerate(groups):
            _draw_cells(axes, cells, width, place, groups, index)
        labels = [f"{_phase_names(phases)}: lanes {_lane_names(phases, result)}" for phases, _ in groups]
        key(picture, 0.09, 1 - 0.62 / height, list(zip(labels, PHASES, strict=False)))
        _draw_strip(picture, result, (0.09, 0.62 / height, 0.895, 0.27 / height))
        verdict = _verdict(result)
        heading, line = title or f"{op}, {width} bytes a lane", 1 - 0.24 / height
        picture.text(0.015, line, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.text(0.985, line, verdict, fontsize=11.5, ha="right", va="center")
        picture.text(0.083, 1 - 0.62 / height, "byte", fontsize=10.5, ha="right", va="center")
        if len(shown) < len(touched_rows):
            missing = plural(len(touched_rows) - len(shown), "more row") + " not drawn"
            picture.text(0.985, 0.10 / height, missing, ha="right", va="bottom", fontsize=10.5)
        worst = int(result.words.max())
        banks = np.flatnonzero(result.words.max(axis=0) == worst)
        names = ", ".join(map(str, banks[:8])) + (" and more" if len(banks) > 8 else "")
        picture.alt = (
            f"Bank map of {heading}: {plural(len(touched_rows), 'row')} of 128 bytes touched in "
            f"{plural(len(result.words), 'phase')}; {verdict}; a phase wants at most {plural(worst, 'different word')} "
            f"from one bank (banks {names})."
        )
    return picture


def _groups(addresses: np.ndarray, result: Wavefronts) -> list[tuple[list[int], dict[int, list[int]]]]:
    """Phases and their start addresses with the lanes that want them; phases with the same addresses together."""
    groups: list[tuple[list[int], dict[int, list[int]]]] = []
    for phase in range(len(result.words)):
        cells: dict[int, list[int]] = {}
        for lane in np.flatnonzero(result.phase_of_lane == phase):
            cells.setdefault(int(addresses[lane]), []).append(int(lane))
        if not cells:
            continue
        for phases, others in groups:
            if others.keys() == cells.keys():
                phases.append(phase)
                for address, lanes in cells.items():
                    others[address] += lanes
                break
        else:
            groups.append(([phase], cells))
    return groups


def _frame(axes: Axes, rows: np.ndarray) -> None:
    """Grid of banks and rows, with the byte address of each row."""
    axes.set_xlim(0, BANKS)
    axes.set_ylim(len(rows), 0)
    for bank in range(BANKS + 1):
        axes.axvline(bank, color=PALE, lw=0.8, zorder=0)
    for row in range(len(rows) + 1):
        axes.axhline(row, color=PALE, lw=0.8, zorder=0)
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{int(row) * ROW_BYTES}" for row in rows])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _draw_cells(axes: Axes, cells: dict[int, list[int]], width: int, place: dict[int, int], groups, index: int) -> None:
    """One group of phases: a box for each address, labelled with its lanes; shared with other groups, it is sliced."""
    color = PHASES[index % len(PHASES)]
    for address, lanes in cells.items():
        row = address // ROW_BYTES
        if row not in place:
            continue
        sharers = [i for i, (_, others) in enumerate(groups) if address in others]
        slice_height = 1 / len(sharers)
        y = place[row] + sharers.index(index) * slice_height
        x = address % ROW_BYTES / BANK_BYTES
        span = width / BANK_BYTES
        box = Rectangle((x, y), span, slice_height, facecolor=color, edgecolor="white", lw=0.9, zorder=2)
        axes.add_patch(box)
        label = _short(lanes, span)
        if label and len(sharers) == 1:
            axes.text(
                x + span / 2, y + slice_height / 2, label, ha="center", va="center_baseline",
                fontsize=10 if span >= 1 else 7, color=ON[color], zorder=3,
            )


def _short(lanes: list[int], span: float) -> str:
    """The lanes of a box, as many as have room: '3', '3, 11', '3, 11..'."""
    if span < 1:
        return ""
    if span < 2:
        return str(lanes[0]) if len(lanes) == 1 else f"{lanes[0]}+"
    if len(lanes) <= span:
        return " ".join(map(str, lanes))
    return f"{lanes[0]}..{lanes[-1]}"


def _draw_strip(picture: Picture, result: Wavefronts, box: tuple[float, float, float, float]) -> None:
    """Different words per bank and phase, the worst phase counts; a conflict is dark with a hatch."""
    axes = picture.add_axes(box)
    worst = result.words.max(axis=0)
    for bank, words in enumerate(worst):
        conflict = words > 1
        face = VERMILLION if conflict else (YELLOW if words else PALE)
        axes.add_patch(Rectangle((bank, 0), 1, 1, facecolor=face, edgecolor="white", lw=0.9))
        axes.text(
            bank + 0.5, 0.5, str(words), ha="center", va="center_baseline", fontsize=10,
            color="white" if conflict else INK if words else GREY, fontweight="bold" if conflict else "normal",
        )
    axes.set_xlim(0, BANKS)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5], ["words"])
    axes.set_xticks(np.arange(0, BANKS, 4) + 0.5, np.arange(0, BANKS, 4))
    axes.set_xlabel("bank: how many different words the worst phase wants from it", labelpad=3)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _phase_names(phases: list[int]) -> str:
    if len(phases) == 1:
        return f"phase {phases[0]}"
    together = phases == list(range(phases[0], phases[-1] + 1))
    return f"phases {phases[0]}-{phases[-1]}" if together else "phases " + ", ".join(map(str, phases))


def _lane_names(phases: list[int], result: Wavefronts) -> str:
    lanes = np.flatnonzero(np.isin(result.phase_of_lane, phases))
    return f"{lanes[0]}-{lanes[-1]}"


def _verdict(result: Wavefronts) -> str:
    passes = plural(result.count, "wavefront")
    if result.count == result.ideal:
        return f"{passes}, no conflict"
    return f"{passes} where {result.ideal} would do: {result.conflict:.3g}-fold conflict"
