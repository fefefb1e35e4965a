"""How many known answers it takes to see that somebody answers blindly: Wald's sequential test."""

from __future__ import annotations

from math import log


def sprt(
    right: int, wrong: int, *, good: float = 0.85, bad: float = 0.45, alpha: float = 0.02, beta: float = 0.1
) -> int:
    """Whether somebody who gave so many right and wrong answers to known comparisons is good: 1, bad: -1, or open: 0.

    `good` and `bad` are the chances of a right answer that are told apart, `alpha` the chance at most that who is good
    is called bad at any time, `beta` that who is bad is called good. It looks at the counts alone, which may be tested
    after every answer; whoever stops at the first 1 or -1 keeps these errors.

    >>> [sprt(right, wrong) for right, wrong in ((3, 0), (4, 0), (0, 2), (1, 4), (10, 2))]
    [0, 1, 0, -1, 1]

    Source: Wald 1945, "Sequential tests of statistical hypotheses".
    """
    assert right >= 0
    assert wrong >= 0
    assert 0 < bad < good < 1
    assert 0 < alpha < 1
    assert 0 < beta < 1
    ratio = right * log(bad / good) + wrong * log((1 - bad) / (1 - good))
    return -1 if ratio >= log((1 - beta) / alpha) else 1 if ratio <= log(beta / (1 - alpha)) else 0
