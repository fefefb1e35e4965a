"""Items, clusters and other labels that are composed of several columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.data.reading import read
from custodes.errors import OptionError
from tests.data.input_errors import input_error

# segments of two documents in two languages; only all three columns together name an item
KEYS = [(lp, doc, segment) for lp in ("en-de", "en-zh") for doc in ("d1", "d2") for segment in (1, 2)]
TABLE = pl.DataFrame(
    [(*key, system, 50 + row, float(row)) for row, key in enumerate(KEYS) for system in "AB"],
    schema=["lp", "doc", "segment", "system", "human", "bleu"],
    orient="row",
)
COLUMNS = {"item": "{lp}/{doc}/{segment}", "cluster": "{lp}/{doc}", "group": "lp"}


def test_an_item_is_named_by_several_columns() -> None:
    study = read(TABLE, columns=COLUMNS)
    assert study.item_labels().to_list() == [f"{lp}/{doc}/{segment}" for lp, doc, segment in KEYS]
    assert set(study.raters.kind) == {"human", "bleu"}  # the number of the segment is not a metric
    items = study.items.frame.sort("item")
    assert items["cluster"].to_list() == [f"{lp}/{doc}" for lp, doc, _ in KEYS]
    assert items["group"].to_list() == [lp for lp, _, _ in KEYS]
    patterns = read(TABLE, columns=COLUMNS | {"score": ["human:{rater:human}", "metric:{rater}"]})
    assert patterns.ratings.frame.sort(pl.all()).equals(study.ratings.frame.sort(pl.all()))


def test_components_may_be_nested_values() -> None:
    nested = TABLE.select(pl.struct("lp", "doc").alias("meta"), "segment", "system", "human", "bleu")
    columns = {"item": "{meta.lp}/{meta.doc}/{segment}", "score": ["human:{rater:human}", "metric:{rater:bleu}"]}
    assert read(nested, columns=columns).item_labels().to_list() == read(TABLE, columns=COLUMNS).item_labels().to_list()


def test_rows_that_one_column_does_not_name_are_refused_with_advice() -> None:
    message = input_error(read, TABLE, columns={"item": "segment", "score": ["human:human", "metric:bleu"]})
    assert "several columns together name the item, give all of them, as in item={doc_id}/{segment_id}" in message
    with pytest.raises(OptionError, match="item='paper': no such column"):
        read(TABLE, columns={"item": "{lp}/{paper}"})


@pytest.mark.parametrize("item_columns", [["doc", "segment"], [pl.struct("doc", "segment").alias("key")]])
def test_the_advice_on_further_roles_keeps_the_item(item_columns: list[str | pl.Expr]) -> None:
    rows = {"doc": ["a", "a", "b", "b"], "segment": [1, 1, 1, 1], "model": ["X", "Y"] * 2, "rating": [1, 2, 3, 4]}
    table = pl.DataFrame(rows).select(*item_columns, "model", annotator=pl.lit("p"), rating="rating")
    item = "{doc}/{segment}" if "doc" in table.columns else "{key.doc}/{key.segment}"
    message = input_error(read, table, columns={"item": item})
    advice = f"try --column 'item={item}' --column system=model --column rater=annotator --column score=rating"
    assert message.startswith("table: columns item, model, annotator, rating match no reader")
    assert advice in message
    columns = {"item": item, "system": "model", "rater": "annotator", "score": "rating"}
    assert read(table, columns=columns).item_labels().to_list() == ["a/1", "b/1"]


def test_samples_of_code_are_outputs_and_not_repeated_labels(tmp_path: Path) -> None:
    samples = pl.DataFrame(
        {"task_id": [task for task in range(20) for _ in range(5)], "sample": [*range(5)] * 20, "model": "m"}
    ).with_columns(human=pl.when(pl.col("sample") < 2).then(pl.lit("pass")).otherwise(pl.lit("fail")))
    columns = {"item": "task_id", "system": "model", "score": "human:{rater:human}"}
    (repeated,) = [
        note for note in read(samples, columns=columns | {"repeat": "sample"}).notes if note.rule == "repeated-labels"
    ]
    assert repeated.count == 100
    assert repeated.message.endswith("as in item={task_id}/{sample} and cluster=task_id")
    study = read(samples, columns=columns | {"item": "{task_id}/{sample}", "cluster": "task_id"})
    assert not [note for note in study.notes if note.rule == "repeated-labels"]
    rates = cu.rates(study).rates
    assert rates.select("human_rate", "n").row(0) == (0.4, 100)  # 2 of 5 samples of each task pass
