"""Rates at which `annotators` flags careful and careless annotators.

As a script it prints the rates of docs/annotators.md: `python -m tests.simulation.test_careful_people`.
"""

from __future__ import annotations

import pytest

from tests.simulation.careful_people import CAREFUL, CARELESS, rates

STUDIES = 150
AT_MOST = 0.06


@pytest.mark.slow
@pytest.mark.parametrize("kind", CAREFUL)
def test_nobody_careful_is_flagged(kind: str) -> None:
    assert rates(CAREFUL[kind], STUDIES).false <= AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize("kind", CARELESS)
def test_random_answers_are_flagged_about_as_often_as_by_exact_agreement(kind: str) -> None:
    draw, before = CARELESS[kind]
    flag_rates = rates(draw, STUDIES)
    assert flag_rates.false <= AT_MOST
    assert flag_rates.power >= 0.9 * before


if __name__ == "__main__":
    for kind, draw in CAREFUL.items():
        print(kind, f"{rates(draw, 300).false:.3f}", flush=True)
    for kind, (draw, before) in CARELESS.items():
        flag_rates = rates(draw, 300)
        print(kind, f"false {flag_rates.false:.3f}, found {flag_rates.power:.3f}, before {before:.3f}", flush=True)
