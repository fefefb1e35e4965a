"""The space that raters span: its effective dimension, a map of it, and who belongs together."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.evaluate.distances import Distances, Level, ranked, square
from custodes.evaluate.judges import Judges
from custodes.evaluate.result import columns
from custodes.stats import communities, components, ranks, resample

SHARE = 0.8
"""The effective dimension is the number of components that explain so much of the variance (paper, appendix B.1)."""

RESAMPLES = 200
NULL_DRAWS = 200
EMPTY = 1e-9


def structure(
    who: Judges,
    level: Level,
    weights: Floats,
    distances: Distances,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[dict[str, pl.DataFrame], list[tuple[str, str]]]:
    """The tables about the space of raters, and who has no place in it."""
    values = ranked(who, level)
    drawn = weights[: 1 + RESAMPLES]
    item_weights = drawn[:, who.units] * (1.0 if who.weights is None else who.weights)
    if level == "system":
        points = ranks.representation(values, weights=item_weights)
        column_weights = None
    else:
        points = ranks.representation(values, weights=np.ones((1, values.shape[1])))
        column_weights = item_weights
    whole = np.isfinite(points[0]).all(axis=1)
    varies = np.array([name not in who.constant for name in who.names])
    kept = np.flatnonzero(whole & varies)
    what = "system" if level == "system" else "item"
    more = [
        (who.names[i], f"did not rate every {what}: in no component, coordinate or cluster")
        for i in np.flatnonzero(~whole & varies)
    ]
    # A system can be missing from a resample of a study with gaps; such draws are left out of the intervals.
    usable = np.asarray(np.isfinite(points[:, kept]).all(axis=(1, 2)))
    points = points[:, kept][usable]
    if column_weights is not None:
        column_weights = column_weights[np.flatnonzero(usable) if len(usable) == len(column_weights) else slice(None)]
    if len(kept) < 2:
        return _nostructure(), more
    explained = components.explained_variance(points, column_weights=column_weights)
    null = components.null_explained(points[0], n_draws=NULL_DRAWS, rng=rng)
    seed = int(rng.integers(2**31))
    matrices = np.stack([square(distances, draw, len(who.names)) for draw in distances.first_draws])
    similarity = 1.0 - matrices[:, kept[:, None], kept]
    labels = communities.communities(similarity[0], seed=seed)
    together, rand = communities.stability(similarity[1:], labels, seed=seed)
    names = [who.names[i] for i in kept]
    kinds = [who.kinds[i] for i in kept]
    place = components.coordinates(points[0], k=2)
    label = {"metric": names, "kind": kinds}
    return {
        "components": _component_table(explained, null, confidence),
        "coordinates": columns({**label, "x": place[:, 0], "y": place[:, 1]}),
        "clusters": columns({**label, "cluster": labels + 1, "stability": together}),
        "summary": _summary_table(who, level, explained, null, labels, rand, similarity[0], confidence),
    }, more


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


def _summary_table(
    who: Judges,
    level: Level,
    explained: Floats,
    null: Floats,
    labels: NDArray[np.intp],
    rand: Floats,
    similarity: Floats,
    confidence: float,
) -> pl.DataFrame:
    dimension = components.needed(explained, share=SHARE)
    low, high = resample.percentile_interval(dimension[1:], confidence=confidence)
    things = (len(who.items), len(who.systems)) if level == "system" else (len(who.systems), len(who.items))
    return columns(
        {
            "level": [level],
            "raters": np.array([len(labels)]),
            "rankings": np.array([things[0]]),
            "ranked": np.array([things[1]]),
            "dimension": dimension[:1],
            "dimension_low": np.atleast_1d(low),
            "dimension_high": np.atleast_1d(high),
            "dimension_null": np.array([components.needed(null, share=SHARE).mean()]),
            "clusters": np.array([int(labels.max()) + 1]),
            "modularity": np.array([communities.modularity(similarity, labels)]),
            "clusters_agreement": np.array([rand.mean() if len(rand) else np.nan]),
        }
    )


def _nostructure() -> dict[str, pl.DataFrame]:
    """The same tables without rows."""
    text, real, whole = pl.String, pl.Float64, pl.Int64
    schemas: dict[str, dict[str, Any]] = {
        "components": {"component": whole}
        | dict.fromkeys(("explained_variance", "low", "high", "cumulative", "null", "null_cumulative"), real),
        "coordinates": {"metric": text, "kind": text, "x": real, "y": real},
        "clusters": {"metric": text, "kind": text, "cluster": whole, "stability": real},
        "summary": {"level": text}
        | dict.fromkeys(("raters", "rankings", "ranked"), whole)
        | dict.fromkeys(("dimension", "dimension_low", "dimension_high", "dimension_null"), real)
        | {"clusters": whole, "modularity": real, "clusters_agreement": real},
    }
    return {name: pl.DataFrame(schema=schema) for name, schema in schemas.items()}
