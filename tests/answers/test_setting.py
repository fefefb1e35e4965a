"""Arguments that questions share: defaults, what each may be, and what a bad one is told."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from custodes.answers.setting import (
    DEFAULTS,
    HELP,
    Selection,
    Setting,
    at_least,
    between,
    one_of,
    selection_of,
    settings,
)
from custodes.errors import OptionError


def test_every_argument_has_a_default_and_a_meaning() -> None:
    assert set(get_type_hints(Setting)) == set(DEFAULTS)
    assert set(get_type_hints(Selection)) < set(DEFAULTS) <= set(HELP)


def test_what_is_given_replaces_the_default() -> None:
    assert settings({}) == DEFAULTS
    made = settings({"ties": 0.5, "aspect": "style"})
    assert made == {**DEFAULTS, "ties": 0.5, "aspect": "style"}
    assert selection_of(made) == {name: made[name] for name in Selection.__annotations__}
    assert selection_of({"aspect": "style", "ties": 0.5}) == {"aspect": "style"}


@pytest.mark.parametrize("ties", ["exact", "calibrated", 0, 0.0, 2.5])
def test_ties_are_a_word_or_a_threshold(ties: Any) -> None:
    assert settings({"ties": ties})["ties"] == ties


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"aggregate": "median"}, "aggregate='median'; allowed: mean, vote"),
        ({"orders": "frist"}, "orders='frist'; allowed: mean, consistent, first (did you mean 'first'?)"),
        ({"ties": "calibrate"}, "ties='calibrate'; allowed: exact, calibrated, or a number in the metric's own units"),
        ({"ties": -0.1}, "ties=-0.1: a tie threshold is a number of at least 0"),
        ({"ties": float("nan")}, "ties=nan: a tie threshold"),
        ({"human_ties": float("inf")}, "human_ties=inf: a tie threshold"),
    ],
)
def test_bad_values(given: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        settings(given)
    assert str(error.value).startswith(message)


def test_numbers_are_checked_with_their_ends() -> None:
    assert between("confidence", 0.95, 0, 1) == 0.95
    for value in (0, 1, -1, float("nan")):
        with pytest.raises(OptionError, match="must lie between 0 and 1, both excluded"):
            between("confidence", value, 0, 1)
    made = at_least("resamples", 3.0, 3)
    assert (made, type(made)) == (3, int)
    for value in (2, 3.5):
        with pytest.raises(OptionError, match="must be a whole number of at least 3"):
            at_least("resamples", value, 3)
    assert one_of("level", "item", ("item", "system")) == "item"
    with pytest.raises(OptionError, match=r"level='items'; allowed: item, system \(did you mean 'item'\?\)"):
        one_of("level", "items", ("item", "system"))
