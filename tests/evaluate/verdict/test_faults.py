"""The verdict reports the findings on judges, those of recommended judges first, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.wording import estimate_with_interval
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.verdict import best_metrics, verdict_of
from custodes.evaluate.verdict.view import AspectResults


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """Return results of a judge that prefers the first position, in both orders for three quarters of the
    comparisons."""
    rows = []
    for item in range(40):
        for a, b in (("A", "B"), ("A", "C"), ("B", "C")):
            rows.append((item, a, b, "person", "human", "", "A" if (item + ord(b)) % 4 else "B"))
            fair = (item + ord(a)) % 5 > 1
            for order in ("ab", "ba"):
                slot = a if order == "ab" else b
                rows.append((item, a, b, "slotted", "metric", order, "A" if slot == a else "B"))
                rows.append((item, a, b, "steady", "metric", order, "A" if fair else "B"))
    names = ("item", "model_a", "model_b", "rater", "kind", "order", "winner")
    table = pl.DataFrame(rows, schema=names, orient="row")
    study = cu.read(table.with_columns(winner=pl.col("winner").replace({"A": "model_a", "B": "model_b"})))
    options: dict[str, Any] = {"resamples": 100}
    answers = {
        name: getattr(cu, name)(study, **options) for name in ("agreement", "favoritism", "ranking", "consistency")
    }
    board = cu.leaderboard(study, metrics=best_metrics(answers["agreement"]), **options)
    return {**answers, "leaderboard": board, "check": cu.check(study)}


def test_flips_and_findings_are_told_with_their_numbers(results: dict[str, Any]) -> None:
    lines = list(faults(AspectResults(results, "")))
    flips = [text for text in lines if " of 120 comparisons when the presentation order is reversed (" in text]
    assert len(flips) == 2
    assert any(text.startswith("slotted reverses its preference in 100.0 % [90.7 %, 100.0 %]") for text in flips)
    assert any(text.startswith("steady reverses its preference in 0.0 % [") for text in flips)
    (text,) = (text for text in lines if "prefers" in text)
    row = results["consistency"].findings.filter(rater="slotted", kind="position").row(0, named=True)
    points = estimate_with_interval(row, "estimate", digits=0)
    margin = f"an output shown first has a margin of {points} points over the same output shown second"
    assert text == f"slotted prefers what is shown first: {margin}."
    assert row["p_adjusted"] <= 0.05


def test_nothing_is_told_where_nothing_was_asked_or_found(results: dict[str, Any]) -> None:
    without = {name: table for name, table in results.items() if name != "consistency"}
    assert list(faults(AspectResults(without, ""))) == []
    assert "faults" not in verdict_of(without).verdict["kind"]
    kinds = verdict_of(results).verdict["kind"].unique(maintain_order=True).to_list()
    assert kinds.index("trust") < kinds.index("faults") < kinds.index("favours")


def test_a_position_bias_from_one_order_per_comparison_assumes_random_orders(results: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    is_ab, prefers_first = rng.random((2, 200)) < [[0.5], [0.85]]
    frame = pl.DataFrame({"item": np.arange(200), "preference": np.where(is_ab == prefers_first, 1, -1)}).with_columns(
        order=pl.Series(np.where(is_ab, "ab", "ba")),
        system_a=pl.lit("A"),
        system_b=pl.lit("B"),
        rater=pl.lit("judge"),
        kind=pl.lit("metric"),
    )
    result = cu.consistency(cu.read(frame), resamples=50)
    (line,) = [text for text in faults(AspectResults({**results, "consistency": result}, "")) if "shown first" in text]
    assert line.endswith("points, assuming random orders.")


def test_what_was_not_answered_is_told_with_reasons(results: dict[str, Any]) -> None:
    rows = [
        (item, order, None if item < 8 and order == "ba" else 1 - 2 * (item % 2), "refusal" if item < 6 else "label")
        for item in range(40)
        for order in ("ab", "ba")
    ]
    frame = pl.DataFrame(rows, schema=["item", "order", "preference", "invalid"], orient="row")
    frame = frame.with_columns(
        invalid=pl.when(pl.col("preference").is_null()).then("invalid").otherwise(pl.lit("")),
        system_a=pl.lit("A"),
        system_b=pl.lit("B"),
        rater=pl.lit("judge"),
        kind=pl.lit("metric"),
    )
    person = frame.filter(order="ab").with_columns(
        rater=pl.lit("ann"), kind=pl.lit("human"), preference=1, invalid=pl.lit(""), order=pl.lit("")
    )
    result = cu.consistency(cu.read(pl.concat([person, frame], how="diagonal_relaxed")), resamples=50)
    lines = [text for text in faults(AspectResults({**results, "consistency": result}, "")) if "no verdict" in text]
    assert len(lines) == 1
    assert lines[0].startswith("judge gave no verdict in 10 % [")
    assert lines[0].endswith("of 80 questions (refusal 8 %, label 2 %).")
    assert not [text for text in faults(AspectResults(results, "")) if "no verdict" in text]
