"""Biases of judges beyond human preference: preference for longer outputs, and for the judge's own systems.

The length bias is unadjusted, conditional on human preference, and adjusted for noisy human preference. Own systems are
those in the column `own_system` of the raters table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.consistency.findings import FEWEST, LENGTH, OWN, POINTS, Finding
from custodes.evaluate.consistency.rater_preferences import RaterPreferences
from custodes.evaluate.parallel import labelled_generators
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.evaluate.rater_comparison import RaterComparison, compare_selection, require_shared_outputs
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Signs
from custodes.stats.intervals import Inference
from custodes.stats.judging.length import (
    LEAST_OF_STRATUM,
    LEAST_WON,
    LengthBias,
    is_in_informative_stratum,
    length_bias,
    logit_slopes,
)
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without
from custodes.stats.ratios import mean_of_defined

MOST_SLOTS = 5
"""Number of slots for the human verdicts on a comparison. If there are more annotators, slots replace annotators.

Two of many annotators often share too few comparisons; two slots share more.
"""

NO_PEOPLE = "no human ratings of which output is better"
ONE_PERSON = "there is only one annotator, but the noise of human ratings is estimated from two or more"
TOO_FEW = f"fewer than {FEWEST} items or clusters"
FEW_OF_A_PAIR = (
    f"fewer than {FEWEST} items or clusters are in pairs of systems with at least {LEAST_OF_STRATUM} comparisons and "
    f"at least {LEAST_WON:.0%} of the verdicts for each system"
)
NO_AGREEMENT = "within pairs of systems, annotators hardly agree with each other beyond the effect of length"

UNRATED = "there are no human ratings of the judge's own systems"
PERSON = "annotators are the reference for judges, so they are not tested"


def length_rows(
    part: RaterPreferences, self_preference_findings: Sequence[Finding], confidence: float, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the rows of the table `length`, and each rater's test of a length effect beyond human preference.

    Comparisons of a rater's own systems are excluded, because self-preference could be mistaken for a length effect.
    """
    annotators, has_length = sorted(range(part.n_humans), key=part.raters.__getitem__), np.isfinite(part.length)
    generators = labelled_generators(part.raters, rng)
    rows: list[dict[str, Any]] = []
    findings = []
    for r, signs in enumerate(part.signs):
        other_annotators = [p for p in annotators if p != r]
        own_systems = [
            part.design.systems.index(finding.factor)
            for finding in self_preference_findings
            if finding.rater == part.raters[r]
        ]
        is_used = has_length & (signs != ABSENT) & ~np.isin(part.design.pairs[part.pair], own_systems).any(axis=1)
        if not is_used.any() or not part.length[is_used].any():
            continue
        panel_signs = _slots(part.signs[other_annotators][:, is_used], generators[r])
        bias, reason = _bias_beyond_humans(signs[is_used], panel_signs, part, is_used, confidence)
        mean_people = mean_of_defined(np.where(panel_signs != ABSENT, panel_signs, np.nan), axis=0)
        slopes = logit_slopes(
            signs[is_used], mean_people, part.length[is_used], units=part.unit[is_used], confidence=confidence
        )
        longer_wins = (1 + signs[is_used] * np.sign(part.length[is_used])) / 2
        # The margin of the longer output that corresponds to a correlation of latent preferences.
        excess_points, low, high = (
            float(POINTS * 2 / np.pi * np.arcsin(np.clip(correlation, -1, 1)))
            for correlation in (bias.excess, bias.low, bias.high)
        )
        findings.append(
            Finding(part.aspect, part.raters[r], LENGTH, "", excess_points, low, high, bias.p_value, reason)
        )
        rows.append(
            {
                "rater": part.raters[r],
                "comparisons": int(is_used.sum()),
                "longer_win_rate": float(longer_wins[part.length[is_used] != 0].mean()),
                **_columns("raw_effect", slopes, 0),
                "raw_p_value": slopes.p_value[0],
                **_columns("conditional_effect", slopes, 1),
                **_columns("human_effect", slopes, 2),
                "adjusted_effect": excess_points,
                "adjusted_effect_low": low,
                "adjusted_effect_high": high,
                "reason": reason,
            }
        )
    return rows, findings


def _bias_beyond_humans(
    signs: Signs, human_signs: Signs, part: RaterPreferences, is_used: Bools, confidence: float
) -> tuple[LengthBias, str]:
    has_human_preference = (human_signs != ABSENT).any(axis=0)
    n_annotators = (human_signs != ABSENT).any(axis=1).sum() if human_signs.size else 0
    if not has_human_preference.any():
        return LengthBias(), NO_PEOPLE
    if len(np.unique(part.unit[is_used][has_human_preference])) < FEWEST:
        return LengthBias(), TOO_FEW
    pair = part.pair[is_used]
    if (
        len(np.unique(part.unit[is_used][is_in_informative_stratum(has_human_preference, signs, human_signs, pair)]))
        < FEWEST
    ):
        return LengthBias(), FEW_OF_A_PAIR
    bias = length_bias(
        signs, human_signs, part.length[is_used], strata=pair, units=part.unit[is_used], confidence=confidence
    )
    return bias, "" if bias.identified else ONE_PERSON if n_annotators < 2 else NO_AGREEMENT


def _slots(human_signs: Signs, rng: np.random.Generator) -> Signs:
    """Return the human verdicts by annotator; with many annotators, by a few slots that are filled in random order."""
    if len(human_signs) <= MOST_SLOTS:
        return human_signs
    sort_keys = np.where(human_signs != ABSENT, rng.random(human_signs.shape), 2.0)
    slot_annotators = np.argsort(sort_keys, axis=0)[:MOST_SLOTS]
    return np.take_along_axis(human_signs, slot_annotators, axis=0)


def _columns(name: str, slopes: Inference, k: int) -> dict[str, float]:
    return {name: slopes.estimate[k], f"{name}_low": slopes.low[k], f"{name}_high": slopes.high[k]}


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
        return {aspect: _untested_findings(aspect, present_own_systems, UNRATED) for aspect in chosen.aspects}
    try:
        comparisons = require_shared_outputs(compare_selection(chosen, setting))
    except CustodesError as error:
        return {aspect: _untested_findings(aspect, present_own_systems, str(error)) for aspect in chosen.aspects}
    return {
        comparison.aspect: [*_aspect_findings(present_own_systems, comparison, alpha=alpha, confidence=confidence)]
        for comparison in comparisons
    }


def _untested_findings(aspect: str, own_systems: Mapping[str, Sequence[str]], reason: str) -> list[Finding]:
    own_pairs = ((rater, system) for rater, systems in own_systems.items() for system in systems)
    return [Finding(aspect, rater, OWN, system, reason=reason) for rater, system in own_pairs]


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
