"""The question `combine`: recovery of a planted signal, comparison of methods, and symmetries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.combining.combine import LEFT_OUT, Combine, combine
from custodes.combining.methods import METHODS
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from tests.combining.runs import (
    QUICK,
    accuracy,
    column,
    content,
    folds_used,
    held_out,
    noise,
    rules,
    run_combine,
)
from tests.combining.tasks import ITEMS, N_SYSTEMS, normal_scores, planted, table_of_items
from tests.evaluate.judged_studies import judged, rows_of, study_from

EVERY = (*QUICK, "gp")
"""All methods except the slow ones that choose among others (`auto`, `xgboost-pruned`)."""

pytestmark = pytest.mark.usefixtures("small")


def unseconded(result: Combine) -> dict[str, Any]:
    dictionary = result.to_dict()
    return dictionary | {"comparison": [{**row, "seconds": None} for row in dictionary["comparison"]]}


@pytest.mark.parametrize("names", [QUICK, ("auto", "gp", "xgboost-pruned")])
def test_a_planted_signal_is_found_by_every_method(names: tuple[str, ...]) -> None:
    result = run_combine(planted(items=30), method=names)
    assert result.comparison["method"].to_list() == list(names)
    for name, score in column(result.comparison, "kendall").items():
        assert score > (0.35 if name == "equal" else 0.5)  # a third of its metrics is noise
    weights = column(result.weights, "weight", "metric")
    assert max(weights, key=lambda metric: weights[metric]) == "a"


REFERENCES = {
    "kendall": lambda y, p: stats.kendalltau(y, p).statistic,
    "spearman": lambda y, p: stats.spearmanr(y, p).statistic,
    "pearson": lambda y, p: stats.pearsonr(y, p).statistic,
}


def test_scores_are_those_of_scipy_on_what_was_held_out() -> None:
    scores = planted()
    result = run_combine(scores, method=("ridge", "best", "xgboost"))
    (fold,) = folds_used(judged(scores))
    human = scores["ann", ""]
    for name in ("ridge", "best", "xgboost"):
        predicted = held_out(result, name)
        row = result.comparison.row(by_predicate=pl.col("method") == name, named=True)
        for statistic, reference in REFERENCES.items():
            values = [reference(human[fold == f], predicted[fold == f]) for f in range(5)]
            assert row[statistic] == pytest.approx(np.mean(values), abs=1e-9)
        values = [accuracy(human[fold[:, 0] == f], predicted[fold[:, 0] == f]) for f in range(5)]
        assert row["accuracy"] == pytest.approx(np.mean(values), abs=1e-9)
        assert row["spread"] is None
        assert row["kendall_low"] is row["kendall_high"] is None
        assert row["seconds"] > 0
    assert column(result.comparison, "metrics_used").items() >= {"ridge": 3.0, "best": 1.0}.items()
    assert 1 <= column(result.comparison, "metrics_used")["xgboost"] <= 3  # trees need not split on noise
    assert set(result.comparison["target"]) == {""}


def test_intervals_hold_the_point_and_widen_with_confidence() -> None:
    options = {"method": ("best", "ridge", "equal"), "resamples": 200}
    result, wide = (run_combine(planted(), **options, confidence=confidence) for confidence in (0.95, 0.99))
    for table, wider, low, high in (
        (result.comparison, wide.comparison, "kendall_low", "kendall_high"),
        (result.comparison, wide.comparison, "accuracy_low", "accuracy_high"),
        (result.differences, wide.differences, "difference_low", "difference_high"),
        (result.path, wide.path, "score_low", "score_high"),
        (result.weights, wide.weights, "weight_low", "weight_high"),
    ):
        assert (table[low] < table[high]).any()
        assert (table[low] <= table[high]).all()
        assert (wider[low] <= table[low]).all()
        assert (table[high] <= wider[high]).all()
    assert (result.comparison["kendall_low"] < result.comparison["kendall"]).all()
    assert (result.comparison["kendall"] < result.comparison["kendall_high"]).all()


def test_the_validation_in_the_model_is_that_of_the_comparison() -> None:
    result = run_combine(planted(), method=("best", "ridge"), resamples=20)
    row = result.comparison.row(0, named=True)
    validation = result.model.validation
    assert {name: validation[name] for name in REFERENCES} == {name: row[name] for name in REFERENCES}
    ends = ("kendall_low", "kendall_high")
    assert [validation[name] for name in (*ends, "folds", "repeats")] == [*(row[name] for name in ends), "item", 1]
    assert (result.model.provenance["outputs"], result.model.provenance["items"]) == (ITEMS * N_SYSTEMS, ITEMS)
    assert run_combine(planted(), folds="system", repeats=3).model.validation["repeats"] == 1
    assert "digest=" in result.model.provenance["made"]


def test_the_model_depends_on_the_seed_but_not_on_how_it_was_validated() -> None:
    first = run_combine(planted(), method="gp").model
    for options in ({"repeats": 2, "method": ("gp", "best")}, {"resamples": 20, "folds": "system"}):
        assert content(run_combine(planted(), **{"method": "gp", **options}).model) == content(first)
    assert content(run_combine(planted(), method="gp", rng=1).model) != content(first)


def test_auto_names_what_it_chose() -> None:
    study = judged(planted(items=24))
    result = run_combine(study, method="auto")
    again = result.provenance.replay(study)
    assert unseconded(again) == unseconded(result)
    assert again.model == result.model
    assert METHODS[result.model.method].by_default
    assert rules(result)["auto"] == f"auto chose {result.model.method} on all data"
    assert result.comparison["method"].to_list() == ["auto"]
    assert content(result.model) == content(run_combine(study, method=result.model.method).model)


def verdict_study(seed: int = 0) -> tuple[Study, np.ndarray]:
    """Return preferences between two outputs per item: b minus a is predictive, and c varies only between items."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, 60, 2))
    c += 5 * rng.normal(size=(60, 1))
    better = (b - a)[:, 0] + 0.3 * rng.normal(size=60) > (b - a)[:, 1]
    rows = [
        {"item": f"i{i:03}", "system": "AB"[k], "rater": name, "kind": "metric", "score": values[i, k]}
        for i in range(60)
        for k in range(2)
        for name, values in (("a", a), ("b", b), ("c", c))
    ]
    battles = [
        {"item": f"i{i:03}", "model_a": "A", "model_b": "B", "rater": "ann", "kind": "human", "winner": winner}
        for i, winner in enumerate(np.where(better, "model_a", "model_b").tolist())
    ]
    return cu.read(pl.DataFrame(rows), pl.DataFrame(battles)), better


def test_verdicts_on_two_outputs_an_item() -> None:
    study, better = verdict_study()
    result = run_combine(study, method=("pairwise", "best", "ridge", "xgboost"), objective="accuracy", resamples=20)
    score = column(result.comparison, "accuracy")
    assert score["pairwise"] > 0.85
    assert score["best"] < score["pairwise"] - 0.05
    predicted = held_out(result, "pairwise", items=60, systems=2)
    (fold,) = folds_used(study)
    right = (predicted[:, 0] > predicted[:, 1]) == better
    assert score["pairwise"] == pytest.approx(np.mean([right[fold[:, 0] == f].mean() for f in range(5)]))
    weights = column(result.weights, "weight", "metric")
    assert weights["b"] > 0 > weights["a"]
    assert abs(weights["c"]) < weights["b"]
    assert result.favoritism.is_empty()
    assert (
        "human ratings are verdicts, so favoritism is not computed here; to compute it, join the held-out ratings with "
        "the verdicts, and call favoritism" in rules(result)["no-favoritism"]
    )
    assert result.model.objective == "accuracy"


def same(a: Combine, b: Combine, *, atol: float = 1e-9, but: tuple[str, ...] = ("seconds",)) -> None:
    for name in ("comparison", "differences", "groups", "path", "weights"):
        left, right = (table.drop(but, strict=False) for table in (a.tables()[name], b.tables()[name]))
        assert left.columns == right.columns
        for column_ in left.columns:
            if left[column_].dtype.is_numeric():
                one, other = (part[column_].cast(pl.Float64).fill_null(np.nan).to_numpy() for part in (left, right))
                np.testing.assert_allclose(one, other, atol=atol)
            else:
                assert left[column_].to_list() == right[column_].to_list()


ALL = {"method": QUICK, "resamples": 20}


def test_neither_the_order_of_rows_nor_names_of_items_and_systems_matter() -> None:
    rows = rows_of(planted())
    shuffled = rows.sample(fraction=1, shuffle=True, seed=1).sort(pl.col("rater"), maintain_order=True)
    renamed = shuffled.with_columns("item-" + pl.col("item"), system=pl.lit("the ") + pl.col("system"))
    first, second = run_combine(study_from(rows), **ALL), run_combine(study_from(renamed), **ALL)
    same(first, second)
    assert content(first.model) == content(second.model)


@pytest.mark.parametrize("name", ["ridge", "xgboost"])
def test_a_metric_that_is_better_where_lower_is_the_metric_turned(name: str) -> None:
    scores = planted()
    turned = {**scores, ("a", ""): -scores["a", ""]}
    declared = judged(turned).describe(raters=pl.DataFrame({"rater": ["a"], "higher_is_better": ["false"]}))
    first, second = run_combine(scores, method=name), run_combine(declared, method=name)
    np.testing.assert_array_equal(held_out(first, name), held_out(second, name))
    assert [c.higher_is_better for c in second.model.columns if c.metric == "a"] == [False]
    one, _ = first.model.score(judged(scores))
    other, _ = second.model.score(judged(turned))  # which does not know the direction
    assert one["score"].to_list() == other["score"].to_list()


@pytest.mark.parametrize(
    "options",
    [
        {"method": ("xgboost", "gp"), "rng": 4, "top": 2},
        {"method": "blend", "objective": "spearman", "folds": "system", "costs": {"a": 2, "b": 1, "noise": 1}},
        {"metrics": "!noise", "systems": "A,B,C", "repeats": 2, "confidence": 0.8, "resamples": 20, "unseen": "fast"},
    ],
)
def test_provenance_replays_the_result(options: dict[str, Any]) -> None:
    study = judged(planted())
    result = run_combine(study, **options)
    again = result.provenance.replay(study)
    assert unseconded(again) == unseconded(result)
    assert again.model == result.model
    assert again.held_out.frame.equals(result.held_out.frame)


TWO = {"method": ("ridge", "best"), "resamples": 20}


def two_targets() -> dict[tuple[str, str], np.ndarray]:
    scores = planted()
    human = scores.pop(("ann", ""))
    noise = np.round(2 * np.random.default_rng(0).normal(size=human.shape))
    return scores | {("ann", "x"): human, ("ann", "y"): human + noise}


def test_several_targets_are_answered_each_as_if_it_were_asked_alone() -> None:
    study = judged(two_targets())
    targets = ["y", "x", "mean:x,y"]
    result = run_combine(study, target=targets, unseen="fast", **TWO)
    alone = [run_combine(study, target=target, unseen="fast", **TWO) for target in targets]
    for name, table in result.tables().items():
        whole = pl.concat([single_result.tables()[name] for single_result in alone])
        assert table.drop("seconds", strict=False).equals(whole.drop("seconds", strict=False)), name
    assert content(result.model) == content(alone[0].model)
    assert result.held_out.frame.equals(alone[0].held_out.frame)
    assert {note.message for note in result.notes} == {
        note.message for single_result in alone for note in single_result.notes
    }
    assert [set(single_result.held_out.frame["aspect"]) for single_result in alone] == [{"y"}, {"x"}, {""}]
    assert alone[2].model.target == "mean:x,y"


def test_targets_of_which_nothing_can_be_learnt_are_left_out_unless_none_can() -> None:
    scores = two_targets() | {("ann", "flat"): np.full((ITEMS, N_SYSTEMS), 3.0)}
    study = judged(scores)
    result = run_combine(study, target=["flat", "x"], **TWO)
    assert set(result.comparison["target"]) == {"x"}
    assert unseconded(result.provenance.replay(study)) == unseconded(result)
    (note,) = (note for note in result.notes if note.rule == LEFT_OUT)
    reason = "small: human ratings for aspect 'flat' are constant, so nothing can be learned; select another aspect"
    assert note.message == f"'flat' cannot be combined: {reason}"
    assert note.aspect == "flat"
    for targets, error, message in (
        (["flat"], InputError, reason),
        (["x", "z"], OptionError, "target='z': annotators did not rate"),  # a slip is not a lack of data
        ([], OptionError, "target is empty"),
    ):
        with pytest.raises(error, match=message):
            run_combine(study, target=targets)


def test_a_method_that_is_registered_gets_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = replace(METHODS["xgboost"], name="forest", label="a forest")
    monkeypatch.setitem(METHODS, "forest", forest)
    result = run_combine(planted(), method="forest", resamples=20)
    assert result.weights["weight"].sum() == pytest.approx(1)
    assert result.weights["weight_low"].is_null().all()
    assert result.weights.drop("target").equals(run_combine(planted(), method="xgboost").weights.drop("target"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": []}, "method is empty; allowed"),
        ({"objective": "accuracy", "folds": "system"}, "objective='accuracy' compares systems of an item"),
        ({"folds": "dataset"}, "folds='dataset': some items have no dataset"),
        ({"repeats": 0}, "repeats=0: must be a whole number of at least 1"),
        ({"top": 0}, "top=0"),
        ({"top": 2, "method": "best"}, "top=2 has no effect on the method best"),
        ({"target": "style"}, "target='style': the human ratings have no aspects; leave the target out"),
        ({"metrics": "!*"}, r"metrics=\['!\*'\] excludes every metric; metrics: a, b, noise"),
        ({"systems": "A"}, r"only 1 system with scores \(A\); give at least two"),
        (
            {"aspect": "x"},
            "aspect is not allowed, because target names the aspect; give target='ASPECT' or target='mean:A,B'",
        ),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, OptionError), match=message) as problem:
        run_combine(planted(), **options)
    assert "\n" not in str(problem.value)


def test_more_metrics_than_outputs() -> None:
    scores = {key: values[:5, :2] for key, values in noise(0, p=15).items()}
    result = run_combine(scores, method=EVERY, resamples=20)
    assert "more-features-than-rows" in rules(result)
    assert all(np.isfinite(held_out(result, name, items=5, systems=2)).all() for name in EVERY)


def test_a_metric_that_a_training_part_never_saw() -> None:
    scores = planted()
    only = np.full((ITEMS, N_SYSTEMS), np.nan)
    only[10:] = normal_scores(8)[10:]
    labels = ["x"] * 10 + ["y"] * 10
    study = judged({**scores, ("only", ""): only}).describe(items=table_of_items(dataset=labels))
    result = run_combine(study, folds="dataset", method=EVERY)
    assert all(np.isfinite(held_out(result, name)).all() for name in EVERY)
    for name, tau in column(result.comparison, "kendall").items():
        assert tau > (0.2 if name == "equal" else 0.4)
    assert "40 metric scores of rated outputs are missing" in rules(result)["missing-metric-scores"]


def test_notes_tell_of_the_first_method_and_of_directions() -> None:
    scores = {("BLEU" if key[0] == "a" else key[0], ""): values for key, values in planted().items()}
    study = judged(scores).describe(raters=pl.DataFrame({"rater": ["BLEU"], "higher_is_better": ["false"]}))
    result = run_combine(study, method=("ridge", "best"))
    assert (
        "the result contains the model of ridge, the first method; if you choose another method because of its high "
        "score, expect a lower score on new data" in rules(result)["first-method"]
    )
    assert "BLEU" in rules(result)["direction"]
    assert "first-method" not in rules(run_combine(planted()))
    assert "gp is too slow" in rules(run_combine(planted(), method="gp"))["no-weight-intervals"]


def test_without_xgboost_linear_methods_work_and_others_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    assert run_combine(planted(), method=("ridge", "best", "equal", "pairwise")).comparison.height == 4
    for method in ("xgboost", "auto"):
        with pytest.raises(cu.MissingExtraError, match="XGBoost"):
            run_combine(planted(), method=method)


def test_methods_that_say_nothing_on_a_fold_are_named(tmp_path: Path) -> None:
    scores, file = planted(), tmp_path / "folds.csv"
    table_of_items(fold=["xyz"[k % 3] for k in range(ITEMS)]).write_csv(file)
    options = {"method": ["best", "ridge"], "folds": str(file), "metrics": "a,b"}
    assert "undefined-folds" not in rules(run_combine(scores, **options))
    scores["a", ""][::3] = 1.0  # constant within fold x
    notes = rules(run_combine(scores, **options))
    assert "(method and number of folds: best 1)" in notes["undefined-folds"]
    assert "ridge" not in notes["undefined-folds"]


def test_scores_beyond_declared_bounds_are_told() -> None:
    raters = pl.DataFrame({"rater": ["a"], "low": [0.0], "high": [0.1]})
    result = combine(judged(planted()).describe(raters=raters), method="ridge", repeats=1, resamples=0)
    assert "a (" in rules(result)["beyond-declared"]


def test_top_limits_the_metrics_of_a_method() -> None:
    combined = run_combine(planted(), top=1)
    assert combined.comparison["metrics_used"].item() == 1
    assert (combined.weights["weight"] != 0).sum() == 1
