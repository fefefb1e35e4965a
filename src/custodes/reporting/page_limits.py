"""Limits on the tables of a page, so that browsers can open it: the leading systems by pair, the leading metrics."""

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
"""Maximum number of metrics in a page: about five thousand comparisons for each statistic and aspect."""
PAIRS = 30_000
"""Approximate maximum number of rows (pairs of systems, times metrics, times aspects) that a browser opens in a
second."""
FEWEST, MOST = 10, 60
"""Limits on the number of systems with pairs in a page, for any number of metrics; a map of 60 has 3,540 cells."""

ONE = ("metric", "rater")
TWO = (("metric_a", "metric_b"), ("rater_a", "rater_b"))
PAIR_OF_SYSTEMS = (("system_a", "system_b"), ("winner", "loser"))


@dataclass(frozen=True, kw_only=True)
class PageLimits:
    """The leading ones of all `systems` and `metrics`, in their order; `without`: names of omitted metrics, as in
    tables.
    """

    systems: tuple[str, ...]
    n_systems: int
    metrics: tuple[str, ...]
    without: tuple[str, ...]
    n_metrics: int

    @classmethod
    def of(cls, results: Mapping[str, Result]) -> PageLimits:
        """Limits of a page with these results; leading are systems by human ratings, and metrics by their agreement."""
        metrics = _leading(results, "agreement", "standing", "metric")
        systems = _leading(results, "leaderboard", "systems", "system")
        aspects = results["leaderboard"].to_frame("systems")["aspect"].unique() if "leaderboard" in results else [""]
        leading = metrics[:METRICS]
        return cls(
            systems=systems[: _most(len(systems), (1 + len(leading)) * len(aspects))],
            n_systems=len(systems),
            metrics=leading,
            without=tuple(
                name for metric in metrics[METRICS:] for name in (metric, *(f"{metric}:{a}" for a in aspects if a))
            ),
            n_metrics=len(metrics),
        )

    @property
    def everything(self) -> bool:
        """Whether nothing is omitted."""
        return len(self.systems) == self.n_systems and not self.without

    def result(self, result: Result) -> Result:
        """A result with only the rows of the page."""
        tables: dict[str, Any] = {name: self.part(table) for name, table in result.tables().items()}
        return result if self.everything else replace(result, **tables)

    def part(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that are in the page."""
        keep = pl.lit(True)
        for first, second in PAIR_OF_SYSTEMS:
            if {first, second} <= {*table.columns} and len(self.systems) < self.n_systems:
                keep &= pl.all_horizontal(pl.col(first, second).is_in(list(self.systems)))
        for name in (*ONE, *(name_of_pair for pair in TWO for name_of_pair in pair)):
            if name in table.columns and self.without:
                keep &= ~pl.col(name).is_in(list(self.without))
        return table.filter(keep)

    def told(self) -> str:
        """Sentence on the omitted rows and where to find them; '' if nothing is omitted."""
        parts = []
        if len(self.systems) < self.n_systems:
            parts.append(f"pairs of the {len(self.systems)} leading of {self.n_systems} systems")
        if self.without:
            parts.append(f"the {len(self.metrics)} leading of {self.n_metrics} metrics")
        if not parts:
            return ""
        return (
            "To keep the page small enough for a browser, tables and pictures below are limited to "
            f"{' and '.join(parts)}; notes count all. All of them: the same command with --format json, or the "
            "verb of each question."
        )


def _leading(results: Mapping[str, Result], question: str, table: str, column: str) -> tuple[str, ...]:
    """Labels ordered by their best rank in any aspect."""
    if question not in results:
        return ()
    rows = results[question].to_frame(table)
    if "rater" in rows.columns:
        rows = rows.filter(rater=HUMAN).sort("rank", nulls_last=True, maintain_order=True)
    orders: Sequence[Sequence[str]] = [
        of_aspect[column].to_list() for _, of_aspect in rows.group_by("aspect", maintain_order=True)
    ]
    return tuple(dict.fromkeys(name for place in zip_longest(*orders) for name in place if name is not None))


def _most(n_systems: int, times: int) -> int:
    """Number of systems such that the number of pairs times `times` does not exceed the maximum number of rows."""
    fitting = max((n for n in range(FEWEST, MOST + 1) if comb(n, 2) * times <= PAIRS), default=FEWEST)
    return min(n_systems, fitting)
