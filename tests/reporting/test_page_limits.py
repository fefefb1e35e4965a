"""Pages show only the leading of very many systems or metrics, with a note; results are complete."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from custodes.reporting import Report, page_limits
from custodes.reporting.page_limits import PageLimits
from custodes.reporting.sections.correction import CORRECTION


def test_a_page_of_few_carries_everything(demo_report: Report) -> None:
    part = PageLimits.from_results(demo_report.results)
    assert part.note() == ""
    assert 'id="left-out"' not in demo_report.html
    for result in demo_report.results.values():
        assert part.result(result).to_dict() == result.to_dict()


def test_a_page_of_many_carries_the_leading_ones(demo_report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_limits, "METRICS", 3)
    monkeypatch.setattr(page_limits, "FEWEST", 4)
    monkeypatch.setattr(page_limits, "PAIRS", 1)
    part, standing = PageLimits.from_results(demo_report.results), demo_report.results["agreement"].to_frame("standing")
    best = set(standing.group_by("aspect").first()["metric"])
    assert best <= {*part.metrics}
    assert len(part.metrics) == 3
    first = demo_report.results["leaderboard"].to_frame("systems").filter(pl.col("rank") == 1, rater="human")
    assert set(first["system"]) <= {*part.systems}
    assert len(part.systems) == 4 < part.n_systems

    fresh = replace(demo_report)
    assert (
        f"pairs of the 4 leading systems (of {part.n_systems}) and the 3 leading metrics (of {part.n_metrics})"
        in fresh.html
    )
    limited = fresh.context.copy_with_page_rows()
    assert limited.metrics == tuple(name for name in demo_report.context.metrics if name in part.metrics)
    assert limited.best == demo_report.context.best
    # Counts of uncorrected metrics include those that the page omits.
    results = [CORRECTION.build(value)["others"] for value in (demo_report.context, limited)]
    assert results[0] == results[1] > 0
    pairs, whole = limited.table("favoritism.pairs"), demo_report.context.table("favoritism.pairs")
    assert pairs.equals(
        whole.filter(
            pl.col("metric").is_in(part.metrics),
            pl.col("system_a").is_in(part.systems),
            pl.col("system_b").is_in(part.systems),
        )
    )
    assert fresh.html.count("<option") < demo_report.html.count("<option")
    gone = set(demo_report.context.metrics) - {*part.metrics}
    for name in limited.results["complementarity"].table_declarations():
        table = limited.table(f"complementarity.{name}")
        for column in {"rater", "rater_a", "rater_b"} & {*table.columns}:
            assert not gone & {label.partition(":")[0] for label in table[column]}, (name, column)
    assert fresh.tables()["favoritism.pairs"].equals(whole)
