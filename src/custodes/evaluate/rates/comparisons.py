"""Comparison of rates between two systems, or between a slice and all other slices, by posterior draws."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from custodes.data.study import Study
from custodes.evaluate.rates.estimates import EstimateSettings, Interval, JudgeRates, estimate_interval
from custodes.evaluate.rates.judge_labels import JudgeLabels
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.evaluate.slices import slices_of
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import number_by_unit
from custodes.stats.rates.posterior import PRIOR, correlate_draws, two_sided_p
from custodes.stats.sign_test import adjust

EQUIVALENCE_MARGIN = 0.05
"""Largest difference of TPR, and of TNR, with which systems may share error rates."""
FEWEST_OF_LABEL = 10
"""Minimum number of human labels with a label, in each of two groups of outputs, for a test of TPR or TNR."""


def estimate_with_bounds(column_name: str, estimate: Interval) -> dict[str, float]:
    """Return the columns of an estimate and of its bounds."""
    return {column_name: estimate.value, f"{column_name}_low": estimate.low, f"{column_name}_high": estimate.high}


def error_differences(first_rates: JudgeRates, second_rates: JudgeRates) -> tuple[Floats, Floats]:
    """Return the differences of TPR and of TNR, each (1 + draws,); NaN if a system has no human labels.

    The human labels of one system are treated as independent of the human labels of the other system.
    """
    if not (first_rates.n_both_labels and second_rates.n_both_labels):
        return np.full(2, np.nan), np.full(2, np.nan)
    tpr, tnr = (
        first_values - second_values
        for first_values, second_values in zip(first_rates.error_rates, second_rates.error_rates, strict=True)
    )
    return tpr, tnr


def correlation(first_influence: Floats, second_influence: Floats, units: Ints, n_equal_clusters: Floats) -> float:
    """Return the correlation of two estimates, from the influence of each output on each estimate.

    Influences (n,) are summed over clusters, whose positions are `units`. `n_equal_clusters` (n,) is the number of
    equal clusters that the cluster of an output stands for. The correlation r is shrunk by the factor r^2 / (r^2 + its
    squared standard error), because a correlation that is too large by chance makes the interval of a difference too
    short. The absolute value is limited to .99, so that the variance of the difference is positive.

    >>> one, other = np.array([1.0, 0.0, -1.0, 0.0]), np.array([0.0, 1.0, 0.0, -1.0])
    >>> correlation(one, other, np.array([0, 0, 1, 1]), np.ones(4))
    0.99

    Here r is .5 and its squared standard error is .1875:

    >>> one, other = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, -1.0, 1.0, 1.0])
    >>> round(correlation(one, other, np.arange(4), np.ones(4)), 4)
    0.2857
    """
    n_units = int(units.max(initial=-1)) + 1
    first_influence_sums, second_influence_sums = (
        unit_sums(summands, units=units, n_units=n_units) for summands in (first_influence, second_influence)
    )
    n_clusters_of_unit = number_by_unit(n_equal_clusters, units=units, n_units=n_units)
    influence_norms = [
        float(np.sqrt((summands**2 * n_clusters_of_unit).sum()))
        for summands in (first_influence_sums, second_influence_sums)
    ]
    if not all(influence_norms):
        return 0.0
    first_influence_sums, second_influence_sums = (
        first_influence_sums / influence_norms[0],
        second_influence_sums / influence_norms[1],
    )
    r = float((first_influence_sums * second_influence_sums * n_clusters_of_unit).sum())
    squared_standard_error = float(
        (
            (
                first_influence_sums * second_influence_sums
                - r / 2 * (first_influence_sums**2 + second_influence_sums**2)
            )
            ** 2
            * n_clusters_of_unit
        ).sum()
    )  # by the delta method
    return float(np.clip(r**3 / (r**2 + squared_standard_error), -0.99, 0.99)) if r else 0.0


def rate_difference(
    first_rates: JudgeRates, second_rates: JudgeRates, outputs: LabelledOutputs, rng: np.random.Generator
) -> Floats:
    """Return the difference of the corrected rates, (1 + draws,); shared clusters correlate the draws of the rates."""
    if not np.isfinite(first_rates.corrected.value + second_rates.corrected.value):
        return np.full(2, np.nan)
    shared_correlation = correlation(first_rates.influence, second_rates.influence, outputs.unit, outputs.number)
    second_draws = correlate_draws(first_rates.rate_draws, second_rates.rate_draws, shared_correlation, rng)
    return np.append(first_rates.corrected.value - second_rates.corrected.value, first_rates.rate_draws - second_draws)


def human_difference(
    first_rates: JudgeRates, second_rates: JudgeRates, outputs: LabelledOutputs, rng: np.random.Generator
) -> Floats:
    """Return the difference of the rates by human labels alone, (1 + draws,); NaN if one rate is undefined."""
    if not np.isfinite(first_rates.human.value + second_rates.human.value):
        return np.full(2, np.nan)
    first_draws, second_draws = (
        rng.beta(
            rates.human_n * rates.human.value + PRIOR,
            rates.human_n * (1 - rates.human.value) + PRIOR,
            size=len(rates.rate_draws),
        )
        for rates in (first_rates, second_rates)
    )
    shared_correlation = correlation(
        first_rates.human_influence, second_rates.human_influence, outputs.unit, outputs.number
    )
    return np.append(
        first_rates.human.value - second_rates.human.value,
        first_draws - correlate_draws(first_draws, second_draws, shared_correlation, rng),
    )


def difference_rows(
    outputs: LabelledOutputs,
    metric: str,
    label: str,
    rates_of_system: Mapping[str, JudgeRates],
    *,
    confidence: float,
    rng: np.random.Generator,
    n_labels: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `differences` for one metric, with unadjusted p-values.

    The intervals of rate differences are simultaneous for all pairs of systems and `n_labels` labels (Bonferroni).
    """
    n_systems = sum(np.isfinite(system_rates.corrected.value) for system_rates in rates_of_system.values())
    joint_confidence = 1 - (1 - confidence) / max(n_labels * n_systems * (n_systems - 1) // 2, 1)
    for (system_a, rates_a), (system_b, rates_b) in combinations(rates_of_system.items(), 2):
        corrected_differences = rate_difference(rates_a, rates_b, outputs, rng)
        human_differences = human_difference(rates_a, rates_b, outputs, rng)
        tpr_differences, tnr_differences = error_differences(rates_a, rates_b)
        yield {
            "metric": metric,
            "system_a": system_a,
            "system_b": system_b,
            "label": label,
            "judge_difference": rates_a.judge.value - rates_b.judge.value,
            **estimate_with_bounds("human_difference", _tail_interval(human_differences, joint_confidence)),
            **estimate_with_bounds("corrected_difference", _tail_interval(corrected_differences, joint_confidence)),
            "p_value": _p_value(corrected_differences),
            **estimate_with_bounds("tpr_difference", estimate_interval(tpr_differences, confidence)),
            **estimate_with_bounds("tnr_difference", estimate_interval(tnr_differences, confidence)),
            **_error_rate_tests(rates_a, rates_b, tpr_differences, tnr_differences),
        }


def _tail_interval(estimate_and_draws: Floats, confidence: float) -> Interval:
    """Return the interval that excludes 0 if and only if `two_sided_p` is below 1 - `confidence`.

    If there are too few draws for a bound, it comes from a normal approximation of the tail.
    """
    from scipy.special import ndtri

    interval, draws = estimate_interval(estimate_and_draws, confidence), estimate_and_draws[1:]
    if (1 - confidence) * (len(draws) + 1) >= 2:
        return interval
    half_width = float(ndtri((1 + confidence) / 2) * draws.std())
    return Interval(
        interval.value, min(interval.low, draws.mean() - half_width), max(interval.high, draws.mean() + half_width)
    )


def _p_value(estimate_and_draws: Floats) -> float:
    return float(two_sided_p(estimate_and_draws[1:])) if np.isfinite(estimate_and_draws).all() else np.nan


def _error_rate_tests(
    first_rates: JudgeRates, second_rates: JudgeRates, tpr_differences: Floats, tnr_differences: Floats
) -> dict[str, float]:
    """Return the p-values of equal TPR and of equal TNR; NaN with fewer than `FEWEST_OF_LABEL` human labels."""
    p_values = {}
    for name, label_code, differences in (("p_tpr", 1, tpr_differences), ("p_tnr", 0, tnr_differences)):
        n_labels = min(
            float(rates.pairs.counts.labelled[:, label_code].sum()) if rates.pairs is not None else 0.0
            for rates in (first_rates, second_rates)
        )
        p_values[name] = _p_value(differences) if n_labels > FEWEST_OF_LABEL - 0.5 else np.nan
    return p_values


def add_decisions(rows: list[dict[str, Any]], *, alpha: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of all metrics with adjusted p-values, decisions and the favoured system.

    Tests of the corrected difference are adjusted over the pairs and labels of a metric (Bonferroni, as the intervals).
    Tests of error rates are adjusted over all metrics, pairs, labels and both error rates (Holm).
    """
    metric_of_row, adjusted_p = np.array([row["metric"] for row in rows]), np.array([row["p_value"] for row in rows])
    for metric in dict.fromkeys(metric_of_row.tolist()):
        is_of_metric = metric_of_row == metric
        adjusted_p[is_of_metric] = np.minimum(adjusted_p[is_of_metric] * np.isfinite(adjusted_p[is_of_metric]).sum(), 1)
    adjusted_error_rate_p = adjust(
        np.array([[row["p_tpr"], row["p_tnr"]] for row in rows]).ravel(), correction="holm"
    ).reshape(-1, 2)
    for row, p_adjusted, (p_tpr, p_tnr) in zip(rows, adjusted_p, adjusted_error_rate_p, strict=True):
        difference = row["corrected_difference"]
        decision = "" if np.isnan(p_adjusted) else "=" if p_adjusted > alpha else "+" if difference > 0 else "-"
        # A higher TPR and a lower TNR both raise the judge's rate.
        favoured_signs = {np.sign(row["tpr_difference"])} if p_tpr <= alpha else set()
        favoured_signs |= {-np.sign(row["tnr_difference"])} if p_tnr <= alpha else set()
        favoured_system = (
            {1.0: row["system_a"], -1.0: row["system_b"]}.get(favoured_signs.pop(), "")
            if len(favoured_signs) == 1
            else ""
        )
        yield row | {
            "p_adjusted": p_adjusted,
            "p_tpr": p_tpr,
            "p_tnr": p_tnr,
            "decision": decision,
            "favoured": favoured_system,
        }


def has_equivalent_rates(system_rates: Sequence[JudgeRates], *, alpha: float) -> bool:
    """Return whether TPR and TNR of all pairs differ by less than `EQUIVALENCE_MARGIN` (two one-sided tests each)."""
    differences = (values for pair in combinations(system_rates, 2) for values in error_differences(*pair))
    intervals = (estimate_interval(values, 1 - 2 * alpha) for values in differences)
    return all(interval.low > -EQUIVALENCE_MARGIN and interval.high < EQUIVALENCE_MARGIN for interval in intervals)


def slice_row(
    outputs: LabelledOutputs,
    metric: str,
    slice_name: str,
    slice_rates: JudgeRates,
    other_rates: JudgeRates,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return a row of the table `slices`, with unadjusted p-values of the comparison with all other slices."""
    tpr_differences, tnr_differences = error_differences(slice_rates, other_rates)
    rate_differences = rate_difference(slice_rates, other_rates, outputs, rng)
    return {
        "metric": metric,
        "slice": slice_name,
        "n": slice_rates.n,
        "n_labelled": slice_rates.n_labelled,
        **estimate_with_bounds("judge_rate", slice_rates.judge),
        **estimate_with_bounds("corrected_rate", slice_rates.corrected),
        **estimate_with_bounds("tpr", estimate_interval(slice_rates.error_rates[0], confidence)),
        **estimate_with_bounds("tnr", estimate_interval(slice_rates.error_rates[1], confidence)),
        "p_rate": _p_value(rate_differences),
        **_error_rate_tests(slice_rates, other_rates, tpr_differences, tnr_differences),
        "signs": {"p_rate": rate_differences[0], "p_tpr": tpr_differences[0], "p_tnr": tnr_differences[0]},
    }


def slice_rows(
    study: Study, outputs: LabelledOutputs, judge: JudgeLabels, slice_column: str, settings: EstimateSettings
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `slices` for one judge, with unadjusted p-values."""
    slice_names, slice_of_output = slices_of(study, outputs.table, slice_column)
    threshold_judge, confidence = judge.threshold_judge, settings["confidence"]
    for slice_code, slice_name in enumerate(slice_names):
        if np.isfinite(threshold_judge.labels[slice_of_output == slice_code]).any():
            slice_rates, other_rates = (
                threshold_judge.rates(outputs, is_selected_output, **settings)
                for is_selected_output in (
                    slice_of_output == slice_code,
                    (slice_of_output != slice_code) & (slice_of_output >= 0),
                )
            )
            yield slice_row(
                outputs, judge.name, slice_name, slice_rates, other_rates, confidence=confidence, rng=settings["rng"]
            )


FINDINGS = {"p_rate": "rate", "p_tpr": "TPR", "p_tnr": "TNR"}


def add_findings(rows: list[dict[str, Any]], *, alpha: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `slices` for all metrics, with adjusted p-values and significant differences.

    P-values are adjusted over metrics, slices and tests (Holm).
    """
    p_value_names = list(FINDINGS)
    p_values = np.array([[row[p_value_name] for p_value_name in p_value_names] for row in rows], dtype=np.float64)
    adjusted_p = adjust(p_values.ravel(), correction="holm").reshape(-1, len(p_value_names))
    for row, adjusted_p_of_row in zip(rows, adjusted_p, strict=True):
        is_significant_test: Bools = adjusted_p_of_row <= alpha
        finding_texts = [
            f"{'higher' if row['signs'][p_value_name] > 0 else 'lower'} {FINDINGS[p_value_name]}"
            for p_value_name, is_significant in zip(p_value_names, is_significant_test, strict=True)
            if is_significant
        ]
        values = {key: value for key, value in row.items() if key != "signs"}
        yield (
            values
            | dict(zip(p_value_names, adjusted_p_of_row.tolist(), strict=True))
            | {"finding": ", ".join(finding_texts)}
        )
