"""Outputs: the texts that were judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

SCHEMA = {"item": pl.String, "system": pl.String, "text": pl.String}
SOURCES: dict[str, Any] = {"item": pl.String, "source": pl.String, "references": pl.List(pl.String)}


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """`texts`: item, system, text (one row per output); `sources`: item, source, references (one row per item)."""

    texts: pl.DataFrame
    sources: pl.DataFrame
