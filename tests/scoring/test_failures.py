"""Missing inputs, outputs without a score, and failing metrics are named and counted, never scored."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.errors import InputError, MissingExtraError, OptionError
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Need, Place, Scorer, Traits
from custodes.scoring.metrics import METRICS
from tests.scoring.made import OUTPUTS, OVERLAP, constant, overlap, recorded, register, scores_of
from tests.scoring.made import study as texts_of


def messages(result: cu.Scores) -> list[str]:
    return [note.message for note in result.notes]


@pytest.mark.parametrize("need", ["references", "source", "context", "image"])
def test_what_a_metric_needs_is_there_or_nothing_is_scored(monkeypatch: pytest.MonkeyPatch, need: Need) -> None:
    metric = recorded(monkeypatch, constant(1.0), Traits(needs=(need,)))
    lacking = "1 of 2 items have none (2)" if need == "references" else f"2 of 2 items have no {need} (1, 2)"
    with pytest.raises(InputError, match=re.escape(f"metric made needs {need}, and {lacking}; add these inputs, or")):
        cu.score(texts_of(OUTPUTS, references={"1": ["a fox"]}), ["length", "made"])
    assert not metric.calls


def test_what_lacks_it_is_dropped_on_request_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, overlap, OVERLAP)
    result = cu.score(texts_of(OUTPUTS, references={"1": ["a fox"]}), ["length", "made"], missing="drop")
    assert (len(scores_of(result, "length")), len(scores_of(result, "made")), result.status) == (6, 3, 0)
    assert result.skipped.rows() == [("2", system, "made", "no references") for system in "ABC"]
    assert messages(result) == ["1 of 2 items have no references, so their outputs are not scored by made"]


def test_every_system_has_every_item_unless_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    some = texts_of({"1": {"A": "a", "B": "b b"}, "2": {"A": "a"}, "3": {"B": "b"}})
    with pytest.raises(InputError, match=r"2 of 6 outputs are missing \(B of 2, A of 3\); add them, or score"):
        cu.score(some, ["length"])

    def count(texts: MetricInputs) -> MetricResult:
        return MetricResult(values=np.zeros((1, 0)), systems=np.array([len(texts.outputs)]))

    recorder = recorded(monkeypatch, count, Traits(systems=True))
    result = cu.score(some, ["length", "made"], missing="drop")
    assert (scores_of(result, "length"), scores_of(result, "made")) == ([1, 2, 1, 1], [1, 1])
    assert sorted(recorder.outputs) == ["a", "b b"]
    assert result.skipped["why"].to_list() == ["the system has no output of this item"] * 2
    assert messages(result) == [
        "2 of 6 outputs are missing",
        "systems are scored by made on the 1 of 3 items that have an output of every system",
    ]


def test_no_output_that_can_be_scored(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    recorded(monkeypatch, constant(1.0), Traits(needs=("source",)))
    with pytest.raises(InputError, match="nothing is scored: made: .* no output has all inputs of the metric"):
        cu.score(study, ["made"], missing="drop")
    result = cu.score(study, ["made", "length"], missing="drop")
    assert result.raters["rater"].to_list() == ["length"]
    assert result.status == 1


def test_an_output_without_a_score_has_a_reason_and_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, overlap, OVERLAP)
    some = texts_of({"1": {"A": "a fox", "B": ""}}, references={"1": ["a fox", "a"]})
    result = cu.score(some, ["made@first,mean"])
    assert result.ratings["score"].to_list() == [1.0, 0.75]
    assert result.skipped.rows() == [("1", "B", f"made@{rule}", "the output has no word") for rule in ("first", "mean")]
    assert "made@mean: 1 of 2 outputs have no score: the output has no word" in messages(result)
    assert result.status == 1


def test_no_number_is_in_no_mean_and_no_best(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    def halves(texts: MetricInputs) -> MetricResult:
        return MetricResult(values=np.tile([[0.5, np.nan]], (len(texts.outputs), 1)))

    recorded(monkeypatch, halves, OVERLAP)
    result = cu.score(study, ["made@first,best,mean"])
    assert scores_of(result, "made@first") == [0.5] * 6
    # item 2 has one reference
    assert scores_of(result, "made@best") == scores_of(result, "made@mean") == [0.5] * 3
    assert result.skipped["why"].unique().to_list() == ["the metric returned no number"]
    assert result.status == 1


def test_cut_texts_are_counted(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    def cut(texts: MetricInputs) -> MetricResult:
        return replace(constant(1.0)(texts), truncated=np.array([len(text) > 8 for text in texts.outputs]))

    recorded(monkeypatch, cut, Traits())
    result = cu.score(study, ["made"])
    assert messages(result) == ["made: for 2 of 6 outputs, a text was truncated to fit the model"]
    assert result.status == 0


ONES = np.ones((5, 1))


def raising(error: BaseException) -> Callable[[MetricInputs], MetricResult]:
    def score(texts: MetricInputs) -> MetricResult:
        raise error

    return score


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (raising(RuntimeError("two\nlines")), "made: the metric failed: RuntimeError: two lines"),
        (raising(InputError("worker: it ended")), "made: the metric failed: worker: it ended"),
        (constant(np.inf), "made: the metric failed: the metric returned an infinite score; a score"),
        (
            lambda texts: MetricResult(values=np.ones((1, 1))),
            "the metric returned values of shape (1, 1), expected (5, 1)",
        ),
        (lambda texts: 3, "TypeError: the metric returned int, expected MetricResult"),
        (
            lambda texts: MetricResult(values=ONES, truncated=np.array([True])),
            "reports truncation of 1 texts, expected 5",
        ),
        (lambda texts: MetricResult(values=ONES, why={5: "?"}), "gives a reason for an output that was not requested"),
    ],
)
def test_a_metric_that_fails_is_one_line_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch, study: Study, score: Callable[[MetricInputs], MetricResult], message: str
) -> None:
    recorded(monkeypatch, score, Traits())
    result = cu.score(study, ["made", "length"])
    assert len(messages(result)) == 1
    assert message in messages(result)[0]
    assert (result.raters["rater"].to_list(), result.status) == (["length"], 1)
    with pytest.raises(InputError, match=f"^nothing is scored: .*{re.escape(message)}"):
        cu.score(study, ["made"])


def test_systems_must_be_scored_by_a_metric_of_systems(monkeypatch: pytest.MonkeyPatch, study: Study) -> None:
    recorded(monkeypatch, constant(1.0), Traits(systems=True))
    with pytest.raises(
        InputError, match=r"the metric returned scores of shape \(0,\) for systems, expected shape \(1,\)"
    ):
        cu.score(study, ["made"])


def metric(name: str, load: Callable[..., Scorer]) -> Metric:
    return Metric(name=name, gives="", source="", load=load, traits=Traits())


def test_a_metric_that_cannot_be_loaded_stops_before_anything_is_scored(
    monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    recorder = recorded(monkeypatch, constant(1.0), Traits())
    closed = []

    def broken(place: Place) -> Scorer:
        raise OSError("no such file")

    def closing(place: Place) -> Scorer:
        return Scorer(signature="", traits=Traits(), score=constant(1.0), close=lambda: closed.append(1))

    register(monkeypatch, recorder.metric, metric("broken", broken), metric("closing", closing))
    with pytest.raises(InputError, match=r"^metric broken: the metric cannot be loaded: OSError: no such file$"):
        cu.score(study, ["made", "closing", "broken"])
    assert (recorder.calls, closed) == ([], [1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metrics": ["length@best"]},
            "metric length@best: unknown rule 'best'; rules of this metric: none, because it uses no references",
        ),
        ({"metrics": ["made@all"]}, "metric made@all: unknown rule 'all'; rules of this metric: first, best, mean"),
        ({"jobs": 0}, "jobs=0: must be a whole number of at least 1"),
        ({"missing": "skip"}, "missing='skip'; allowed: error, drop"),
        ({"metrics": []}, "no metric is given; give one or more of length"),
        ({"metrics": [3]}, "metrics=[3]: must be a text or a list of texts"),
    ],
)
def test_options_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, study: Study, options: dict[str, object], message: str
) -> None:
    recorded(monkeypatch, overlap, OVERLAP)
    with pytest.raises(OptionError, match=re.escape(message)):
        cu.score(study, **({"metrics": ["length"]} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "module", "package"),
    [
        *((name, "rapidfuzz.distance", "rapidfuzz") for name in ("wer", "corpus-wer", "edit")),
        *((name, "sacrebleu", "sacrebleu") for name in ("bleu", "chrf", "ter", "corpus-bleu")),
        ("rouge1", "rouge_score_rs", "rouge-score-rs"),
    ],
)
def test_without_its_package(metric: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs? {package}: pip install 'custodes\[score\]'"):
        METRICS[metric].load(Place(), **METRICS[metric].parameters)


def test_scores_need_texts() -> None:
    with pytest.raises(InputError, match="table: there are no texts of outputs; give outputs with the columns"):
        cu.score(pl.DataFrame({"item": ["1"], "system": ["A"], "rater": ["x"], "score": [1.0]}), ["length"])
    labels = pl.DataFrame({"id": [1, 2], "response": ["x", "y"], "expert": ["pass", "fail"], "judge": ["pass", "fail"]})
    with pytest.raises(InputError, match="give the columns of items, systems and texts, .* --column text=response"):
        cu.score(labels, ["length"])


def test_an_image_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, constant(1.0), Traits(needs=("image",)))
    with pytest.raises(InputError, match="image 'no such.png': No such file or directory; give the path of a file"):
        cu.score(texts_of({"1": {"A": "a fox"}}, image={"1": "no such.png"}), ["made"])


def test_a_system_that_is_its_own_reference_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(monkeypatch, overlap, OVERLAP)
    outputs = {str(i): {"human": f"a fox {i}", "A": f"a dog {i}"} for i in range(6)}
    texts = texts_of(outputs, references={str(i): ["x", f"a fox {i}"] for i in range(6)})
    (message,) = messages(cu.score(texts, ["made", "length"]))
    assert message.startswith("every output of human is a reference of its item, so the scores by made carry no")
    assert messages(cu.score(texts, ["length"])) == []
    few = texts_of({i: outputs[i] for i in "0123"}, references={i: [f"a fox {i}"] for i in "0123"})
    assert messages(cu.score(few, ["made"])) == []
