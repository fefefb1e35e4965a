from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from custodes.evaluate.ceiling.ceiling import Ceiling


@pytest.fixture(scope="session")
def planted_ceiling() -> Ceiling:
    """Return the ceiling of the planted study."""
    from tests.evaluate.ceiling.planted import ceiling_of, planted

    return ceiling_of(planted())
