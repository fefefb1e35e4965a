"""Sentences on the best system, and on the further comparisons that undecided pairs need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import exp
from typing import NamedTuple

from custodes.answers.wording import (
    estimate_with_interval,
    interval,
    names,
    number,
    p_value_phrase,
    percent,
    plural,
    sentence,
)
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults, Row, applicable

MOST_LISTED = 6
"""Maximum number of systems of the top group that are named."""
LARGEST_ODDS = 100
"""Largest odds in sentences."""


def best(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the best system, or on the candidates, or on the reason why no system can be named."""
    if view.split:
        groups_text = "; ".join(names(system_group) for system_group in view.split)
        yield (
            f"{len(view.split)} groups of systems are not connected by comparisons ({groups_text}), so it is "
            f"unknown which of all systems is best.{_best_within_groups(view)}"
        )
        yield from map(_cycle, view.cycles)
        return
    if not view.board:
        return
    if not_random_row := view.not_random:
        yield (
            f"Which system is best cannot be estimated: annotators judged {not_random_row['labels']} of the "
            f"{not_random_row['battles']} comparisons that {not_random_row['metric']} judged, and the human "
            f"comparisons are not a random part ({p_value_phrase(not_random_row['p_random'])}). A system may win "
            "because of how its comparisons were selected; let annotators judge a random part of all comparisons."
        )
        return
    if corrected_row := view.corrected:
        metric_use_text = (
            f"The metric cannot be used to estimate the missing human preferences: {sentence(corrected_row['reason'])} "
            "The following sentences use human comparisons only."
            if corrected_row["reason"]
            else f"Preferences of {corrected_row['metric']} replace the missing human preferences. They are corrected "
            "for the errors of the metric on the annotated part, which is assumed to be a random part."
        )
        yield (
            f"Annotators judged {corrected_row['labels']} of the {corrected_row['battles']} comparisons that "
            f"{corrected_row['metric']} judged. {metric_use_text}"
        )
    yield from map(_cycle, view.cycles)
    if not any({*cycle_row["cycle"].split(" > ")} & {*view.top} for cycle_row in view.cycles):
        yield _top_group_text(view)
        if view.removal and len(view.top) == 1:
            n_comparisons = sum(system_row["battles"] for system_row in view.board) // 2
            yield (
                f"If {view.removal['removals']} particular comparisons of the {n_comparisons} human comparisons are "
                f"removed, {view.removal['successor']} ranks first (the smallest number found)."
            )
        yield from _next_to_reference(view)
    yield from map(sentence, view.unbeaten)
    yield from interim(view)


def _best_within_groups(view: AspectResults) -> str:
    """Return a sentence on the top group of each group of connected systems, after a space; empty without tests."""
    top_systems_of_groups = [[system for system in system_group if system in view.top] for system_group in view.split]
    if not all(top_systems_of_groups):
        return ""
    group_texts = [
        f"one of {len(top_systems)} systems"
        if len(top_systems) > MOST_LISTED
        else " or ".join(top_systems) + " (undecided)" * (len(top_systems) > 1)
        for top_systems in top_systems_of_groups
    ]
    return f" Best within these groups: {'; '.join(group_texts)}."


def interim(view: AspectResults) -> Iterator[str]:
    """Yield a sentence on decisions of interim analyses, which may differ from the joint test of all pairs."""
    interim_rows = view.rows("leaderboard", "interim").to_dicts()
    if not interim_rows:
        return
    template_of_decision = {"+": "{system_a} better than {system_b}", "-": "{system_b} better than {system_a}"}
    decision_texts = [
        template_of_decision[interim_row["decision"]].format_map(interim_row)
        for interim_row in interim_rows
        if interim_row["decision"] in template_of_decision
    ]
    n_undecided = len(interim_rows) - len(decision_texts)
    decisions_text = f"found {names(decision_texts, limit=MOST_LISTED)}" if decision_texts else "decided no pair"
    undecided_text = (
        f"; {plural(n_undecided, 'pair is', 'pairs are')} undecided" if decision_texts and n_undecided else ""
    )
    yield (
        f"The interim analyses {decisions_text}{undecided_text}. These analyses test each pair separately, and their "
        "decisions hold only for these annotators."
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


def _next_to_reference(view: AspectResults) -> Iterator[str]:
    """Yield a sentence on the best of the other systems if the best system looks like the reference."""
    first_row, *other_rows = view.board
    if first_row["system"] not in view.reference_systems or len(other_rows) < 2:
        return
    next_row = other_rows[0]
    tied_systems = [other_row["system"] for other_row in other_rows[1:] if view.is_undecided(next_row, other_row)]
    tied_text = (
        f"{next_row['system']} does not differ significantly from {names(tied_systems, limit=MOST_LISTED)}"
        if tied_systems
        else f"{next_row['system']} is significantly better than the other systems"
    )
    yield (
        f"{first_row['system']} looks like the reference. Of the other {len(other_rows)} systems, {next_row['system']} "
        f"ranks first. {tied_text}."
    )


def _odds(odds: float | None, *, digits: int) -> str:
    """Return odds as text; odds beyond 100 to 1 are only bounded, because data never determine them."""
    if odds is None or 1 / LARGEST_ODDS <= odds <= LARGEST_ODDS:
        return number(odds, digits=digits)
    return f"over {LARGEST_ODDS}" if odds > LARGEST_ODDS else f"under {number(1 / LARGEST_ODDS)}"


def _top_group_text(view: AspectResults) -> str:
    """Return sentences on the top group, and on the win rate of the first system."""
    first_row, top_systems = view.board[0], view.top
    leading_system, *other_systems = [system_row["system"] for system_row in view.board]
    # A corrected model gives strengths only; intervals of win rates do not hold if sampling depended on outcomes.
    if first_row["win_rate"] is not None and not view.stopped:
        win_rate_text = estimate_with_interval(first_row, "win_rate", write=percent)
        rate_text = f"wins {win_rate_text} of its comparisons, averaged over opponents (a tie counts half)"
    else:
        odds_and_bounds = [
            None if first_row[column_name] is None else exp(first_row[column_name])
            for column_name in ("strength", "strength_low", "strength_high")
        ]
        odds_text = interval(*odds_and_bounds, digits=1, write=_odds)
        rate_text = f"wins {odds_text} times as often as it loses against an average system"
    first_systems = [system_row["system"] for system_row in view.board if system_row["rank"] == 1]
    first_text = (
        f"{leading_system} ranks first: it {rate_text}."
        if len(first_systems) == 1
        else f"{names(first_systems, limit=MOST_LISTED)} share the first rank. {leading_system} {rate_text}."
    )
    if first_row["rank_low"] is None:
        no_test_text = sentence(view.no_test or "without intervals, this rank cannot be compared with chance")
        return f"By human ratings, {first_text} {no_test_text}"
    if len(top_systems) == len(other_systems) == 1:
        return f"{leading_system} is better than {other_systems[0]}: it {rate_text}."
    if len(top_systems) == 1:
        lead_text = f": significantly better than each of the other {len(other_systems)} systems"
        return (
            f"{leading_system} is best{lead_text if first_row['rank_high'] == 1 else ''}. {leading_system} {rate_text}."
        )
    system_rows_behind = [system_row for system_row in view.board if not system_row["may_be_first"]]
    if not system_rows_behind:
        top_text = names(top_systems) if len(top_systems) <= MOST_NAMED else f"the {len(top_systems)} systems"
        return (
            f"It is undecided which of {top_text} is best: no difference among these systems is significant. "
            f"{first_text}"
        )
    top_group_text = (
        f"One of {len(top_systems)} systems"
        if len(top_systems) > MOST_LISTED
        else " or ".join(names(top_systems).rsplit(" and ", 1))
    )
    behind_text = (
        "The other system is" if len(system_rows_behind) == 1 else f"The other {len(system_rows_behind)} systems are"
    )
    better_systems_text = (
        "some other system"
        if any(view.is_undecided(first_row, system_row) for system_row in system_rows_behind)
        else leading_system
    )
    return (
        f"{top_group_text} is best; which one is undecided. {first_text} "
        f"{behind_text} significantly worse than {better_systems_text}."
    )


class Undecided(NamedTuple):
    """Undecided pairs of systems of one aspect (all pairs tested together).

    `n_pairs` counts all connected pairs, `n_undecided` the undecided ones, and `n_top` those that concern which system
    is best. `forecasts` are pairs counted in `n_top`, each with the number of comparisons that would give 50 % power if
    the true difference equals the observed difference. Pairs with the leader come first, then smaller numbers.
    """

    n_pairs: int
    n_undecided: int
    n_top: int
    forecasts: list[tuple[str, str, float]]


def undecided(view: AspectResults) -> Undecided:
    """Return the undecided pairs of an aspect.

    Decisions and forecasts use the joint test of all pairs. If the strengths do not fit a pair, only the comparisons of
    this pair are used. There is no forecast for a corrected leaderboard, for many systems, and for a system whose
    strength has an unknown bound.
    """
    row_pairs = [row_pair for row_pair in combinations(view.board, 2) if row_pair[0]["part"] == row_pair[1]["part"]]
    undecided_row_pairs = [row_pair for row_pair in row_pairs if view.is_undecided(*row_pair)]
    leading_systems = {system_row["system"] for system_row in view.board if system_row["rank"] == 1}
    top_system_pairs = [
        (first_row["system"], second_row["system"])
        for first_row, second_row in undecided_row_pairs
        if 1 in (first_row["rank"], second_row["rank"]) or (first_row["may_be_first"] and second_row["may_be_first"])
    ]
    forecast_rows = view.pairs.select("system_a", "system_b", "more_comparisons").drop_nulls().iter_rows()
    n_more_of_pair = {
        frozenset((system_a, system_b)): float(n_comparisons) for system_a, system_b, n_comparisons in forecast_rows
    }
    forecasts = [
        (*system_pair, n_more_of_pair[frozenset(system_pair)])
        for system_pair in top_system_pairs
        if frozenset(system_pair) in n_more_of_pair
    ]
    forecasts.sort(key=lambda forecast: (leading_systems.isdisjoint(forecast[:2]), forecast[2]))
    return Undecided(len(row_pairs), len(undecided_row_pairs), len(top_system_pairs), forecasts)


def labels(view: AspectResults) -> Iterator[str]:
    """Yield sentences on undecided pairs, and on further comparisons that would decide which system is best."""
    undecided_pairs = undecided(view)
    if view.not_random or not undecided_pairs.n_undecided:
        return
    leading_system = view.board[0]["system"]
    has_reference = leading_system in view.reference_systems
    no_need_text = ", so more comparisons are not needed to name the best system"
    yield from applicable(
        (
            True,
            f"{undecided_pairs.n_undecided} of {plural(undecided_pairs.n_pairs, 'pair')} of systems "
            f"{'is' if undecided_pairs.n_undecided == 1 else 'are'} undecided (all pairs tested together); "
            f"{undecided_pairs.n_top or 'none'} of them {'concern' if undecided_pairs.n_top > 1 else 'concerns'} which "
            f"system is best{'' if undecided_pairs.n_top or has_reference else no_need_text}.",
        ),
        (
            has_reference and len(view.board) > 2 and not view.split and view.is_undecided(*view.board[1:3]),
            f"Which of the other systems is best is undecided; exclude the reference (--systems '!{leading_system}') "
            "to rank the other systems alone.",
        ),
        (lacks_forecast(view, undecided_pairs), more_ratings_text(candidates_text(view))),
        (
            undecided_pairs.forecasts,
            forecast_text([pair_forecast_text(*forecast) for forecast in undecided_pairs.forecasts[:MOST_NAMED]]),
        ),
    )


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


def lacks_forecast(view: AspectResults, pairs: Undecided) -> bool:
    """Whether it is undecided which of several systems is best, and no pair has a forecast."""
    has_reference = view.board[0]["system"] in view.reference_systems
    return pairs.n_top > 0 and not pairs.forecasts and len(view.top) > 1 and not view.split and not has_reference


def candidates_text(view: AspectResults) -> str:
    """Return the names or the number of the systems of the top group."""
    return names(view.top) if len(view.top) <= MOST_LISTED else f"the {len(view.top)} candidates"


def more_ratings_text(candidates: str, aspects: str = "") -> str:
    """Return the advice to rate the candidates again; `aspects` begins with " on "."""
    return (
        f"To learn which of {candidates} is best{aspects}, collect more human ratings of these systems. These data do "
        "not show how many ratings are needed."
    )
