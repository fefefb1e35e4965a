"""What one metric says of the comparisons of a study, for estimators that use one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from custodes.annotate.material import Material, Pair
from custodes.data.comparisons import FLOAT_NOISE
from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.comparison import all_raters
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs


def metric_signs(
    study: Study, metric: str, material: Material, pairs: Sequence[Pair], *, aspect: str
) -> tuple[str, Signs]:
    """The name of the metric that a pattern selects, and its preferences (pairs, items): 1, 0, -1 or `ABSENT`.

    Scores that differ by float noise tie. OptionError where the pattern selects none or several, InputError where it
    says nothing of these outputs.
    """
    known = study.aspects
    chosen = study.select(metrics=metric, aspect=aspect if aspect in known else None, one_side=True)
    if len(chosen.metrics) != 1:
        raise OptionError(f"metric={metric!r} selects {len(chosen.metrics)} ({listed(chosen.metrics)}); name one")
    (name,) = chosen.metrics
    own = aspect if aspect in known else _only(tuple(dict.fromkeys(chosen._rows_of([name])["aspect"])), metric)
    scores = chosen.ratings.frame.filter(rater=name)["score"].to_numpy()
    noise = FLOAT_NOISE * float(np.ptp(scores)) if len(scores) else 0.0
    comparison = all_raters(chosen, own, {"ties": noise})
    rows = comparison.preferences.of_rater(1)
    items = label_codes(pl.Series(comparison.items, dtype=pl.String), [item.label for item in material.items])
    place = {pair: number for number, pair in enumerate(zip(rows.system_a, rows.system_b, strict=True))}
    signs = np.full((len(pairs), len(material.items)), ABSENT, dtype=np.int8)
    for row, (a, second) in zip(signs, pairs, strict=True):
        b = str(second)  # a pair to compare has two systems
        turn = 1 if (a, b) in place else -1
        number = place.get((a, b) if turn == 1 else (b, a), -1)
        here = (rows.pair == number) & (items[rows.item] >= 0)
        row[items[rows.item[here]]] = turn * rows.sign[here]
    if (signs == ABSENT).all():
        raise InputError(f"{study.name}: {name!r} says nothing of these outputs; give its scores for these items")
    return name, signs


def _only(aspects: Sequence[str], metric: str) -> str:
    if len(aspects) > 1:
        raise OptionError(
            f"metric={metric!r} has scores of {len(aspects)} aspects ({listed(aspects)}), and the first aspect of the"
            " question is none of them; name it so"
        )
    return aspects[0]
