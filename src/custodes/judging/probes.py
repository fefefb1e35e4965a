"""Probes of a judge. A probe shows the judge an output in a different form of equal quality. The result of a probe
consists of two outcomes: one for each form of the output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from custodes.arguments import value_list
from custodes.data.probes import LENGTH, NAME, ORDER, PROBES, REPEAT
from custodes.data.reading import read
from custodes.errors import InputError, OptionError, reject, suggestion
from custodes.judging.judge import TIE, A, B, Judge, positive_label

if TYPE_CHECKING:
    from custodes.judging.plan import JudgeQuestion
    from custodes.judging.replies import ReadReply

SHORTEST = 20
"""Minimum number of characters of a sentence. Shorter sentences, such as abbreviations, are joined to a neighbour."""
ENDS = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\s*\n\s*")
MARKUP = re.compile(r"^[ \t]*(?:#{1,6}|[-*+])[ \t]+|\*\*", re.MULTILINE)
"""Markdown that can be removed: headings, bullets and bold text."""
FIXED = re.compile(r"```|^[ \t]*(?:\d+[.)][ \t]|\|)", re.MULTILINE)
"""Markdown that cannot be removed without other changes: code, numbered lists and tables."""
BETWEEN = re.compile(r"[\s#*+-]+")

OUTCOMES = {A: 1.0, TIE: 0.5, B: 0.0}
"""Outcome of the output shown first."""

Rewrites = Mapping[tuple[str, str], str]
"""Rewritten texts by item and system."""


class Form(NamedTuple):
    """A form of an output: the text and the system name to display. If the original already has the property that the
    probe adds, the form lacks this property instead, and `reverse` is true.
    """

    text: str
    system: str = ""
    reverse: bool = False


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Names of the probes, and the rewritten outputs of those probes that are given as files."""

    names: tuple[str, ...] = ()
    rewrites: Mapping[str, Rewrites] = field(default_factory=dict)

    @classmethod
    def make(
        cls, names_or_paths: Sequence[str], judge: Judge, *, orders: str, outputs: Mapping[str, Mapping[str, str]]
    ) -> Probes:
        """The probes from the names and files of the option `probe`. A probe without an effect raises an error."""
        rewrites_of_probe: dict[str, Rewrites] = {}
        probe_names = list[str]()
        for name_or_path in value_list("probe", names_or_paths):
            is_file = name_or_path not in PROBES and ("." in name_or_path or "/" in name_or_path)
            probe_name = Path(name_or_path).name.partition(".")[0] if is_file else name_or_path
            if probe_name in probe_names or is_file == (probe_name in PROBES):
                raise OptionError(
                    f"probe={name_or_path!r} is unknown or used twice{suggestion(name_or_path, PROBES)}; give "
                    f"{', '.join(PROBES)}, or the path of a file of rewritten outputs (columns item, system, text); "
                    "the file must not have the name of a probe"
                )
            probe_names.append(probe_name)
            if is_file:
                rewrites_of_probe[probe_name] = _rewrites(name_or_path, outputs)
        reject(
            (
                ORDER in probe_names and (judge.mode == "pointwise" or orders != "both"),
                "probe='order' has no effect, because it needs a pairwise judge and orders='both'",
            ),
            (
                len(judge.labels) > 2 and set(probe_names) - {REPEAT},
                "probe: only probe='repeat' is possible with more than two labels, because such labels have no order; "
                "use this probe, or two labels",
            ),
        )
        return cls(names=tuple(probe_names), rewrites=rewrites_of_probe)

    @property
    def forms(self) -> tuple[str, ...]:
        """The probes that change an output."""
        return tuple(name for name in self.names if name not in (ORDER, REPEAT))

    def form(self, probe: str, item: str, system: str, text: str) -> Form:
        """An output in the form of a probe. The text is unchanged if the probe does not apply."""
        if probe in self.rewrites:
            return Form(self.rewrites[probe].get((item, system), text))
        if probe == NAME:
            return Form(text, system=system)
        return Form(lengthen_text(text)) if probe == LENGTH else toggle_markdown(text)


def lengthen_text(text: str) -> str:
    """The text with the last sentence repeated. A text that is empty or contains code is unchanged.

    >>> lengthen_text("Lima lies on the coast. It is the capital of Peru.")
    'Lima lies on the coast. It is the capital of Peru. It is the capital of Peru.'
    """
    sentences = _sentences(text)
    if not sentences or "```" in text:
        return text
    return f"{text.rstrip()}{chr(10) if chr(10) in text.strip() else ' '}{sentences[-1]}"


def toggle_markdown(text: str) -> Form:
    """The text with added Markdown (sentences as bullets, or one sentence in bold). If the text has Markdown, the
    Markdown is removed instead.

    The words are the same in both forms. A text whose Markdown cannot be added or removed is returned unchanged.

    >>> toggle_markdown("Lima is the capital of Peru. It lies on the coast of the Pacific.").text
    '- Lima is the capital of Peru.\\n- It lies on the coast of the Pacific.'
    >>> toggle_markdown("**Yes.**")
    Form(text='Yes.', system='', reverse=True)
    """
    sentences, has_markup = _sentences(text), MARKUP.search(text) is not None
    changed_text = "\n".join(f"- {sentence}" for sentence in sentences) if len(sentences) > 1 else f"**{text.strip()}**"
    if has_markup:
        changed_text = MARKUP.sub("", text)
    has_same_words = BETWEEN.sub(" ", changed_text).split() == BETWEEN.sub(" ", text).split()
    can_toggle = sentences and has_same_words and not FIXED.search(text)
    return Form(changed_text, reverse=has_markup) if can_toggle else Form(text)


def _sentences(text: str) -> list[str]:
    """The sentences or lines of a text. Each sentence has at least `SHORTEST` characters, unless the whole text is
    shorter."""
    sentences = [""]
    for sentence in filter(None, ENDS.split(text.strip())):
        if len(sentences[-1]) >= SHORTEST:
            sentences.append("")
        sentences[-1] = f"{sentences[-1]} {sentence}".strip()
    if len(sentences) > 1 and len(sentences[-1]) < SHORTEST:
        sentences[-2:] = [" ".join(sentences[-2:])]
    return [*filter(None, sentences)]


def _rewrites(path: str, outputs: Mapping[str, Mapping[str, str]]) -> Rewrites:
    rewritten_outputs = read(path).outputs
    if rewritten_outputs is None:
        raise InputError(
            f"{path}: the file has no rewritten outputs; give a table with the columns item, system and text"
        )
    rewritten_text_of_output = {(item, system): text for item, system, text in rewritten_outputs.texts.iter_rows()}
    if not any(system in outputs.get(item, ()) for item, system in rewritten_text_of_output):
        raise InputError(
            f"{path}: no row matches an output to judge by item and system; use the names of items and systems from "
            f"the file of texts"
        )
    return rewritten_text_of_output


def probe_outcomes(
    judge: Judge, questions_and_replies: Sequence[tuple[JudgeQuestion, ReadReply | None, str]]
) -> Iterator[dict[str, Any]]:
    """The rows of the table `probes`, given each question with its reply and the reason for a missing answer."""
    plain_reply, plain_missing_reason = None, ""
    for question, reply, missing_reason in questions_and_replies:
        if not question.probe:  # the questions of its probes follow directly
            plain_reply, plain_missing_reason = reply, missing_reason
        elif missing_reason != "budget":
            plain_and_probe_outcomes = _outcome(judge, question, plain_reply), _outcome(judge, question, reply)
            plain_outcome, changed_outcome = (
                reversed(plain_and_probe_outcomes) if question.reverse else plain_and_probe_outcomes
            )
            yield {
                "item": question.item,
                "system": question.changed,
                "against": next((system for system in question.systems if system != question.changed), ""),
                "rater": judge.name,
                "aspect": question.aspect,
                "probe": question.probe,
                "order": question.order,
                "plain": plain_outcome,
                "changed": changed_outcome,
                "invalid": missing_reason or plain_missing_reason,
            }


def _outcome(judge: Judge, question: JudgeQuestion, reply: ReadReply | None) -> float | None:
    """The outcome of the changed output, from 0 to 1; None if there is no answer."""
    if reply is None or not reply.label:
        return None
    if judge.key == "verdict":
        is_changed_output_first = (question.changed == question.systems[0]) == (question.order != "ba")
        return OUTCOMES[reply.label] if is_changed_output_first else 1 - OUTCOMES[reply.label]
    if judge.key == "label":
        return float(reply.label == positive_label(judge.labels))
    lowest_score, highest_score = float(judge.answers[0]), float(judge.answers[-1])
    return (float(reply.label) - lowest_score) / (highest_score - lowest_score)
