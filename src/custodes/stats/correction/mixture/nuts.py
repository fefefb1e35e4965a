"""The mixture model as its paper runs it, by NumPyro's NUTS: the reference the fast samplers are measured against."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from custodes.errors import MissingExtraError
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.chains import chain_posterior
from custodes.stats.correction.mixture.posterior import MixturePosterior, stack

_ALONE = Lock()
"""NumPyro keeps what it traces in one list of the process, which several threads would mix up."""


def nuts_posterior(
    counts: Counts, *, rng: np.random.Generator, confidence: float, chains: int, warmup: int, draws: int, **_: object
) -> MixturePosterior:
    """Posterior of the mixture model by NUTS, of tables (...).

    The paper runs 5 chains of 2,000 warm-up steps and 10,000 draws. Compiled once for a number of chains and draws,
    then run table by table in double precision. Look at `r_hat` and `effective_draws`: on tables with empty human
    classes and many metric-only items NUTS misses a part of the posterior. MissingExtraError without NumPyro.

    Source: Deriu et al. 2023, Algorithm 1 and Appendix B.
    """
    run = sampler(chains, warmup, draws)
    import jax

    seeds = rng.integers(2**31, size=int(np.prod(counts.shape)))
    posteriors = []
    for seed, *table in zip(seeds, *counts.flat, strict=True):
        with _ALONE, jax.enable_x64(True):
            p, _ = run(jax.random.key(int(seed)), *(np.asarray(part, dtype=np.float64) for part in table))
        # (chains, draws, 3) -> (draws, chains, 3)
        posteriors.append(chain_posterior(np.swapaxes(np.asarray(p), 0, 1), confidence=confidence, method="nuts"))
    return stack(posteriors).at(np.arange(len(posteriors)).reshape(counts.shape))


@cache
def sampler(chains: int, warmup: int, draws: int) -> Callable[..., tuple[Any, Any]]:
    """A function of (key, paired, metric_only, human_only) to p (chains, draws, 3) and mu (.., human, metric).

    Compiled when first called, and kept: else each table would be compiled again.
    """
    try:
        import jax
        import numpyro
        from numpyro import distributions as dist
        from numpyro.infer import MCMC, NUTS
    except ImportError as error:
        raise MissingExtraError("sampler='nuts' needs NumPyro and JAX: pip install 'custodes[nuts]'") from error

    def model(paired: Any, metric_only: Any, human_only: Any) -> None:
        mu = numpyro.sample("mu", dist.Dirichlet(paired + 1).to_event(1))
        p = numpyro.sample("p", dist.Dirichlet(paired.sum(axis=1) + human_only + 1))
        trials = metric_only.sum()
        numpyro.sample("m", dist.MultinomialProbs(p @ mu, total_count=trials), obs=metric_only)

    def run(key: Any, paired: Any, metric_only: Any, human_only: Any) -> tuple[Any, Any]:
        chain = MCMC(
            NUTS(model),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        chain.run(key, *(jax.numpy.asarray(counts) for counts in (paired, metric_only, human_only)))
        samples = chain.get_samples(group_by_chain=True)
        return samples["p"], samples["mu"]

    compiled: Callable[..., tuple[Any, Any]] = jax.jit(run)
    return compiled
