"""Gibbs sampling of the mixture model: right for any counts, slow to mix where few items are paired."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture.posterior import MixturePosterior, summarise


def gibbs_chains(
    counts: Counts, *, start: Floats, rng: np.random.Generator, confidence: float, warmup: int, draws: int
) -> MixturePosterior:
    """Posterior of one table from chains that start at joint tables pi (chains, 3, 3) [human, metric].

    Each sweep splits the metric-only items over the human classes (multinomials), then draws p and the columns of mu
    from their Dirichlets. `draws` sweeps of each chain are kept after `warmup`; look at `r_hat` and `effective_draws`.

    Source: the model of Deriu et al. 2023, Section 3.3; data augmentation is ours.
    """
    chains = len(start)
    pi = start
    paired, metric_only = counts.paired, np.rint(counts.metric_only).astype(np.int64)
    # The human-only items tell about p alone: with mu integrated out of them, no metric label need be imputed.
    people: Floats = np.asarray(counts.human + 1.0, dtype=np.float64)
    p_kept = np.empty((draws, chains, 3))
    mu_sum = np.zeros((3, 3))
    for sweep in range(warmup + draws):
        split = rng.multinomial(metric_only, _shares(np.swapaxes(pi, 1, 2)))  # (chains, metric, human)
        imputed = np.swapaxes(split, 1, 2)
        p = _dirichlet(people + imputed.sum(axis=2), rng)
        mu = _dirichlet(np.asarray(paired + imputed + 1.0, dtype=np.float64), rng)  # (chains, human, metric)
        pi = p[:, :, np.newaxis] * mu
        if sweep >= warmup:
            p_kept[sweep - warmup] = p
            mu_sum += mu.sum(axis=0)
    return chain_posterior(p_kept, mu_sum.T / (chains * draws), confidence=confidence, method="gibbs")


def chain_posterior(p: Floats, mu_mean: Floats, *, confidence: float, method: str) -> MixturePosterior:
    """The posterior that chains p (draws, chains, 3) and the mean mu (3, 3) stand for."""
    better = (p[..., 0] > p[..., 2]).astype(np.float64)
    theta_error = float(np.sqrt(better.var() / effective_sample_size(better)))
    margin = p[..., 0] - p[..., 2]
    effective = effective_sample_size(margin)
    return summarise(
        p.reshape(-1, 3).T,
        mu_mean,
        np.ones(better.size),
        confidence=confidence,
        # a draw never seen is not impossible
        theta_error=float(np.hypot(theta_error, 1 / effective)),
        effective_draws=effective,
        r_hat=split_r_hat(margin),
        method=method,
    )


def split_r_hat(values: Floats) -> float:
    """Split R-hat of values (draws, chains); 1 where nothing varies.

    Source: Gelman et al. 2013, "Bayesian Data Analysis", Section 11.4.
    """
    between, within, draws = _variances(_halves(values))
    return float(np.sqrt((draws - 1) / draws + between / within)) if within > 0 else 1.0


def effective_sample_size(values: Floats) -> float:
    """Independent draws worth as much for the mean as values (draws, chains), chains split in half; all if constant.

    Source: Gelman et al. 2013, Section 11.5, with Geyer's initial monotone sequence.
    """
    halves = _halves(values)
    between, within, draws = _variances(halves)
    if not within > 0:
        return float(values.size)
    length = 1 << (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(halves - halves.mean(axis=0), n=length, axis=0)
    covariance = np.fft.irfft((spectrum * spectrum.conj()).real.mean(axis=1), n=length)[:draws] / draws
    total = (draws - 1) / draws * within + between
    correlation = 1 - (draws / (draws - 1) * covariance[0] - covariance) / total
    correlation[0] = 1
    pairs = correlation[: draws // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    time = -1 + 2 * np.minimum.accumulate(pairs[: max(positive, 1)]).sum()
    # antithetic chains may beat independent draws, but no estimate should claim it by much
    return float(halves.size / max(time, 1 / np.log10(halves.size)))


def _halves(values: Floats) -> Floats:
    """(draws, chains) -> (draws // 2, 2 chains)."""
    half = len(values) // 2
    return np.concatenate([values[:half], values[half : 2 * half]], axis=1)


def _variances(values: Floats) -> tuple[float, float, int]:
    """Variance between the means of chains, mean variance within chains, draws of a chain."""
    return float(values.mean(axis=0).var(ddof=1)), float(values.var(axis=0, ddof=1).mean()), len(values)


def _dirichlet(parameters: Floats, rng: np.random.Generator) -> Floats:
    """One Dirichlet draw for each row of parameters (..., k)."""
    return _shares(rng.standard_gamma(parameters))


def _shares(values: Floats) -> Floats:
    return np.asarray(values / values.sum(axis=-1, keepdims=True))
