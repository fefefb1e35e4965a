"""Which system is really better, once the errors of a metric are corrected by some human annotations?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.comparison import Comparison, Counted, Setting, counted, label_of
from custodes.evaluate.edges import cycle_notes, ranking_edges
from custodes.evaluate.favoritism import DECISION
from custodes.evaluate.parallel import each
from custodes.evaluate.result import Result, Rng, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats.correction.estimate import ESTIMATORS, Estimate, Estimator, decide, mixture_by_nuts
from custodes.stats.correction.pooled import ADDITIVITY_LEVEL, FEWEST_CLUSTERS, Pooled, pooled

POOLED = "pooled"
"""The estimator that needs items and not only counts."""

BESIDE = ("naive", "human")
"""What every correction is shown beside: the metric at its word, and people alone."""

FEW_ANNOTATIONS = 30
"""With fewer human annotations of a pair, intervals hold the truth less often than they say."""

FEW_DRAWS = 1000
"""With fewer effective draws no Monte Carlo interval is to be trusted."""

Sampler = Literal["exact", "nuts"]


@dataclass(frozen=True, kw_only=True)
class Correction(Result):
    """`pairs` (metric x pair x estimator) and `edges` (metric x estimator: winner -> loser after transitive reduction).
    See `correction`."""

    pairs: pl.DataFrame
    edges: pl.DataFrame


def correction(
    study: Study | PairCounts,
    *,
    estimator: str | Sequence[str] = "mixture",
    sampler: Sampler = "exact",
    gamma: float = 0.05,
    equivalence: float | None = None,
    confidence: float = 0.95,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Correction:
    """Every pair's outcome from few human and many metric preferences, beside the naive and the human-only answer.

    `estimator`: one or several of mixture (the model of Deriu et al. 2023), human, ppi (PPI++), inversion,
    poststratified, naive, pooled (people only, one additive model over all pairs; needs a study). `sampler`: of the
    mixture model, 'exact' or 'nuts' (NumPyro, as in the paper; slow).
    `pairs`: `n_paired` items rated by both, `n_metric` and `n_human_only` by one alone; `p_win`, `p_tie`, `p_loss` of
    system_a as people see it, each with `_low` and `_high` (null for ppi, inversion, pooled, which know the margin);
    `margin` = p_win - p_loss with its interval; `theta`, the probability that p_win > p_loss; `decision` '+' where
    theta > 1 - gamma / 2, '-' where theta < gamma / 2, else '='; `effective_draws` (null without Monte Carlo);
    `equivalent`: the margin's interval lies inside (-equivalence, equivalence) (null unless asked); `note`.
    A pair that nobody annotated is answered from what is known, and marked. `edges`: the ranking graph of the
    decisions; systems in a circle of wins share a label joined by ' ~ '.

    Takes a study, or counts (`count_pairs`), which allow all but pooled. What is taken for granted: the annotated items
    are a random part, and (mixture, inversion) errors depend on people's answer alone.
    Source: correction paper, Algorithm 1; PPI++: Angelopoulos et al. 2023; the rest is ours.

    >>> import custodes as cu
    >>> result = correction(cu.read("demo"), estimator="ppi", metrics="learned", aspect="fluency")
    >>> result.pairs["estimator"].unique().sort().to_list()
    ['human', 'naive', 'ppi']
    """
    between("gamma", gamma, 0, 1)
    between("confidence", confidence, 0, 1)
    if equivalence is not None:
        between("equivalence", equivalence, 0, 1)
    if sampler not in ("exact", "nuts"):
        raise OptionError(f"sampler={sampler!r}; allowed: exact, nuts{suggestion(sampler, ('exact', 'nuts'))}")
    asked = _asked(estimator)
    generator, seed = seeded(rng)
    if isinstance(study, PairCounts):
        _check_counts(study, asked)
    source, options, parts = counted(study, setting)
    names = (*BESIDE, *(name for name in asked if name not in BESIDE))
    rule = _Rule(estimators=names, sampler=sampler, gamma=gamma, equivalence=equivalence, confidence=confidence)

    def answer(part: Counted, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        return _tables(part, rule, rng)

    answers = list(each(answer, parts, rng=generator, progress=progress, desc="correct"))
    notes = tuple(dict.fromkeys(note for _, own in answers for note in own))
    options |= {
        "estimator": asked,
        "sampler": sampler,
        "gamma": gamma,
        "equivalence": equivalence,
        "confidence": confidence,
    }
    return Correction(
        provenance=provenance("correction", source, options=options, seed=seed, notes=notes),
        notes=notes,
        **{name: stacked([tables[name] for tables, _ in answers]) for name in answers[0][0]},
    )


@dataclass(frozen=True, kw_only=True)
class _Rule:
    estimators: tuple[str, ...]
    sampler: Sampler
    gamma: float
    equivalence: float | None
    confidence: float

    def estimate(self, name: str, counts: PairCounts, rng: np.random.Generator) -> Estimate:
        """Of all pairs and metrics: (pairs, metrics)."""
        method: Estimator = ESTIMATORS[name]
        if name == "mixture" and self.sampler == "nuts":
            method = mixture_by_nuts
        return method(
            counts.paired,
            counts.metric_only,
            counts.human_only,
            confidence=self.confidence,
            gamma=self.gamma,
            rng=rng,
        )


def _asked(estimator: str | Sequence[str]) -> list[str]:
    allowed = (*ESTIMATORS, POOLED)
    asked = list(dict.fromkeys([estimator] if isinstance(estimator, str) else estimator))
    for name in asked:
        if name not in allowed:
            raise OptionError(f"estimator={name!r}; allowed: {', '.join(allowed)}{suggestion(name, allowed)}")
    if not asked:
        raise OptionError(f"estimator: name at least one of {', '.join(allowed)}")
    return asked


def _check_counts(counts: PairCounts, asked: Sequence[str]) -> None:
    for name in ("paired", "metric_only", "human_only"):
        values = getattr(counts, name)
        wrong = ~np.isfinite(values) | (values < 0) | (values != np.rint(values))
        if wrong.any():
            raise InputError(f"counts.{name} holds {values[wrong][0]}: counts are whole numbers of at least 0")
    if not counts.paired.any():
        raise InputError(
            f"people and metrics ({listed(counts.metrics, limit=3)}) have no item in common, so no metric can be"
            " corrected; count items that both rated"
        )
    if POOLED in asked:
        raise OptionError("estimator='pooled' needs the items behind the counts; give the study instead of counts")


def _tables(part: Counted, rule: _Rule, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    counts = part.counts
    estimates = {name: rule.estimate(name, counts, rng) for name in rule.estimators if name != POOLED}
    notes = [*part.notes, *_annotation_notes(part)]
    if POOLED in rule.estimators:
        assert part.comparison is not None
        estimates[POOLED], fit = _pooled(part.comparison, rule, rng)
        notes += _pooled_notes(part, fit)
    notes += _draw_notes(part, estimates)
    # (metrics, pairs, estimators, ...): what is to be compared lies side by side
    everything = {
        field.name: np.stack([np.swapaxes(getattr(e, field.name), 0, 1) for e in estimates.values()], axis=2)
        for field in fields(Estimate)
    }
    decided = decide(everything["theta"], gamma=rule.gamma)
    edges, cyclic = _edge_table(part, tuple(estimates), decided)
    return {"pairs": _pair_table(part, tuple(estimates), everything, decided, rule), "edges": edges}, [*notes, *cyclic]


def _pooled(comparison: Comparison, rule: _Rule, rng: np.random.Generator) -> tuple[Estimate, Pooled]:
    """One answer for all metrics, as it does not look at them: (pairs, metrics)."""
    preferences = comparison.preferences
    position = {name: i for i, name in enumerate(comparison.systems)}
    sides = (preferences.system_a, preferences.system_b)
    systems = np.array([[position[name] for name in side] for side in sides], dtype=np.int64).T
    estimate, fit = pooled(
        comparison.human_signs,
        systems=systems,
        units=comparison.units,
        confidence=rule.confidence,
        rng=rng,
        fallback=True,
    )
    n_metrics = len(comparison.metrics)
    repeated = {f.name: np.repeat(getattr(estimate, f.name)[:, None], n_metrics, axis=1) for f in fields(Estimate)}
    return Estimate(**repeated), fit


def _pair_table(
    part: Counted, estimators: tuple[str, ...], values: dict[str, Floats], decided: NDArray[np.int8], rule: _Rule
) -> pl.DataFrame:
    counts = part.counts
    n_metrics, n_pairs, n_estimators = decided.shape

    def each_estimator(per_metric_pair: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.repeat(per_metric_pair.T.ravel(), n_estimators)

    annotated, judged = counts.human.sum(axis=1), counts.metric.sum(axis=2)
    equivalent = pl.Series([None] * decided.size, dtype=pl.Boolean)
    if rule.equivalence is not None:
        inside = (values["margin_low"] > -rule.equivalence) & (values["margin_high"] < rule.equivalence)
        equivalent = pl.Series(inside.ravel())
    shares = {
        f"p_{kind}{end}": values[f"p{end}"][..., i]
        for i, kind in enumerate(("win", "tie", "loss"))
        for end in ("", "_low", "_high")
    }
    return columns(
        {
            "aspect": [part.aspect] * decided.size,
            "metric": list(np.repeat(counts.metrics, n_pairs * n_estimators)),
            "estimator": list(estimators) * (n_metrics * n_pairs),
            "system_a": list(np.repeat(counts.system_a, n_estimators)) * n_metrics,
            "system_b": list(np.repeat(counts.system_b, n_estimators)) * n_metrics,
            "n_paired": each_estimator(counts.paired.sum(axis=(2, 3))),
            "n_metric": each_estimator(counts.metric_only.sum(axis=2)),
            "n_human_only": each_estimator(counts.human_only.sum(axis=2)),
            **shares,
            **{name: values[name] for name in ("margin", "margin_low", "margin_high", "theta")},
            "decision": [DECISION[int(sign)] for sign in decided.ravel()],
            "effective_draws": values["effective_draws"],
            "equivalent": equivalent,
            "note": [
                _row_note(int(annotated[pair]), int(judged[pair, metric]), name)
                for metric in range(n_metrics)
                for pair in range(n_pairs)
                for name in estimators
            ],
        }
    )


def _row_note(annotated: int, judged: int, estimator: str) -> str:
    if estimator == "naive":
        return "" if judged else "never rated by the metric"
    if not annotated:
        return "never annotated"
    return "few annotations" if annotated < FEW_ANNOTATIONS else ""


def _edge_table(
    part: Counted, estimators: tuple[str, ...], decided: NDArray[np.int8]
) -> tuple[pl.DataFrame, list[Note]]:
    rows, cyclic = [], []
    for m, metric in enumerate(part.counts.metrics):
        for e, name in enumerate(estimators):
            edges, circle = ranking_edges(part.counts, decided[m, :, e])
            rows += [(part.aspect, metric, name, winner, loser) for winner, loser in edges]
            if circle:
                cyclic.append(f"{metric} ({name})")
    schema = dict.fromkeys(("aspect", "metric", "estimator", "winner", "loser"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row"), cycle_notes(part.aspect, cyclic)


def _annotation_notes(part: Counted) -> list[Note]:
    counts, label = part.counts, label_of(part.aspect)
    annotated = counts.human.sum(axis=1)
    names = [f"{a} - {b}" for a, b in zip(counts.system_a, counts.system_b, strict=True)]
    notes = []
    never = [name for name, n in zip(names, annotated, strict=True) if not n]
    if never:
        message = f"never annotated{label}, so answered from the metric and the prior alone: {listed(never)}"
        notes.append(Note(rule="never-annotated", message=message, count=len(never)))
    few = int(((annotated > 0) & (annotated < FEW_ANNOTATIONS)).sum())
    if few:
        message = (
            f"{few} of {len(names)} pairs have fewer than {FEW_ANNOTATIONS} human annotations{label}: their intervals"
            " may hold the truth less often than they say (95 % intervals with 10 annotations in simulations: ppi"
            " 87 %, the others at least 90 %)"
        )
        notes.append(Note(rule="few-annotations", message=message, count=few))
    alone = [name for name, n in zip(counts.metrics, counts.paired.sum(axis=(0, 2, 3)), strict=True) if not n]
    if alone and part.comparison is None:
        message = f"no item shared with people, so nothing to correct by: {listed(alone)}"
        notes.append(Note(rule="no-overlap", message=message, count=len(alone)))
    return notes


def _pooled_notes(part: Counted, fit: Pooled) -> list[Note]:
    label = label_of(part.aspect)
    if fit.clusters < FEWEST_CLUSTERS:
        message = (
            f"pooled decides nothing{label}: {int(fit.clusters)} annotated items or clusters, and it takes"
            f" {FEWEST_CLUSTERS}"
        )
        return [Note(rule="few-clusters", message=message, count=int(fit.clusters))]
    if fit.additivity_p > ADDITIVITY_LEVEL or np.isnan(fit.additivity_p):
        return []
    message = (
        f"margins are not differences of system levels{label} (p = {float(fit.additivity_p):.3f}): the rows of pooled"
        " are each pair's own human-only answer"
    )
    return [Note(rule="not-additive", message=message)]


def _draw_notes(part: Counted, estimates: dict[str, Estimate]) -> list[Note]:
    notes = []
    for name, estimate in estimates.items():
        low = int((estimate.effective_draws < FEW_DRAWS).sum())
        if low:
            message = (
                f"{name}: {low} of {estimate.theta.size} tables have fewer than {FEW_DRAWS} effective"
                f" draws{label_of(part.aspect)}: read their intervals with care"
            )
            notes.append(Note(rule="few-draws", message=message, count=low))
    return notes
