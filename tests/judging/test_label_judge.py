"""Pointwise judges with labels: prompts, replies, combined labels and files that `rates` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.errors import OptionError
from custodes.judging.judge import Judge, is_positive
from custodes.judging.plan import JudgedTexts, plan_questions
from custodes.judging.probes import Probes
from custodes.judging.prompt import Prompt
from custodes.judging.replies import read_answer
from custodes.judging.run import judge
from tests.command_line import Run, custodes
from tests.judging.clients import completion, judging, outputs_of, prompt_of
from tests.judging.servers import Manner, Seen, Server, says

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
    assert result.labels.select("item", "aspect", "label", "invalid").rows() == [
        ("1", "tone", "pass", ""),
        ("1", "facts", "pass", ""),
        ("2", "tone", "pass", ""),
        ("2", "facts", "fail", ""),
        ("3", "tone", "fail", ""),
        ("3", "facts", "pass", ""),
        ("4", "tone", "pass", ""),
        ("4", "facts", None, "no-verdict"),
    ]
    assert (result.verdicts.height, result.ratings.height, result.answer_count) == (0, 0, 7)
    assert result.invalid_rows["item"].to_list() == ["4"]
    assert result.failures.row(0, named=True)["failures"] == 1
    assert result.raters.row(0, named=True)["signature"].split("|")[-2:] == ["labels:pass,fail", "reason:none"]
    study = result.study()
    assert study.aspects == ("tone", "facts")
    assert study.labels["tone"].words == ("fail", "pass")
    assert study.outputs is not None
    assert "invalid-label" in {note.rule for note in study.notes}
    assert study.attributes.columns == ["item", "system"]


@pytest.mark.parametrize(
    ("combine", "labels"),
    [
        ("all", ["pass", "fail", "fail", None]),
        ("any", ["pass", "pass", "pass", "pass"]),
        ("majority", ["pass", "fail", "fail", None]),
    ],
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
    ("rule", "positives", "negatives", "expected"),
    [
        ("all", 3, 0, True),
        ("all", 2, 0, None),
        ("all", 0, 1, False),
        ("any", 1, 0, True),
        ("any", 0, 2, None),
        ("any", 0, 3, False),
        ("majority", 2, 0, True),
        ("majority", 1, 1, None),
        ("majority", 0, 2, False),
    ],
)
def test_missing_labels_count_only_where_they_could_decide(
    rule: Any, positives: int, negatives: int, expected: bool | None
) -> None:
    assert is_positive(rule, positives=positives, negatives=negatives, aspects=3) is expected
    # half is no majority
    assert is_positive("majority", positives=2, negatives=2, aspects=4) is False


def test_the_first_of_two_unknown_labels_is_positive() -> None:
    config = Judge(model="m", mode="pointwise", labels="zesty,dull", aspects="tone,facts", combine="any")
    words = {"tone": "zesty", "facts": "dull"}

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        return completion(json.dumps({"label": words["tone" if "its tone" in prompt_of(body) else "facts"]}))

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
    texts = JudgedTexts(outputs={"1": {"app": "text"}}, materials={})

    def keys(**options: Any) -> set[str]:
        prompt = Prompt.load(Judge(model="m", mode="pointwise", **options))
        questions, *_ = plan_questions(
            texts, prompt, "x", pairs="all", orders="both", repeats=1, seed=0, examples_of_aspect={}, probes=Probes()
        )
        return {question.request.key for question in questions}

    one, other, turned, scores = keys(labels="pass,fail"), keys(labels="yes,no"), keys(labels="fail,pass"), keys()
    assert len(one | other | turned | scores) == 4
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
        reply = judging(lambda text: "pass" if "tone" in text else "fail", "label")(body)
        word = json.loads(reply["choices"][0]["message"]["content"])["label"]
        chance = {"pass": -0.1054, "fail": -2.3026} if word == "pass" else {"pass": -2.3026, "fail": -0.1054}
        top = [{"token": name, "logprob": log} for name, log in chance.items()]
        tokens = [
            {"token": '{"label": "', "logprob": 0.0, "top_logprobs": []},
            {"token": word, "logprob": chance[word], "top_logprobs": top},
            {"token": '"}', "logprob": 0.0, "top_logprobs": []},
        ]
        reply["choices"][0]["logprobs"] = {"content": tokens}
        return reply

    config = Judge(model="m", mode="pointwise", labels="pass,fail", logprobs=True)
    result = judge(TEXTS, config, client=client)
    study = result.study()
    assert study.labels[""].scores == {"m@expected"}
    scores = study.ratings.frame.filter(rater="m@expected").sort("item")["score"].to_list()
    assert scores == pytest.approx([0.9, 0.9, 0.1, 0.9], abs=1e-3)
    human_labels = pl.DataFrame({"id": ["1", "2", "3", "4"], "expert": ["pass", "fail", "fail", "pass"]})
    both = cu.read(result.labels, human_labels)
    assert both.labels[""].scores == {"m@expected"}
    assert both.ratings.frame.filter(rater="m@expected").height == 4


def test_no_label_at_all() -> None:
    result = judge(TEXTS, CRITERIA, client=lambda body: completion("no"))
    assert result.status == 1
    with pytest.raises(cu.InputError, match="no row has a label"):
        result.study()


def test_an_aspect_without_labels() -> None:
    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        return completion('{"label": "pass"}' if "Judge its tone" in prompt_of(body) else "no")

    assert judge(TEXTS, CRITERIA, client=client).study().aspects == ("tone",)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"labels": "pass,fail", "mode": "pairwise"}, "a pairwise judge answers A, B or tie"),
        ({"labels": "pass"}, "1 labels are given; give 2 to 20 words"),
        ({"labels": [f"w{n}" for n in range(21)]}, "21 labels are given; give 2 to 20 words"),
        ({"labels": "pass,fail,Pass"}, "labels must differ"),
        ({"labels": "not good,not-good"}, "labels must differ"),
        ({"labels": "good,n/a"}, "'n/a' means an empty cell"),
        ({"labels": "pass,yes"}, "give one of each"),
        ({"labels": "pass,fail,bad"}, "give one of each"),
        ({"labels": "1,2,3"}, "labels must not be numbers"),
        ({"labels": "a\0,b"}, "single lines without NUL"),
        ({"labels": "pass,fail", "scale": "1-3"}, "scale='1-3' has no effect"),
        ({"labels": "pass,fail", "combine": "all"}, "needs two labels and several aspects"),
        ({"labels": "a,b,c", "combine": "all", "aspects": "x,y"}, "needs two labels and several aspects"),
        ({"combine": "all", "aspects": "x,y"}, "needs two labels and several aspects"),
        ({"labels": "pass,fail", "combine": "most", "aspects": "x,y"}, "majority"),
        ({"labels": "kept,lost", "logprobs": True}, "need exactly two labels of a known pair"),
        ({"labels": "a,b,c", "logprobs": True}, "need exactly two labels of a known pair"),
        ({"labels": "pass,fail", "examples": "people.csv:2"}, "cannot have examples"),
    ],
)
def test_what_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message) as caught:
        Judge(**{"model": "m", "mode": "pointwise", **values})
    assert "\n" not in str(caught.value)


def by_length(request: Seen, attempts: int) -> Manner:
    label = "pass" if len(outputs_of(request.body)[0]) % 3 else "fail"
    return says(json.dumps({"label": label}))


@pytest.mark.usefixtures("quick")
def test_files_that_rates_reads_without_options(custodes: Run, server: Server) -> None:
    n = 60
    rows = [{"item": str(k), "system": "app", "text": "x" * (k % 7 + 1)} for k in range(n)]
    pl.DataFrame(rows).write_csv("texts.csv")
    human = ["pass" if (k % 7 + 1) % 3 and k % 5 else "fail" for k in range(n)]
    pl.DataFrame({"id": range(n), "expert": human}).write_csv("human.csv")
    server.answer = by_length
    command = ("judge", "texts.csv", "--model", "m", "--base-url", server.url, "--mode", "pointwise", "--labels")
    for options in (["pass,fail"], ["pass,fail", "--aspects", "tone,facts", "--combine", "all", "--repeats", "2"]):
        result = custodes(*command, *options, "-o", "labels.csv")
        assert result.status == 0, result.err
        assert "a label; " in result.err
        header = Path("labels.csv").read_text().splitlines()[0]
        assert header == "item,system,rater,kind,aspect,repeat,label,invalid"
        alone = custodes("rates", "labels.csv")
        assert alone.status == 0, alone.err
        assert "app" in alone.out
        both = custodes("rates", "labels.csv", "human.csv", "--format", "json")
        assert both.status == 0, both.err
        (row,) = json.loads(both.out)["judges"]
        truth = [("pass" if (k % 7 + 1) % 3 else "fail") == human[k] for k in range(n)]
        assert row["accuracy"] == pytest.approx(sum(truth) / n)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mode", "pointwise", "--labels", "pass,fail", "--scale", "1-5"), "the judge gives labels"),
        (("--mode", "pointwise", "--labels", "pass,fail", "--orders", "ab"), "the judge is pointwise"),
    ],
)
def test_what_the_command_refuses(custodes: Run, server: Server, words: tuple[str, ...], message: str) -> None:
    TEXTS.write_csv("texts.csv")
    result = custodes("judge", "texts.csv", "--model", "m", "--base-url", server.url, "-o", "labels.csv", *words)
    assert result.status == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert not server.seen
