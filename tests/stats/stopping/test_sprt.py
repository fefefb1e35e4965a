"""Wald's sequential test on gold questions: exact error rates, and invariance."""

from collections import defaultdict

import pytest

from custodes.stats.stopping.sequential import sprt


def rejection_and_length(chance: float, **limits: float) -> tuple[float, float]:
    """Return the exact probability of rejection and the mean number of answers until a decision, over all paths."""
    alive, blocked, answers = {(0, 0): 1.0}, 0.0, 0.0
    for number in range(1, 120):
        next_counts: dict[tuple[int, int], float] = defaultdict(float)
        for (n_right, n_wrong), share in alive.items():
            next_counts[n_right + 1, n_wrong] += share * chance
            next_counts[n_right, n_wrong + 1] += share * (1 - chance)
        decisions = {counts: sprt(*counts, **limits) for counts in next_counts}
        blocked += sum(share for counts, share in next_counts.items() if decisions[counts] == -1)
        answers += sum(share * number for counts, share in next_counts.items() if decisions[counts])
        alive = {counts: share for counts, share in next_counts.items() if not decisions[counts]}
    return blocked, answers


@pytest.mark.parametrize(
    ("chance", "blocked", "answers"),
    # simulated independently; .75 and .6 were truncated at a maximum number of answers
    [
        (0.95, 0.000, 4.7),
        (0.9, 0.003, 5.7),
        (0.85, 0.015, 7.0),
        (0.75, 0.13, 10.4),
        (0.6, 0.61, 12.1),
        (0.45, 0.92, 8.5),
        (0.33, 0.98, 6.1),
    ],
)
def test_who_is_blocked_after_how_many(chance: float, blocked: float, answers: float) -> None:
    result = rejection_and_length(chance)
    assert result[0] == pytest.approx(blocked, abs=0.02)
    assert result[1] == pytest.approx(answers, abs=0.5)


def test_a_mirror_of_chances_is_a_mirror_of_answers() -> None:
    even = {"good": 0.8, "bad": 0.2, "alpha": 0.05, "beta": 0.05}
    assert all(sprt(a, b, **even) == -sprt(b, a, **even) for a in range(12) for b in range(12))
