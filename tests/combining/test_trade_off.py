"""Combination under a bound on partiality: the penalty, its choice, and the table of the trade-off."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import Ridge

import custodes as cu
from custodes import plots
from custodes.combining.combine import Combine
from custodes.errors import InputError, OptionError
from custodes.stats.learning.even_handed import STRENGTHS, even_handed, residual_products
from custodes.stats.learning.ridge import fit_products, fold_products, ridge, scaling, standardise_columns
from tests.combining import runs
from tests.combining.runs import column, rules
from tests.combining.tasks import planted
from tests.evaluate.judged_studies import Scores, judged


def favouring(seed: int = 1, *, items: int = 150, favour: float = 1.8) -> dict[tuple[str, str], np.ndarray]:
    """Return eight metrics of a quality rated by three annotators; the most accurate metric over-rates system D."""
    rng = np.random.default_rng(seed)
    quality = np.linspace(-1, 1, 8)[rng.permutation(8)] + rng.normal(size=(items, 8))
    human = {(name, ""): np.round(2 * (quality + 0.7 * rng.normal(size=quality.shape))) for name in ("ann", "bob")}
    noise = (0.4, *np.linspace(0.8, 1.5, 7))
    metrics = {(f"m{k}", ""): quality + sd * rng.normal(size=quality.shape) for k, sd in enumerate(noise)}
    metrics["m0", ""][:, 3] += favour
    return human | metrics


def run_combine(scores: Scores, **options: Any) -> Combine:
    return runs.run_combine(scores, **{"method": ("even-handed", "ridge", "best"), **options})


@pytest.fixture(scope="module")
def favoured() -> Combine:
    """Return the combination of 60 items of which a metric over-rates a system."""
    return run_combine(favouring(items=60), unseen="fast", resamples=20)


def test_a_favour_of_the_most_accurate_metric_is_halved_at_little_cost() -> None:
    scores = favouring()
    table = cu.favoritism(judged(scores), metrics="m0", resamples=0).partiality
    assert table.filter(system="D")["partiality"][0] > 30
    result = run_combine(scores)
    assert (result.model.validation["single"] or {})["metric"] == "m0"
    score, size = column(result.comparison, "kendall"), column(result.partiality, "largest_partiality")
    assert column(result.partiality, "system")["ridge"] == "D"
    assert size["even-handed"] <= size["ridge"] / 2
    assert score["ridge"] - score["even-handed"] <= 0.01


def test_the_path_is_that_of_a_penalised_regression() -> None:
    # The penalty equals further rows with target 0, so scikit-learn's ridge on these has the same weights.
    rng = np.random.default_rng(0)
    x, groups = rng.normal(size=(60, 4)), np.arange(60)
    y = x @ np.array([1.0, 2.0, 0.0, 0.0]) + rng.normal(size=60)
    root = rng.normal(size=(3, 4))
    products = fold_products(x, y, groups % 5)
    free, bound = (
        fit_products(products, np.arange(4), 4, np.array([0.5]), penalty_matrix=strength * root.T @ root)
        for strength in (0.0, 2.0)
    )
    assert np.allclose(free.weights, ridge(x, y, groups=groups, penalties=np.array([0.5])).weights)
    rows = np.concatenate([standardise_columns(x, scaling(x)), np.sqrt(2 * 60) * root])
    model = Ridge(alpha=0.5 * 60, fit_intercept=False).fit(rows, np.append(y - y.mean(), np.zeros(3)))
    assert np.allclose(bound.weights, model.coef_)


def test_residuals_are_those_around_a_line_and_sampling_error_is_taken_off() -> None:
    # With many items the sampling error vanishes, so the products are those of least-squares residuals.
    rng = np.random.default_rng(0)
    items, favour = 4000, np.array([0, 0, 1.0, 0, 0, -0.5])
    quality = np.linspace(-1, 1, 6) + 0.1 * rng.normal(size=(items, 6))
    z = np.stack([quality + favour, quality + rng.normal(size=quality.shape)])
    item, system = np.divmod(np.arange(quality.size), 6)
    design = {"items": item, "systems": system, "groups": item}
    products = residual_products(z.reshape(2, -1).T, quality.ravel(), **design)
    line = np.polyfit(quality.mean(axis=0), z[0].mean(axis=0), 1)
    residual = z[0].mean(axis=0) - np.polyval(line, quality.mean(axis=0))
    assert products[0, 0] == pytest.approx(np.mean(residual**2), rel=1e-3)
    assert abs(products[1, 1]) < 1e-3
    design = {name: labels[:48] for name, labels in design.items()}
    few = residual_products(rng.normal(size=(48, 3)), rng.normal(size=48), **design)
    assert (np.linalg.eigvalsh(few) > -1e-12).all()


def test_missing_outputs_and_the_order_of_rows_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    item, system = np.divmod(np.arange(400), 8)
    x, y = rng.normal(size=(400, 3)), rng.normal(size=400)
    rows = rng.permutation(400)[:300]
    design: dict[str, Any] = {"items": item[rows], "systems": system[rows], "groups": item[rows]}
    again = np.argsort(rows)
    first = even_handed(x[rows], y[rows], **design)
    second = even_handed(x[rows][again], y[rows][again], **{name: values[again] for name, values in design.items()})
    for one, other in zip(first, second, strict=True):
        assert np.allclose(one.weights, other.weights)


def test_the_table_traces_the_penalty_and_starts_with_ridge(favoured: Combine) -> None:
    result = favoured
    table = result.trade_off
    assert table["penalty"].to_list() == list(STRENGTHS)
    assert table["chosen"].sum() == 1
    ridge_row = result.comparison.filter(method="ridge").row(0, named=True)
    row = result.partiality.filter(method="ridge").row(0, named=True)
    first = table.row(0, named=True)
    assert first["score"] == pytest.approx(ridge_row["kendall"])
    assert first["loss"] == first["loss_low"] == first["loss_high"] == 0
    for name in (f"{kind}largest_partiality{end}" for kind in ("", "unseen_") for end in ("", "_low", "_high")):
        assert first[name] == pytest.approx(row[name])
    assert (table["loss"] - (first["score"] - table["score"])).abs().max() < 1e-9
    assert (table["largest_partiality_low"] <= table["largest_partiality"]).all()
    assert (table["largest_partiality"] <= table["largest_partiality_high"]).all()
    # Training on other systems cannot reduce the partiality of a held-out system.
    assert (table["unseen_largest_partiality"][:3] > table["largest_partiality"][:3]).all()
    assert result.model.method == "even-handed"
    alone = run_combine(favouring(items=60), method="ridge").partiality
    assert alone["largest_partiality_high"][0] == pytest.approx(row["largest_partiality_high"])


def test_a_bound_takes_the_least_penalty_that_satisfies_it() -> None:
    scores = favouring(items=40)
    loose, strict = (run_combine(scores, method="even-handed", max_partiality=bound) for bound in (60, 0.1))
    assert loose.trade_off.filter("chosen")["penalty"].to_list() == [0]
    assert strict.trade_off.filter("chosen")["penalty"][0] > 0
    assert "bound-not-satisfied" in rules(strict)


def test_without_enough_systems_it_is_ridge_and_says_so() -> None:
    result = run_combine(planted())
    score = column(result.comparison, "kendall")
    assert score["even-handed"] == pytest.approx(score["ridge"])
    assert result.trade_off.is_empty()
    assert result.partiality.is_empty()
    assert "no-partiality" in rules(result)


def test_bad_options_are_refused() -> None:
    with pytest.raises(OptionError, match="max_partiality applies only to the method even-handed"):
        run_combine(planted(), method="ridge", max_partiality=5)
    for bound in (0, 200):
        with pytest.raises(OptionError, match="must lie between 0 and 100"):
            run_combine(planted(), max_partiality=bound)
    battles = [
        {"item": f"i{k:03}", "model_a": "A", "model_b": "B", "rater": "ann", "kind": "human", "winner": f"model_{side}"}
        for k, side in enumerate("ab" * 10)
    ]
    scores = [
        {"item": f"i{k:03}", "system": system, "rater": metric, "kind": "metric", "score": k % 7 + place}
        for metric in ("m", "n")
        for k in range(20)
        for place, system in enumerate("AB")
    ]
    with pytest.raises(OptionError, match="even-handed' does not fit verdicts"):
        runs.run_combine(cu.read(pl.DataFrame(scores), pl.DataFrame(battles)), method="even-handed")


def test_the_figure_has_both_kinds_of_systems(favoured: Combine) -> None:
    specification = str(plots.trade_off_curve(favoured).to_dict())
    assert "systems of the fit" in specification
    assert "systems left out of the fit" in specification
    with pytest.raises(InputError, match="call combine with the method even-handed"):
        plots.trade_off_curve(run_combine(planted(), method="ridge"))
