"""Cross-validation: no held-out data reach a fit, whatever the folds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.combining import training as training_of
from custodes.combining.combine import Combine
from custodes.combining.methods import METHODS, TrainingData
from custodes.combining.task import outer_folds, task
from custodes.combining.trial import cross_validate
from custodes.data.study import Study
from custodes.progress import silent
from tests.combining.runs import (
    QUICK,
    column,
    content,
    folds_used,
    generator,
    held_out,
    noise,
    rules,
    run_combine,
    terms,
)
from tests.combining.tasks import ITEMS, N_SYSTEMS, planted, table_of_items
from tests.evaluate.judged_studies import Scores, judged

pytestmark = pytest.mark.usefixtures("small")


def test_pure_noise_is_worth_nothing_to_any_method() -> None:
    seeds = 5
    tables = [run_combine(noise(100 + seed, p=12), method=QUICK).comparison for seed in range(seeds)]
    for name in QUICK:
        for statistic in ("kendall", "pearson"):
            values = np.array([column(table, statistic)[name] for table in tables])
            limit = stats.t.ppf(0.999, seeds - 1) * values.std(ddof=1) / np.sqrt(seeds)
            assert abs(values.mean()) < min(limit, 0.25), (name, statistic)  # a leak would give .4 or more


def training_sets(
    scores: Scores, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[list[TrainingData], Combine]:
    """Return the training set of every fit: the five folds, then all data."""
    training_data: list[TrainingData] = []

    def spy(training: TrainingData) -> Any:
        training_data.append(training)
        return METHODS["ridge"].fit(training)

    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "best", replace(METHODS["best"], fit=spy))
        patch.setattr(training_of, "map_parts", lambda answer, jobs, rng, **rest: [answer(job, rng) for job in jobs])
        result = run_combine(scores, method="best", **options)
    return training_data, result


def test_what_is_held_out_changes_neither_the_fit_nor_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = planted()
    (fold,) = outer_folds(task(judged(scores).select(), target=None), "item", repeats=1, rng=generator())
    out = fold[:, 0] == 2
    changed = {key: values.copy() for key, values in scores.items()}
    changed["ann", ""][out] = np.random.default_rng(5).normal(size=(out.sum(), N_SYSTEMS)) * 50
    changed["a", ""][np.flatnonzero(out)[0]] = 1e6
    changed["noise", ""][np.flatnonzero(out)[1]] = -1e6
    before, first = training_sets(scores, monkeypatch)
    after, second = training_sets(changed, monkeypatch)
    np.testing.assert_array_equal(before[2].x, after[2].x)  # the training part of fold 2
    np.testing.assert_array_equal(before[2].y, after[2].y)
    assert set(before[2].items) == set(np.flatnonzero(~out))
    same = np.flatnonzero(out)[2:]  # items of the fold with unchanged metrics
    # Predictions are rounded to 13 digits of the largest prediction of the fold.
    np.testing.assert_allclose(held_out(first, "best")[same], held_out(second, "best")[same], atol=1e-11)
    clipped = held_out(second, "best")[np.flatnonzero(out)[0]]  # outliers are clipped to the training scale
    assert (np.abs(clipped) < 10).all()
    for f in (0, 1, 3, 4):  # training sets that include the changes
        assert (before[f].x != after[f].x).any()


def test_held_out_predictions_come_from_the_other_folds_alone() -> None:
    scores = planted()
    (fold,) = folds_used(judged(scores))
    predicted = held_out(run_combine(scores), "ridge")
    for f in (0, 3):
        changed = {key: values.copy() for key, values in scores.items()}
        changed["ann", ""][fold[:, 0] == f] = np.nan
        model = run_combine(changed).model  # fitted on the other folds
        ratings, _ = model.score(judged(scores))
        expected = ratings["score"].to_numpy().reshape(ITEMS, N_SYSTEMS)[fold[:, 0] == f]
        np.testing.assert_allclose(predicted[fold[:, 0] == f], expected, atol=1e-9)


def test_no_method_depends_on_the_others() -> None:
    names, scores = ("gp", "auto"), planted(items=12)
    together = column(run_combine(scores, method=("xgboost", *names)).comparison, "kendall")
    for name in names:
        assert column(run_combine(scores, method=name).comparison, "kendall")[name] == together[name]


def test_one_system_at_a_time() -> None:
    scores = planted()
    result = run_combine(scores, folds="system", method=("ridge", "equal"))
    predicted = held_out(result, "ridge")
    taus = [stats.kendalltau(scores["ann", ""][:, k], predicted[:, k]).statistic for k in range(N_SYSTEMS)]
    assert result.comparison["kendall"][0] == pytest.approx(np.mean(taus))
    assert result.comparison["accuracy"].is_null().all()  # no item has two held-out outputs in a fold
    without = {key: np.delete(values, 2, axis=1) for key, values in scores.items()}
    expected, _ = run_combine(without).model.score(judged(scores))
    assert predicted[:, 2] == pytest.approx(expected.filter(system="C")["score"].to_numpy(), abs=1e-9)


def two_sets() -> Study:
    """Return two data sets with opposite human ratings."""
    scores = planted(items=24)
    scores["ann", ""][12:] *= -1
    labels = ["news"] * 12 + ["chat"] * 12
    return judged(scores).describe(items=table_of_items(24, dataset=labels, group=labels))


@pytest.mark.parametrize("by", ["dataset", "group"])
def test_fitted_on_one_data_set_and_tested_on_the_other(by: str) -> None:
    study = two_sets()
    result = run_combine(study, folds=by, method=("ridge", "xgboost"))
    assert (result.comparison["kendall"] < -0.4).all()  # the relation is reversed in the other data set
    predicted = held_out(result, "ridge", items=24)
    chat = run_combine(study, group="chat").model
    ratings, _ = chat.score(study)
    news = ratings.filter(pl.col("item") < "i012")["score"].to_numpy().reshape(12, N_SYSTEMS)
    np.testing.assert_allclose(predicted[:12], news, atol=1e-9)


def test_items_that_a_file_does_not_name_are_neither_used_nor_scored_and_counted(tmp_path: Path) -> None:
    scores = planted()
    file = tmp_path / "folds.csv"
    named = table_of_items(fold=["xyz"[k % 3] for k in range(ITEMS)])[:15]
    named.write_csv(file)
    result = run_combine(scores, folds=str(file))
    assert rules(result)["not-in-folds"].startswith(
        f"{5 * N_SYSTEMS} rated outputs are in no fold, so these outputs are not used ("
    )
    assert np.isnan(held_out(result, "ridge")[15:]).all()
    poisoned = {key: values.copy() for key, values in scores.items()}
    poisoned["ann", ""][15:] *= -20
    poisoned["a", ""][15:] *= 1000
    again = run_combine(poisoned, folds=str(file))
    np.testing.assert_array_equal(held_out(again, "ridge"), held_out(result, "ridge"))
    assert result.path["score"].to_list() == pytest.approx(again.path["score"].to_list())
    assert content(again.model) != content(result.model)  # the final model uses all items
    assert (
        run_combine(scores, folds=file).to_dict()["provenance"] == result.to_dict()["provenance"]
    )  # a path works as a string does


def test_a_trial_is_scored_fold_by_fold_and_averaged_over_repeats() -> None:
    scores = planted()
    trial = cross_validate(
        task(judged(scores).select(), target=None), terms("ridge", "best", repeats=3), generator(), silent
    )
    assert trial.methods == ["ridge", "best"]
    assert trial.predicted.shape == (3, 2, ITEMS, N_SYSTEMS)
    human = scores["ann", ""]
    taus = np.array(
        [
            [
                [stats.kendalltau(human[fold == f], values[fold == f]).statistic for values in predicted]
                for f in range(5)
            ]
            for fold, predicted in zip(trial.folds, trial.predicted, strict=True)
        ]
    )
    np.testing.assert_allclose(np.stack(trial.repeat_scores()), taus)
    np.testing.assert_allclose(trial.scores(), [taus.mean(axis=(0, 1))])
    assert (trial.used == [3, 1]).all()
    assert (trial.seconds > 0).all()
