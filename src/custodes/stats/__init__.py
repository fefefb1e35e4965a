"""The arithmetic: arrays in, arrays out. Nothing here knows a table, a label or a file."""

from __future__ import annotations

ABSENT = -128
"""The int8 code of a preference that does not exist (the others are 1, 0 and -1)."""
