"""The question `validate`: a saved combination on another study, against an independent computation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy import stats

import custodes as cu
from custodes.combining.combine import combine
from custodes.combining.generalisation import GAIN, NO_GAIN
from custodes.combining.validate import COMBINED, HINDSIGHT, SINGLE, Validate
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from tests.combining.runs import accuracy
from tests.combining.tasks import planted
from tests.command_line import Run, custodes, refused
from tests.evaluate.judged_studies import Scores, judged, rows_of

__all__ = ["custodes"]  # the fixture

pytestmark = pytest.mark.usefixtures("small")

OTHER = planted(7, items=30, systems=5)
"""Other items and systems with the same relation."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = combine(judged(planted()), method=("ridge", "best"), repeats=1, resamples=0)
    return result.model.save(tmp_path_factory.mktemp("model") / "model.json")


def run_validate(model: Path, study: Study | Scores, **options: Any) -> Validate:
    return cu.validate(study if isinstance(study, Study) else judged(study), model=model, **options)


def row(table: pl.DataFrame, rater: str) -> dict[str, Any]:
    return table.filter(rater=rater).row(0, named=True)


def rules(result: Validate) -> dict[str, str]:
    return {note.rule: note.message for note in result.notes}


def test_figures_are_those_of_scipy_on_the_scored_outputs(model: Path) -> None:
    result = run_validate(model, OTHER)
    ratings, _ = cu.CombinedMetric.load(model).score(judged(OTHER))
    combined = ratings["score"].to_numpy().reshape(30, 5)
    human = OTHER["ann", ""]
    assert result.comparison["rater"].to_list() == [COMBINED, SINGLE, HINDSIGHT]
    assert result.comparison["metric"].to_list() == ["combined", "a", "a"]
    assert result.comparison["n"].to_list() == [150, 150, 150]
    for rater, scores in ((COMBINED, combined), (SINGLE, OTHER["a", ""]), (HINDSIGHT, OTHER["a", ""])):
        actual = row(result.comparison, rater)
        assert actual["kendall"] == pytest.approx(stats.kendalltau(human.ravel(), scores.ravel()).statistic)
        assert actual["spearman"] == pytest.approx(stats.spearmanr(human.ravel(), scores.ravel()).statistic)
        assert actual["pearson"] == pytest.approx(stats.pearsonr(human.ravel(), scores.ravel()).statistic)
        assert actual["accuracy"] == pytest.approx(accuracy(human, scores))
        assert actual["kendall_low"] < actual["kendall"] < actual["kendall_high"]
    gains = result.gains.filter(rater=SINGLE)
    assert gains["unseen"].to_list() == ["items", "systems"]
    assert gains["n"].to_list() == [30, 5]
    ahead = row(result.comparison, COMBINED)["kendall"] - row(result.comparison, SINGLE)["kendall"]
    assert gains["gain"].to_list() == pytest.approx([ahead, ahead])
    assert gains["conclusion"][0] == GAIN
    assert gains["gain_low"][1] <= gains["gain_low"][0]
    assert result.gains.filter(rater=HINDSIGHT)["conclusion"].to_list() == [None, None]


def test_where_nothing_is_gained_it_says_so(model: Path) -> None:
    # Here the human ratings follow the first metric alone.
    scores = {**OTHER, ("ann", ""): np.round(3 * OTHER["a", ""])}
    gains = run_validate(model, scores).gains.filter(rater=SINGLE)
    assert gains["conclusion"].to_list() == [NO_GAIN, NO_GAIN]
    assert (gains["gain"] < 0).all()


def test_the_best_of_the_fit_is_not_the_best_here_and_both_stand_there(model: Path) -> None:
    scores = {**OTHER, ("ann", ""): np.round(3 * OTHER["b", ""] + OTHER["a", ""])}
    result = run_validate(model, scores)
    assert result.comparison["metric"].to_list() == ["combined", "a", "b"]
    assert row(result.comparison, HINDSIGHT)["kendall"] > row(result.comparison, SINGLE)["kendall"]
    selected = run_validate(model, scores, objective="accuracy", metrics="!b")
    assert selected.comparison["metric"].to_list() == ["combined", "a", "a"]
    assert row(selected.comparison, COMBINED)["kendall"] == pytest.approx(row(result.comparison, COMBINED)["kendall"])
    ahead = row(selected.comparison, COMBINED)["accuracy"] - row(selected.comparison, SINGLE)["accuracy"]
    assert selected.gains["gain"][0] == pytest.approx(ahead)


def test_raters_are_renamed_either_way(model: Path) -> None:
    names = {"a": "A-score", "b": "B-score"}
    scores = {(names.get(rater, rater), aspect): values for (rater, aspect), values in OTHER.items()}
    renamed = run_validate(model, scores, rename={"A-score": "a", "B-score": "b"})
    assert renamed.gains.equals(run_validate(model, OTHER).gains)
    assert run_validate(model, scores, rename=["A-score=a", "B-score=b"]).gains.equals(renamed.gains)
    assert renamed.provenance.replay(judged(scores)).gains.equals(renamed.gains)


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ("A-score", "rename='A-score': give OLD=NEW"),
        ({"A-scor": "a"}, "no rater 'A-scor' in small; raters: .*did you mean 'A-score'"),
        ({"A-score": "b"}, "rename: two raters of small would get the name 'b'; rename or exclude one"),
        ({"A-score": "x", "b": "x"}, "two raters of small would get the name .x."),
    ],
)
def test_a_renaming_that_makes_no_sense_is_refused(model: Path, rename: Any, message: str) -> None:
    scores = {("A-score" if rater == "a" else rater, aspect): values for (rater, aspect), values in OTHER.items()}
    with pytest.raises(OptionError, match=message):
        run_validate(model, scores, rename=rename)


def test_missing_metrics_are_named_at_once_with_the_way_out(model: Path) -> None:
    scores = {key: values for key, values in OTHER.items() if key[0] not in ("a", "b")}
    with pytest.raises(InputError, match=r"^small: .* needs scores of 'a', 'b', which are missing; raters: "):
        run_validate(model, scores)


def test_without_the_best_single_metric_of_the_fit_a_note_says_so(tmp_path: Path) -> None:
    scores = {**planted(), ("c", ""): planted()["ann", ""]}
    study = judged(scores)
    fitted = combine(study, metrics="!c", method="ridge", repeats=1, resamples=0).model
    validation = {**fitted.validation, "single": {"metric": "c", "aspect": "", "higher_is_better": True}}
    changed = msgspec.structs.replace(fitted, validation=validation).with_provenance("", "")
    result = run_validate(changed.save(tmp_path / "model.json"), OTHER)
    assert result.comparison["rater"].to_list() == [COMBINED, HINDSIGHT]
    assert "'c', the best single metric of the fit, is not in these data; if the" in rules(result)["no-best-single"]


@pytest.mark.parametrize(("factor", "shift"), [(0.01, 0.0), (1.0, 100.0)])
def test_another_scale_is_refused_with_both(model: Path, factor: float, shift: float) -> None:
    scores = {**OTHER, ("b", ""): OTHER["b", ""] * factor + shift}
    result = run_validate(model, scores, scales="data")
    assert result.gains["gain"].to_list() == pytest.approx(
        run_validate(model, OTHER, scales="data").gains["gain"].to_list()
    )
    assert result.gains["gain"][0] == pytest.approx(run_validate(model, OTHER).gains["gain"][0], abs=0.03)
    with pytest.raises(InputError, match=r"small: the scale of 'b' is .* in the model; use scales='data'"):
        run_validate(model, scores)


def test_outputs_that_not_all_rated_are_left_out_and_counted(model: Path) -> None:
    scores = {key: values.copy() for key, values in OTHER.items()}
    scores["a", ""][:3] = np.nan
    result = run_validate(model, scores)
    assert result.comparison["n"].to_list() == [135] * 3
    assert rules(result)["not-in-common"].startswith(
        "15 outputs with human ratings are excluded, because some of the compared metrics have no score for "
        "these outputs"
    )


def test_aspects_are_found_or_asked_for(tmp_path: Path) -> None:
    def of(*aspects: str) -> Study:
        scores = {("ann", aspect): OTHER["ann", ""] for aspect in aspects}
        return judged({**scores, **{key: values for key, values in OTHER.items() if key[0] != "ann"}})

    fitted = combine(of("style", "truth"), target="style", method="ridge", repeats=1, resamples=0)
    path = fitted.model.save(tmp_path / "model.json")
    assert run_validate(path, of("style", "truth")).gains["aspect"].unique().to_list() == ["style"]
    assert run_validate(path, of("taste")).gains["aspect"].unique().to_list() == ["taste"]
    assert run_validate(path, of("taste", "truth"), aspect="t*").gains["aspect"].unique().sort().to_list() == [
        "taste",
        "truth",
    ]
    with pytest.raises(
        OptionError,
        match=(
            r"small: there are no human ratings of 'style', which the model predicts; give aspect='ASPECT', "
            r"one of taste, truth \(did you mean 'taste'\?\)"
        ),
    ) as error:
        run_validate(path, of("taste", "truth"))
    assert "\n" not in str(error.value)


def test_the_verb_says_the_same_in_one_line_or_as_tables(custodes: Run, model: Path) -> None:
    rows = rows_of(OTHER).drop("aspect")
    kind = pl.when(pl.col("rater") == "ann").then(pl.lit("human")).otherwise(pl.lit("metric"))
    rows.with_columns(kind=kind, rater=pl.col("rater").replace({"a": "other"})).write_csv("new.csv")
    verb = ("combine", "validate", "new.csv", "--model", str(model))
    ran = custodes(*verb, "--rename", "other=a", "--systems", "!E", "--format", "json", "--no-timing")
    output = json.loads(ran.out)
    mine = cu.validate(cu.read("new.csv"), model=str(model), rename=["other=a"], systems="!E")
    assert output["gains"] == mine.gains.to_dicts()
    assert output["question"] == "validate"
    assert output["gains"][1]["n"] == 4
    printed = custodes(*verb, "--rename", "other=a")
    assert printed.status == 0
    for word in (SINGLE, HINDSIGHT, "gain"):
        assert word in printed.out
    refused(
        custodes(*verb),
        "new.csv",
        "'a'",
        "new.csv: the combined metric needs scores of 'a', which are missing; raters: ann, other, b, noise",
        "raters: ",
    )
    refused(custodes(*verb, "--rename", "other"), "OLD=NEW")
    refused(custodes("combine", "validate", "new.csv", "--model", "none.json"), "none.json")
    refused(custodes("combine", "validate", "--model", str(model)), "no input")
    refused(custodes(*verb, "--rename", "other=a", "--objective", "tau"), "tau")


def test_other_items_of_the_study_of_the_fit_are_new(tmp_path: Path) -> None:
    study = cu.read("demo")
    result = cu.combine(study, target="coherence", method="ridge", group="news", repeats=1, resamples=0)
    path = result.model.save(tmp_path / "news.json")
    notes = {group: rules(cu.validate(study, model=path, aspect="coherence", group=group)) for group in ("news", "d*")}
    assert "fitted-on" in notes["news"]
    assert "fitted-on" not in notes["d*"]
    assert "fitted-on" in rules(cu.validate(study, model=path, aspect="coherence"))
    other_scores = study.ratings.frame.with_columns(score=pl.col("score") + 1)
    assert "fitted-on" not in rules(
        cu.validate(replace(study, ratings=Ratings(frame=other_scores)), model=path, aspect="coherence", scales="data")
    )
