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
            table_name: _stack_columns(
                columns_of_table[table_name]
                for columns_of_table in tables_of_rater.values()
                if table_name in columns_of_table
            )
            for table_name in ("systems", "pairs", "cycles", "effects")
        },
        "leaders": _stack_columns(
            columns_of_table["leaders"]
            for rater, columns_of_table in tables_of_rater.items()
            if "leaders" in columns_of_table and (rater == HUMAN or HUMAN not in tables_of_rater)
        ),
        "corrected": {
            "metric": [corrected_model.metric for corrected_model in corrected_models],
            **{
                column_name: np.array(
                    [getattr(corrected_model, column_name) for corrected_model in corrected_models], dtype=np.float64
                )
                for column_name in ("labels", "battles", "power", "saving", "p_random")
            },
            "reason": [corrected_model.reason for corrected_model in corrected_models],
        },
    }


def parts(model: FittedModel) -> Ints:
    """(systems,): number of the connected component of each system; component 1 has the most comparisons."""
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
        "rater": np.full(len(system_names), rater),
        "system": system_names,
        "battles": model.battles,
        "opponents": model.opponents,
        "win_rate": model.rates[0],
        "win_rate_low": model.rates_low,
        "win_rate_high": model.rates_high,
        **strength_columns,
        "rank": np.where(is_unknown_system, np.nan, model.ranks.rank),
        "rank_low": rank_bounds[0],
        "rank_high": rank_bounds[1],
        "group": _groups(model, component_of_system, row_order) if has_tests else np.full(len(system_names), None),
        "may_be_first": np.where(np.isnan(rank_bounds[0]), None, rank_bounds[0] == 1),
        "elo": ELO_MEAN + ELO * estimated_strengths,
        "part": np.where(is_unknown_system, np.nan, component_of_system),
    }
    return {column_name: np.asarray(column_values)[row_order] for column_name, column_values in table_columns.items()}


def _bounded_columns(column_name: str, draws: Floats, model: FittedModel, confidence: float) -> dict[str, Floats]:
    """Return an estimate as the column `column_name`, and the bounds of its interval from the resamples of a model."""
    lower_bounds, upper_bounds = interval(draws, confidence=confidence, n_units=model.strengths.n_units)
    return {column_name: draws[0], f"{column_name}_low": lower_bounds, f"{column_name}_high": upper_bounds}


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
        member_indices = [
            system_index
            for system_index in row_order
            if component_of_system[system_index] == component_number and not model.unknown[system_index]
        ]
        member_letters = letters(model.ranks.apart[np.ix_(member_indices, member_indices)], range(len(member_indices)))
        group_labels[member_indices] = [
            f"{component_number}{system_letters}" if len(component_numbers) > 1 else system_letters
            for system_letters in member_letters
        ]
    return group_labels


def _pairs(rater: str, model: FittedModel, system_names: np.ndarray, confidence: float) -> dict[str, Any]:
    pair_rates, model_ranks, strength_draws = model.pairs, model.ranks, model.strengths.draws
    assert pair_rates is not None
    first_system_codes, second_system_codes = pair_rates.first, pair_rates.second
    strength_differences, lower_bounds, upper_bounds = (np.empty(len(first_system_codes)) for _ in range(3))
    for pair_slice in chunks(len(first_system_codes), len(strength_draws)):
        difference_draws = (
            strength_draws[:, first_system_codes[pair_slice]] - strength_draws[:, second_system_codes[pair_slice]]
        )
        slice_columns = _bounded_columns("difference", difference_draws, model, confidence)
        strength_differences[pair_slice], lower_bounds[pair_slice], upper_bounds[pair_slice] = slice_columns.values()
    # If the strength of a system is unbounded, one bound of the difference is unknown.
    is_unbounded_pair = ~(model.strengths.bounded[first_system_codes] & model.strengths.bounded[second_system_codes])
    is_decided_pair = model_ranks.apart[first_system_codes, second_system_codes]
    decision_signs = np.where(is_decided_pair, np.where(strength_differences > 0, 1, -1), 0)
    win_odds, tie_odds, loss_odds = (
        np.exp(strength_differences / 2),
        float(np.nan_to_num(model.strengths.ties[0])),
        np.exp(-strength_differences / 2),
    )
    return {
        "rater": [rater] * len(first_system_codes),
        "system_a": system_names[first_system_codes],
        "system_b": system_names[second_system_codes],
        "battles": pair_rates.outcomes.sum(axis=1),
        **{
            outcome_name: pair_rates.outcomes[:, outcome_index]
            for outcome_index, outcome_name in enumerate(("wins", "ties", "losses"))
        },
        "win_rate": pair_rates.rate,
        "win_rate_low": pair_rates.low,
        "win_rate_high": pair_rates.high,
        "expected": (win_odds + tie_odds / 2) / (win_odds + loss_odds + tie_odds),
        "difference": strength_differences,
        "difference_low": np.where(is_unbounded_pair & (strength_differences <= 0), np.nan, lower_bounds),
        "difference_high": np.where(is_unbounded_pair & (strength_differences > 0), np.nan, upper_bounds),
        "p_adjusted": model_ranks.p_adjusted[first_system_codes, second_system_codes],
        "decision": format_decisions(
            decision_signs if is_testable(model, confidence) else np.full(len(decision_signs), np.nan)
        ),
        "note": np.where(model_ranks.at_threshold[first_system_codes, second_system_codes], AT_THRESHOLD, ""),
        **_direct(model.direct, len(first_system_codes)),
        "more_comparisons": model.more_battles,
    }


def _direct(tests: DirectTests | None, n_pairs: int) -> dict[str, Any]:
    """Return the columns of direct tests, which use only the comparisons of one pair; null if there are no tests."""
    if tests is None:
        undefined_p_values = np.full(n_pairs, np.nan)
        return {"p_direct": undefined_p_values, "direct": np.full(n_pairs, None), "p_fit": undefined_p_values}
    decision_signs = np.where(np.isnan(tests.p_direct), np.nan, tests.better)
    return {"p_direct": tests.p_direct, "direct": format_decisions(decision_signs), "p_fit": tests.p_fit}


def _cycles(rater: str, model: FittedModel, system_names: np.ndarray) -> dict[str, Any]:
    cycles = model.cycles
    return {
        "rater": [rater] * len(cycles),
        "cycle": [" > ".join(system_names[[*system_cycle, system_cycle[0]]]) for system_cycle, *_ in cycles],
        "win_rate": np.array([smallest_win_rate for _, smallest_win_rate, _, _ in cycles], dtype=np.float64),
        "p_direct": np.array([largest_p_value for _, _, largest_p_value, _ in cycles], dtype=np.float64),
        "systems": np.array([n_group_systems for *_, n_group_systems in cycles], dtype=np.float64),
    }


def _leaders(rater: str, model: FittedModel, system_names: np.ndarray) -> dict[str, Any]:
    smallest_removal = model.removal
    assert model.pairs is not None
    n_removed_comparisons = np.nan if smallest_removal is None else float(smallest_removal.number)
    return {
        "rater": [rater],
        "leader": [system_names[np.nanargmax(round_for_sorting(model.strengths.draws[0]))]],
        "successor": [None if smallest_removal is None else system_names[smallest_removal.successor]],
        "removals": np.array([n_removed_comparisons]),
        "proportion": np.array([n_removed_comparisons / model.pairs.outcomes.sum()]),
    }


def _effects(rater: str, model: FittedModel, confidence: float) -> dict[str, Any]:
    effect_names = list(model.effects)
    effect_columns = _bounded_columns("value", model.strengths.effects, model, confidence)
    effect_columns |= {"p_value": p_value(model.strengths.effects, n_units=model.strengths.n_units)}
    if model.strengths.ties[0] > 0:  # ties exist and are a third outcome, not half wins
        log_tie_columns = _bounded_columns("value", np.log(model.strengths.ties), model, confidence)
        tie_columns = {
            column_name: np.exp(log_tie_values) for column_name, log_tie_values in log_tie_columns.items()
        } | {"p_value": np.nan}
        effect_names = [TIES, *effect_names]
        effect_columns = {
            column_name: np.append(tie_columns[column_name], effect_values)
            for column_name, effect_values in effect_columns.items()
        }
    effect_units = [UNITS.get(effect_name, OTHER_UNIT) for effect_name in effect_names]
    return {"rater": [rater] * len(effect_names), "effect": effect_names, **effect_columns, "unit": effect_units}


def _stack_columns(columns_of_raters: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the joined columns of all raters; numeric columns are arrays, other columns are lists."""
    rater_column_mappings = list(columns_of_raters)
    stacked_columns = {
        column_name: np.concatenate([np.asarray(rater_columns[column_name]) for rater_columns in rater_column_mappings])
        for column_name in (rater_column_mappings[0] if rater_column_mappings else ())
    }
    return {
        column_name: stacked_column if stacked_column.dtype.kind in "fi" else stacked_column.tolist()
        for column_name, stacked_column in stacked_columns.items()
    }


def interim_rows(interim_analyses: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of the table `interim`: the last interim analysis of each pair."""
    decision_sign_expression = pl.col("decision").replace_strict({1: "+", 0: "=", -1: "-"}, return_dtype=pl.String)
    bound_expressions = (pl.col(bound_name).alias(f"margin_{bound_name}") for bound_name in ("low", "high"))
    return (
        last_looks(interim_analyses)
        .select("system_a", "system_b", "looks", "n", decision_sign_expression, "margin", *bound_expressions)
        .to_dicts()
    )
