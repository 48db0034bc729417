"""Small things about words that texts and pictures share."""


def plural(count: int, noun: str) -> str:
    """`plural(1, 'row')` is '1 row', `plural(2000, 'row')` is '2,000 rows'."""
    return f"{count:,} {noun}" + "s" * (count != 1)


def first_line(error: Exception) -> str:
    """What an error says, in one line without its full stop; its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
