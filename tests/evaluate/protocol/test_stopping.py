"""Stopping rules: normalised spelling, meaning for a number of annotations, one-line messages for bad values."""

from dataclasses import fields, replace
from typing import Any

import pytest
from scipy.stats import norm

from custodes.errors import OptionError
from custodes.evaluate.protocol.stopping import Stopping, select_estimators_and_rules
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.sequential import BOUNDARIES, group_sequential_bounds
from tests.bad_arguments import BAD
from tests.messages import exactly

HUMAN = ESTIMATORS["human"]


def test_one_spelling() -> None:
    assert Stopping(stop="futility", looks=[5, 10]) == Stopping(stop="futility", looks=(5, 10))
    assert len({Stopping(), Stopping(batch=10), Stopping(batch=5)}) == 2
    assert repr(replace(Stopping(gamma=0.1), budget=20)) == "Stopping(budget=20, gamma=0.1)"


def test_a_rule_says_what_is_not_as_by_default() -> None:
    assert str(Stopping()) == "decided"
    assert str(Stopping(stop="futility", futility=0.1, looks=[10, 20])) == "futility, looks 10,20, futility 0.1"
    assert str(Stopping(boundary=2.5, budget=9)) == "decided, budget 9, boundary 2.5"


@pytest.mark.parametrize(
    ("options", "most", "looks"),
    [
        ({}, 25, (10, 20, 25)),
        ({}, 20, (10, 20)),
        ({}, 7, (7,)),
        ({"batch": 1}, 3, (1, 2, 3)),
        ({"looks": [10, 20, 40]}, 100, (10, 20, 40)),
        ({"looks": [10, 20, 40]}, 30, (10, 20, 30)),
        ({"looks": [10, 20, 40]}, 4, (4,)),
    ],
)
def test_looks(options: dict, most: int, looks: tuple) -> None:
    rule = Stopping(**options).rule(HUMAN, max_annotations=most, seed=0)
    assert rule.looks == looks
    assert rule.bounds == pytest.approx([norm.isf(0.025)] * len(looks))


def test_parts_of_a_rule() -> None:
    rule = Stopping(stop="futility", futility=0.3, budget=9).rule(HUMAN, max_annotations=9, seed=1)
    assert (rule.futility, rule.budget, rule.seed) == (0.3, 9, 1)
    decided = Stopping().rule(HUMAN, max_annotations=20, seed=0)
    assert (decided.futility, decided.budget > 1e18) == (None, True)
    assert Stopping(boundary=2.5).rule(HUMAN, max_annotations=20, seed=0).bounds == (2.5, 2.5)
    pocock = Stopping(looks=(10, 20, 30), boundary="pocock").rule(HUMAN, max_annotations=30, seed=0)
    assert [round(z, 2) for z in pocock.bounds] == [2.29, 2.29, 2.29]
    for kind in ("pocock", "obrien-fleming"):
        rule = Stopping(looks=(10, 20, 25), boundary=kind, gamma=0.1).rule(HUMAN, max_annotations=30, seed=0)
        assert rule.bounds == tuple(group_sequential_bounds((10, 20, 25), shape=BOUNDARIES[kind], level=0.1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch=0: must be a whole number of at least 1"),
        ({"gamma": 0.0}, "gamma=0.0: must lie between 0 and 1, both excluded"),
        (
            {"looks": [10, 5]},
            "looks=10,5 is not allowed; give increasing numbers of annotations per pair, as in 10,20,40",
        ),
        ({"looks": [0, 5]}, "looks=0: must be a whole number of at least 1"),
        ({"stop": "futile"}, "stop='futile'; allowed: decided, futility (did you mean 'futility'?)"),
        ({"boundary": "pocok"}, "boundary='pocok'; allowed: none, pocock, obrien-fleming (did you mean 'pocock'?)"),
        ({"boundary": float("nan")}, "boundary=nan is not allowed; give a positive, finite |z|"),
        ({"futility": 1.5}, "futility=1.5: must lie between 0 and 1, both excluded"),
        ({"looks": 10}, "looks=10 is not allowed; give increasing numbers of annotations per pair, as in 10,20,40"),
        ({"batch": 5, "looks": [10, 20]}, "batch=5 has no effect: looks set the annotations of each round"),
        ({"futility": 0.5}, "futility=0.5 has no effect: stop is not 'futility'"),
    ],
)
def test_bad_values(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)) as problem:
        Stopping(**options)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("value", ["pocock", ["pocock"], 5])
def test_what_is_no_stopping_is_refused(value: Any) -> None:
    with pytest.raises(OptionError, match="give cu.Stopping"):
        select_estimators_and_rules(None, value, is_without_metric=True)


def test_defaults_of_the_estimator() -> None:
    assert [
        stopping_of.name for stopping_of in select_estimators_and_rules(None, Stopping(), is_without_metric=True)[0]
    ] == ["human"]
    assert [
        stopping_of.name for stopping_of in select_estimators_and_rules(None, Stopping(), is_without_metric=False)[0]
    ] == ["mixture"]
    assert select_estimators_and_rules(["ppi", "ppi"], [Stopping(), Stopping()], is_without_metric=False) == (
        (ESTIMATORS["ppi"],),
        (Stopping(),),
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Stopping)])
def test_any_value_of_a_part_is_taken_or_refused_in_one_line(name: str) -> None:
    for value in BAD:
        try:
            text = repr(Stopping(**{name: value}))
        except OptionError as problem:
            text = str(problem)
        assert "\n" not in text
        assert len(text) < 500
