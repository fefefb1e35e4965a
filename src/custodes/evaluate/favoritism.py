"""Whom does each metric favour?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.evaluate.comparison import Comparison, Counted, Setting, counted, label_of
from custodes.evaluate.parallel import each
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.decisions import favi, signtest
from custodes.stats.resampling import resample

FEW_ERRORS = 5
"""With fewer errors a Favi-Score can only take a handful of values (the paper, Limitations: Robustness)."""

DECISION = {1: "+", 0: "=", -1: "-"}
CELLS = tuple(f"{human}_{metric}" for human in ("win", "tie", "loss") for metric in ("win", "tie", "loss"))
"""Columns of the confusion table: human_metric."""


@dataclass(frozen=True, kw_only=True)
class Favoritism(Result):
    """`metrics`, `pairs` (metric x pair of systems), `systems` (metric x system, one against all), `confusion` (the
    nine counts, columns human_metric). See `favoritism`."""

    metrics: pl.DataFrame
    pairs: pl.DataFrame
    systems: pl.DataFrame
    confusion: pl.DataFrame


def favoritism(
    study: Study | PairCounts,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Favoritism:
    """The Favi-Score of every metric for every pair of systems, with its uncertainty and what it does to decisions.

    `pairs`: `favi` in [-2, 2], positive where the metric's errors favour `system_a`; `favi_low`, `favi_high` from the
    posterior over the six kinds of error (`resamples` draws); null without errors; `note` marks fewer than five.
    `favi_even`: what an even-handed metric of the same accuracy would have, since errors of any noisy metric favour the
    weaker system; what goes beyond it is partial to a system.
    `sign_agrees`: the margins have the same sign. `decision_human`, `decision_metric`: sign test at `alpha` on the
    items both rated ('+' system_a, '-' system_b, '=' not different). `flip_probability`: posterior probability that the
    two margins have opposite signs.
    `metrics`: mean and standard deviation of |favi| over pairs, with an interval from resampled clusters and
    `mean_abs_favi_chance`, what |favi| would be if every error fell to either side by a coin; both sign accuracies.
    `systems`: mean, least and largest favi of a system against every other one, and the mean of `favi_even`.

    Takes a study, or counts (`count_pairs`), which allow everything but the intervals of `metrics`.
    Source: Favi-Score paper, Definitions 4 to 11, Lemmas 1 and 2; intervals, flips and both reference levels are ours.

    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), metrics="judge*", resamples=200)
    >>> result.pairs["favi"].is_between(-2, 2).all()
    True
    """
    between("confidence", confidence, 0, 1)
    between("alpha", alpha, 0, 1)
    at_least("resamples", resamples, 0)
    generator, seed = seeded(rng)
    source, options, parts = counted(study, setting)

    def answer(part: Counted, rng: np.random.Generator) -> dict[str, pl.DataFrame]:
        return _tables(part, confidence, resamples, alpha, rng)

    answers = list(each(answer, parts, rng=generator, progress=progress, desc="favoritism"))
    notes = tuple(dict.fromkeys(note for part in parts for note in (*part.notes, *_error_notes(part))))
    options |= {"confidence": confidence, "resamples": resamples, "alpha": alpha}
    return Favoritism(
        provenance=provenance("favoritism", source, options=options, seed=seed, notes=notes),
        notes=notes,
        **{name: stacked([tables[name] for tables in answers]) for name in answers[0]},
    )


def _tables(
    part: Counted, confidence: float, draws: int, alpha: float, rng: np.random.Generator
) -> dict[str, pl.DataFrame]:
    aspect, counts, comparison = part.aspect, part.counts, part.comparison
    # (metrics, pairs, 3, 3), so that tables list one metric after the other
    paired = np.moveaxis(counts.paired, 1, 0)
    n_metrics, n_pairs = paired.shape[:2]
    score = favi.favi_score(paired)
    even = favi.even_handed_favi(paired)
    posterior = favi.favi_posterior(paired, confidence=confidence, draws=draws, rng=rng)
    human, metric = favi.human_outcome(paired), favi.metric_outcome(paired)
    n, errors = paired.sum(axis=(2, 3)), favi.errors(paired)
    sign_human, sign_metric = np.sign(favi.margin(human)), np.sign(favi.margin(metric))
    agrees = np.where(n > 0, sign_human == sign_metric, np.nan)
    keys = {
        "aspect": [aspect] * (n_metrics * n_pairs),
        "metric": list(np.repeat(counts.metrics, n_pairs)),
        "system_a": list(counts.system_a) * n_metrics,
        "system_b": list(counts.system_b) * n_metrics,
    }
    pairs = columns(
        {
            **keys,
            "n": n,
            "errors": errors,
            "favi": score,
            "favi_low": posterior.low,
            "favi_high": posterior.high,
            "favi_even": even,
            "sample_accuracy": favi.sample_accuracy(paired),
            "sign_agrees": [None if value != value else bool(value) for value in agrees.ravel()],
            "decision_human": _decided(human, n, alpha),
            "decision_metric": _decided(metric, n, alpha),
            "flip_probability": posterior.flip_probability,
            "note": [_pair_note(total, wrong) for total, wrong in zip(n.ravel(), errors.ravel(), strict=True)],
        }
    )
    low, high = _mean_interval(comparison, confidence, draws, rng, n_metrics)
    magnitude = np.abs(score)
    metrics = columns(
        {
            "aspect": [aspect] * n_metrics,
            "metric": list(counts.metrics),
            "mean_abs_favi": _nanmean(magnitude),
            "mean_abs_favi_low": low,
            "mean_abs_favi_high": high,
            "mean_abs_favi_chance": _nanmean(_chance_level(paired)),
            "std_abs_favi": _nanstd(magnitude),
            "sample_accuracy": favi.sample_accuracy(paired.sum(axis=1)),
            "system_accuracy": _nanmean(agrees),
        }
    )
    confusion = columns(keys | {name: paired[..., i // 3, i % 3] for i, name in enumerate(CELLS)})
    return {
        "metrics": metrics,
        "pairs": pairs,
        "systems": _system_table(aspect, counts, score, even),
        "confusion": confusion,
    }


def _system_table(aspect: str, counts: PairCounts, score: Floats, even: Floats) -> pl.DataFrame:
    """Each system against every other one; the score of a pair is turned for its second system."""
    systems = sorted({*counts.system_a, *counts.system_b})
    first, second = np.array(counts.system_a), np.array(counts.system_b)
    versus, versus_even = (
        np.stack([np.where(first == name, s, np.where(second == name, -s, np.nan)) for name in systems], axis=1)
        for s in (score, even)
    )
    defined = np.isfinite(versus).any(axis=2)
    filled = np.where(np.isfinite(versus), versus, 0.0)
    inside = np.isfinite(versus)
    least = np.where(defined, np.where(inside, filled, np.inf).min(axis=2), np.nan)
    most = np.where(defined, np.where(inside, filled, -np.inf).max(axis=2), np.nan)
    return columns(
        {
            "aspect": [aspect] * (len(counts.metrics) * len(systems)),
            "metric": list(np.repeat(counts.metrics, len(systems))),
            "system": systems * len(counts.metrics),
            "favi": _nanmean(versus),
            "favi_min": least,
            "favi_max": most,
            "favi_even": _nanmean(versus_even),
        }
    )


def _mean_interval(
    comparison: Comparison | None, confidence: float, draws: int, rng: np.random.Generator, n_metrics: int
) -> tuple[Floats, Floats]:
    """Interval of the mean |favi| of each metric over resampled clusters (by Lemma 1: margins and errors suffice)."""
    if comparison is None or len(comparison.clusters) < 2:
        undefined = np.full(n_metrics, np.nan)
        return undefined, undefined
    n_units = len(comparison.clusters)
    times = resample.bootstrap_weights(n_units, draws, rng)
    human = comparison.human_signs
    values = np.empty((draws, n_metrics))
    for m, metric in enumerate(comparison.metric_signs):
        both = (human != ABSENT) & (metric != ABSENT)
        shift = np.where(both, metric.astype(np.int16) - human, 0)
        per_unit = resample.unit_sums(np.stack([shift, shift != 0]), units=comparison.units, n_units=n_units)
        margin, errors = np.moveaxis(resample.weighted_sums(times, per_unit), 1, 0)
        values[:, m] = _nanmean(np.abs(margin) / np.where(errors > 0, errors, np.nan))
    return resample.percentile_interval(values, confidence=confidence)


def _chance_level(paired: NDArray[np.int64]) -> Floats:
    """Expected |favi| if each error of a pair favoured either system with equal probability.

    Phi is then a mean of E independent terms +-|W|, close to normal with variance sum(W^2 C) / E^2.
    """
    errors = favi.errors(paired)
    squares = (favi.ERROR_COST**2 * paired).sum(axis=(2, 3))
    return np.asarray(np.sqrt(2 / np.pi * squares) / np.where(errors > 0, errors, np.nan))


def _decided(outcome: NDArray[np.int64], n: NDArray[np.int64], alpha: float) -> list[str | None]:
    decided = signtest.decisions(outcome[..., 0], outcome[..., 2], alpha=alpha, test="asymptotic", correction="none")
    return [DECISION[int(sign)] if total else None for sign, total in zip(decided.ravel(), n.ravel(), strict=True)]


def _pair_note(n: int, errors: int) -> str:
    if not n:
        return "no item rated by both"
    if not errors:
        return "no errors"
    return "too few errors" if errors < FEW_ERRORS else ""


def _error_notes(part: Counted) -> list[Note]:
    label = label_of(part.aspect)
    n, errors = part.counts.paired.sum(axis=(2, 3)), favi.errors(part.counts.paired)
    found = (
        ("favi-no-shared-items", n == 0, "have no item rated by both"),
        ("favi-no-errors", (n > 0) & (errors == 0), "have no error, so their Favi-Score is undefined"),
        (
            "favi-few-errors",
            (errors > 0) & (errors < FEW_ERRORS),
            f"have fewer than {FEW_ERRORS} errors: read with care",
        ),
    )
    return [
        Note(
            rule=rule,
            message=f"{int(mask.sum())} of {mask.size} metric x pair tables {text}{label}",
            count=int(mask.sum()),
        )
        for rule, mask, text in found
        if mask.any()
    ]


def _nanmean(values: NDArray[np.generic]) -> Floats:
    """Mean over the last axis of what is defined; NaN where nothing is."""
    inside = np.isfinite(values)
    n = inside.sum(axis=-1)
    return np.asarray(np.where(inside, values, 0.0).sum(axis=-1) / np.where(n, n, np.nan), dtype=np.float64)


def _nanstd(values: Floats) -> Floats:
    centred = values - _nanmean(values)[..., None]
    return np.sqrt(_nanmean(centred**2))
