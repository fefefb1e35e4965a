"""From scores and verdicts of one aspect to who preferred what: dense, or as rows, whichever takes less memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.setting import Setting
from custodes.data.battles import Battles, metric_battles, people_battles
from custodes.data.pairs import PairPreferences, pairs_of, people_signs, score_signs, verdict_signs
from custodes.data.rows import SparsePreferences, are_sparse
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats


def most_rows(scores: pl.DataFrame, verdicts: pl.DataFrame) -> int:
    """How many comparisons raters made at most: by scores of outputs of one item, and by verdicts."""
    rated = scores.filter(pl.col("item") != "").group_by("rater", "item").len()["len"].cast(pl.Int64)
    return int((rated * (rated - 1) // 2).sum()) + verdicts.height


def scored_items(
    scores: pl.DataFrame, verdicts: pl.DataFrame, *, n_raters: int, items: Sequence[str], n_systems: int
) -> NDArray[np.int64] | None:
    """The positions of the items with `scores` where preferences are to be rows; None where they are to be dense."""
    if not are_sparse(comb(n_systems, 2) * n_raters * len(items), most_rows(scores, verdicts)):
        return None
    known = pl.Series("item", items, dtype=pl.String)
    return known.is_in(scores["item"].unique().implode()).arg_true().cast(pl.Int64).to_numpy()


def dense_preferences(
    persons: Floats,
    metrics: Floats,
    epsilon: Floats,
    settled: pl.DataFrame,
    setting: Setting,
    *,
    raters: Sequence[str],
    names: tuple[str, ...],
    items: tuple[str, ...],
    systems: tuple[str, ...],
) -> PairPreferences:
    """From scores `persons` (people, items, systems) and `metrics`, which tie up to `epsilon` (metrics, items), and
    `settled` verdicts; `raters` are people, then metrics, `names` how they are called when people are one."""
    verdicts = verdict_signs(settled, raters=raters, items=items, systems=systems) if settled.height else None
    said = None if verdicts is None else verdicts[:, : len(persons)]
    if said is not None and (said == ABSENT).all():
        said = None
    people = people_signs(persons, said, aggregate=setting["aggregate"], ties=setting["human_ties"])
    signs = np.concatenate([people[:, None], score_signs(metrics, epsilon=epsilon)], axis=1)
    if verdicts is not None:
        own = signs[:, 1:]
        np.copyto(own, verdicts[:, len(persons) :], where=own == ABSENT)
    first, second = pairs_of(systems)
    return PairPreferences(
        signs=signs,
        system_a=tuple(systems[i] for i in first),
        system_b=tuple(systems[i] for i in second),
        raters=names,
        items=items,
    )


def sparse_preferences(
    persons: Floats,
    metrics: Floats,
    epsilon: Floats,
    settled: pl.DataFrame,
    setting: Setting,
    *,
    scored: NDArray[np.int64],
    raters: Sequence[str],
    names: tuple[str, ...],
    items: tuple[str, ...],
    systems: tuple[str, ...],
) -> SparsePreferences:
    """The same as rows, from scores of the items at the positions `scored`."""
    said = {
        str(rater): Battles.of_verdicts(own, items=items, systems=systems)
        for (rater,), own in settled.group_by("rater", maintain_order=True)
    }
    verdicts = [said.get(rater, Battles.none()) for rater in raters]
    n_people, aggregate, ties = len(persons), setting["aggregate"], setting["human_ties"]
    battles = [people_battles(persons, verdicts[:n_people], items=scored, aggregate=aggregate, ties=ties)]
    battles += [
        metric_battles(own, tie, beside, items=scored)
        for own, tie, beside in zip(metrics, epsilon, verdicts[n_people:], strict=True)
    ]
    return SparsePreferences.of(battles, systems=systems, raters=names, items=items)
