from __future__ import annotations

import pytest

from tests.simulation.gains import Kind, Size, claims
from tests.simulation.rates import most

pytestmark = pytest.mark.slow

STUDIES = 1000
LIMIT = most(0.06, STUDIES)

COPIES = Kind(lead=0.8, load=0.8, shared=0.98)
EVEN = Kind(lead=0.8, load=0.08)
"""The gain from other metrics equals the cost of learning their weights."""
PRINTS = Kind(lead=0.8, load=0.0, fingerprint=1.5)
"""Other metrics depend on the system only, which has no value for unseen systems."""
MIXED = Kind(lead=0.9, load=0.35, fingerprint=0.6)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (EVEN, Size(12, 8, 10)),
        (EVEN, Size(40, 8, 10)),
        (EVEN, Size(100, 8, 10, cluster=5)),
        (COPIES, Size(12, 8, 10)),
        (COPIES, Size(100, 8, 10, cluster=5)),
        (PRINTS, Size(12, 8, 10)),
        (PRINTS, Size(100, 8, 10, cluster=5)),
    ],
)
def test_no_more_is_claimed_on_unseen_items_than_there_is(kind: Kind, size: Size) -> None:
    _, beyond, _ = claims(kind, size, unseen_systems=False, studies=STUDIES)
    assert beyond <= LIMIT


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        (EVEN, Size(40, 8, 10)),
        (PRINTS, Size(40, 8, 10)),
        (PRINTS, Size(40, 16, 10)),
        (PRINTS, Size(100, 5, 20)),
        (MIXED, Size(100, 4, 10)),
    ],
)
def test_no_more_is_claimed_on_unseen_systems_than_there_is(kind: Kind, size: Size) -> None:
    _, beyond, _ = claims(kind, size, unseen_systems=True, studies=STUDIES)
    assert beyond <= LIMIT


@pytest.mark.parametrize(
    ("load", "size", "unseen_systems", "least"),
    [
        (0.25, Size(40, 8, 10), False, 0.75),
        (0.25, Size(100, 8, 10), False, 0.95),
        (0.4, Size(40, 8, 10), True, 0.95),
    ],
)
def test_a_gain_is_found(load: float, size: Size, unseen_systems: bool, least: float) -> None:
    truth, _, claimed = claims(Kind(lead=0.8, load=load), size, unseen_systems=unseen_systems, studies=200)
    assert 0.07 < truth < 0.17
    assert claimed >= least
