"""Kinds of raters, derived from the words in a column of kinds or from the name of the column of raters."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from custodes.data.mapping.column_vocabulary import (
    METRIC_ROLES,
    PEOPLE_ROLES,
    is_model_name,
    kind_words,
    looks_human,
    parts,
)
from custodes.data.notes import Note, noted
from custodes.data.table import label_column
from custodes.errors import listed


def with_kinds(mapped: pl.DataFrame, roles: Mapping[str, str], *, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """A mapped table with a column of kinds, if words or the name of the column of raters determine the kinds.

    Words such as `llm` mean metrics. Without a column of kinds, labels in a column such as `annotator` are human
    (except names of models), and labels in a column such as `metric` are metrics (except names such as `human`).
    """
    if "kind" in roles and "kind" in mapped.columns and (words := kind_words(mapped["kind"])) is not None:
        return mapped.with_columns(words), []
    source = roles.get("rater", "")
    named_so = set(parts(source)) & (PEOPLE_ROLES | METRIC_ROLES)
    if "kind" in mapped.columns or "rater" not in mapped.columns or not named_so:
        return mapped, []
    labels = label_column(mapped, "rater", where=where, empty=True)
    unique = labels.unique(maintain_order=True)
    of_metrics = bool(named_so & METRIC_ROLES)
    metrics = [label for label in unique if (not looks_human(label) if of_metrics else is_model_name(label))]
    kinds = labels.is_in(metrics).replace_strict({True: "metric", False: "human"}, return_dtype=pl.String)
    others = f", except {listed(metrics)}" if metrics else ""
    message = f"{where}: raters of column {source!r} are read as human{others}; give --human if this is wrong"
    return mapped.with_columns(kinds.alias("kind")), noted(("annotators-by-column", not of_metrics, message))
