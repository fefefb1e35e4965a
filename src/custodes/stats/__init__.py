"""Statistics on NumPy arrays. No module of this package depends on tables, labels or files."""

from __future__ import annotations

ABSENT = -128
"""The int8 code of a missing preference (the codes of preferences are 1, 0 and -1)."""
