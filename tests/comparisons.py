"""Comparisons from arrays of signs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from custodes.data.comparisons import Comparisons
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs


def comparisons_of(signs: Signs, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]) -> Comparisons:
    """The comparisons in an array (pairs, raters, items), `ABSENT` for no preference."""
    rater, pair, item = np.nonzero(signs.swapaxes(0, 1) != ABSENT)
    return Comparisons(
        raters=tuple(raters),
        items=tuple(items),
        systems=tuple(systems),
        rater=rater,
        item=item,
        pair=pair,
        sign=signs[pair, rater, item],
        order=np.zeros(len(rater)),
    )
