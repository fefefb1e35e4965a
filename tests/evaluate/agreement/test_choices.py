from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.choices import are_choices, equal_grounds, grounds_of, resampled_groups
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.rater_comparison import RaterComparison, compare
from custodes.stats import ABSENT
from custodes.stats.ratios import ratio
from tests.evaluate.studies import rated, verdicts
from tests.random_studies import study


def sample_of(comparison: RaterComparison, times: np.ndarray, columns: np.ndarray | None = None) -> Sample:
    return Sample(comparison=comparison, times=times, flips=np.empty((0, 0), dtype=np.int8), columns=columns)


def by_definition(comparison: RaterComparison, times: np.ndarray, metric: int) -> dict[str, float | list[float]]:
    """Compute accuracies by loops over pairs and items, each counted as often as its cluster was resampled."""
    signs = comparison.preferences.signs
    n = equal = people_tied = metric_tied = agree = n_items = 0.0
    compared, net = np.zeros(len(comparison.systems)), np.zeros((2, len(comparison.systems)))
    for pair, (first, second) in enumerate(comparison.design.pairs.tolist()):
        margins, total = np.zeros(2), 0.0
        for item in range(len(comparison.items)):
            human, metric_sign = signs[pair, 0, item], signs[pair, 1 + metric, item]
            if ABSENT in (human, metric_sign):
                continue
            often = times[comparison.design.units[item]] * comparison.design.weights[item]
            n, equal = n + often, equal + often * (human == metric_sign)
            people_tied, metric_tied = people_tied + often * (human == 0), metric_tied + often * (metric_sign == 0)
            margins += often * np.array([human, metric_sign])
            total += often
        if total:
            n_items += 1
            agree += np.sign(margins[0]) == np.sign(margins[1])
        compared[[first, second]] += total
        net[:, first] += margins
        net[:, second] -= margins
    with np.errstate(invalid="ignore", divide="ignore"):
        human_wins, metrics = (net / compared).tolist()
        ratios = np.array([equal, people_tied, metric_tied]) / n
    return {
        "sample": ratios[0],
        "tied": ratios[1:].tolist(),
        "system": agree / n_items if n_items else np.nan,
        "net": [human_wins, metrics],
    }


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("per_cluster", [1, 4])
def test_every_statistic_in_resamples(scores: bool, per_cluster: int) -> None:
    (comparison,) = compare(study(4, scores=scores, per_cluster=per_cluster))
    rng = np.random.default_rng(0)
    times = np.stack([np.ones(comparison.design.n_units), *rng.poisson(1, (3, comparison.design.n_units))]).astype(
        np.uint8
    )
    sample = sample_of(comparison, times)
    accuracy, human, metrics = sample.margins
    n, equal, human_ties, metric_ties = sample.preference_totals
    for b, drawn in enumerate(times):
        for m in range(len(comparison.metrics)):
            expected = by_definition(comparison, drawn, m)
            rates = [ratio(total, n)[b, m] for total in (equal, human_ties, metric_ties)]
            assert rates == pytest.approx([expected["sample"], *expected["tied"]], nan_ok=True)
            assert accuracy[b, m] == pytest.approx(expected["system"], nan_ok=True)
            np.testing.assert_allclose([human[b, m], metrics[b, m]], expected["net"], rtol=1e-12)
    signs = comparison.preferences.signs
    both = (signs[:, [0]] != ABSENT) & (signs[:, 1:] != ABSENT)
    shared = [comparison.shared(m) for m in range(len(comparison.metrics))]
    assert [len(preferences.pair) for preferences in shared] == both.sum(axis=(0, 2)).tolist()
    assert [sorted(set(preferences.pair.tolist())) for preferences in shared] == [
        np.flatnonzero(is_compared).tolist() for is_compared in both.any(axis=2).T
    ]


def test_item_weights_count_where_only_preferences_can_be_compared() -> None:
    """Clusters with equal preferences share a column of bootstrap weights although their items may differ in weight."""
    rows = [
        {"item": f"i{k}", "system_a": "A", "system_b": "B", "rater": rater, "winner": winner}
        for k in range(10)
        for rater, winner in (("ann", "A"), ("judge", "A" if k < 4 else "B"))
    ]
    weights = pl.DataFrame({"item": [f"i{k}" for k in range(10)], "weight": [5.0] + [1.0] * 9})
    kinds = pl.DataFrame({"rater": ["ann", "judge"], "kind": ["human", "metric"]})
    study = cu.read(pl.DataFrame(rows), raters=kinds, items=weights)
    assert agreement(study, resamples=20).metrics["sample_accuracy"].item() == pytest.approx(8 / 14)


def test_equal_clusters_are_drawn_together() -> None:
    (comparison,) = compare(study(4, scores=False, n_items=300), human="ann", metrics="m1")
    number = comparison.cells.number
    columns, drawn = resampled_groups(comparison, 400, np.random.default_rng(0))
    assert number.sum() == comparison.design.n_units > len(number)
    whole = sample_of(comparison, np.ones((1, comparison.design.n_units), dtype=np.uint8))
    kinds = sample_of(comparison, drawn[:1], columns)
    np.testing.assert_allclose(kinds.preference_totals, whole.preference_totals)
    np.testing.assert_allclose(kinds.margins.accuracy, whole.margins.accuracy)
    assert drawn.shape == (401, len(number))
    assert drawn[0].tolist() == number.tolist()
    assert (drawn.sum(axis=1) == comparison.design.n_units).all()
    np.testing.assert_allclose(drawn[1:].mean(axis=0), number, atol=5 * np.sqrt(number.max() / 400))


def test_a_single_cluster_is_not_resampled() -> None:
    (comparison,) = compare(verdicts([("i0", "A", "B", rater, None, 1) for rater in ("h", "m")]))
    assert comparison.design.n_units == 1
    assert resampled_groups(comparison, 400, np.random.default_rng(0))[1].tolist() == [[1]]


def test_metrics_on_the_same_outputs_are_one_group() -> None:
    (comparison,) = compare(study(1))
    grounds = grounds_of(comparison)
    assert sorted(np.concatenate(equal_grounds(grounds)).tolist()) == [0, 1, 2]
    assert [group.tolist() for group in equal_grounds([grounds[0], grounds[1], grounds[0]])] == [[0, 2], [1]]
    shared = grounds[0].shared_with(grounds[2])
    only = comparison.only(np.array([0, 2]), **shared._asdict())
    assert set(only.preferences.keys) <= set(shared.keys.tolist())
    assert only.metrics == (comparison.metrics[0], comparison.metrics[2])
    np.testing.assert_array_equal(np.isfinite(only.metric_scores).all(axis=0), shared.scored)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([("i0", "A", "h", "", 1.0), ("i1", "A", "m", "", 1.0)], True),  # of different outputs
        ([("i0", "A", "h", "", 1.0), ("i0", "A", "m", "", 1.0)], False),
        ([("i0", "A", "h", "", 1.0), ("", "A", "m", "", 1.0)], False),  # of one system
        ([("i0", "A", "m", "", 1.0), ("", "A", "h", "", 1.0)], False),
    ],
)
def test_only_choices_can_be_compared_without_scores_of_both(scores: list[tuple], expected: bool) -> None:
    compared = verdicts([(f"i{k}", "A", "B", rater, None, (-1) ** k) for k in range(3) for rater in ("h", "m")])
    rated_too = replace(compared, ratings=rated(scores, {"h": "human", "m": "metric"}).ratings)
    (comparison,) = compare(rated_too)
    assert are_choices(comparison) == expected
