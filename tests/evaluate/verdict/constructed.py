"""Results of the demo with constructed tables, and the parts of their verdict."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.evaluate.verdict.verdict import Verdict, verdict_of

NO_FINDING = "No metric that is significantly better than chance significantly over-rates or under-rates a system."
Ends = tuple[float | None, float | None, float | None]
ASPECTS = ("coherence", "fluency")
BASIS = ("check", "agreement", "favoritism", "ranking")


def make_verdict(results: dict[str, Any], **changes: Any) -> Verdict:
    return verdict_of({**results, **changes})


def like(frame: pl.DataFrame, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Return rows with the columns of a frame, which are null by default."""
    return pl.DataFrame([{**dict.fromkeys(frame.schema), **row} for row in rows], schema=frame.schema)


def text_of(result: Verdict, aspect: str, kind: str) -> str:
    return " ".join(result.verdict.filter(aspect=aspect, kind=kind)["text"])


def findings(result: Verdict, aspect: str) -> list[tuple[str, str, str]]:
    """Return the metric, the system and the text of every line on a finding of partiality."""
    lines = result.verdict.filter(aspect=aspect, kind="favours")["text"]
    matches = ((re.match(r"(\S+) (?:over|under)-rates (\S+?)(?: by|,) ", text), text) for text in lines)
    return [(*match.groups(), text) for match, text in matches if match]


def standing(
    result: Any, values: dict[str, Ends], worse: tuple[str, ...] | None = (), aspects: tuple[str, ...] = ASPECTS
) -> Any:
    """Return agreement with these values and intervals of the metrics, best first. The best metric is significantly
    better than those of `worse`; all others share its letter (None: no tests)."""
    rows = [
        {
            "aspect": aspect,
            "metric": metric,
            "statistic": "kendall_item",
            **dict(zip(("value", "value_low", "value_high"), ends, strict=True)),
            "chance": 0.0,
            "side": "above" if (ends[1] or 0) > 0 else "below" if (ends[2] or 0) < 0 else "unclear",
            "group": None if worse is None else "b" if metric in worse else "a",
            "may_be_best": None if worse is None else metric not in worse,
        }
        for aspect in aspects
        for metric, ends in values.items()
    ]
    return replace(result, standing=like(result.standing, rows))


def standing_by_aspect(result: Any, **metrics: list[str]) -> Any:
    """Return agreement with these metrics of each aspect, best first, which are all better than chance."""
    parts = [
        standing(result, {name: (0.5 - i / 10, 0.1, 0.9) for i, name in enumerate(names)}, aspects=(aspect,)).standing
        for aspect, names in metrics.items()
    ]
    return replace(result, standing=pl.concat(parts))


def board(result: Any, systems: dict[str, tuple[int | None, bool]], *, rater: str = "human", **corrected: Any) -> Any:
    """Return a leaderboard with this highest rank and top group on every aspect, best system first. The second system
    leads after 7 removals. `corrected` gives values of a row of that table."""
    rows = [
        {
            "aspect": aspect,
            "rater": rater,
            "system": system,
            "battles": 80,
            "win_rate": 0.7 - i / 10,
            "strength": 1.0 - i,
            "rank": i + 1,
            "may_be_first": may,
            "part": 1,
        }
        | (
            {}
            if high is None
            else {
                "win_rate_low": 0.6 - i / 10,
                "win_rate_high": 0.8 - i / 10,
                "strength_low": 0.5 - i,
                "strength_high": 1.5 - i,
                "rank_low": 1 if may else 2,
                "rank_high": high,
            }
        )
        for aspect in ASPECTS
        for i, (system, (high, may)) in enumerate(systems.items())
    ]
    corrected_rows = [{"aspect": aspect, **corrected} for aspect in ASPECTS] if corrected else []
    leader_rows = [
        {"aspect": aspect, "rater": rater, "leader": "A", "successor": "B", "removals": 7} for aspect in ASPECTS
    ]
    return replace(
        result,
        notes=(),
        systems=like(result.systems, rows),
        leaders=like(result.leaders, leader_rows),
        corrected=like(result.corrected, corrected_rows),
    )


def partiality_of(
    favoritism: Any, rows: list[tuple[str, str, float, float]], copies: dict[str, list[str]]
) -> pl.DataFrame:
    """Return the table `partiality` with these findings only: metric, system, points, adjusted p-value."""
    findings = {(metric, system): (size, p) for metric, system, size, p in rows}
    finding_rows = []
    for row in favoritism.partiality.to_dicts():
        size, p = findings.get((row["metric"], row["system"]), (0.0, 1.0))
        finding = "" if p > 0.05 else "favoured" if size > 0 else "disfavoured"
        near = copies.get(row["metric"], []) if finding else []
        ends = {"partiality": size, "partiality_low": size - 9, "partiality_high": size + 9}
        finding_rows.append({**row, **ends, "p_adjusted": p, "finding": finding, "near_copies": near})
    return pl.DataFrame(finding_rows, schema=favoritism.partiality.schema)
