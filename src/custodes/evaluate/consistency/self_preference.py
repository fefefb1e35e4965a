"""Tests of self-preference: does a judge over-rate its own systems (column `own_system` of the raters table)?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from custodes.answers.shared_arguments import Setting
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.consistency.findings import OWN, Finding
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.evaluate.rater_comparison import RaterComparison, compared, with_outputs
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without

NO_PEOPLE = "there are no human ratings of the judge's own systems"
PERSON = "annotators are the reference for judges, so they are not tested"
POINTS = 100.0


def self_preference(
    study: Study, chosen: Study, setting: Setting, *, alpha: float, confidence: float
) -> dict[str, list[Finding]]:
    """Return the findings by aspect, for every rater and each of its own systems in the selected study `chosen`."""
    named = {
        rater: select_labels(patterns, study.systems, option="own_system", what="system")
        for rater, patterns in chosen.raters.own_systems.items()
    }
    present = {rater: [system for system in systems if system in chosen.systems] for rater, systems in named.items()}
    if not any(present.values()):
        return {}
    if not (chosen.humans and chosen.metrics):
        return {aspect: [*_untested(aspect, present, NO_PEOPLE)] for aspect in chosen.aspects}
    try:
        comparisons = with_outputs(compared(chosen, setting))
    except CustodesError as error:
        return {aspect: [*_untested(aspect, present, str(error))] for aspect in chosen.aspects}
    return {
        comparison.aspect: [*_of_aspect(present, comparison, alpha=alpha, confidence=confidence)]
        for comparison in comparisons
    }


def _untested(aspect: str, present: Mapping[str, Sequence[str]], reason: str) -> Iterator[Finding]:
    for rater, systems in present.items():
        yield from (Finding(aspect, rater, OWN, system, reason=reason) for system in systems)


def _of_aspect(
    present: Mapping[str, Sequence[str]], comparison: RaterComparison, *, alpha: float, confidence: float
) -> Iterator[Finding]:
    for rater, systems in present.items():
        if rater not in comparison.metrics:
            if rater in comparison.people:
                yield from _untested(comparison.aspect, {rater: systems}, PERSON)
            continue
        placement = placement_of(comparison, comparison.metrics.index(rater))
        for system in systems:
            s = comparison.systems.index(system)
            tested = partiality([placement], alpha=alpha, confidence=confidence, systems=[s])
            shifts: list[Any] = [tested.shift[0], tested.low[0], tested.high[0]]
            defined = np.isfinite(tested.shift[0][s])
            ends = [POINTS * float(win_rate_without(placement, shift)[0][s]) if defined else np.nan for shift in shifts]
            reason = REASONS[Reason(tested.reason[0][s])]
            p_value = np.nan if reason else float(tested.p_adjusted[0][s])
            yield Finding(comparison.aspect, rater, OWN, system, ends[0], ends[1], ends[2], p_value, reason)


def self_preference_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the rows of the table `own_systems`."""
    return [
        {
            "rater": finding.rater,
            "system": finding.factor,
            "partiality": finding.estimate,
            "partiality_low": finding.estimate_low,
            "partiality_high": finding.estimate_high,
            "reason": finding.reason,
        }
        for finding in findings
    ]
