"""Guesses of verdicts: the columns of the two systems, of the winner, and of the rater."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import polars as pl

from custodes.data.mapping.annotator_columns import numbers_of
from custodes.data.mapping.column_vocabulary import WON, parts, sides
from custodes.data.mapping.guess_texts import CHOICES, is_number, is_prose, is_time, texts_of_pairs
from custodes.data.mapping.pattern import literal, matches
from custodes.data.mapping.phrases import may_be_phrases, proposed_phrases

SAMPLED = 1000
"""Number of rows used to distinguish phrases and texts from labels."""
RATERS = ("rater", "aspect", "kind", "repeat")

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns to try."""


def verdict_guesses(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]], items: Sequence[str]
) -> Guess:
    """Layouts with two systems and the winner.

    A column is tried as `preference` only if the column has this name or negative numbers. In a column `preference`, 0
    is a tie.
    """
    pairs = [pair for pair in sides(free) if not all(is_prose(frame[name]) for name in pair)][:CHOICES]
    head = frame.head(SAMPLED)
    texts = [name for name in free if pairs and may_be_phrases(head[name]) and not is_time(head[name])]
    phrases = {name: phrase for name in texts if (phrase := proposed_phrases(head[name]))}
    unique = [name for name in free if frame[name].n_unique() == frame.height and not is_time(frame[name])]
    ids = [name for name in unique if name not in items and name not in phrases and not is_prose(frame[name])]
    winners = [name for name in candidates["winner"] if not is_prose(head[name])]
    outputs = texts_of_pairs(head, [])  # used if no columns name the systems
    bases = [{"system_a": a, "system_b": b} for a, b in pairs] or ([outputs] if outputs else [])
    for base, item in product(bases, [*items, *ids[:1]]):
        several = [name for name in winners if name not in (item, *base.values())]
        texts = [name for name in phrases if name not in (item, *base.values())]
        for verdict, others in (
            *_patterns(frame, base, several, free),
            *_columns(frame, several),
            *_phrases(texts, phrases, in_order=bool(candidates["order"])),
        ):
            roles = {"item": item, **base, **verdict}
            yield from _with_outputs(head, roles | other_roles(roles, candidates, others))


Verdicts = Iterator[tuple[dict[str, str], Sequence[str]]]
"""Roles of the columns of verdicts, and further roles."""


def _patterns(frame: pl.DataFrame, base: Mapping[str, str], columns: Sequence[str], free: Sequence[str]) -> Verdicts:
    """Layouts with the winner and the loser, or with the names of the systems and one column of verdicts per rater."""
    first = base.get("system_a", "")
    if not first or any(is_number(frame[name]) for name in base.values()):
        return
    if WON.isdisjoint(parts(first)):
        yield from (({"winner": pattern}, ("repeat", "order")) for pattern in _patterns_of(columns, free))
    else:
        yield {"winner": first}, RATERS


def _columns(frame: pl.DataFrame, columns: Sequence[str]) -> Verdicts:
    """Layouts with one column of verdicts."""
    for winner in columns[:2]:
        signs = numbers_of(frame[winner]).lt(0).any()
        for role in ("preference", "winner") if winner == "preference" else ("winner", "preference"):
            if role == winner or role == "winner" or signs:
                yield {role: winner}, (*RATERS, "order")


def _phrases(columns: Sequence[str], phrases: Mapping[str, str], *, in_order: bool) -> Verdicts:
    """Layouts with a column of phrases. Phrases mostly name the outputs in the order in which the judge saw them."""
    for winner in columns:
        by_position = phrases[winner].replace("{winner}", "{position}")
        for phrase in (by_position, phrases[winner]) if in_order else (phrases[winner], by_position):
            yield {"winner": winner, "phrase": phrase}, (*RATERS, "order")


def _with_outputs(head: pl.DataFrame, roles: Mapping[str, str]) -> Guess:
    """Roles that include the two outputs, if the table has columns of outputs; then roles without outputs."""
    outputs = texts_of_pairs(head, [name for role, name in roles.items() if role != "item"])
    if outputs:
        yield {**roles, **outputs}, ()
    yield dict(roles), ()


def _patterns_of(columns: Sequence[str], free: Sequence[str]) -> Iterator[str]:
    """Patterns such as `{rater}_choice`, each for at least two columns of verdicts."""
    if len(columns) < 2:
        return
    names = []
    for mark in re.finditer(r"[\W_]+", columns[0]):
        left, right = columns[0][: mark.end()], columns[0][mark.start() :]
        names += [f"{literal(left)}{{rater}}", f"{{rater}}{literal(right)}"]
    yield from (name for name in names if set(matches(name, free)) == set(columns))
    yield f"{{rater:{','.join(map(literal, columns))}}}"


def other_roles(
    base: Mapping[str, str], candidates: Mapping[str, Sequence[str]], roles: Sequence[str]
) -> dict[str, str]:
    """Further roles, for columns that have the name of one of these roles."""
    others: dict[str, str] = {}
    for role in roles:
        free = [name for name in candidates[role] if name not in base.values() and name not in others.values()]
        others |= {role: free[0]} if free else {}
    return others
