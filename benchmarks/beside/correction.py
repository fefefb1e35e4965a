"""Margins from few human labels and many metric labels: PPI++ by ppi_py, the mixture model by NumPyro's NUTS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beside import Beside, Work

TABLES, PAIRED, ALONE = 2_000, 200, 2_000
CHAINS, WARMUP, DRAWS, FEW = 5, 2_000, 10_000, 4  # as in Deriu et al. 2023, Appendix B
SIGNS = (1.0, 0.0, -1.0)


def data(folder: Path) -> None:
    """Tables [human, metric] of a mediocre metric, and its labels on other items."""
    import numpy as np

    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.array([30, 5, 5, 5, 15, 5, 4, 6, 25]) / 5, size=TABLES)
    paired = np.stack([rng.multinomial(PAIRED, probability) for probability in shares]).reshape(-1, 3, 3)
    alone = np.stack([rng.multinomial(ALONE, probability.reshape(3, 3).sum(axis=0)) for probability in shares])
    np.savez(folder / "tables.npz", paired=paired, alone=alone)


def tables(folder: Path) -> tuple[Any, Any]:
    import numpy as np

    with np.load(folder / "tables.npz") as file:
        return file["paired"], file["alone"]


def ppi(folder: Path) -> Work:
    """All tables at once, from counts."""
    import numpy as np
    from scipy.special import ndtri

    from custodes.stats.correction.estimator import Counts
    from custodes.stats.correction.ppi import ppi_margin

    paired, alone = tables(folder)

    def work() -> list[float]:
        margin, error, _ = ppi_margin(Counts(paired, alone, np.zeros_like(alone)))
        half = ndtri(0.975) * error
        return np.concatenate([margin, margin - half, margin + half]).tolist()

    return work


def by_ppi_py(folder: Path) -> Work:
    """One call per table, from labels."""
    import numpy as np
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

    paired, alone = tables(folder)
    human, metric = np.indices((3, 3)).reshape(2, 9)
    signs = np.array(SIGNS)
    labels = []
    for table, metric_only in zip(paired, alone, strict=True):
        cells = np.repeat(np.arange(9), table.ravel())
        labels.append((signs[human[cells]], signs[metric[cells]], np.repeat(signs, metric_only)))

    def work() -> list[float]:
        margins = [ppi_mean_pointestimate(*label).item() for label in labels]
        bounds = [[float(end.item()) for end in ppi_mean_ci(*label, alpha=0.05)] for label in labels]
        return [*margins, *(low for low, _ in bounds), *(high for _, high in bounds)]

    return work


def mixture(folder: Path) -> Work:
    """Weighted exact draws up to the required Monte Carlo error."""
    import numpy as np

    from custodes.stats.correction.estimator import Counts
    from custodes.stats.correction.mixture import mixture_posterior

    paired, alone = (table[:FEW] for table in tables(folder))

    def work() -> list[float]:
        counts = Counts(paired, alone, np.zeros_like(alone))
        return mixture_posterior(counts, confidence=0.95, gamma=None, rng=np.random.default_rng(0)).theta.tolist()

    return work


def nuts(chains: int, warmup: int, draws: int) -> Any:
    """Compiled NumPyro function of (key, paired, metric_only, human_only) that returns p (chains, draws, 3) and mu."""
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(paired: Any, metric_only: Any, human_only: Any) -> None:
        mu = numpyro.sample("mu", dist.Dirichlet(paired + 1).to_event(1))
        p = numpyro.sample("p", dist.Dirichlet(paired.sum(axis=1) + human_only + 1))
        numpyro.sample("m", dist.MultinomialProbs(p @ mu, total_count=metric_only.sum()), obs=metric_only)

    def run(key: Any, *counts: Any) -> tuple[Any, Any]:
        lengths = {"num_warmup": warmup, "num_samples": draws, "num_chains": chains}
        chain = MCMC(NUTS(model), **lengths, chain_method="vectorized", progress_bar=False)
        chain.run(key, *(jax.numpy.asarray(part) for part in counts))
        samples = chain.get_samples(group_by_chain=True)
        return samples["p"], samples["mu"]

    return jax.jit(run)


def by_nuts(folder: Path) -> Work:
    """Sampler of this package's extra `nuts`, the paper's model in NumPyro, compiled beforehand."""
    import jax
    import numpy as np

    paired, alone = (table[:FEW].astype(np.float32) for table in tables(folder))
    run = nuts(CHAINS, WARMUP, DRAWS)
    inputs = [
        (table, metric_only, np.zeros_like(metric_only)) for table, metric_only in zip(paired, alone, strict=True)
    ]
    jax.block_until_ready(run(jax.random.key(1), *inputs[0]))

    def work() -> list[float]:
        results = []
        for value in inputs:
            p, _ = jax.block_until_ready(run(jax.random.key(0), *value))
            results.append(float((p[..., 0] > p[..., 2]).mean()))
        return results

    return work


COMPARISONS = (
    Beside(
        "ppi-python",
        f"PPI++ margins and intervals of {TABLES:,} tables, {PAIRED} labels of people and {ALONE:,} of a metric"
        " (ppi-python: a call a table, from labels; ours: all tables at once, from counts)",
        "ppi_py",
        data,
        ppi,
        by_ppi_py,
        1e-9,
    ),
    Beside(
        "NumPyro, NUTS",
        f"posterior of the mixture model, {FEW} tables, {CHAINS} chains of {WARMUP:,} + {DRAWS:,} draws, compiled"
        " before (the paper's model, written for NumPyro by us)",
        "numpyro",
        data,
        mixture,
        by_nuts,
        0.02,
        because="draws of a posterior",
        home="ours",
    ),
)
