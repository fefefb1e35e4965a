"""Estimates of one judge: counts, rates with bounds, influences and measures, by their definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.evaluate.rates.estimates import (
    StratifiedLabels,
    cluster_divisor,
    estimate_interval,
    has_only_judged,
    judge_rates,
    measure_functions,
    positive_rate,
)
from custodes.stats.clusters import influence_design_effect
from custodes.stats.intervals import wilson_interval
from custodes.stats.rates.measures import sensitivity
from custodes.stats.rates.posterior import LabelCounts, rate_variance
from tests.evaluate.rates.labelled import NAN, drawn, labelled, settings

Z = stats.norm.ppf(0.975)


def wilson(rate: float, n: float) -> tuple[float, float, float]:
    return (rate, *(float(bound) for bound in wilson_interval(rate, n, quantile=Z)))


def test_an_interval_is_of_quantiles_and_contains_the_estimate() -> None:
    draws = np.arange(101.0)
    assert estimate_interval(np.append(50, draws), 0.5) == (50, 25, 75)
    assert estimate_interval(np.append(90, draws), 0.5) == (90, 25, 90)
    assert estimate_interval(np.append(10, draws), 0.5) == (10, 10, 75)
    assert np.isnan(estimate_interval(np.append(NAN, draws), 0.5)).all()


def test_rates_are_post_stratified_with_the_numbers_of_equal_outputs() -> None:
    human, judge = drawn(n_unjudged=40)
    number = np.where(np.isnan(human), 1 + np.arange(400) % 3, 1.0)
    outputs = labelled(human, judge, number=number)
    found = judge_rates(outputs, judge, **settings())
    is_labelled, stratum = ~np.isnan(human), np.where(np.isnan(judge), 2, judge).astype(int)
    total = np.bincount(stratum, weights=number)
    n_labelled, n_positive = (np.bincount(stratum[is_labelled], weights=w) for w in (None, human[is_labelled]))
    rate = n_positive / n_labelled
    share = total / total.sum()
    corrected = float(share @ rate)
    assert found.corrected.value == pytest.approx(corrected)
    assert (found.n, found.n_labelled, found.n_left_out) == (number.sum(), is_labelled.sum(), 0)
    assert (found.n_both_labels, found.n_unjudged) == (n_labelled[:2].sum(), total[2])
    assert found.rarer == min(n_positive.sum(), n_labelled.sum() - n_positive.sum())
    assert found.unlabelled == 0
    assert found.human == pytest.approx(wilson(n_positive.sum() / n_labelled.sum(), n_labelled.sum()))
    assert found.judge == pytest.approx(wilson(total[1] / total[:2].sum(), total[:2].sum()))
    assert (found.judge_n, found.human_n) == (pytest.approx(total[:2].sum()), pytest.approx(n_labelled.sum()))
    counts = LabelCounts(np.stack([n_labelled - n_positive, n_positive], axis=1), total)
    assert found.rate_variance == pytest.approx(rate_variance(counts))
    assert found.rate_draws.var() == pytest.approx(found.rate_variance, rel=0.06)
    assert found.corrected[1:] == pytest.approx(np.quantile(found.rate_draws, [0.025, 0.975]))
    np.testing.assert_allclose(found.unjudged[0], share[2] * np.array([1 - rate[2], rate[2]]))
    assert found.unjudged.shape == (1 + len(found.rate_draws), 2)
    residual = np.where(is_labelled, human - rate[stratum], 0.0)
    np.testing.assert_allclose(
        found.influence,
        (rate[stratum] - corrected) / total.sum() + residual * share[stratum] / n_labelled[stratum],
        rtol=0.03,
        atol=1e-12,
    )
    mean = n_positive.sum() / n_labelled.sum()
    np.testing.assert_allclose(
        found.human_influence, np.where(is_labelled, human - mean, 0) / n_labelled.sum(), rtol=0.03, atol=1e-12
    )
    beta = stats.beta(n_positive.sum() + 0.5, (n_labelled - n_positive).sum() + 0.5)
    assert found.human_variance == pytest.approx(beta.var())
    np.testing.assert_array_equal(found.rate_values, [found.corrected.value, *found.rate_draws])
    assert found.pairs is not None
    np.testing.assert_allclose(found.pairs.counts.labelled, counts.labelled[:2])
    np.testing.assert_allclose(found.pairs.counts.total, n_labelled[:2])  # with random sampling: of both labels


def test_selected_outputs_alone_have_rates_and_influences_on_them() -> None:
    human, judge = drawn(n_unjudged=40)
    outputs = labelled(human, judge, weight=np.where(np.arange(400) % 2, 1.0, 3.0))
    chosen = np.arange(400) % 3 > 0
    part, alone = (
        judge_rates(outputs, judge, chosen, **settings()),
        judge_rates(outputs.only(chosen), judge[chosen], **settings()),
    )
    assert (part.corrected, part.human, part.judge, part.n) == (alone.corrected, alone.human, alone.judge, alone.n)
    for name in ("influence", "human_influence"):
        np.testing.assert_array_equal(getattr(part, name)[chosen], getattr(alone, name))
        assert not getattr(part, name)[~chosen].any()


@pytest.mark.parametrize("sampling", ["random", "by-judge"])
def test_weights_divide_strata_by_probability_and_reduce_the_number_of_human_labels(sampling: Any) -> None:
    human, judge = drawn()
    weight = np.where(np.random.default_rng(1).random(400) < 0.5, 1.0, 4.0)
    outputs = labelled(human, judge, weight=weight)
    found = judge_rates(outputs, judge, **settings(sampling))
    is_labelled = ~np.isnan(human)
    used = weight[is_labelled]
    effective = used.sum() ** 2 / (used**2).sum()
    assert found.human_n == pytest.approx(effective)
    if sampling == "random":
        assert found.human == pytest.approx(wilson(np.average(human[is_labelled], weights=used), effective))
    else:
        assert np.isnan(found.human).all()
    # Within a part of a stratum, all weights are equal.
    part = (2 * judge + (weight == 1)).astype(int)
    total = np.bincount(part)
    n_labelled, n_positive = (np.bincount(part[is_labelled], weights=w) for w in (None, human[is_labelled]))
    assert n_labelled.min() >= 10
    assert found.corrected.value == pytest.approx(total @ (n_positive / n_labelled) / 400)
    counts = LabelCounts(np.stack([n_labelled - n_positive, n_positive], axis=1), total.astype(float))
    assert found.rate_variance == pytest.approx(rate_variance(counts, prior=1 / 3))
    # Error rates have weights with a mean of 1, and all outputs or only those with both labels.
    assert found.pairs is not None
    cells = np.zeros((2, 2))
    np.add.at(
        cells, (judge[is_labelled].astype(int), human[is_labelled].astype(int)), used * is_labelled.sum() / used.sum()
    )
    np.testing.assert_allclose(found.pairs.counts.labelled, cells)
    expected = cells.sum(axis=1) if sampling == "random" else np.bincount(judge.astype(int))
    np.testing.assert_allclose(found.pairs.counts.total, expected)
    squares = np.bincount(judge[is_labelled].astype(int), weights=used**2)
    sums = np.bincount(judge[is_labelled].astype(int), weights=used)
    kish = (sums / squares)[:, np.newaxis] * used.sum() / is_labelled.sum()
    np.testing.assert_allclose(found.pairs.effective(np.zeros(400)).labelled, cells * kish)


@pytest.mark.parametrize(("sampling", "prior"), [("random", 1 / 2), ("by-judge", 1 / 3)])
def test_the_prior_is_neutral_if_labels_of_the_judge_were_sampled(sampling: Any, prior: float) -> None:
    human, judge = drawn(60, 40, n_unjudged=10)
    outputs = labelled(human, judge)
    found = judge_rates(outputs, judge, **settings(sampling))
    is_labelled, stratum = ~np.isnan(human), np.where(np.isnan(judge), 2, judge).astype(int)
    cells = np.zeros((3, 2))
    np.add.at(cells, (stratum[is_labelled], human[is_labelled].astype(int)), 1)
    counts = LabelCounts(cells, np.bincount(stratum).astype(float))
    assert found.rate_variance == pytest.approx(rate_variance(counts, prior=prior))
    # Bins of scores have Jeffreys' prior, and outputs without a score are one more stratum.
    strata = np.where(np.isnan(judge), 0, np.arange(60) % 4)
    binned = judge_rates(outputs, judge, strata=strata, **settings(sampling))
    stratum = np.where(np.isnan(judge), 4, strata)
    cells = np.zeros((5, 2))
    np.add.at(cells, (stratum[is_labelled], human[is_labelled].astype(int)), 1)
    counts = LabelCounts(cells, np.bincount(stratum).astype(float))
    assert binned.rate_variance == pytest.approx(rate_variance(counts))


def test_labels_from_another_source_correct_the_rate_of_the_other_outputs() -> None:
    human, judge = drawn()
    outputs = labelled(human, judge, number=np.where(np.isnan(human), 2.0, 1.0))
    found = judge_rates(outputs, judge, **settings("by-label"))
    is_labelled = ~np.isnan(human)
    tpr, fpr = (judge[human == label].mean() for label in (1, 0))
    share = judge[~is_labelled].mean()
    assert found.corrected.value == pytest.approx((share - fpr) / (tpr - fpr))
    assert (found.n, found.n_labelled, found.judge_n) == (480, 160, 480)
    assert found.judge == pytest.approx(wilson(share, 480))
    assert np.isnan([found.rate_variance, *found.human]).all()
    assert found.unlabelled == 0
    rate, width = found.corrected.value, tpr - fpr  # by the delta method
    n_positive, n_negative = (human == 1).sum(), (human == 0).sum()
    expected = np.where(human == 1, -rate * (judge - tpr) / n_positive, (rate - 1) * (judge - fpr) / n_negative) / width
    expected[~is_labelled] = (judge[~is_labelled] - share) / 480 / width
    np.testing.assert_allclose(found.influence, expected, rtol=0.05, atol=1e-12)
    everything = judge_rates(outputs.only(is_labelled), judge[is_labelled], **settings("by-label"))
    assert np.isnan([*everything.corrected, *everything.judge]).all()
    assert (everything.n, everything.rate_draws.size) == (0, 1)
    # The error rates are then those of the human labels alone.
    assert everything.error_rates["tpr"][0] == pytest.approx(tpr)
    assert everything.with_error_rates(everything.pairs, confidence=0.95) is everything  # type: ignore[arg-type]


def test_clusters_divide_counts_by_the_design_effect_of_each_estimate() -> None:
    human, judge = drawn(n_labelled=200)
    unit = np.arange(400) // 4
    outputs = labelled(human, judge, unit=unit)
    found = judge_rates(outputs, judge, **settings(confidence=0.9))
    is_labelled = ~np.isnan(human)

    def divisor(influence: np.ndarray, **options: Any) -> float:
        return float(influence_design_effect(influence, unit, **options).divisor(0.9))

    n_human = 200 / divisor(found.human_influence, kind=is_labelled)
    n_judged = 400 / divisor(judge - judge.mean())
    assert (found.human_n, found.judge_n) == (pytest.approx(n_human), pytest.approx(n_judged))
    assert found.judge[1:] == pytest.approx(wilson_interval(judge.mean(), n_judged, quantile=stats.norm.ppf(0.95)))
    assert n_human < 200
    quantile = stats.norm.ppf(0.95)
    assert found.human[1:] == pytest.approx(wilson_interval(np.nanmean(human), n_human, quantile=quantile))
    assert found.judge[1:] == pytest.approx(wilson_interval(judge.mean(), n_judged, quantile=quantile))
    cells = np.zeros((2, 2))
    np.add.at(cells, (judge[is_labelled].astype(int), human[is_labelled].astype(int)), 1)
    effect = divisor(found.influence, kind=is_labelled)
    counts = LabelCounts(cells / effect, np.bincount(judge.astype(int)) / effect)
    assert found.rate_variance == pytest.approx(rate_variance(counts))
    # Draws of a measure have the variance of its influence on clusters.
    assert found.pairs is not None
    effect_of_tpr = divisor(found.pairs.influence(sensitivity), kind=is_labelled)
    tpr, n_positive = cells[1, 1] / cells[:, 1].sum(), cells[:, 1].sum() / effect_of_tpr
    assert found.error_rates["tpr"][0] == pytest.approx(tpr)
    assert found.error_rates["tpr"][1:].std() == pytest.approx(np.sqrt(tpr * (1 - tpr) / n_positive), rel=0.08)


def test_the_divisor_is_1_without_clusters_and_the_number_of_outputs_with_one_cluster() -> None:
    influence = np.array([0.5, -0.25, -0.25])
    assert cluster_divisor(labelled([1, 0, 0]), influence, 0.95) == 1
    one = labelled([1, 0, 0], unit=np.zeros(3, dtype=int), number=np.ones(3))
    assert cluster_divisor(one, influence, 0.95) == 3


def test_shared_error_rates_are_those_of_the_pooled_labels() -> None:
    human, judge = drawn(n_unjudged=40)
    outputs = labelled(human, judge, systems=np.arange(400) % 2)
    pooled = judge_rates(outputs, judge, **settings())
    part = judge_rates(outputs, judge, outputs.system == 0, **settings())
    assert pooled.pairs is not None
    shared = part.with_error_rates(pooled.pairs, confidence=0.8)
    both = ~np.isnan(human) & ~np.isnan(judge)
    tpr, fpr = (judge[both & (human == label)].mean() for label in (1, 0))
    share = np.nanmean(judge[outputs.system == 0])
    unjudged = part.unjudged[0]
    expected = (1 - unjudged.sum()) * (share - fpr) / (tpr - fpr) + unjudged[1]
    assert shared.corrected.value == pytest.approx(expected)
    assert shared.corrected[1:] == pytest.approx(np.quantile(shared.rate_draws, [0.1, 0.9]))
    assert shared.rate_variance == pytest.approx(shared.rate_draws.var())
    # Rates by the delta method, with the counts of the pooled labels and of the judge's labels.
    n_judged = (~np.isnan(judge[outputs.system == 0])).sum()
    n_positive, n_negative = ((both & (human == label)).sum() for label in (1, 0))
    rate = (share - fpr) / (tpr - fpr)
    variance = share * (1 - share) / n_judged + rate**2 * tpr * (1 - tpr) / n_positive
    variance = (variance + (1 - rate) ** 2 * fpr * (1 - fpr) / n_negative) / (tpr - fpr) ** 2
    assert shared.rate_draws.std() == pytest.approx(np.sqrt(variance), rel=0.12)


def test_without_labels_in_common_rates_are_undefined() -> None:
    human, judge = drawn(40, 10)
    apart = labelled(human, np.where(np.isnan(human), judge, NAN))
    found = judge_rates(apart, apart.judged[0], **settings())
    assert np.isnan([*found.corrected, found.rate_variance, *found.rate_draws]).all()
    assert (found.n, found.n_labelled, found.n_both_labels, found.n_unjudged) == (40, 10, 0, 10)
    assert found.human[0] == np.nanmean(human)
    assert np.isnan(list(found.measures(confidence=0.95, ordered=False).values())).all()
    assert np.isnan(found.error_rates["tpr"]).all()
    none = judge_rates(labelled([NAN] * 4, [1, 1, 0, NAN]), np.array([1, 1, 0, NAN]), **settings())
    assert (none.n, none.n_left_out, none.n_unjudged, none.judge.value) == (3, 1, 0, pytest.approx(2 / 3))
    assert np.isnan([*none.corrected, *none.human]).all()
    only_pass = judge_rates(labelled([1, NAN, NAN, NAN], [1, 0, 0, 1]), np.array([1.0, 0, 0, 1]), **settings())
    assert only_pass.unlabelled == 0.5


def test_annotators_who_labelled_only_judged_outputs_say_nothing_of_the_others() -> None:
    def labels(n_labelled: int, **changes: Any) -> tuple[Any, np.ndarray]:
        judge = np.where(np.arange(20) < 10, 1.0, NAN)
        return labelled(np.where(np.arange(20) < n_labelled, 1.0, NAN), judge, **changes), judge

    # With half of the outputs, the probability is .5 ** 6 = .016 or .5 ** 7 = .008.
    by_chance = {n: has_only_judged(*labels(n), "random") for n in (0, 1, 6, 7, 10, 11)}
    assert by_chance == {0: True, 1: False, 6: False, 7: True, 10: True, 11: False}
    assert [has_only_judged(*labels(n), "by-judge") for n in (1, 6, 11)] == [True, True, False]
    assert has_only_judged(*labels(11), "by-label")
    assert has_only_judged(labels(5)[0], np.ones(20), "random")
    number = np.where(np.arange(20) < 10, 1.0, 3.0)  # a quarter of the outputs: .25 ** 3 = .016, .25 ** 4 = .004
    assert [has_only_judged(*labels(n, number=number), "random") for n in (3, 4)] == [False, True]
    human, judge = drawn(n_unjudged=40)
    outputs = labelled(np.where(np.isnan(judge), NAN, human), judge)
    left_out, kept = (judge_rates(outputs, judge, only_judged=only, **settings()) for only in (True, False))
    assert (left_out.n, left_out.n_left_out, left_out.n_unjudged) == (360, 40, 0)
    assert kept.corrected == left_out.corrected


def test_measures_have_their_definitions_and_names() -> None:
    human, judge = drawn()
    found = judge_rates(labelled(human, judge), judge, **settings())
    is_labelled = ~np.isnan(human)
    measures = found.measures(confidence=0.9, ordered=False, names=("accuracy", "alpha", "tpr"))
    assert set(measures) == {"accuracy", "alpha", "tpr"}
    accuracy = (human == judge)[is_labelled].mean()
    assert measures["accuracy"].value == pytest.approx(accuracy)
    half = stats.norm.ppf(0.95) * np.sqrt(accuracy * (1 - accuracy) / 160)
    assert measures["accuracy"].high - measures["accuracy"].low == pytest.approx(2 * half, rel=0.06)
    n_ones = (human + judge)[is_labelled].sum()
    expected_difference = 2 * n_ones * (320 - n_ones) / (320 * 319)
    assert measures["alpha"].value == pytest.approx(1 - (1 - accuracy) / expected_difference)
    three = measure_functions(3, 160, ordered=True)
    assert "tpr" not in three
    table = np.array([[4.0, 1, 0], [2, 3, 1], [1, 0, 5]]) / 17
    distance = np.subtract.outer(range(3), range(3)) ** 2
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0))
    assert three["kappa"](table) == pytest.approx(1 - (distance * table).sum() / (distance * by_chance).sum())
    unweighted = measure_functions(3, 160, ordered=False)["kappa"](table)
    chance = np.trace(by_chance)
    assert unweighted == pytest.approx((np.trace(table) - chance) / (1 - chance))
    gold = np.eye(3)[np.arange(60) % 3]
    several = labelled(gold, np.arange(60) // 2 % 3, words=("a", "b", "c"))
    of_three = judge_rates(several, several.judged[0], **settings())
    assert np.isnan(of_three.measures(confidence=0.95, ordered=False)["tpr"]).all()
    assert np.isnan(of_three.rate_variance)
    assert of_three.corrected.value == pytest.approx(1 / 3)


def test_strata_count_fractions_of_labels_and_only_outputs_with_a_total() -> None:
    outputs = labelled([0.5, 1, NAN, 0], [1, 1, 0, 0], number=np.array([1.0, 1, 3, 1]))
    strata = StratifiedLabels(
        outputs=outputs,
        stratum=np.array([1, 1, 0, 0]),
        weights=np.array([2.0, 1, 0, 1]),
        totalled=np.array([1.0, 0, 2, 1]),
        n_strata=3,
        **settings(),
    )
    np.testing.assert_array_equal(strata.counts.labelled, [[1, 0], [1, 2], [0, 0]])
    np.testing.assert_array_equal(strata.counts.total, [7, 1, 0])
    np.testing.assert_allclose(strata.estimate, [[7 / 8, 0], [1 / 24, 2 / 24], [0, 0]])
    np.testing.assert_allclose(positive_rate(strata.estimate), 2 / 24)
    effective = strata.effective(np.zeros(4))
    np.testing.assert_allclose(effective.labelled, [[1, 0], [1 * 3 / 5, 2 * 3 / 5], [0, 0]])
    assert replace(strata, n_strata=4).counts.total.tolist() == [7, 1, 0, 0]
