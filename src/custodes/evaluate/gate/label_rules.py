"""Rules of a gate on labels: TPR, kappa, corrected rates and others, with the intervals of `rates`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from custodes.data.study import Study
from custodes.errors import OptionError, listed
from custodes.evaluate.gate.rules import GateRule
from custodes.evaluate.rates.estimates import (
    EstimateSettings,
    Interval,
    JudgeLabels,
    bounded,
    judges_of,
    measure_functions,
)
from custodes.evaluate.rates.outputs import LabelledOutputs, labelled_outputs
from custodes.stats.arrays import Floats
from custodes.stats.bootstrap import unit_sums
from custodes.stats.rates.posterior import Sampling, two_sided_p

CORRECTED_RATE = "corrected_rate"
STANDARD = "kappa"
"""Default statistic of rules on labels."""


@dataclass(frozen=True, kw_only=True)
class LabelTest:
    """Estimate of a rule on labels.

    `values` (1 + draws,) has the estimate first, NaN if undefined. For a difference of two metrics it has the estimate,
    its standard error and the number of clusters.
    """

    rule: GateRule
    statistic: str
    system: str
    n: int
    values: Floats
    error: float = np.nan
    clusters: int = 0
    reason: str = ""

    @property
    def defined(self) -> bool:
        """Whether there is an interval."""
        return bool(np.isfinite(self.values[0]) and (len(self.values) > 1 or self.error > 0))

    def interval(self, confidence: float) -> Interval:
        """The interval at a level."""
        if not self.defined:
            return Interval(float(self.values[0]), np.nan, np.nan)
        if len(self.values) > 1:
            return bounded(self.values, confidence)
        from scipy.special import stdtrit

        reach = float(stdtrit(max(self.clusters - 1, 1), (1 + confidence) / 2)) * self.error
        value = float(self.values[0])
        return Interval(value, value - reach, value + reach)

    @property
    def p_value(self) -> float:
        """P-value of 'the value equals the threshold'."""
        if not self.defined:
            return np.nan
        if len(self.values) > 1:
            return float(two_sided_p(self.values[1:] - self.rule.threshold))
        from scipy.special import stdtr

        return 2 * float(stdtr(max(self.clusters - 1, 1), -abs(self.values[0] - self.rule.threshold) / self.error))


class LabelTests(NamedTuple):
    """Tests of one aspect."""

    aspect: str
    tests: list[LabelTest]


def label_tests(
    study: Study,
    rules: Sequence[GateRule],
    metric: str,
    *,
    positive: str | None,
    sampling: Sampling,
    confidence: float,
    rng: np.random.Generator,
) -> list[LabelTests]:
    """Tests of all rules in each aspect of a selected study.

    Parameters
    ----------
    study : Study
    rules : sequence of GateRule
    metric : str
    positive : str or None
        See `rates`.
    sampling : {'random', 'by-judge', 'by-label'}
    confidence : float
        Confidence of the design effect of clusters.
    rng : numpy.random.Generator
    """
    if sampling != "random" and any(rule.against for rule in rules):
        raise OptionError(
            f"sampling={sampling!r}: outputs were selected by one metric, so that two cannot be compared "
            "(not_worse_than); leave one of the two options out"
        )
    settings = EstimateSettings(sampling=sampling, confidence=confidence, rng=rng)
    result = []
    for outputs in labelled_outputs(study, consensus="vote"):
        view = outputs.as_binary(positive) if positive else outputs
        judges = {judge.name: judge for judge in judges_of(view, "youden" if len(view.words) == 2 else None)}
        tests = [test for rule in rules for test in _tests(rule, metric, view, judges, settings)]
        result.append(LabelTests(outputs.aspect, tests))
    return result


def _tests(
    rule: GateRule,
    metric: str,
    view: LabelledOutputs,
    judges: dict[str, JudgeLabels],
    settings: EstimateSettings,
) -> Iterator[LabelTest]:
    statistic = rule.statistic or STANDARD

    def test(values: Floats | float, n: int, *, system: str = "", reason: str = "") -> LabelTest:
        return LabelTest(
            rule=rule, statistic=statistic, system=system, n=n, values=np.atleast_1d(values), reason=reason
        )

    missing = [name for name in (metric, rule.against) if name is not None and name not in judges]
    if missing:
        yield test(np.nan, 0, reason=f"{listed(missing)} has no labels here")
        return
    if not view.labelled.any():
        yield test(np.nan, 0, reason="there are no human labels")
        return
    binary = len(view.words) == 2
    needs_two = f"{statistic} needs two labels; name one of {listed(view.words)} with positive=LABEL"
    if statistic == CORRECTED_RATE:
        for k, name in enumerate(view.systems):
            part = judges[metric].rates(view, view.system == k, **settings)
            reason = "" if np.isfinite(part.corrected.value) else "the corrected rate is undefined"
            values = np.append(part.corrected.value, part.rate_draws) if binary and not reason else np.nan
            yield test(values, part.n_labelled, system=name, reason=reason if binary else needs_two)
        return
    if rule.against is not None:
        yield _difference(rule, view, (judges[metric], judges[rule.against]), settings, statistic, needs_two)
        return
    part = judges[metric].of_thresholds.rates(view, np.ones(len(view.system), dtype=bool), **settings)
    functions = measure_functions(len(view.words), part.n_labelled, ordered=view.ordered)
    if statistic not in functions:
        yield test(np.nan, part.n_labelled, reason=needs_two)
        return
    values = part.values(functions[statistic])
    defined = np.isfinite(values[0])
    reason = "" if defined else f"{statistic} is undefined for these labels"
    yield test(values[np.isfinite(values)] if defined else np.nan, part.n_labelled, reason=reason)


def _difference(
    rule: GateRule,
    view: LabelledOutputs,
    pair: tuple[JudgeLabels, JudgeLabels],
    settings: EstimateSettings,
    statistic: str,
    needs_two: str,
) -> LabelTest:
    """Difference of a statistic between two metrics, on outputs with labels of both.

    Its variance is that of the difference of influence values, by clusters.
    """
    evaluated = [judge.of_thresholds for judge in pair]
    rows = view.labelled & ~np.isnan(evaluated[0].labels) & ~np.isnan(evaluated[1].labels)
    n = int(rows.sum())

    def test(value: float, *, reason: str = "", error: float = np.nan, clusters: int = 0) -> LabelTest:
        return LabelTest(
            rule=rule,
            statistic=statistic,
            system="",
            n=n,
            values=np.array([value]),
            error=error,
            clusters=clusters,
            reason=reason,
        )

    functions = measure_functions(len(view.words), n, ordered=view.ordered)
    if statistic not in functions:
        return test(np.nan, reason=needs_two)
    if not n:
        return test(np.nan, reason=f"no output has labels of annotators, {pair[0].name} and {pair[1].name}")
    value, influence = 0.0, np.zeros(n)
    for sign, judge in zip((1, -1), evaluated, strict=True):
        labels = judge.rates(view, rows, **settings).pairs
        if labels is not None:
            value += sign * float(functions[statistic](labels.estimate))
            influence += sign * labels.influence(functions[statistic])
    if not np.isfinite(value):
        return test(np.nan, reason=f"{statistic} is undefined for these labels")
    units = view.unit[rows]
    clusters = len(np.unique(units))
    sums = unit_sums(influence, units=units, n_units=int(units.max()) + 1)
    error = float(np.sqrt((sums**2).sum() * clusters / max(clusters - 1, 1)))
    if not error:
        return test(value, reason="the labels of both metrics do not differ, so that there is no interval")
    return test(value, error=error, clusters=clusters)
