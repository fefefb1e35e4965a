from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

import custodes as cu
from custodes.evaluate.complementarity.complementarity import complementarity
from custodes.stats.communities import communities
from tests.evaluate.complementarity.definitions import LEVELS, NAMES, small, texts_of, values_of
from tests.evaluate.judged_studies import drawn, judged, rows_of


@pytest.mark.parametrize("fewest", [False, True])
@pytest.mark.parametrize("level", LEVELS)
def test_the_space_is_that_of_what_every_rater_ranked(level: Any, fewest: bool) -> None:
    scores = small(9, missing=False)
    n = 5 if level == "system" else 7
    gone = np.arange(3, n) if fewest else np.array([2])
    lost = np.isin(np.arange(n), gone)[(slice(None),) if level == "system" else (slice(None), np.newaxis)]
    copied = {**scores, ("partial", ""): np.where(lost, np.nan, scores["bleu", ""])}
    result = complementarity(judged(copied), level=level, resamples=20)
    assert values_of(result)["bleu", "partial"] == pytest.approx(0)
    assert result.left_out.is_empty()
    units_text = "systems" if level == "system" else "items"
    phrase = f"{n - len(gone)} of {n} {units_text}"
    assert texts_of(result, "partial-representation") == [
        f"components and coordinates use {phrase}, because at least one rater did not rank the other {units_text}"
    ]
    place = {name: point for name, *point in result.coordinates.select("rater", "x", "y").rows()}
    assert place["partial"] == pytest.approx(place["bleu"])  # They coincide on the outputs that both ranked.
    assert set(result.coordinates["rater"]) == {*NAMES.values(), "partial"}
    # The space equals that of a study of these outputs alone.
    common = {key: np.delete(values, gone, axis=level == "system") for key, values in copied.items()}
    alone = complementarity(judged(common), level=level, resamples=0)
    for name in ("explained_variance", "cumulative"):
        np.testing.assert_allclose(result.components[name], alone.components[name])
    np.testing.assert_allclose(result.coordinates.select("x", "y"), alone.coordinates.select("x", "y"), atol=1e-9)
    assert not texts_of(alone, "partial-representation")


@pytest.mark.parametrize("level", LEVELS)
def test_where_too_little_is_shared_raters_with_gaps_have_no_place(level: Any) -> None:
    scores = small(9, missing=False)
    without = complementarity(judged(scores), level=level, resamples=0).components
    missed = np.arange(5) > 1 if level == "system" else np.arange(7)[:, None] > 1
    scores["partial", ""] = np.where(missed, np.nan, drawn(1, 7, 5))
    result = complementarity(judged(scores), level=level, resamples=20)
    phrase = "system" if level == "system" else "item"
    assert dict(result.left_out.rows()) == {"partial": f"did not rate every {phrase}, so components exclude this rater"}
    np.testing.assert_allclose(result.components["explained_variance"], without["explained_variance"])
    assert set(result.coordinates.drop_nulls(["x", "rank_sum_cluster"])["rater"]) == set(NAMES.values())
    assert set(result.coordinates.drop_nulls("cluster")["rater"]) == {*NAMES.values(), "partial"}
    assert not texts_of(result, "partial-representation")


def disjoint() -> dict[Any, Any]:
    """Return eight annotators who agree, four on each half of the items, and two metrics on all items."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=(40, 6))
    scores = {(f"m{k}", ""): quality + rng.normal(size=quality.shape) for k in range(2)}
    for k in range(8):
        scores_of = quality + 0.7 * rng.normal(size=quality.shape)
        scores[f"h{k}", "x"] = np.where((np.arange(40)[:, None] < 20) == (k % 2 == 0), scores_of, np.nan)
    return scores


def study_of(scores: dict[Any, Any]) -> cu.Study:
    rows = rows_of(scores)
    return cu.read(rows.with_columns(kind=pl.col("rater").str.head(1).replace_strict({"m": "metric", "h": "human"})))


def test_raters_without_a_common_item_are_not_taken_for_opposites() -> None:
    result = complementarity(study_of(disjoint()), human_raters="annotators", resamples=20)
    assert result.pairs["complementarity"].null_count() == 16
    assert texts_of(result, "unconnected-raters") == [
        "16 pairs of raters ranked no common outputs, so their similarity is unknown; communities are computed with "
        "the average similarity for these pairs"
    ]
    cluster_of = dict(result.coordinates.filter(kind="human").select("rater", "cluster").rows())
    halves = [{cluster_of[f"h{k}:x"] for k in range(start, 8, 2)} for start in (0, 1)]
    assert halves[0] == halves[1]  # A similarity equal to the average gives no reason to separate raters that agree.
    assert not texts_of(complementarity(judged(small(1)), resamples=0), "unconnected-raters")


def test_a_rater_at_no_distance_of_anybody_is_in_no_cluster() -> None:
    scores = small(9, missing=False)
    lonely = np.full((8, 5), np.nan)
    lonely[7] = np.arange(5)
    more = {key: np.vstack([values, np.full((1, 5), np.nan)]) for key, values in scores.items()}
    result = complementarity(judged({**more, ("lonely", ""): lonely}), resamples=20)
    clusters = dict(result.coordinates.select("rater", "cluster").rows())
    assert {name for name, cluster in clusters.items() if cluster is not None} == set(NAMES.values())
    assert not texts_of(result, "unconnected-raters")


def test_three_raters_have_components_but_no_coordinates() -> None:
    three = dict(list(small(1).items())[:3])
    result = complementarity(judged(three), resamples=20)
    assert result.coordinates.is_empty()
    assert result.components.height
    four = dict(list(small(1).items())[:4])
    result = complementarity(judged(four), resamples=20)
    assert result.coordinates.height == 4


def test_no_components_without_two_complete_raters() -> None:
    # Each of four raters lacks another three of five systems, so no three systems were ranked by all raters.
    scores: dict[Any, Any] = {}
    for k, name in enumerate(("ann", "m1", "m2", "m3")):
        seen = np.isin(np.arange(5), [k, (k + 1) % 5, (k + 2) % 5])
        scores[name, ""] = np.where(seen, drawn(k, 20, 5), np.nan)
    result = complementarity(judged(scores), resamples=20)
    assert result.components.is_empty()
    assert result.left_out.height == 4
    assert result.coordinates["cluster"].len() == 4
    assert result.coordinates.select(pl.col("x", "rank_sum_cluster").null_count()).row(0) == (4, 4)


def test_two_families_are_two_clusters_in_one_dimension() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 6))
    scores: dict[Any, Any] = {("ann", "style"): base + 0.2 * rng.normal(size=base.shape)}
    for k in range(3):
        scores[f"like{k}", ""] = base + 0.2 * rng.normal(size=base.shape)
        scores[f"unlike{k}", ""] = -base + 0.2 * rng.normal(size=base.shape)
    result = complementarity(judged(scores), resamples=20)
    assert dict(result.coordinates.select("rater", "cluster").rows()) == {
        "human:style": 1,
        **{f"like{k}": 1 for k in range(3)},
        **{f"unlike{k}": 2 for k in range(3)},
    }
    x = dict(result.coordinates.select("rater", "x").rows())
    assert np.sign(x["like0"]) == np.sign(x["human:style"]) == -np.sign(x["unlike0"])
    first = result.components.row(0, named=True)
    assert first["cumulative"] > 0.8 > first["null_cumulative"]
    assert result.components["explained_variance"].sum() == pytest.approx(1)
    assert result.components["null_cumulative"][-1] == pytest.approx(1)


def test_communities_of_rank_sums_are_by_their_correlation() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, 8))
    scores = {
        (name, aspect): base + 0.3 * rng.normal(size=(20, 8))
        for base, names in ((first, [("ann", "style"), ("a", ""), ("b", "")]), (second, [("c", ""), ("d", "")]))
        for name, aspect in names
    }
    clusters = complementarity(judged(scores), resamples=0).coordinates
    sums = np.array([rankdata(values, axis=1).sum(axis=0) for values in scores.values()])
    expected = communities(np.maximum(np.corrcoef(sums), 0), seed=0)
    together = dict(zip(["human:style", "a", "b", "c", "d"], expected, strict=True))
    labels = dict(clusters.select("rater", "rank_sum_cluster").iter_rows())
    assert all((labels[x] == labels[y]) == (together[x] == together[y]) for x in labels for y in labels)
    assert len(set(labels.values())) == 2
