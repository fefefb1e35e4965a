"""Pointwise judges with labels: prompts, replies, combined labels and files that `rates` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.judging.judge import Judge, is_positive
from custodes.judging.replies import read_answer
from custodes.judging.run import judge
from tests.command_line import Run, custodes, refused
from tests.judging.clients import completion, outputs_of, planned, prompt_of
from tests.judging.servers import Server, says

__all__ = ["custodes"]  # the fixture

TEXTS = pl.DataFrame(
    {"item": ["1", "2", "3", "4"], "system": "app", "text": ["tone facts", "tone", "facts bad", "tone unreadable"]}
)
LABELS = Judge(model="m", mode="pointwise", labels="pass,fail")
CRITERIA = Judge(model="m", mode="pointwise", labels=("pass", "fail"), aspects="tone,facts")


def names_the_aspect(body: Mapping[str, Any]) -> dict[str, Any]:
    """Reply "pass" where the output names the aspect, and without a label on facts of an 'unreadable' output."""
    (output,) = outputs_of(body)
    aspect = "tone" if "Judge its tone" in prompt_of(body) else "facts"
    if aspect == "facts" and "unreadable" in output:
        return completion("I cannot tell.")
    return completion(json.dumps({"label": "PASS" if aspect in output else "fail"}))


def test_a_label_for_each_output_and_aspect() -> None:
    result = judge(TEXTS, CRITERIA, client=names_the_aspect)
    assert result.labels.columns == ["item", "system", "rater", "kind", "aspect", "repeat", "label", "invalid"]
    assert result.labels["item"].to_list() == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert result.labels["aspect"].to_list() == ["tone", "facts"] * 4
    assert result.labels["label"].to_list() == ["pass", "pass", "pass", "fail", "fail", "pass", "pass", None]
    assert result.labels["invalid"].to_list() == [""] * 7 + ["no-verdict"]
    assert (result.verdicts.height, result.ratings.height, result.answer_count) == (0, 0, 7)
    assert result.failures.row(0, named=True)["failures"] == 1
    assert "; most frequent text (1 of them): 'I cannot tell.'" in str(result.notes)
    assert result.raters.row(0, named=True)["signature"].split("|")[-2:] == ["labels:pass,fail", "reason:none"]
    study = result.study()
    assert (study.aspects, study.labels["tone"].words) == (("tone", "facts"), ("fail", "pass"))
    assert study.outputs is not None
    assert "invalid-label" in {note.rule for note in study.notes}
    assert study.attributes.columns == ["item", "system"]


@pytest.mark.parametrize(
    ("combine", "labels"),
    [("all", ["pass", "fail", "fail", None]), ("any", ["pass"] * 4), ("majority", ["pass", "fail", "fail", None])],
)
def test_combined_labels_have_no_aspect(combine: Any, labels: list[str | None]) -> None:
    config = Judge(model="m", mode="pointwise", labels="fail,pass", aspects="tone,facts", combine=combine)
    result = judge(TEXTS, config, repeats=2, client=names_the_aspect)
    rows = result.labels.filter(aspect="", repeat="1").sort("item")
    assert rows["label"].to_list() == labels
    assert rows["invalid"].to_list() == ["" if label else "no-verdict" for label in labels]
    assert result.labels.height == 2 * 4 * 3
    study = result.study()
    assert set(study.aspects) == {"", "facts", "tone"}
    assert study.labels[""].binary
    assert study.ratings.frame.filter(aspect="", repeat="1").height == sum(label is not None for label in labels)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("all", {(3, 0): True, (2, 0): None, (0, 1): False}),
        ("any", {(1, 0): True, (0, 2): None, (0, 3): False}),
        ("majority", {(2, 0): True, (1, 1): None, (0, 2): False}),
    ],
)
def test_missing_labels_count_only_where_they_could_decide(rule: Any, expected: Mapping[Any, bool | None]) -> None:
    assert {key: is_positive(rule, n_positives=key[0], n_negatives=key[1], n_aspects=3) for key in expected} == expected
    assert is_positive("majority", n_positives=2, n_negatives=2, n_aspects=4) is False  # half is no majority


def test_the_first_of_two_unknown_labels_is_positive() -> None:
    config = Judge(model="m", mode="pointwise", labels="zesty,dull", aspects="tone,facts", combine="any")

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        return completion(json.dumps({"label": "zesty" if "its tone" in prompt_of(body) else "dull"}))

    result = judge(TEXTS, config, client=client)
    assert result.labels.filter(aspect="")["label"].unique().to_list() == ["zesty"]
    assert [note.message for note in result.notes if note.rule == "first-label-positive"] == [
        "'zesty' counts as the positive label; in `custodes rates` give --positive zesty"
    ]


def test_the_request_names_the_labels() -> None:
    bodies: list[Mapping[str, Any]] = []

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        bodies.append(body)
        return completion('{"reason": "short", "label": "other topic"}')

    options: dict[str, Any] = {"structured": True, "reason": "first", "prompt": "dialogue"}
    config = Judge(model="m", mode="pointwise", labels="billing,returns,other topic", **options)
    result = judge(TEXTS.head(1), config, client=client)
    assert result.labels["label"].to_list() == ["other topic"]
    assert result.details["reason"].to_list() == ["short"]
    schema = bodies[0]["response_format"]["json_schema"]["schema"]["properties"]
    assert list(schema) == ["reason", "label"]
    assert schema["label"] == {"type": "string", "enum": ["billing", "returns", "other topic"]}
    assert "exactly one of these labels: billing, returns, other topic." in prompt_of(bodies[0])
    assert prompt_of(bodies[0]).endswith('"label":"returns"} or {"reason":"...","label":"other topic"}.')
    assert "Score it" not in prompt_of(bodies[0])


def test_other_labels_are_other_requests() -> None:
    def keys(**options: Any) -> frozenset[str]:
        judge = Judge(model="m", base_url="http://h", mode="pointwise", **options)
        return frozenset(request.key for request in planned(TEXTS.head(1), judge).requests)

    assert len({keys(labels=labels) for labels in ("pass,fail", "yes,no", "fail,pass", "")}) == 4
    both = {"aspects": "tone,facts", "labels": "pass,fail"}
    assert keys(**both) == keys(**both, combine="all")


@pytest.mark.parametrize(
    ("content", "labels", "label"),
    [
        ('{"label": "Fail"}', "pass,fail", "fail"),
        ("Answer: pass.", "pass,fail", "pass"),
        ('{"label": true}', "true,false", "true"),
        ('{"label": 1}', "0,1", "1"),
        ('{"label": "not resolved"}', "resolved,not resolved", "not resolved"),
        ("**Answer:** not resolved", "resolved,not resolved", "not resolved"),
        ('{"label": "output error"}', "output error,other", "output error"),
        ('{"label": "other (say what)"}', "good,other (say what)", "other (say what)"),
        ('{"label": "v2"}', "v1,v2", "v2"),
        ('{"label": 2}', "v1,v2", ""),
        ('{"label": "maybe"}', "pass,fail", ""),
        ('{"label": "pass or fail"}', "pass,fail", ""),
        ('{"label": ["pass"]}', "pass,fail", ""),
        ('{"label": true}', "pass,fail", ""),
        ('{"score": 4}', "pass,fail", ""),
        (LABELS.form, "pass,fail", ""),
        ('{"label": "pass"}\n{"label": "fail"}', "pass,fail", ""),
    ],
)
def test_replies(content: str, labels: str, label: str) -> None:
    answer = read_answer(completion(content), Judge(model="m", mode="pointwise", labels=labels), ())
    assert answer.label == label
    assert bool(answer.why) != bool(label)


def test_probabilities_are_scores_of_another_rater() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        words = ["pass", "fail"] if "tone" in outputs_of(body)[0] else ["fail", "pass"]
        reply = completion(json.dumps({"label": words[0]}))
        top = [{"token": word, "logprob": log(p)} for word, p in zip(words, (0.9, 0.1), strict=True)]
        tokens: list[dict[str, Any]] = [{"token": text} for text in ('{"label":"', words[0], '"}')]
        tokens[1] |= {"logprob": log(0.9), "top_logprobs": top}
        reply["choices"][0] |= {"message": {"content": "".join(token["token"] for token in tokens)}}
        reply["choices"][0]["logprobs"] = {"content": tokens}
        return reply

    config = Judge(model="m", mode="pointwise", labels="pass,fail", logprobs=True)
    result = judge(TEXTS, config, client=client)
    study = result.study()
    assert study.labels[""].scores == {"m@expected"}
    scores = study.ratings.frame.filter(rater="m@expected").sort("item")["score"].to_list()
    assert scores == pytest.approx([0.9, 0.9, 0.1, 0.9])
    human_labels = pl.DataFrame({"id": ["1", "2", "3", "4"], "expert": ["pass", "fail", "fail", "pass"]})
    both = cu.read(result.labels, human_labels)
    assert both.labels[""].scores == {"m@expected"}
    assert both.ratings.frame.filter(rater="m@expected").height == 4


def test_aspects_without_labels() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        return completion('{"label": "pass"}' if "Judge its tone" in prompt_of(body) else "no")

    assert judge(TEXTS, CRITERIA, client=client).study().aspects == ("tone",)
    result = judge(TEXTS, CRITERIA, client=lambda body: completion("no"))
    assert result.status == 1
    with pytest.raises(cu.InputError, match="no row has a label"):
        result.study()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"labels": "pass,fail", "mode": "pairwise"},
            "a pairwise judge answers A, B or tie; to ask about each output alone, set mode",
        ),
        ({"labels": "pass"}, "labels='pass': give 2 to 20 words"),
        ({"labels": [f"w{n}" for n in range(21)]}, "give 2 to 20 words"),
        ({"labels": "pass,fail,Pass"}, "labels must differ"),
        ({"labels": "not good,not-good"}, "labels must differ"),
        ({"labels": "good,n/a"}, "'n/a' is read as an empty cell"),
        ({"labels": "pass,yes"}, "give one of each"),
        ({"labels": "1,2,3"}, "labels must not be numbers"),
        ({"labels": "a\0,b"}, "single lines without NUL"),
        ({"labels": "pass,fail", "scale": "1-3"}, "scale='1-3' has no effect"),
        *(
            (values | {"combine": "all"}, "needs two labels and several aspects")
            for values in ({"labels": "pass,fail"}, {"labels": "a,b,c", "aspects": "x,y"}, {"aspects": "x,y"})
        ),
        ({"labels": "pass,fail", "combine": "most", "aspects": "x,y"}, "majority"),
        ({"labels": "kept,lost", "logprobs": True}, "need exactly two labels of a known pair"),
        ({"labels": "pass,fail", "examples": "people.csv:2"}, "cannot have examples"),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Judge(**{"model": "m", "mode": "pointwise", **values})
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("quick")
def test_files_that_rates_reads_without_options(custodes: Run, server: Server) -> None:
    passed = [bool((k % 7 + 1) % 3) for k in range(60)]
    human = [right and k % 5 > 0 for k, right in enumerate(passed)]
    pl.DataFrame({"item": range(60), "system": "app", "text": ["x" * (k % 7 + 1) for k in range(60)]}).write_csv(
        "texts.csv"
    )
    pl.DataFrame({"id": range(60), "expert": ["pass" if right else "fail" for right in human]}).write_csv("human.csv")
    server.answer = lambda request, attempts: says(
        json.dumps({"label": "pass" if len(outputs_of(request.body)[0]) % 3 else "fail"})
    )
    command = (
        "judge",
        "texts.csv",
        "--model",
        "m",
        "--base-url",
        server.url,
        "--mode",
        "pointwise",
        "-o",
        "labels.csv",
    )
    for options in (["pass,fail"], ["pass,fail", "--aspects", "tone,facts", "--combine", "all", "--repeats", "2"]):
        result = custodes(*command, "--labels", *options)
        assert result.status == 0, result.err
        assert "a label; " in result.err
        header = Path("labels.csv").read_text().splitlines()[0]
        assert header == "item,system,rater,kind,aspect,repeat,label,invalid"
        assert "app" in custodes("rates", "labels.csv").out
        (row,) = json.loads(custodes("rates", "labels.csv", "human.csv", "--format", "json").out)["judges"]
        assert row["accuracy"] == pytest.approx(np.mean(np.array(passed) == human))
    for option, message in (("--scale=1-5", "the judge gives labels"), ("--orders=ab", "the judge is pointwise")):
        refused(custodes(*command, "--labels", "pass,fail", option), message)
