"""Rows of the results for one aspect; the sentences of the verdict are made from these rows."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import names
from custodes.data.comparisons import HUMAN
from custodes.data.interim_analyses import SEQUENTIAL_RULE
from custodes.evaluate.agreement.agreement import Agreement
from custodes.evaluate.agreement.differences import ORDERING
from custodes.evaluate.annotators.annotators import Annotators
from custodes.evaluate.check.rules import SIDED
from custodes.evaluate.consistency.consistency import Consistency
from custodes.evaluate.favoritism import Favoritism
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM
from custodes.evaluate.leaderboard.leaderboard import CORRECTED, Leaderboard
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED
from custodes.evaluate.ranking import Ranking

MOST_NAMED = 3
SYSTEM_LEVEL = "pairwise_accuracy"
"""Statistic that is reported at system level."""
FEW_LABELS = 0.5
"""If at most this proportion of a metric's comparisons is annotated, the corrected ranks determine the best system."""
RATES = {FAVOURED: "over-rates", DISFAVOURED: "under-rates"}
"""Verb of each finding of partiality."""
LETTER = re.compile(r"[a-z]\d*")
EMPTY: Mapping[str, Result] = {
    kind.__name__.lower(): kind.from_parts([kind.part("")], ())
    for kind in (Agreement, Annotators, Consistency, Favoritism, Leaderboard, Ranking)
}
"""Empty results for questions that are omitted, for example for a study without metrics."""
Row = dict[str, Any]
Statements = Iterable[tuple[str, Iterable[str]]]
"""Kinds of statements, each with the sentences of this kind."""
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class AspectResults:
    """Rows of the tables of all results (by question) for one aspect, and values that several sentences use.

    `standing` has the metrics sorted by agreement, with the best metric first. `board` has the systems sorted by rank.
    The ranks are those by `judge`, which is `human`, or `corrected:METRIC` for human ratings corrected with the first
    metric.
    """

    def __init__(self, results: Mapping[str, Result], aspect: str) -> None:
        self.results = results = {**EMPTY, **results}
        self.aspect = aspect
        self.sided = bool(self.rows("check", "problems")["rule"].is_in(SIDED).any())
        accuracy_rows = self.rows("agreement", "metrics").select(
            "metric", *(SYSTEM_LEVEL + suffix for suffix in ("", "_low", "_high"))
        )
        standing_rows = self.rows("agreement", "standing").join(accuracy_rows, on="metric", maintain_order="left")
        self.standing: list[Row] = standing_rows.to_dicts()
        self.ordered = bool(self.standing) and self.standing[0]["statistic"] == ORDERING
        self.bounded = any(standing_row["value_low"] is not None for standing_row in self.standing)
        self.alpha = results["agreement"].provenance.options.get("alpha")
        self.leaders = leaders(results["agreement"]).get(aspect, [])  # type: ignore[arg-type]
        self.partiality = self.rows("favoritism", "partiality")
        # Findings of partiality, with the most significant finding first.
        finding_rows = self.partiality.filter(pl.col("finding").is_in([FAVOURED, DISFAVOURED]))
        self.partial: list[Row] = finding_rows.sort("p_adjusted", "p_value", maintain_order=True).to_dicts()
        self.decisions = self.rows("ranking", "decisions").filter(pl.col("decision").is_not_null())
        best_metric = self.standing[0]["metric"] if self.standing else ""
        corrected_rows = self.rows("leaderboard", "corrected").filter(metric=best_metric)
        self.corrected = _first(corrected_rows.filter(pl.col("labels") <= FEW_LABELS * pl.col("battles")))
        # Set if the comparisons by annotators are not a random part of the comparisons by the best metric.
        self.not_random = _first(corrected_rows.filter(pl.col("p_random") < NOT_RANDOM))
        self.judge = f"{CORRECTED}{best_metric}" if self.corrected and not self.corrected["reason"] else HUMAN
        self.stopped = any(note.rule == SEQUENTIAL_RULE for note in results["leaderboard"].notes)
        system_rows = self.rows("leaderboard", "systems").filter(pl.col("strength").is_not_null(), rater=self.judge)
        self.board: list[Row] = system_rows.sort("part", "rank").to_dicts()
        self.top: list[str] = [system_row["system"] for system_row in self.board if system_row["may_be_first"]]
        # Groups of systems that are not connected by comparisons; empty if all systems are connected.
        system_groups = grouped((system_row["part"], system_row["system"]) for system_row in self.board)
        self.split = list(system_groups.values()) if len(system_groups) > 1 else []
        self.pairs = self.rows("leaderboard", "pairs").filter(rater=self.judge)
        self.removal = _first(
            self.rows("leaderboard", "leaders").filter(pl.col("removals").is_not_null(), rater=self.judge)
        )
        self.cycles: list[Row] = self.rows("leaderboard", "cycles").filter(rater=self.judge).to_dicts()
        # Pairs that are decided by direct comparisons, because the strengths do not fit these pairs.
        pair_alpha = 1 - results["leaderboard"].provenance.options.get("confidence", 0.95)
        directly_decided_rows = self.pairs.filter(pl.col("p_direct") <= pair_alpha, pl.col("p_fit") <= pair_alpha)
        self.decided_directly = set(map(frozenset, directly_decided_rows.select("system_a", "system_b").iter_rows()))

    def rows(self, question: str, table: str) -> pl.DataFrame:
        """Return the rows of a table for the aspect."""
        return self.results[question].to_frame(table).filter(aspect=self.aspect)

    def metrics_on_side(self, *sides: str) -> list[str]:
        """Return the metrics on one of the `sides` of the chance level: above, below or unclear."""
        return [standing_row["metric"] for standing_row in self.standing if standing_row["side"] in sides]

    def is_undecided(self, first_row: Row, second_row: Row) -> bool:
        """Return whether neither the joint test nor the direct comparisons decide which of two systems is better."""
        pair = frozenset((first_row["system"], second_row["system"]))
        return share_a_letter(first_row, second_row) and pair not in self.decided_directly


def _first(frame: pl.DataFrame) -> Row | None:
    return next(frame.iter_rows(named=True), None)


def applicable(*conditions_and_texts: tuple[object, str]) -> Iterator[str]:
    """Return the texts whose condition is true.

    >>> list(applicable((True, "A is best."), ([], "Nothing is known.")))
    ['A is best.']
    """
    return (text for is_applicable, text in conditions_and_texts if is_applicable)


def grouped(keys_and_values: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key; keys and values keep their order.

    >>> grouped([("A", "x"), ("B", "x"), ("A", "y")])
    {'A': ['x', 'y'], 'B': ['x']}
    """
    values_of_key: dict[Key, list[Value]] = {}
    for key, value in keys_and_values:
        values_of_key.setdefault(key, []).append(value)
    return values_of_key


def leaders(agreement: Agreement) -> dict[str, list[str]]:
    """Return the top group of metrics of each aspect, with the best metric first; empty if no metric is above chance.

    If metrics were not tested against each other, the top group consists of all metrics above chance.
    """
    is_above_chance = pl.col("side") == "above"
    is_top_metric = pl.col("may_be_best").fill_null(is_above_chance) & is_above_chance.any()
    standing_by_aspect = agreement.standing.group_by("aspect", maintain_order=True)
    return dict(standing_by_aspect.agg(pl.col("metric").filter(is_top_metric)).iter_rows())


def rated_systems(findings: list[Row]) -> str:
    """Return the verbs and the systems of the findings of one metric: `over-rates A and under-rates B and C`."""
    clauses = [
        f"{verb} {names(systems, limit=MOST_NAMED)}"
        for finding, verb in RATES.items()
        if (systems := [finding_row["system"] for finding_row in findings if finding_row["finding"] == finding])
    ]
    return " and ".join(clauses)


def share_a_letter(first_row: Row, second_row: Row) -> bool:
    """Return whether two metrics, or two systems, do not differ significantly."""
    first_letters, second_letters = ({*LETTER.findall(row["group"] or "")} for row in (first_row, second_row))
    return not first_letters.isdisjoint(second_letters)
