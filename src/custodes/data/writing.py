"""The long tables that `convert` writes, in a form that `read` accepts."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from custodes.data.outputs import Outputs
from custodes.data.preferences import CHANCES, EMPTY, SECONDS, Preferences
from custodes.data.study import Study
from custodes.data.table import PRIMARY, SECOND
from custodes.errors import OptionError, suggestion
from custodes.files import is_stream, write_atomically

ROWS = 5000
"""Rows of a table to write at a time."""

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
TABLES = ("ratings", "battles", "raters", "items", "outputs")
"""File names of the long tables of a study."""
RATING_TABLES = TABLES[:2]
"""Tables with a column of raters, which are read together with `raters` in the same folder."""

FORMULA = r"^'*[=+\-@＝＋－＠\t\r\n]"
"""Beginning of a cell that a spreadsheet would execute as a formula (OWASP, CSV Injection). The pattern allows
apostrophes before the formula, so that the escaping can be undone."""


def long_tables(study: Study) -> dict[str, pl.DataFrame]:
    """All non-empty tables of a study: ratings, battles (the verdicts), raters, items, outputs.

    Ratings and battles have the column `kind`, so that these tables can be read again without a raters file. If all
    ratings are labels, the ratings have words in the column `label` instead of codes in the column `score`.
    """
    rater_rows = study.raters.frame
    return {
        table_name: table
        for table_name, table in {
            "ratings": _with_labels(
                _with_kind(_with_role(study.ratings.frame, study.second_ratings.frame), rater_rows), study
            ),
            "battles": _with_kind(
                _with_role(_verdict_table(study.preferences), _verdict_table(study.second)), rater_rows
            ),
            "raters": rater_rows,
            "items": study.items.frame,
            "outputs": pl.DataFrame() if study.outputs is None else _long_texts(study.outputs),
        }.items()
        if table.height
    }


def _long_texts(outputs: Outputs) -> pl.DataFrame:
    """A table with one row per output, in the format of the reader `outputs`.

    Columns that describe an item have values in the first row of the item.
    """
    has_values_by_column = outputs.sources.select(
        (pl.col("images").list.len() > 0).any(), (pl.col("context", "meta") != "").any()
    ).row(0, named=True)
    item_column_names = [
        "source",
        "references",
        *(name for name, has_values in has_values_by_column.items() if has_values),
    ]
    text_rows = outputs.sources.join(outputs.texts, on="item", how="left", maintain_order="left_right").select(
        "item",
        "system",
        "text",
        pl.when(pl.int_range(pl.len()).over("item") == 0).then(pl.col(item_column_names)).name.keep(),
    )
    if not outputs.images.height:
        return text_rows
    return text_rows.join(
        outputs.images.group_by("item", "system", maintain_order=True).agg(output_image="image"),
        on=["item", "system"],
        how="left",
        maintain_order="left",
    )


def _verdict_table(preferences: Preferences) -> pl.DataFrame:
    """A table of the verdicts and of the queries without an answer, for which `invalid` has the reason. Columns of
    probabilities and seconds without any value are left out."""
    if not preferences.frame.height:
        return preferences.frame
    empty_column_names = [
        column_name for column_name in (*CHANCES, SECONDS) if preferences.frame[column_name].is_null().all()
    ]
    unanswered_rows = preferences.missing.with_columns(invalid=pl.col("why").replace(EMPTY, "")).drop("why")
    return pl.concat(
        [preferences.frame, unanswered_rows] if unanswered_rows.height else [preferences.frame], how="diagonal"
    ).drop(empty_column_names)


def _with_role(first_rows: pl.DataFrame, second_rows: pl.DataFrame) -> pl.DataFrame:
    """The first opinions, followed by the second opinions. If there are second opinions, the column `role` is added."""
    if not second_rows.height:
        return first_rows
    return pl.concat(
        [
            table.with_columns(role=pl.lit(role))
            for table, role in ((first_rows, PRIMARY), (second_rows, SECOND))
            if table.height
        ],
        how="diagonal",
    )


def _with_kind(frame: pl.DataFrame, rater_rows: pl.DataFrame) -> pl.DataFrame:
    return frame.join(rater_rows.select("rater", "kind"), on="rater", how="left", maintain_order="left")


def _with_labels(rating_rows: pl.DataFrame, study: Study) -> pl.DataFrame:
    """The ratings in the layout of `custodes judge --labels`, if all ratings are labels; otherwise the unchanged table.

    Each output without a label gets a row of the first metric with an empty label.
    """
    if not study.labels or not set(rating_rows["aspect"]) <= study.labels.keys():
        return rating_rows
    label_rows = rating_rows.join(
        pl.DataFrame(
            [
                (aspect, float(code), word)
                for aspect, scale in study.labels.items()
                for code, word in enumerate(scale.words)
            ],
            schema={"aspect": pl.String, "score": pl.Float64, "label": pl.String},
            orient="row",
        ),
        on=["aspect", "score"],
        how="left",
        maintain_order="left",
    ).with_columns(
        label=pl.when(
            pl.any_horizontal(
                (pl.col("aspect") == aspect) & pl.col("rater").is_in(list(scale.scores))
                for aspect, scale in study.labels.items()
            )
        )
        .then(pl.col("score").cast(pl.String))
        .otherwise("label")
    )
    return (
        pl.concat(
            [
                label_rows,
                study.unlabelled.join(
                    study.raters.frame.filter(pl.col("kind") != "human").select("rater", "kind").head(1), how="cross"
                ).with_columns(repeat=pl.lit("0")),
            ],
            how="diagonal_relaxed",
        )
        .with_columns(invalid=pl.lit(""))
        .select("item", "system", "rater", "kind", "aspect", "repeat", "label", "invalid", pl.col("^role$"))
    )


def check_suffix(path: str | Path) -> str:
    """The suffix that determines the format of a table (.csv for a stream). Raises `OptionError` for an unknown
    suffix."""
    if is_stream(path):
        return ".csv"
    file_name = Path(path).name
    suffix = Path(file_name.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(
            f"cannot write {file_name}: unknown suffix {suffix!r}{suggestion(suffix, SUFFIXES)}; allowed: "
            f"{', '.join(SUFFIXES)}"
        )
    return suffix


def without_formulas(table: pl.DataFrame) -> pl.DataFrame:
    """The table with an apostrophe before each text that a spreadsheet would read as a formula. A text that already has
    apostrophes before a formula gets one more apostrophe, so that distinct texts stay distinct.

    >>> without_formulas(pl.DataFrame({"system": ["=1+1", "'=1+1", "'A"]}))["system"].to_list()
    ["'=1+1", "''=1+1", "'A"]
    """
    text_selector = pl.col(pl.String)
    return table.with_columns(
        pl.when(text_selector.str.contains(FORMULA)).then("'" + text_selector).otherwise(text_selector).name.keep()
    )


def write_table(table: pl.DataFrame, path: str | Path, *, quote_formulas: bool = False) -> Path:
    """Write a table in the format of the suffix: .csv, .tsv, .jsonl or .parquet; text formats also with .gz. With
    `quote_formulas`, formulas in .csv and .tsv are escaped."""
    target_path = Path(path)
    return write_atomically(target_path, _iter_blocks(table, target_path, quote_formulas=quote_formulas))


def table_bytes(table: pl.DataFrame, path: str | Path, *, quote_formulas: bool = False) -> bytes:
    """The content that `write_table` writes into a file of this name."""
    return b"".join(_iter_blocks(table, Path(path), quote_formulas=quote_formulas))


def _iter_blocks(table: pl.DataFrame, target: Path, *, quote_formulas: bool) -> Iterator[bytes]:
    suffix = check_suffix(target)
    if target.name.endswith(".gz"):
        # A fixed time stamp, so that the same table gives the same bytes.
        yield gzip.compress(
            b"".join(_iter_blocks(table, Path(f"table{suffix}"), quote_formulas=quote_formulas)), mtime=0
        )
    elif suffix == ".parquet":
        parquet_buffer = io.BytesIO()
        table.write_parquet(parquet_buffer)
        yield parquet_buffer.getvalue()
    elif suffix == ".jsonl":
        for row in table.iter_rows(named=True):
            yield msgspec.json.encode(row) + b"\n"
    else:
        yield from csv_blocks(
            table.with_columns(
                pl.col(pl.List(pl.String)).map_elements(
                    lambda texts: msgspec.json.encode(texts.to_list()).decode(), return_dtype=pl.String
                )
            ),
            separator="\t" if suffix == ".tsv" else ",",
            quote_formulas=quote_formulas,
        )


def csv_blocks(table: pl.DataFrame, *, separator: str = ",", quote_formulas: bool = False) -> Iterator[bytes]:
    """A table without lists as blocks of csv. With `quote_formulas`, formulas are escaped."""
    escaped_table = without_formulas(table) if quote_formulas else table
    yield escaped_table.head(0).write_csv(separator=separator).encode()
    for row_block in escaped_table.iter_slices(ROWS):
        yield row_block.write_csv(separator=separator, include_header=False).encode()
