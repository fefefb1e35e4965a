from __future__ import annotations

import numpy as np
import pytest

from custodes.stats import pooled_correlation as pooled
from custodes.stats.bootstrap import bootstrap_weights
from custodes.stats.intervals import CORRELATION, student_interval
from custodes.stats.pooled_correlation import pooled_correlation

STUDIES, RESAMPLES, SYSTEMS, CLUSTERS = 300, 200, 2, 60
TRUTH = 20_000  # clusters


def draw_clusters(
    rng: np.random.Generator, n_clusters: int, *, strong: bool, levels: int, sizes: str
) -> tuple[np.ndarray, ...]:
    """Human scores, metric scores and units: clusters with a common error, of two items, of unequal sizes, or with half
    of all items in one."""
    rank = rng.permutation(n_clusters) + 1
    size = {"even": 2 + 0 * rank, "zipf": 1 + 60 // rank, "one": np.where(rank == 1, 2 * CLUSTERS, 2)}[sizes]
    units = np.repeat(np.arange(n_clusters), size)
    shape, rho = (len(units), SYSTEMS), 0.9 if strong else 0.2
    quality = rng.normal(size=shape) + 0.7 * rng.normal(size=(n_clusters, 1))[units]
    metric = rho * quality + np.sqrt(1 - rho**2) * (rng.normal(size=shape) + rng.normal(size=(n_clusters, 1))[units])
    human = np.round(np.clip(quality, -2, 2) * levels / 4)
    return human, np.round(metric, 1 if levels < 10 else 6)[np.newaxis], units


@pytest.mark.slow
@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
@pytest.mark.parametrize("levels", [2, 40])
@pytest.mark.parametrize("sizes", ["even", "zipf", "one"])
def test_resamples_on_a_grid_cover_as_exact_ones(
    strong: bool, levels: int, sizes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"strong": strong, "levels": levels}
    rng = np.random.default_rng(11)
    human, metric, units = draw_clusters(rng, TRUTH, sizes="even", **kind)  # values do not depend on sizes
    truth = pooled_correlation("kendall", human, metric, units=units, weights=np.ones((1, TRUTH))).item()
    held, spread = np.zeros(2), np.zeros((STUDIES, 2))
    for study in range(STUDIES):
        human, metric, units = draw_clusters(rng, CLUSTERS, sizes=sizes, **kind)
        weights = bootstrap_weights(CLUSTERS, RESAMPLES, rng)
        for k, many in enumerate((10**9, 0)):
            monkeypatch.setattr(pooled, "EXACT", many)
            draws = pooled_correlation("kendall", human, metric, units=units, weights=weights)[:, 0]
            low, high = student_interval(draws, confidence=0.95, n_units=CLUSTERS, bounds=CORRELATION)
            held[k] += low <= truth <= high
            spread[study, k] = draws[1:].std()
    exact, grid = held / STUDIES
    ratios = spread[:, 1] / spread[:, 0]
    print(
        f"{kind} {sizes}: exact {exact:.3f}, grid {grid:.3f}, sd {ratios.mean():.3f}, most {abs(ratios - 1).max():.3f}"
    )
    # A cluster with half of all items has little information on the others, whatever the resamples, so both have lower
    # coverage.
    assert abs(grid - exact) < 0.02
    assert abs(ratios - 1).max() < 0.05
