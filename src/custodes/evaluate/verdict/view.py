"""What the results say of one aspect, and what a sentence about it is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from custodes.answers.result import Result
from custodes.data.comparisons import HUMAN
from custodes.data.looks import STOPPED
from custodes.evaluate.agreement.agreement import Agreement
from custodes.evaluate.agreement.standing import ORDERING
from custodes.evaluate.check.check import SIDED
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM
from custodes.evaluate.leaderboard.leaderboard import CORRECTED
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED

Kind = Literal["design", "best", "trust", "faults", "favours", "labels", "chance", "flips", "uncertain"]
MOST_NAMED = 3
POINTS, PROPORTION, COUNT = "points", "proportion", "count"
"""Units of a value."""
SYSTEM_LEVEL = "pairwise_accuracy"
"""The statistic that is reported at system level."""
FEW_LABELS = 0.5
"""People are few where they judged at most this share of what the metric judged: then the best system is told by their
verdicts corrected with it."""
LETTER = re.compile(r"[a-z]\d*")
Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One sentence or two, and the number behind it with its unit."""

    kind: Kind
    text: str
    rater: str = ""
    system: str = ""
    value: float | None = None
    value_low: float | None = None
    value_high: float | None = None
    unit: str = ""
    p_value: float | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not self.unit:
            raise ValueError(f"a value without its unit: {self.text}")


class View:
    """What the results (question to answer) say of one aspect: rows of their tables; `standing` says how the metrics
    stand, best first, and `board` how the systems do by `judge`: people, or people corrected with the first metric;
    of the raters in `lower` it is said that lower is better."""

    def __init__(self, results: Mapping[str, Result], aspect: str) -> None:
        def tables(question: str) -> dict[str, pl.DataFrame]:
            return {name: frame.filter(aspect=aspect) for name, frame in results[question].tables().items()}

        self.aspect = aspect
        self.problems = tables("check")["problems"]
        used = results["check"].to_frame("used")
        self.lower = set(used.filter(~pl.col("higher_is_better"))["rater"])
        self.sided = bool(self.problems["rule"].is_in(SIDED).any())
        agreed = tables("agreement")
        accuracies = agreed["metrics"].select("metric", *(SYSTEM_LEVEL + end for end in ("", "_low", "_high")))
        self.standing: list[Row] = agreed["standing"].join(accuracies, on="metric", maintain_order="left").to_dicts()
        self.ordered = bool(self.standing) and self.standing[0]["statistic"] == ORDERING
        self.tested = len(self.standing) < 2 or any(row["may_be_best"] is not None for row in self.standing)
        self.tests = agreed["comparisons"]
        self.leaders = leaders(results["agreement"]).get(aspect, [])  # type: ignore[arg-type]
        self.favi = tables("favoritism")
        self.decided = tables("ranking")
        self.people = self.decided["decisions"].filter(pl.col("decision").is_not_null(), rater=HUMAN)
        self.again = _said(results["ranking"], "self-agreement", aspect)
        self.judges = tables("consistency") if "consistency" in results else {}
        boards = tables("leaderboard") if "leaderboard" in results else {}
        first = self.standing[0]["metric"] if self.standing else ""
        corrected = boards["corrected"].filter(metric=first) if boards else pl.DataFrame()
        # How the first metric corrects people, where these judged a small part of what it did.
        self.corrected = _row_where(corrected, pl.col("labels") <= FEW_LABELS * pl.col("battles"))
        # Where the human comparisons are not a random part of those of the first metric.
        self.not_random = _row_where(corrected, pl.col("p_random") < NOT_RANDOM)
        usable = self.corrected is not None and not self.corrected["reason"]
        self.judge = f"{CORRECTED}{self.corrected['metric']}" if self.corrected and usable else HUMAN
        unbeaten = _said(results["leaderboard"], "unbeaten", aspect) if boards and self.judge == HUMAN else []
        self.unbeaten = [message.partition(": ")[2] for message in unbeaten if message.startswith(HUMAN)]
        self.stopped = "leaderboard" in results and any(n.rule == STOPPED for n in results["leaderboard"].notes)
        self.board: list[Row] = []
        self.more_comparisons = pl.DataFrame()
        if boards:
            forecasts = boards["pairs"].filter(pl.col("more_comparisons").is_not_null(), rater=self.judge)
            self.more_comparisons = forecasts.select("system_a", "system_b", "more_comparisons")
            known = boards["systems"].filter(pl.col("strength").is_not_null(), rater=self.judge)
            self.board = known.sort("part", "rank").to_dicts()

    def side(self, name: str) -> list[str]:
        """The metrics on one side of chance."""
        return [row["metric"] for row in self.standing if row["side"] == name]

    @property
    def bounded(self) -> bool:
        """Whether there are intervals."""
        return any(row["value_low"] is not None for row in self.standing)

    @property
    def partial(self) -> list[Row]:
        """Metric and system that it is partial to (or against), the clearest first."""
        found = self.favi["partiality"].filter(pl.col("finding").is_in([FAVOURED, DISFAVOURED]))
        return found.sort("p_adjusted", "p_value", maintain_order=True).to_dicts()

    @property
    def split(self) -> list[list[str]]:
        """The groups of systems that never met, where there are several."""
        parts: dict[Any, list[str]] = {}
        for row in self.board:
            parts.setdefault(row["part"], []).append(row["system"])
        return [*parts.values()] if len(parts) > 1 else []

    @property
    def first(self) -> list[Row]:
        """The systems that may be best."""
        return [row for row in self.board if row["may_be_first"]]


def _row_where(frame: pl.DataFrame, condition: pl.Expr) -> Row | None:
    """The first row of a frame on which a condition holds, if there is any."""
    return next(frame.filter(condition).iter_rows(named=True), None) if frame.height else None


def _said(answer: Result, rule: str, aspect: str) -> list[str]:
    return [note.message for note in answer.notes if note.rule == rule and note.aspect == aspect]


def leaders(agreement: Agreement) -> dict[str, list[str]]:
    """Aspect to the metrics that may be best, the highest first; empty where none is above chance.

    Where metrics were not compared, those above chance.
    """
    found: dict[str, list[str]] = {}
    for (aspect,), rows in agreement.standing.group_by("aspect", maintain_order=True):
        above = pl.col("side") == "above"
        some = rows.filter(pl.col("may_be_best").fill_null(above))["metric"].to_list()
        found[str(aspect)] = some if rows.filter(above).height else []
    return found


def value_of(row: Row, column: str) -> dict[str, Any]:
    """The value of a statement and its bounds, from a column with an interval."""
    return {f"value{end}": row[f"{column}{end}"] for end in ("", "_low", "_high")}


def letters_of(row: Row) -> set[str]:
    """The letters of a metric or a system."""
    return {*LETTER.findall(row["group"] or "")}


def share_a_letter(one: Row, other: Row) -> bool:
    """Whether two metrics, or two systems, cannot be told apart."""
    return not letters_of(one).isdisjoint(letters_of(other))


def only(labels: Sequence[str]) -> str:
    """The one label, or nothing where there are several."""
    return labels[0] if len(labels) == 1 else ""
