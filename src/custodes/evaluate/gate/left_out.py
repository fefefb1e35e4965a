"""Bounds of corrected rates when outputs without a label of the judge are left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from custodes.evaluate.rates.estimates import EstimateSettings, JudgeRates, cluster_divisor
from custodes.evaluate.rates.judge_labels import JudgeLabels
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.arrays import Bools
from custodes.stats.rates.posterior import PRIOR
from custodes.stats.rates.scores import Interval


def rate_bounds(
    judge_rates: JudgeRates,
    outputs: LabelledOutputs,
    is_selected_output: Bools,
    judge: JudgeLabels,
    settings: EstimateSettings,
) -> tuple[JudgeRates, JudgeRates]:
    """Return two corrected rates of the selected outputs: with all left-out outputs counted as negative, and with all
    counted as positive. Both rates equal the corrected rate if no output was left out.

    The proportion of outputs that were left out has a beta posterior, with counts divided by the design effect.
    """
    # With 'by-label', outputs with a human label do not count in the rate.
    is_counted_in_rate = is_selected_output & (~outputs.has_human_label if settings["sampling"] == "by-label" else True)
    is_left_out = (is_counted_in_rate & np.isnan(judge.labels)).astype(np.float64)
    n_left_out, n_counted_outputs = (
        (output_mask * outputs.number).sum() for output_mask in (is_left_out, is_counted_in_rate)
    )
    if not (judge_rates.n_left_out and n_left_out and np.isfinite(judge_rates.corrected.value)):
        return judge_rates, judge_rates
    left_out_proportion = float(n_left_out / n_counted_outputs)
    proportion_influence = np.where(is_counted_in_rate, is_left_out - left_out_proportion, 0.0) / n_counted_outputs
    design_effect_divisor = cluster_divisor(
        outputs.only(is_counted_in_rate), proportion_influence[is_counted_in_rate], settings["confidence"]
    )
    proportion_draws = settings["rng"].beta(
        n_left_out / design_effect_divisor + PRIOR,
        (n_counted_outputs - n_left_out) / design_effect_divisor + PRIOR,
        size=len(judge_rates.rate_draws),
    )

    def rates_with(left_out_rate: float) -> JudgeRates:
        rate_without_left_out = judge_rates.corrected.value
        return replace(
            judge_rates,
            corrected=Interval(
                (1 - left_out_proportion) * rate_without_left_out + left_out_proportion * left_out_rate, np.nan, np.nan
            ),
            rate_draws=(1 - proportion_draws) * judge_rates.rate_draws + proportion_draws * left_out_rate,
            influence=(1 - left_out_proportion) * judge_rates.influence
            + (left_out_rate - rate_without_left_out) * proportion_influence,
        )

    return rates_with(0.0), rates_with(1.0)


def left_out_text(n_left_out_of_system: dict[str, int], metric: str, settings: EstimateSettings) -> str:
    """Return why outputs that were left out prevent a decision; empty if no output was left out."""
    counts_text = " and ".join(
        f"{n_left_out} outputs of {system}" for system, n_left_out in n_left_out_of_system.items() if n_left_out
    )
    if not counts_text:
        return ""
    if settings["sampling"] == "by-label":
        fact_text, advice_text = f"{counts_text} have no label of {metric}", "add these labels"
    else:
        fact_text = f"annotators labelled none of the {counts_text} without a label of {metric}"
        advice_text = "let annotators label some of these outputs"
    return (
        f"{fact_text}, and these outputs could change the outcome; {advice_text}, or exclude the outputs from the file "
        "if they do not belong to the population"
    )
