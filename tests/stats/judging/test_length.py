from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from custodes.stats import ABSENT
from custodes.stats.intervals import Inference
from custodes.stats.judging.length import (
    MODEL_ERROR,
    _bound_length_bias,
    _LatentCorrelations,
    is_in_informative_stratum,
    length_bias,
)
from custodes.stats.logistic import first_coefficient

RNG = np.random.default_rng(4)


def verdicts(view: np.ndarray, ties: float = 0.0) -> np.ndarray:
    return (np.sign(view) * (np.abs(view) > ties)).astype(np.int8)


def judge_and_people(
    n: int = 800, *, n_people: int = 3, bias: float = 0.0, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    quality, length = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=n).T
    panel = verdicts(quality + rng.normal(size=(n_people, n)), 0.3)
    return verdicts(quality + bias * length + rng.normal(size=n), 0.2), panel, length


def length_bias_of(judge: np.ndarray, human: np.ndarray, length: np.ndarray, **more: Any) -> Inference:
    units = more.pop("units", np.arange(len(judge)))
    strata = more.pop("strata", np.zeros(len(judge), dtype=int))
    return length_bias(judge, human, length, strata=strata, units=units, confidence=0.95)


def close(first: Inference, second: Inference, sign: int = 1) -> None:
    assert second.estimate == pytest.approx(sign * first.estimate)
    assert second.p_value == pytest.approx(first.p_value)


def test_a_fair_judge_is_left_alone_where_quality_goes_with_length_and_a_biased_one_is_named() -> None:
    fair, biased = length_bias_of(*judge_and_people()), length_bias_of(*judge_and_people(bias=0.7))
    assert fair.p_value > 0.05
    assert biased.p_value < 1e-6
    assert biased.low > 0.1


def test_symmetries() -> None:
    judge, human, length = judge_and_people(bias=0.3)
    first = length_bias_of(judge, human, length)
    close(first, length_bias_of(-judge, -human, -length))  # systems exchanged
    close(first, length_bias_of(judge, human, -length), -1)
    close(first, length_bias_of(judge, human[::-1], length))
    close(first, length_bias_of(judge, human, 7 * length))
    pairs = np.arange(len(judge)) % 4
    mixed = np.where(pairs % 2, 1, -1).astype(np.int8)  # each pair of systems in either order
    by_pair = length_bias_of(judge, human, length, strata=pairs)
    close(by_pair, length_bias_of(mixed * judge, mixed * human, mixed * length, strata=pairs))
    # The average length of a system has no effect.
    close(by_pair, length_bias_of(judge, human, length + pairs, strata=7 - pairs))


def test_pairs_of_systems_that_tell_nothing_are_left_out() -> None:
    judge, human, length = judge_and_people()
    first = length_bias_of(judge, human, length)
    won = np.ones(300, dtype=np.int8)  # One system always wins; another pair has nine comparisons.
    more = np.concatenate([judge, won, judge[:9]])
    panel = np.concatenate([human, np.stack([won] * 3), human[:, :9]], axis=1)
    long = np.concatenate([length, RNG.normal(size=300), length[:9]])
    close(first, length_bias_of(more, panel, long, strata=np.repeat([0, 1, 2], [len(judge), 300, 9])))
    assert np.isnan(length_bias_of(judge, human, length, strata=np.arange(len(judge)) // 9).p_value)


def test_who_rated_nothing_says_nothing() -> None:
    judge, human, length = judge_and_people()
    absent = np.full((1, len(judge)), ABSENT, dtype=np.int8)
    close(length_bias_of(judge, human, length), length_bias_of(judge, np.concatenate([human, absent]), length))
    assert np.isnan(length_bias_of(judge, absent, length).p_value)
    assert np.isnan(length_bias_of(judge, human, np.full(len(judge), np.nan)).p_value)


@pytest.mark.parametrize(
    ("outcomes", "is_informative"),  # wins, ties and losses of the pair's first system, by judge and annotator
    [
        (((9, 0, 1), (5, 0, 5)), True),
        (((5, 0, 5), (1, 0, 9)), True),
        (((10, 0, 1), (5, 0, 6)), False),
        (((5, 0, 6), (1, 0, 10)), False),
        (((1, 8, 1), (1, 8, 1)), True),
        (((0, 5, 5), (5, 0, 5)), False),
        (((5, 0, 4), (5, 0, 4)), False),
    ],
)
def test_each_system_of_a_pair_wins_a_tenth_of_ten_comparisons(outcomes: tuple, *, is_informative: bool) -> None:
    judge, human = (np.repeat([1, 0, -1], numbers).astype(np.int8) for numbers in outcomes)
    strata = np.concatenate([np.full(len(judge), 7), np.zeros(12, dtype=int)])
    decided = np.array([1, -1] * 6, dtype=np.int8)  # an informative pair
    rated = is_in_informative_stratum(
        np.ones(len(strata), dtype=bool),
        np.concatenate([judge, decided]),
        np.concatenate([human, decided])[np.newaxis],
        strata,
    )
    assert rated.tolist() == [is_informative] * len(judge) + [True] * 12


def test_annotators_who_do_not_agree_or_share_no_comparison() -> None:
    judge, human, length = judge_and_people(bias=0.5)
    assert np.isnan([*length_bias_of(judge, verdicts(RNG.normal(size=(2, 800))), length)]).all()
    assert np.isnan([*length_bias_of(judge, human, length, units=np.zeros(800, dtype=int))]).all()
    human[0, ::2] = human[1, 1::2] = ABSENT  # no comparison of the first and second annotator
    first, second = length_bias_of(judge, human, length), length_bias_of(judge, human[::-1], length)
    assert first.p_value < 0.01
    close(first, second)
    assert np.isnan([*length_bias_of(judge, human[:2], length)]).all()


def test_one_person_gives_a_bound_that_holds_what_several_say() -> None:
    for bias in (0.0, 0.5):
        judge, human, length = judge_and_people(4000, bias=bias)
        by_pair, alone = length_bias_of(judge, human, length), length_bias_of(judge, human[:1], length)
        assert alone.low - 0.05 <= by_pair.estimate <= alone.high + 0.05
    assert np.isnan(
        length_bias_of(*judge_and_people(n_people=1)).p_value
    )  # Direct and reverse regression differ in sign for a fair judge.


def test_slopes_are_those_of_statsmodels() -> None:
    judge, human, length = judge_and_people()
    mean = human.mean(axis=0)
    units = np.arange(len(judge)) // 4
    decided = judge != 0
    outcome, groups = (1 + judge[decided]) / 2, units[decided]
    for columns in (length[:, None], np.stack([length, mean], axis=1)):
        design = columns[decided]
        slope = first_coefficient(outcome, design, groups, confidence=0.95)
        fit = sm.GLM(outcome, design, family=sm.families.Binomial()).fit(
            cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True}
        )
        assert slope.estimate == pytest.approx(fit.params[0], abs=1e-6)
        # statsmodels multiplies by (n - 1) / (n - k), too
        half = (slope.high - slope.low) / 2
        assert half == pytest.approx(1.96 * fit.bse[0], rel=0.03)


def test_slopes_that_do_not_exist_are_nan() -> None:
    length = RNG.normal(size=30)
    slope = first_coefficient((1 + verdicts(length)) / 2, length[:, None], np.arange(30), confidence=0.95)
    assert np.isnan(slope.estimate)  # separated data


def test_bounds_with_one_annotator_follow_the_formula_with_the_data_in_row_0() -> None:
    rng = np.random.default_rng(6)
    judge, human, overall = 0.4 + rng.normal(0, 0.02, 6), 0.3 + rng.normal(0, 0.02, 6), 0.5 + rng.normal(0, 0.02, 6)
    empty = np.zeros((6, 0))
    result = _bound_length_bias(_LatentCorrelations(judge, human, overall[:, None], empty, empty, empty, empty), 0.95)
    partial = (overall - judge * human) / np.sqrt((1 - judge**2) * (1 - human**2))
    bounds = []
    for reliability in (np.ones(6), human**2 + partial**2 * (1 - human**2)):
        values = (judge * reliability - overall * human) / (1 - human[0] ** 2)
        jackknife = np.sqrt(4 / 5 * ((values[1:] - values[1:].mean()) ** 2).sum())
        error = np.hypot(jackknife, MODEL_ERROR)
        half_width = stats.t.ppf(0.975, 4) * error
        bounds += [values[0] - half_width, values[0] + half_width]
    assert result.low == pytest.approx(min(bounds), abs=1e-12)
    assert result.high == pytest.approx(max(bounds), abs=1e-12)
    assert result.estimate == pytest.approx((judge[0] - overall[0] * human[0]) / (1 - human[0] ** 2), abs=1e-12)
