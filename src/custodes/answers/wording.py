"""Formatting of numbers and lists for readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import floor, inf, log10
from statistics import median_low
from typing import Any

from custodes.errors import join_labels

UNDEFINED = "–"
FLAG = {True: "yes", False: "no"}


BETWEEN_BOUNDS = re.compile(r"(?<=[\d%]), (?=(over |under )?[−+\d.]+\u00a0?%?\])")
"""The separator between the bounds of an interval."""

NOISE = 1e-9
"""Absolute values below this limit are treated as 0, since they are floating-point error."""

MOST_DIGITS = 9

SMALLEST_P = 0.001
"""p-values up to this limit are printed as `≤ .001`."""


def _width(low: float | None, high: float | None) -> float | None:
    """The width of an interval. The result is None if there is no interval, or if the width is only a rounding
    error."""
    if low is None or high is None:
        return None
    width = float(f"{high - low:.3g}")
    return width if NOISE * max(1.0, abs(low), abs(high)) < width < inf else None


def column_digits(estimates: Iterable[tuple[float | None, ...]], *, min_decimals: int) -> int:
    """Number of decimals for all numbers of a column.

    With these decimals, the width of the narrowest interval has two significant digits. The column has at least
    `min_decimals` decimals, and at most one decimal more than the median interval needs. `min_decimals` is lowered to 1
    if a number of the column is at least 10, and to 0 if a number is at least 1000. A column of whole numbers has no
    decimals. One decimal is added if a bound of an interval that excludes 0 would be displayed as 0.

    Parameters
    ----------
    estimates : iterable of tuple
        For each row the estimate and the bounds of its interval, or the estimate alone.
    min_decimals : int
        Minimum number of decimals for numbers below 10.

    Examples
    --------
    >>> column_digits([(0.5, 0.2, 0.8), (0.6, 0.58, 0.62)], min_decimals=2)
    3
    >>> column_digits([(1.0,), (0.25,)], min_decimals=3)
    3
    >>> column_digits([(1, 1, 2), (3, 2, 3)], min_decimals=2), column_digits([(1234.5,)], min_decimals=3)
    (0, 0)
    >>> column_digits([(0.2, 0.004, 0.4)], min_decimals=2)
    3
    """
    numbers_by_row = [[number for number in row if number is not None] for row in estimates]
    absolute_values = [
        abs(number) for row in numbers_by_row for number in row if number == number and abs(number) < inf
    ]
    if not absolute_values or all(number % 1 == 0 for number in absolute_values):
        return 0
    min_decimals = 0 if max(absolute_values) >= 1000 else 1 if max(absolute_values) >= 10 else min_decimals
    interval_widths = [
        interval_width
        for row in numbers_by_row
        if len(row) == 3
        if (interval_width := _width(row[1], row[2])) is not None
    ]
    if not interval_widths:
        return min_decimals
    n_decimals = min(
        _significant_decimals(min(interval_widths), min_decimals),
        _significant_decimals(median_low(interval_widths), min_decimals) + 1,
    )
    bounds_nearest_zero = [
        min(abs(low), abs(high)) for _, low, high in (row for row in numbers_by_row if len(row) == 3) if low * high > 0
    ]
    return n_decimals + (min(bounds_nearest_zero, default=inf) < 0.5 * 10.0**-n_decimals)


def decimal(value: float, digits: int) -> str:
    """A number with `digits` decimals, or with two significant digits if the number would be displayed as 0.

    >>> decimal(0.126, 2), decimal(0.00012, 2), decimal(-1e-17, 2)
    ('0.13', '0.00012', '0.00')
    """
    absolute_value = abs(value)
    if NOISE <= absolute_value < 0.5 * 10.0**-digits:
        digits = _significant_decimals(absolute_value, digits)
    return _zero_without_sign(f"{value:.{digits}f}")


def _zero_without_sign(text: str) -> str:
    return text.removeprefix("-") if float(text) == 0 else text


def _significant_decimals(absolute_value: float, min_decimals: int) -> int:
    """Number of decimals that display two significant digits of a positive number; at least `min_decimals`."""
    return min(MOST_DIGITS + 1, max(min_decimals, 1 - floor(log10(absolute_value))))


def number(value: float | None, *, digits: int = 2) -> str:
    """A number with a typographic minus sign, or a dash if the number is undefined; see `decimal`.

    >>> number(-0.126), number(0.0004), number(None)
    ('−0.13', '0.00040', '–')
    """
    return UNDEFINED if value is None or value != value else decimal(value, digits).replace("-", "−")


def p_value(value: float | None) -> str:
    """A p-value as text, without the leading 0.

    >>> p_value(0.0400), p_value(0.0002), p_value(1.0)
    ('.040', '≤ .001', '1.000')
    """
    if value is None or value != value:
        return UNDEFINED
    return "≤ .001" if value <= SMALLEST_P else f"{value:.3f}".removeprefix("0")


def p_value_phrase(value: float | None) -> str:
    """A p-value as part of a sentence, with "p =" or "p ≤".

    >>> p_value_phrase(0.0400), p_value_phrase(0.0002)
    ('p = .040', 'p ≤ .001')
    """
    p_value_text = p_value(value)
    return f"p {p_value_text}" if p_value_text.startswith("≤") else f"p = {p_value_text}"


def estimate_with_interval(row: Mapping[str, Any], name: str, **options: Any) -> str:
    """The number in column `name` of a row, with the interval from the columns `name_low` and `name_high`.

    `options` are arguments of `interval`.

    >>> estimate_with_interval({"tau": 0.4, "tau_low": 0.3, "tau_high": 0.5}, "tau")
    '0.40 [0.30, 0.50]'
    """
    return interval(row[name], row[f"{name}_low"], row[f"{name}_high"], **options)


def percent(value: float | None, *, digits: int = 2) -> str:
    """A proportion in per cent, with two decimals fewer than `digits`.

    Only a proportion of exactly 0 or 1 is written as 0 % or 100 %.

    >>> percent(0.997), percent(0.25), percent(0.2512, digits=3), percent(-1e-17)
    ('over 99 %', '25 %', '25.1 %', '0 %')
    """
    if value is None or value != value:
        return UNDEFINED
    n_decimals = max(0, digits - 2)
    step_in_percent = 10.0**-n_decimals
    if 0 < value <= step_in_percent / 200:
        return f"under {step_in_percent:.{n_decimals}f} %"
    if 1 - step_in_percent / 200 <= value < 1:
        return f"over {100 - step_in_percent:.{n_decimals}f} %"
    return f"{_zero_without_sign(f'{100 * value:.{n_decimals}f}')} %"


def insert_nonbreaking_spaces(text: str) -> str:
    """The text with non-breaking spaces in percentages, intervals and p-values, for pages.

    >>> insert_nonbreaking_spaces("0.50 [0.40, 0.60] of [a, b]") == "0.50 [0.40,\u00a00.60] of [a, b]"
    True
    >>> insert_nonbreaking_spaces("(p = .040)") == "(p\u00a0=\u00a0.040)"
    True
    """
    for breakable_phrase in (" %", " ± ", "p = .", "p ≤ ."):
        text = text.replace(breakable_phrase, breakable_phrase.replace(" ", "\u00a0"))
    return BETWEEN_BOUNDS.sub(",\u00a0", text)


def interval(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    digits: int = 2,
    write: Callable[..., str] = number,
) -> str:
    """A number and its interval (if there is one) as text.

    `write(number, digits=...)` formats each number. The number of decimals is at least `digits`, and large enough to
    display two significant digits of the width of the interval. A width that is only a rounding error is ignored.

    >>> interval(0.431, 0.29, 0.57), interval(0.431, 0.39, 0.47), interval(0.431, 0.29, 0.57, write=percent)
    ('0.43 [0.29, 0.57]', '0.431 [0.390, 0.470]', '43 % [29 %, 57 %]')
    >>> interval(0.00012, 0.00011, 0.00014), interval(0.5, 0.5, 0.5 + 1e-14)
    ('0.000120 [0.000110, 0.000140]', '0.50 [0.50, 0.50]')
    """
    interval_width = _width(low, high)
    return estimate_text(
        value,
        low,
        high,
        digits=digits if interval_width is None else _significant_decimals(interval_width, digits),
        write=write,
    )


def estimate_text(
    value: float | None,
    low: float | None,
    high: float | None,
    *,
    digits: int,
    write: Callable[..., str] = number,
) -> str:
    """A number and its interval (if there is one) as text, each number with `digits` decimals.

    >>> estimate_text(0.0004, -0.3, 0.3, digits=2), estimate_text(0.4, 0.0004, 0.8, digits=2)
    ('0.00 [−0.30, 0.30]', '0.40 [0.00040, 0.80]')
    """
    if value is None or low is None or high is None:
        return write(value, digits=digits)
    estimate_and_bounds = (value, low, high)
    if low < 0 < high:  # an estimate may be displayed as 0 here
        estimate_and_bounds = (round(value, digits), round(low, digits), round(high, digits))
    value_text, low_text, high_text = (write(number_to_write, digits=digits) for number_to_write in estimate_and_bounds)
    return f"{value_text} [{low_text}, {high_text}]"


def names(labels: Sequence[str], *, limit: int = 6) -> str:
    """The labels as a list for a sentence. If there are more than `limit` labels, the list ends with "and N more".

    >>> names(["a", "b", "c"]), names(["a", "b", "c"], limit=2)
    ('a, b and c', 'a, b and 1 more')
    """
    if len(labels) > limit:
        return join_labels(labels, limit=limit)
    return " and ".join(filter(None, (", ".join(labels[:-1]), *labels[-1:])))


def subject_with_verb(labels: Sequence[str], singular_verb: str, plural_verb: str) -> str:
    """Names followed by the verb: `singular_verb` for a single name, `plural_verb` for several.

    >>> subject_with_verb(["bleu"], "is", "are"), subject_with_verb(["bleu", "rouge"], "is", "are")
    ('bleu is', 'bleu and rouge are')
    """
    return f"{names(labels)} {singular_verb if len(labels) == 1 else plural_verb}"


def letter_ranges(row_letters: str | None) -> str:
    """Significance letters as text, with four or more consecutive letters as a range.

    See `letters` in `stats/graphs.py` for the letters.

    >>> letter_ranges("abc"), letter_ranges("acdefgk"), letter_ranges("tyza1b1"), letter_ranges(None)
    ('abc', 'a c–g k', 't y–b1', '–')
    """
    if row_letters is None:
        return UNDEFINED
    number_prefix, letters = re.match(r"\d*", row_letters)[0], re.findall(r"[a-z]\d*", row_letters)  # type: ignore[index]
    alphabet_positions = [ord(letter[0]) - ord("a") + 26 * int(letter[1:] or 0) for letter in letters]
    # In a run of consecutive letters, the position in the alphabet minus the position in the text is constant.
    letter_runs = [
        [letters[index] for index in run_indices]
        for _, run_indices in groupby(range(len(letters)), key=lambda index: alphabet_positions[index] - index)
    ]
    has_range = any(len(run_letters) >= 4 for run_letters in letter_runs)
    run_texts = [
        f"{run_letters[0]}–{run_letters[-1]}" if len(run_letters) >= 4 else "".join(run_letters)
        for run_letters in letter_runs
    ]
    return number_prefix + (" " if has_range else "").join(run_texts)


def plural(count: int, singular_noun: str, plural_noun: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "pair"), plural(3, "pair")
    ('1 pair', '3 pairs')
    """
    return f"{count} {singular_noun if count == 1 else plural_noun or singular_noun + 's'}"


def sentence(message: str, labels: Iterable[str] = ()) -> str:
    """A message as a full sentence. A name before a colon, or one of `labels`, keeps its first letter.

    >>> sentence("two systems only"), sentence("Is it a distance?"), sentence("results: two systems only")
    ('Two systems only.', 'Is it a distance?', 'results: two systems only.')
    >>> sentence("comet (90 %) lacks scores", ["comet"])
    'comet (90 %) lacks scores.'
    """
    starts_with_name = message.partition(" ")[0].endswith(":") or any(
        message.startswith(label) and not message[len(label) :][:1].isalnum() for label in labels if label
    )
    sentence_text = message if starts_with_name else message[:1].upper() + message[1:]
    return sentence_text if sentence_text.endswith((".", "?", "!")) else f"{sentence_text}."
