from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.evaluate.rater_scores import rater_scores
from tests.evaluate.judged_studies import PEOPLE, Scores, drawn, judged, rows_of, study_from
from tests.messages import exactly

BASE: Scores = {
    ("ann", "style"): drawn(1, 6, 3).round(1),
    ("bob", "style"): drawn(2, 6, 3).round(1),
    ("ann", "truth"): drawn(3, 6, 3).round(1),
    ("bleu", ""): drawn(4, 6, 3),
    ("judge", "style"): drawn(5, 6, 3),
    ("judge", "truth"): drawn(6, 6, 3),
}


def test_people_are_averaged_by_aspect_and_a_metric_is_a_rater_for_each_of_its_aspects() -> None:
    raters = rater_scores(judged(BASE))
    assert raters.names == ("human:style", "human:truth", "bleu", "judge:style", "judge:truth")
    assert raters.kinds == ("human", "human", "metric", "metric", "metric")
    np.testing.assert_allclose(raters.scores[0], (BASE["ann", "style"] + BASE["bob", "style"]) / 2)
    np.testing.assert_allclose(raters.scores[4], BASE["judge", "truth"])
    assert raters.select_kind("human").tolist() == [0, 1]
    assert raters.annotators.shape == (2, 2, 6, 3)
    assert np.isnan(raters.annotators[1, 1]).all()  # bob did not rate truth
    assert raters.left_out == ()
    assert not raters.design.has_item_weights
    assert raters.dates == (None,) * 5


def test_annotators_are_raters_of_their_own_on_demand_whatever_their_scales() -> None:
    study = judged(BASE).describe(raters=pl.DataFrame({"rater": ["ann", "bob"], "low": [0, 0], "high": [5, 100]}))
    raters = rater_scores(study, human_raters="annotators")
    assert raters.names[:3] == ("ann:style", "bob:style", "ann:truth")
    np.testing.assert_array_equal(raters.scores[1], BASE["bob", "style"])
    with pytest.raises(OptionError, match="different scales for aspect 'style'.*human='ann'"):
        rater_scores(study)


def test_lower_is_better_is_turned_round_and_dates_are_known() -> None:
    raters = pl.DataFrame({"rater": ["bleu"], "higher_is_better": ["false"], "date": ["2002"]})
    result = rater_scores(judged(BASE).describe(raters=raters))
    np.testing.assert_array_equal(result.scores[2], -BASE["bleu", ""])
    assert result.dates == (None, None, "2002", None, None)


def test_who_cannot_take_part_is_named_with_the_reason() -> None:
    partial = np.where(np.arange(3) == 2, BASE["bleu", ""], np.nan)
    scores = {**BASE, ("flat", ""): np.full((6, 3), 2.0), ("judge", "wit"): drawn(9, 6, 3), ("elsewhere", ""): partial}
    whole = pl.DataFrame({"item": "", "system": ["A", "B"], "rater": "sysmetric", "aspect": "", "score": [1.0, 2.0]})
    study = study_from(pl.concat([rows_of(scores), whole]))
    verdicts = {"item": ["i000"], "system_a": ["A"], "system_b": ["B"], "rater": ["arena"], "preference": [1]}
    raters = Raters(frame=pl.concat([study.raters.frame, Raters.infer({"arena": "metric"}).frame]))
    study = replace(study, preferences=Preferences.make(pl.DataFrame(verdicts))[0], raters=raters)
    result = rater_scores(study, systems="A,B")
    assert dict(result.left_out) == {
        "flat": "its scores are constant, so it ranks nothing",
        "elsewhere": "no scores of the selected systems and items",
        "judge:wit": "no selected annotator rated the aspect 'wit'",
        "sysmetric": "whole-system scores only",
        "arena": "verdicts, not scores",
    }
    assert result.constant == ("flat",)
    flat = result.names.index("flat")
    assert np.isnan(result.scores[flat]).all()
    assert flat not in result.select_kind("metric")
    assert [note.message for note in result.notes if note.rule == "constant-rater"] == [
        "flat gave constant scores, so these raters are excluded"
    ]
    assert result.left_out_rows([("bleu", "too few")])[-1] == {"rater": "bleu", "reason": "too few"}


def test_missing_scores_are_counted_and_clusters_and_weights_follow_their_items() -> None:
    scores = {key: values.copy() for key, values in BASE.items()}
    scores["bleu", ""][0, 0] = scores["judge", "style"][3, 1] = np.nan
    items = pl.DataFrame(
        {"item": [f"i{i:03}" for i in range(6)][::-1], "cluster": list("ccbbaa"), "weight": range(1, 7)}
    )
    raters = rater_scores(judged(scores).describe(items=items))
    assert [note.message for note in raters.notes if note.rule == "missing-scores"] == [
        "2 of 90 scores of raters are missing"
    ]
    assert raters.design.n_units == 3
    assert raters.design.units.tolist() == [0, 0, 1, 1, 2, 2]
    assert raters.design.weights.tolist() == [6, 5, 4, 3, 2, 1]


def test_fewer_than_two_is_refused_in_one_line() -> None:
    rows = rows_of(BASE)
    person = rows.filter(pl.col("rater") == "ann", pl.col("aspect") == "style")
    whole = rows.head(1).with_columns(item=pl.lit(""), rater=pl.lit("bleu"), aspect=pl.lit(""))
    for few, text in (
        (rows.filter(pl.col("item") == "i000"), "only 1 item with scores (i000)"),
        (rows.filter(pl.col("system") == "B"), "only 1 system with scores (B)"),
        (pl.concat([person, whole]), "only 1 rater gave scores of outputs (human:style)"),
    ):
        with pytest.raises(InputError, match=f"^small: {re.escape(text)}; give at least two$"):
            rater_scores(study_from(few))


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(OptionError, match="human_raters='annotator'.*did you mean 'annotators'"):
        cu.complementarity(judged(BASE), human_raters="annotator")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="no metric"):
        rater_scores(judged({key: values for key, values in BASE.items() if key[0] in PEOPLE}))
    verdicts = {"item": ["1"], "system_a": ["A"], "system_b": ["B"], "rater": ["ann"], "preference": [1]}
    more = {**verdicts, "rater": ["arena"]}
    study = Study(
        preferences=Preferences.make(pl.concat([pl.DataFrame(verdicts), pl.DataFrame(more)]))[0],
        raters=Raters.infer({"ann": "human", "arena": "metric"}),
        name="arena",
    )
    with pytest.raises(
        InputError,
        match=exactly("arena: there are only verdicts, and this question ranks scores; add scores of single outputs"),
    ):
        rater_scores(study)


def test_a_metric_that_bears_the_name_of_people_is_refused() -> None:
    with pytest.raises(InputError, match=exactly("small: two raters are named 'human:style'; rename the metric")):
        rater_scores(judged({**BASE, ("human:style", ""): drawn(8, 6, 3)}))


def test_people_who_rated_without_an_aspect_do_not_stand_in_for_one() -> None:
    # Otherwise all aspects would hold the same ratings and predict each other.
    scores = {**BASE, ("cy", ""): drawn(7, 6, 3)}
    raters = rater_scores(judged(scores))
    assert raters.names[:3] == ("human:style", "human:truth", "human")
    np.testing.assert_allclose(raters.scores[1], BASE["ann", "truth"])
    np.testing.assert_allclose(raters.scores[2], scores["cy", ""])
    assert np.isfinite(raters.annotators).any(axis=(2, 3)).sum() == 4
    separate = rater_scores(judged(scores), human_raters="annotators")
    assert separate.names[:4] == ("ann:style", "bob:style", "ann:truth", "cy")


def test_variants_are_averaged_after_standardising_each_by_aspect() -> None:
    raters = pl.DataFrame({"rater": ["bleu-1", "bleu-2"], "date": ["2004", "2002"]})
    scores = {
        **{key: values for key, values in BASE.items() if key[0] != "bleu"},
        ("bleu-1", ""): BASE["bleu", ""],
        ("bleu-2", ""): 100 * drawn(7, 6, 3),
        ("bleu-2", "style"): drawn(8, 6, 3),
    }
    scores["bleu-1", ""][0, 0] = np.nan
    result = rater_scores(judged(scores).describe(raters=raters), variants="bleu-*")
    assert [name for name in result.names if "bleu" in name] == ["bleu", "bleu:style"]
    (place,) = (i for i, name in enumerate(result.names) if name == "bleu")
    z = [(x - np.nanmean(x)) / np.nanstd(x) for x in (scores["bleu-1", ""], scores["bleu-2", ""])]
    np.testing.assert_allclose(result.scores[place], np.nanmean(z, axis=0), atol=1e-6)
    assert (result.raters[place], result.kinds[place], result.dates[place]) == ("bleu", "metric", "2002")
    assert result.constant == ()


@pytest.mark.parametrize("variants", ["*", "bleu*,ble*", "judge*,bleu"])
def test_variants_need_a_name_of_their_own(variants: str) -> None:
    if variants == "judge*,bleu":
        # With one metric each, nothing changes.
        assert "judge:style" in rater_scores(judged(BASE), variants=variants).names
        return
    with pytest.raises(OptionError, match="variants=.*a metric can match only one"):
        rater_scores(judged(BASE), variants=variants)


def test_variants_without_variation_are_constant() -> None:
    scores = {**BASE, ("tick", ""): BASE["bleu", ""], ("tick-turned", ""): -BASE["bleu", ""]}
    assert rater_scores(judged(scores), variants="tick*").constant == ("tick",)
