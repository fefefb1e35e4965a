"""The glass ceiling on planted studies: what is there is found, what is not there is not, and nothing leaks."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import custodes as cu
from custodes.errors import InputError, MissingExtraError, OptionError
from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from custodes.evaluate.ceiling.metric_paths import backward_columns
from custodes.evaluate.ceiling.prediction_target import MODELS, target_of
from custodes.evaluate.judges import judges
from custodes.stats.learning import heldout
from tests.evaluate.test_judges import judged, rows_of, study_from

ITEMS, SYSTEMS = 60, 6
Planted = dict[tuple[str, str], np.ndarray]


def planted(seed: int = 0) -> Planted:
    """People's style is 2 a + b + noise; their truth shares a hidden part with style that no metric knows."""
    rng = np.random.default_rng(seed)
    a, b, hidden, *noise = rng.normal(size=(8, ITEMS, SYSTEMS))
    return {
        ("ann", "style"): 2 * a + b + hidden + 0.5 * noise[0],
        ("ann", "truth"): hidden + 0.5 * noise[1],
        ("first", ""): a,
        ("second", ""): b,
        ("noise", ""): noise[2],
        ("more-noise", ""): noise[3],
    }


def asked(scores: Planted, **options: Any) -> Ceiling:
    return ceiling(judged(scores), **{"model": "ridge", "resamples": 100, **options})


def rows(table: pl.DataFrame, target: str, *key: str) -> dict[Any, dict[str, Any]]:
    """Key column(s) -> row, for one target."""
    own = table.filter(pl.col("target") == target).iter_rows(named=True)
    return {row[key[0]] if len(key) == 1 else tuple(row[k] for k in key): row for row in own}


@pytest.fixture(scope="module")
def made() -> Ceiling:
    return asked(planted())


def test_what_is_planted_is_predicted_and_what_is_not_is_not(made: Ceiling) -> None:
    style, truth = (rows(made.prediction, target, "features") for target in ("style", "truth"))
    assert list(style) == ["metrics", "humans", "both"]
    # The tau of a bivariate normal with the correlation that 2 a + b has with 2 a + b + hidden + noise / 2.
    assert style["metrics"]["kendall"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(5 / 6.25)), abs=0.06)
    for features in style.values():
        assert features["kendall_low"] < features["kendall"] < features["kendall_high"]
        assert features["kendall_item_low"] < features["kendall_item"] < features["kendall_item_high"]
        assert features["n"] == ITEMS * SYSTEMS
    assert truth["metrics"]["kendall"] == pytest.approx(0, abs=0.08)  # no metric knows what truth is about
    assert truth["metrics"]["kendall_low"] < 0.05
    assert truth["humans"]["kendall_low"] > 0.1
    assert [row["columns"] for row in style.values()] == [4, 1, 5]
    gaps = rows(made.gaps, "style", "features_a", "features_b")
    gain = gaps["both", "metrics"]
    assert gain["difference"] == pytest.approx(style["both"]["kendall"] - style["metrics"]["kendall"], abs=1e-12)
    assert gain["difference_low"] > 0.05
    assert gaps["humans", "metrics"]["difference_high"] < 0


def test_kendall_is_that_of_scipy_on_every_fold_of_whole_items() -> None:
    scores = planted()
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    original = heldout.cross_predicted

    def recorded(x: Any, y: Any, fold: Any, **rest: Any) -> Any:
        predicted = original(x, y, fold, **rest)
        seen.append((fold, predicted))
        item = np.repeat(np.arange(ITEMS), SYSTEMS)
        assert all(len(set(item[fold == f]) & set(item[fold != f])) == 0 for f in range(5))
        return predicted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heldout, "cross_predicted", recorded)
        told = rows(asked(scores, aspect="style", resamples=0).prediction, "style", "features")
    fold, predicted = seen[0]
    y = scores["ann", "style"].ravel()
    taus = [stats.kendalltau(y[fold == f], predicted[fold == f]).statistic for f in range(5)]
    assert told["metrics"]["kendall"] == pytest.approx(np.mean(taus))
    by_item = [
        stats.kendalltau(*pair).statistic
        for pair in zip(scores["ann", "style"], predicted.reshape(ITEMS, SYSTEMS), strict=True)
    ]
    assert told["metrics"]["kendall_item"] == pytest.approx(np.mean(by_item))


def test_the_path_finds_the_planted_metrics_first(made: Ceiling) -> None:
    path = made.forward.filter(pl.col("target") == "style")
    assert path["metric"].to_list()[:2] == ["first", "second"]
    assert path["step"].to_list() == [1, 2, 3, 4]
    assert path["chosen"].to_list()[:2] == [1.0, 1.0]
    assert path["gain"][0] is None
    assert path["gain_low"][1] > 0.05
    assert (path["gain"][2:].abs() < 0.02).all()
    for k in range(1, 4):
        assert path["gain"][k] == pytest.approx(path["kendall"][k] - path["kendall"][k - 1], abs=1e-12)
    assert path["kendall"][3] == pytest.approx(
        rows(made.prediction, "style", "features")["metrics"]["kendall"], abs=0.02
    )
    assert asked(planted(), steps=2, resamples=0).forward.height == 4
    alone = rows(made.next, "style", "metric")
    assert max(alone, key=lambda name: alone[name]["added"]) == "first"
    assert alone["first"]["added"] == pytest.approx(path["kendall"][0], abs=0.02)
    assert alone["first"]["removed_low"] > 0.1
    assert abs(alone["noise"]["removed"]) < 0.02


def test_a_twin_adds_nothing_and_is_not_missed() -> None:
    scores = {**planted(), ("twin", ""): planted()["first", ""] * 5 + 3}
    whole = rows(asked(scores, aspect="style").next, "style", "metric")
    assert abs(whole["first"]["removed"]) < 0.01
    assert abs(whole["twin"]["removed"]) < 0.01
    assert whole["second"]["removed"] > 0.05
    assert whole["twin"]["added"] == pytest.approx(whole["first"]["added"], abs=1e-9)
    used = asked(scores, aspect="style", in_use="first,noise")
    on_top = rows(used.next, "style", "metric")
    assert abs(on_top["twin"]["added"]) < 0.01
    assert on_top["second"]["added_low"] > 0.05
    assert on_top["first"]["added"] is None  # it is in use
    assert on_top["twin"]["removed"] is None  # it is not
    assert on_top["first"]["removed_low"] > 0.1
    path = used.forward.filter(pl.col("target") == "style")
    assert path["step"].to_list() == [0, 1, 2, 3]
    assert path["metric"].to_list()[:2] == ["first, noise", "second"]
    assert path["chosen"].to_list()[:2] == [None, 1.0]
    assert path["gain_low"][1] > 0.05
    assert used.provenance.options["in_use"] == "first,noise"
    many = asked(scores, aspect="style", in_use="*", resamples=0).forward
    assert many["metric"].to_list() == ["first, second and 3 more"]
    with pytest.raises(OptionError, match="in_use.*'frst' is no metric.*did you mean 'first'"):
        asked(scores, in_use="frst")


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_plain_folds_leak_the_item_and_whole_items_do_not(model: Any) -> None:
    # What people say depends on the item alone, and each metric is a fingerprint of the item.
    rng = np.random.default_rng(1)
    level = rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, SYSTEMS))
    scores: Planted = {("ann", ""): level}
    for k in range(40):
        scores[f"m{k:02}", ""] = rng.normal(size=(40, 1)) + np.zeros((40, SYSTEMS))
    whole, leaky = (
        rows(asked(scores, folds=folds, model=model, resamples=50, steps=1).prediction, "", "features")["metrics"]
        for folds in ("item", "plain")
    )
    assert leaky["kendall"] > 0.25
    assert leaky["kendall_low"] > 0.1
    assert abs(whole["kendall"]) < 0.2
    assert whole["kendall_low"] < 0.05
    assert leaky["kendall_item"] is None  # different models predict the outputs of an item
    assert whole["kendall_item"] is None  # the metrics do not tell the systems of an item apart


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


def test_the_ratio_of_errors_falls_where_people_know_more(made: Ceiling) -> None:
    style = made.information.filter(pl.col("target") == "style")
    assert style["mse_ratio"][0] == pytest.approx(1)  # with the largest penalty nothing is used
    best = style.row(int(style["mse_both"].arg_min()), named=True)
    # Left over: metrics alone 1.25 of variance; truth tells 80 % of the hidden 1.
    assert best["mse_metrics"] == pytest.approx(1.25, rel=0.15)
    assert best["mse_ratio"] == pytest.approx(0.45 / 1.25, abs=0.1)
    assert best["mse_ratio_low"] < best["mse_ratio"] < best["mse_ratio_high"] < 0.6
    np.testing.assert_allclose(style["mse_ratio"], style["mse_both"] / style["mse_metrics"])
    scores = planted()
    scores["ann", "truth"] = np.random.default_rng(9).normal(size=(ITEMS, SYSTEMS))
    nothing = asked(scores, resamples=0).information.filter(pl.col("target") == "style")
    assert nothing["mse_ratio"].is_between(0.98, 1.02).all()


def test_the_lasso_keeps_the_planted_metrics(made: Ceiling) -> None:
    lasso = made.lasso.filter(pl.col("target") == "style")
    assert lasso["alpha"].is_sorted(descending=True)
    entry = {name: own.filter(pl.col("weight") != 0)["alpha"].max() for (name,), own in lasso.group_by("rater")}
    assert set(entry) == {"first", "second", "noise", "more-noise", "human:truth"}
    assert entry["first"] > entry["second"] > (entry["noise"] or 0)
    assert dict(lasso.select("rater", "kind").rows())["human:truth"] == "human"
    last = lasso.filter(pl.col("alpha") == lasso["alpha"].min())
    weight = dict(last.select("rater", "weight").rows())
    assert weight["first"] == pytest.approx(2 / 2.5, abs=0.08)  # 2 a, of a target with standard deviation 2.5


def test_a_target_that_is_shuffled_over_items_cannot_be_predicted() -> None:
    scores = planted()
    mixed = np.random.default_rng(3).permuted(scores["ann", "style"].ravel()).reshape(ITEMS, SYSTEMS)
    told = rows(asked({**scores, ("ann", "style"): mixed}, resamples=0).prediction, "style", "features")
    assert all(abs(row["kendall"]) < 0.1 for row in told.values())


def test_a_held_out_score_does_not_steer_its_own_prediction() -> None:
    # Whatever people said of the outputs of one fold, the predictions of that fold stay.
    scores = planted()
    study = judged(scores)
    target = target_of(judges(study), 0, "item", 0, np.random.default_rng(0))
    assert sorted(set(target.fold.tolist())) == list(range(5))
    for model in MODELS.values():
        fit = partial(model, seed=0)
        x = target.x[:, target.columns["metrics"]]
        once = heldout.cross_predicted(x, target.y, target.fold, groups=target.groups, fit=fit)
        other = np.where(target.fold == 2, -7 * target.y + 100, target.y)
        again = heldout.cross_predicted(x, other, target.fold, groups=target.groups, fit=fit)
        np.testing.assert_array_equal(once[target.fold == 2], again[target.fold == 2])
        assert (once[target.fold != 2] != again[target.fold != 2]).any()


def test_taking_out_starts_with_what_is_least_missed() -> None:
    scores = {**planted(), ("twin", ""): planted()["second", ""] * 5 + 3}
    made = asked(scores, aspect="style")
    path = made.backward
    assert path["step"].to_list() == [1, 2, 3, 4]  # one stays
    assert set(path["metric"][:3]) == {"noise", "more-noise", "second"}  # the first of two that say the same
    assert path["metric"].to_list()[3] == "twin"
    assert (path["loss"][:3].abs() < 0.02).all()
    assert path["loss_low"][3] > 0.05
    assert path["kendall"][3] == pytest.approx(rows(made.next, "style", "metric")["first"]["added"])
    for k in range(1, 4):
        assert path["loss"][k] == pytest.approx(path["kendall"][k - 1] - path["kendall"][k])
    removed = rows(made.next, "style", "metric")[path["metric"][0]]
    for end in ("", "_low", "_high"):
        assert path[f"loss{end}"][0] == pytest.approx(removed[f"removed{end}"])
    assert asked(scores, aspect="style", steps=2, resamples=0).backward.height == 2
    used = asked(scores, aspect="style", in_use="second,noise,first").backward
    assert used["metric"].to_list() == ["noise", "second"]
    one = asked(scores, in_use="first", resamples=0).backward
    assert one.height == 0
    assert one.schema == path.schema


@pytest.mark.parametrize("given", [None, "first,noise,second"])
def test_each_step_out_is_that_of_least_squared_error(given: str | None) -> None:
    scores = planted(3)
    who = judges(judged(scores))
    target = target_of(who, 0, "item", 0, np.random.default_rng(0))
    metrics = who.of_kind("metric")
    used = np.array([], dtype=int) if given is None else np.array([who.names.index(n) for n in given.split(",")])
    told = backward_columns(target, np.flatnonzero(np.isin(metrics, used)), 9, 0.9)
    left = sorted((metrics if given is None else used).tolist())
    for name, kendall in zip(told["metric"], told["kendall"], strict=True):
        error, tau = {}, {}
        for out in left:
            own = [i for i in left if i != out]
            predicted = np.full(len(target.y), np.nan)
            for f in range(5):
                train, held = target.fold != f, target.fold == f
                centre, spread = target.x[train][:, own].mean(axis=0), target.x[train][:, own].std(axis=0)
                clip = [
                    np.clip(target.x[part][:, own], centre - 3 * spread, centre + 3 * spread) for part in (train, held)
                ]
                fitted = make_pipeline(StandardScaler(), Ridge(alpha=0.1 * train.sum())).fit(clip[0], target.y[train])
                predicted[held] = fitted.predict(clip[1])
            error[out] = ((predicted - target.y) ** 2).sum()
            folds = [stats.kendalltau(predicted[target.fold == f], target.y[target.fold == f])[0] for f in range(5)]
            tau[out] = np.mean(folds)
        least = min(error, key=error.__getitem__)
        assert name == who.names[least]
        assert kendall == pytest.approx(tau[least])
        left.remove(least)
    assert len(left) == 1


def test_the_only_metric_in_use_is_worth_its_own_score() -> None:
    made = asked(planted(), aspect="style", in_use="first")
    own = rows(made.next, "style", "metric")["first"]
    start = rows(made.forward, "style", "step")[0]
    for end in ("", "_low", "_high"):
        assert own[f"removed{end}"] == pytest.approx(start[f"kendall{end}"])
    lone = {key: values for key, values in planted().items() if key[0] in ("ann", "first")}
    alone = rows(asked(lone, aspect="style").next, "style", "metric")["first"]
    assert alone["removed"] == alone["added"] == pytest.approx(own["removed"])


def test_few_clusters_are_noted_where_there_are_intervals() -> None:
    few = {key: values[:29] for key, values in planted().items()}
    told = [note.message for note in asked(few, resamples=10).notes if note.rule == "few-clusters"]
    assert told == ["29 clusters of items: intervals are rough (percentiles of few clusters are too narrow)"]
    enough = {key: values[:30] for key, values in planted().items()}
    for made in (asked(few, resamples=0), asked(enough, resamples=10)):
        assert "few-clusters" not in [note.rule for note in made.notes]


# --- people, dates -------------------------------------------------------------------------------------------------


def test_people_are_split_in_halves(made: Ceiling) -> None:
    assert made.people.height == 0  # one annotator
    rng = np.random.default_rng(4)
    scores = planted()
    opinion = scores["ann", "style"]
    voices = {name: opinion + 2.5 * rng.normal(size=opinion.shape) for name in ("ann", "bob", "cy")}
    told = asked({**scores, **{(name, "style"): voice for name, voice in voices.items()}})
    assert told.people["target"].to_list() == ["style"]  # truth has one annotator
    row = told.people.row(0, named=True)
    assert row["annotators"] == 3
    # One against the mean of the other two: correlation sqrt(1/2 * 2/3); the mean of three with the opinion sqrt(3/4).
    assert row["split_half"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(1 / 3)), abs=0.05)
    assert row["attainable"] == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(3 / 4)), abs=0.05)
    assert row["split_half_low"] < row["split_half"] < row["split_half_high"]
    assert row["attainable_low"] < row["attainable"] < row["attainable_high"]


def test_splits_that_say_nothing_are_left_out() -> None:
    # Bob rates half of what ann does, cy the other half: bob and cy alone have nothing in common with each other.
    scores = {("ann", "style"): planted()["ann", "style"], ("first", ""): planted()["first", ""]}
    odd = np.arange(ITEMS)[:, None] % 2 == 1
    rng = np.random.default_rng(7)
    opinion = scores["ann", "style"] + rng.normal(size=(ITEMS, SYSTEMS))
    pair = {("bob", "style"): np.where(odd, opinion, np.nan), ("cy", "style"): np.where(odd, np.nan, opinion)}
    two = asked({("first", ""): scores["first", ""], **pair})
    assert two.people["split_half"].to_list() == [None]
    with_ann = asked({**scores, **pair})
    assert with_ann.people["split_half"].null_count() == with_ann.people["attainable_low"].null_count() == 0
    assert "no-split-half" not in [note.rule for note in with_ann.notes]
    # Four, where ann and bob rated one half of the items and cy and dan the other: one of three splits says nothing.
    apart = {
        name: np.where(odd == (name in ("ann", "bob")), opinion + rng.normal(size=opinion.shape), np.nan)
        for name in ("ann", "bob", "cy", "dan")
    }
    persons = np.stack(list(apart.values()))
    study = four_people({("first", ""): scores["first", ""], **{(name, "style"): own for name, own in apart.items()}})
    made = ceiling(study, model="ridge", resamples=100)
    told = made.people.row(0, named=True)
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
    assert made.people["split_half"].to_list() == made.people["attainable"].to_list() == [None]
    assert [note.message for note in made.notes if note.rule == "no-split-half"] == [
        "annotators cannot be split in halves that rated the same outputs: 'style'"
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
        "1 metrics have no date of release, so the history leaves them out"
    ]
    everyone = ceiling(
        study.describe(raters=pl.DataFrame({"rater": ["*"], "date": ["2020"]})), model="ridge", resamples=0
    )
    assert everyone.history.height == 0  # one date is no history


# --- poor data -----------------------------------------------------------------------------------------------------


def test_one_aspect_has_metrics_alone_and_says_so() -> None:
    made = asked(planted(), aspect="style", resamples=20)
    assert made.prediction["features"].to_list() == ["metrics"]
    assert made.gaps.height == made.information.height == 0
    assert set(made.lasso["kind"]) == {"metric"}
    assert [note.message for note in made.notes if note.rule == "one-aspect"] == [
        "people rated one aspect only: nothing to say of other aspects (humans, both, information)"
    ]
    schema = asked(planted(), resamples=0)
    for name in ("gaps", "information", "people", "history", "halo"):
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
    assert dict(made.left_out.rows()) == dict.fromkeys(("human:truth", "flat"), "constant: it ranks nothing")
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
    # With one of two held out there is no second one to choose a path on.
    assert made.forward["kendall"].null_count() == made.forward.height == 8
    assert made.forward["chosen"].null_count() == 8
    assert made.next["added"].null_count() == 0
    assert "two-clusters" in [note.rule for note in made.notes]
    with pytest.raises(InputError, match="one item or cluster only; holding items out takes two"):
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
        "human:truth": "people rated one item or cluster only; holding items out takes two"
    }
    # It neither is a target nor tells of another.
    alone = ceiling(study_from(table), model="ridge", aspect="!truth", resamples=0)
    for name in ("prediction", "forward", "backward", "next", "lasso"):
        assert made.to_frame(name).equals(alone.to_frame(name)), name
    assert made.prediction["features"].to_list() == ["metrics"]
    for plain in ("item", "plain"):
        with pytest.raises(InputError, match="nothing to predict: .* ratings of one item or cluster only"):
            ceiling(study_from(table.filter(pl.col("aspect") != "style")), folds=plain, model="ridge")


def test_people_who_rated_few_items_of_many() -> None:
    # Many resamples hold none of these items; what they cannot say is left out.
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
        ({"model": "xgbost"}, "model='xgbost'; allowed: xgboost, ridge .did you mean 'xgboost'"),
        ({"steps": 0}, "steps=0"),
        ({"resamples": -5}, "resamples=-5"),
        ({"confidence": 1}, "confidence=1"),
        ({"metrics": "frist"}, "did you mean 'first'"),
        ({"systems": "A"}, "only 1 system"),
        ({"in_use": "bleu"}, "in_use"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((OptionError, InputError), match=message):
        asked(planted(), **options)


def test_without_its_packages_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match="XGBoost: pip install 'custodes.learn.'$"):
        asked(planted(), model="xgboost")
    assert asked(planted(), model="ridge", resamples=0).prediction.height == 6
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(MissingExtraError, match="scikit-learn: pip install 'custodes.learn.'$"):
        asked(planted(), model="ridge")


# --- the same answer -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_same_seed_same_answer_whatever_the_order_of_rows(model: Any) -> None:
    scores = {key: values[:20] for key, values in planted().items()}
    table = rows_of(scores)
    one = ceiling(study_from(table), model=model, resamples=20, rng=5)
    assert ceiling(study_from(table), model=model, resamples=20, rng=5).to_dict() == one.to_dict()
    raters = [table.filter(pl.col("rater") == r, pl.col("aspect") == a) for r, a in scores]
    mixed = pl.concat([own.sample(fraction=1, shuffle=True, seed=k) for k, own in enumerate(raters)])
    other = ceiling(study_from(mixed), model=model, resamples=20, rng=5)
    for name, own in one.tables().items():
        assert own.equals(other.to_frame(name)), name
    assert ceiling(study_from(table), model=model, resamples=20, rng=6).to_dict() != one.to_dict()


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


def test_the_demo_is_answered() -> None:
    made = cu.ceiling(cu.read("demo"), model="ridge", resamples=20, steps=2)
    metrics = made.prediction.filter(pl.col("features") == "metrics")
    assert (metrics["kendall"] > 0.4).all()
    assert (made.people["attainable"] > metrics["kendall"]).all()
