"""Paths of metrics: planted metrics come first, removed duplicates cost nothing, and each removal agrees with brute
force."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from custodes.errors import OptionError
from custodes.evaluate.ceiling.ceiling import Ceiling
from custodes.evaluate.ceiling.metric_paths import backward_columns
from custodes.evaluate.ceiling.prediction_target import target_of
from custodes.evaluate.rater_scores import rater_scores
from tests.evaluate.ceiling.planted import asked, planted, rows
from tests.evaluate.judged_studies import judged


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
    assert on_top["twin"]["removed"] is None  # it is unused
    assert on_top["first"]["removed_low"] > 0.1
    path = used.forward.filter(pl.col("target") == "style")
    assert path["step"].to_list() == [0, 1, 2, 3]
    assert path["metric"].to_list()[:2] == ["first, noise", "second"]
    assert path["chosen"].to_list()[:2] == [None, 1.0]
    assert path["gain_low"][1] > 0.05
    assert used.provenance.options["in_use"] == "first,noise"
    many = asked(scores, aspect="style", in_use="*", resamples=0).forward
    assert many["metric"].to_list() == ["first, second and 3 more"]
    with pytest.raises(OptionError, match="in_use.*'frst': no such metric.*did you mean 'first'"):
        asked(scores, in_use="frst")


def test_taking_out_starts_with_what_is_least_missed() -> None:
    scores = {**planted(), ("twin", ""): planted()["second", ""] * 5 + 3}
    made = asked(scores, aspect="style")
    path = made.backward
    assert path["step"].to_list() == [1, 2, 3, 4]  # one metric remains
    assert set(path["metric"][:3]) == {"noise", "more-noise", "second"}  # the first of two equivalent metrics
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
    who = rater_scores(judged(scores))
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
    assert own["removed"] == pytest.approx(start["kendall"])
    for end in ("_low", "_high"):  # A difference is on another scale than a correlation.
        assert own[f"removed{end}"] == pytest.approx(start[f"kendall{end}"], abs=0.01)
    lone = {key: values for key, values in planted().items() if key[0] in ("ann", "first")}
    alone = rows(asked(lone, aspect="style").next, "style", "metric")["first"]
    assert alone["removed"] == alone["added"] == pytest.approx(own["removed"])
