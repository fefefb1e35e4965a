from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from custodes.data.preferences import Preferences

ITEMS = 40_000
SLOT = 0.5


def judge_preferences(gap: float, lost: tuple[float, float], seed: int = 0) -> tuple[Preferences, Preferences]:
    """All preferences of a judge between A and B, and those that remain after random failures by order."""
    rng = np.random.default_rng(seed)
    quality = gap + rng.normal(size=ITEMS)
    rows = []
    for order, sign, chance in (("ab", 1, lost[0]), ("ba", -1, lost[1])):
        view = quality + sign * SLOT + 0.7 * rng.normal(size=ITEMS)
        preference = (np.sign(view) * (np.abs(view) > 0.3)).astype(np.int8)
        frame = pl.DataFrame({"item": np.arange(ITEMS).astype(str), "preference": preference, "order": order})
        rows.append(frame.with_columns(kept=pl.Series(rng.random(ITEMS) > chance)))
    table = pl.concat(rows).with_columns(system_a=pl.lit("A"), system_b=pl.lit("B"), rater=pl.lit("j"))
    preference_or_null = pl.when("kept").then("preference")
    return Preferences.make(table.drop("kept"))[0], Preferences.make(
        table.with_columns(preference=preference_or_null).drop("kept")
    )[0]


def margin(preferences: Preferences) -> float:
    return float(np.mean(preferences.merge_verdicts("mean")[0]["preference"].to_numpy()))


@pytest.mark.parametrize(
    ("gap", "lost", "whole_bias"),
    [
        (0.0, (0.02, 0.4), 0.119),  # fails in one order: the first position of the other order wins
        (0.5, (0.3, 0.3), -0.02),  # fails in both orders alike: half-judged comparisons count as a tie or a win
        (0.5, (0.02, 0.4), 0.096),
    ],
)
def test_left_out_halves_leave_no_bias_and_counted_ones_do(
    gap: float, lost: tuple[float, float], whole_bias: float
) -> None:
    complete, some = judge_preferences(gap, lost)
    truth = margin(complete)
    counted = Preferences(frame=some.frame)  # without missing rows the other order counts as not requested
    assert some.half_comparisons().height > 0.3 * ITEMS
    assert abs(margin(some) - truth) < 0.012  # standard error .005
    assert margin(counted) - truth == pytest.approx(whole_bias, abs=0.015)
