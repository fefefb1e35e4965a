"""Dimensions and sizes of the studies in `growth.py`, and the commands that run on them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dimension:
    """A dimension, its sizes (and smaller ones for `--quick`), and the constant sizes."""

    kind: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    fixed: dict[str, int]
    told: str


DIMENSIONS = {
    "items": Dimension(
        "scores",
        (3_000, 10_000, 30_000, 100_000),
        (1_000, 4_000, 16_000),
        {"systems": 3, "metrics": 3},
        "3 systems, 3 metrics, 1 person",
    ),
    "systems": Dimension(
        "scores",
        (30, 125, 250, 500),
        (15, 40, 100),
        {"items": 20, "metrics": 3, "people": 2},
        "20 items, 3 metrics, 2 people",
    ),
    "metrics": Dimension(
        "scores",
        (60, 250, 1_000, 2_000),
        (30, 120, 480),
        {"items": 20, "systems": 10, "people": 2},
        "20 items, 10 systems, 2 people",
    ),
    "resamples": Dimension(
        "scores",
        (1_000, 4_000, 16_000),
        (500, 2_000, 8_000),
        {"items": 100, "systems": 10, "metrics": 10, "people": 2},
        "100 items, 10 systems, 10 metrics, 2 people",
    ),
    "aspects": Dimension(
        "scores",
        (2, 4, 8, 16),
        (2, 4, 8),
        {"items": 100, "systems": 10, "metrics": 10, "people": 2},
        "100 items, 10 systems, 10 metrics, 2 people",
    ),
    "battles": Dimension(
        "battles",
        (20_000, 200_000, 1_000_000, 2_000_000),
        (10_000, 50_000, 250_000),
        {"models": 150, "judges": 1},
        "150 models, people and a judge",
    ),
    "models": Dimension(
        "battles",
        (30, 60, 125, 250),
        (20, 50, 120),
        {"battles": 50_000, "judges": 1},
        "50,000 battles, people and a judge",
    ),
}
SMALLEST = {
    "scores": {"items": 8, "systems": 2, "metrics": 2, "people": 1},
    "battles": {"battles": 100, "models": 3, "judges": 1},
}

VERBS: dict[str, tuple[str, ...]] = {
    "check": (),
    "verdict": (),
    "leaderboard": (),
    "agreement": (),
    "favoritism": (),
    "ranking": (),
    "correction": (),
    "consistency": (),
    "complementarity": (),
    "ceiling": (),
    "annotators": (),
    "protocol": (),
    "plan": (),
    "combine fit": (),
    "report": (),
}
WITHOUT_RESAMPLES = ("check", "correction", "plan")
SCORES_ONLY = ("ceiling", "combine fit", "complementarity")
"""Questions about scores, which reject preferences."""


def suits(verb: str, by: str) -> bool:
    """Whether a command applies to studies of a dimension."""
    if DIMENSIONS[by].kind == "battles" and verb in SCORES_ONLY:
        return False
    return by != "resamples" or verb not in WITHOUT_RESAMPLES
