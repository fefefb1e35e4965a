"""Parsing of replies: the answer of a judge, or the reason for a missing answer. Replies are stored unparsed and are
parsed again in each run."""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from custodes.judging.judge import REASON, Judge
from custodes.judging.requests import reported_tokens, without_surrogates
from custodes.strict_json import reject_duplicate_keys

Why = Literal["refusal", "filtered", "truncated", "empty", "no-verdict", "label"]
"""Reasons for a missing answer: the model refused; a filter removed the reply; the reply was truncated; the reply is
empty; the reply has no verdict; or the verdict is not among the allowed ones."""

UNREAD: Mapping[str, Why] = {"content_filter": "filtered", "length": "truncated"}
"""Reason for a missing answer, for each `finish_reason` of the server. A truncated reply is not parsed, because its end
may change the verdict."""

AGAIN: tuple[Why, ...] = ("truncated", "empty", "no-verdict", "label")
"""Reasons for a missing answer for which a request is repeated once."""

LONGEST_NAME = 200
"""Maximum length of a model's name, which occurs in every row of the details."""
THOUGHT = "</think>"
THINKING = "<think>"
LONGEST = 200_000
"""Maximum length of an answer that is parsed."""
MOST = 2_000
"""Maximum number of positions in a reply from which parsing a JSON object is attempted."""

AROUND = " \t\r\n*_`\"'[](){}$"
"""Characters allowed around a bare label, as in `[[A]]` and `**B**`. A full stop is allowed only after the label."""
SAID = re.compile(
    r"(?:(?:final\s+)?(?:verdict|answer|label|score|rating|result|grade|judge?ment|output|summary|translation|caption"
    r"|next turn|response|option)"
    r"(?=[\W_])[\s*_`]*[:=]?[\s*_`\"'\[(]*|\\boxed\{|\\text\{)*"
    r"(?P<word>\S.*?)(?:\s*(?:/|out of)\s*(?P<high>\d+(?:\.\d+)?))?",
    re.IGNORECASE,
)
"""A label with a phrase that does not change it: `Answer: B`, `Output A`, `\\boxed{A}`, `4/5`."""
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
SHORT = 100
"""Maximum length of a bare label."""
JOINING = {"or", "and", "json"}
"""Words between the objects of a list of answers."""
SINCE = ("because", "since", "as")
"""Words that continue an answer with its reason."""
ENDING = AROUND + "."
CLOSED = re.compile(r"[\s`*]*")
"""Text that may follow the last line of an answer: the end of a code block."""


@dataclass(frozen=True, kw_only=True)
class ReadReply:
    """A parsed reply.

    `label` is '' if the answer is missing, and `why` is then the reason. `chances` has the probabilities of all labels,
    if they are known. `reason` is the reason that the judge gave, or the text of a reply without a valid answer.
    `model` is the model that answered. `tokens_in` and `tokens_out` are the numbers of tokens, if the server reported
    them.
    """

    label: str = ""
    why: Why | Literal[""] = ""
    chances: Mapping[str, float] | None = None
    reason: str = ""
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None


def read_answer(body: Any, judge: Judge, prompt_texts: Sequence[str]) -> ReadReply:
    """Parse a chat completion, which may be any JSON value. `prompt_texts` are the texts of the prompt, which a reply
    may quote."""
    body = _object(body)
    first_choice: Mapping[str, Any] = next(iter(_objects_of(body.get("choices"))), {})
    reply_message = _object(first_choice.get("message"))
    tokens_in, tokens_out = reported_tokens(body)
    reply = ReadReply(model=_short(_text(body.get("model"))), tokens_in=tokens_in, tokens_out=tokens_out)
    reply_text = _content(reply_message.get("content"))
    if _text(reply_message.get("refusal")).strip():
        return replace(reply, why="refusal", reason=_text(reply_message["refusal"]))
    if missing_reason := UNREAD.get(_text(first_choice.get("finish_reason"))):
        return replace(reply, why=missing_reason)
    if not reply_text.strip():
        return replace(reply, why="empty")
    verdict = _last_verdict(reply_text, judge, prompt_texts) if len(reply_text) <= LONGEST else None
    if not verdict or not verdict.label:
        return replace(reply, why="label" if verdict else "no-verdict", reason=reply_text.strip())
    token_entries = _objects_of(_object(first_choice.get("logprobs")).get("content")) if judge.logprobs else []
    return replace(
        reply,
        label=verdict.label,
        chances=_chances(token_entries, reply_text, verdict.at, judge.answers),
        reason=verdict.reason,
    )


class _Verdict(NamedTuple):
    """An answer in a text: start and end, label ('' if the label is not allowed), position of the label, and the reason
    given with the answer.
    """

    start: int
    end: int
    label: str
    at: int
    reason: Any = ""


class _UnclearError(Exception):
    """The answer is ambiguous, because a key occurs twice in one object or the text has too many braces."""


def _last_verdict(text: str, judge: Judge, prompt_texts: Sequence[str]) -> _Verdict | None:
    """The answer in the last JSON object that has the key of the answer; None if this answer is ambiguous. If no object
    has the key of the answer, the answer is the whole text, provided that the text is a label."""
    thought_end = text.rfind(THOUGHT)
    try:
        verdicts = [verdict for verdict in _answers(text, judge) if verdict.end > thought_end]
    except _UnclearError:
        return None
    if not verdicts:
        answer_start = thought_end + len(THOUGHT) if thought_end >= 0 else 0
        label, label_offset = _label(text[answer_start:], judge.answers)
        return _Verdict(answer_start, len(text), label, answer_start + label_offset) if label else None
    last_verdict = verdicts[-1]
    if (
        (thought_end < 0 and text.lstrip().startswith(THINKING))  # an unfinished thought
        or _is_quotation(text, last_verdict, prompt_texts)
        or _is_ambiguous(text, verdicts, judge.answers)
    ):
        return None
    text_before_verdict = text[: last_verdict.start].rpartition(THOUGHT)[2]
    return last_verdict._replace(reason=_text(last_verdict.reason) or text_before_verdict.strip(ENDING))


def _answers(text: str, judge: Judge) -> Iterator[_Verdict]:
    """The answers in the JSON objects of a text."""
    for object_start, object_end, json_object in _objects(text):
        answer_keys = [answer_key for answer_key in json_object if answer_key.casefold() == judge.key]
        if len(answer_keys) > 1:
            raise _UnclearError
        for answer_key in answer_keys:
            label, label_offset = _label(json_object[answer_key], judge.answers)
            label_start = object_end  # if the key is written with escapes
            for key_match in re.finditer(rf'"{judge.key}"\s*:\s*"?', text[object_start:object_end], re.I):
                label_start = object_start + key_match.end() + label_offset
            yield _Verdict(object_start, object_end, label, label_start, json_object.get(REASON))


def _is_ambiguous(text: str, verdicts: Sequence[_Verdict], labels: Sequence[str]) -> bool:
    """Whether the text around the last answer makes the answer ambiguous. This is the case if the text has further
    answers, or continues the sentence of the answer."""
    last_verdict = verdicts[-1]
    rest_of_line, *next_lines = text[last_verdict.end :].split("\n")
    if any(_label(next_line, labels)[0] not in ("", last_verdict.label) for next_line in next_lines):
        return True
    different_verdicts = [verdict for verdict in verdicts if verdict.label not in ("", last_verdict.label)]
    if different_verdicts:  # a revised answer is a separate object, introduced by words
        words_between = re.findall(r"[^\W\d_]+", text[different_verdicts[-1].end : last_verdict.start].casefold())
        return (
            len({verdict.label for verdict in different_verdicts}) > 1
            or not _is_last_line(text, last_verdict)
            or JOINING.issuperset(words_between)
        )
    following_words = re.findall(r"\w+(?:\.\d+)?", rest_of_line)
    if not following_words:
        return False
    labels_in_line = {label for label in labels if {label, label.capitalize()} & {*following_words}}
    next_character = rest_of_line.lstrip(AROUND)[:1]
    is_continued = next_character == "," or (next_character.islower() and following_words[0] not in SINCE)
    return is_continued or (bool(labels_in_line) and last_verdict.label not in labels_in_line)


def _is_last_line(text: str, verdict: _Verdict) -> bool:
    """Whether an object is the whole last line."""
    line_prefix = text[text.rfind("\n", 0, verdict.start) + 1 : verdict.start]
    return bool(CLOSED.fullmatch(text, verdict.end) and CLOSED.fullmatch(line_prefix))


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The outermost JSON objects in a text, with their start and end."""
    decoder, object_start = json.JSONDecoder(object_pairs_hook=_reject_repeated_keys), text.find("{")
    for _ in range(MOST):
        if object_start < 0:
            return
        object_end = object_start + 1
        with suppress(ValueError, RecursionError):
            json_object, object_end = decoder.raw_decode(text, object_start)
            yield object_start, object_end, json_object
        object_start = text.find("{", object_end)
    if object_start >= 0:
        raise _UnclearError


def _reject_repeated_keys(key_value_pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        return reject_duplicate_keys(key_value_pairs)
    except ValueError:
        raise _UnclearError from None


def _is_quotation(text: str, verdict: _Verdict, prompt_texts: Sequence[str]) -> bool:
    """Whether an object may be a quotation from the prompt. An object may be a quotation if a text of the prompt
    contains the object, unless the object is the last line of the reply."""
    compact_answer, *compact_prompt_texts = (
        "".join(original_text.split()) for original_text in (text[verdict.start : verdict.end], *prompt_texts)
    )
    return any(
        compact_answer in compact_prompt_text for compact_prompt_text in compact_prompt_texts
    ) and not _is_last_line(text, verdict)


def _label(value: Any, labels: Sequence[str]) -> tuple[str, int]:
    """The label in a value ('' if there is no label), and the position of the label in the text."""
    if isinstance(value, bool):
        value = json.dumps(value)
    if not isinstance(value, str):
        return _find_number_label(_number(value), labels), 0
    trimmed_text = value.rstrip(ENDING).lstrip(AROUND)
    # A label may hold spaces, a bracket or a word such as 'answer'.
    for candidate_text in (value.strip(), trimmed_text):
        if label := _equal_label(candidate_text, labels):
            return label, value.index(candidate_text)
    label_match = SAID.fullmatch(trimmed_text) if len(trimmed_text) <= SHORT else None
    if label_match is None or (
        label_match["high"] and _find_number_label(float(label_match["high"]), labels) != labels[-1]
    ):
        return "", 0
    label_word, label_start = label_match["word"], value.index(trimmed_text) + label_match.start("word")
    label = _equal_label(label_word, labels)
    if not label and re.fullmatch(r"-?(?:\d{1,9}(\.\d{0,9})?|\.\d{1,9})", label_word):
        label = _find_number_label(float(label_word), labels)
    return label, label_start


def _equal_label(text: str, labels: Sequence[str]) -> str:
    """The label that equals a text, ignoring case; '' if there is no such label."""
    return next((label for label in labels if label.casefold() == text.casefold()), "")


def _find_number_label(number: float, labels: Sequence[str]) -> str:
    """The label that equals a number; '' if there is no such label."""
    return next((label for label in labels if NUMBER.fullmatch(label) and math.isclose(float(label), number)), "")


def _number(value: Any) -> float:
    """A JSON number; NaN for other values and for numbers with too many digits."""
    with suppress(OverflowError):
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    return math.nan


def _chances(
    token_entries: Sequence[Mapping[str, Any]], reply_text: str, label_position: int, labels: Sequence[str]
) -> dict[str, float] | None:
    """The normalised probabilities of the labels at the first token of the answer. If the server did not return the
    probability of every label, the result is None, because a missing probability is unknown and not 0.

    Even if a schema of answers is requested, some servers return probabilities without this constraint. Words other
    than labels may then be more probable.
    """
    token_texts = [_text(token_entry.get("token")) for token_entry in token_entries]
    token_ends = [*accumulate(map(len, token_texts))]
    reply_text_start = "".join(token_texts).rfind(reply_text)
    label_token_index = bisect_right(token_ends, reply_text_start + label_position)
    if reply_text_start < 0 or label_token_index == len(token_texts):
        return None
    alternative_entries = _objects_of(token_entries[label_token_index].get("top_logprobs"))
    log_probability_of_token = {
        _text(token_entry.get("token")): _number(token_entry.get("logprob"))
        for token_entry in (token_entries[label_token_index], *alternative_entries)
    }
    probability_of_label = defaultdict[str, float](float)
    for token, log_probability in log_probability_of_token.items():
        if (label := _find_token_label(token, labels)) and log_probability <= 1e-6:
            probability_of_label[label] += math.exp(log_probability)
    probability_sum = sum(probability_of_label.values())
    if len(probability_of_label) < len(labels) or probability_sum <= 0:
        return None
    return {label: probability_of_label[label] / probability_sum for label in labels}


def _find_token_label(token: str, labels: Sequence[str]) -> str:
    """The label that equals a token, or the only label that begins with the token."""
    stripped_token = token.strip().strip('"').strip()
    matching_labels = [
        label for label in labels if stripped_token and label.casefold().startswith(stripped_token.casefold())
    ]
    return _equal_label(stripped_token, labels) or (matching_labels[0] if len(matching_labels) == 1 else "")


def _objects_of(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    """A text without lone surrogates."""
    return without_surrogates(value) if isinstance(value, str) else ""


def _short(name: str) -> str:
    """The name of a model. A long name is shortened and gets a hash of the full name."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}...{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _content(value: Any) -> str:
    """The text of a message, which may consist of parts."""
    return "".join(_text(part.get("text")) for part in _objects_of(value)) or _text(value)
