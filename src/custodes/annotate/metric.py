"""What one metric says of the comparisons of a study, for estimators that use one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.annotate.material import Material, Pair
from custodes.data.pairs import FLOAT_NOISE, pair_codes, score_signs, verdict_signs
from custodes.data.panel import Panel
from custodes.data.study import Study, of_aspect
from custodes.errors import InputError, OptionError, listed
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
    items, systems = [item.label for item in material.items], material.systems
    panel = Panel.from_study(chosen, raters=[name], aspect=own, items=items, systems=systems)
    spread = np.nanmax(panel.values) - np.nanmin(panel.values) if np.isfinite(panel.values).any() else 0.0
    signs = score_signs(panel.values, epsilon=np.full((1, len(items)), FLOAT_NOISE * spread))
    settled, _ = chosen.preferences.settled("mean")
    if settled.height:
        read = verdict_signs(of_aspect(settled, own), raters=[name], items=items, systems=systems)
        signs = np.where(signs == ABSENT, read, signs)
    place = {system: number for number, system in enumerate(systems)}
    numbers = np.array([(place[str(a)], place[str(b)]) for a, b in pairs], dtype=np.int64)
    made = signs[pair_codes(numbers[:, 0], numbers[:, 1], len(systems)), 0]
    if (made == ABSENT).all():
        raise InputError(f"{study.name}: {name!r} says nothing of these outputs; give its scores for these items")
    return name, made


def _only(aspects: Sequence[str], metric: str) -> str:
    if len(aspects) > 1:
        raise OptionError(
            f"metric={metric!r} has scores of {len(aspects)} aspects ({listed(aspects)}), and the first aspect of the"
            " question is none of them; name it so"
        )
    return aspects[0]
