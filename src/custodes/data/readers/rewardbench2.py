"""Scores of RewardBench 2, and of RewardBench as it publishes them: one file a model, or a folder of models.

Layout: an object of lists, one entry a prompt, as in the files `eval-set-scores/MODEL.json` that
github.com/allenai/reward-bench writes: `scripts/run_v2.py` (`scores`, the right completions first, `num_correct`) and
`scripts/run_rm.py` (`scores_chosen`, `scores_rejected`). The data themselves: the card of allenai/reward-bench-2 on the
Hugging Face Hub, where `chosen` and `rejected` are lists, and of allenai/reward-bench, where they are texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import polars as pl

from custodes.data.preferences import Preferences
from custodes.data.readers.logs import Label, LogRecords, label, log_reader, nested, number, parsed, top_keys
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study, join
from custodes.data.table import check_columns, label_column
from custodes.errors import InputError, listed
from custodes.sealed import layout

WHAT = "scores of RewardBench"
DATA_WHAT = "the data of RewardBench"
COLUMNS = ("id", "subset", "prompt", "chosen", "rejected")
PERSON = "ref"


@layout
class _Scores(msgspec.Struct):
    id: list[Label]
    subset: list[str]
    model: str
    scores: list[list[Any]] | None = None
    num_correct: list[int] | None = None
    text: list[list[Any]] | None = None
    scores_chosen: list[Any] | None = None
    scores_rejected: list[Any] | None = None
    text_chosen: list[Any] | None = None
    text_rejected: list[Any] | None = None


def read_rewardbench2(files: Sequence[Path], *, where: str, invalid: Invalid) -> Study:
    """A study of prompts: item = subset/id, group = subset, rater = the reward model, the human rater is `ref`.

    Systems are the places of the completions (chosen, rejected_1, rejected_2, rejected_3; in subsets with several right
    ones chosen_1, chosen_2, ...). `ref` prefers every right one to every wrong one, and has no preference between two
    right or two wrong ones.
    """
    return replace(join([_read(file) for file in files]), name=where)


def _read(path: Path) -> Study:
    records = _PairRecords(where=path.name)
    table = parsed(records.load(path, path.name), _Scores, where=path.name, what=WHAT)
    for number_of_entry, (item, subset, right, wrong, texts) in enumerate(_prompts(table, path.name), start=1):
        names = records.prompt(item, subset, len(right), texts, number_of_entry)
        for name, value in zip(names, [*right, *wrong], strict=True):
            # Models with a head of their own give a list of one.
            value = value[0] if isinstance(value, list) and len(value) == 1 else value
            score = number(value)
            if score is None and value is not None:
                raise InputError(f"{path.name}: entry {number_of_entry}: score {str(value)[:40]!r} is no number")
            records.score(item, name, table.model, score)
    if table.model == PERSON:
        raise InputError(f"{path.name}: the model is called {PERSON!r}, which is the human rater here; rename it")
    return records.study_of_pairs()


def read_rewardbench2_data(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of preferences and texts, to be joined to scores with the labels of `read_rewardbench2`."""
    check_columns(frame, where=where, required=COLUMNS, optional=frame.columns)
    ids, subsets = (label_column(frame, name, where=where) for name in ("id", "subset"))
    records = _PairRecords(where=where)
    for number_of_row, (row, name, subset) in enumerate(zip(frame.iter_rows(named=True), ids, subsets, strict=True), 1):
        right, wrong = (_texts(row[side], f"{where}, row {number_of_row}") for side in ("chosen", "rejected"))
        item = f"{subset}/{name}"
        records.prompt(item, subset, len(right), [*right, *wrong], number_of_row)
        records.source(item, str(row["prompt"] or ""))
    return records.study_of_pairs()


def _texts(cell: Any, place: str) -> list[str]:
    """The texts of a side: a list, its JSON, or one text."""
    try:
        return cast(list[str], nested(cell, list[str], place, DATA_WHAT))
    except InputError:
        if isinstance(cell, str):
            return [cell]
        raise


@dataclass(kw_only=True)
class _PairRecords(LogRecords):
    """Records of prompts with right and wrong completions; `pairs`: item, right and wrong system."""

    pairs: list[tuple[str, str, str]] = field(default_factory=list)

    def prompt(self, item: str, subset: str, n_right: int, texts: Sequence[Any], place: int) -> list[str]:
        """Add one prompt, its right texts first, and return the systems of its texts."""
        if item in self.groups:
            raise InputError(f"{self.where}: prompt {item!r} stands twice (the second is entry {place})")
        self.groups[item] = subset
        right, wrong = _numbered("chosen", n_right), _numbered("rejected", len(texts) - n_right)
        for name, text in zip([*right, *wrong], texts, strict=True):
            self.text(item, name, text if isinstance(text, str) else None)
        self.pairs += [(item, good, bad) for good in right for bad in wrong]
        return [*right, *wrong]

    def study_of_pairs(self) -> Study:
        """The study of scores and of the preferences for right completions."""
        if not self.pairs:
            raise InputError(f"{self.where}: no prompt with a right and a wrong completion; there is nothing to judge")
        self.kinds = {PERSON: "human", **self.kinds}
        pairs = pl.DataFrame(self.pairs, schema=["item", "system_a", "system_b"], orient="row")
        preferences, _ = Preferences.make(pairs.with_columns(rater=pl.lit(PERSON), preference=1), where=self.where)
        return self.study(preferences=preferences, sides=True)


def _prompts(table: _Scores, where: str) -> Iterator[tuple[str, str, list[Any], list[Any], list[Any]]]:
    """Item, subset, scores of right and of wrong completions, and the texts of all."""
    columns: list[list[Any]]
    if table.scores is not None and table.num_correct is not None:
        texts = table.text if table.text is not None else [[None] * len(row) for row in table.scores]
        columns = [table.id, table.subset, table.scores, table.num_correct, texts]
    elif table.scores_chosen is not None and table.scores_rejected is not None:
        unknown: list[Any] = [None] * len(table.id)
        shown_texts = (unknown if own is None else own for own in (table.text_chosen, table.text_rejected))
        columns = [table.id, table.subset, table.scores_chosen, table.scores_rejected, *shown_texts]
    else:
        raise InputError(
            f"{where}: not the layout of {WHAT}: neither scores and num_correct (RewardBench 2) nor scores_chosen and"
            " scores_rejected (RewardBench)"
        )
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise InputError(
            f"{where}: its lists have {listed(sorted(lengths))} entries; each needs one a prompt; is the file whole?"
        )
    rows = list(zip(*columns, strict=True))
    if len(columns) > 5:
        rows = [(name, subset, [good, bad], 1, texts) for name, subset, good, bad, *texts in rows]
    for place, (name, subset, scores, correct, prompt_texts) in enumerate(rows, start=1):
        if not 0 <= correct <= len(scores) or len(prompt_texts) != len(scores):
            raise InputError(
                f"{where}: entry {place} has {len(scores)} scores, {len(prompt_texts)} texts and num_correct {correct}"
            )
        yield f"{subset.strip()}/{label(name)}", subset.strip(), scores[:correct], scores[correct:], prompt_texts


def _numbered(side: str, count: int) -> list[str]:
    """chosen, or chosen_1, chosen_2, ... where there are several."""
    return [side] if count == 1 else [f"{side}_{place}" for place in range(1, count + 1)]


def _is_scores(path: Path) -> bool:
    keys = top_keys(path)
    return {"id", "subset", "model"} <= keys and bool({"scores", "scores_chosen"} & keys)


READER = log_reader(
    "rewardbench2",
    what=WHAT,
    patterns=["*.json", "*/*.json"],
    contents="no .json with id, subset, model and scores",
    is_log=_is_scores,
    make=read_rewardbench2,
)
DATA = TableReader(name="rewardbench2_data", columns=(COLUMNS,), make=read_rewardbench2_data)
