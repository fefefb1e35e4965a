"""Whom does each metric favour?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Setting, at_least, between
from custodes.answers.tables import View, count, flag, label, probability, score, share, table, with_interval
from custodes.answers.views import parts, titled, views
from custodes.answers.wording import UNDEFINED
from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.data.study import Study
from custodes.evaluate.agreement.statistic import FEWEST
from custodes.evaluate.comparison import Counted, counted, label_of
from custodes.evaluate.edges import PAIR, crossed, written
from custodes.evaluate.judges import few_clusters_notes
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats
from custodes.stats.decisions import favi
from custodes.stats.decisions.signtest import SignTest
from custodes.stats.ratios import mean_of_defined, ratio
from custodes.stats.resampling import resample

FEW_ERRORS = 5
"""With fewer errors a Favi-Score can only take a handful of values (the paper, Limitations: Robustness)."""

OUTCOMES = ("win", "tie", "loss")

CELLS = tuple(f"{human}_{metric}" for human in OUTCOMES for metric in OUTCOMES)
"""Columns of the confusion table: human_metric."""

SYSTEMS_ACROSS = 16
"""With more systems the table is not set with one column each."""

EVEN_HANDED = (
    "*: favoured. Errors of any noisy metric favour the weaker system; favi_even (--table systems) is what an"
    " even-handed metric of the same accuracy would have"
)


def _matrices(frame: pl.DataFrame) -> Iterable[View]:
    """Metric x system: the mean Favi-Score of each system against all others."""
    made: list[View] = []
    for aspect, rows in parts(frame, "aspect"):
        systems = rows["system"].unique(maintain_order=True).to_list()
        if len(systems) > SYSTEMS_ACROSS:
            made += views(replace(Favoritism.declared()["systems"], view=None), rows, "systems")
            continue
        cells = [
            UNDEFINED if mean is None else f"{mean:+.2f}{'*' if clear else ''}"
            for mean, clear in rows.select("favi", "favoured").iter_rows()
        ]
        metrics = rows["metric"].unique(maintain_order=True)
        made.append(
            View(
                title=titled("favi of each system, mean against all others", aspect),
                header=("metric", *systems),
                rows=tuple((metric, *cells[i * len(systems) :][: len(systems)]) for i, metric in enumerate(metrics)),
                numeric=(False, *[True] * len(systems)),
            )
        )
    return [*made[:-1], *(replace(last, more=EVEN_HANDED) for last in made[-1:])]


@result
class Favoritism(Result):
    """Whom each metric's errors favour. See `favoritism`."""

    PICTURE = "favoritism_and_accuracy"

    metrics: pl.DataFrame = table(
        "One row a metric: how one-sided its errors are, over all pairs of systems.",
        label("metric", "its name"),
        score("mean_abs_favi", "mean of |favi| over pairs", "Mean |Favi-Score|", interval=True, best="low"),
        score("mean_abs_favi_chance", "what it would be if every error fell to either side by a coin", "By a coin"),
        score("std_abs_favi", "standard deviation of |favi| over pairs", "Spread"),
        share("sample_accuracy", "share of comparisons with the same sign as people's", best="high"),
        share(
            "system_accuracy",
            "share of pairs whose margins (wins minus losses) have the same sign",
            "Same sign of margin",
            best="high",
        ),
    )
    pairs: pl.DataFrame = table(
        "One row a metric and a pair of systems.",
        label("metric", "its name"),
        *PAIR,
        count("n", "items rated by both people and metric", "n"),
        count("errors", "of these, where they differ"),
        score("favi", "Favi-Score, from -2 to 2; positive favours system_a", "Favi-Score (for A)", interval=True),
        score("favi_even", "what an even-handed metric of the same accuracy would have", "Even-handed"),
        share("sample_accuracy", "on this pair"),
        flag("sign_agrees", "whether both margins have the same sign"),
        label("decision_human", "`+` system_a is better, `-` system_b, `=` not different: a sign test", "People"),
        label("decision_metric", "the same by the metric", "Metric says"),
        probability("flip_probability", "posterior probability that the margins are opposite", "Margins opposite"),
        label("note", "empty, `no errors`, `too few errors`, or `no item rated by both`"),
        essential=False,
    )
    systems: pl.DataFrame = table(
        "One row a metric and a system, against all others.",
        label("metric", "its name"),
        label("system", "a system"),
        score("favi", "mean over all other systems; positive: favoured", "Mean Favi-Score"),
        score("favi_min", "the least of these", "Least"),
        score("favi_max", "the largest of these", "Largest"),
        score("favi_even", "mean of the pairs' `favi_even`, turned to this system", "Even-handed", essential=False),
        count("opponents", "other systems against which the Favi-Score is defined", essential=False),
        count(
            "up",
            f"of these, where errors clearly favour it: the interval excludes 0, {FEW_ERRORS} errors or more",
            "Clearly for it",
            essential=False,
        ),
        count("down", "where they clearly go against it", "Clearly against it", essential=False),
        flag(
            "favoured",
            "clearly favoured by most opponents' errors, clearly against it by none, and by more than an even-handed"
            " metric of the same accuracy would; null without errors",
        ),
        view=_matrices,
    )
    confusion: pl.DataFrame = table(
        "The nine counts of a metric and a pair of systems.",
        label("metric", "its name"),
        *PAIR,
        *(count(cell, "people say {}, the metric says {} (of system_a)".format(*cell.split("_"))) for cell in CELLS),
        essential=False,
    )


@question("custodes favoritism battles.csv --invalid drop --format csv --table systems")
def favoritism(
    study: Study | PairCounts,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    alpha: float = 0.05,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Favoritism:
    """The Favi-Score of every metric for every pair of systems, with its uncertainty and what it does to decisions.

    The Favi-Score of a pair lies in [-2, 2], positive where errors favour `system_a`. Errors of any noisy metric favour
    the weaker system, so each stands beside that of an even-handed metric of the same accuracy: what goes beyond it is
    partial to a system. Intervals of pairs are of the posterior over the six kinds of error (`resamples` draws), those
    of metrics from resampled clusters; decisions are sign tests at `alpha` on the items both rated. All tables and
    columns: `help(cu.Favoritism)`.

    Takes a study, or counts (`count_pairs`), which allow everything but the intervals of `metrics`.
    setting: see `Setting` (human, metrics, systems, aspect, group, aggregate, human_ties, ties, orders).
    Source: Favi-Score paper, Definitions 4 to 11, Lemmas 1 and 2; intervals, flips and both reference levels are ours.

    >>> import custodes as cu
    >>> result = cu.favoritism(cu.read("demo"), metrics="judge*", resamples=200)
    >>> result.pairs["favi"].is_between(-2, 2).all()
    True
    """
    between("confidence", confidence, 0, 1)
    between("alpha", alpha, 0, 1)
    at_least("resamples", resamples, 0)
    answer = partial(_answer, test=SignTest(alpha=alpha), confidence=confidence, resamples=resamples)
    parts = counted(study, setting)
    answers = list(each(answer, parts, rng=np.random.default_rng(rng), progress=progress, desc="favoritism"))
    return Favoritism.of([tables for tables, _ in answers], [note for _, notes in answers for note in notes])


def _answer(
    part: Counted, rng: np.random.Generator, *, test: SignTest, confidence: float, resamples: int
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    # (metrics, pairs, 3, 3), so that tables list one metric after the other
    counts, paired = part.counts, np.moveaxis(part.counts.paired, 1, 0)
    n, errors, scores = paired.sum(axis=(2, 3)), favi.errors(paired), favi.favi_score(paired)
    posterior = favi.favi_posterior(paired, confidence=confidence, draws=resamples, rng=rng)
    ends = {"favi": scores, "favi_low": posterior.low, "favi_high": posterior.high}
    even = favi.even_handed_favi(paired)
    human, metric = paired.sum(axis=3), paired.sum(axis=2)
    agrees = np.where(n > 0, np.equal(*(np.sign(own[..., 0] - own[..., 2]) for own in (human, metric))), np.nan)
    keys = {
        "metric": np.repeat(counts.metrics, len(counts.system_a)),
        "system_a": counts.system_a * len(counts.metrics),
        "system_b": counts.system_b * len(counts.metrics),
    }
    sizes = np.abs(scores)
    tables = Favoritism.part(
        part.aspect,
        metrics={
            "metric": counts.metrics,
            # A mean of absolute values is the larger the fewer items there are: the interval is for as many others.
            **with_interval(
                "mean_abs_favi",
                _mean_sizes(part, sizes, resamples, rng),
                confidence,
                clusters=part.n_clusters,
                bounds=favi.SIZES,
            ),
            "mean_abs_favi_chance": mean_of_defined(favi.size_by_chance(paired)),
            "std_abs_favi": np.sqrt(mean_of_defined((sizes - mean_of_defined(sizes)[:, None]) ** 2)),
            "sample_accuracy": favi.sample_accuracy(paired.sum(axis=1)),
            "system_accuracy": mean_of_defined(agrees),
        },
        pairs={
            **keys,
            "n": n,
            "errors": errors,
            **ends,
            "favi_even": even,
            "sample_accuracy": favi.sample_accuracy(paired),
            "sign_agrees": agrees,
            "decision_human": written(test.decisions(human)),
            "decision_metric": written(test.decisions(metric)),
            "flip_probability": posterior.flip_probability,
            "note": np.select(
                [n == 0, errors == 0, errors < FEW_ERRORS],
                ["no item rated by both", "no errors", "too few errors"],
                "",
            ),
        },
        systems=_systems(counts, even, errors >= FEW_ERRORS, **ends),
        confusion=keys | {cell: paired[..., i // 3, i % 3] for i, cell in enumerate(CELLS)},
    )
    notes = [
        *_error_notes(part.aspect, n, errors),
        *few_clusters_notes(part.n_clusters, resamples, fewest=FEWEST, aspect=part.aspect),
    ]
    return tables, [*part.notes, *notes]


def _systems(
    counts: PairCounts, even: Floats, solid: NDArray[np.bool_], *, favi: Floats, favi_low: Floats, favi_high: Floats
) -> dict[str, Any]:
    """Each system against every other one; what is said of a pair is turned for its second system."""
    above, below = solid & (favi_low > 0), solid & (favi_high < 0)
    systems, (versus, versus_even, up, down) = crossed(
        counts.system_a,
        counts.system_b,
        np.stack([favi, even, above, below]),
        np.stack([-favi, -even, below, above]),
    )
    defined = np.isfinite(versus)
    opponents, n_up, n_down = defined.sum(axis=-1), np.nansum(up, axis=-1), np.nansum(down, axis=-1)
    mean = mean_of_defined(versus)
    # Even-handed against the same opponents: where there are no errors, some may yet be expected.
    beyond = mean > mean_of_defined(np.where(defined, versus_even, np.nan))
    return {
        "metric": np.repeat(counts.metrics, len(systems)),
        "system": systems * len(counts.metrics),
        "favi": mean,
        "favi_min": np.fmin.reduce(versus, axis=-1),
        "favi_max": np.fmax.reduce(versus, axis=-1),
        "favi_even": mean_of_defined(versus_even),
        "opponents": opponents,
        "up": n_up,
        "down": n_down,
        "favoured": np.where(opponents > 0, (2 * n_up > opponents) & (n_down == 0) & beyond, np.nan),
    }


def _mean_sizes(part: Counted, sizes: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """(1 + B, metrics): the mean |favi| over pairs, of the data and of resampled clusters, where there are any."""
    if part.comparison is None:
        return mean_of_defined(sizes)[None]
    design, human = part.comparison.design, part.comparison.human_signs
    times, means = design.resampled(resamples, rng), []
    for metric in part.comparison.metric_signs:
        both = (human != ABSENT) & (metric != ABSENT)
        shift = np.where(both, metric.astype(np.int16) - human, 0)
        # By Lemma 1 margins and errors suffice.
        per_unit = resample.unit_sums(np.stack([shift, shift != 0]), units=design.units, n_units=design.n_units)
        margin, errors = np.moveaxis(resample.weighted_sums(times, per_unit), 1, 0)
        means.append(mean_of_defined(np.abs(ratio(margin, errors))))
    return np.stack(means, axis=1)


def _error_notes(aspect: str, n: NDArray[np.int64], errors: NDArray[np.int64]) -> list[Note]:
    found = (
        ("favi-no-shared-items", n == 0, "have no item rated by both"),
        ("favi-no-errors", (n > 0) & (errors == 0), "have no error, so their Favi-Score is undefined"),
        (
            "favi-few-errors",
            (errors > 0) & (errors < FEW_ERRORS),
            f"have fewer than {FEW_ERRORS} errors: read with care",
        ),
    )
    return [
        Note(
            rule=rule,
            message=f"{int(mask.sum())} of {mask.size} metric x pair tables {text}{label_of(aspect)}",
            count=int(mask.sum()),
            aspect=aspect,
        )
        for rule, mask, text in found
        if mask.any()
    ]
