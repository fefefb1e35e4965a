"""Tests of self-preference: does a judge over-rate its own systems (column `own_system` of the raters table)?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.consistency.findings import OWN, POINTS, Finding
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.evaluate.rater_comparison import RaterComparison, compare_selection, require_shared_outputs
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without

NO_PEOPLE = "there are no human ratings of the judge's own systems"
PERSON = "annotators are the reference for judges, so they are not tested"


def self_preference(
    study: Study, chosen: Study, setting: PreferenceOptions, *, alpha: float, confidence: float
) -> dict[str, list[Finding]]:
    """Return the findings by aspect, for every rater and each of its own systems in the selected study `chosen`."""
    own_systems = {
        rater: select_labels(patterns, study.systems, option="own_system", what="system")
        for rater, patterns in chosen.raters.own_systems.items()
    }
    present_own_systems = {
        rater: [system for system in systems if system in chosen.systems] for rater, systems in own_systems.items()
    }
    if not any(present_own_systems.values()):
        return {}
    if not (chosen.humans and chosen.metrics):
        return {aspect: [*_untested_findings(aspect, present_own_systems, NO_PEOPLE)] for aspect in chosen.aspects}
    try:
        comparisons = require_shared_outputs(compare_selection(chosen, setting))
    except CustodesError as error:
        return {aspect: [*_untested_findings(aspect, present_own_systems, str(error))] for aspect in chosen.aspects}
    return {
        comparison.aspect: [*_aspect_findings(present_own_systems, comparison, alpha=alpha, confidence=confidence)]
        for comparison in comparisons
    }


def _untested_findings(aspect: str, own_systems: Mapping[str, Sequence[str]], reason: str) -> Iterator[Finding]:
    for rater, systems in own_systems.items():
        yield from (Finding(aspect, rater, OWN, system, reason=reason) for system in systems)


def _aspect_findings(
    own_systems: Mapping[str, Sequence[str]], comparison: RaterComparison, *, alpha: float, confidence: float
) -> Iterator[Finding]:
    for rater, systems in own_systems.items():
        if rater not in comparison.metrics:
            if rater in comparison.people:
                yield from _untested_findings(comparison.aspect, {rater: systems}, PERSON)
            continue
        placement = placement_of(comparison, comparison.metrics.index(rater))
        for system in systems:
            s = comparison.systems.index(system)
            partiality_result = partiality([placement], alpha=alpha, confidence=confidence, systems=[s])
            estimate, low, high = (
                POINTS * float(win_rate_without(placement, shifts[0])[0][s])
                if np.isfinite(partiality_result.shift[0][s])
                else np.nan
                for shifts in (partiality_result.shift, partiality_result.low, partiality_result.high)
            )
            reason = REASONS[Reason(partiality_result.reason[0][s])]
            p_value = np.nan if reason else float(partiality_result.p_adjusted[0][s])
            yield Finding(comparison.aspect, rater, OWN, system, estimate, low, high, p_value, reason)


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
