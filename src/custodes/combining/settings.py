"""Settings for fitting and evaluating methods; the settings are the same for all targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from custodes.arguments import check_at_least, check_between
from custodes.combining.methods import EVEN_HANDED, Method
from custodes.combining.task import Task
from custodes.errors import OptionError, reject
from custodes.stats.learning.objective import Objective

Unseen = Literal["fast", "all", "none"]
"""Which methods are tested on unseen systems and data sets."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Settings for fitting and evaluating methods, the same for all targets; see `combine`."""

    methods: tuple[Method, ...]
    objective: Objective
    folds: str
    repeats: int
    unseen: Unseen
    top: int | None
    costs: Mapping[str, float] | str | None
    confidence: float
    resamples: int
    max_partiality: float | None = None

    def __post_init__(self) -> None:
        if self.objective == "accuracy" and self.folds == "system":
            raise OptionError(
                "objective='accuracy' compares systems of an item, but folds='system' holds out one system at a "
                "time; choose another objective"
            )
        check_between("confidence", self.confidence, 0, 1)
        if self.max_partiality is not None:
            check_between("max_partiality", self.max_partiality, 0, 100)
            if EVEN_HANDED not in self.methods:
                raise OptionError("max_partiality applies only to the method even-handed; add even-handed to method")
        check_at_least("repeats", self.repeats, 1)
        check_at_least("top", 1 if self.top is None else self.top, 1)

    def check(self, task: Task) -> None:
        """Raise `OptionError` for settings that do not fit a task."""
        reject(
            (
                self.objective == "accuracy" and not (task.rated.sum(axis=1) > 1).any(),
                "objective='accuracy' compares outputs of an item, but annotators rated only one output of each "
                "item; choose another objective",
            ),
            (
                task.verdicts and EVEN_HANDED in self.methods,
                "method='even-handed' does not fit verdicts: the win rate of an output depends on the systems with "
                "which it was compared; choose another method",
            ),
            (
                task.verdicts and self.folds == "system",
                "folds='system' does not fit verdicts: the win rate of an output includes verdicts on "
                "the held-out system; choose other folds",
            ),
        )
