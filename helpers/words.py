"""Small things about words that texts and pictures share."""

PRINTED_LINE = 120   # characters that the output of a cell has room for, in a window of 1,200 pixels


def plural(count: int, noun: str) -> str:
    """`plural(1, 'row')` is '1 row', `plural(2000, 'row')` is '2,000 rows'."""
    return f"{count:,} {noun}" + "s" * bool(count != 1)


def rounded(tflops: float) -> str:
    """A speed with three digits at most: 0.498, 5, 39.6, 804."""
    return f"{tflops:.0f}" if tflops >= 100 else f"{tflops:.3g}"


def short(value: object, most: int = 60) -> str:
    """A value as Python writes it, in one line of at most so many letters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:   # a repr that fails is no reason for a traceback
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def one_line(text: str, most: int = 900) -> str:
    """A text in one line; of a very long one the beginning and the end, where a sentence has its remedy."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most // 2]} ... {line[-most // 2:]}"


def first_line(error: Exception) -> str:
    """What an error says, in one line without its full stop; its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
