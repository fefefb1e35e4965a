"""Numbers and lists as a reader meets them."""

from __future__ import annotations

from collections.abc import Sequence

UNDEFINED = "–"


def number(value: float | None, *, digits: int = 2) -> str:
    """A decimal with a true minus sign; a dash where undefined.

    >>> number(-0.126), number(None)
    ('−0.13', '–')
    """
    if value is None or value != value:
        return UNDEFINED
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def interval(value: float | None, low: float | None, high: float | None, *, digits: int = 2) -> str:
    """A number with its interval, where there is one.

    >>> interval(0.431, 0.39, 0.47)
    '0.43 [0.39, 0.47]'
    """
    if value is None or low is None or high is None:
        return number(value, digits=digits)
    return f"{number(value, digits=digits)} [{number(low, digits=digits)}, {number(high, digits=digits)}]"


def percent(value: float | None) -> str:
    """A share in per cent; the last half per cent before 0 and 100 is not rounded away.

    >>> percent(0.997), percent(0.25)
    ('over 99 %', '25 %')
    """
    if value is None or value != value:
        return UNDEFINED
    if 0 < value < 0.005:
        return "under 1 %"
    if 0.995 <= value < 1:
        return "over 99 %"
    return f"{100 * value:.0f} %"


def names(labels: Sequence[str], *, limit: int = 6) -> str:
    """A list for a sentence, the rest counted.

    >>> names(["a", "b", "c"]), names(["a", "b", "c"], limit=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(labels) > limit:
        return f"{', '.join(labels[:limit])} and {len(labels) - limit} more"
    return " and ".join(part for part in (", ".join(labels[:-1]), *labels[-1:]) if part)


def plural(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "pair"), plural(3, "pair")
    ('1 pair', '3 pairs')
    """
    return f"{count} {one if count == 1 else many or one + 's'}"
