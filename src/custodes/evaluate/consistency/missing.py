"""Rates of failures (empty and unreadable verdicts) of judges, by reason, system, order and length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.evaluate.consistency.aspect_preferences import AspectPreferences
from custodes.evaluate.consistency.findings import FAILURES, Finding
from custodes.evaluate.consistency.orders import ratio_columns
from custodes.evaluate.parallel import labelled_generators
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.judging.bias_tests import LEAST_FAILURES, uneven_p

DRAWS = 9999
ALL, REASON, SYSTEM, ORDER, LENGTH = "all", "reason", "system", "order", "length"
TENTHS = 10
MOST_FEATURES = 50_000_000
"""Failures are tested only if the number of systems times the number of verdicts is at most this value. A larger test
would need gigabytes of memory, so only rates are reported.
"""
NAMES = {1: "ab", -1: "ba"}


def missing_columns(
    preferences: AspectPreferences, bootstrap_weights: Floats, confidence: float, rng: np.random.Generator
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the columns of the table `missing`, and the test of failures of each rater with verdicts.

    The p-value of a rater is the smallest p-value of the tests by system, order and length, multiplied by the number of
    these tests (Bonferroni).
    """
    columns_of_raters: list[dict[str, Any]] = []
    findings: list[Finding] = []
    generator_of_rater = dict(zip(preferences.raters, labelled_generators(preferences.raters, rng), strict=True))
    for (rater_index,), queried_verdicts in preferences.queried_verdicts.group_by("rater", maintain_order=True):
        rater = preferences.raters[int(str(rater_index))]
        is_failed_verdict = queried_verdicts["preference"].is_null().to_numpy()
        unit_of_verdict = queried_verdicts["unit"].to_numpy()
        length_class_of_verdict = _length_classes(preferences, queried_verdicts)
        masks_of_factor = dict(_factors(preferences, queried_verdicts, length_class_of_verdict))
        factor_level_masks = [
            (factor, level, mask) for factor, masks in masks_of_factor.items() for level, mask in masks.items()
        ]
        # For a reason, the denominator is all queried verdicts; otherwise, the queried verdicts of the level.
        n_queried_verdicts, n_failed_verdicts = (
            np.stack([np.bincount(unit_of_verdict[mask], minlength=preferences.n_units) for mask in counted_masks])
            for counted_masks in (
                [mask | (factor == REASON) for factor, _, mask in factor_level_masks],
                [mask & is_failed_verdict for _, _, mask in factor_level_masks],
            )
        )
        columns_of_raters.append(
            {
                "rater": [rater] * len(factor_level_masks),
                "factor": [factor for factor, _, _ in factor_level_masks],
                "level": [level for _, level, _ in factor_level_masks],
                "queried": n_queried_verdicts.sum(axis=1),
                **ratio_columns("failure_rate", n_failed_verdicts, n_queried_verdicts, bootstrap_weights, confidence),
            }
        )
        p_value_of_factor = {
            factor: _failure_p_value(
                factor,
                is_failed_verdict,
                list(masks.values()),
                length_class_of_verdict,
                unit_of_verdict,
                generator_of_rater[rater],
            )
            for factor, masks in masks_of_factor.items()
            if factor not in (ALL, REASON)
        }
        tested_factors = [factor for factor, p_value in p_value_of_factor.items() if np.isfinite(p_value)]
        if tested_factors:
            strongest_factor = min(tested_factors, key=p_value_of_factor.__getitem__)
            adjusted_p_value = min(1.0, p_value_of_factor[strongest_factor] * len(tested_factors))
            findings.append(Finding(preferences.aspect, rater, FAILURES, strongest_factor, p_value=adjusted_p_value))
    return {
        column_name: np.concatenate([columns_of_rater[column_name] for columns_of_rater in columns_of_raters])
        for column_name in (columns_of_raters[0] if columns_of_raters else ())
    }, findings


def _factors(
    preferences: AspectPreferences, queried_verdicts: pl.DataFrame, length_class_of_verdict: Floats
) -> Iterator[tuple[str, dict[str, Bools]]]:
    """Yield each factor with the masks of its levels. The factors system, order and length need at least two levels.

    The most frequent reason comes first.
    """
    yield ALL, {"": np.ones(len(queried_verdicts), dtype=np.bool_)}
    reasons = (
        queried_verdicts.drop_nulls("why")
        .group_by("why", maintain_order=True)
        .len()
        .sort("len", descending=True, maintain_order=True)["why"]
        .to_list()
    )
    if reasons:
        yield REASON, {reason: queried_verdicts["why"].eq(reason).fill_null(False).to_numpy() for reason in reasons}
    systems_of_verdict = preferences.design.pairs[queried_verdicts["pair"].to_numpy()]
    for factor, mask_of_level in (
        (
            SYSTEM,
            {
                system: (systems_of_verdict == system_index).any(axis=1)
                for system_index, system in enumerate(preferences.design.systems)
            },
        ),
        (
            ORDER,
            {
                order_name: queried_verdicts["order"].to_numpy() == order_code
                for order_code, order_name in NAMES.items()
            },
        ),
        (LENGTH, {str(tenth_index + 1): length_class_of_verdict == tenth_index for tenth_index in range(TENTHS)}),
    ):
        mask_of_used_level = {level: mask for level, mask in mask_of_level.items() if mask.any()}
        if len(mask_of_used_level) > 1:
            yield factor, mask_of_used_level


def _length_classes(preferences: AspectPreferences, queried_verdicts: pl.DataFrame) -> Floats:
    """Return the length class of each verdict, from 0 (shortest tenth) to 9; NaN if the lengths are unknown.

    The length is the total number of words of the two outputs of the verdict.
    """
    n_words_of_verdict = np.sum(
        [
            preferences.words_of(queried_verdicts["item"].to_numpy(), systems)
            for systems in preferences.design.pairs[queried_verdicts["pair"].to_numpy()].T
        ],
        axis=0,
    )
    length_classes = np.full(len(n_words_of_verdict), np.nan)
    if (has_text := np.isfinite(n_words_of_verdict)).any():
        length_classes[has_text] = np.searchsorted(
            np.quantile(n_words_of_verdict[has_text], np.arange(1, TENTHS) / TENTHS), n_words_of_verdict[has_text]
        )
    return length_classes


def _failure_p_value(
    factor: str,
    is_missing_verdict: Bools,
    level_masks: Sequence[Bools],
    length_class_of_verdict: Floats,
    unit_of_verdict: Ints,
    rng: np.random.Generator,
) -> float:
    if is_missing_verdict.sum() < LEAST_FAILURES or len(level_masks) * is_missing_verdict.size > MOST_FEATURES:
        return np.nan
    is_usable_verdict = np.isfinite(length_class_of_verdict) if factor == LENGTH else np.any(level_masks, axis=0)
    # The ten length classes are tested as one trend. For the two orders, one indicator is enough.
    level_features = (
        [length_class_of_verdict] if factor == LENGTH else level_masks[:1] if factor == ORDER else level_masks
    )
    return uneven_p(
        is_missing_verdict[is_usable_verdict],
        np.stack([feature[is_usable_verdict] for feature in level_features]).astype(np.float64),
        units=unit_of_verdict[is_usable_verdict],
        n_draws=DRAWS,
        rng=rng,
    )
