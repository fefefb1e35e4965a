"""Tables of fitted models: systems, pairs of systems and effects, one aspect at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import AT_THRESHOLD
from custodes.data.comparisons import HUMAN
from custodes.data.interim_analyses import last_looks
from custodes.evaluate.decision_graph import format_decisions
from custodes.evaluate.leaderboard.bradley_terry import CorrectedModel, FittedModel
from custodes.evaluate.leaderboard.covariates import OTHER_UNIT, TIES, UNITS
from custodes.stats.arrays import Floats, Ints, chunks, round_for_sorting
from custodes.stats.graphs import letters
from custodes.stats.normal_pairs import can_be_significant
from custodes.stats.strength.pair_tests import DirectTests
from custodes.stats.strength.strengths import interval, p_value

ELO, ELO_MEAN = 400 / np.log(10), 1000
"""Slope and offset of the Elo scale: points per unit of strength, and points at strength 0."""


def rows_of_model(
    rater: str, model: FittedModel, systems: Sequence[str], *, confidence: float
) -> dict[str, dict[str, Any]]:
    """Return the columns of the rows of a model in every table except `corrected`."""
    system_names = np.array(systems, dtype=object)
    columns_of_table = {
        "systems": _systems(rater, model, system_names, confidence),
        "cycles": _cycles(rater, model, system_names),
        "effects": _effects(rater, model, confidence),
    }
    if model.pairs is not None:
        columns_of_table |= {
            "pairs": _pairs(rater, model, system_names, confidence),
            "leaders": _leaders(rater, model, system_names),
        }
    return columns_of_table


def rows_of(
    tables_of_rater: Mapping[str, Mapping[str, dict[str, Any]]], corrected_models: Sequence[CorrectedModel]
) -> dict[str, dict[str, Any]]:
    """Return the columns of every table of an aspect, from rows by rater (see `rows_of_model`) and from corrections.

    The table `leaders` has only human ratings, if there are any. Corrections without a model have a row with the
    reason.
    """
    return {
        **{
            name: _stack_columns(
                columns_of_table[name] for columns_of_table in tables_of_rater.values() if name in columns_of_table
            )
            for name in ("systems", "pairs", "cycles", "effects")
        },
        "leaders": _stack_columns(
            columns_of_table["leaders"]
            for rater, columns_of_table in tables_of_rater.items()
            if "leaders" in columns_of_table and (rater == HUMAN or HUMAN not in tables_of_rater)
        ),
        "corrected": {
            "metric": [corrected_model.metric for corrected_model in corrected_models],
            **{
                name: np.array(
                    [getattr(corrected_model, name) for corrected_model in corrected_models], dtype=np.float64
                )
                for name in ("labels", "battles", "power", "saving", "p_random")
            },
            "reason": [corrected_model.reason for corrected_model in corrected_models],
        },
    }


def parts(model: FittedModel) -> Ints:
    """(systems,): number of the connected component of each system; component 1 has the most comparisons."""
    component_of_system = model.strengths.component
    battles_of_component = np.bincount(component_of_system, weights=model.battles)
    return np.asarray(np.argsort(np.argsort(-battles_of_component, kind="stable"))[component_of_system] + 1)


def _systems(rater: str, model: FittedModel, system_names: np.ndarray, confidence: float) -> dict[str, Any]:
    """Return the rows of a rater in the table `systems`, sorted by component and strength."""
    strengths, ranks, is_unknown_system = model.strengths, model.ranks, model.unknown
    strength_estimates, part_of_system = strengths.draws[0], parts(model)
    strength_columns = _bounded_columns("strength", strengths.draws, model, confidence)
    # The strength of a system that won or lost everything is finite only by a penalty.
    is_unbounded_system = ~strengths.bounded
    strength_columns["strength_high"] = np.where(
        is_unbounded_system & (strength_estimates > 0), np.nan, strength_columns["strength_high"]
    )
    strength_columns["strength_low"] = np.where(
        is_unbounded_system & (strength_estimates <= 0), np.nan, strength_columns["strength_low"]
    )
    row_order = np.lexsort(
        (
            system_names,
            np.where(is_unknown_system, 0, -round_for_sorting(strength_estimates)),
            is_unknown_system,
            part_of_system,
        )
    )
    has_tests = is_testable(model, confidence)
    rank_bounds = np.where(is_unknown_system | (not has_tests), np.nan, np.stack([ranks.low, ranks.high]))
    table_columns = {
        "rater": np.full(len(system_names), rater),
        "system": system_names,
        "battles": model.battles,
        "opponents": model.opponents,
        "win_rate": model.rates[0],
        "win_rate_low": model.rates_low,
        "win_rate_high": model.rates_high,
        **strength_columns,
        "rank": np.where(is_unknown_system, np.nan, ranks.rank),
        "rank_low": rank_bounds[0],
        "rank_high": rank_bounds[1],
        "group": _groups(model, part_of_system, row_order) if has_tests else np.full(len(system_names), None),
        "may_be_first": np.where(np.isnan(rank_bounds[0]), None, rank_bounds[0] == 1),
        "elo": ELO_MEAN + ELO * strength_estimates,
        "part": np.where(is_unknown_system, np.nan, part_of_system),
    }
    return {name: np.asarray(values)[row_order] for name, values in table_columns.items()}


def _bounded_columns(column_name: str, draws: Floats, model: FittedModel, confidence: float) -> dict[str, Floats]:
    """Return an estimate as the column `column_name`, and the bounds of its interval from the resamples of a model."""
    low, high = interval(draws, confidence=confidence, n_units=model.strengths.n_units)
    return {column_name: draws[0], f"{column_name}_low": low, f"{column_name}_high": high}


def is_testable(model: FittedModel, confidence: float) -> bool:
    """Whether differences between systems can be tested."""
    return len(model.strengths.draws) > 1 and can_be_significant(model.strengths.n_units, 1 - confidence)


def _groups(model: FittedModel, component_of_system: Ints, row_order: Ints) -> np.ndarray:
    """Return the group letters of the systems; None for systems without a comparison.

    If there are several components, the number of the component precedes the letters.
    """
    group_labels = np.full(len(component_of_system), None, dtype=object)
    component_numbers = np.unique(component_of_system[~model.unknown])
    for component_number in component_numbers:
        member_indices = [i for i in row_order if component_of_system[i] == component_number and not model.unknown[i]]
        member_letters = letters(model.ranks.apart[np.ix_(member_indices, member_indices)], range(len(member_indices)))
        group_labels[member_indices] = [
            f"{component_number}{system_letters}" if len(component_numbers) > 1 else system_letters
            for system_letters in member_letters
        ]
    return group_labels


def _pairs(rater: str, model: FittedModel, system_names: np.ndarray, confidence: float) -> dict[str, Any]:
    pair_win_rates, strengths, ranks = model.pairs, model.strengths, model.ranks
    assert pair_win_rates is not None
    first_system_codes, second_system_codes = pair_win_rates.first, pair_win_rates.second
    strength_differences, lower_bounds, upper_bounds = (np.empty(len(first_system_codes)) for _ in range(3))
    for block in chunks(len(first_system_codes), len(strengths.draws)):
        difference_draws = (
            strengths.draws[:, first_system_codes[block]] - strengths.draws[:, second_system_codes[block]]
        )
        block_columns = _bounded_columns("difference", difference_draws, model, confidence)
        strength_differences[block], lower_bounds[block], upper_bounds[block] = block_columns.values()
    # If the strength of a system is unbounded, one bound of the difference is unknown.
    is_unbounded_pair = ~(strengths.bounded[first_system_codes] & strengths.bounded[second_system_codes])
    is_decided = ranks.apart[first_system_codes, second_system_codes]
    decisions = np.where(is_decided, np.where(strength_differences > 0, 1, -1), 0)
    win_odds, tie_odds, loss_odds = (
        np.exp(strength_differences / 2),
        float(np.nan_to_num(strengths.ties[0])),
        np.exp(-strength_differences / 2),
    )
    return {
        "rater": [rater] * len(first_system_codes),
        "system_a": system_names[first_system_codes],
        "system_b": system_names[second_system_codes],
        "battles": pair_win_rates.outcomes.sum(axis=1),
        **{name: pair_win_rates.outcomes[:, i] for i, name in enumerate(("wins", "ties", "losses"))},
        "win_rate": pair_win_rates.rate,
        "win_rate_low": pair_win_rates.low,
        "win_rate_high": pair_win_rates.high,
        "expected": (win_odds + tie_odds / 2) / (win_odds + loss_odds + tie_odds),
        "difference": strength_differences,
        "difference_low": np.where(is_unbounded_pair & (strength_differences <= 0), np.nan, lower_bounds),
        "difference_high": np.where(is_unbounded_pair & (strength_differences > 0), np.nan, upper_bounds),
        "p_adjusted": ranks.p_adjusted[first_system_codes, second_system_codes],
        "decision": format_decisions(decisions if is_testable(model, confidence) else np.full(len(decisions), np.nan)),
        "note": np.where(ranks.at_threshold[first_system_codes, second_system_codes], AT_THRESHOLD, ""),
        **_direct(model.direct, len(first_system_codes)),
        "more_comparisons": model.more_battles,
    }


def _direct(tests: DirectTests | None, n_pairs: int) -> dict[str, Any]:
    """Return the columns of direct tests, which use only the comparisons of one pair; null if there are no tests."""
    if tests is None:
        undefined_p = np.full(n_pairs, np.nan)
        return {"p_direct": undefined_p, "direct": np.full(n_pairs, None), "p_fit": undefined_p}
    decisions = np.where(np.isnan(tests.p_direct), np.nan, tests.better)
    return {"p_direct": tests.p_direct, "direct": format_decisions(decisions), "p_fit": tests.p_fit}


def _cycles(rater: str, model: FittedModel, system_names: np.ndarray) -> dict[str, Any]:
    cycles = model.cycles
    return {
        "rater": [rater] * len(cycles),
        "cycle": [" > ".join(system_names[[*cycle, cycle[0]]]) for cycle, *_ in cycles],
        "win_rate": np.array([rate for _, rate, _, _ in cycles], dtype=np.float64),
        "p_direct": np.array([p for _, _, p, _ in cycles], dtype=np.float64),
        "systems": np.array([n for *_, n in cycles], dtype=np.float64),
    }


def _leaders(rater: str, model: FittedModel, system_names: np.ndarray) -> dict[str, Any]:
    removal = model.removal
    assert model.pairs is not None
    n_removals = np.nan if removal is None else float(removal.number)
    return {
        "rater": [rater],
        "leader": [system_names[np.nanargmax(round_for_sorting(model.strengths.draws[0]))]],
        "successor": [None if removal is None else system_names[removal.successor]],
        "removals": np.array([n_removals]),
        "proportion": np.array([n_removals / model.pairs.outcomes.sum()]),
    }


def _effects(rater: str, model: FittedModel, confidence: float) -> dict[str, Any]:
    strengths, effect_names = model.strengths, list(model.effects)
    effect_columns = _bounded_columns("value", strengths.effects, model, confidence)
    effect_columns |= {"p_value": p_value(strengths.effects, n_units=strengths.n_units)}
    if strengths.ties[0] > 0:  # ties exist and are a third outcome, not half wins
        log_tie_columns = _bounded_columns("value", np.log(strengths.ties), model, confidence)
        tie_columns = {name: np.exp(value) for name, value in log_tie_columns.items()} | {"p_value": np.nan}
        effect_names = [TIES, *effect_names]
        effect_columns = {name: np.append(tie_columns[name], values) for name, values in effect_columns.items()}
    effect_units = [UNITS.get(name, OTHER_UNIT) for name in effect_names]
    return {"rater": [rater] * len(effect_names), "effect": effect_names, **effect_columns, "unit": effect_units}


def _stack_columns(columns_of_raters: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the joined columns of all raters; numeric columns are arrays, other columns are lists."""
    blocks = list(columns_of_raters)
    stacked_columns = {
        name: np.concatenate([np.asarray(block[name]) for block in blocks]) for name in (blocks[0] if blocks else ())
    }
    return {name: column if column.dtype.kind in "fi" else column.tolist() for name, column in stacked_columns.items()}


def interim_rows(interim_analyses: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the table `interim`: the last interim analysis of each pair."""
    sign = pl.col("decision").replace_strict({1: "+", 0: "=", -1: "-"}, return_dtype=pl.String)
    bounds = (pl.col(name).alias(f"margin_{name}") for name in ("low", "high"))
    return last_looks(interim_analyses).select("system_a", "system_b", "looks", "n", sign, "margin", *bounds).to_dicts()
