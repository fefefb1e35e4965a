"""Sentences on the best system, and on the further comparisons that undecided pairs need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb, exp

from custodes.answers.wording import (
    estimate_with_interval,
    interval,
    names,
    number,
    p_value_phrase,
    percent,
    plural,
    sentence,
    subject_with_verb,
)
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults, Row

MOST_LISTED = 6
"""Maximum number of systems of the top group that are named."""
LARGEST_ODDS = 100
"""Largest odds in sentences."""


def best(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the best system, or on the candidates, or on the reason why no system can be named."""
    if view.split:
        yield (
            f"{len(view.split)} groups of systems are not connected by comparisons "
            f"({'; '.join(map(names, view.split))}), so it is unknown which of all systems is best."
        )
    elif not_random_row := view.not_random:
        yield (
            f"Which system is best cannot be estimated: annotators judged {not_random_row['labels']} of the "
            f"{not_random_row['battles']} comparisons that {not_random_row['metric']} judged, and the human "
            f"comparisons are not a random part ({p_value_phrase(not_random_row['p_random'])}). A system may win "
            "because of how its comparisons were selected; let annotators judge a random part of all comparisons."
        )
        return
    elif corrected_row := view.corrected:
        metric_use_text = (
            f"The metric cannot be used to estimate the missing human preferences: {sentence(corrected_row['reason'])} "
            "The following sentences use human comparisons only."
            if corrected_row["reason"]
            else f"Preferences of {corrected_row['metric']} replace the missing human preferences. These preferences "
            "are corrected for the errors of the metric on the annotated part, which is assumed to be a random "
            "part."
        )
        yield (
            f"Annotators judged {corrected_row['labels']} of the {corrected_row['battles']} comparisons that "
            f"{corrected_row['metric']} judged. {metric_use_text}"
        )
    yield from map(_cycle, view.cycles)
    has_top_cycle = any({*cycle_row["cycle"].split(" > ")} & {*view.top} for cycle_row in view.cycles)
    if view.split or has_top_cycle or not view.board:
        return
    yield _top_group_text(view)
    if view.removal and len(view.top) == 1:
        n_comparisons = sum(system_row["battles"] for system_row in view.board) // 2
        yield (
            f"If {view.removal['removals']} particular comparisons of the {n_comparisons} human comparisons are "
            f"removed, {view.removal['successor']} ranks first (the smallest number found)."
        )


def _cycle(cycle_row: Row) -> str:
    """Return sentences on the systems of a cycle, in which each system wins against the next system."""
    first_system, *other_systems = cycle_row["cycle"].split(" > ")
    return (
        f"No ranking describes these systems: {first_system} beats {', which beats '.join(other_systems)}. Each system "
        f"wins at least {percent(cycle_row['win_rate'])} of the points against the next system "
        f"({p_value_phrase(cycle_row['p_direct'])}, all pairs tested together). Choose between two systems by their "
        "direct comparisons."
    )


def _odds(odds: float | None, *, digits: int) -> str:
    """Return odds as text; odds beyond 100 to 1 are only bounded, because data never determine them."""
    if odds is None or 1 / LARGEST_ODDS <= odds <= LARGEST_ODDS:
        return number(odds, digits=digits)
    return f"over {LARGEST_ODDS}" if odds > LARGEST_ODDS else f"under {number(1 / LARGEST_ODDS)}"


def _top_group_text(view: AspectResults) -> str:
    """Return sentences on the top group, and on the win rate of the first system."""
    first_row, *other_rows = view.board
    leading_system = first_row["system"]
    # A corrected model gives strengths only; intervals of win rates do not hold if sampling depended on outcomes.
    if first_row["win_rate"] is not None and not view.stopped:
        win_rate_text = estimate_with_interval(first_row, "win_rate", write=percent)
        rate_text = (
            f"{leading_system} wins {win_rate_text} of its comparisons, averaged over opponents (a tie counts half)"
        )
    else:
        odds_and_bounds = [
            None if first_row[column_name] is None else exp(first_row[column_name])
            for column_name in ("strength", "strength_low", "strength_high")
        ]
        odds_text = interval(*odds_and_bounds, digits=1, write=_odds)
        rate_text = f"{leading_system} wins {odds_text} times as often as it loses against an average system"
    first_systems = [system_row["system"] for system_row in view.board if system_row["rank"] == 1]
    first_text = f"{subject_with_verb(first_systems, 'ranks', 'rank')} first. {rate_text}."
    if first_row["rank_low"] is None:
        return f"By human ratings, {first_text} Without intervals, this rank cannot be compared with chance."
    if len(view.top) > 1:
        top_text = (
            " or ".join(names(view.top).rsplit(" and ", 1))
            if len(view.top) <= MOST_LISTED
            else f"One of {len(view.top)} systems"
        )
        return f"{top_text} is best; which one is undecided. {first_text}"
    others_text = other_rows[0]["system"] if len(other_rows) == 1 else f"each of the other {len(other_rows)} systems"
    lead_text = f": significantly better than {others_text}" if first_row["rank_high"] == 1 else ""
    return f"{leading_system} is best{lead_text}. {rate_text}."


def _undecided_pairs(view: AspectResults) -> list[tuple[Row, Row]]:
    """Return the undecided pairs of connected systems (all pairs tested together)."""
    return [
        (first_row, second_row)
        for first_row, second_row in combinations(view.board, 2)
        if first_row["part"] == second_row["part"] and view.is_undecided(first_row, second_row)
    ]


def top_pairs(view: AspectResults) -> list[frozenset[str]]:
    """Return the undecided pairs of systems that concern which system is best."""
    return [
        frozenset((first_row["system"], second_row["system"]))
        for first_row, second_row in _undecided_pairs(view)
        if 1 in (first_row["rank"], second_row["rank"]) or (first_row["may_be_first"] and second_row["may_be_first"])
    ]


def forecasts(view: AspectResults) -> list[tuple[str, str, float]]:
    """Return undecided pairs that concern which system is best, each with the number of comparisons that would give
    50 % power if the true difference equals the observed difference.

    Pairs with a system that ranks first come first, then smaller numbers. There is no forecast for a corrected
    leaderboard, for many systems, and for a system whose strength has an unknown bound.
    """
    rank_of_system = {system_row["system"]: system_row["rank"] for system_row in view.board}
    pair_rows = view.pairs.select("system_a", "system_b", "more_comparisons").drop_nulls().rows()
    undecided_top_pairs = top_pairs(view)
    pair_forecasts = [
        (*sorted(row[:2], key=lambda system: rank_of_system[system]), row[2])
        for row in pair_rows
        if frozenset(row[:2]) in undecided_top_pairs
    ]
    return sorted(pair_forecasts, key=lambda forecast: (rank_of_system[forecast[0]] > 1, forecast[2]))


def labels(view: AspectResults) -> Iterator[str]:
    """Yield sentences on undecided pairs, and on further comparisons that would decide which system is best."""
    n_undecided, n_top = len(_undecided_pairs(view)), len(top_pairs(view))
    if view.not_random or not n_undecided:
        return
    n_pairs = sum(comb(n_systems, 2) for n_systems in Counter(row["part"] for row in view.board).values())
    yield (
        f"{n_undecided} of {plural(n_pairs, 'pair')} of systems {'is' if n_undecided == 1 else 'are'} undecided (all "
        f"pairs tested together); {n_top or 'none'} of them {'concern' if n_top > 1 else 'concerns'} which system is "
        f"best{'' if n_top else ', so more comparisons are not needed to name the best system'}."
    )
    if lacks_forecast(view):
        yield more_ratings_text(candidates_text(view))
    if pair_forecasts := forecasts(view):
        yield forecast_text([pair_forecast_text(*forecast) for forecast in pair_forecasts[:MOST_NAMED]])


def pair_forecast_text(system_a: str, system_b: str, n_more: float) -> str:
    """Return the number of further comparisons of a pair as text, rounded to two significant digits.

    >>> pair_forecast_text("A", "B", 2345)
    'about 2300 of A vs B'
    """
    return f"about {float(f'{n_more:.2g}'):.0f} of {system_a} vs {system_b}"


def forecast_text(pair_texts: Sequence[str]) -> str:
    """Return a sentence on the numbers of further comparisons with 50 % power to decide each pair."""
    return (
        "If the true differences are as large as in these data, the following further human comparisons, each on a new "
        f"item, give 50 % power to show which system of a pair is better: {names(pair_texts)}. These comparisons do "
        "not decide other pairs."
    )


def lacks_forecast(view: AspectResults) -> bool:
    """Whether it is undecided which of several systems is best, and no pair has a forecast."""
    return bool(len(view.top) > 1 and not view.split and top_pairs(view) and not forecasts(view))


def candidates_text(view: AspectResults) -> str:
    """Return the names or the number of the systems of the top group."""
    return names(view.top) if len(view.top) <= MOST_LISTED else f"the {len(view.top)} candidates"


def more_ratings_text(candidates: str, aspects: str = "") -> str:
    """Return the advice to rate the candidates again; `aspects` begins with " on "."""
    return (
        f"To learn which of {candidates} is best{aspects}, collect more human ratings of these systems. These data do "
        "not show how many ratings are needed."
    )
