"""Labels of judges, thresholds of scores, and tests of random samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.errors import OptionError
from custodes.evaluate.rates.judge_labels import (
    FOLDS,
    fisher_p_value,
    judges_of,
    parsed_threshold,
    sampling_p_value,
    sampling_test,
)
from custodes.evaluate.rates.judges import replacement_rows
from custodes.evaluate.rates.outputs import LabelledOutputs, labelled_outputs
from custodes.stats.rates.alternative_annotator_test import replacement
from custodes.stats.rates.scores import ThresholdTarget


def outputs_of(n: int = 120, *, n_labelled: int = 80, seed: int = 0, **columns: object) -> LabelledOutputs:
    """Return outputs with labels of an annotator and scores of a judge, in two systems."""
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.6
    frame = pl.DataFrame(
        {
            "id": range(n),
            "human_label": np.where(good, "pass", "fail"),
            "judge_score": np.round(rng.normal(good * 1.2), 1) + 0.05,
            "model": np.where(np.arange(n) < n // 2, "A", "B"),
        }
    ).with_columns(human_label=pl.when(pl.Series(rng.permutation(n) < n_labelled)).then("human_label"))
    (outputs,) = labelled_outputs(cu.read(frame.with_columns(**columns)), consensus="kept")
    return outputs


def test_a_score_at_the_threshold_is_positive() -> None:
    outputs = outputs_of(judge_score=pl.when(pl.col("id") > 2).then("judge_score"))
    (score,) = np.unique(outputs.judged[0])[[40]]
    (judge,) = judges_of(outputs, str(score))
    expected = np.where(np.isnan(outputs.judged[0]), np.nan, outputs.judged[0] >= score)
    np.testing.assert_array_equal(judge.labels, expected)
    np.testing.assert_array_equal(judge.evaluated, expected)
    assert (judge.labels[outputs.judged[0] == score] == 1).all()
    assert np.isnan(judge.labels).sum() == 3
    assert judge.threshold == score
    (strata_only,) = judges_of(outputs, None)
    assert np.isnan(strata_only.threshold)
    assert len(np.unique(strata_only.strata)) > 1


def test_a_target_selects_the_threshold_on_labelled_outputs_and_labels_come_from_other_folds() -> None:
    outputs = outputs_of()
    (judge,) = judges_of(outputs, "youden")
    scores, labelled, good = outputs.judged[0], outputs.has_human_label, outputs.gold[:, 1] > 0.5

    def youden(chosen: np.ndarray, cutoff: float) -> float:
        positive = scores[chosen] >= cutoff
        return positive[good[chosen]].mean() + (~positive[~good[chosen]]).mean() - 1

    best = max(youden(labelled, cutoff) for cutoff in np.unique(scores[labelled]))
    assert youden(labelled, judge.threshold) == pytest.approx(best)
    np.testing.assert_array_equal(judge.labels, scores >= judge.threshold)
    np.testing.assert_array_equal(judge.evaluated[~labelled], judge.labels[~labelled])
    fold, target = outputs.unit % FOLDS, ThresholdTarget.parse("youden")
    for k in range(FOLDS):
        others, own = labelled & (fold != k), labelled & (fold == k)
        cutoff = target.threshold(scores[others], good[others])
        np.testing.assert_array_equal(judge.evaluated[own], scores[own] >= cutoff)


def test_thresholds_are_numbers_or_targets() -> None:
    assert parsed_threshold("-0.5") == -0.5
    assert parsed_threshold("youden") == ThresholdTarget.parse("youden")
    for text in ("inf", "nan", "best"):
        with pytest.raises(OptionError):
            parsed_threshold(text)


def test_without_a_metric_there_is_one_judge_named_human() -> None:
    (outputs,) = labelled_outputs(
        cu.read(pl.DataFrame({"id": range(6), "human_label": ["pass", "fail", None] * 2})), consensus="kept"
    )
    (judge,) = judges_of(outputs, None)
    assert (judge.name, set(judge.labels), set(judge.strata)) == ("human", {0.0}, {0})
    labels = {
        "id": range(4),
        "human_label": ["pass", "fail"] * 2,
        "judge_label": ["pass"] * 4,
        "sure": [0.1, 0.2, 0.3, 0.5],
    }
    (outputs,) = labelled_outputs(cu.read(pl.DataFrame(labels).rename({"sure": "judge_confidence"})), consensus="kept")
    assert [judge.name for judge in judges_of(outputs, None)] == ["judge_label"]


@pytest.mark.parametrize("n_labels", [2, 3])
def test_random_samples_are_tested_by_fisher_for_each_label(n_labels: int) -> None:
    outputs = outputs_of()
    labels = np.random.default_rng(1).integers(0, n_labels, 120).astype(float)
    labels[outputs.has_human_label] = np.maximum(labels[outputs.has_human_label], (np.arange(80) % 3 == 0))
    human = outputs.has_human_label
    p_values = []
    for label in range(1 if n_labels == 2 else 0, n_labels):
        has = labels == label
        table = [[(has & human).sum(), (has & ~human).sum()], [(~has & human).sum(), (~has & ~human).sum()]]
        p_values.append(stats.fisher_exact(table)[1])
        assert fisher_p_value(np.array(table)) == pytest.approx(p_values[-1])
    assert sampling_p_value(outputs, labels) == pytest.approx(min(1.0, len(p_values) * min(p_values)))
    unjudged = np.where(np.arange(120) % 5 == 0, np.nan, labels)  # one more label
    smallest = min(
        stats.fisher_exact([[(m & human).sum(), (m & ~human).sum()], [(~m & human).sum(), (~m & ~human).sum()]])[1]
        for m in (np.isnan(unjudged), *(unjudged == label for label in range(n_labels)))
    )
    assert sampling_p_value(outputs, unjudged) == pytest.approx(min(1.0, (n_labels + 1) * smallest))
    assert np.isnan(sampling_p_value(outputs.only(human), labels[human]))
    assert np.isnan(sampling_p_value(outputs.only(~human), labels[~human]))


def test_samples_of_systems_are_tested_together_or_each_alone() -> None:
    # All of A and none of B that the judge fails: not random over both systems, random within each.
    outputs = outputs_of(n_labelled=120, human_label=pl.when(pl.col("model") == "A").then("human_label"))
    (judge,) = judges_of(outputs, "0.6")
    p_value, name, text = sampling_test(outputs, [judge], "random", by_system=False)
    assert (p_value, name, text) == (pytest.approx(sampling_p_value(outputs, judge.labels)), "judge_score", "")
    assert np.isnan(sampling_test(outputs, [judge], "random", by_system=True)[0])
    assert np.isnan(sampling_test(outputs, [judge], "by-judge", by_system=False)[0])
    weighted = replace(outputs, weight=np.arange(120) + 1.0)
    assert np.isnan(sampling_test(weighted, [judge], "random", by_system=False)[0])
    chosen = (pl.col("model") == "A") | (pl.col("judge_score") > 0.6) | (pl.col("id") % 9 == 0)
    outputs = outputs_of(n_labelled=120, human_label=pl.when(chosen & (pl.col("id") % 2 == 0)).then("human_label"))
    (judge,) = judges_of(outputs, "0.6")
    p_value, _, text = sampling_test(outputs, [judge], "random", by_system=True)
    each = [sampling_p_value(outputs.only(outputs.system == k), judge.labels[outputs.system == k]) for k in range(2)]
    assert p_value == pytest.approx(2 * min(each))
    assert text == " of B"
    assert each[1] < each[0]


def test_scores_of_some_outputs_are_thresholded_where_people_labelled_too() -> None:
    outputs = outputs_of(judge_score=pl.when(pl.col("id") % 7 != 0).then("judge_score"))
    scores, good = outputs.judged[0], outputs.gold[:, 1] > 0.5
    both = outputs.has_human_label & ~np.isnan(scores)
    assert 40 < both.sum() < outputs.has_human_label.sum()
    (judge,) = judges_of(outputs, "youden")
    assert judge.threshold == ThresholdTarget.parse("youden").threshold(scores[both], good[both])
    assert (np.isnan(judge.labels) == np.isnan(scores)).all()
    assert (np.isnan(judge.evaluated) == np.isnan(scores)).all()
    assert set(judge.strata[np.isnan(scores)]) == {0}


@pytest.mark.parametrize("ordered", [True, False])
def test_scores_may_replace_an_annotator_only_if_labels_have_an_order(*, ordered: bool) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 80) if ordered else rng.integers(0, 2, 80)
    people = (
        np.clip(truth + rng.integers(-1, 2, (3, 80)), 1, 5)
        if ordered
        else np.where(rng.random((3, 80)) < 0.8, truth, 1 - truth)
    )
    judge = np.clip(truth + rng.normal(0, 0.3, 80), truth.min(), truth.max())  # on the scale of the labels
    rows = [(f"i{k}", f"p{r}", "human", float(people[r, k])) for r in range(3) for k in range(80)]
    rows += [(f"i{k}", "judge", "metric", round(float(judge[k]), 3)) for k in range(80)]
    frame = pl.DataFrame(rows, schema=["item", "rater", "kind", "score"], orient="row").with_columns(system=pl.lit("A"))
    (outputs,) = labelled_outputs(cu.read(frame), consensus="kept")
    (found,) = [*replacement_rows(outputs, epsilon=0.2, alpha=0.05, confidence=0.95)] or [None]
    assert (found is not None) == ordered
    if found is not None:
        expected = replacement(judge.round(3), people.astype(float), ordered=True, epsilon=0.2, units=np.arange(80))
        order = outputs.table["item"].str.slice(1).cast(pl.Int64).to_numpy()
        np.testing.assert_array_equal(outputs.judged[0], judge.round(3)[order])
        assert found[0]["winning_rate"] == expected.winning_rate
        assert found[0]["advantage_probability"] == pytest.approx(expected.advantage_probability)
        assert found[0]["annotators"] == 3


@pytest.mark.parametrize(("n", "n_wrong", "is_noted"), [(80, 0, True), (79, 0, False), (100, 1, False)])
def test_a_judge_is_a_copy_if_it_is_right_on_eighty_outputs(n: int, n_wrong: int, *, is_noted: bool) -> None:
    human = np.array(["pass", "fail"] * 50)[:n]
    judge = np.where(np.arange(n) < n_wrong, "fail", human)
    frame = pl.DataFrame({"id": range(n + 20), "judge_label": [*judge, *["pass", "fail"] * 10]}).with_columns(
        human_label=pl.Series([*human, *[None] * 20])
    )
    rules = {note.rule for note in cu.rates(frame).notes}
    assert ("judge-equals-human" in rules) == is_noted
    assert "judge-contradicts-human" not in rules
    reversed_labels = frame.with_columns(judge_label=pl.col("judge_label").replace({"pass": "fail", "fail": "pass"}))
    assert "judge-contradicts-human" in {note.rule for note in cu.rates(reversed_labels).notes}
