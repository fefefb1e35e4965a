"""Severity and message of every rule of `check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from custodes.data.interim_analyses import STOPPED
from custodes.data.preferences import HALF
from custodes.data.raters import INCOMPLETE, UNDECLARED, UNLIKE
from custodes.data.study import POOLED, REPEATED, TASTES
from custodes.evaluate.check.problems import Problem

TRUNCATED = "truncated"
"""The rule on scores of truncated texts, which is also the note of a metric with such scores."""
SILENT = "annotators-without-ratings"
SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides")
"""Notes on an aspect that are warnings."""
WARNED = (
    *(POOLED, REPEATED, TASTES, "unused-annotators", "place-or-column", "item-in-each-row", "graded-preference"),
    *("unused-order", SILENT, HALF, UNLIKE, UNDECLARED, INCOMPLETE, TRUNCATED, STOPPED),
)
"""Notes on a study that are warnings, since they may reverse a conclusion or bias a comparison; others are infos."""
SIDED = ("one-sided-annotators", "sides")
"""Rules on pairs whose sides (chosen, rejected) are compared instead of systems."""

RULES: dict[str, tuple[Literal["error", "warning", "info"], str]] = {
    "nothing-compared": ("error", "{why}"),
    "no-metrics": ("warning", "{why}"),
    "no-annotators": ("warning", "{why}"),
    "no-human-ratings": (
        "info",
        "every rater is a metric ({metrics}); add a file of human ratings, or collect human ratings with "
        "custodes annotate new (leaderboard and consistency need no annotators)",
    ),
    "few-items": ("warning", "{few}; with fewer than {fewest} items intervals are approximate"),
    "few-resamples": (
        "info",
        "negative agreement is not tested: a test at {alpha:.0%} needs at least {fewest} resamples",
    ),
    "negative-agreement": (
        "warning",
        "these metrics order outputs significantly against the annotators (Kendall correlation below 0, all metrics "
        "tested together at level {alpha:.0%}): {metrics}{advice}",
    ),
    "one-sided-annotators": (
        "warning",
        "annotators never prefer another system to {side!r}. If the systems are sides of a pair "
        "(chosen, rejected), read sample accuracy; favoritism and rankings have "
        "no meaning",
    ),
    "coverage-differs": (
        "warning",
        "metrics that did not rate all comparisons with human ratings: {metrics}. The comparisons that a metric rated "
        "may be easier, so two metrics are compared on the comparisons that both metrics rated",
    ),
    "different-items": (
        "warning",
        "annotators did not rate the same items for all systems ({systems}), so means would "
        "confound systems with items; system scores are adjusted for items",
    ),
    "disjoint-systems": (
        "warning",
        "systems form {n} sets without a common human-rated item ({sets}); systems of different sets are not compared",
    ),
    "beyond-declared": (
        "warning",
        "scores outside the range declared in the raters file: {raters}; combined metrics clip them",
    ),
    "one-order": (
        "warning",
        "judges that saw every pair of systems in one order only: {raters}. Position bias cannot be separated from "
        "preference; show these judges some comparisons in both orders",
    ),
    "one-of-two-orders": (
        "warning",
        "comparisons with a verdict in one order only, by judges that saw other comparisons in both: {raters}. "
        "These verdicts contain any position bias; query the other order too, or give a row without a "
        "preference where the judge did not answer",
    ),
    "near-duplicates": ("info", "near-identical metrics (correlation above {correlation}): {pairs}"),
    "mean-of-others": ("warning", "{rater!r} is the mean of the {others}"),
    "missing-code": (
        "warning",
        "values far from all others of a rater, which may be codes for a missing score: {codes}. If a value means "
        "missing, leave the cell empty",
    ),
    "same-signature": (
        "warning",
        "raters with the same signature under several names: {raters}. These names are one rater "
        "counted several times; keep one name, or correct the signatures in the raters file",
    ),
    TRUNCATED: (
        "warning",
        "scores of texts truncated to fit a model: {raters}. The rest of the text was not rated; "
        "compare such raters on short texts only, or use a model with a longer input",
    ),
    "reference-system": (
        "warning",
        "system {system!r} looks like the reference: {why}. Metrics that use the reference rank "
        "it first, which distorts their agreement; exclude it with --systems '!{system}' (in Python "
        "systems='!{system}'), or report both",
    ),
    "identical-systems": (
        "warning",
        "systems {systems} are equal on all items, by {by}, and count several times; keep one, "
        "as with --systems '!{other}' (in Python systems='!{other}')",
    ),
    "missing-outputs": (
        "warning",
        "{n} of {cells} outputs are missing or empty: {systems}. Two systems are compared on the items for which both "
        "systems have an output",
    ),
    "constant-outputs": ("warning", "systems with the same text for every item: {systems}; check how they were run"),
    "duplicate-outputs": (
        "info",
        "{n} outputs equal the output of another system for the same item: {systems}; such comparisons are ties",
    ),
    "texts-only": (
        "info",
        "texts of {n} systems on {items} items, without scores and verdicts; add them with custodes score, judge or"
        " annotate",
    ),
    "refusals": (
        "warning",
        "annotators could not judge over {most:.0%} of the comparisons in {n} of {n_pairs} "
        "pairs: {pairs}. Decisions on these pairs depend on the remaining comparisons; read "
        "the reasons and the bounds in the report ('Interim analyses')",
    ),
    "refusals-differ": (
        "warning",
        "annotators could not judge comparisons with {systems} significantly more often than "
        "others ({rates}, all systems tested together). If refusals depend on "
        "the preference, decisions are biased; read the reasons, and check how these systems are displayed",
    ),
}


def problem(rule: str, examples: Sequence[str] = (), **values: Any) -> Problem:
    """A problem with the message of its rule.

    >>> problem("beyond-declared", ["judge"], raters="judge (12%)").severity
    'warning'
    """
    severity, sentence = RULES[rule]
    return Problem(severity, rule, sentence.format(**values), examples)
