"""Fixtures for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is not a failure: no test measures time. Nor is bad luck: every run has the same examples, except that
# `make test-slow` draws new ones and prints how to get back those that fail.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True)
settings.register_profile("random", deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


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
