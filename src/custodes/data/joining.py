"""Join several inputs into one study, check the overlap, and convert labels to a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from custodes.data.labels import unify_scales
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import KEY, VALUES, Preferences
from custodes.data.ratings import Ratings
from custodes.data.study import JOIN_KEY, Study
from custodes.data.table import digest_of
from custodes.errors import InputError, join_labels, reject

LABEL = "label"
"""Name of a column of labels that does not name the rater."""


def join(studies: Sequence[Study]) -> Study:
    """Join several studies into one study that has all rows. The overlap by item and system is checked and reported.

    Raises `InputError` in three cases. Two inputs with outputs have no common output and no common rater (two inputs
    with only texts are allowed). Two inputs hold the same rating or verdict. A rater is human in one input and a
    metric in another.
    """
    joined_study, *other_studies = _align_system_names(_name_systems(_repeat_for_aspects(studies)))
    for other_study in other_studies:
        if joined_study.unnamed_system and other_study.unnamed_system and len(joined_study.systems) == 1:
            other_study = _replace_labels(other_study, pl.lit(joined_study.systems[0]).alias("system"))
        joined_study, other_study = _align_task_items(joined_study, other_study)
        notes = [*joined_study.notes, *other_study.notes, *_overlap_notes(joined_study, other_study)]
        for human_study, metric_study in ((joined_study, other_study), (other_study, joined_study)):
            for rater_name in set(human_study.humans).intersection(metric_study.metrics):
                raise InputError(
                    f"rater {rater_name!r} is human in one input and a metric in another input; rename one of the "
                    "raters"
                )
        joined_outputs, other_outputs = joined_study.outputs, other_study.outputs
        merged_outputs, output_merge_notes = (
            (joined_outputs or other_outputs, list[Note]())
            if joined_outputs is None or other_outputs is None
            else joined_outputs.merge_with(other_outputs)
        )
        other_verdict_rows = other_study.preferences.frame
        if joined_study.sides and other_study.sides:  # files of one benchmark repeat the reference labels
            other_verdict_rows = other_verdict_rows.join(
                joined_study.preferences.frame, on=[*KEY, "preference"], how="anti", maintain_order="left"
            )
        merged_raters, rater_notes = joined_study.raters.merge_with(other_study.raters)
        rating_frames, scale_of_aspect = unify_scales(
            (joined_study.ratings.frame, other_study.ratings.frame),
            (joined_study.labels, other_study.labels),
            kind_of_rater=merged_raters.kind,
        )
        joined_study = replace(
            joined_study,
            ratings=Ratings(frame=_merge_rows(*rating_frames, ["score"], "rating")),
            preferences=_merge_preferences(
                joined_study.preferences, replace(other_study.preferences, frame=other_verdict_rows), "verdict"
            ),
            second=_merge_preferences(joined_study.second, other_study.second, "second opinion"),
            second_ratings=Ratings(
                frame=_merge_rows(
                    joined_study.second_ratings.frame, other_study.second_ratings.frame, ["score"], "second opinion"
                )
            ),
            probes=pl.concat([joined_study.probes, other_study.probes]),
            looks=pl.concat([joined_study.looks, other_study.looks]),
            raters=merged_raters,
            items=joined_study.items.merge_with(other_study.items),
            outputs=merged_outputs,
            notes=(*notes, *output_merge_notes, *rater_notes),
            name=f"{joined_study.name} + {other_study.name}",
            digest=digest_of(joined_study.fingerprint(), other_study.fingerprint()),
            sides=joined_study.sides or other_study.sides,
            labels=scale_of_aspect,
            attributes=_merge_attributes(joined_study.attributes, other_study.attributes),
            unlabelled=pl.concat([joined_study.unlabelled, other_study.unlabelled]).unique(maintain_order=True),
            unnamed_system=joined_study.unnamed_system and other_study.unnamed_system,
        )
    return joined_study


def with_human_labels(studies: list[Study]) -> list[Study]:
    """The studies. If `label` is the only column of labels of some tables, their labels become human labels.

    This requires that all other studies have only metrics, and that no metric is called `label`. Labels in a column
    such as `passed` do not become human labels, because a program may have given these labels.
    """
    has_only_label_column = [bool(study.labels) and study.metrics == (LABEL,) for study in studies]
    do_others_have_metrics = all(
        study.metrics and LABEL not in study.metrics
        for study, has_only_label in zip(studies, has_only_label_column, strict=True)
        if not has_only_label
    )
    if (
        not 0 < sum(has_only_label_column) < len(studies)
        or any(study.humans for study in studies)
        or not do_others_have_metrics
    ):
        return studies
    return [
        replace(study, raters=study.raters.with_kinds({LABEL: "human"})).with_notes(
            (
                "human-labels",
                True,
                f"{study.name}: column {LABEL} is read as human labels, because the other inputs have only metrics",
            )
        )
        if has_only_label
        else study
        for study, has_only_label in zip(studies, has_only_label_column, strict=True)
    ]


def _repeat_for_aspects(studies: Sequence[Study]) -> Sequence[Study]:
    """The studies. Ratings by metrics without an aspect are repeated for each aspect with human labels, because the
    code of a label depends on the aspect."""
    label_aspects = {aspect for study in studies for aspect in study.labels if aspect}
    rated_aspects = pl.concat(
        [study.ratings.frame.filter(~pl.col("rater").is_in(study.metrics)).select("aspect") for study in studies]
    ).unique(maintain_order=True)
    repeated_aspects = rated_aspects.filter(pl.col("aspect").is_in(label_aspects))
    if repeated_aspects.is_empty():
        return studies
    has_only_labels = repeated_aspects.height == rated_aspects.height

    def repeat(rows: pl.DataFrame, is_repeated_row: pl.Expr) -> pl.DataFrame:
        repeated_rows = rows.filter(is_repeated_row).drop("aspect").join(repeated_aspects, how="cross")
        original_rows = rows.filter(~is_repeated_row) if has_only_labels else rows
        return pl.concat([original_rows, repeated_rows.select(rows.columns)])

    return [
        replace(
            study,
            ratings=Ratings(frame=repeat(study.ratings.frame, is_repeated_row)),
            second_ratings=Ratings(frame=repeat(study.second_ratings.frame, is_repeated_row)),
            unlabelled=repeat(study.unlabelled, pl.col("aspect") == ""),
            labels={aspect: study.labels[""] for aspect in repeated_aspects["aspect"] if "" in study.labels}
            | dict(study.labels),
        )
        for study in studies
        for is_repeated_row in [(pl.col("aspect") == "") & pl.col("rater").is_in(study.metrics)]
    ]


def _name_systems(studies: Sequence[Study]) -> Sequence[Study]:
    """The studies with names of systems. Each study of labels without a system name becomes a separate system.

    If all studies without a system name are about one system, all studies are returned unchanged. These studies are
    about one system in three cases. First, no two of the unnamed studies have a rater in common (for example, a file of
    a judge and a file of human labels). Second, the unnamed studies have only human labels, and the other studies name
    only one system, or one system for each item. Third, only one unnamed study has a judge, the others label only items
    of this study, and no label occurs twice.
    """
    unnamed_studies = [study for study in studies if study.unnamed_system]
    file_system_names = [study.systems[0] for study in unnamed_studies]
    given_system_names = {system_name for study in studies if not study.unnamed_system for system_name in study.systems}
    rater_name_sets = [set(study.raters.kind) for study in unnamed_studies]
    if sum(map(len, rater_name_sets)) == len(set().union(*rater_name_sets)):
        return studies
    judge_studies = [study for study in unnamed_studies if study.metrics]
    named_studies = _named_studies(studies)
    has_identifiable_systems = len(given_system_names) == 1 or all(
        _name_systems_of_items(study, named_studies) is not study for study in unnamed_studies
    )
    if not judge_studies and has_identifiable_systems and given_system_names.isdisjoint(file_system_names):
        return studies
    rating_key_rows = pl.concat([study.ratings.frame.drop("system", "score") for study in unnamed_studies])
    if (
        len(judge_studies) == 1
        and set(rating_key_rows["item"]) == set(judge_studies[0].item_labels())
        and not rating_key_rows.is_duplicated().any()
    ):
        return studies
    study_names_text = join_labels(study.name for study in unnamed_studies)
    reject(
        (
            not set.intersection(*rater_name_sets),
            f"{study_names_text} have no column of systems, and only some of them have a rater in common, so it is "
            "unknown which of them are about the same system; add a column system",
        ),
        (
            len(set(file_system_names)) < len(file_system_names),
            f"{study_names_text} have no column of systems and have a rater in common, but their names do not "
            "distinguish their systems; add a column system, or rename the files",
        ),
        error=InputError,
    )
    return [
        replace(study, unnamed_system=False).with_notes(
            (
                "systems-of-files",
                len(file_system_names) if study is unnamed_studies[0] else 0,
                f"{study_names_text} have no column of systems, so each of them is one system, named "
                f"{join_labels(file_system_names)}; if they are about the same system, add a column system with "
                "one value",
            )
        )
        if study.unnamed_system
        else study
        for study in studies
    ]


def _named_studies(studies: Sequence[Study]) -> list[Study]:
    """The studies with names of systems and with ratings; if there are none, all studies with names of systems."""
    named_studies = [study for study in studies if not study.unnamed_system]
    return [study for study in named_studies if study.ratings.frame.height] or named_studies


def _align_system_names(studies: Sequence[Study]) -> list[Study]:
    """The studies. If the studies with system names have one system in total, or one system for each item, the outputs
    of the other studies get the name of this system."""
    named_studies = _named_studies(studies)
    system_names = {system_name for study in named_studies for system_name in study.systems}
    return [
        _replace_labels(study, pl.lit(min(system_names)).alias("system"))
        if study.unnamed_system and len(system_names) == 1
        else _name_systems_of_items(study, named_studies)
        for study in studies
    ]


def _name_systems_of_items(study: Study, named_studies: Sequence[Study]) -> Study:
    """The study. If the study has no system names, the system of each item is the only system of the item in
    `named_studies`.

    Items that do not occur in `named_studies` are left out, with a note. The study is unchanged in two cases. First,
    the study has a metric and shares a rater with `named_studies`; the study is then a further system. Second, an item
    has several systems in `named_studies`.
    """
    named_study_raters = {rater_name for named_study in named_studies for rater_name in named_study.raters.kind}
    if (
        not study.unnamed_system
        or not named_studies
        or (study.metrics and not named_study_raters.isdisjoint(study.raters.kind))
    ):
        return study
    item_labels = study.item_labels()
    output_key_rows = (
        pl.concat(
            [
                output_key_frame
                for named_study in named_studies
                for output_key_frame in (_output_keys(named_study), named_study.unlabelled.select(JOIN_KEY))
            ]
        )
        .unique()
        .filter(pl.col("item").is_in(item_labels.implode()))
    )
    if output_key_rows.is_empty() or output_key_rows["item"].is_duplicated().any():
        return study
    study_with_system_names = _replace_labels(
        study,
        pl.col("item")
        .replace_strict(output_key_rows["item"], output_key_rows["system"], default=None, return_dtype=pl.String)
        .alias("system"),
    )
    n_unknown_items = len(item_labels) - output_key_rows.height
    return replace(
        study_with_system_names,
        ratings=Ratings(frame=study_with_system_names.ratings.frame.drop_nulls("system")),
        attributes=None
        if study_with_system_names.attributes is None
        else study_with_system_names.attributes.drop_nulls("system"),
        unlabelled=study_with_system_names.unlabelled.drop_nulls("system"),
        unnamed_system=False,
    ).with_notes(
        (
            "system-unknown",
            n_unknown_items,
            f"{study.name}: {n_unknown_items} items are left out, because the file names no system and "
            f"{join_labels(named_study.name for named_study in named_studies)} does not have these items",
        )
    )


def _replace_labels(study: Study, label_expression: pl.Expr) -> Study:
    """The study, with the item or the system replaced in its ratings, attributes and (only for the item) side table of
    items."""
    return replace(
        study,
        ratings=Ratings(frame=study.ratings.frame.with_columns(label_expression)),
        items=replace(study.items, frame=study.items.frame.with_columns(label_expression))
        if label_expression.meta.output_name() == "item"
        else study.items,
        attributes=None if study.attributes is None else study.attributes.with_columns(label_expression),
        unlabelled=study.unlabelled.with_columns(label_expression),
    )


def _align_task_items(first_study: Study, second_study: Study) -> tuple[Study, Study]:
    """Both studies, with equal item labels for logs of one task.

    If one study is a log with items `TASK/SAMPLE` of a single task and the items of the other study are names of
    samples, the name of the task is put before these names.
    """
    if not set(first_study.item_labels()).isdisjoint(second_study.item_labels()):
        return first_study, second_study
    for log_study, sample_study in ((first_study, second_study), (second_study, first_study)):
        task_names = {item_label.partition("/")[0] for item_label in log_study.item_labels()}
        item_labels_with_task = (
            {f"{next(iter(task_names))}/{item_label}" for item_label in sample_study.item_labels()}
            if len(task_names) == 1
            else set()
        )
        if (
            not sample_study.outputs
            and sample_study.preferences.frame.is_empty()
            and item_labels_with_task & set(log_study.item_labels())
        ):
            relabelled_study = _replace_labels(
                sample_study, pl.format("{}/{}", pl.lit(next(iter(task_names))), "item").alias("item")
            )
            return (first_study, relabelled_study) if log_study is first_study else (relabelled_study, second_study)
    return first_study, second_study


def _merge_attributes(first_table: pl.DataFrame | None, second_table: pl.DataFrame | None) -> pl.DataFrame | None:
    """The columns of both tables. A common column has the values of the first table; missing values are taken from the
    second table."""
    tables = [table for table in (first_table, second_table) if table is not None]
    if len(tables) < 2:
        return next(iter(tables), None)
    stacked_rows = pl.concat(tables, how="diagonal_relaxed")
    return stacked_rows.group_by(JOIN_KEY, maintain_order=True).agg(pl.all().drop_nulls().first())


def _merge_preferences(first: Preferences, second: Preferences, row_kind: str) -> Preferences:
    return Preferences(
        frame=_merge_rows(first.frame, second.frame, list(VALUES), row_kind),
        missing=pl.concat([first.missing, second.missing]),
    )


def _merge_rows(
    first_rows: pl.DataFrame, second_rows: pl.DataFrame, value_column_names: list[str], row_kind: str
) -> pl.DataFrame:
    merged_rows = pl.concat([first_rows, second_rows])
    key_column_names = [column_name for column_name in merged_rows.columns if column_name not in value_column_names]
    duplicate_rows = merged_rows.filter(pl.struct(key_column_names).is_duplicated())
    if duplicate_rows.height:
        first_duplicate_row = duplicate_rows.row(0, named=True)
        first_key_text = ", ".join(
            f"{column_name} {first_duplicate_row[column_name]!r}"
            for column_name in key_column_names
            if first_duplicate_row[column_name]
        )
        n_duplicate_keys = duplicate_rows.select(key_column_names).n_unique()
        raise InputError(
            f"two inputs hold the same {row_kind} ({first_key_text}; {n_duplicate_keys} such {row_kind}s, "
            f"{2 * n_duplicate_keys - duplicate_rows.n_unique()} with equal values); remove one input, or rename "
            "the rater; if the items differ, give them different labels, such as news/1"
        )
    return merged_rows


def _output_keys(study: Study) -> pl.DataFrame:
    verdict_rows = study.preferences.frame
    return pl.concat(
        [
            study.ratings.frame.filter(pl.col("item") != "").select(JOIN_KEY),
            verdict_rows.select("item", system="system_a"),
            verdict_rows.select("item", system="system_b"),
            *([] if study.outputs is None else [study.outputs.texts.select(JOIN_KEY)]),
        ]
    ).unique()


def _overlap_notes(first_study: Study, second_study: Study) -> list[Note]:
    first_output_keys, second_output_keys = _output_keys(first_study), _output_keys(second_study)
    n_common_outputs = first_output_keys.join(second_output_keys, on=JOIN_KEY, how="semi").height
    first_raters, second_raters = set(first_study.raters.kind), set(second_study.raters.kind)
    # Inputs without raters, or with a common rater, may be parts of one study, such as a log for each system.
    are_parts_of_one_study = not (first_raters or second_raters) or (
        not n_common_outputs and first_raters & second_raters
    )
    if are_parts_of_one_study or first_output_keys.is_empty() or second_output_keys.is_empty():
        return []
    if not n_common_outputs:
        label_example_texts = [
            f"{study.name} has items {join_labels(keys['item'].unique().sort(), limit=2)} of systems "
            f"{join_labels(keys['system'].unique().sort(), limit=2)}"
            for study, keys in ((first_study, first_output_keys), (second_study, second_output_keys))
        ]
        inputs_without_systems = [study.name for study in (first_study, second_study) if study.unnamed_system]
        repeated_ids_messages = [
            note.message for note in (*first_study.notes, *second_study.notes) if note.rule == "repeated-ids"
        ]
        advice_text = (
            repeated_ids_messages[0]
            if repeated_ids_messages
            else "use the same items in both inputs, or name another column of items, as in --column item=NAME"
            if set(first_output_keys["item"]).isdisjoint(second_output_keys["item"])
            else f"add the column of systems to {join_labels(inputs_without_systems)}"
            if inputs_without_systems
            else "use the same names of systems in both inputs"
        )
        raise InputError(
            f"{first_study.name} and {second_study.name} have no item and system in common: "
            f"{'; '.join(label_example_texts)}; {advice_text}"
        )
    notes = []
    for study, output_keys, other_study, other_output_keys in (
        (first_study, first_output_keys, second_study, second_output_keys),
        (second_study, second_output_keys, first_study, first_output_keys),
    ):
        # An output without a label, such as an output with the label unsure, is a match too.
        other_keys = pl.concat([other_output_keys, other_study.unlabelled.select(JOIN_KEY)])
        n_unmatched = output_keys.join(other_keys, on=JOIN_KEY, how="anti").height
        message = f"{study.name}: {n_unmatched} of {output_keys.height} outputs have no match in the other input"
        notes += build_notes(("partial-join", n_unmatched, message))
    return notes
