"""Interim analyses of a study that was annotated sequentially."""

from __future__ import annotations

import polars as pl

from custodes.data.notes import Note, build_notes

SCHEMA = {
    "system_a": pl.String,
    "system_b": pl.String,
    "look": pl.Int64,
    "n": pl.Int64,
    "wins": pl.Int64,
    "ties": pl.Int64,
    "losses": pl.Int64,
    "decision": pl.Int64,
    "is_open": pl.Boolean,
    "theta": pl.Float64,
    "margin": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}
"""Columns of the table of interim analyses, which has one row per pair and interim analysis.

`look` is the number of the interim analysis (the first is 1). `wins` are wins of system_a. `decision` is 1 (system_a
better), 0 (undecided) or -1 (system_b better). `is_open` is true if annotation of the pair continued after this
analysis. `theta` is the probability that system_a is better. `low` and `high` are the bounds of the interval for the
margin."""


SEQUENTIAL_RULE = "stopped-by-answers"
"""The note on studies in which answers determined the number of further annotations."""


def sequential_notes(interim_analyses: pl.DataFrame) -> list[Note]:
    """A note on the results that remain valid in a sequentially annotated study.

    There is no note if all pairs have a single, final analysis and at least one of the pairs is undecided, because the
    number of annotations was then fixed in advance. The documentation page on statistics describes a simulation that
    supports the note.

    >>> sequential_notes(pl.DataFrame(schema=SCHEMA))
    []
    """
    n_pairs = interim_analyses.select("system_a", "system_b").n_unique() if interim_analyses.height else 0
    return build_notes(
        (
            SEQUENTIAL_RULE,
            n_pairs
            if interim_analyses["look"].n_unique() > 1
            or interim_analyses["is_open"].any()
            or (interim_analyses["decision"] != 0).all()
            else 0,
            f"{n_pairs} pairs were annotated sequentially, with interim analyses. Leaderboard strengths, ranks and "
            "groups remain valid if the stopping boundary allows for repeated analyses. Win rates, sign tests, "
            "decisions "
            "and margins of single pairs assume a fixed sample size; for single pairs, use the table of interim "
            "analyses",
        )
    )


def last_looks(interim_analyses: pl.DataFrame) -> pl.DataFrame:
    """The last completed interim analysis of each pair, with the number of interim analyses of the pair (`looks`).

    >>> last_looks(pl.DataFrame(schema=SCHEMA)).height
    0
    """
    return (
        interim_analyses.sort("system_a", "system_b", "look")
        .with_columns(looks=pl.len().over("system_a", "system_b"))
        .unique(["system_a", "system_b"], keep="last", maintain_order=True)
    )


def sort_pair_labels(interim_analyses: pl.DataFrame) -> pl.DataFrame:
    """The table with system_a < system_b, as in verdicts."""
    reversed_expression_of_column = {
        "system_a": pl.col("system_b"),
        "system_b": pl.col("system_a"),
        "wins": pl.col("losses"),
        "losses": pl.col("wins"),
        "decision": -pl.col("decision"),
        "theta": 1 - pl.col("theta"),
        "margin": -pl.col("margin"),
        "low": -pl.col("high"),
        "high": -pl.col("low"),
    }
    return interim_analyses.with_columns(
        **{
            column_name: pl.when(pl.col("system_a") > pl.col("system_b"))
            .then(reversed_expression)
            .otherwise(column_name)
            for column_name, reversed_expression in reversed_expression_of_column.items()
        }
    )
