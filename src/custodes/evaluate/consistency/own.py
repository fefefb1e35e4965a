"""Does a judge prefer the systems that are its own (the raters table says which)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from custodes.answers.setting import Setting
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.comparison import Comparison, compared, with_outputs
from custodes.evaluate.consistency.findings import OWN, Finding
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without

NO_PEOPLE = "no people to say how good its own systems are"
PERSON = "people are what judges are compared with"
POINTS = 100.0


def own_systems(
    study: Study, chosen: Study, setting: Setting, *, alpha: float, confidence: float
) -> dict[str, list[Finding]]:
    """Aspect to every rater and own system of what is `chosen` of a study."""
    named = {
        rater: select_labels(patterns, study.systems, option="own_system", what="system")
        for rater, patterns in chosen.raters.own_systems.items()
    }
    present = {rater: [own for own in systems if own in chosen.systems] for rater, systems in named.items()}
    if not any(present.values()):
        return {}
    if not (chosen.humans and chosen.metrics):
        return {aspect: _untested(aspect, present, NO_PEOPLE) for aspect in chosen.aspects}
    try:
        comparisons = with_outputs(compared(chosen, setting))
    except CustodesError as error:
        return {aspect: _untested(aspect, present, str(error)) for aspect in chosen.aspects}
    return {own.aspect: _of_aspect(present, own, alpha=alpha, confidence=confidence) for own in comparisons}


def _untested(aspect: str, present: Mapping[str, Sequence[str]], reason: str) -> list[Finding]:
    return [Finding(aspect, rater, OWN, own, reason=reason) for rater, systems in present.items() for own in systems]


def _of_aspect(
    present: Mapping[str, Sequence[str]], comparison: Comparison, *, alpha: float, confidence: float
) -> list[Finding]:
    found: list[Finding] = []
    for rater, systems in present.items():
        if rater not in comparison.metrics:
            found += _untested(comparison.aspect, {rater: systems}, PERSON) if rater in comparison.people else []
            continue
        placement = placement_of(comparison, comparison.metrics.index(rater))
        for system in systems:
            s = comparison.systems.index(system)
            made = partiality([placement], alpha=alpha, confidence=confidence, systems=[s])
            shifts: list[Any] = [made.shift[0], made.low[0], made.high[0]]
            known = np.isfinite(made.shift[0][s])
            ends = [POINTS * float(win_rate_without(placement, own)[0][s]) if known else np.nan for own in shifts]
            reason = REASONS[Reason(made.reason[0][s])]
            p_value = np.nan if reason else float(made.p_adjusted[0][s])
            found.append(Finding(comparison.aspect, rater, OWN, system, ends[0], ends[1], ends[2], p_value, reason))
    return found


def own_columns(found: Sequence[Finding]) -> dict[str, Any]:
    """The columns of `own`."""
    if not found:
        return {}
    _, rater, _, system, estimate, low, high, _, reason = map(np.array, zip(*found, strict=True))
    bounds = {"partiality": estimate, "partiality_low": low, "partiality_high": high}
    return {"rater": rater, "system": system, **bounds, "reason": reason}
