"""Do intervals from linear resamples of pooled rank correlations hold the truth as often as those from exact ones?"""

from __future__ import annotations

import numpy as np
import pytest

from custodes.stats.agreement import linear
from custodes.stats.agreement.correlation import pooled_spearman
from custodes.stats.agreement.kendall import pooled_kendall
from custodes.stats.resampling.resample import CORRELATION, bootstrap_weights, student_interval, with_point

STUDIES, RESAMPLES, SYSTEMS = 300, 200, 4
TRUTH = 20_000  # clusters


def drawn(
    rng: np.random.Generator, n_clusters: int, *, strong: bool, levels: int, heavy: bool
) -> tuple[np.ndarray, ...]:
    """human, metric, units: clusters that share an error, of one item or of unlike many; ties on people's side."""
    size = np.minimum(1 + rng.geometric(0.3, n_clusters) ** 2, 60) if heavy else np.ones(n_clusters, dtype=int)
    units = np.repeat(np.arange(n_clusters), size)
    shape, rho = (len(units), SYSTEMS), 0.9 if strong else 0.2
    quality = rng.normal(size=shape) + 0.7 * rng.normal(size=(n_clusters, 1))[units]
    metric = rho * quality + np.sqrt(1 - rho**2) * (rng.normal(size=shape) + rng.normal(size=(n_clusters, 1))[units])
    human = np.round(np.clip(quality, -2, 2) * levels / 4)
    return human, np.round(metric, 1 if levels < 10 else 6)[np.newaxis], units


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [pooled_kendall, pooled_spearman], ids=["kendall", "spearman"])
@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
@pytest.mark.parametrize("levels", [2, 40])
@pytest.mark.parametrize("heavy", [False, True], ids=["even", "heavy"])
def test_linear_resamples_cover_as_exact_ones(
    pooled: object, strong: bool, levels: int, heavy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(pooled)
    kind = {"strong": strong, "levels": levels, "heavy": heavy}
    rng = np.random.default_rng(11)
    human, metric, units = drawn(rng, TRUTH, **kind)
    truth = pooled(human, metric, units=units, weights=np.ones((1, TRUTH))).item()
    held, spread = np.zeros(2), np.zeros((STUDIES, 2))
    n_clusters = 60
    for study in range(STUDIES):
        human, metric, units = drawn(rng, n_clusters, **kind)
        weights = with_point(bootstrap_weights(n_clusters, RESAMPLES, rng))
        for k, many in enumerate((10**9, 0)):
            monkeypatch.setattr(linear, "MANY", many)
            draws = pooled(human, metric, units=units, weights=weights)[:, 0]
            low, high = student_interval(draws, confidence=0.95, n_units=n_clusters, bounds=CORRELATION)
            held[k] += low <= truth <= high
            spread[study, k] = draws[1:].std()
    exact, made = held / STUDIES
    print(f"{kind}: exact {exact:.3f}, linear {made:.3f}, sd {(spread[:, 1] / spread[:, 0]).mean():.3f}")
    # far fewer clusters than where linear resamples are taken; Monte Carlo sd of the difference about .01
    assert abs(made - exact) < 0.03
    assert made > 0.88
