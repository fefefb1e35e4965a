"""Limits from which `check` reports a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu


def compared(rated: dict[str, set[int]], *, metrics: dict[str, int] | None = None) -> dict[str, Any]:
    """Return the problems of a study where annotators rated these items of each system, and metrics the first items."""
    rng = np.random.default_rng(0)
    rows = [(i, s, "ann", "human", rng.normal()) for s, items in rated.items() for i in sorted(items)]
    for metric, n in (metrics or {"bleu": 10**6}).items():
        rows += [(i, s, metric, "metric", rng.normal()) for s, items in rated.items() for i in sorted(items) if i < n]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")
    return {row["rule"]: row for row in cu.check(cu.read(frame)).problems.to_dicts()}


@pytest.mark.parametrize(("n", "is_reported"), [(90, False), (89, True), (45, True)])
def test_coverage_below_nine_tenths_of_the_best_metric_is_reported(n: int, *, is_reported: bool) -> None:
    found = compared({system: {*range(100)} for system in "AB"}, metrics={"full": 100, "part": n, "none": 0})
    assert ("coverage-differs" in found) == is_reported
    if is_reported:
        assert found["coverage-differs"]["examples"] == ["part"]
        assert f"part ({n} %)" in found["coverage-differs"]["message"]


@pytest.mark.parametrize(
    ("n_of_b", "n_of_c", "differing"), [(95, 90, []), (100, 89, ["A", "B", "C"]), (85, 89, ["A", "B", "C"])]
)
def test_systems_with_different_items_are_named(n_of_b: int, n_of_c: int, differing: list[str]) -> None:
    found = compared({"A": {*range(100)}, "B": {*range(n_of_b)}, "C": {*range(n_of_c)}})
    assert found.get("different-items", {"examples": []})["examples"] == differing
    assert "disjoint-systems" not in found


def test_systems_without_common_items_are_disjoint() -> None:
    first, second = {*range(60)}, {*range(60, 120)}
    found = compared({"A": first, "B": first, "C": second, "D": second})
    assert found["disjoint-systems"]["examples"] == ["A", "C"]
    assert "A, B; C, D" in found["disjoint-systems"]["message"]
    assert "different-items" not in found
    joined = compared({"A": first, "B": first, "C": second | {0}, "D": second | {0}})  # one common item
    assert "disjoint-systems" not in joined
    assert joined["different-items"]["examples"] == ["A", "B", "C", "D"]


@pytest.mark.parametrize("better", ["A", "B"])
def test_annotators_who_always_prefer_one_of_two_systems_are_reported(better: str) -> None:
    rows = [(k, s, r, int(s == better) + k % 2 * (r == "m")) for k in range(40) for s in "AB" for r in ("ann", "m")]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row").with_columns(
        kind=pl.when(pl.col("rater") == "ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    )
    (message,) = cu.check(cu.read(frame)).problems.filter(rule="one-sided-annotators")["message"]
    assert message.startswith(f"annotators prefer '{better}' in every comparison")
    mixed = frame.with_columns(score=pl.when(pl.col("item") == 0).then(1 - pl.col("score")).otherwise("score"))
    assert not cu.check(cu.read(mixed)).problems["rule"].is_in(["one-sided-annotators"]).any()


@pytest.mark.parametrize(("n", "is_few"), [(29, True), (30, False)])
def test_few_items_have_a_limit(n: int, *, is_few: bool) -> None:
    found = compared({system: {*range(n)} for system in "AB"})
    assert ("few-items" in found) == is_few


@pytest.mark.parametrize("n_means", [19, 20])
def test_a_rater_who_is_the_mean_of_others_is_found_in_spite_of_missing_scores(n_means: int) -> None:
    rng = np.random.default_rng(0)
    people = rng.integers(1, 6, (3, 40)).astype(float)
    people[0, :10], people[1, 5:20] = np.nan, np.nan
    mean = np.nanmean(people, axis=0)
    mean[(np.isfinite(people).sum(axis=0) < 2)] = 9.0  # not a mean of several
    several = np.flatnonzero(np.isfinite(people).sum(axis=0) > 1)
    mean[several[n_means:]] = np.nan
    rows = [
        (str(k // 2), "AB"[k % 2], f"ann{r}", "human", scores[k])
        for r, scores in enumerate((*people, mean))
        for k in range(40)
        if np.isfinite(scores[k])
    ]
    rows += [(str(k // 2), "AB"[k % 2], "bleu", "metric", rng.normal()) for k in range(40)]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")
    found = cu.check(cu.read(frame)).problems.filter(rule="mean-of-others")
    assert found["examples"].to_list() == ([["ann3"]] if n_means == 20 else [])
