"""How each person answers: agreement with the others, sides, ties; and what is claimed, every test counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from custodes.evaluate.annotators.ends import intervals
from custodes.evaluate.annotators.material import VERDICTS, Said
from custodes.stats.arrays import Bools, Floats, chunks
from custodes.stats.judging.slot import slot_test
from custodes.stats.people.sides import sides
from custodes.stats.ratios import ratio
from custodes.stats.resampling import resample

FIRST, SECOND, LITTLE = "chooses what is shown first", "chooses what is shown second", "agrees little with others"

HALF = 0.5
"""Who agrees with others, beyond chance, less than this part of what others do among themselves, agrees little."""
FEWEST = 12
"""Clusters of items of a person's doubled answers below which agreement is neither told nor tested."""


class Tests(NamedTuple):
    """Of each person (workers,): `side` and `little`, p-values one by one (NaN: not tested); `first` whether the share
    of what was shown first is more than half."""

    side: Floats
    little: Floats
    first: Bools


def standing_columns(said: Said, persons: Bools, *, times: Floats, confidence: float) -> tuple[dict[str, Any], Tests]:
    """Columns of `annotators` but for competence and flags; (workers,) each, NaN for who is no person."""
    answers, n = said.answers, len(said.raters)
    number = np.bincount(answers.worker, minlength=n)
    unknown = np.where(persons, 1.0, np.nan)
    sided = sides(said.sided_worker, said.sided_pair, said.sign, said.order, n_workers=n)
    same, beyond = _alike(said)
    agreement = _agreement(said, same, times, confidence)
    little = _little(said, beyond) * unknown
    ties = np.bincount(answers.worker, weights=said.value == 0, minlength=n)
    columns = {
        "what": said.what,
        "rater": list(said.raters),
        "person": persons,
        "answers": number,
        "share": ratio(number, number.sum()),
        "doubled": np.bincount(answers.worker[said.both], minlength=n),
        **{name: own * unknown for name, own in agreement.items()},
        "decided": sided.decided,
        "first": sided.share * unknown,
        "ties": ratio(ties, number) if said.what == VERDICTS else np.nan,
        "seconds": said.seconds * unknown,
    }
    return columns, Tests(sided.p_value * unknown, little, sided.share > 0.5)


def _alike(said: Said) -> tuple[Floats, Floats]:
    """Of doubled answers (n,): the share of the others who said the same, and how much more that is than by chance.

    By chance a label is met as often as it stands among all doubled answers of other people.
    """
    answers, both = said.answers, said.both
    votes, asked = answers.votes, answers.asked
    task, worker, label = answers.task[both], answers.worker[both], answers.label[both]
    same = (votes[task, label] - 1) / (asked[task] - 1)
    size = (answers.n_workers, answers.n_labels)
    own = np.bincount(worker * size[1] + label, minlength=size[0] * size[1]).reshape(size)
    others = own.sum(axis=0) - own
    by_chance = ratio(others, others.sum(axis=1, keepdims=True))
    return same, same - by_chance[worker, label]


def _agreement(said: Said, same: Floats, times: Floats, confidence: float) -> dict[str, Floats]:
    """The mean share of others who said the same, with its interval over items."""
    drawn = np.full((len(times), len(said.raters)), np.nan)
    if not said.continuous:
        for some, sums, counts in _by_unit(said, same):
            drawn[:, some] = ratio(resample.weighted_sums(times, sums), resample.weighted_sums(times, counts))
    low, high = intervals(drawn, said.clusters, confidence=confidence, bounds=resample.SHARE, fewest=FEWEST)
    told = np.where(said.clusters >= FEWEST, drawn[0], np.nan)
    return {"agreement": told, "agreement_low": low, "agreement_high": high}


def _by_unit(said: Said, values: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
    """Some workers at a time: sums of values of doubled answers (n,), and their number, both (workers, units)."""
    worker, unit = said.answers.worker[said.both], said.unit[said.answers.task[said.both]]
    for some in chunks(len(said.raters), said.n_units):
        inside = (worker >= some.start) & (worker < some.stop)
        size = (some.stop - some.start, said.n_units)
        place = (worker[inside] - some.start) * size[1] + unit[inside]
        sums, counts = (
            np.bincount(place, weights=own, minlength=size[0] * size[1]).reshape(size).astype(np.float64)
            for own in (values[inside], np.ones(len(place)))
        )
        yield some, sums, counts


def _little(said: Said, beyond: Floats) -> Floats:
    """One-sided p-values (workers,) of 'agrees with others at least `HALF` as much as these do', beyond chance."""
    n, both = len(said.raters), said.both
    worker = said.answers.worker[both]
    p_value = np.full(n, np.nan)
    if said.continuous or not len(beyond):
        return p_value
    total, number = (np.bincount(worker, weights=own, minlength=n) for own in (beyond, np.ones(len(beyond))))
    usual = ratio(total.sum() - total, number.sum() - number)  # of everybody else
    excess = beyond - HALF * usual[worker]
    for some, sums, counts in _by_unit(said, np.nan_to_num(excess)):
        made = slot_test(sums, counts, wider=np.ones(len(sums)), confidence=0.95)
        one_sided = np.where(made.estimate < 0, made.p_value / 2, 1 - made.p_value / 2)
        enough = ((counts > 0).sum(axis=1) >= FEWEST) & (usual[some] > 0)
        p_value[some] = np.where(enough, one_sided, np.nan)
    return p_value
