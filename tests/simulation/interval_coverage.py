"""Coverage of intervals of single statistics, on simulated studies with known truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from custodes.answers.tables import with_interval
from custodes.data.comparisons import Comparisons
from custodes.data.outcome_counts import OutcomeCounts
from custodes.evaluate.agreement.statistic import Sample
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.ceiling.prediction_target import MODELS
from custodes.evaluate.clusters import AspectCounts
from custodes.evaluate.design import Design
from custodes.evaluate.favoritism import _mean_abs_favi
from custodes.evaluate.ranking import _errors
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.evaluate.scores import ItemScores
from custodes.stats import bootstrap, decision_errors, favi_score
from custodes.stats.arrays import Floats
from custodes.stats.correlation import ROWS, pair_counts
from custodes.stats.intervals import CORRELATION, POSITIVE, SHARE, Bounds, student_quantile
from custodes.stats.learning import heldout
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.pooled_correlation import pooled_correlation
from custodes.stats.sign_test import SignTest

CONFIDENCE = 0.95
PEOPLE, PERSON = 3, 0.7  # human ratings are whole numbers with this error, so they tie; the mean of all is used
NOISE = np.array([0.5, 1.5, 4.0, 2.0])  # of four metrics on one output
OWN = np.array([0.2, 0.6, 1.5, 1.0])  # bias of a metric for systems, in units of their spread
LINKED = np.array([1.0, 1.0, 1.0, 0.0])  # the last metric is independent of human ratings
ICC = 0.3
EFFECTS = 3  # sets of systems in a design, used in turn

Truth = dict[str, Floats]


@dataclass(frozen=True)
class Scenario:
    """Number of items, cluster size (1: independent), number of systems, and standard deviation of their means (an
    output's residual quality has standard deviation 1)."""

    items: int
    cluster: int
    systems: int
    spread: float

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return self.items // self.cluster

    def effects(self, k: int) -> tuple[Floats, Floats]:
        """System means by humans (systems,) and metrics (metrics, systems) in the k-th set."""
        rng = np.random.default_rng([self.systems, round(self.spread * 100), k])
        quality = rng.normal(size=self.systems) * self.spread
        bias = OWN[:, None] * self.spread * rng.normal(size=(len(OWN), self.systems))
        return quality, LINKED[:, None] * quality + bias

    def draw(self, rng: np.random.Generator, k: int) -> RaterComparison:
        """Draw a study."""
        quality, by_metric = self.effects(k)
        item, output = rng.normal(size=(self.items, 1)), rng.normal(size=(self.items, self.systems))
        units = np.arange(self.items) // self.cluster
        if self.cluster > 1:  # quality and noise are both correlated within clusters
            shared = (rng.normal(size=(self.clusters, value.shape[1]))[units] for value in (item, output))
            item, output = (
                np.sqrt(ICC) * common + np.sqrt(1 - ICC) * value
                for common, value in zip(shared, (item, output), strict=True)
            )
        persons = np.round(quality + item + output + PERSON * rng.normal(size=(PEOPLE, self.items, self.systems)))
        noise = NOISE[:, None, None] * rng.normal(size=(len(NOISE), self.items, self.systems))
        metrics = by_metric[:, None] + LINKED[:, None, None] * (item + output) + noise
        return comparison_of(persons.mean(axis=0), metrics, units)


def comparison_of(human: Floats, metrics: Floats, units: np.ndarray) -> RaterComparison:
    """Comparison from scores (items, systems) and (metrics, items, systems), without a study."""
    items, systems = (tuple(map(str, range(100, 100 + n))) for n in human.shape)
    design = Design(
        items=items,
        systems=systems,
        clusters=tuple(map(str, range(units[-1] + 1))),
        units=units,
        weights=np.ones(len(items)),
        probability=np.full(len(items), np.nan),
        group=("",) * len(items),
        dataset=("",) * len(items),
    )
    names = tuple(f"m{m}" for m in range(len(metrics)))
    first, second = design.pairs.T
    scores = np.concatenate([human[None], metrics])
    signs = np.sign(np.round(scores[..., first] - scores[..., second], 9)).astype(np.int8).transpose(2, 0, 1)
    labels: Any = {"items": items, "systems": systems}
    return RaterComparison(
        aspect="",
        design=design,
        people=("people",),
        metrics=names,
        scores=ItemScores(
            items=np.arange(len(items)), n_items=len(items), persons=human[None], human=human, metrics=metrics
        ),
        human_system=np.full(len(systems), np.nan),
        metric_system=np.full((len(metrics), len(systems)), np.nan),
        preferences=Comparisons.from_signs(signs, raters=("human", *names), **labels),
        annotators=Comparisons.from_signs(signs[:, :1], raters=("people",), **labels),
        human_tie=1e-9,
        epsilon=np.zeros(len(metrics)),
        notes=(),
    )


@cache
def truth_of(systems: int, spread: float, k: int, names: tuple[str, ...]) -> Truth:
    """True values of statistics: by formula over systems, otherwise from 8,000 independent items."""
    quality, by_metric = Scenario(1, 1, systems, spread).effects(k)
    human = np.broadcast_to(quality, by_metric[None].shape)
    pairs = np.ones((len(by_metric), systems, systems), dtype=np.bool_)
    order = pair_counts(human, by_metric[None], pairs=pairs).accuracy[0]
    truth: Truth = {
        "system_accuracy": order,
        "pairwise_accuracy": order,
        "pearson_system": ROWS["pearson"](quality, by_metric),
        "spearman_system": ROWS["spearman"](quality, by_metric),
        "kendall_system": ROWS["kendall"](quality, by_metric),
    }
    rng, many = np.random.default_rng(k), Scenario(2000, 1, systems, spread)
    blocks = [sample_of(many.draw(rng, k), 0, rng) for _ in range(4)]
    others = (name for name in names if name not in truth)
    return truth | {name: np.mean([STATISTICS[name].compute(block)[0] for block in blocks], axis=0) for name in others}


def sample_of(comparison: RaterComparison, resamples: int, rng: np.random.Generator) -> Sample:
    """Draw the resamples of a comparison."""
    times = comparison.design.draw_weights(resamples, rng)
    return Sample(comparison=comparison, times=times, flips=bootstrap.sign_flips(comparison.design.n_units, 300, rng))


AS_MANY = ("spa",)
"""Agreement statistic that depends on the number of items: its true value is the mean over studies, as for decision
errors and `mean_abs_favi`."""


def intervals(
    comparison: RaterComparison, resamples: int, rng: np.random.Generator, names: Sequence[str]
) -> dict[str, tuple[Floats, Floats, Floats]]:
    """Estimate, low and high of each requested statistic, (metrics,) each, as computed by the package."""
    sample = sample_of(comparison, resamples, rng)
    results: dict[str, Any] = {}
    for name in names:
        if name in STATISTICS:
            statistic = STATISTICS[name]
            results[name] = tuple(statistic.with_interval(name, sample, statistic.compute(sample), CONFIDENCE).values())
    part = AspectCounts(aspect="", counts=OutcomeCounts.from_comparisons(comparison.preferences), comparison=comparison)
    ends = {"confidence": CONFIDENCE, "clusters": comparison.design.n_units}
    if "mean_abs_favi" in names:
        sizes = np.abs(favi_score.favi_score(np.moveaxis(part.counts.paired, 1, 0)))
        draws = _mean_abs_favi(part, sizes, resamples, rng)
        results["mean_abs_favi"] = tuple(with_interval("", draws, bounds=favi_score.SIZES, **ends).values())
    if "correct" in names:
        draws_of_name, inversions = errors(part, resamples, rng)
        for name, (draws, bounds) in draws_of_name.items():
            results[name] = tuple(with_interval("", draws, bounds=bounds, **ends).values())
        estimate, low, high = results["inversion"]
        lowest = decision_errors.lower_rate(inversions, student_quantile(CONFIDENCE, comparison.design.n_units))
        results["inversion"] = (estimate, np.minimum(low, lowest), high)
    return results


def errors(
    part: AspectCounts, resamples: int, rng: np.random.Generator
) -> tuple[dict[str, tuple[Floats, Bounds]], Floats]:
    """Error rates and divergence of `ranking` in every resample, (1 + B, metrics), with their bounds, and the
    proportion of resamples with an inversion, (metrics, pairs)."""
    counts = np.concatenate([part.counts.human[None], np.moveaxis(part.counts.metric, 1, 0)])
    kinds, divergence, _, inversions = _errors(
        part, counts, sign_test=SignTest(alpha=0.05), resamples=resamples, rng=rng
    )
    results = {name: (kinds[..., i], SHARE) for i, name in enumerate(decision_errors.ERRORS[:-1])}
    return {**results, "kld": (divergence, POSITIVE)}, inversions


def coverage(scenario: Scenario, studies: int, resamples: int, names: Sequence[str]) -> dict[str, Floats]:
    """Proportion of studies whose interval contains the true value, (metrics,) by statistic."""
    rng = np.random.default_rng([scenario.items, scenario.cluster, scenario.systems, round(scenario.spread * 100)])
    result = defaultdict(list)
    for study in range(studies):
        for name, ends in intervals(scenario.draw(rng, study % EFFECTS), resamples, rng, names).items():
            result[name].append(np.stack(ends))
    sets = np.arange(studies) % EFFECTS
    held = {}
    many = tuple(name for name in names if name in STATISTICS and name not in AS_MANY)
    for name, bounds in result.items():
        estimate, low, high = np.moveaxis(np.stack(bounds), 1, 0)
        truth = np.empty_like(estimate)
        for k in range(EFFECTS):
            mine = sets == k
            if mine.any():
                true_values = truth_of(scenario.systems, scenario.spread, k, many)[name] if name in many else None
                truth[mine] = np.nanmean(estimate[mine], axis=0) if true_values is None else true_values
        defined = np.isfinite(low)
        inside = (low - 1e-9 <= truth) & (truth <= high + 1e-9) & defined
        held[name] = inside.sum(axis=0) / defined.sum(axis=0)
    return held


def prediction_coverage(scenario: Scenario, studies: int, resamples: int) -> float:
    """Coverage for tau-b of held-out predictions (`kendall` of ceiling and combine), by ridge regression on the
    metrics.

    The true value is tau-b of the fitted models on 1,000 other items.
    """
    rng = np.random.default_rng([1, scenario.items, scenario.cluster])
    held = []
    for study in range(studies):
        training, new_items = (
            each.draw(rng, study % EFFECTS) for each in (scenario, replace(scenario, items=1000, cluster=1))
        )
        x, y = (np.moveaxis(training.metric_scores, 0, -1).reshape(training.human.size, -1), training.human.ravel())
        groups = np.repeat(training.design.units, scenario.systems)
        fold = grouped_folds(groups, n_folds=min(5, training.design.n_units), rng=rng)
        models = [MODELS["ridge"](x[fold != f], y[fold != f], groups[fold != f], seed=0) for f in np.unique(fold)]
        predicted = np.choose(fold, [model(x) for model in models])[None, :, None]
        times = training.design.draw_weights(resamples, rng)
        draws = heldout.held_out_statistic(
            partial(pooled_correlation, "kendall"), y[:, None], predicted, fold[:, None], units=groups, weights=times
        )
        new = np.moveaxis(new_items.metric_scores, 0, -1).reshape(new_items.human.size, -1)
        predictions = np.stack([model(new) for model in models]).reshape(len(models), *new_items.human.shape)
        once = np.ones((1, new_items.design.n_units))
        truth = pooled_correlation(
            "kendall", new_items.human, predictions, units=new_items.design.units, weights=once
        ).mean()
        _, low, high = with_interval(
            "", draws, CONFIDENCE, clusters=training.design.n_units, bounds=CORRELATION
        ).values()
        held.append(low[0] <= truth <= high[0])
    return float(np.mean(held))


NAMES = (*STATISTICS, "mean_abs_favi", "correct", "inversion", "omission", "kld")
