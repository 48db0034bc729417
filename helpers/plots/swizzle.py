"""The swizzle in pictures: the XOR on the bits of an address, where the chunks lie, which banks work when."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from helpers.checks import require_integer, require_kind, require_sequence
from helpers.errors import ArgumentError
from helpers.models.banks import bank_schedule, warp_wavefronts
from helpers.models.coalescing import check_addresses
from helpers.models.machine import BANK_BYTES, BANKS, WARP
from helpers.models.swizzle import CHUNK_BIT, CHUNK_BYTES, LINE_BIT, PERIOD_ROWS, Swizzle
from helpers.plots.figure import GREY, INK, NAVY, ON, PALE, PHASES, SKY, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed
from helpers.words import plural

BITS = 12                                  # of an address that are drawn
LAST_BANK_BIT = 6                          # bits 2 to 6 tell the bank
LINE_CHUNKS = BANKS * BANK_BYTES // CHUNK_BYTES
MAX_WAVEFRONTS = 32
FIELDS = {"row // 8": PALE, "row % 8": YELLOW, "chunk": SKY, "byte in the chunk": PALE}


@typed
def address_bits(row: int, chunk: int) -> Picture:
    """The bits of a chunk's address in a tile of 128-byte rows, before and after the 128-byte swizzle.

    Raises ArgumentError for a row or a chunk that has no place in the picture.
    """
    swizzle = Swizzle("128B")
    for name, value, limit in (("row", row, (1 << BITS) // swizzle.row_bytes), ("chunk", chunk, swizzle.row_chunks)):
        require_integer(name, value, 0, limit - 1)
    plain = row * swizzle.row_bytes + chunk * CHUNK_BYTES
    moved = swizzle(plain)
    with style():
        picture = new_picture(9.2, 3.7)
        axes = picture.add_axes((0.17, 0.01, 0.82, 0.88))
        axes.set_xlim(0, BITS)
        axes.set_ylim(4.85, -0.1)
        axes.set_axis_off()
        for bit in range(BITS):
            axes.text(_left(bit) + 0.5, 0.86, str(bit), ha="center", va="center", fontsize=10, color=GREY)
        axes.text(-0.15, 0.86, "bit", ha="right", va="center", fontsize=10, color=GREY)
        lowest = {"byte in the chunk": 0, "chunk": CHUNK_BIT, "row % 8": LINE_BIT, "row // 8": LINE_BIT + 3, "": BITS}
        for (name, begin), end in zip(lowest.items(), [*lowest.values()][1:], strict=False):
            axes.text(BITS - (begin + end) / 2, 0.32, name, ha="center", va="center")
            for y, address in ((1.15, plain), (3.0, moved)):
                for bit in range(begin, end):
                    changed = address is moved and name == "chunk"
                    _bit(axes, bit, y, address >> bit & 1, NAVY if changed else FIELDS[name])
        for bit in range(CHUNK_BIT, CHUNK_BIT + swizzle.bits):
            start, stop = (_left(bit + 3) + 0.5, 1.99), (_left(bit) + 0.42, 2.96)
            arrow = FancyArrowPatch(start, stop, arrowstyle="-|>", mutation_scale=12, color=INK, lw=1.2)
            axes.add_patch(arrow)
        axes.text(_left(LINE_BIT + 2) - 0.1, 2.5, f"XOR: {swizzle.formula}", ha="right", va="center")
        for y, words in ((1.55, f"row {row}, chunk {chunk}"), (3.4, f"place {swizzle.place(row, chunk)} of row {row}")):
            address = plain if y < 2 else moved
            axes.text(-0.15, y - 0.16, words, ha="right", va="center")
            axes.text(-0.15, y + 0.2, f"byte {address}", ha="right", va="center")
        low, high = _left(LAST_BANK_BIT) + 0.05, _left(2) + 0.95
        axes.plot([low, low, high, high], [4.0, 4.15, 4.15, 4.0], color=INK, lw=1.2)
        banks = [address // BANK_BYTES % BANKS for address in (plain, moved)]
        axes.text((low + high) / 2, 4.5, f"the bank: {banks[0]}, then {banks[1]}", ha="center", va="center")
        heading = "128-byte swizzle: bits of an address in a shared tile"
        picture.text(0.015, 0.935, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.alt = (
            f"The 128-byte swizzle: bits of the address of chunk {chunk} of row {row}, byte {plain}. Bits 0-3 are the "
            f"byte in the chunk, 4-6 the chunk, 7-9 the row modulo 8, from 10 on the row over 8; bits 2-6 tell the "
            f"bank. {swizzle.formula}: the chunk goes to place {swizzle.place(row, chunk)} of its row, byte {moved}; "
            f"its first bank was {banks[0]} and is {banks[1]}."
        )
    return picture


def _left(bit: int) -> float:
    return BITS - 1 - bit


def _bit(axes: Axes, bit: int, y: float, value: int, color: str) -> None:
    axes.add_patch(Rectangle((_left(bit), y), 1, 0.8, facecolor=color, edgecolor=INK, lw=0.8))
    middle = _left(bit) + 0.5, y + 0.42
    axes.text(*middle, str(value), ha="center", va="center", fontsize=12, color=ON[color])


@typed
def chunk_places(modes: Sequence[str] = ("none", "128B"), row: int = 5, chunk: int = 2) -> Picture:
    """What lies where in shared memory, eight rows of a tile for each mode: `row.chunk`, a column for each four banks.

    One chunk of all rows has a colour, and so have all chunks of one row. Modes with narrower rows have fewer chunks.
    Raises ArgumentError for a mode, row or chunk that does not exist.
    """
    require_sequence("modes", modes, str, "give one or two of a Swizzle's modes")
    swizzles = [Swizzle(mode) for mode in modes]
    if not 1 <= len(swizzles) <= 2:
        raise ArgumentError(f"modes are {len(swizzles)}: one or two fit in a picture.")
    for name, value, limit in (("row", row, PERIOD_ROWS), ("chunk", chunk, min(s.row_chunks for s in swizzles))):
        require_integer(name, value, 0, limit - 1)
    found = []
    with style():
        lines = [swizzle.lines() for swizzle in swizzles]
        deepest = max(map(len, lines))
        cell, top, bottom = 0.33, 0.98, 0.82   # inches: a line, the titles, the axis and the legend
        picture = new_picture(9.4, top + bottom + cell * deepest)
        height = picture.get_figheight()
        width = 0.42
        for index, (swizzle, layout) in enumerate(zip(swizzles, lines, strict=True)):
            box = (0.065 + index * 0.5, bottom / height + cell * (deepest - len(layout)) / height)
            axes = picture.add_axes((*box, width, cell * len(layout) / height))
            _draw_places(axes, layout, row, chunk)
            groups = sorted({int(place) for place in np.argwhere(layout[..., 1] == chunk)[:, 1]})
            name = "as it comes" if not swizzle.bits else f"{swizzle.mode} swizzle"
            left = box[0] - 0.05
            picture.text(left, 1 - 0.26 / height, name, fontsize=12.5, fontweight="bold", va="center")
            words = f"{swizzle.formula}; chunk {chunk} meets {BANKS // LINE_CHUNKS * len(groups)} of {BANKS} banks"
            picture.text(left, 1 - 0.60 / height, words, va="center")
            where = f"chunk {chunk} of rows 0-7 lies at places {_listed(layout, chunk)}"
            found.append(f"{name}: {swizzle.formula}; {where}")
        entries = ((f"chunk {chunk} of every row", NAVY), (f"row {row}", YELLOW), ("row.chunk that lies here", PALE))
        key(picture, 0.015, 0.2 / height, entries)
        picture.alt = (
            f"Eight rows of a shared tile, 16 bytes a cell. {'. '.join(found)}. "
            f"The chunks of row {row} stay in row {row}."
        )
    return picture


def _listed(layout: np.ndarray, chunk: int) -> str:
    """The places (groups of four banks) of one chunk, row by row."""
    cells = np.argwhere(layout[..., 1] == chunk)
    rows = [int(layout[line, place, 0]) for line, place in cells]
    return ", ".join(str(int(cells[i][1])) for i in np.argsort(rows))


def _draw_places(axes: Axes, layout: np.ndarray, row: int, chunk: int) -> None:
    for line, cells in enumerate(layout):
        for place, (its_row, its_chunk) in enumerate(cells):
            color = NAVY if its_chunk == chunk else YELLOW if its_row == row else PALE
            axes.add_patch(Rectangle((place, line), 1, 1, facecolor=color, edgecolor="white", lw=1.2))
            axes.text(
                place + 0.5, line + 0.5, f"{its_row}.{its_chunk}", ha="center", va="center_baseline", fontsize=10.5,
                color=ON[color],
            )
    axes.set_xlim(0, LINE_CHUNKS)
    axes.set_ylim(len(layout), 0)
    axes.set_yticks(np.arange(len(layout)) + 0.5, [str(128 * line) for line in range(len(layout))])
    axes.set_xticks(np.arange(LINE_CHUNKS) + 0.5, [str(4 * place) for place in range(LINE_CHUNKS)])
    axes.set_xlabel("first bank of four", labelpad=2)
    axes.set_title("byte", fontsize=10, loc="left", x=-0.115, pad=4, color=INK)
    axes.tick_params(length=0, labelsize=10.5)
    for spine in axes.spines.values():
        spine.set_visible(False)


@typed
def wavefront_chart(
    requests: Mapping[str, Sequence[int]], width: int = 16, op: str = "load", title: str = ""
) -> Picture:
    """Which banks work in each wavefront of a warp's request, a panel for each of one or two lists of addresses.

    requests: by label, 32 byte addresses each (-1: idle lane). width: bytes a lane. Phases have colours of their own.
    Raises ArgumentError for more panels or wavefronts than have room.
    """
    require_kind("requests", requests, Mapping, "give {label: addresses}")
    if not 1 <= len(requests) <= 2:
        raise ArgumentError(f"requests are {len(requests)}: one or two fit in a picture.")
    arrays = {label: check_addresses(addresses, width) for label, addresses in requests.items()}
    served = {label: bank_schedule(addresses, width, op) for label, addresses in arrays.items()}
    deepest = max(map(len, served.values()))
    if deepest > MAX_WAVEFRONTS:
        raise ArgumentError(f"a request takes {deepest} wavefronts: at most {MAX_WAVEFRONTS} fit in a picture.")
    with style():
        cell, top, bottom = 0.17, 0.86, 0.62   # inches: a wavefront, the titles, the axis
        picture = new_picture(9.4, top + bottom + cell * deepest)
        height = picture.get_figheight()
        found = []
        for index, (label, table) in enumerate(served.items()):
            result = warp_wavefronts(arrays[label], width, op)
            low = (bottom + cell * (deepest - len(table))) / height
            axes = picture.add_axes((0.125 + index * 0.495, low, 0.365, cell * len(table) / height))
            _draw_schedule(axes, table, result.phase_of_lane, width)
            verdict = _busy(table)
            picture.text(0.02 + index * 0.495, 1 - 0.58 / height, label, fontweight="bold", va="center")
            picture.text(0.49 + index * 0.495, 1 - 0.58 / height, verdict, ha="right", va="center")
            found.append(f"{label}: {verdict}, in phases of {', '.join(map(str, result.per_phase))}")
        heading = title or f"A warp's {op} of {width} bytes a lane: a row for each wavefront"
        picture.text(0.015, 1 - 0.24 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.alt = f"{heading}. {'. '.join(found)}."
    return picture


def _busy(table: np.ndarray) -> str:
    share = (table >= 0).mean()
    return f"{plural(len(table), 'wavefront')}, {share * 100:.3g}% of the banks busy"


def _draw_schedule(axes: Axes, table: np.ndarray, phase_of_lane: np.ndarray, width: int) -> None:
    """Rows are wavefronts, columns banks; a box for each lane that is served, its number in it where it has room."""
    span = max(1, width // BANK_BYTES)
    ticks: dict[int, list[int]] = {}
    for wavefront, banks in enumerate(table):
        lanes = banks[banks >= 0]
        phase = int(phase_of_lane[lanes[0]])
        ticks.setdefault(phase, []).append(wavefront)
        color = PHASES[phase % len(PHASES)]
        for bank in range(0, BANKS, span):
            lane = int(banks[bank])
            if lane < 0:
                continue
            box = Rectangle((bank, wavefront), span, 1, facecolor=color, edgecolor="white", lw=0.7)
            axes.add_patch(box)
            if span >= 4:
                axes.text(
                    bank + span / 2, wavefront + 0.5, str(lane), ha="center", va="center_baseline", fontsize=10,
                    color=ON[color],
                )
    for bank in range(0, BANKS + 1, 4):
        axes.plot([bank, bank], [0, len(table)], color=PALE, lw=0.8, zorder=0)
    for wavefront in range(len(table) + 1):
        axes.plot([0, BANKS], [wavefront, wavefront], color=PALE, lw=0.8, zorder=0)
    axes.set_xlim(0, BANKS)
    axes.set_ylim(len(table), 0)
    middles = [(rows[0] + rows[-1] + 1) / 2 for rows in ticks.values()]
    axes.set_yticks(middles, [_lanes(phase_of_lane, phase) for phase in ticks])
    axes.tick_params(length=0, labelsize=10)
    axes.set_xticks(np.arange(0, BANKS, 4) + 0.5, [str(bank) for bank in range(0, BANKS, 4)])
    axes.set_xlabel("bank", labelpad=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _lanes(phase_of_lane: np.ndarray, phase: int) -> str:
    lanes = np.flatnonzero(phase_of_lane == phase)
    return "all lanes" if len(lanes) == WARP else f"lanes {lanes[0]}-{lanes[-1]}"
