"""Options that several questions share: default values, and one-line errors for invalid values."""

from __future__ import annotations

from typing import Any

import pytest

import custodes as cu
from custodes.answers.shared_arguments import DEFAULTS, HELP, Selection, Setting, selection_of, settings
from custodes.arguments import at_least, between, one_of
from custodes.errors import OptionError


def test_what_is_not_given_is_as_by_default() -> None:
    assert settings({}) == DEFAULTS
    assert settings({"ties": 0.5, "human": "ann"}) == {**DEFAULTS, "ties": 0.5, "human": "ann"}
    assert DEFAULTS.keys() == Setting.__annotations__.keys()
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
    assert selection_of(options) == {name: options[name] for name in Selection.__annotations__}
    assert selection_of({"ties": 3, "group": "news"}) == {"group": "news"}


def test_bounds_exclude_and_include_as_they_say() -> None:
    assert between("alpha", 0.05, 0, 1) == 0.05
    for value in (0, 1, float("nan")):
        with pytest.raises(OptionError, match=f"alpha={value}: must lie between 0 and 1, both excluded"):
            between("alpha", value, 0, 1)
    assert at_least("steps", 3.0, 3) == 3  # type: ignore[arg-type]
    for value in (2, 2.5, 3.5):
        with pytest.raises(OptionError, match=f"steps={value}: must be a whole number of at least 3"):
            at_least("steps", value, 3)  # type: ignore[arg-type]
    assert one_of("way", "a", ("a", "b")) == "a"
    with pytest.raises(OptionError, match="way='c'; allowed: a, b"):
        one_of("way", "c", ("a", "b"))
