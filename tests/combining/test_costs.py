"""Costs of metrics: sources, errors, and the path of score by cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from custodes.combining.combine import Combine
from custodes.combining.costs import STEPS, costs_of, path_columns
from custodes.combining.task import Task, outer_folds
from custodes.combining.trial import Trial
from custodes.errors import CustodesError, InputError, OptionError
from custodes.stats.learning.selection import nested_path
from tests.combining.runs import terms
from tests.combining.tasks import normal_scores, planted, task_of, with_noise

RATERS = pl.DataFrame({"rater": ["a", "b", "noise"], "cost": [3.0, 1.5, 0.25]})


def table(tmp_path: Path, text: str) -> str:
    file = tmp_path / "costs.csv"
    file.write_text(text)
    return str(file)


def test_costs_come_from_a_mapping_a_table_or_the_raters_file(tmp_path: Path) -> None:
    plain, declared = task_of(planted()), task_of(planted(), raters=RATERS)
    assert costs_of(plain, None)[0].tolist() == [1, 1, 1]
    assert costs_of(declared, None)[0].tolist() == [3, 1.5, 0.25]
    costs = {"noise": 9, "a": 1, "b": 2.5}
    file = table(tmp_path, "metric,cost\nnoise,9\na,1\nb,2.5\n")
    for of in (plain, declared):  # the argument takes precedence over the raters file
        assert costs_of(of, costs)[0].tolist() == [1, 2.5, 9]
        assert costs_of(of, file)[0].tolist() == [1, 2.5, 9]


def test_a_cost_of_a_metric_is_that_of_each_of_its_aspects() -> None:
    scores = {
        ("ann", "x"): normal_scores(0),
        ("ann", "y"): normal_scores(1),
        ("j", "x"): normal_scores(2),
        ("j", "y"): normal_scores(3),
        ("m", ""): normal_scores(4),
    }
    of = task_of(scores, target="mean:x,y")
    assert of.metrics.names == ("m", "j:x", "j:y")
    assert costs_of(of, {"j": 4, "m": 1})[0].tolist() == [1, 4, 4]
    assert costs_of(of, {"j": 4, "m": 1, "j:y": 7})[0].tolist() == [1, 4, 7]
    raters = pl.DataFrame({"rater": ["j", "m"], "cost": [4, 1]})
    assert costs_of(task_of(scores, target="mean:x,y", raters=raters), None)[0].tolist() == [1, 4, 4]


def test_a_price_list_of_more_metrics_than_are_here_is_fine() -> None:
    assert costs_of(task_of(planted()), {"a": 1, "b": 2, "noise": 3, "gpt": 99})[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (
            {"a": 1, "b": 2},
            "costs: there is no positive cost for noise; give a positive cost for each metric, all in one unit, or",
        ),
        ({"x": 1, "y": 2}, "costs: there is no positive cost for a, b, noise"),
        ({"a": 1, "b": 0, "noise": 3}, "costs: there is no positive cost for b"),
        ({"a": 1, "b": float("nan"), "noise": 3}, "no positive cost for b"),
        ("metric,cost\na,1\nb,2\nnoise,\n", "noise|row 3|cost"),
        ("metric,cost\na,1\nb,2\nnoise,x\n", "costs.csv.*x"),
        ("metric,cost\na,1\na,2\nb,2\nnoise,1\n", "costs.csv.*'a'.*one row for each metric"),
        (
            "rater,cost,cost_unit\na,1,usd\nb,2,cpu-s\nnoise,1,usd\n",
            r"costs\.csv: the units of the costs differ \(usd: a, noise; cpu-s: b\); give",
        ),
    ],
)
def test_bad_costs_are_refused_in_one_line(tmp_path: Path, costs: Any, message: str) -> None:
    source = table(tmp_path, costs) if isinstance(costs, str) else costs
    with pytest.raises(CustodesError, match=message) as problem:
        costs_of(task_of(planted()), source)
    assert "\n" not in str(problem.value)


def test_costs_of_the_raters_file_that_are_not_whole_are_not_used() -> None:
    # Without a request for costs a gap in the file is a note and does not stop the fit.
    price, (note,) = costs_of(task_of(planted(), raters=RATERS[:2]), None)
    assert price.tolist() == [1, 1, 1]
    assert note.message.startswith("the costs of the raters file are not used: there is no positive cost for noise;")
    free = RATERS.with_columns(cost=pl.when(pl.col("rater") == "b").then(0.0).otherwise("cost"))
    price, (note,) = costs_of(task_of(planted(), raters=free), None)
    assert price.tolist() == [1, 1, 1]
    assert note.message.startswith("the costs of the raters file are not used: there is no positive cost for b;")


def test_costs_in_unlike_units_are_not_added() -> None:
    def priced(units: list[str | None]) -> tuple[list[float], list[str]]:
        price, notes = costs_of(task_of(planted(), raters=RATERS.with_columns(cost_unit=pl.Series(units))), None)
        return price.tolist(), [f"{note.rule}: {note.message}" for note in notes]

    assert priced(["usd"] * 3) == ([3, 1.5, 0.25], [])
    message = "costs-not-used: the costs of the raters file are not used: the units of the costs differ "
    way = "; give all costs in one unit with costs= (--costs FILE)"
    assert priced(["cpu-s", "usd", "cpu-s"]) == ([1, 1, 1], [f"{message}(cpu-s: a, noise; usd: b){way}"])
    assert priced(["usd", None, None]) == ([1, 1, 1], [f"{message}(usd: a; no unit: b, noise){way}"])
    costs = {"a": 1, "b": 2, "noise": 3}
    mixed = task_of(planted(), raters=RATERS.with_columns(cost_unit=pl.Series(["usd", "cpu-s", None])))
    assert costs_of(mixed, costs)[1] == []


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises((InputError, OptionError), match="no such file"):
        costs_of(task_of(planted()), str(tmp_path / "nowhere.csv"))


def path_of(of: Task, price: np.ndarray, *, resamples: int = 50) -> pl.DataFrame:
    rng, none = np.random.default_rng(0), np.zeros(0)
    folds = outer_folds(of, "item", repeats=1, rng=rng)
    times = of.design.draw_weights(resamples, rng)
    trial = Trial(
        of=of,
        terms=terms(resamples=resamples),
        folds=folds,
        predicted=none,
        single=none,
        seconds=none,
        used=none,
        times=times,
        inner={},
    )
    return Combine.table_declarations()["path"].frame(path_columns(trial, price), of.target, name="path")


def test_the_path_tells_what_each_further_metric_costs_and_buys() -> None:
    of = task_of(planted())
    path = path_of(of, np.array([2.0, 3.0, 4.0]))
    assert path["step"].to_list() == [1, 2, 3]
    assert path["metric"].to_list() == ["a", "b", "noise"]
    assert path["cost"].to_list() == [2, 3, 4]
    assert path["total_cost"].to_list() == [2, 5, 9]
    assert path["score"][1] > path["score"][0] + 0.05
    assert abs(path["score"][2] - path["score"][1]) < 0.05
    assert (path["score_low"] < path["score"]).all()
    assert (path["score"] < path["score_high"]).all()
    assert path["chosen"].to_list() == [1, 1, 1]


def test_kendall_of_the_path_is_that_of_scipy_by_fold() -> None:
    scores = planted()
    scores["ann", ""][4, :2] = np.nan
    of = task_of(scores)
    (fold,) = outer_folds(of, "item", repeats=1, rng=np.random.default_rng(0))
    result = path_of(of, np.ones(3), resamples=0)
    rows = np.flatnonzero((fold >= 0).ravel())
    x, y, flat = of.metrics.scores.reshape(3, -1)[:, rows].T, of.human.ravel()[rows], fold.ravel()[rows]
    items = rows // len(of.design.systems)
    path = nested_path(x, y, flat, groups=items, included_columns=np.arange(0), steps=STEPS)
    for k in range(3):
        taus = [stats.kendalltau(path.predicted[k + 1, flat == f], y[flat == f]).statistic for f in range(5)]
        assert result["score"][k] == pytest.approx(np.mean(taus))
    assert result["score_low"].is_null().all()


def test_the_currency_does_not_matter() -> None:
    of = task_of(planted())
    price = np.array([2.0, 3.0, 4.0])
    assert path_of(of, price).drop("cost", "total_cost").equals(path_of(of, price * 1e9).drop("cost", "total_cost"))


def test_a_path_has_fifteen_steps_at_most() -> None:
    scores = planted()
    scores |= {(f"m{k:02}", ""): with_noise(scores["ann", ""], seed=k, sd=3) for k in range(20)}
    path = path_of(task_of(scores), np.ones(23), resamples=0)
    assert path.height == STEPS == 15
    assert len(set(path["metric"])) == 15
