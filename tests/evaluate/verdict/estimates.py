"""Columns of an estimate with its interval."""

from __future__ import annotations

BOUNDS = ("", "_low", "_high")


def estimate(name: str, *values: float | None) -> dict[str, float | None]:
    return {name + suffix: value for suffix, value in zip(BOUNDS, values, strict=True)}
