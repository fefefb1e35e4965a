"""Labelled outputs of a study as arrays."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.outputs import (
    LabelledOutputs,
    binary_outputs,
    draw_within_strata,
    has_known_positive,
    is_confidence,
    judge_position,
    labelled_outputs,
    view_of_positive,
)
from tests.evaluate.rates.labelled import labelled
from tests.messages import exactly

NAN = np.nan


def outputs_of(consensus: Any = "kept", **columns: list[Any]) -> LabelledOutputs:
    (outputs,) = labelled_outputs(cu.read(pl.DataFrame(columns)), consensus=consensus)
    return outputs


def rated(consensus: Any) -> LabelledOutputs:
    """Return outputs a to d with labels 1 to 3 of annotators p, q and r; the judge labels d twice and e once."""
    rows = [("a", "p", 1), ("a", "q", 2), ("a", "r", 2), ("b", "p", 3), ("b", "q", 1), ("c", "p", 2), ("d", "r", 2)]
    frame = pl.DataFrame(
        [(i, "s", r, x, "human") for i, r, x in rows] + [("d", "s", "j", 1, "metric"), ("e", "s", "j", 3, "metric")],
        schema=["item", "system", "rater", "score", "kind"],
        orient="row",
    )
    (outputs,) = labelled_outputs(cu.read(frame), consensus=consensus)
    return outputs


def test_labels_of_several_annotators_are_shares_votes_or_the_most_probable() -> None:
    kept = rated("kept")
    assert (kept.words, kept.ordered, kept.metrics, kept.annotators) == (("1", "2", "3"), True, ("j",), ("p", "q", "r"))
    rows = dict(zip(kept.table["item"], range(5), strict=True))
    order = [rows[item] for item in "abcde"]
    np.testing.assert_allclose(kept.gold[order], [[1 / 3, 2 / 3, 0], [0.5, 0, 0.5], [0, 1, 0], [0, 1, 0], [NAN] * 3])
    np.testing.assert_array_equal(kept.judged[:, order], [[NAN, NAN, NAN, 0, 2]])
    np.testing.assert_array_equal(
        kept.annotated[:, order], [[0, 2, 1, NAN, NAN], [1, 0, NAN, NAN, NAN], [1, NAN, NAN, 1, NAN]]
    )
    assert kept.has_human_label[order].tolist() == [True] * 4 + [False]
    assert kept.human_agreement == pytest.approx((1 + 0) / (3 + 2))
    # By hand: coincidences 1-2, 2-2 and 1-3; squared ordinal distances 4 (1-2), 2.25 (2-3) and 12.25 (1-3).
    observed, expected = 2 * (4 + 12.25) / 5, 2 * (2 * 2 * 4 + 2 * 1 * 2.25 + 2 * 1 * 12.25) / (5 * 4)
    assert kept.human_alpha == pytest.approx(1 - observed / expected)
    vote = rated("vote")
    np.testing.assert_allclose(vote.gold[order], [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0], [0, 1, 0], [NAN] * 3])
    assert [(note.rule, note.count) for note in vote.notes] == [("annotators-undecided", 1)]
    likely = rated("dawid-skene")
    assert np.nansum(likely.gold[order], axis=1).tolist() == [1, 1, 1, 1, 0]
    assert likely.notes == kept.notes == []


def test_one_annotator_has_no_agreement() -> None:
    outputs = outputs_of(id=[1, 2, 3], human_label=["pass", "fail", None], judge_label=["pass", None, "fail"])
    assert np.isnan([outputs.human_agreement, outputs.human_alpha]).all()
    np.testing.assert_array_equal(outputs.gold, [[0, 1], [1, 0], [NAN, NAN]])
    assert not outputs.has_clusters
    clustered = outputs_of(id=[1, 2, 3], human_label=["pass", "fail", "pass"], cluster=["x", "", "x"])
    assert clustered.has_clusters
    assert clustered.unit[0] == clustered.unit[2] != clustered.unit[1]


def test_repeated_labels_are_a_majority_and_repeated_scores_a_mean() -> None:
    frame = pl.DataFrame(
        {
            "item": ["a", "a", "a", "b", "b", "c", "a", "a", "b", "c", "a", "b", "c"],
            "system": "s",
            "rater": ["j"] * 6 + ["k"] * 4 + ["h"] * 3,
            "kind": ["metric"] * 10 + ["human"] * 3,
            "repeat": [0, 1, 2, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0],
            "score": [1.0, 0, 0, 1, 0, 1, 0.2, 0.6, 0.3, 0.9, 1, 0, 1],
        }
    )
    (outputs,) = labelled_outputs(cu.read(frame), consensus="vote")
    order = [outputs.table["item"].to_list().index(item) for item in "abc"]
    assert outputs.is_score.tolist() == [metric == "k" for metric in outputs.metrics]
    judged = dict(zip(outputs.metrics, outputs.judged[:, order], strict=True))
    np.testing.assert_allclose(judged["j"], [0, NAN, 1])
    np.testing.assert_allclose(judged["k"], [0.4, 0.3, 0.9])


@pytest.mark.parametrize(
    ("positive", "codes", "negative"),
    [
        ("3", [2], "not 3"),
        ("1,3", [0, 2], "2"),
        (">=2", [1, 2], "1"),
        ("> 2", [2], "not > 2"),
        ("<=2", [0, 1], "3"),
        ("<2", [0], "not <2"),
        (">1.5", [1, 2], "1"),
    ],
)
def test_positive_labels_are_names_lists_or_rules(positive: str, codes: list[int], negative: str) -> None:
    outputs = rated("kept")
    binary = outputs.binarise_labels(positive)
    assert (binary.words, binary.ordered) == ((negative, positive), False)
    np.testing.assert_allclose(binary.gold[:, 1], outputs.gold[:, codes].sum(axis=1))
    np.testing.assert_allclose(binary.gold.sum(axis=1), outputs.gold.sum(axis=1))
    expected = np.where(np.isnan(outputs.judged), NAN, np.isin(outputs.judged, codes))
    np.testing.assert_array_equal(binary.judged, expected)
    assert binary_outputs(outputs, positive, verb="rates").words == binary.words


@pytest.mark.parametrize(
    ("positive", "message"),
    [
        ("9", "no label"),
        ("3,9", "no label"),
        (">=1", "every label"),
        (">3", "no label"),
    ],
)
def test_positive_labels_must_be_some_but_not_all(positive: str, message: str) -> None:
    end = "; allowed: a label (1, 2, 3), or a rule such as '>=4'"
    with pytest.raises(OptionError, match=re.escape(f"positive={positive!r} selects {message}{end}")):
        rated("kept").binarise_labels(positive)
    with pytest.raises(OptionError, match="verb needs two labels, not 3; name one of 1, 2, 3"):
        binary_outputs(rated("kept"), None, verb="verb")


def test_the_judge_is_the_only_metric_with_labels() -> None:
    labels = {"human_label": ["pass", "fail", "pass"], "judge_a": ["pass", "fail", "fail"]}
    scored = outputs_of(id=[1, 2, 3], **labels, judge_score=[0.1, 0.22, 0.3])
    assert scored.metrics[judge_position(scored, None, verb="v")] == "judge_a"
    assert scored.metrics[judge_position(scored, "judge_a", verb="v")] == "judge_a"
    with pytest.raises(OptionError):
        judge_position(scored, "judge_score", verb="v")
    several = outputs_of(id=[1, 2, 3], **labels, judge_b=["pass", "fail", "pass"])
    with pytest.raises(
        OptionError, match=exactly("v: several metrics give labels; name one with metric=NAME: judge_a, judge_b")
    ):
        judge_position(several, None, verb="v")
    assert several.metrics[judge_position(several, "judge_b", verb="v")] == "judge_b"
    with pytest.raises(InputError, match="v needs a metric that gives labels"):
        judge_position(outputs_of(id=[1, 2], human_label=["pass", "fail"]), None, verb="v")
    assert is_confidence("judge_confidence")
    assert not is_confidence("judge_confident")
    assert has_known_positive(("fail", "pass"))
    assert not has_known_positive(("fail", "blue"))
    assert not has_known_positive(("fail",))


def test_draws_are_of_unlabelled_outputs_and_independent_of_the_order_of_rows() -> None:
    n = 60
    columns = {"id": [*range(n)], "human_label": [["pass", "fail", None, None][k % 4] for k in range(n)]}
    outputs = outputs_of(**columns, judge_label=[["pass", "fail"][k % 2] for k in range(n)])
    item = outputs.table["item"].cast(pl.Int64).to_numpy()
    strata = np.where(item < 20, 0, np.where(item < 50, 1, -1))
    is_drawn = draw_within_strata(outputs, strata, np.array([3, 99]), np.random.default_rng(0))
    assert not (is_drawn & outputs.has_human_label).any()
    assert is_drawn[strata == 0].sum() == 3
    assert (is_drawn[strata == 1] == ~outputs.has_human_label[strata == 1]).all()
    assert not is_drawn[strata == -1].any()
    shuffled = pl.DataFrame({**columns, "judge_label": [["pass", "fail"][k % 2] for k in range(n)]}).sample(
        fraction=1, shuffle=True, seed=1
    )
    (other,) = labelled_outputs(cu.read(shuffled), consensus="kept")
    other_item = other.table["item"].cast(pl.Int64).to_numpy()
    again = draw_within_strata(
        other,
        np.where(other_item < 20, 0, np.where(other_item < 50, 1, -1)),
        np.array([3, 99]),
        np.random.default_rng(0),
    )
    assert sorted(other_item[again]) == sorted(item[is_drawn])


def test_scores_with_many_or_broken_values_are_no_labels() -> None:
    frame = pl.DataFrame({"item": ["a", "b", "c"], "system": "s", "rater": "h", "kind": "human", "score": [0.5, 1, 2]})
    with pytest.raises(InputError, match="scores with 3 different values, but rates needs labels"):
        labelled_outputs(cu.read(frame), consensus="kept")
    (binary,) = labelled_outputs(cu.read(frame.with_columns(score=pl.Series([1.0, 1.0, 1.0]))), consensus="kept")
    assert (binary.words, binary.ordered) == (("0", "1"), False)
    np.testing.assert_array_equal(binary.gold, [[0, 1]] * 3)


def test_only_some_outputs() -> None:
    outputs = rated("kept")
    assert outputs.only(np.ones(5, dtype=bool)) is outputs
    mask = np.array([True, False, True, True, False])
    part = outputs.only(mask)
    assert part.table["item"].to_list() == outputs.table["item"].filter(pl.Series(mask)).to_list()
    for name in ("system", "unit", "gold", "weight", "number"):
        np.testing.assert_array_equal(getattr(part, name), getattr(outputs, name)[mask])
    np.testing.assert_array_equal(part.judged, outputs.judged[:, mask])
    np.testing.assert_array_equal(part.annotated, outputs.annotated[:, mask])


def ratings(scores: dict[str, list[float]], **columns: Any) -> cu.Study:
    """Return a study with scores of the annotator h, and of metrics, on items i0, i1, ..."""
    rows = [
        {"item": f"i{k}", "system": "s", "rater": rater, "kind": "human" if rater == "h" else "metric", "score": score}
        for rater, values in scores.items()
        for k, score in enumerate(values)
    ]
    return cu.read(pl.DataFrame(rows).with_columns(**columns))


def test_ratings_are_labels_if_they_have_at_most_eleven_whole_numbers() -> None:
    (eleven,) = labelled_outputs(ratings({"h": [*range(11)], "j": [0.5, *range(1, 11)]}), consensus="vote")
    assert (eleven.words, eleven.ordered) == (tuple(map(str, range(11))), True)
    assert eleven.is_score.tolist() == [True]
    assert sorted(eleven.judged[0]) == [0.5, *range(1, 11)]
    with pytest.raises(
        InputError,
        match=exactly(
            "table: ratings are scores with 12 different values, but rates needs labels, or at most 11 "
            "different whole numbers; replace the scores by labels, such as pass if the score is at least 0.5, or "
            "use leaderboard or agreement"
        ),
    ):
        labelled_outputs(ratings({"h": [*range(12)], "j": [1] * 12}), consensus="vote")
    with pytest.raises(InputError, match=r"\(style\): ratings are scores with 2 different values"):
        labelled_outputs(ratings({"h": [1, 1.5]}, aspect=pl.lit("style")), consensus="vote")
    (two,) = labelled_outputs(ratings({"h": [2, 5, 5], "j": [5, 2, 3]}), consensus="vote")
    assert (two.words, two.ordered, two.is_score.tolist()) == (("2", "5"), False, [True])
    np.testing.assert_array_equal(two.gold[two.table["item"].to_numpy().argsort()], [[1, 0], [0, 1], [0, 1]])
    (alone,) = labelled_outputs(ratings({"j": [1, 0, 1], "k": [1, 1, 1]}), consensus="vote")
    assert (alone.words, alone.is_score.tolist()) == (("0", "1"), [False, False])
    assert np.isnan(alone.gold).all()


def test_outputs_have_the_order_weights_and_clusters_of_the_input() -> None:
    frame = pl.DataFrame(
        {
            "item": ["d", "a", "c", "b", "e"],
            "model": ["B", "A", "B", "B", "A"],
            "human_label": ["pass", None, None, "fail", None],
            "judge_label": [None, "pass", "fail", "fail", None],
            "chosen": [0.5, 0.25, None, 1.0, 0.5],
            "document": ["x", "y", "y", "", "x"],
            "copies": [2.0, 3.0, 3.0, 1.0, 2.0],
        }
    )
    columns = {
        "item": "item",
        "system": "model",
        "score": ["human:{rater:human_label}", "metric:{rater:judge_label}"],
        "probability": "chosen",
        "cluster": "document",
    }
    (outputs,) = labelled_outputs(cu.read(frame, columns=columns), consensus="vote")
    assert outputs.table.rows() == [("d", "B"), ("a", "A"), ("c", "B"), ("b", "B"), ("e", "A")]
    assert (outputs.systems, outputs.system.tolist()) == (("A", "B"), [1, 0, 1, 1, 0])
    assert outputs.weight.tolist() == [2, 4, 1, 1, 2]
    assert outputs.number.tolist() == [1] * 5
    unit = outputs.unit.tolist()
    assert (unit[0] == unit[4], unit[1] == unit[2], len(set(unit)), min(unit), max(unit)) == (True, True, 3, 0, 2)
    np.testing.assert_array_equal(outputs.judged, [[NAN, 1, 0, 0, NAN]])
    (split,) = labelled_outputs(cu.read(frame, columns={**columns, "n_outputs": "copies"}), consensus="vote")
    assert split.table["item"].to_list() == ["d", "d", "a", "c", "b", "e", "e"]
    assert split.number.tolist() == [1, 1, 3, 3, 1, 1, 1]
    assert split.weight.tolist() == [2, 2, 4, 1, 1, 2, 2]
    unit = split.unit.tolist()
    assert (unit[0] == unit[5], unit[1] == unit[6], unit[2] == unit[3], len(set(unit))) == (True, True, True, 4)
    assert unit[0] != unit[1]
    np.testing.assert_array_equal(split.gold[:, 1], [1, 1, NAN, NAN, 0, NAN, NAN])


def test_a_majority_decides_a_label_and_other_labels_are_undecided() -> None:
    gold = np.array([[0, 1], [1 / 3, 2 / 3], [0.5, 0.5], [NAN, NAN]])
    outputs = labelled(gold, [1, 0, 1, 1])
    assert outputs.has_decided_label.tolist() == [True, True, False, False]
    assert outputs.has_human_label.tolist() == [True, True, True, False]


def test_raters_without_a_common_label_are_refused_unless_positive_labels_are_given() -> None:
    gold = np.eye(4)[[0, 1, 0]]
    apart = labelled(gold, [2, 3, 2], words=tuple("abcd"))
    with pytest.raises(InputError, match=r"judge and the annotators .* \(labels of judge: c, d; of annotators: a, b\)"):
        view_of_positive(apart, None)
    assert view_of_positive(labelled(gold, [2, 1, 2], words=tuple("abcd")), None).words == tuple("abcd")
    for changes in ({"ordered": True}, {"is_score": np.array([True])}, {"gold": np.full((3, 4), NAN)}):
        kept = replace(apart, **changes)
        assert view_of_positive(kept, None) is kept
    joint = view_of_positive(replace(apart, annotated=np.array([[0.0, 1, 0]])), "a,c")
    assert joint.gold[:, 1].tolist() == joint.judged[0].tolist() == [1, 0, 1]
