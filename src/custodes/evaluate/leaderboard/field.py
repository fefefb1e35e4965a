"""Who fought on the field: the battles of people and of every metric, aspect by aspect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.setting import Setting
from custodes.data.battles import Battles, metric_battles, people_battles
from custodes.data.notes import Note, noted
from custodes.data.pairs import people_tie
from custodes.data.panel import Panel
from custodes.data.rows import MOST_CELLS
from custodes.data.study import Study, of_aspect
from custodes.data.table import kept
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.comparison import HUMAN, NotComparableError, label_of, tie_thresholds, too_few
from custodes.evaluate.design import Design
from custodes.evaluate.people import check_same_scale, mean_over_people, unpaired, unpaired_note
from custodes.stats.arrays import Floats

NO_BATTLE = (
    "nobody compared two systems on one item, so there is no battle; a battle needs two rated outputs of one item, or a"
    " verdict"
)


@dataclass(frozen=True, kw_only=True)
class Field:
    """`battles` of one aspect by rater, `human` first where people judged; `source` says which rows of a rater they
    come from: the aspect, or '' for a metric that rates outputs as a whole."""

    aspect: str
    battles: Mapping[str, Battles]
    source: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Ground:
    """`fields` by aspect, on the items and systems of one `design`; `probability` (items,) that people were asked, NaN
    where nobody said."""

    design: Design
    probability: Floats
    fields: tuple[Field, ...]
    notes: tuple[Note, ...]

    @property
    def fought(self) -> bool:
        """Whether there is any battle."""
        return any(map(len, (own for field in self.fields for own in field.battles.values())))


def ground(chosen: Study, setting: Setting) -> Ground:
    """The battles of a study that is selected already, by a setting that is filled in.

    Raises `InputError` with fewer than two systems or without any battle; people's scores must be on one scale.
    """
    if len(chosen.systems) < 2:
        raise NotComparableError(too_few(chosen, "a leaderboard compares two or more"))
    arena = ground_of(chosen, chosen.aspects, setting)
    if not arena.fought:
        raise NotComparableError(f"{chosen.name}: {NO_BATTLE}")
    return arena


def ground_of(chosen: Study, aspects: Sequence[str], setting: Setting) -> Ground:
    """The same of some aspects, with a battle or without."""
    systems, items = chosen.systems, tuple(chosen.item_labels())
    design = Design.of(chosen, items=items, systems=systems)
    settled, notes = chosen.preferences.settled(setting["orders"])
    fields = [_field(chosen, aspect, settled, setting, design, notes) for aspect in aspects]
    known = chosen.items.for_items(pl.Series("item", items, dtype=pl.String))
    return Ground(
        design=design,
        probability=known["probability"].fill_null(np.nan).to_numpy(),
        fields=tuple(fields),
        notes=(*chosen.notes, *notes),
    )


def _field(
    chosen: Study, aspect: str, settled: pl.DataFrame, setting: Setting, design: Design, notes: list[Note]
) -> Field:
    systems, label = design.systems, label_of(aspect)
    rows = chosen.ratings.frame.filter(pl.col("item") != "", pl.col("aspect").is_in([aspect, ""]))
    own_people = pl.col("aspect").eq(aspect) | ~pl.col("rater").is_in(list(chosen.humans))
    rows = of_aspect(rows.filter(own_people), aspect)
    verdicts = of_aspect(kept(settled, own_people), aspect)
    said = {
        str(rater): Battles.of_verdicts(own, items=design.items, systems=systems)
        for (rater,), own in verdicts.group_by("rater", maintain_order=True)
    }
    source = dict(pl.concat([rows.select("rater", "aspect"), verdicts.select("rater", "aspect")]).unique().iter_rows())
    people = [name for name in chosen.humans if name in source]
    metrics = [name for name in chosen.metrics if name in source]

    scored = rows["item"].unique(maintain_order=True)
    if comb(len(systems), 2) * scored.len() > MOST_CELLS:
        raise InputError(
            f"{chosen.name}: {scored.len()} items with scores x {len(systems)} systems are too many for this question;"
            " select fewer, or give verdicts on pairs"
        )
    place = (
        pl.DataFrame({"item": design.items}, schema={"item": pl.String})
        .with_row_index("place")
        .join(scored.to_frame(), on="item", how="semi", maintain_order="left")
    )
    panel = Panel.from_study(
        chosen, raters=[*people, *metrics], aspect=aspect, items=tuple(place["item"]), systems=systems
    )
    persons, scores = panel.values[: len(people)], panel.values[len(people) :]
    check_same_scale(chosen, people, persons, label)
    items = place["place"].to_numpy().astype(np.int64)
    voted = len(people) > 1 and setting["aggregate"] == "mean" and any(name in said for name in people)
    vote = "several people gave verdicts, which have no mean: they vote (as with aggregate='vote')"
    notes += noted(("verdicts-vote", voted, vote))
    battles = {}
    if people:
        battles[HUMAN] = people_battles(
            persons,
            [said.get(name, Battles.none()) for name in people],
            items=items,
            aggregate=setting["aggregate"],
            ties=setting["human_ties"],
        )
        fought = battles[HUMAN]
        left_out = unpaired(persons, items=items, item=fought.item, first=fought.first, second=fought.second)
        notes += noted(unpaired_note(left_out, label), aspect=aspect)
    for name, own, epsilon in zip(
        metrics, scores, _thresholds(chosen, persons, scores, items, setting, design), strict=True
    ):
        battles[name] = metric_battles(own, epsilon, said.get(name, Battles.none()), items=items)
    whole = set(of_aspect(chosen.ratings.frame.filter(pl.col("item") == ""), aspect)["rater"])
    silent = [name for name, own in battles.items() if not len(own)]
    silent += [name for name in chosen.metrics if name in whole and name not in battles]
    told = f"compared no two outputs of one item{label}, so they have no leaderboard: {listed(silent)}"
    notes += noted(("no-battle", len(silent), told), aspect=aspect)
    return Field(
        aspect=aspect,
        battles={name: own for name, own in battles.items() if len(own)},
        source={HUMAN: aspect, **{name: source[name] for name in metrics}},
    )


def _thresholds(
    chosen: Study, persons: Floats, scores: Floats, items: NDArray[np.int64], setting: Setting, design: Design
) -> Floats:
    """(metrics, items): the difference up to which each metric ties."""
    if setting["ties"] == "calibrated" and not np.isfinite(persons).any():
        raise OptionError(
            f"ties='calibrated': {chosen.name} has no people's scores to fit thresholds on; give a number, or exact"
        )
    own = design.on(items)
    _, epsilon = tie_thresholds(
        setting["ties"],
        human=mean_over_people(persons) if len(persons) else np.full(scores.shape[1:], np.nan),
        human_tie=people_tie(persons, setting["human_ties"]),
        scores=scores,
        units=own.units,
    )
    return epsilon
