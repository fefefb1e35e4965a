"""Sentences on the best system, and on the further comparisons that undecided pairs need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import exp

from custodes.answers.wording import interval, names, p_equals, percent, plural, sentence, with_ends
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults, Row, share_a_letter
from custodes.stats.information_gain import MOST

MOST_LISTED = 6
"""Maximum number of systems of the top group that are named."""


def best(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the best system, or on the candidates, or on the reason why no system can be named."""
    if view.split:
        groups = "; ".join(names(group) for group in view.split)
        yield (
            f"{len(view.split)} groups of systems are not connected by comparisons ({groups}), so the "
            "best of all systems is unknown."
        )
        return
    if not view.board:
        return
    if row := view.not_random:
        yield (
            f"Which system is best cannot be estimated: annotators judged {row['labels']} of the "
            f"{row['battles']} comparisons that {row['metric']} judged, and the human comparisons are not "
            f"a random part ({p_equals(row['p_random'])}). A system may win because of how its comparisons were "
            "selected; let annotators judge a random part of all comparisons."
        )
        return
    if row := view.corrected:
        part = f"Annotators judged {row['labels']} of the {row['battles']} comparisons that {row['metric']} judged."
        if row["reason"]:
            reason = sentence(row["reason"])
            yield (
                f"{part} The metric cannot be used to estimate the missing human preferences: {reason} "
                "The following sentences use human comparisons only."
            )
        else:
            yield (
                f"{part} {row['metric']} replaces the missing human preferences, "
                "corrected for the errors of the metric on the annotated part. This assumes that the annotated "
                "part was drawn at random."
            )
    yield from map(_cycle, view.cycles)
    if not any({*row["cycle"].split(" > ")} & {*view.top} for row in view.cycles):
        yield _standing(view)
    yield from map(sentence, view.unbeaten)
    yield from interim(view)


def interim(view: AspectResults) -> Iterator[str]:
    """Yield a sentence on decisions of interim analyses, which may differ from the joint test of all pairs."""
    if not view.interim:
        return
    sides = {"+": ("system_a", "system_b"), "-": ("system_b", "system_a")}
    decided = [[row[side] for side in sides[row["decision"]]] for row in view.interim if row["decision"] in sides]
    better = names([f"{first} better than {second}" for first, second in decided], limit=MOST_LISTED)
    left = len(view.interim) - len(decided)
    decision = f"found {better}" if decided else "decided no pair"
    others = f"; {plural(left, 'pair is', 'pairs are')} undecided" if decided and left else ""
    yield f"The interim analyses, which test each pair separately for these annotators, {decision}{others}."


def _cycle(row: Row) -> str:
    """Return sentences on the systems of a cycle, in which each system wins against the next system."""
    first, *others = row["cycle"].split(" > ")
    beaten = ", which beats ".join(others)
    return (
        f"No ranking describes these systems: {first} beats {beaten}. Each system wins at least"
        f" {percent(row['win_rate'])} of the points against the next system ({p_equals(row['p_direct'])}, all pairs"
        " tested together). Choose between two systems by their direct comparisons."
    )


def _standing(view: AspectResults) -> str:
    """Return sentences on the top group, and on the win rate of the first system."""
    first, (leader, *others), top = view.board[0], [row["system"] for row in view.board], view.top
    # A corrected model gives strengths only; intervals of win rates do not hold if sampling depended on outcomes.
    if first["win_rate"] is not None and not view.stopped:
        wins = with_ends(first, "win_rate", write=percent)
        rate = f"wins {wins} of its comparisons, averaged over opponents (a tie counts half)"
    else:
        odds = [
            None if first[name] is None else exp(first[name]) for name in ("strength", "strength_low", "strength_high")
        ]
        rate = f"wins {interval(*odds, digits=1)} times as often as it loses against an average system"
    if first["rank_low"] is None:
        return (
            f"{leader} ranks first by human ratings ({rate}), but without intervals, this rank cannot be "
            "compared with chance."
        )
    if len(top) == len(others) == 1:
        return f"{leader} is better than {others[0]}: it {rate}."
    if len(top) == 1:
        ahead = (
            f": significantly better than each of the other {len(others)} systems" if first["rank_high"] == 1 else ""
        )
        return f"{leader} is best{ahead}. It {rate}."
    behind = 1 + len(others) - len(top)
    if not behind:
        them = names(top) if len(top) <= MOST_NAMED else f"the {len(top)} systems"
        return (
            f"It is undecided which of {them} is best: no difference among these systems is significant. {leader} "
            f"ranks first: it {rate}."
        )
    either = f"One of {len(top)} systems" if len(top) > MOST_LISTED else " or ".join(names(top).rsplit(" and ", 1))
    rest = "The other system is" if behind == 1 else f"The other {behind} systems are"
    return f"{either} is best; which one is undecided. {leader} ranks first: it {rate}. {rest} significantly worse."


def labels(view: AspectResults) -> Iterator[str]:
    """Yield sentences on undecided pairs, and on further comparisons that would decide which system is best.

    Pairs with the leader come first, then pairs within the top group. Decisions and forecasts use the joint test of all
    pairs. If the strengths do not fit a pair, only the comparisons of this pair are used. There is no forecast for a
    corrected leaderboard.
    """
    pairs = [pair for pair in combinations(view.board, 2) if pair[0]["part"] == pair[1]["part"]]
    undecided = [
        (a, b)
        for a, b in pairs
        if share_a_letter(a, b) and frozenset((a["system"], b["system"])) not in view.decided_directly
    ]
    if view.not_random or not undecided:
        return
    of_leader = [pair for pair in undecided if any(row["rank"] == 1 for row in pair)]
    of_top = [pair for pair in undecided if pair not in of_leader and all(row["may_be_first"] for row in pair)]
    concerned = len(of_leader) + len(of_top)
    yield (
        f"{len(undecided)} of {plural(len(pairs), 'pair')} of systems {'is' if len(undecided) == 1 else 'are'}"
        f" undecided (all pairs tested together); {concerned or 'none'} of them"
        f" {'concern' if concerned > 1 else 'concerns'} which system is best."
    )
    rows = view.pairs.select("system_a", "system_b", "more_comparisons").drop_nulls().iter_rows()
    more = {frozenset((a, b)): float(n) for a, b, n in rows}
    forecasts, far = [], []
    for group in (of_leader, of_top):
        systems = [(a["system"], b["system"]) for a, b in group]
        forecasts += sorted(
            (pair for pair in systems if frozenset(pair) in more), key=lambda pair: more[frozenset(pair)]
        )
        far += [f"{a} and {b}" for a, b in systems if frozenset((a, b)) not in more]
    for a, b in forecasts[:MOST_NAMED]:
        n = rounded(more[frozenset((a, b))])
        yield f"About {n} more human comparisons of {a} and {b} would give 50 % power to tell which is better."
    if far and view.judge == HUMAN:
        which = names(far, limit=MOST_NAMED)
        yield f"For {which}, even {MOST:.0f} times the present information would not give 50 % power."


def rounded(count: float) -> str:
    """Return a count rounded to two significant digits, as text.

    >>> rounded(7), rounded(118), rounded(2345)
    ('7', '120', '2300')
    """
    return f"{float(f'{count:.2g}'):.0f}"
