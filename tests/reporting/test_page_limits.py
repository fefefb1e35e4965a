"""Pages show only the leading of very many systems or metrics, with a note; results are complete."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from custodes.reporting import Report, page_limits
from custodes.reporting.page_limits import PageLimits
from custodes.reporting.sections.correction import CORRECTION


def test_a_page_of_few_carries_everything(made: Report) -> None:
    part = PageLimits.of(made.results)
    assert part.everything
    assert part.told() == ""
    assert 'id="left-out"' not in made.html
    for result in made.results.values():
        assert part.result(result) is result


def test_a_page_of_many_carries_the_leading_ones(made: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "METRICS", 3)
    monkeypatch.setattr(page_limits, "FEWEST", 4)
    monkeypatch.setattr(page_limits, "PAIRS", 1)
    part, standing = PageLimits.of(made.results), made.results["agreement"].to_frame("standing")
    best = set(standing.group_by("aspect").first()["metric"])
    assert best <= {*part.metrics}
    assert len(part.metrics) == 3
    first = made.results["leaderboard"].to_frame("systems").filter(pl.col("rank") == 1, rater="human")
    assert set(first["system"]) <= {*part.systems}
    assert len(part.systems) == 4 < part.n_systems

    fresh = replace(made)
    assert (
        f"pairs of the 4 leading of {part.n_systems} systems and the 3 leading of {part.n_metrics} metrics"
        in fresh.html
    )
    shown = fresh.context.carried()
    assert shown.metrics == tuple(name for name in made.context.metrics if name in part.metrics)
    assert shown.best == made.context.best
    # Counts of uncorrected metrics include those that the page omits.
    results = [CORRECTION.build(value)["others"] for value in (made.context, shown)]
    assert results[0] == results[1] > 0
    pairs, whole = shown.table("favoritism.pairs"), made.context.table("favoritism.pairs")
    assert pairs.equals(
        whole.filter(
            pl.col("metric").is_in(part.metrics),
            pl.col("system_a").is_in(part.systems),
            pl.col("system_b").is_in(part.systems),
        )
    )
    assert fresh.html.count("<option") < made.html.count("<option")
    gone = set(made.context.metrics) - {*part.metrics}
    for name in shown.results["complementarity"].declared():
        table = shown.table(f"complementarity.{name}")
        for column in {"rater", "rater_a", "rater_b"} & {*table.columns}:
            assert not gone & {label.partition(":")[0] for label in table[column]}, (name, column)
    assert fresh.tables()["favoritism.pairs"].equals(whole)
