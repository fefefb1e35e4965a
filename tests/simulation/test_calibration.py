from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import shared_numbers, weighted_draws

STUDIES, DRAWS = 1000, 2000
DESIGNS = {
    # estimator and design: paired, metric-only, human-only items of a study
    "human, 20 items": (0, 0, 20),
    "human, 100 items": (0, 0, 100),
    "mixture, 20 paired and 200 metric-only": (20, 200, 0),
    "mixture, 100 paired and 1,000 metric-only": (100, 1000, 0),
    "mixture, 20 paired, 200 metric-only, 30 human-only": (20, 200, 30),
}


def probabilities(design: tuple[int, int, int], *, seed: int) -> NDArray[np.float64]:
    """Posterior P(margin <= true margin) of `STUDIES` studies, with true margins drawn from the prior."""
    rng, sampler_rng = np.random.default_rng(seed).spawn(2)  # studies do not depend on the sampler's draws
    n_paired, n_metric, n_human = design
    results = np.empty(STUDIES)
    for study in range(STUDIES):
        p = rng.dirichlet(np.ones(3))
        channel = rng.dirichlet(np.ones(3), size=3)  # rows: human outcomes
        joint = p[:, None] * channel
        paired = rng.multinomial(n_paired, joint.ravel()).reshape(3, 3)
        metric_only = rng.multinomial(n_metric, joint.sum(axis=0))
        human_only = rng.multinomial(n_human, p)
        if n_metric:
            table = Counts(paired[np.newaxis], metric_only[np.newaxis], human_only[np.newaxis])
            draws, log_weights = weighted_draws(table, shared_numbers(4 * DRAWS, [seed, study]))
            margins, weights = draws[0, 0] - draws[2, 0], np.exp(log_weights[0] - log_weights.max()).astype(float)
            weights /= weights.sum()
        else:
            posterior = sampler_rng.dirichlet(human_only + paired.sum(axis=1) + 1, size=DRAWS)
            margins, weights = posterior[:, 0] - posterior[:, 2], np.full(DRAWS, 1 / DRAWS)
        results[study] = weights[margins <= p[0] - p[2]].sum()
    return results


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DESIGNS if name.startswith("mixture")])
def test_posterior_probabilities_are_uniform(name: str) -> None:
    result = probabilities(DESIGNS[name], seed=1)
    # Three designs: p < .001 in any of them has probability 1/300; the seed is fixed.
    assert stats.kstest(result, "uniform").pvalue > 0.001
    low, high = stats.binom.ppf([0.0005, 0.9995], STUDIES, 0.95)
    assert low <= ((result > 0.025) & (result < 0.975)).sum() <= high


def picture() -> Path:
    """Distance of the distribution of these probabilities from uniform, compared with its distribution by chance."""
    import altair as alt

    from custodes import plots

    grid = np.linspace(0.01, 0.99, 99)
    rows = []
    for name, design in DESIGNS.items():
        result = np.sort(probabilities(design, seed=1))
        share = np.searchsorted(result, grid, side="right") / STUDIES
        rows += [{"design": name, "p": round(p, 2), "off": round(s - p, 4)} for p, s in zip(grid, share, strict=True)]
    # 95 % of uniform samples of this size have a smaller maximal difference (Kolmogorov).
    allowed = float(stats.kstwo.ppf(0.95, STUDIES))
    lines = (
        alt.Chart(pl.DataFrame(rows))
        .mark_line()
        .encode(
            x=alt.X("p:Q", title="Posterior probability of a smaller margin than the true one"),
            y=alt.Y("off:Q", title="Share of studies below, minus that probability"),
            color=alt.Color("design:N", title=None, legend=alt.Legend(orient="bottom", columns=1, labelLimit=400)),
        )
    )
    bounds = alt.Chart(pl.DataFrame({"bound": [-allowed, allowed]})).mark_rule(strokeDash=[4, 3]).encode(y="bound:Q")
    chart = (bounds + lines).properties(width=460, height=220, title="Calibration over 1,000 studies a design")
    return plots.save(chart, Path(__file__).parents[2] / "docs" / "images" / "calibration.svg")


if __name__ == "__main__":
    print(picture())
