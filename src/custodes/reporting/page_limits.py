"""Limits on the tables of a page, so that browsers can open it.

The page contains the leading metrics, and pairs of the leading systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import comb
from typing import Any

import polars as pl

from custodes.answers.result import Result
from custodes.data.comparisons import HUMAN

METRICS = 100
"""Maximum number of metrics on a page. With 100 metrics, each statistic and aspect has 4,950 pairs of metrics."""
PAIRS = 30_000
"""Number of rows (pairs of systems, times raters, times aspects) that a browser opens in about a second."""
FEWEST, MOST = 10, 60
"""Smallest and largest limit on the systems whose pairs are on a page. A map of 60 systems has 3,540 cells."""

ONE = ("metric", "rater")
TWO = (("metric_a", "metric_b"), ("rater_a", "rater_b"))
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
        metrics = _leading_labels(results, "agreement", "standing", "metric")
        systems = _leading_labels(results, "leaderboard", "systems", "system")
        aspects = results["leaderboard"].to_frame("systems")["aspect"].unique() if "leaderboard" in results else [""]
        leading = metrics[:METRICS]
        return cls(
            systems=systems[: _largest_system_count(len(systems), (1 + len(leading)) * len(aspects))],
            n_systems=len(systems),
            metrics=leading,
            without=tuple(
                name for metric in metrics[METRICS:] for name in (metric, *(f"{metric}:{a}" for a in aspects if a))
            ),
            n_metrics=len(metrics),
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is omitted."""
        return len(self.systems) == self.n_systems and not self.without

    def result(self, result: Result) -> Result:
        """A result with only the rows that are on the page."""
        tables: dict[str, Any] = {name: self.part(table) for name, table in result.tables().items()}
        return result if self.is_unlimited else replace(result, **tables)

    def part(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that are on the page."""
        is_kept_row = pl.lit(True)
        for first, second in PAIR_OF_SYSTEMS:
            if {first, second} <= {*table.columns} and len(self.systems) < self.n_systems:
                is_kept_row &= pl.all_horizontal(pl.col(first, second).is_in(list(self.systems)))
        for name in (*ONE, *(name_of_pair for pair in TWO for name_of_pair in pair)):
            if name in table.columns and self.without:
                is_kept_row &= ~pl.col(name).is_in(list(self.without))
        return table.filter(is_kept_row)

    def note(self) -> str:
        """Sentences on the omitted rows and how to get the complete tables; '' if nothing is omitted."""
        parts = []
        if len(self.systems) < self.n_systems:
            parts.append(f"pairs of the {len(self.systems)} leading systems (of {self.n_systems})")
        if self.without:
            parts.append(f"the {len(self.metrics)} leading metrics (of {self.n_metrics})")
        if not parts:
            return ""
        return (
            "To keep the page small enough for a browser, the tables and figures below are limited to "
            f"{' and '.join(parts)}. Notes refer to all systems and metrics. The same command with --format "
            "json, or the command of each question, gives the complete tables."
        )


def _leading_labels(results: Mapping[str, Result], question: str, table: str, column: str) -> tuple[str, ...]:
    """The labels in a column of a table of a question, ordered by their best rank in any aspect."""
    if question not in results:
        return ()
    rows = results[question].to_frame(table)
    if "rater" in rows.columns:
        rows = rows.filter(rater=HUMAN).sort("rank", nulls_last=True, maintain_order=True)
    orders: Sequence[Sequence[str]] = [
        of_aspect[column].to_list() for _, of_aspect in rows.group_by("aspect", maintain_order=True)
    ]
    return tuple(
        dict.fromkeys(name for names_of_rank in zip_longest(*orders) for name in names_of_rank if name is not None)
    )


def _largest_system_count(n_systems: int, times: int) -> int:
    """The largest number of systems, from `FEWEST` to `MOST`, whose pairs times `times` are at most `PAIRS`."""
    largest_n = max((n for n in range(FEWEST, MOST + 1) if comb(n, 2) * times <= PAIRS), default=FEWEST)
    return min(n_systems, largest_n)
