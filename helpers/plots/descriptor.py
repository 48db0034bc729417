"""A wgmma descriptor as its 64 bits, and where the steps along k of its operand lie in swizzled shared memory."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.checks import require_integer, require_kind, require_sequence
from helpers.errors import ArgumentError
from helpers.models.descriptor import CHUNK, DEPTH, FIELDS, ROW, SWIZZLES, Descriptor, Field, operand_bytes
from helpers.plots.figure import INK, NAVY, ON, PALE, PHASES, SKY, VERMILLION, YELLOW, Picture, key, new_picture, style
from helpers.typed import typed
from helpers.words import plural

_COLORS = dict(zip((field.name for field in FIELDS), (NAVY, VERMILLION, SKY, PALE, YELLOW), strict=True))
_ROW_BYTES, _CHUNK_BYTES = 128, 16
MAKE = "make it with Descriptor(...) or decode(bits)"
MOST_ROWS = 48   # that fit in a picture


@typed
def descriptor_bits(descriptor: Descriptor, title: str = "") -> Picture:
    """Draw the 64 bits, the highest first, each field in its colour with what it says."""
    require_kind("descriptor", descriptor, Descriptor, MAKE)
    bits = descriptor.bits
    with style():
        picture = new_picture(9.6, 3.6)
        axes = picture.add_axes((0.02, 0.02, 0.96, 0.84))
        axes.set_xlim(0, 32)
        axes.set_ylim(6.15, 0)
        axes.set_axis_off()
        for bit in range(64):
            field = _field_of(bit)
            color = _COLORS[field.name] if field else "none"
            x, y = 31 - bit % 32, _top(bit)
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=color, edgecolor=INK, lw=0.7))
            text_color = ON[color] if field else INK
            axes.text(x + 0.5, y + 0.5, str(bits >> bit & 1), ha="center", va="center_baseline", color=text_color)
        for field in FIELDS:
            _label_field(axes, field, descriptor)
        heading = f"{title or 'Descriptor'}: {bits:#018x}"
        picture.text(0.02, 0.93, heading, fontsize=12.5, fontweight="bold", va="center")
        said = "; ".join(f"{_where(field)} {field.name}: {_meaning(field, descriptor)}" for field in FIELDS)
        picture.alt = f"The 64 bits of a wgmma descriptor, {heading}. {said}. The other bits are 0."
    return picture


def _field_of(bit: int) -> Field | None:
    return next((field for field in FIELDS if field.low <= bit < field.low + field.width), None)


def _top(bit: int) -> float:
    """Upper edge of the row in which a bit is drawn."""
    return 0.75 if bit >= 32 else 3.9


def _label_field(axes: Axes, field: Field, descriptor: Descriptor) -> None:
    """The numbers of the field's first and last bit above it, its name and meaning below."""
    high = field.low + field.width - 1
    left, right, y = 31 - high % 32, 32 - field.low % 32, _top(field.low)
    for bit, x in ((high, left + 0.5), (field.low, right - 0.5)):
        axes.text(x, y - 0.12, str(bit), ha="center", va="bottom", fontsize=10)
    words = f"{field.name}\n{_meaning(field, descriptor)}"
    if field.name == "swizzle mode":
        axes.text(left, y + 1.15, words, ha="left", va="top", linespacing=1.3)
    else:
        axes.text((left + right) / 2, y + 1.15, words, ha="center", va="top", linespacing=1.3)


def _meaning(field: Field, descriptor: Descriptor) -> str:
    value = field.of(descriptor.bits)
    if field.name == "swizzle mode":
        return f"{value} = {SWIZZLES[value]}"
    return f"{value:,} x {field.unit} = {value * field.unit:,}" if field.unit > 1 else str(value)


def _where(field: Field) -> str:
    return f"bits {field.low} to {field.low + field.width - 1}"


@typed
def operand_steps(a: Sequence[Descriptor], b: Sequence[Descriptor], columns: int = 128, rows: int = 24) -> Picture:
    """Draw the rows of 128 bytes that A (K-major) and B (MN-major) begin with, each chunk in the colour of its step.

    a, b: a descriptor for each step of 16 along k, at most four. columns: N. rows: so many rows of each are drawn.
    """
    for name, steps in (("a", a), ("b", b)):
        require_sequence(name, steps, Descriptor, MAKE)
    require_integer("rows", rows, 1, MOST_ROWS)
    if not 1 <= len(a) == len(b) <= len(PHASES):
        raise ArgumentError(f"a has {len(a)} steps and b {len(b)}: give 1 to {len(PHASES)} of each, as many of both.")
    with style():
        picture = new_picture(9.6, 2.15 + 0.235 * rows)
        height = picture.get_figheight()
        labels = [f"k {step * DEPTH} to {step * DEPTH + DEPTH - 1}" for step in range(len(a))]
        key(picture, 0.076, 1 - 0.50 / height, list(zip(labels, PHASES, strict=False)))
        a_places = [operand_bytes(step, ROW, "K") for step in a]
        b_places = [operand_bytes(step, columns, "MN") for step in b]
        operands = (
            ("A, K-major: a row is one m", "first k of the chunk", "m", a_places, a),
            ("B, MN-major: a row is one k", "first n of the chunk", "k", b_places, b),
        )
        sentences = []
        for index, (title, inside, along, places, steps) in enumerate(operands):
            left = 0.07 + 0.49 * index
            axes = picture.add_axes((left, 0.62 / height, 0.41, 0.235 * rows / height))
            chunks = _chunks(places, steps[0].address, "K" if along == "m" else "MN")
            _draw_rows(axes, chunks, rows, along)
            picture.text(left, 1 - 0.85 / height, title, fontweight="bold", va="center")
            offsets = f"stride offset: {steps[0].stride_bytes:,} bytes, line to line"
            if along == "k":
                offsets += f"\nleading offset: {steps[0].leading_bytes:,} bytes, to n = {ROW}"
            picture.text(left, 1 - 1.02 / height, offsets, va="top", fontsize=10.5, linespacing=1.25)
            axes.set_xlabel(f"byte within the row (inside: {inside})")
            sentences.append(f"{title}: {_step_sentence(steps)}; " + offsets.replace("\n", "; "))
        heading = f"Where the {plural(len(a), 'step')} of 16 along k {'lie' if len(a) > 1 else 'lies'} in shared memory"
        picture.text(0.015, 1 - 0.26 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        picture.alt = f"{heading}, the first {plural(rows, 'row')} of 128 bytes. {'; '.join(sentences)}."
    return picture


def _step_sentence(steps: Sequence[Descriptor]) -> str:
    return "steps begin at bytes " + ", ".join(f"{step.address:,}" for step in steps)


def _chunks(places: Sequence[np.ndarray], start: int, major: str) -> dict[tuple[int, int], tuple[int, int]]:
    """By (row, place in the row) of each 16-byte chunk: the step that reads it, and the first k (or n) in it."""
    chunks = {}
    for step, table in enumerate(places):
        firsts = table[:, ::CHUNK] if major == "K" else table[::CHUNK, :]
        for (i, j), address in np.ndenumerate(firsts):
            row, byte = divmod(int(address) - start // _ROW_BYTES * _ROW_BYTES, _ROW_BYTES)
            first = step * DEPTH + j * CHUNK if major == "K" else i * CHUNK
            chunks[row, byte // _CHUNK_BYTES] = (step, first)
    return chunks


def _draw_rows(axes: Axes, chunks: dict[tuple[int, int], tuple[int, int]], rows: int, along: str) -> None:
    for row in range(rows):
        for place in range(_ROW_BYTES // _CHUNK_BYTES):
            step, first = chunks.get((row, place), (None, None))
            color = PALE if step is None else PHASES[step]
            axes.add_patch(Rectangle((place, row), 1, 1, facecolor=color, edgecolor="white", lw=0.9))
            if step is not None:
                axes.text(
                    place + 0.5, row + 0.5, str(first), ha="center", va="center_baseline", fontsize=10, color=ON[color]
                )
    for row in range(8, rows, 8):
        axes.axhline(row, color=INK, lw=1.6)
    axes.set_xlim(0, _ROW_BYTES // _CHUNK_BYTES)
    axes.set_ylim(rows, 0)
    axes.set_xticks(np.arange(0, 9, 2), np.arange(0, 9, 2) * _CHUNK_BYTES)
    axes.set_yticks(np.arange(0, rows, 4) + 0.5, np.arange(0, rows, 4))
    axes.text(-0.12, -0.12, along, ha="right", va="bottom")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
