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
from tests.evaluate.ceiling.planted import ITEMS, SYSTEMS, Planted, ceiling_of, planted, rows
from tests.evaluate.judged_studies import judged, rows_of, study_from
from tests.messages import exactly


def test_what_is_planted_is_predicted_and_what_is_not_is_not(planted_ceiling: Ceiling) -> None:
    style, truth = (rows(planted_ceiling.prediction, target, "features") for target in ("style", "truth"))
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
    gaps = rows(planted_ceiling.gaps, "style", "features_a", "features_b")
    gain = gaps["both", "metrics"]
    assert gain["difference"] == pytest.approx(style["both"]["kendall"] - style["metrics"]["kendall"], abs=1e-12)
    assert gain["difference_low"] > 0.05
    assert gaps["humans", "metrics"]["difference_high"] < 0


@pytest.mark.parametrize(("model", "steps"), [("ridge", 3), ("xgboost", 1)])
def test_pure_noise_is_not_predicted(model: Any, steps: int) -> None:
    rng = np.random.default_rng(2)
    scores: Planted = {
        ("ann", "style"): rng.normal(size=(80, SYSTEMS)),
        ("ann", "truth"): rng.normal(size=(80, SYSTEMS)),
    }
    for k in range(15):
        scores[f"m{k}", ""] = rng.normal(size=(80, SYSTEMS))
    result = ceiling_of(scores, model=model, resamples=0, steps=steps)
    # The standard error of tau between independent rankings of 96 outputs, averaged over five folds, is about .03.
    assert (result.prediction["kendall"].abs() < 0.1).all()
    assert (result.forward["kendall"].abs() < 0.1).all()
    assert (result.information["mse_ratio"] > 0.99).all()


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    few = {key: values[:11] for key, values in planted().items()}
    messages = [note.message for note in ceiling_of(few, resamples=20).notes if note.rule == "few-clusters"]
    (message,) = messages
    assert message.startswith("there are only 11 clusters of items, so intervals are unreliable")
    enough = {key: values[:12] for key, values in planted().items()}
    for result in (ceiling_of(few, resamples=0), ceiling_of(enough, resamples=20)):
        assert "few-clusters" not in [note.rule for note in result.notes]


def test_people_are_split_in_halves(planted_ceiling: Ceiling) -> None:
    assert planted_ceiling.annotators.height == 0
    rng = np.random.default_rng(4)
    scores = planted()
    opinion = scores["ann", "style"]
    voices = {name: opinion + 2.5 * rng.normal(size=opinion.shape) for name in ("ann", "bob", "cy")}
    result = ceiling_of({**scores, **{(name, "style"): voice for name, voice in voices.items()}})
    assert result.annotators["target"].to_list() == ["style"]  # Truth has one annotator.
    row = result.annotators.row(0, named=True)
    assert row["annotators"] == 3
    # One annotator against the mean of two others has correlation sqrt(1/2 * 2/3); the mean of three correlates with
    # the true opinion by sqrt(3/4).
    assert row["split_half"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(1 / 3)), abs=0.05)
    assert row["attainable"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(3 / 4)), abs=0.05)
    assert row["split_half_low"] < row["split_half"] < row["split_half_high"]
    assert row["attainable_low"] < row["attainable"] < row["attainable_high"]


def test_annotators_who_disagree_bound_nothing() -> None:
    scores = planted()
    scores["bob", "style"] = -0.5 * scores["ann", "style"]
    result = ceiling_of(scores, resamples=20)
    row = result.annotators.row(0, named=True)
    assert row["split_half"] == row["split_half_high"] == -1
    assert row["attainable"] is row["attainable_low"] is row["attainable_high"] is None
    assert [note.message for note in result.notes if note.rule == "no-attainable"] == [
        "for 'style', halves of the annotators do not agree, so the tau-b that a perfect predictor could reach cannot "
        "be estimated"
    ]


def test_splits_that_say_nothing_are_left_out() -> None:
    # Bob rates one half of ann's outputs and cy the other half, so bob and cy share no outputs.
    scores = {("ann", "style"): planted()["ann", "style"], ("first", ""): planted()["first", ""]}
    odd = np.arange(ITEMS)[:, None] % 2 == 1
    rng = np.random.default_rng(7)
    opinion = scores["ann", "style"] + rng.normal(size=(ITEMS, SYSTEMS))
    pair = {("bob", "style"): np.where(odd, opinion, np.nan), ("cy", "style"): np.where(odd, np.nan, opinion)}
    two = ceiling_of({("first", ""): scores["first", ""], **pair}, resamples=0)
    assert two.annotators["split_half"].to_list() == [None]
    with_ann = ceiling_of({**scores, **pair}, resamples=20)
    assert with_ann.annotators["split_half"].null_count() == with_ann.annotators["attainable_low"].null_count() == 0
    assert "no-split-half" not in [note.rule for note in with_ann.notes]
    # There are four annotators: ann and bob rated one half of the items, cy and dan the other. One of three splits into
    # halves is uninformative.
    opinions = {
        name: np.where(odd == (name in ("ann", "bob")), opinion + rng.normal(size=opinion.shape), np.nan)
        for name in ("ann", "bob", "cy", "dan")
    }
    persons = np.stack(list(opinions.values()))
    study = four_people(
        {("first", ""): scores["first", ""], **{(name, "style"): values for name, values in opinions.items()}}
    )
    result = ceiling(study, model="ridge", resamples=20)
    row = result.annotators.row(0, named=True)
    assert row["annotators"] == 4
    assert None not in row.values()
    assert "no-split-half" not in [note.rule for note in result.notes]
    between = (
        [np.nanmean(persons[[0, k]], axis=0) for k in (2, 3)],
        [np.nanmean(persons[[1, 5 - k]], axis=0) for k in (2, 3)],
    )
    whole = np.mean([stats.kendalltau(a.ravel(), b.ravel()).statistic for a, b in zip(*between, strict=True)])
    assert row["split_half"] == pytest.approx(whole, abs=0.03)  # over folds, not over all outputs at once


def four_people(scores: Planted) -> Any:
    rows = rows_of(scores)
    kinds = {name: "metric" if name == "first" else "human" for name, _ in scores}
    return cu.read(rows.with_columns(kind=pl.col("rater").replace_strict(kinds)))


def test_annotators_without_an_output_in_common_have_no_halves() -> None:
    scores = planted()
    scores["bob", "style"] = np.where(np.arange(ITEMS)[:, None] % 2, scores["ann", "style"], np.nan)
    scores["ann", "style"][1::2] = np.nan
    result = ceiling_of(scores, resamples=20)
    assert result.annotators["split_half"].to_list() == result.annotators["attainable"].to_list() == [None]
    assert [note.message for note in result.notes if note.rule == "no-split-half"] == [
        "for 'style', annotators cannot be split into halves that rated the same outputs"
    ]


def test_history_follows_the_dates_of_release(planted_ceiling: Ceiling) -> None:
    assert planted_ceiling.history.height == 0
    study = judged(planted())
    dates = pl.DataFrame({"rater": ["second", "noise", "first"], "date": ["2019-05", "2002", "2019-05"]})
    result = ceiling(study.describe(raters=dates), model="ridge", resamples=50)
    history = result.history.filter(pl.col("target") == "style")
    assert history["date"].to_list() == ["2002", "2019-05"]
    assert history["newest"].to_list() == [["noise"], ["first", "second"]]
    assert abs(history["kendall"][0]) < 0.1 < 0.5 < history["kendall"][1]
    assert history["kendall_low"][1] < history["kendall"][1] < history["kendall_high"][1]
    assert [note.message for note in result.notes if note.rule == "undated-metrics"] == [
        "1 metrics have no release date, so the history excludes them"
    ]
    dated_alike = study.describe(raters=pl.DataFrame({"rater": ["*"], "date": ["2020"]}))
    with_all = ceiling(dated_alike, model="ridge", resamples=0, aspect="style")
    assert with_all.history.height == 0  # A single date is no history.


def test_one_aspect_has_metrics_alone_and_says_so(planted_ceiling: Ceiling) -> None:
    result = ceiling_of(planted(), aspect="style", resamples=20)
    assert result.prediction["features"].to_list() == ["metrics"]
    assert result.gaps.height == result.information.height == 0
    assert set(result.lasso["kind"]) == {"metric"}
    assert [note.message for note in result.notes if note.rule == "one-aspect"] == [
        "annotators rated only one aspect, so the features `humans` and `both` and the table `information` are left out"
    ]
    for name in ("gaps", "information", "annotators", "history", "halo"):
        assert result.to_frame(name).schema == planted_ceiling.to_frame(name).schema


def test_more_features_than_rows() -> None:
    rng = np.random.default_rng(5)
    scores: Planted = {("ann", "style"): rng.normal(size=(8, 3)), ("ann", "truth"): rng.normal(size=(8, 3))}
    for k in range(40):
        scores[f"m{k}", ""] = rng.normal(size=(8, 3))
    result = ceiling_of(scores, model="ridge", resamples=20, steps=3)
    assert result.prediction["kendall"].null_count() == 0
    assert result.forward.height == 6
    assert result.next.height == 80
    note = next(note for note in result.notes if note.rule == "more-features-than-rows")
    assert note.message == ("there are more features than data (40 metrics, 24 rated outputs); expect tau-b near 0")


def test_missing_scores_are_no_obstacle() -> None:
    rng = np.random.default_rng(6)
    scores = planted()
    for key, values in scores.items():
        values[rng.random(values.shape) < (0.1 if key[0] == "ann" else 0.2)] = np.nan
    row = rows(ceiling_of(scores).prediction, "style", "features")
    assert row["metrics"]["kendall_low"] > 0.3
    assert row["metrics"]["n"] == np.isfinite(scores["ann", "style"]).sum()


def test_a_constant_target_or_metric_is_named_and_left_out() -> None:
    scores = planted()
    scores["ann", "truth"][:] = 3.0
    scores["flat", ""] = np.ones((ITEMS, SYSTEMS))
    result = ceiling_of(scores, resamples=0)
    assert set(result.prediction["target"]) == {"style"}
    assert result.prediction["features"].to_list() == ["metrics"]
    assert "flat" not in result.next["metric"]
    assert dict(result.left_out.rows()) == dict.fromkeys(
        ("human:truth", "flat"), "its scores are constant, so it ranks nothing"
    )
    scores["ann", "style"][:] = 3.0
    with pytest.raises(InputError, match="nothing to predict"):
        ceiling_of(scores)
    only = {key: values for key, values in planted().items() if key[0] == "ann"}
    with pytest.raises(
        InputError,
        match=exactly(
            "small: no metric has scores that vary (raters with scores: human:style, human:truth, flat); "
            "select other metrics"
        ),
    ):
        ceiling_of({**only, ("flat", ""): np.ones((ITEMS, SYSTEMS))})


def test_two_clusters_are_the_least() -> None:
    def clustered(n: int) -> Any:
        items = {"item": [f"i{i:03}" for i in range(ITEMS)], "cluster": [f"d{i * n // ITEMS}" for i in range(ITEMS)]}
        return judged(planted()).describe(items=pl.DataFrame(items))

    result = ceiling(clustered(2), model="ridge", resamples=30)
    assert rows(result.prediction, "style", "features")["metrics"]["kendall"] > 0.5
    # With one of two systems held out, no second training system remains to choose a path.
    assert result.forward["kendall"].null_count() == result.forward.height == 8
    assert result.forward["chosen"].null_count() == 8
    assert result.next["added"].null_count() == 0
    assert "two-clusters" in [note.rule for note in result.notes]
    with pytest.raises(
        InputError,
        match=exactly("small: there is only one item or cluster, but cross-validation needs two; give more items"),
    ):
        ceiling(clustered(1), model="ridge")
    three = ceiling(clustered(3), model="ridge", resamples=0)
    assert three.forward.filter(pl.col("target") == "style")["kendall"].null_count() == 0


def test_two_items_and_an_aspect_of_one_item() -> None:
    few = {key: values[:2] for key, values in planted().items()}
    result = ceiling_of(few, resamples=20)
    assert result.prediction.height == 6
    table = rows_of(planted()).filter((pl.col("aspect") != "truth") | (pl.col("item") == "i000"))
    result = ceiling(study_from(table), model="ridge", resamples=0)
    assert dict(result.left_out.rows()) == {
        "human:truth": "annotators rated only one item or cluster, but cross-validation needs two"
    }
    # It is neither a target nor a predictor of another target.
    alone = ceiling(study_from(table), model="ridge", aspect="!truth", resamples=0)
    for name in ("prediction", "forward", "next", "lasso"):
        assert result.to_frame(name).equals(alone.to_frame(name)), name
    assert result.prediction["features"].to_list() == ["metrics"]
    for plain in ("item", "plain"):
        with pytest.raises(
            InputError,
            match=exactly(
                "small: there is nothing to predict, because human ratings are verdicts, are constant, or "
                "cover only one item or cluster"
            ),
        ):
            ceiling(study_from(table.filter(pl.col("aspect") != "style")), folds=plain, model="ridge")


def test_people_who_rated_few_items_of_many() -> None:
    # Many resamples contain none of these items; undefined values are left out.
    scores = planted()
    scores["ann", "style"][2:] = np.nan
    scores["ann", "truth"][5:] = np.nan
    result = ceiling_of(scores, resamples=100)
    assert set(result.prediction["n"]) == {2 * SYSTEMS, 5 * SYSTEMS}
    assert result.information["mse_ratio"].null_count() == 0
    assert result.information["mse_ratio_low"].null_count() == 0
    paths = {target: values["kendall"].null_count() for (target,), values in result.forward.group_by("target")}
    assert paths == {"style": 4, "truth": 0}
    assert "two-clusters" in [note.rule for note in result.notes]


def test_metrics_in_use_must_exist() -> None:
    with pytest.raises(OptionError, match="in_use"):
        ceiling_of(planted(), in_use="bleu")


def test_without_xgboost_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=exactly("boosted trees need XGBoost: pip install 'custodes[learn]'")):
        ceiling_of(planted(), model="xgboost")
    few = {key: values[:12] for key, values in planted().items()}
    assert ceiling_of(few, model="ridge", resamples=0).prediction.height == 6


def test_the_ratio_of_errors_falls_where_people_know_more(planted_ceiling: Ceiling) -> None:
    style = planted_ceiling.information.filter(pl.col("target") == "style")
    assert style["mse_ratio"][0] == pytest.approx(1)  # With the largest penalty no feature is used.
    best = style.row(int(style["mse_both"].arg_min()), named=True)
    # Residual variance: 1.25 from metrics alone; truth explains 80 % of the hidden component, whose variance is 1.
    assert best["mse_both"] / best["mse_ratio"] == pytest.approx(1.25, rel=0.15)
    assert best["mse_ratio"] == pytest.approx(0.45 / 1.25, abs=0.1)
    assert best["mse_ratio_low"] < best["mse_ratio"] < best["mse_ratio_high"] < 0.6
    scores = planted()
    scores["ann", "truth"] = np.random.default_rng(9).normal(size=(ITEMS, SYSTEMS))
    nothing = ceiling_of(scores, resamples=0).information.filter(pl.col("target") == "style")
    assert nothing["mse_ratio"].is_between(0.98, 1.02).all()


def test_the_lasso_keeps_the_planted_metrics(planted_ceiling: Ceiling) -> None:
    lasso = planted_ceiling.lasso.filter(pl.col("target") == "style")
    assert lasso["alpha"].is_sorted(descending=True)
    entry = {name: rows.filter(pl.col("weight") != 0)["alpha"].max() for (name,), rows in lasso.group_by("rater")}
    assert set(entry) == {"first", "second", "noise", "more-noise", "human:truth"}
    assert entry["first"] > entry["second"] > (entry["noise"] or 0)
    assert dict(lasso.select("rater", "kind").rows())["human:truth"] == "human"
    last = lasso.filter(pl.col("alpha") == lasso["alpha"].min())
    weight = dict(last.select("rater", "weight").rows())
    assert weight["first"] == pytest.approx(2 / 2.5, abs=0.08)  # 2 a, for a target with standard deviation 2.5


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_plain_folds_leak_the_item_and_whole_items_do_not(model: Any) -> None:
    # Human ratings depend on the item alone, and each metric identifies the item.
    rng = np.random.default_rng(1)
    level = rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, SYSTEMS))
    scores: Planted = {("ann", ""): level}
    for k in range(40):
        scores[f"m{k:02}", ""] = rng.normal(size=(40, 1)) + np.zeros((40, SYSTEMS))
    whole, leaky = (
        rows(ceiling_of(scores, folds=folds, model=model, resamples=20, steps=1).prediction, "", "features")["metrics"]
        for folds in ("item", "plain")
    )
    assert leaky["kendall"] > 0.25
    assert leaky["kendall_low"] > 0.05
    assert abs(whole["kendall"]) < 0.2
    assert whole["kendall_low"] < 0.05
    assert leaky["kendall_item"] is None  # different models predict the outputs of an item
    assert whole["kendall_item"] is None  # The metrics do not distinguish the systems of an item.
