from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from custodes.evaluate.complementarity.complementarity import complementarity
from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.rank_distance import RULES
from tests.evaluate.complementarity.definitions import (
    LEVELS,
    NAMES,
    by_definition,
    distances_by_definition,
    kinds,
    small,
)
from tests.evaluate.judged_studies import judged


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_average_against_scipy_and_the_definition(rule: str, level: str, ragged: bool) -> None:
    scores = small(3 + ragged, missing=ragged)
    answer = complementarity(judged(scores), distance=rule, level=level, resamples=0)  # type: ignore[arg-type]
    expected = distances_by_definition(scores, rule, level)
    mean = {pair: np.nanmean(values) for pair, values in expected.items()}
    for row in answer.pairs.iter_rows(named=True):
        pair = row["rater_a"], row["rater_b"]
        assert row["complementarity"] == pytest.approx(mean[pair], abs=1e-12)
        assert row["n"] == np.isfinite(expected[pair]).sum()
        assert f"{row['kind_a']}-{row['kind_b']}" == kinds(*pair)
        assert row["complementarity_low"] is row["complementarity_high"] is None
    assert answer.pairs.height == len(mean) == 15
    average = {}
    for row in answer.averages.iter_rows(named=True):
        values = [value for pair, value in mean.items() if kinds(*pair) == row["kinds"]]
        assert row["complementarity"] == pytest.approx(np.mean(values), abs=1e-12)
        assert row["pairs"] == len(values)
        average[row["kinds"]] = row["complementarity"]
    for row in answer.gaps.iter_rows(named=True):
        assert row["difference"] == pytest.approx(average[row["kinds_a"]] - average[row["kinds_b"]], abs=1e-12)
    for row in answer.raters.iter_rows(named=True):  # equation 4: the mean over the other raters of that kind
        for column, kind in (("with_humans", "human"), ("with_metrics", "metric")):
            others = [n for n in NAMES.values() if n != row["rater"] and n.startswith("human") == (kind == "human")]
            values = [
                mean[pair] for pair in mean if row["rater"] in pair and (set(pair) - {row["rater"]}) & set(others)
            ]
            assert len(values) == len(others)
            assert row[column] == pytest.approx(np.mean(values), abs=1e-12)
    lost = sum(np.isnan(values).sum() for values in expected.values())
    assert [note.count for note in answer.notes if note.rule == "undefined-distances"] == ([lost] if lost else [])


def student(estimate: float, drawn: np.ndarray, clusters: np.ndarray, *, bounded: bool) -> list[float]:
    """Return Student's 90 % interval by definition, with t of 5 and 11 degrees of freedom from a table."""
    n = clusters.max() + 1
    t = {6: 2.015048, 12: 1.795885}[n]
    error = np.nanstd(drawn, ddof=1) * np.sqrt(n / (n - 1))
    if not bounded:
        return [estimate - t * error, estimate + t * error]
    # Wilson's bounds are the values p with |estimate - p| = t * error * root(p (1 - p) / (estimate (1 - estimate))).
    slope = (t * error) ** 2 / (estimate * (1 - estimate))
    return sorted(np.roots([1 + slope, -2 * estimate - slope, estimate**2]).tolist())


def test_intervals_at_the_system_level_are_those_of_a_brute_force_bootstrap() -> None:
    scores = small(7, items=12)
    documents = np.arange(12) // 2
    items = pl.DataFrame({"item": [f"i{i:03}" for i in range(12)], "cluster": [f"d{d}" for d in documents]})
    for clusters in (documents, np.arange(12)):
        study = judged(scores)
        study = study.describe(items=items) if clusters is documents else study
        answer = complementarity(study, resamples=200, confidence=0.9, rng=4)
        weights = bootstrap_weights(clusters.max() + 1, 200, np.random.default_rng(4))[1:]
        distances = distances_by_definition(scores, "tau-b", "system")
        drawn = {
            pair: np.array([np.nanmean(np.repeat(values, w[clusters].astype(int))) for w in weights])
            for pair, values in distances.items()
        }
        for row in answer.pairs.iter_rows(named=True):
            ends = student(row["complementarity"], drawn[row["rater_a"], row["rater_b"]], clusters, bounded=True)
            np.testing.assert_allclose([row["complementarity_low"], row["complementarity_high"]], ends, atol=1e-6)
        average = {
            kind: np.nanmean([draws for pair, draws in drawn.items() if kinds(*pair) == kind], axis=0)
            for kind in answer.averages["kinds"]
        }
        for row in answer.averages.iter_rows(named=True):
            ends = student(row["complementarity"], average[row["kinds"]], clusters, bounded=True)
            np.testing.assert_allclose([row["complementarity_low"], row["complementarity_high"]], ends, atol=1e-6)
        for row in answer.gaps.iter_rows(named=True):
            ends = student(
                row["difference"], average[row["kinds_a"]] - average[row["kinds_b"]], clusters, bounded=False
            )
            np.testing.assert_allclose([row["difference_low"], row["difference_high"]], ends, atol=1e-6)
        bleu = answer.raters.row(by_predicate=pl.col("rater") == "bleu", named=True)
        values = np.nanmean(
            [draws for pair, draws in drawn.items() if "bleu" in pair and pair[0][:5] == "human"], axis=0
        )
        ends = student(bleu["with_humans"], values, clusters, bounded=True)
        np.testing.assert_allclose([bleu["with_humans_low"], bleu["with_humans_high"]], ends, atol=1e-6)


def test_intervals_at_the_utterance_level_are_close_to_those_of_resampled_items() -> None:
    # The influence of each item replaces the resample, which is exact to first order only.
    scores = small(8, items=60, systems=3, ties=True)
    scores = {key: scores[key] for key in (("ann", "style"), ("bleu", ""), ("judge", "style"))}
    answer = complementarity(judged(scores), level="utterance", resamples=200, rng=1)
    weights = bootstrap_weights(60, 200, np.random.default_rng(1))[1:].astype(int)
    for a, b in combinations(scores, 2):

        def resampled(w: np.ndarray, a: Any = a, b: Any = b) -> float:
            values = zip(np.repeat(scores[a], w, axis=0).T, np.repeat(scores[b], w, axis=0).T, strict=True)
            return float(np.mean([by_definition(x, y, "tau-b") for x, y in values]))

        draws = np.array([resampled(w) for w in weights])
        row = answer.pairs.row(
            by_predicate=(pl.col("rater_a") == NAMES[a]) & (pl.col("rater_b") == NAMES[b]), named=True
        )
        assert row["complementarity"] == pytest.approx(resampled(np.ones(60, dtype=int)), abs=1e-12)
        low, high = np.quantile(draws, [0.025, 0.975])
        assert row["complementarity_low"] == pytest.approx(low, abs=0.1 * (high - low))
        assert row["complementarity_high"] == pytest.approx(high, abs=0.1 * (high - low))
        assert row["complementarity_low"] < row["complementarity"] < row["complementarity_high"]


@pytest.mark.parametrize(("rule", "level"), [(RULES[0], LEVELS[0]), (RULES[0], LEVELS[1]), (RULES[-1], LEVELS[1])])
def test_a_rater_that_ranks_nothing_is_null_named_and_outside_every_average(rule: Any, level: Any) -> None:
    scores = small(9)
    by_item, by_system = np.arange(7.0)[:, None] + np.zeros((7, 5)), np.zeros((7, 1)) + np.arange(5.0)
    stuck = by_item if level == "system" else by_system
    stuck[2, 3] = np.nan
    more = {**scores, ("flat", ""): np.full((7, 5), 3.0), ("stuck", ""): stuck}
    answer = complementarity(judged(more), distance=rule, level=level, resamples=30)
    without = complementarity(judged(scores), distance=rule, level=level, resamples=30)
    idle = pl.col("rater_a").is_in(["flat", "stuck"]) | pl.col("rater_b").is_in(["flat", "stuck"])
    null = answer.pairs.filter(idle)
    assert null.height == 6 + 6 + 1
    expected = null.select("complementarity", "complementarity_low", "complementarity_high")
    assert expected.null_count().row(0) == (13, 13, 13)
    assert null["n"].sum() == 0
    assert answer.pairs.filter(~idle).equals(without.pairs)
    for name in ("averages", "gaps", "rules", "components", "coordinates"):
        assert_frame_equal(answer.to_frame(name), without.to_frame(name), abs_tol=1e-12)
    row = answer.raters.row(by_predicate=pl.col("rater") == "stuck", named=True)
    assert row["with_humans"] is row["with_metrics"] is None
    units_text = "systems of every item" if level == "system" else "items of every system"
    assert dict(answer.left_out.rows()) == {
        "flat": "its scores are constant, so it ranks nothing",
        "stuck": f"rates all {units_text} equally",
    }
    expected = " ".join(note.message for note in answer.notes if note.rule == "constant-rater")
    assert "flat" in expected
    assert "stuck" in expected


def test_items_where_one_ties_all_are_left_out_and_counted() -> None:
    scores = small(9, missing=False, ties=False)
    scores["bleu", ""][2] = 1.0
    answer = complementarity(judged(scores), resamples=0)
    n = answer.pairs.select(pl.col("n").filter((pl.col("rater_a") == "bleu") | (pl.col("rater_b") == "bleu")))
    assert n["n"].to_list() == [6] * 5
    note = next(note for note in answer.notes if note.rule == "undefined-distances")
    assert note.count == 5
    assert note.message.startswith(
        "the means exclude 5 undefined distances between two rankings (tau-b). On the item, one of "
        "the two raters gave equal scores, or the raters rated fewer than two common"
    )
