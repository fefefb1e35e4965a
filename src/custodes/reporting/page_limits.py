"""Limits on the tables of a page, so that browsers can open it.

The page contains the leading metrics, and pairs of the leading systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import isqrt
from typing import Any

import polars as pl

from custodes.answers.result import Result
from custodes.data.comparisons import HUMAN

METRICS = 100
"""Maximum number of metrics on a page. With 100 metrics, each statistic and aspect has 4,950 pairs of metrics."""
PAIRS = 30_000
"""Maximum number of table rows (pairs of systems, times raters, times aspects). A browser displays this number in about
a second."""
FEWEST, MOST = 10, 60
"""Smallest and largest limit on the number of systems. The page contains all pairs of these systems; a map of 60
systems has 3,540 cells."""

METRIC_COLUMNS = ("metric", "metric_a", "metric_b", "rater", "rater_a", "rater_b")
PAIR_OF_SYSTEMS = (("system_a", "system_b"), ("winner", "loser"))


@dataclass(frozen=True, kw_only=True)
class PageLimits:
    """The leading systems and metrics, which are on the page, in the order of their ranks.

    `without`: names of the omitted metrics in the tables (with and without an aspect). `n_systems` and `n_metrics`:
    numbers of all systems and metrics.
    """

    systems: tuple[str, ...]
    n_systems: int
    metrics: tuple[str, ...]
    without: tuple[str, ...]
    n_metrics: int

    @classmethod
    def from_results(cls, results: Mapping[str, Result]) -> PageLimits:
        """The limits of a page with these results.

        The leading systems are the best systems by human ratings, and the leading metrics are the metrics with the best
        agreement.
        """
        ranked_metrics = _leading_labels(results, "agreement", "standing", "metric")
        ranked_systems = _leading_labels(results, "leaderboard", "systems", "system")
        aspects = results["leaderboard"].to_frame("systems")["aspect"].unique() if "leaderboard" in results else [""]
        page_metrics = ranked_metrics[:METRICS]
        return cls(
            systems=ranked_systems[
                : _largest_system_count(len(ranked_systems), (1 + len(page_metrics)) * len(aspects))
            ],
            n_systems=len(ranked_systems),
            metrics=page_metrics,
            without=tuple(
                rater_name
                for metric in ranked_metrics[METRICS:]
                for rater_name in (metric, *(f"{metric}:{aspect}" for aspect in aspects if aspect))
            ),
            n_metrics=len(ranked_metrics),
        )

    def result(self, result: Result) -> Result:
        """A result with only the rows that are on the page."""
        table_of_name: dict[str, Any] = {table_name: self.part(table) for table_name, table in result.tables().items()}
        return replace(result, **table_of_name)

    def part(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that are on the page."""
        for pair_column_names in PAIR_OF_SYSTEMS:
            if {*pair_column_names} <= {*table.columns} and len(self.systems) < self.n_systems:
                table = table.filter(pl.all_horizontal(pl.col(pair_column_names).is_in(list(self.systems))))
        for column_name in METRIC_COLUMNS:
            if column_name in table.columns and self.without:
                table = table.filter(~pl.col(column_name).is_in(list(self.without)))
        return table

    def note(self) -> str:
        """Sentences on the omitted rows and how to get the complete tables; '' if nothing is omitted."""
        n_omitted_of_limit_text = {
            f"pairs of the {len(self.systems)} leading systems (of {self.n_systems})": self.n_systems
            - len(self.systems),
            f"the {len(self.metrics)} leading metrics (of {self.n_metrics})": len(self.without),
        }
        limits_text = " and ".join(limit_text for limit_text, n_omitted in n_omitted_of_limit_text.items() if n_omitted)
        return limits_text and (
            "To keep the page small enough for a browser, the tables and figures below are limited to "
            f"{limits_text}. Notes refer to all systems and metrics. For the complete tables, run the same command "
            "with --format json, or the command of a single question."
        )


def _leading_labels(results: Mapping[str, Result], question: str, table_name: str, column_name: str) -> tuple[str, ...]:
    """Labels of systems or metrics, from one column of one table, ordered by their best rank in any aspect."""
    if question not in results:
        return ()
    question_rows = results[question].to_frame(table_name)
    if "rater" in question_rows.columns:
        question_rows = question_rows.filter(rater=HUMAN).sort("rank", nulls_last=True, maintain_order=True)
    labels_by_aspect: Sequence[Sequence[str]] = [
        aspect_rows[column_name].to_list() for _, aspect_rows in question_rows.group_by("aspect", maintain_order=True)
    ]
    return tuple(
        dict.fromkeys(
            label for rank_labels in zip_longest(*labels_by_aspect) for label in rank_labels if label is not None
        )
    )


def _largest_system_count(n_systems: int, n_repetitions: int) -> int:
    """The largest number of systems for which the number of pairs times `n_repetitions` is at most `PAIRS`, but at
    least `FEWEST` and at most `MOST`."""
    max_systems = (1 + isqrt(1 + 8 * (PAIRS // n_repetitions))) // 2  # the root of n (n - 1) / 2 = number of pairs
    return min(n_systems, max(max_systems, FEWEST), MOST)
