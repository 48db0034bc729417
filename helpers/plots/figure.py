"""What all pictures share: style, alt text, deterministic PNG, labels that don't overlap.

A picture is an opaque light card with a thin frame, so that it reads the same on light and dark pages. Its colours are
of distinct lightness (they survive greyscale) and apart for colour-blind readers (after Okabe and Ito); text on each
has a contrast of 4.5 or more. A key shows a colour beside its words: the name of a hue says nothing in greyscale.
"""

import base64
import html
import io
from collections.abc import Sequence
from contextlib import AbstractContextManager

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from PIL import Image

CARD = "#FBFAF6"        # background
INK = "#1A1A1A"         # text
GREY = "#66645E"        # secondary lines and words
PALE = "#E6E3DB"        # areas without a meaning of their own
NAVY = "#173F6B"        # darkest
VERMILLION = "#BF5200"
SKY = "#5FAADF"
YELLOW = "#E0C43A"      # lightest, and still darker than PALE

PHASES = (NAVY, VERMILLION, SKY, YELLOW)                     # by lightness: 26, 48, 67, 79; PALE 90, CARD 98
HATCHES = ("", "///", "...", "xx")
MATRIX = {"A": NAVY, "B": VERMILLION, "C": SKY}           # everywhere the same
ON = {NAVY: "white", VERMILLION: "white", SKY: INK, YELLOW: INK, PALE: INK, CARD: INK}   # text on a colour

_DPI = 144
_STYLE = {
    "figure.facecolor": CARD,
    "figure.edgecolor": GREY,
    "savefig.facecolor": CARD,
    "axes.facecolor": CARD,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.labelsize": 11,
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "hatch.linewidth": 0.8,
    "lines.linewidth": 1.6,
}


class Picture(Figure):
    """A matplotlib figure with `alt`, one or two sentences for those who cannot see it. Shows itself in a notebook."""

    alt: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        return bundle(self, self.alt)

    @staticmethod
    def of_sentence(heading: str, sentence: str, about: str = "") -> "Picture":
        """A heading and a sentence, where nothing can be drawn. about: what the alt text says after the heading."""
        with style():
            picture = new_picture(9.4, 1.1)
            picture.text(0.015, 0.72, heading, fontsize=12.5, fontweight="bold", va="center")
            picture.text(0.015, 0.3, sentence, va="center")
            picture.alt = f"{heading}{about}: {sentence}."
        return picture


def style() -> AbstractContextManager:
    """The style of all pictures, as a context: no global setting is changed."""
    return mpl.rc_context(_STYLE)


def new_picture(width: float = 8.5, height: float = 4.5) -> Picture:
    """An empty picture of width x height inches with its frame. Call it inside `style()`."""
    whole = (round(width * _DPI) / _DPI, round(height * _DPI) / _DPI)   # pixels: no side of the frame is cut off
    picture = Picture(figsize=whole, dpi=_DPI, linewidth=1.0)
    FigureCanvasAgg(picture)
    return picture


def key(picture: Picture, x: float, y: float, entries: Sequence[tuple[str, ...]], fontsize: float = 10.5) -> None:
    """A line of squares with words beside them, from (x, y) on in shares of the picture; words without a square too.

    entries: (words,), (words, colour) or (words, colour, hatch). Call it inside `style()`.
    """
    width, height = picture.get_size_inches()
    renderer = picture.canvas.get_renderer()
    for words, *look in entries:
        if look:
            square = Rectangle((x, y - 0.08 / height), 0.17 / width, 0.16 / height, transform=picture.transFigure)
            square.set(facecolor=look[0], edgecolor=GREY if look[1:] else INK, lw=0.7, hatch="".join(look[1:]))
            picture.add_artist(square)
            x += 0.25 / width
        text = picture.text(x, y, words, va="center", fontsize=fontsize)
        x += (text.get_window_extent(renderer).width / picture.dpi + 0.28) / width


def png(figure: Figure) -> bytes:
    """The figure as PNG: the same bytes for the same figure, no metadata, a palette of 96 colours to keep it small."""
    drawn, small = io.BytesIO(), io.BytesIO()
    with style():
        figure.savefig(drawn, format="png", dpi=_DPI, edgecolor=GREY, pil_kwargs={"compress_level": 1})
    image = Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    return small.getvalue()


def bundle(figure: Figure, alt: str) -> dict[str, str]:
    """What a notebook stores: an `<img>` with its alt text (a PNG output has none), and the alt text alone."""
    data = base64.b64encode(png(figure)).decode()
    width = round(figure.get_figwidth() * 96)
    image = f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}" width="{width}" style="max-width:100%">'
    return {"text/html": image, "text/plain": alt}


def show(figure: Figure, alt: str | None = None) -> None:
    """Display a figure in a notebook, with `alt` or else the figure's own alt text."""
    from IPython.display import display

    display(bundle(figure, alt or getattr(figure, "alt", "")), raw=True)


def visible_texts(figure: Figure) -> list[Text]:
    """All texts that are drawn: titles, labels, tick labels in view, legends, annotations."""
    found: list[Text] = [*figure.texts]
    for legend in figure.legends:
        found += legend.get_texts()
    for axes in figure.axes:
        if not axes.get_visible():
            continue
        found += [*axes.texts, axes.title, axes._left_title, axes._right_title]   # the side titles have no accessor
        if axes.get_legend():
            found += axes.get_legend().get_texts()
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            found.append(axis.label)
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if low <= tick.get_loc() <= high:
                    found += [tick.label1, tick.label2]
    return [text for text in found if text.get_visible() and text.get_text().strip()]


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Each visible text and its box in pixels."""
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    # Text's own method: that of an annotation would take in its leader.
    return [(text.get_text(), Text.get_window_extent(text, renderer)) for text in visible_texts(figure)]


def overlaps(figure: Figure, slack: float = 1.0) -> list[tuple[str, str]]:
    """Pairs of texts that overlap by more than `slack` pixels, and texts that leave the figure (with '(edge)')."""
    boxes = text_boxes(figure)
    page = figure.bbox
    bad = [
        (name, "(edge)")
        for name, box in boxes
        if box.x0 < page.x0 or box.y0 < page.y0 or box.x1 > page.x1 or box.y1 > page.y1
    ]
    for i, (name, box) in enumerate(boxes):
        for other_name, other in boxes[i + 1 :]:
            width = min(box.x1, other.x1) - max(box.x0, other.x0)
            height = min(box.y1, other.y1) - max(box.y0, other.y0)
            if width > slack and height > slack:
                bad.append((name, other_name))
    return bad


def place_labels(axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], lines=(), **text) -> None:
    """Write a label beside each point (data coordinates), where it covers no other label, point or line, and where its
    leader crosses no line.

    lines: arrays of shape (n, 2) in data coordinates. Points are taken in order; a label that fits nowhere goes to
    the least bad place. Call it when the limits of the axes are final.
    """
    figure = axes.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    pixel = figure.dpi / 72
    marks = axes.transData.transform(np.array(points, dtype=float))
    obstacles = [Bbox.from_bounds(x - 6 * pixel, y - 6 * pixel, 12 * pixel, 12 * pixel) for x, y in marks]
    dots = [_dense(axes.transData.transform(np.asarray(line, dtype=float))) for line in lines]
    dots = np.concatenate(dots) if dots else np.zeros((0, 2))
    frame = axes.get_window_extent(renderer)
    for (x, y), mark, label in zip(points, marks, labels, strict=True):
        best = None
        for cost, (dx, dy, horizontal, vertical) in enumerate(_places()):
            leader = {"arrowstyle": "-", "color": GREY, "lw": 0.8} if max(abs(dx), abs(dy)) > 14 else None
            note = axes.annotate(
                label, (x, y), (dx, dy), textcoords="offset points", ha=horizontal, va=vertical,
                arrowprops=leader, **text,
            )
            note.update_positions(renderer)
            box = Text.get_window_extent(note, renderer)   # of the text alone, without its leader
            note.remove()
            hit = sum(box.padded(2).overlaps(other) for other in obstacles)
            inside = (dots > [box.x0, box.y0]).all(axis=1) & (dots < [box.x1, box.y1]).all(axis=1)
            outside = box.x0 < frame.x0 or box.y0 < frame.y0 or box.x1 > frame.x1 or box.y1 > frame.y1
            struck = leader is not None and _crosses(dots, mark, box, 3 * pixel)
            penalty = 1000 * hit + 1000 * outside + 200 * bool(inside.any()) + 100 * struck + cost
            if best is None or penalty < best[0]:
                best = (penalty, note, box)
        axes.add_artist(best[1])
        obstacles.append(best[2])


def _crosses(dots: np.ndarray, mark: np.ndarray, box: Bbox, near: float) -> bool:
    """Whether a leader from a label's box to its mark crosses a line that does not run through the mark."""
    begin = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
    steps = np.linspace(0, 1, 60)[:, None]
    way = begin + steps * (mark - begin)
    inside = (way >= [box.x0, box.y0]).all(axis=1) & (way <= [box.x1, box.y1]).all(axis=1)
    way = way[~inside & (np.hypot(*(way - mark).T) > 4 * near)]
    low, high = way.min(axis=0, initial=np.inf) - near, way.max(axis=0, initial=-np.inf) + near
    close = dots[((dots >= low) & (dots <= high)).all(axis=1)]
    return bool((np.hypot(*(way[:, None] - close[None]).transpose(2, 0, 1)) < near).any())


def _places():
    """Offsets in points to try, nearest first."""
    for distance in (9, 22, 36, 52, 70):
        yield distance, 0, "left", "center"
        yield -distance, 0, "right", "center"
        yield 0, distance, "center", "bottom"
        yield 0, -distance, "center", "top"
        for dx, horizontal in ((distance, "left"), (-distance, "right")):
            for dy, vertical in ((distance * 0.7, "bottom"), (-distance * 0.7, "top")):
                yield dx, dy, horizontal, vertical


def _dense(line: np.ndarray) -> np.ndarray:
    """Points along a line in pixels, close enough that no text slips between."""
    steps = np.linspace(0, 1, 200)[:, None]
    return np.concatenate([a + steps * (b - a) for a, b in zip(line[:-1], line[1:], strict=True)])


def decades(low: float, high: float, most: int = 5) -> list[float]:
    """The powers of ten from low to high for the ticks of an axis, every second or third if there are more than `most`.
    """
    powers = [power for power in range(-6, 19) if low <= 10.0**power <= high]
    return [10.0**power for power in powers if power % -(-len(powers) // most) == 0]


def quantity(value: float, unit: str) -> str:
    """A value with a decimal prefix and three digits: `quantity(4.8e12, 'B/s')` is '4.8 TB/s'."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{_digits(value / factor)} {prefix}{unit}"
    return f"{_digits(value)} {unit}"


def _digits(value: float) -> str:
    """Three digits at most, none after the point from 100 on."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
