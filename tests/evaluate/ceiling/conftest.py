"""Fixtures for the tests of the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from custodes.evaluate.ceiling.ceiling import Ceiling


@pytest.fixture(scope="session")
def made() -> Ceiling:
    """The answer about what is planted."""
    from tests.evaluate.ceiling.test_ceiling import asked, planted

    return asked(planted())
