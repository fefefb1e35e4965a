"""Bradley-Terry models with ties, fitted to comparisons or counts of one rater, or to human ratings and a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress, pairwise
from typing import Any

import numpy as np
import polars as pl

from custodes.data.comparisons import Comparisons
from custodes.data.outcome_counts import SIGNS
from custodes.data.panel import label_codes
from custodes.errors import join_labels
from custodes.evaluate.design import Design
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST, Covariate, order_matters
from custodes.memory import check_memory
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.graphs import clearest_cycles
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.corrected import correct_strengths
from custodes.stats.strength.more_battles import more_battles
from custodes.stats.strength.pair_tests import DirectTests, direct_tests
from custodes.stats.strength.ranks import Ranks, ranks
from custodes.stats.strength.removal import Removal, smallest_removal
from custodes.stats.strength.strengths import Strengths, TieModel, strengths
from custodes.stats.strength.win_rates import PairRates, pair_rates, system_intervals, system_rates, unexplained_share

NOT_RANDOM = 0.01
"""Level of the tests of the assumptions of a correction by a metric. If a p-value is below this level, no correction is
made.

There are three assumptions: the human comparisons are a random sample, their number agrees with the inclusion
probabilities, and the presentation orders of annotators are balanced.
"""

FEWEST_DIFFERENT = 5
"""A correction requires this number of comparisons in which human ratings and the metric differ.

With fewer such comparisons, the errors of the metric cannot be estimated, and standard errors would be nearly 0."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the fit: number of systems, model of ties, confidence level and number of resamples.

    `test_pairs`: each pair is also tested with only the comparisons between its two systems. The tests of single pairs
    are valid only if the numbers of comparisons did not depend on outcomes. `search_removal`: search for the smallest
    set of comparisons whose removal changes the leader. `by_pair`: the human comparisons of each pair are a random
    sample, and the size of the sample may depend on the outcomes.
    """

    n_systems: int
    tie_model: TieModel
    confidence: float
    resamples: int
    test_pairs: bool = True
    search_removal: bool = True
    by_pair: bool = False


@dataclass(frozen=True, kw_only=True)
class FittedModel:
    """Strengths, ranks and win rates, estimated from the comparisons of one rater.

    Attributes
    ----------
    strengths, ranks
        Strengths and ranks of the systems.
    rates, rates_low, rates_high : arrays of shape (1 + B, systems), (systems,), (systems,)
        Win rates, and the bounds of their intervals.
    pairs : PairRates or None
        Win rates of the pairs of systems that were compared; None if the model is corrected.
    direct : DirectTests or None
        Tests of each pair with only the comparisons between its two systems; None if there are no tests.
    removal : Removal or None
        The fewest comparisons whose removal changes the leader.
    more_battles : array of shape (pairs,)
        Number of further comparisons that would decide each pair with 50 % power.
    battles : int array of shape (systems,)
        Number of comparisons of each system.
    effects, unvaried : tuple of str
        Names of the covariates in the model, and names of the covariates for which strengths cannot be adjusted.
    missing : int
        Number of comparisons left out because a covariate is missing.
    """

    strengths: Strengths
    ranks: Ranks
    rates: Floats
    rates_low: Floats
    rates_high: Floats
    pairs: PairRates | None
    direct: DirectTests | None
    removal: Removal | None
    more_battles: Floats
    battles: Ints
    effects: tuple[str, ...]
    unvaried: tuple[str, ...]
    missing: int

    @property
    def unknown(self) -> Bools:
        """Whether a system has no comparison, (systems,)."""
        return np.asarray(np.isnan(self.strengths.draws[0]))

    @cached_property
    def cycles(self) -> list[tuple[list[int], float, float]]:
        """The cycles of systems in which each system significantly beats the next system by direct comparisons.

        A cycle is a tuple of the systems in order, the smallest win rate against the next system, and the largest
        p-value.
        """
        pair_rates, pair_tests = self.pairs, self.direct
        if pair_rates is None or pair_tests is None or not pair_tests.better.any():
            return []
        win_rates, p_values = np.zeros((2, len(self.battles), len(self.battles)))
        is_first_win, is_second_win = pair_tests.better > 0, pair_tests.better < 0
        for is_won_pair, winners, losers, winner_rates in (
            (is_first_win, pair_rates.first, pair_rates.second, pair_rates.rate),
            (is_second_win, pair_rates.second, pair_rates.first, 1 - pair_rates.rate),
        ):
            win_rates[winners[is_won_pair], losers[is_won_pair]] = winner_rates[is_won_pair]
            p_values[winners[is_won_pair], losers[is_won_pair]] = pair_tests.p_direct[is_won_pair]
        return [
            (
                systems_of_cycle,
                min(win_rates[winner, loser] for winner, loser in pairwise([*systems_of_cycle, systems_of_cycle[0]])),
                max(p_values[winner, loser] for winner, loser in pairwise([*systems_of_cycle, systems_of_cycle[0]])),
            )
            for systems_of_cycle in clearest_cycles(win_rates)
        ]


@dataclass(frozen=True, kw_only=True)
class CorrectedModel:
    """Human strengths, estimated from the human comparisons and all comparisons of a metric.

    If the model cannot be fitted, `model` is None and `reason` says why. `labels` is the number of comparisons that
    both annotators and metric rated, and `battles` is the number of comparisons of the metric. `order_averaged` is true
    if annotators and metric saw outputs in different presentation orders; the effect of the order is then averaged
    out."""

    metric: str
    labels: int
    battles: int
    model: FittedModel | None = None
    saving: float = np.nan
    p_random: float = np.nan
    reason: str = ""
    order_averaged: bool = False


Model = tuple[str, str, str, Callable[[np.random.Generator], FittedModel | CorrectedModel]]
"""Aspect, rater, label and fit function of a model. Models with equal labels are fitted once."""


def fit_comparisons(
    comparisons: Comparisons,
    rng: np.random.Generator,
    *,
    design: Design,
    covariates: Sequence[Covariate],
    options: Options,
) -> FittedModel:
    """Fit the model to the comparisons of one rater."""
    _, battles, covariate_model_fields = _model_data(comparisons, design, covariates)
    return _fit_model(battles, rng, options, **covariate_model_fields)


def fit_counts(
    counts_by_order: pl.DataFrame,
    rng: np.random.Generator,
    *,
    systems: Sequence[str],
    independent: bool,
    options: Options,
) -> FittedModel:
    """Fit the model to a table of counts of one rater, with the columns of `BY_ORDER`.

    The model has intervals and tests only if comparisons are `independent` (no two comparisons share an item).
    """
    first_systems, second_systems = (
        label_codes(counts_by_order[column_name], systems) for column_name in ("system_a", "system_b")
    )
    counts_by_row_and_outcome = counts_by_order.select(list(SIGNS)).to_numpy()
    covariate_matrix, covariate_model_fields = _identified_covariates(
        {SHOWN_FIRST: counts_by_order["order"].to_numpy()},
        first_systems,
        second_systems,
        len(systems),
        counts_by_row_and_outcome.sum(axis=1),
    )
    count_row_of_battle, outcome_indices = np.nonzero(counts_by_row_and_outcome)
    battles = Battles(
        first=first_systems[count_row_of_battle],
        second=second_systems[count_row_of_battle],
        sign=np.array([*SIGNS.values()], dtype=np.int8)[outcome_indices],
        unit=np.arange(len(count_row_of_battle)),
        weight=np.ones(len(count_row_of_battle)),
        covariates=covariate_matrix[count_row_of_battle],
        times=counts_by_row_and_outcome[count_row_of_battle, outcome_indices],
    )
    if independent:
        return _fit_model(battles, rng, options, **covariate_model_fields)
    fitted_model = _fit_model(battles, rng, replace(options, resamples=0, test_pairs=False), **covariate_model_fields)
    assert fitted_model.pairs is not None
    nan_bounds = np.full(len(fitted_model.pairs.first), np.nan)
    return replace(fitted_model, pairs=replace(fitted_model.pairs, low=nan_bounds, high=nan_bounds))


def _fit_model(
    battles: Battles, rng: np.random.Generator, options: Options, **covariate_model_fields: Any
) -> FittedModel:
    """Fit the model to comparisons; `covariate_model_fields` are the fields of the result about covariates."""
    n_systems, resamples, confidence = options.n_systems, options.resamples, options.confidence
    # Memory for strengths, win rates, ranks and points of each system, and for sorted copies.
    check_memory("resamples", resamples, 8 * (1 + resamples) * n_systems)
    battles = battles.merge_equal_clusters()
    fitted_strengths = strengths(battles, n_systems=n_systems, ties=options.tie_model, resamples=resamples, rng=rng)
    # The generator does not depend on the seed, so that a sentence with a win rate is the same for every seed.
    win_rates = system_rates(battles, n_systems=n_systems, resamples=resamples, rng=np.random.default_rng(STREAM))
    pair_win_rates = pair_rates(battles, confidence=confidence)
    rates_low, rates_high = system_intervals(win_rates, battles, confidence=confidence)
    system_ranks = ranks(fitted_strengths, confidence=confidence)
    return FittedModel(
        strengths=fitted_strengths,
        ranks=system_ranks,
        rates=win_rates,
        rates_low=rates_low,
        rates_high=rates_high,
        pairs=pair_win_rates,
        direct=direct_tests(pair_win_rates, battles, fitted_strengths, confidence=confidence)
        if options.test_pairs
        else None,
        removal=smallest_removal(battles, fitted_strengths) if options.search_removal else None,
        more_battles=more_battles(fitted_strengths, pair_win_rates, system_ranks.apart, confidence=confidence),
        battles=np.bincount(
            np.concatenate([battles.first, battles.second]),
            weights=np.tile(battles.multiplicity, 2),
            minlength=n_systems,
        ).astype(np.int64),
        **covariate_model_fields,
    )


def fit_corrected(
    metric: Comparisons,
    rng: np.random.Generator,
    *,
    human: Comparisons,
    design: Design,
    covariates: Sequence[Covariate],
    options: Options,
) -> CorrectedModel:
    """Fit human strengths to human comparisons and to comparisons of a metric.

    A comparison of the metric is used only if each of its two systems occurs in a human comparison (of any pair).
    """
    n_systems = options.n_systems
    is_annotated_system = np.isin(np.arange(n_systems), [human.first, human.second])
    model_comparisons, battles, covariate_model_fields = _model_data(
        metric.select_rows(is_annotated_system[metric.first] & is_annotated_system[metric.second]), design, covariates
    )
    human_row_indices, is_labelled_comparison = match_comparisons(human, model_comparisons)
    n_labelled_comparisons = int(is_labelled_comparison.sum())
    correction = CorrectedModel(metric=metric.raters[0], labels=n_labelled_comparisons, battles=len(model_comparisons))
    human_signs = np.where(is_labelled_comparison, human.sign[human_row_indices], ABSENT).astype(np.int8)
    item_probabilities = design.probability[model_comparisons.item]
    inclusion_probabilities = item_probabilities if np.isfinite(item_probabilities).all() else None
    items_without_probability = [
        design.items[item_index] for item_index in np.unique(model_comparisons.item[np.isnan(item_probabilities)])
    ]
    n_differing_comparisons = int((human_signs != model_comparisons.sign)[is_labelled_comparison].sum())
    conditions_and_reasons = (
        (
            not 0 < n_labelled_comparisons < len(model_comparisons),
            f"annotators rated {'all' if n_labelled_comparisons else 'none'} of the comparisons of the metric",
        ),
        (
            inclusion_probabilities is None and np.isfinite(item_probabilities).any(),
            f"the items table gives no probability for {len(items_without_probability)} items "
            f"({join_labels(items_without_probability, limit=2)})",
        ),
        (
            n_differing_comparisons < FEWEST_DIFFERENT,
            f"annotators and metric differ on only {n_differing_comparisons} of {n_labelled_comparisons} comparisons, "
            "so the metric's errors cannot be estimated",
        ),
    )
    reason_text = next((reason for applies, reason in conditions_and_reasons if applies), "")
    if reason_text:
        return replace(correction, reason=reason_text)
    human_orders = human.order[human_row_indices][is_labelled_comparison]
    if not _is_same_order(human_orders, model_comparisons, is_labelled_comparison, n_systems=n_systems):
        reason_text = unbalanced_order(
            human_orders,
            model_comparisons.pair[is_labelled_comparison],
            design.units[model_comparisons.item[is_labelled_comparison]],
        )
        correction = replace(correction, order_averaged=True)
        _, battles, fields_without_order = _model_data(
            replace(model_comparisons, order=np.zeros(len(model_comparisons))), design, covariates
        )
        covariate_model_fields = fields_without_order | {"missing": covariate_model_fields["missing"]}
    if not reason_text and inclusion_probabilities is not None:
        reason_text = sampling_mismatch(
            inclusion_probabilities,
            is_labelled_comparison,
            item_codes=model_comparisons.item,
            cluster_of_item=design.units,
        )
    if reason_text:
        return replace(correction, reason=reason_text)
    unexplained_shares = unexplained_share(
        battles.covariates[is_labelled_comparison],
        battles.first[is_labelled_comparison],
        battles.second[is_labelled_comparison],
        n_systems=n_systems,
    )
    if not unexplained_shares.all():
        constant_covariates_text = join_labels(
            list(compress(covariate_model_fields["effects"], unexplained_shares == 0))
        )
        return replace(
            correction,
            reason=f"on the comparisons that annotators rated, {constant_covariates_text} does not vary within systems",
        )
    corrected_fit = correct_strengths(
        battles,
        human_signs,
        n_systems=n_systems,
        ties=options.tie_model,
        probability=inclusion_probabilities,
        by_pair=options.by_pair and inclusion_probabilities is None,
        resamples=options.resamples,
        rng=rng,
    )
    correction = replace(correction, p_random=corrected_fit.p_random)
    if inclusion_probabilities is None and corrected_fit.p_random < NOT_RANDOM:
        return replace(correction, reason="the human comparisons are not a random part of the metric's comparisons")
    return replace(
        correction,
        model=FittedModel(
            strengths=corrected_fit.strengths,
            ranks=ranks(corrected_fit.strengths, confidence=options.confidence),
            rates=np.full((1, n_systems), np.nan),
            rates_low=np.full(n_systems, np.nan),
            rates_high=np.full(n_systems, np.nan),
            pairs=None,
            direct=None,
            removal=None,
            more_battles=np.empty(0),
            battles=np.bincount(
                np.concatenate([model_comparisons.first, model_comparisons.second]), minlength=n_systems
            ),
            **covariate_model_fields,
        ),
        saving=corrected_fit.saving,
    )


def _is_same_order(human_orders: Floats, metric: Comparisons, is_labelled_comparison: Bools, *, n_systems: int) -> bool:
    """Whether annotators and metric saw the same orders, or whether no adjustment for the order is needed.

    `human_orders` (labelled rows,) are the orders in which annotators saw the outputs.
    """
    pair_codes = metric.first * n_systems + metric.second
    return bool((human_orders == metric.order[is_labelled_comparison]).all()) or not (
        order_matters(pair_codes, metric.order) or order_matters(pair_codes[is_labelled_comparison], human_orders)
    )


def unbalanced_order(presentation_orders: Floats, pair_codes: Ints, cluster_codes: Ints) -> str:
    """Return the reason why the presentation order of annotators cannot be averaged out.

    The reason is empty if the two systems of each pair came first about equally often, or if no order is known.
    `presentation_orders`, `pair_codes` and `cluster_codes` (n,) describe each comparison.
    The test compares how often each system of a pair came first, with a variance over clusters. A chi-squared test
    combines all pairs.
    """
    from scipy.stats import chi2

    known_order_indices = np.flatnonzero(np.abs(presentation_orders) == 1)
    if not known_order_indices.size:
        return ""
    distinct_pairs, pair_indices = np.unique(pair_codes[known_order_indices], return_inverse=True)
    distinct_clusters, cluster_indices = np.unique(cluster_codes[known_order_indices], return_inverse=True)
    order_sums = np.zeros((len(distinct_pairs), len(distinct_clusters)))
    np.add.at(order_sums, (pair_indices, cluster_indices), presentation_orders[known_order_indices])
    variance_of_pair = np.maximum((order_sums**2).sum(axis=1), np.bincount(pair_indices))
    if chi2.sf((order_sums.sum(axis=1) ** 2 / variance_of_pair).sum(), len(distinct_pairs)) >= NOT_RANDOM:
        return ""
    return (
        "annotators saw one system of a pair first more often than the other system, and the metric saw outputs in "
        "other orders than the annotators. The effect of the order can therefore neither be adjusted for nor "
        "averaged out"
    )


def sampling_mismatch(probabilities: Floats, is_labelled_row: Bools, *, item_codes: Ints, cluster_of_item: Ints) -> str:
    """Return the reason why `probabilities` (rows,) do not match the sampling of items; empty if they match.

    The reason is that more or fewer items than expected have human labels. `is_labelled_row` and `item_codes` (rows,)
    tell whether a row has a human label, and which item it compares. `cluster_of_item` (items,) are the clusters. The
    test statistic is the number of annotated items minus the sum of the probabilities. The statistic is divided by the
    binomial or the clustered standard error, whichever is larger.
    """
    from scipy.special import erfc

    distinct_items, first_row_indices, item_indices = np.unique(item_codes, return_index=True, return_inverse=True)
    is_labelled_item = np.bincount(item_indices, weights=is_labelled_row, minlength=len(distinct_items)) > 0
    probability_of_item = probabilities[first_row_indices]
    surplus_of_item = is_labelled_item - probability_of_item
    surplus_of_cluster = np.bincount(cluster_of_item[distinct_items], weights=surplus_of_item)
    surplus_variance = max(
        float((probability_of_item * (1 - probability_of_item)).sum()), float(surplus_of_cluster @ surplus_of_cluster)
    )
    if not surplus_variance or erfc(abs(surplus_of_item.sum()) / np.sqrt(2 * surplus_variance)) >= NOT_RANDOM:
        return ""
    return (
        f"annotators rated {is_labelled_item.sum()} of {len(distinct_items)} items, but the probabilities in the "
        f"items table add up to {probability_of_item.sum():.3g}"
    )


def _model_data(
    comparisons: Comparisons, design: Design, covariates: Sequence[Covariate]
) -> tuple[Comparisons, Battles, dict[str, Any]]:
    """Return the comparisons with known covariates, the data for the fit, and the model's fields about covariates."""
    differences_of_covariate = {covariate.name: covariate.differences(comparisons) for covariate in covariates}
    names_without_values = [
        name for name, differences in differences_of_covariate.items() if np.isnan(differences).all()
    ]
    values_of_covariate = {SHOWN_FIRST: comparisons.order} | {
        name: differences for name, differences in differences_of_covariate.items() if name not in names_without_values
    }
    has_all_covariates: Bools = np.asarray(np.isfinite(list(values_of_covariate.values())).all(axis=0))
    model_comparisons = comparisons if has_all_covariates.all() else comparisons.select_rows(has_all_covariates)
    first_systems, second_systems = model_comparisons.first, model_comparisons.second
    covariate_matrix, covariate_model_fields = _identified_covariates(
        {name: values[has_all_covariates] for name, values in values_of_covariate.items()},
        first_systems,
        second_systems,
        len(design.systems),
    )
    covariate_model_fields |= {
        "unvaried": (*names_without_values, *covariate_model_fields["unvaried"]),
        "missing": int((~has_all_covariates).sum()),
    }
    return (
        model_comparisons,
        Battles(
            first=first_systems,
            second=second_systems,
            sign=model_comparisons.sign,
            unit=np.unique(design.units[model_comparisons.item], return_inverse=True)[1],
            weight=design.weights[model_comparisons.item],
            covariates=covariate_matrix,
        ),
        covariate_model_fields,
    )


def _identified_covariates(
    battle_covariates: Mapping[str, Floats],
    first_systems: Ints,
    second_systems: Ints,
    n_systems: int,
    n_comparisons: Ints | None = None,
) -> tuple[Floats, dict[str, Any]]:
    """Return covariates (n, k) that the systems do not determine, and the model's fields about covariates.

    The presentation order is a covariate only if it is known and varies (see `order_matters`).
    """
    if not order_matters(first_systems * n_systems + second_systems, battle_covariates[SHOWN_FIRST], n_comparisons):
        battle_covariates = {name: values for name, values in battle_covariates.items() if name != SHOWN_FIRST}
    covariate_matrix = np.ascontiguousarray(
        np.reshape([*battle_covariates.values()], (len(battle_covariates), len(first_systems))).T, np.float64
    )
    is_identified_covariate = (
        unexplained_share(covariate_matrix, first_systems, second_systems, n_systems=n_systems) > 0
    )
    return covariate_matrix[:, is_identified_covariate], {
        "effects": tuple(compress(battle_covariates, is_identified_covariate)),
        "unvaried": tuple(compress(battle_covariates, ~is_identified_covariate)),
        "missing": 0,
    }


def match_comparisons(human: Comparisons, metric: Comparisons) -> tuple[Ints, Bools]:
    """Return, for each metric comparison, the index of the human comparison of the same outputs, and a mask."""
    human_row_indices = np.searchsorted(human.keys, metric.keys).clip(max=len(human) - 1)
    return human_row_indices, human.keys[human_row_indices] == metric.keys
