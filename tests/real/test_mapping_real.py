from __future__ import annotations

import ast
from pathlib import Path

import polars as pl
import pytest

import custodes as cu

KEY = ["rater", "aspect", "item", "system"]


def test_a_wide_table_gives_the_long_study_back(shared_data: Path) -> None:
    study = cu.read(shared_data / "summeval" / "ratings.csv.gz")
    humans = pl.col("rater").is_in(study.humans)
    # Metrics keep their names, with the aspect if the file has one.
    column = pl.when(humans).then(pl.format("{}_{}", "rater", "aspect"))
    alone = pl.when(pl.col("aspect") == "").then("rater").otherwise(pl.format("{} of {}", "rater", "aspect"))
    named = study.ratings.frame.with_columns(column=column.otherwise(alone))
    table = named.pivot("column", index=["item", "system"], values="score").rename(
        {"item": "doc_id", "system": "model"}
    )
    with pytest.raises(cu.InputError) as error:
        cu.read(table.with_columns(text=pl.lit("...")))
    columns = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    read = cu.read(table.with_columns(text=pl.lit("...")), columns=columns)
    assert set(read.humans) == set(study.humans)
    assert set(read.aspects) == set(study.aspects)
    first, second = (
        value.ratings.frame.filter(pl.col("rater").is_in(study.humans)).sort(KEY) for value in (study, read)
    )
    assert first.equals(second)
    assert len(read.metrics) == named.filter(~humans)["column"].n_unique()
