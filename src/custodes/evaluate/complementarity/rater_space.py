"""The space that raters span: its effective dimension, a map of it, and who belongs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.evaluate.complementarity.distances import Distances, Level, ranked, square
from custodes.evaluate.judges import Judges
from custodes.evaluate.result import columns
from custodes.stats.agreement import ranks
from custodes.stats.complementarity import communities, components
from custodes.stats.resampling import resample

SHARE = 0.8
"""The effective dimension is the number of components that explain so much of the variance (paper, appendix B.1)."""

RESAMPLES = 200
NULL_DRAWS = 200
EMPTY = 1e-9
FEWEST = 4
"""Raters that a map or communities take."""

FEWEST_THINGS = 3
_TEXT, _REAL, _WHOLE = pl.String, pl.Float64, pl.Int64
SCHEMAS: dict[str, dict[str, Any]] = {
    "components": {"component": _WHOLE}
    | dict.fromkeys(("explained_variance", "low", "high", "cumulative", "null", "null_cumulative"), _REAL),
    "coordinates": {"metric": _TEXT, "kind": _TEXT, "x": _REAL, "y": _REAL},
    "clusters": {"metric": _TEXT, "kind": _TEXT, "cluster": _WHOLE, "stability": _REAL},
    "summary": {"level": _TEXT}
    | dict.fromkeys(("raters", "rankings", "ranked"), _WHOLE)
    | dict.fromkeys(("dimension", "dimension_low", "dimension_high", "dimension_null"), _REAL)
    | {"clusters": _WHOLE, "modularity": _REAL, "clusters_agreement": _REAL},
}


Tables = dict[str, pl.DataFrame]


def structure(
    who: Judges,
    level: Level,
    weights: Floats,
    distances: Distances,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Tables, list[tuple[str, str]], list[Note]]:
    """The tables about the space of raters, who has no place in it, and what to know about them."""
    space, gaps, notes = _space(who, level, weights)
    tables = {name: pl.DataFrame(schema=schema) for name, schema in SCHEMAS.items()}
    summary: dict[str, object] = {name: [None] for name in SCHEMAS["summary"]}
    drawn = len(space.kept) > 1
    if drawn:
        explained = components.explained_variance(space.points, column_weights=space.column_weights)
        null = components.null_explained(space.points[0], n_draws=NULL_DRAWS, rng=rng)
        tables["components"] = _component_table(explained, null, confidence)
        summary |= _dimension(level, who, space, explained, null, confidence)
    if len(space.kept) >= FEWEST:
        x, y = components.coordinates(space.points[0], k=2).T
        tables["coordinates"] = columns({**_labels(who, space.kept), "x": x, "y": y})
    matrices = np.stack([square(distances, draw, len(who.names)) for draw in distances.first_draws])
    linked, alone = _linked(who, matrices[0])
    if len(linked) >= FEWEST:
        seed = int(rng.integers(2**31))
        similarity, apart = _similarity(matrices[:, linked[:, None], linked])
        notes += _apart_notes(apart)
        labels = communities.communities(similarity[0], seed=seed)
        kept, rand = communities.stability(similarity[1:], labels, seed=seed)
        tables["clusters"] = columns({**_labels(who, linked), "cluster": labels + 1, "stability": kept})
        summary |= {
            "level": [level],
            "clusters": [int(labels.max()) + 1],
            "modularity": np.array([communities.modularity(similarity[0], labels)]),
            "clusters_agreement": np.array([rand.mean() if len(rand) else np.nan]),
        }
    if drawn or tables["clusters"].height:
        tables["summary"] = columns(summary).cast(pl.Schema(SCHEMAS["summary"]))
    return tables, [*gaps, *alone], notes


@dataclass(frozen=True, kw_only=True)
class _Space:
    """Raters `kept` as `points` (B, raters, things) without a gap; `column_weights` (B, things) where things, and not
    rankings, are resampled."""

    kept: NDArray[np.intp]
    points: Floats
    column_weights: Floats | None


def _space(who: Judges, level: Level, weights: Floats) -> tuple[_Space, list[tuple[str, str]], list[Note]]:
    """On the things that every rater ranked; where they are too few, of the raters that ranked every thing."""
    varies = np.flatnonzero([name not in who.constant for name in who.names])
    values = ranked(who, level)[varies]
    drawn = weights[: 1 + RESAMPLES]
    item_weights = drawn[:, who.units] * (1.0 if who.weights is None else who.weights)
    rankings = item_weights if level == "system" else np.ones((1, values.shape[1]))
    points = ranks.representation(values, weights=rankings)
    placed = np.isfinite(points[0])
    shared = placed.all(axis=0)
    notes, gaps = [], []
    if not shared.all() and shared.sum() >= FEWEST_THINGS:
        values = values[:, :, shared]
        points = ranks.representation(values, weights=rankings)
        placed = np.isfinite(points[0])  # a ranking may now be of one thing only, and say nothing
        what = "systems" if level == "system" else "items"
        message = (
            f"components and coordinates are about {shared.sum()} of {len(shared)} {what}: some rater ranked none of"
            " the others"
        )
        notes.append(Note(rule="partial-representation", message=message, count=int((~shared).sum())))
    else:
        shared[:] = True
    whole = placed.all(axis=1)
    what = "system" if level == "system" else "item"
    gaps = [(who.names[i], f"did not rate every {what}: in no component or coordinate") for i in varies[~whole]]
    # A thing can be missing from a resample of a study with gaps; such draws are left out of the intervals.
    points = points[:, whole]
    usable = np.flatnonzero(np.isfinite(points).all(axis=(1, 2)))
    return (
        _Space(
            kept=varies[whole],
            points=points[usable],
            column_weights=None if level == "system" else item_weights[:, shared],
        ),
        gaps,
        notes,
    )


def _linked(who: Judges, distance: Floats) -> tuple[NDArray[np.intp], list[tuple[str, str]]]:
    """Raters at a distance of somebody, and those that are at none."""
    varies = np.array([name not in who.constant for name in who.names])
    somewhere = np.isfinite(np.where(np.eye(len(distance), dtype=bool), np.nan, distance)).any(axis=1)
    reason = "ranked nothing that others did: in no cluster"
    return np.flatnonzero(varies & somewhere), [(who.names[i], reason) for i in np.flatnonzero(varies & ~somewhere)]


def _similarity(distance: Floats) -> tuple[Floats, int]:
    """One minus distance (B, n, n), and how many pairs have none: they are as similar as pairs are on average."""
    first, second = np.triu_indices(distance.shape[1], 1)
    defined = np.isfinite(distance)
    known = defined[:, first, second]
    mean = np.where(known, distance[:, first, second], 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return 1.0 - np.where(defined, distance, mean[:, np.newaxis, np.newaxis]), int((~known[0]).sum())


def _apart_notes(apart: int) -> list[Note]:
    if not apart:
        return []
    message = f"{apart} pairs of raters ranked nothing in common; for the clusters they are as similar as the average"
    return [Note(rule="unconnected-raters", message=message, count=apart)]


def _labels(who: Judges, raters: NDArray[np.intp]) -> dict[str, list[str]]:
    return {"metric": [who.names[i] for i in raters], "kind": [who.kinds[i] for i in raters]}


def _component_table(explained: Floats, null: Floats, confidence: float) -> pl.DataFrame:
    # Sums of ranks add up to one number, so the last component may be empty.
    explained, null = (shares[:, explained[0] > EMPTY] for shares in (explained, null))
    low, high = resample.percentile_interval(explained[1:], confidence=confidence)
    return columns(
        {
            "component": np.arange(1, explained.shape[1] + 1),
            "explained_variance": explained[0],
            "low": low,
            "high": high,
            "cumulative": np.cumsum(explained[0]),
            "null": null.mean(axis=0),
            "null_cumulative": np.cumsum(null.mean(axis=0)),
        }
    )


def _dimension(
    level: Level, who: Judges, space: _Space, explained: Floats, null: Floats, confidence: float
) -> dict[str, object]:
    """What the summary says of the components."""
    dimension = components.needed(explained, share=SHARE)
    low, high = resample.percentile_interval(dimension[1:], confidence=confidence)
    return {
        "level": [level],
        "raters": [len(space.kept)],
        "rankings": [len(who.items) if level == "system" else len(who.systems)],
        "ranked": [space.points.shape[2]],
        "dimension": dimension[:1],
        "dimension_low": np.atleast_1d(low),
        "dimension_high": np.atleast_1d(high),
        "dimension_null": np.array([components.needed(null, share=SHARE).mean()]),
    }
