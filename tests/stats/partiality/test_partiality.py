from __future__ import annotations

import dataclasses
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.stats import ABSENT
from custodes.stats.partiality.largest import largest, rate_partiality
from custodes.stats.partiality.partiality import (
    FEWEST_UNITS,
    Reason,
    _distances_from_curves,
    partiality,
    win_rate_without,
)
from custodes.stats.partiality.placement import Placement
from custodes.stats.partiality.scores import (
    ScoredPeople,
    _link_coefficients,
    _taste_variances,
    human_side,
)
from tests.simulation.fair_metrics import Fair, signs_of
from tests.stats.partiality.dense import by_definition, of_signs

BOUNDS = {"alpha": 0.05, "confidence": 0.95}


def sample(seed: int, **fair):
    return Fair(**{"items": 60, "systems": 6, **fair}).draw(np.random.default_rng(seed))


def result_of(persons, metric, units=None):
    units = np.arange(metric.shape[0]) if units is None else units
    return partiality([ScoredPeople(persons, units=units).placement(metric)], **BOUNDS)


def same(first, second, places=slice(None)):
    for left, right in zip(first[:5], second[:5], strict=True):
        np.testing.assert_allclose(left[:, places], right, rtol=1e-7, atol=1e-10)


def test_an_annotator_without_ratings_changes_nothing():
    persons, _, _ = sample(2)
    persons = np.where(np.random.default_rng(2).random(persons.shape) < 0.2, np.nan, persons)
    whole = np.ones(persons.shape[1:], dtype=np.bool_), np.arange(persons.shape[1])
    side = human_side(persons, *whole)
    more = human_side(np.concatenate([persons, np.full((1, *persons.shape[1:]), np.nan)]), *whole)
    assert side.instruments is not None
    assert more.instruments is not None
    values, values_with_more = (
        [*one.instruments, one.quantiles, one.influence, one.powers_influence, *one.fields.values()]
        for one in (side, more)
    )
    for first, second in zip(values, values_with_more, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1), st.permutations(range(6)), st.permutations(range(60)))
def test_neither_the_order_of_systems_nor_of_items_matters(seed, systems, items):
    persons, metric, _ = sample(seed)
    moved = result_of(persons[:, items][..., systems], metric[items][:, systems])
    same(result_of(persons, metric), moved, list(systems))


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_the_metrics_scale_does_not_matter_and_peoples_unit_neither(seed):
    persons, metric, _ = sample(seed)
    same(result_of(persons, metric), result_of(persons, np.exp(metric)))
    same(result_of(persons, metric), result_of(3 * persons + 7, metric))


@settings(max_examples=6)
@given(st.integers(0, 2**32 - 1))
def test_both_turned_round_turn_the_favour(seed):
    persons, metric, _ = sample(seed)
    first, second = result_of(persons, metric), result_of(-persons, -metric)
    np.testing.assert_allclose(first.shift, -second.shift, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(first.low, -second.high, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(first.p_adjusted, second.p_adjusted, rtol=1e-6)


def test_test_and_interval_are_of_one_null():
    for seed in range(20):
        result = result_of(*sample(seed, favour=0.5)[:2])
        out = (result.low > 0) | (result.high < 0)
        np.testing.assert_array_equal(out, result.p_value <= 0.05)
        defined = np.isfinite(result.p_value)
        assert (result.p_adjusted[defined] >= result.p_value[defined] - 1e-12).all()


def test_its_sampling_error_is_that_of_resampled_items():
    # by brute force: the distance of every system in resamples of items (bootstrap standard deviation, 80 resamples)
    persons, metric, _ = sample(1, items=300, systems=8)
    units, rng = np.arange(300), np.random.default_rng(0)
    placement = ScoredPeople(persons, units=units).placement(metric)
    _, errors, _ = _distances_from_curves(placement, np.arange(8), ~np.eye(8, dtype=np.bool_))
    shifts = []
    for _ in range(80):
        items = rng.integers(0, 300, 300)
        shifts.append(result_of(persons[:, items], metric[items]).shift[0])
    expected = np.nanstd(shifts, axis=0)
    near = expected < 2 * np.median(expected)  # Far from the others a bootstrap of the curve has no standard deviation.
    assert near.sum() >= 5
    np.testing.assert_allclose(errors[near, 0], expected[near], rtol=0.25)


def test_what_was_planted_is_found_by_scores_and_by_verdicts():
    persons, metric, system = sample(5, items=200, systems=8, favour=1.0, place=4)
    human, signs, pairs = signs_of(persons, metric)
    for placement in (
        ScoredPeople(persons, units=np.arange(200)).placement(metric),
        of_signs(human, signs, pairs, units=np.arange(200)),
    ):
        result = partiality([placement], **BOUNDS)
        assert np.flatnonzero(result.p_adjusted[0] <= 0.05).tolist() == [system]
        assert result.shift[0, system] > 0
        gained, rank, without = win_rate_without(placement, result.shift[0])
        assert gained[system] > 0.1
        assert rank[system] <= without[system]


@pytest.mark.parametrize(("seed", "favour"), [(5, 0.6), (5, 1.5), (12, 1.0), (0, 0.0)])
def test_the_sequence_of_tests_is_that_of_its_definition(seed, favour):
    """The p-value of a system without others in the curve is that of a study in which the others are not connected."""
    n_systems, alpha = 7, 0.05
    persons, metric, _ = sample(seed, items=150, systems=n_systems, favour=favour)
    other_metric = metric + (np.arange(n_systems) == 2) * favour - (np.arange(n_systems) == 4) * favour
    people = ScoredPeople(persons, units=np.arange(150))
    placements = [people.placement(scores) for scores in (metric, other_metric)]

    def p_of(metric_index, system, removed):
        connected = ~np.isin(np.arange(n_systems), removed)
        placement = dataclasses.replace(placements[metric_index], connected=connected)
        return partiality([placement], systems=[system], **BOUNDS).p_value[0, system]

    flagged, rival_p = {0: [], 1: []}, {}
    remaining, largest, expected = list(np.ndindex(2, n_systems)), 0.0, np.full((2, n_systems), np.nan)
    while testable := [case for case in remaining if case not in rival_p]:
        case = min(testable, key=lambda case: p_of(*case, flagged[case[0]]))
        k, system = case
        p = p_of(k, system, flagged[k]) * len(remaining)
        if p > alpha:
            break
        rivals = [rival for rival in range(n_systems) if rival not in [*flagged[k], system]]
        p_without_rival = max(p_of(k, system, [*flagged[k], rival]) for rival in rivals)
        if p_without_rival > alpha:
            rival_p[case] = p_without_rival
            continue
        largest = expected[case] = max(largest, p, p_without_rival)
        flagged[k].append(system)
        remaining.remove(case)
        rival_p = {other: value for other, value in rival_p.items() if other[0] != k}
    for k, system in remaining:
        p = p_of(k, system, flagged[k]) * len(remaining)
        expected[k, system] = min(1.0, max(p, rival_p.get((k, system), 0.0), largest))
    result = partiality(placements, **BOUNDS)
    assert (result.reason <= Reason.NONE).all()
    np.testing.assert_allclose(result.p_adjusted, expected)


def test_win_rates_without_a_shift_by_their_definition():
    rng = np.random.default_rng(1)
    placement = ScoredPeople(*[sample(1)[0]], units=np.arange(60)).placement(sample(1)[1])
    advantage, steepness = rng.normal(size=(6, 6)), rng.uniform(0.5, 2, (6, 6))
    advantage[0, 1] = advantage[1, 0] = advantage[5] = advantage[:, 5] = np.nan  # system 5 has no opponents
    shift = np.array([0.4, -0.7, np.nan, 0.2, 1.5, 0.3])
    result = win_rate_without(dataclasses.replace(placement, advantage=advantage, steepness=steepness), shift)
    opponents = [[b for b in range(6) if b != a and np.isfinite(advantage[a, b])] for a in range(6)]
    with_shift = stats.norm.cdf(advantage)
    without_shift = stats.norm.cdf(advantage - np.nan_to_num(shift)[:, None] * steepness)
    rates = [np.mean(with_shift[a, opponents[a]]) if opponents[a] else 0.0 for a in range(6)]
    for a in range(6):
        rate = np.mean(without_shift[a, opponents[a]]) if opponents[a] else 0.0
        assert result[0][a] == pytest.approx(rates[a] - rate)
        assert result[1][a] == 1 + sum(rates[b] > rates[a] for b in range(6))
        gained = {b: (with_shift[a, b] - without_shift[a, b]) / len(opponents[b]) for b in opponents[a]}
        assert result[2][a] == 1 + sum(rates[b] + gained.get(b, 0.0) > rate + 1e-12 for b in range(6) if b != a)
    assert (result[1] != result[2]).any()


@pytest.mark.parametrize(("taste", "is_significant"), [(0.0, False), (1.0, True)])
def test_individual_preferences_are_an_interaction_of_annotators_and_systems(taste, is_significant):
    rng = np.random.default_rng(3)
    ratings = rng.normal(size=(40, 5)) + taste * rng.normal(size=(4, 1, 5)) + rng.normal(size=(4, 40, 5))
    rated = rng.random(ratings.shape) < 0.5
    rated[0, :, 1] = False  # an annotator without a system
    rated[:, :10, 2] = False
    rated[3, :10, 2] = True  # single ratings
    ratings = np.where(rated, ratings, 0.0)
    n = rated.sum(axis=0)
    repeated = rated & (n > 1)
    deviations = np.where(repeated, ratings - ratings.sum(axis=0) / np.maximum(n, 1), 0.0)
    cells = [(a, s) for a in range(4) for s in range(5) if repeated[a, :, s].any()]
    sizes = np.array([repeated[a, :, s].sum() for a, s in cells])
    between = sum(repeated[a, :, s].sum() * deviations[a, repeated[a, :, s], s].mean() ** 2 for a, s in cells)
    freedom = len(cells) - 5 - 4 + 1
    rest = (n - 1)[n > 1].sum() - freedom
    variances = between / freedom, ((deviations**2).sum() - between) / rest
    assert (stats.f.sf(variances[0] / variances[1], freedom, rest) < 0.01) == is_significant
    inflation = (stats.t.ppf(0.997, freedom) / stats.norm.ppf(0.997)) ** 2
    variance = inflation * (variances[0] - variances[1]) / sizes.mean() * is_significant
    output_mask = rated.any(axis=0)
    np.testing.assert_allclose(_taste_variances(ratings, rated, output_mask), variance / np.array([4, 3, 4, 4, 4]))
    assert not _taste_variances(ratings[..., :1], rated[..., :1], output_mask[:, :1]).any()  # no interaction


def test_individual_preferences_need_twenty_repeated_ratings():
    ratings = np.array([1.0, -1.0])[:, None, None] * np.array([1.0, -1.0]) + np.zeros((2, 10, 2))
    ratings[:, ::2] *= 1.1
    rated = np.ones(ratings.shape, dtype=np.bool_)
    assert (_taste_variances(ratings, rated, rated[0]) > 0).all()
    rated[0, 9, 0] = False
    assert not _taste_variances(ratings * rated, rated, rated[0]).any()


def test_missing_scores_of_items_leave_the_rest_as_it_is():
    persons, metric, _ = sample(8)
    missing = metric.copy()
    missing[:20] = np.nan
    same(result_of(persons, missing), result_of(persons[:, 20:], metric[20:]))


def test_why_it_cannot_be_told():
    persons, metric, _ = sample(2)
    assert (result_of(persons[..., :4], metric[:, :4]).reason == Reason.FEW_SYSTEMS).all()
    assert (result_of(persons[..., :5], metric[:, :5]).reason == Reason.NONE).all()
    rare = metric.copy()
    rare[FEWEST_UNITS - 1 :, 2] = rare[FEWEST_UNITS:, 3] = rare[:, 4] = np.nan
    few = [0, 0, Reason.FEW_UNITS, Reason.WIDE, Reason.UNRATED, 0, 0]  # ten clusters are enough for an interval
    assert result_of(persons[..., [*range(6), 0]], rare[:, [*range(6), 0]]).reason[0].tolist() == few
    for distance, system in ((20.0, 5), (-20.0, 2)):
        distant = persons + distance * (np.arange(6) == system)
        assert result_of(distant, metric).reason[0].tolist() == np.where(np.arange(6) == system, 9, 0).tolist()
    # With one rating per output and few systems, the curve covers the best system only with a wide interval.
    best = np.array([0, 0, 0, 0, 0, 2.0])
    assert result_of(persons[:1] + best, metric + best).reason[0].tolist() == [0, 0, 0, 0, 0, Reason.WIDE]
    # two sets of systems without a common item
    both = np.full((4, 120, 12), np.nan)
    both[:3, :60, :6] = both[:3, 60:, 6:] = persons
    both[3, :60, :6] = both[3, 60:, 6:] = metric
    reason = result_of(both[:3], both[3]).reason[0]
    assert reason.tolist() == [0] * 6 + [Reason.UNCONNECTED] * 6


@pytest.mark.parametrize("annotators", [2, 3, 5])
def test_the_coefficients_of_a_curved_link_have_no_bias_from_noise(annotators):
    # Noise and quality have variance 1; a regression on means of ratings finds less than half of the square.
    rng = np.random.default_rng(annotators)
    quality = rng.normal(size=(20000, 6))
    persons = quality + rng.normal(size=(annotators, *quality.shape))
    side = human_side(persons, np.ones(quality.shape, dtype=np.bool_), np.arange(20000))
    scale = persons.mean(axis=0).std()
    coefficients, covariance = _link_coefficients(side.instruments, 0.5 * quality + 0.1 * quality**2, np.arange(20000))
    assert coefficients[0] == pytest.approx(0.1 * scale**2, abs=4 * np.sqrt(covariance[0, 0]) + 0.01)
    assert coefficients[1] == pytest.approx(0.0, abs=4 * np.sqrt(covariance[1, 1]) + 0.01)


def test_people_or_metrics_that_tie_on_everything_accuse_nobody():
    persons, metric, _ = sample(0)
    for human, metric_values in ((np.ones_like(persons), metric), (persons, np.ones_like(metric))):
        assert (result_of(human, metric_values).reason == Reason.LEVEL).all()


def test_other_systems_that_are_level_leave_no_slope():
    rng = np.random.default_rng(0)
    persons = np.repeat(rng.integers(1, 6, (3, 60, 1)), 6, axis=2).astype(np.float64)
    persons[..., 0] += 1
    metric = persons.mean(axis=0) + rng.normal(size=(60, 6))
    result = result_of(persons, metric)
    assert np.isfinite(result.p_value).all()
    assert not (result.p_adjusted[0, 1:] <= 0.05).any()


def test_where_only_some_systems_are_asked_about_the_others_fix_the_curve_and_are_no_tests():
    persons, metric, _ = sample(3)
    placement = ScoredPeople(persons, units=np.arange(metric.shape[0])).placement(metric)
    full = partiality([placement], **BOUNDS)
    defined = np.flatnonzero(np.isfinite(full.shift[0]))
    first = partiality([placement], systems=[int(defined[0])], **BOUNDS)
    assert np.flatnonzero(np.isfinite(first.shift[0])).tolist() == [defined[0]]
    assert first.p_value[0, defined[0]] == pytest.approx(full.p_value[0, defined[0]])
    assert first.p_adjusted[0, defined[0]] <= full.p_adjusted[0, defined[0]]


def test_a_metric_is_placed_as_if_it_were_alone() -> None:
    """The human data of a placement depend on the outputs that this metric scored, not on previous metrics."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=(60, 5))
    persons, units = quality + rng.normal(size=(3, 60, 5)), np.arange(60) // 2
    metrics = quality**2 + quality + rng.normal(size=(4, 60, 5))
    metrics[1:3, :9] = np.nan
    together = ScoredPeople(persons, units=units)
    for metric in metrics:
        alone, joint = ScoredPeople(persons, units=units).placement(metric), together.placement(metric)
        for field in fields(alone):
            np.testing.assert_array_equal(getattr(joint, field.name), getattr(alone, field.name))


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 4])
def test_rows_place_as_the_definition(share: float, size: int) -> None:
    rng = np.random.default_rng(int(100 * share) + size)
    pairs = np.array([(a, b) for a in range(7) for b in range(a + 1, 7)])
    human, metric = rng.choice(np.array([1, 0, -1], dtype=np.int8), size=(2, len(pairs), 120))
    for signs in (human, metric):
        signs[rng.random(signs.shape) > share] = ABSENT
    units = rng.permutation(np.arange(120) // size)
    actual, expected = of_signs(human, metric, pairs, units=units), by_definition(human, metric, pairs, units=units)
    for field in dataclasses.fields(expected):
        first, second = getattr(actual, field.name), getattr(expected, field.name)
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12, err_msg=field.name)


def test_the_largest_partiality_has_the_bounds_of_all_systems() -> None:
    nan = np.nan
    rates = np.array(
        [
            [[0.3, -0.4, nan], [-0.1, 0.1, 0.05], [nan, nan, nan]],
            [[0.2, -0.5, nan], [-0.2, -0.1, -0.2], [nan, nan, nan]],
            [[0.6, -0.1, nan], [0.3, 0.2, 0.1], [nan, nan, nan]],
        ]
    )
    result = largest(rates)
    np.testing.assert_allclose(result[0], [0.4, 0.1, nan])
    np.testing.assert_allclose(result[1], [0.2, 0.0, nan])  # the interval of the first system excludes less
    np.testing.assert_allclose(result[2], [0.6, 0.3, nan])
    assert result[3].tolist() == [1, 0, -1]
    mirrored = largest(-rates[[0, 2, 1]])
    for one, other in zip(result, mirrored, strict=True):
        np.testing.assert_array_equal(one, other)


def test_partiality_in_win_rates_has_joint_intervals_of_all_systems() -> None:
    persons, metric, *_ = sample(3)
    placement = ScoredPeople(persons, units=np.arange(60)).placement(metric)
    rates = rate_partiality([placement, placement], confidence=0.9)
    found = partiality([placement], alpha=0.1, confidence=1 - 0.1 / 6)
    expected = [win_rate_without(placement, shift[0])[0] for shift in (found.shift, found.low, found.high)]
    np.testing.assert_allclose(rates[:, 0], expected)
    np.testing.assert_array_equal(rates[:, 0], rates[:, 1])
    part = rate_partiality([placement], confidence=0.9, systems=[4])
    assert np.isfinite(part[0, 0]).tolist() == [k == 4 for k in range(6)]


def test_easy_items_of_a_system_do_not_bend_the_curve() -> None:
    rng = np.random.default_rng(0)
    items, systems = 400, 6
    quality = np.linspace(-0.3, 0.3, systems) + np.where(np.arange(items) < 200, 1.5, -0.5)[:, None]
    persons = np.clip(np.rint(3 + quality + rng.normal(0, 1, (3, items, systems))), 1, 5)
    whole = np.ones((items, systems), dtype=np.bool_)
    complete = human_side(persons, whole, np.arange(items))
    whole[:190, ::2] = whole[210:, 1::2] = False  # even systems have mainly hard items
    part = human_side(np.where(whole, persons, np.nan), whole, np.arange(items))
    assert (persons == 5).mean() > 0.2
    assert 0 < np.abs(complete.fields["bend"]).max() < 0.05
    assert np.abs(part.fields["bend"]).max() < 0.15


@pytest.mark.parametrize("residual_scale", [0.3, 1.5, 4.0])
def test_intervals_include_the_misfit_of_the_other_systems(residual_scale: float) -> None:
    """With exact human means and equal sampling errors of the metric, the curve is a regression line. The reference
    integrates the prior of the misfit (half-Cauchy, and half-normal in standard deviations of outputs) numerically."""
    from scipy.integrate import quad
    from scipy.optimize import brentq
    from scipy.stats import t

    human, sampling_variance, n_units = np.array([-1.1, -0.6, -0.1, 0.3, 0.9, 0.2]), 0.04**2, 40
    residuals = 0.04 * residual_scale * np.array([1.0, -1.4, 0.9, -1.1, 0.6, 0.0])
    zeros, ones = np.zeros((6, 6)), np.ones((6, 6))
    placement = Placement(
        human=human,
        metric=0.8 * human + residuals,
        hh=zeros,
        hm=zeros,
        mm=sampling_variance * np.eye(6),
        bend=np.zeros(6),
        powers=np.zeros((2, 6)),
        powers_covariance=1e-12 * np.eye(2),
        spread=1.0,
        units=np.full(6, n_units),
        connected=np.ones(6, dtype=np.bool_),
        is_compared_with_all=np.ones(6, dtype=np.bool_),
        advantage=zeros,
        steepness=ones,
    )
    result = partiality([placement], systems=[5], **BOUNDS)
    line = np.polyfit(human[:5], placement.metric[:5], 1)
    squares = float(((placement.metric[:5] - np.polyval(line, human[:5])) ** 2).sum())
    deviations = human[:5] - human[:5].mean()
    contrast = 1 + 1 / 5 + (human[5] - human[:5].mean()) ** 2 / (deviations**2).sum()

    def density(misfit: float) -> float:
        variance = sampling_variance * (1 + misfit**2)
        likelihood = variance ** (-3 / 2) * np.exp(-squares / (2 * variance)) / sampling_variance ** (-3 / 2)
        prior = np.exp(-sampling_variance * (misfit / 0.1) ** 2 / 2) / (1 + (misfit / 0.1) ** 2)
        return float(likelihood * prior)

    def tail(distance: float) -> float:
        def integrand(misfit: float) -> float:
            error = np.sqrt(sampling_variance * contrast * (1 + misfit**2))
            return density(misfit) * 2 * float(t.sf(distance / error, n_units - 1))

        whole, part = (quad(function, 0, 50, points=[0.1, 1, 5], limit=200)[0] for function in (density, integrand))
        return float(part / whole - 0.05)

    shift = placement.metric[5] - np.polyval(line, human[5])
    assert result.shift[0, 5] == pytest.approx(shift, abs=1e-6)
    half_width = (result.high[0, 5] - result.low[0, 5]) / 2
    assert half_width == pytest.approx(brentq(tail, 1e-4, 10), rel=0.01)
