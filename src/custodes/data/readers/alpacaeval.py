"""Annotations of AlpacaEval, in one file or in a folder of results. A row has an `instruction`, two outputs or two
generators, a `preference` and an annotator.

Format: github.com/tatsu-lab/alpaca_eval, namely `annotations.json` of a leaderboard, `results/`, files that the command
`alpaca_eval` writes with `--output_path`, and `alpaca_farm_human_annotations` and `_crossannotations` of the data set
(huggingface.co/datasets/tatsu-lab/alpaca_eval).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import chain
from pathlib import Path

import polars as pl
import polars.selectors as cs

from custodes.data.loading import load_table
from custodes.data.notes import Note, build_notes
from custodes.data.readers.outputs import build_outputs
from custodes.data.readers.reader import Invalid, PathReader, TableReader
from custodes.data.readers.verdict_words import without_empty
from custodes.data.readers.verdicts import log_study
from custodes.data.study import Study
from custodes.data.table import digest_of, fitting_columns, label_column
from custodes.errors import InputError, join_labels, suggestion

COLUMNS = (
    ("instruction", "generator_1", "generator_2", "preference"),
    ("instruction", "generator", "generator_2", "preference"),
    ("instruction", "output_1", "output_2", "preference"),
)
ALLOWED = "a number from 1 (output_1 better) to 2 (output_2 better), or 0 (tie)"
UNPARSED = "no preference"
FILE = "annotations.json"
DEPTHS = (f"*/*/{FILE}", f"*/{FILE}", FILE)
"""Paths of annotations in a folder of results: `MODEL/ANNOTATOR/`, `MODEL/`, or the folder itself."""


def read_alpacaeval(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. The item is the instruction, and the rater is the annotator.

    A preference from 1 to below 1.5 means that output_1 wins. Preferences of 1.5 and 0 are ties.

    An annotation without a preference comes from a reply that AlpacaEval could not parse. AlpacaEval randomises the
    presentation order without recording it, so the presentation order is unknown. Files of human annotations have no
    generators, so the systems are output_1 and output_2, and an instruction with several pairs of texts becomes several
    items in one cluster.
    """
    _, *generator_column_names, _ = layout_column_names = fitting_columns(frame, COLUMNS, where=where)
    has_no_generators = layout_column_names == COLUMNS[2]
    instruction_texts, input_texts = (
        label_column(frame, column_name, where=where, empty=column_name == "input")
        for column_name in ("instruction", "input")
    )
    # AlpacaEval combines the instruction and the input in the same way.
    full_instructions = pl.select(
        pl.when(input_texts == "").then(instruction_texts).otherwise(instruction_texts + "\n\n" + input_texts)
    ).to_series()
    system_series_pair = [
        pl.Series([column_name] * frame.height) if has_no_generators else label_column(frame, column_name, where=where)
        for column_name in generator_column_names
    ]
    text_series_pair = [_text_column(frame, column_name) for column_name in ("output_1", "output_2")]
    rater_labels, has_human_raters = _annotators(frame, has_no_generators=has_no_generators, where=where)
    verdict_texts = without_empty(label_column(frame, "preference", where=where, empty=True)).replace("", UNPARSED)
    raw_preferences = verdict_texts.cast(pl.Float64, strict=False)
    is_old_draw = (raw_preferences == 0).fill_null(False)
    graded_preferences = raw_preferences.set(is_old_draw, 1.5).set(
        ~(is_old_draw | raw_preferences.is_between(1, 2)), None
    )
    item_labels = _items(full_instructions, system_series_pair, text_series_pair)
    verdict_table = pl.DataFrame(
        {
            "item": item_labels,
            "system_a": system_series_pair[0],
            "system_b": system_series_pair[1],
            "rater": rater_labels,
            "verdict": verdict_texts,
            "preference": (1.5 - graded_preferences).sign(),
        }
    )
    if not has_human_raters:  # a preference of a judge is 1 + the probability of the second output
        verdict_table = verdict_table.with_columns(
            p_a=2 - graded_preferences,
            p_tie=pl.when(graded_preferences.is_null()).then(None).otherwise(0.0),
            p_b=graded_preferences - 1,
        )
    n_old_draws = int(is_old_draw.sum())
    notes = build_notes(
        (
            "no-generators",
            has_no_generators,
            f"{where}: generators are not named; the systems are called output_1 and output_2",
        ),
        (
            "old-draw",
            n_old_draws,
            f"{where}: {n_old_draws} preferences are 0. In older versions of AlpacaEval, 0 means a draw, so these "
            "preferences count as ties",
        ),
    )
    dataset_labels = label_column(frame, "dataset", where=where, empty=True)
    return log_study(
        verdict_table,
        where=where,
        invalid=invalid,
        allowed=ALLOWED,
        failure_code=UNPARSED,
        items=pl.DataFrame(
            {
                "item": item_labels,
                "group": dataset_labels,
                "dataset": dataset_labels,
                "cluster": full_instructions.set(full_instructions == item_labels, ""),
            }
        ),
        kind="human" if has_human_raters else "",
        outputs=build_outputs(
            (
                output_row
                for systems, texts in zip(system_series_pair, text_series_pair, strict=True)
                for output_row in zip(item_labels, systems, texts, strict=True)
            ),
            (
                (item_label, instruction, [])
                for item_label, instruction in zip(item_labels, full_instructions, strict=True)
            ),
            where=where,
        )[0],
        notes=[*notes, *_rounding_notes(graded_preferences, system_series_pair[1], where=where)],
    )


def _rounding_notes(graded_preferences: pl.Series, second_systems: pl.Series, *, where: str) -> list[Note]:
    """A note on graded preferences (values other than 1, 1.5 and 2). A graded preference counts as a full win of the
    preferred output."""
    filled_preferences = graded_preferences.drop_nulls()
    n_fractional_preferences = int((~filled_preferences.is_in([1.0, 1.5, 2.0])).sum())
    win_rate_text = (
        f" ({100 * (filled_preferences.mean() - 1):.1f} %)"  # type: ignore[operator]
        if n_fractional_preferences and second_systems.n_unique() == 1
        else ""
    )
    return build_notes(
        (
            "graded-preference",
            n_fractional_preferences,
            f"{where}: {n_fractional_preferences} of {filled_preferences.len()} preferences are graded (not whole "
            "numbers); each counts as a full win of the preferred output. AlpacaEval's win rate is the mean of "
            f"(preference − 1){win_rate_text}; with at least two systems besides the reference, the table 'reference' "
            "of leaderboard contains this win rate",
        )
    )


def _text_column(frame: pl.DataFrame, column_name: str) -> pl.Series:
    if column_name not in frame.columns or frame[column_name].dtype.is_nested():
        return pl.Series(column_name, [None] * frame.height, dtype=pl.String)
    return frame[column_name].cast(pl.String, strict=False)


def _annotators(frame: pl.DataFrame, *, has_no_generators: bool, where: str) -> tuple[pl.Series, bool]:
    """The annotators, and whether the annotators are human. Only files of human annotations have numbers as
    annotators."""
    annotator_column_name = next((name for name in ("annotator", "annotator_index") if name in frame.columns), None)
    if annotator_column_name is None:
        return pl.Series(["human" if has_no_generators else "annotator"] * frame.height), has_no_generators
    rater_labels = label_column(frame, annotator_column_name, where=where)
    has_numeric_labels = bool(rater_labels.str.contains(r"^[0-9]+$").all())
    return "human_" + rater_labels if has_numeric_labels else rater_labels, has_numeric_labels


def _items(
    instructions: pl.Series, system_series_pair: list[pl.Series], text_series_pair: list[pl.Series]
) -> pl.Series:
    """The item of each row: the instruction, and an id of the two texts if a system has several texts for the
    instruction."""
    text_rows = pl.concat(
        [
            pl.DataFrame({"instruction": instructions, "system": systems, "text": texts})
            for systems, texts in zip(system_series_pair, text_series_pair, strict=True)
        ]
    )
    multi_text_instructions = (
        text_rows.drop_nulls("text")
        .group_by("instruction", "system")
        .agg(pl.col("text").n_unique())
        .filter(pl.col("text") > 1)["instruction"]
        .unique()
    )
    item_labels = [
        f"{instruction} #{sha256(repr(text_pair).encode()).hexdigest()[:6]}" if has_several_texts else instruction
        for instruction, text_pair, has_several_texts in zip(
            instructions,
            zip(*text_series_pair, strict=True),
            instructions.is_in(multi_text_instructions.implode()),
            strict=True,
        )
    ]
    return pl.Series("item", item_labels, dtype=pl.String)


def read_results(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """A study of the annotations of all models; `part` is a glob that selects annotators by the names of their
    folders."""
    annotation_paths = _files(path)
    if not annotation_paths:  # selected with `reader`
        raise InputError(f"{path.name}: the folder holds no {FILE}; give a folder with MODEL/ANNOTATOR/{FILE}")
    selected_paths = [
        annotation_path
        for annotation_path in annotation_paths
        if part is None or fnmatchcase(annotation_path.parent.name, part)
    ]
    if not selected_paths:
        annotator_names = sorted({annotation_path.parent.name for annotation_path in annotation_paths})
        raise InputError(
            f"{path.name}: no annotator {part!r}{suggestion(str(part), annotator_names)}; annotators: "
            f"{join_labels(annotator_names)}"
        )
    loaded_tables = [load_table(annotation_path) for annotation_path in selected_paths]
    for annotation_path, loaded_table in zip(
        selected_paths, loaded_tables, strict=True
    ):  # errors name the file and the row
        read_alpacaeval(loaded_table.frame, where=str(annotation_path.relative_to(path)), invalid=invalid)
    used_column_selector = cs.by_name(
        *("annotator", "annotator_index", "dataset", "input", *chain.from_iterable(COLUMNS)), require_all=False
    )
    annotation_frames, renaming_texts = _rename_by_folder(
        selected_paths, [loaded_table.frame.select(used_column_selector) for loaded_table in loaded_tables]
    )
    return replace(
        read_alpacaeval(pl.concat(annotation_frames, how="diagonal"), where=path.name, invalid=invalid),
        digest=digest_of(*(loaded_table.digest for loaded_table in loaded_tables)),
    ).with_notes(
        (
            "folder-name",
            len(renaming_texts),
            f"{path.name}: systems are named after their folders, not as in the files "
            f"({join_labels(renaming_texts, limit=3)})",
        )
    )


def _rename_by_folder(
    annotation_paths: Sequence[Path], annotation_frames: Sequence[pl.DataFrame]
) -> tuple[list[pl.DataFrame], dict[str, None]]:
    """The tables and the new names of systems. Of the two systems of a table, the system that is not in all tables is
    renamed after the folder of the table."""
    system_column_selector = cs.by_name("generator", "generator_1", "generator_2", require_all=False)
    frame_system_sets = [
        {str(system) for column in frame.select(system_column_selector) for system in column.unique()}
        for frame in annotation_frames
    ]
    common_systems = set.intersection(*frame_system_sets) if len(frame_system_sets) > 1 else set()
    renamed_frames, renaming_texts = [], dict[str, None]()
    for annotation_path, frame, frame_systems in zip(
        annotation_paths, annotation_frames, frame_system_sets, strict=True
    ):
        folder_name, uncommon_systems = annotation_path.parent.parent.name, frame_systems - common_systems
        if len(uncommon_systems) == 1 and len(frame_systems) == 2 and folder_name not in frame_systems:
            frame = frame.with_columns(
                system_column_selector.cast(pl.String).replace({next(iter(uncommon_systems)): folder_name})
            )
            renaming_texts[f"{next(iter(uncommon_systems))!r} is renamed to {folder_name!r}"] = None
        renamed_frames.append(frame)
    return renamed_frames, renaming_texts


def _files(path: Path) -> list[Path]:
    return sorted(annotation_path for glob_pattern in DEPTHS for annotation_path in path.glob(glob_pattern))


READER = TableReader(name="alpacaeval", columns=COLUMNS, make=read_alpacaeval)
RESULTS = PathReader(name="alpacaeval_results", fits=lambda path: bool(_files(path)), make=read_results)
