"""Asks every question of a study and tells the answers in one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from custodes.combining.combine import Combine, combine
from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.errors import CustodesError, InputError, OptionError, suggestion
from custodes.evaluate.agreement import Agreement, agreement
from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from custodes.evaluate.check import Check, check
from custodes.evaluate.comparison import Selection, Setting
from custodes.evaluate.complementarity.complementarity import Complementarity, complementarity
from custodes.evaluate.correction import Correction, correction
from custodes.evaluate.favoritism import Favoritism, favoritism
from custodes.evaluate.parallel import each
from custodes.evaluate.protocol.plan import Plan, plan
from custodes.evaluate.protocol.protocol import Protocol, protocol
from custodes.evaluate.ranking import Ranking, ranking
from custodes.evaluate.result import Result, Rng, seeded, stacked
from custodes.files import folder, write_atomically
from custodes.plots.saving import FORMATS
from custodes.progress import Progress, silent
from custodes.reporting.page import page
from custodes.reporting.sections.combination import LEFT_OUT
from custodes.reporting.verdict import Verdict, standing_of, verdict

MOST_CORRECTED = 3
"""So many metrics are corrected, unless more are best on some aspect: sampling takes seconds a metric."""

LOOKS = (10, 20, 40)
"""Annotations of a pair after which the replayed protocol looks."""

FEWEST = LOOKS[1]
"""With fewer annotations a pair, stopping early has nothing to save."""

QUICK = ("ridge", "best", "equal", "pairwise")
"""Ways of combining that take seconds; boosted trees take minutes."""

ONE_SIDED = "people always prefer the same side of the pair, so sides are compared and not systems."


@dataclass(frozen=True, kw_only=True)
class Report:
    """`html`, the whole page; `results` by question; `verdict` in plain words. See `report`."""

    html: str
    results: Mapping[str, Result]
    verdict: Verdict

    def tables(self) -> dict[str, pl.DataFrame]:
        """Every table of every result, named `question.table`."""
        return {
            f"{question}.{name}": table
            for question, result in self.results.items()
            for name, table in result.tables().items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values: the verdict's lines, then each result."""
        return {
            "question": "report",
            "verdict": self.verdict.lines(),
            **{question: result.to_dict() for question, result in self.results.items()},
        }

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all; raises `OptionError` where it cannot be written."""
        return write_atomically(path, self.html)

    def save_figures(self, path: str | Path, *, format: str = "svg") -> list[Path]:
        """Write the pictures of every aspect to a folder, for its best metric where a picture shows one metric.

        Pictures of corrected margins and of the protocol are there where the study allows these questions.
        `format` is one of svg, pdf, png, html, json. Raises `OptionError` for another one or an unwritable folder.
        """
        from custodes import plots

        if format not in FORMATS:
            raise OptionError(f"format={format!r}; formats: {', '.join(FORMATS)}{suggestion(format, FORMATS)}")
        agreed, favoured, ranked = (self.results[name] for name in ("agreement", "favoritism", "ranking"))
        assert isinstance(agreed, Agreement)
        assert isinstance(favoured, Favoritism)
        assert isinstance(ranked, Ranking)
        target = folder(path)
        charts: dict[str, Any] = {}
        alike, predicted = self.results.get("complementarity"), self.results.get("ceiling")
        if isinstance(alike, Complementarity):
            charts["complementarity"] = plots.complementarity_map(alike)
            charts["complementarity_averages"] = plots.complementarity_averages(alike)
            if alike.components.height:
                charts["explained_variance"] = plots.explained_variance(alike)
            if alike.coordinates.height:
                charts["judges_map"] = plots.judges_map(alike)
        if isinstance(predicted, Ceiling):
            charts["prediction"] = plots.prediction_bars(predicted)
            if predicted.information.height:
                charts["information_ratio"] = plots.information_ratio(predicted)
            if predicted.history.height:
                charts["release_history"] = plots.release_history(predicted)
        for aspect, metric in self.verdict.best.items():
            own = {
                "sample_accuracy": plots.agreement_intervals(agreed, statistic="sample_accuracy", aspect=aspect),
                "kendall_item": plots.agreement_intervals(agreed, statistic="kendall_item", aspect=aspect),
                "favoritism_map": plots.favoritism_map(favoured, aspect=aspect),
                "favoritism_and_accuracy": plots.favoritism_and_accuracy(favoured, aspect=aspect),
                f"favoritism_by_system-{metric}": plots.favoritism_by_system(favoured, metric, aspect=aspect),
                "error_types": plots.error_types(ranked, aspect=aspect),
                f"ranking_graphs-{metric}": plots.ranking_graphs(ranked, metric, aspect=aspect),
            }
            corrected, replayed = self.results.get("correction"), self.results.get("protocol")
            if isinstance(corrected, Correction):
                own[f"correction_margins-{metric}"] = plots.correction_margins(corrected, metric, aspect=aspect)
            if isinstance(replayed, Protocol):
                own["budget_curve"] = plots.budget_curve(replayed, aspect=aspect)
            planned = self.results.get("plan")
            if isinstance(planned, Plan):
                own["power_curve"] = plots.power_curve(planned, aspect=aspect)
            combined = self.results.get("combination")
            if isinstance(combined, Combine) and aspect in set(combined.comparison["target"]):
                own["method_comparison"] = plots.method_comparison(combined, target=aspect)
                own["combination_weights"] = plots.combination_weights(combined, target=aspect)
                own["cost_curve"] = plots.cost_curve(combined, target=aspect)
                if aspect in set(combined.favoritism["target"]):
                    own["accuracy_and_favoritism"] = plots.accuracy_and_favoritism(combined, target=aspect)
            if isinstance(predicted, Ceiling) and aspect in set(predicted.prediction["target"]):
                own["lasso_paths"] = plots.lasso_paths(predicted, aspect)
                own["forward_path"] = plots.forward_path(predicted, aspect)
            charts |= {"-".join(part for part in (aspect, name) if part): chart for name, chart in own.items()}
        return [plots.save(chart, target / f"{_file_name(name)}.{format}") for name, chart in charts.items()]


def report(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Report:
    """Everything this library says of a study, in one HTML page that needs nothing else.

    Asks `check`, `agreement`, `favoritism` and `ranking` with the same setting and seed; see there for what the numbers
    mean and which errors are raised. Then `complementarity` and `ceiling` (by ridge regression, the quicker model),
    `combine` of every aspect in quick ways (`combination`: the tables of all, the model of the first),
    `correction` by the best metrics (the best of every aspect, and some that are not told apart from it), and
    `protocol` and `plan` (of a study like this one) by people alone; where a study does not allow one of them, it is
    not among `results`, and the page says why.

    >>> import custodes as cu
    >>> made = cu.report(cu.read("demo"), resamples=50)
    >>> made.html[:15]
    '<!doctype html>'
    """
    generator, seed = seeded(rng)
    source: Rng = generator if seed is None else seed
    common: dict[str, Any] = {"rng": source, "progress": progress, **setting}
    bounds: dict[str, Any] = {"confidence": confidence, "resamples": resamples}
    checked = check(study, **common)
    agreed = agreement(study, **bounds, **common)
    favoured = favoritism(study, alpha=alpha, **bounds, **common)
    ranked = ranking(study, alpha=alpha, **bounds, **common)
    told = verdict(check=checked, agreement=agreed, favoritism=favoured, ranking=ranked, alpha=alpha)
    results: dict[str, Result] = {"check": checked, "agreement": agreed, "favoritism": favoured, "ranking": ranked}
    absent: dict[str, str] = {}
    leaders = [
        standing_of(agreed, favoured, aspect, alpha=alpha).leaders for aspect in told.aspects if aspect in told.best
    ]
    metrics = _corrected(list(told.best.values()), leaders)
    chosen = {name: value for name, value in common.items() if name in Selection.__annotations__}
    combining = {name: value for name, value in chosen.items() if name != "aspect"}
    alike: dict[str, Any] = {**bounds, "rng": source, "progress": progress, **chosen}
    questions: dict[str, Callable[[], Result]] = {
        "complementarity": lambda: complementarity(study, **alike),
        "ceiling": lambda: ceiling(study, model="ridge", **alike),
        "combination": lambda: _combination(
            study, list(told.aspects), {**bounds, **combining}, rng=generator, seed=seed, progress=progress
        ),
        "correction": lambda: _correction(study, metrics, {**common, "confidence": confidence}),
        "protocol": lambda: _protocol(study, common),
        "plan": lambda: plan(study, **{**common, "metrics": "none", "looks": LOOKS, "boundary": "pocock"}),
    }
    for question, ask in questions.items():
        try:
            if _one_sided(checked) >= set(told.aspects):
                raise InputError(ONE_SIDED)
            results[question] = ask()
        except CustodesError as error:
            absent[question] = str(error)
    return Report(html=page(study.name, results, told, absent), results=results, verdict=told)


def _combination(
    study: Study,
    aspects: Sequence[str],
    options: dict[str, Any],
    *,
    rng: np.random.Generator,
    seed: int | None,
    progress: Progress,
) -> Combine:
    """The tables of all aspects below each other; a note of each aspect of which nothing can be learnt."""

    def fit(aspect: str, own: np.random.Generator) -> Combine | CustodesError:
        try:
            source: Rng = own if seed is None else seed
            return combine(study, target=aspect, method=QUICK, repeats=1, rng=source, **options)
        except CustodesError as error:
            return error

    answers = list(each(fit, aspects, rng=rng, progress=progress, desc="combination", label=str))
    fits = [made for made in answers if isinstance(made, Combine)]
    failed = {a: made for a, made in zip(aspects, answers, strict=True) if isinstance(made, CustodesError)}
    if not fits:
        raise next(iter(failed.values()))
    notes = [note for made in fits for note in made.notes]
    for aspect, reason in failed.items():
        notes.append(Note(rule=LEFT_OUT, message=f"No combination of aspect {aspect!r}: {reason}", count=1))
    return _together(fits, tuple(dict.fromkeys(notes)))


def _together(fits: Sequence[Combine], notes: tuple[Note, ...]) -> Combine:
    tables: dict[str, Any] = {}
    for name in fits[0].tables():
        own = [made.tables()[name] for made in fits]
        tables[name] = stacked([table for table in own if table.height] or own[:1])
    # Seconds differ from run to run, and the same seed gives the same page.
    tables["comparison"] = tables["comparison"].drop("seconds")
    made = fits[0].provenance
    options = {**made.options, "target": [own.provenance.options["target"] for own in fits]}
    made = replace(made, options=options, dropped=tuple(note for note in notes if note.count))
    return replace(fits[0], **tables, notes=notes, provenance=made)


def _one_sided(checked: Check) -> set[str]:
    """Aspects where people always prefer the same side."""
    return set(checked.problems.filter(pl.col("rule") == "one-sided-people")["aspect"])


def _corrected(best: Sequence[str], leaders: Sequence[Sequence[str]]) -> list[str]:
    """The best metric of every aspect, and as many as there is time for of those not told apart from it."""
    by_rank = [name for rank in zip_longest(*leaders) for name in rank if name]
    names = list(dict.fromkeys([*best, *by_rank]))
    return names[: max(MOST_CORRECTED, len(set(best)))]


def _correction(study: Study, metrics: Sequence[str], options: dict[str, Any]) -> Correction:
    if not metrics:
        raise InputError("no metric can be ranked, so none is worth correcting.")
    return correction(study, **{**options, "metrics": metrics})


def _protocol(study: Study, options: dict[str, Any]) -> Protocol:
    made = protocol(study, **{**options, "metrics": "none", "looks": LOOKS, "boundary": "pocock", "null": True})
    most = max((row["annotations"] / row["pairs"] for row in made.reference.to_dicts()), default=0.0)
    if most < FEWEST:
        raise InputError(
            f"people annotated {most:.0f} items of a pair of systems on average, and a replay with looks after"
            f" {', '.join(map(str, LOOKS))} takes at least {FEWEST}."
        )
    return made


def _file_name(label: str) -> str:
    """A label as a file name on any system."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label).strip("._") or "figure"
