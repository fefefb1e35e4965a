"""Summary of a study in sentences that intervals and tests support."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, Unpack

import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments
from custodes.answers.tables import label, table
from custodes.data.notes import build_notes
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.evaluate.agreement.agreement import Agreement, agreement
from custodes.evaluate.annotators.annotators import annotators
from custodes.evaluate.check.check import check
from custodes.evaluate.complementarity.complementarity import complementarity
from custodes.evaluate.consistency.consistency import consistency
from custodes.evaluate.favoritism import favoritism
from custodes.evaluate.leaderboard.leaderboard import leaderboard
from custodes.evaluate.ranking import ranking
from custodes.evaluate.rates.rates import rates
from custodes.evaluate.slices import BY, check_slices
from custodes.evaluate.verdict import overall
from custodes.evaluate.verdict.annotators import reliability
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.favoritism import favours
from custodes.evaluate.verdict.metrics import chance, design, metric_sentences, serious, trust
from custodes.evaluate.verdict.rates import rate_sentences
from custodes.evaluate.verdict.slices import slices
from custodes.evaluate.verdict.systems import best, labels
from custodes.evaluate.verdict.view import AspectResults
from custodes.evaluate.verdict.weaknesses import decisions, weaknesses
from custodes.progress import Progress, silent
from custodes.stats.rates.posterior import Sampling

HEADINGS: Mapping[str, str] = {
    "design": "Read this first",
    "rates": "What the rates are",
    "best": "Which system is best",
    "annotators": "How reliable the human ratings are",
    "trust": "Which metric agrees best with the annotators",
    "decisions": "How well this metric decides which system is better",
    "weaknesses": "What is wrong with this metric",
    "faults": "Biases and failures of judges",
    "favours": "Which systems metrics over-rate or under-rate",
    "slices": "Which slices of the data differ",
    "labels": "What to do next",
    "chance": "Not significantly better than chance",
}
SUBJECTS: Mapping[str, Callable[[AspectResults], Iterable[str]]] = {
    "design": design,
    "best": best,
    "annotators": reliability,
    "trust": trust,
    "decisions": decisions,
    "weaknesses": weaknesses,
    "faults": faults,
    "favours": favours,
    "slices": slices,
    "labels": labels,
    "chance": chance,
}
"""For each heading, in the order of display, the functions that yield the sentences on one aspect."""
ACROSS: Mapping[str, Callable[[Sequence[AspectResults]], Iterable[str]]] = {
    "design": overall.design,
    "best": overall.best,
    "trust": overall.trust,
    "weaknesses": overall.weaknesses,
}
"""For each heading, the functions that yield the sentences on all aspects together."""
OF_SYSTEMS = ("design", "best", "annotators", "labels")
"""Headings that need no metric."""
NOT_OF_SIDES = ("best", "decisions", "favours", "labels")
"""Headings that have no meaning if sides of a pair are compared instead of systems."""


@result
class Verdict(Result):
    """Summary of check, annotators, leaderboard, agreement, favoritism, consistency and ranking in sentences.

    See `verdict`.
    """

    verdict: pl.DataFrame = table(
        "One row per statement; a statement on all aspects has an empty aspect.",
        label(
            "kind",
            (
                "subject of the statement: `design`, `rates`, `best`, `annotators`, `trust`, `decisions`, "
                "`weaknesses`, `faults`, `favours`, `slices`, `labels` or `chance`"
            ),
        ),
        label("text", "the sentence", ""),
    )

    def lines(self) -> Iterator[str]:
        """Yield the statements as lines of plain text."""
        for aspect, kind, text in self.verdict.select("aspect", "kind", "text").iter_rows():
            yield f"{aspect}{': ' if aspect else ''}{HEADINGS[kind]}: {text}"


@question("custodes verdict ratings.csv --aspect coherence", by=BY)
def verdict(
    study: Study,
    *,
    by: str | None = None,
    positive: str | None = None,
    sampling: Sampling = "random",
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Verdict:
    """Summarise the study in plain words: best system, best metric, favoritism, and benefit of more annotations.

    Notes
    -----
    The sentences summarise `check`, `annotators`, `agreement`, `favoritism`, `consistency` and `ranking`, computed with
    the same arguments. They also summarise the `leaderboard` of annotators and the best metrics. Statements about
    systems hold jointly at `confidence`. Statements about metrics hold jointly for each aspect at `alpha`. Statements
    about judges hold jointly over all aspects at `alpha`. For a study without metrics, only `check`, `annotators` and
    `leaderboard` are used. For a study without human ratings, `check`, `leaderboard`, `consistency` and
    `complementarity` are used. For a study of labels, and for ratings with `positive`, `check` and `rates` are used.

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.verdict(cu.read("demo"), aspect="coherence", metrics="judge,noise", resamples=50)
    >>> result.verdict["kind"].unique(maintain_order=True).to_list()[0]
    'best'
    """
    selection_options: dict[str, Any] = {**selection_arguments(setting), "rng": rng, "progress": progress}
    if asks_for_rates(study, positive, sampling):
        rates_result = rates(
            study,
            positive=positive,
            by=by,
            sampling=sampling,
            confidence=confidence,
            alpha=alpha,
            **selection_options,
        )
        return verdict_of({"check": check(study, **selection_options), "rates": rates_result})
    shared_options: dict[str, Any] = {"rng": rng, "progress": progress, **setting}
    interval_options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, **shared_options}
    study = study.with_cache()
    selected_study = study.select(**selection_arguments(setting), one_side=True)
    if by:
        check_slices(study, selected_study, by)
    results: dict[str, Result] = {"check": check(study, **shared_options)}
    if selected_study.metrics and not selected_study.humans:
        results["leaderboard"] = leaderboard(study, **interval_options)
        with nullcontext() if by else suppress(InputError):  # raised without repeats and known orders
            results["consistency"] = consistency(study, by=by, alpha=alpha, **interval_options)
        with suppress(InputError):  # raised for verdicts alone, or one metric
            results["complementarity"] = complementarity(
                study, confidence=confidence, resamples=resamples, **selection_options
            )
        return verdict_of(results)
    with suppress(InputError):  # raised for a single annotator, or no answers
        results["annotators"] = annotators(
            study,
            method="majority",
            human=setting.get("human"),
            systems=setting.get("systems"),
            aspect=setting.get("aspect"),
            group=setting.get("group"),
            confidence=confidence,
            resamples=resamples,
            rng=rng,
        )
    if not selected_study.metrics:
        return verdict_of({**results, "leaderboard": leaderboard(study, **interval_options)})
    agreement_result = agreement(study, by=by, alpha=alpha, **interval_options)
    favoritism_result = favoritism(study, by=by, alpha=alpha, **interval_options)  # raises if metrics have no outputs
    return verdict_of(
        {
            **results,
            "leaderboard": leaderboard(study, **{**interval_options, "metrics": best_metrics(agreement_result)}),
            "agreement": agreement_result,
            "consistency": consistency(study, by=by, alpha=alpha, **interval_options),
            "favoritism": favoritism_result,
            "ranking": ranking(study, alpha=alpha, **interval_options),
        }
    )


def asks_for_rates(study: Study, positive: str | None, sampling: Sampling) -> bool:
    """Whether the summary of a study is about rates of labels; for other studies, raise `OptionError` if `sampling` is
    set."""
    is_about_labels = bool(study.labels) or positive is not None
    if not is_about_labels and sampling != "random":
        raise OptionError(
            f"sampling={sampling!r} is for rates of labels, but {study.name} has scores or preferences; name the "
            "scores that count as success, such as positive='>=4', or leave out sampling"
        )
    return is_about_labels


def best_metrics(agreement: Agreement) -> list[str]:
    """Return the metrics with the highest agreement on some aspect; the leaderboard includes only these metrics."""
    return agreement.standing.unique("aspect", keep="first", maintain_order=True)["metric"].unique().sort().to_list()


def verdict_of(results: Mapping[str, Result]) -> Verdict:
    """Return the verdict from the results of one study (by question), without provenance.

    If `results` has no agreement, the verdict is only about systems.
    """
    question_name, table_name = next(
        (question_name, table_name)
        for question_name, table_name in (("rates", "rates"), ("agreement", "metrics"), ("leaderboard", "systems"))
        if question_name in results
    )
    aspects = results[question_name].to_frame(table_name)["aspect"].unique(maintain_order=True).to_list()
    problem_rows, rater_rows, summary_rows = map(results["check"].to_frame, ("problems", "raters", "summary"))
    notes = []
    if "rates" in results:
        statements_of_aspect = {aspect: [*rate_sentences(results, aspect)] for aspect in aspects}
        message = (
            "the metrics are not evaluated here, because the metrics give scores and the annotators give more than "
            "two labels. Use agreement for the correlations of scores and labels"
        )
        has_only_scores = bool(summary_rows["metrics"].sum()) and results["rates"].to_frame("judges").is_empty()
        notes = build_notes(("scores-and-labels", has_only_scores, message))
    elif not summary_rows["humans"].sum():
        statements_of_aspect = {aspect: [*metric_sentences(results, aspect)] for aspect in aspects}
    else:
        views = [AspectResults(results, aspect) for aspect in aspects]
        kinds = [kind for kind in SUBJECTS if kind in OF_SYSTEMS or "agreement" in results]
        across_statements = [(kind, ACROSS[kind](views)) for kind in kinds if kind in ACROSS]
        statements_of_aspect = {"": across_statements} if len(views) > 1 else {}
        statements_of_aspect |= {
            view.aspect: [(kind, SUBJECTS[kind](view)) for kind in kinds if not (view.sided and kind in NOT_OF_SIDES)]
            for view in views
        }
    if "" not in aspects:  # problems without an aspect concern the whole study
        study_problems = serious(problem_rows.filter(aspect=""), rater_rows["rater"])
        statements_of_aspect[next(iter(statements_of_aspect))].insert(0, ("design", study_problems))
    parts = [
        Verdict.part(aspect, verdict=[{"kind": kind, "text": text} for kind, texts in statements for text in texts])
        for aspect, statements in statements_of_aspect.items()
    ]
    return Verdict.from_parts(parts, notes)
