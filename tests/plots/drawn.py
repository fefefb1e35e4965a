"""Data and text of figures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from custodes import plots


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """Return the rows of a chart's data."""
    rows: list[dict[str, Any]] = chart.to_dict()["data"]["values"]
    return rows


def matches_in(chart: Any, folder: Path, pattern: str) -> list[Any]:
    """Return the matches of a pattern in a chart saved as SVG, where labels name the values of marks."""
    return re.findall(pattern, plots.save(chart, folder / "x.svg").read_text(encoding="utf-8"))
