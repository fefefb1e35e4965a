"""Options that several questions share: default values, and one-line errors for invalid values."""

from __future__ import annotations

from typing import Any

import pytest

import custodes as cu
from custodes.answers.shared_arguments import (
    DEFAULTS,
    HELP,
    PreferenceOptions,
    Selection,
    selection_arguments,
    settings,
)
from custodes.arguments import check_at_least, check_between, check_one_of
from custodes.errors import OptionError


def test_what_is_not_given_is_as_by_default() -> None:
    assert settings({}) == DEFAULTS
    assert settings({"ties": 0.5, "human": "ann"}) == {**DEFAULTS, "ties": 0.5, "human": "ann"}
    assert DEFAULTS.keys() == PreferenceOptions.__annotations__.keys()
    assert DEFAULTS.keys() <= HELP.keys()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"aggregate": "media"}, "aggregate='media'; allowed: mean, vote"),
        ({"orders": "frist"}, r"orders='frist'; allowed: mean, consistent, first \(did you mean 'first'\?\)"),
        ({"ties": "calibrate"}, r"ties='calibrate'; allowed: .*exact, calibrated.* \(did you mean 'calibrated'\?\)"),
        ({"ties": -1}, "ties=-1 is not allowed; use a tie threshold of at least 0"),
        ({"ties": float("nan")}, "ties=nan is not allowed; use a tie threshold"),
        ({"human_ties": float("inf")}, "human_ties=inf is not allowed; use a tie threshold"),
    ],
)
def test_values_that_cannot_be_are_told(value: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        cu.agreement("demo", resamples=0, **value)


def test_the_selection_is_a_part_of_the_setting() -> None:
    options = {**DEFAULTS, "systems": "A", "confidence": 0.9}
    assert selection_arguments(options) == {name: options[name] for name in Selection.__annotations__}
    assert selection_arguments({"ties": 3, "group": "news"}) == {"group": "news"}


def test_bounds_exclude_and_include_as_they_say() -> None:
    assert check_between("alpha", 0.05, 0, 1) == 0.05
    for value in (0, 1, float("nan")):
        with pytest.raises(OptionError, match=f"alpha={value}: must lie between 0 and 1, both excluded"):
            check_between("alpha", value, 0, 1)
    assert check_at_least("steps", 3.0, 3) == 3  # type: ignore[arg-type]
    for value in (2, 2.5, 3.5):
        with pytest.raises(OptionError, match=f"steps={value}: must be a whole number of at least 3"):
            check_at_least("steps", value, 3)  # type: ignore[arg-type]
    assert check_one_of("way", "a", ("a", "b")) == "a"
    with pytest.raises(OptionError, match="way='c'; allowed: a, b"):
        check_one_of("way", "c", ("a", "b"))
