from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.errors import InputError, MissingExtraError, OptionError
from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from tests.evaluate.ceiling.planted import ITEMS, SYSTEMS, Planted, asked, planted, rows
from tests.evaluate.judged_studies import judged, rows_of, study_from


def test_what_is_planted_is_predicted_and_what_is_not_is_not(made: Ceiling) -> None:
    style, truth = (rows(made.prediction, target, "features") for target in ("style", "truth"))
    assert list(style) == ["metrics", "humans", "both"]
    # The tau of a bivariate normal with the correlation of 2 a + b and 2 a + b + hidden + noise / 2.
    assert style["metrics"]["kendall"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(5 / 6.25)), abs=0.06)
    for features in style.values():
        assert features["kendall_low"] < features["kendall"] < features["kendall_high"]
        assert features["kendall_item_low"] < features["kendall_item"] < features["kendall_item_high"]
        assert features["n"] == ITEMS * SYSTEMS
    assert truth["metrics"]["kendall"] == pytest.approx(0, abs=0.08)  # No metric is related to truth.
    assert truth["metrics"]["kendall_low"] < 0.05
    assert truth["humans"]["kendall_low"] > 0.1
    assert [row["columns"] for row in style.values()] == [4, 1, 5]
    gaps = rows(made.gaps, "style", "features_a", "features_b")
    gain = gaps["both", "metrics"]
    assert gain["difference"] == pytest.approx(style["both"]["kendall"] - style["metrics"]["kendall"], abs=1e-12)
    assert gain["difference_low"] > 0.05
    assert gaps["humans", "metrics"]["difference_high"] < 0


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_pure_noise_is_not_predicted(model: Any) -> None:
    rng = np.random.default_rng(2)
    scores: Planted = {
        ("ann", "style"): rng.normal(size=(80, SYSTEMS)),
        ("ann", "truth"): rng.normal(size=(80, SYSTEMS)),
    }
    for k in range(15):
        scores[f"m{k}", ""] = rng.normal(size=(80, SYSTEMS))
    made = asked(scores, model=model, resamples=50, steps=3)
    # The standard error of tau between independent rankings of 96 outputs, averaged over five folds, is about .03.
    assert (made.prediction["kendall"].abs() < 0.1).all()
    assert (made.forward["kendall"].abs() < 0.1).all()
    assert (made.information["mse_ratio"] > 0.99).all()


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    few = {key: values[:11] for key, values in planted().items()}
    told = [note.message for note in asked(few, resamples=20).notes if note.rule == "few-clusters"]
    (message,) = told
    assert message.startswith("there are only 11 clusters of items, so intervals are unreliable")
    enough = {key: values[:12] for key, values in planted().items()}
    for made in (asked(few, resamples=0), asked(enough, resamples=20)):
        assert "few-clusters" not in [note.rule for note in made.notes]


def test_people_are_split_in_halves(made: Ceiling) -> None:
    assert made.annotators.height == 0
    rng = np.random.default_rng(4)
    scores = planted()
    opinion = scores["ann", "style"]
    voices = {name: opinion + 2.5 * rng.normal(size=opinion.shape) for name in ("ann", "bob", "cy")}
    told = asked({**scores, **{(name, "style"): voice for name, voice in voices.items()}})
    assert told.annotators["target"].to_list() == ["style"]  # Truth has one annotator.
    row = told.annotators.row(0, named=True)
    assert row["annotators"] == 3
    # One annotator against the mean of two others has correlation sqrt(1/2 * 2/3); the mean of three correlates with
    # the true opinion by sqrt(3/4).
    assert row["split_half"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(1 / 3)), abs=0.05)
    assert row["attainable"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(3 / 4)), abs=0.05)
    assert row["split_half_low"] < row["split_half"] < row["split_half_high"]
    assert row["attainable_low"] < row["attainable"] < row["attainable_high"]


def test_splits_that_say_nothing_are_left_out() -> None:
    # Bob rates one half of ann's outputs and cy the other half, so bob and cy share no outputs.
    scores = {("ann", "style"): planted()["ann", "style"], ("first", ""): planted()["first", ""]}
    odd = np.arange(ITEMS)[:, None] % 2 == 1
    rng = np.random.default_rng(7)
    opinion = scores["ann", "style"] + rng.normal(size=(ITEMS, SYSTEMS))
    pair = {("bob", "style"): np.where(odd, opinion, np.nan), ("cy", "style"): np.where(odd, np.nan, opinion)}
    two = asked({("first", ""): scores["first", ""], **pair})
    assert two.annotators["split_half"].to_list() == [None]
    with_ann = asked({**scores, **pair})
    assert with_ann.annotators["split_half"].null_count() == with_ann.annotators["attainable_low"].null_count() == 0
    assert "no-split-half" not in [note.rule for note in with_ann.notes]
    # There are four annotators: ann and bob rated one half of the items, cy and dan the other. One of three splits into
    # halves is uninformative.
    apart = {
        name: np.where(odd == (name in ("ann", "bob")), opinion + rng.normal(size=opinion.shape), np.nan)
        for name in ("ann", "bob", "cy", "dan")
    }
    persons = np.stack(list(apart.values()))
    study = four_people({("first", ""): scores["first", ""], **{(name, "style"): own for name, own in apart.items()}})
    made = ceiling(study, model="ridge", resamples=100)
    told = made.annotators.row(0, named=True)
    assert told["annotators"] == 4
    assert None not in told.values()
    assert "no-split-half" not in [note.rule for note in made.notes]
    between = (
        [np.nanmean(persons[[0, k]], axis=0) for k in (2, 3)],
        [np.nanmean(persons[[1, 5 - k]], axis=0) for k in (2, 3)],
    )
    whole = np.mean([stats.kendalltau(a.ravel(), b.ravel()).statistic for a, b in zip(*between, strict=True)])
    assert told["split_half"] == pytest.approx(whole, abs=0.03)  # over folds, not over all outputs at once


def four_people(scores: Planted) -> Any:
    rows = rows_of(scores)
    kinds = {name: "metric" if name == "first" else "human" for name, _ in scores}
    return cu.read(rows.with_columns(kind=pl.col("rater").replace_strict(kinds)))


def test_annotators_without_an_output_in_common_have_no_halves() -> None:
    scores = planted()
    scores["bob", "style"] = np.where(np.arange(ITEMS)[:, None] % 2, scores["ann", "style"], np.nan)
    scores["ann", "style"][1::2] = np.nan
    made = asked(scores, resamples=20)
    assert made.annotators["split_half"].to_list() == made.annotators["attainable"].to_list() == [None]
    assert [note.message for note in made.notes if note.rule == "no-split-half"] == [
        "for 'style', annotators cannot be split into halves that rated the same outputs"
    ]


def test_history_follows_the_dates_of_release() -> None:
    study = judged(planted())
    assert ceiling(study, model="ridge", resamples=0).history.height == 0
    dates = pl.DataFrame({"rater": ["second", "noise", "first"], "date": ["2019-05", "2002", "2019-05"]})
    made = ceiling(study.describe(raters=dates), model="ridge", resamples=50)
    history = made.history.filter(pl.col("target") == "style")
    assert history["date"].to_list() == ["2002", "2019-05"]
    assert history["newest"].to_list() == [["noise"], ["first", "second"]]
    assert history["columns"].to_list() == [1, 3]
    assert abs(history["kendall"][0]) < 0.1 < 0.5 < history["kendall"][1]
    assert history["kendall_low"][1] < history["kendall"][1] < history["kendall_high"][1]
    assert [note.message for note in made.notes if note.rule == "undated-metrics"] == [
        "1 metrics have no release date, so the history excludes them"
    ]
    everyone = ceiling(
        study.describe(raters=pl.DataFrame({"rater": ["*"], "date": ["2020"]})), model="ridge", resamples=0
    )
    assert everyone.history.height == 0  # A single date is no history.


def test_one_aspect_has_metrics_alone_and_says_so() -> None:
    made = asked(planted(), aspect="style", resamples=20)
    assert made.prediction["features"].to_list() == ["metrics"]
    assert made.gaps.height == made.information.height == 0
    assert set(made.lasso["kind"]) == {"metric"}
    assert [note.message for note in made.notes if note.rule == "one-aspect"] == [
        "annotators rated only one aspect, so there are no features from other aspects (humans, both, information)"
    ]
    schema = asked(planted(), resamples=0)
    for name in ("gaps", "information", "annotators", "history", "halo"):
        assert made.to_frame(name).schema == schema.to_frame(name).schema


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_more_features_than_rows(model: Any) -> None:
    rng = np.random.default_rng(5)
    scores: Planted = {("ann", "style"): rng.normal(size=(8, 3)), ("ann", "truth"): rng.normal(size=(8, 3))}
    for k in range(40):
        scores[f"m{k}", ""] = rng.normal(size=(8, 3))
    made = asked(scores, model=model, resamples=20, steps=3)
    assert made.prediction["kendall"].null_count() == 0
    assert made.forward.height == 6
    assert made.next.height == 80
    note = next(note for note in made.notes if note.rule == "more-features-than-rows")
    assert note.message.startswith("40 metrics and 24 rated outputs")


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_missing_scores_are_no_obstacle(model: Any) -> None:
    rng = np.random.default_rng(6)
    scores = planted()
    for key, values in scores.items():
        values[rng.random(values.shape) < (0.1 if key[0] == "ann" else 0.2)] = np.nan
    told = rows(asked(scores, model=model).prediction, "style", "features")
    assert told["metrics"]["kendall_low"] > 0.3
    assert told["metrics"]["n"] == np.isfinite(scores["ann", "style"]).sum()


def test_a_constant_target_or_metric_is_named_and_left_out() -> None:
    scores = planted()
    scores["ann", "truth"][:] = 3.0
    scores["flat", ""] = np.ones((ITEMS, SYSTEMS))
    made = asked(scores, resamples=0)
    assert set(made.prediction["target"]) == {"style"}
    assert made.prediction["features"].to_list() == ["metrics"]
    assert "flat" not in made.next["metric"]
    assert dict(made.left_out.rows()) == dict.fromkeys(
        ("human:truth", "flat"), "its scores are constant, so it ranks nothing"
    )
    scores["ann", "style"][:] = 3.0
    with pytest.raises(InputError, match="nothing to predict"):
        asked(scores)
    only = {key: values for key, values in planted().items() if key[0] == "ann"}
    with pytest.raises(InputError, match="every metric is constant"):
        asked({**only, ("flat", ""): np.ones((ITEMS, SYSTEMS))})


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_two_clusters_are_the_least(model: Any) -> None:
    def clustered(n: int) -> Any:
        items = {"item": [f"i{i:03}" for i in range(ITEMS)], "cluster": [f"d{i * n // ITEMS}" for i in range(ITEMS)]}
        return judged(planted()).describe(items=pl.DataFrame(items))

    made = ceiling(clustered(2), model=model, resamples=30)
    assert rows(made.prediction, "style", "features")["metrics"]["kendall"] > 0.5
    # With one of two systems held out, no second training system remains to choose a path.
    assert made.forward["kendall"].null_count() == made.forward.height == 8
    assert made.forward["chosen"].null_count() == 8
    assert made.next["added"].null_count() == 0
    assert "two-clusters" in [note.rule for note in made.notes]
    with pytest.raises(InputError, match="one item or cluster, but cross-validation needs two; give more items"):
        ceiling(clustered(1), model=model)
    three = ceiling(clustered(3), model=model, resamples=0)
    assert three.forward.filter(pl.col("target") == "style")["kendall"].null_count() == 0


def test_two_items_and_an_aspect_of_one_item() -> None:
    few = {key: values[:2] for key, values in planted().items()}
    made = asked(few, resamples=20)
    assert made.prediction.height == 6
    table = rows_of(planted()).filter((pl.col("aspect") != "truth") | (pl.col("item") == "i000"))
    made = ceiling(study_from(table), model="ridge", resamples=0)
    assert dict(made.left_out.rows()) == {
        "human:truth": "annotators rated only one item or cluster, but cross-validation needs two"
    }
    # It is neither a target nor a predictor of another target.
    alone = ceiling(study_from(table), model="ridge", aspect="!truth", resamples=0)
    for name in ("prediction", "forward", "backward", "next", "lasso"):
        assert made.to_frame(name).equals(alone.to_frame(name)), name
    assert made.prediction["features"].to_list() == ["metrics"]
    for plain in ("item", "plain"):
        with pytest.raises(InputError, match="nothing to predict, .* of only one item or cluster"):
            ceiling(study_from(table.filter(pl.col("aspect") != "style")), folds=plain, model="ridge")


def test_people_who_rated_few_items_of_many() -> None:
    # Many resamples contain none of these items; undefined values are left out.
    scores = planted()
    scores["ann", "style"][2:] = np.nan
    scores["ann", "truth"][5:] = np.nan
    made = asked(scores, resamples=100)
    assert set(made.prediction["n"]) == {2 * SYSTEMS, 5 * SYSTEMS}
    assert made.information["mse_ratio"].null_count() == 0
    assert made.information["mse_ratio_low"].null_count() == 0
    paths = {target: own["kendall"].null_count() for (target,), own in made.forward.group_by("target")}
    assert paths == {"style": 4, "truth": 0}
    assert "two-clusters" in [note.rule for note in made.notes]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": "items"}, "folds='items'; allowed: item, plain .did you mean 'item'"),
        ({"steps": 0}, "steps=0"),
        ({"systems": "A"}, "only 1 system"),
        ({"in_use": "bleu"}, "in_use"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, InputError), match=message):
        asked(planted(), **options)


def test_without_xgboost_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match="XGBoost: pip install 'custodes.learn.'$"):
        asked(planted(), model="xgboost")
    assert asked(planted(), model="ridge", resamples=0).prediction.height == 6


def test_a_monotone_line_through_a_metric_changes_no_prediction() -> None:
    scores = planted()
    bent = {key: values if key[0] == "ann" else 100 - 3 * values for key, values in scores.items()}
    one, other = asked(scores, resamples=20), asked(bent, resamples=20)
    for name in ("prediction", "information", "next"):
        numbers = pl.selectors.float()
        np.testing.assert_allclose(
            one.to_frame(name).select(numbers).to_numpy(), other.to_frame(name).select(numbers).to_numpy(), atol=1e-6
        )
    turned = judged(bent).describe(
        raters=pl.DataFrame({"rater": ["first", "second", "*noise"], "higher_is_better": ["false"] * 3})
    )
    weights = ceiling(turned, model="ridge", resamples=0).lasso["weight"]
    np.testing.assert_allclose(weights, one.lasso["weight"], atol=1e-6)
