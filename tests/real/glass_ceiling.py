"""Data of the Glass Ceiling paper, and the direction of HANNA's metrics."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import custodes as cu

TURNED = pl.DataFrame({"rater": ["BaryScore*", "DepthScore*", "InfoLM*"], "higher_is_better": ["false"] * 3})
"""Metrics of HANNA that are distances (statistics.md, section 8)."""


def authors_scores(path: Path) -> pl.DataFrame:
    """Read a file of the authors, with a row per output, a column per rater, and the prefix `H:` for human aspects.

    Its columns `System` and `Utterance` are swapped.
    """
    return pl.read_csv(path, infer_schema_length=None).rename({"System": "item", "Utterance": "system"})


def authors_study(path: Path) -> cu.Study:
    """Read the file as a study."""
    wide = authors_scores(path)
    long = wide.unpivot(index=["item", "system"], variable_name="column", value_name="score")
    human = pl.col("column").str.starts_with("H:")
    return cu.read(
        long.select(
            "item",
            "system",
            rater=pl.when(human).then(pl.lit("annotators")).otherwise("column"),
            kind=pl.when(human).then(pl.lit("human")).otherwise(pl.lit("metric")),
            aspect=pl.when(human).then(pl.col("column").str.strip_prefix("H:")).otherwise(pl.lit("")),
            score="score",
        )
    )
