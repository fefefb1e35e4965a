"""Which system is best, and how many more comparisons the undecided pairs need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import exp

from custodes.answers.wording import interval, names, p_equals, percent, plural, sentence, with_ends
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.view import (
    COUNT,
    MOST_NAMED,
    PROPORTION,
    Row,
    Statement,
    View,
    letters_of,
    only,
    value_of,
)
from custodes.stats.information_gain import MOST

MOST_LISTED = 6
"""Systems that may be best are named up to so many."""


def best(view: View) -> Iterator[Statement]:
    """The system that is best, those that may be, or that nobody can say."""
    if view.sided:
        return
    if view.split:
        groups = "; ".join(names(group) for group in view.split)
        text = (
            f"{len(view.split)} groups of systems never met, not even through others ({groups}), so which system is"
            " best of all cannot be told."
        )
        yield Statement(kind="best", text=text)
        return
    if not view.board:
        return
    if row := view.not_random:
        yield _not_random(row)
        return
    top, *others = view.board
    if told := view.corrected:
        text = f"People judged {told['labels']} of the {told['battles']} comparisons that {told['metric']} judged. "
        if told["reason"]:
            text += f"The rest cannot be filled in from it: {sentence(told['reason'])} What follows is by people alone."
        else:
            text += (
                f"What they would say of all is estimated: {told['metric']} fills in the rest, corrected for how it"
                " errs where people looked. That holds if lots were drawn for what people judge."
            )
        yield Statement(kind="best", text=text, rater=told["metric"], value=float(told["labels"]), unit=COUNT)
    first = [row["system"] for row in view.first]
    # Corrected systems have strengths alone; of win rates no interval holds where answers decided how many were asked.
    counted = top["win_rate"] is not None and not view.stopped
    column, unit = ("win_rate", PROPORTION) if counted else ("strength", "log odds")
    if counted:
        rate = f"wins {with_ends(top, 'win_rate', shown=percent)} against an opponent on average, a tie counting half"
    else:
        rate = f"wins {interval(*_odds(top), digits=1)} times as often as it loses against a middling system"
    if top["rank_low"] is None:
        text = (
            f"{top['system']} has the highest standing by people ({rate}), but without intervals nobody can say whether"
            " that is more than chance."
        )
    elif len(first) == 1 and len(others) == 1:
        text = f"{top['system']} is better than {others[0]['system']}: it {rate}."
    elif len(first) == 1:
        ahead = f": clearly ahead of each of the other {len(others)} systems" if top["rank_high"] == 1 else ""
        text = f"{top['system']} is best{ahead}. It {rate}."
    elif len(first) == len(view.board):
        them = f"{names(first)}" if len(first) <= MOST_NAMED else f"the {len(first)} systems"
        text = f"Which of {them} is best cannot be told: none is clearly behind another."
        text += f" The highest standing has {top['system']}: it {rate}."
    else:
        behind = len(view.board) - len(first)
        text = (
            f"{_either(first)} is best; which one cannot be told. {top['system']} has the highest standing: it {rate}."
            f" {'The other system is' if behind == 1 else f'The other {behind} systems are'} clearly behind."
        )
    yield Statement(kind="best", text=text, rater=view.judge, system=only(first), unit=unit, **value_of(top, column))
    for message in view.unbeaten:
        yield Statement(kind="best", text=sentence(message))


def _not_random(row: Row) -> Statement:
    """Why no winner is named from human comparisons that were selected."""
    text = (
        f"Which system is best cannot be estimated: people judged {row['labels']} of the {row['battles']} comparisons"
        f" that {row['metric']} judged, and these are not a random part of them ({p_equals(row['p_random'])}). A"
        " system may win among them because of how they were chosen. Have people judge a random part of all."
    )
    return Statement(
        kind="best", text=text, rater=row["metric"], value=float(row["labels"]), unit=COUNT, p_value=row["p_random"]
    )


def _odds(row: Row) -> list[float | None]:
    """What the strength of a row and the ends of its interval mean: how often it wins for each time it loses."""
    return [None if (own := row[f"strength{end}"]) is None else exp(own) for end in ("", "_low", "_high")]


def _either(labels: list[str]) -> str:
    """`A or B`; only counted where they are many."""
    if len(labels) > MOST_LISTED:
        return f"One of {len(labels)} systems"
    return " or ".join(names(labels).rsplit(" and ", 1))


def more_labels(view: View) -> Iterator[Statement]:
    """How many pairs are undecided, and how many more comparisons those need that concern which system is best.

    These are pairs with the leader, first, and pairs within the top group. Decisions and forecasts are of the joint
    test of all pairs; there is no forecast for a corrected leaderboard.
    """
    if view.sided or view.not_random:
        return
    letters = {row["system"]: letters_of(row) for row in view.board}
    pairs = [pair for pair in combinations(view.board, 2) if pair[0]["part"] == pair[1]["part"]]
    undecided = [(a, b) for a, b in pairs if not letters[a["system"]].isdisjoint(letters[b["system"]])]
    if not undecided:
        return
    leaders = {row["system"] for row in view.board if row["rank"] == 1}
    of_leader = [pair for pair in undecided if not leaders.isdisjoint(row["system"] for row in pair)]
    of_top = [pair for pair in undecided if pair not in of_leader and all(row["may_be_first"] for row in pair)]
    concerned = len(of_leader) + len(of_top)
    text = f"{len(undecided)} of {plural(len(pairs), 'pair')} of systems {'is' if len(undecided) == 1 else 'are'}"
    text += f" undecided (all pairs tested together); {concerned or 'none'} of them"
    text += f" {'concern' if concerned > 1 else 'concerns'} which system is best."
    yield Statement(kind="labels", text=text, value=float(len(undecided)), unit=COUNT)
    forecasts = [(pair, more) for group in (of_leader, of_top) for pair, more in _forecasts(view, group)]
    for (a, b), more in forecasts[:MOST_NAMED]:
        text = f"About {rounded(more)} more human comparisons of {a} and {b} would give 50 % power"
        text += " to tell which is better."
        yield Statement(kind="labels", text=text, value=more, unit=COUNT)
    reachable = [pair for pair, _ in forecasts]
    far = [names_of for pair in (*of_leader, *of_top) if (names_of := _names_of(pair)) not in reachable]
    if far and view.judge == HUMAN:
        text = f"For {names([f'{a} and {b}' for a, b in far], limit=MOST_NAMED)}"
        text += f" even {MOST:.0f} times the present information would not give 50 % power."
        yield Statement(kind="labels", text=text)


def _names_of(pair: tuple[Row, Row]) -> tuple[str, str]:
    return pair[0]["system"], pair[1]["system"]


def _forecasts(view: View, pairs: list[tuple[Row, Row]]) -> list[tuple[tuple[str, str], float]]:
    """The names of the systems of pairs with a forecast, and the number of comparisons; the smallest first."""
    found = {frozenset(row[:2]): row[2] for row in view.more_comparisons.iter_rows()}
    forecasts = [(_names_of(pair), found.get(frozenset(_names_of(pair)))) for pair in pairs]
    return sorted(((pair, float(more)) for pair, more in forecasts if more is not None), key=lambda own: own[1])


def rounded(count: float) -> str:
    """A count of which two digits are known.

    >>> rounded(7), rounded(118), rounded(2345)
    ('7', '120', '2300')
    """
    return f"{float(f'{count:.2g}'):.0f}"
