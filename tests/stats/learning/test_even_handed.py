from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.learning.even_handed import STRENGTHS, even_handed, residual_products
from custodes.stats.learning.ridge import predict, ridge, scaling, standardise_columns


def rows_of(seed: int, *, items: int = 12, systems: int = 4) -> tuple[np.ndarray, ...]:
    """Return x, y, item, system and cluster of the outputs that exist; the systems differ in x more than in y."""
    rng = np.random.default_rng(seed)
    item, system = np.divmod(np.arange(items * systems), systems)
    exists = rng.random(len(item)) < 0.8
    y = rng.normal(size=len(item)) + 0.5 * system
    x = np.stack([y + rng.normal(size=len(item)) + 3 * (system == k) for k in (0, 2)], axis=1)
    return x[exists], y[exists], item[exists], system[exists], item[exists] // 2


def by_least_squares(
    x: np.ndarray, y: np.ndarray, item: np.ndarray, system: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Return the products of residuals minus the covariance of their errors, by dummy variables."""
    items, systems = len(set(item)), len(set(system))
    design = np.hstack([np.eye(items)[np.unique(item, return_inverse=True)[1]], np.eye(systems)[system]])
    inverse = np.linalg.pinv(design)
    share = np.bincount(system) / len(y)
    effects, errors = [], []
    for column in (*x.T, y):
        coefficients = inverse @ column
        effect = coefficients[items:] - coefficients[items:] @ share
        weighted_residuals = inverse[items:] * (column - design @ coefficients)  # (systems, rows)
        error = np.stack([weighted_residuals[:, unit == u].sum(axis=1) for u in np.unique(unit)])
        effects.append(effect)
        errors.append(error - (error @ share)[:, np.newaxis])
    slopes = [np.polyfit(effects[-1], effect, 1, w=np.sqrt(share))[0] for effect in effects[:-1]]
    left = [effect - slope * effects[-1] for effect, slope in zip(effects, slopes, strict=False)]
    noise = [error - slope * errors[-1] for error, slope in zip(errors, slopes, strict=False)]
    return np.array(
        [[(share * (left[j] * left[k] - (noise[j] * noise[k]).sum(axis=0))).sum() for k in (0, 1)] for j in (0, 1)]
    )


@pytest.mark.parametrize("seed", range(4))
def test_residuals_of_systems_are_those_of_least_squares(seed: int) -> None:
    x, y, item, system, unit = rows_of(seed)
    expected = by_least_squares(x, y, item, system, unit)
    values, vectors = np.linalg.eigh(expected)
    found = residual_products(x, y, items=item, systems=system, groups=unit)
    np.testing.assert_allclose(found, vectors @ np.diag(np.maximum(values, 0)) @ vectors.T, atol=1e-10)
    order = np.random.default_rng(seed).permutation(len(y))
    names = {"items": item[order] + 7, "systems": 10 * system[order], "groups": unit[order] + 3}
    np.testing.assert_allclose(residual_products(x[order], y[order], **names), found, atol=1e-10)


def test_a_target_on_which_all_systems_are_equal_leaves_the_effects_of_the_columns() -> None:
    item, system = np.divmod(np.arange(24), 3)
    y = (item % 2).astype(float)
    x = np.stack([2.0 * system, np.ones(24)], axis=1)  # without noise, and without any difference
    products = residual_products(x, y, items=item, systems=system, groups=item)
    np.testing.assert_allclose(products, [[4 * 2 / 3, 0], [0, 0]], atol=1e-12)


def test_the_first_strength_is_ridge_and_the_last_removes_the_partiality() -> None:
    x, y, item, system, unit = rows_of(0, items=60)
    models = even_handed(x, y, items=item, systems=system, groups=unit)
    assert len(models) == len(STRENGTHS)
    np.testing.assert_allclose(predict(models[0], x), predict(ridge(x, y, groups=unit), x), atol=1e-10)
    z = standardise_columns(x, scaling(x))
    penalty = residual_products(z, y, items=item, systems=system, groups=unit)
    sizes = [model.weights @ penalty @ model.weights for model in models]
    assert all(np.diff(sizes) < 0)
    assert sizes[-1] < 1e-4 * sizes[0]
