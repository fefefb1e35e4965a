"""Labels for one or several versions of an application: a column per rater, or a row per label."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from custodes.data.items import Items, one_value_per_item
from custodes.data.labels import LabelScale, codes, label_words, scale_of
from custodes.data.mapping.column_vocabulary import KINDS, looks_human
from custodes.data.mapping.labels import LabelLayout
from custodes.data.notes import Note, noted
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA, Ratings
from custodes.data.study import Study
from custodes.data.table import check_unique, counted, label_column, typed_column
from custodes.errors import InputError, listed

LAYOUT = "label-columns"
"""The note on which columns were read as labels."""


def read_labels(frame: pl.DataFrame, layout: LabelLayout, *, where: str, guessed: bool) -> Study:
    """A study of labels: codes as ratings, words in `Study.labels`, and other columns in `Study.attributes`.

    Parameters
    ----------
    frame : DataFrame
    layout : LabelLayout
    where : str
        Name of the table in messages.
    guessed : bool
        Whether to note how the columns were read.

    Raises
    ------
    InputError
        For an output that occurs twice, and for invalid labels.
    """
    places = _places(frame, layout, where=where)
    if layout.label:
        study = _long_study(frame, places, layout, where=where)
    else:
        study = _wide_study(frame, places, layout, where=where)
    systems = layout.systems if len(layout.systems) == 1 else ()
    unused = [name for name in frame.columns if name not in {*layout.used, *systems, "item", "system"}]
    rest = [name for name in unused if not frame[name].dtype.is_nested()]
    attributes = pl.concat([places.select("item", "system"), frame.select(rest)], how="horizontal")
    if layout.label or layout.repeat:
        attributes = attributes.unique(["item", "system"], keep="first", maintain_order=True)
    facts = {"cluster": layout.cluster, "probability": layout.probability, "n_outputs": layout.n_outputs}
    notes = list(study.notes)
    items = study.items
    if any(facts.values()):
        columns = [
            typed_column(frame.select(pl.col(name).alias(role)), role, Items.empty().frame.schema[role], where=where)
            for role, name in facts.items()
            if name
        ]
        items, item_notes = Items.make(
            one_value_per_item(pl.DataFrame([places["item"], *columns]), where=where), where=where
        )
        notes += item_notes
    parts = [
        f"system: {' and '.join(layout.systems)}" if len(layout.systems) > 1 else "",
        "" if layout.item else "item: number of the row",
        f"other columns are slices ({listed(rest, limit=4)})" if rest else "",
    ]
    message = f"{where}: read as labels with {layout}" + "".join(f"; {part}" for part in parts if part)
    notes += noted((LAYOUT, guessed, message))
    return replace(
        study, attributes=attributes, items=items, notes=tuple(notes), name=where, unnamed_system=not layout.systems
    )


def _places(frame: pl.DataFrame, layout: LabelLayout, *, where: str) -> pl.DataFrame:
    """Item, system and repeat of each row."""
    numbers = pl.Series("item", [], dtype=pl.String)
    if not layout.item:
        numbers = pl.int_range(1, frame.height + 1, eager=True).cast(pl.String).alias("item")
    item = label_column(frame, layout.item, where=where).alias("item") if layout.item else numbers
    parts = [label_column(frame, name, where=where) for name in layout.systems]
    if parts:
        system = pl.DataFrame(parts).select(pl.concat_str(pl.all(), separator=" ").alias("system")).to_series()
    else:
        stem = where.removesuffix(".gz").rpartition(".")[0] or where
        system = pl.repeat(stem, frame.height, dtype=pl.String, eager=True).alias("system")
    repeat = label_column(frame, layout.repeat, where=where, empty=True).replace("", "0").alias("repeat")
    if not layout.repeat:
        repeat = pl.repeat("0", frame.height, dtype=pl.String, eager=True).alias("repeat")
    return pl.DataFrame([item, system, repeat])


def _wide_study(frame: pl.DataFrame, places: pl.DataFrame, layout: LabelLayout, *, where: str) -> Study:
    hint = "one row per output; name another column with item=NAME, or number the runs in a column with repeat=NAME"
    check_unique(places, ["item", "system", "repeat"], where=where, what="output", hint=hint)
    kinds = {**dict.fromkeys(layout.human, "human"), **dict.fromkeys(layout.metrics, "metric")}
    words = {name: label_words(frame[name]) for name in kinds}
    names = layout.criteria or {name: (name, "") for name in kinds}
    rows, scales, notes = [], dict[str, LabelScale](), list[Note]()
    for criterion in dict.fromkeys(criterion for _, criterion in names.values()):
        of_criterion = {name: column for name, column in words.items() if names[name][1] == criterion}
        gold = [name for name in layout.human if name in of_criterion]
        scale = scale_of(of_criterion, gold=gold, where=where)
        for name, column in of_criterion.items():
            values = codes(column, scale)
            notes += _unread(column, values, name, scale, where=where)
            labels = {"rater": pl.lit(names[name][0]), "aspect": pl.lit(criterion)}
            of_rater = places.select("item", "system", "repeat", **labels, score=values).drop_nulls("score")
            if name in gold:  # a human label repeated for every run of a judge was given once
                once = of_rater.unique(["item", "system", "score"], keep="first", maintain_order=True)
                of_rater = of_rater if once.select("item", "system").is_duplicated().any() else once
            rows.append(of_rater)
        scores = frozenset(names[name][0] for name in scale.scores)
        scales[criterion] = replace(scale, scores=scores)
    kind_of = {names[name][0]: kind for name, kind in kinds.items()}
    return _study(pl.concat(rows), kind_of, scales, notes, where=where)


def _long_study(frame: pl.DataFrame, places: pl.DataFrame, layout: LabelLayout, *, where: str) -> Study:
    kind = label_words(frame[layout.kind]).replace_strict(KINDS, default="")
    source = layout.rater or layout.kind
    rater = label_column(frame, source, where=where)
    aspect = label_column(frame, layout.aspect, where=where, empty=True)
    table = places.with_columns(
        rater=rater, aspect=aspect if layout.aspect else pl.lit(""), kind=kind, word=label_words(frame[layout.label])
    )
    kinds_of = table.select("rater", "kind").unique(maintain_order=True)
    both = kinds_of.filter(pl.col("rater").is_duplicated())["rater"].unique()
    if both.len():
        raise InputError(f"{where}: rater {both[0]!r} is human and metric; a rater has one kind")
    hint = "number the runs in a column, as in repeat=NAME"
    check_unique(table, ["item", "system", "rater", "aspect", "repeat"], where=where, what="label", hint=hint)
    reasons = label_column(frame, layout.invalid, where=where, empty=True).replace("", None).drop_nulls()
    message = f"{where}: {reasons.len()} labels are invalid and count as not labelled ({counted(reasons)})"
    rows, scales, notes = [], dict[str, LabelScale](), noted(("invalid-label", reasons.len(), message))
    for (name,), part in table.group_by("aspect", maintain_order=True):
        words = {who: rows_of["word"] for (who,), rows_of in part.group_by("rater", maintain_order=True)}
        gold = part.filter(pl.col("kind") == "human")["rater"].unique(maintain_order=True).to_list()
        scales[str(name)] = scale = scale_of(
            {str(k): v.alias(str(k)) for k, v in words.items()}, gold=gold, where=where
        )
        for (who,), rows_of in part.group_by("rater", maintain_order=True):
            values = codes(rows_of["word"].alias(str(who)), scale)
            notes += _unread(rows_of["word"], values, str(who), scale, where=where)
            rows.append(rows_of.with_columns(score=values).select(list(SCHEMA)).drop_nulls("score"))
    kinds = dict(kinds_of.iter_rows())
    return _study(pl.concat(rows), kinds, scales, notes, where=where)


def _study(
    rows: pl.DataFrame, kinds: dict[str, str], scales: dict[str, LabelScale], notes: list[Note], *, where: str
) -> Study:
    if rows.is_empty():
        raise InputError(f"{where}: no row has a label; give at least one")
    unknown = {name: "human" if looks_human(name) else "metric" for name, kind in kinds.items() if not kind}
    silent = [name for name in kinds if not rows.filter(pl.col("rater") == name).height]
    notes += noted(("rater-without-labels", len(silent), f"{where}: columns without a label: {listed(silent)}"))
    present = {name: kind for name, kind in {**kinds, **unknown}.items() if name not in silent}
    return Study(
        ratings=Ratings(frame=rows.select(pl.col(name).cast(kind) for name, kind in SCHEMA.items())),
        raters=Raters.infer(present),
        labels=scales,
        notes=tuple(notes),
        name=where,
    )


def _unread(words: pl.Series, values: pl.Series, rater: str, scale: LabelScale, *, where: str) -> list[Note]:
    """A note on words that are not among the labels."""
    lost = words.filter(values.is_null() & words.is_not_null())
    message = (
        f"{where}: {lost.len()} labels of {rater} are not {listed(scale.words)} and count as not labelled "
        f"({listed(lost.unique(maintain_order=True), limit=3)})"
    )
    return noted(("unknown-label", lost.len(), message))
