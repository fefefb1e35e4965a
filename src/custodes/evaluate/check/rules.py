"""Problems that checks find: severity and message of every rule, the table, and the base class of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from custodes.answers.result import Result
from custodes.answers.tables import View, label, labels, table
from custodes.answers.views import split_by_aspect, title_with_aspect
from custodes.data.dependent_items import REPEATED_RULE, TASTES_RULE
from custodes.data.interim_analyses import SEQUENTIAL_RULE
from custodes.data.raters import DIRECTION_RULE, SIGNATURE_RULE
from custodes.data.study import POOLED_RULE
from custodes.data.ties_and_orders import HALF_RULE
from custodes.evaluate.scores import UNCERTAIN_RULE, UNLINKED_RULE

TRUNCATED = "truncated"
"""Rule on scores of truncated texts; the note of a metric with such scores has the same rule."""
SILENT = "annotators-without-ratings"
SERIOUS_NOTES = ("constant-metric", "no-overlap", "all-ties", "one-item", "sides", UNCERTAIN_RULE, UNLINKED_RULE)
"""Rules of notes on a single aspect that count as warnings."""
WARNED = (
    *(
        POOLED_RULE,
        REPEATED_RULE,
        TASTES_RULE,
        "unused-annotators",
        "place-or-column",
        "item-in-each-row",
        "graded-preference",
    ),
    *("unused-order", SILENT, HALF_RULE, SIGNATURE_RULE, DIRECTION_RULE, TRUNCATED, SEQUENTIAL_RULE),
)
"""Rules of notes that are warnings: the problem that the note reports may reverse a conclusion or bias a comparison."""
SIDED = ("one-sided-annotators", "sides")
"""Rules of problems that occur if the two systems are only the chosen and the rejected output of each pair."""

RULES: dict[str, tuple[Literal["error", "warning", "info"], str]] = {
    "nothing-compared": ("error", "{why}"),
    "no-metrics": ("warning", "{why}"),
    "no-annotators": ("warning", "{why}"),
    "no-human-ratings": (
        "info",
        "every rater is a metric ({metrics}); add a file of human ratings, or collect human ratings with custodes"
        " annotate new (leaderboard and consistency need no human ratings)",
    ),
    "few-items": ("warning", "{few}; with fewer than {fewest} items, intervals are approximate"),
    "negative-agreement": (
        "warning",
        "negative correlation with human ratings: {metrics} (Kendall correlation significantly below 0, "
        "all metrics tested jointly at level {alpha:.0%}){advice}",
    ),
    "reversed-annotator": (
        "warning",
        "answers of {raters} agree with those of other annotators less than by chance (all annotators tested jointly "
        "at level {alpha:.0%}). If an annotator used a reversed scale or swapped the two outputs, reverse the answers "
        "of this annotator",
    ),
    "one-sided-annotators": (
        "warning",
        "annotators prefer {side!r} in every comparison that is not a tie. If the two systems stand for the "
        "chosen and the rejected output of each pair, use only the sample accuracy of metrics: favoritism and "
        "rankings of these two systems have no meaning",
    ),
    "coverage-differs": (
        "warning",
        "{metrics} did not rate all comparisons that annotators rated. The comparisons that a metric rated "
        "may be easier, so each pair of metrics is evaluated only on the comparisons that both rated",
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
        "{raters} gave scores outside the range that the raters file declares; combined metrics clip these scores",
    ),
    "one-order": (
        "warning",
        "{raters} judged every pair of systems in only one order. Position bias cannot be separated from "
        "preference; show these judges some comparisons in both orders",
    ),
    "one-of-two-orders": (
        "warning",
        "{raters} gave verdicts in both orders on some comparisons, but in only one order on other "
        "comparisons (numbers in brackets). Verdicts in one order may contain position bias; query the missing "
        "order, or give a row without a preference if the judge did not answer",
    ),
    "look-alikes": (
        "warning",
        "some {what} have names that look equal but count as different: {names}; use one spelling",
    ),
    "annotators-as-metrics": (
        "warning",
        "these raters look human but are evaluated as metrics: {raters}. If they are human, name them in the option "
        "human, or declare them as human in the raters file; otherwise exclude them with the option metrics to "
        "ignore them",
    ),
    "near-duplicates": ("info", "these metrics are nearly identical (correlation above {correlation}): {pairs}"),
    "mean-of-others": ("warning", "{rater!r} is the mean of the {others}"),
    "missing-code": (
        "warning",
        "some raters have one value far from the other scores, which may be a code for a missing score: "
        "{codes}. If the value means missing, leave the cell empty",
    ),
    "same-signature": (
        "warning",
        "{raters} were read with the same signature, so one rater counts several times under these "
        "names; keep one name, or correct the signatures in the raters file",
    ),
    TRUNCATED: (
        "warning",
        "{raters} scored texts that were truncated to fit a model. The end of a truncated text was not "
        "rated; compare these raters on short texts only, or use a model with a longer input",
    ),
    "reference-system": (
        "warning",
        "system {system!r} looks like the reference: {why}. Metrics that use the reference rank "
        "this system first, which distorts agreement; exclude the system with --systems '!{system}' (in Python "
        "systems='!{system}'), or report results with and without the system",
    ),
    "identical-systems": (
        "warning",
        "systems {systems} are equal on all items according to {by}, so one system counts several times; keep one of "
        "them, for example with --systems '!{other}' (in Python systems='!{other}')",
    ),
    "missing-outputs": (
        "warning",
        "{n} of {cells} outputs are missing or empty: {systems}. Two systems are compared on the items for which both "
        "systems have an output",
    ),
    "constant-outputs": (
        "warning",
        "{systems} gave one constant text for all items; read the outputs, and repair or exclude them",
    ),
    "duplicate-outputs": (
        "info",
        "{n} outputs equal the output of another system for the same item: {systems}; comparisons of "
        "equal outputs are ties",
    ),
    "texts-only": (
        "info",
        "there are texts of {n} systems on {items} items, but no scores or verdicts; add scores or verdicts with"
        " custodes score, judge or annotate",
    ),
    "refusals": (
        "warning",
        "annotators could not judge over {most:.0%} of the comparisons in {n} of {n_pairs} "
        "pairs of systems: {pairs}. Decisions on these pairs depend on the remaining comparisons; read "
        "the reasons and the bounds in the report ('Interim analyses')",
    ),
    "refusals-differ": (
        "warning",
        "annotators could not judge comparisons with {systems} significantly more often than "
        "other comparisons ({rates}, all systems tested together). If refusals depend on "
        "the preference, decisions are biased; read the reasons, and check how these systems are displayed",
    ),
}


def problem(rule: str, examples: Sequence[str] = (), **values: Any) -> Problem:
    """Return a problem with the severity and the message of the rule.

    >>> problem("beyond-declared", ["judge"], raters="judge (12%)").severity
    'warning'
    """
    severity, message_template = RULES[rule]
    return Problem(severity, rule, message_template.format(**values), examples)


def problems_of(rule: str, examples: Sequence[str], **values: Any) -> list[Problem]:
    """Return the problem of a rule as a list; the list is empty if the problem concerns no name."""
    return [problem(rule, examples, **values)] if examples else []


class Problem(NamedTuple):
    """A row of the table `problems`."""

    severity: Literal["error", "warning", "info"]
    rule: str
    message: str
    examples: Sequence[str] = ()


def merge_aspects(problems: pl.DataFrame) -> pl.DataFrame:
    """Return the problems; problems that differ only in the aspect become one row with all aspects."""
    if "aspect" not in problems.columns or problems.is_empty():
        return problems
    return (
        problems.with_columns(pl.col("examples").list.join("\n"))
        .group_by(*[column_name for column_name in problems.columns if column_name != "aspect"], maintain_order=True)
        .agg(pl.col("aspect").unique(maintain_order=True).str.join(", "))
        .with_columns(pl.col("examples").str.split("\n"))
        .select(problems.columns)
    )


def _problem_views(problems: pl.DataFrame) -> Iterator[View]:
    merged_rows = merge_aspects(problems)
    column_names = ("severity", "rule", "message")
    for aspect_name, aspect_rows in split_by_aspect(merged_rows, "aspect" if "aspect" in merged_rows.columns else ""):
        yield View(
            title=title_with_aspect("problems", aspect_name),
            header=column_names,
            labels=("Severity", "Rule", "What"),
            rows=tuple(aspect_rows.select(column_names).iter_rows()),
        )


def problem_table(doc: str, *, page: str) -> Any:
    """Return the declaration of the table of problems; `page` names the documentation page that explains the rules."""
    return table(
        doc,
        label("severity", "error, warning or info"),
        label("rule", f"stable name of the rule, explained on the documentation page of {page}"),
        label("message", "description of the problem and advice", "What"),
        labels("examples", "names that the problem concerns", essential=False),
        view=_problem_views,
    )


class ProblemResult(Result):
    """A result with a table `problems`."""

    problems: pl.DataFrame

    def note_texts(self) -> Iterator[str]:
        """Return one line if there are no problems; notes are in the table `problems`."""
        return iter(() if self.problems.height else ("no problems found",))

    @property
    def status(self) -> int:
        """Exit status: 1 if there are warnings or errors, otherwise 0."""
        return int(not {"warning", "error"}.isdisjoint(self.problems["severity"]))
