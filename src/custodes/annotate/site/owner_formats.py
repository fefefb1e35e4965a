"""How the owner's pages write numbers and states, and files to download."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, Response

from custodes.annotate.forecast import Forecast, Range
from custodes.annotate.site import pages
from custodes.annotate.snapshot import PairNow, PersonNow
from custodes.answers.wording import UNDEFINED, number

SAID = {
    "pause": "Paused: nobody gets a question until you resume.",
    "resume": "Open again.",
    "stop": "Stopped: nobody is asked any more. Pairs keep the ruling of their last completed look.",
    "reopen": "Open again; that it was stopped stays in the file.",
    "exclude": "Excluded: no more questions, and answers in looks that are not complete are asked again.",
    "restore": "Back in the study.",
    "forget": "Erased: nothing in the file names this person any more. The answers stay.",
    "replan": "Changed; what was before stays in the file.",
}
"""What a page says after an act."""

FLAGS = {
    "known": "too many known comparisons wrong",
    "fast": "median visible time below a quarter of what is usual here",
    "one side": "nearly always one side",
    "all equal": "only ever equal",
    "refuses": "cannot judge most of what is asked",
}

STUCK = {
    "people": "the people there cannot finish: each has given their share",
    "nobody": "nobody has answered for a day, so it does not finish",
}
"""Why no hours are told."""


def page(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page of the owner."""
    return HTMLResponse(pages.environment().get_template(template).render(show=_SHOW, **values), status)


def money(value: float, currency: str) -> str:
    """An amount.

    >>> money(61.8, "USD")
    '61.80 USD'
    """
    return f"{value:,.2f} {currency}"


def between(range_: Range, digits: int = 0) -> str:
    """An interval of 80 %, as one number where it is none.

    >>> between(Range(200.0, 160.0, 240.0))
    '160–240'
    """
    low, high = (f"{value:,.{digits}f}" for value in (range_.low, range_.high))
    return low if low == high else f"{low}–{high}"


def share(part: int, whole: int) -> str:
    """A part of a whole in per cent.

    >>> share(3, 4), share(0, 0)
    ('75 %', '–')
    """
    return f"{100 * part / whole:.0f} %" if whole else UNDEFINED


def seconds(value: float | None) -> str:
    """How long something took.

    >>> seconds(38.4), seconds(None)
    ('38 s', '–')
    """
    return UNDEFINED if value is None else f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def when(at: float | None) -> str:
    """A time, in UTC.

    >>> when(0.0)
    '1970-01-01 00:00 UTC'
    """
    return UNDEFINED if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def unwritten(why: str) -> str:
    """What the owner should know for as long as nothing can be written.

    >>> unwritten("No space left")
    'Answers cannot be written: No space left. Pages keep what people answer and send it again.'
    """
    return f"Answers cannot be written: {why}. Pages keep what people answer and send it again."


def ruling(pair: PairNow) -> str:
    """What the last completed look of a pair says: nothing of a pair that is open, so that nobody stops by eye."""
    if pair.is_open:
        return "open"
    if pair.decision is None:
        return "not judged"
    return "no difference shown" if not pair.decision else f"{pair.first if pair.decision > 0 else pair.second} better"


def margin(pair: PairNow) -> str:
    """The margin of a closed pair with its interval."""
    if pair.is_open or pair.margin is None:
        return UNDEFINED
    return f"{number(pair.margin)} [{number(pair.low)}, {number(pair.high)}]"


def flags(person: PersonNow) -> str:
    """Why a person is not simply ok."""
    return "; ".join(FLAGS.get(flag, flag) for flag in person.flags)


def hours(ahead: Forecast) -> str:
    """How long it takes still, or why that is not known."""
    if ahead.hours is None:
        return STUCK.get(ahead.stuck, "")
    return f"{between(ahead.hours, 1)} h at this pace"


_SHOW = {
    own.__name__: own for own in (money, between, share, seconds, when, unwritten, ruling, margin, flags, hours, number)
}


async def sent(make: Callable[[Path], Path], name: str, kind: str) -> Response:
    """A file made in a folder of its own, which goes when it was sent."""
    folder = tempfile.TemporaryDirectory(prefix="custodes-")
    try:
        path = await run_in_threadpool(make, Path(folder.name))
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=kind, filename=file_name(name), background=BackgroundTask(folder.cleanup))


def zipped(export: Callable[[Path, Path], object], study: Path, folder: Path) -> Path:
    import shutil

    export(study, folder)
    return Path(shutil.make_archive(str(folder), "zip", root_dir=folder.parent, base_dir=folder.name))


def file_name(name: str) -> str:
    """A name that a header can hold."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)


def codes(name: str, people: Sequence[PersonNow]) -> Response:
    """Who is to be paid, for a spreadsheet."""
    import polars as pl

    from custodes.data.writing import table_bytes

    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(("worker", "source", "external_id"), pl.String)
    kinds |= {"code": pl.String}
    kinds |= dict.fromkeys(("answers", "batches", "known_right", "known_asked"), pl.Int64) | {"standing": pl.String}
    rows = [_paid(one) for one in people]
    content = table_bytes(pl.DataFrame(rows, schema=kinds), "codes.csv", quote_formulas=True)
    headers = {"Content-Disposition": f'attachment; filename="{file_name(name)}-codes.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _paid(person: PersonNow) -> dict[str, object]:
    return {
        "worker": person.label,
        "source": person.source,
        "external_id": person.external_id,
        "code": person.code,
        "answers": person.answers,
        "batches": person.batches,
        "known_right": person.gold_right,
        "known_asked": person.gold_asked,
        "standing": person.standing,
    }
