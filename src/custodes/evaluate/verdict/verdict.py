"""What does it all mean? The answer in plain words; it never says more than the intervals allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Unpack

import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting, selection_of
from custodes.answers.tables import label, p_value, score, table
from custodes.data.study import Study
from custodes.evaluate.agreement.agreement import Agreement, agreement
from custodes.evaluate.check.check import check
from custodes.evaluate.consistency.consistency import consistency
from custodes.evaluate.favoritism import Favoritism, favoritism
from custodes.evaluate.leaderboard.leaderboard import leaderboard
from custodes.evaluate.ranking import Ranking, ranking
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.favoritism import favours, flips
from custodes.evaluate.verdict.metrics import chance, design, serious, trust, uncertain
from custodes.evaluate.verdict.overall import of_systems, overall
from custodes.evaluate.verdict.systems import best, more_labels
from custodes.evaluate.verdict.view import Kind, Statement, View
from custodes.progress import Progress, silent

HEADINGS: Mapping[Kind, str] = {
    "design": "Read this first",
    "best": "Which system is best",
    "trust": "Which metric to trust",
    "faults": "What judges look at beside quality",
    "favours": "Which systems metrics over-rate or under-rate",
    "labels": "What more annotations would decide",
    "chance": "Not significantly better than chance",
    "flips": "Decisions that metrics reverse",
    "uncertain": "Undecided",
}

ESSENTIAL: tuple[Kind, ...] = ("design", "best", "trust", "faults", "favours", "labels")
"""What a reader in a hurry needs."""


@result
class Verdict(Result):
    """What check, leaderboard, agreement, favoritism and ranking say together, in plain words. See `verdict`."""

    verdict: pl.DataFrame = table(
        "One row per sentence or two; without aspect where it is about all of them.",
        label("kind", "what it is about: design, best, trust, faults, favours, labels, chance, flips or uncertain"),
        label("text", "the sentence", ""),
        label("rater", "the metric that it is about, empty for none or several", essential=False),
        label("system", "the system that it is about", essential=False),
        score(
            "value",
            "the number behind it, in `unit`",
            interval=True,
            essential=False,
        ),
        label(
            "unit", "of the value: points, proportion, count, log odds, variance ratio or a statistic", essential=False
        ),
        p_value("p_value", "the largest of the tests behind it; null where intervals decide", essential=False),
    )

    def lines(self) -> Iterator[str]:
        """Plain text, one statement a line."""
        for aspect, kind, text in self.verdict.select("aspect", "kind", "text").iter_rows():
            yield f"{aspect}{': ' if aspect else ''}{HEADINGS[kind]}: {text}"


@question("custodes verdict ratings.csv --aspect coherence")
def verdict(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Verdict:
    """The answer in plain words: which system is best, which metric to trust, whom it favours, what more labels settle.

    Made from `check`, `agreement`, `favoritism`, `consistency`, `ranking`, and the `leaderboard` of people and the best
    metrics, asked with the same arguments; see there for what the numbers mean and which errors are raised. What is
    told of systems holds for all of them together at `confidence`, what is told of metrics and of chance for all of an
    aspect together at level `alpha`; the aspects are not corrected for each other. The faults of judges hold for all
    aspects together, at `alpha`. Where nobody but people judged, it is made from `check` and `leaderboard`.

    >>> import custodes as cu
    >>> told = cu.verdict(cu.read("demo"), resamples=50, aspect="coherence")
    >>> told.verdict["kind"].unique(maintain_order=True).to_list()[0]
    'best'
    """
    asked: dict[str, Any] = {"rng": rng, "progress": progress, **setting}
    bounds: dict[str, Any] = {"confidence": confidence, "resamples": resamples, **asked}
    study = study.with_cache()
    if not study.select(**selection_of(setting), one_side=True).metrics:
        people = {"check": check(study, **asked), "leaderboard": leaderboard(study, **bounds)}
        return told_by(people)
    agreed = agreement(study, alpha=alpha, **bounds)
    favoured = favoritism(study, alpha=alpha, **bounds)  # refuses metrics without outputs, of which none is best
    return told_by(
        {
            "check": check(study, **asked),
            "leaderboard": leaderboard(study, **{**bounds, "metrics": best_metrics(agreed)}),
            "agreement": agreed,
            "consistency": consistency(study, alpha=alpha, **bounds),
            "favoritism": favoured,
            "ranking": ranking(study, alpha=alpha, **bounds),
        }
    )


def best_metrics(agreement: Agreement) -> list[str]:
    """The metric of each aspect that agrees best with people: whose leaderboards are shown."""
    return agreement.standing.unique("aspect", keep="first", maintain_order=True)["metric"].unique().sort().to_list()


def told_by(results: Mapping[str, Result]) -> Verdict:
    """The verdict of results of one study, by question, without a provenance; of people alone, what is told of systems
    by a `leaderboard`."""
    alone = "agreement" not in results
    named = results["leaderboard"].to_frame("systems") if alone else results["agreement"].to_frame("metrics")
    aspects = named["aspect"].unique(maintain_order=True)
    views = [View({**NOBODY, **results}, str(aspect)) for aspect in aspects]
    across, subjects = (of_systems, OF_PEOPLE) if alone else (overall, SUBJECTS)
    problems = results["check"].to_frame("problems")
    if alone:  # that there is no metric fools nobody who asks about people
        problems = problems.filter(pl.col("rule") != "no-metrics")
    for view in views:
        view.problems = problems.filter(aspect=view.aspect)
    # Without an aspect a problem concerns the whole study; a view without an aspect has it already.
    whole = [] if "" in aspects else [*serious(problems.filter(aspect=""))]
    told = [[statement for subject in subjects for statement in subject(view)] for view in views]
    if len(views) == 1:
        return Verdict.of([_part(views[0].aspect, [*whole, *told[0]])], ())
    parts = (_part(view.aspect, own) for view, own in zip(views, told, strict=True))
    return Verdict.of([_part("", [*whole, *across(views)]), *parts], ())


SUBJECTS = (design, best, trust, faults, favours, more_labels, chance, flips, uncertain)
"""In the order of the headings."""
OF_PEOPLE = (design, best, more_labels)
"""Those that need no metric."""
NOBODY: Mapping[str, Result] = {
    "agreement": Agreement.of([Agreement.part("")], ()),
    "favoritism": Favoritism.of([Favoritism.part("")], ()),
    "ranking": Ranking.of([Ranking.part("")], ()),
}
"""What is said of metrics where there are none."""


def _part(aspect: str, statements: Iterable[Statement]) -> dict[str, pl.DataFrame]:
    return Verdict.part(aspect, verdict=[asdict(statement) for statement in statements])
