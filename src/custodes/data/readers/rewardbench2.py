"""Scores of RewardBench 2, and of RewardBench as it publishes them: one file a model, or a folder of models.

Layout: an object of lists, one entry a prompt, as in the files `eval-set-scores/MODEL.json` that
github.com/allenai/reward-bench writes: `scripts/run_v2.py` (`scores`, the right completions first, `num_correct`) and
`scripts/run_rm.py` (`scores_chosen`, `scores_rejected`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from custodes.data.preferences import Preferences
from custodes.data.readers.nested import Found, Label, digest, label, log_bytes, number, parsed, top_keys
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.study import Study, join
from custodes.errors import InputError, listed

WHAT = "scores of RewardBench"
PERSON = "ref"


class _Scores(msgspec.Struct):
    id: list[Label]
    subset: list[str]
    model: str
    scores: list[list[Any]] | None = None
    num_correct: list[int] | None = None
    text: list[list[Any]] | None = None
    scores_chosen: list[Any] | None = None
    scores_rejected: list[Any] | None = None


def read_rewardbench2(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """A study of prompts: item = subset/id, group = subset, rater = the reward model, the person is `ref`.

    Systems are the places of the completions (chosen, rejected_1, rejected_2, rejected_3; in subsets with several right
    ones chosen_1, chosen_2, ...). The person prefers every right one to every wrong one, and says nothing of two right
    or two wrong ones.
    """
    where = path.resolve().name
    if part is not None:
        raise InputError(f"{where}: {WHAT} have no parts, but ::{part} came; give the path alone")
    if path.is_dir():
        files = list(_files_of(path))
        if not files:
            raise InputError(f"{where}: no {WHAT} in it: no .json with id, subset, model and scores")
        return replace(join([_read(file) for file in files]), name=where)
    return _read(path)


def _read(path: Path) -> Study:
    where = path.name
    data = log_bytes(path)
    table = parsed(data, _Scores, where=where, what=WHAT)
    found = Found(where=where)
    verdicts = []
    for place, (item, subset, right, wrong, texts) in enumerate(_prompts(table, where), start=1):
        if item in found.groups:
            raise InputError(f"{where}: prompt {item!r} stands twice (the second is entry {place})")
        found.groups[item] = subset
        names = [*_numbered("chosen", len(right)), *_numbered("rejected", len(wrong))]
        for name, value, text in zip(names, [*right, *wrong], texts, strict=True):
            found.score(item, name, table.model, _score(value, f"{where}: entry {place}"))
            found.text(item, name, text if isinstance(text, str) else None)
        verdicts += [(item, good, bad) for good in names[: len(right)] for bad in names[len(right) :]]
    if table.model == PERSON:
        raise InputError(f"{where}: the model is called {PERSON!r}, which is the person here; rename it")
    if not verdicts:
        raise InputError(f"{where}: no prompt with a right and a wrong completion; there is nothing to judge")
    found.kinds = {PERSON: "human", **found.kinds}
    pairs = pl.DataFrame(verdicts, schema=["item", "system_a", "system_b"], orient="row")
    preferences, _ = Preferences.make(pairs.with_columns(rater=pl.lit(PERSON), preference=1), where=where)
    return found.study(digest=digest([(where, data)]), preferences=preferences, sides=True)


def _prompts(table: _Scores, where: str) -> Iterator[tuple[str, str, list[Any], list[Any], list[Any]]]:
    """Item, subset, scores of right and of wrong completions, and the texts of all."""
    columns: list[list[Any]]
    if table.scores is not None and table.num_correct is not None:
        texts = table.text if table.text is not None else [[None] * len(row) for row in table.scores]
        columns = [table.id, table.subset, table.scores, table.num_correct, texts]
    elif table.scores_chosen is not None and table.scores_rejected is not None:
        columns = [table.id, table.subset, table.scores_chosen, table.scores_rejected]
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
    if len(columns) == 4:
        rows = [(name, subset, [good, bad], 1, [None, None]) for name, subset, good, bad in rows]
    for place, (name, subset, scores, correct, shown) in enumerate(rows, start=1):
        if not 0 <= correct <= len(scores) or len(shown) != len(scores):
            raise InputError(
                f"{where}: entry {place} has {len(scores)} scores, {len(shown)} texts and num_correct {correct}"
            )
        yield f"{subset.strip()}/{label(name)}", subset.strip(), scores[:correct], scores[correct:], shown


def _score(value: Any, where: str) -> float | None:
    """A score, which models with a head of their own give as a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    given = number(value)
    if given is None and value is not None:
        raise InputError(f"{where}: score {str(value)[:40]!r} is no number")
    return given


def _numbered(side: str, count: int) -> list[str]:
    """chosen, or chosen_1, chosen_2, ... where there are several."""
    return [side] if count == 1 else [f"{side}_{place}" for place in range(1, count + 1)]


def _files_of(folder: Path) -> Iterator[Path]:
    for depth in ("*", "*/*"):
        yield from (file for file in sorted(folder.glob(f"{depth}.json")) if _is_scores(file))


def _fits(path: Path) -> bool:
    return next(_files_of(path), None) is not None if path.is_dir() else _is_scores(path)


def _is_scores(path: Path) -> bool:
    keys = top_keys(path)
    return {"id", "subset", "model"} <= keys and bool({"scores", "scores_chosen"} & keys)


READER = PathReader(name="rewardbench2", fits=_fits, make=read_rewardbench2)
