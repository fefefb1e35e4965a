"""From texts to ratings: reference rules, reused computations, and inputs that scores depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.data.study import Study
from custodes.scoring.metric import MetricInputs, MetricResult, Traits
from tests.scoring.made import (
    OUTPUTS,
    OVERLAP,
    POOLED,
    REFERENCES,
    Recorded,
    overlap,
    pooled,
    recorded,
    register,
    scores,
    scores_of,
)
from tests.scoring.made import study as texts_of

FIRST, BEST, MEAN = ([value, 1, 0, 2 / 3, 1 / 2, 0] for value in (2 / 3, 1, 5 / 6))
"""Scores by hand: 2 of 3 words of "a red fox" occur in "a fox", and 3 of 3 in "a red fox ran"."""


def test_every_rule_is_a_rater_of_one_computation(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    recorder = recorded(monkeypatch, overlap, OVERLAP)
    result = cu.score(study, ["made", "made@best,mean", "other=made@first"])
    expected = {"made": FIRST, "made@best": BEST, "made@mean": MEAN, "other": FIRST}
    assert {name: scores_of(result, name) for name in expected} == {n: pytest.approx(v) for n, v in expected.items()}
    assert len(recorder.outputs) == 6
    rules = [signature.rpartition("=")[2] for signature in result.raters["signature"]]
    assert rules == ["first", "best", "mean", "first"]
    assert (result.status, result.skipped.height) == (0, 0)
    recorded(monkeypatch, overlap, Traits(needs=("references",), rules=("best",), higher_is_better=False))
    assert scores_of(cu.score(study, ["made"]), "made") == pytest.approx(FIRST)  # the worst is the best


def test_all_references_at_once_or_each_alone(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    recorder = recorded(monkeypatch, pooled, POOLED)
    result = cu.score(study, ["made", "made@first,best,mean"])
    expected = {"made": BEST, "made@first": FIRST, "made@mean": MEAN}
    assert {name: scores_of(result, name) for name in expected} == {n: pytest.approx(v) for n, v in expected.items()}
    assert all(len(refs) == 1 for texts in recorder.calls[1:] for refs in texts.references)
    assert len(recorder.outputs) == 6 + 6  # items with one reference take the cached scores


@pytest.mark.parametrize(("score", "traits"), [(overlap, OVERLAP), (pooled, POOLED)])
def test_only_the_first_reference_is_looked_at_where_nothing_else_is_asked(
    monkeypatch: pytest.MonkeyPatch, study: Study, score: Any, traits: Traits
) -> None:
    recorder = recorded(monkeypatch, score, traits)
    assert scores_of(cu.score(study, ["made@first"]), "made@first") == pytest.approx(FIRST)
    assert all(len(refs) == 1 for texts in recorder.calls for refs in texts.references)


def test_a_metric_is_given_what_it_needs_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    study = texts_of(OUTPUTS, references=REFERENCES, source={"1": "one", "2": "two"})
    recorder = recorded(monkeypatch, pooled, Traits(needs=("source",)))
    cu.score(study, ["made"])
    (texts,) = recorder.calls
    assert sorted(texts.sources) == ["one", "two"]
    assert list(texts.references) == [[], []]


def test_equal_texts_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded(monkeypatch, overlap, OVERLAP)
    same = {"1": {"A": "a fox", "B": "a fox"}, "2": {"A": "a fox", "B": "a dog"}}
    result = cu.score(texts_of(same, references={"1": ["a fox"], "2": ["a fox"]}), ["made"])
    assert sorted(recorder.outputs) == ["a dog", "a fox"]
    assert scores_of(result, "made") == [1.0, 1.0, 1.0, 0.5]


WORDS = st.lists(st.sampled_from(["a", "fox", "dog", "red", "ran", "é"]), min_size=1, max_size=4).map(" ".join)


@settings(max_examples=15)
@given(st.data())
def test_names_and_the_order_of_rows_change_no_score(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    outputs = {f"i{i}": {f"s{s}": data.draw(WORDS) for s in range(k)} for i in range(n)}
    references = {item: data.draw(st.lists(WORDS, min_size=1, max_size=3)) for item in outputs}
    items = dict(zip(outputs, data.draw(st.permutations(["x", "y", "z", "w"])), strict=False))
    systems = dict(zip([f"s{s}" for s in range(k)], data.draw(st.permutations(["P", "Q", "R"])), strict=False))
    order = data.draw(st.permutations(list(outputs)))
    renamed = {
        items[item]: {systems[s]: outputs[item][s] for s in data.draw(st.permutations(list(outputs[item])))}
        for item in order
    }
    moved = {items[item]: reference for item, reference in references.items()}
    whole = Traits(needs=("references",), rules=("first",), whole=True)
    with pytest.MonkeyPatch.context() as patch:
        register(patch, Recorded(overlap, OVERLAP).metric, Recorded(pooled, POOLED, "all").metric)
        specs = ["made@first,best,mean", "all@all,mean"]
        before = scores(cu.score(texts_of(outputs, references=references), specs))
        after = scores(cu.score(texts_of(renamed, references=moved), specs))
        assert {(items[i], systems[s], r): v for (i, s, r), v in before.items()} == after
        recorders = [Recorded(overlap, whole), Recorded(overlap, whole)]
        for value, (texts, refs) in zip(recorders, [(outputs, references), (renamed, moved)], strict=True):
            register(patch, value.metric)
            cu.score(texts_of(texts, references=refs), ["made"])
        # The order within the batch is also the same, so sums have the same order.
        assert recorders[0].calls[0].outputs == recorders[1].calls[0].outputs


def test_the_size_of_batches_changes_what_is_given_at_once_and_no_score(
    monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    recorder = recorded(monkeypatch, overlap, OVERLAP)
    many = texts_of(
        {str(i): {"A": f"a {i}", "B": f"fox {i}"} for i in range(20)}, references={str(i): ["a fox"] for i in range(20)}
    )
    first = cu.score(many, ["made"], batch=1)
    assert [len(texts.outputs) for texts in recorder.calls] == [8, 8, 8, 8, 8]
    assert scores(first) == scores(cu.score(many, ["made"]))
    assert len(recorder.calls) == 6


def test_texts_are_what_questions_take(tmp_path: Any, study: Study) -> None:
    frame = pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "text": ["a b", "a"]})
    frame.write_csv(tmp_path / "texts.csv")
    for texts in (frame, str(tmp_path / "texts.csv"), [frame], cu.read(frame)):
        assert scores_of(cu.score(texts, ["length"]), "length") == [2.0, 1.0]
    assert scores_of(cu.score(frame, "length"), "length") == [2.0, 1.0]


def test_scores_of_systems_are_rows_of_their_own(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    def corpus(texts: MetricInputs) -> MetricResult:
        n_letters = [
            sum(map(len, words)) for words in (texts.outputs, [text for refs in texts.references for text in refs])
        ]
        return MetricResult(values=np.zeros((len(texts.outputs), 0)), systems=np.array([n_letters[0] / n_letters[1]]))

    traits = Traits(needs=("references",), rules=("all", "first"), systems=True)
    register(monkeypatch, Recorded(corpus, traits, "corpus").metric)
    result = cu.score(study, ["corpus", "corpus@first", "length"])
    whole = result.ratings.filter(pl.col("item") == "")
    assert whole.select("system", "rater").rows() == [(s, rater) for rater in ("corpus", "corpus@first") for s in "ABC"]
    assert scores_of(result, "corpus") == pytest.approx([20 / 25, 10 / 25, 12 / 25])
    assert scores_of(result, "corpus@first") == pytest.approx([20 / 12, 10 / 12, 12 / 12])
    assert set(result.ratings.filter(pl.col("item") != "")["rater"]) == {"length"}


def test_the_study_of_scores_is_asked_like_any_other(study: Study) -> None:
    humans = pl.DataFrame(
        {"item": ["1", "1", "1", "2", "2", "2"], "system": ["A", "B", "C"] * 2, "rater": "ann", "kind": "human"}
    ).with_columns(score=pl.Series([3, 2, 1, 3, 2, 1]))
    result = cu.score(study, ["length"])
    assert result.study().metrics == ("length",)
    result_of_files = cu.agreement([result.ratings, humans], resamples=0)
    assert result_of_files.metrics["metric"].to_list() == ["length"]
    held = cu.read(humans)
    both = cu.score(Study(**{**vars(held), "outputs": study.outputs}), ["length"]).study()
    assert (both.humans, both.metrics) == (("ann",), ("length",))


def test_provenance_names_texts_metrics_and_versions(study: Study) -> None:
    line = str(cu.score(study, ["length"], missing="drop").provenance)
    assert line.startswith("score | study=")
    assert all(part in line for part in ("metrics=length", "missing=drop", "custodes="))
