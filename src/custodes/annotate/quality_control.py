"""Quality status of an annotator: ok, watch or blocked, with reasons. The status does not depend on which systems the
annotator prefers.

Only control questions (gold, attention) block an annotator. Blocking is decided by a sequential test of the accuracy
.85 against the accuracy .45. All other criteria only set flags for the owner.
"""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple

Name = Literal["ok", "watch", "blocked"]


class Standing(NamedTuple):
    """The status of an annotator, and the reasons for it: `known` (control questions), `fast`, `one side`, `all equal`,
    `refuses`."""

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
    """Return the status of an annotator, which is computed only from counts and times.

    The annotator answered `right` of `n_known` control questions (gold and attention) correctly. `seconds` is the
    median time for which a comparison was visible to the annotator, over `timed` comparisons that the browser timed. If
    the browser timed none, `seconds` is None. `typical` is the usual median time in the study, measured in the same
    way. In `first` of `decided` answers, the annotator preferred the output shown first. Of all `answers`, `equal` were
    ties. `equal_share` is the proportion of ties in the study, without this annotator's answers. The annotator could
    not judge `refused` questions of all kinds. `annotators` is the number of annotators. Probabilities are adjusted for
    this number, so that a careful annotator is flagged for position or ties in only one of a thousand studies.

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
    """Whether more than 95 % of the choices prefer the same side. The excess must be significant in a two-sided test,
    adjusted for the number of annotators of the study."""
    most = max(first, decided - first)
    if most <= SIDE * decided:
        return False
    tail = sum(comb(decided, k) for k in range(most, decided + 1))
    return bool(2 * tail * annotators < RARE * 2**decided)  # integers, to avoid underflow


FAST = 0.25
"""An annotator is flagged as fast if the median time is below this fraction of the typical time in the study."""
FEWEST = 16
"""Minimum number of timed answers for the flag `fast`. With 20 equal annotators and log-normal times (SD of the log
1.2), an annotator is flagged at any time in fewer than one of 50 studies."""
SEEN = 8
"""Minimum number of questions for the flag `refuses`."""
SIDE = 0.95
RARE = 0.001
