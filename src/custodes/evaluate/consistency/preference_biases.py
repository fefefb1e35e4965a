"""Biases of judges beyond human preference: preference for longer outputs, and for the judge's own systems.

The length bias is estimated in two ways: unadjusted, and adjusted for noisy human preference. Own systems are those in
the column `own_system` of the raters table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.data.patterns import select_labels
from custodes.data.study import Study
from custodes.errors import CustodesError
from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import FEWEST, LENGTH, OWN, POINTS, Finding
from custodes.evaluate.parallel import labelled_generators
from custodes.evaluate.partiality_table import REASONS, placement_of
from custodes.evaluate.rater_comparison import RaterComparison, compare_selection, require_shared_outputs
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Signs
from custodes.stats.intervals import Inference
from custodes.stats.judging.length import (
    LEAST_OF_STRATUM,
    LEAST_WON,
    NO_INFERENCE,
    is_in_informative_stratum,
    length_bias,
)
from custodes.stats.logistic import first_coefficient
from custodes.stats.partiality.partiality import Reason, partiality, win_rate_without

MOST_SLOTS = 5
"""Number of slots for the human verdicts on a comparison. If there are more annotators, slots replace annotators.

If there are many annotators, two annotators often share too few comparisons. Two slots share more comparisons.
"""

NO_PEOPLE = "no annotator (other than the rater) rated which output is better"
ONE_PERSON = "there is only one annotator, but the noise of human ratings is estimated from two or more"
TOO_FEW = f"fewer than {FEWEST} items or clusters"
FEW_OF_A_PAIR = (
    f"the test uses only pairs of systems with at least {LEAST_OF_STRATUM} comparisons in which each system wins at "
    f"least {LEAST_WON:.0%}, and these pairs have fewer than {FEWEST} items or clusters"
)
NO_AGREEMENT = "within pairs of systems, annotators hardly agree with each other beyond the effect of length"


def length_rows(
    preferences: AspectPreferences,
    self_preference_findings: Sequence[Finding],
    confidence: float,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], list[Finding]]:
    """Return the rows of the table `length`, and each rater's test of a length effect beyond human preference.

    Comparisons of a rater's own systems are excluded, because self-preference could be mistaken for a length effect.
    """
    annotator_indices = sorted(range(preferences.n_humans), key=preferences.raters.__getitem__)
    table_rows, findings = list[dict[str, Any]](), list[Finding]()
    for rater_index, (rater, rater_signs, rater_rng) in enumerate(
        zip(preferences.raters, preferences.signs, labelled_generators(preferences.raters, rng), strict=True)
    ):
        is_used_comparison = (
            np.isfinite(preferences.length)
            & (rater_signs != ABSENT)
            & ~np.isin(
                preferences.design.pairs[preferences.pair],
                [
                    preferences.design.systems.index(finding.factor)
                    for finding in self_preference_findings
                    if finding.rater == rater
                ],
            ).any(axis=1)
        )
        if not is_used_comparison.any() or not preferences.length[is_used_comparison].any():
            continue
        length_test, reason = _bias_beyond_humans(
            rater_signs[is_used_comparison],
            _slot_signs(
                preferences.signs[
                    [annotator_index for annotator_index in annotator_indices if annotator_index != rater_index]
                ][:, is_used_comparison],
                rater_rng,
            ),
            preferences,
            is_used_comparison,
            confidence,
        )
        # Without an intercept, because swapping two systems reverses all signs.
        is_decided_comparison = is_used_comparison & (rater_signs != 0)
        slope = first_coefficient(
            (1 + rater_signs[is_decided_comparison]) / 2,
            preferences.length[is_decided_comparison, None],
            preferences.unit[is_decided_comparison],
            confidence=confidence,
        )
        # The margin of the longer output that corresponds to a correlation of latent preferences.
        excess_margin_points, low, high = (
            float(POINTS * 2 / np.pi * np.arcsin(np.clip(correlation, -1, 1))) for correlation in length_test[:3]
        )
        findings.append(
            Finding(
                preferences.aspect,
                rater,
                LENGTH,
                "",
                excess_margin_points,
                low,
                high,
                float(length_test.p_value),
                reason,
            )
        )
        table_rows.append(
            {
                "rater": rater,
                "comparisons": int(is_used_comparison.sum()),
                "longer_win_rate": float(
                    ((1 + rater_signs[is_used_comparison] * np.sign(preferences.length[is_used_comparison])) / 2)[
                        preferences.length[is_used_comparison] != 0
                    ].mean()
                ),
                "raw_effect": slope.estimate,
                "raw_effect_low": slope.low,
                "raw_effect_high": slope.high,
                "raw_p_value": slope.p_value,
            }
        )
    return table_rows, findings


def _bias_beyond_humans(
    rater_signs: Signs,
    human_signs: Signs,
    preferences: AspectPreferences,
    is_used_comparison: Bools,
    confidence: float,
) -> tuple[Inference, str]:
    has_human_preference = (human_signs != ABSENT).any(axis=0)
    if not has_human_preference.any():
        return NO_INFERENCE, NO_PEOPLE
    pair_of_comparison, unit_of_comparison = preferences.pair[is_used_comparison], preferences.unit[is_used_comparison]
    for is_needed_comparison, reason in (
        (has_human_preference, TOO_FEW),
        (is_in_informative_stratum(has_human_preference, rater_signs, human_signs, pair_of_comparison), FEW_OF_A_PAIR),
    ):
        if len(np.unique(unit_of_comparison[is_needed_comparison])) < FEWEST:
            return NO_INFERENCE, reason
    length_test = length_bias(
        rater_signs,
        human_signs,
        preferences.length[is_used_comparison],
        strata=pair_of_comparison,
        units=unit_of_comparison,
        confidence=confidence,
    )
    if np.isfinite(length_test.p_value):
        return length_test, ""
    return length_test, ONE_PERSON if (human_signs != ABSENT).any(axis=1).sum() < 2 else NO_AGREEMENT


def _slot_signs(human_signs: Signs, rng: np.random.Generator) -> Signs:
    """Return the human verdicts by annotator; with many annotators, by a few slots that are filled in random order."""
    if len(human_signs) <= MOST_SLOTS:
        return human_signs
    sort_keys = np.where(human_signs != ABSENT, rng.random(human_signs.shape), 2.0)
    return np.take_along_axis(human_signs, np.argsort(sort_keys, axis=0)[:MOST_SLOTS], axis=0)


def self_preference(
    study: Study, selected_study: Study, setting: PreferenceOptions, *, alpha: float, confidence: float
) -> dict[str, list[Finding]]:
    """Return the findings by aspect, for every rater and each of its own systems in `selected_study`."""
    raters_and_own_systems = [
        (rater, system)
        for rater, patterns in selected_study.raters.own_systems.items()
        for system in select_labels(patterns, study.systems, option="own_system", what="system")
        if rater in selected_study.metrics and system in selected_study.systems
    ]
    if not raters_and_own_systems:
        return {}
    try:
        comparisons = require_shared_outputs(compare_selection(selected_study, setting))
    except CustodesError as error:
        return {
            aspect: [Finding(aspect, rater, OWN, system, reason=str(error)) for rater, system in raters_and_own_systems]
            for aspect in selected_study.aspects
        }
    return {
        comparison.aspect: [*_aspect_findings(raters_and_own_systems, comparison, alpha=alpha, confidence=confidence)]
        for comparison in comparisons
    }


def _aspect_findings(
    raters_and_own_systems: Sequence[tuple[str, str]], comparison: RaterComparison, *, alpha: float, confidence: float
) -> Iterator[Finding]:
    compute_placement = cache(partial(placement_of, comparison))
    for rater, system in raters_and_own_systems:
        if rater not in comparison.metrics:
            continue
        placement = compute_placement(comparison.metrics.index(rater))
        system_index = comparison.systems.index(system)
        partiality_tests = partiality([placement], alpha=alpha, confidence=confidence, systems=[system_index])
        estimate, low, high = (
            POINTS * float(win_rate_without(placement, shifts[0])[0][system_index])
            if np.isfinite(partiality_tests.shift[0][system_index])
            else np.nan
            for shifts in (partiality_tests.shift, partiality_tests.low, partiality_tests.high)
        )
        reason = REASONS[Reason(partiality_tests.reason[0][system_index])]
        yield Finding(
            comparison.aspect,
            rater,
            OWN,
            system,
            estimate,
            low,
            high,
            np.nan if reason else float(partiality_tests.p_adjusted[0][system_index]),
            reason,
        )
