"""How products of other shapes compare with cuBLAS, a mark for each."""

from collections.abc import Collection, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text

from helpers.checks import require_known
from helpers.plots.figure import CARD, GREY, INK, NAVY, PALE, SKY, VERMILLION, YELLOW, Picture, new_picture, style
from helpers.rungs import PARTITIONS, RUNGS
from helpers.shape_records import ShapeSpeed
from helpers.typed import typed
from helpers.words import plural

_ROW, _GAP = 0.115, 3.2          # inches; rows between two groups
_LEAST = 3                       # rows that a group takes, for the words beside it
_HEAD, _FOOT = 1.02, 0.68        # inches
_AIR, _RIGHT = 0.3, 0.97         # inches beside the words on the left; where the axes end, as a share of the width
_NAME, _AWAY = 10, 7             # points: the size of a name, and how far from its mark it stands
NOTHING = "no recording"
_MARKS = {   # by kernel, told apart by form and lightness
    RUNGS[-1].name: ("o", NAVY, 4.8),
    "appendix_split_k": ("D", SKY, 4.6),
    "appendix_fitted_tiles": ("^", YELLOW, 5.6),
    PARTITIONS.name: ("s", VERMILLION, 4.8),
}


@typed
def ratio_chart(groups: Mapping[str, Mapping[str, ShapeSpeed]], title: str = "") -> Picture:
    """A mark for each shape: cuBLAS's time over ours, with its interval, from the smallest of a group to the largest.

    groups: by title, shapes by name, as `helpers.shapes_page.by_group` gives them. At the first and the last mark of a
    group stands the shape's name. Where nothing is recorded there is only a sentence. Raises ArgumentError for a kernel
    that has no mark.
    """
    found = {name: sorted(shapes.items(), key=lambda item: item[1].measurement.ratio)
             for name, shapes in groups.items() if shapes}
    if not found:
        return Picture.of_sentence(title or "Other shapes", NOTHING, ", compared with cuBLAS shape by shape")
    devices = dict.fromkeys(speed.measurement.device.name for shapes in found.values() for _, speed in shapes)
    heading = title or f"Other shapes, recorded on {' and '.join(devices)}"
    rows = sum(max(_LEAST, len(shapes)) for shapes in found.values()) + _GAP * len(found)
    with style():
        height = _HEAD + _ROW * rows + _FOOT
        picture = new_picture(9.4, height)
        left = _room(picture, found)
        axes = picture.add_axes((left, _FOOT / height, _RIGHT - left, _ROW * rows / height))
        axes.set_ylim(rows, 0)
        axes.axvline(1, color=INK, lw=1.2, zorder=1)
        _limit(axes, list(found.values()))
        top = 0.0
        for name, shapes in found.items():
            size = max(_LEAST, len(shapes))
            middle, beside = top + (_GAP + size) / 2, axes.get_yaxis_transform()
            if top:
                axes.axhline(top, color=PALE, lw=1.0, zorder=0)
            axes.text(-0.02, middle - 0.2, name, transform=beside, ha="right", va="bottom", fontweight="bold")
            axes.text(-0.02, middle + 0.2, _count(shapes), transform=beside, ha="right", va="top", fontsize=10)
            _draw_group(axes, shapes, top + _GAP / 2 + 0.5 + (size - len(shapes)) / 2)
            top += _GAP + size
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("cuBLAS's time over ours: on the right of 1 ours is faster")
        picture.text(0.015, 1 - 0.27 / height, heading, fontsize=12.5, fontweight="bold", va="center")
        kernels = {speed.measurement.rung for shapes in found.values() for _, speed in shapes}
        _draw_key(picture, 1 - 0.66 / height, kernels)
        picture.alt = _alt(heading, found)
    return picture


def _room(picture: Picture, groups: Mapping[str, Sequence[tuple[str, ShapeSpeed]]]) -> float:
    """The share of the picture's width that the words beside the groups take, with some air."""
    renderer, widths = picture.canvas.get_renderer(), []
    names = ((name, {"fontweight": "bold"}) for name in groups)
    counts = ((_count(shapes), {"fontsize": 10}) for shapes in groups.values())
    for words, look in (*names, *counts):
        text = picture.text(0, 0, words, **look)
        widths.append(text.get_window_extent(renderer).width)
        text.remove()
    return (max(widths) / picture.dpi + _AIR) / picture.get_figwidth()


def _limit(axes: Axes, groups: Sequence[Sequence[tuple[str, ShapeSpeed]]]) -> None:
    """Set the limits so that all intervals are within the axes, and the names of the groups' last marks beside them."""
    intervals = [speed.measurement.ratio_interval for shapes in groups for _, speed in shapes]
    low, high = min(1.0, *(item.low for item in intervals)), max(1.0, *(item.high for item in intervals))
    margin = max(0.04 * (high - low), 0.005)
    low, high = low - margin, high + 4 * margin
    renderer = axes.figure.canvas.get_renderer()
    width = axes.get_window_extent(renderer).width
    gap = (_AWAY + 3) * axes.figure.dpi / 72
    for shapes in groups:
        text = axes.text(0, 0, _words(*shapes[-1]), fontsize=_NAME)
        share = (Text.get_window_extent(text, renderer).width + gap) / width
        text.remove()
        if len(shapes) > 1 and share < 0.5:   # a longer name may stand on the other side
            end = max(speed.measurement.ratio_interval.high for _, speed in shapes[-2:])
            high = max(high, low + (end - low) / (1 - share))
    axes.set_xlim(low, high)


def _words(name: str, speed: ShapeSpeed) -> str:
    return f"{name}: {speed.measurement.ratio:.3f}"


def _draw_group(axes: Axes, shapes: Sequence[tuple[str, ShapeSpeed]], first: float) -> None:
    """Draw a group's marks from row `first` on, and the names of the outermost two."""
    for row, (_, speed) in enumerate(shapes):
        interval = speed.measurement.ratio_interval
        require_known("rung", speed.measurement.rung, _MARKS)
        mark, color, size = _MARKS[speed.measurement.rung]
        axes.plot([interval.low, interval.high], [first + row] * 2, color=GREY, lw=1.4, zorder=2)
        axes.plot(speed.measurement.ratio, first + row, mark, ms=size, color=color, mec=INK, mew=0.6, zorder=5)
    _label(axes, shapes[0], shapes[:2], first, outwards="right")
    if len(shapes) > 1:
        _label(axes, shapes[-1], shapes[-2:], first + len(shapes) - 1, outwards="left")


def _label(
    axes: Axes, item: tuple[str, ShapeSpeed], near: Sequence[tuple[str, ShapeSpeed]], row: float, outwards: str
) -> None:
    """A name beside its mark: away from the marks of the group where there is room, else on the other side.

    outwards: the text's alignment there. near: whose intervals it keeps clear of there.
    """
    own = item[1].measurement.ratio_interval
    intervals = [other.measurement.ratio_interval for _, other in near]
    if outwards == "right":
        places = {"right": min(found.low for found in intervals), "left": own.high}
    else:
        places = {"left": max(found.high for found in intervals), "right": own.low}
    aside = 4 if outwards == "right" else -4   # above the first mark, below the last: no other is there
    renderer = axes.figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    for side, x in places.items():
        text = axes.annotate(
            _words(*item), (x, row), (-_AWAY if side == "right" else _AWAY, 0 if side == outwards else aside),
            textcoords="offset points", ha=side, va="center", fontsize=_NAME,
            bbox={"boxstyle": "round,pad=0.05", "facecolor": CARD, "edgecolor": "none"}, zorder=4,
        )
        text.update_positions(renderer)
        box = Text.get_window_extent(text, renderer)
        if frame.x0 <= box.x0 and box.x1 <= frame.x1 or side != outwards:
            return
        text.remove()


def _draw_key(picture: Picture, y: float, kernels: Collection[str]) -> None:
    """The marks of the kernels that are drawn, and in as many words as there is room for, what a line is."""
    x, width = 0.022, picture.get_figwidth()
    renderer = picture.canvas.get_renderer()
    for name in (name for name in _MARKS if name in kernels):
        mark, color, size = _MARKS[name]
        picture.add_artist(_mark(picture, x, y, mark, color, size))
        text = picture.text(x + 0.12 / width, y, name, va="center", fontsize=10.5)
        x += (text.get_window_extent(renderer).width / picture.dpi + 0.5) / width
    for words in ("line through a mark: interval of the ratio", "line: interval of the ratio"):
        text = picture.text(x - 0.12 / width, y, words, va="center", fontsize=10.5)
        if text.get_window_extent(renderer).x1 < _RIGHT * width * picture.dpi:
            return
        text.remove()


def _mark(picture: Picture, x: float, y: float, mark: str, color: str, size: float) -> Line2D:
    return Line2D([x], [y], marker=mark, ms=size + 1, color=color, mec=INK, mew=0.6, transform=picture.transFigure)


def _count(shapes: Sequence[tuple[str, ShapeSpeed]]) -> str:
    faster, slower = sum(speed.wins for _, speed in shapes), sum(speed.loses for _, speed in shapes)
    return f"{faster} of {len(shapes):,} faster, {slower} slower"


def _alt(heading: str, found: Mapping[str, Sequence[tuple[str, ShapeSpeed]]]) -> str:
    parts = []
    for title, shapes in found.items():
        ends = f"{shapes[0][0]} {shapes[0][1].measurement.ratio:.3f}"
        if len(shapes) > 1:
            ends = f"from {ends} to {shapes[-1][0]} {shapes[-1][1].measurement.ratio:.3f}"
        parts.append(f"{title}, {_count(shapes)}, {ends}")
    total = plural(sum(map(len, found.values())), "mark")
    return f"{heading}. {total}, cuBLAS's time over ours, above 1 where ours is faster: {'; '.join(parts)}."
