"""Labels of one judge with a measure of confidence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.judged_outputs import JudgedOutputs, judged_outputs
from tests.evaluate.rates.labelled import NAN, labelled

LABELS = [1, 0, 1, 0, NAN, 1]


def study_with(outputs: Any, ratings: Any = (), **columns: Any) -> Any:
    """Return a study with these columns of the outputs, and with ratings (rater, item, code)."""
    rows = [(f"i{item:04}", "A", rater, "", float(score)) for rater, item, score in ratings]
    frame = pl.DataFrame(rows, schema=["item", "system", "rater", "aspect", "score"], orient="row")
    attributes = outputs.table.with_columns(**{name: pl.Series(values) for name, values in columns.items()})
    return SimpleNamespace(
        attributes=attributes, ratings=SimpleNamespace(frame=frame), items=None, labels=True, notes=[]
    )


def found(
    *judges: Any, is_score: Any = False, judge: int = 0, signal: str | None = None, **options: Any
) -> JudgedOutputs:
    outputs = labelled([1, 1, 0.5, NAN, 0, 0], *judges, is_score=is_score, **options.pop("changes", {}))
    return judged_outputs(study_with(outputs, **options), outputs, judge, signal)


def test_a_column_of_confidence_is_used_and_a_missing_value_is_the_lowest() -> None:
    result = found(LABELS, judge_confidence=[0.9, 0.8, None, 0.7, 0.6, 0.5])
    assert (result.metric, result.signal, result.codes.tolist()) == ("judge", "judge_confidence", [1, 0, 1, 0, 1])
    assert result.certainty.tolist() == [0.9, 0.8, -np.inf, 0.7, 0.5]
    assert result.wrong.tolist() == [False, True, True, False, True]  # a tie is wrong, no human label is not
    assert result.outputs.table["item"].to_list() == [f"i000{k}" for k in (0, 1, 2, 3, 5)]
    assert result.is_confident(0.8).tolist() == [True, True, False, False, False]
    assert result.is_confident(0.8 * (1 + 1e-10)).tolist() == [True, True, False, False, False]
    assert result.is_confident(0.8 * (1 + 1e-8)).tolist() == [True, False, False, False, False]
    assert not result.is_confident(np.inf).any()
    (note,) = result.notes
    assert (note.rule, note.message) == (
        "signal",
        "judge_confidence is read as the confidence of the judge in its label",
    )


def test_the_default_measure_is_the_first_available() -> None:
    score, other = [0.9, 0.1, 0.8, 0.2, 0.5, 0.7], [0.1] * 6
    expected = {"changes": {"metrics": ("judge", "second", "judge@expected")}, "is_score": [False, True, True]}
    assert found(LABELS, other, score, **expected).signal == "judge@expected"
    assert found(LABELS, score, is_score=[False, True], judge_confidence=other).signal == "second"
    two = {"is_score": [False, True, True]}
    assert found(LABELS, other, score, judge_confidence=score, **two).signal == "judge_confidence"
    with pytest.raises(OptionError, match="route needs a measure of the confidence of judge; give signal=NAME"):
        found(LABELS, other, score, **two)
    with pytest.raises(OptionError, match="route needs a measure"):
        found(LABELS)
    assert found(LABELS, confidence=score).signal == "confidence"
    assert found(LABELS, second_confidence=score).signal == "second_confidence"  # the only judge
    # With two judges, the column must name the judge, or no judge.
    assert found(LABELS, LABELS, second_confidence=score).signal == "judges"
    assert found(LABELS, LABELS, second_confidence=score, judge=1).signal == "second_confidence"
    assert found(LABELS, LABELS, confidence=score).signal == "confidence"
    repeated = [("judge", 0, 1), ("judge", 0, 1), ("second", 1, 0)]
    assert found(LABELS, LABELS, ratings=repeated).signal == "repeats"
    assert found(LABELS, LABELS, ratings=repeated, judge=1).signal == "judges"
    both = {"judge_confidence": score, "confidence": other}
    with pytest.raises(OptionError, match="route needs a measure"):
        found(LABELS, **both)
    assert found(LABELS, signal="confidence", **both).certainty.tolist() == [0.1] * 5


def test_repeats_and_judges_have_the_proportion_of_equal_labels() -> None:
    votes = [("judge", 0, 1), ("judge", 0, 1), ("judge", 0, 0), ("judge", 1, 0), ("second", 1, 1), ("judge", 5, 1)]
    repeats = found(LABELS, signal="repeats", ratings=votes)
    assert repeats.certainty.tolist() == [2 / 3, 1, -np.inf, -np.inf, 1]
    assert repeats.notes == []
    second, third = [1, 1, NAN, 0, 1, 0], [1, 1, NAN, NAN, 1, 1]
    judges = found(
        LABELS,
        second,
        third,
        [0.1] * 6,
        signal="judges",
        is_score=[False, False, False, True],
        changes={"metrics": ("judge", "second", "third", "score")},
    )
    assert judges.certainty.tolist() == pytest.approx([1, 1 / 3, 1, 1, 2 / 3])


@pytest.mark.parametrize(("tpr", "is_score"), [(0.75, True), (0.5, True), (0.25, False)])
def test_scores_that_separate_the_labels_are_distances_from_the_threshold(tpr: float, *, is_score: bool) -> None:
    """Youden's index is the TPR, because all scores of negative labels are equal and low."""
    labels = [1] * 4 + [0] * 4
    scores = [0.9] * int(4 * tpr) + [0.2] * (8 - int(4 * tpr))
    outputs = labelled([1] * 8, labels, scores, is_score=[False, True])
    result = judged_outputs(study_with(outputs), outputs, 0, None)
    text = result.notes[0].message
    if is_score:
        cutoff = (0.9 + 0.2) / 2
        assert text == (
            f"second is read as a score of 'pass', and the distance from {cutoff:.3g} is the confidence; to give the "
            "confidence itself, use a column with 'confidence' in its name"
        )
        np.testing.assert_allclose(result.certainty, np.abs(np.array(scores) - cutoff))
    else:
        assert text == "second is read as the confidence of the judge in its label"
        assert result.certainty.tolist() == scores
    renamed = labelled([1] * 8, labels, scores, is_score=[False, True], metrics=("judge", "judge_confidence"))
    assert judged_outputs(study_with(renamed), renamed, 0, None).certainty.tolist() == scores


def test_what_has_no_confidence_is_refused() -> None:
    with pytest.raises(OptionError, match="signal='topic': must be a column of numbers"):
        found(LABELS, signal="topic", topic=["1", "2", "x", "4", None, "6"])
    assert found(LABELS, signal="topic", topic=["1", "2", None, "2", None, "1"]).certainty.tolist() == [
        1,
        2,
        -np.inf,
        2,
        1,
    ]
    with pytest.raises(
        InputError, match="route: topic has no confidence for the labels of judge; name another measure"
    ):
        found(LABELS, signal="topic", topic=[None, None, None, None, 0.5, None])
    twice = pl.DataFrame({"item": ["a", "a"], "system": ["A", "B"]})
    several, one = (labelled([1, 0], [1, second], table=twice) for second in (1, NAN))
    assert judged_outputs(study_with(one, confidence=[0.5, 0.6]), one, 0, None).codes.tolist() == [1]
    with pytest.raises(InputError, match="route: some items have several outputs"):
        judged_outputs(study_with(several, confidence=[0.5, 0.6]), several, 0, None)
