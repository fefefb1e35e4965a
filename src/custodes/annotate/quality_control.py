"""What a person's work gives rise to: ok, watch or blocked, with reasons, and blind to the answers that count.

Only known comparisons (gold, attention) block, by a sequential test of people who are right with chance .85 against
.45. All else is a flag for the owner to look at.
"""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple

Name = Literal["ok", "watch", "blocked"]


class Standing(NamedTuple):
    """`name`, and why: `known` (the test of known answers), `fast`, `one side`, `all equal`, `refuses`."""

    name: Name
    flags: tuple[str, ...]


def standing(
    *,
    right: int,
    n_known: int,
    seconds: float | None,
    timed: int,
    typical: float | None,
    first: int,
    decided: int,
    equal: int,
    answers: int,
    refused: int,
    equal_share: float,
    people: int,
) -> Standing:
    """How a person stands, by counts alone.

    `right` of `n_known` known comparisons (gold and attention together). `seconds`: the person's median while a
    comparison was visible, of `timed` that a browser timed, None where it timed none; `typical`: what is usual in the
    study, of the same kind. `first`: how often the first
    shown was preferred of `decided` answers; `equal` of all `answers` were ties. `equal_share` of ties in the study,
    the person's own answers left out. `refused`: questions of all kinds without an answer. `people` who answer: what is
    improbable of one is divided by their number, so that a study flags a good person for a side or for ties in one of a
    thousand.

    >>> standing(right=1, n_known=4, seconds=6.0, timed=30, typical=38.0, first=30, decided=30, equal=0, answers=30,
    ...          refused=0, equal_share=0.2, people=12)
    Standing(name='watch', flags=('fast', 'one side'))
    """
    from custodes.stats.stopping.sequential import sprt

    flags = []
    blocked = sprt(right, n_known - right) < 0
    if blocked:
        flags.append("known")
    if seconds is not None and typical is not None and timed >= FEWEST and seconds < FAST * typical:
        flags.append("fast")
    if _is_one_sided(first, decided, people):
        flags.append("one side")
    if answers and equal == answers and people * equal_share**answers < RARE:
        flags.append("all equal")
    if refused + answers + n_known >= SEEN and refused > answers + n_known:
        flags.append("refuses")
    return Standing("blocked" if blocked else "watch" if flags else "ok", tuple(flags))


def _is_one_sided(first: int, decided: int, people: int) -> bool:
    """More than 95 % of one side, where a fair coin would hardly do that to anybody of the study (two-sided)."""
    most = max(first, decided - first)
    if most <= SIDE * decided:
        return False
    tail = sum(comb(decided, k) for k in range(most, decided + 1))
    return bool(2 * tail * people < RARE * 2**decided)  # integers: no power underflows


FAST = 0.25
"""A median below this share of the study's is fast."""
FEWEST = 16
"""Timed answers from which on a median says something: 20 people alike, with log-normal times (SD of the logarithm
1.2), show a fast one in less than one of 50 studies, whenever one looks."""
SEEN = 8
"""Questions from which on a share of refusals says something."""
SIDE = 0.95
RARE = 0.001
