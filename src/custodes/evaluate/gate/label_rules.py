"""Rules of a gate on labels, such as TPR, kappa and corrected rates, with the intervals of `rates`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import NamedTuple

import numpy as np
import polars as pl

from custodes.data.notes import Note, name_aspects
from custodes.data.study import Study
from custodes.errors import OptionError, join_labels, reject
from custodes.evaluate.gate.left_out import left_out_text, rate_bounds
from custodes.evaluate.gate.rules import CORRECTED_RATE, INCONCLUSIVE, OF_LABELS, GateRule
from custodes.evaluate.rates.comparisons import rate_difference
from custodes.evaluate.rates.estimates import (
    EstimateSettings,
    JudgeRates,
    estimate_interval,
    measure_functions,
)
from custodes.evaluate.rates.judge_labels import SAMPLING_ALPHA, JudgeLabels, judges_of, sampling_test
from custodes.evaluate.rates.judges import (
    judge_notes,
    label_notes,
    rate_notes,
)
from custodes.evaluate.rates.outputs import (
    KEY,
    LabelledOutputs,
    has_known_positive,
    labelled_outputs,
    view_of_positive,
)
from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.rates.posterior import Sampling, paired_posterior, two_sided_p
from custodes.stats.rates.scores import Interval
from custodes.stats.stopping.reused_labels import Precision, posterior_z, proportion_z

OF_POSITIVE_LABEL = ("tpr", "tnr", "ppv", "npv", "f1", CORRECTED_RATE)
"""Statistics that depend on which label is positive."""

AGREEMENT_NOTES = ("judge-equals-human", "judge-contradicts-human")
"""Rules of the notes that describe the agreement of a judge with the annotators."""

STANDARD = "kappa"
"""Default statistic of rules on labels."""


PROPORTIONS: Mapping[str, Callable[[Floats], tuple[float, float]]] = {
    "accuracy": lambda table: (float(np.trace(table)), float(table.sum())),
    "tpr": lambda table: (float(table[1, 1]), float(table[:, 1].sum())),
    "tnr": lambda table: (float(table[0, 0]), float(table[:, 0].sum())),
    "ppv": lambda table: (float(table[1, 1]), float(table[1].sum())),
    "npv": lambda table: (float(table[0, 0]), float(table[0].sum())),
}
"""Statistics that are proportions of outputs. Each function computes the successes and the trials from a table whose
rows are labels of the judge and whose columns are human labels."""


@dataclass(frozen=True, kw_only=True)
class LabelTest:
    """Estimate of the statistic of one gate rule, computed from labels.

    `values` (1 + draws,) has the estimate (NaN if undefined), followed by posterior draws. `influence` (n,) is the
    influence of each output on the estimate, and `unit` (n,) is the cluster of each output. `counts` are the effective
    successes and trials if the statistic is a proportion of outputs that were selected at random. `objection` says why
    the interval must not decide the rule; it is empty if the interval may decide. If outputs were left out of a
    corrected rate, `extremes` has the smallest and the largest value of the rate over all possible labels of these
    outputs. `influence` is then the influence on the smallest value, and `left_out` says why the left-out outputs may
    prevent a decision. `label` is the positive label if the statistic depends on it.
    """

    rule: GateRule
    statistic: str
    n: int
    system: str = ""
    values: Floats = field(default_factory=lambda: np.full(1, np.nan))
    reason: str = ""
    objection: str = ""
    label: str = ""
    influence: Floats = field(default_factory=lambda: np.zeros(0))
    unit: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    counts: tuple[float, float] | None = None
    extremes: tuple[Floats, ...] = ()
    left_out: str = ""

    def objection_at(self, confidence: float) -> str:
        """Return why the interval at the level `confidence` must not decide the rule; empty if the interval may
        decide."""
        if self.objection or not self.extremes or not self.has_interval:
            return self.objection
        outcome = self.rule.outcome(*self.interval(confidence)[1:])
        outcomes_at_extremes = {
            self.rule.outcome(*estimate_interval(extreme_draws, confidence)[1:]) for extreme_draws in self.extremes
        }
        return "" if outcome == INCONCLUSIVE or outcomes_at_extremes == {outcome} else self.left_out

    @property
    def has_interval(self) -> bool:
        """Whether the estimate has an interval."""
        return bool(np.isfinite(self.values[0]) and len(self.values) > 1)

    def interval(self, confidence: float) -> Interval:
        """Return the interval at the level `confidence`."""
        if not self.has_interval:
            return Interval(float(self.values[0]), np.nan, np.nan)
        return estimate_interval(self.values, confidence)

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the hypothesis that the value equals the threshold; requires an interval."""
        return float(two_sided_p(self.values[1:] - self.rule.threshold))

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the statistic, or of the difference."""
        low, high = OF_LABELS[self.statistic]
        return (low - high, high - low) if self.rule.against or self.rule.reference else (low, high)

    @property
    def score(self) -> float:
        """Normal score of the one-sided test of the hypothesis that the (smallest) value is at most the threshold."""
        if self.counts is not None:
            return float(proportion_z(*self.counts, self.rule.threshold))
        return posterior_z((*self.extremes, self.values)[0][1:], self.rule.threshold, self.bounds)

    def precision(self) -> Precision:
        """Return the precision of this test, from effective counts or from influence values."""
        if self.counts is not None:
            return Precision(
                self.rule.threshold,
                trials=self.counts[1],
                whole=all(effective_count.is_integer() for effective_count in self.counts),
            )
        influence_sum_of_cluster = unit_sums(self.influence, units=self.unit, n_units=int(self.unit.max(initial=0)) + 1)
        return Precision(self.rule.threshold, error=float(np.sqrt((influence_sum_of_cluster**2).sum())))


class LabelTests(NamedTuple):
    """Tests of one aspect, with the human label of each output (item, system), the first item of each unit, and notes.

    A tie of annotators is no label. If the input names no system, the name of the system is empty here instead of the
    name of the file.
    """

    aspect: str
    tests: list[LabelTest]
    labels: dict[tuple[str, str], str]
    units: list[str]
    notes: list[Note]


def label_tests(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    *,
    positive: str | None,
    sampling: Sampling,
    confidence: float,
    rng: np.random.Generator,
) -> Iterator[LabelTests]:
    """Yield the tests of all rules in each aspect of a selected study.

    Parameters
    ----------
    study : Study
    rules : sequence of GateRule
    metric : str
    positive : str or None
        See `rates`.
    sampling : {'random', 'by-judge', 'by-label'}
    confidence : float
        Confidence level; with few clusters, the design effect is increased, and the increase depends on this level.
    rng : numpy.random.Generator
    """
    if sampling != "random" and any(rule.against for rule in rules):
        raise OptionError(
            f"sampling={sampling!r}: two metrics (not_worse_than) can be compared only on outputs that were selected "
            "at random; omit one of these two options"
        )
    estimate_settings = EstimateSettings(sampling=sampling, confidence=confidence, rng=rng)
    for outputs in labelled_outputs(study, consensus="vote"):
        binarised_outputs = view_of_positive(outputs, positive)
        threshold_target = "youden" if len(binarised_outputs.words) == 2 else None
        judge_of_name = {judge.name: judge for judge in judges_of(binarised_outputs, threshold_target)}
        tests = [
            test
            for rule in rules
            for test in _tests(rule, metric, binarised_outputs, positive, judge_of_name, estimate_settings)
        ]
        first_item_rows = outputs.table.group_by(pl.Series("unit", outputs.unit)).agg(pl.col("item").min()).sort("unit")
        human_labels = np.array(outputs.words)[outputs.gold.argmax(axis=1)].tolist()
        keys_of_outputs = [
            (item, "" if study.unnamed_system else system) for item, system in outputs.table.select(KEY).iter_rows()
        ]
        judges = [judge_of_name[judge_name] for judge_name in outputs.metrics if judge_name in judge_of_name]
        has_corrected_rate_rule = any(rule.statistic == CORRECTED_RATE for rule in rules)
        omitted_note_rules = (
            ("positive-by-order",) if has_corrected_rate_rule else ("positive-by-order", "all-labelled")
        )
        notes = _notes(binarised_outputs, judges, positive, estimate_settings)
        yield LabelTests(
            outputs.aspect,
            tests,
            dict(compress(zip(keys_of_outputs, human_labels, strict=True), outputs.has_decided_label)),
            first_item_rows["item"].to_list(),
            [note for note in notes if note.rule not in omitted_note_rules],
        )


def _notes(
    outputs: LabelledOutputs, judges: Sequence[JudgeLabels], positive: str | None, settings: EstimateSettings
) -> list[Note]:
    """Return the notes of `rates` on the human labels and on the tested judges."""
    notes = label_notes(outputs, positive)
    for judge in judges if len(outputs.words) == 2 else ():
        rates_of_system = judge.rates_by_system(outputs, **settings)
        overall_rates = judge.threshold_judge.rates(outputs, **settings)
        notes += rate_notes(outputs, judge, rates_of_system, settings["sampling"])
        notes += judge_notes(outputs, judge, overall_rates, settings["sampling"])
    return name_aspects(notes)


def _objection(
    outputs: LabelledOutputs, judges: Sequence[JudgeLabels], settings: EstimateSettings, *, by_system: bool = False
) -> str:
    """Return why the human labels must not decide a rule, or an empty text. There is one possible reason: `sampling` is
    'random', but the labels of a judge differ between the outputs with and without a human label (see `sampling_test`).
    """
    p_value, metric, group_text = sampling_test(outputs, judges, settings["sampling"], by_system=by_system)
    if not p_value < SAMPLING_ALPHA:
        return ""
    by_judge_advice_text = (
        "give sampling='by-judge' if these outputs are a random sample within each label of the judge; otherwise "
        if len(judges) == 1
        else ""
    )
    return (
        f"the outputs{group_text} with a human label are not a random sample with respect to the labels of {metric} "
        f"(p = {p_value:.2g}); {by_judge_advice_text}give inclusion probabilities, or label a random sample"
    )


def _tests(
    rule: GateRule,
    metric: str,
    outputs: LabelledOutputs,
    positive: str | None,
    judge_of_name: dict[str, JudgeLabels],
    settings: EstimateSettings,
) -> list[LabelTest]:
    """Return the tests of a rule: one test or, for corrected rates, a test for each system."""
    statistic = rule.statistic or STANDARD
    is_binary = len(outputs.words) == 2
    depends_on_positive = is_binary and statistic in OF_POSITIVE_LABEL
    is_positive_known = positive is not None or has_known_positive(outputs.words)
    missing_judge_names = [name for name in (metric, rule.against) if name is not None and name not in judge_of_name]
    label_name = outputs.words[1] if depends_on_positive and is_positive_known else ""
    make_test = partial(LabelTest, rule=rule, statistic=statistic, label=label_name)
    conditions_and_reasons = (
        (missing_judge_names, f"there are no labels by {join_labels(missing_judge_names)}"),
        (not outputs.has_human_label.any(), "there are no human labels"),
        (
            depends_on_positive and not is_positive_known,
            f"it is unknown which label is positive; give positive={outputs.words[-1]!r} or "
            f"positive={outputs.words[0]!r}",
        ),
    )
    for is_applicable, reason in conditions_and_reasons:
        if is_applicable:
            return [make_test(n=0, reason=reason)]
    two_labels_text = f"{statistic} needs two labels; name one of {join_labels(outputs.words)} with positive=LABEL"
    judge = judge_of_name[metric]
    if statistic == CORRECTED_RATE:
        return _rate_tests(make_test, outputs, judge, settings, rule, "" if is_binary else two_labels_text)
    if rule.against is not None:
        return [
            _difference(make_test, outputs, (judge, judge_of_name[rule.against]), settings, statistic, two_labels_text)
        ]
    judge_rates = judge.threshold_judge.rates(outputs, **settings)
    n_both_labels, stratified_labels = judge_rates.n_both_labels, judge_rates.pairs
    measure = measure_functions(len(outputs.words), n_both_labels, ordered=outputs.ordered).get(statistic)
    if measure is None:
        return [make_test(n=n_both_labels, reason=two_labels_text)]
    estimate_and_draws = judge_rates.values(measure)
    if stratified_labels is None or not np.isfinite(estimate_and_draws[0]):
        return [make_test(n=n_both_labels, reason=f"{statistic} is undefined for these labels")]
    output_influence = stratified_labels.influence(measure)
    # Effective counts exist only for proportions of outputs that were selected at random.
    has_effective_counts = statistic in PROPORTIONS and stratified_labels.sampling == "random"
    successes_and_trials = (
        PROPORTIONS[statistic](stratified_labels.effective(output_influence).labelled) if has_effective_counts else None
    )
    return [
        make_test(
            values=estimate_and_draws[np.isfinite(estimate_and_draws)],
            n=n_both_labels,
            objection=_objection(outputs, [judge], settings),
            influence=output_influence,
            unit=stratified_labels.outputs.unit,
            counts=successes_and_trials,
        )
    ]


def _rate_tests(
    make_test: Callable[..., LabelTest],
    outputs: LabelledOutputs,
    judge: JudgeLabels,
    settings: EstimateSettings,
    rule: GateRule,
    two_labels_text: str,
) -> list[LabelTest]:
    """Return the tests of the corrected rate of each system, or of its difference from the rate of `rule.reference`."""
    rates_of_system = judge.rates_by_system(outputs, **settings)
    bounds_of_system = {
        system: rate_bounds(rates_of_system[system], outputs, outputs.system == system_code, judge, settings)
        for system_code, system in enumerate(outputs.systems)
    }
    objection = _objection(outputs, [judge], settings, by_system=True)
    reference_systems = () if rule.reference is None else (rule.reference,)
    tested_systems = [system for system in outputs.systems if system != rule.reference]
    systems_text = f"systems: {join_labels(outputs.systems)}"
    reject(
        (
            not rates_of_system.keys() >= {*reference_systems},
            f"require={rule.text!r}: {rule.reference!r} has no selected outputs; {systems_text}",
        ),
        (not tested_systems, f"require={rule.text!r}: there is no other system; {systems_text}"),
    )

    def values_of(rates: JudgeRates, reference_rates: JudgeRates | None = None) -> Floats:
        return (
            rates.rate_values
            if reference_rates is None
            else rate_difference(rates, reference_rates, outputs, settings["rng"])
        )

    tests = []
    for system in tested_systems:
        rates_of_compared_system = {
            compared_system: rates_of_system[compared_system] for compared_system in (system, *reference_systems)
        }
        (lowest_rates, highest_rates), *reference_bounds = (
            bounds_of_system[compared_system] for compared_system in rates_of_compared_system
        )
        estimate_and_draws = values_of(*rates_of_compared_system.values())
        reason = two_labels_text or ("" if np.isfinite(estimate_and_draws[0]) else "the corrected rate is undefined")
        n_left_out_of_system = {
            compared_system: rates.n_left_out for compared_system, rates in rates_of_compared_system.items()
        }
        left_out_reason = left_out_text(n_left_out_of_system, judge.name, settings)
        tests.append(
            make_test(
                values=np.full(1, np.nan) if reason else estimate_and_draws,
                n=sum(rates.n_labelled for rates in rates_of_compared_system.values()),
                system=system,
                reason=reason,
                objection=objection,
                influence=lowest_rates.influence
                - sum(highest_reference.influence for _, highest_reference in reference_bounds),
                unit=outputs.unit,
                extremes=(
                    values_of(lowest_rates, *(highest_reference for _, highest_reference in reference_bounds)),
                    values_of(highest_rates, *(lowest_reference for lowest_reference, _ in reference_bounds)),
                )
                if left_out_reason
                else (),
                left_out=left_out_reason,
            )
        )
    return tests


def _difference(
    make_test: Callable[..., LabelTest],
    outputs: LabelledOutputs,
    judge_pair: tuple[JudgeLabels, JudgeLabels],
    settings: EstimateSettings,
    statistic: str,
    two_labels_text: str,
) -> LabelTest:
    """Return the test of a difference between two metrics by a statistic, on outputs that both metrics labelled."""
    judge_labels = np.array([judge.threshold_judge.labels for judge in judge_pair])
    is_common_output = outputs.has_human_label & ~np.isnan(judge_labels).any(axis=0)
    n_common_outputs, n_distinct_labels = int(is_common_output.sum()), len(outputs.words)
    make_test = partial(make_test, n=n_common_outputs)
    measure = measure_functions(n_distinct_labels, n_common_outputs, ordered=outputs.ordered).get(statistic)
    if measure is None:
        return make_test(reason=two_labels_text)
    first_labels = judge_pair[0].threshold_judge.rates(outputs, is_common_output, **settings).pairs
    if first_labels is None or not n_common_outputs:
        return make_test(reason=f"no output has labels by annotators, {judge_pair[0].name} and {judge_pair[1].name}")
    first_codes, second_codes = judge_labels[:, is_common_output].astype(np.intp)
    labels_of_pair = replace(
        first_labels, stratum=n_distinct_labels * first_codes + second_codes, n_strata=n_distinct_labels**2
    )

    def difference(joint_proportions: Floats) -> Floats:
        proportions = joint_proportions.reshape(*joint_proportions.shape[:-2], *[n_distinct_labels] * 3)
        return measure(proportions.sum(axis=-2)) - measure(proportions.sum(axis=-3))

    estimated_difference = difference(labels_of_pair.estimate)
    if not np.isfinite(estimated_difference):
        return make_test(reason=f"{statistic} is undefined for these labels")
    output_influence = labels_of_pair.influence(difference)
    if not output_influence.any():
        return make_test(
            values=np.array([estimated_difference]),
            reason="the labels of the two metrics do not differ, so there is no interval",
        )
    effective_counts = labels_of_pair.effective(output_influence).labelled
    difference_draws = difference(paired_posterior(effective_counts, settings["rng"]))
    return make_test(
        values=np.append(estimated_difference, difference_draws[np.isfinite(difference_draws)]),
        objection=_objection(outputs, judge_pair, settings),
        influence=output_influence,
        unit=labels_of_pair.outputs.unit,
    )
