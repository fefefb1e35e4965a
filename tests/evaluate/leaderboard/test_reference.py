"""Win rates against a reference system: by hand, and at equal lengths against statsmodels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from scipy.stats import t

import custodes as cu
from custodes.data.study import Study
from custodes.stats.intervals import wilson_interval
from custodes.stats.logistic import first_coefficient

MODELS = {"strong": 1.0, "weak": -1.0}


def results(folder: Path, *, n: int = 300, longer: float = 0.0) -> Path:
    """Write MODEL/ANNOTATOR/annotations.json; the judge prefers quality and tanh of the length difference."""
    rng = np.random.default_rng(20_260_240)
    for model, quality in MODELS.items():
        words = rng.integers(20, 120, n) + int(longer)
        lengths_of_others = rng.integers(20, 120, n)
        difference = words - lengths_of_others
        logit = quality + np.tanh(difference / difference.std()) + 0.5 * rng.normal(size=n)
        graded = 1 / (1 + np.exp(-logit))
        records = [
            {
                "instruction": f"task {i}",
                "output_1": "x" * int(lengths_of_others[i]),
                "generator_1": "base",
                "output_2": "y" * int(words[i]),
                "generator_2": "wrong name" if model == "weak" else model,
                "annotator": "gpt",
                "preference": 1 + graded[i],
            }
            for i in range(n)
        ]
        path = folder / model / "gpt" / "annotations.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(records))
    return folder


def graded_of(folder: Path, model: str) -> np.ndarray:
    records = json.loads((folder / model / "gpt" / "annotations.json").read_text())
    return np.array([record["preference"] - 1 for record in records])


def test_win_rates_against_the_common_system(tmp_path: Path) -> None:
    folder = results(tmp_path)
    board = cu.leaderboard(cu.read(folder), resamples=50)
    rows = {row["system"]: row for row in board.reference.to_dicts()}
    assert list(rows) == ["strong", "weak"]  # named after their folders
    for model, row in rows.items():
        graded = graded_of(folder, model)
        assert row["reference"] == "base"
        assert row["win_rate"] == pytest.approx(graded.mean())
        assert row["discrete_win_rate"] == pytest.approx((graded > 0.5).mean())
        mean, n = graded.mean(), len(graded)
        share = 1.968**2 / effective_number(graded, np.arange(n), 1.968**2)
        half_width = np.sqrt(share * mean * (1 - mean) + share**2 / 4) / (1 + share)
        assert row["win_rate_high"] == pytest.approx((mean + share / 2) / (1 + share) + half_width, rel=1e-4)
        assert row["length_controlled_win_rate_low"] < row["length_controlled_win_rate"]
    assert any("'wrong name' is renamed to 'weak'" in note.message for note in board.notes)


def effective_number(points: np.ndarray, units: np.ndarray, squared_quantile: float) -> float:
    """Comparisons times the variance of wins and losses by the variance of points, each with pseudo-observations."""
    weights = np.r_[np.ones(len(points)), squared_quantile / 2, squared_quantile / 2]
    rate = float(np.average(np.r_[points, 0, 1], weights=weights))
    g, deviations = len(set(units)), points - points.mean()
    squares = g / (g - 1) * sum(deviations[units == unit].sum() ** 2 for unit in set(units))
    # around `rate`: of the points by the theorem of König, and of the pseudo-observations
    squares += len(points) * (points.mean() - rate) ** 2 + squared_quantile / 2 * ((1 - rate) ** 2 + rate**2)
    return len(points) * rate * (1 - rate) / (squares / weights.sum())


def test_a_tie_among_wins_lowers_the_lower_bound() -> None:
    def lower_bound(n_wins: int, n_ties: int, n_losses: int) -> float:
        rows = [(i, "new", "base", w) for i, w in enumerate(["new"] * n_wins + ["tie"] * n_ties + ["base"] * n_losses)]
        frame = pl.DataFrame(
            rows + [(i, "third", "base", "base") for i in range(9)],
            schema=["item", "model_a", "model_b", "winner"],
            orient="row",
        )
        reference = cu.leaderboard(cu.read(frame), resamples=0).reference
        return float(reference.filter(system="new")["discrete_win_rate_low"][0])

    bounds = [lower_bound(*counts) for counts in ((100, 0, 0), (99, 1, 0), (99, 0, 1), (98, 1, 1))]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] - bounds[1] == pytest.approx(0.0053, abs=0.0005)
    assert lower_bound(0, 0, 100) == 0


def test_a_system_that_won_every_comparison_has_an_interval_and_single_annotators_have_no_rows() -> None:
    rows = [(item, system, "base", system) for item in range(9) for system in ("Aster", "Birch")]
    frame = pl.DataFrame(rows, schema=["item", "model_a", "model_b", "winner"], orient="row")
    board = cu.leaderboard(cu.read(frame), resamples=0)
    # 9 of 9 with Student's t of 8 degrees of freedom: 9 / (9 + 2.306²)
    expected = [("human", "Aster", 1.0, 0.629, 1.0), ("human", "Birch", 1.0, 0.629, 1.0)]
    columns = ["rater", "system", "discrete_win_rate", "discrete_win_rate_low", "discrete_win_rate_high"]
    assert board.reference.select(pl.col(columns[:2]), pl.col(columns[2:]).round(3)).rows() == expected
    for kind, n_raters in (("human", 0), ("metric", 2)):
        several = cu.read(frame.with_columns(rater=pl.format("r{}", pl.col("item") % 2), kind=pl.lit(kind)))
        assert cu.leaderboard(several, resamples=0).reference["rater"].n_unique() == n_raters


def test_a_probable_tie_counts_half_to_each_side() -> None:
    rows = [
        (item, *(("base", system) if item % 2 else (system, "base")), "judge", "metric", "tie", 0.1, 0.6, 0.3)
        for item in range(40)
        for system in ("a", "c")
    ]
    names = ["item", "model_a", "model_b", "rater", "kind", "winner", "p_a", "p_tie", "p_b"]
    reference = cu.leaderboard(pl.DataFrame(rows, schema=names, orient="row"), resamples=0).reference
    assert reference["win_rate"].to_list() == pytest.approx([0.5, 0.5])  # 0.1 + 0.3 and 0.3 + 0.3, equally often


def test_nothing_is_extrapolated_to_equal_lengths(tmp_path: Path) -> None:
    rows = cu.leaderboard(cu.read(results(tmp_path, longer=150)), resamples=0).reference
    assert rows["length_controlled_win_rate"].null_count() == 2
    assert set(rows["reason"]) == {"fewer than 10 % of the outputs are longer (or shorter) than the reference's output"}


def test_without_one_common_system_there_is_no_reference() -> None:
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    rows = [(i, *pairs[i % 3], "j", "metric", 1 if i % 2 else -1) for i in range(60)]
    names = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    assert cu.leaderboard(frame, resamples=0).reference.is_empty()
    star = frame.filter(pl.col("system_b") == "c")
    assert set(cu.leaderboard(star, resamples=0).reference["reference"]) == {"c"}
    assert cu.leaderboard(star.filter(system_a="a"), resamples=0).reference.is_empty()


def test_the_coefficient_maximises_the_likelihood_of_proportions() -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(20_260_241)
    design = np.stack([np.ones(200), rng.normal(size=200)], axis=1)
    outcome = 1 / (1 + np.exp(-(0.3 + 0.8 * design[:, 1] + rng.normal(size=200))))

    def loss(coefficients: np.ndarray) -> float:
        logit = design @ coefficients
        return float((np.logaddexp(0, logit) - outcome * logit).sum())

    value, low, high, _ = first_coefficient(outcome, design, np.arange(200), confidence=0.95)
    assert value == pytest.approx(minimize(loss, np.zeros(2), tol=1e-12).x[0], abs=1e-5)
    assert low < value < high


def test_check_names_a_system_with_one_text(tmp_path: Path) -> None:
    folder = results(tmp_path)
    path = folder / "weak" / "gpt" / "annotations.json"
    records = [record | {"output_2": "same"} for record in json.loads(path.read_text())]
    path.write_text(json.dumps(records))
    problems = cu.check(cu.read(folder)).problems.filter(rule="constant-outputs")
    assert problems["message"].item() == (
        "weak gave one constant text for all items; read the outputs, and repair or exclude them"
    )


def reference_study(folder: Path, *, n: int, longer: int, shorter: int, without: int = 0, clusters: int = 0) -> Study:
    """Return verdicts of a judge on A and C against B; so many outputs of A are longer and shorter than those of B."""
    rng = np.random.default_rng(5)
    rows = [
        (f"i{i:02}", *(("A", "B") if i % 2 else ("B", "A")), int(rng.choice([1, 0, -1], p=[0.5, 0.2, 0.3])))
        for i in range(n)
    ]
    rows += [(f"i{i:02}", "B", "C", int(rng.choice([1, -1]))) for i in range(n)]
    names = ["item", "system_a", "system_b", "preference"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    frame.with_columns(rater=pl.lit("j"), kind=pl.lit("metric")).write_csv(folder / "v.csv")
    texts = [
        {
            "item": f"i{i:02}",
            "outputs": {
                "A": "x" * (60 + i * (1 if i < longer else -1 if i < longer + shorter else 0)),
                "B": "x" * 60,
                "C": "x" * (50 + 20 * (i % 2)),
            },
        }
        for i in range(n)
    ]
    for row in texts[:without]:
        del row["outputs"]["A"]
    (folder / "o.jsonl").write_text("\n".join(json.dumps(row) for row in texts))
    items = pl.DataFrame(
        {"item": [f"i{i:02}" for i in range(n)], "cluster": [f"c{i % max(clusters, 1)}" for i in range(n)]}
    )
    return cu.read(folder / "v.csv", folder / "o.jsonl", items=items if clusters else None)


@pytest.mark.parametrize(
    ("longer", "shorter", "without", "reason"),
    [
        (3, 2, 0, ""),
        (4, 1, 0, "fewer than 10 % of the outputs are longer"),
        (1, 4, 0, "fewer than 10 % of the outputs are longer"),
        (5, 5, 1, "not every output has a text"),
    ],
)
def test_a_tenth_of_the_outputs_on_each_side_is_enough(
    tmp_path: Path, longer: int, shorter: int, without: int, reason: str
) -> None:
    # the first output has equal length, so longer - 1 outputs are longer
    study = reference_study(tmp_path, n=20, longer=longer, shorter=shorter, without=without)
    rows = {row["system"]: row for row in cu.leaderboard(study, resamples=0).reference.to_dicts()}
    assert rows["A"]["reason"].startswith(reason)
    assert bool(rows["A"]["reason"]) is bool(reason)
    assert (rows["A"]["length_controlled_win_rate"] is None) is bool(reason)
    assert rows["C"]["reason"] == ""


@pytest.mark.parametrize("clusters", [0, 8, 1])
def test_win_rates_of_clusters_and_at_equal_length(tmp_path: Path, clusters: int) -> None:
    study = reference_study(tmp_path, n=40, longer=25, shorter=15, clusters=clusters)
    verdicts = pl.read_csv(tmp_path / "v.csv").filter(pl.col("system_b") != "C")
    points = (1 + np.where(verdicts["system_a"] == "A", verdicts["preference"], -verdicts["preference"])) / 2
    rows = cu.leaderboard(study, resamples=0, confidence=0.9).reference.to_dicts()
    assert [row["win_rate"] for row in rows] == sorted((row["win_rate"] for row in rows), reverse=True)
    (row,) = [row for row in rows if row["system"] == "A"]
    assert (row["n"], row["reference"], row["rater"]) == (40, "B", "j")
    mean = points.mean()
    assert row["win_rate"] == row["discrete_win_rate"] == pytest.approx(mean)
    units = np.arange(40) % clusters if clusters else np.arange(40)
    g = len(set(units))
    if g == 1:
        assert row["win_rate_low"] is row["length_controlled_win_rate_low"] is None
        return
    z2 = t.ppf(0.95, g - 1) ** 2
    n = effective_number(points, units, z2)
    centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (mean * (1 - mean) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    assert (row["win_rate_low"], row["win_rate_high"]) == pytest.approx((centre - half, centre + half))
    difference = np.array([i * (1 if i < 25 else -1) for i in range(40)], dtype=float)
    design = np.stack([np.ones(40), np.tanh(difference / difference.std())], axis=1)
    rate = float(1 / (1 + np.exp(-sm.GLM(points, design, family=sm.families.Binomial()).fit().params[0])))
    low, high = wilson_interval(rate, effective_number_at_zero(points, design, units, z2), quantile=np.sqrt(z2))
    for name, value in (("", rate), ("_low", low), ("_high", high)):
        assert row[f"length_controlled_win_rate{name}"] == pytest.approx(float(value))


def test_weighted_win_rates_are_those_of_the_systems_and_increase_with_strength() -> None:
    rng = np.random.default_rng(4)
    rows = [(f"i{i}", f"s{k}", "base", "j", "metric", int(rng.choice([1, 0, -1]))) for i in range(60) for k in range(4)]
    names = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    items = pl.DataFrame({"item": [f"i{i}" for i in range(60)], "cluster": [f"c{i // 5}" for i in range(60)]})
    items = items.with_columns(weight=rng.exponential(size=60) + 0.1)
    board = cu.leaderboard(cu.read(pl.DataFrame(rows, schema=names, orient="row"), items=items), resamples=0)
    by_strength = board.reference.join(board.systems, on="system").sort("strength")
    assert by_strength["discrete_win_rate"].to_list() == pytest.approx(by_strength["win_rate_right"].to_list())
    assert by_strength["discrete_win_rate"].is_sorted()


def effective_number_at_zero(
    points: np.ndarray, design: np.ndarray, units: np.ndarray, squared_quantile: float
) -> float:
    """As `effective_number`, from the regressions of statsmodels without and with pseudo-observations at 0."""
    family, n_units = sm.families.Binomial(), len(set(units))
    rates = sm.GLM(points, design, family=family).fit(tol=1e-12).fittedvalues
    pseudo = np.array([[1.0, 0.0], [1.0, 0.0]])
    weights = np.r_[np.ones(len(points)), squared_quantile / 2, squared_quantile / 2]
    adjusted = sm.GLM(np.r_[points, 0, 1], np.vstack([design, pseudo]), family=family, freq_weights=weights).fit(
        tol=1e-12
    )
    covariance, rate = adjusted.cov_params(), adjusted.fittedvalues[-1]
    sums = np.array([((points - rates)[:, None] * design)[units == unit].sum(axis=0) for unit in set(units)])
    shifts = (rates - adjusted.fittedvalues[:-2])[:, None] * design
    squares = n_units / (n_units - 1) * sums.T @ sums + shifts.T @ shifts
    squares += squared_quantile / 2 * (rate**2 + (1 - rate) ** 2) * pseudo.T @ pseudo / 2
    design_effect = (covariance @ squares @ covariance)[0, 0] / covariance[0, 0]
    return (1 / (rate * (1 - rate) * covariance[0, 0]) - squared_quantile) / design_effect
