"""How metrics stand to chance and to the best of them, from draws and p-values that are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.standing import standing_columns
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.comparison import compare
from tests.evaluate.agreement.test_agreement import scores_of
from tests.evaluate.test_favoritism import study_of

CONFIDENCE = 0.45  # the ends that a test gives are draws, and with five items the interval then reaches about to them


def stand(
    values: dict[str, list[tuple[float, float, float]]],
    p_values: dict[str, list[float]] | None = None,
    *,
    systems: int = 4,
    alpha: float = 0.05,
) -> dict[str, Any]:
    """The standing of metrics m1, m2, ... with these values and ends of intervals by statistic; `p_values` of m1 and
    each other one, all other pairs have none."""
    many = len(next(iter(values.values())))
    comparison = compare(study_of(scores_of(0, raters=many + 1, items=5, systems=systems)))[0]
    sample = Sample(comparison=comparison, times=np.ones((3, 5)), flips=np.ones((0, 5), dtype=np.int8))
    draws = {name: np.array(rows).T for name, rows in values.items()}
    pairs = np.stack(np.triu_indices(many, 1), axis=1)
    given = {
        name: np.where(pairs[:, 0] == 0, np.resize([*own, np.nan], len(pairs)), np.nan)
        for name, own in (p_values or {}).items()
    }
    return standing_columns(sample, draws, given, pairs, confidence=CONFIDENCE, alpha=alpha)


def accurate(*values: tuple[float, float, float]) -> dict[str, list[tuple[float, float, float]]]:
    return {"kendall_item": [*values], "sample_accuracy": [(0.5, 0.4, 0.6)] * len(values)}


def test_metrics_are_sided_by_their_interval_and_stand_best_first() -> None:
    made = stand(accurate((0.0, -0.1, 0.1), (-0.3, -0.4, -0.2), (0.4, 0.3, 0.5), (0.1, -0.2, 0.2)))
    assert made["metric"] == ["m3", "m4", "m1", "m2"]
    assert made["side"] == ["above", "unclear", "unclear", "below"]
    assert made["statistic"] == "kendall_item"
    assert made["chance"].tolist() == [0.0] * 4
    assert made["value"].tolist() == [0.4, 0.1, 0.0, -0.3]
    np.testing.assert_allclose(made["value_low"], [0.3, -0.1, -0.1, -0.4], atol=0.02)
    np.testing.assert_allclose(made["value_high"], [0.5, 0.3, 0.1, -0.2], atol=0.02)
    assert made["level_with_best"] == [None] * 4  # nothing was tested


def test_comparisons_with_the_best_are_corrected_for_their_number() -> None:
    # Benjamini and Hochberg by hand, six comparisons at .05: bounds .0083 .0167 .025 .0333 .0417 .05; the third p is
    # the last under its bound, although the fourth alone would be under .05
    values = accurate(*((0.5 - i / 50, 0.2, 0.6) for i in range(7)))
    tested = {"kendall_item": [0.001, 0.01, 0.02, 0.04, 0.045, 0.9]}
    made = stand(values, tested)
    assert made["level_with_best"] == [None, False, False, False, True, True, True]
    # step-up: the fourth of .0333 takes the third along, which is above its own bound
    tested["kendall_item"][2:4] = [0.03, 0.0333]
    assert stand(values, tested)["level_with_best"] == [None, False, False, False, False, True, True]
    assert stand(values, tested, alpha=0.001)["level_with_best"] == [None] + [True] * 6


def test_only_tests_of_the_best_and_of_its_statistic_count() -> None:
    values = accurate((0.5, 0.4, 0.6), (0.4, 0.3, 0.5), (0.3, 0.2, 0.4))
    assert stand(values, {"sample_accuracy": [0.001, 0.001]})["level_with_best"] == [None] * 3
    # m2 is best, and only m1 was compared with it
    swapped = accurate((0.4, 0.3, 0.5), (0.5, 0.4, 0.6), (0.3, 0.2, 0.4))
    made = stand(swapped, {"kendall_item": [0.001, 0.001]})
    assert dict(zip(made["metric"], made["level_with_best"], strict=True)) == {"m2": None, "m1": False, "m3": True}
    assert stand(values, {"kendall_item": [np.nan, np.nan]})["level_with_best"] == [None] * 3


def test_undefined_metrics_have_no_place() -> None:
    nothing = (np.nan,) * 3
    values = {"kendall_item": [(0.1, 0.0, 0.2), nothing], "sample_accuracy": [(0.5, 0.4, 0.6), nothing]}
    assert stand(values)["metric"] == ["m1"]
    # a metric that only lacks Kendall's tau is ranked with all others by the share of equal choices
    values["sample_accuracy"][1] = (0.9, 0.8, 1.0)
    made = stand(values)
    assert (made["statistic"], made["metric"]) == ("sample_accuracy", ["m2", "m1"])
    empty = stand({"kendall_item": [nothing], "sample_accuracy": [nothing]})
    assert empty["metric"] == empty["side"] == empty["level_with_best"] == []


def test_two_systems_are_ranked_by_equal_choices_against_guessing() -> None:
    values = accurate((0.9, 0.8, 1.0), (0.1, 0.0, 0.2))
    made = stand(values, systems=2)
    assert made["statistic"] == "sample_accuracy"
    comparison = compare(study_of(scores_of(0, raters=3, items=5, systems=2)))[0]
    np.testing.assert_array_equal(made["chance"], STATISTICS["sample_accuracy"].chance_of(comparison))


def test_the_table_of_metrics_names_the_best_group() -> None:
    scores = scores_of(1, raters=4, items=60)
    scores[1] = scores[0] + np.random.default_rng(0).normal(scale=0.05, size=scores[0].shape)
    scores[2] = scores[0] + np.random.default_rng(1).normal(scale=0.05, size=scores[0].shape)
    result = agreement(study_of(scores), resamples=200)
    level = dict(result.standing.select("metric", "level_with_best").iter_rows())
    assert dict(result.metrics.select("metric", "group").iter_rows()) == {
        name: "a" if own is None or own else "" for name, own in level.items()
    }
    assert sorted(result.metrics["group"]) == ["", "a", "a"]
    # the values are those of the table of metrics
    joined = result.standing.join(result.metrics, on="metric")
    for end in ("", "_low", "_high"):
        assert joined[f"value{end}"].equals(joined[f"kendall_item{end}"].rename(f"value{end}"))
