"""Tables of fitted models: systems, pairs of systems and effects, one aspect at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import AT_THRESHOLD
from custodes.data.interim_analyses import last_looks
from custodes.evaluate.decision_graph import DECISION, format_decisions
from custodes.evaluate.leaderboard.bradley_terry import FittedModel
from custodes.evaluate.leaderboard.covariates import OTHER_UNIT, TIES, UNITS
from custodes.stats.arrays import Floats, Ints, round_for_sorting
from custodes.stats.bootstrap import smallest_p_value
from custodes.stats.graphs import letters
from custodes.stats.strength.strengths import interval, p_value
from custodes.stats.strength.win_rates import PairRates


def rows_of_model(
    rater: str, model: FittedModel, systems: Sequence[str], *, confidence: float
) -> dict[str, dict[str, Any]]:
    """Return the columns of the rows of a model in every table except `corrected`."""
    system_names = np.array(systems)
    columns_of_table = {
        "systems": _systems(rater, model, system_names, confidence),
        "cycles": {
            "rater": rater,
            "cycle": [
                " > ".join(system_names[[*system_cycle, system_cycle[0]]]) for system_cycle, _, _ in model.cycles
            ],
            "win_rate": np.array([smallest_win_rate for _, smallest_win_rate, _ in model.cycles], dtype=np.float64),
            "p_direct": np.array([largest_p_value for *_, largest_p_value in model.cycles], dtype=np.float64),
        }
        if model.cycles
        else {},
        "effects": _effects(rater, model, confidence),
    }
    if model.pairs is not None:
        columns_of_table |= {
            "pairs": _pairs(rater, model, model.pairs, system_names, confidence),
            "leaders": {
                "rater": rater,
                "leader": system_names[np.nanargmax(round_for_sorting(model.strengths.draws[0]))],
                "successor": system_names[model.removal.successor] if model.removal else None,
                "removals": model.removal.number if model.removal else None,
            },
        }
    return columns_of_table


def parts(model: FittedModel) -> Ints:
    """Number of the connected component of each system, (systems,); component 1 has the most comparisons."""
    component_of_system = model.strengths.component
    n_battles_of_component = np.bincount(component_of_system, weights=model.battles)
    return np.asarray(np.argsort(np.argsort(-n_battles_of_component, kind="stable"))[component_of_system] + 1)


def _systems(rater: str, model: FittedModel, system_names: np.ndarray, confidence: float) -> dict[str, Any]:
    """Return the rows of a rater in the table `systems`, sorted by component and strength."""
    is_unknown_system, component_of_system = model.unknown, parts(model)
    estimated_strengths: Floats = model.strengths.draws[0]
    strength_columns = _bounded_columns("strength", model.strengths.draws, model, confidence)
    # The strength of a system that won or lost everything is finite only by a penalty.
    is_unbounded_system = ~model.strengths.bounded
    strength_columns["strength_high"] = np.where(
        is_unbounded_system & (estimated_strengths > 0), np.nan, strength_columns["strength_high"]
    )
    strength_columns["strength_low"] = np.where(
        is_unbounded_system & (estimated_strengths <= 0), np.nan, strength_columns["strength_low"]
    )
    row_order = np.lexsort(
        (
            system_names,
            np.where(is_unknown_system, 0, -round_for_sorting(estimated_strengths)),
            is_unknown_system,
            component_of_system,
        )
    )
    has_tests = is_testable(model, confidence)
    rank_bounds = np.where(is_unknown_system | (not has_tests), np.nan, np.stack([model.ranks.low, model.ranks.high]))
    table_columns = {
        "system": system_names,
        "battles": model.battles,
        "win_rate": model.rates[0],
        "win_rate_low": model.rates_low,
        "win_rate_high": model.rates_high,
        **strength_columns,
        "rank": np.where(is_unknown_system, np.nan, model.ranks.rank),
        "rank_low": rank_bounds[0],
        "rank_high": rank_bounds[1],
        "group": _groups(model, component_of_system, row_order) if has_tests else np.full(len(system_names), None),
        "may_be_first": np.where(np.isnan(rank_bounds[0]), None, rank_bounds[0] == 1),
        "part": np.where(is_unknown_system, np.nan, component_of_system),
    }
    table_columns = {
        column_name: np.asarray(column_values)[row_order] for column_name, column_values in table_columns.items()
    }
    return {
        "rater": rater,
        **table_columns,
        **{column_name: table_columns[column_name].tolist() for column_name in ("group", "may_be_first")},
    }


def _bounded_columns(column_name: str, draws: Floats, model: FittedModel, confidence: float) -> dict[str, Floats]:
    """Return an estimate as the column `column_name`, and the bounds of its interval from the resamples of a model."""
    lower_bounds, upper_bounds = interval(draws, confidence=confidence, n_units=model.strengths.n_units)
    return {column_name: draws[0], f"{column_name}_low": lower_bounds, f"{column_name}_high": upper_bounds}


def is_testable(model: FittedModel, confidence: float) -> bool:
    """Whether differences between systems can be tested."""
    return len(model.strengths.draws) > 1 and bool(smallest_p_value(model.strengths.n_units) <= 1 - confidence)


def _groups(model: FittedModel, component_of_system: Ints, row_order: Ints) -> np.ndarray:
    """Return the group letters of the systems; None for systems without a comparison.

    If there are several components, the number of the component precedes the letters.
    """
    group_labels = np.full(len(component_of_system), None, dtype=object)
    component_numbers = np.unique(component_of_system[~model.unknown])
    for component_number in component_numbers:
        member_indices = [
            system_index
            for system_index in row_order
            if component_of_system[system_index] == component_number and not model.unknown[system_index]
        ]
        group_labels[member_indices] = [
            f"{component_number}{system_letters}" if len(component_numbers) > 1 else system_letters
            for system_letters in letters(
                model.ranks.apart[np.ix_(member_indices, member_indices)], range(len(member_indices))
            )
        ]
    return group_labels


def _pairs(
    rater: str, model: FittedModel, pair_rates: PairRates, system_names: np.ndarray, confidence: float
) -> dict[str, Any]:
    system_indices_of_pairs = pair_rates.first, pair_rates.second
    strength_differences = np.subtract(
        *(model.strengths.draws[0, system_indices] for system_indices in system_indices_of_pairs)
    )
    tie_odds = float(np.nan_to_num(model.strengths.ties[0]))
    win_odds, loss_odds = np.exp(strength_differences / 2), np.exp(-strength_differences / 2)
    pair_tests, nan_values = model.direct, np.full(len(strength_differences), np.nan)
    return {
        "rater": rater,
        "system_a": system_names[pair_rates.first],
        "system_b": system_names[pair_rates.second],
        **dict(zip(("wins", "ties", "losses"), pair_rates.outcomes.T, strict=True)),
        "win_rate": pair_rates.rate,
        "win_rate_low": pair_rates.low,
        "win_rate_high": pair_rates.high,
        "expected": (win_odds + tie_odds / 2) / (win_odds + loss_odds + tie_odds),
        "p_adjusted": model.ranks.p_adjusted[system_indices_of_pairs],
        "decision": format_decisions(
            np.where(model.ranks.apart[system_indices_of_pairs], np.where(strength_differences > 0, 1, -1), 0)
            if is_testable(model, confidence)
            else nan_values
        ),
        "note": np.where(model.ranks.at_threshold[system_indices_of_pairs], AT_THRESHOLD, ""),
        "p_direct": nan_values if pair_tests is None else pair_tests.p_direct,
        "p_fit": nan_values if pair_tests is None else pair_tests.p_fit,
        "more_comparisons": model.more_battles,
    }


def _effects(rater: str, model: FittedModel, confidence: float) -> dict[str, Any]:
    effect_names = list(model.effects)
    effect_columns = _bounded_columns("value", model.strengths.effects, model, confidence)
    effect_columns |= {"p_value": p_value(model.strengths.effects, n_units=model.strengths.n_units)}
    if model.strengths.ties[0] > 0:  # ties exist and are a third outcome, not half wins
        tie_columns = {
            column_name: np.exp(log_tie_values)
            for column_name, log_tie_values in _bounded_columns(
                "value", np.log(model.strengths.ties), model, confidence
            ).items()
        } | {"p_value": np.nan}
        effect_names = [TIES, *effect_names]
        effect_columns = {
            column_name: np.append(tie_columns[column_name], effect_values)
            for column_name, effect_values in effect_columns.items()
        }
    return {
        "rater": rater,
        "effect": effect_names,
        **effect_columns,
        "unit": [UNITS.get(effect_name, OTHER_UNIT) for effect_name in effect_names],
    }


def interim_rows(interim_analyses: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the table `interim`: the last interim analysis of each pair."""
    return (
        last_looks(interim_analyses)
        .select(
            "system_a",
            "system_b",
            "n",
            pl.col("decision").replace_strict(DECISION, return_dtype=pl.String),
            "margin",
            margin_low="low",
            margin_high="high",
        )
        .to_dicts()
    )
