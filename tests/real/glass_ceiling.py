"""Directions of the metrics in the Glass Ceiling data."""

from __future__ import annotations

import polars as pl

TURNED = pl.DataFrame({"rater": ["BaryScore*", "DepthScore*", "InfoLM*"], "higher_is_better": ["false"] * 3})
"""Distances among the metrics of HANNA (statistics.md, section 8)."""
