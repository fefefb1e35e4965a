"""How long a question will take, and in how much memory, before it is asked: about, from sizes alone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import polars as pl

from custodes.answers.question import NOT_ENOUGH
from custodes.answers.setting import NONE, selection_of, settings
from custodes.arguments import checked
from custodes.data.cells import OutcomeCounts
from custodes.data.comparisons import HUMAN
from custodes.data.study import Study
from custodes.errors import OptionError, suggestion
from custodes.memory import fits, memory, of_resamples


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
    def of(cls, question: str, study: Study | OutcomeCounts | None, options: Mapping[str, Any]) -> Size:
        """The size of the part of a study that is asked about; of counts, which hold no items; of nothing, where there
        is none. A study without people or metrics is refused as the question refuses it."""
        draws = {name: int(options.get(name) or 0) for name in ("resamples", "replications")}
        if not isinstance(study, Study):
            systems, metrics, people = _counted(study)
            return cls(rows=0, items=0, systems=systems, metrics=metrics, people=people, aspects=1, compared=0, **draws)
        own: Any = {**study.selection, **{name: value for name, value in options.items() if name in settings({})}}
        own |= {"metrics": None} if own.get("metrics") == NONE else {}
        own |= {"metrics": options["metric"]} if options.get("metric") else {}  # a question about one
        chosen = study.select(**selection_of(own), one_side=True)
        if question not in EITHER and not (chosen.humans and question in PEOPLE_ALONE):
            chosen = study.select(**selection_of(own))
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
            "cells": (a, m, n, pairs),
            "replays": (a, n, pairs, max(1, self.replications)),
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
        return fits(self.megabytes * 1e6)

    def __str__(self) -> str:
        size = self.size
        counts = {name: getattr(size, name) for name in ("items", "systems", "metrics", "people")}
        told = " x ".join(f"{n:,} {name}" for name, n in counts.items() if n)
        more = [f"{n:,} {name}" for name in ("aspects", "resamples", "replications") if (n := getattr(size, name)) > 1]
        too_much = "" if self.fits else f"; this machine has {memory() / 1e9:.0f} GB, so it will not fit"
        about = f"about {_rounded(self.seconds)} s of CPU and {_rounded(self.megabytes)} MB{too_much}"
        of = "" if size.items or not told else "counts of "
        return f"{self.question}: {about} ({', '.join([of + told if told else 'assumptions', *more])})"


def _counted(counts: OutcomeCounts | None) -> tuple[int, int, int]:
    """Systems, metrics and people, who are one in counts."""
    if isinstance(counts, OutcomeCounts):
        people = int(HUMAN in counts.raters)
        return len(counts.systems), len(counts.raters) - people, people
    return 0, 0, 0


def _rounded(value: float) -> str:
    """Two digits: an estimate has no more."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 10 else f"{value:.1f}"


@checked
def effort(
    question: str,
    study: Study | OutcomeCounts | None = None,
    options: Mapping[str, Any] | None = None,
) -> Effort:
    """About how many CPU seconds and megabytes a question takes, by the sizes of what it is asked about.

    Nothing is computed but sizes. Figures were fitted on one kind of machine (`benchmarks/effort.py --fit`) to up to
    eleven studies of texts and battles, which took within a factor of 2.7 of them in time and in memory. What is larger
    than all of these may take ten times as much or as little: then an estimate says the order of magnitude.

    `options` are those of the question; one that is not given counts as 0. Raises `OptionError` for a question that is
    none, and what the question raises of a study without people or metrics that it needs, and of counts that are not
    enough.

    >>> from custodes.data.simulate import demo_study
    >>> print(str(effort("check", demo_study())).split(":")[0])
    check
    """
    if question not in COSTS:
        raise OptionError(f"question={question!r} is none{suggestion(question, COSTS)}; questions: {', '.join(COSTS)}")
    if isinstance(study, OutcomeCounts) and question not in OF_BATTLES:
        if question not in OF_PAIRS:
            raise OptionError(f"{question}: {NOT_ENOUGH}")
        study.check_both_sides()
    size = Size.of(question, study, options or {})
    seconds, megabytes = (total(cost, size.terms) for cost in COSTS[question])
    if size.resamples:  # from so many on that their tables are refused, it is these that count
        megabytes = max(megabytes, 8e-6 * of_resamples(size.resamples, size.items / 8))
    return Effort(question=question, seconds=seconds, megabytes=megabytes, size=size)


def given(asked: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question with its defaults filled in."""
    signature = inspect.signature(asked)
    return {name: own.default for name, own in signature.parameters.items() if own.default is not own.empty} | dict(
        options
    )


def total(cost: Mapping[str, float], terms: Mapping[str, float]) -> float:
    """What so much of each term takes."""
    return sum(weight * (terms[name] if name != "start" else 1.0) for name, weight in cost.items())


EITHER = ("check", "leaderboard", "consistency")
"""Questions about people or metrics, whoever is there."""
OF_BATTLES, OF_PAIRS = ("leaderboard",), ("favoritism", "ranking", "correction")
"""Questions that counts are enough for, of anybody, and of people beside metrics."""
PEOPLE_ALONE = ("annotators", "verdict", "report", "protocol", "plan")
"""Questions that need no metric. All others compare metrics with people."""

COSTS: dict[str, tuple[Mapping[str, float], Mapping[str, float]]] = {
    "check": ({"start": 1.1, "signs": 0.088, "rows": 2.2, "tables": 7.7}, {"start": 140, "rows": 760}),
    "leaderboard": (
        {"start": 1.6, "rows": 12, "draws": 0.0012, "pairs": 0.044, "metrics": 0.0075},
        {"start": 240, "draws": 2.3},
    ),
    "agreement": (
        {"start": 1.2, "draws": 0.036, "signs": 1.8, "cells": 0.022},
        {"start": 220, "cells": 3.3, "draws": 2.8},
    ),
    "annotators": ({"start": 1.6, "draws": 0.0046}, {"start": 160, "draws": 1.5}),
    "favoritism": (
        {"start": 1.3, "rows": 2.9, "signs": 0.41, "draws": 0.0027, "pairs": 0.091},
        {"start": 180, "rows": 380, "draws": 0.3, "pairs": 3.3},
    ),
    "consistency": ({"start": 1.2, "rows": 9.5, "draws": 0.0023}, {"start": 160, "rows": 780}),
    "ranking": ({"start": 1.5, "draws": 0.0087, "pairs": 0.14}, {"start": 190, "draws": 1.2, "pairs": 0.49}),
    "verdict": (
        {"start": 1.5, "draws": 0.042, "signs": 3.6, "cells": 0.025},
        {"start": 230, "cells": 3.7, "rows": 870},
    ),
    "correction": (
        {"start": 1.1, "rows": 11, "signs": 0.3},
        {"start": 150, "rows": 350, "signs": 46, "pairs": 0.75, "tables": 0.74},
    ),
    "protocol": ({"start": 0.67, "rows": 2.2, "replays": 0.42}, {"start": 150, "rows": 1000, "replays": 32}),
    "plan": ({"start": 0.75, "replays": 0.096, "tables": 0.12}, {"start": 160, "replays": 23}),
    "complementarity": (
        {"start": 1.4, "signs": 0.027, "pairs": 0.041, "panel": 0.039},
        {"start": 160, "rows": 520, "signs": 20},
    ),
    "ceiling": ({"start": 2.3, "draws": 0.097, "pairs": 0.13}, {"start": 290, "draws": 1.6}),
    "combine": ({"start": 5.5, "rows": 75}, {"start": 170, "rows": 800}),
    "validate": ({"start": 1.2, "rows": 1.9}, {"start": 160, "rows": 500}),
    "gate": ({"start": 0.87, "draws": 0.034, "cells": 0.0055, "signs": 4.0}, {"start": 150, "draws": 14, "cells": 4}),
    "report": ({"start": 2.2, "rows": 130, "tables": 560}, {"start": 300, "rows": 1700, "metrics": 1.3}),
}
"""By question: what a million of each term takes, in seconds and in megabytes; `start` is what any study takes."""
