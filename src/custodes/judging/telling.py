"""What is told of a plan that was asked: rows of verdicts or ratings, who failed and why, what it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from custodes.answers.question import versions
from custodes.answers.result import Provenance
from custodes.answers.tables import TableData
from custodes.data.notes import Note, noted
from custodes.data.preferences import CHANCES
from custodes.errors import listed
from custodes.judging import cost
from custodes.judging.judge import TIE, A, B
from custodes.judging.judgements import NOT_ANSWERED, UNREADABLE, Judgements
from custodes.judging.plan import Asked, Plan, Same
from custodes.judging.rounds import Round
from custodes.judging.verdict import Answer

COST_UNIT = "usd"
EXPECTED = "@expected"
"""How the rater is called whose score is the mean of the scale under the probabilities."""

MOST_SERVED = 8
"""Names of models in a signature; a server may give another one with each reply."""

SIGNS = {A: 1, TIE: 0, B: -1}


def told(plan: Plan, made: Round, price: cost.Price | None) -> Judgements:
    """The judgements of a plan."""
    judge = plan.judge
    rows = [(own, *_outcome(own, made)) for own in plan.asked]
    # A comparison that the budget stopped between its orders is half one, and must be known as such.
    begun = {_comparison(own) for own, _, why in rows if why != "budget"}
    kept = [row for row in rows if row[2] != "budget" or _comparison(row[0]) in begun]
    usage = cost.usage((request.body, reply.body) for request, reply in made.used)
    dollars = price.of(usage.tokens_in, usage.tokens_out) if price else None
    answered = sum(answer is not None and not why for _, answer, why in rows)
    expected = [row for row in kept if row[1] is not None and row[1].chances] if judge.mode == "pointwise" else []
    low, high = (float(judge.labels[0]), float(judge.labels[-1])) if judge.mode == "pointwise" else (None, None)
    names = [judge.name, *([judge.name + EXPECTED] if expected else [])]
    signature = _signature(plan, rows)
    tables: dict[str, TableData] = {
        "verdicts": _verdicts(judge.name, kept, plan.same) if judge.mode == "pairwise" else (),
        "ratings": _ratings(judge.name, kept, expected) if judge.mode == "pointwise" else (),
        "raters": {
            "rater": names,
            "kind": "metric",
            "higher_is_better": True,
            "low": low,
            "high": high,
            "cost": dollars / answered if dollars is not None and answered else None,
            "cost_unit": COST_UNIT if dollars is not None and answered else None,
            "own_system": judge.own_system or None,
            "signature": [signature, *[f"{signature}|expected"] * (len(names) - 1)],
        },
        "failures": _failures(rows),
        "usage": {
            "questions": len(plan.asked),
            "requests": len(plan.requests) + len(made.again),
            "asked": made.asked,
            "sent": made.sent,
            "tokens_in": usage.tokens_in,
            "tokens_out": usage.tokens_out,
            "dollars": dollars,
        },
        "details": _details(rows, made),
    }
    notes = (*plan.notes, *_notes(plan, made, rows, usage))
    provenance = Provenance(
        question="judge",
        study=plan.study.name,
        digest=plan.study.fingerprint() if plan.study.digest else "",
        options=plan.options,
        seed=plan.seed,
        versions=versions(),
        dropped=tuple(note for note in notes if note.count),
    )
    frames = Judgements.part("", **tables)
    return Judgements(notes=notes, provenance=provenance, judged=plan.study, mode=judge.mode, **frames)


Row = tuple[Asked, Answer | None, str]
"""A question, what was read in its reply (None: there is none), and why there is no answer ('' where there is)."""


def _outcome(own: Asked, made: Round) -> tuple[Answer | None, str]:
    if failure := made.failures.get(own.request.key):
        return None, failure.reason
    answer = made.answers[own.request.key]
    return answer, answer.why


def _comparison(own: Asked) -> tuple[object, ...]:
    return own.item, own.systems, own.aspect


def _where(own: Asked | Same) -> dict[str, Any]:
    return {
        "item": own.item,
        "system_a": own.systems[0],
        "system_b": own.systems[1] if len(own.systems) > 1 else "",
        "aspect": own.aspect,
        "repeat": str(own.repeat),
        "order": own.order,
    }


def _verdicts(name: str, rows: Sequence[Row], same: Sequence[Same]) -> Iterator[dict[str, Any]]:
    rater = {"rater": name, "kind": "metric"}
    for own, answer, why in rows:
        turn = -1 if own.order == "ba" else 1
        label = answer.label if answer else ""
        chances = (answer and answer.chances) or {}
        first, second = (B, A) if own.order == "ba" else (A, B)
        yield {
            **_where(own),
            **rater,
            "preference": SIGNS[label] * turn if label else None,
            "invalid": why,
            "p_a": chances.get(first),
            "p_tie": chances.get(TIE),
            "p_b": chances.get(second),
        }
    for tie in same:
        yield {**_where(tie), **rater, "preference": SIGNS[TIE], "invalid": "", **dict.fromkeys(CHANCES)}


def _ratings(name: str, rows: Sequence[Row], expected: Sequence[Row]) -> Iterator[dict[str, Any]]:
    def row(own: Asked, rater: str, score: float | None, why: str) -> dict[str, Any]:
        where = _where(own)
        return {
            "item": own.item,
            "system": own.systems[0],
            "rater": rater,
            "kind": "metric",
            "aspect": where["aspect"],
            "repeat": where["repeat"],
            "score": score,
            "invalid": why,
        }

    for own, answer, why in rows:
        yield row(own, name, float(answer.label) if answer and answer.label else None, why)
    for own, answer, _ in expected:
        assert answer is not None
        mean = sum(float(label) * chance for label, chance in (answer.chances or {}).items())
        yield row(own, name + EXPECTED, mean, "")


def _failures(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """By reason, of all and of each system."""
    asked, answered, failed = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for own, _, why in rows:
        for system in ("", *own.systems):
            asked[system] += 1
            answered[system] += not why
            failed[system, why] += bool(why)
    for (system, why), number in sorted(failed.items()):
        if number:
            yield {
                "system": system,
                "asked": asked[system],
                "answered": answered[system],
                "invalid": why,
                "failures": number,
            }


def _details(rows: Sequence[Row], made: Round) -> Iterator[dict[str, Any]]:
    for own, answer, why in rows:
        if answer is None:
            continue
        key = own.request.key
        yield {
            "key": made.requests[key].key,
            **_where(own),
            "answer": answer.label,
            "invalid": why,
            "reason": answer.reason,
            "model": answer.model,
            "again": made.requests[key].key != key,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
            "seconds": made.replies[key].seconds,
        }


def _signature(plan: Plan, rows: Sequence[Row]) -> str:
    """All that changes what the judge says, in one line."""
    judge = plan.judge
    served = sorted({answer.model for _, answer, _ in rows if answer and answer.model}) or [judge.model]
    more = len(served) - MOST_SERVED
    parts: Mapping[str, Any] = {
        "model": "+".join([*served[:MOST_SERVED], *([f"{more} more"] if more > 0 else [])]),
        "mode": judge.mode,
        "prompt": f"{judge.prompt}:{plan.prompt.digest}",
        "references": judge.references or "",
        "scale": judge.scale if judge.mode == "pointwise" else "",
        "reason": judge.reason,
        "examples": plan.examples,
        "structured": "yes" if judge.structured else "",
        **judge.sampling,
    }
    return "|".join(f"{name}:{value}" for name, value in parts.items() if value not in ("", None))


def _notes(plan: Plan, made: Round, rows: Sequence[Row], usage: cost.Usage) -> list[Note]:
    """What was not answered, and what to know of what was."""
    whys = Counter(why for _, answer, why in rows if why and answer is not None)
    lost = Counter(why for _, answer, why in rows if answer is None)
    replies = len(rows) - lost.total()
    said = {failure.reason: failure.said for failure in made.failures.values()}
    served = sorted({answer.model for _, answer, _ in rows if answer and answer.model})
    unknown = 0
    if plan.judge.logprobs:
        unknown = sum(bool(answer and answer.label and answer.chances is None) for _, answer, _ in rows)
    counted = ", ".join(f"{number} {why}" for why, number in sorted(whys.items()))
    left = "; ".join(f"{number} {why} ({said[why]})" for why, number in sorted(lost.items()))  # type: ignore[index]
    return noted(
        (
            "no-answer",
            whys.total(),
            f"{whys.total()} of {replies} replies hold no answer, and count as missing: {counted}",
        ),
        (
            NOT_ANSWERED,
            lost.total(),
            f"{lost.total()} of {len(rows)} questions are not answered: {left}; the same command asks these alone",
        ),
        (
            UNREADABLE,
            2 * whys.total() > replies,
            f"only {replies - whys.total()} of {replies} replies hold a {plan.judge.key}, fewer than half: check"
            " the model, the prompt and the limit of tokens before you use them",
        ),
        ("models-served", len(served) > 1, f"the server answered as several models: {listed(served)}"),
        (
            "no-probabilities",
            unknown,
            f"{unknown} answers have no probabilities: the server told none, or not those of all answers",
        ),
        ("tokens-guessed", usage.guessed, f"{usage.guessed} replies count no tokens: guessed from their characters"),
    )
