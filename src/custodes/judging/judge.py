"""Configuration of a judge: model, prompt, aspects and answer format; labels as answers, and their combination."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec
import polars as pl

from custodes.arguments import check_at_least, check_fields, check_storable, value_list
from custodes.data.labels import MOST_LABELS, POLARITY, is_binary, label_words
from custodes.data.notes import Note
from custodes.errors import OptionError, join_labels, reject, short_repr

Mode = Literal["pairwise", "pointwise"]
Reasons = Literal["first", "none"]
Combine = Literal["all", "any", "majority"]
"""Rules for a positive combined label: all aspects, any aspect, or more than half of the aspects are positive."""

A, B, TIE = "A", "B", "tie"
VERDICTS = (A, B, TIE)
"""Answers of a pairwise judge, in presentation order."""

Key = Literal["verdict", "score", "label"]
"""Key of the answer in a JSON object."""

REASON = "reason"
FEEDBACK = "feedback"
"""Built-in prompt that asks for feedback as the reason."""

ALTERNATIVES = 20
"""Number of tokens whose probabilities are requested: the maximum of the protocol."""

SCALE = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?")
MOST_POINTS = 101
LISTED = 11  # maximum number of points of a scale that are listed individually
OURS = ("model", "messages", "stream", "n", "response_format", "logprobs", "top_logprobs")
"""Fields of a request that sampling parameters must not set: fields that other options set, and fields that would
change the form of the reply."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """An LLM judge: model, prompt, aspects and answer format.

    Parameters
    ----------
    model : str
        Name of the model on its server.
    name : str
        Name of the judge in the output (default: the model).
    base_url : str
        Address of the server, such as http://127.0.0.1:8000/v1 or https://api.openai.com/v1.
    mode : {'pairwise', 'pointwise'}
        Compare two outputs, or score or label each output.
    prompt : str
        Prompt: summary, translation, answer, dialogue, caption, feedback, or the path of a Jinja file.
    references : int
        Number of references of an item in the prompt.
    aspects : sequence of str
        Aspects, each in a separate request (default: overall quality). An aspect is NAME or 'NAME: description'.
        Several aspects are a comma list of names, or the option is repeated.
    scale : str
        Scale of scores: LOW-HIGH or LOW-HIGH:STEP.
    labels : sequence of str
        Labels that a pointwise judge can give to each output and aspect, such as pass,fail (default: scores).
    combine : {'all', 'any', 'majority'} or None
        Rule for a combined label over all aspects. The combined label is positive if all labels are positive (`all`),
        if any label is positive (`any`), or if more than half of the labels are positive (`majority`).
    examples : str or (study, int)
        STUDY:K: the prompt shows human verdicts on K items of STUDY as examples; these items are not judged.
    reason : {'first', 'none'}
        Ask for a reason before the answer, or for none.
    structured : bool
        Send the JSON schema of answers (response_format).
    logprobs : bool
        Request the probabilities of all answers.
    sampling : mapping of str
        Sampling parameters KEY=VALUE, such as temperature=0,max_tokens=64; comma list or repeated.
    own_system : str
        Systems by the developer of the judge: comma list of names or globs.

    Examples
    --------
    >>> Judge(model="m", mode="pointwise", scale="1-3").answers
    ('1', '2', '3')
    >>> Judge(model="m", mode="pointwise", labels="pass,fail").answers
    ('pass', 'fail')
    """

    model: str
    name: str = ""
    base_url: str = ""
    mode: Mode = "pairwise"
    prompt: str = "answer"
    references: int = 0
    aspects: Sequence[str] = ()
    scale: str = "1-5"
    labels: Sequence[str] = ()
    combine: Combine | None = None
    examples: Any = None
    reason: Reasons = "none"
    structured: bool = False
    logprobs: bool = False
    sampling: Mapping[str, Any] = field(default_factory=dict, hash=False)
    own_system: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "name", self.name.strip() or self.model.strip())
        object.__setattr__(self, "aspects", tuple(value_list("aspects", self.aspects, allow_descriptions=True)))
        object.__setattr__(self, "labels", tuple(value_list("labels", self.labels)))
        object.__setattr__(self, "sampling", _normalize_sampling(self.sampling))
        check_storable("judge", (self.name, self.model, *self.aspects, *self.labels))
        aspect_names, reserved_parameter_names = (
            list(self.meanings),
            [parameter_name for parameter_name in self.sampling if parameter_name in OURS],
        )
        is_pairwise, has_custom_scale = self.mode == "pairwise", self.scale != Judge.scale
        has_two_labels = len(self.labels) == 2
        reject(
            (not self.model.strip(), "model='': name the model to query"),
            (
                "\0" in "".join((self.name, *self.aspects)),
                f"name={short_repr(self.name)}: names of judges and aspects must not contain NUL",
            ),
            (
                len(aspect_names) < len(self.aspects) or (self.aspects and "" in aspect_names),
                f"aspects={short_repr(list(self.aspects))}: names must differ and must not be empty",
            ),
            (
                reserved_parameter_names,
                f"sampling={join_labels(map(repr, reserved_parameter_names))}: must be set by a separate argument "
                "(model, structured, logprobs, repeats)",
            ),
            (
                self.combine is not None and (not has_two_labels or len(aspect_names) < 2),
                f"combine={self.combine!r} has no effect, because a combined label needs two labels and several "
                "aspects",
            ),
            (
                self.labels and is_pairwise,
                f"labels={short_repr(','.join(self.labels))} has no effect: a pairwise judge answers A, B or tie; "
                "to ask about each output alone, set mode to pointwise",
            ),
            (
                self.labels and has_custom_scale,
                f"scale={self.scale!r} has no effect, because the judge gives labels; leave out scale or labels",
            ),
        )
        if self.labels:
            check_labels(self.labels)
        check_at_least("references", self.references, 0)
        reject(
            (
                self.labels and self.logprobs and not (has_two_labels and has_known_polarity(self.labels)),
                "logprobs=True: probabilities of labels need exactly two labels of a known pair, such as pass,fail",
            ),
            (
                self.labels and self.examples is not None,
                "examples: a judge that gives labels cannot have examples; describe the aspects instead",
            ),
            (
                is_pairwise and has_custom_scale,
                f"scale={self.scale!r} has no effect: a pairwise judge answers A, B or tie; "
                "to ask about each output alone, set mode to pointwise",
            ),
            (
                self.prompt == FEEDBACK and self.reason != "first",
                "prompt='feedback' asks for a reason in the form of feedback; set reason='first'",
            ),
            (
                self.examples is not None and self.reason == "first",
                "examples: the human verdicts have no reasons, so the judge cannot be asked for reasons; set "
                "reason='none'",
            ),
        )
        _ = self.answers  # raises for an invalid scale

    def __str__(self) -> str:
        displayed_options = {
            "prompt": self.prompt,
            "aspects": join_labels(self.meanings, limit=3),
            "reason": self.reason,
            "labels": ",".join(self.labels),
            "scale": self.scale if self.key == "score" else "",
            **self.sampling,
        }
        options_text = " ".join(f"{name}={value}" for name, value in displayed_options.items() if value)
        return f"{self.name} ({self.mode} {options_text})"

    @property
    def meanings(self) -> dict[str, str]:
        """The description of each aspect ('' if there is no description). If the judge has no aspects, there is one
        unnamed aspect."""
        names_and_meanings = (aspect_text.partition(":")[::2] for aspect_text in self.aspects)
        return {aspect_name.strip(): meaning.strip() for aspect_name, meaning in names_and_meanings} or {"": ""}

    @cached_property
    def answers(self) -> tuple[str, ...]:
        """All possible answers, in the form in which the judge writes an answer."""
        if self.key != "score":
            return VERDICTS if self.key == "verdict" else tuple(self.labels)
        scale_match = SCALE.fullmatch(self.scale.strip())
        low, high, step_size = (
            (float(number_text or 1) for number_text in scale_match.groups()) if scale_match else (0.0, 0.0, 1.0)
        )
        n_steps = round((high - low) / step_size) if step_size else 0
        if not 1 <= n_steps < MOST_POINTS or abs(low + n_steps * step_size - high) > 1e-9:
            raise OptionError(
                f"scale={short_repr(self.scale)} is not allowed; give LOW-HIGH, such as 1-5, or LOW-HIGH:STEP, such "
                f"as 1-5:0.5, with at most {MOST_POINTS} points"
            )
        return tuple(f"{round(low + step_index * step_size, 9):g}" for step_index in range(n_steps + 1))

    @property
    def key(self) -> Key:
        """Key of the answer in a JSON object."""
        return "verdict" if self.mode == "pairwise" else "label" if self.labels else "score"

    @property
    def form(self) -> str:
        """Instructions on the answer format."""
        object_prefix, reason_instruction = "{", ""
        if self.reason == "first":
            object_prefix = '{"reason":"...",'
            reason_instruction = f", first your reason in a few sentences, then the {self.key}"
        if self.key == "score":
            scale_point_texts = self.answers if len(self.answers) <= LISTED else [f"a number of the scale {self.scale}"]
            form_text = f'{object_prefix}"{self.key}":N}}, where N is one of {", ".join(scale_point_texts)}'
        else:
            *first_forms, last_form = (object_prefix + self.answer(label).removeprefix("{") for label in self.answers)
            form_text = f"{', '.join(first_forms)} or {last_form}"
        return f"Answer with one JSON object and nothing else{reason_instruction}: {form_text}."

    def answer(self, label: str) -> str:
        """The text of the answer that a judge gives for a label."""
        return msgspec.json.encode({self.key: self._value(label)}).decode()

    def body(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The body of a chat completion, with only the options that were set."""
        body_fields: dict[str, Any] = {"model": self.model, "messages": list(messages), **self.sampling}
        if self.logprobs:
            body_fields |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
        if self.structured:
            body_fields["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": self.key, "strict": True, "schema": self._schema()},
            }
        return body_fields

    def _schema(self) -> dict[str, Any]:
        schema_properties: dict[str, Any] = {REASON: {"type": "string"}} if self.reason == "first" else {}
        json_type = "number" if self.key == "score" else "string"
        schema_properties[self.key] = {"type": json_type, "enum": [self._value(label) for label in self.answers]}
        return {
            "type": "object",
            "properties": schema_properties,
            "required": list(schema_properties),
            "additionalProperties": False,
        }

    def _value(self, label: str) -> str | float:
        """A label as a JSON value."""
        if self.key != "score":
            return label
        number = float(label)
        return int(number) if number.is_integer() else number


def _normalize_sampling(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling parameters as read from JSON, so that equal parameters have equal keys."""
    if not (isinstance(sampling, Mapping) and all(isinstance(parameter_name, str) for parameter_name in sampling)):
        raise OptionError(f"sampling={short_repr(sampling)}: give values by name, as {{'temperature': 0}}")
    try:
        json_parameters: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(sampling)))
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        raise OptionError(f"sampling={short_repr(sampling)}: contains a value that cannot be written as JSON") from None
    return json_parameters


def check_labels(labels: Sequence[str]) -> None:
    """Raise OptionError for labels that tables cannot contain, or that readers of tables cannot distinguish."""
    normalised_word_of_label, option_text = (
        dict(zip(labels, _words(labels), strict=True)),
        f"labels={short_repr(','.join(labels))}",
    )
    nonempty_words = [word for word in normalised_word_of_label.values() if word is not None]
    labels_read_as_empty = [label for label, word in normalised_word_of_label.items() if word is None]
    is_known_pair = is_binary(nonempty_words)
    reject(
        (
            not 2 <= len(labels) <= MOST_LABELS,
            f"{option_text}: give 2 to {MOST_LABELS} words, such as pass,fail",
        ),
        (
            any("\0" in label or "\n" in label for label in labels),
            f"{option_text}: labels must be single lines without NUL",
        ),
        (
            labels_read_as_empty,
            f"{option_text}: {join_labels(map(repr, labels_read_as_empty))} is read as an empty cell in tables; give "
            "another word",
        ),
        (
            len(set(nonempty_words)) < len(labels),
            f"{option_text}: labels must differ by more than case, spaces and hyphens",
        ),
        (
            is_known_pair and sorted(POLARITY[word] for word in nonempty_words) != [0, 1],
            f"{option_text}: both labels are positive words or both are negative words; give one of each, such as "
            "pass,fail",
        ),
        (
            not is_known_pair and all(word.replace(".", "", 1).lstrip("-").isdigit() for word in nonempty_words),
            f"{option_text}: labels must not be numbers; for scores give scale=LOW-HIGH",
        ),
    )


def has_known_polarity(labels: Sequence[str]) -> bool:
    """Whether labels are a known pair such as pass and fail.

    >>> has_known_polarity(["Fail", "Pass"]), has_known_polarity(["kept", "lost"])
    (True, False)
    """
    return is_binary(word or "" for word in _words(labels))


def positive_label(labels: Sequence[str]) -> str:
    """The positive one of two labels: the label that is a known positive word or, if neither word is known, the first
    label.

    >>> positive_label(["Fail", "Pass"]), positive_label(["kept", "lost"])
    ('Pass', 'kept')
    """
    polarities = [POLARITY.get(word or "") for word in _words(labels)]
    return labels[polarities.index(1) if has_known_polarity(labels) else 0]


def positive_note(labels: Sequence[str]) -> list[Note]:
    """A note on which of two labels is positive, if readers cannot infer the positive label."""
    if len(labels) != 2 or has_known_polarity(labels):
        return []
    message = f"{labels[0]!r} counts as the positive label; in `custodes rates` give --positive {_words(labels)[0]}"
    return [Note(rule="first-label-positive", message=message, count=1)]


def is_positive(rule: Combine, *, n_positives: int, n_negatives: int, n_aspects: int) -> bool | None:
    """Whether a combined label is positive; None if this depends on missing labels.

    >>> is_positive("all", n_positives=0, n_negatives=1, n_aspects=3)
    False
    >>> is_positive("all", n_positives=2, n_negatives=0, n_aspects=3) is None
    True
    """
    n_required = {"all": n_aspects, "any": 1, "majority": n_aspects // 2 + 1}[rule]
    return True if n_positives >= n_required else False if n_negatives > n_aspects - n_required else None


def _words(labels: Sequence[str]) -> list[str | None]:
    return label_words(pl.Series(labels, dtype=pl.String)).to_list()
