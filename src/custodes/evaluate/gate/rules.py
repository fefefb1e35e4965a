"""Rules of a gate: notation, estimates with resamples, and rules that need no human ratings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from custodes.data.notes import Note
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels, reject, suggestion
from custodes.evaluate.agreement.choices import Ground, grounds_of
from custodes.evaluate.agreement.differences import CHOOSING, ORDERING, difference, ranking_statistic, used_item_mask
from custodes.evaluate.agreement.statistic import FEWEST, Sample
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.consistency.consistency import consistency
from custodes.evaluate.consistency.missing import ALL
from custodes.evaluate.rates.rates import rates
from custodes.stats import intervals
from custodes.stats.arrays import Bools, Floats
from custodes.stats.clusters import effective_clusters
from custodes.stats.intervals import ResampledEstimate

HOLDS, FAILS, INCONCLUSIVE = "holds", "fails", "inconclusive"
CONTAINED = "the interval contains the threshold"

CORRECTED_RATE = "corrected_rate"
OF_LABELS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("tpr", "tnr", "ppv", "npv", "accuracy", "balanced_accuracy", "f1", CORRECTED_RATE), (0.0, 1.0)),
    **dict.fromkeys(("mcc", "kappa", "ac1", "alpha"), (-1.0, 1.0)),
}
"""Statistics allowed in rules on labels, with their bounds."""

JUDGE_RATE = "judge_rate"
HIGH, LOW = (">=",), ("<=",)
WITHOUT_HUMANS: Mapping[str, tuple[str, ...]] = {
    "consistency": HIGH,
    "flip_rate": LOW,
    "first_rate": (*HIGH, *LOW),
    "agreement_within_order": HIGH,
    "repeat_agreement": HIGH,
    "failure_rate": LOW,
    JUDGE_RATE: (*HIGH, *LOW),
}
"""Statistics of a judge that need no human ratings, and the relations allowed in their rules. All are proportions."""

SCORED, ALONE = "scores or preferences", "a judge alone"
FAMILIES: Mapping[str, Collection[str]] = {
    SCORED: STATISTICS,
    "labels": OF_LABELS,
    ALONE: WITHOUT_HUMANS,
}
"""Statistics by kind of rule. All rules of a gate must be of one kind."""

WRITTEN = re.compile(r"\s*(?P<statistic>\w+)\s*(?P<relation>[<>]=)\s*(?P<threshold>\S.*?)\s*")
OF_SYSTEM = re.compile(r"(?P<system>\S.*?)\s*(?P<margin>[+-]\s*\d*\.?\d+)")
"""Pattern of a threshold that names a system and a margin: the corrected rate of the system, plus or minus the
margin."""


@dataclass(frozen=True, kw_only=True)
class GateRule:
    """A rule: the `statistic` of a metric must lie above the `threshold`.

    If `against` names another metric, the difference of the two metrics must lie above the threshold. If `statistic` is
    None, the statistic that ranks metrics in the aspect is used. If `reference` names a system, the corrected rate of
    every other system minus the rate of this system must lie above the threshold. With the `relation` '<=', the value
    must lie below the threshold.
    """

    text: str
    statistic: str | None
    threshold: float
    against: str | None = None
    reference: str | None = None
    relation: str = ">="

    def outcome(self, low: float, high: float) -> str:
        """Return the outcome for an interval; inconclusive if the bounds are NaN."""
        if self.relation == "<=":
            low, high = 2 * self.threshold - high, 2 * self.threshold - low
        return HOLDS if low > self.threshold else FAILS if high < self.threshold else INCONCLUSIVE

    def row(
        self,
        metric: str,
        statistic: str,
        n: int,
        estimate_bounds_and_p: Sequence[float] = (np.nan,) * 4,
        *,
        system: str | None = None,
        label: str | None = None,
        outcome: str = "",
        reason: str = "",
    ) -> dict[str, Any]:
        """Return a row of the table `rules`; `estimate_bounds_and_p` has the estimate, the two bounds and the p-value.

        If no outcome is given, the bounds determine the outcome.
        """
        outcome = outcome or self.outcome(*estimate_bounds_and_p[1:3])
        return {
            "rule": self.text,
            "metric": metric,
            "against": self.against or self.reference,
            "statistic": statistic,
            "system": system or None,
            "label": label or None,
            "n": n,
            **dict(zip(("value", "value_low", "value_high", "p_value"), estimate_bounds_and_p, strict=True)),
            "relation": self.relation,
            "threshold": self.threshold,
            "outcome": outcome,
            "reason": None if outcome in (HOLDS, FAILS) else reason or None,
        }


@dataclass(frozen=True, kw_only=True)
class RuleEstimate:
    """The `estimate` of the `statistic` of a rule, from `n` comparisons of outputs.

    An undefined `estimate` is None, and `reason` says why.
    """

    statistic: str
    n: int
    estimate: ResampledEstimate | None
    reason: str = ""


def requirement(text: str, systems: Collection[str] = ()) -> GateRule:
    """Return the rule that a text such as STATISTIC>=NUMBER or corrected_rate>=SYSTEM-NUMBER describes.

    `systems` are the names that SYSTEM may have.

    >>> requirement("kendall_item >= 0.3").threshold
    0.3
    >>> rule = requirement("corrected_rate >= v1 - 0.02", ["v1", "v2"])
    >>> rule.reference, rule.threshold
    ('v1', -0.02)
    """
    rule_match = WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if rule_match is None:
        raise OptionError(f"require={text!r}: write STATISTIC>=NUMBER, such as 'kendall_item>=0.3'")
    statistic_name, relation, threshold_text = rule_match.groups()
    allowed_statistics = (*STATISTICS, *OF_LABELS, *WITHOUT_HUMANS)
    allowed_relations = WITHOUT_HUMANS.get(statistic_name, HIGH)
    reject(
        (
            statistic_name not in allowed_statistics,
            f"require={text!r}: unknown statistic {statistic_name!r}{suggestion(statistic_name, allowed_statistics)}; "
            f"allowed: {', '.join(STATISTICS)}; for labels {', '.join(OF_LABELS)}; without human ratings "
            f"{', '.join(WITHOUT_HUMANS)}",
        ),
        (
            relation not in allowed_relations,
            f"require={text!r}: for {statistic_name}, {'higher' if allowed_relations == HIGH else 'lower'} is better; "
            f"write {statistic_name}{allowed_relations[0]}{threshold_text}",
        ),
    )
    system_match = OF_SYSTEM.fullmatch(threshold_text) if statistic_name == CORRECTED_RATE else None
    reference_system = system_match["system"] if system_match and system_match["system"] in systems else None
    number_text = system_match["margin"].replace(" ", "") if system_match and reference_system else threshold_text
    try:
        threshold = float(number_text)
    except ValueError:
        system_hint = f" or {CORRECTED_RATE}>=SYSTEM-0.02; systems: {join_labels(systems)}"
        raise OptionError(
            f"require={text!r}: {threshold_text!r} is not a number; write for example {statistic_name}"
            f"{allowed_relations[0]}0.3{system_hint if statistic_name == CORRECTED_RATE else ''}"
        ) from None
    smallest_possible_value, largest_possible_value = (
        STATISTICS[statistic_name].bounds if statistic_name in STATISTICS else OF_LABELS.get(statistic_name, (0.0, 1.0))
    )
    if reference_system is not None:
        smallest_possible_value = -1.0
    if not smallest_possible_value < threshold < largest_possible_value:
        difference_text = f"a difference from the corrected rate of {reference_system}"
        raise OptionError(
            f"require={text!r}: {difference_text if reference_system else statistic_name} lies between "
            f"{smallest_possible_value:g} and {largest_possible_value:g}; give a threshold strictly between these "
            "bounds"
        )
    return GateRule(
        text=text.strip(),
        statistic=statistic_name,
        threshold=threshold,
        reference=reference_system,
        relation=relation,
    )


def kind_of_rules(study: Study, rules: Sequence[GateRule], statistic: str | None, not_worse_than: object) -> str:
    """Return the kind of the rules (see `FAMILIES`).

    The statistics of the rules determine the kind. If no rule names a statistic, the study determines the kind.
    `statistic` and `not_worse_than` are the arguments of a test of non-inferiority."""
    statistic_names = {name for name in (statistic, *(rule.statistic for rule in rules)) if name}
    statistics_of_kind = {
        kind: sorted(statistic_names.intersection(family))
        for kind, family in FAMILIES.items()
        if statistic_names.intersection(family)
    }
    kinds_text = " and ".join(f"on {kind} ({join_labels(names)})" for kind, names in statistics_of_kind.items())
    reject(
        (
            len(statistics_of_kind) > 1,
            f"gate: rules {kinds_text} cannot be tested together; use a gate for each kind of rule",
        ),
        (
            ALONE in statistics_of_kind and not_worse_than,
            f"not_worse_than={not_worse_than!r} needs human ratings, but the other rules need none; use two gates, "
            "because all rules of a gate must be of one kind",
        ),
    )
    return next(iter(statistics_of_kind), "labels" if study.labels else SCORED)


def select_metric(study: Study, pattern: str, *, option: str) -> str:
    """Return the only metric of a selected study that matches an exact name or a glob."""
    matching_metrics = select_labels(pattern, study.metrics, option=option, what="metric")
    if len(matching_metrics) > 1:
        raise OptionError(
            f"{option}={pattern!r} matches {len(matching_metrics)} metrics; name one of {join_labels(matching_metrics)}"
        )
    return matching_metrics[0]


def estimate_rule(rule: GateRule, metric: str, sample: Sample) -> RuleEstimate:
    """Return the estimate of a rule in one aspect, with resamples."""
    comparison = sample.comparison
    metric_names = [metric] if rule.against is None else [metric, rule.against]
    if missing_metric_names := [metric_name for metric_name in metric_names if metric_name not in comparison.metrics]:
        return RuleEstimate(
            statistic=rule.statistic or "", n=0, estimate=None, reason=_no_common_output(missing_metric_names)
        )
    metric_indices = np.array([comparison.metrics.index(metric_name) for metric_name in metric_names])
    common_ground = reduce(
        Ground.shared_with, (grounds_of(comparison)[metric_index] for metric_index in metric_indices)
    )
    common_sample = replace(sample, comparison=comparison.only(metric_indices, **common_ground._asdict()))
    statistic_name = rule.statistic or _standing_statistic(common_sample)
    statistic, n_comparisons = STATISTICS[statistic_name], len(common_ground.keys)
    compute_population = statistic.population
    if rule.against is None:
        statistic_draws = statistic.compute(sample)[:, metric_indices[0]]
        is_used_item = used_item_mask(statistic, sample)[metric_indices[0]]
        population_draws = None if compute_population is None else compute_population(sample)[:, metric_indices[0]]
    else:
        difference_draws, used_item_masks = difference(statistic, common_sample, np.array([0]), np.array([1]))
        statistic_draws, is_used_item = difference_draws[:, 0], used_item_masks[0]
        population_draws = (
            None if compute_population is None else compute_population(common_sample) @ np.array([1.0, -1.0])
        )
    if not np.isfinite(statistic_draws[0]):
        return RuleEstimate(
            statistic=statistic_name,
            n=n_comparisons,
            estimate=None,
            reason=f"{statistic_name} is undefined for these data, for example because ratings are verdicts or constant"
            if any(ground.any for ground in grounds_of(common_sample.comparison))
            else _no_common_output(metric_names),
        )
    smallest_possible_value, largest_possible_value = statistic.bounds
    cluster_sizes = _cluster_sizes(common_sample, is_used_item)
    resampled_estimate = ResampledEstimate(
        draws=statistic_draws,
        population=population_draws,
        n_units=int((cluster_sizes > 0).sum()),
        n_effective_units=effective_clusters(cluster_sizes),
        bounds=statistic.bounds if rule.against is None else intervals.ANY,
        width=largest_possible_value - smallest_possible_value,
    )
    if resampled_estimate.n_units < FEWEST:  # coverage of an interval would be too low
        resampled_estimate = replace(resampled_estimate, draws=statistic_draws[:1], population=None)
    return RuleEstimate(statistic=statistic_name, n=n_comparisons, estimate=resampled_estimate)


def _standing_statistic(sample: Sample) -> str:
    """Return the name of the statistic by which `agreement` ranks metrics."""
    point_sample = replace(sample, times=sample.times[:1])
    estimates_of_statistic = {
        statistic_name: STATISTICS[statistic_name].compute(point_sample) for statistic_name in (ORDERING, CHOOSING)
    }
    return ranking_statistic(estimates_of_statistic, len(sample.comparison.systems))


def _cluster_sizes(sample: Sample, is_used_item: Bools) -> Floats:
    """Return the weights of marked items by cluster. If the file has system-level scores, all items count as marked."""
    comparison, design = sample.comparison, sample.comparison.design
    has_system_scores = np.isfinite(comparison.metric_system).any() or np.isfinite(comparison.human_system).any()
    used_item_weights = design.weights * (is_used_item | has_system_scores)
    return np.bincount(design.units, weights=used_item_weights, minlength=design.n_units).astype(np.float64)


def _no_common_output(metric_names: Sequence[str]) -> str:
    return f"annotators and {' and '.join(metric_names)} rated no common output"


COLUMNS_OF_STATISTICS: Mapping[str, tuple[str, str, str, str]] = {
    "consistency": ("orders", "consistency", "n_both_orders", "verdicts in both orders"),
    "flip_rate": ("orders", "flip_rate", "n_both_orders", "verdicts in both orders"),
    "first_rate": ("orders", "first_rate", "n_both_orders", "verdicts with their order"),
    "agreement_within_order": ("repeats", "agreement_within_order", "comparisons", "repeated verdicts"),
    "repeat_agreement": ("repeated_labels", "agreement", "outputs", "repeated labels"),
    "failure_rate": ("missing", "failure_rate", "queried", "verdicts"),
    JUDGE_RATE: ("rates", "judge_rate", "n", "labels"),
}
"""For each statistic: its table and column, the column with the number of observations, and the data that are
needed."""


def judge_rows(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    *,
    positive: str | None,
    confidence: float,
    options: Mapping[str, Any],
) -> tuple[dict[str, list[dict[str, Any]]], list[Note]]:
    """Return the notes, and for each aspect the rows of the table `rules`. All bounds hold jointly (Bonferroni).

    Parameters
    ----------
    study : Study
        The selected study; the judge must be the only metric.
    rules : sequence of GateRule
    metric : str
        Name of the judge.
    positive : str or None
        See `rates`.
    confidence : float
        Joint level of the bounds.
    options : mapping
        Further arguments of `consistency`.
    """
    rows_of_aspect, notes = _rows(study, rules, metric, positive, confidence, options)
    n_rows_with_interval = sum(
        not np.isnan(rule_row["value_low"]) for aspect_rows in rows_of_aspect.values() for rule_row in aspect_rows
    )
    if n_rows_with_interval < 2:
        return rows_of_aspect, notes
    return _rows(study, rules, metric, positive, 1 - (1 - confidence) / n_rows_with_interval, options)


def _rows(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    positive: str | None,
    confidence: float,
    options: Mapping[str, Any],
) -> tuple[dict[str, list[dict[str, Any]]], list[Note]]:
    """Return the rows by aspect, with bounds at the level `confidence` for each row, and notes."""
    statistic_names = {rule.statistic for rule in rules}
    table_of_name: dict[str, pl.DataFrame] = {}
    notes: list[Note] = []
    if JUDGE_RATE in statistic_names:
        rates_result = rates(study, positive=positive, confidence=confidence)
        label_names = rates_result.rates["label"].unique().sort().to_list()
        is_order_guessed = any(note.rule == "positive-by-order" for note in rates_result.notes)
        if len(label_names) > 1 or is_order_guessed:
            raise InputError(
                f"gate: {JUDGE_RATE} needs to know which label is positive; give positive=LABEL, such as "
                f"positive={label_names[0]!r}"
            )
        table_of_name |= rates_result.tables()
        notes += [note for note in rates_result.notes if note.rule == "no-human-labels"]
    if statistic_names - {JUDGE_RATE}:
        consistency_result = consistency(study, confidence=confidence, **options)
        table_of_name |= consistency_result.tables()
        notes += consistency_result.notes
    rows_of_aspect = dict[str, list[dict[str, Any]]]()
    for rule in rules:
        statistic_name = rule.statistic or ""
        table_name, column_name, n_column_name, needed_data_text = COLUMNS_OF_STATISTICS[statistic_name]
        metric_rows = table_of_name[table_name].filter(pl.col("^(metric|rater)$") == metric)
        if table_name == "missing":
            metric_rows = metric_rows.filter(factor=ALL)
        missing_text = f"this judge has no {needed_data_text}"
        for metric_row in metric_rows.with_columns(pl.col(pl.Float64).fill_null(np.nan)).to_dicts():
            estimate, low, high = (metric_row[column_name + bound_suffix] for bound_suffix in ("", "_low", "_high"))
            reason = "too few clusters of items for an interval" if np.isnan(low) else CONTAINED
            rule_row = rule.row(
                metric,
                statistic_name,
                int(metric_row[n_column_name] or 0),
                (estimate, low, high, np.nan),
                system=metric_row.get("system"),
                label=metric_row.get("label"),
                reason=missing_text if np.isnan(estimate) else reason,
            )
            rows_of_aspect.setdefault(metric_row["aspect"], []).append(rule_row)
        for aspect in study.aspects:
            if aspect not in metric_rows["aspect"]:
                rows_of_aspect.setdefault(aspect, []).append(rule.row(metric, statistic_name, 0, reason=missing_text))
    return rows_of_aspect, notes
