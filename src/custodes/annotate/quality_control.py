"""Quality status of an annotator: ok, watch or blocked, with reasons. The status does not depend on which systems the
annotator prefers.

Only control questions (gold, attention) block an annotator. Blocking is decided by a sequential test of the accuracy
.85 against the accuracy .45. All other criteria only set flags for the owner.
"""

from __future__ import annotations

from math import comb
from statistics import median
from typing import Literal, NamedTuple

from custodes.annotate.participants import Totals, Work

Name = Literal["ok", "watch", "blocked"]


class AnnotatorStanding(NamedTuple):
    """The status of an annotator, and the reasons for it: `known` (control questions), `fast`, `one side`, `all equal`,
    `refuses`."""

    name: Name
    flags: tuple[str, ...]


def annotator_standing(
    work: Work, totals: Totals, *, typical_seconds: float | None, n_annotators: int
) -> AnnotatorStanding:
    """Return the status of an annotator, which is computed only from the annotator's counts and times and the counts of
    the whole study (`totals`).

    `typical_seconds` is the typical median time of a comparison in the study, in visible seconds that the browser
    measured. `n_annotators` is the number of annotators. Probabilities are adjusted for this number, so that only one
    of a thousand studies flags a careful annotator for position or ties.

    >>> from array import array
    >>> work = Work(gold_asked=4, gold_right=1, answers=30, decided=30, first_shown=30, times=array("d", [6.0] * 30))
    >>> annotator_standing(work, Totals(answers=360, equal=66), typical_seconds=38.0, n_annotators=12)
    AnnotatorStanding(name='watch', flags=('fast', 'one side'))
    """
    from custodes.stats.stopping.sequential import sprt

    flags = []
    is_blocked = sprt(work.gold_right, work.gold_asked - work.gold_right) < 0
    if is_blocked:
        flags.append("known")
    if typical_seconds is not None and len(work.times) >= FEWEST and median(work.times) < FAST * typical_seconds:
        flags.append("fast")
    if _is_one_sided(work.first_shown, work.decided, n_annotators):
        flags.append("one side")
    n_other_answers = max(totals.answers - work.answers, 1)
    equal_rate_among_others = (totals.equal - work.equal) / n_other_answers  # of the other annotators
    if work.answers and work.equal == work.answers and n_annotators * equal_rate_among_others**work.answers < RARE:
        flags.append("all equal")
    n_judged_questions = work.answers + work.gold_asked
    if work.refused + n_judged_questions >= SEEN and work.refused > n_judged_questions:
        flags.append("refuses")
    return AnnotatorStanding("blocked" if is_blocked else "watch" if flags else "ok", tuple(flags))


def _is_one_sided(n_first_choices: int, n_decided_answers: int, n_annotators: int) -> bool:
    """Whether more than 95 % of the choices prefer the same side. The excess must be significant in a two-sided test,
    adjusted for the number of annotators of the study."""
    n_majority_choices = max(n_first_choices, n_decided_answers - n_first_choices)
    if n_majority_choices <= SIDE * n_decided_answers:
        return False
    n_tail_sequences = sum(
        comb(n_decided_answers, n_side_choices) for n_side_choices in range(n_majority_choices, n_decided_answers + 1)
    )
    return bool(2 * n_tail_sequences * n_annotators < RARE * 2**n_decided_answers)  # integers, to avoid underflow


FAST = 0.25
"""An annotator is flagged as fast if the median time is below this fraction of the typical time in the study."""
FEWEST = 16
"""Minimum number of timed answers for the flag `fast`. With 20 equal annotators and log-normal times (SD of the log
1.2), fewer than one of 50 studies ever flags any annotator."""
SEEN = 8
"""Minimum number of questions for the flag `refuses`."""
SIDE = 0.95
RARE = 0.001
