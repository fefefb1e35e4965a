"""Texts of a study as arrays, and which items lack an input of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from custodes.data.study import Study
from custodes.errors import InputError
from custodes.scoring.metric import MetricInputs, Need
from custodes.stats.arrays import Bools

FEW = 5
"""Minimum number of outputs for the note on a system whose outputs are all references. Fewer outputs may be equal to
references by chance."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """All texts, with the labels of items and systems in file order."""

    texts: MetricInputs
    items: tuple[str, ...]
    systems: tuple[str, ...]

    @classmethod
    def of(cls, study: Study) -> Corpus:
        """Return the texts of a study. Raises `InputError` if there are no texts."""
        if study.outputs is None or study.outputs.texts.is_empty():
            raise InputError(
                f"{study.name}: there are no texts to score; give texts with the columns item and outputs (an object "
                f"{{system: text}}), and also source or references if a metric needs them"
            )
        rows = study.outputs.texts
        items, systems = (rows.select(pl.col(name).unique(maintain_order=True)) for name in ("item", "system"))
        facts = items.join(study.outputs.sources, on="item", how="left", maintain_order="left")
        return cls(
            texts=MetricInputs(
                outputs=rows["text"].to_list(),
                item=_codes(rows["item"], items["item"]),
                system=_codes(rows["system"], systems["system"]),
                sources=_texts(facts, "source"),
                references=_lists(facts, "references"),
                images=_lists(facts, "images"),
                contexts=_texts(facts, "context"),
            ),
            items=tuple(items["item"]),
            systems=tuple(systems["system"]),
        )

    def lacking(self, need: Need) -> Bools:
        """Return whether each item (items,) lacks this input."""
        material: dict[Need, Sequence[Sequence[str]]] = {
            "source": self.texts.sources,
            "references": self.texts.references,
            "image": self.texts.images,
            "context": self.texts.contexts,
        }
        return np.array([not held for held in material[need]], dtype=np.bool_)

    @cached_property
    def absent(self) -> list[tuple[int, int]]:
        """Item and system of each missing output."""
        there = np.zeros((len(self.items), len(self.systems)), dtype=np.bool_)
        there[self.texts.item, self.texts.system] = True
        return [(int(item), int(system)) for item, system in np.argwhere(~there)]

    @cached_property
    def its_own_reference(self) -> list[str]:
        """Systems whose outputs are all references of their items, for example human references as a system.

        Systems with fewer than `FEW` outputs are not included.
        """
        texts, others = self.texts, np.zeros(len(self.systems), dtype=np.bool_)
        for text, item, system in zip(texts.outputs, texts.item.tolist(), texts.system.tolist(), strict=True):
            others[system] |= text not in texts.references[item]
        outputs = np.bincount(texts.system, minlength=len(self.systems))
        return [self.systems[system] for system in np.flatnonzero(~others & (outputs >= FEW))]

    @cached_property
    def complete(self) -> Bools:
        """Whether each item (items,) has an output of every system."""
        whole = np.ones(len(self.items), dtype=np.bool_)
        whole[[item for item, _ in self.absent]] = False
        return whole


def _codes(labels: pl.Series, order: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    codes = {label: place for place, label in enumerate(order)}
    return np.array([codes[label] for label in labels], dtype=np.int64)


def _texts(facts: pl.DataFrame, name: str) -> list[str]:
    return facts[name].fill_null("").to_list() if name in facts.columns else [""] * facts.height


def _lists(facts: pl.DataFrame, name: str) -> list[list[str]]:
    if name not in facts.columns:
        return [[] for _ in range(facts.height)]
    return [[text for text in held or () if text is not None] for held in facts[name].to_list()]
