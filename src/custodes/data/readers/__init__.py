# ruff: noqa: I001, F401
"""Readers: one file per format, a line here for each. `custodes.data.reading` finds the right one."""

from __future__ import annotations

from typing import Any

from custodes.data.readers.plugins import plugged_readers
from custodes.data.readers.reader import PathReader, TableReader
from custodes.registry import members

from custodes.data.readers.ratings import READER as RATINGS
from custodes.data.readers.battles import READER as BATTLES
from custodes.data.readers.outputs import READER as OUTPUTS
from custodes.data.readers.interim_analyses import READER as LOOKS
from custodes.data.readers.ratings import WIDE
from custodes.data.readers.alpacaeval import READER as ALPACAEVAL
from custodes.data.readers.arena import READER as ARENA
from custodes.data.readers.arenahard import READER as ARENAHARD
from custodes.data.readers.mtbench import READER as MTBENCH
from custodes.data.readers.rewardbench import READER as REWARDBENCH
from custodes.data.readers.rewardbench2 import DATA as REWARDBENCH2_DATA
from custodes.data.readers.llmbar import READER as LLMBAR

from custodes.data.readers.annotation import READER as ANNOTATION
from custodes.data.readers.alpacaeval import RESULTS as ALPACAEVAL_RESULTS
from custodes.data.readers.inspect_ai import READER as INSPECT_AI
from custodes.data.readers.lm_eval import READER as LM_EVAL
from custodes.data.readers.helm import READER as HELM
from custodes.data.readers.every_eval_ever import READER as EVERY_EVAL_EVER
from custodes.data.readers.rewardbench2 import READER as REWARDBENCH2
from custodes.data.readers.texts_folder import READER as TEXTS_FOLDER
from custodes.data.readers.mtme import READER as MTME

TABLE_READERS = {own.name: own for own in members(globals(), TableReader)}
"""Our formats of tables by name, a line above for each; the first whose columns fit is taken (texts
before wide, which would take them for scores)."""

PATH_READERS = {own.name: own for own in members(globals(), PathReader)}
"""Our formats of folders, archives and logs by name, a line above for each; asked before those of tables."""

OURS = (*TABLE_READERS, *PATH_READERS)

READERS: tuple[str, ...]
"""The names that `reader=` takes: ours, and those of other packages, which are looked for on the first use."""


def __getattr__(name: str) -> Any:
    if name == "READERS":
        return (*OURS, *plugged_readers(OURS))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
