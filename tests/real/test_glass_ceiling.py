from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

import custodes as cu
from custodes.errors import InputError
from tests.real.glass_ceiling import TURNED, authors_scores, authors_study


def averages(result: cu.Complementarity) -> list[float]:
    """Mean distances among humans, between humans and metrics, and among metrics."""
    return [round(value, 2) for value in result.averages["complementarity"]]


def gap(result: cu.Complementarity) -> dict[str, float]:
    """Finding 1: metrics are closer to each other than to humans."""
    return result.gaps.row(
        by_predicate=(pl.col("kinds_a") == "human-metric") & (pl.col("kinds_b") == "metric-metric"), named=True
    )


def test_summeval_averages_and_finding_1(summeval: cu.Study) -> None:
    result = cu.complementarity(summeval, human="expert*", resamples=100)
    assert averages(result) == [0.33, 0.44, 0.28]  # statistics.md, section 8
    assert gap(result)["difference_low"] > 0.1
    assert result.averages["pairs"].to_list() == [6, 136, 561]


def test_hanna_averages_need_the_direction_of_distances(hanna: cu.Study) -> None:
    result = cu.complementarity(hanna.describe(raters=TURNED), metrics="@noaspect", resamples=100)
    assert averages(result) == [0.26, 0.41, 0.39]  # statistics.md, section 8
    assert 0 < gap(result)["difference_low"] < gap(result)["difference"] < gap(result)["difference_high"]
    trap = cu.complementarity(hanna, metrics="@noaspect", resamples=50)
    _, between, within = trap.averages["complementarity"]
    assert (between, within) == pytest.approx((0.436, 0.456), abs=0.001)  # statistics.md, section 8: the pitfall
    assert gap(trap)["difference_high"] < 0
    against = next(note.message for note in trap.notes if note.rule == "negative-agreement")
    assert "BaryScore" in against
    assert "higher_is_better" in against


def test_finding_2_people_predict_people_better_than_all_metrics_do(summeval: cu.Study) -> None:
    result = cu.ceiling(summeval, human="expert*", model="ridge", resamples=100, steps=1)
    gaps = result.gaps.filter(pl.col("features_a") == "humans", pl.col("features_b") == "metrics")
    assert gaps["target"].to_list() == ["coherence", "consistency", "fluency", "relevance"]
    assert (gaps["difference_low"] > 0).all()
    best = result.information.group_by("target").agg(pl.all().sort_by("mse_both").first())
    assert (best["mse_ratio_high"] < 1).all()  # metrics lack information
    metrics = result.prediction.filter(pl.col("features") == "metrics")
    assert (metrics["kendall_low"] > 0).all()
    assert (result.annotators["attainable_low"] > 0).all()
    # Ties of mean human ratings alone bound predictors without ties: most summaries are fully consistent.
    attainable = dict(result.annotators.select("target", "attainable").iter_rows())
    ratings = summeval.ratings.frame.filter(pl.col("rater").str.starts_with("expert"))
    for (aspect,), value in ratings.group_by("aspect"):
        mean = value.group_by("item", "system").agg(pl.col("score").mean().round(6))["score"]
        share = mean.value_counts()["count"].to_numpy() / len(mean)
        assert attainable[str(aspect)] < np.sqrt(1 - (share**2).sum()) + 0.02
    assert attainable["consistency"] < 0.58 < attainable["relevance"] < attainable["coherence"]
    # Experts rated the same texts: the other experts' ratings of other aspects predict better than the metrics.
    halo = result.halo.filter(pl.col("source") == "metrics")
    assert (halo["lead_high"] < 0).all()


@pytest.mark.parametrize("level", ["system", "utterance"])
def test_wmt23_has_one_aspect_and_both_levels(wmt23: cu.Study, level: str) -> None:
    options = {"human": "mqm", "systems": "!refA", "metrics": "*-refA", "resamples": 20}
    result = cu.complementarity(wmt23, level=level, **options)  # type: ignore[arg-type]
    assert result.averages["complementarity"].is_null().to_list() == [True, False, False]  # undefined with one aspect
    assert gap(result)["difference_low"] > 0
    assert result.raters["rater"][0] == "human"
    closest = result.raters.filter(pl.col("kind") == "metric").sort("with_humans")["rater"].to_list()
    assert closest.index("XCOMET-Ensemble-refA") < closest.index("BLEU-refA")


def test_averages_of_the_paper_are_means_of_blocks_with_the_diagonal(shared_data: Path) -> None:
    path = shared_data / "glass-ceiling" / "TAC_11.csv.gz"
    wide = authors_scores(path)
    names = wide.columns[2:]
    matrices = []
    for _, item in wide.group_by("item"):
        scores = item.select(names).to_numpy().T
        matrices.append([[(1 - kendalltau(a, b).statistic) / 2 for b in scores] for a in scores])
    matrix = np.nanmean(matrices, axis=0)
    human = np.char.startswith(names, "H:")
    blocks = [matrix[np.ix_(a, b)] for a, b in ((human, human), (human, ~human), (~human, ~human))]
    result = cu.complementarity(authors_study(path), resamples=0).averages
    np.testing.assert_allclose(result["mean_with_diagonal"], [block.mean() for block in blocks], atol=1e-12)


def test_without_the_diagonal_human_aspects_are_not_closer_than_metrics(shared_data: Path) -> None:
    """Three of the nine data sets of the paper, with averages (finding 1) .16, .35 and .20."""
    sets = [authors_study(path) for path in sorted((shared_data / "glass-ceiling").glob("*.csv.gz"))]
    assert len(sets) == 3
    tables = [cu.complementarity(study, resamples=0).averages for study in sets]
    with_diagonal = np.mean([table["mean_with_diagonal"].to_numpy() for table in tables], axis=0)
    without = np.mean([table["complementarity"].to_numpy() for table in tables], axis=0)
    assert with_diagonal.round(2).tolist() == [0.19, 0.38, 0.20]
    assert without.round(2).tolist() == [0.26, 0.38, 0.22]
    assert all(table["complementarity"][0] > table["complementarity"][2] for table in tables)


@pytest.mark.parametrize(("level", "dimensions"), [("system", {2}), ("utterance", {4, 6})])
def test_few_components_and_communities_as_published(shared_data: Path, level: str, dimensions: set[int]) -> None:
    """Figures 4 to 6: fewer than 6 components explain 80 % of the variance, and there are two, at most three
    communities."""
    for path in (shared_data / "glass-ceiling").glob("*.csv.gz"):
        result = cu.complementarity(authors_study(path), level=level, resamples=0)  # type: ignore[arg-type]
        assert result.components.filter(pl.col("cumulative") >= 0.8)["component"][0] in dimensions
        assert result.coordinates["rank_sum_cluster"].n_unique() == 2
        assert result.coordinates["cluster"].n_unique() == (1 if path.name.startswith("TAC") else 2)
        assert result.coordinates.filter(kind="human")["cluster"].n_unique() == 1


def test_rank_sums_of_summeval_by_all_metrics(summeval: cu.Study) -> None:
    """Numbers on the page about the four papers, which were not published."""
    result = cu.ceiling(summeval, human="expert*", level="system", resamples=0)
    metrics = result.prediction.filter(features="metrics")
    assert metrics["kendall"].to_list() == pytest.approx([0.60, 0.50, 0.73, 0.80], abs=0.03)
    assert metrics["r2"].to_list() == pytest.approx([0.37, 0.42, 0.51, 0.71], abs=0.01)
    best = result.information.group_by("target", maintain_order=True).agg(pl.all().sort_by("mse_both").first())
    assert best["mse_ratio"].to_list() == pytest.approx([0.18, 0.66, 0.40, 0.14], abs=0.01)


def test_rank_sums_of_systems_left_out(shared_data: Path) -> None:
    """Figures 7 and 8 at system level: other human aspects have information that all metrics lack."""
    study = authors_study(shared_data / "glass-ceiling" / "SUM_EVAL.csv.gz")
    result = cu.ceiling(study, level="system", resamples=0)
    metrics, humans, both = result.prediction.filter(target="coherence")["kendall"]
    assert metrics < 0 < 0.5 < humans < both
    information = result.information.filter(target="coherence").sort("mse_both")
    assert information["mse_ratio"][0] < 0.5
    used = result.lasso.filter(pl.col("weight") != 0, target="coherence").sort("alpha", descending=True)
    assert used["kind"][0] == "human"
    with pytest.raises(InputError, match="4 systems with human ratings"):
        cu.ceiling(authors_study(shared_data / "glass-ceiling" / "DIALOG_pc.csv.gz"), level="system")
