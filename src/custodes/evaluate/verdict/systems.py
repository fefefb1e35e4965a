"""Sentences on the best system, and on the further comparisons that undecided pairs need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
    has_ranking = bool(view.board) and not (view.split or has_top_cycle)
    if has_ranking:
        yield _top_group_text(view)
    if has_ranking and view.removal and len(view.top) == 1:
        n_comparisons = sum(system_row["battles"] for system_row in view.board) // 2
        yield (
            f"If {view.removal['removals']} particular comparisons of the {n_comparisons} human comparisons are "
            f"removed, {view.removal['successor']} ranks first (the smallest number found)."
        )
    yield from interim(view)


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


def _odds(odds: float | None, *, digits: int) -> str:
    """Return odds as text. Larger odds than 100 to 1 are written as a bound, because data do not determine such
    odds."""
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
        notes = view.results["leaderboard"].notes
        no_test_messages = [note.message for note in notes if (note.rule, note.aspect) == ("no-test", view.aspect)]
        no_test_messages.sort(key=lambda message: view.judge not in message)  # a shortened list may lack the judge
        _, _, reason = next(iter(no_test_messages), "").partition(": ")
        no_test_text = sentence(reason or "without intervals, this rank cannot be compared with chance")
        return f"By human ratings, {first_text} {no_test_text}"
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


def labels(view: AspectResults) -> Iterator[str]:
    """Yield sentences on undecided pairs, and on further comparisons that would decide which system is best.

    There is no forecast for a corrected leaderboard, for many systems, and for a system whose strength has an unknown
    bound. Pairs with a system that ranks first come first. All other pairs are sorted by the number of further
    comparisons.
    """
    undecided_pairs = [
        (first_row, second_row)
        for first_row, second_row in combinations(view.board, 2)
        if first_row["part"] == second_row["part"] and view.is_undecided(first_row, second_row)
    ]
    if view.not_random or not undecided_pairs:
        return
    top_pairs = [
        frozenset((first_row["system"], second_row["system"]))
        for first_row, second_row in undecided_pairs
        if 1 in (first_row["rank"], second_row["rank"]) or (first_row["may_be_first"] and second_row["may_be_first"])
    ]
    n_pairs = sum(comb(n_systems, 2) for n_systems in Counter(row["part"] for row in view.board).values())
    yield (
        f"{len(undecided_pairs)} of {plural(n_pairs, 'pair')} of systems "
        f"{'is' if len(undecided_pairs) == 1 else 'are'} undecided (all pairs tested together); "
        f"{len(top_pairs) or 'none'} of them {'concern' if len(top_pairs) > 1 else 'concerns'} which system is "
        f"best{'' if top_pairs else ', so more comparisons are not needed to name the best system'}."
    )
    rank_of_system = {system_row["system"]: system_row["rank"] for system_row in view.board}
    pair_rows = view.pairs.select("system_a", "system_b", "more_comparisons").drop_nulls().rows()
    forecasts = [
        (*sorted(row[:2], key=lambda system: rank_of_system[system]), row[2])
        for row in pair_rows
        if frozenset(row[:2]) in top_pairs
    ]
    forecasts.sort(key=lambda forecast: (rank_of_system[forecast[0]] > 1, forecast[2]))
    if forecasts:
        forecast_texts = [f"about {float(f'{n_more:.2g}'):.0f} of {a} vs {b}" for a, b, n_more in forecasts]
        yield (
            "If the true differences are as large as in these data, a pair needs the following further human "
            "comparisons, each on a new item, for 50 % power to show which system is better: "
            f"{names(forecast_texts[:MOST_NAMED])}. These comparisons do not decide other pairs."
        )
    elif top_pairs and len(view.top) > 1 and not view.split:
        yield (
            f"To learn which of {names(view.top, limit=MOST_LISTED)} is best, collect more human ratings of these "
            "systems. These data do not show how many ratings are needed."
        )
