"""Bradley-Terry models with ties, fitted to comparisons or counts of one rater, or to human ratings and a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST, Covariate
from custodes.memory import check_memory
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.graphs import clearest_cycles, condensation
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.corrected import correct_strengths
from custodes.stats.strength.more_battles import more_battles
from custodes.stats.strength.pair_tests import DirectTests, direct_tests
from custodes.stats.strength.ranks import Ranks, ranks
from custodes.stats.strength.removal import Removal, smallest_removal
from custodes.stats.strength.strengths import Strengths, TieModel, strengths
from custodes.stats.strength.win_rates import PairRates, pair_rates, system_intervals, system_rates, unexplained_share

KNOWN_ORDERS = 0.1
"""Strengths are adjusted for the presentation order only if at least this proportion of comparisons has a known order.

Comparisons that are merged over both orders carry no information on the effect of the order."""

NOT_RANDOM = 0.01
"""Level of the tests of three assumptions of a correction. If a p-value is below this level, no correction is made.

The assumptions are: human comparisons are a random sample; their number agrees with the inclusion probabilities; the
presentation orders of annotators are balanced.
"""

FEWEST_DIFFERENT = 5
"""A correction requires this number of comparisons in which human ratings and the metric differ.

With fewer, the errors of the metric cannot be estimated, and standard errors would be nearly 0."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of the fit: number of systems, model of ties, confidence level and number of resamples.

    `test_pairs`: each pair is also tested by the comparisons between its two systems alone. This is valid only if the
    numbers of comparisons did not depend on outcomes. `search_removal`: search for the smallest set of comparisons
    whose removal changes the leader. `by_pair`: the human comparisons of each pair are a random sample, and the size of
    the sample may depend on the outcomes.
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
        Tests of each pair by the comparisons between its two systems alone; None if there are no tests.
    removal : Removal or None
        The fewest comparisons whose removal changes the leader.
    more_battles : array of shape (pairs,)
        Number of further comparisons that would decide each pair with 50 % power.
    battles, opponents : int arrays of shape (systems,)
        Number of comparisons and number of opponents of each system.
    effects, unvaried : tuple of str
        Names of the covariates in the model, and names of the covariates that strengths cannot be adjusted for.
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
    opponents: Ints
    effects: tuple[str, ...]
    unvaried: tuple[str, ...]
    missing: int

    @property
    def unknown(self) -> Bools:
        """(systems,): whether a system has no comparison."""
        return np.asarray(np.isnan(self.strengths.draws[0]))

    @cached_property
    def cycles(self) -> list[tuple[list[int], float, float, int]]:
        """The cycles of systems in which each system significantly beats the next system by direct comparisons.

        A cycle is a tuple of the systems in order, the smallest win rate against the next system, the largest p-value,
        and the number of systems in the group.
        """
        pairs, tests = self.pairs, self.direct
        if pairs is None or tests is None or not tests.better.any():
            return []
        n_systems = len(self.battles)
        rate, p_value = np.zeros((n_systems, n_systems)), np.ones((n_systems, n_systems))
        is_second_better = tests.better < 0
        winner, loser = np.where(is_second_better, (pairs.second, pairs.first), (pairs.first, pairs.second))
        is_decided = tests.better != 0
        rate[winner[is_decided], loser[is_decided]] = np.where(is_second_better, 1 - pairs.rate, pairs.rate)[is_decided]
        p_value[winner, loser] = tests.p_direct
        group, _ = condensation(rate > 0)
        return [
            (
                cycle,
                min(rate[a, b] for a, b in pairwise([*cycle, cycle[0]])),
                max(p_value[a, b] for a, b in pairwise([*cycle, cycle[0]])),
                int((group == group[cycle[0]]).sum()),
            )
            for cycle in clearest_cycles(rate)
        ]


@dataclass(frozen=True, kw_only=True)
class CorrectedModel:
    """Human strengths, estimated from the human comparisons and all comparisons of a metric.

    If the model cannot be fitted, `model` is None and `reason` says why. `labels` is the number of comparisons that
    both annotators and metric rated, and `battles` is the number of comparisons of the metric. If `order_averaged`,
    annotators and metric saw outputs in different presentation orders, and the order is averaged out."""

    metric: str
    labels: int
    battles: int
    model: FittedModel | None = None
    power: float = np.nan
    saving: float = np.nan
    p_random: float = np.nan
    reason: str = ""
    order_averaged: bool = False


def fit_comparisons(
    comparisons: Comparisons,
    rng: np.random.Generator,
    *,
    design: Design,
    covariates: Sequence[Covariate],
    options: Options,
) -> FittedModel:
    """Fit the model to the comparisons of one rater."""
    _, battles, covariate_fields = _model_data(comparisons, design, covariates)
    return _fit_model(battles, rng, options, **covariate_fields)


def fit_counts(
    counts: pl.DataFrame, rng: np.random.Generator, *, systems: Sequence[str], independent: bool, options: Options
) -> FittedModel:
    """Fit the model to a table of counts of one rater, with the columns of `BY_ORDER`.

    The model has intervals and tests only if comparisons are `independent` (no two comparisons share an item).
    """
    first_system, second_system = (label_codes(counts[name], systems) for name in ("system_a", "system_b"))
    counts_of_outcome = counts.select(list(SIGNS)).to_numpy()
    columns = {SHOWN_FIRST: counts["order"].to_numpy()}
    covariates, covariate_fields = _identified_covariates(
        columns, first_system, second_system, len(systems), counts_of_outcome.sum(axis=1)
    )
    row_index, outcome = np.nonzero(counts_of_outcome)
    battles = Battles(
        first=first_system[row_index],
        second=second_system[row_index],
        sign=np.array([*SIGNS.values()], dtype=np.int8)[outcome],
        unit=np.arange(len(row_index)),
        weight=np.ones(len(row_index)),
        covariates=covariates[row_index],
        times=counts_of_outcome[row_index, outcome],
    )
    if independent:
        return _fit_model(battles, rng, options, **covariate_fields)
    model = _fit_model(battles, rng, replace(options, resamples=0, test_pairs=False), **covariate_fields)
    assert model.pairs is not None
    undefined = np.full(len(model.pairs.first), np.nan)
    return replace(model, pairs=replace(model.pairs, low=undefined, high=undefined))


def _fit_model(battles: Battles, rng: np.random.Generator, options: Options, **covariate_fields: Any) -> FittedModel:
    """Fit the model to comparisons; `covariate_fields` are the fields of the result about covariates."""
    n_systems, resamples, confidence = options.n_systems, options.resamples, options.confidence
    # Strengths, win rates, ranks and points of each system, and sorted copies of them.
    check_memory("resamples", resamples, 8 * (1 + resamples) * n_systems)
    battles = battles.merge_equal_clusters()
    fit = strengths(battles, n_systems=n_systems, ties=options.tie_model, resamples=resamples, rng=rng)
    # The generator does not depend on the seed, so that a sentence with a win rate is the same for every seed.
    rates = system_rates(battles, n_systems=n_systems, resamples=resamples, rng=np.random.default_rng(STREAM))
    pairs = pair_rates(battles, confidence=confidence)
    low, high = system_intervals(rates, battles, confidence=confidence)
    system_ranks = ranks(fit, confidence=confidence)
    return FittedModel(
        strengths=fit,
        ranks=system_ranks,
        rates=rates,
        rates_low=low,
        rates_high=high,
        pairs=pairs,
        direct=direct_tests(pairs, battles, fit, confidence=confidence) if options.test_pairs else None,
        removal=smallest_removal(battles, fit) if options.search_removal else None,
        more_battles=more_battles(fit, pairs, system_ranks.apart, confidence=confidence),
        battles=_count_by_system(battles.first, battles.second, n_systems, battles.multiplicity),
        opponents=_count_by_system(pairs.first, pairs.second, n_systems),
        **covariate_fields,
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
    is_annotated = _count_by_system(human.first, human.second, n_systems) > 0
    metric_rows = metric.select_rows(is_annotated[metric.first] & is_annotated[metric.second])
    rows, battles, covariate_fields = _model_data(metric_rows, design, covariates)
    human_row, is_labelled = match_comparisons(human, rows)
    n_labels = int(is_labelled.sum())
    result = CorrectedModel(metric=metric.raters[0], labels=n_labels, battles=len(rows))
    if not 0 < n_labels < len(rows):
        return replace(
            result, reason=f"annotators rated {'all' if n_labels else 'none'} of the comparisons of the metric"
        )
    human_sign = np.where(is_labelled, human.sign[human_row], ABSENT).astype(np.int8)
    probabilities = design.probability[rows.item]
    probability = probabilities if np.isfinite(probabilities).all() else None
    if probability is None and np.isfinite(probabilities).any():
        unknown_items = [design.items[i] for i in np.unique(rows.item[np.isnan(probabilities)])]
        return replace(
            result,
            reason=f"the items table gives no probability for {len(unknown_items)} items "
            f"({join_labels(unknown_items, limit=2)})",
        )
    n_different = int((human_sign != rows.sign)[is_labelled].sum())
    if n_different < FEWEST_DIFFERENT:
        reason_text = (
            f"annotators and metric differ on only {n_different} of {n_labels} comparisons, so the "
            "metric's errors cannot be estimated"
        )
        return replace(result, reason=reason_text)
    human_order, reason_text = human.order[human_row][is_labelled], ""
    if not _is_same_order(human_order, rows, is_labelled, n_systems=n_systems):
        reason_text = unbalanced_order(human_order, rows.pair[is_labelled], design.units[rows.item[is_labelled]])
        n_missing, result = covariate_fields["missing"], replace(result, order_averaged=True)
        _, battles, covariate_fields = _model_data(replace(rows, order=np.zeros(len(rows))), design, covariates)
        covariate_fields["missing"] = n_missing
    if not reason_text and probability is not None:
        reason_text = sampling_mismatch(probability, is_labelled, item=rows.item, units=design.units)
    if reason_text:
        return replace(result, reason=reason_text)
    unexplained_shares = unexplained_share(
        battles.covariates[is_labelled], battles.first[is_labelled], battles.second[is_labelled], n_systems=n_systems
    )
    if not unexplained_shares.all():
        constant_covariates = join_labels(list(compress(covariate_fields["effects"], unexplained_shares == 0)))
        reason_text = f"on the comparisons that annotators rated, {constant_covariates} does not vary within systems"
        return replace(result, reason=reason_text)
    fit = correct_strengths(
        battles,
        human_sign,
        n_systems=n_systems,
        ties=options.tie_model,
        probability=probability,
        by_pair=options.by_pair and probability is None,
        resamples=options.resamples,
        rng=rng,
    )
    result = replace(result, p_random=fit.p_random)
    if probability is None and fit.p_random < NOT_RANDOM:
        return replace(result, reason="the human comparisons are not a random part of the metric's comparisons")
    undefined = np.full((1, n_systems), np.nan)
    first_system, second_system = rows.pairs[np.unique(rows.pair)].T
    model = FittedModel(
        strengths=fit.strengths,
        ranks=ranks(fit.strengths, confidence=options.confidence),
        rates=undefined,
        rates_low=undefined[0],
        rates_high=undefined[0],
        pairs=None,
        direct=None,
        removal=None,
        more_battles=np.empty(0),
        battles=_count_by_system(rows.first, rows.second, n_systems),
        opponents=_count_by_system(first_system, second_system, n_systems),
        **covariate_fields,
    )
    return replace(result, model=model, power=fit.power, saving=fit.saving)


def _is_same_order(human_order: Floats, rows: Comparisons, is_labelled: Bools, *, n_systems: int) -> bool:
    """Whether one model can adjust annotators and metric for the presentation order, or no adjustment is needed.

    `human_order` (labelled rows,) is the order in which annotators saw the outputs.
    """
    pair_codes, metric_order = rows.first * n_systems + rows.second, rows.order[is_labelled]
    return bool((human_order == metric_order).all()) or not (
        order_matters(pair_codes, rows.order) or order_matters(pair_codes[is_labelled], human_order)
    )


def unbalanced_order(order: Floats, pair: Ints, units: Ints) -> str:
    """Return the reason why the presentation order of annotators cannot be averaged out.

    The reason is empty if the two systems of each pair came first about equally often, or if no order is known.
    `order`, `pair` and `units` (n,) are the presentation order, the pair of systems and the cluster of each comparison.
    The test compares how often each system of a pair came first, with a variance over clusters. A chi-squared test
    combines all pairs.
    """
    from scipy.stats import chi2

    known_rows = np.flatnonzero(np.abs(order) == 1)
    if not known_rows.size:
        return ""
    pairs, pair_index = np.unique(pair[known_rows], return_inverse=True)
    clusters, cluster_index = np.unique(units[known_rows], return_inverse=True)
    order_sums = np.zeros((len(pairs), len(clusters)))
    np.add.at(order_sums, (pair_index, cluster_index), order[known_rows])
    variance = np.maximum((order_sums**2).sum(axis=1), np.bincount(pair_index))
    if chi2.sf((order_sums.sum(axis=1) ** 2 / variance).sum(), len(pairs)) >= NOT_RANDOM:
        return ""
    return (
        "annotators saw one system of a pair first more often than the other system, and the metric saw outputs in "
        "other orders than the annotators, so the effect of the order can neither be adjusted for nor averaged out"
    )


def sampling_mismatch(probability: Floats, is_labelled: Bools, *, item: Ints, units: Ints) -> str:
    """Return the reason why `probability` (rows,) does not match the sampling of items; empty if it matches.

    The reason is that more or fewer items than expected have human labels. `is_labelled` and `item` (rows,) tell
    whether a row has a human label, and which item it compares. `units` (items,) are the clusters. The test statistic
    is the number of annotated items minus the sum of the probabilities. It is divided by the binomial or the clustered
    standard error, whichever is larger.
    """
    from scipy.special import erfc

    items, first_row, item_index = np.unique(item, return_index=True, return_inverse=True)
    is_labelled_item = np.bincount(item_index, weights=is_labelled, minlength=len(items)) > 0
    expected_rate = probability[first_row]
    surplus = is_labelled_item - expected_rate
    surplus_of_cluster = np.bincount(units[items], weights=surplus)
    variance = max(float((expected_rate * (1 - expected_rate)).sum()), float(surplus_of_cluster @ surplus_of_cluster))
    if not variance or erfc(abs(surplus.sum()) / np.sqrt(2 * variance)) >= NOT_RANDOM:
        return ""
    return (
        f"annotators rated {is_labelled_item.sum()} of {len(items)} items, but the probabilities in the "
        f"items table add up to {expected_rate.sum():.3g}"
    )


def _model_data(
    comparisons: Comparisons, design: Design, covariates: Sequence[Covariate]
) -> tuple[Comparisons, Battles, dict[str, Any]]:
    """Return the comparisons with known covariates, the data for the fit, and the model's fields about covariates."""
    differences = {covariate.name: covariate.differences(comparisons) for covariate in covariates}
    unknown_names = [name for name, column in differences.items() if np.isnan(column).all()]
    is_known_row = np.ones(len(comparisons), dtype=bool)
    for name in differences.keys() - unknown_names:
        is_known_row &= np.isfinite(differences[name])
    rows = comparisons if is_known_row.all() else comparisons.select_rows(is_known_row)
    columns = {SHOWN_FIRST: rows.order}
    columns |= {name: column[is_known_row] for name, column in differences.items() if name not in unknown_names}
    first_system, second_system = rows.first, rows.second
    identified_covariates, covariate_fields = _identified_covariates(
        columns, first_system, second_system, len(design.systems)
    )
    battles = Battles(
        first=first_system,
        second=second_system,
        sign=rows.sign,
        unit=np.unique(design.units[rows.item], return_inverse=True)[1],
        weight=design.weights[rows.item],
        covariates=identified_covariates,
    )
    covariate_fields |= {
        "unvaried": (*unknown_names, *covariate_fields["unvaried"]),
        "missing": int((~is_known_row).sum()),
    }
    return rows, battles, covariate_fields


def _identified_covariates(
    columns: Mapping[str, Floats],
    first_system: Ints,
    second_system: Ints,
    n_systems: int,
    n_comparisons: Ints | None = None,
) -> tuple[Floats, dict[str, Any]]:
    """Return covariates (n, k) that the systems do not determine, and the model's fields about covariates.

    The presentation order is a covariate only if it is known and varies (see `order_matters`).
    """
    if not order_matters(first_system * n_systems + second_system, columns[SHOWN_FIRST], n_comparisons):
        columns = {name: column for name, column in columns.items() if name != SHOWN_FIRST}
    covariate_values = np.stack([*columns.values()], axis=1) if columns else np.empty((len(first_system), 0))
    is_identified = unexplained_share(covariate_values, first_system, second_system, n_systems=n_systems) > 0
    names = {"effects": tuple(compress(columns, is_identified)), "unvaried": tuple(compress(columns, ~is_identified))}
    return covariate_values[:, is_identified], {**names, "missing": 0}


def order_matters(pair: Ints, order: Floats, n_comparisons: Ints | None = None) -> bool:
    """Whether the presentation order of enough comparisons is known, and some pair was shown in both orders.

    `pair` and `order` (n,) describe the rows. `n_comparisons` (n,) is the number of comparisons in each row; None means
    1.
    """
    is_known_order = np.abs(order) == 1
    if not is_known_order.any() or np.average(is_known_order, weights=n_comparisons) < KNOWN_ORDERS:
        return False
    return bool(np.intersect1d(pair[order == 1], pair[order == -1]).size)


def match_comparisons(human: Comparisons, rows: Comparisons) -> tuple[Ints, Bools]:
    """Return, for each row, the position of the human comparison of the same outputs, and whether it exists."""
    human_row = np.searchsorted(human.keys, rows.keys).clip(max=len(human) - 1)
    return human_row, human.keys[human_row] == rows.keys


def _count_by_system(
    first_system: Ints, second_system: Ints, n_systems: int, n_comparisons: Ints | None = None
) -> Ints:
    """(systems,): number of comparisons of each system."""
    counts = [
        np.bincount(systems, weights=n_comparisons, minlength=n_systems) for systems in (first_system, second_system)
    ]
    return np.asarray(counts[0] + counts[1]).astype(np.int64)
