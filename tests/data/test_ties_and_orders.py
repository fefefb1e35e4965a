"""Rules for ties, presentation orders and several annotators against loops over the rows."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from custodes.data import ties_and_orders
from custodes.data.notes import Note
from custodes.data.ties_and_orders import (
    combine_annotators,
    compare_in_memory,
    human_threshold,
    merge_orders,
    merging_notes,
    rater_comparisons,
)

KEYS = ["rater", "item", "system_a", "system_b"]


def rows_of(table: Any) -> list[dict[str, Any]]:
    return nw.to_native(table.sort(*[name for name in KEYS if name in table.columns])).to_dicts()


def repeated_verdicts(seed: int) -> pl.DataFrame:
    """Return up to six verdicts per comparison, in both orders or in an unknown order; some are unreadable."""
    rng = np.random.default_rng(seed)
    n = 700
    frame = pl.DataFrame(
        {
            "rater": rng.integers(0, 2, n),
            "item": rng.integers(0, 60, n),
            "system_a": 0,
            "system_b": rng.integers(1, 3, n),
            "sign": pl.Series(rng.choice([-1, 0, 1, 1], n), dtype=pl.Int8),
            "order": rng.choice([1, -1, 0], n, p=[0.45, 0.45, 0.1]),
            "row": rng.permutation(n),
        }
    )
    return frame.with_columns(sign=pl.when(pl.Series(rng.random(n) < 0.7)).then("sign"))


def merged_by_definition(rows: list[dict[str, Any]], orders: str) -> dict[str, Any] | None:
    answered = [row for row in rows if row["sign"] is not None]
    if not answered:
        return None
    if orders == "first":
        first = min(answered, key=lambda row: row["row"])
        return {"sign": first["sign"], "order": first["order"], "half": 0, "contradictory": 0}
    of_order = {order: [row["sign"] for row in answered if row["order"] == order] for order in (1, -1, 0)}
    means = {order: np.mean(signs) for order, signs in of_order.items() if signs}
    asked = {row["order"] for row in rows}
    half = {1, -1} <= asked and len({1, -1} & means.keys()) == 1
    contradictory = len({row["sign"] for row in answered}) > 1
    sign = int(np.sign(round(sum(means.values()), 9)))
    is_excluded = half or (contradictory and orders == "consistent")
    return {
        "sign": None if is_excluded else sign,
        "order": np.mean([*means]),
        "half": int(half),
        "contradictory": int(contradictory and not half),
    }


@pytest.mark.parametrize("orders", ["mean", "consistent", "first"])
@pytest.mark.parametrize("seed", range(3))
def test_verdicts_in_both_orders_are_merged_by_definition(orders: Any, seed: int) -> None:
    verdicts = repeated_verdicts(seed)
    expected = []
    for key, part in sorted(verdicts.partition_by(KEYS, as_dict=True).items()):
        if (merged := merged_by_definition(part.to_dicts(), orders)) is not None:
            expected.append(dict(zip(KEYS, key, strict=True)) | merged)
    found = rows_of(merge_orders(nw.from_native(verdicts), orders))
    assert found == expected
    assert {row["half"] for row in found} == ({0} if orders == "first" else {0, 1})
    assert len(expected) > 150


def scores_and_verdicts() -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(0)
    grid = pl.DataFrame(
        [(r, i, s) for r in range(4) for i in range(5) for s in range(3)], schema=[*KEYS[:2], "system"], orient="row"
    )
    scores = grid.with_columns(
        score=pl.Series(rng.integers(1, 5, 60) / 2), threshold=pl.when(pl.col("rater") < 3).then(0.5).otherwise(0.0)
    ).filter(pl.Series(rng.random(60) < 0.8))
    verdicts = pl.DataFrame(
        [(r, i, a, b) for r in range(4) for i in range(5) for a, b in ((0, 1), (0, 2), (1, 2))],
        schema=KEYS,
        orient="row",
    ).with_columns(sign=pl.Series(rng.choice([-1, 0, 1], 60)), order=pl.Series(rng.choice([-1.0, 0.0, 1.0], 60)))
    return scores, verdicts


def compared(scores: pl.DataFrame, verdicts: pl.DataFrame | None) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """Return sign, order, difference and threshold of each comparison; scores come before verdicts."""
    result = {}
    if verdicts is not None:
        for *key, sign, order in verdicts.iter_rows():
            result[tuple(key)] = (sign, order, None, None)
    cells = {(r, i, s): (score, threshold) for r, i, s, score, threshold in scores.iter_rows()}
    for (r, i, a), (score, threshold) in cells.items():
        for b in range(a + 1, 3):
            if (r, i, b) in cells:
                difference = score - cells[r, i, b][0]
                sign = 0 if abs(difference) <= threshold else int(np.sign(difference))
                result[r, i, a, b] = (sign, 0.0, difference, threshold)
    return result


@pytest.mark.parametrize("with_verdicts", [False, True])
def test_scores_come_before_verdicts_and_differences_up_to_the_threshold_are_ties(*, with_verdicts: bool) -> None:
    scores, verdicts = scores_and_verdicts()
    table = rater_comparisons(nw.from_native(scores), nw.from_native(verdicts) if with_verdicts else None)
    names = ("sign", "order", "difference", "threshold")
    found = {tuple(row[k] for k in KEYS): tuple(row[k] for k in names) for row in rows_of(table)}
    assert found == compared(scores, verdicts if with_verdicts else None)
    assert 0.5 in {abs(row[2]) for row in found.values() if row[2] is not None and not row[0]}


@pytest.mark.parametrize("aggregate", ["mean", "vote"])
def test_annotators_are_combined_by_mean_difference_or_by_votes(aggregate: Any) -> None:
    scores, _ = scores_and_verdicts()
    table = rater_comparisons(nw.from_native(scores), None)
    by_output: dict[tuple[int, ...], list[tuple[Any, ...]]] = {}
    for (r, *key), values in sorted(compared(scores, None).items()):
        if r < 3:
            by_output.setdefault(tuple(key), []).append(values)
    expected = []
    for key, rows in sorted(by_output.items()):
        if aggregate == "vote":
            sign = int(np.sign(sum(row[0] for row in rows)))
        else:
            mean = np.mean([row[2] for row in rows])
            sign = 0 if abs(mean) <= 0.5 else int(np.sign(mean))
        expected.append(dict(zip(KEYS[1:], key, strict=True)) | {"sign": sign, "order": 0.0})
    assert rows_of(combine_annotators(table.filter(nw.col("rater") < 3), aggregate)) == expected
    assert {row["sign"] for row in expected} == {-1, 0, 1}


@pytest.mark.parametrize("batch_rows", [12, 25, 10**9])
def test_batches_of_items_give_the_same_comparisons(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties_and_orders, "BATCH_ROWS", batch_rows)
    scores, verdicts = scores_and_verdicts()
    metric_verdicts = verdicts.filter(pl.col("rater") == 3)
    for n_annotators, used, votes in ((3, metric_verdicts, False), (3, verdicts, True), (1, metric_verdicts, False)):
        raters, people = compare_in_memory(scores, used, n_annotators=n_annotators, aggregate="mean")
        whole = rater_comparisons(nw.from_native(scores), nw.from_native(used))
        names = [*KEYS, "sign", "order"]
        assert raters.sort(KEYS).rows() == nw.to_native(whole.select(names)).sort(KEYS).rows()
        human = whole.filter(nw.col("rater") < n_annotators)
        combined = combine_annotators(human, "vote" if votes else "mean") if n_annotators > 1 else human
        expected = nw.to_native(combined.select(*names[1:])).sort(KEYS[1:])
        assert people.drop("rater").sort(KEYS[1:]).rows() == expected.rows()
        assert set(people["rater"]) == {0}


def test_thresholds_of_people_add_the_rounding_error_of_the_scale() -> None:
    noise = ties_and_orders.FLOAT_NOISE
    assert human_threshold(np.array([2.0, np.nan, 12.0]), None) == pytest.approx(10 * noise)
    assert human_threshold(np.array([2.0, 12.0]), 0.5) == pytest.approx(0.5 + 10 * noise, rel=1e-15)
    assert human_threshold(np.array([np.nan]), 0.25) == 0.25


def test_notes_count_half_and_contradictory_comparisons() -> None:
    half = (
        "3 comparisons are excluded because they were queried in both orders and have a verdict in only one order"
        "; repeat them"
    )
    excluded = "2 comparisons are excluded because verdicts of one rater differ between presentation orders or repeats"
    assert merging_notes(3, 2, "consistent", half_advice="; repeat them") == [
        Note(rule="half-judged", message=half, count=3),
        Note(rule="torn-verdicts", message=excluded, count=2),
    ]
    used = (
        "2 comparisons have verdicts of one rater that differ between presentation orders or repeats; the mean "
        "verdict decides"
    )
    assert merging_notes(0, 2, "mean") == [Note(rule="torn-verdicts", message=used, count=2)]
