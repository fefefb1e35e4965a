"""What drawn pictures show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from custodes import plots
from custodes.plots import theme


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """The rows that a picture draws."""
    rows: list[dict[str, Any]] = chart.to_dict()["data"]["values"]
    return rows


def shown(chart: Any, folder: Path, pattern: str) -> list[Any]:
    """The matches of a pattern in a picture, whose marks name their values."""
    return re.findall(pattern, plots.save(chart, folder / "x.svg").read_text(encoding="utf-8"))


def check_svg(pictures: Mapping[str, Callable[..., Any]], result: Any, folder: Path) -> None:
    """Each picture becomes SVG with its label and without NaN, and is dark only where that is chosen."""
    for label, picture in pictures.items():
        text = plots.save(picture(result), folder / "x.svg").read_text(encoding="utf-8")
        assert f">{label}<" in text
        assert "NaN" not in text
        assert theme.DARK.paper not in text
        assert theme.DARK.paper in str(picture(result, dark=True).to_dict())
