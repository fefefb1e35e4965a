from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from custodes.data.simulate import demo_simulation
from custodes.data.study import Study
from custodes.evaluate.agreement.agreement import agreement
from custodes.evaluate.agreement.differences import ORDERING
from custodes.evaluate.leaderboard.leaderboard import Leaderboard, leaderboard
from custodes.evaluate.ranking import ranking
from custodes.evaluate.rater_comparison import compare
from custodes.stats import ABSENT
from tests.simulation.rates import is_at_most

STUDIES = 200
EQUAL = {ORDERING: 0.01, "margin": 0.02}
"""Differences up to these values are true ties: the standard error of 3,000 items."""

Margins = dict[tuple[str, str, str], float]


def margins_of(study: Study, aspect: str) -> Margins:
    """Wins minus losses per comparison, by rater and ordered pair of systems."""
    (comparison,) = compare(study, aspect=aspect)
    preferences, results = comparison.preferences, {}
    for k, (a, b) in enumerate(zip(preferences.system_a, preferences.system_b, strict=True)):
        for rater, signs in zip(preferences.raters, preferences.signs[k], strict=True):
            margin = float(signs[signs != ABSENT].mean())
            results[rater, a, b], results[rater, b, a] = margin, -margin
    return results


def _ahead(board: Leaderboard, aspect: str) -> list[tuple[str, str]]:
    """Pairs of systems with a significant difference by human ratings."""
    decisions = board.pairs.filter(pl.col("decision") != "=", aspect=aspect, rater="human")
    pairs = decisions.select("system_a", "system_b", "decision").iter_rows()
    return [(a, b) if decision == "+" else (b, a) for a, b, decision in pairs]


def false_claims(
    taus: dict[str, dict[str, float]], margins: dict[str, Margins], strongest: dict[str, str]
) -> Iterator[str]:
    """Kinds of false claims of each study and aspect, counted once each."""
    for seed in range(STUDIES):
        study = demo_simulation(rng=seed).study
        agreed, ranked = agreement(study, resamples=200), ranking(study, resamples=0)
        board = leaderboard(study, metrics="judge", resamples=200)
        for aspect, tau in taus.items():
            standing = agreed.standing.filter(aspect=aspect)
            best = standing.filter(pl.col("may_be_best").fill_null(True))["metric"]
            if max(tau, key=tau.__getitem__) not in best:
                yield "best"
            place = board.systems.filter(aspect=aspect, rater="human")
            if strongest[aspect] not in place.filter(may_be_first=True)["system"]:
                yield "best system"
            true = [margins[aspect]["human", a, b] for a, b in _ahead(board, aspect)]
            if any(margin < -EQUAL["margin"] for margin in true):
                yield "order of systems"
            if place["may_be_first"].sum() == 1:
                yield "best system told"
            clear = agreed.comparisons.filter(pl.col("p_adjusted") <= 0.05, aspect=aspect, statistic=ORDERING)
            gaps = [(row["difference"], tau[row["metric_a"]] - tau[row["metric_b"]]) for row in clear.to_dicts()]
            if any(abs(gap) < EQUAL[ORDERING] or gap * seen < 0 for seen, gap in gaps):
                yield "order"
            sides = dict(standing.select("metric", "side").rows())
            if sides["noise"] != "unclear" or "below" in sides.values():
                yield "chance"
            if any(
                margins[aspect]["human", row["better"], row["worse"]] < EQUAL["margin"]
                or margins[aspect][metric, row["better"], row["worse"]] > -EQUAL["margin"]
                for row in ranked.reversals.filter(aspect=aspect).to_dicts()
                for metric in row["metrics"]
            ):
                yield "flips"
            if ranked.reversals.filter(aspect=aspect).height:
                yield "flips told"


@pytest.mark.slow
def test_false_claims_are_rare() -> None:
    large = demo_simulation(items=3000, rng=12345).study
    metrics = agreement(large, resamples=0, compare_by=()).metrics
    taus = {aspect: dict(metrics.filter(aspect=aspect).select("metric", ORDERING).rows()) for aspect in large.aspects}
    margins = {aspect: margins_of(large, aspect) for aspect in large.aspects}
    of_all = leaderboard(large, metrics="judge", resamples=0).systems.filter(rater="human", rank=1)
    strongest = dict(of_all.select("aspect", "system").iter_rows())
    counts = Counter(false_claims(taus, margins, strongest))
    n = STUDIES * len(taus)
    print({kind: round(number / n, 3) for kind, number in counts.items()})
    assert all(
        is_at_most(counts[kind], n) for kind in ("best", "best system", "order of systems", "order", "chance", "flips")
    )
    assert np.isclose(counts["flips told"] / n, 0.5, atol=0.3)
