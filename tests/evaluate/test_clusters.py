from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.tables import with_interval
from custodes.data.items import Items
from custodes.data.study import Study
from custodes.evaluate.clusters import counts_by_aspect
from custodes.stats.correction.estimators import ESTIMATORS
from tests.evaluate.studies import study_of, verdicts

BY_COUNTS = [name for name, estimator in ESTIMATORS.items() if not estimator.needs_items]
ASK = {
    "favoritism": lambda study: cu.favoritism(study, resamples=200),
    "ranking": lambda study: cu.ranking(study, resamples=50),
    "correction": lambda study: cu.correction(study, estimator=[*BY_COUNTS, "pooled"]),
}


def scores(items: int = 60, annotated: int = 45, documents: int | None = None) -> np.ndarray:
    """Return scores (raters, items, 3 systems) of a sparse annotator, a good and an uninformative metric, with document
    effects."""
    rng = np.random.default_rng(5)
    taste = rng.normal(size=(documents or items, 3)).repeat(items // (documents or items), axis=0)
    person = np.rint(np.array([0.6, 0.4, 0.0]) + taste + rng.normal(size=(items, 3)))
    values = np.stack([person, person + rng.normal(size=person.shape), rng.normal(size=person.shape)])
    values[0, annotated:] = np.nan
    return values


def clustered(study: Study, clusters: list[str]) -> Study:
    items = study.ratings.frame["item"].unique(maintain_order=True)
    return replace(study, items=Items.make(pl.DataFrame({"item": items, "cluster": clusters}))[0])


@pytest.mark.parametrize("question", ASK)
def test_without_declared_clusters_nothing_changes(question: str) -> None:
    study = study_of(scores())
    named = clustered(study, [f"document {k}" for k in range(60)])
    plain, single_items = ASK[question](study), ASK[question](named)
    for name, frame in plain.tables().items():
        assert single_items.tables()[name].equals(frame)
        if "design_effect" in frame.columns:
            assert frame["design_effect"].null_count() == frame.height
    assert not {"design-effect", "counts-without-clusters"} & {
        note.rule for note in (*plain.notes, *single_items.notes)
    }


def test_copies_of_items_decide_as_the_items_do() -> None:
    # A former version counted ten copies in one document as ten items, and every difference was significant.
    few = scores(30, 30)
    plain = study_of(few)
    copied = clustered(study_of(np.repeat(few, 10, axis=1)), [f"d{k // 10}" for k in range(300)])
    plain_pairs, copied_pairs = (cu.ranking(study, resamples=0).decisions for study in (plain, copied))
    np.testing.assert_allclose(copied_pairs["p_value"], plain_pairs["p_value"])
    assert copied_pairs["decision"].equals(plain_pairs["decision"])
    np.testing.assert_allclose(copied_pairs["design_effect"], 10 * 30 / 29, rtol=0.05)
    plain_pairs, copied_pairs = (cu.favoritism(study, resamples=4000).pairs for study in (plain, copied))
    width = [(pairs["favi_high"] - pairs["favi_low"]).mean() for pairs in (plain_pairs, copied_pairs)]
    assert width[0] < width[1] < 1.3 * width[0]
    plain_pairs, copied_pairs = (cu.correction(study, estimator=BY_COUNTS).pairs for study in (plain, copied))
    np.testing.assert_allclose(copied_pairs["margin"], plain_pairs["margin"], atol=0.1)
    width = (
        (plain_pairs["margin_high"] - plain_pairs["margin_low"]).to_numpy(),
        (copied_pairs["margin_high"] - copied_pairs["margin_low"]).to_numpy(),
    )
    # slightly wider, because the clustering of single-item documents is estimated
    assert (width[1] >= width[0] - 0.03).all()
    assert width[1].mean() < 1.15 * width[0].mean()


def test_documents_take_decisions_away() -> None:
    study = study_of(scores(200, 150, documents=20))
    documents = clustered(study, [f"d{k // 10}" for k in range(200)])
    plain_pairs, second = (cu.ranking(data, resamples=0).decisions for data in (study, documents))
    assert (second["p_value"] >= plain_pairs["p_value"]).all()
    assert (second["p_value"] > plain_pairs["p_value"]).any()
    plain_theta, document_theta = (cu.correction(data, estimator="ppi").pairs["theta"] for data in (study, documents))
    assert ((document_theta - 0.5).abs() <= (plain_theta - 0.5).abs() + 1e-12).all()
    mean = second.filter(rater="human")["design_effect"].mean()
    for result in (cu.ranking(documents, resamples=0), cu.correction(documents, estimator="ppi")):
        (note,) = (note for note in result.notes if note.rule == "design-effect")
        assert f"200 items in 20 clusters: the variance of human margins is {mean:.2f} times" in note.message


def test_one_cluster_decides_nothing_and_says_so() -> None:
    study = clustered(study_of(scores()), ["one"] * 60)
    ranking = cu.ranking(study, resamples=0)
    assert set(ranking.decisions["decision"]) == {"="}
    assert "one-cluster" in {note.rule for note in ranking.notes}
    correction = cu.correction(study, estimator=BY_COUNTS).pairs
    assert set(correction["decision"]) == {"="}
    favoritism = cu.favoritism(study, resamples=50).pairs
    assert favoritism["favi"].null_count() == 0
    assert favoritism["favi_low"].null_count() == favoritism.height


@pytest.mark.parametrize("question", ["favoritism", "ranking"])
def test_counts_cannot_know_of_clusters_and_say_so(question: str) -> None:
    study = study_of(scores())
    counts = cu.count_pairs(study.ratings.frame, human="ann")
    assert "counts-without-clusters" in {note.rule for note in ASK[question](counts).notes}


def test_intervals_use_the_effective_number_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster of 50 items and 10 of 5 are like 100^2 / (50^2 + 10 * 5^2) = 3.64 equal clusters."""
    n_units_of_column: dict[str, set[float]] = {}

    def record(name: str, draws: np.ndarray, *args: Any, clusters: Any, **options: Any) -> dict[str, np.ndarray]:
        n_units_of_column.setdefault(name, set()).update(np.unique(clusters).round(2).tolist())
        return with_interval(name, draws, *args, clusters=clusters, **options)

    for module in (
        "favoritism",
        "ranking",
        "complementarity.complementarity",
        "complementarity.distances",
        "ceiling.predictions",
        "annotators.annotator_statistics",
        "consistency.orders",
    ):
        monkeypatch.setattr(f"custodes.evaluate.{module}.with_interval", record)
    ratings = np.random.default_rng(0).integers(0, 4, (4, 100, 3)).astype(float)
    names = [f"i{i}" for i in range(100)]
    clusters = ["large"] * 50 + [f"small{i // 5}" for i in range(50)]
    items, _ = Items.make(pl.DataFrame({"item": names, "cluster": clusters}))
    study = replace(study_of(ratings, people=2), items=items)
    for ask in (cu.favoritism, cu.ranking, cu.complementarity, cu.ceiling, cu.annotators):
        ask(study, resamples=20)
    pairs = [(name, "A", "B", "judge", order, 1) for name in names for order in ("ab", "ba")]
    cu.consistency(replace(verdicts(pairs), items=items), resamples=20)
    expected = ["mean_abs_favi", "kld", "complementarity", "with_humans", "kendall_item", "alpha_nominal", "flip_rate"]
    # 0 clusters: averages without a pair
    assert {name: n_units_of_column[name] - {0} for name in expected} == {name: {3.64} for name in expected}


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        ("custodes.stats.intervals.expanded_interval", "n_units"),
        ("custodes.evaluate.agreement.statistic.population_values", "n_units"),
        ("custodes.evaluate.agreement.statistics.accuracies.population_values", "n_units"),
        ("custodes.stats.multiple_testing.bootstrap_tests", "n_effective_units"),
    ],
)
def test_agreement_over_systems_uses_the_effective_number_of_clusters(
    function: str, argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = function.rsplit(".", 1)
    original, recorded = getattr(importlib.import_module(module), name), set()

    def record(*args: Any, **options: Any) -> Any:
        recorded.add(round(options[argument], 2))
        return original(*args, **options)

    monkeypatch.setattr(function, record)
    study = study_of(np.random.default_rng(0).integers(0, 4, (3, 100, 4)).astype(float))
    large_and_small = clustered(study, ["large"] * 50 + [f"small{i // 5}" for i in range(50)])
    cu.agreement(large_and_small, resamples=20, compare_by=["pairwise_accuracy"])
    assert recorded == {3.64}


def test_items_without_human_ratings_do_not_change_the_effective_number_of_clusters() -> None:
    ratings = np.random.default_rng(0).integers(0, 4, (4, 200, 3)).astype(float)
    ratings[:2, 100:] = np.nan  # annotators rated 100 items in 20 clusters
    clusters = [f"c{i // 5}" for i in range(100)]
    alone = clustered(study_of(ratings[:, :100], people=2), clusters)
    extended = clustered(study_of(ratings, people=2), clusters + ["unannotated"] * 100)
    intervals_of_studies = []
    for study in (alone, extended):
        favi = cu.favoritism(study, resamples=500).metrics.select("mean_abs_favi_low", "mean_abs_favi_high")
        distances = cu.complementarity(study, resamples=500)
        intervals_of_studies.append(
            [
                *favi.row(0),
                *distances.pairs.select("complementarity_low", "complementarity_high").row(0),
                *distances.raters.select("with_humans_low", "with_humans_high").row(1),
                *distances.averages.select("complementarity_low", "complementarity_high").row(1),
            ]
        )
    assert intervals_of_studies[0] == pytest.approx(intervals_of_studies[1], rel=0.1)  # other resamples
    assert counts_by_aspect(extended, {})[0].n_effective_clusters == pytest.approx(20)  # for `kld` of ranking


def test_verdicts_of_other_judges_do_not_change_the_interval_of_a_judge() -> None:
    names = [f"i{i}" for i in range(100)]
    rng = np.random.default_rng(0)
    pairs = [(name, "A", "B", "judge", order, int(rng.integers(-1, 2))) for name in names for order in ("ab", "ba")]
    others = [(f"u{i}", "A", "B", "judge2", order, 1) for i in range(500) for order in ("ab", "ba")]
    widths = []
    for rows in (pairs, pairs + others):
        study = verdicts(rows)
        clusters = {name: f"c{i // 5}" for i, name in enumerate(names)}
        labels = [f"u{i}" for i in range(500)] if rows is not pairs else []
        table = pl.DataFrame({"item": names + labels, "cluster": [*clusters.values(), *["other"] * len(labels)]})
        result = cu.consistency(replace(study, items=Items.make(table)[0]), resamples=500)
        judge = result.orders.row(by_predicate=pl.col("rater") == "judge", named=True)
        is_overall = (pl.col("rater") == "judge") & (pl.col("factor") == "all")
        failures = result.missing.row(by_predicate=is_overall, named=True)
        widths.append(
            [judge[f"{name}_high"] - judge[f"{name}_low"] for name in ("consistency", "first_rate")]
            + [failures["failure_rate_high"] - failures["failure_rate_low"]]
        )
    assert widths[0] == pytest.approx(widths[1], rel=0.15)  # other resamples
