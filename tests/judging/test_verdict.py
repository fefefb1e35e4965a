"""Parsing of replies: verdicts, scores, reasons, probabilities and reasons for failure."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.judging.judge import Judge
from custodes.judging.prompt import ItemTexts, Prompt
from custodes.judging.replies import ReadReply, read_answer
from tests.judging.clients import completion

PAIR = Judge(model="m")
SCORE = Judge(model="m", mode="pointwise")


def reply_of(content: str, judge: Judge = PAIR, outputs: tuple[str, ...] = ("one", "two"), **more: Any) -> ReadReply:
    return read_answer(completion(content, **more), judge, outputs)


READ = {
    "A": [
        *('{"verdict": "A"}', '[{"verdict": "A"}]', '{"verdict": "A"}</s>', "[[A]]", "\\boxed{A}", '{"Verdict": "A"}'),
        *('{"verdict": "A"} as B is empty, and A is not.', '{"verdict": "A"} A is better than B.'),
        *('{"verdict": "A"}\nI prefer it, since it is short.', '{"verdict": "Output A"}'),
    ],
    "tie": ['{"verdict": "Tie"}', "**tie**", '{"verdict": "tie."}', "**Final verdict:** tie", "$\\boxed{\\text{tie}}$"],
    "B": [
        *('```json\n{"verdict": "B"}\n```', '{"verdict": "A"}\nNo: the second one.\n{"verdict": "B"}', " B.\n"),
        '```json\n{"verdict": "A"}\n```\nOn a second look B is better:\n```json\n{"verdict": "B"}\n```\n',
        *('{"verdict": "B"} It is longer.', '{"verdict": "B"} - it is longer', 'My verdict: {"verdict": "B"}.'),
        *('B says more than A, so it is no tie.\n\n{"verdict": "B"}', 'I say {"verdict": "B"}\n\n{"verdict": "B"}'),
        *('<think>Perhaps {"verdict": "A"}?</think>{"verdict": "B"}', 'Perhaps {"verdict": "A"}?</think>\n\nB'),
        '{"reason": "It says {\\"verdict\\": \\"A\\"} and </think>", "verdict": "B"}',
        *('{"verdict": "B", "reason": "It says \\"verdict\\": \\"A\\""}', '{"verdict": "Next turn B"}'),
        *(
            '{"verdict": "**B**"}',
            "Answer: B",
            "Answer: [[B]]",
            "**Label:** B",
            "Result: B",
            "<think>A?</think>Answer: B",
        ),
    ],
}


@pytest.mark.parametrize(("content", "label"), [(content, label) for label in READ for content in READ[label]])
def test_verdicts(content: str, label: str) -> None:
    assert reply_of(content).label == label


UNREAD = {
    "empty": ["", " \n"],
    "no-verdict": [
        *("I like both of them.", "A is good and B is bad", '{"answer": "A"}', "I cannot help with that."),
        *('{"verdict": "A", "verdict": "B"}', '{"verdict": "A", "Verdict": "B"}', '<think>{"verdict": "A"}'),
        *('Perhaps {"verdict": "A"}?</think> I cannot say.', '{"verdict": "A"', "Answer: A or B"),
        *(
            "{" * 5000 + '{"verdict": "A"}',
            '{"verdict": "A"}' + " " * 300_000 + "x",
            '{"a":' * 3000 + '{"verdict": "A"}',
        ),
    ],
    "label": [
        *('{"verdict": "C"}', '{"verdict": "Output C"}', '{"verdict": "A or B"}', '{"verdict": "A/2"}'),
        *('{"verdict": null}', '{"verdict": ["A"]}', '{"verdict": {"verdict": "A"}}'),
    ],
}


@pytest.mark.parametrize(("content", "why"), [(content, why) for why in UNREAD for content in UNREAD[why]])
def test_no_verdict(content: str, why: str) -> None:
    answer = reply_of(content)
    assert (answer.label, answer.why, answer.reason) == ("", why, content.strip())


MENU = '{"verdict":"A"}, {"verdict":"B"} or {"verdict":"tie"}.'


SEVERAL = [
    *(MENU, PAIR.form, Judge(model="m", reason="first").form, '{"verdict":"A"}, "B" or "tie"'),
    Prompt.load(PAIR).fill_template("", ItemTexts(source="Why?"), "One.", "Two."),
    *('{"verdict":"A"} or {"verdict":"B"}', '{"verdict":"A"}\nor\n{"verdict":"B"}', '{"verdict":"tie"}\n\nAnswer: B'),
    *('- {"verdict":"A"}\n- {"verdict":"B"}\n- {"verdict":"tie"}', '[{"verdict":"A"},{"verdict":"B"}]'),
    '```json\n{"verdict":"A"}\n```\n```json\n{"verdict":"B"}\n```',
    'If A is better:\n{"verdict":"A"}\nIf B is better:\n{"verdict":"B"}\nIf neither is:\n{"verdict":"tie"}',
    *('{"verdict":"A"} if A is better\n{"verdict":"B"} if B is better', '{"verdict":"A"} would be wrong.'),
    'If A is better: {"verdict":"A"}\nIf B is better: {"verdict":"B"}',
    *('{"verdict":"A"} No: the second one. {"verdict":"B"}', 'I say {"verdict":"A"} rather than {"verdict":"B"}'),
    *('{"verdict":"tie"} is what one could say, but B is better, so: B', '{"verdict":"A"} No: B is better.'),
]


@pytest.mark.parametrize("content", SEVERAL)
def test_several_verdicts_are_none(content: str) -> None:
    answer = reply_of(content)
    assert (answer.label, answer.why) == ("", "no-verdict")


TURNED = {"A": "B", "B": "A", "tie": "tie"}
PIECES = ["{A}", "{B}", "{tie}", "A", "B", "tie", " ", "\n", ", ", " or ", ".", "Answer: ", " is better", "because "]


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_a_reply_with_a_and_b_changed_has_the_other_verdict(pieces: list[str]) -> None:
    def reply_text(turned: bool) -> str:
        names = TURNED if turned else {name: name for name in TURNED}
        forms = {f"{{{name}}}": json.dumps({"verdict": second}) for name, second in names.items()}
        return "".join({**forms, **names}.get(piece, piece) for piece in pieces)

    first, second = reply_of(reply_text(False)), reply_of(reply_text(True))
    assert (TURNED.get(first.label, ""), first.why) == (second.label, second.why)


@given(
    st.permutations(["A", "B", "tie"]), st.lists(st.sampled_from([", ", " or ", "\n", ": ", "\nElse:\n"]), min_size=4)
)
def test_a_reply_that_holds_all_verdicts_alike_has_none(labels: list[str], between: list[str]) -> None:
    menu = [json.dumps({"verdict": label}) for label in labels]
    assert reply_of(f"{between[3]}{menu[0]}{between[0]}{menu[1]}{between[1]}{menu[2]}{between[2]}").why == "no-verdict"


def test_what_the_server_says_counts_more_than_what_can_be_parsed() -> None:
    good = '{"verdict": "A"}'
    assert reply_of(good, finish="length").why == "truncated"
    assert reply_of(good, finish="content_filter").why == "filtered"
    refused = completion(good)
    refused["choices"][0]["message"]["refusal"] = "I will not."
    assert read_answer(refused, PAIR, ()).why == "refusal"
    assert read_answer(refused, PAIR, ()).reason == "I will not."


def test_content_in_parts() -> None:
    body = completion("")
    body["choices"][0]["message"]["content"] = [{"type": "text", "text": '{"verdict":'}, {"text": ' "A"}'}, None]
    assert read_answer(body, PAIR, ()).label == "A"


SCORES = {
    "3": ['{"score": "3"}'],
    "4": ['{"score": 4}', '{"score": 4.0}', '{"score": "4/5"}', "Score: 4", "4 out of 5."],
    "5": ["5", "5."],
    "": [
        *('{"score": 3.5}', '{"score": 6}', '{"score": true}', '{"score": "4/10"}', '{"score": "45/5"}'),
        *('{"score": 1' + "0" * 400 + "}", '{"score": -1' + "0" * 400 + "}", '{"score": NaN}', '{"score": 1e400}'),
    ],
}


@pytest.mark.parametrize(("content", "label"), [(content, label) for label in SCORES for content in SCORES[label]])
def test_scores(content: str, label: str) -> None:
    answer = reply_of(content, SCORE)
    assert (answer.label, answer.why) == (label, "" if label else "label")


@pytest.mark.parametrize(
    ("content", "label"),
    [(".5", "0.5"), (".5.", "0.5"), ("0.5.", "0.5"), ("5.", "5"), ("-.5", "-0.5"), ("**-0.5**", "-0.5")],
)
def test_a_point_before_digits_is_no_full_stop(content: str, label: str) -> None:
    half = Judge(model="m", mode="pointwise", scale="-1-10:0.5")
    assert half.answers[:4] == ("-1", "-0.5", "0", "0.5")
    assert reply_of(content, half).label == label
    assert reply_of(json.dumps({"score": content}), half).label == label


def test_reasons() -> None:
    assert reply_of('{"reason": "short", "verdict": "A"}').reason == "short"
    assert reply_of('<think>hidden</think>B is longer.\n{"verdict": "A"}').reason == "B is longer"


def logprobs(tokens: list[str], place: int, top: dict[str, float]) -> dict[str, Any]:
    """Return the tokens of an answer, with the alternatives of one of them."""
    content: list[dict[str, Any]] = [{"token": token, "logprob": -0.1, "top_logprobs": []} for token in tokens]
    content[place]["logprob"] = math.log(top[tokens[place]])
    content[place]["top_logprobs"] = [{"token": token, "logprob": math.log(chance)} for token, chance in top.items()]
    return {"content": content}


def chances(tokens: list[str], place: int, top: dict[str, float], judge: Judge) -> Any:
    body = completion("".join(tokens))
    body["choices"][0]["logprobs"] = logprobs(tokens, place, top)
    return read_answer(body, judge, ()).chances


PROBABILITIES = Judge(model="m", logprobs=True)
TOP = {"A": 0.1, "B": 0.6, "tie": 0.3}


@pytest.mark.parametrize(
    ("tokens", "place", "top", "expected"),
    [
        # The unconstrained model prefers another token: .6 of the probability is for no label.
        (['{"', "verdict", '":', ' "', "A", '"}'], 4, {"The": 0.6, "A": 0.04, "B": 0.24, "t": 0.04, "tie": 0.08}, TOP),
        (["A"], 0, {"A": 0.9, "B": 0.1}, None),  # a label is missing
        (['{"verdict":', ' "A', '"}'], 1, {' "A': 0.1, ' "B': 0.6, ' "tie': 0.3}, TOP),  # the quote is in the token
        (["Answer", ":", " ", "B"], 3, TOP, TOP),
        (["Answer", ":", " B"], 0, {"Answer": 0.5, **TOP}, None),
        (['{"Verdict": "', "Output ", "B", '"}'], 2, TOP, TOP),
    ],
)
def test_probabilities_are_those_of_the_labels(
    tokens: list[str], place: int, top: dict[str, float], expected: dict[str, float] | None
) -> None:
    result = chances(tokens, place, top, PROBABILITIES)
    assert result == (expected and pytest.approx(expected))


def test_a_number_that_begins_another_is_not_taken_for_it() -> None:
    config = Judge(model="m", mode="pointwise", scale="1-10", logprobs=True)
    top = {str(number): 0.1 for number in range(1, 10)}
    assert chances(['{"score":', " 1", "0", "}"], 1, {" 1": 0.1, **top}, config) is None
    assert chances(["7"], 0, {**top, "10": 0.1}, config) == pytest.approx(dict.fromkeys(config.answers, 0.1))


@pytest.mark.parametrize("count", [10**400, 2**40 + 1, -1, True, 1.5])
def test_impossible_counts_of_tokens_are_unknown(count: Any) -> None:
    answer = reply_of('{"verdict": "A"}', usage={"prompt_tokens": count, "completion_tokens": count})
    assert (answer.label, answer.model, answer.tokens_in, answer.tokens_out) == ("A", "test-1", None, None)
    assert reply_of("A", usage={"prompt_tokens": 2**40}).tokens_in == 2**40


FIELDS = ["choices", "message", "content", "text", "refusal", "finish_reason", "model", "usage", "prompt_tokens"]
FIELDS += ["completion_tokens", "logprobs", "top_logprobs", "token", "logprob"]
ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(st.characters(), max_size=9)
    | st.sampled_from(
        ["A", '{"verdict":"A"}', '{"reason":"\\ud800","score":4}', "\ud800", "stop", 10**400, -(10**400)]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


def changed(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a body with another value at a path."""
    if not path:
        return value
    result = copy.copy(body)
    result[path[0]] = changed(body[path[0]], path[1:], value)
    return result


FULL = completion("A")
FULL["choices"][0]["logprobs"] = logprobs(["A"], 0, {"A": 0.5, "B": 0.3, "tie": 0.2})
FULL["choices"][0]["message"]["refusal"] = None


def places(value: Any) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, child in inner for rest in places(child))]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(places(FULL)), ODD, st.sampled_from(["pairwise", "pointwise"]))
def test_any_json_is_an_answer_that_can_be_written(path: tuple[Any, ...], value: Any, mode: Any) -> None:
    answer = read_answer(changed(FULL, path, value), Judge(model="m", mode=mode, logprobs=True), ("one",))
    assert bool(answer.label) != bool(answer.why)
    row = {**dataclasses.asdict(answer), "chances": list((answer.chances or {}).values())}
    pl.DataFrame([row]).write_ndjson(io.BytesIO())


TEXT = st.text(st.sampled_from('{}":,AB \nverdict\\`></think[]tie'), max_size=60)


@given(TEXT, st.sampled_from(["A", "B", "tie"]))
def test_whatever_a_reason_quotes_the_verdict_counts(quoted: str, label: str) -> None:
    assert reply_of(json.dumps({"reason": quoted, "verdict": label}), outputs=(quoted, "two")).label == label


@given(TEXT, st.sampled_from(["A", "B", "tie"]))
def test_what_comes_after_quoting_counts(quoted: str, label: str) -> None:
    """After unescaped quotes in prose, only the verdict on the last line may count."""
    answer = reply_of(f'It says: {quoted}\nSo:\n{{"verdict": "{label}"}}', outputs=(quoted, "two"))
    assert answer.label in (label, "")
