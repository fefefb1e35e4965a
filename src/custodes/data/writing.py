"""Long tables out: what `convert` writes, in a form that `read` takes back."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import polars as pl

from custodes.data.study import Study
from custodes.errors import OptionError, suggestion
from custodes.files import write_atomically

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")


def long_tables(study: Study) -> dict[str, pl.DataFrame]:
    """Every table of a study that has rows: ratings, battles (the verdicts), raters, items, outputs.

    Ratings and battles carry the column `kind`, so that they can be read back without a raters file.
    """
    raters = study.raters.frame
    tables = {
        "ratings": _with_kind(study.ratings.frame, raters),
        "battles": _with_kind(study.preferences.frame, raters),
        "raters": raters,
        "items": study.items.frame,
    }
    if study.outputs is not None:
        # One line per item, as the reader `outputs` takes it.
        answers = study.outputs.texts.group_by("item", maintain_order=True).agg(texts=pl.struct("system", "text"))
        told = {row["item"]: row for row in study.outputs.sources.iter_rows(named=True)}
        rows = [
            {**told.get(item, {"item": item}), "outputs": {text["system"]: text["text"] for text in texts}}
            for item, texts in answers.iter_rows()
        ]
        tables["outputs"] = pl.DataFrame(rows, schema_overrides={"outputs": pl.Object})
    return {name: table for name, table in tables.items() if table.height}


def _with_kind(frame: pl.DataFrame, raters: pl.DataFrame) -> pl.DataFrame:
    return frame.join(raters.select("rater", "kind"), on="rater", how="left", maintain_order="left")


def check_suffix(path: str | Path) -> str:
    """The suffix that says how a table is written; raises `OptionError` for an unknown one."""
    name = Path(path).name
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(
            f"cannot write {name}: suffix {suffix!r} is none of {', '.join(SUFFIXES)}{suggestion(suffix, SUFFIXES)}"
        )
    return suffix


def write_table(table: pl.DataFrame, path: str | Path) -> Path:
    """Write a table by its suffix: .csv .tsv .jsonl .parquet, the text ones also .gz."""
    target = Path(path)
    suffix = check_suffix(target)
    buffer = io.BytesIO()
    if suffix == ".parquet":
        table.write_parquet(buffer)
    elif suffix == ".jsonl":
        import msgspec

        for row in table.iter_rows(named=True):
            buffer.write(msgspec.json.encode(row) + b"\n")
    else:
        table.write_csv(buffer, separator="\t" if suffix == ".tsv" else ",")
    content = buffer.getvalue()
    # A fixed time stamp: the same table gives the same bytes.
    return write_atomically(target, gzip.compress(content, mtime=0) if target.name.endswith(".gz") else content)
