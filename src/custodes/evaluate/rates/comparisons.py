"""Comparison of rates between two systems, or between a slice and all other slices, by posterior draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from custodes.evaluate.rates.estimates import UNDEFINED, EstimateSettings, JudgeRates, estimate_interval
from custodes.evaluate.rates.judge_labels import JudgeLabels
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import multiplicity_by_unit
from custodes.stats.rates.posterior import DRAWS, PRIOR, correlate_draws, two_sided_p
from custodes.stats.rates.scores import Interval
from custodes.stats.sign_test import adjust

EQUIVALENCE_MARGIN = 0.05
"""The error rates of a judge may be estimated jointly for several systems if both its TPR and its TNR differ by less
than this value between the systems."""
FEWEST_OF_LABEL = 10
"""Minimum number of positive (TPR) or negative (TNR) human labels in each of two groups of outputs for a test."""
CONTINUITY = 0.3
"""Continuity correction of a difference of TPR or TNR, as a multiple of 1 / n1 + 1 / n2 for n1 and n2 human labels.

With 10 to 15 labels and the level .05, the probability of a false finding is up to .094 without the correction, and at
most .05 with the correction. With the multiple .5 of Yates (1934), the probability is at most .038, but fewer true
differences are found.
"""
ERROR_RATES = {"tpr": 1, "tnr": 0}
"""Human label on which each error rate is conditional."""


def estimate_with_bounds(column_name: str, estimate: Interval) -> dict[str, float]:
    """Return the columns of an estimate and of its bounds."""
    return {column_name: estimate.value, f"{column_name}_low": estimate.low, f"{column_name}_high": estimate.high}


class DifferenceTest(NamedTuple):
    """Estimate of a difference with ascending draws, and the test of the hypothesis that the difference is 0.

    A `correction` for continuity moves the draws towards 0 in the test. `value` is NaN if the difference is undefined,
    and `p_value` is NaN if the difference is undefined or not tested.
    """

    value: float
    draws: Floats
    correction: float
    p_value: float

    @classmethod
    def from_draws(
        cls, estimate_and_draws: Floats, *, continuity_correction: float = 0.0, is_tested: bool = True
    ) -> DifferenceTest:
        """Return the test."""
        draws = np.sort(estimate_and_draws[1:])
        has_p_value = is_tested and np.isfinite(estimate_and_draws).all()
        shift = np.clip(np.median(draws), -continuity_correction, continuity_correction)
        p_value = float(two_sided_p(draws - shift)) if has_p_value else np.nan
        return cls(float(estimate_and_draws[0]), draws, continuity_correction, p_value)

    def interval(self, confidence: float) -> Interval:
        """Return the interval that excludes 0 if and only if `p_value` is at most 1 - `confidence`.

        A bound is one of the draws; if there are too few draws, the bound comes from a normal approximation of the
        tail. The correction for continuity widens the interval on both sides, up to differences of 1.
        """
        from scipy.special import ndtri

        if not np.isfinite(self.value):
            return UNDEFINED
        n_draws_outside = int((1 - confidence) / 2 * (len(self.draws) + 1))
        low, high = self.draws[[max(n_draws_outside - 1, 0), -max(n_draws_outside, 1)]]
        if not n_draws_outside:
            mean, half_width = self.draws.mean(), ndtri((1 + confidence) / 2) * self.draws.std()
            low, high = min(low, mean - half_width), max(high, mean + half_width)
        low, high = min(low, self.value) - self.correction, max(high, self.value) + self.correction
        return Interval(self.value, float(max(low, -1.0)), float(min(high, 1.0)))


def _error_rate_difference(first_rates: JudgeRates, second_rates: JudgeRates, rate_name: str) -> Floats:
    """Return the difference of TPR or TNR (estimate, then draws), or NaN if a group has no outputs with both labels."""
    if not (first_rates.n_both_labels and second_rates.n_both_labels):
        return np.full(2, np.nan)
    return first_rates.error_rates[rate_name] - second_rates.error_rates[rate_name]


def error_tests(first_rates: JudgeRates, second_rates: JudgeRates) -> dict[str, DifferenceTest]:
    """Return the tests of equal TPR and of equal TNR.

    The human labels of one system are treated as independent of the human labels of the other system.
    """
    test_of_rate = {}
    for rate_name, label_code in ERROR_RATES.items():
        n_first_human_labels, n_second_human_labels = (
            0.0 if judge_rates.pairs is None else float(judge_rates.pairs.counts.labelled[:, label_code].sum())
            for judge_rates in (first_rates, second_rates)
        )
        test_of_rate[rate_name] = DifferenceTest.from_draws(
            _error_rate_difference(first_rates, second_rates, rate_name),
            continuity_correction=CONTINUITY * (1 / n_first_human_labels + 1 / n_second_human_labels)
            if n_first_human_labels and n_second_human_labels
            else 1.0,
            is_tested=min(n_first_human_labels, n_second_human_labels) > FEWEST_OF_LABEL - 0.5,
        )
    return test_of_rate


def correlation(
    first_influence: Floats, second_influence: Floats, units: Ints, cluster_multiplicities: Floats
) -> float:
    """Return the correlation of two estimates, from the influence of each output on each estimate.

    Influences (n,) are summed over clusters, whose positions are `units`. `cluster_multiplicities` (n,) is the number
    of equal clusters that the cluster of an output stands for. If the correlation is too large by chance, the interval
    of a difference is too short. Therefore, the correlation r is shrunk by the factor r^2 / (r^2 + s^2), where s is the
    standard error of r. The absolute value is limited to .99, so that the variance of the difference is positive.

    >>> one, other = np.array([1.0, 0.0, -1.0, 0.0]), np.array([0.0, 1.0, 0.0, -1.0])
    >>> correlation(one, other, np.array([0, 0, 1, 1]), np.ones(4))
    0.99

    Here r is .5 and its squared standard error is .1875:

    >>> one, other = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, -1.0, 1.0, 1.0])
    >>> round(correlation(one, other, np.arange(4), np.ones(4)), 4)
    0.2857
    """
    n_clusters = int(units.max(initial=-1)) + 1
    multiplicity_of_cluster = multiplicity_by_unit(cluster_multiplicities, units=units, n_units=n_clusters)
    first_cluster_sums, second_cluster_sums = unit_sums(
        np.stack([first_influence, second_influence]), units=units, n_units=n_clusters
    )
    norms = [
        np.sqrt((cluster_sums**2 * multiplicity_of_cluster).sum())
        for cluster_sums in (first_cluster_sums, second_cluster_sums)
    ]
    if not all(norms):
        return 0.0
    first_cluster_sums, second_cluster_sums = first_cluster_sums / norms[0], second_cluster_sums / norms[1]
    r = float((first_cluster_sums * second_cluster_sums * multiplicity_of_cluster).sum())
    # By the delta method.
    cluster_influences_on_r = first_cluster_sums * second_cluster_sums - r / 2 * (
        first_cluster_sums**2 + second_cluster_sums**2
    )
    squared_standard_error = float((cluster_influences_on_r**2 * multiplicity_of_cluster).sum())
    return float(np.clip(r**3 / (r**2 + squared_standard_error), -0.99, 0.99)) if r else 0.0


def rate_difference(
    first_rates: JudgeRates, second_rates: JudgeRates, outputs: LabelledOutputs, rng: np.random.Generator
) -> Floats:
    """Return the difference of the corrected rates, (1 + draws,). If the two systems share clusters, the draws of their
    rates are correlated."""
    if not np.isfinite(first_rates.corrected.value + second_rates.corrected.value):
        return np.full(2, np.nan)
    shared_correlation = correlation(first_rates.influence, second_rates.influence, outputs.unit, outputs.number)
    correlated_second_draws = correlate_draws(first_rates.rate_draws, second_rates.rate_draws, shared_correlation, rng)
    return np.append(
        first_rates.corrected.value - second_rates.corrected.value, first_rates.rate_draws - correlated_second_draws
    )


def human_difference(
    first_rates: JudgeRates, second_rates: JudgeRates, outputs: LabelledOutputs, rng: np.random.Generator
) -> Floats:
    """Return the difference of the rates by human labels alone, (1 + draws,); NaN if one rate is undefined."""
    if not np.isfinite(first_rates.human.value + second_rates.human.value):
        return np.full(2, np.nan)
    first_human_rates, second_human_rates = (
        replace(
            judge_rates,
            corrected=judge_rates.human,
            influence=judge_rates.human_influence,
            rate_draws=rng.beta(
                judge_rates.human_n * judge_rates.human.value + PRIOR,
                judge_rates.human_n * (1 - judge_rates.human.value) + PRIOR,
                size=DRAWS,
            ),
        )
        for judge_rates in (first_rates, second_rates)
    )
    return rate_difference(first_human_rates, second_human_rates, outputs, rng)


def difference_rows(
    outputs: LabelledOutputs,
    metric: str,
    label: str,
    rates_of_system: Mapping[str, JudgeRates],
    *,
    confidence: float,
    rng: np.random.Generator,
    n_distinct_labels: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `differences` for one metric, with unadjusted p-values.

    The intervals of rate differences are simultaneous for all pairs of systems and `n_distinct_labels` labels
    (Bonferroni). `add_decisions` later replaces two values by columns: `p_value`, and `errors` (the tests of error
    rates).
    """
    n_estimated_systems = sum(np.isfinite(system_rates.corrected.value) for system_rates in rates_of_system.values())
    joint_confidence = 1 - (1 - confidence) / max(
        n_distinct_labels * n_estimated_systems * (n_estimated_systems - 1) // 2, 1
    )
    for (system_a, rates_a), (system_b, rates_b) in combinations(rates_of_system.items(), 2):
        corrected_test, human_test = (
            DifferenceTest.from_draws(difference_function(rates_a, rates_b, outputs, rng))
            for difference_function in (rate_difference, human_difference)
        )
        yield {
            "metric": metric,
            "system_a": system_a,
            "system_b": system_b,
            "label": label,
            **estimate_with_bounds("human_difference", human_test.interval(joint_confidence)),
            **estimate_with_bounds("corrected_difference", corrected_test.interval(joint_confidence)),
            "p_value": corrected_test.p_value,
            "errors": error_tests(rates_a, rates_b),
        }


def add_decisions(
    unadjusted_rows: Sequence[dict[str, Any]], *, alpha: float, confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all metrics with adjusted p-values, decisions, error rates and the favoured system.

    P-values and intervals are adjusted by Bonferroni's method. Corrected differences are adjusted for the pairs and
    labels of one metric. Error rates are adjusted for all metrics, pairs and labels, and for both error rates.
    """
    n_error_tests = max(1, sum(np.isfinite(test.p_value) for row in unadjusted_rows for test in row["errors"].values()))
    n_tests_of_metric = Counter(row["metric"] for row in unadjusted_rows if np.isfinite(row["p_value"]))
    for row in unadjusted_rows:
        p_adjusted = np.minimum(row["p_value"] * n_tests_of_metric[row["metric"]], 1.0)
        sign_text = "+" if row["corrected_difference"] > 0 else "-"
        error_rate_columns: dict[str, float] = {}
        favoured_systems = set()
        for rate_name, error_test in row["errors"].items():
            interval = error_test.interval(1 - (1 - confidence) / n_error_tests)
            adjusted_error_p = np.minimum(error_test.p_value * n_error_tests, 1.0)
            error_rate_columns |= {
                **estimate_with_bounds(f"{rate_name}_difference", interval),
                f"p_{rate_name}": adjusted_error_p,
            }
            if adjusted_error_p <= alpha:  # a higher TPR and a lower TNR both raise the judge's rate
                favoured_systems.add(row["system_a" if (interval.value > 0) == (rate_name == "tpr") else "system_b"])
        yield {
            **{column_name: value for column_name, value in row.items() if column_name not in ("errors", "p_value")},
            **error_rate_columns,
            "p_adjusted": p_adjusted,
            "decision": "" if np.isnan(p_adjusted) else "=" if p_adjusted > alpha else sign_text,
            "favoured": favoured_systems.pop() if len(favoured_systems) == 1 else "",
        }


def has_equivalent_rates(system_rates: Sequence[JudgeRates], *, alpha: float) -> bool:
    """Return whether TPR and TNR of all pairs differ by less than `EQUIVALENCE_MARGIN` (two one-sided tests each)."""
    difference_intervals = (
        estimate_interval(_error_rate_difference(*rates_pair, rate_name), 1 - 2 * alpha)
        for rates_pair in combinations(system_rates, 2)
        for rate_name in ERROR_RATES
    )
    return all(
        interval.low > -EQUIVALENCE_MARGIN and interval.high < EQUIVALENCE_MARGIN for interval in difference_intervals
    )


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
    """Return a row of the table `slices`, with the unadjusted p-values of the differences from all other slices;
    `signs` are these differences."""
    test_of_error_rate = error_tests(slice_rates, other_rates)
    rate_test = DifferenceTest.from_draws(rate_difference(slice_rates, other_rates, outputs, rng))
    test_of_rate = {"rate": rate_test, **test_of_error_rate}
    return {
        "metric": metric,
        "slice": slice_name,
        "n": slice_rates.n,
        "n_labelled": slice_rates.n_labelled,
        **estimate_with_bounds("corrected_rate", slice_rates.corrected),
        **estimate_with_bounds("tpr", estimate_interval(slice_rates.error_rates["tpr"], confidence)),
        **estimate_with_bounds("tnr", estimate_interval(slice_rates.error_rates["tnr"], confidence)),
        **{f"p_{rate_name}": difference_test.p_value for rate_name, difference_test in test_of_rate.items()},
        "signs": [difference_test.value for difference_test in test_of_rate.values()],
    }


def slice_rows(
    outputs: LabelledOutputs, judge: JudgeLabels, slices: tuple[tuple[str, ...], Ints], settings: EstimateSettings
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `slices` for one judge, with unadjusted p-values."""
    slice_names, slice_of_output = slices
    threshold_judge, confidence = judge.threshold_judge, settings["confidence"]
    rng = settings["rng"].spawn(1)[0]  # the draws of other tables do not depend on slices
    for slice_code, slice_name in enumerate(slice_names):
        is_in_slice = slice_of_output == slice_code
        if np.isfinite(threshold_judge.labels[is_in_slice]).any():
            slice_rates, other_rates = (
                threshold_judge.rates(outputs, is_selected_output, **(settings | {"rng": rng}))
                for is_selected_output in (is_in_slice, ~is_in_slice & (slice_of_output >= 0))
            )
            yield slice_row(outputs, judge.name, slice_name, slice_rates, other_rates, confidence=confidence, rng=rng)


FINDINGS = {"p_rate": "rate", "p_tpr": "TPR", "p_tnr": "TNR"}


def add_findings(unadjusted_rows: Sequence[dict[str, Any]], *, alpha: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table `slices` for all metrics, with adjusted p-values and significant differences.

    P-values are adjusted over metrics, slices and tests (Holm).
    """
    p_values = np.array([[row[p_column] for p_column in FINDINGS] for row in unadjusted_rows], dtype=np.float64)
    adjusted_p_values = adjust(p_values.ravel(), correction="holm").reshape(p_values.shape)
    for row, adjusted_p_of_row in zip(unadjusted_rows, adjusted_p_values, strict=True):
        finding_texts = [
            f"{'higher' if difference > 0 else 'lower'} {rate_label}"
            for rate_label, p_value, difference in zip(FINDINGS.values(), adjusted_p_of_row, row["signs"], strict=True)
            if p_value <= alpha
        ]
        row_without_signs = {column_name: value for column_name, value in row.items() if column_name != "signs"}
        yield (
            row_without_signs
            | dict(zip(FINDINGS, adjusted_p_of_row, strict=True))
            | {"finding": ", ".join(finding_texts)}
        )
