"""How well does each metric agree with people?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting, at_least, between, one_of
from custodes.answers.tables import UNRELIABLE, count, flag, label, p_value, score, share, table, with_interval
from custodes.data.notes import Note, noted
from custodes.data.study import Study
from custodes.evaluate.agreement.standing import standing_columns
from custodes.evaluate.agreement.statistic import FEWEST, Sample, Swaps
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.comparison import Comparison, compare, label_of
from custodes.evaluate.judges import few_clusters_notes
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats.agreement import correlation
from custodes.stats.arrays import Floats
from custodes.stats.resampling import resample

COMPARED = tuple(name for name, statistic in STATISTICS.items() if statistic.swap is not None)
"""Statistics whose differences between metrics can be tested by swapping items."""

SPA_PERMUTATIONS = 1000


@result
class Agreement(Result):
    """How well each metric agrees with people. See `agreement`."""

    PICTURE = "agreement_intervals"

    metrics: pl.DataFrame = table(
        "One row a metric: every statistic with its interval.",
        label("metric", "its name"),
        label("group", "`a`: the best by the statistic of `standing`, and who is not clearly worse; null: not tested"),
        count("n", "comparisons (item × pair of systems) that people and metric both have", "n", essential=False),
        *(statistic.column for statistic in STATISTICS.values()),
        *(own.chance_column for own in STATISTICS.values() if own.chance_column),
        UNRELIABLE,
        order="sample_accuracy",
    )
    comparisons: pl.DataFrame = table(
        "Two metrics by one statistic.",
        label("metric_a", "a metric", "Metric"),
        label("metric_b", "another one", "Against"),
        label("statistic", "what is compared"),
        score("difference", "of metric_a minus metric_b", interval=True),
        p_value("p_value", "permutation test of 'both agree equally well', not corrected for multiplicity", "p"),
        essential=False,
    )
    standing: pl.DataFrame = table(
        "How the metrics stand to chance and to the best of them, best first.",
        label("metric", "its name"),
        label("statistic", "what they are ranked by"),
        score("value", "of that statistic", interval=True, best="high"),
        share("chance", "what guessing gets"),
        label("side", "`above` or `below` chance with the whole interval, else `unclear`"),
        flag(
            "level_with_best",
            "not clearly worse than the first metric (Benjamini and Hochberg over its comparisons); null for the first,"
            " and where nothing was tested",
        ),
        essential=False,
    )


@question(
    "custodes agreement ratings.csv --human 'expert*' --aspect coherence",
    compare_by="Statistics whose differences between metrics are tested; repeatable.",
)
def agreement(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    compare_by: Sequence[str] = COMPARED,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Agreement:
    """How well each metric agrees with people, in every common statistic, with intervals and paired tests.

    The statistics and what each one means: `help(cu.Agreement)`. Undefined is null, with a note.
    Sources: Favi-Score paper, Defs. 10 and 11; Kocmi et al. 2021; Deutsch et al. 2023; Thompson et al. 2024.

    Intervals: Student's, from a paired bootstrap over clusters of items, `resamples` shared by all metrics (0: none);
    over systems they are for the value with very many items. `unreliable` names those with too few clusters.
    Between metrics: difference, its interval from the same resamples, and a permutation p-value (clusters swapped
    between the two metrics after standardising) for the statistics in `compare_by`; not corrected for multiplicity.
    Who is clearly worse than the best: Benjamini and Hochberg at `alpha` over its comparisons.

    setting: see `Setting` (human, metrics, systems, aspect, group, aggregate, human_ties, ties, orders).

    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), resamples=0, compare_by=())
    >>> result.metrics.columns[:5]
    ['aspect', 'metric', 'group', 'n', 'sample_accuracy']
    """
    between("confidence", confidence, 0, 1)
    between("alpha", alpha, 0, 1)
    at_least("resamples", resamples, 0)
    compare_by = [compare_by] if isinstance(compare_by, str) else compare_by
    for name in compare_by:
        one_of("compare_by", name, COMPARED)

    def answer(comparison: Comparison, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        return _answer(comparison, resamples, compare_by, confidence, alpha, rng)

    comparisons = compare(study, **setting)
    answers = list(each(answer, comparisons, rng=np.random.default_rng(rng), progress=progress, desc="agreement"))
    return Agreement.of([tables for tables, _ in answers], [note for _, notes in answers for note in notes])


def _answer(
    comparison: Comparison,
    resamples: int,
    compare_by: Sequence[str],
    confidence: float,
    alpha: float,
    rng: np.random.Generator,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    times = comparison.design.resampled(resamples, rng)
    n_units = comparison.design.n_units
    sample = Sample(comparison=comparison, times=times, flips=resample.sign_flips(n_units, SPA_PERMUTATIONS, rng))
    draws = {name: statistic.compute(sample) for name, statistic in STATISTICS.items()}
    pairs = np.stack(np.triu_indices(len(comparison.metrics), 1), axis=1)
    flips = resample.sign_flips(n_units, resamples if n_units > 1 else 0, rng)
    swaps = Swaps(flips=flips, first=pairs[:, 0], second=pairs[:, 1])
    p_values = {name: _p_values(name, sample, swaps) for name in compare_by}
    differences = [draws[name][:, swaps.first] - draws[name][:, swaps.second] for name in compare_by]
    first, second = ([comparison.metrics[i] for i in side] * len(p_values) for side in pairs.T)
    metrics: dict[str, Any] = {"metric": list(comparison.metrics), "n": comparison.rated.sum(axis=(1, 2))}
    for name, values in draws.items():
        metrics |= STATISTICS[name].with_interval(name, sample, values, confidence)
    metrics |= {own.chance_column.name: own.chance_of(comparison) for own in STATISTICS.values() if own.chance_column}
    rough = [own.name for own in STATISTICS.values() if 1 < n_units < own.fewest and resamples]
    metrics[UNRELIABLE.name] = [rough] * len(comparison.metrics) if rough else None
    standing = standing_columns(sample, draws, p_values, pairs, confidence=confidence, alpha=alpha)
    level = dict(zip(standing["metric"], standing["level_with_best"], strict=True))
    tested = any(own is not None for own in level.values())
    best = next(iter(level), None)
    metrics["group"] = [
        None if not tested or name not in level else "a" if name == best or level[name] else ""
        for name in comparison.metrics
    ]
    tables = Agreement.part(
        comparison.aspect,
        metrics=metrics,
        comparisons={
            "metric_a": first,
            "metric_b": second,
            "statistic": np.repeat(list(p_values), len(pairs)).tolist(),
            **with_interval(
                "difference",
                np.concatenate([times[:, :0], *differences], axis=1),
                confidence,
                clusters=n_units,
                bounds=resample.ANY,
            ),
            "p_value": np.concatenate([*p_values.values(), np.empty(0)]),
        },
        standing=standing,
    )
    notes = [*comparison.notes, *_undefined_notes(comparison, draws)]
    return tables, notes + few_clusters_notes(
        n_units, resamples, fewest=FEWEST, aspect=comparison.aspect, columns=rough
    )


def _p_values(name: str, sample: Sample, swaps: Swaps) -> Floats:
    """p of 'the two metrics agree equally well', by swapping whole clusters between them."""
    swap = STATISTICS[name].swap
    if swap is None or not len(swaps.flips) or not len(swaps.first):
        return np.full(len(swaps.first), np.nan)
    return swap(sample, swaps)


def _undefined_notes(comparison: Comparison, draws: dict[str, Floats]) -> list[Note]:
    """Name what stayed undefined for a reason that the design of the study does not already give."""
    label = label_of(comparison.aspect)
    given = np.isfinite(comparison.metric_system).any(axis=1) | np.isfinite(comparison.human_system).any()
    within = np.isfinite(correlation.within_item(comparison.human, comparison.metric_scores, kind="pearson"))
    lost = int((np.isfinite(comparison.human).sum(axis=1) > 1).sum() * len(comparison.metrics) - within.sum())
    return noted(
        (
            "two-systems",
            2 if len(comparison.systems) < 3 else 0,
            f"two systems{label}: correlations over systems are 1, -1 or undefined and say little",
        ),
        (
            "system-scores-given",
            int(given.sum()),
            f"system-level scores of the file are used where given{label}; elsewhere the mean over items",
        ),
        (
            "undefined-item-correlations",
            lost if np.isfinite(draws["pearson_item"][0]).any() else 0,
            f"{lost} item correlations{label} left out of the means: people or metric are constant on the item",
        ),
        aspect=comparison.aspect,
    )
