"""Rules for a whole study, including studies of annotators or metrics alone, and rules on refused comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import erfc, sqrt

import polars as pl

from custodes.answers.question import Rng
from custodes.data.confusable_labels import confusable, escape_confusable
from custodes.data.mapping.annotator_columns import beside_people
from custodes.data.mapping.column_vocabulary import looks_human
from custodes.data.notes import Note
from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.data.scale import BEYOND, MissingCode
from custodes.data.study import NO_METRIC, Study
from custodes.errors import listed
from custodes.evaluate.check.outputs import constant_outputs, copied_systems, text_problems, texts_alone
from custodes.evaluate.check.rules import SERIOUS_NOTES, SILENT, TRUNCATED, WARNED, Problem, problem
from custodes.evaluate.comparable import label_of, too_few
from custodes.evaluate.rates.notes import WARNINGS
from custodes.evaluate.rates.rates import rates

ROUNDING = 1e-9
"""Two numbers are equal up to rounding if their relative difference is smaller than this value."""


MOST_REFUSED = 0.05
"""Proportion of refusals of a pair of systems above which refusals may change the decision on the pair."""

REFUSAL_LEVEL = 0.05

ASKED = {"rater": pl.String, "item": pl.String, "system_a": pl.String, "system_b": pl.String, "refused": pl.Boolean}
"""Columns of a table with one row per question to an annotator; `system_b` is null if a single output was rated."""


def study_problems(study: Study, chosen: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """Yield problems of the study over all aspects.

    Similar names are also searched among raters and systems that were not selected.
    """
    rules = {note.rule for note in notes}
    texts = texts_alone(study)
    if texts is not None:
        yield from text_problems(texts)
    elif not chosen.metrics:
        yield problem("no-metrics", why=NO_METRIC)
    elif not chosen.humans and SILENT not in {note.rule for note in chosen.notes}:
        kinds = chosen.raters.kind
        unknown = "no-annotators" if set(kinds.values()) != {"metric"} else "no-human-ratings"
        yield problem(unknown, why=chosen.advice_on_annotators(), metrics=listed(kinds))
    if len(chosen.systems) < 2 and texts is None and not chosen.labels:
        yield problem("nothing-compared", why=too_few(chosen, "a comparison needs two systems"))
    yield from _look_alikes(study)
    yield from _people_as_metrics(study, set(chosen.metrics))
    yield from _beyond_declared(chosen)
    yield from _missing_codes(chosen)
    yield from _orders(chosen)
    yield from constant_outputs(study)
    yield from copied_systems(chosen)
    yield from refusals(asked_of(chosen))
    yield from _raters(chosen, rules)
    for note in notes:
        if note.rule not in (*SERIOUS_NOTES, "annotators-as-metrics"):  # these notes have separate rules
            yield Problem("warning" if note.rule in WARNED else "info", note.rule, note.message)


def _beyond_declared(study: Study) -> Iterator[Problem]:
    """Yield raters with many scores outside the range that the raters file declares; the range may be wrong."""
    rounding = ROUNDING * pl.max_horizontal(pl.col("low", "high").abs())
    within = pl.col("score").is_between(pl.col("low") - rounding, pl.col("high") + rounding)
    bounded = study.ratings.frame.join(study.raters.frame.drop_nulls(["low", "high"]), on="rater")
    rates = bounded.group_by("rater", maintain_order=True).agg(rate=(~within).mean()).filter(pl.col("rate") > BEYOND)
    if rates.height:
        raters = listed(f"{name} ({rate:.0%})" for name, rate in rates.iter_rows())
        yield problem("beyond-declared", rates["rater"].to_list(), raters=raters)


def _missing_codes(study: Study) -> Iterator[Problem]:
    """Yield raters with a value far from all other scores of the rater, which may be a code for a missing score."""
    codes = {
        str(rater): f"{rater}{label_of(str(aspect))}: {code}"
        for (rater, aspect), rows in study.ratings.frame.group_by("rater", "aspect", maintain_order=True)
        if (code := MissingCode.of(rows["score"].to_numpy()))
    }
    if codes:
        yield problem("missing-code", list(codes), codes=listed(codes.values(), limit=3))


def _orders(study: Study) -> Iterator[Problem]:
    """Yield judges whose presentation order is confounded with the pair, and comparisons judged in only one order."""
    judges, pair = study.metrics, ["rater", "system_a", "system_b"]
    rows = study.preferences.frame.filter(pl.col("rater").is_in(list(judges)) & (pl.col("order") != ""))
    half = study.preferences.half()
    varies = pl.col("order").n_unique() > 1
    by_pair = rows.group_by(pair).agg(varies=varies).group_by("rater").agg(pl.col("varies").any())
    constant = set(by_pair.filter(~pl.col("varies"))["rater"])
    if fixed := [name for name in judges if name in constant]:
        yield problem("one-order", fixed, raters=listed(fixed))
    units = rows.join(half, on=half.columns, how="anti").group_by("item", "aspect", *pair).agg(both=varies)
    counts = units.group_by("rater").agg(pl.col("both").any(), half=(~pl.col("both")).sum())
    lost = counts.filter("both", pl.col("half") > 0).sort("rater")
    if lost.height:
        raters = listed((f"{name} ({n})" for name, _, n in lost.iter_rows()), limit=3)
        yield problem("one-of-two-orders", lost["rater"].to_list(), raters=raters)


def _raters(study: Study, rules: set[str]) -> Iterator[Problem]:
    """Yield raters with the same signature under several names, and raters with scores of truncated texts."""
    frame = study.raters.frame
    same = frame.drop_nulls("signature").group_by("signature", maintain_order=True).agg("rater")
    for names in same.filter(pl.col("rater").list.len() > 1)["rater"].to_list():
        yield problem("same-signature", names, raters=listed(names))
    cut = frame.filter(pl.col("truncated") > 0).select("rater", "truncated")
    if cut.height and TRUNCATED not in rules:
        raters = listed((f"{name} ({rate:.0%} of outputs)" for name, rate in cut.iter_rows()), limit=5)
        yield problem(TRUNCATED, cut["rater"].to_list(), raters=raters)


def label_problems(chosen: Study, rng: Rng) -> Iterator[Problem]:
    """Yield problems of the labels of a selected study; problems that may reverse a conclusion are warnings."""
    before = set(chosen.notes)
    for note in rates(chosen, rng=rng).notes:
        if note not in before:
            yield Problem("warning" if note.rule in WARNINGS else "info", note.rule, note.message)


def _look_alikes(study: Study) -> Iterator[Problem]:
    """Yield systems, raters and aspects with labels that look equal but count as different."""
    labels = {"systems": study.systems, "raters": tuple(study.raters.kind), "aspects": study.aspects}
    for what, names in labels.items():
        sets = confusable(names)
        if sets:
            examples = listed((" = ".join(map(escape_confusable, one)) for one in sets), limit=4)
            yield problem("look-alikes", [label for one in sets for label in one], what=what, names=examples)


def _people_as_metrics(study: Study, metrics: set[str]) -> Iterator[Problem]:
    """Yield metrics with names that look like names of annotators."""
    kinds = study.raters.kind
    open_ = [name for name in kinds if name in metrics and kinds[name] != "metric"]
    beside = beside_people(open_, [name for name in kinds if name not in metrics])
    named = {name for name in metrics if looks_human(name, declared=kinds[name] == "metric")}
    people = [name for name in kinds if name in named | beside]
    if people:
        yield problem("annotators-as-metrics", people, raters=listed(people))


def asked_of(study: Study) -> pl.DataFrame:
    """Return the comparisons that annotators were asked to judge, including second opinions, with the columns `ASKED`.

    The table is empty if there is no refusal.
    """
    names = [name for name in ASKED if name != "refused"]
    both = (study.preferences, study.second)
    lost = [preferences.missing.filter(~pl.col("why").is_in([EMPTY, UNREADABLE])) for preferences in both]
    if not any(preferences.height for preferences in lost):
        return pl.DataFrame(schema=ASKED)
    frames = [rows.select(*names, refused=pl.lit(False)) for rows in (preferences.frame for preferences in both)]
    frames += [rows.select(*names, refused=pl.lit(True)) for rows in lost]
    people = pl.concat(frames).filter(pl.col("rater").is_in(list(study.humans)))
    return people.group_by(names, maintain_order=True).agg(pl.col("refused").any())


def refusals(questions: pl.DataFrame) -> Iterator[Problem]:
    """Yield pairs with many refusals, and systems that are refused significantly more often than others.

    The test is stratified by annotator (Cochran 1954, Mantel and Haenszel 1959), because annotators differ in refusal
    rates. The level is `REFUSAL_LEVEL`, with Bonferroni correction over systems.
    """
    if not questions["refused"].any():
        return
    pairs = _rates(questions, "system_a", "system_b")
    many = pairs.filter(pl.col("rate") > MOST_REFUSED)
    if many.height:
        rates_of_pairs = listed(
            (f"{pair} {n} of {total} ({rate:.0%})" for pair, n, total, rate in many.iter_rows()), limit=3
        )
        counts = {"n": many.height, "n_pairs": pairs.height}
        yield problem("refusals", many["of"].to_list(), most=MOST_REFUSED, pairs=rates_of_pairs, **counts)
    sides = pl.concat([questions.with_columns(system=pl.col(name)) for name in ("system_a", "system_b")])
    systems = _rates(sides.drop_nulls("system"), "system")
    p_values = {name: _p_value(questions, name) for name in systems["of"]}
    tested = sum(p is not None for p in p_values.values())
    differ = [name for name, p in p_values.items() if p is not None and p * tested <= REFUSAL_LEVEL]
    if differ:
        rates = listed(f"{name} {rate:.0%}" for name, *_, rate in systems.iter_rows())
        yield problem("refusals-differ", differ, systems=listed(differ), rates=rates)


def _rates(questions: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the refusals, questions and refusal rate of each pair or system (column `of`), highest rate first."""
    counts = questions.group_by(by, maintain_order=True).agg(
        pl.col("refused").sum(), questions=pl.len(), rate=pl.col("refused").mean()
    )
    named = pl.concat_str(by, separator=" and ", ignore_nulls=True).alias("of")
    return counts.sort("rate", *by, descending=[True, *(False for _ in by)]).select(
        named, "refused", "questions", "rate"
    )


def _p_value(questions: pl.DataFrame, system: str) -> float | None:
    """Return the p-value of the hypothesis that the refusals of each annotator do not depend on the system.

    None if no annotator with refusals was asked about this system and about other systems.
    """
    n, r, k = pl.col("n"), pl.col("r"), pl.col("k")
    by_person = (
        questions.with_columns(has=(pl.col("system_a") == system) | (pl.col("system_b") == system).fill_null(False))
        .group_by("rater")
        .agg(
            n=pl.len(), r=pl.col("refused").sum(), k=pl.col("has").sum(), both=(pl.col("has") & pl.col("refused")).sum()
        )
        .filter(n > 1)
        .select(
            pl.col("both").sum(),
            expected=(r * k / n).sum(),
            variance=(r * (n - r) * k * (n - k) / (n * n * (n - 1))).sum(),
        )
    )
    both, expected, variance = by_person.row(0)
    if not variance:
        return None
    return erfc((both - expected - 0.5) / sqrt(2 * variance)) / 2
