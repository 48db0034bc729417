"""The ladder as a small SVG text, for README.md: written by hand, so that it is the same with any matplotlib.

Like all pictures of the course it is an opaque light card, which reads the same on light and dark pages.
"""

import math
from collections.abc import Sequence
from html import escape

from helpers.errors import ArgumentError
from helpers.plots.figure import CARD, GREY, INK, NAVY, PALE, SKY, VERMILLION
from helpers.plots.ladder import RUNG_NAMES, TARGET, TWIN, LadderPoint
from helpers.words import rounded

WIDTH, HEIGHT = 920, 430
LEFT, RIGHT, TOP, BOTTOM = 62, 904, 66, 366   # of the plot, pixels
LOWEST, HIGHEST = 0.2, 1500.0                 # TFLOP/s
TICKS = (1, 10, 100, 1000)
SMALLEST_TEXT = 13
SLOW = 200                                    # TFLOP/s; figures below stand to the left above their mark


def ladder_svg(points: Sequence[LadderPoint], cublas: float | None, words: str) -> str:
    """The ladder of published and recorded points as an SVG document.

    cublas: its TFLOP/s in the same runs, drawn as a line. words: what was measured on, and when, under the title.
    Raises ArgumentError for a figure outside 0.2 to 1,500 TFLOP/s.
    """
    for point in points:
        if not LOWEST <= point.tflops <= HIGHEST:
            span = f"{LOWEST} to {HIGHEST:g}"
            raise ArgumentError(f"{point.name} has {point.tflops:g} TFLOP/s: it must be {span}; widen the picture.")
    recorded = sorted((item for item in points if item.kind == "recorded"), key=lambda item: item.rung_number)
    published = [item for item in points if item.kind == "published"]
    parts = [
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" fill="{CARD}" stroke="{GREY}"/>',
        _text(16, 27, "From a naive kernel past cuBLAS", "start", 17, "bold"),
        _text(16, 49, words, "start"),
        *_axes(),
    ]
    if cublas:
        parts.append(_stroke(LEFT, RIGHT, _y(cublas), VERMILLION, 3))
    parts.append(_stroke(LEFT, RIGHT, _y(TARGET), INK, 1.5, "2 4"))
    parts += _legend(cublas)
    steps = " ".join(f"{_x(item.rung_number):.1f},{_y(item.tflops):.1f}" for item in recorded)
    parts.append(f'<polyline points="{steps}" fill="none" stroke="{NAVY}" stroke-width="1.5"/>')
    parts += [_diamond(_x(item.rung_number), _y(item.tflops)) for item in published]
    for item in recorded:
        x, y = _x(item.rung_number), _y(item.tflops)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{NAVY}" stroke="{INK}"/>')
        at, anchor = (x + 8, "end") if item.tflops < SLOW else (x, "middle")
        parts.append(_text(at, _label_y(item, published), rounded(item.tflops), anchor, weight="bold"))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" font-family="DejaVu Sans, Verdana, sans-serif">\n<title>{escape(alt(points, cublas))}</title>\n'
        f"{body}\n</svg>\n"
    )


def alt(points: Sequence[LadderPoint], cublas: float | None) -> str:
    """The picture in words: the recorded figures rung by rung."""
    recorded = sorted((item for item in points if item.kind == "recorded"), key=lambda item: item.rung_number)
    steps = ", ".join(f"{_name(item.rung_number)} {rounded(item.tflops)}" for item in recorded)
    beside = f"; cuBLAS {rounded(cublas)}" if cublas else ""
    return f"TFLOP/s of the rungs at N = 4096, recorded: {steps}{beside}; published aim {TARGET:.0f}."


def _x(number: int) -> float:
    """The middle of a rung's place; the twin of rung 1 is the first of eleven."""
    return LEFT + (number + 0.5) * (RIGHT - LEFT) / (len(RUNG_NAMES) + 1)


def _y(tflops: float) -> float:
    share = math.log(tflops / LOWEST) / math.log(HIGHEST / LOWEST)
    return BOTTOM - share * (BOTTOM - TOP)


def _label_y(item: LadderPoint, published: Sequence[LadderPoint]) -> float:
    """Above a slow rung's marks, away from the line to the next; below those near cuBLAS's line."""
    ys = [_y(other.tflops) for other in (item, *published) if other.rung_number == item.rung_number]
    return min(ys) - 11 if item.tflops < SLOW else max(ys) + 22


def _axes() -> list[str]:
    parts = []
    for value in TICKS:
        y = _y(value)
        parts.append(_stroke(LEFT, RIGHT, y, PALE, 1))
        parts.append(_text(LEFT - 8, y + 5, f"{value:,}", "end"))
    for number in range(len(RUNG_NAMES) + 1):
        parts.append(_text(_x(number), BOTTOM + (21 if number % 2 == 0 else 43), _name(number)))
    return parts


def _legend(cublas: float | None) -> list[str]:
    """What the marks and lines are, in the empty corner below the fast rungs."""
    x, y, row = 590, 243, 20
    entries = [
        (f'<circle cx="{x + 12}" cy="{y}" r="5" fill="{NAVY}" stroke="{INK}"/>', "recorded here"),
        (_diamond(x + 12, y + row), "published, on other GPUs"),
        (_stroke(x, x + 24, y + 2 * row, INK, 1.5, "2 4"), f"published aim: {TARGET:.0f}, H100 SXM"),
    ]
    if cublas:
        words = f"cuBLAS in the same rounds: {rounded(cublas)}"
        entries.append((_stroke(x, x + 24, y + 3 * row, VERMILLION, 3), words))
    labels = [_text(x + 34, y + row * place + 5, words, "start") for place, (_, words) in enumerate(entries)]
    return [*(mark for mark, _ in entries), *labels]


def _stroke(x1: float, x2: float, y: float, colour: str, width: float, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1}" x2="{x2}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _diamond(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z" fill="{SKY}" stroke="{INK}"/>'


def _text(
    x: float, y: float, words: str, anchor: str = "middle", size: int = SMALLEST_TEXT, weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{INK}">{escape(words)}</text>'
    )


def _name(number: int) -> str:
    return "1 uncoalesced" if number == TWIN else f"{number} {RUNG_NAMES[number - 1]}"
