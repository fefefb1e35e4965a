"""Scoring of texts. Inputs are checked, cached scores are reused, and every failure is reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from custodes.answers.question import document_arguments, versions
from custodes.answers.result import Provenance
from custodes.arguments import check_at_least
from custodes.cache import Cache, KeptScore
from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.data.table import digest_of
from custodes.errors import InputError
from custodes.progress import Progress, silent
from custodes.scoring.computation import Computation, Corpus
from custodes.scoring.metric import Place
from custodes.scoring.raters import Missing, Rater, load_raters
from custodes.scoring.scores import FAILED, Scores, ScoringPlan, omission_notes, rater_notes, rater_rows

NOTHING = "no output has all inputs of the metric"


@document_arguments(
    "custodes score texts.jsonl --metric rouge1 --metric bleu@first,mean -o scores.csv",
    metrics="Metric: [NAME=]METRIC[:key=value,...][@rule,...]; --list shows all metrics. Repeat the option for several "
    "metrics, or give metrics without a colon as a comma list.",
    cache="File of cached scores.",
    jobs="Number of processes of a worker.",
    device="Device of the models: cpu, cuda, cuda:1, mps.",
    batch="Batch size of the models.",
    missing="What to do if a text lacks a field that a metric needs: error (stop before any score is computed) or "
    "drop (leave the text out and count it).",
)
def score(
    texts: Study,
    metrics: Sequence[str],
    *,
    cache: str | Path | None = None,
    jobs: int = 1,
    device: str = "cpu",
    batch: int = 32,
    missing: Missing = "error",
    progress: Progress = silent,
) -> Scores:
    """Compute metric scores of texts, and describe each metric and its cost.

    Notes
    -----
    A metric is written as on the command line: `[NAME=]METRIC[:key=value,...][@rule,...]`. The rule determines how
    several references are used. With `all`, the metric gets all references together. With the rules `first`, `best`
    and `mean`, each reference is scored separately, and the first, best or mean score is used. Each rule is a separate
    rater. Scores depend only on the texts, and equal texts are scored only once. If a metric fails, a note says so, and
    the scores of the remaining metrics are returned.

    Examples
    --------
    >>> import polars as pl, custodes as cu
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["A", "B"], "text": ["a red fox", "a fox"]})
    >>> cu.score(texts, ["length"]).ratings["score"].to_list()
    [3.0, 2.0]
    """
    place = Place(device=device, batch=check_at_least("batch", batch, 1), jobs=check_at_least("jobs", jobs, 1))
    with _loaded_raters(texts, metrics, cache, place, missing) as (corpus, raters, open_cache, kept_score_of_key):
        failure_of_computation, rater_tables, notes = dict[Computation, str](), [], list[Note]()
        for rater in raters:
            if rater.computation not in failure_of_computation:
                failure_of_computation[rater.computation] = _run(rater, kept_score_of_key, open_cache, place, progress)
            if failure_text := failure_of_computation[rater.computation]:
                notes.append(Note(rule=FAILED, message=f"{rater.spec.name}: the metric failed: {failure_text}"))
            else:
                rule_scores = rater.computation.column(kept_score_of_key, rater.rule)
                rater_tables.append(rater_rows(rater, rule_scores, corpus))
                notes += rater_notes(rater, rule_scores)
    if not rater_tables:
        raise InputError(f"nothing is scored: {'; '.join(note.message for note in notes)}")
    notes += omission_notes(raters, corpus)
    return Scores.from_parts(
        rater_tables,
        notes,
        provenance=_provenance(
            texts,
            {
                "metrics": [metrics] if isinstance(metrics, str) else list(metrics),
                "missing": missing,
                "device": device,
                "batch": batch,
            },
            notes,
        ),
        scored=texts,
    )


def plan_scoring(
    texts: Study, metrics: Sequence[str], *, cache: str | Path | None, device: str, batch: int, missing: Missing
) -> ScoringPlan:
    """Return the plan of `score` with the same arguments; metrics are loaded, but nothing is scored."""
    with _loaded_raters(
        texts, metrics, cache, Place(device=device, batch=check_at_least("batch", batch, 1)), missing
    ) as (corpus, raters, open_cache, kept_score_of_key):
        plan_rows: list[dict[str, Any]] = []
        for rater in raters:
            computation = rater.computation
            n_missing_units = len(computation.missing_units(kept_score_of_key))
            mean_seconds = open_cache.seconds_of(computation.scorer.signature) if n_missing_units else 0.0
            plan_rows.append(
                {
                    "rater": rater.spec.name,
                    "outputs": len(corpus.systems) if rater.traits.systems else len(computation.used),
                    "distinct": len(set(computation.keys)),
                    "kept": len(kept_score_of_key.keys() & set(computation.keys)),
                    "to_score": n_missing_units,
                    "seconds": None if mean_seconds is None else mean_seconds * n_missing_units,
                }
            )
    return ScoringPlan.from_parts(
        [ScoringPlan.part(raters=plan_rows)], omission_notes(raters, corpus), provenance=_provenance(texts, {}, [])
    )


@contextmanager
def _loaded_raters(
    texts: Study, metrics: Sequence[str], cache: str | Path | None, place: Place, missing: Missing
) -> Iterator[tuple[Corpus, list[Rater], Cache, dict[str, KeptScore]]]:
    """Context with the texts, the loaded raters, the open cache, and the stored values of all raters by key."""
    with ExitStack() as exit_stack:
        corpus = Corpus.from_study(texts)
        raters = load_raters(texts, corpus, metrics, place, missing, exit_stack)
        open_cache = exit_stack.enter_context(Cache(cache))
        keys = {key for rater in raters for key in rater.computation.keys}
        yield corpus, raters, open_cache, open_cache.scores(list(keys))


def _provenance(texts: Study, options: Mapping[str, Any], notes: Sequence[Note]) -> Provenance:
    """Return the provenance, with the digest of the input file, or of the texts if these do not come from a file."""
    assert texts.outputs is not None
    return Provenance(
        question="score",
        study=texts.name,
        digest=texts.digest or digest_of(texts.outputs.texts.write_csv(), texts.outputs.sources.write_ndjson()),
        options=options,
        seed=None,
        versions=versions(),
        dropped=tuple(note for note in notes if note.count),
    )


def _run(
    rater: Rater, kept_score_of_key: dict[str, KeptScore], score_cache: Cache, place: Place, progress: Progress
) -> str:
    """Compute and store the missing values of a rater. Return the error if the metric failed, otherwise ''."""
    computation = rater.computation
    if not computation.used:
        return NOTHING
    calls = computation.calls(computation.missing_units(kept_score_of_key), place)
    for unit_indices in progress(calls, total=len(calls), desc=rater.spec.name) if calls else ():
        try:
            kept_scores = computation.run(unit_indices)
        except InputError as problem:
            return str(problem)
        score_cache.keep_scores(kept_scores)
        for kept_score in kept_scores:
            kept_score_of_key.setdefault(kept_score.key, kept_score)
    return ""
