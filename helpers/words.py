"""Small things about words that texts and pictures share."""


def plural(count: int, noun: str) -> str:
    """`plural(1, 'row')` is '1 row', `plural(2000, 'row')` is '2,000 rows'."""
    return f"{count:,} {noun}" + "s" * (count != 1)
