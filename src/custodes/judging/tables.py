"""Judgements: verdicts, ratings or labels of a judge, failures with their reasons, and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import polars as pl

from custodes.answers.question import versions
from custodes.answers.result import Provenance, Result, result
from custodes.answers.tables import TableData, count, flag, label, probability, score, table
from custodes.data.joining import join
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import REPEAT_WITHOUT_QUERY, Preferences
from custodes.data.probes import read_probes
from custodes.data.raters import EXPECTED_SUFFIX
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import join_labels, short_repr
from custodes.judging import cost
from custodes.judging.judge import TIE, A, B, Judge, Key, is_positive, positive_label
from custodes.judging.plan import JudgeQuestion, JudgingPlan
from custodes.judging.probes import probe_outcomes
from custodes.judging.querying import QueriedPlan
from custodes.judging.replies import ReadReply

COST_UNIT = "usd"
MOST_SERVED = 8  # maximum number of model names in a signature; a server may report a new name in each reply

ORDER = label("order", "shown first: `ab` is system_a, `ba` is system_b; empty for one output and for equal outputs")
WHERE = (
    label("item", "the item"),
    label("system_a", "first system in alphabetical order; for a score or label, the rated system"),
    label("system_b", "second system in alphabetical order; empty for a score or label"),
    label("aspect", "aspect judged"),
    label("repeat", f"number of the repeat, from 0; `{REPEAT_WITHOUT_QUERY}` if both outputs are identical (a tie)"),
    ORDER,
)
WHERE_OF_OUTPUT = (
    WHERE[0],
    label("system", "the system"),
    label("rater", "the judge"),
    label("kind", "`metric`"),
    *WHERE[3:5],
)
INVALID = label(
    "invalid",
    "why there is no answer; empty for a valid answer. If there is a reply, the reason is `refusal` (marked by the "
    "server), `filtered`, `truncated`, `empty`, `no-verdict` (also a refusal in words) or `label` (a word that is "
    "not an allowed label). If there is no reply, the reason is `unavailable`, `rejected`, `denied` or `budget` "
    "(not sent because of the cost limit)",
)

TABLE_OF_KEY: Mapping[Key, str] = {"verdict": "verdicts", "score": "ratings", "label": "labels"}
NOT_ANSWERED, UNREADABLE = "not-answered", "mostly-unreadable"
"""Codes of notes that set the exit status to 1."""


@result
class Judgements(Result):
    """Verdicts, ratings or labels of a judge. See `judge`."""

    BY = ""

    verdicts: pl.DataFrame = table(
        "One row per queried comparison, order and repeat, and one row per comparison of identical outputs. The "
        "table has the format `battles`.",
        *WHERE[:3],
        label("rater", "the judge"),
        label("kind", "`metric`"),
        *WHERE[3:],
        count("preference", "1: system_a is better, 0: tie, -1: system_b; null: see `invalid`"),
        INVALID,
        probability(
            "p_a",
            "probability that system_a is better; null if the server did not give the probabilities of all answers",
        ),
        probability("p_tie", "probability of a tie"),
        probability("p_b", "probability that system_b is better"),
        essential=False,
    )
    ratings: pl.DataFrame = table(
        "One row per queried output, aspect and repeat, in the format of the reader `ratings`. If the server "
        "gives probabilities, the rater `NAME@expected` has the expected scores.",
        *WHERE_OF_OUTPUT,
        score("score", "score on the scale; null: see `invalid`"),
        INVALID,
        essential=False,
    )
    labels: pl.DataFrame = table(
        "One row per queried output, aspect and repeat, in the format of tables of labels. A combined label has "
        "no aspect. If the server gives probabilities, the rater `NAME@expected` has the probabilities of the "
        "positive label.",
        *WHERE_OF_OUTPUT,
        label("label", "the label, one of the words in `labels`; null without a valid answer (see `invalid`)"),
        INVALID,
        essential=False,
    )
    probes: pl.DataFrame = table(
        "One row per output that was also queried in another form. The outcome of each form is a number from 0 to 1. "
        "For verdicts, 1 is a win and .5 is a tie. For scores, the outcome is the position on the scale. For labels, "
        "1 is the positive label.",
        label("item", "the item"),
        label("system", "the system whose output is changed"),
        label("against", "the system that is compared with `system`; empty for a pointwise judge"),
        label("rater", "the judge"),
        label("aspect", "aspect judged"),
        label("probe", "`length`, `format`, `name`, or the name of a file of rewritten outputs"),
        ORDER,
        score(
            "plain",
            "outcome of the form of the output without the property that `probe` adds (repeated content, Markdown or "
            "a name). For rewritten outputs, outcome of the original output. Null without an answer",
        ),
        score(
            "changed",
            "outcome of the form of the output with this property; for rewritten outputs, outcome of the rewritten "
            "output; null without an answer",
        ),
        label("invalid", "why the plain or the changed form of the output has no answer"),
        essential=False,
    )
    raters: pl.DataFrame = table(
        "The judge as a table of raters.",
        label("rater", "its name"),
        label("kind", "`metric`"),
        flag("higher_is_better", "true"),
        score("low", "lowest score on the scale; null for verdicts and labels", essential=False),
        score("high", "highest score on the scale; null for verdicts and labels", essential=False),
        score("cost", "dollars per valid answer; null without a price"),
        label("cost_unit", "`usd`", essential=False),
        label("own_system", "systems by the developer of the judge", essential=False),
        label(
            "signature",
            "model name reported by the server, prompt, hash of the prompt, and all further "
            "settings that change the answers",
        ),
    )
    failures: pl.DataFrame = table(
        "Numbers of answers and failures for each system.",
        label("system", "the system; empty for all systems", essential=False),
        count("asked", "queries of the plan that show an output of the system"),
        count("answered", "queries with a verdict, score or label"),
        label("invalid", "why there is no answer", "Why not"),
        count("failures", "queries with this reason"),
        rows=lambda outcome: outcome.failures.filter(pl.col("system") == ""),
    )
    usage: pl.DataFrame = table(
        "One row: requests, tokens and cost.",
        count(
            "questions",
            "number of questions: one for each aspect, order and repeat of a comparison or output, plus the probes",
        ),
        count("requests", "distinct requests, including requests that were repeated after an invalid reply"),
        count("asked", "distinct requests that were sent in this run; the replies to all other requests were cached"),
        count("sent", "number of times that requests were sent in this run, retries included"),
        count("tokens_in", "input tokens of all replies; estimated if the server reports no numbers"),
        count("tokens_out", "output tokens of all replies; estimated if the server reports no numbers"),
        score("dollars", "cost of all replies, including cached replies; null without a price"),
    )
    details: pl.DataFrame = table(
        "One row per query with a reply.",
        label("key", "key of the reply in the cache"),
        *WHERE,
        label("probe", "the probe; empty for the original outputs"),
        label("answer", "the answer of the judge: `A`, `B`, `tie`, the score or the label"),
        INVALID,
        label("reason", "the judge's reason; for `refusal`, `no-verdict` and `label` the text of the reply"),
        label("model", "name of the model, as given by the server"),
        flag("again", "whether this is the reply to a second request, after an invalid first reply"),
        count("tokens_in", "input tokens of the reply; null if the server reports no number"),
        count("tokens_out", "output tokens of the reply; null if the server reports no number"),
        score("seconds", "seconds until the reply"),
        essential=False,
    )
    judged: Study
    key: Key

    @property
    def preferences(self) -> Preferences:
        """The verdicts. A missing verdict has a reason."""
        return self._answers_study.preferences

    def study(self) -> Study:
        """The judged study with these verdicts or ratings, which every question accepts as input.

        Raises InputError if the judge gave no valid answer.
        """
        return join(
            [replace(self.judged, notes=tuple(dict.fromkeys((*self.judged.notes, *self.notes)))), self._answers_study]
        )

    @cached_property
    def _answers_study(self) -> Study:
        return replace(read(self._answers, raters=self.raters), probes=read_probes(self.probes, where="probes"))

    @property
    def _answers(self) -> pl.DataFrame:
        return self.tables()[TABLE_OF_KEY[self.key]]

    @property
    def status(self) -> int:
        """The exit status: 1 if some questions have no reply or if fewer than half of the replies can be parsed."""
        return int(any(note.rule in (NOT_ANSWERED, UNREADABLE) for note in self.notes))

    @property
    def answer_count(self) -> int:
        """Number of questions with a verdict, score or label."""
        return self.details.filter(pl.col("invalid") == "").height

    def output_tables(self) -> dict[str, Any]:
        """The tables that a command writes, by file suffix. The suffix of the answers is ''."""
        table_of_suffix = {"": self._answers, "raters": self.raters, "details": self.details}
        return table_of_suffix if self.probes.is_empty() else table_of_suffix | {"probes": self.probes}


def judgements_of(plan: JudgingPlan, queried_plan: QueriedPlan, price: cost.Price | None) -> Judgements:
    """The tables of a queried plan."""
    judge = plan.judge
    all_rows = [_row(question, queried_plan) for question in plan.questions]
    unprobed_rows = [row for row in all_rows if not row[0].probe]
    # A comparison with only one order within the budget is incomplete, and marked as such.
    comparisons_within_budget = {_comparison(row[0]) for row in unprobed_rows if row[2] != "budget"}
    reported_rows = [row for row in unprobed_rows if _comparison(row[0]) in comparisons_within_budget]
    counts_and_flags = [cost.count_tokens(request.body, reply.body) for request, reply in queried_plan.used]
    tokens_in, tokens_out, n_estimated = (sum(reply_counts[i] for reply_counts in counts_and_flags) for i in range(3))
    total_dollars = price.token_cost(tokens_in, tokens_out) if price else None
    n_answered = sum(not row[2] for row in all_rows)
    cost_per_answer = total_dollars / n_answered if total_dollars is not None and n_answered else None
    if judge.key == "verdict":
        answer_rows = [*_verdicts(judge.name, reported_rows, plan.identical_output_questions)]
    else:
        answer_rows = [*_ratings(judge, reported_rows), *_combine_labels(judge, unprobed_rows)]
    signature = _signature(plan, all_rows)
    signature_of_rater = {judge.name: signature}
    if any(answer_row["rater"] != judge.name for answer_row in answer_rows):
        signature_of_rater[judge.name + EXPECTED_SUFFIX] = f"{signature}|expected"
    data_of_table: dict[str, TableData] = {
        TABLE_OF_KEY[judge.key]: answer_rows,
        "probes": probe_outcomes(judge, all_rows),
        "raters": {
            "rater": list(signature_of_rater),
            "kind": "metric",
            "higher_is_better": True,
            "low": float(judge.answers[0]) if judge.key == "score" else None,
            "high": float(judge.answers[-1]) if judge.key == "score" else None,
            "cost": cost_per_answer,
            "cost_unit": None if cost_per_answer is None else COST_UNIT,
            "own_system": judge.own_system or None,
            "signature": list(signature_of_rater.values()),
        },
        "failures": _failures(all_rows),
        "usage": {
            "questions": len(plan.questions),
            "requests": queried_plan.n_requests,
            "asked": queried_plan.asked,
            "sent": queried_plan.sent,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
            "dollars": total_dollars,
        },
        "details": _details(all_rows, queried_plan),
    }
    notes = (*plan.notes, *_notes(plan, queried_plan, all_rows, n_estimated))
    return Judgements(
        notes=notes,
        provenance=Provenance(
            question="judge",
            study=plan.study.name,
            digest=plan.study.fingerprint() if plan.study.digest else "",
            options=plan.options,
            seed=plan.seed,
            versions=versions(),
            dropped=tuple(note for note in notes if note.count),
        ),
        judged=plan.study,
        key=judge.key,
        **Judgements.part("", **data_of_table),
    )


Row = tuple[JudgeQuestion, ReadReply | None, str]
"""A question, the parsed reply (None: no reply), and the reason for a missing answer ('' if there is an answer)."""


def _row(question: JudgeQuestion, queried_plan: QueriedPlan) -> Row:
    if failure := queried_plan.failures.get(question.request.key):
        return question, None, failure.reason
    reply = queried_plan.answers[question.request.key]
    return question, reply, reply.why


def _comparison(question: JudgeQuestion) -> tuple[object, ...]:
    return question.item, question.systems, question.aspect


def _question_cells(question: JudgeQuestion) -> dict[str, Any]:
    return {
        "item": question.item,
        "system_a": question.systems[0],
        "system_b": question.systems[1] if len(question.systems) > 1 else "",
        "aspect": question.aspect,
        "repeat": question.repeat,
        "order": question.order,
    }


def _verdicts(judge_name: str, rows: Sequence[Row], tie_questions: Sequence[JudgeQuestion]) -> Iterator[dict[str, Any]]:
    tie_rows = [(question, ReadReply(label=TIE), "") for question in tie_questions]
    for question, reply, missing_reason in [*rows, *tie_rows]:
        answer_if_a_wins, answer_if_b_wins = (B, A) if question.order == "ba" else (A, B)
        probability_of_answer = (reply and reply.chances) or {}
        yield {
            **_question_cells(question),
            "rater": judge_name,
            "kind": "metric",
            "preference": {answer_if_a_wins: 1, TIE: 0, answer_if_b_wins: -1}.get(reply.label) if reply else None,
            "invalid": missing_reason,
            "p_a": probability_of_answer.get(answer_if_a_wins),
            "p_tie": probability_of_answer.get(TIE),
            "p_b": probability_of_answer.get(answer_if_b_wins),
        }


def _ratings(judge: Judge, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The rows of scores or labels. Answers with probabilities also give the rows of the rater `NAME@expected`."""
    convert_label: Callable[[str], float | str] = float if judge.key == "score" else str
    for question, reply, missing_reason in rows:
        score_or_label = convert_label(reply.label) if reply and reply.label else None
        yield _rating_row(judge, question, score_or_label, missing_reason)
    for question, reply, _ in rows:
        if reply and reply.chances:
            if judge.key == "score":
                expected_value: float | str = sum(float(label) * p for label, p in reply.chances.items())
            else:
                expected_value = repr(reply.chances[positive_label(judge.labels)])
            yield _rating_row(judge, question, expected_value, "") | {"rater": judge.name + EXPECTED_SUFFIX}


def _rating_row(
    judge: Judge, question: JudgeQuestion, score_or_label: float | str | None, missing_reason: str
) -> dict[str, Any]:
    return {
        "item": question.item,
        "system": question.systems[0],
        "rater": judge.name,
        "kind": "metric",
        "aspect": question.aspect,
        "repeat": question.repeat,
        judge.key: score_or_label,
        "invalid": missing_reason,
    }


def _combine_labels(judge: Judge, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The combined label of each output and repeat, without an aspect.

    If no label of an output was requested because of the cost limit, the output has no row for a combined label.
    """
    if judge.combine is None:
        return
    positive_answer = positive_label(judge.labels)
    negative_answer = next(label for label in judge.labels if label != positive_answer)
    rows_of_output: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        rows_of_output.setdefault((row[0].item, row[0].systems[0], row[0].repeat), []).append(row)
    for output_rows in rows_of_output.values():
        missing_reasons = [missing_reason for _, _, missing_reason in output_rows if missing_reason]
        n_of_label = Counter(reply.label for _, reply, missing_reason in output_rows if reply and not missing_reason)
        is_positive_output = is_positive(
            judge.combine,
            n_positives=n_of_label[positive_answer],
            n_negatives=n_of_label[negative_answer],
            n_aspects=len(judge.meanings),
        )
        combined_label = {True: positive_answer, False: negative_answer, None: None}[is_positive_output]
        if missing_reasons != ["budget"] * len(output_rows):
            question = replace(output_rows[0][0], aspect="")
            yield _rating_row(judge, question, combined_label, missing_reasons[0] if combined_label is None else "")


def _failures(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """The number of failures by reason, in total and for each system."""
    systems_and_reasons = [(system, reason) for question, _, reason in rows for system in ("", *question.systems)]
    n_queries_of_system = Counter(system for system, _ in systems_and_reasons)
    n_of_system_and_reason = Counter(systems_and_reasons)
    for (system, reason), n_failures in sorted(n_of_system_and_reason.items()):
        if reason:
            yield {
                "system": system,
                "asked": n_queries_of_system[system],
                "answered": n_of_system_and_reason[system, ""],
                "invalid": reason,
                "failures": n_failures,
            }


def _details(rows: Sequence[Row], queried_plan: QueriedPlan) -> Iterator[dict[str, Any]]:
    for question, reply, missing_reason in rows:
        if reply is not None:
            key = question.request.key
            yield {
                "key": queried_plan.requests[key].key,
                **_question_cells(question),
                "probe": question.probe,
                "answer": reply.label,
                "invalid": missing_reason,
                "reason": reply.reason,
                "model": reply.model,
                "again": queried_plan.requests[key].key != key,
                "tokens_in": reply.tokens_in,
                "tokens_out": reply.tokens_out,
                "seconds": queried_plan.replies[key].seconds,
            }


def _signature(plan: JudgingPlan, rows: Sequence[Row]) -> str:
    """All settings that change the answers, as one line."""
    judge = plan.judge
    model_names = _served_models(rows) or [judge.model]
    n_unlisted = len(model_names) - MOST_SERVED
    value_of_setting: Mapping[str, Any] = {
        "model": "+".join([*model_names[:MOST_SERVED], *([f"{n_unlisted} more"] if n_unlisted > 0 else [])]),
        "mode": judge.mode,
        "prompt": f"{judge.prompt}:{plan.prompt.digest}",
        "references": judge.references or "",
        "scale": judge.scale if judge.key == "score" else "",
        "labels": ",".join(judge.labels),
        "combine": judge.combine or "",
        "reason": judge.reason,
        "examples": plan.examples,
        "structured": "yes" if judge.structured else "",
        **judge.sampling,
    }
    return "|".join(f"{setting}:{value}" for setting, value in value_of_setting.items() if value not in ("", None))


def _served_models(rows: Sequence[Row]) -> list[str]:
    """The names of models in the replies, sorted."""
    return sorted({reply.model for _, reply, _ in rows if reply and reply.model})


def _notes(plan: JudgingPlan, queried_plan: QueriedPlan, rows: Sequence[Row], n_estimated: int) -> list[Note]:
    """Notes on failures and on properties of the answers."""
    replies = [reply for _, reply, _ in rows if reply]
    n_invalid_of_reason = Counter(reply.why for reply in replies if reply.why)
    n_invalid, n_replies = n_invalid_of_reason.total(), len(replies)
    invalid_counts_text = ", ".join(f"{n} {reason}" for reason, n in sorted(n_invalid_of_reason.items()))
    n_of_unread_text = Counter(reply.reason for reply in replies if reply.why and reply.reason)
    frequent_text_clause = "".join(
        f"; most frequent text ({n} of them): {short_repr(text)}" for text, n in n_of_unread_text.most_common(1)
    )
    n_failed_of_reason = Counter(reason for _, reply, reason in rows if reply is None)
    message_of_reason: dict[str, str] = {failure.reason: failure.message for failure in queried_plan.failures.values()}
    failure_counts = sorted(n_failed_of_reason.items())
    failures_text = "; ".join(f"{n} {reason}: {message_of_reason[reason]}" for reason, n in failure_counts)
    first_step = "correct the cause of the rejections, and " if n_failed_of_reason["rejected"] else ""
    n_without_probabilities = plan.judge.logprobs * sum(
        bool(reply.label) and reply.chances is None for reply in replies
    )
    return build_notes(
        (
            "no-answer",
            n_invalid,
            f"{n_invalid} of {n_replies} replies contain no valid answer ({invalid_counts_text}), so these answers "
            f"are missing{frequent_text_clause}",
        ),
        (
            NOT_ANSWERED,
            n_failed_of_reason.total(),
            f"{n_failed_of_reason.total()} of {len(rows)} queries have no reply ({failures_text}); {first_step}run "
            "the same command again to send only these queries",
        ),
        (
            UNREADABLE,
            2 * n_invalid > n_replies,
            f"only {n_replies - n_invalid} of {n_replies} replies contain a {plan.judge.key}, fewer "
            "than half; check the model, the prompt and the token limit before you use the answers",
        ),
        (
            "models-served",
            len(_served_models(rows)) > 1,
            f"the replies name several models: {join_labels(_served_models(rows))}",
        ),
        (
            "no-probabilities",
            n_without_probabilities,
            f"the probabilities of {n_without_probabilities} answers are unknown, because the server returned no "
            "probabilities, or only those of some allowed answers",
        ),
        (
            "tokens-guessed",
            n_estimated,
            f"{n_estimated} replies report no token counts, so the tokens are estimated from the numbers of characters",
        ),
    )
