from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

import custodes as cu
from custodes.answers.wording import UNDEFINED
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.evaluate.decision_graph import CELLS
from custodes.evaluate.favoritism import favoritism
from custodes.evaluate.partiality_table import DISFAVOURED, FAVOURED, NEAR_COPY, near_copies
from custodes.evaluate.rater_comparison import compare
from custodes.stats.intervals import student_interval
from tests.evaluate.studies import GOLDEN, counts_of, study_of


def test_golden_numbers_of_the_paper() -> None:
    result = favoritism(counts_of([table for table, _ in GOLDEN]), resamples=200)
    np.testing.assert_allclose(result.pairs["favi"], [favi for _, favi in GOLDEN], atol=1e-12)
    # Figure 3: sample accuracy .52
    assert result.pairs["sample_accuracy"][4] == pytest.approx(0.52)
    assert result.pairs["favi_low"][4] < -50 / 480 < result.pairs["favi_high"][4]


def test_no_error_is_null_with_a_reason_and_few_errors_are_marked() -> None:
    result = favoritism(counts_of([[[5, 0, 0], [0, 5, 0], [0, 0, 5]], [[5, 0, 1], [0, 5, 0], [0, 0, 5]]]), resamples=50)
    assert result.pairs["favi"].to_list() == [None, -2.0]
    assert result.pairs["note"].to_list() == ["no errors", "too few errors"]
    assert {note.rule for note in result.notes} == {
        "counts-without-clusters",
        "favi-no-errors",
        "favi-few-errors",
        "partiality-counts",
    }
    assert result.metrics["mean_abs_favi"].to_list() == [None, 2.0]


def test_confusion_is_human_by_metric() -> None:
    # ann prefers A on both items; the metric ties the first and prefers B on the second.
    scores = np.array([[[2.0, 1], [2, 1]], [[1, 1], [0, 1]]])
    row = favoritism(study_of(scores), resamples=20).pairs.row(0, named=True)
    assert {name: row[name] for name in CELLS if row[name]} == {"win_tie": 1, "win_loss": 1}


def test_system_table_is_one_against_all() -> None:
    rng = np.random.default_rng(1)
    result = favoritism(study_of(rng.integers(0, 4, (2, 40, 3)).astype(float)), resamples=20)
    pairs = {(row["system_a"], row["system_b"]): row["favi"] for row in result.pairs.iter_rows(named=True)}
    row = result.systems.filter(pl.col("system") == "S1").row(0, named=True)
    versus = [-pairs["S0", "S1"], pairs["S1", "S2"]]
    assert row["favi"] == pytest.approx(np.mean(versus))


def test_correlations_of_pairs_are_those_of_scipy() -> None:
    scores = np.random.default_rng(7).integers(0, 4, (4, 30, 5)).astype(float)
    result = favoritism(study_of(scores), resamples=0)
    pairs = result.pairs.drop_nulls("favi").with_columns(abs_favi=pl.col("favi").abs())
    rows = list(result.correlations.iter_rows(named=True))
    assert [row["accuracy"] for row in rows] == ["sign_agrees", "sample_accuracy"]
    # No correlation depends on the names of the systems, which decide which system of a pair comes first.
    for seed in range(5):
        names = [f"S{k}" for k in np.random.default_rng(seed).permutation(5)]
        renamed = favoritism(study_of(scores, names), resamples=0)
        assert renamed.correlations["spearman"].to_list() == pytest.approx(result.correlations["spearman"].to_list())
    for row in rows:
        assert row["spearman"] == pytest.approx(
            spearmanr(pairs["abs_favi"], pairs[row["accuracy"]].cast(float)).statistic
        )
        assert row["n"] == pairs.height


def test_many_systems_are_rows_not_columns() -> None:
    scores = np.random.default_rng(0).integers(0, 4, (2, 12, 17)).astype(float)
    last = list(favoritism(study_of(scores), resamples=0).views())[-1]
    assert last.header[:4] == ("metric", "system", "partiality (points)", "p_value")
    assert len(last.rows) == 17


def test_counts_and_study_agree() -> None:
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 3, (4, 25, 4)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    from custodes.evaluate.rater_comparison import compare

    study = study_of(scores)
    direct = favoritism(study, resamples=30).pairs
    from_counts = favoritism(OutcomeCounts.from_comparisons(compare(study)[0].preferences), resamples=30).pairs
    assert direct.equals(from_counts)


def test_partiality_finds_what_was_planted_and_nothing_else() -> None:
    # m1 measures quality with noise, m2 adds a bonus to S1, and three annotators rate with independent noise.
    rng = np.random.default_rng(2)
    quality = np.array([1.0, 0.6, 0.3, 0.0, -0.4, -0.8]) + rng.normal(size=(150, 6))
    human = quality + rng.normal(size=(3, 150, 6))
    fair, partial = quality + rng.normal(size=(2, 150, 6))
    partial[:, 1] += 1.0
    result = favoritism(study_of(np.stack([*human, fair, partial]), people=3), resamples=20)
    table = result.partiality
    assert table.filter(pl.col("finding") != "").select("metric", "system", "finding").rows() == [
        ("m4", "S1", "favoured")
    ]
    row = table.filter(metric="m4", system="S1").row(0, named=True)
    # by brute force: the win rate of S1 with and without the bonus
    others = [0, 2, 3, 4, 5]
    rates = [(partial[:, [1]] - off > partial[:, others]).mean() for off in (0.0, 1.0)]
    assert row["partiality_low"] < 100 * (rates[0] - rates[1]) < row["partiality_high"]
    assert (row["rank_human"], row["rank"], row["rank_without"]) == (2, 1, 2)
    (matrix,) = (view for view in result.views() if view.title.startswith("partiality"))
    texts = {line[0]: line[1:] for line in matrix.rows}
    assert [text.endswith("*") for text in texts["m4"]] == [False, True, False, False, False, False]
    assert "?: inconclusive" in matrix.more.replace("\n", " ")


def test_inconclusive_partiality_has_a_reason() -> None:
    rng = np.random.default_rng(0)
    few = favoritism(study_of(rng.normal(size=(2, 30, 4))), resamples=0)
    assert few.partiality["finding"].unique().to_list() == ["inconclusive"]
    assert few.partiality["reason"].unique().to_list() == ["fewer than 5 systems to fit the curve"]
    assert few.partiality["partiality"].null_count() == 4
    assert "partiality-inconclusive" in {note.rule for note in few.notes}
    distant = rng.normal(size=(2, 60, 8)) + np.array([9.0, 0, 0, 0, 0, 0, 0, 0])
    result = favoritism(study_of(distant), resamples=0)
    reasons = dict(result.partiality.filter(finding="inconclusive").select("system", "reason").rows())
    assert reasons["S0"] == "no other system of similar quality"


def noisy_study(seed: int) -> Study:
    """Return a study of metrics with increasing noise on one quality, with ties and missing scores."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(30, 6))
    scores = np.stack([quality + noise * rng.normal(size=(30, 6)) for noise in (0.5, 0.1, 0.2, 0.3, 0.5, 1.0)])
    scores[3] = np.round(scores[3], 1)
    scores[4, :12, 2] = np.nan
    return study_of(scores)


@pytest.mark.parametrize("study", [cu.read("demo"), noisy_study(0), noisy_study(1)], ids=["demo", "noisy", "other"])
def test_distances_are_those_of_complementarity(study: Study) -> None:
    aspect = study.aspects[0]
    (comparison,) = compare(study, aspect=aspect)
    names, n_systems = comparison.metrics, len(comparison.systems)
    pairs = cu.complementarity(study, aspect=aspect, resamples=0).pairs.filter(kind_a="metric", kind_b="metric")
    near = {
        frozenset(name.removesuffix(f":{aspect}") for name in (row["rater_a"], row["rater_b"]))
        for row in pairs.to_dicts()
        if row["complementarity"] <= NEAR_COPY
    }
    assert near
    assert len(near) < pairs.height
    # Every metric over-rates the first system, the last metric under-rates the second one, and there are no other
    # findings.
    finding = [FAVOURED if k % n_systems == 0 else "" for k in range(len(names) * n_systems)]
    finding[-n_systems + 1] = DISFAVOURED
    copies = near_copies(comparison, finding)
    for m, name in enumerate(names):
        expected = {copy for copy in names if frozenset((name, copy)) in near and copy != name}
        assert set(copies[m * n_systems]) == expected
        assert not any(copies[m * n_systems + 1 : (m + 1) * n_systems])


def test_rows_of_metrics_and_pairs_by_their_definitions() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (3, 12, 4)).astype(float)
    scores[1, 3:, 3] = np.nan
    scores[1, :3, 3] = scores[0, :3, 3]
    scores[0, 6:, 0] = np.nan
    scores[2, :6, 1] = np.nan
    result = favoritism(study_of(scores), resamples=0)
    pairs = result.pairs.to_dicts()
    assert len(pairs) == 12
    for row in pairs:
        r, a, b = int(row["metric"][1]), int(row["system_a"][1]), int(row["system_b"][1])
        human, metric = (np.sign(scores[k, :, a] - scores[k, :, b]) for k in (0, r))
        shared = np.isfinite(human + metric)
        human, metric = human[shared], metric[shared]
        errors = human != metric
        assert row["n"] == shared.sum()
        if not shared.any():
            assert (row["note"], row["sign_agrees"], row["sample_accuracy"]) == ("no item rated by both", None, None)
            continue
        assert row["note"] == ("no errors" if not errors.any() else "too few errors" if errors.sum() < 5 else "")
        assert row["sign_agrees"] == (np.sign(human.sum()) == np.sign(metric.sum()))
        assert row["sample_accuracy"] == pytest.approx((human == metric).mean())
        assert (row["favi"] is None) is not errors.any()
        if errors.any():
            assert row["favi"] == pytest.approx((metric - human)[errors].mean())
    assert {"too few errors", "no item rated by both", ""} <= {row["note"] for row in pairs}
    for metric in ("m1", "m2"):
        rows = [row for row in pairs if row["metric"] == metric]
        sizes = [abs(row["favi"]) for row in rows if row["favi"] is not None]
        summary = result.metrics.filter(metric=metric).row(0, named=True)
        assert summary["mean_abs_favi"] == pytest.approx(np.mean(sizes))
        assert summary["std_abs_favi"] == pytest.approx(np.std(sizes))
        assert summary["system_accuracy"] == pytest.approx(
            np.mean([row["sign_agrees"] for row in rows if row["sign_agrees"] is not None])
        )
        n = sum(row["n"] for row in rows)
        agreed = sum(row["n"] * row["sample_accuracy"] for row in rows if row["n"])
        assert summary["sample_accuracy"] == pytest.approx(agreed / n)
        assert summary["overall"] is False
    rules = {note.rule: note for note in result.notes}
    assert rules["favi-no-shared-items"].count == sum(row["n"] == 0 for row in pairs)


@pytest.mark.parametrize(("n_errors", "note"), [(4, "too few errors"), (5, "")])
def test_five_errors_are_enough(n_errors: int, note: str) -> None:
    result = favoritism(counts_of([[[9, n_errors, 0], [0, 9, 0], [0, 0, 9]]]), resamples=0)
    assert result.pairs["note"].item() == note
    assert ("favi-few-errors" in {item.rule for item in result.notes}) is bool(note)


def test_the_interval_of_the_mean_is_that_of_resampled_items() -> None:
    rng = np.random.default_rng(9)
    scores = rng.integers(0, 4, (2, 50, 4)).astype(float)
    scores[1, 40:, 1] = np.nan
    result = favoritism(study_of(scores), resamples=2000).metrics.row(0, named=True)
    human, metric = (
        np.stack([np.sign(values[:, a] - values[:, b]) for a, b in combinations(range(4), 2)]) for values in scores
    )
    shift = np.where(np.isfinite(metric), metric - human, 0.0)
    weights = rng.multinomial(50, np.full(50, 1 / 50), size=4000)
    draws = (np.abs(shift @ weights.T) / ((shift != 0) @ weights.T)).mean(axis=0)
    draws = np.append(result["mean_abs_favi"], draws)
    low, high = student_interval(draws, confidence=0.95, n_units=50, bounds=(0.0, 2.0))
    bounds = (result["mean_abs_favi_low"], result["mean_abs_favi_high"])
    assert bounds == pytest.approx((float(low), float(high)), abs=0.02)


def test_clusters_of_copies_have_the_intervals_of_single_items() -> None:
    rng = np.random.default_rng(11)
    scores = rng.integers(0, 4, (2, 60, 3)).astype(float)
    scores[1] = np.where(rng.random((60, 3)) < 0.6, scores[0], scores[1])
    names = [f"i{k}" for k in range(240)]
    copies = pl.DataFrame({"item": names, "cluster": [f"c{k // 4}" for k in range(240)]})
    copied = study_of(scores.repeat(4, axis=1))
    plain, clustered = (
        favoritism(study, resamples=4000).pairs for study in (study_of(scores), copied.describe(items=copies))
    )
    width = [table["favi_high"] - table["favi_low"] for table in (plain, clustered)]
    np.testing.assert_allclose(width[1], width[0], rtol=0.2)
    assert clustered["favi"].to_list() == pytest.approx(plain["favi"].to_list())
    np.testing.assert_allclose(clustered["flip_probability"], plain["flip_probability"], atol=0.1)


def test_slices_have_their_items_and_views_their_marks() -> None:
    rng = np.random.default_rng(2)
    quality = np.array([1.0, 0.6, 0.3, 0.0, -0.4, -0.8]) + rng.normal(size=(150, 6))
    scores = np.stack([*(quality + rng.normal(size=(3, 150, 6))), quality + rng.normal(size=(150, 6))])
    scores[3, :, 1] += 1.0
    items = pl.DataFrame({"item": [f"i{k}" for k in range(150)], "group": ["x"] * 100 + ["y"] * 50})
    result = favoritism(study_of(scores, people=3).describe(items=items), by="group", resamples=0)
    assert result.slices.select("slice", "n").unique(maintain_order=True).rows() == [("x", 100), ("y", 50)]
    assert result.slices["system"].to_list() == [f"S{k}" for k in range(6)] * 2
    assert not [name for name in result.slices.columns if name.startswith("rank")]
    views = {view.title.split(" ")[0]: view for view in result.views()}
    assert views["mean"].header == ("metric", *(f"S{k}" for k in range(6)))
    favi = dict(result.systems.select("system", "favi").rows())
    assert views["mean"].rows == (("m3", *(f"{favi[f'S{k}']:+.2f}" for k in range(6))),)
    cells = [
        "?" if row["finding"] == "inconclusive" else f"{row['partiality']:+.1f}" + "*" * bool(row["finding"])
        for row in result.partiality.to_dicts()
    ]
    assert views["partiality"].rows == (("m3", *cells),)


@pytest.mark.parametrize(("n_systems", "is_matrix"), [(16, True), (17, False)])
def test_sixteen_systems_are_columns(n_systems: int, *, is_matrix: bool) -> None:
    scores = np.random.default_rng(0).integers(0, 4, (3, 10, n_systems)).astype(float)
    scores[2] = scores[0]
    result = favoritism(study_of(scores), resamples=0)
    (view,) = (view for view in result.views() if "mean Favi-Score" in view.title or view.title == "systems")
    assert (view.header[1] == "S0") is is_matrix
    if is_matrix:
        assert view.numeric == (False, *[True] * 16)
        assert [row[0] for row in view.rows] == ["m1", "m2"]
        assert set(view.rows[1][1:]) == {UNDEFINED}


def test_each_aspect_has_its_matrices_and_the_last_one_has_the_note() -> None:
    views = [view for view in favoritism(cu.read("demo"), resamples=0).views() if view.title.startswith("partiality")]
    assert [view.title.rpartition("(")[2] for view in views] == ["coherence)", "fluency)"]
    assert [bool(view.more) for view in views] == [False, True]
