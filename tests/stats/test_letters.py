"""Letters share exactly where nothing tells two apart."""

from __future__ import annotations

import re

import numpy as np
import pytest

from custodes.stats.graphs import letters


@pytest.mark.parametrize("seed", range(30))
def test_two_share_a_letter_exactly_where_they_are_not_told_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    apart = np.triu(rng.random((n, n)) < rng.random(), 1)
    apart |= apart.T
    order = rng.permutation(n).tolist()
    words = [set(re.findall(r"[a-z]\d*", own)) for own in letters(apart, order)]
    for a in range(n):
        for b in range(n):
            assert words[a].isdisjoint(words[b]) == bool(apart[a, b])
    assert "a" in words[order[0]]
    # no letter says less than another one
    held = {name: {thing for thing, own in enumerate(words) if name in own} for name in set().union(*words)}
    assert not any(one < other for one in held.values() for other in held.values())


def test_who_has_no_place_has_no_letter() -> None:
    apart = np.zeros((3, 3), dtype=bool)
    apart[0, 2] = apart[2, 0] = True
    assert letters(apart, [2, 0]) == ["b", "", "a"]
    assert letters(apart, []) == ["", "", ""]


def test_many_groups_have_many_names() -> None:
    apart = ~np.eye(30, dtype=bool)
    words = letters(apart, list(range(30)))
    assert words[25:28] == ["z", "a1", "b1"]


def test_of_hundreds_two_share_a_letter_exactly_where_they_are_not_told_apart() -> None:
    strength = np.random.default_rng(0).normal(size=300)
    apart = np.abs(strength[:, np.newaxis] - strength) > 1.0
    words = [set(re.findall(r"[a-z]\d*", own)) for own in letters(apart, np.argsort(-strength).tolist())]
    for a in range(300):
        for b in range(a):
            assert words[a].isdisjoint(words[b]) == bool(apart[a, b])
