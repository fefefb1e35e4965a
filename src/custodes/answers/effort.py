"""How long a question will take, and in how much memory, before it is asked: about, from sizes alone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import polars as pl

from custodes.answers.setting import selection_of, settings
from custodes.arguments import checked
from custodes.data.study import Study
from custodes.errors import OptionError, suggestion
from custodes.memory import SHARE, memory


@dataclass(frozen=True, kw_only=True)
class Size:
    """What is asked about, in numbers: `rows` of tables, and `compared`, comparisons of two systems on one item (the
    most that one rater can have made)."""

    rows: int
    items: int
    systems: int
    metrics: int
    people: int
    aspects: int
    compared: int
    resamples: int = 0
    replications: int = 0

    @classmethod
    def of(cls, study: Study | None, options: Mapping[str, Any]) -> Size:
        """The size of the part of a study that is asked about; of nothing, where there is none."""
        draws = {name: int(options.get(name) or 0) for name in ("resamples", "replications")}
        if study is None:
            return cls(rows=0, items=0, systems=0, metrics=0, people=0, aspects=1, compared=0, **draws)
        given = {name: value for name, value in options.items() if name in settings({})}
        chosen = study.select(**selection_of(settings({**study.selection, **given})), one_side=True)
        scores, verdicts = chosen.ratings.frame.filter(pl.col("item") != ""), chosen.preferences.frame
        of_item = scores.group_by("item").agg(pl.col("system").n_unique().cast(pl.Int64).alias("n"))["n"]
        told = verdicts.select("item", "system_a", "system_b").unique().height
        return cls(
            rows=chosen.ratings.frame.height + verdicts.height,
            items=len(chosen.item_labels()),
            systems=len(chosen.systems),
            metrics=len(chosen.metrics),
            people=len(chosen.humans),
            aspects=max(1, len(chosen.aspects)),
            compared=int((of_item * (of_item - 1) // 2).sum()) + told,
            **draws,
        )

    @property
    def terms(self) -> dict[str, float]:
        """What work is proportional to, each in units of a million."""
        a, m, n, s, r = self.aspects, self.metrics + 1, self.items, self.systems, self.resamples
        pairs = s * (s - 1) // 2
        made = {
            "rows": (self.rows,),
            "signs": (a, m, self.compared),
            "draws": (a, m, r, n),
            "systems": (a, m, r, s),
            "pairs": (a, m, r, pairs),
            "metrics": (a, m, m, r),
            "panel": (a, m, m, n),
            "tables": (a, m, pairs, max(1, self.replications)),
        }
        return {name: prod(map(float, own)) / 1e6 for name, own in made.items()}


@dataclass(frozen=True, kw_only=True)
class Effort:
    """About so many CPU `seconds` and `megabytes` at the peak, for a question about so much (`size`)."""

    question: str
    seconds: float
    megabytes: float
    size: Size

    @property
    def fits(self) -> bool:
        """Whether the memory of this machine is enough."""
        return self.megabytes * 1e6 <= SHARE * memory()

    def __str__(self) -> str:
        size = self.size
        counts = {name: getattr(size, name) for name in ("items", "systems", "metrics", "people")}
        told = " x ".join(f"{n:,} {name}" for name, n in counts.items() if n)
        more = [f"{n:,} {name}" for name in ("aspects", "resamples", "replications") if (n := getattr(size, name)) > 1]
        too_much = "" if self.fits else f"; this machine has {memory() / 1e9:.0f} GB, so it will not fit"
        about = f"about {_rounded(self.seconds)} s of CPU and {_rounded(self.megabytes)} MB{too_much}"
        return f"{self.question}: {about} ({', '.join([told or 'assumptions', *more])})"


def _rounded(value: float) -> str:
    """Two digits: an estimate has no more."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.1f}"


@checked
def effort(question: str, study: Study | None = None, options: Mapping[str, Any] | None = None) -> Effort:
    """About how many CPU seconds and megabytes a question takes, by the sizes of what it is asked about.

    Nothing is computed but sizes. Figures were fitted on a machine of 2025 with studies of texts and battles; they are
    within a factor of three there (`benchmarks/effort.md`). Raises `OptionError` for a question that is none.

    >>> from custodes.data.simulate import demo_study
    >>> print(str(effort("check", demo_study())).split(":")[0])
    check
    """
    if question not in COSTS:
        raise OptionError(f"question={question!r} is none{suggestion(question, COSTS)}; questions: {', '.join(COSTS)}")
    size = Size.of(study, options or {})
    seconds, megabytes = (_total(cost, size) for cost in COSTS[question])
    return Effort(question=question, seconds=seconds, megabytes=megabytes, size=size)


def given(asked: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question with its defaults filled in."""
    signature = inspect.signature(asked)
    return {name: own.default for name, own in signature.parameters.items() if own.default is not own.empty} | dict(
        options
    )


def _total(cost: Mapping[str, float], size: Size) -> float:
    terms = size.terms | {"start": 1.0}
    return sum(weight * terms[name] for name, weight in cost.items())


COSTS: dict[str, tuple[Mapping[str, float], Mapping[str, float]]] = {}
"""By question: what a million of each term takes, in seconds and in megabytes; `start` is what any study takes."""
