"""Labels for one or several versions of an application, with one column per rater or one row per label."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from custodes.data.items import item_facts
from custodes.data.labels import LabelScale, encode_raters, label_words
from custodes.data.mapping.column_vocabulary import KINDS, find_columns, is_model_name, looks_human, split_name
from custodes.data.mapping.composed_labels import COMPOSE_HINT
from custodes.data.mapping.label_layout import CLUSTERS, LabelLayout, names_judge_version
from custodes.data.notes import Note, build_notes
from custodes.data.raters import Raters
from custodes.data.ratings import SCHEMA, Ratings
from custodes.data.study import OUTPUT_ASPECT, Study
from custodes.data.table import check_unique, format_counts, label_column, second_rows
from custodes.errors import InputError, join_labels

Labels = tuple[pl.DataFrame, list[Note]]
"""A table with a row per label (item, system, repeat, is_second, rater, aspect, kind and word), and notes."""

OUTPUT_KEY = ["item", "system", "repeat"]


def read_labels(frame: pl.DataFrame, layout: LabelLayout, *, where: str, is_layout_guessed: bool) -> Study:
    """A study of labels. The ratings are codes of labels, `Study.labels` has the words, and `Study.attributes` has the
    remaining columns.

    Parameters
    ----------
    frame : DataFrame
    layout : LabelLayout
    where : str
        Name of the table in messages.
    is_layout_guessed : bool
        Whether the layout was guessed; a note then says how the columns were read.

    Raises
    ------
    InputError
        For an output that occurs twice, and for invalid labels.
    """
    is_second_opinion, role_columns = second_rows(
        frame if layout.label else frame.drop("role", strict=False), where=where
    )
    key_table = _read_keys(frame, layout, where=where).with_columns(is_second=is_second_opinion)
    label_table, label_notes = (_read_long if layout.label else _read_wide)(frame, key_table, layout, where=where)
    has_system = key_table["system"] != ""
    study = _build_study(label_table.filter(pl.col("system") != ""), label_notes, where=where)
    used_column_names = {*layout.assigned_columns, *role_columns, "item", "system"}
    slice_column_names = [
        column_name
        for column_name in frame.columns
        if column_name not in used_column_names and not frame[column_name].dtype.is_nested()
    ]
    non_system_slice_names = [
        column_name
        for column_name in slice_column_names
        if len(layout.systems) != 1 or column_name not in layout.systems
    ]
    attribute_table = pl.concat(
        [key_table.select("item", "system"), frame.select(slice_column_names)], how="horizontal"
    ).filter(has_system)
    if layout.label or layout.repeat or layout.rater:
        attribute_table = attribute_table.unique(["item", "system"], keep="first", maintain_order=True)
    fact_table = frame.select(
        pl.col(getattr(layout, role)).alias(role)
        for role in ("cluster", "probability", "n_outputs")
        if getattr(layout, role)
    )
    if fact_table.width:
        fact_rows = item_facts(key_table.filter(has_system), fact_table.filter(has_system), where=where)
        study = study.describe(items=fact_rows, items_name=where)
    message_parts = [
        f"system: {' and '.join(layout.systems)}" if len(layout.systems) > 1 else "",
        "" if layout.item else "item: number of the row",
        f"other columns are slices ({join_labels(non_system_slice_names, limit=4)})" if non_system_slice_names else "",
    ]
    repeated_id_column, n_repeating_rows = ("", 0) if layout.item else _repeated_ids(frame)
    n_rows_without_system = int((~has_system).sum())
    n_repeated_outputs = int(key_table.unique(OUTPUT_KEY).select(OUTPUT_KEY[:2]).is_duplicated().sum())
    return replace(study, attributes=attribute_table, unnamed_system=not layout.systems).with_notes(
        (
            "rows-without-labels",
            n_rows_without_system,
            f"{where}: {n_rows_without_system} rows without a label and without {' and '.join(layout.systems)} are "
            "left out",
        ),
        (
            "repeated-ids",
            n_repeating_rows,
            f"{where}: {n_repeating_rows} rows repeat a value of {repeated_id_column}, so row numbers are the items, "
            f"and each row counts as a separate output; if {repeated_id_column} names the output, keep one row for "
            "each of its values",
        ),
        (
            "repeated-labels",
            n_repeated_outputs,
            f"{where}: rows with the same item and system in {layout.repeat} count as repeated labels of one output, "
            "and the label of a rater is the majority of its repeats; if each row is a different output, name items by "
            f"several columns, as in item={{{layout.item}}}/{{{layout.repeat}}} and cluster={layout.item}",
        ),
        (
            "label-columns",
            is_layout_guessed,
            "; ".join(filter(None, [f"{where}: read as labels with {layout}", *message_parts])),
        ),
    )


def _repeated_ids(frame: pl.DataFrame) -> tuple[str, int]:
    """The first column of ids with at most ten rows for each value on average, and the number of rows that repeat a
    value."""
    id_column_names = [
        *find_columns("item", frame.columns),
        *(name for name in frame.columns if split_name(name)[-1] == "id"),
    ]
    for column_name in id_column_names:
        if CLUSTERS.isdisjoint(split_name(column_name)) and not frame[column_name].dtype.is_nested():
            n_values = frame[column_name].n_unique()
            if n_values < frame.height <= 10 * n_values:
                return column_name, frame.height - n_values
    return "", 0


def _read_keys(frame: pl.DataFrame, layout: LabelLayout, *, where: str) -> pl.DataFrame:
    """The item, the system and the repeat of each row. The system of a row without a label may be missing (''), as in
    the row of a step of a trace."""
    item_labels = (
        label_column(frame, layout.item, where=where)
        if layout.item
        else pl.int_range(1, frame.height + 1, eager=True).cast(pl.String)
    )
    is_unlabelled = ~layout.is_labelled(frame)
    system_part_columns = [
        label_column(frame, column_name, where=where, empty=is_unlabelled) for column_name in layout.systems
    ]
    file_stem = where.removesuffix(".gz").rpartition(".")[0] or where
    repeat_labels = label_column(frame, layout.repeat, where=where, empty=True) if layout.repeat else pl.lit("0")
    return pl.DataFrame({"item": item_labels}).with_columns(
        system=pl.concat_str(
            (part_column.replace("", None) for part_column in system_part_columns), separator=" "
        ).fill_null("")
        if system_part_columns
        else pl.lit(file_stem),
        repeat=repeat_labels.replace("", "0"),
    )


def _read_wide(frame: pl.DataFrame, key_table: pl.DataFrame, layout: LabelLayout, *, where: str) -> Labels:
    """The labels of a table with a column for each rater, or with one row per review and a column of reviewers.

    The reviewer is the rater of the human labels. A reviewer with the name of a model is a metric. If the column of
    raters has versions of a judge instead, each version is a metric.
    """
    no_names = pl.repeat("", frame.height, dtype=pl.String, eager=True)
    rater_names = label_column(frame, layout.rater, where=where, empty=True) if layout.rater else no_names
    has_reviewers = layout.rater and not names_judge_version(layout.rater)
    reviewer_labels, judge_versions = (rater_names, no_names) if has_reviewers else (no_names, rater_names)
    if not has_reviewers:
        check_unique(
            key_table.with_columns(version=judge_versions),
            [*OUTPUT_KEY, "version"],
            where=where,
            what="output",
            hint=f"one row per output; name another column with item=NAME; {COMPOSE_HINT}; number the runs of a rater "
            "in a column with repeat=NAME, or name the reviewers of rows with rater=NAME",
        )
    is_model_reviewer = reviewer_labels.is_in(list(filter(is_model_name, reviewer_labels.unique())))
    column_label_tables = []
    for rater_kind, column_name in [
        *(("human", column_name) for column_name in layout.human),
        *(("metric", column_name) for column_name in layout.metrics),
    ]:
        rater_name, aspect = layout.criteria.get(column_name, (column_name, ""))
        column_label_rows = key_table.with_columns(
            rater=reviewer_labels.replace("", rater_name)
            if rater_kind == "human"
            else (rater_name + " " + judge_versions).str.strip_chars_end(),
            aspect=pl.lit(aspect),
            kind=pl.when(is_model_reviewer).then(pl.lit("metric")).otherwise(pl.lit(rater_kind)),
            word=label_words(frame[column_name]),
        )
        if has_reviewers:
            column_label_rows = column_label_rows.with_row_index("row", offset=1).drop_nulls("word")
            _check_reviews(column_label_rows, column_name if rater_kind == "metric" else "", layout.rater, where=where)
            column_label_rows = column_label_rows.unique(
                [*OUTPUT_KEY, "rater"], keep="first", maintain_order=True
            ).drop("row")
        elif rater_kind == "human":  # a human label is repeated for every run of a judge, but was given once
            distinct_label_rows = column_label_rows.drop_nulls("word").unique(
                ["item", "system", "word"], keep="first", maintain_order=True
            )
            if distinct_label_rows.height and distinct_label_rows.select("item", "system").is_unique().all():
                column_label_rows = distinct_label_rows
            elif layout.rater:
                column_label_rows = column_label_rows.with_columns(repeat=judge_versions)
        column_label_tables.append(column_label_rows)
    return pl.concat(column_label_tables), []


def _check_reviews(label_rows: pl.DataFrame, judge_column: str, reviewer_column: str, *, where: str) -> None:
    """Raise `InputError` for two reviews of an output by one reviewer, or for different labels of a judge."""
    is_refused_row = (
        pl.col("word").n_unique().over(OUTPUT_KEY) > 1
        if judge_column
        else pl.struct(*OUTPUT_KEY, "rater").is_duplicated()
    )
    refused_rows = label_rows.filter(is_refused_row).sort(OUTPUT_KEY, maintain_order=True)
    if refused_rows.height:
        item, system, rater = refused_rows.select("item", "system", "rater").row(0)
        refused_row_numbers = refused_rows.filter(item=item, system=system, rater=rater)["row"]
        problem_text, advice_text = (
            (
                f"different labels in {judge_column!r}",
                f"in a table with one row per review (reviewer: {reviewer_column!r}), repeat the label of the judge in "
                "all rows of an output; if the rows are different outputs, name another column with item=NAME",
            )
            if judge_column
            else (f"two reviews by {rater!r}", "keep one of them, or number the runs in a column with repeat=NAME")
        )
        raise InputError(
            f"{where}: {problem_text} for one output, in rows {join_labels(refused_row_numbers, limit=5)} (item "
            f"{item!r}, system {system!r}); {advice_text}"
        )


def _read_long(frame: pl.DataFrame, key_table: pl.DataFrame, layout: LabelLayout, *, where: str) -> Labels:
    """The labels of a table with one row per label. Rows with `role` `second` are second opinions."""
    kind_labels = label_column(frame, layout.kind, where=where)
    rater_labels = label_column(frame, layout.rater, where=where, empty=True) if layout.rater else kind_labels
    label_table = key_table.with_columns(
        rater=rater_labels.zip_with(rater_labels != "", kind_labels),  # logs name annotators, but not the judge
        aspect=label_column(frame, layout.aspect, where=where, empty=True) if layout.aspect else pl.lit(""),
        kind=label_words(frame[layout.kind]).replace_strict(KINDS, default=""),
        word=label_words(frame[layout.label]),
    )
    check_unique(
        label_table,
        ["item", "system", "rater", "kind", "aspect", "repeat"],
        where=where,
        what="label",
        hint=("" if layout.rater else "name the column of annotators with rater=NAME, or ")
        + "number the runs in a column, and name this column with repeat=NAME",
    )
    invalid_reasons = label_column(frame, layout.invalid, where=where, empty=True).replace("", None).drop_nulls()
    return label_table, build_notes(
        (
            "invalid-label",
            invalid_reasons.len(),
            f"{where}: {invalid_reasons.len()} labels are invalid and count as not labelled "
            f"({format_counts(invalid_reasons)})",
        )
    )


def _build_study(label_table: pl.DataFrame, notes: list[Note], *, where: str) -> Study:
    """The study of a table with a row per label (see `Labels`). A rater of two kinds raises `InputError`."""
    rater_kind_rows = label_table.select("rater", "kind").unique(maintain_order=True)
    two_kind_raters = rater_kind_rows.filter(pl.col("rater").is_duplicated())["rater"]
    if two_kind_raters.len():
        raise InputError(
            f"{where}: rater {two_kind_raters[0]!r} has labels of kind human and of kind metric; give each rater "
            "one kind"
        )
    coded_tables, scale_of_aspect = [], dict[str, LabelScale]()
    for (aspect,), aspect_rows in label_table.group_by("aspect", maintain_order=True):
        aspect_rows = pl.concat(aspect_rows.partition_by("rater", maintain_order=True))
        human_raters = aspect_rows.filter(kind="human")["rater"].unique(maintain_order=True).to_list()
        label_codes, scale = encode_raters(aspect_rows, human_raters=human_raters, where=where)
        scale_of_aspect[str(aspect)] = scale
        coded_tables.append(aspect_rows.with_columns(score=label_codes))
        unknown_rows = coded_tables[-1].filter(pl.col("score").is_null(), pl.col("word").is_not_null())
        notes += build_notes(
            *(
                (
                    "unknown-label",
                    len(unknown_words),
                    f"{where}: {len(unknown_words)} labels of {rater_name} are not among {join_labels(scale.words)} "
                    f"and count as not labelled ({join_labels(dict.fromkeys(unknown_words), limit=3)})",
                )
                for rater_name, unknown_words in unknown_rows.group_by("rater", maintain_order=True)
                .agg("word")
                .iter_rows()
            )
        )
    rating_rows = pl.concat(coded_tables).drop_nulls("score")
    if rating_rows.is_empty():
        raise InputError(f"{where}: no row has a label; give at least one")
    raters_with_labels = set(rating_rows["rater"])
    raters_without_labels = [
        rater_name for rater_name in rater_kind_rows["rater"] if rater_name not in raters_with_labels
    ]
    notes += build_notes(
        (
            "rater-without-labels",
            len(raters_without_labels),
            f"{where}: raters without a label: {join_labels(raters_without_labels)}",
        )
    )
    first_ratings, second_ratings = (
        Ratings(
            frame=opinion_rows.select(
                pl.col(column_name).cast(column_type) for column_name, column_type in SCHEMA.items()
            )
        )
        for opinion_rows in (rating_rows.filter(~pl.col("is_second")), rating_rows.filter("is_second"))
    )
    return Study(
        ratings=first_ratings,
        second_ratings=second_ratings,
        raters=Raters.infer(
            {
                rater_name: rater_kind or ("human" if looks_human(rater_name) else "metric")
                for rater_name, rater_kind in rater_kind_rows.iter_rows()
                if rater_name in raters_with_labels
            }
        ),
        labels=scale_of_aspect,
        unlabelled=label_table.select(*OUTPUT_ASPECT)
        .unique(maintain_order=True)
        .join(rating_rows, on=list(OUTPUT_ASPECT), how="anti"),
        notes=tuple(notes),
        name=where,
    )
