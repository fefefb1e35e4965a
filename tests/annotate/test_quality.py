"""Standing of annotators by known answers, time and sides, with few false flags over a whole study."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest

from custodes.annotate.participants import FEWEST, AnnotatorStanding, Work, annotator_standing

USUAL = {"gold_right": 3, "gold_asked": 3, "first_shown": 15, "decided": 30, "equal": 10, "primary": 40, "refused": 0}
NEW = {**dict.fromkeys(USUAL, 0), "primary": 3}


def standing_of(
    *, seconds: float = 30.0, timed: int = 40, equal_share: float = 0.25, **counts: int
) -> AnnotatorStanding:
    """Return the standing of one of 20 annotators; `timed` answers took `seconds` each, and 30 s is typical."""
    work = Work(**USUAL | counts, times=array("d", [seconds] * timed))
    totals = Work(primary=work.answers + 1000, equal=work.equal + round(1000 * equal_share))
    return annotator_standing(work, totals, typical_seconds=30.0, n_annotators=20)


def test_a_usual_person_is_ok() -> None:
    assert standing_of() == AnnotatorStanding("ok", ())
    assert annotator_standing(Work(), Work(), typical_seconds=None, n_annotators=1) == AnnotatorStanding("ok", ())


@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"seconds": 7.4}, ("fast",)),
        ({"seconds": 7.6}, ()),
        ({"seconds": 7.4, "timed": 15}, ()),  # too few for a median
        ({"timed": 0}, ()),  # a browser that reports no times
        ({"first_shown": 30}, ("one side",)),
        ({"first_shown": 0}, ("one side",)),
        ({"first_shown": 29}, ("one side",)),  # 97 %
        ({"first_shown": 28}, ()),  # 93 %
        ({"first_shown": 8, "decided": 8}, ()),  # too frequent for one of 20 annotators with random sides
        ({"equal": 40}, ("all equal",)),
        ({"equal": 40, "equal_share": 0.9}, ()),  # a study of ties
        ({"gold_right": 8, "gold_asked": 10}, ()),  # occurs at some time for half of the annotators with accuracy .85
        ({"refused": 43}, ()),  # half of the questions, with three known ones
        ({"refused": 44}, ("refuses",)),
        ({**NEW, "refused": 4}, ()),  # 4 of 7
        ({**NEW, "refused": 5}, ("refuses",)),
    ],
    ids=str,
)
def test_flags(fields: dict[str, Any], flags: tuple[str, ...]) -> None:
    assert standing_of(**fields) == AnnotatorStanding("watch" if flags else "ok", flags)


def test_only_known_answers_block() -> None:
    worst = standing_of(seconds=0.1, first_shown=30, equal=40, gold_right=8, gold_asked=10)
    assert worst == ("watch", ("fast", "one side", "all equal"))
    assert standing_of(gold_right=0, gold_asked=6).name == "blocked"
    assert "known" in standing_of(gold_right=0, gold_asked=6).flags


def test_accurate_annotators_are_rarely_blocked() -> None:
    """With 30 known questions at most .02 of annotators with accuracy .9 are blocked, and at least .93 with 1/3."""
    rng = np.random.default_rng(1)

    def blocked(p: float, annotators: int = 400) -> float:
        hits = 0
        for answers in rng.random((annotators, 30)) < p:
            right = np.cumsum(answers)
            hits += any(standing_of(gold_right=int(right[i]), gold_asked=i + 1).name == "blocked" for i in range(30))
        return hits / annotators

    assert blocked(0.9) <= 0.02
    assert blocked(1 / 3) >= 0.93


def test_accurate_annotators_are_rarely_flagged() -> None:
    """20 annotators with accuracy .9 and 4 known questions: at most .06 of 500 studies have a flag at any time (exactly
    .02: the first three answers wrong)."""
    right = np.cumsum(np.random.default_rng(3).random((500, 20, 4)) < 0.9, axis=2)
    is_flagged = [
        [bool(standing_of(gold_right=n, gold_asked=n_known).flags) for n in range(n_known + 1)]
        for n_known in range(1, 5)
    ]
    flagged = np.stack([np.array(is_flagged[k])[right[:, :, k]] for k in range(4)])
    assert flagged.any(axis=(0, 2)).mean() <= 0.06


@pytest.mark.parametrize("spread", [0.5, 1.2])
def test_similar_annotators_are_rarely_flagged_as_fast(spread: float) -> None:
    """Log-normal times of 20 annotators with 40 answers: at most 5 of 100 studies have a flag at any time."""
    rng = np.random.default_rng(4)
    flagged = 0
    for _ in range(100):
        times = np.exp(rng.normal(3, spread, (20, 40)))
        looks = [(n, np.median(times[:, :n], axis=1)) for n in range(FEWEST, 41)]
        ratios = [(n, float(min(medians) / np.median(medians))) for n, medians in looks]
        flagged += any("fast" in standing_of(seconds=30 * ratio, timed=n).flags for n, ratio in ratios if ratio < 0.3)
    assert flagged <= 5


@pytest.mark.slow
def test_random_sides_are_rarely_flagged() -> None:
    """Random sides of 20 annotators with 60 answers: at most 3 of 300 studies have a flag at any time."""
    rng = np.random.default_rng(2)
    flagged = 0
    for _ in range(300):
        first = np.cumsum(rng.random((20, 60)) < 0.5, axis=1)
        extreme = np.maximum(first, np.arange(1, 61) - first)
        flagged += any(
            "one side" in standing_of(first_shown=int(first[w, n]), decided=n + 1).flags
            for w, n in zip(*np.nonzero(extreme > 0.95 * np.arange(1, 61)), strict=True)
        )
    assert flagged <= 3
