from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from custodes.errors import OptionError
from custodes.stats.rates.scores import ThresholdTarget, area_under_roc, cross_fitted_labels, roc, score_strata
from tests.messages import exactly

RNG = np.random.default_rng(0)
POSITIVE = RNG.random(300) < 0.4
LABELS = POSITIVE.astype(np.float64)
SCORES = np.round(RNG.standard_normal(300) + 1.2 * POSITIVE, 1)  # with ties


def test_area_equals_scikit_learn_and_its_error_delongs() -> None:
    area = area_under_roc(SCORES, LABELS, units=np.arange(300), confidence=0.95)
    assert area.value == pytest.approx(sklearn_metrics.roc_auc_score(POSITIVE, SCORES), abs=1e-12)
    difference = SCORES[POSITIVE][:, None] - SCORES[~POSITIVE]
    wins = (difference > 0) + 0.5 * (difference == 0)
    error = np.sqrt(wins.mean(axis=1).var() / POSITIVE.sum() + wins.mean(axis=0).var() / (~POSITIVE).sum())
    logit, spread = np.log(area.value / (1 - area.value)), error / (area.value * (1 - area.value))
    quantile = stats.t.ppf(0.975, min(POSITIVE.sum(), (~POSITIVE).sum()) - 1)
    assert area.low == pytest.approx(1 / (1 + np.exp(-(logit - quantile * spread))), abs=1e-9)
    assert area.high == pytest.approx(1 / (1 + np.exp(-(logit + quantile * spread))), abs=1e-9)


def test_area_without_errors_has_a_width_and_with_one_label_none() -> None:
    separated = area_under_roc(np.arange(20.0), np.arange(20) // 10.0, units=np.arange(20), confidence=0.95)
    assert separated.value == 1
    assert separated.high == 1
    assert separated.low == pytest.approx(0.025 ** (1 / 10))
    reverse = area_under_roc(-np.arange(20.0), np.arange(20) // 16.0, units=np.arange(20), confidence=0.9)
    assert reverse == (0, 0, pytest.approx(1 - 0.05 ** (1 / 4)))
    for label in (0.0, 1.0):
        assert np.isnan(area_under_roc(SCORES, np.full(300, label), units=np.arange(300), confidence=0.95)).all()


def test_a_tied_label_counts_as_half_of_each_label() -> None:
    tied = np.arange(300) % 5 == 0
    shares = np.where(tied, 0.5, POSITIVE)
    twice = np.tile(SCORES, 2), np.append(np.where(tied, 1.0, POSITIVE), np.where(tied, 0.0, POSITIVE))
    for curve, expected in zip(roc(SCORES, shares), roc(*twice), strict=True):
        np.testing.assert_allclose(curve, expected)
    target = ThresholdTarget.parse("tpr>=0.8")
    assert target.threshold(SCORES, shares) == target.threshold(*twice)
    units = np.arange(300)
    areas = [
        area_under_roc(*data, units=clusters, confidence=0.95)
        for data, clusters in (((SCORES, shares), units), (twice, np.tile(units, 2)))
    ]
    assert areas[0].value == pytest.approx(areas[1].value)


def test_clusters_widen_the_interval() -> None:
    copies = [np.repeat(values, 4) for values in (SCORES, POSITIVE)]
    plain, clustered = (
        area_under_roc(*copies, units=units, confidence=0.95) for units in (np.arange(1200), np.arange(1200) // 4)
    )
    once = area_under_roc(SCORES, LABELS, units=np.arange(300), confidence=0.95)
    assert clustered.high - clustered.low > 1.8 * (plain.high - plain.low)
    assert clustered.high - clustered.low == pytest.approx(once.high - once.low, rel=0.05)


def test_curve_equals_scikit_learn() -> None:
    curve = roc(SCORES, LABELS)
    fpr, tpr, thresholds = sklearn_metrics.roc_curve(POSITIVE, SCORES, drop_intermediate=False)
    np.testing.assert_allclose(curve.threshold, thresholds[1:])
    np.testing.assert_allclose(curve.tpr, tpr[1:])
    np.testing.assert_allclose(curve.fpr, fpr[1:])


@pytest.mark.parametrize("text", ["youden", "tpr>=0.9", "tnr>=0.8"])
def test_targets_by_brute_force(text: str) -> None:
    target = ThresholdTarget.parse(text)
    at = target.threshold(SCORES, LABELS)

    def rates(threshold: float) -> tuple[float, float]:
        return (SCORES[POSITIVE] >= threshold).mean(), (SCORES[~POSITIVE] < threshold).mean()

    tpr, tnr = rates(at)
    rates_by_threshold = [rates(threshold) for threshold in np.unique(SCORES)]
    if text == "youden":
        assert tpr + tnr == pytest.approx(max(map(sum, rates_by_threshold)))
    elif target.rate == "tpr":
        assert tpr >= 0.9
        assert tnr == max(tnr_of for tpr_of, tnr_of in rates_by_threshold if tpr_of >= 0.9)
    else:
        assert tnr >= 0.8
        assert tpr == max(tpr_of for tpr_of, tnr_of in rates_by_threshold if tnr_of >= 0.8)


@pytest.mark.parametrize(
    ("text", "threshold"),  # of the scores 1, 2, 3, 4 with the labels 0, 1, 0, 1
    [("youden", 3.5), ("tpr >= .5", 3.5), ("tpr>=0.51", 1.5), ("tnr>=1", 3.5), ("tnr>=1.0", 3.5), ("tnr>=0.5", 1.5)],
)
def test_thresholds_lie_between_two_scores(text: str, threshold: float) -> None:
    target, scores = ThresholdTarget.parse(text), np.arange(1.0, 5)
    assert target.threshold(scores, np.array([0.0, 1, 0, 1])) == threshold
    for labels in (np.zeros(4), np.ones(4)):
        assert np.isnan(target.threshold(scores, labels))


def test_a_rate_out_of_reach_gives_the_nearest_rate() -> None:
    # The highest score has a negative label, so the TNR is at most 1/2.
    assert ThresholdTarget("tnr", 0.9).threshold(np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 1, 0])) == 3.5


@pytest.mark.parametrize("text", ["tpr", "tpr>=2", "fpr>=0.1", "best", "tpr>0.5", "tnr>=1.1", "tpr>=0.", "tpr>=0.5x"])
def test_unknown_targets_are_refused(text: str) -> None:
    message = f"threshold={text!r} is not allowed; give a number, youden, tpr>=R or tnr>=R, with R from 0 to 1"
    with pytest.raises(OptionError, match=exactly(message)):
        ThresholdTarget.parse(text)


def test_cross_fitted_labels_use_the_other_folds_alone() -> None:
    fold = np.arange(300) % 5
    labels = cross_fitted_labels(SCORES, LABELS, ThresholdTarget.parse("youden"), fold=fold)
    changed = LABELS.copy()
    changed[fold == 2] = 1 - changed[fold == 2]
    repeated = cross_fitted_labels(SCORES, changed, ThresholdTarget.parse("youden"), fold=fold)
    np.testing.assert_array_equal(labels[fold == 2], repeated[fold == 2])
    assert set(labels) == {0.0, 1.0}
    target, rest = ThresholdTarget.parse("youden"), fold != 2
    np.testing.assert_array_equal(labels[~rest], SCORES[~rest] >= target.threshold(SCORES[rest], LABELS[rest]))
    only_positive = cross_fitted_labels(SCORES, np.where(rest, 1.0, LABELS), target, fold=fold)
    assert np.isnan(only_positive[~rest]).all()
    assert not np.isnan(only_positive[rest]).any()


def test_strata_are_few_enough_for_the_labels() -> None:
    for n_labelled, n_strata in ((5, 1), (49, 1), (50, 2), (124, 4), (125, 5), (500, 5)):
        strata = score_strata(np.linspace(0, 1, 1000), n_labelled=n_labelled)
        assert len(np.unique(strata)) == n_strata
        assert np.bincount(strata).min() > 1000 / n_strata - 2
    assert set(score_strata(np.ones(10), n_labelled=100)) <= {0, 1}
    assert score_strata(np.empty(0), n_labelled=100).tolist() == []
