"""Annotation studies (`custodes annotate`): a SQLite file that is read through views, even while a server uses the
file.

The views of the file have the formats of other readers, with at least the columns of `VIEWS`. Interim analyses can also
be read from a table that was exported from a study.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.interim_analyses import SCHEMA as LOOKS
from custodes.data.interim_analyses import sort_pair_labels
from custodes.data.items import Items
from custodes.data.labels import POLARITY, LabelScale, is_binary, label_words
from custodes.data.loading.live_study import is_study, read_one_state
from custodes.data.notes import Note, build_notes
from custodes.data.outputs import SCHEMA as TEXTS
from custodes.data.outputs import Outputs
from custodes.data.preferences import INVALID, Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.ratings import read_ratings
from custodes.data.readers.reader import Invalid, PathReader, TableReader
from custodes.data.study import Study
from custodes.data.table import (
    check_columns,
    check_unique,
    digest_of,
    format_counts,
    refuse,
    refuse_values,
    second_rows,
    typed_column,
)
from custodes.errors import InputError, join_labels

VIEWS: Mapping[str, Mapping[str, Any]] = {
    "battles": {
        **dict.fromkeys(
            ("item", "system_a", "system_b", "rater", "kind", "aspect", "repeat", "order"),
            pl.String,
        ),
        "preference": pl.Int64,
        "invalid": pl.String,
        "role": pl.String,
        "seconds": pl.Float64,
    },
    "ratings": {
        **dict.fromkeys(("item", "system", "rater", "kind", "aspect"), pl.String),
        "score": pl.Float64,
        "role": pl.String,
    },
    "raters": {"rater": pl.String, "date": pl.String},
    "items": dict.fromkeys(("item", "cluster", "group"), pl.String),
    "outputs": TEXTS,
    "sources": dict.fromkeys(("item", "source", "context", "references"), pl.String),
    "looks": LOOKS,
}
"""Columns that are read from each view."""

COUNT_QUERY = """
SELECT count(DISTINCT rater), count(*) FROM answers WHERE unit IS NOT NULL AND excluded AND NOT taken_back
"""
"""Query of the number of excluded annotators and of the number of their answers."""
PLAN_QUERY = """
SELECT json_extract(json, '$.money.price') * (1 + json_extract(json, '$.money.fee')),
    lower(json_extract(json, '$.money.currency')), json_extract(json, '$.question.mode'),
    json_extract(json, '$.question.scale[0]'), json_extract(json, '$.question.scale[1]'),
    json_extract(json, '$.question.labels')
FROM plan ORDER BY version DESC LIMIT 1
"""
"""Cost of an answer and its currency; mode, smallest and largest rating, and labels of the question."""
WAITING_QUERY = """
WITH last AS MATERIALIZED (
    SELECT pair, is_open, (SELECT max(value) FROM json_each(used)) AS place FROM look
    WHERE (pair, look) IN (SELECT pair, max(look) FROM look GROUP BY pair)
)
SELECT i.label, a.label, b.label FROM unit u JOIN pair p USING (pair) JOIN item i USING (item)
JOIN system a ON a.system = p.first JOIN system b ON b.system = p.second LEFT JOIN last USING (pair)
WHERE coalesce(is_open, 1) AND u.place > coalesce(last.place, -1) AND u.unit IN (SELECT unit FROM assignment)
    AND (SELECT kind FROM event WHERE kind IN ('paused', 'resumed', 'stopped', 'reopened') ORDER BY event DESC LIMIT 1)
        IS NOT 'stopped'
"""
"""Comparisons of incomplete interim analyses. These comparisons are left out, because their use would amount to a
further interim analysis."""
METRIC = """
SELECT i.label AS item, a.label AS system_a, b.label AS system_b, m.rater AS rater, 'metric' AS kind,
    coalesce((SELECT json_extract(json, '$.question.aspects[0]') FROM plan ORDER BY version DESC LIMIT 1), '')
        AS aspect,
    m.preference AS preference, 'primary' AS role
FROM metric m JOIN unit u USING (unit) JOIN pair p USING (pair) JOIN item i USING (item)
JOIN system a ON a.system = p.first JOIN system b ON b.system = p.second ORDER BY u.pair, u.place
"""
"""Verdicts of the study's metric on the primary aspect."""
PAIR_KEY = ("item", "system_a", "system_b")


def read_annotation(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """An annotation study with verdicts or scores, texts, interim analyses, and the verdicts of the metric of the
    study.

    Second opinions are in `Study.second`. Control questions, corrected answers, answers of excluded annotators, and
    answers of incomplete interim analyses are left out. Answers of an incomplete interim analysis are read once the
    analysis is complete or the study is stopped.
    """
    if not is_study(path):  # selected with `reader`
        raise InputError(f"{path.name}: not a study file of annotations; create one with custodes annotate new")
    return read_one_state(path, lambda open_connection: read_open_study(open_connection, path.name))


def read_open_study(connection: sqlite3.Connection, where: str) -> Study:
    """The study that one transaction of a connection reads; see `read_annotation`."""
    frame_of_view = _read_frames(connection, where)
    n_excluded_annotators, n_excluded_answers = connection.execute(COUNT_QUERY).fetchone()
    cost_per_answer, currency, *question_fields = connection.execute(PLAN_QUERY).fetchone() or (
        None,
        None,
        "",
        0,
        0,
        "[]",
    )
    all_battle_rows, rating_rows, metric_verdict_rows, text_rows = (
        frame_of_view[view_name] for view_name in ("battles", "ratings", "metric", "outputs")
    )
    counted_battle_rows = all_battle_rows.join(frame_of_view["waiting"], on=PAIR_KEY, how="anti", maintain_order="left")
    n_pending_answers = all_battle_rows.height - counted_battle_rows.height
    if all_battle_rows.is_empty() and rating_rows.is_empty() and text_rows.is_empty():
        raise InputError(f"{where}: the study has no texts and no answers yet; read it again later")
    preferences, second_preferences, verdict_notes = _verdicts(
        pl.concat([counted_battle_rows, metric_verdict_rows], how="diagonal"), where
    )
    score_study = Study(raters=Raters.infer({}))
    if rating_rows.height:
        score_study = _with_labels(read_ratings(rating_rows, where=where, invalid="error"), *question_fields)
    annotator_rows = frame_of_view["raters"].filter(
        pl.col("rater").is_in(pl.concat([counted_battle_rows["rater"], rating_rows["rater"]]).implode())
    )
    rater_metadata, _ = Raters.infer(
        {**dict.fromkeys(annotator_rows["rater"], "human"), **dict.fromkeys(metric_verdict_rows["rater"], "metric")}
    ).merge_side_table(
        annotator_rows.with_columns(
            person=pl.lit("true"),
            cost=cost_per_answer or None,
            cost_unit=pl.lit(currency if cost_per_answer else None),
        )
    )
    source_rows = _decode_references(frame_of_view["sources"], where)
    n_second_opinions = _count_questions(second_preferences.frame, "system_a", "system_b") + _count_questions(
        score_study.second_ratings.frame, "system"
    )
    notes = build_notes(
        (
            "excluded-annotators",
            n_excluded_answers,
            f"{where}: {n_excluded_answers} answers of excluded annotators are left out (number of these annotators: "
            f"{n_excluded_annotators}); interim analyses are not recomputed",
        ),
        (
            "incomplete-looks",
            n_pending_answers,
            f"{where}: {n_pending_answers} answers of incomplete interim analyses are left out until the analysis is "
            "complete or the study is stopped",
        ),
        (
            "second-opinions",
            n_second_opinions,
            f"{where}: {n_second_opinions} second opinions (answers to a question that another annotator answered "
            "first) only measure the agreement of annotators and are not used to compare systems",
        ),
    )
    return Study(
        ratings=score_study.ratings,
        preferences=preferences,
        second=second_preferences,
        second_ratings=score_study.second_ratings,
        labels=score_study.labels,
        looks=sort_pair_labels(frame_of_view["looks"]),
        raters=rater_metadata,
        items=Items.make(frame_of_view["items"], where=where)[0],
        outputs=Outputs.from_sources(text_rows, source_rows) if text_rows.height else None,
        notes=(*verdict_notes, *score_study.notes, *notes),
        name=where,
        digest=digest_of(*(frame.write_ndjson() for frame in frame_of_view.values())),
    )


def _with_labels(
    score_study: Study, question_mode: str, lowest_rating: float, highest_rating: float, labels_json: str | None
) -> Study:
    """The study with labels instead of ratings, if the plan has a rating scale with two points and labels.

    For known pairs of words, the positive label is known (`data.labels`). For other words, the positive label is the
    label of the higher rating.
    """
    scale_words = label_words(pl.Series(json.loads(labels_json or "[]"), dtype=pl.String)).to_list()
    if question_mode != "rate" or highest_rating - lowest_rating != 1 or len(set(filter(None, scale_words))) != 2:
        return score_study
    scale_codes = [POLARITY[word] for word in scale_words] if is_binary(scale_words) else [0, 1]
    if len(set(scale_codes)) < 2:
        return score_study
    code_of_score = {float(lowest_rating): float(scale_codes[0]), float(highest_rating): float(scale_codes[1])}
    scale = LabelScale(words=tuple(scale_words[scale_codes.index(code)] for code in (0, 1)))
    rating_frames = [
        ratings.frame.with_columns(pl.col("score").replace_strict(code_of_score, return_dtype=pl.Float64))
        for ratings in (score_study.ratings, score_study.second_ratings)
    ]
    return replace(
        score_study,
        ratings=Ratings(frame=rating_frames[0]),
        second_ratings=Ratings(frame=rating_frames[1]),
        labels=dict.fromkeys(pl.concat(rating_frames)["aspect"].unique(maintain_order=True), scale),
    )


def _read_frames(connection: sqlite3.Connection, where: str) -> dict[str, pl.DataFrame]:
    """The rows of the views, of incomplete interim analyses (`waiting`) and of the verdicts of the metric."""
    view_names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    missing_view_or_column_names = [name for name in (*VIEWS, "answers") if name not in view_names]
    # SQLite treats the quoted name of a missing column as a text.
    for view_name in sorted(view_names.intersection(VIEWS)):
        column_names = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (view_name,))}
        missing_view_or_column_names += [f"{view_name}.{name}" for name in VIEWS[view_name] if name not in column_names]
    if missing_view_or_column_names:
        raise InputError(
            f"{where}: {join_labels(missing_view_or_column_names)} is missing, so another version of custodes wrote "
            "this file; update custodes"
        )
    query_and_schema_of_view: dict[str, tuple[str, Mapping[str, Any]]] = {
        view_name: (f"SELECT {', '.join(f'[{name}]' for name in schema)} FROM {view_name}", schema)
        for view_name, schema in VIEWS.items()
    }
    query_and_schema_of_view |= {
        "waiting": (WAITING_QUERY, dict.fromkeys(PAIR_KEY, pl.String)),
        "metric": (
            METRIC,
            {name: VIEWS["battles"][name] for name in ((*PAIR_KEY, "rater", "kind", "aspect", "preference", "role"))},
        ),
    }
    frame_of_view = {
        name: pl.DataFrame(connection.execute(sql_query).fetchall(), schema=schema, orient="row", strict=False)
        for name, (sql_query, schema) in query_and_schema_of_view.items()
    }
    if (frame_of_view["sources"]["references"] == "[]").all():
        frame_of_view["sources"] = frame_of_view["sources"].drop("references")
    return frame_of_view


def _decode_references(source_rows: pl.DataFrame, where: str) -> pl.DataFrame:
    """The sources, with references as lists if the file has references."""
    if "references" not in source_rows.columns:
        return source_rows
    try:
        return source_rows.with_columns(pl.col("references").str.json_decode(pl.List(pl.String)))
    except pl.exceptions.PolarsError:
        raise InputError(f"{where}: the references of an item are not a list of texts; restore a backup") from None


def _count_questions(answer_rows: pl.DataFrame, *system_column_names: str) -> int:
    """The number of questions to annotators, where the aspects of one question are counted once."""
    return answer_rows.select("item", *system_column_names, "rater").n_unique()


def _verdicts(verdict_rows: pl.DataFrame, where: str) -> tuple[Preferences, Preferences, list[Note]]:
    if not verdict_rows.height:
        return Preferences(), Preferences(), []
    preferences, notes = Preferences.make(verdict_rows, where=where, ignore=("kind", "role"))
    is_second_opinion, _ = second_rows(verdict_rows, where=where)
    unrated_rows = verdict_rows.filter(pl.col("preference").is_null())
    note_message = (
        f"{where}: {unrated_rows.height} comparisons could not be rated, according to the annotator, and count as "
        f"not rated ({format_counts(unrated_rows['invalid'])})"
    )
    notes = [replace(note, message=note_message) if note.rule == INVALID else note for note in notes]
    return *preferences.split_opinions(is_second_opinion, verdict_rows["preference"].is_not_null()), notes


def read_interim_analyses(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with interim analyses only."""
    notes = check_columns(frame, where=where, required=tuple(LOOKS))
    interim_analyses = pl.DataFrame(
        [
            typed_column(frame, column_name, data_type, where=where, empty=False)
            for column_name, data_type in LOOKS.items()
        ]
    )
    refuse_values(
        interim_analyses["decision"], ~interim_analyses["decision"].is_in([1, 0, -1]), where=where, allowed="1, 0, -1"
    )
    check_unique(
        interim_analyses,
        ["system_a", "system_b", "look"],
        where=where,
        what="interim analysis",
        hint="one row per pair and interim analysis",
    )
    refuse(
        interim_analyses.select(pl.sum_horizontal("wins", "ties", "losses") != pl.col("n")).to_series(),
        lambda rows, _: f"{where}: n differs from wins + ties + losses in row {rows}; export the study again",
    )
    return Study(raters=Raters.infer({}), looks=sort_pair_labels(interim_analyses), notes=tuple(notes), name=where)


READER = PathReader(name="annotation", fits=is_study, make=read_annotation, whole=True)
INTERIM_ANALYSES = TableReader(
    name="looks",
    columns=(("system_a", "system_b", "look", "n", "decision"),),
    make=read_interim_analyses,
    absent=("item", "rater"),
)
"""Interim analyses that were exported from an annotation study, to be joined to the verdicts of the study."""
