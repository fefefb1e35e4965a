"""Does a judge prefer the systems that are its own (the raters table says which)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from custodes.answers.setting import Setting
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.comparison import Comparison, compared, with_outputs
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without

NO_PEOPLE = "no people to say how good its own systems are"
PERSON = "people are what judges are compared with"
POINTS = 100.0


class Owned(NamedTuple):
    """One rater and one of its own systems: points of win rate that quality does not explain, or why not."""

    rater: str
    system: str
    estimate: float
    low: float
    high: float
    p_value: float
    reason: str


def own_systems(
    study: Study, chosen: Study, setting: Setting, *, alpha: float, confidence: float
) -> dict[str, list[Owned]]:
    """Aspect to every rater and own system of what is `chosen` of a study."""
    named = {
        rater: select_labels(patterns, study.systems, option="own_system", what="system")
        for rater, patterns in chosen.raters.own_systems.items()
    }
    present = {rater: [own for own in systems if own in chosen.systems] for rater, systems in named.items()}
    if not any(present.values()):
        return {}
    if not (chosen.humans and chosen.metrics):
        return {aspect: _untold(present, NO_PEOPLE) for aspect in chosen.aspects}
    try:
        comparisons = with_outputs(compared(chosen, setting))
    except CustodesError as error:
        return {aspect: _untold(present, str(error)) for aspect in chosen.aspects}
    return {own.aspect: _of_aspect(present, own, alpha=alpha, confidence=confidence) for own in comparisons}


def _untold(present: Mapping[str, Sequence[str]], reason: str) -> list[Owned]:
    nan = float("nan")
    return [Owned(rater, own, nan, nan, nan, nan, reason) for rater, systems in present.items() for own in systems]


def _of_aspect(
    present: Mapping[str, Sequence[str]], comparison: Comparison, *, alpha: float, confidence: float
) -> list[Owned]:
    found: list[Owned] = []
    for rater, systems in present.items():
        if rater not in comparison.metrics:
            found += _untold({rater: systems}, PERSON) if rater in comparison.people else []
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
            found.append(Owned(rater, system, ends[0], ends[1], ends[2], p_value, reason))
    return found


def own_columns(found: Sequence[Owned]) -> dict[str, Any]:
    """The columns of `own`."""
    if not found:
        return {}
    rater, system, estimate, low, high, _, reason = map(np.array, zip(*found, strict=True))
    ends = {"partiality": estimate, "partiality_low": low, "partiality_high": high}
    return {"rater": rater, "system": system, **ends, "reason": reason}
