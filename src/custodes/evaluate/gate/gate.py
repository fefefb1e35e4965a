"""Tests of requirements on a metric, and of non-inferiority to another metric, with an exit status for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question, refuse_ignored_argument
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import DEFAULTS, PreferenceOptions, selection_arguments
from custodes.answers.tables import count, label, p_value, score, table
from custodes.answers.wording import plural
from custodes.arguments import FEWEST_RESAMPLES, check_arguments, check_one_of, value_list
from custodes.data.study import Study
from custodes.errors import OptionError, join_labels, reject
from custodes.evaluate.agreement.statistic import Sample, drawn_flips
from custodes.evaluate.agreement.statistics import STATISTICS
from custodes.evaluate.gate.label_rules import AGREEMENT_NOTES, LabelTest, LabelTests, label_tests
from custodes.evaluate.gate.outcomes import STATUS, junit, line_of, more_data, outcome_of, rule_lines
from custodes.evaluate.gate.reuse import CLOSED, OPEN, UNTESTED, LedgerTests, ledger_answer
from custodes.evaluate.gate.rules import (
    ALONE,
    CONTAINED,
    CORRECTED_RATE,
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    OF_LABELS,
    SCORED,
    GateRule,
    RuleEstimate,
    estimate_rule,
    judge_rows,
    kind_of_rules,
    requirement,
    select_metric,
)
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.rater_comparison import RaterComparison, compare_selection
from custodes.memory import check_memory, count_resample_values
from custodes.progress import Progress, silent
from custodes.stats import bootstrap
from custodes.stats.arrays import Floats
from custodes.stats.intervals import simultaneous_intervals
from custodes.stats.rates.posterior import Sampling


@result
class Gate(Result):
    """Whether a metric satisfies the rules of the user. See `gate`."""

    rules: pl.DataFrame = table(
        "One row per rule and aspect.",
        label("rule", "the rule as given"),
        label("metric", "the metric tested"),
        label(
            "against",
            "the metric with which a non-inferiority rule compares `metric`, or the system with which a rule "
            "compares the corrected rate of `system`. Otherwise null",
        ),
        label(
            "statistic", "statistic of agreement with annotators, `corrected_rate`, or a statistic of the metric alone"
        ),
        label("system", "system of a corrected rate or of a `judge_rate`; otherwise null", essential=False),
        label("label", "the positive label if the statistic depends on it; otherwise null", essential=False),
        count(
            "n",
            "number of comparisons that the annotators and the metric (with `against`: both metrics) rated. For "
            "rules on labels, the number of outputs. For a statistic of the metric alone, the number of observations",
            "n",
        ),
        score(
            "value",
            "value of the statistic; with `against`, the value for `metric` (or `system`) minus the value for "
            "`against`. Two metrics are compared on outputs that both rated. The intervals of all rules hold jointly "
            "at the level `confidence`",
            interval=True,
        ),
        label(
            "relation", "`>=`: the threshold is a lower bound of the value; `<=`: it is an upper bound", essential=False
        ),
        score("threshold", "the threshold; with `against`, the threshold of the difference"),
        p_value(
            "p_value",
            "p-value of the test that the value equals the threshold, adjusted for all rules and aspects",
            "p",
        ),
        label(
            "outcome",
            f"`{HOLDS}`: the interval lies above the threshold; `{FAILS}`: the interval lies below the threshold. "
            f"For `<=` it is the reverse. Otherwise `{INCONCLUSIVE}`. With a ledger, the joint outcome of all rules: "
            f"`{OPEN}`, `{CLOSED}`, `{UNTESTED}` or `{INCONCLUSIVE}`",
        ),
        label(
            "reason",
            f"why the outcome is {INCONCLUSIVE} or {CLOSED}; for `{UNTESTED}`, the text of the column `remaining` of "
            "the table `ledger`",
        ),
        view=rule_lines,
    )
    ledger: pl.DataFrame = table(
        "State of the ledger after the candidate, as one row. The table is empty without a ledger.",
        label(
            "generation",
            "digest of the human labels with which the generation starts; a generation is a set of labels on which "
            "candidates are tested in turn",
        ),
        count("candidate", "number of candidates tested in this generation", "Candidates"),
        count("openings", "number of candidates that opened the gate"),
        count("labels", "number of outputs with a human label", "Human labels"),
        label("ledger_digest", "digest of the last entry of the ledger; several digests after a merge of branches"),
        label("remaining", "with `status`: how many further candidates can be tested on the labels", "Remaining"),
        by="",
    )

    @property
    def outcome(self) -> str:
        """Joint outcome: `fails` if a rule fails, else `inconclusive` if a rule is inconclusive, else `holds`.

        With a ledger, the joint outcome is `open`, `closed`, `not tested` or `inconclusive`.
        """
        return outcome_of(self.rules)

    @property
    def status(self) -> int:
        """Exit status: 0 if all rules hold, 1 if a rule fails, 3 if the joint outcome is inconclusive.

        With a ledger, the exit status is 0 if the gate is open or not tested, and 1 if the gate is closed.
        """
        return STATUS[self.outcome]

    def lines(self) -> Iterator[str]:
        """Return the results as plain text, one line per rule."""
        return (f"{rule_row['outcome']}  {line_of(rule_row)}" for rule_row in self.rules.to_dicts())

    @check_arguments
    def to_junit(self, seconds: float = 0.0) -> str:
        """Return JUnit XML for continuous integration, with one test case per rule, aspect and system.

        The test case of a failed rule is a failure. The test case of an inconclusive rule is marked as skipped, because
        continuous integration would treat an error as a failure. `seconds` is the run time.
        """
        if not 0 <= seconds < np.inf:
            raise OptionError(f"seconds={seconds} is not allowed; give a finite number of at least 0")
        return junit(self.rules.to_dicts(), seconds=seconds)


@question(
    "custodes gate ratings.csv --metric judge --require 'kendall_item>=0.3' --not-worse-than learned",
    metric="Metric to test: a name or a glob (default: the only metric).",
    require="Requirement STATISTIC>=NUMBER, such as 'kendall_item>=0.3', or corrected_rate>=SYSTEM-NUMBER; comma list "
    "or repeated.",
    not_worse_than="Metric to which the tested metric must be non-inferior; comma list or repeated.",
    statistic="Statistic of the non-inferiority test. Default: kendall_item, with two systems sample_accuracy, and for "
    "labels kappa.",
    margin="Non-inferiority margin, in units of the statistic.",
    positive="For rules on labels: the label that counts as success (see rates).",
    sampling="For rules on labels: how outputs were selected for human labels (random, by-judge or by-label).",
    resamples=f"Bootstrap resamples, at least {FEWEST_RESAMPLES}; rules on labels need none.",
    ledger="For rules on labels: file that records all candidates tested on the same labels (created if missing).",
    ledger_digest="Digest of a ledger entry that an earlier run reported; without this entry in the ledger, the "
    "command fails.",
    status="Report how many further candidates can be tested on the labels, and test nothing.",
)
def gate(
    study: Study,
    *,
    metric: str | None = None,
    require: str | Sequence[str] | None = None,
    not_worse_than: str | Sequence[str] | None = None,
    statistic: str | None = None,
    margin: float = 0.02,
    positive: str | None = None,
    sampling: Sampling = "random",
    ledger: str | Path | None = None,
    ledger_digest: str | None = None,
    status: bool = False,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Gate:
    """Test whether a metric satisfies requirements. Exit status 0: all rules hold; 1: a rule fails; 3: no rule fails,
    but a rule is inconclusive.

    Notes
    -----
    `require` accepts any statistic of `agreement` for which higher is better. `not_worse_than` tests whether the metric
    reaches the agreement of another metric minus `margin`. `statistic` measures the agreement of both metrics, on the
    outputs that annotators and both metrics rated. Each rule is tested for each selected aspect.

    A rule holds if the interval of its statistic lies above the threshold, fails if the interval lies below, and is
    inconclusive otherwise. The intervals are computed as in `agreement`, and the intervals of all rules and aspects
    hold jointly with probability `confidence`. `p_value` is adjusted in the same way. It is at most 1 - confidence
    exactly if the interval excludes the threshold.

    Rules without human ratings have the intervals of `consistency` and `rates`, with Bonferroni's correction, and no
    p-value. Their statistics are consistency, flip_rate, first_rate, agreement_within_order, repeat_agreement,
    failure_rate and judge_rate. Rules on flip_rate and failure_rate are upper limits (<=). Rules on first_rate and
    judge_rate may be upper or lower limits.

    Rules on labels have the intervals of `rates`, with Bonferroni's correction. Their statistics are tpr, tnr, ppv,
    npv, accuracy, balanced_accuracy, f1, mcc, kappa, ac1, alpha and corrected_rate. A corrected rate is tested for each
    selected system. The rule corrected_rate>=v1-0.02 tests the corrected rate of every other system minus the rate of
    v1. With sampling='random', a rule is inconclusive if the judge's labels differ significantly (p < .01) between
    outputs with and outputs without a human label.

    With `ledger`, rules on labels are tested for one candidate after another on the same labels. These labels are
    called a generation. The gate opens if the tests show that a candidate satisfies all rules. The probability that, in
    one generation, the gate opens for any candidate that does not satisfy all rules is at most 1 - confidence. With
    `ledger`, the result has no estimates.

    References
    ----------
    Hothorn, Bretz and Westfall 2008 (simultaneous intervals); ICH E9 (non-inferiority).

    Examples
    --------
    >>> import custodes as cu
    >>> made = cu.gate(cu.read("demo"), metric="judge", aspect="coherence", require="kendall_item>=0.2")
    >>> made.outcome, made.status
    ('holds', 0)
    """
    reject(
        (
            not resamples,
            f"resamples=0 is not allowed, because rules are tested with bootstrap intervals; give at least "
            f"{FEWEST_RESAMPLES}",
        ),
        (
            not (np.isfinite(margin) and margin >= 0),
            f"margin={margin!r} is not allowed; give a number of at least 0, in units of the statistic",
        ),
        (
            statistic == CORRECTED_RATE and not_worse_than,
            "statistic='corrected_rate' describes systems, not metrics; name a measure of agreement, such as kappa",
        ),
    )
    if not not_worse_than:
        refuse_ignored_argument(
            gate,
            "it applies only to the test of not_worse_than; name a metric in not_worse_than",
            margin=margin,
            statistic=statistic,
        )
    if statistic is not None:
        check_one_of("statistic", statistic, (*STATISTICS, *OF_LABELS))
    study = study.with_cache()
    rules = [requirement(text, study.systems) for text in value_list("require", require or ())]
    rule_kind = kind_of_rules(study, rules, statistic, not_worse_than)
    if ledger is None:
        refuse_ignored_argument(gate, "it applies only with a ledger", ledger_digest=ledger_digest, status=status)
    if rule_kind != "labels":
        reject((ledger is not None, f"ledger={str(ledger)!r}: a ledger is for rules on labels, such as accuracy>=0.8"))
        ignored_arguments = {"sampling": sampling} | ({} if rule_kind == ALONE else {"positive": positive})
        refuse_ignored_argument(gate, "it applies only to rules on labels, such as tpr>=0.9", **ignored_arguments)
    selected_study = study.select(**selection_arguments(setting), one_side=rule_kind != SCORED)
    reject(
        (
            metric is None and len(selected_study.metrics) != 1,
            f"gate: no metric is named; give metric='NAME' (--metric). Metrics: {join_labels(selected_study.metrics)}",
        )
    )
    metric_name = (
        selected_study.metrics[0] if metric is None else select_metric(selected_study, metric, option="metric")
    )
    rules += [
        GateRule(
            text=f"not worse than {comparator_metric}",
            statistic=statistic,
            threshold=0.0 - margin,
            against=comparator_metric,
        )
        for pattern in value_list("not_worse_than", not_worse_than or (), labels=selected_study.metrics)
        for comparator_metric in [select_metric(selected_study, pattern, option="not_worse_than")]
    ]
    rules = list(dict.fromkeys(rules))
    reject(
        (
            not rules,
            "gate: no rule to test; give require='kendall_item>=0.3' or not_worse_than=METRIC (--require,"
            " --not-worse-than)",
        ),
        (
            metric_name in [rule.against for rule in rules],
            f"not_worse_than names the tested metric {metric_name}; name another metric",
        ),
    )
    selection_options = selection_arguments(setting) | {
        "metrics": [metric_name, *(rule.against for rule in rules if rule.against is not None)]
    }
    tested_metric_study = study.select(**selection_options, one_side=rule_kind != SCORED)
    if rule_kind == ALONE:
        rows_of_aspect, judge_notes = judge_rows(
            tested_metric_study,
            rules,
            metric_name,
            positive=positive,
            confidence=confidence,
            options={
                **setting,
                **selection_arguments(DEFAULTS),
                "resamples": resamples,
                "rng": rng,
                "progress": progress,
            },
        )
        return Gate.from_parts(
            [Gate.part(aspect, rules=aspect_rows) for aspect, aspect_rows in rows_of_aspect.items()],
            [*selected_study.notes, *judge_notes],
        )
    if rule_kind == "labels":
        tests_of_aspects = list(
            label_tests(
                tested_metric_study,
                rules,
                metric_name,
                positive=positive,
                sampling=sampling,
                confidence=confidence,
                rng=np.random.default_rng(rng),
            )
        )
        if ledger is None:
            return _label_gate(tested_metric_study, tests_of_aspects, metric_name, confidence=confidence)
        return _ledger_gate(
            tested_metric_study,
            tests_of_aspects,
            metric_name,
            ledger,
            level=1 - confidence,
            expected_digest=ledger_digest,
            record=not status,
        )
    comparisons = [comparison.human_item_comparison for comparison in compare_selection(tested_metric_study, setting)]
    generator = np.random.default_rng(rng)
    draw_flips, lookup_cluster_weights = drawn_flips(generator), _shared_weights(comparisons, resamples, generator)

    def estimate_rules(comparison: RaterComparison, _: np.random.Generator) -> list[RuleEstimate]:
        sample = Sample(comparison=comparison, times=lookup_cluster_weights(comparison), flips=draw_flips(comparison))
        return [estimate_rule(rule, metric_name, sample) for rule in rules]

    rule_estimates_of_aspects = map_parts(estimate_rules, comparisons, rng=generator, progress=progress, desc="gate")
    simultaneous_tests, _ = simultaneous_intervals(
        [
            rule_estimate.estimate
            for aspect_estimates in rule_estimates_of_aspects
            for rule_estimate in aspect_estimates
        ],
        [rule.threshold for rule in rules] * len(rule_estimates_of_aspects),
        confidence=confidence,
    )
    test_values_of_aspects = np.stack(simultaneous_tests, axis=1).reshape(len(comparisons), len(rules), 4)
    tables_of_aspects = [
        Gate.part(
            comparison.aspect,
            rules=[
                rule.row(
                    metric_name,
                    rule_estimate.statistic,
                    rule_estimate.n,
                    (estimate, low, high, p_value),
                    reason=_inconclusive_reason(rule_estimate, rule.threshold, low, high),
                )
                for rule, rule_estimate, (estimate, low, high, p_value) in zip(
                    rules, aspect_estimates, estimates_bounds_and_p, strict=True
                )
            ],
        )
        for comparison, aspect_estimates, estimates_bounds_and_p in zip(
            comparisons, rule_estimates_of_aspects, test_values_of_aspects, strict=True
        )
    ]
    return Gate.from_parts(tables_of_aspects, [note for comparison in comparisons for note in comparison.notes])


def _label_gate(study: Study, tests_of_aspects: Sequence[LabelTests], metric: str, *, confidence: float) -> Gate:
    """Return the result for rules on labels; intervals and p-values have Bonferroni's correction over all tests."""
    n_tests = max(1, sum(test.has_interval for aspect_tests in tests_of_aspects for test in aspect_tests.tests))
    adjusted_confidence = 1 - (1 - confidence) / n_tests

    def rule_row(test: LabelTest) -> dict[str, Any]:
        estimate, low, high = test.interval(adjusted_confidence)
        p_value = min(1.0, n_tests * test.p_value) if test.has_interval else np.nan
        objection = test.objection_at(adjusted_confidence)
        # The interval of a corrected rate also depends on the number of outputs with a label of the judge.
        unit_name = "outputs and human labels" if test.statistic == CORRECTED_RATE else "human labels"
        advice_text = more_data(estimate, low, high, test.rule.threshold, unit_name)
        return test.rule.row(
            metric,
            test.statistic,
            test.n,
            (estimate, low, high, p_value),
            system=test.system,
            label=test.label,
            outcome=INCONCLUSIVE if objection else "",
            reason=test.reason or objection or CONTAINED + advice_text,
        )

    return Gate.from_parts(
        [
            Gate.part(aspect_tests.aspect, rules=list(map(rule_row, aspect_tests.tests)))
            for aspect_tests in tests_of_aspects
        ],
        [*study.notes, *(note for aspect_tests in tests_of_aspects for note in aspect_tests.notes)],
    )


def _ledger_gate(
    study: Study,
    tests_of_aspects: Sequence[LabelTests],
    metric: str,
    ledger_path: str | Path,
    *,
    level: float,
    **ledger_options: Any,
) -> Gate:
    """Return the result for a candidate of a ledger: the joint outcome of all rules, without estimates."""
    outcome, reason, ledger_row, ledger_notes = ledger_answer(
        ledger_path, LedgerTests.from_label_tests(metric, tests_of_aspects), level=level, **ledger_options
    )

    def rule_row(test: LabelTest) -> dict[str, Any]:
        return test.rule.row(
            metric, test.statistic, test.n, system=test.system, label=test.label, outcome=outcome, reason=reason
        )

    tables_of_aspects = [
        Gate.part(
            aspect_tests.aspect,
            rules=list(map(rule_row, aspect_tests.tests)),
            ledger=() if aspect_index else [ledger_row],
        )
        for aspect_index, aspect_tests in enumerate(tests_of_aspects)
    ]
    # Notes on the agreement of the judge with the annotators are left out, because they would reveal results.
    label_notes = [
        note for aspect_tests in tests_of_aspects for note in aspect_tests.notes if note.rule not in AGREEMENT_NOTES
    ]
    return Gate.from_parts(tables_of_aspects, [*study.notes, *ledger_notes, *label_notes])


def _shared_weights(
    comparisons: Sequence[RaterComparison], resamples: int, rng: np.random.Generator
) -> Callable[[RaterComparison], Floats]:
    """Return a function that gives the bootstrap weights of the clusters of a comparison.

    A cluster has the same weights in all aspects, so the resamples of two aspects are equal on common data. If an
    aspect lacks some clusters, the number of clusters of this aspect varies between resamples.
    """
    cluster_names = list(
        dict.fromkeys(cluster_name for comparison in comparisons for cluster_name in comparison.design.clusters)
    )
    index_of_cluster = {cluster_name: cluster_index for cluster_index, cluster_name in enumerate(cluster_names)}
    check_memory("resamples", resamples, count_resample_values(resamples, len(cluster_names)))
    cluster_weights = bootstrap.bootstrap_weights(len(cluster_names), resamples, rng)

    return lambda comparison: cluster_weights[
        :, [index_of_cluster[cluster_name] for cluster_name in comparison.design.clusters]
    ]


def _inconclusive_reason(rule_estimate: RuleEstimate, threshold: float, low: float, high: float) -> str:
    """Return the reason for an inconclusive rule: there is no interval, or the interval contains the threshold."""
    resampled_estimate = rule_estimate.estimate
    if resampled_estimate is None:
        return rule_estimate.reason
    if np.isnan(low):
        return (
            f"too few for an interval: {plural(resampled_estimate.n_units, 'cluster')} of items, or resamples in which "
            "the statistic is defined"
        )
    # More items would not make a simulated interval narrower.
    is_simulated = resampled_estimate.population is not None
    return CONTAINED + ("" if is_simulated else more_data(resampled_estimate.value, low, high, threshold, "items"))
