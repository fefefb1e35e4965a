"""Looks, budgets and people that cannot reach a decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from custodes.annotate.adding import Held
from custodes.annotate.plan import StudyPlan
from custodes.annotate.policy import cap
from custodes.annotate.rules import LOOKS_CUT, budget_of, rule_of
from custodes.evaluate.check.problems import Problem
from custodes.stats.stopping.allocation import KINDS, tables
from custodes.stats.stopping.rules import rule_on

WIN_ALONE = 3
"""The kind of an answer for the first system where no metric says anything (see `stats.stopping.allocation`)."""


def problems(held: Held) -> Iterator[Problem]:
    """All that is wrong with the stopping."""
    looks = held.plan.stopping.looks
    sizes = {pair: len(held.asked[number]) for number, pair in held.pairs.items()}
    if held.plan.question.mode == "rate":
        yield from _rated(held.plan, list(sizes.values()))
        return
    named = {pair: " and ".join(filter(None, pair)) for pair in sizes}
    few = [named[pair] for pair, n in sizes.items() if 0 < n < looks[0]]
    if few:
        yield Problem(
            "warning",
            "few-items",
            f"{len(few)} pairs have fewer items than the first look has answers ({looks[0]}): they are looked at once,"
            " with all there are; add items, or make the looks smaller",
            few[:5],
        )
    short = [named[pair] for pair, n in sizes.items() if looks[0] <= n < looks[-1]]
    if short:
        least = min(n for n in sizes.values() if n >= looks[0])
        yield Problem(
            "info",
            LOOKS_CUT,
            f"{len(short)} pairs have fewer items than the last look has answers ({looks[-1]}), the smallest {least}:"
            " its looks end there",
            short[:5],
        )
    yield from _reach(held, max(sizes.values(), default=0))
    if max(sizes.values(), default=0):
        yield from _decides(held, max(sizes.values()))


def _reach(held: Held, most: int) -> Iterator[Problem]:
    """Whether there can be enough answers."""
    plan, people = held.plan, held.plan.people
    looks = [min(n, most) for n in plan.stopping.looks]
    each = cap(people, looks[-1], people.most if people.recruit == "links" else None)
    if people.most * each < looks[-1] * people.per_item:
        yield Problem(
            "error",
            "too-few-people",
            f"{people.most} people at most, who may each give {each} of the {looks[-1]} answers of a pair (cap"
            f" {people.cap:g}): its last look cannot be reached; allow more people, or a larger cap",
        )
    first = len(held.pairs) * looks[0] * people.per_item
    if plan.stopping.budget is not None and plan.stopping.budget < first:
        yield Problem(
            "error",
            "small-budget",
            f"budget {plan.stopping.budget}: the first look of all {len(held.pairs)} pairs takes {first} answers that"
            " decide; ask about fewer pairs or systems, or allow more",
        )
    yield from _work(plan, first, "the first look of all pairs")


def _rated(plan: StudyPlan, sizes: Sequence[int]) -> Iterator[Problem]:
    """Whether every system can be rated, and all outputs; `sizes`: outputs of each."""
    wanted, budget = sum(sizes) * plan.people.per_item, plan.stopping.budget
    if budget is not None and budget < wanted:
        is_none = budget < len(sizes) * plan.people.per_item
        yield Problem(
            "error" if is_none else "info",
            "small-budget",
            f"budget {budget}: all {sum(sizes)} outputs take {wanted} answers that decide;"
            + (" some systems get none" if is_none else f" {budget_of(plan)} are rated, as many of each system")
            + "; ask about fewer outputs, or allow more",
        )
    yield from _work(plan, min(wanted, wanted if budget is None else budget), "what is rated")


def _work(plan: StudyPlan, wanted: int, what: str) -> Iterator[Problem]:
    """Whether people may do as much as that."""
    people = plan.people
    work = people.most * people.batch * people.batches
    if work < wanted:
        yield Problem(
            "error",
            "little-work",
            f"{people.most} people with {people.batches} batches of {people.batch} give {work} answers, and {what}"
            f" takes {wanted}; allow more",
        )


def _decides(held: Held, most: int) -> Iterator[Problem]:
    """Whether answers that all say the same would decide a pair."""
    rule = rule_of(held.plan, pairs=len(held.pairs), items=most, has_metric=held.has_metric)
    if rule.estimator.uses_metric or rule.estimator.needs_items:
        return
    n = rule.looks[-1]
    counts = np.zeros((1, KINDS), dtype=np.int64)
    counts[0, WIN_ALONE] = n
    made = tables(counts, np.zeros((1, 3), dtype=np.int64))
    decision, _, _ = rule_on(
        rule, made, look=len(rule.looks) - 1, last=np.array([n]), items=None, judged=np.array([True])
    )
    if not decision[0]:
        yield Problem(
            "error",
            "decides-nothing",
            f"even {n} answers that all prefer one system would not decide a pair; allow more answers (looks, items),"
            " or a larger gamma",
        )
