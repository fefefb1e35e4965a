"""Rules on texts without ratings, and a summary of the texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.check.rules import problem

FEWEST = 3
"""Minimum number of outputs of a system; with fewer outputs, equal texts may be chance."""


def texts_alone(study: Study) -> pl.DataFrame | None:
    """Return the texts of a study that has no scores or verdicts; None for other studies."""
    return None if study.outputs is None or study.raters.frame.height else study.outputs.texts


def systems_of_texts(texts: pl.DataFrame) -> dict[str, Any]:
    """Return one row per system: numbers of outputs, missing outputs and duplicates, and mean length."""
    words = pl.col("text").str.strip_chars()
    filled = texts.with_columns(blank=words == "", n=words.str.count_matches(r"\S+"))
    equal = (pl.len().over("item", "text") > 1) & ~pl.col("blank")
    n_items = texts["item"].n_unique()
    table = (
        filled.with_columns(equal=equal)
        .group_by("system", maintain_order=True)
        .agg(
            outputs=(~pl.col("blank")).sum(),
            duplicates=pl.col("equal").sum(),
            distinct=pl.col("text").filter(~pl.col("blank")).n_unique(),
            words=pl.col("n").filter(~pl.col("blank")).mean(),
        )
        .sort("system")
    )
    return {
        "system": table["system"],
        "items": [n_items] * table.height,
        "outputs": table["outputs"],
        "missing": n_items - table["outputs"],
        "duplicates": table["duplicates"],
        "distinct": table["distinct"],
        "words": table["words"],
    }


def constant_outputs(study: Study) -> Iterator[Problem]:
    """Yield systems with the same output for every item."""
    if study.outputs is None:
        return
    rows = pl.DataFrame(systems_of_texts(study.outputs.texts))
    constant = rows.filter(pl.col("distinct") == 1, pl.col("outputs") >= FEWEST)["system"].to_list()
    if constant:
        yield problem("constant-outputs", constant, systems=listed(constant))


def text_problems(texts: pl.DataFrame) -> Iterator[Problem]:
    """Yield problems of texts: missing outputs and duplicates."""
    rows = pl.DataFrame(systems_of_texts(texts))
    missing = rows.filter(pl.col("missing") > 0)
    if missing.height:
        systems = listed((f"{system} ({n})" for system, n in missing.select("system", "missing").iter_rows()), limit=5)
        cells = rows["items"].sum()
        yield problem(
            "missing-outputs", missing["system"].to_list(), n=missing["missing"].sum(), cells=cells, systems=systems
        )
    duplicates = rows.filter(pl.col("duplicates") > 0)
    if duplicates.height:
        systems = listed(
            (f"{name} ({n})" for name, n in duplicates.select("system", "duplicates").iter_rows()), limit=5
        )
        yield problem(
            "duplicate-outputs", duplicates["system"].to_list(), n=duplicates["duplicates"].sum(), systems=systems
        )
    yield problem("texts-only", n=rows.height, items=texts["item"].n_unique())
