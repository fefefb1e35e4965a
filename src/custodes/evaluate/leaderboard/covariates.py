"""Covariates on request: what may speak for an output beside its quality, as differences of two outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from custodes.data.battles import Battles
from custodes.data.panel import label_codes
from custodes.data.study import Study, of_aspect
from custodes.errors import OptionError, listed, suggestion
from custodes.evaluate.design import Design
from custodes.stats.arrays import Floats, Ints, read_only

LENGTH = "length"
"""The covariate that is made of texts: the log of the ratio of the numbers of words of two outputs."""

SHOWN_FIRST = "shown first"
"""The effect of the presentation order, which is a covariate wherever it is known and varies."""


@dataclass(frozen=True, kw_only=True)
class Covariate:
    """A number for outputs: `output` (outputs,) sorted positions, item times the number of systems plus system; `value`
    (outputs,)."""

    name: str
    output: Ints
    value: Floats
    n_systems: int

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(cls, name: str, rows: pl.DataFrame, *, design: Design) -> Self:
        """From rows item, system, value; outputs that the design does not know are left out."""
        item, system = label_codes(rows["item"], design.items), label_codes(rows["system"], design.systems)
        known = np.flatnonzero((item >= 0) & (system >= 0))
        output = item[known] * len(design.systems) + system[known]
        order = np.argsort(output)
        value = rows["value"].to_numpy()[known][order]
        return cls(name=name, output=output[order], value=value, n_systems=len(design.systems))

    def differences(self, battles: Battles) -> Floats:
        """(battles,): of the first system less the second; NaN where either has no value."""
        return self._values(battles.item, battles.first) - self._values(battles.item, battles.second)

    def _values(self, item: Ints, system: Ints) -> Floats:
        if not self.output.size:
            return np.full(len(item), np.nan)
        wanted = item * self.n_systems + system
        at = np.searchsorted(self.output, wanted).clip(max=self.output.size - 1)
        return np.where(self.output[at] == wanted, self.value[at], np.nan)


def check_names(names: Sequence[str], study: Study) -> None:
    """Raise `OptionError` for a covariate that this study cannot give."""
    scored = study.ratings.frame.filter(pl.col("item") != "")["rater"].unique(maintain_order=True).to_list()
    for name in names:
        if name == LENGTH and study.outputs is None:
            raise OptionError(
                f"covariates={LENGTH!r}: {study.name} has no texts to count words of; join a file of outputs"
            )
        if name != LENGTH and name not in scored:
            raise OptionError(
                f"covariates={name!r}: no rater of that name gave scores{suggestion(name, [LENGTH, *scored])}; allowed:"
                f" {LENGTH} (needs texts), or one of {listed(scored) or 'no rater here'}"
            )


def covariate(name: str, study: Study, *, aspect: str, design: Design) -> Covariate:
    """One of the names that `check_names` lets pass: log words, or a rater's scores in standard deviations."""
    if name == LENGTH:
        assert study.outputs is not None
        words = pl.col("text").str.count_matches(r"\S+").clip(1).log()
        return Covariate.of(name, study.outputs.texts.select("item", "system", value=words), design=design)
    rows = of_aspect(study.ratings.frame.filter(pl.col("item") != "", pl.col("rater") == name), aspect)
    means = rows.group_by("item", "system", maintain_order=True).agg(value=pl.col("score").mean())
    spread = means["value"].std() or 1.0  # a rater that never varies is found out later
    return Covariate.of(name, means.with_columns(pl.col("value") / spread), design=design)
