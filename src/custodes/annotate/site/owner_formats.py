"""Formats of numbers, states and downloads on the pages for study administration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.responses import HTMLResponse, Response

from custodes.annotate.forecast import Forecast, Range
from custodes.annotate.site import pages
from custodes.annotate.snapshot import PairNow, PersonNow
from custodes.answers.wording import UNDEFINED, number

CONFIRMATIONS = {
    "pause": "The study is paused. Annotators get no questions until you resume it.",
    "resume": "The study is open again.",
    "stop": "The study is stopped. Annotators get no more questions. Decisions come from completed interim analyses"
    " only.",
    "reopen": "The study is open again. The stop remains on record.",
    "exclude": "The annotator is excluded and gets no more questions. The annotator’s answers in incomplete interim"
    " analyses are replaced by answers of other annotators.",
    "forget": "The identity of the annotator is erased. The answers remain in the study.",
    "replan": "The settings are changed. The earlier values remain on record.",
}
"""The confirmation that is displayed after each action."""

FLAGS = {
    "known": "answered too many control questions incorrectly",
    "fast": "median time below a quarter of the typical time",
    "one side": "nearly always chooses the same side",
    "all equal": "answers every question with “equal”",
    "refuses": "cannot judge most questions",
}

STUCK = {
    "annotators": "the current annotators cannot give all needed answers; invite more annotators",
    "nobody": "there was no answer for a day, so the remaining time cannot be estimated",
}
"""Reasons why the remaining hours cannot be estimated."""


def page(template_name: str, *, status: int = 200, **template_values: Any) -> HTMLResponse:
    """Return a page for study administration."""
    return HTMLResponse(pages.environment().get_template(template_name).render(show=_SHOW, **template_values), status)


def money(amount: float, currency: str) -> str:
    """Format an amount of money with its currency.

    >>> money(61.8, "USD")
    '61.80 USD'
    """
    return f"{amount:,.2f} {currency}"


def between(range_: Range, digits: int = 0) -> str:
    """Format an 80 % interval, or one number if both bounds are equal.

    >>> between(Range(200.0, 160.0, 240.0))
    '160–240'
    """
    lower_text, upper_text = (f"{bound:,.{digits}f}" for bound in (range_.low, range_.high))
    return lower_text if lower_text == upper_text else f"{lower_text}–{upper_text}"


def share(count: int, total: int) -> str:
    """Format a proportion in per cent.

    >>> share(3, 4), share(0, 0)
    ('75 %', '–')
    """
    return f"{100 * count / total:.0f} %" if total else UNDEFINED


def seconds(duration: float | None) -> str:
    """Format a duration in seconds.

    >>> seconds(38.4), seconds(None)
    ('38 s', '–')
    """
    return UNDEFINED if duration is None else f"{duration:.0f} s" if duration >= 10 else f"{duration:.1f} s"


def when(timestamp: float | None) -> str:
    """Format a point in time, in UTC.

    >>> when(0.0)
    '1970-01-01 00:00 UTC'
    """
    return UNDEFINED if timestamp is None else f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d %H:%M} UTC"


def unwritten(reason: str) -> str:
    """Return the warning that answers cannot be stored.

    >>> unwritten("No space left")
    'Answers cannot be written: No space left. The annotation pages keep the answers and send them again.'
    """
    return f"Answers cannot be written: {reason}. The annotation pages keep the answers and send them again."


def ruling(pair: PairNow) -> str:
    """Return the decision of the last completed interim analysis of a pair. An undecided pair shows no result."""
    if pair.is_open:
        return "undecided"
    if pair.decision is None:
        return "not tested"
    return (
        "no significant difference"
        if not pair.decision
        else f"{pair.first if pair.decision > 0 else pair.second} better"
    )


def margin(pair: PairNow) -> str:
    """Format the margin of a closed pair with its interval."""
    if pair.is_open or pair.margin is None:
        return UNDEFINED
    return f"{number(pair.margin)} [{number(pair.low)}, {number(pair.high)}]"


def flags(person: PersonNow) -> str:
    """Return the reasons for the status of an annotator."""
    return "; ".join(FLAGS.get(flag, flag) for flag in person.flags)


def hours(study_forecast: Forecast) -> str:
    """Format the remaining time, or return the reason why it cannot be estimated."""
    if study_forecast.hours is None:
        return STUCK.get(study_forecast.stuck, "")
    return f"{between(study_forecast.hours, 1)} h at the current rate"


_SHOW = {
    format_.__name__: format_
    for format_ in (money, between, share, seconds, when, unwritten, ruling, margin, flags, hours, number)
}


def header_file_name(text: str) -> str:
    """Return a file name that is valid in an HTTP header."""
    return "".join(
        character if character.isascii() and (character.isalnum() or character in "._-") else "_" for character in text
    )


PAID = {
    "worker": "label",
    "source": "source",
    "external_id": "external_id",
    "codes": "codes_text",
    "answers": "answers",
    "batches": "batch",
    "known_right": "gold_right",
    "known_asked": "gold_asked",
    "standing": "standing",
}
"""For each column of the file of completion codes, the field of `PersonNow` that the column contains."""


def codes(study_name: str, annotators: Sequence[PersonNow]) -> Response:
    """Return a CSV file with the annotators and their completion codes, for payment."""
    import polars as pl

    from custodes.data.writing import table_bytes

    code_table = pl.DataFrame(
        {
            column_name: [getattr(annotator, field_name) for annotator in annotators]
            for column_name, field_name in PAID.items()
        }
    )
    csv_bytes = table_bytes(code_table, "codes.csv", quote_formulas=True)
    response_headers = {"Content-Disposition": f'attachment; filename="{header_file_name(study_name)}-codes.csv"'}
    return Response(csv_bytes, media_type="text/csv; charset=utf-8", headers=response_headers)
