from __future__ import annotations

import numpy as np

from custodes.evaluate.decision_graph import format_decisions, pair_matrix, ranking_graph


def test_decisions_as_written() -> None:
    assert format_decisions(np.array([[1, 0], [-1, np.nan]])) == ["+", "=", "-", None]
    assert format_decisions(np.array([-1, 0, 1], dtype=np.int8)) == ["-", "=", "+"]


def test_each_system_against_each() -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    systems, square = pair_matrix(("b", "c"), ("a", "a"), values, 10 * values)
    assert systems == ["a", "b", "c"]
    expected = [[[np.nan, 10 * b, 10 * c], [b, np.nan, np.nan], [c, np.nan, np.nan]] for b, c in values]
    np.testing.assert_array_equal(square, expected)


def test_graph_of_a_circle_and_what_follows_from_it() -> None:
    # a > b > c > a, all of them above d, d above e, and a above e by transitivity; f is isolated
    beats = np.zeros((6, 6), dtype=bool)
    for winner, loser in [(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3), (3, 4), (0, 4)]:
        beats[winner, loser] = True
    names, members, between, edges = ranking_graph("abcdef", beats)
    assert sorted(names) == ["a ~ b ~ c", "d", "e", "f"]
    assert {(names[a], names[b]) for a, b in edges} == {("a ~ b ~ c", "d"), ("d", "e")}
    assert {(names[a], names[b]) for a, b in np.argwhere(between)} == {
        ("a ~ b ~ c", "d"),
        ("d", "e"),
        ("a ~ b ~ c", "e"),
    }
    assert members[names.index("a ~ b ~ c")].tolist() == [True] * 3 + [False] * 3
