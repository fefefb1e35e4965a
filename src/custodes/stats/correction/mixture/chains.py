"""What draws of Markov chains say, and whether they have mixed."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.mixture.posterior import MixturePosterior, summarise


def chain_posterior(p: Floats, *, confidence: float, method: str) -> MixturePosterior:
    """The posterior that chains p (draws, chains, 3) stand for."""
    better = (p[..., 0] > p[..., 2]).astype(np.float64)
    theta_error = float(np.sqrt(better.var() / effective_sample_size(better)))
    margin = p[..., 0] - p[..., 2]
    effective = effective_sample_size(margin)
    return summarise(
        p.reshape(-1, 3).T,
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
