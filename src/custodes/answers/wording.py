"""Numbers and lists as a reader meets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

UNDEFINED = "–"
MARK = "?"
"""Behind an interval that is unreliable."""

FLAG = {True: "yes", False: "no"}


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


def with_ends(row: Mapping[str, Any], name: str, **how: Any) -> str:
    """A number of a row with its interval, which stands in `x_low` and `x_high`; see `interval`.

    >>> with_ends({"tau": 0.4, "tau_low": 0.3, "tau_high": 0.5}, "tau")
    '0.40 [0.30, 0.50]'
    """
    return interval(row[name], row[f"{name}_low"], row[f"{name}_high"], **how)


def percent(value: float | None) -> str:
    """A share in per cent; the last half per cent before 0 and 100 is not rounded away.

    >>> percent(0.997), percent(0.25)
    ('over 99 %', '25 %')
    """
    if value is None or value != value:
        return UNDEFINED
    if 0 < value <= 0.005:
        return "under 1 %"
    if 0.995 <= value < 1:
        return "over 99 %"
    return f"{100 * value:.0f} %"


def unbroken(text: str) -> str:
    """A text for a page that wraps lines: a number keeps its per cent sign."""
    return text.replace(" %", "\u00a0%")


def interval(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    digits: int = 2,
    shown: Callable[[float | None], str] | None = None,
    unreliable: bool = False,
) -> str:
    """A number (or what `shown` makes of it) with its interval, where there is one.

    >>> interval(0.431, 0.39, 0.47), interval(0.431, 0.39, 0.47, shown=percent)
    ('0.43 [0.39, 0.47]', '43 % [39 %, 47 %]')
    """
    text = shown or partial(number, digits=digits)
    if value is None or low is None or high is None:
        return text(value)
    return f"{text(value)} [{text(low)}, {text(high)}]{MARK if unreliable else ''}"


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


def sentence(message: str) -> str:
    """A message as a sentence of a text.

    >>> sentence("two systems only"), sentence("Is it a distance?")
    ('Two systems only.', 'Is it a distance?')
    """
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."
