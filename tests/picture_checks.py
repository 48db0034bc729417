"""What a machine can see of a picture's legibility: the checks that every picture of the course has to pass."""

import re
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from helpers.plots import figure

MAX_BYTES = 200_000
MAX_SECONDS = 3.0
MAX_INCHES = 10.0        # at 96 pixels an inch, what a notebook's column shows without shrinking
MIN_POINTS = 10.0        # at half size 6.7 pixels, about the smallest that can be read
MIN_CONTRAST = 4.5       # of text (WCAG 2.2, 1.4.3)
MAX_STRUCK = 0.04        # of a text's area may be a line that the text can't be told from
ALT_LENGTH = 50, 900     # characters: the life of a barrier with a dozen events is the longest
HUES = re.compile(r"\b(blue|yellow|orange|red|green|vermillion|navy|sky)\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?!\d*-)")


def luminance(colors: np.ndarray) -> np.ndarray:
    """Relative luminance (WCAG) of sRGB values 0 to 1, or bytes, in the last axis: 0 for black, 1 for white."""
    colors = np.asarray(colors)
    linear = _LINEAR[colors] if colors.dtype == np.uint8 else _linear(colors)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def _linear(colors: np.ndarray) -> np.ndarray:
    return np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)


_LINEAR = _linear(np.arange(256) / 255)   # of each byte


def lightness(color: object) -> float:
    """CIE L* of a colour: 0 for black, 100 for white. What is left of a colour in greyscale."""
    return float(116 * np.cbrt(luminance(to_rgb(color))) - 16)


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Contrast (WCAG) of two luminances: 1 for the same, 21 for black and white."""
    return (np.maximum(one, other) + 0.05) / (np.minimum(one, other) + 0.05)


def problems(picture: Figure, seconds: float = 0.0, size: int | None = None) -> list[str]:
    """What is wrong with a picture, a sentence each; none if it is legible. seconds: what drawing it took.

    size: bytes of its PNG, if that is made already.
    """
    return [
        *_size_problems(picture, seconds, len(figure.png(picture)) if size is None else size),
        *(f"{one!r} covers {other!r}" for one, other in figure.overlaps(picture)),
        *_text_problems(picture),
        *alt_problems(getattr(picture, "alt", ""), _figures(picture)),
    ]


def _size_problems(picture: Figure, seconds: float, size: int) -> Iterator[str]:
    if size >= MAX_BYTES:
        yield f"it takes {size:,} bytes"
    if seconds >= MAX_SECONDS:
        yield f"drawing it takes {seconds:.1f} s"
    if picture.get_figwidth() > MAX_INCHES:
        yield f"it is {picture.get_figwidth():.1f} inches wide"


def _text_problems(picture: Figure) -> Iterator[str]:
    """Text that is small, pale, crossed by a line, or that tells things apart by their hue alone."""
    page, boxes = _without_text(picture)
    for text, box in boxes:
        words = text.get_text()
        if text.get_fontsize() < MIN_POINTS:
            yield f"{words!r} is set in {text.get_fontsize():.1f} points"
        if hue := HUES.search(words):
            yield f"{words!r} speaks of {hue.group()!r}, which greyscale does not show"
        behind = luminance(page[box])
        if not behind.size:
            continue
        against = contrast(luminance(to_rgb(text.get_color())), behind)
        if np.median(against) < MIN_CONTRAST:
            yield f"{words!r} has a contrast of {np.median(against):.1f}"
        elif (struck := (against < MIN_CONTRAST / 2).mean()) > MAX_STRUCK:
            yield f"{words!r} is crossed by a line or an edge ({struck:.0%} of it)"


def _without_text(picture: Figure) -> tuple[np.ndarray, list[tuple[Text, tuple[slice, slice]]]]:
    """The picture drawn without its texts, bytes of shape (height, width, 3); each text with the place of its body."""
    picture.draw_without_rendering()
    renderer = picture.canvas.get_renderer()
    texts = figure.visible_texts(picture)
    alphas = [text.get_alpha() for text in texts]
    boxes = []
    for text in texts:
        text.set_alpha(0)
        box = Text.get_window_extent(text, renderer)
        margin = 0.2 * box.height if text.get_rotation() == 0 else 0   # room for descenders
        top, bottom = picture.bbox.height - box.y1 + margin, picture.bbox.height - box.y0 - margin
        rows, columns = slice(max(0, int(top)), int(bottom)), slice(max(0, int(box.x0) + 1), int(box.x1))
        boxes.append((text, (rows, columns)))
    with figure.style():
        picture.canvas.draw()
    pixels = np.asarray(picture.canvas.buffer_rgba())[..., :3]
    for text, alpha in zip(texts, alphas, strict=True):
        text.set_alpha(alpha)
    return pixels, boxes


def _figures(picture: Figure) -> list[str]:
    """The numbers of three digits and more that stand in words: titles and labels, not ticks, cells or legends."""
    legends = [*picture.legends, *(axes.get_legend() for axes in picture.axes if axes.get_legend())]
    apart = {id(text) for legend in legends for text in legend.get_texts()} | {
        id(label)
        for axes in picture.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        for label in (tick.label1, tick.label2)
    }
    found = []
    for text in figure.visible_texts(picture):
        words = text.get_text()
        if id(text) not in apart and re.search(r"[a-zA-Z%]", words):
            found += [number for number in NUMBER.findall(words) if len(re.sub(r"\D", "", number)) >= 3]
    return found


def alt_problems(alt: str, figures: list[str]) -> Iterator[str]:
    """Alt text that says too little or too much, is no sentence, or leaves out a number that the picture shows."""
    low, high = ALT_LENGTH
    if not low <= len(alt) <= high:
        yield f"its alt text has {len(alt)} characters"
    if "\n" in alt or not alt.endswith("."):
        yield f"its alt text is no sentence in one line: {alt[-30:]!r}"
    if wrong := re.search(r"\b1 (row|wave|tile|CTA|sector|phase|wavefront|stage|step|event)s\b", alt):
        yield f"its alt text says {wrong.group()!r}"
    said = {number.replace(",", "") for number in NUMBER.findall(alt)}
    if missing := sorted({number for number in figures if number.replace(",", "") not in said}):
        yield f"its alt text leaves out {', '.join(missing)}"


def require_drawn(draw: Callable[[], Figure], *sentences: str) -> Figure:
    """Draw a picture: in time, small, without overlaps, and with these sentences in its alt text."""
    start = time.process_time()
    picture = draw()
    data = figure.png(picture)
    assert time.process_time() - start < 3 and len(data) < 200_000
    assert figure.overlaps(picture) == []
    assert all(sentence in picture.alt for sentence in sentences), picture.alt
    return picture


def require_legible(draw: Callable[[], Figure], sentences: Sequence[str] = ()) -> None:
    """Draw a picture and fail with all that is wrong with it, or with a sentence that its alt text lacks."""
    start = time.process_time()
    picture = draw()
    size = len(figure.png(picture))
    found = problems(picture, time.process_time() - start, size)
    assert not found, "\n".join(dict.fromkeys(found))
    for sentence in sentences:
        assert sentence in picture.alt, picture.alt
