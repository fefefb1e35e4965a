"""Scores of RewardBench 2 and RewardBench in the published layout (one file per model, or a folder of such files), and
a table with all reward models on RewardBench.

A file is an object of lists with one entry per prompt, as in the files `eval-set-scores/MODEL.json` of
github.com/allenai/reward-bench. `scripts/run_v2.py` writes `scores` (right completions first) and `num_correct`, and
`scripts/run_rm.py` writes `scores_chosen` and `scores_rejected`. The cards of allenai/reward-bench-2 and
allenai/reward-bench on the Hugging Face Hub describe the data. The columns `chosen` and `rejected` contain lists in
reward-bench-2, and texts in reward-bench.

The table has two rows per pair, with `ref` 1 (chosen) or 0 (rejected), `subset`, and one column per reward model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from custodes.data.joining import join
from custodes.data.mapping.cell_types import scored_pairs
from custodes.data.preferences import Preferences
from custodes.data.ratings import Ratings
from custodes.data.readers.logs import (
    Label,
    LogRecords,
    convert_to_layout,
    format_label,
    layout_type,
    log_reader,
    parse_log,
    parse_number,
    top_keys,
)
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, number_column, refuse, unused_columns
from custodes.errors import InputError, join_labels

FORMAT_NAME = "scores of RewardBench"
COLUMNS = ("id", "subset", "prompt", "chosen", "rejected")
HUMAN_RATER = "ref"
TEXTS = msgspec.json.Decoder(list[str])
LIST_NAMES = ("scores_chosen", "scores_rejected", "text_chosen", "text_rejected")
"""Columns of RewardBench, with one right and one wrong text per entry."""
SCORES = layout_type(
    {
        "id": [Label],
        "subset": [str],
        "model": str,
        "scores": ([list[Any]], None),
        "num_correct": ([int], None),
        "text": ([list[Any]], None),
        **dict.fromkeys(LIST_NAMES, (list[Any], None)),
    }
)
Prompts = list[tuple[str, str, list[Any], list[Any]]]
"""Item, subset, and the texts of right and of wrong completions of each prompt; None for a missing text."""


def read_rewardbench2(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of prompts. The item is subset/id, the group is the subset, the rater is the reward model, and the human
    rater is `ref`.

    Systems are the positions of completions: chosen, rejected_1, rejected_2, rejected_3, or chosen_1, chosen_2, ... in
    subsets with several right completions. `ref` prefers every right completion to every wrong completion, and has no
    preference between two right or two wrong completions.
    """
    return replace(join([_read_scores(file) for file in files]), name=where)


def _read_scores(path: Path) -> Study:
    log_records = LogRecords(where=path.name, kinds={HUMAN_RATER: "human"})
    score_file = parse_log(log_records.load(path, path.name), SCORES, where=path.name, what=FORMAT_NAME)
    if score_file.model == HUMAN_RATER:
        raise InputError(
            f"{path.name}: the model is named {HUMAN_RATER!r}, the name of the human rater; rename the model"
        )
    prompts_with_completions: Prompts = []
    for entry_number, (prompt_id, subset, scores, n_correct, texts) in enumerate(
        _iter_entries(score_file, path.name), start=1
    ):
        if not 0 <= n_correct <= len(scores) or len(texts) != len(scores):
            raise InputError(
                f"{path.name}: entry {entry_number} has {len(scores)} scores, {len(texts)} texts and num_correct "
                f"{n_correct}; give one score for each text, and a num_correct that does not exceed the number of texts"
            )
        item_label = f"{subset.strip()}/{format_label(prompt_id)}"
        prompts_with_completions.append((item_label, subset.strip(), texts[:n_correct], texts[n_correct:]))
        for system, raw_score in zip(_position_names(n_correct, len(scores) - n_correct), scores, strict=True):
            # Models with a reward head give a list of one score.
            raw_score = raw_score[0] if isinstance(raw_score, list) and len(raw_score) == 1 else raw_score
            score = parse_number(raw_score)
            if score is None and raw_score is not None:
                raise InputError(f"{path.name}: entry {entry_number}: score {str(raw_score)[:40]!r} is not a number")
            log_records.score(item_label, system, score_file.model, score)
    return _study(log_records, prompts_with_completions)


def _iter_entries(score_file: Any, where: str) -> Iterator[tuple[Label, str, list[Any], int, list[Any]]]:
    """The identifier, the subset, the scores of all completions (right completions first), the number of right
    completions, and the texts."""
    if score_file.scores is not None and score_file.num_correct is not None:
        text_lists = (
            [[None] * len(entry_scores) for entry_scores in score_file.scores]
            if score_file.text is None
            else score_file.text
        )
        field_lists = [score_file.scores, score_file.num_correct, text_lists]
    elif score_file.scores_chosen is not None and score_file.scores_rejected is not None:
        field_lists = [
            [None] * len(score_file.id) if (field_list := getattr(score_file, field_name)) is None else field_list
            for field_name in LIST_NAMES
        ]
    else:
        raise InputError(
            f"{where}: this is not a file of {FORMAT_NAME}, as required lists are missing: RewardBench 2 "
            "has scores and num_correct, RewardBench has scores_chosen and scores_rejected"
        )
    field_lists = [score_file.id, score_file.subset, *field_lists]
    list_lengths = {len(field_list) for field_list in field_lists}
    if len(list_lengths) > 1:
        raise InputError(
            f"{where}: the lists have different lengths ({join_labels(sorted(list_lengths))}), but each needs one "
            "entry per prompt; the file may be truncated"
        )
    for prompt_id, subset, *entry_values in zip(*field_lists, strict=True):
        scores, n_correct, texts = entry_values if len(entry_values) == 3 else (entry_values[:2], 1, entry_values[2:])
        yield prompt_id, subset, scores, n_correct, texts


def read_rewardbench2_data(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of preferences and texts. The labels are the same as in `read_rewardbench2`, so scores can be joined.

    Columns with numbers called NAME_chosen and NAME_rejected are the scores of the reward model NAME. With scores, all
    other columns are optional.
    """
    models = scored_pairs(frame)
    score_columns = [f"{model}_{side}" for model in models for side in ("chosen", "rejected")]
    check_columns(frame, where=where, required=() if models else COLUMNS, optional=frame.columns)
    scores_of_column = {name: number_column(frame, name, where=where) for name in score_columns}
    labels_of_column = {
        name: label_column(frame, name, where=where) for name in ("id", "subset") if name in frame.columns
    }
    log_records = LogRecords(where=where, kinds={HUMAN_RATER: "human"})
    prompts_with_completions: Prompts = []
    for row_number, data_row in enumerate(frame.iter_rows(named=True), 1):
        row_label_of_column = {
            name: str(column_labels[row_number - 1]) for name, column_labels in labels_of_column.items()
        }
        prompt_id, subset = row_label_of_column.get("id", str(row_number)), row_label_of_column.get("subset", "")
        item = f"{subset}/{prompt_id}" if subset else prompt_id
        right_texts, wrong_texts = (
            _texts(data_row[side], f"{where}, row {row_number}") if side in frame.columns else [None]
            for side in ("chosen", "rejected")
        )
        if models and (len(right_texts), len(wrong_texts)) != (1, 1):
            raise InputError(
                f"{where}, row {row_number}: {len(right_texts)} chosen and {len(wrong_texts)} rejected texts have only "
                f"one score each ({score_columns[0]}, {score_columns[1]}); give the scores in another file"
            )
        for score_column, column_scores in scores_of_column.items():
            model, _, system = score_column.rpartition("_")
            log_records.score(item, system, model, column_scores[row_number - 1])
        prompts_with_completions.append((item, subset, right_texts, wrong_texts))
        log_records.sources.append((item, str(data_row.get("prompt") or ""), []))
    return _study(log_records, prompts_with_completions).with_notes(
        unused_columns([name for name in frame.columns if name not in (*COLUMNS, *score_columns)], where=where),
        (
            "scored-pairs",
            len(models),
            f"{where}: {join_labels(score_columns, limit=4)} are read as scores of the right and the wrong output by "
            f"{join_labels(models, limit=4)}",
        ),
    )


def _texts(cell: Any, location: str) -> list[str]:
    """The texts of the right or of the wrong completions, from a list, JSON of a list, or one text."""
    if isinstance(cell, str):
        try:
            return TEXTS.decode(cell)
        except msgspec.MsgspecError:
            return [cell]
    return list(convert_to_layout(cell or [], list[str], where=location, what="the data of RewardBench"))


def _study(records: LogRecords, prompts: Prompts) -> Study:
    """The study of scores, texts and preferences for right completions."""
    preference_records = []
    for entry_number, (item, subset, right_texts, wrong_texts) in enumerate(prompts, start=1):
        if item in records.groups:
            raise InputError(
                f"{records.where}: prompt {item!r} occurs twice (again in entry {entry_number}); remove one"
            )
        records.groups[item] = subset
        system_names = _position_names(len(right_texts), len(wrong_texts))
        records.texts += [
            (item, system, text if isinstance(text, str) else None)
            for system, text in zip(system_names, (*right_texts, *wrong_texts), strict=True)
        ]
        preference_records += [
            (item, right_system, wrong_system)
            for right_system in system_names[: len(right_texts)]
            for wrong_system in system_names[len(right_texts) :]
        ]
    if not preference_records:
        raise InputError(
            f"{records.where}: no prompt has both a correct and an incorrect completion, so nothing can be compared"
        )
    return records.study(
        preferences=Preferences.make(
            pl.DataFrame(preference_records, schema=["item", "system_a", "system_b"], orient="row").with_columns(
                rater=pl.lit(HUMAN_RATER), preference=1
            ),
            where=records.where,
        )[0],
        sides=True,
    )


def _position_names(n_right: int, n_wrong: int) -> list[str]:
    """The names of the completions: chosen and rejected. Several right or several wrong completions are numbered:
    chosen_1, chosen_2, ..."""
    return [
        system_label if n_completions == 1 else f"{system_label}_{completion_number}"
        for system_label, n_completions in (("chosen", n_right), ("rejected", n_wrong))
        for completion_number in range(1, n_completions + 1)
    ]


def read_rewardbench(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of pairs. The item is the number of the pair, the systems are chosen and rejected, and the human rater
    `ref` prefers chosen."""
    metric_column_names = [metric_name for metric_name in frame.columns if metric_name not in ("ref", "subset")]
    check_columns(frame, where=where, required=("ref", "subset"), optional=metric_column_names)
    if not metric_column_names:
        raise InputError(
            f"{where}: the table has no column of a reward model, only ref and subset; add at least one column of a "
            "reward model"
        )
    chosen_flags, subset_labels = number_column(frame, "ref", where=where), label_column(frame, "subset", where=where)
    _check_pairs(chosen_flags, subset_labels, where=where)
    study = _study(
        LogRecords(where=where, kinds={HUMAN_RATER: "human", **dict.fromkeys(metric_column_names, "metric")}),
        [
            (str(pair_number), subset_label, [None], [None])
            for pair_number, subset_label in enumerate(subset_labels.gather_every(2), start=1)
        ],
    )
    key_rows = pl.select(
        item=pl.int_range(2, frame.height + 2) // 2,
        system=pl.when(chosen_flags == 1).then(pl.lit("chosen")).otherwise(pl.lit("rejected")),
    )
    ratings, notes = Ratings.make(
        pl.concat(
            [
                key_rows.with_columns(rater=pl.lit(metric_name), score=number_column(frame, metric_name, where=where))
                for metric_name in metric_column_names
            ]
        ),
        where=where,
    )
    return replace(study, ratings=ratings, notes=tuple(notes))


def _check_pairs(chosen_flags: pl.Series, subset_labels: pl.Series, *, where: str) -> None:
    refuse(
        ~chosen_flags.is_in([0.0, 1.0]).fill_null(False),
        lambda rows, _: f"{where}: ref in row {rows} is neither 1 (chosen) nor 0 (rejected)",
    )
    if chosen_flags.len() % 2:
        raise InputError(f"{where}: the number of rows is odd ({chosen_flags.len()}); a pair needs two rows")
    is_first_row = pl.int_range(chosen_flags.len(), eager=True) % 2 == 0
    has_no_partner = (chosen_flags == chosen_flags.shift(-1)) | (subset_labels != subset_labels.shift(-1))
    refuse(
        is_first_row & has_no_partner,
        lambda rows, _: (
            f"{where}: row {rows} and the next row are not a pair; the rows of a pair have the same subset, and ref 1 "
            f"and 0"
        ),
    )


SCORES_BY_MODEL = log_reader(
    "rewardbench2",
    what=FORMAT_NAME,
    patterns=["*.json"],
    depth=1,
    missing_contents="no .json with id, subset, model and scores",
    is_log=lambda file: any({"id", "subset", "model", key} <= top_keys(file) for key in ("scores", "scores_chosen")),
    make=read_rewardbench2,
)
PUBLISHED_DATA = TableReader(name="rewardbench2_data", columns=(COLUMNS,), make=read_rewardbench2_data)
TABLE = TableReader(
    name="rewardbench", columns=(("ref", "subset"),), make=read_rewardbench, absent=("item", "system", "rater")
)
