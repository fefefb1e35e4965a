"""What drawn pictures show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from custodes import plots


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """The rows that a picture draws."""
    rows: list[dict[str, Any]] = chart.to_dict()["data"]["values"]
    return rows


def shown(chart: Any, folder: Path, pattern: str) -> list[Any]:
    """The matches of a pattern in a picture, whose marks name their values."""
    return re.findall(pattern, plots.save(chart, folder / "x.svg").read_text(encoding="utf-8"))
