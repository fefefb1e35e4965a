"""How people stand: by known answers, time and sides, with errors that are rare over a whole study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from custodes.annotate.quality import Standing, standing

USUAL: dict[str, Any] = {
    "right": 3,
    "asked": 3,
    "seconds": 30.0,
    "typical": 30.0,
    "first": 15,
    "decided": 30,
    "equal": 10,
    "answers": 40,
    "refused": 0,
    "equal_share": 0.25,
    "people": 20,
}


def stands(**given: Any) -> Standing:
    return standing(**USUAL | given)


def test_a_usual_person_is_ok() -> None:
    assert stands() == Standing("ok", ())
    assert stands(right=0, asked=0, seconds=None, typical=None, first=0, decided=0, equal=0, answers=0) == ("ok", ())


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({"seconds": 7.4}, ("fast",)),
        ({"seconds": 7.6}, ()),
        ({"seconds": 7.4, "answers": 7, "equal": 0}, ()),  # too few for a median
        ({"first": 30}, ("one side",)),
        ({"first": 0}, ("one side",)),
        ({"first": 29}, ("one side",)),  # 97 %
        ({"first": 28}, ()),  # 93 %
        ({"first": 8, "decided": 8}, ()),  # a fair coin does that to one of 20 people too often
        ({"equal": 40}, ("all equal",)),
        ({"equal": 40, "equal_share": 0.9}, ()),  # a study of ties
        ({"refused": 43}, ()),  # half of what was asked, with three known ones
        ({"refused": 44}, ("refuses",)),
        ({"right": 0, "asked": 0, "answers": 3, "equal": 0, "refused": 4, "decided": 0, "first": 0}, ()),  # of 7
        ({"right": 0, "asked": 0, "answers": 3, "equal": 0, "refused": 5, "decided": 0, "first": 0}, ("refuses",)),
        ({"right": 8, "asked": 10}, ("gold",)),
        ({"right": 9, "asked": 10}, ()),
    ],
    ids=str,
)
def test_flags(given: dict[str, Any], flags: tuple[str, ...]) -> None:
    assert stands(**given) == Standing("watch" if flags else "ok", flags)


def test_only_known_answers_block() -> None:
    worst = stands(seconds=0.1, first=30, equal=40, right=8, asked=10)
    assert worst.name == "watch"
    assert stands(right=0, asked=6).name == "blocked"
    assert "known" in stands(right=0, asked=6).flags


def test_answers_that_count_change_nothing() -> None:
    """A standing knows nothing of systems: a person who always prefers one of them by content is not touched."""
    assert set(USUAL) & {"system", "preference", "wins", "losses", "agreed"} == set()


def test_who_is_right_is_rarely_blocked() -> None:
    """Design, section 4.6: P(blocked) .001 or less at .9 right; .98 at .33 right. 1,000 people, 30 known each."""
    rng = np.random.default_rng(1)

    def blocked(p: float, people: int = 400) -> float:
        hits = 0
        for answers in rng.random((people, 30)) < p:
            right = np.cumsum(answers)
            hits += any(stands(right=int(right[i]), asked=i + 1).name == "blocked" for i in range(30))
        return hits / people

    assert blocked(0.9) <= 0.02
    assert blocked(1 / 3) >= 0.93


@pytest.mark.slow
def test_a_side_is_flagged_by_chance_in_one_study_of_a_thousand() -> None:
    """Fair coins, 20 people, looked at after every answer to 60; at most 3 studies of 300 with a flag."""
    rng = np.random.default_rng(2)
    flagged = 0
    for _ in range(300):
        first = np.cumsum(rng.random((20, 60)) < 0.5, axis=1)
        extreme = np.maximum(first, np.arange(1, 61) - first)
        flagged += any(
            "one side" in stands(first=int(first[w, n]), decided=n + 1).flags
            for w, n in zip(*np.nonzero(extreme > 0.95 * np.arange(1, 61)), strict=True)
        )
    assert flagged <= 3
