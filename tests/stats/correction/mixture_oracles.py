"""References for the mixture model: the exact posterior as a finite sum, and NUTS as in the paper."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import convolve2d
from scipy.special import betainc, gammaln

from custodes.stats.correction.estimator import Counts

NONE = [0, 0, 0]
TABLES = {
    "typical": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [30, 10, 25], NONE),
    "people without ties": ([[9, 1, 4], [0, 0, 0], [4, 1, 7]], [25, 4, 20], NONE),
    "metric without ties": ([[9, 0, 4], [3, 0, 3], [4, 0, 7]], [25, 0, 20], NONE),
    "no ties at all": ([[9, 0, 2], [0, 0, 0], [3, 0, 7]], [25, 0, 20], NONE),
    "nothing paired": ([NONE, NONE, NONE], [20, 5, 12], NONE),
    "one paired": ([[1, 0, 0], NONE, NONE], [20, 5, 12], NONE),
    "two classes empty": ([[2, 0, 1], NONE, NONE], [60, 0, 5], NONE),
    "many paired": ([[300, 50, 50], [50, 150, 50], [40, 60, 250]], [20, 10, 30], NONE),
    "one metric-only item": ([[3, 1, 0], [0, 2, 0], [1, 0, 0]], [0, 0, 1], NONE),
    "a few people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [20, 5, 15], [5, 3, 4]),
    "many people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [20, 5, 15], [50, 30, 60]),
    "people alone": ([NONE, NONE, NONE], [20, 5, 15], [12, 5, 6]),
}
"""Paired, metric-only and human-only counts of small tables."""


class FiniteSum(NamedTuple):
    """The posterior of one table as a finite mixture with `weights` (k,) and Dirichlet `parameters` (k, 3) of p."""

    weights: NDArray[np.float64]
    parameters: NDArray[np.float64]

    @classmethod
    def of(cls, paired: Any, metric_only: Any, human_only: Any) -> FiniteSum:
        """Return the posterior for metric-only counts of whole numbers. For each split of these counts over the human
        classes, p and the columns of mu are Dirichlet. The weight of a split is a product over metric classes times a
        function of the class totals, so the totals are convolved."""
        paired, metric_only, human_only = (np.asarray(x, dtype=float) for x in (paired, metric_only, human_only))
        total = np.ones((1, 1))
        for r in range(3):
            win, loss = np.ogrid[: metric_only[r] + 1, : metric_only[r] + 1]
            tie = metric_only[r] - win - loss
            split = (win, np.maximum(tie, 0), loss)
            log = sum(gammaln(paired[h, r] + split[h] + 1) - gammaln(split[h] + 1) for h in range(3))
            log = np.where(tie >= 0, log, -np.inf)
            total = convolve2d(
                total, np.exp(log - log.max())
            )  # Fourier transforms would hide small weights by rounding.
        win, loss = np.nonzero(np.add.outer(np.arange(len(total)), np.arange(len(total))) < len(total))
        split = np.stack([win, metric_only.sum() - win - loss, loss], axis=1)
        n = paired.sum(axis=1)
        with np.errstate(divide="ignore"):
            log = np.log(total[win, loss])
        log += (gammaln(n + split + human_only + 1) - gammaln(n + split + 3)).sum(axis=1)
        weights = np.exp(log - log.max())
        return cls(weights / weights.sum(), n + split + human_only + 1)

    @property
    def theta(self) -> float:
        """Return P(p_win > p_loss)."""
        return float(self.weights @ betainc(self.parameters[:, 2], self.parameters[:, 0], 0.5))

    @property
    def mean(self) -> NDArray[np.float64]:
        """Return the mean of p, (3,)."""
        return np.asarray(self.weights @ (self.parameters / self.parameters.sum(axis=1, keepdims=True)))

    @property
    def sd(self) -> NDArray[np.float64]:
        """Return the standard deviations of p and of the margin, (4,)."""
        size = self.parameters.sum(axis=1, keepdims=True)
        p = self.parameters / size
        margin = p[:, :1] - p[:, 2:]
        second = np.hstack([p * (1 - p), p[:, :1] + p[:, 2:] - margin**2]) / (size + 1)
        means = np.hstack([p, margin])
        return np.asarray(np.sqrt(self.weights @ (second + means**2) - (self.weights @ means) ** 2))

    def below(self, bounds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P(p <= bounds), (3,)."""
        rest = self.parameters.sum(axis=1, keepdims=True) - self.parameters
        return np.asarray(self.weights @ betainc(self.parameters, rest, bounds))


def nuts(table: Counts, *, chains: int, warmup: int, draws: int) -> NDArray[np.float64]:
    """Return draws of p (chains, draws, 3) of one table by NumPyro's NUTS in double precision. The paper runs 5 chains
    of 2,000 warm-up steps and 10,000 draws (Deriu et al. 2023, Algorithm 1 and Appendix B)."""
    import jax

    with jax.enable_x64(True):
        return np.asarray(_compiled(chains, warmup, draws)(*(np.asarray(part, dtype=float) for part in table)))


@cache
def _compiled(chains: int, warmup: int, draws: int) -> Any:
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(paired: Any, metric_only: Any, human_only: Any) -> None:
        mu = numpyro.sample("mu", dist.Dirichlet(paired + 1).to_event(1))
        p = numpyro.sample("p", dist.Dirichlet(paired.sum(axis=1) + human_only + 1))
        numpyro.sample("m", dist.MultinomialProbs(p @ mu, total_count=metric_only.sum()), obs=metric_only)

    def run(paired: Any, metric_only: Any, human_only: Any) -> Any:
        lengths = {"num_warmup": warmup, "num_samples": draws, "num_chains": chains}
        chain = MCMC(NUTS(model), **lengths, chain_method="vectorized", progress_bar=False)
        chain.run(jax.random.key(0), *(jax.numpy.asarray(counts) for counts in (paired, metric_only, human_only)))
        return chain.get_samples(group_by_chain=True)["p"]

    return jax.jit(run)
