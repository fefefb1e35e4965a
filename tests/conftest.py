"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not a failure: no test measures time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the project; without it such tests are skipped, but fail where CI is true."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        reason = "the real data is not beside the project (../shared/data)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
