"""Tables of fitted models: systems, pairs of systems and effects, one aspect at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from custodes.answers.tables import AT_THRESHOLD
from custodes.data.comparisons import HUMAN
from custodes.evaluate.leaderboard.bradley_terry import CorrectedModel, FittedModel
from custodes.evaluate.leaderboard.covariates import OTHER_UNIT, TIES, UNITS
from custodes.stats.arrays import Floats, Ints, chunks, round_for_sorting
from custodes.stats.graphs import letters
from custodes.stats.strength.pair_tests import DirectTests
from custodes.stats.strength.strengths import interval, p_value

ELO, ELO_MEAN = 400 / np.log(10), 1000
"""Slope and offset of the Elo scale: points per unit of strength, and points at strength 0."""


def rows_of_model(
    rater: str, model: FittedModel, systems: Sequence[str], *, confidence: float
) -> dict[str, dict[str, Any]]:
    """Return the columns of the rows of a model in every table except `corrected`."""
    names = np.array(systems, dtype=object)
    rows = {
        "systems": _systems(rater, model, names, confidence),
        "cycles": _cycles(rater, model, names),
        "effects": _effects(rater, model, confidence),
    }
    if model.pairs is not None:
        rows |= {"pairs": _pairs(rater, model, names, confidence), "leaders": _leaders(rater, model, names)}
    return rows


def rows_of(
    rows_of_rater: Mapping[str, Mapping[str, dict[str, Any]]], corrected_models: Sequence[CorrectedModel]
) -> dict[str, dict[str, Any]]:
    """Return the columns of every table of an aspect, from rows by rater (see `rows_of_model`) and from corrections.

    The table `leaders` has only human ratings, if there are any. Corrections without a model have a row with the
    reason.
    """
    return {
        **{
            name: _stack_columns(rows[name] for rows in rows_of_rater.values() if name in rows)
            for name in ("systems", "pairs", "cycles", "effects")
        },
        "leaders": _stack_columns(
            rows["leaders"]
            for rater, rows in rows_of_rater.items()
            if "leaders" in rows and (rater == HUMAN or HUMAN not in rows_of_rater)
        ),
        "corrected": {
            "metric": [correction.metric for correction in corrected_models],
            **{
                name: np.array([getattr(correction, name) for correction in corrected_models], dtype=np.float64)
                for name in ("labels", "battles", "power", "saving", "p_random")
            },
            "reason": [correction.reason for correction in corrected_models],
        },
    }


def parts(model: FittedModel) -> Ints:
    """(systems,): number of the connected component of each system; component 1 has the most comparisons."""
    component = model.strengths.component
    n_battles = np.bincount(component, weights=model.battles)
    return np.asarray(np.argsort(np.argsort(-n_battles, kind="stable"))[component] + 1)


def _systems(rater: str, model: FittedModel, names: np.ndarray, confidence: float) -> dict[str, Any]:
    """Return the rows of a rater in the table `systems`, sorted by component and strength."""
    strengths, ranks, is_unknown = model.strengths, model.ranks, model.unknown
    estimate, part_of_system = strengths.draws[0], parts(model)
    columns = _bounded_columns("strength", strengths.draws, model, confidence)
    # The strength of a system that won or lost everything is finite only by a penalty.
    is_unbounded = ~strengths.bounded
    columns["strength_high"] = np.where(is_unbounded & (estimate > 0), np.nan, columns["strength_high"])
    columns["strength_low"] = np.where(is_unbounded & (estimate <= 0), np.nan, columns["strength_low"])
    order = np.lexsort((names, np.where(is_unknown, 0, -round_for_sorting(estimate)), is_unknown, part_of_system))
    is_tested = _is_testable(model)
    bounds = np.where(is_unknown | (not is_tested), np.nan, np.stack([ranks.low, ranks.high]))
    data = {
        "rater": np.full(len(names), rater),
        "system": names,
        "battles": model.battles,
        "opponents": model.opponents,
        "win_rate": model.rates[0],
        "win_rate_low": model.rates_low,
        "win_rate_high": model.rates_high,
        **columns,
        "rank": np.where(is_unknown, np.nan, ranks.rank),
        "rank_low": bounds[0],
        "rank_high": bounds[1],
        "group": _groups(model, part_of_system, order) if is_tested else np.full(len(names), None),
        "may_be_first": np.where(np.isnan(bounds[0]), None, bounds[0] == 1),
        "elo": ELO_MEAN + ELO * estimate,
        "part": np.where(is_unknown, np.nan, part_of_system),
    }
    return {name: np.asarray(values)[order] for name, values in data.items()}


def _bounded_columns(name: str, draws: Floats, model: FittedModel, confidence: float) -> dict[str, Floats]:
    """Return an estimate as the column `name`, and the bounds of its interval from the resamples of a model."""
    low, high = interval(draws, confidence=confidence, n_units=model.strengths.n_units)
    return {name: draws[0], f"{name}_low": low, f"{name}_high": high}


def _is_testable(model: FittedModel) -> bool:
    """Whether differences between systems can be tested."""
    return len(model.strengths.draws) > 1 and model.strengths.n_units > 1


def _groups(model: FittedModel, component_of_system: Ints, order: Ints) -> np.ndarray:
    """Return the group letters of the systems; None for systems without a comparison.

    If there are several components, the number of the component precedes the letters.
    """
    groups = np.full(len(component_of_system), None, dtype=object)
    component_numbers = np.unique(component_of_system[~model.unknown])
    for component_number in component_numbers:
        positions = [i for i in order if component_of_system[i] == component_number and not model.unknown[i]]
        letters_of_members = letters(model.ranks.apart[np.ix_(positions, positions)], range(len(positions)))
        groups[positions] = [
            f"{component_number}{letters_of_system}" if len(component_numbers) > 1 else letters_of_system
            for letters_of_system in letters_of_members
        ]
    return groups


def _pairs(rater: str, model: FittedModel, names: np.ndarray, confidence: float) -> dict[str, Any]:
    pairs, strengths, ranks = model.pairs, model.strengths, model.ranks
    assert pairs is not None
    first_system, second_system = pairs.first, pairs.second
    difference, low, high = (np.empty(len(first_system)) for _ in range(3))
    for block in chunks(len(first_system), len(strengths.draws)):
        draws = strengths.draws[:, first_system[block]] - strengths.draws[:, second_system[block]]
        columns = _bounded_columns("difference", draws, model, confidence)
        difference[block], low[block], high[block] = columns.values()
    # If the strength of a system is unbounded, one bound of the difference is unknown.
    is_unbounded = ~(strengths.bounded[first_system] & strengths.bounded[second_system])
    decision = np.where(~ranks.apart[first_system, second_system], "=", np.where(difference > 0, "+", "-"))
    win_odds, tie_odds, loss_odds = (
        np.exp(difference / 2),
        float(np.nan_to_num(strengths.ties[0])),
        np.exp(-difference / 2),
    )
    return {
        "rater": [rater] * len(first_system),
        "system_a": names[first_system],
        "system_b": names[second_system],
        "battles": pairs.outcomes.sum(axis=1),
        **{name: pairs.outcomes[:, i] for i, name in enumerate(("wins", "ties", "losses"))},
        "win_rate": pairs.rate,
        "win_rate_low": pairs.low,
        "win_rate_high": pairs.high,
        "expected": (win_odds + tie_odds / 2) / (win_odds + loss_odds + tie_odds),
        "difference": difference,
        "difference_low": np.where(is_unbounded & (difference <= 0), np.nan, low),
        "difference_high": np.where(is_unbounded & (difference > 0), np.nan, high),
        "p_adjusted": ranks.p_adjusted[first_system, second_system],
        "decision": decision if _is_testable(model) else np.full(len(decision), None),
        "note": np.where(ranks.at_threshold[first_system, second_system], AT_THRESHOLD, ""),
        **_direct(model.direct, len(first_system)),
        "more_comparisons": model.more_battles,
    }


def _direct(tests: DirectTests | None, n_pairs: int) -> dict[str, Any]:
    """Return the columns of direct tests, which use only the comparisons of one pair; null if there are no tests."""
    if tests is None:
        undefined_p = np.full(n_pairs, np.nan)
        return {"p_direct": undefined_p, "direct": np.full(n_pairs, None), "p_fit": undefined_p}
    direct = np.array(["=", "+", "-"], dtype=object)[tests.better]
    direct[np.isnan(tests.p_direct)] = None
    return {"p_direct": tests.p_direct, "direct": direct, "p_fit": tests.p_fit}


def _cycles(rater: str, model: FittedModel, names: np.ndarray) -> dict[str, Any]:
    rows = model.cycles
    return {
        "rater": [rater] * len(rows),
        "cycle": [" > ".join(names[[*cycle, cycle[0]]]) for cycle, *_ in rows],
        "win_rate": np.array([rate for _, rate, _, _ in rows], dtype=np.float64),
        "p_direct": np.array([p for _, _, p, _ in rows], dtype=np.float64),
        "systems": np.array([n for *_, n in rows], dtype=np.float64),
    }


def _leaders(rater: str, model: FittedModel, names: np.ndarray) -> dict[str, Any]:
    removal = model.removal
    assert model.pairs is not None
    n_removals = np.nan if removal is None else float(removal.number)
    return {
        "rater": [rater],
        "leader": [names[np.nanargmax(round_for_sorting(model.strengths.draws[0]))]],
        "successor": [None if removal is None else names[removal.successor]],
        "removals": np.array([n_removals]),
        "proportion": np.array([n_removals / model.pairs.outcomes.sum()]),
    }


def _effects(rater: str, model: FittedModel, confidence: float) -> dict[str, Any]:
    strengths, names = model.strengths, list(model.effects)
    columns = _bounded_columns("value", strengths.effects, model, confidence)
    columns |= {"p_value": p_value(strengths.effects, n_units=strengths.n_units)}
    if strengths.ties[0] > 0:  # there are ties, and they are not half wins
        log_ties = _bounded_columns("value", np.log(strengths.ties), model, confidence)
        tie_columns = {name: np.exp(value) for name, value in log_ties.items()} | {"p_value": np.nan}
        names = [TIES, *names]
        columns = {name: np.append(tie_columns[name], values) for name, values in columns.items()}
    units = [UNITS.get(name, OTHER_UNIT) for name in names]
    return {"rater": [rater] * len(names), "effect": names, **columns, "unit": units}


def _stack_columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the joined columns of all raters; numeric columns are arrays, other columns are lists."""
    blocks = list(rows)
    columns = {
        name: np.concatenate([np.asarray(block[name]) for block in blocks]) for name in (blocks[0] if blocks else ())
    }
    return {name: column if column.dtype.kind in "fi" else column.tolist() for name, column in columns.items()}
