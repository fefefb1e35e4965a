"""Rows of the tables on judges, and notes, by their definitions."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from custodes.evaluate.rates.estimates import judge_rates
from custodes.evaluate.rates.judge_labels import JudgeLabels, judges_of, sampling_test
from custodes.evaluate.rates.judges import (
    calibration_rows,
    comparable_judges,
    confusion_rows,
    judge_notes,
    judge_row,
    judge_rows,
    label_accuracies,
    label_notes,
    rate_notes,
    replacement_rows,
    roc_rows,
)
from custodes.stats.intervals import wilson_interval
from custodes.stats.rates.scores import score_strata
from tests.evaluate.rates.labelled import NAN, drawn, labelled, settings


def scored(n: int = 300, n_labelled: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of annotators for the positive label, some tied, and scores, some missing."""
    rng = np.random.default_rng(3)
    human = rng.choice([0, 1 / 3, 0.5, 2 / 3, 1], n)
    scores = np.round(human + rng.normal(0, 0.4, n), 2)
    scores[rng.random(n) < 0.1] = NAN
    human[n_labelled:] = NAN
    return human, scores


def by_threshold(threshold: float, **changes: Any) -> tuple[Any, JudgeLabels, np.ndarray, np.ndarray]:
    """Return outputs, the judge, and the scores and human labels (proportions of pass) of outputs that have both."""
    human, scores = scored()
    outputs = labelled(human, scores, is_score=True, **changes)
    (judge,) = judges_of(outputs, str(threshold))
    has_both = ~np.isnan(scores)
    return outputs, judge, scores[has_both], human[has_both]


@pytest.mark.parametrize("threshold", [0.5, 9.0])
def test_a_curve_has_a_point_per_threshold_and_marks_the_chosen_one(threshold: float) -> None:
    outputs, judge, scores, shares = by_threshold(threshold)
    rows = roc_rows(outputs, judge)
    for row in rows:
        assert row["tpr"] == pytest.approx(shares[scores >= row["threshold"]].sum() / shares.sum())
        assert row["fpr"] == pytest.approx((1 - shares)[scores >= row["threshold"]].sum() / (1 - shares).sum())
        assert row["metric"] == "judge"
    levels = np.unique(scores)
    assert [row["threshold"] for row in rows] == levels[::-1].tolist()
    (chosen,) = [row for row in rows if row["chosen"]]
    if threshold == 0.5:
        measures = judge_row(outputs, judge, judge.threshold_judge.rates(outputs, **settings()), confidence=0.95)
        assert (chosen["tpr"], 1 - chosen["fpr"]) == (pytest.approx(measures["tpr"]), pytest.approx(measures["tnr"]))
    assert chosen["threshold"] == (levels[levels >= threshold].min() if threshold < 9 else levels[-1])
    only_pass = replace(outputs, gold=np.stack([np.zeros(300), np.ones(300)], axis=1))
    only_fail = replace(outputs, gold=np.stack([np.ones(300), np.zeros(300)], axis=1))
    assert roc_rows(only_pass, judge) == roc_rows(only_fail, judge) == []


def test_a_long_curve_is_thinned_to_two_hundred_points_and_the_chosen_one() -> None:
    rng = np.random.default_rng(0)
    human, scores = rng.integers(0, 2, 3000), rng.permutation(3000) / 3000
    outputs = labelled(human, scores, is_score=True)
    (judge,) = judges_of(outputs, "0.41")
    rows = roc_rows(outputs, judge)
    assert len(rows) == 201
    assert sum(row["chosen"] for row in rows) == 1
    assert (rows[0]["tpr"] + rows[0]["fpr"], rows[-1]["tpr"], rows[-1]["fpr"]) == (
        pytest.approx(1 / 1500, rel=0.1),
        1,
        1,
    )
    chosen = next(row for row in rows if row["chosen"])
    assert chosen["threshold"] == pytest.approx(0.41)


def test_calibration_has_bins_of_labelled_scores() -> None:
    outputs, judge, scores, shares = by_threshold(0.5)
    rows = calibration_rows(outputs, judge, confidence=0.9)
    bins = score_strata(scores, n_labelled=len(scores))
    assert [row["n_labelled"] for row in rows] == [(bins == code).sum() for code in np.unique(bins)]
    for row, code in zip(rows, np.unique(bins), strict=True):
        share = shares[bins == code].mean()
        assert (row["score"], row["human_rate"]) == (pytest.approx(scores[bins == code].mean()), pytest.approx(share))
        low, high = wilson_interval(share, (bins == code).sum(), quantile=stats.norm.ppf(0.95))
        assert (row["human_rate_low"], row["human_rate_high"]) == (pytest.approx(low), pytest.approx(high))
    assert calibration_rows(outputs, replace(judge, scores=None), confidence=0.9) == []


def test_a_judge_has_its_measures_and_the_area_of_all_labels() -> None:
    outputs, judge, scores, shares = by_threshold(0.5, human_agreement=0.7, human_alpha=0.4)
    (row,) = judge_rows(outputs, settings())
    rates = judge.threshold_judge.rates(outputs, **settings())
    assert judge_row(outputs, judge, rates, confidence=0.95)["auc"] == row["auc"]
    area = sklearn_metrics.roc_auc_score(
        np.repeat([1, 0], len(scores)), np.tile(scores, 2), sample_weight=np.append(shares, 1 - shares)
    )
    assert row["auc"] == pytest.approx(area)
    assert (row["metric"], row["label"], row["human_agreement"], row["human_alpha"]) == ("judge", "pass", 0.7, 0.4)
    (youden,) = judges_of(outputs, "youden")
    assert row["threshold"] == youden.threshold
    assert row["n_labelled"] == (~np.isnan(outputs.judged[0])).sum()
    assert row["reason"] == ""
    shares = np.array([youden.evaluated, outputs.gold[:, 1]])[:, ~np.isnan(youden.evaluated)]
    assert row["accuracy"] == pytest.approx((shares.prod(axis=0) + (1 - shares).prod(axis=0)).mean())
    found = confusion_rows(outputs, "judge", youden.threshold_judge.rates(outputs, **settings()))
    assert [(r["label"], r["human_label"]) for r in found] == [
        (a, b) for a in ("fail", "pass") for b in ("fail", "pass")
    ]
    expected = [(abs(1 - a - shares[0]) * abs(1 - b - shares[1])).sum() for a in (0, 1) for b in (0, 1)]
    assert [r["n"] for r in found] == pytest.approx(expected)
    ratios = label_accuracies(outputs)
    assert list(ratios.labels) == [("judge", "accuracy")]
    assert ratios.numerator.sum() / ratios.denominator.sum() == pytest.approx(row["accuracy"])
    np.testing.assert_array_equal(ratios.denominator[0], ~np.isnan(youden.evaluated))


def test_measures_without_labels_in_common_have_a_reason() -> None:
    human, judge = np.array([1, 0, NAN, NAN]), np.array([NAN, NAN, 1, 0])
    for gold, reason in (
        (human, "no output has both a label of the metric and a human label"),
        (np.full(4, NAN), "no human labels"),
    ):
        outputs = labelled(gold, judge)
        (row,) = judge_rows(outputs, settings())
        assert (row["reason"], row["n_labelled"]) == (reason, 0)
        assert np.isnan([row["tpr"], row["kappa"], row["auc"]]).all()
    people = labelled(human)
    (person,) = judges_of(people, None)
    assert list(comparable_judges(people)) == []
    assert confusion_rows(people, "human", person.rates(people, **settings())) == []
    three = labelled(np.eye(3), [0, 1, 2], [0.1, 0.2, 0.3], is_score=[False, True], words=("a", "b", "c"))
    assert [judge.name for judge in comparable_judges(three)] == ["judge"]
    (of_three,) = judge_rows(three, settings())
    assert (of_three["label"], of_three["accuracy"], of_three["n_labelled"]) == ("", 1, 3)


def messages(notes: list[Any]) -> dict[str, str]:
    return {note.rule: note.message for note in notes}


def test_notes_on_human_labels_have_their_limits() -> None:
    unknown = {"words": ("blue", "red")}
    half = labelled([1, 1, 1, 0, 0, 0, NAN], [1] * 7, **unknown)
    assert list(messages(label_notes(half, None))) == ["positive-by-order"]
    assert label_notes(half, "red") == []
    assert label_notes(replace(half, words=("fail", "pass")), None) == []
    assert messages(label_notes(half, None))["positive-by-order"] == (
        "it is unknown which label is positive, so 'red', the last in order, counts as positive; if 'blue' is "
        "positive, give positive='blue'"
    )
    few = messages(label_notes(labelled([1, 1, 1, 0, 0, NAN], [1] * 6), None))
    assert few == {"few-of-a-label": few["few-of-a-label"]}
    assert few["few-of-a-label"] == (
        "only 2 human labels are 'fail', but an estimate of the error rates of a judge needs at least 3; label more "
        "outputs to which a judge gives this label"
    )
    none = messages(label_notes(labelled([0, 0, 0, NAN], [1] * 4), None))
    assert none["few-of-a-label"].startswith("no human label is 'pass', but")
    assert messages(label_notes(labelled([NAN] * 4, [1] * 4), None)) == {
        "no-human-labels": "no output has a human label, so rates are estimated from the judge's labels alone and may "
        "be wrong; label "
        "a random part of the outputs"
    }
    everything = labelled([1, 1, 1, 0, 0, 0], [1] * 6)
    assert messages(label_notes(everything, None)) == {
        "all-labelled": "every output has a human label, so the labels of the judge add hardly any information"
    }
    assert label_notes(labelled([1, 1, 1, 0, 0, 0]), None) == []
    copies = labelled([1, 1, 1, 0, 0, 0, NAN], [1] * 7, number=np.array([1.0] * 6 + [3]))
    assert label_notes(copies, None) == []
    three = labelled(np.eye(3)[[0, 0, 1, 1]], [0] * 4, words=("a", "b", "c"))
    assert messages(label_notes(three, None)) == messages(label_notes(everything, None))


@pytest.mark.parametrize(("n_clusters", "n", "is_noted"), [(39, 78, True), (40, 80, False), (39, 39, False)])
def test_fewer_than_forty_labelled_clusters_are_noted(n_clusters: int, n: int, *, is_noted: bool) -> None:
    human = np.append(np.arange(n) % 2, [NAN, NAN])
    outputs = labelled(human, np.ones(n + 2), unit=np.append(np.arange(n) % n_clusters, [n_clusters, n_clusters]))
    found = messages(label_notes(outputs, None))
    assert ("few-labelled-clusters" in found) == is_noted
    if is_noted:
        assert found["few-labelled-clusters"] == (
            "human labels come from 39 clusters; with fewer than 40, intervals may be too narrow"
        )


def rates_like(**fields: Any) -> Any:
    return SimpleNamespace(**{"unlabelled": 0.0, "n_both_labels": 5, "n_left_out": 0, "n_unjudged": 0, **fields})


def test_notes_on_outputs_that_one_side_did_not_label_have_their_numbers() -> None:
    outputs = labelled([1, 0] * 4, [1] * 8, systems=[0] * 3 + [1] * 5, number=np.arange(8) + 1.0)
    (judge,) = judges_of(outputs, None)
    assert rate_notes(outputs, judge, {"A": rates_like(), "B": rates_like()}, "random") == []
    undefined = rates_like(unlabelled=0.5, n_both_labels=0)
    systems = {"A": rates_like(unlabelled=0.009), "B": rates_like(unlabelled=0.01)}
    found = messages(rate_notes(outputs, judge, systems, "random"))
    assert list(found) == ["labels-of-a-judge-unchecked"]
    assert found["labels-of-a-judge-unchecked"] == (
        "judge: under 1% of the outputs of A, 1% of the outputs of B have a label of this judge that no human-labelled "
        "output of the same system has. For these outputs, both human labels are assumed to be equally probable; "
        "label some of these outputs"
    )
    assert rate_notes(outputs, judge, {"A": undefined, "B": undefined}, "random") == []
    systems = {"A": rates_like(n_left_out=2), "B": rates_like(n_unjudged=3, unlabelled=0.255)}
    found = messages(rate_notes(outputs, replace(judge, scores=np.zeros(8)), systems, "random"))
    assert found["labels-of-a-judge-unchecked"].startswith(
        "judge: 26% of the outputs of B have a score bin (or no label) that no"
    )
    left_out = "judge gives no usable label to 2 of 6 outputs of A; the rates are only those of the other outputs, "
    assert found["outputs-left-out"] == (
        f"{left_out}because annotators labelled none of these outputs; let annotators label a random part of these "
        "outputs"
    )
    assert found["outputs-without-judge-label"] == (
        "judge gives no usable label to 3 of 30 outputs of B; these outputs count in human and corrected rates, but "
        "not in the judge's rate and in measures such as TPR"
    )
    by_label = messages(rate_notes(outputs, judge, systems, "by-label"))["outputs-left-out"]
    assert by_label == f"{left_out}because sampling='by-label' needs a label of the judge for every output"


def notes_of(outputs: Any, threshold: str | None = None, **options: Any) -> dict[str, str]:
    (judge,) = judges_of(outputs, threshold)
    rates = judge.threshold_judge.rates(outputs, **settings())
    return messages(judge_notes(outputs, judge, rates, **{"sampling": "random", **options}))


def test_notes_on_a_judge_have_their_conditions() -> None:
    human, judge = drawn(200, 100)
    outputs = labelled(human, judge, systems=np.arange(200) % 2)
    assert notes_of(outputs) == {}
    not_shared = notes_of(outputs, is_sharing_rejected=True)
    assert list(not_shared) == ["error-rates-not-shared"]
    assert not_shared["error-rates-not-shared"] == (
        "judge: no test shows that TPR and TNR of the systems differ by less than 0.05. Each system is therefore "
        "corrected by the human labels of its outputs alone"
    )
    assert notes_of(labelled(human, judge), is_sharing_rejected=True) == {}
    # People labelled nearly all outputs of A that the judge passes, and few others of A.
    chosen = np.where((outputs.system == 0) & (judge == 1), np.arange(200) % 20 > 0, np.arange(200) % 4 == 3)
    selected = labelled(np.where(chosen, judge, NAN), judge, systems=outputs.system)
    p_value, *_ = sampling_test(selected, list(judges_of(selected, None)), "random", by_system=True)
    assert notes_of(selected)["labelled-part-not-random"] == (
        "the outputs of A with a human label are not a random sample with respect to the labels of judge "
        f"(p = {p_value:.2g}); say how outputs were selected: sampling='by-judge' or 'by-label', or a column of "
        "inclusion probabilities"
    )
    assert "labelled-part-not-random" not in notes_of(selected, sampling="by-judge")
    weighted = replace(selected, weight=np.where(np.arange(200) == 7, 2.0, 1.0))
    assert "labelled-part-not-random" not in notes_of(weighted)
    wrong = notes_of(labelled(human, 1 - judge))
    assert list(wrong) == ["judge-contradicts-human"]
    mcc = sklearn_metrics.matthews_corrcoef(human[~np.isnan(human)], 1 - judge[~np.isnan(human)])
    assert wrong["judge-contradicts-human"] == (
        f"the labels of judge contradict the human labels (MCC {mcc:.2f}); check which label is positive and whether "
        "higher scores are better"
    )
    weak = labelled([1, 0] * 20 + [NAN], [0, 1] * 11 + [1, 0] * 9 + [1])  # not significant at the level .99
    assert "judge-contradicts-human" not in notes_of(weak)


@pytest.mark.parametrize(("threshold", "is_noted"), [("2.1", True), ("-1", True), ("1.3", False), (None, False)])
def test_a_threshold_that_separates_nothing_is_noted(threshold: str | None, *, is_noted: bool) -> None:
    scores = np.append(np.arange(40) / 20, NAN)
    outputs = labelled(np.append(np.arange(40) > 20, 1), scores, is_score=True)
    found = notes_of(outputs, threshold)
    assert ("threshold-outside-scores" in found) == is_noted
    if is_noted:
        assert found["threshold-outside-scores"] == (
            f"the threshold {threshold} gives all outputs the same label; scores of judge lie between 0 and 1.95, so "
            "give a threshold between these"
        )
    assert "threshold-outside-scores" not in notes_of(labelled([1, 0] * 20, [1] * 40))


def test_a_judge_may_replace_annotators_of_whom_three_are_tested() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 80)
    people = np.where(rng.random((4, 80)) < 0.75, truth, rng.integers(0, 3, (4, 80))).astype(float)
    people[3, 10:] = NAN
    people[:, :3] = NAN
    people[0, 0] = 1
    judge = np.where(rng.random(80) < 0.6, truth, (truth + 1) % 3).astype(float)
    outputs = labelled(
        np.eye(3)[truth],
        judge,
        judge / 2,
        is_score=[False, True],
        annotated=people,
        annotators=("p", "q", "r", "s"),
        words=("a", "b", "c"),
        unit=np.arange(80) // 2,
    )
    ((row, annotators),) = replacement_rows(outputs, epsilon=0.2, alpha=0.05, confidence=0.9)
    assert (row["annotators"], row["epsilon"], row["metric"], row["reason"]) == (3, 0.2, "judge", "")
    assert [(part["annotator"], part["n"]) for part in annotators] == [("p", 77), ("q", 77), ("r", 77)]
    for part in annotators:
        assert part["replaceable"] == (part["p_adjusted"] <= 0.05)
    assert row["winning_rate"] == np.mean([part["replaceable"] for part in annotators])
    assert row["may_replace"] == (row["winning_rate"] >= 0.5)
    assert row["advantage_probability"] == pytest.approx(np.mean([part["advantage"] for part in annotators]))
    low, high = row["advantage_probability_low"], row["advantage_probability_high"]
    assert low + high == pytest.approx(2 * row["advantage_probability"])
    ((wide, _),) = replacement_rows(outputs, epsilon=0.2, alpha=0.05, confidence=0.99)
    quantiles = stats.t.ppf([0.95, 0.995], 39)  # 77 outputs in 39 clusters, and the first two outputs are in none
    assert (wide["advantage_probability_high"] - wide["advantage_probability_low"]) / (high - low) == pytest.approx(
        quantiles[1] / quantiles[0], abs=0.002
    )
    few = replace(outputs, annotated=people[1:], annotators=("q", "r", "s"))
    ((row, annotators),) = replacement_rows(few, epsilon=0.2, alpha=0.05, confidence=0.9)
    assert (row["annotators"], row["may_replace"], len(annotators)) == (2, None, 2)
    assert np.isnan([row["winning_rate"], row["winning_rate_outputs"]]).all()
    assert row["reason"].startswith("fewer than 3 annotators labelled 30 or more outputs that also have another human")
    alone = replace(outputs, annotated=people[:1], annotators=("p",))
    assert list(replacement_rows(alone, epsilon=0.2, alpha=0.05, confidence=0.9)) == []


def test_rates_of_people_alone_have_no_judge() -> None:
    human, _ = drawn(50, 30)
    outputs = labelled(human, systems=np.arange(50) % 2)
    (person,) = judges_of(outputs, None)
    rates = person.rates(outputs, **settings())
    assert rates.pairs is None
    assert np.isnan(rates.judge).all()
    assert rates.corrected.value == pytest.approx(np.nanmean(human))
    by_system = person.rates_by_system(outputs, **settings())
    assert [by_system[name].n for name in "AB"] == [25, 25]
    assert by_system["B"].corrected.value == pytest.approx(np.nanmean(human[1::2]))
    scores = np.where(np.isnan(human), 0.2, human)
    of_scores = labelled(human, scores, is_score=True)
    for threshold, is_defined in (("0.5", True), (None, False)):
        (judge,) = judges_of(of_scores, threshold)
        assert np.isfinite(judge.rates(of_scores, **settings()).judge.value) == is_defined
        assert judge.threshold_judge.strata is None
    (plain,) = judges_of(labelled(human, np.ones(50)), None)
    assert judge_rates(labelled(human, np.ones(50)), plain.labels, **settings()).judge.value == 1


@pytest.mark.parametrize(("n_outside", "is_tested"), [(4, True), (5, False)])
def test_scores_are_on_the_scale_of_labels_if_few_are_outside(n_outside: int, *, is_tested: bool) -> None:
    rng = np.random.default_rng(0)
    people = rng.integers(0, 3, (3, 100)).astype(float)
    scores = np.append(rng.uniform(2, 8, 80), np.full(20, NAN))
    scores[:n_outside] = [1.9, 8.1, 9, 0, -1][:n_outside]
    outputs = labelled(
        np.eye(3)[people[0].astype(int)],
        scores,
        is_score=True,
        annotated=people,
        annotators=("p", "q", "r"),
        words=("2", "4", "8"),
        ordered=True,
    )
    assert len(list(replacement_rows(outputs, epsilon=0.2, alpha=0.05, confidence=0.9))) == is_tested
