"""False claims of a gain, in short; the long simulation is tests/simulation/test_gains.py."""

from __future__ import annotations

from tests.simulation.gains import Kind, Size, claims


def test_gains_are_claimed_where_they_are_and_seldom_elsewhere() -> None:
    _, beyond, _ = claims(Kind(lead=0.8, load=0.8, shared=0.98), Size(12, 6, 5), unseen_systems=False, studies=100)
    assert beyond <= 0.1  # of 100 studies at a rate of .06, more than 10 have probability .04
    truth, _, claimed = claims(Kind(lead=0.8, load=0.6), Size(40, 6, 5), unseen_systems=False, studies=20)
    assert truth > 0.05
    assert claimed >= 0.8


def test_what_metrics_know_of_systems_is_no_gain_on_others() -> None:
    prints = Kind(lead=1.0, load=0.0, fingerprint=1.5)
    _, _, claimed = claims(prints, Size(20, 6, 5), unseen_systems=True, studies=20)
    assert claimed <= 0.2  # at a rate of .06, more than 4 of 20 have probability .006
