"""Every rule of `check`: its severity and its sentence, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from custodes.data.looks import STOPPED
from custodes.data.preferences import HALF
from custodes.data.raters import INCOMPLETE, UNLIKE, UNTOLD
from custodes.data.study import POOLED, REPEATED, TASTES
from custodes.evaluate.check.problems import Problem

TRUNCATED = "truncated"
"""The rule on scores of texts that were cut, and the note of a metric that made such scores."""
SILENT = "people-without-scores"
SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides")
"""Notes of an aspect that are warnings."""
WARNED = (
    *(POOLED, REPEATED, TASTES, "unused-people", "place-or-column", "item-in-each-row", "graded-preference"),
    *("unused-order", SILENT, HALF, UNLIKE, UNTOLD, INCOMPLETE, TRUNCATED, STOPPED),
)
"""Notes of a study that are warnings, since they may reverse a number or leave a side empty; all others are infos."""
SIDED = ("one-sided-people", "sides")
"""Sides of a pair are compared and not systems: by the human ratings, or as the format of the data declares."""

RULES: dict[str, tuple[Literal["error", "warning", "info"], str]] = {
    "nothing-compared": ("error", "{why}"),
    "no-metrics": ("warning", "{why}"),
    "no-people": ("warning", "{why}"),
    "few-items": ("warning", "{few}; intervals under {fewest} items are rough"),
    "few-resamples": (
        "info",
        "whether a metric runs against people is not tested: a test at {alpha:.0%} needs at least {fewest} resamples",
    ),
    "against-people": (
        "warning",
        "against people run (Kendall below 0, all metrics tested together at {alpha:.0%}): {metrics}{advice}",
    ),
    "one-sided-people": (
        "warning",
        "people never prefer the other side to {side!r}: if these are sides (chosen, rejected) and not systems, sample"
        " accuracy is the number to read; favoritism and rankings say nothing then",
    ),
    "coverage-differs": (
        "warning",
        "metrics rated less than others of what people compared: {metrics}; what they agree on may be the easier part,"
        " so two metrics are compared on what both rated",
    ),
    "different-items": (
        "warning",
        "people rated other items of some systems than of others ({systems}): means of systems would tell how hard"
        " their items are, so their scores are fitted beside effects of items",
    ),
    "disjoint-systems": (
        "warning",
        "systems fall into {n} sets that share no item that people rated ({sets}): systems of different sets are not"
        " compared",
    ),
    "beyond-declared": (
        "warning",
        "scores beyond the low and high of the raters file: {raters}; combinations clip them to the bounds",
    ),
    "one-order": (
        "warning",
        "judges that saw every pair of systems in one order only: {raters}; whether they prefer what is shown first"
        " cannot be told from what they prefer: show some comparisons in both orders",
    ),
    "one-of-two-orders": (
        "warning",
        "comparisons that a judge saw in one order, and others in both: {raters}; they count whole with what it said"
        " there, which holds its preference for a slot: judge the other order, too, or give a row without a preference"
        " where it did not answer",
    ),
    "near-duplicates": ("info", "metrics that are all but the same (correlation over {correlation}): {pairs}"),
    "mean-of-others": ("warning", "{rater!r} is the mean of the {others}"),
    "missing-code": ("warning", "a value far from all others of its rater: {codes}"),
    "same-signature": (
        "warning",
        "raters of one signature under several names: {raters}; they are one rater, which counts several times: keep"
        " one, or mend the signatures in the raters file",
    ),
    TRUNCATED: (
        "warning",
        "scores by texts that were cut to fit a model: {raters}; what was cut off was not judged: compare such raters"
        " on short texts only, or take a model that holds more",
    ),
    "reference-system": (
        "warning",
        "system {system!r} looks like the reference: {why}. Metrics that use the reference rank it first whatever its"
        " quality, which changes their agreement; leave it out with systems='!{system}', or report both",
    ),
    "identical-systems": (
        "warning",
        "systems {systems} are equal on all items, by {by}: they count as several systems and are one; keep one of"
        " them, such as with systems='!{other}'",
    ),
    "refusals": (
        "warning",
        "over {most:.0%} of what people were asked they could not judge in {n} of {n_pairs} pairs: {pairs}; what is"
        " decided there is of those who could. See their reasons, and what would hold had all of them preferred one"
        " system, or the other (the report, 'What stopped the asking')",
    ),
    "refusals-differ": (
        "warning",
        "people could not judge questions about {systems} more often than others, beyond chance ({rates}, all systems"
        " tested together): if they refuse where they would prefer one of the two, decisions are false; see their"
        " reasons, and what is shown of these systems",
    ),
}


def problem(rule: str, examples: Sequence[str] = (), **values: Any) -> Problem:
    """A problem by the sentence of its rule.

    >>> problem("beyond-declared", ["judge"], raters="judge (12%)").severity
    'warning'
    """
    severity, sentence = RULES[rule]
    return Problem(severity, rule, sentence.format(**values), examples)
