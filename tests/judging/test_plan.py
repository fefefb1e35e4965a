"""The plan of a judging run: pairs, orders, repeats, custom prompts, images and examples."""

from __future__ import annotations

import base64
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.errors import CustodesError, InputError, OptionError
from custodes.judging.judge import Judge
from custodes.judging.plan import JudgingPlan
from custodes.judging.prompt import image_part
from custodes.judging.run import judge
from tests.judging.clients import completion, judging, longer, outputs_of, planned, prompt_of

ITEMS, SYSTEMS = [str(number) for number in range(12)], ["W", "X", "Y", "Z"]
TEXTS = pl.DataFrame(
    [
        {"item": item, "system": system, "text": f"{system} " + "of " * (2 + place) + item, "source": f"Source {item}"}
        for item in ITEMS
        for place, system in enumerate(SYSTEMS)
    ]
)


def plan(texts: Any = TEXTS, config: Judge | None = None, **args: Any) -> JudgingPlan:
    return planned(texts, config, **args)


def configured(**options: Any) -> Judge:
    return Judge(model="m", base_url="http://h/v1", **options)


def asked(judging_plan: JudgingPlan) -> Counter[tuple[str, tuple[str, ...]]]:
    return Counter((question.item, question.systems) for question in judging_plan.questions)


def test_pairs_orders_and_repeats(tmp_path: Path) -> None:
    result = plan(repeats=2)
    assert asked(result) == Counter(dict.fromkeys(product(ITEMS, combinations(SYSTEMS, 2)), 2 * 2))
    assert len({question.request.key for question in result.questions}) == 288
    assert {pair for _, pair in asked(plan(pairs="vs:X"))} == {("W", "X"), ("X", "Y"), ("X", "Z")}
    (tmp_path / "pairs.csv").write_text("item,system_a,system_b\n3,Z,W\n4,X,Y\n")
    assert set(asked(plan(pairs=str(tmp_path / "pairs.csv")))) == {("3", ("W", "Z")), ("4", ("X", "Y"))}
    texts = TEXTS.filter((pl.col("system") != "X") | (pl.col("item") != "1")).filter(pl.col("system").is_in(["X", "Y"]))
    assert [note.rule for note in plan(texts).notes] == ["one-output"]


def test_a_sample_is_balanced_and_does_not_follow_the_file() -> None:
    result = plan(pairs="sample:5", orders="ab")
    assert Counter(pair for _, pair in asked(result)) == dict.fromkeys(combinations(SYSTEMS, 2), 5)
    assert [note.message for note in result.notes] == ["5 of 12 items are judged for each pair of systems"]
    assert asked(plan(TEXTS.reverse(), pairs="sample:5", orders="ab")) == asked(result)
    assert asked(plan(pairs="sample:5", orders="ab", rng=1)) != asked(result)
    assert len({item for item, _ in asked(result)}) > 5  # a separate draw for each pair
    assert [note.rule for note in plan(pairs="sample:20").notes] == ["short-sample"]


def test_random_orders_are_balanced_and_fixed() -> None:
    orders, again = ([question.order for question in plan(orders="random", repeats=4).questions] for _ in range(2))
    assert orders == again
    assert set(orders) == {"ab", "ba"}
    assert abs(orders.count("ab") - 144) < 3 * (288 / 4) ** 0.5  # three standard deviations of a fair coin


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("vs:Xx", r"there is no system 'Xx' \(did you mean 'X'\?\)"),
        *((word, "pairs=") for word in ("al", "sample:0", "sample:1.5")),
        ("item,system_a,system_b\n3,W,Z\n3,Z,V\n", "row 2 needs an output of 'V' for item '3', and there is none"),
        ("item,system_a,system_b\n99,Z,W\n", "row 1 needs an output of 'Z' for item '99', and there is none"),
        ("item,system_a,system_b\n3,Z,Z\n", "row 1 compares 'Z' with itself"),
        ("item,system_a,system_b\n3,Z,W\n3,W,Z\n", "the same comparison occurs twice, in rows 1, 2"),
        ("item,system_a,system_b\n", r"pairs\.csv: the table has a header and no rows; give at least one row"),
    ],
)
def test_pairs_that_cannot_be_asked(tmp_path: Path, pairs: str, message: str) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(pairs)
    with pytest.raises((InputError, OptionError), match=message):
        plan(pairs=str(path) if "\n" in pairs else pairs)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": ""}, "name the model"),
        ({"mode": "pairs"}, "mode='pairs'; allowed: pairwise, pointwise"),
        ({"mode": "pointwise", "scale": "5-1"}, "scale='5-1' is not allowed; give LOW-HIGH"),
        ({"mode": "pointwise", "scale": "1-5:0.3"}, "give LOW-HIGH"),
        ({"mode": "pointwise", "scale": "0-1:0"}, "give LOW-HIGH"),
        ({"scale": "1-7"}, "has no effect"),
        ({"aspects": ("a", "a: other")}, "names must differ"),
        ({"aspects": ("a", ": what it means")}, "names must differ"),
        ({"sampling": {"model": "x"}}, "sampling='model': must be set by a separate argument"),
        ({"sampling": {"temperature": object()}}, "cannot be written as JSON"),
        ({"sampling": 3}, "sampling=3: give values by name"),
        ({"examples": "x:2", "reason": "first"}, "examples: the human verdicts have no reasons.*reason='none'"),
        ({"prompt": "feedback"}, "prompt='feedback' asks for a reason in the form of feedback; set reason='first'"),
        ({"references": -1}, "references=-1"),
        ({"logprobs": "yes"}, "logprobs='yes': must be True or False"),
        ({"name": "\ud800"}, "characters that cannot be written to a file"),
        ({"name": "a\0"}, r"name='a\\x00': names of judges and aspects must not contain NUL"),
    ],
)
def test_judges_that_cannot_be(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Judge(**{"model": "m", **values})


def test_only_what_is_set_is_sent() -> None:
    body = plan().requests[0].body
    assert set(body) == {"model", "messages"}
    full = configured(structured=True, logprobs=True, sampling={"temperature": 0, "seed": 1})
    body = plan(config=full).requests[0].body
    assert {name: body[name] for name in ("temperature", "seed", "logprobs", "top_logprobs")} == {
        "temperature": 0,
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 20,
    }
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"] == {"verdict": {"type": "string", "enum": ["A", "B", "tie"]}}


def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("Which is shorter?\n{{ a }}\n{{ b }}\nFor {{ source.text }}. {{ form }}")
    result = plan(config=configured(prompt=str(path)))
    text = prompt_of(result.requests[0].body)
    assert text.startswith("Which is shorter?\n<output-A-")
    assert "For Source 0." in text
    before = result.prompt.digest
    path.write_text("Which is better?\n{{ a }}\n{{ b }}")
    assert plan(config=configured(prompt=str(path))).prompt.digest != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ a }} {{ b }} {{ refrence }}", "refrence is unknown.*variables of a pairwise prompt: mode, aspect"),
        ("{{ a }} {{ b", "line 1"),
        ("{{ a }} {% endif %}", "line 1"),
        ("{{ a }}", r"does not contain \{\{ b \}\}, so the judge would not see the text; add this variable"),
        ("{{ a }} {{ b }} {{ a.nothing }}", "nothing"),
        ("{{ a }} {{ b }} {{ 1 / 0 }}", "division"),
        ("{{ a }} {{ b }} {{ a.__class__.__mro__ }}", "unsafe"),
        ("{{ a }} {{ b }} {% for i in range(10 ** 9) %}{% endfor %}", "[Rr]ange"),
        ('{{ a }} {{ b }} {% include "/etc/hostname" %}', "hostname"),
        ('{{ a }} {{ b }} {% include "../judge.py" %}', "judge.py"),
    ],
)
def test_prompts_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text(text)
    with pytest.raises((InputError, OptionError), match=message):
        plan(config=configured(prompt=str(path)))
    with pytest.raises(OptionError, match="did you mean 'summary'"):
        plan(config=configured(prompt="sumary"))
    with pytest.raises(InputError, match="no such file"):
        plan(config=configured(prompt="no.jinja"))


DEEP = {
    "brackets": f"{{{{ {'(' * 100_000}1{')' * 100_000} }}}}",
    "loops": "{% for x in [1] %}" * 30 + "{% endfor %}" * 30,
    "sums": f"{{{{ {'+'.join(['1'] * 20_000)} }}}}",
    "includes itself": '{% include "mine.jinja" %}',
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_prompt_that_is_nested_too_deeply_is_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.jinja").write_text("{{ a }}{{ b }}" + text)
    with pytest.raises(CustodesError) as error:
        plan(config=configured(prompt="mine.jinja"))
    assert re.fullmatch(
        "prompt mine.jinja: .*nested too deeply or do not terminate; correct the template", str(error.value)
    )
    assert len(str(error.value)) < 250


PEOPLE = pl.DataFrame(
    [
        {"item": item, "system": system, "rater": "ann", "kind": "human", "score": (int(item) + place) % 5 + 1}
        for item in ITEMS
        for place, system in enumerate(SYSTEMS)
    ]
)


def test_examples_are_shown_first_and_not_judged() -> None:
    human_study = cu.read(PEOPLE)
    config = configured(examples=(human_study, 3))
    result = plan(config=config)
    items = {question.item for question in result.questions}
    assert len(items) == 9
    note = next(note for note in result.notes if note.rule == "examples")
    assert set(note.message.rpartition(": ")[2].split(", ")) == set(ITEMS) - items
    heads = {json.dumps(question.body["messages"][:-1]) for question in result.requests}
    assert len(heads) == 1  # identical, so that servers can cache the prefix
    messages = json.loads(heads.pop())
    assert [message["role"] for message in messages] == ["user", "assistant"] * 3
    verdicts = Counter(json.loads(message["content"])["verdict"] for message in messages[1::2])
    assert max(verdicts.values()) == 1 + (len(verdicts) < 3)  # balanced
    scores = {(row["item"], row["system"]): row["score"] for row in PEOPLE.iter_rows(named=True)}
    texts = {row["text"]: (row["item"], row["system"]) for row in TEXTS.iter_rows(named=True)}
    for prompt, answer in zip(messages[::2], messages[1::2], strict=True):
        a, b = (scores[texts[text]] for text in outputs_of({"messages": [prompt]}))
        assert json.loads(answer["content"])["verdict"] == ("tie" if a == b else "A" if a > b else "B")
    assert result.options["judge"].examples == "table:3"
    assert result.examples.startswith("3:")
    assert result.examples == plan(config=config).examples != plan(config=config, rng=1).examples


def test_examples_of_scores_by_aspect(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    both = [PEOPLE.with_columns(pl.lit(aspect).alias("aspect")) for aspect in ("wit", "sense")]
    pl.concat(both).write_csv(path)
    config = configured(mode="pointwise", aspects=("wit", "sense"), examples=f"{path}:5")
    result = plan(config=config)
    messages = result.requests[0].body["messages"]
    assert sorted(json.loads(message["content"])["score"] for message in messages[1:-1:2]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ("people.csv:0", "give STUDY:K"),
        ("no.csv:3", "no such file"),
        (3, "give STUDY:K"),
        ((cu.read(PEOPLE.with_columns(kind=pl.lit("metric"))), 2), r"no human ratings, as every rater is a metric"),
        ((cu.read(PEOPLE), 50), "50 items are requested, but .* has only 12 items with texts and human verdicts"),
        ((cu.read(PEOPLE), 12), "examples use all 12 items"),
        ((cu.read(PEOPLE.with_columns(item=pl.col("item") + "x")), 2), "has only 0 items"),
    ],
)
def test_examples_that_cannot_be(examples: Any, message: str) -> None:
    with pytest.raises((InputError, OptionError), match=message):
        plan(config=configured(examples=examples))
    scorer = configured(mode="pointwise", scale="1-3", examples=(cu.read(PEOPLE), 2))
    with pytest.raises(InputError, match="examples: the human score 4 of system 'Z' lies outside scale='1-3'"):
        plan(config=scorer)


def test_references_are_shown_where_they_are_asked_for() -> None:
    texts = TEXTS.with_columns(references=pl.lit('["Ref one", "Ref two"]'))
    assert "Ref one" not in prompt_of(plan(texts).requests[0].body)
    prompt = prompt_of(plan(texts, configured(references=1)).requests[0].body)
    assert "Ref one" in prompt
    assert "Ref two" not in prompt
    with pytest.raises(InputError, match="no item has a reference"):
        plan(config=configured(references=1))


def test_without_an_address_or_a_client_nothing_is_asked() -> None:
    with pytest.raises(InputError, match="only one system .X.*pointwise"):
        plan(TEXTS.filter(pl.col("system") == "X"))
    with pytest.raises(OptionError, match="base_url=''"):
        judge(TEXTS, Judge(model="m"))
    with pytest.raises(
        InputError, match="there are no texts of outputs; give outputs with the columns item, system, text"
    ):
        judge(PEOPLE, Judge(model="m"), client=judging(longer))
    with pytest.raises(OptionError, match="own_system='Q': no such system"):
        judge(TEXTS, Judge(model="m", own_system="Q"), client=judging(longer))
    with pytest.raises(OptionError, match="client=3"):
        judge(TEXTS, Judge(model="m"), client=3)
    with pytest.raises(OptionError, match="the price of 'm' is unknown"):
        judge(TEXTS, Judge(model="m"), client=judging(longer), max_cost=1.0)


@pytest.mark.parametrize("sampling", [{}, {"max_tokens": -1}, {"max_tokens": "many"}, {"max_completion_tokens": 0}])
def test_a_budget_wants_a_bound_of_the_answers(sampling: dict[str, Any]) -> None:
    args: dict[str, Any] = {"client": judging(longer), "price": [1, 1]}
    with pytest.raises(
        OptionError,
        match=r"^max_cost=1: the length of a reply has no limit.* with --sampling max_tokens=500 \(in Python ",
    ):
        judge(TEXTS, Judge(model="m", sampling=sampling), max_cost=1.0, **args)
    assert judge(TEXTS, Judge(model="m", sampling={"max_completion_tokens": 9}), max_cost=1.0, **args).status == 0


@pytest.mark.usefixtures("quick")
def test_tries_that_broke_off_count_in_the_second_round_too() -> None:
    attempts: list[int] = []

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        attempts.append(1)
        if len(attempts) in (1, 3):  # charged, but lost
            raise TimeoutError
        return completion("I wonder.", usage={"prompt_tokens": 0, "completion_tokens": 10})

    # At most $10 per try; three requests with five tries cost $50. Of $79, $29 are left: two more.
    config = Judge(model="m", sampling={"max_tokens": 10})
    three = TEXTS.head(3)
    judge(three, config, client=client, max_cost=79.0, price=[0, 1e6], concurrency=1, orders="ab")
    assert len(attempts) == 7


def test_an_image_that_was_changed_is_sent_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    for content in (b"one", b"two"):  # same size
        path.write_bytes(content)
        os.utime(path, ns=(content[0], content[0]))
        url = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        assert image_part(str(path))["image_url"]["url"] == url
    path.unlink()
    with pytest.raises(InputError):
        image_part(str(path))
