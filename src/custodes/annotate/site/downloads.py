"""Files that the owner takes away: made in a folder of their own, which goes when they were sent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, Response

from custodes.annotate.snapshot import PersonNow


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


def codes(name: str, people: Sequence[PersonNow], signed: Collection[str]) -> Response:
    """Who is to be paid, for a spreadsheet; `signed`: the people whom a platform vouches for."""
    import polars as pl

    from custodes.data.writing import table_bytes

    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(("worker", "source", "external_id", "name"), pl.String)
    kinds |= {"signed": pl.Boolean, "code": pl.String}
    kinds |= dict.fromkeys(("answers", "batches", "known_right", "known_asked"), pl.Int64) | {"standing": pl.String}
    rows = [_paid(one, one.label in signed) for one in people]
    content = table_bytes(pl.DataFrame(rows, schema=kinds), "codes.csv", quote_formulas=True)
    kept = {"Content-Disposition": f'attachment; filename="{file_name(name)}-codes.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=kept)


def _paid(person: PersonNow, is_signed: bool) -> dict[str, object]:
    return {
        "worker": person.label,
        "source": person.source,
        "external_id": person.external_id,
        "name": person.name,
        "signed": is_signed,
        "code": person.code,
        "answers": person.answers,
        "batches": person.batches,
        "known_right": person.gold_right,
        "known_asked": person.gold_asked,
        "standing": person.standing,
    }
