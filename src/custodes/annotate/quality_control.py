"""Quality status of an annotator: ok, watch or blocked, with reasons that do not depend on the answers to real
questions.

Only control questions (gold, attention) block an annotator, by a sequential test of the accuracies .85 against .45. All
further criteria only set flags for the owner.
"""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple

Name = Literal["ok", "watch", "blocked"]


class Standing(NamedTuple):
    """`name`, and the reasons: `known` (control questions), `fast`, `one side`, `all equal`, `refuses`."""

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
    annotators: int,
) -> Standing:
    """Status of an annotator, from counts alone.

    `right` of `n_known` control questions (gold and attention). `seconds`: the annotator's median while a comparison
    was visible, over `timed` comparisons timed by the browser, None without any; `typical`: the usual time in the
    study, of the same kind. `first`: how often the output shown first was preferred in `decided` answers; `equal` of
    all `answers` were ties. `equal_share`: the proportion of ties in the study, without the annotator's own answers.
    `refused`: questions of all kinds without an answer. `annotators`: number of annotators, by which probabilities are
    divided, so that a careful annotator is flagged for position or ties in one of a thousand studies.

    >>> standing(right=1, n_known=4, seconds=6.0, timed=30, typical=38.0, first=30, decided=30, equal=0, answers=30,
    ...          refused=0, equal_share=0.2, annotators=12)
    Standing(name='watch', flags=('fast', 'one side'))
    """
    from custodes.stats.stopping.sequential import sprt

    flags = []
    blocked = sprt(right, n_known - right) < 0
    if blocked:
        flags.append("known")
    if seconds is not None and typical is not None and timed >= FEWEST and seconds < FAST * typical:
        flags.append("fast")
    if _is_one_sided(first, decided, annotators):
        flags.append("one side")
    if answers and equal == answers and annotators * equal_share**answers < RARE:
        flags.append("all equal")
    if refused + answers + n_known >= SEEN and refused > answers + n_known:
        flags.append("refuses")
    return Standing("blocked" if blocked else "watch" if flags else "ok", tuple(flags))


def _is_one_sided(first: int, decided: int, annotators: int) -> bool:
    """Whether more than 95 % of choices are of one side, significantly after adjustment for all annotators of the study
    (two-sided)."""
    most = max(first, decided - first)
    if most <= SIDE * decided:
        return False
    tail = sum(comb(decided, k) for k in range(most, decided + 1))
    return bool(2 * tail * annotators < RARE * 2**decided)  # integers, to avoid underflow


FAST = 0.25
"""An annotator whose median time is below this fraction of the study's median is flagged as fast."""
FEWEST = 16
"""Minimum number of timed answers for the flag: among 20 equal annotators with log-normal times (SD of the log 1.2),
one is flagged in less than one of 50 studies, at any time."""
SEEN = 8
"""Minimum number of questions for a flag on refusals."""
SIDE = 0.95
RARE = 0.001
