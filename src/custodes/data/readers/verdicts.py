"""Unreadable verdicts, which either raise an error with row numbers, or are dropped and counted for each rater."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from custodes.data.items import Items
from custodes.data.notes import Note, build_notes
from custodes.data.outputs import Outputs
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid
from custodes.data.readers.verdict_words import ALLOWED
from custodes.data.study import Study
from custodes.data.table import format_counts
from custodes.errors import InputError, join_labels

MAX_DROP_RATE = 0.05
"""Maximum proportion of unreadable verdicts that `drop` allows in a file, and for each rater. One unreadable verdict
per rater is always allowed."""


def read_verdicts(
    verdict_table: pl.DataFrame,
    *,
    where: str,
    invalid: Invalid,
    allowed: str = ALLOWED,
    unused_column_names: Sequence[str] = (),
    failure_code: str = "",
) -> tuple[Preferences, list[Note]]:
    """Preferences from a table with the columns of `Preferences` and the column `verdict`, which has the verdict as
    written in the file.

    `preference` is null for an empty verdict, which counts as missing, and for an unreadable verdict. `row` is the row
    in the file, if this differs from the row in the table. `allowed` names the allowed words (default: the words that
    `interpret_cells` reads). `unused_column_names` are columns of the file that may distinguish duplicate rows.
    `invalid` and probabilities are as in `Preferences.make`. `failure_code` is the code that the format uses for a
    reply of a judge that could not be parsed. Such replies count as not rated and give a note, but never raise an
    error.
    """
    if "row" not in verdict_table.columns:
        verdict_table = verdict_table.with_row_index("row", offset=1)
    nonempty_verdict_rows = verdict_table.filter(pl.col("verdict") != "")
    rows_without_preference = nonempty_verdict_rows.filter(pl.col("preference").is_null())
    unparsed_reply_rows = rows_without_preference.filter(pl.col("verdict") == failure_code)
    unreadable_rows = rows_without_preference.filter(pl.col("verdict") != failure_code)
    drop_limit_text = (
        _drop_limit_message(nonempty_verdict_rows, unreadable_rows)
        if unreadable_rows.height and invalid != "force"
        else ""
    )
    if drop_limit_text or (unreadable_rows.height and invalid == "error"):
        word_count_rows = unreadable_rows.group_by("verdict", maintain_order=True).agg(pl.col("row").min(), pl.len())
        examples_text = join_labels(
            (
                f"{word[:40]!r} {f'{count:,} times from' if count > 1 else 'in'} row {first_row}"
                for word, first_row, count in word_count_rows.sort(
                    "len", descending=True, maintain_order=True
                ).iter_rows()
            ),
            limit=3,
        )
        advice_text = (
            f"; {drop_limit_text}"
            if drop_limit_text
            else "; correct them, or drop and count them with --invalid drop (in Python invalid='drop')"
        )
        raise InputError(
            f"{where}: {unreadable_rows.height:,} of {nonempty_verdict_rows.height:,} verdicts cannot be read "
            f"({examples_text}); allowed: {allowed}, or empty{advice_text}"
        )
    preferences, notes = Preferences.make(
        verdict_table.drop("verdict", "row"),
        where=where,
        unreadable=verdict_table["verdict"] != "",
        unused=unused_column_names,
    )
    return preferences, [
        *notes,
        *build_notes(
            (
                "judge-failed",
                unparsed_reply_rows.height,
                f"{where}: {unparsed_reply_rows.height} replies of judges could not be parsed and count as not rated "
                f"({format_counts(unparsed_reply_rows['rater'])})",
            ),
            (
                "unreadable-verdict",
                unreadable_rows.height,
                f"{where}: {unreadable_rows.height} verdicts could not be read and were dropped "
                f"({format_counts(unreadable_rows['rater'])})",
            ),
        ),
    ]


def _drop_limit_message(nonempty_verdict_rows: pl.DataFrame, unreadable_rows: pl.DataFrame) -> str:
    """A message if there are too many unreadable verdicts to drop; otherwise ''."""
    above_limit_rater_rows = (
        nonempty_verdict_rows.group_by("rater", maintain_order=True)
        .len("n_verdicts")
        .join(unreadable_rows.group_by("rater").len("n_unreadable"), on="rater", maintain_order="left")
        .select("rater", "n_unreadable", rate=pl.col("n_unreadable") / pl.col("n_verdicts"))
        .filter(pl.col("rate") > MAX_DROP_RATE, pl.col("n_unreadable") > 1)
        .sort("rate", descending=True, maintain_order=True)
    )
    total_unreadable_rate = unreadable_rows.height / nonempty_verdict_rows.height
    if total_unreadable_rate <= MAX_DROP_RATE and above_limit_rater_rows.is_empty():
        return ""
    raters_text = join_labels(
        (
            f"{100 * unreadable_rate:.1f} % of {rater}"
            for rater, _, unreadable_rate in above_limit_rater_rows.iter_rows()
        ),
        limit=3,
    )
    return (
        f"that is {100 * total_unreadable_rate:.1f} % of the file{f', {raters_text}' if raters_text else ''}, but "
        f"invalid='drop' allows at most {100 * MAX_DROP_RATE:.0f} % per file and rater; correct these verdicts, or "
        "drop all of them with --invalid force (in Python invalid='force')"
    )


def log_study(
    verdict_table: pl.DataFrame,
    *,
    where: str,
    invalid: Invalid,
    items: pl.DataFrame,
    kind: Callable[[str], str] | str,
    allowed: str = ALLOWED,
    failure_code: str = "",
    outputs: Outputs | None = None,
    notes: Sequence[Note] = (),
) -> Study:
    """The study of a published log of verdicts.

    Rows that compare a system with itself are excluded. If a rater has several verdicts on the same question, the later
    verdicts are repeats.

    Parameters
    ----------
    verdict_table
        As for `read_verdicts`. The arguments `allowed`, `invalid` and `failure_code` also have the same meaning.
    items
        Columns that describe items; the first row of each item is used.
    kind
        The kind of all raters, or a function from the name of a rater to the kind.
    """
    if "row" not in verdict_table.columns:
        verdict_table = verdict_table.with_row_index("row", offset=1)
    is_same_system = verdict_table["system_a"] == verdict_table["system_b"]
    n_same_system_rows = int(is_same_system.sum())
    if n_same_system_rows == verdict_table.height:
        raise InputError(f"{where}: every verdict compares a system with itself; a verdict needs two different systems")
    key_column_names = [
        column_name for column_name in ("item", "rater", "aspect", "order") if column_name in verdict_table.columns
    ]
    system_pair_expressions = (pl.min_horizontal("system_a", "system_b"), pl.max_horizontal("system_a", "system_b"))
    verdict_table = verdict_table.filter(~is_same_system).with_columns(
        repeat=pl.int_range(pl.len()).over(*key_column_names, *system_pair_expressions).cast(pl.String)
    )
    n_repeat_rows = verdict_table.filter(pl.col("repeat") != "0").height
    rater_names = verdict_table["rater"].unique(maintain_order=True)
    preferences, verdict_notes = read_verdicts(
        verdict_table, where=where, allowed=allowed, invalid=invalid, failure_code=failure_code
    )
    return Study(
        preferences=preferences,
        raters=Raters.infer({rater: kind if isinstance(kind, str) else kind(rater) for rater in rater_names}),
        items=Items.make(items.unique("item", keep="first", maintain_order=True), where=where)[0],
        outputs=outputs,
        notes=(
            *notes,
            *build_notes(
                (
                    "system-with-itself",
                    n_same_system_rows,
                    f"{where}: {n_same_system_rows} verdicts compare a system with itself and are excluded",
                ),
                (
                    "repeats",
                    n_repeat_rows,
                    f"{where}: {n_repeat_rows} further verdicts of the same rater, item and order are read as repeats",
                ),
            ),
            *verdict_notes,
        ),
        name=where,
    )
