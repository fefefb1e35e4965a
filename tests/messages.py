"""Whole messages of errors."""

from __future__ import annotations

import re


def exactly(message: str) -> str:
    """Return a regular expression that matches this text and no longer one, for `pytest.raises(..., match=...)`."""
    return rf"\A{re.escape(message)}\Z"
